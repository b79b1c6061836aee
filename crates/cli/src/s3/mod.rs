//! `zerohop s3`: a gateway for clients of S3, in the foreground.

mod keyspaces;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use clap::Args;
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use zerohop_s3::{ClusterStore, GatewayOptions, S3Gateway, Secrets};
use zerohop_server::logging::{self, LevelFilter, LogFormat};

use crate::common::ending::{CommandEnding, CommandError};
use crate::common::runtime::{StopSignals, runtime};
use crate::common::target::ClusterTarget;
use crate::node::{LOG_LEVELS, listen};
use crate::output;

/// The default listening address.
const LISTEN_DEFAULT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 9000);

/// The secret access key for every access key id, in a cluster without a secret.
const OPEN_SECRET: &str = "zerohop";

#[derive(Args, Debug)]
pub(crate) struct S3Arguments {
    /// The address for clients of S3. It must be one of this machine alone [default: 127.0.0.1:9000].
    #[arg(long, value_name = "HOST:PORT", value_parser = listen)]
    listen: Option<SocketAddr>,
    /// The ordered keyspace with the names of the objects. Their bytes are in the keyspace of this name and `-bodies`.
    /// Keyspaces that do not exist are created.
    #[arg(short, long, value_name = "NAME", default_value = "objects")]
    keyspace: String,
    /// The region that clients are configured with.
    #[arg(long, value_name = "NAME", default_value = "us-east-1")]
    region: String,
    /// A domain below which each bucket is a host name, as BUCKET.s3.example.org. May be given several times. Without
    /// it, clients address buckets as paths.
    #[arg(long, value_name = "NAME")]
    domain: Vec<String>,
    #[command(flatten)]
    target: ClusterTarget,
    /// The lowest severity of messages to log on standard error: error, warn, info, debug or trace. With info, every
    /// request is logged.
    #[arg(long, value_name = "LEVEL", default_value = "warn", value_parser = LOG_LEVELS)]
    log_level: String,
    /// Prints one line of JSON once the gateway serves requests.
    #[arg(long)]
    json: bool,
}

/// The JSON of a gateway that serves.
#[derive(Serialize)]
struct ReadyGateway<'a> {
    pid: u32,
    listen: String,
    region: &'a str,
    keyspace: &'a str,
    bodies: &'a str,
}

/// Runs until a signal comes.
pub(crate) fn run(arguments: &S3Arguments) -> Result<CommandEnding, CommandError> {
    let failed = |error: &dyn std::fmt::Display| CommandError::Node(error.to_string());
    let level: LevelFilter = arguments.log_level.parse().map_err(|error| failed(&error))?;
    logging::init(LogFormat::Text, level).map_err(|error| failed(&error))?;
    runtime()?.block_on(serve(arguments))
}

async fn serve(arguments: &S3Arguments) -> Result<CommandEnding, CommandError> {
    let mut signals = StopSignals::new()?;
    let S3Arguments { keyspace, region, target, .. } = arguments;
    let at = arguments.listen.unwrap_or(LISTEN_DEFAULT);
    if target.has_credential()? {
        return Err(CommandError::Usage(
            "the gateway does not check permissions of tokens yet, and serves only clusters without a secret"
                .to_owned(),
        ));
    }
    if !at.ip().is_loopback() {
        return Err(CommandError::Usage(format!(
            "the cluster has no secret, so that any client may use the gateway: it listens at addresses of this machine \
             alone, as 127.0.0.1:{}, and not at {at}",
            at.port()
        )));
    }
    let refused = |error| CommandError::system("listening", Path::new(&at.to_string()), &error);
    let listener = TcpListener::bind(at).await.map_err(refused)?;
    let bodies = format!("{keyspace}-bodies");
    let store = tokio::select! {
        store = open(target, keyspace, &bodies) => store?,
        () = signals.come() => return Ok(CommandEnding::Interrupted),
    };
    let secrets: Secrets = Arc::new(|id: &str| (!id.is_empty()).then(|| OPEN_SECRET.to_owned()));
    let mut options = GatewayOptions::new(secrets);
    (options.region, options.domains) = (region.clone(), arguments.domain.clone());
    let gateway = S3Gateway::new(Arc::new(store), options)
        .map_err(|why| CommandError::Usage(format!("--domain: {why}")))?;
    arguments.print_ready(listener.local_addr().map_err(refused)?, &bodies);
    let sweep = tokio::spawn(gateway.clone().sweep());
    let (stop, stopped) = oneshot::channel::<()>();
    let mut serving = tokio::spawn(gateway.serve(listener, async { drop(stopped.await) }));
    tokio::select! {
        _ = &mut serving => return Err(CommandError::Node("the gateway has ended by itself".to_owned())),
        () = signals.come() => {}
    }
    sweep.abort();
    drop(stop);
    tokio::select! {
        _ = serving => Ok(CommandEnding::Done),
        () = signals.come_again() => Ok(CommandEnding::Interrupted),
    }
}

/// Connects, and opens or creates the keyspaces.
async fn open(target: &ClusterTarget, names: &str, bodies: &str) -> Result<ClusterStore, CommandError> {
    let client = target.connect_with(|options| options.name = "zerohop-s3".to_owned()).await?;
    let (names, bodies) = keyspaces::open(&client, names, bodies).await?;
    Ok(ClusterStore::new(client, names, bodies))
}

impl S3Arguments {
    fn print_ready(&self, at: SocketAddr, bodies: &str) {
        let ready = ReadyGateway {
            pid: std::process::id(),
            listen: at.to_string(),
            region: &self.region,
            keyspace: &self.keyspace,
            bodies,
        };
        let printed = match self.json {
            true => output::json(&ready),
            false => output::result(&format!(
                "S3 gateway (process {}): http://{at}, region {}, keyspaces {} and {bodies}\nReady. The access key id may be \
                 any, and the secret access key is {OPEN_SECRET}. Ctrl-C stops it.",
                ready.pid, self.region, self.keyspace
            )),
        };
        // A reader that is gone is no reason not to serve.
        if let Err(error) = printed {
            output::problem(&format!("zerohop: {error}"));
        }
    }
}
