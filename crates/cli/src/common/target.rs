//! The cluster that a command talks to, and the time limits.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use clap::Args;
use clap::builder::OsStringValueParser;
use tokio::net::TcpStream;
use tokio::time::timeout;
use zerohop_client::{
    Client, ClientOptions, ClientTls, Keyspace, Reason, Secret, no_address, read_token, until_none_listens,
};
use zerohop_tls::ServerTls;
use zerohop_wire::ids::MapEpoch;

use super::ending::CommandError;
use super::endpoint::{self, Endpoints};
use super::other_nodes::{DATA_DEFAULT, OtherNodes};
use super::restarting::restarting_node;
use super::secret::SecretPlace;
use super::tls::ClusterTls;
use super::{admin, http, other_nodes, quantity};
use crate::output;

/// How long a cluster may take to answer at all. Shorter than the limit of an operation, so that an
/// unreachable cluster is reported soon.
const CONNECT_MAX: Duration = Duration::from_secs(2);

/// How long a connection may take that only shows whether a process listens.
const PROBE_MAX: Duration = Duration::from_secs(1);

/// The notice that another node is asked, which a command prints once.
static NOTICE: Once = Once::new();

#[derive(Args, Clone, Debug)]
pub(crate) struct ClusterTarget {
    /// The address of any manager or instance of the cluster. Several addresses of one cluster are separated by commas
    /// and tried in turn. The default port is 7400 [default: 127.0.0.1:7400].
    #[arg(long, env = "ZEROHOP_ENDPOINT", value_name = "HOST:PORT", value_parser = Endpoints::read)]
    endpoint: Vec<Endpoints>,
    #[command(flatten)]
    secret: SecretPlace,
    #[command(flatten)]
    tls: ClusterTls,
    /// The file with a token, for clients without the secret. A token takes precedence over the secret.
    #[arg(long, env = "ZEROHOP_TOKEN_FILE", value_name = "PATH", value_parser = OsStringValueParser::new())]
    token_file: Option<OsString>,
    /// The time limit of an operation, as in 10s, 500ms or 2m; more than 0.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = quantity::duration_above_zero)]
    timeout: Duration,
}

impl ClusterTarget {
    /// Connects. Without an answer it fails after two seconds, or after the time-out if that is
    /// shorter; at once, if no process listens at any of the endpoints.
    pub(crate) async fn connect(&self) -> Result<Client, CommandError> {
        self.connect_with(|_| {}).await
    }

    /// Connects to one manager of the cluster, to which all control requests go.
    pub(crate) async fn connect_at(&self, manager: &str) -> Result<Client, CommandError> {
        let target = ClusterTarget { endpoint: vec![Endpoints::one(manager)], ..self.clone() };
        target.connect_with(|options| options.manager = Some(manager.to_owned())).await
    }

    /// Connects with the caller's options.
    pub(crate) async fn connect_with(
        &self,
        change: impl FnOnce(&mut ClientOptions),
    ) -> Result<Client, CommandError> {
        let token = self.token_file.as_ref().filter(|path| !path.is_empty());
        let token =
            token.map(|path| read_token(Path::new(path)).map_err(CommandError::Secret)).transpose()?;
        let mut options = ClientOptions {
            deadline: self.timeout,
            connect_deadline: self.timeout.min(CONNECT_MAX),
            name: "zerohop-cli".to_owned(),
            secret: if token.is_some() { None } else { self.secret.read()? },
            token,
            tls: self.tls.read()?,
            ..ClientOptions::default()
        };
        change(&mut options);
        match self.connect_to_named(options.clone()).await {
            Err(error) if error.is_unanswered() && options.manager.is_none() => {
                self.connect_to_others(options).await.ok_or_else(|| self.restarting(error))
            }
            connected => connected,
        }
    }

    /// Connects to another node of the cluster in `zerohop-data`, if a node of it has served one of the endpoints.
    async fn connect_to_others(&self, options: ClientOptions) -> Option<Client> {
        let OtherNodes { cluster, addresses } =
            other_nodes::of_folder(Path::new(DATA_DEFAULT), &self.endpoints())?;
        let notice = format!(
            "zerohop: {} does not answer; another node of the cluster in {DATA_DEFAULT} is asked: {}",
            self.endpoints().join(", "),
            addresses.join(", ")
        );
        let target = ClusterTarget { endpoint: vec![Endpoints::several(addresses)], ..self.clone() };
        let client = target.connect_to_named(options).await.ok()?;
        // Another cluster may listen there meanwhile.
        let status = timeout(CONNECT_MAX, admin::status(&client)).await.ok()?.ok()?;
        if status.cluster != cluster.0 {
            return None;
        }
        NOTICE.call_once(|| output::problem(&notice));
        Some(client)
    }

    /// The error of a node that does not answer, with the reason if `zerohop up` is about to start it again.
    fn restarting(&self, error: CommandError) -> CommandError {
        match restarting_node(Path::new(DATA_DEFAULT), &self.endpoints()) {
            Some(node) => CommandError::Restarting { node, error: Box::new(error) },
            None => error,
        }
    }

