//! The client of a cluster.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};
use zerohop_placement::Address;
use zerohop_session::{Coalescing, Reply, SessionError as Reason, SessionRequest, SessionSettings};
use zerohop_tls::ClientTls;
use zerohop_wire::Failure;
use zerohop_wire::admin::AdminAnswer;
use zerohop_wire::auth::{self, Credential, Secret};
use zerohop_wire::ids::MapEpoch;

use crate::driver::{Driver, DriverCommand, Token};
use crate::error::Error;
use crate::keyspace::Keyspace;
use crate::secret::nonces;

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
/// operation has ended.
#[derive(Clone, Debug)]
pub struct Client {
    shared: Arc<ClientShared>,
}

#[derive(Debug)]
struct ClientShared {
    commands: mpsc::UnboundedSender<DriverCommand>,
    options: ClientOptions,
    /// The newest epoch of the map that a manager has reported. Changes that this client has requested are in the map of that epoch.
    newest: AtomicU64,
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
        let client = Self { shared: Arc::new(ClientShared { commands, options, newest: AtomicU64::new(0) }) };
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

    /// Opens a keyspace by its name. Errors: the newest map has no keyspace of this name.
    pub async fn keyspace(&self, name: &str) -> Result<Keyspace, Error> {
        let least = MapEpoch(self.shared.newest.load(Ordering::Acquire));
        match self.send_request(SessionRequest::keyspace(name, least, self.limit_us())).await? {
            Reply::Keyspace(found) => Ok(Keyspace::new(self.clone(), *found)),
            _ => Err(Error::Unexpected),
        }
    }

    /// Sends a control request to a manager. Request and reply are encoded as Protocol Buffers.
    pub async fn admin(&self, encoded: Bytes) -> Result<Bytes, Error> {
        self.admin_within(encoded, self.limit_us()).await
    }

    pub(crate) async fn admin_within(&self, encoded: Bytes, limit_us: u64) -> Result<Bytes, Error> {
        match self.send_request(SessionRequest::admin(encoded, limit_us)).await? {
            Reply::Admin(encoded) => {
                let epoch = AdminAnswer::from_bytes(&encoded).map_or(0, |answer| answer.map_epoch);
                self.shared.newest.fetch_max(epoch, Ordering::AcqRel);
                Ok(encoded)
            }
            _ => Err(Error::Unexpected),
        }
    }

    /// The client's options.
    #[must_use]
    pub fn options(&self) -> &ClientOptions {
        &self.shared.options
    }

    pub(crate) fn limit_us(&self) -> u64 {
        micros(self.shared.options.deadline)
    }

    pub(crate) fn submit(&self, request: SessionRequest) -> oneshot::Receiver<Result<Reply, Reason>> {
        let (token, result) = oneshot::channel();
        // If the driver has ended, it drops the token, and the operation ends with an error.
        let _ = self.shared.commands.send(DriverCommand::One(request, token));
        result
    }

    pub(crate) fn submit_all(&self, requests: Vec<(SessionRequest, Token)>) {
        let _ = self.shared.commands.send(DriverCommand::Many(requests));
    }

    /// Submits several operations; the caller receives all results together. An operation that is not a valid request gets its failure as result.
    pub(crate) async fn submit_batch(
        &self,
        requests: Vec<Result<SessionRequest, Failure<'static>>>,
    ) -> Vec<Result<Reply, Reason>> {
        let count = requests.len();
        if count == 0 {
            return Vec::new();
        }
        let (whole, results) = oneshot::channel();
        let _ = self.shared.commands.send(DriverCommand::Batch(requests, whole));
        // The driver has ended and has dropped the sender.
        results.await.unwrap_or_else(|_| (0..count).map(|_| Err(Reason::Closed)).collect())
    }

    pub(crate) async fn send_request(&self, request: SessionRequest) -> Result<Reply, Error> {
        self.submit(request).await.unwrap_or(Err(Reason::Closed)).map_err(Error::general)
    }
}

pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// A different seed for every client, so that clients that lost one server do not all reconnect at the same time.
pub(crate) fn seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    #[expect(clippy::disallowed_methods, reason = "the shell is where randomness comes from")]
    let state = std::hash::RandomState::new();
    state.build_hasher().finish()
}
