//! `zerohop up`: a local cluster in the foreground.

mod folder;
mod missing_folders;
mod occupied_ports;
mod restarts;
mod s3;
mod served;
mod stopping;
mod supervision;

use std::future::poll_fn;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::task::Poll;

use clap::Args;
use serde::Serialize;
use zerohop_server::node_folder;
use zerohop_wire::plurals::counted;

use self::folder::DataFolder;
use self::missing_folders::MissingNodes;
use self::restarts::RestartArguments;
use self::s3::UpS3;
use self::served::{ServedPartitions, ready_words, wait_until_served};
use self::supervision::SupervisedNodes;
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::other_nodes::{DATA_DEFAULT, NODES_MAX};
use crate::common::runtime::{StopSignals, runtime};
use crate::common::secret::SecretPlace;
use crate::common::tls::NodeTls;
use crate::common::{other_cluster, quantity};
use crate::local::{LocalNode, NodePlan, ReadyNode, ReservedPorts, StartingNode};
use crate::node::RedisTimeout;
use crate::output;
use crate::s3::running::RunningGateway;

#[derive(Args, Debug)]
pub(crate) struct UpArguments {
    /// Number of nodes, each a separate process [default: as in the existing data, 3 for new data].
    #[arg(long, value_name = "COUNT")]
    nodes: Option<u32>,
    /// Number of instances of each node [default: one per core, divided among the nodes].
    #[arg(long, value_name = "COUNT", value_parser = quantity::count_above_zero)]
    instances: Option<usize>,
    /// The folder of the data, which is created if necessary. Node 1 uses the folder `node-1` in it [default:
    /// zerohop-data in the current folder].
    #[arg(long, value_name = "DIR", conflicts_with = "memory")]
    data: Option<PathBuf>,
    /// Keeps all data in memory. The data is lost when the cluster ends.
    #[arg(long)]
    memory: bool,
    /// The port of the manager of node 1, on 127.0.0.1. The instances use the following ports, and the next node the
    /// ports after those. 0 chooses free ports.
    #[arg(long, value_name = "PORT", default_value_t = 7400)]
    port: u16,
    #[command(flatten)]
    secret: SecretPlace,
    #[command(flatten)]
    tls: NodeTls,
    #[command(flatten)]
    redis: RedisTimeout,
    #[command(flatten)]
    restart: RestartArguments,
    #[command(flatten)]
    s3: UpS3,
    /// The lowest severity of messages that the nodes log on standard error: error, warn, info, debug or trace.
    #[arg(long, value_name = "LEVEL", default_value = "warn", value_parser = crate::node::LOG_LEVELS)]
    log_level: String,
    /// Prints one line of JSON once the cluster serves requests.
    #[arg(long)]
    json: bool,
    /// Ends when standard input closes, however the writing process ends.
    #[arg(long, hide = true)]
    ends_with_input: bool,
}

/// The JSON.
#[derive(Serialize)]
struct UpOutput<'a> {
    /// The value for `--endpoint`.
    endpoint: &'a str,
    nodes: &'a [&'a ReadyNode],
    /// `None`: some node has not said what it serves.
    partitions: Option<ServedPartitions>,
    /// The address for clients of S3, if there is a gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    s3: Option<String>,
    /// The address for monitoring programs of the gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    s3_metrics: Option<String>,
}

/// The default number of nodes: the least that loses nothing, and stays available, when one fails.
const NODES_DEFAULT: u32 = 3;

/// Runs until a signal comes or no node is left.
pub(crate) fn run(arguments: &UpArguments) -> Result<CommandEnding, CommandError> {
    let mut folder = arguments.folder().map(DataFolder::read).transpose()?;
    let nodes = arguments.count(folder.as_ref())?;
    // Nodes are started from this, the main thread: see `crate::local`.
    runtime()?.block_on(serve(arguments, nodes, folder.as_mut()))
}