    /// Connects to the named endpoints, or the default one.
    async fn connect_to_named(&self, options: ClientOptions) -> Result<Client, CommandError> {
        let endpoints = self.endpoints();
        let looked_up = AtomicUsize::new(0);
        let connected = tokio::select! {
            connected = Client::connect_with(&endpoints, options) => connected,
            why = until_none_listens(&endpoints, &looked_up) => return Err(CommandError::NoCluster(why)),
        };
        let place = looked_up.load(Ordering::Relaxed).checked_sub(1);
        match (connected, place.and_then(|place| endpoints.get(place))) {
            (Err(error), _) if is_of_no_cluster(&error) => Err(self.of_no_cluster(error).await),
            (Err(_), Some(endpoint)) => {
                Err(CommandError::NoCluster(no_address(endpoint, "the look-up takes too long")))
            }
            (Err(error), _) if matches!(error.reason(), Some(Reason::Deadline { .. })) => {
                match self.listening_endpoint().await {
                    Some(endpoint) => Err(CommandError::Silent { endpoint: endpoint.to_owned(), error }),
                    None => Err(unreachable(error)),
                }
            }
            (done, _) => done.map_err(unreachable),
        }
    }

    /// Replaces the error of a node that is not part of a cluster yet by one that says what the
    /// node waits for.
    async fn of_no_cluster(&self, error: zerohop_client::Error) -> CommandError {
        for endpoint in self.endpoints() {
            let tls = self.tls.read().ok().flatten();
            if let Some(reason) = http::unserved_reason(endpoint, tls.as_ref()).await {
                let message = format!(
                    "the node at {endpoint} has not joined a cluster yet: {reason}. Nothing was changed"
                );
                return CommandError::Refused(message);
            }
        }
        CommandError::Client(error)
    }

    /// The time limit of operations.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The first endpoint that accepts connections.
    pub(crate) async fn listening_endpoint(&self) -> Option<&str> {
        for endpoint in self.endpoints() {
            if matches!(timeout(PROBE_MAX, TcpStream::connect(endpoint)).await, Ok(Ok(_))) {
                return Some(endpoint);
            }
        }
        None
    }

    /// The endpoints, or the default one.
    pub(crate) fn endpoints(&self) -> Vec<&str> {
        endpoint::all(&self.endpoint)
    }

    /// The bearer text that proves knowledge of the secret over HTTP, if there is a secret.
    pub(crate) fn bearer(&self) -> Result<Option<String>, CommandError> {
        Ok(self.secret.read()?.map(|secret| secret.bearer()))
    }

    /// The TLS settings, if TLS is on.
    pub(crate) fn tls(&self) -> Result<Option<ClientTls>, CommandError> {
        self.tls.read()
    }

    /// The certificate with which a gateway serves its own clients, if one is named. It is also that of the gateway as a client of nodes.
    pub(crate) fn serving_tls(&self) -> Result<Option<ServerTls>, CommandError> {
        self.tls.serving()
    }

    /// Whether a secret or token is named.
    pub(crate) fn has_credential(&self) -> Result<bool, CommandError> {
        let has_token = self.token_file.as_ref().is_some_and(|path| !path.is_empty());
        Ok(has_token || self.secret.read()?.is_some())
    }

    /// Each named file of a secret or token, and whether it can be used.
    pub(crate) fn proofs(&self) -> Vec<(String, Result<(), CommandError>)> {
        let mut proofs = Vec::new();
        if let Some(path) = self.secret.path() {
            proofs.push((path.display().to_string(), self.secret.read().map(|_| ())));
        }
        if let Some(path) = self.token_file.as_ref().filter(|path| !path.is_empty()) {
            let path = Path::new(path);
            let read = read_token(path).map(|_| ()).map_err(CommandError::Secret);
            proofs.push((path.display().to_string(), read));
        }
        proofs
    }

    /// The cluster's secret, if one is named.
    pub(crate) fn secret_if_any(&self) -> Result<Option<Secret>, CommandError> {
        self.secret.read()
    }

    /// The cluster's secret, which this command requires.
    pub(crate) fn secret(&self) -> Result<Secret, CommandError> {
        self.secret.read()?.ok_or_else(|| {
            CommandError::Usage(
                "this needs the cluster's secret: say --secret-file PATH, or set ZEROHOP_SECRET_FILE"
                    .to_owned(),
            )
        })
    }

    /// Connects and opens a keyspace.
    pub(crate) async fn keyspace(&self, name: &str) -> Result<Keyspace, CommandError> {
        Ok(self.connect().await?.keyspace(name).await?)
    }
}

/// The error for a peer of another protocol, or for no peer at all.
fn unreachable(error: zerohop_client::Error) -> CommandError {
    match &error {
        zerohop_client::Error::Operation { reason, .. } if matches!(**reason, Reason::Refused { .. }) => {
            CommandError::Client(error)
        }
        _ => CommandError::Unreachable(error),
    }
}

/// Whether the node that answered has no map: it has not joined a cluster.
fn is_of_no_cluster(error: &zerohop_client::Error) -> bool {
    let zerohop_client::Error::Operation { reason, .. } = error else { return false };
    matches!(**reason, Reason::NoKeyspace { epoch: MapEpoch(0), .. })
}
