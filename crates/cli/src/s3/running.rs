//! A gateway in this process, by `zerohop s3` or beside the nodes of `zerohop up`.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use zerohop_client::{Client, Secret};
use zerohop_object_client::ClusterStore;
use zerohop_s3::{ClusterUsers, FixedUsers, GatewayOptions, S3Gateway, Users};
use zerohop_tls::ServerTls;

use super::keyspaces;
use crate::common::ending::CommandError;

/// The name of a gateway in the logs of nodes.
pub(crate) const CLIENT_NAME: &str = "zerohop-s3";

/// The secret access key for every access key id, in a cluster without a secret.
const OPEN_SECRET: &str = "zerohop";

/// What a gateway is started with.
pub(crate) struct GatewaySettings {
    /// The keyspace of the names.
    pub(crate) keyspace: String,
    pub(crate) region: String,
    pub(crate) domains: Vec<String>,
    /// The secret of the cluster.
    pub(crate) secret: Option<Secret>,
    /// The certificate for clients of S3.
    pub(crate) tls: Option<ServerTls>,
    /// Whether browsers get a page of a public bucket.
    pub(crate) browse: bool,
}

/// A port that is taken.
struct BoundListener {
    listener: TcpListener,
    at: SocketAddr,
}

/// The ports of a gateway, which are taken before anything else starts.
pub(crate) struct BoundListeners {
    clients: BoundListener,
    metrics: Option<BoundListener>,
}

impl BoundListeners {
    /// Listens at the addresses for clients and for monitoring programs.
    pub(crate) async fn bind(clients: SocketAddr, metrics: Option<SocketAddr>) -> Result<Self, CommandError> {
        let clients = BoundListener::bind(clients).await?;
        let metrics = match metrics {
            Some(at) => Some(BoundListener::bind(at).await?),
            None => None,
        };
        Ok(Self { clients, metrics })
    }
}

impl BoundListener {
    async fn bind(at: SocketAddr) -> Result<Self, CommandError> {
        let refused = |error| CommandError::system("listening", Path::new(&at.to_string()), &error);
        let listener = TcpListener::bind(at).await.map_err(refused)?;
        let at = listener.local_addr().map_err(refused)?;
        Ok(Self { listener, at })
    }
}

/// A gateway that serves.
pub(crate) struct RunningGateway {
    pub(crate) listen: SocketAddr,
    /// The address for monitoring programs.
    pub(crate) metrics: Option<SocketAddr>,
    has_secret: bool,
    has_tls: bool,
    stop: Option<oneshot::Sender<()>>,
    serving: JoinHandle<()>,
    sweep: JoinHandle<()>,
    monitor: Option<JoinHandle<()>>,
}

impl RunningGateway {
    /// Opens or creates the keyspaces, and serves. Users are the tokens of a cluster with a secret. Without one, every client is a user.
    pub(crate) async fn start(
        listening: BoundListeners,
        client: Client,
        settings: GatewaySettings,
    ) -> Result<Self, CommandError> {
        let GatewaySettings { keyspace, region, domains, secret, tls, browse } = settings;
        let (names, bodies) = keyspaces::open(&client, &keyspace).await?;
        let (has_secret, has_tls) = (secret.is_some(), tls.is_some());
        let users: Arc<dyn Users> = match secret.clone() {
            Some(secret) => {
                let grants = keyspaces::grants_of(&keyspace);
                Arc::new(ClusterUsers::new(client.clone(), secret, keyspace, grants))
            }
            None => Arc::new(FixedUsers { access_key: None, secret: OPEN_SECRET.to_owned() }),
        };
        let mut options = GatewayOptions::new(users);
        (options.region, options.domains, options.tls, options.browse) = (region, domains, tls, browse);
        let gateway = S3Gateway::new(Arc::new(ClusterStore::new(&client, names, bodies)), options)
            .map_err(|why| CommandError::Usage(format!("the domain of S3: {why}")))?;
        let (stop, stopped) = oneshot::channel::<()>();
        let sweep = tokio::spawn(gateway.clone().sweep());
        let BoundListeners { clients, metrics } = listening;
        let (metrics, monitor) = match metrics {
            Some(BoundListener { listener, at }) => {
                (Some(at), Some(tokio::spawn(gateway.monitor(secret).serve(listener))))
            }
            None => (None, None),
        };
        let serving = tokio::spawn(gateway.serve(clients.listener, async { drop(stopped.await) }));
        let (listen, stop) = (clients.at, Some(stop));
        Ok(Self { listen, metrics, has_secret, has_tls, stop, serving, sweep, monitor })
    }

    /// Waits until the gateway has ended without a request to do so.
    pub(crate) async fn ended(&mut self) {
        drop((&mut self.serving).await);
    }

    /// Ends it behind the requests that it answers.
    pub(crate) async fn stop(&mut self) {
        self.sweep.abort();
        self.stop = None;
        drop((&mut self.serving).await);
        // Until here, /health says that the gateway stops.
        if let Some(monitor) = &self.monitor {
            monitor.abort();
        }
    }

    /// Where clients of S3 find it.
    pub(crate) fn url(&self) -> String {
        format!("{}://{}", self.scheme(), self.listen)
    }

    /// Where monitoring programs find its metrics.
    pub(crate) fn metrics_url(&self) -> Option<String> {
        Some(format!("{}://{}/metrics", self.scheme(), self.metrics?))
    }

    fn scheme(&self) -> &'static str {
        if self.has_tls { "https" } else { "http" }
    }

    /// Where access keys come from.
    pub(crate) fn keys_hint(&self) -> String {
        match self.has_secret {
            true => "`zerohop token new NAME --s3` prints access keys.".to_owned(),
            false => format!("The access key id may be any, and the secret access key is {OPEN_SECRET}."),
        }
    }
}