async fn serve(
    arguments: &UpArguments,
    nodes: u32,
    mut folder: Option<&mut DataFolder>,
) -> Result<CommandEnding, CommandError> {
    let mut signals = StopSignals::new()?;
    if arguments.ends_with_input {
        signals.end_with_input();
    }
    // A port that is taken ends the start before there is a node.
    let s3_port = arguments.s3.listen(&arguments.log_level).await?;
    let (mut plans, _ports) = arguments.plans(nodes)?;
    // Existing data may be that of a process that was killed a moment ago: its nodes wait for their ports.
    if folder.as_ref().is_none_or(|folder| folder.nodes() == 0) {
        tokio::select! {
            checked = occupied_ports::check(&plans) => checked?,
            () = signals.received() => return Ok(CommandEnding::Interrupted),
        }
    }
    let (mut missing, all_plans) = (None, plans.clone());
    if let Some(folder) = &mut folder {
        let listen: Vec<SocketAddr> = plans.iter().map(|plan| plan.listen).collect();
        let credentials = (arguments.secret.read()?, arguments.tls.read()?.and_then(|tls| tls.client));
        let owners = folder.owners().map(|(path, owner)| (path, owner.clone()));
        other_cluster::check_all(owners, &listen, &credentials).await?;
        folder.complete(&mut plans)?;
        missing = Some(MissingNodes::remove_from(&mut plans, folder)?);
    }
    let nodes = tokio::select! {
        nodes = start(&plans) => nodes?,
        // Dropping the unfinished start kills the children.
        () = signals.received() => return Ok(CommandEnding::Interrupted),
    };
    if let Some(folder) = folder {
        folder.record_bootstrapped()?;
    }
    let tls = arguments.tls.read()?.and_then(|tls| tls.client);
    let served = tokio::select! {
        served = wait_until_served(&nodes, tls.as_ref()) => served,
        () = signals.received() => return Ok(CommandEnding::Interrupted),
    };
    let mut gateway = match s3_port {
        Some(listening) => Some(tokio::select! {
            gateway = arguments.s3.start(listening, &nodes, (&arguments.secret, &arguments.tls)) => gateway?,
            () = signals.received() => return Ok(CommandEnding::Interrupted),
        }),
        None => None,
    };
    arguments.print_nodes(&nodes, served, gateway.as_ref())?;
    if let Some(advice) = missing.and_then(|missing| missing.advice(arguments, &nodes)) {
        output::problem(&format!("zerohop: {advice}"));
    }
    let mut nodes = SupervisedNodes::new(nodes, all_plans, arguments);
    tokio::select! {
        last = nodes.run() => return Err(last),
        () = signals.received() => {}
    }
    if !arguments.json {
        output::problem("Stopping; a second Ctrl-C kills.");
    }
    let stop_all = async {
        // Its clients get their answers while the nodes serve.
        if let Some(gateway) = &mut gateway {
            gateway.stop().await;
        }
        stopping::stop(nodes.into_serving()).await
    };
    tokio::select! {
        stopped = stop_all => stopped.map(|()| CommandEnding::Done),
        () = signals.come_again() => Ok(CommandEnding::Interrupted),
    }
}

/// Starts all nodes, and waits for all at once: none serves before the others run, and the first that fails ends the start.
async fn start(plans: &[NodePlan]) -> Result<Vec<LocalNode>, CommandError> {
    let starting = plans.iter().map(StartingNode::spawn).collect::<Result<Vec<_>, CommandError>>()?;
    let mut waits: Vec<_> = starting.into_iter().map(|one| Some(Box::pin(one.ready()))).collect();
    let mut nodes: Vec<Option<LocalNode>> = plans.iter().map(|_| None).collect();
    poll_fn(|context| {
        for (wait, node) in waits.iter_mut().zip(&mut nodes) {
            match wait.as_mut().map(|wait| wait.as_mut().poll(context)) {
                Some(Poll::Ready(Ok(ready))) => (*wait, *node) = (None, Some(ready)),
                Some(Poll::Ready(Err(error))) => return Poll::Ready(Err(error)),
                Some(Poll::Pending) | None => {}
            }
        }
        if waits.iter().all(Option::is_none) { Poll::Ready(Ok(())) } else { Poll::Pending }
    })
    .await?;
    Ok(nodes.into_iter().flatten().collect())
}

impl UpArguments {
    /// The data folder; `None`: in memory.
    fn folder(&self) -> Option<PathBuf> {
        match (&self.data, self.memory) {
            (_, true) => None,
            (Some(folder), false) => Some(folder.clone()),
            (None, false) => Some(PathBuf::from(DATA_DEFAULT)),
        }
    }

