//! `zerohop node`: one node, in the foreground.

mod command;
mod cross_partition;
mod drain;
mod hosts;
mod one_node;
mod partitions;

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use rustix::process::Signal;
use zerohop_server::hosts::PORT_DEFAULT;
use zerohop_server::logging::{self, LevelFilter, LogFormat};
use zerohop_server::{
    REDIS_TIME_OUT_MAX, REDIS_TIME_OUT_MIN, ServeError, Server, ServerOptions, StartError, owner,
    process_of_original,
};

pub(crate) use self::command::{NodeCommand, run as command};
use self::hosts::ClusterArguments;
use self::partitions::PartitionArguments;
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::failure::NO_PLACE;
use crate::common::runtime::runtime;
use crate::common::secret::SecretPlace;
use crate::common::tls::NodeTls;
use crate::common::{other_cluster, quantity};
use crate::local::{ReadyInstance, ReadyNode};
use crate::output;

/// The values of `--log-level`.
pub(crate) const LOG_LEVELS: [&str; 5] = ["error", "warn", "info", "debug", "trace"];

/// The default listening address of a node.
const LISTEN_DEFAULT: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), PORT_DEFAULT);

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct NodeArguments {
    #[command(subcommand)]
    pub(crate) command: Option<NodeCommand>,
    #[command(flatten)]
    run: RunArguments,
}

/// How one node is run.
#[derive(Args, Debug)]
struct RunArguments {
    /// The address of the manager, for control requests and HTTP. Instances use the following ports. With port 0, all
    /// use free ports. An address that other machines can reach needs --secret-file or --insecure [default: the address
    /// of this node in the list of hosts, else 127.0.0.1:7400].
    #[arg(long, value_name = "HOST:PORT", value_parser = listen)]
    listen: Option<SocketAddr>,
    #[command(flatten)]
    place: DataPlace,
    #[command(flatten)]
    cluster: ClusterArguments,
    #[command(flatten)]
    secret: SecretPlace,
    #[command(flatten)]
    tls: NodeTls,
    /// Number of instances [default: as in the existing data; for new data one per core, at most 8].
    #[arg(long, value_name = "COUNT")]
    instances: Option<usize>,
    /// Memory for the newest part of the data, of all instances together. Indexes need additional memory [default:
    /// 1GiB, or a quarter of the memory that the node may use].
    #[arg(long, value_name = "BYTES", value_parser = quantity::bytes)]
    memory_budget: Option<u64>,
    #[command(flatten)]
    partitions: PartitionArguments,
    #[command(flatten)]
    redis: RedisTimeout,
    /// A host name by which this node serves HTTP if the cluster has no secret. `localhost`, the address and the name
    /// of the machine are always accepted. May be given several times.
    #[arg(long, value_name = "NAME")]
    http_name: Vec<String>,
    /// The format of log messages on standard error: text or json.
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = ["text", "json"])]
    log_format: String,
    /// The lowest severity of messages to log: error, warn, info, debug or trace.
    #[arg(long, value_name = "LEVEL", default_value = "info", value_parser = LOG_LEVELS)]
    log_level: String,
    /// Prints one line of JSON once the node serves requests.
    #[arg(long)]
    json: bool,
    /// Ends when the process with this number ends; it has started this node.
    #[arg(long, value_name = "PID", hide = true)]
    ends_with_parent: Option<u32>,
    /// The name of this node at the beginning of each line of its log. The process that has started it reports why it does not start
    #[arg(long, value_name = "NAME", hide = true)]
    log_name: Option<String>,
}

/// How long commands of Redis clients wait.
#[derive(Args, Clone, Debug)]
pub(crate) struct RedisTimeout {
    /// How long a command of a Redis client waits for a partition that cannot answer, from 500ms to 10m. After this
    /// time the client gets an error. The error says whether the command was not done, or whether that is unknown. A
    /// failover takes about two seconds [default: 4s].
    #[arg(long, env = "ZEROHOP_REDIS_TIMEOUT", value_name = "TIME", value_parser = redis_timeout)]
    redis_timeout: Option<Duration>,
}

