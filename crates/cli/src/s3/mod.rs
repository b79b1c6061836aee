//! `zerohop s3`: a gateway for clients of S3, in the foreground.

pub(crate) mod keyspaces;
pub(crate) mod running;
pub(crate) mod tls;

use std::net::{Ipv4Addr, SocketAddr};

use clap::Args;
use serde::Serialize;
use zerohop_client::ClientOptions;
use zerohop_server::logging::{self, LevelFilter, LogFormat};

use self::running::{BoundListeners, CLIENT_NAME, GatewaySettings, RunningGateway};
use self::tls::GatewayTls;
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::runtime::{StopSignals, runtime};
use crate::common::target::ClusterTarget;
use crate::node::{LOG_LEVELS, listen};
use crate::output;

/// The default listening address.
const LISTEN_DEFAULT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 9000);

#[derive(Args, Debug)]
pub(crate) struct S3Arguments {
    /// The address for clients of S3. In a cluster without a secret it must be one of this machine alone [default:
    /// 127.0.0.1:9000].
    #[arg(long, value_name = "HOST:PORT", value_parser = listen)]
    listen: Option<SocketAddr>,
    /// The ordered keyspace with the names of the objects. Their bytes are in the keyspace of this name and `-bodies`.
    /// Keyspaces that do not exist are created.
    #[arg(short, long, value_name = "NAME", default_value = keyspaces::OBJECTS)]
    keyspace: String,
    /// The region that clients are configured with.
    #[arg(long, value_name = "NAME", default_value = "us-east-1")]
    region: String,
    /// A domain below which each bucket is a host name, as BUCKET.s3.example.org. May be given several times. Without
    /// it, clients address buckets as paths.
    #[arg(long, value_name = "NAME")]
    domain: Vec<String>,
    /// Shows browsers a page with the objects of a bucket that a policy lets all clients list.
    #[arg(long)]
    browse: bool,
    /// The address for monitoring programs, which get /metrics and /health over HTTP there. Without it there are no
    /// metrics. In a cluster without a secret it must be one of this machine alone.
    #[arg(long, value_name = "HOST:PORT", value_parser = listen)]
    metrics: Option<SocketAddr>,
    #[command(flatten)]
    gateway_tls: GatewayTls,
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
    /// The address for monitoring programs, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    metrics: Option<String>,
    region: &'a str,
    keyspace: &'a str,
    bodies: &'a str,
}

/// Runs until a signal comes.
pub(crate) fn run(arguments: &S3Arguments) -> Result<CommandEnding, CommandError> {
    log(&arguments.log_level)?;
    runtime()?.block_on(serve(arguments))
}

/// Starts the log of a gateway.
pub(crate) fn log(level: &str) -> Result<(), CommandError> {
    let failed = |error: &dyn std::fmt::Display| CommandError::Node(error.to_string());
    let level: LevelFilter = level.parse().map_err(|error| failed(&error))?;
    logging::init(LogFormat::Text, level, None).map_err(|error| failed(&error))
}

async fn serve(arguments: &S3Arguments) -> Result<CommandEnding, CommandError> {
    let mut signals = StopSignals::new()?;
    let S3Arguments { keyspace, target, .. } = arguments;
    let at = arguments.listen.unwrap_or(LISTEN_DEFAULT);
    let secret = target.secret_if_any()?;
    if secret.is_none() && target.has_credential()? {
        return Err(CommandError::Usage(
            "the gateway needs the cluster's secret, from which it derives the secret access keys of tokens: say \
             --secret-file PATH"
                .to_owned(),
        ));
    }
    let open = [Some(at), arguments.metrics].into_iter().flatten().find(|at| !at.ip().is_loopback());
    if let (None, Some(at)) = (&secret, open) {
        return Err(CommandError::Usage(format!(
            "the cluster has no secret, so that any client may use the gateway: it listens at addresses of this machine \
             alone, as 127.0.0.1:{}, and not at {at}",
            at.port()
        )));
    }
    let settings = GatewaySettings {
        keyspace: keyspace.clone(),
        region: arguments.region.clone(),
        domains: arguments.domain.clone(),
        secret: secret.clone(),
        tls: arguments.gateway_tls.serving(|| target.serving_tls())?,
        browse: arguments.browse,
    };
    let listening = BoundListeners::bind(at, arguments.metrics).await?;
    let change = |options: &mut ClientOptions| {
        options.name = CLIENT_NAME.to_owned();
        // A token, which may be in the environment, does not know the secret access keys of others.
        if secret.is_some() {
            (options.secret, options.token) = (secret, None);
        }
    };
    let opening =
        async { RunningGateway::start(listening, target.connect_with(change).await?, settings).await };
    let mut gateway = tokio::select! {
        gateway = opening => gateway?,
        () = signals.received() => return Ok(CommandEnding::Interrupted),
    };
    arguments.print_ready(&gateway);
    tokio::select! {
        () = gateway.ended() => return Err(CommandError::Node("the gateway has ended by itself".to_owned())),
        () = signals.received() => {}
    }
    tokio::select! {
        () = gateway.stop() => Ok(CommandEnding::Done),
        () = signals.come_again() => Ok(CommandEnding::Interrupted),
    }
}

impl S3Arguments {
    fn print_ready(&self, gateway: &RunningGateway) {
        let bodies = keyspaces::bodies_of(&self.keyspace);
        let ready = ReadyGateway {
            pid: std::process::id(),
            listen: gateway.listen.to_string(),
            metrics: gateway.metrics.map(|at| at.to_string()),
            region: &self.region,
            keyspace: &self.keyspace,
            bodies: &bodies,
        };
        let printed = match self.json {
            true => output::json(&ready),
            false => output::result(&format!(
                "S3 gateway (process {}): {}, region {}, keyspaces {} and {bodies}{}\nReady. {} Ctrl-C stops it.",
                ready.pid,
                gateway.url(),
                self.region,
                self.keyspace,
                gateway.metrics_url().map_or(String::new(), |url| format!("\nMetrics: {url}")),
                gateway.keys_hint(),
            )),
        };
        // A reader that is gone is no reason not to serve.
        if let Err(error) = printed {
            output::problem(&format!("zerohop: {error}"));
        }
    }
}