    /// The number of nodes: that of existing data, if there is any.
    fn count(&self, folder: Option<&DataFolder>) -> Result<u32, CommandError> {
        let found = folder.map_or(0, DataFolder::nodes);
        let intended = folder.and_then(DataFolder::intended).unwrap_or(NODES_DEFAULT);
        let nodes = self.nodes.unwrap_or(if found == 0 { intended } else { found });
        if !(1..=NODES_MAX).contains(&nodes) {
            return Err(CommandError::Usage(format!(
                "a local cluster has 1 to {NODES_MAX} nodes, not {nodes}"
            )));
        }
        if found != 0 && found != nodes {
            return Err(CommandError::Usage(format!(
                "the data is that of {found} node{}: leave --nodes out, or name another folder with --data. Nodes join a cluster \
                 that runs by `zerohop node --join`, and leave it by `zerohop node drain` and `remove`",
                if found == 1 { "" } else { "s" }
            )));
        }
        Ok(nodes)
    }

    /// The plans of the nodes, and the ports if they were searched for.
    fn plans(&self, nodes: u32) -> Result<(Vec<NodePlan>, Option<ReservedPorts>), CommandError> {
        let data = self.folder();
        // An error in the secret is reported once, not by each node.
        self.secret.read()?;
        self.tls.read()?;
        let plan = |number: u32, listen: SocketAddr, hosts: &[SocketAddr], instances| NodePlan {
            listen,
            data: data.as_ref().map(|folder| node_folder(folder, number as usize - 1)),
            instances,
            hosts: hosts.to_vec(),
            name: String::new(),
            local: None,
            join: None,
            log_name: format!("node-{number}"),
            log_level: self.log_level.clone(),
            redis_timeout: self.redis.argument(),
            secret_file: self.secret.path(),
            tls: self.tls.clone(),
            environment: Vec::new(),
        };
        let first = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        let nodes = nodes as usize;
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
        let instances = self.instances.unwrap_or(cores / nodes).max(1);
        let no_room = || {
            CommandError::Usage(format!(
                "no free ports were found for {} of {}",
                counted(nodes, "node"),
                counted(instances, "instance")
            ))
        };
        let ports = u16::try_from((instances + 1) * nodes).map_err(|_| no_room())?;
        let reserved = match self.port {
            0 => Some(ReservedPorts::find(ports).ok_or_else(no_room)?),
            _ => None,
        };
        let first = reserved.as_ref().map_or(first, ReservedPorts::first);
        if nodes == 1 {
            return Ok((vec![plan(1, first, &[], self.instances)], reserved));
        }
        first.port().checked_add(ports).ok_or_else(no_room)?;
        let hosts: Vec<SocketAddr> = (0..nodes)
            .map(|node| SocketAddr::new(first.ip(), first.port() + (node * (instances + 1)) as u16))
            .collect();
        let plans = (1..).zip(&hosts).map(|(number, listen)| plan(number, *listen, &hosts, Some(instances)));
        Ok((plans.collect(), reserved))
    }

    /// The options with which another command reaches the cluster, with a space before each.
    fn endpoint_options(&self, manager: &str) -> String {
        let endpoint = match manager {
            "127.0.0.1:7400" => String::new(),
            other => format!(" --endpoint {other}"),
        };
        format!("{endpoint}{}{}", self.secret.option(), self.tls.client_options())
    }

    fn print_nodes(
        &self,
        nodes: &[LocalNode],
        served: Option<ServedPartitions>,
        s3: Option<&RunningGateway>,
    ) -> Result<(), CommandError> {
        let Some(ready) = nodes.first().map(|node| &node.ready) else { return Ok(()) };
        if self.json {
            let nodes: Vec<&ReadyNode> = nodes.iter().map(|node| &node.ready).collect();
            let s3_metrics = s3.and_then(|gateway| gateway.metrics).map(|at| at.to_string());
            let s3 = s3.map(|gateway| gateway.listen.to_string());
            return output::json(&UpOutput {
                endpoint: &ready.manager,
                nodes: &nodes,
                partitions: served,
                s3,
                s3_metrics,
            });
        }
        nodes.iter().try_for_each(|node| node.ready.print_text())?;
        if let Some(gateway) = s3 {
            let metrics = gateway.metrics_url().map_or(String::new(), |url| format!(" Metrics: {url}."));
            output::result(&format!("S3 gateway: {}. {}{metrics}", gateway.url(), gateway.keys_hint()))?;
        }
        let options = self.endpoint_options(&ready.manager);
        output::result(&format!(
            "{} In another terminal: zerohop kv insert hello world{options}; zerohop kv lookup \
             hello{options}\nCtrl-C stops it.",
            ready_words(served)
        ))
    }
}
