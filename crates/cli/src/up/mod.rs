//! `zerohop up`: a local cluster in the foreground.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use crate::common::ending::{CommandError, Ending};
use crate::common::runtime::{StopSignals, runtime};
use crate::local::{LocalNode, NodePlan, Ready};
use crate::output;

/// Where data goes if nothing else is said.
const DATA_DEFAULT: &str = "zerohop-data";

#[derive(Args, Debug)]
pub(crate) struct UpArguments {
    /// How many nodes; 1 for now.
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    nodes: u32,
    /// How many instances each node has [default: one for each core].
    #[arg(long, value_name = "COUNT")]
    instances: Option<usize>,
    /// Where the data goes: node 1's into the folder `node-1` in it, which is made if it is not there [default:
    /// zerohop-data in the current folder].
    #[arg(long, value_name = "DIR", conflicts_with = "memory")]
    data: Option<PathBuf>,
    /// Keeps all data in memory; it is gone when the cluster ends.
    #[arg(long)]
    memory: bool,
    /// Where the manager listens, on 127.0.0.1; instances take the following ports. 0 chooses free ones.
    #[arg(long, value_name = "PORT", default_value_t = 7400)]
    port: u16,
    /// The least severe messages that the nodes log, on standard error: error, warn, info, debug or trace.
    #[arg(long, value_name = "LEVEL", default_value = "warn", value_parser = crate::node::LOG_LEVELS)]
    log_level: String,
    /// Prints one line of JSON once the cluster serves.
    #[arg(long)]
    json: bool,
}

/// The JSON.
#[derive(Serialize)]
struct Up<'a> {
    /// For `--endpoint`.
    endpoint: &'a str,
    nodes: &'a [&'a Ready],
}

/// Runs until a signal comes or a node ends.
pub(crate) fn run(arguments: &UpArguments) -> Result<Ending, CommandError> {
    if arguments.nodes != 1 {
        let what = "a local cluster has one node for now: leave --nodes away";
        return Err(CommandError::Usage(what.to_owned()));
    }
    // Nodes are started from this, the main thread: see `crate::local`.
    runtime()?.block_on(serve(arguments))
}

async fn serve(arguments: &UpArguments) -> Result<Ending, CommandError> {
    let mut signals = StopSignals::new()?;
    let plan = arguments.plan();
    let mut node = tokio::select! {
        node = LocalNode::start(&plan) => node?,
        // Dropping the start kills the child.
        () = signals.come() => return Ok(Ending::Interrupted),
    };
    arguments.tell(&node.ready)?;
    tokio::select! {
        how = node.ended() => {
            let id = node.ready.id;
            Err(CommandError::Node(format!("node {id} ended by itself: {how}. See its messages above")))
        }
        () = signals.come() => {
            if !arguments.json {
                output::problem("Stopping; a second Ctrl-C kills.");
            }
            tokio::select! {
                stopped = node.stop() => stopped.map(|()| Ending::Done),
                () = signals.come() => Ok(Ending::Interrupted),
            }
        }
    }
}

impl UpArguments {
    fn plan(&self) -> NodePlan {
        let data = match (&self.data, self.memory) {
            (_, true) => None,
            (Some(folder), false) => Some(folder.clone()),
            (None, false) => Some(PathBuf::from(DATA_DEFAULT)),
        };
        NodePlan {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, self.port)),
            data: data.map(|folder| folder.join("node-1")),
            instances: self.instances,
            log_level: self.log_level.clone(),
            environment: Vec::new(),
        }
    }

    fn tell(&self, ready: &Ready) -> Result<(), CommandError> {
        if self.json {
            return output::json(&Up { endpoint: &ready.manager, nodes: &[ready] });
        }
        ready.tell()?;
        let endpoint = match ready.manager.as_str() {
            "127.0.0.1:7400" => String::new(),
            other => format!(" --endpoint {other}"),
        };
        output::result(&format!(
            "Ready. In another terminal: zerohop kv insert hello world{endpoint}; zerohop kv lookup \
             hello{endpoint}\nCtrl-C stops it."
        ))
    }
}