impl RedisTimeout {
    /// The option as it is given to the node's process.
    pub(crate) fn argument(&self) -> Option<String> {
        self.redis_timeout.map(|time| format!("--redis-timeout={}ms", time.as_millis()))
    }
}

/// Parses the time-out of Redis commands. For clap.
fn redis_timeout(text: &str) -> Result<Duration, String> {
    let time = quantity::duration(text)?;
    let allowed = REDIS_TIME_OUT_MIN..=REDIS_TIME_OUT_MAX;
    if allowed.contains(&time) {
        return Ok(time);
    }
    let [least, most] = [REDIS_TIME_OUT_MIN, REDIS_TIME_OUT_MAX].map(quantity::format_time);
    Err(format!(
        "a time from {least} to {most} is allowed: a failover takes about two seconds, in which commands wait"
    ))
}

/// Where data is.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
struct DataPlace {
    /// The folder of the data. The node creates it if necessary.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Keeps all data in memory. The data is lost when the node ends.
    #[arg(long)]
    memory: bool,
}

/// Runs until a signal asks it to end.
pub(crate) fn run(arguments: &NodeArguments) -> Result<CommandEnding, CommandError> {
    let arguments = &arguments.run;
    // A shell starts programs in the background with SIGQUIT ignored, so until the server handles signals it would not end this process.
    end_with_parent(arguments, Signal::TERM)?;
    let failed = |error: &dyn std::fmt::Display| CommandError::Node(error.to_string());
    let format: LogFormat = arguments.log_format.parse().map_err(|error| failed(&error))?;
    let level: LevelFilter = arguments.log_level.parse().map_err(|error| failed(&error))?;
    logging::init(format, level, arguments.log_name.as_deref()).map_err(|error| failed(&error))?;
    match (serve(arguments), format) {
        // The reason of the end goes to the JSON log too, so that a log reader sees it.
        (Err(error), LogFormat::Json) => {
            logging::fatal(&error.to_string());
            Err(CommandError::Logged(Box::new(error)))
        }
        // The process that has started this one prints the reason of a failed start, which it gets as JSON, and names this log for that
        // of a later end.
        (Err(error), LogFormat::Text) if arguments.log_name.is_some() && arguments.json => {
            if output::has_result() {
                logging::fatal(&error.to_string());
            }
            Err(CommandError::Logged(Box::new(error)))
        }
        (outcome, _) => outcome,
    }
}

/// The rest of [`run`], once there is a log.
fn serve(arguments: &RunArguments) -> Result<CommandEnding, CommandError> {
    let failed = |error: &dyn std::fmt::Display| CommandError::Node(error.to_string());
    let cluster = arguments.cluster.options(arguments.listen)?;
    let listen = cluster.as_ref().and_then(hosts::listen_of).or(arguments.listen).unwrap_or(LISTEN_DEFAULT);
    let mut options = ServerOptions::new(listen);
    options.gateway = Some(zerohop_redis::GATEWAY);
    (options.cluster, options.insecure) = (cluster, arguments.cluster.insecure);
    (options.secret, options.tls) = (arguments.secret.read()?, arguments.tls.read()?);
    options.local = arguments.cluster.local();
    options.data.clone_from(&arguments.place.data);
    options.instances = arguments.instances;
    options.serves_cross_partition = true;
    options.redis_time_out = arguments.redis.redis_timeout.unwrap_or(options.redis_time_out);
    let redis_time_out = options.redis_time_out;
    options.http_names.clone_from(&arguments.http_name);
    options.memory_bytes = arguments.memory_budget;
    options.partitions = arguments.partitions.limits();
    let credentials = (options.secret.clone(), options.tls.as_ref().and_then(|tls| tls.client.clone()));
    // The process that has started all nodes of a folder has checked this already.
    if let (Some(data), None) = (&options.data, &options.local)
        && let Some(owner) = owner(data).map_err(|error| failed(&error))?
        && (process_of_original(data).is_some()
            || owner.listened_at.as_ref().is_some_and(|at| *at != listen.to_string()))
    {
        runtime()?.block_on(other_cluster::check(data, &owner, &[listen], &credentials))?;
    }
    let server = Server::start(options).map_err(|error| match error {
        StartError::NoPlace { reason } => no_place(reason),
        other => failed(&other),
    })?;
    cross_partition::add(&server, credentials, redis_time_out).map_err(|error| failed(&error))?;
    server
        .stop_on_signals()
        .map_err(|error| CommandError::system("listening to signals", Path::new("zerohop"), &error))?;
    // From here on this is a clean shutdown without a takeover: the other nodes of the parent stop too.
    end_with_parent(arguments, Signal::QUIT)?;
    server.log_ready();
    let ready = ready(&server, arguments.place.data.clone());
    // A reader that is gone is no reason not to serve.
    let printed = if arguments.json { output::json(&ready) } else { ready.print_text() };
    if let Err(error) = printed {
        output::problem(&format!("zerohop: {error}"));
    }
    server.wait().map(|()| CommandEnding::Done).map_err(|error| match error {
        ServeError::NoPlace { reason } => no_place(reason),
        other => failed(&other),
    })
}

