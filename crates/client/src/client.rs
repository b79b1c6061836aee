//! The client of a cluster.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use zerohop_placement::Address;
use zerohop_session::procedures::{BlobLimits, ClusterHandle, Error, ProcedureSettings};
use zerohop_session::{Coalescing, SessionError as Reason, SessionRequest, SessionSettings};
use zerohop_tls::ClientTls;
use zerohop_wire::auth::{self, Credential, Secret};
use zerohop_wire::ids::MapEpoch;

use crate::driver::Driver;
use crate::secret::nonces;
use crate::shell::{DriverShell, seed};

/// Options of a client.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// Time limit of each operation; an operation may set its own. Default: 10 s.
    pub deadline: Duration,
    /// Time limit for the cluster's first reply while the client connects. Default: 10 s.
    pub connect_deadline: Duration,
    /// Address of the manager that receives control requests, `host:port`. Default: any manager that is up.
    pub manager: Option<String>,
    /// Whether operations wait a short time for others, so that they share a frame. Default: the keyspace's setting.
    pub collecting: Coalescing,
    /// Bodies of at least this many bytes are compressed if the server agrees. Default: no compression.
    pub compress_from_bytes: Option<usize>,
    /// Name of the client in the servers' logs.
    pub name: String,
    /// The cluster's secret. Client and servers prove to each other that they know it. Default: none; the client then requires no proof from a
    /// server.
    pub secret: Option<Secret>,
    /// A token of the cluster, for a client that must not know the cluster's secret. If both are set, the client uses the token. Default: none.
    pub token: Option<auth::Token>,
    /// The CAs that must have issued the servers' certificates; setting them enables TLS on every connection. Default: none, and the traffic is not
    /// encrypted.
    pub tls: Option<ClientTls>,
}

impl Default for ClientOptions {
    fn default() -> Self {
        let deadline = Duration::from_secs(10);
        let name = "zerohop-client".to_owned();
        Self {
            deadline,
            connect_deadline: deadline,
            manager: None,
            collecting: Coalescing::AsKeyspace,
            compress_from_bytes: None,
            name,
            secret: None,
            token: None,
            tls: None,
        }
    }
}

/// A client of a cluster: a handle to the task that drives its connections. Clones share the task. It ends when all handles are dropped and every
/// operation has ended. The procedures are those of [`ClusterHandle`].
#[derive(Clone, Debug)]
pub struct Client {
    handle: ClusterHandle,
    options: Arc<ClientOptions>,
}

impl Deref for Client {
    type Target = ClusterHandle;

    fn deref(&self) -> &ClusterHandle {
        &self.handle
    }
}

impl Client {
    /// Connects to the cluster of the manager or instance that listens at `endpoint`, in the form `host:port`. The client runs on the current
    /// runtime, which must have I/O and time enabled.
    ///
    /// Errors: `endpoint` is not an address, no server replies within the `connect_deadline` of the options, or the server refuses this client, for
    /// example because the client has no secret.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn connect(endpoint: &str) -> Result<Self, Error> {
        Self::connect_with(&[endpoint], ClientOptions::default()).await
    }

    /// Same as [`Client::connect`], with several endpoints of the same cluster, which the client tries in turn.
    pub async fn connect_with(endpoints: &[&str], options: ClientOptions) -> Result<Self, Error> {
        let address =
            |text: &&str| Address::new(text).map_err(|why| Error::Endpoint { why: why.to_string().into() });
        let endpoints = endpoints.iter().map(address).collect::<Result<Vec<Address>, Error>>()?;
        if endpoints.is_empty() {
            return Err(Error::Endpoint { why: "no endpoint is given: name a manager or instance".into() });
        }
        let mut settings = SessionSettings::new(&endpoints, seed());
        settings.compress_from_bytes = options.compress_from_bytes;
        settings.name.clone_from(&options.name);
        settings.manager = options.manager.as_deref().map(|manager| address(&manager)).transpose()?;
        let nonces = || nonces().map_err(|error| Error::Runtime { why: error.to_string().into() });
        settings.credential = match (&options.token, &options.secret) {
            (Some(token), _) => Some(Credential::of_token(token, nonces()?)),
            (None, Some(secret)) => Some(Credential::of_secret(secret, nonces()?)),
            (None, None) => None,
        };
        let (commands, received) = mpsc::unbounded_channel();
        tokio::spawn(Driver::new(settings, options.tls.clone(), received));
        let settings = ProcedureSettings {
            deadline: options.deadline,
            collecting: options.collecting,
            blobs: BlobLimits::default(),
        };
        let handle = ClusterHandle::new(Box::new(DriverShell::new(commands)), settings);
        let client = Self { handle, options: Arc::new(options) };
        // This keyspace always exists: when the client finds it, the client has a map.
        let limit_us = micros(client.options().connect_deadline);
        match client.send_request(SessionRequest::keyspace("default", MapEpoch(0), limit_us)).await {
            // Without a map, for example from a node that has not joined a cluster, the client cannot send any request.
            Err(Error::Operation { reason, .. }) if !matches!(&*reason, Reason::NoKeyspace { epoch, .. } if *epoch > MapEpoch(0)) => {
                Err(Error::Operation { key: None, reason })
            }
            _ => Ok(client),
        }
    }

    /// The client's options.
    #[must_use]
    pub fn options(&self) -> &ClientOptions {
        &self.options
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
