//! A client of a cluster.

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

/// How a client behaves.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// How long an operation is tried; each may say otherwise. 10 s by default.
    pub deadline: Duration,
    /// How long the first answer of the cluster is awaited, when connecting. 10 s by default.
    pub connect_deadline: Duration,
    /// Which manager control requests go to, `host:port`. By default to whichever is up.
    pub manager: Option<String>,
    /// Whether operations wait for others, to travel together. By default as the keyspace is configured.
    pub collecting: Coalescing,
    /// Bodies of at least so many bytes are compressed, if the server agrees. By default none are.
    pub compress_from_bytes: Option<usize>,
    /// What the client calls itself in the servers' logs.
    pub name: String,
    /// The cluster's secret, which client and servers prove to each other that they know. None by default; then no server
    /// is asked for a proof.
    pub secret: Option<Secret>,
    /// A token of the cluster, for a client that is not to know its secret. It goes before the secret. None by default.
    pub token: Option<auth::Token>,
    /// The CAs of which the servers' certificates must be, for TLS on every connection. None by default; then what is said is
    /// not encrypted.
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

/// A client of a cluster: a handle to the task that drives its connections. Clones share it; the task ends once all
/// are gone and every operation has ended.
#[derive(Clone, Debug)]
pub struct Client {
    shared: Arc<ClientShared>,
}

#[derive(Debug)]
struct ClientShared {
    commands: mpsc::UnboundedSender<DriverCommand>,
    options: ClientOptions,
    /// The newest map that a manager has told of: what this client has had done is in it.
    newest: AtomicU64,
}

impl Client {
    /// A client of the cluster of which a manager or instance listens at `endpoint`, `host:port`. It runs on the
    /// present runtime, which needs I/O and time enabled. Errors: the endpoint is no address, nobody answers there
    /// within the options' `connect_deadline`, or does not talk to this client, as for want of the cluster's secret.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn connect(endpoint: &str) -> Result<Self, Error> {
        Self::connect_with(&[endpoint], ClientOptions::default()).await
    }

    /// As [`Client::connect`], with several endpoints of the same cluster, tried in turn.
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
        // The keyspace that exists from the start: its being found says that the map is there.
        let limit_us = micros(client.options().connect_deadline);
        match client.ask(SessionRequest::keyspace("default", MapEpoch(0), limit_us)).await {
            // Without a map, as of a node that has not joined, nothing can be asked.
            Err(Error::Operation { reason, .. }) if !matches!(&*reason, Reason::NoKeyspace { epoch, .. } if *epoch > MapEpoch(0)) => {
                Err(Error::Operation { key: None, reason })
            }
            _ => Ok(client),
        }
    }

    /// A keyspace by its name. Errors: the newest map has none of this name.
    pub async fn keyspace(&self, name: &str) -> Result<Keyspace, Error> {
        let least = MapEpoch(self.shared.newest.load(Ordering::Acquire));
        match self.ask(SessionRequest::keyspace(name, least, self.limit_us())).await? {
            Reply::Keyspace(found) => Ok(Keyspace::new(self.clone(), *found)),
            _ => Err(Error::Unexpected),
        }
    }

    /// Sends a control request to a manager: Protocol Buffers both ways.
    pub async fn admin(&self, encoded: Bytes) -> Result<Bytes, Error> {
        self.admin_within(encoded, self.limit_us()).await
    }

    pub(crate) async fn admin_within(&self, encoded: Bytes, limit_us: u64) -> Result<Bytes, Error> {
        match self.ask(SessionRequest::admin(encoded, limit_us)).await? {
            Reply::Admin(encoded) => {
                let epoch = AdminAnswer::from_bytes(&encoded).map_or(0, |answer| answer.map_epoch);
                self.shared.newest.fetch_max(epoch, Ordering::AcqRel);
                Ok(encoded)
            }
            _ => Err(Error::Unexpected),
        }
    }

    /// How it behaves.
    #[must_use]
    pub fn options(&self) -> &ClientOptions {
        &self.shared.options
    }

    pub(crate) fn limit_us(&self) -> u64 {
        micros(self.shared.options.deadline)
    }

    pub(crate) fn submit(&self, request: SessionRequest) -> oneshot::Receiver<Result<Reply, Reason>> {
        let (token, result) = oneshot::channel();
        // A driver that is gone drops the token, and so ends the operation.
        let _ = self.shared.commands.send(DriverCommand::One(request, token));
        result
    }

    pub(crate) fn submit_all(&self, requests: Vec<(SessionRequest, Token)>) {
        let _ = self.shared.commands.send(DriverCommand::Many(requests));
    }

    /// Sends several, of which nobody waits for one before the others. What is no request ends as that.
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
        // A driver that is gone has dropped it.
        results.await.unwrap_or_else(|_| (0..count).map(|_| Err(Reason::Closed)).collect())
    }

    pub(crate) async fn ask(&self, request: SessionRequest) -> Result<Reply, Error> {
        self.submit(request).await.unwrap_or(Err(Reason::Closed)).map_err(Error::general)
    }
}

pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Another number for every client, so that clients that lost one server do not come back together.
pub(crate) fn seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    #[expect(clippy::disallowed_methods, reason = "the shell is where randomness comes from")]
    let state = std::hash::RandomState::new();
    state.build_hasher().finish()
}