/// The error of a node that its cluster does not have.
fn no_place(reason: String) -> CommandError {
    CommandError::RefusedAs { word: NO_PLACE, reason }
}

fn ready(server: &Server, data: Option<PathBuf>) -> ReadyNode {
    let instances = server.instances().iter();
    ReadyNode {
        id: server.node().get(),
        pid: std::process::id(),
        manager: server.manager_address().to_string(),
        instances: instances.map(|(id, at)| ReadyInstance { id: id.0, addr: at.to_string() }).collect(),
        data,
        warning: server.warning().map(str::to_owned),
    }
}

/// Requests this signal from the system for the time when the parent is gone, if the process ends with it. If the parent is gone already
/// and this process has another one, it must not serve.
fn end_with_parent(arguments: &RunArguments, signal: Signal) -> Result<(), CommandError> {
    let Some(parent) = arguments.ends_with_parent else { return Ok(()) };
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(signal)).map_err(|error| {
        CommandError::system("requesting a signal at the parent's end", Path::new("zerohop"), &error.into())
    })?;
    let is_there =
        rustix::process::getppid().is_some_and(|pid| pid.as_raw_nonzero().get().cast_unsigned() == parent);
    if is_there {
        Ok(())
    } else {
        Err(CommandError::Node("the process that started this node is gone".to_owned()))
    }
}

/// Parses a listening address; a name is resolved at once. For clap.
pub(crate) fn listen(text: &str) -> Result<SocketAddr, String> {
    let addresses =
        text.to_socket_addrs().map_err(|error| format!("{error}: write host:port, as in 127.0.0.1:7400"))?;
    addresses.into_iter().next().ok_or_else(|| "this name has no address".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redis_timeout_is_limited_to_its_range() {
        assert_eq!(redis_timeout("2s"), Ok(Duration::from_secs(2)));
        assert_eq!(redis_timeout("500ms"), Ok(Duration::from_millis(500)));
        for bad in ["0", "499ms", "601s", "1d"] {
            assert!(redis_timeout(bad).unwrap_err().contains("from 500 ms to 10 min"), "{bad}");
        }
        assert!(redis_timeout("-1").unwrap_err().contains("below 0"));
        assert!(redis_timeout("soon").unwrap_err().contains("as in 10s, 500ms"));
    }

    #[test]
    fn addresses_to_listen_at_are_read() {
        assert_eq!(listen("127.0.0.1:0"), Ok("127.0.0.1:0".parse().unwrap()));
        assert_eq!(listen("[::1]:7400"), Ok("[::1]:7400".parse().unwrap()));
        for bad in ["", "7400", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:70000"] {
            assert!(listen(bad).unwrap_err().contains("host:port"), "{bad}");
        }
    }
}
