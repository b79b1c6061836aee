//! `zerohop node list`, `drain`, `up`, `remove` and `managers`: the nodes of a running cluster.

use clap::{Args, Subcommand};
use serde::Serialize;
use zerohop_wire::admin::NodeStatus;

use crate::common::ending::{CommandEnding, CommandError};
use crate::common::target::ClusterTarget;
use crate::common::{admin, view};
use crate::output;

#[derive(Debug, Subcommand)]
pub(crate) enum NodeCommand {
    /// Lists the nodes, with their numbers.
    ///
    /// Nodes that start together have the numbers of their places in the list of hosts; a node that joins later gets the
    /// next number. A number is not used again. Instances are numbered over all nodes, from 1 on, in the order in which
    /// their nodes joined: node 2 may have instance 1. `zerohop status` prints the instances of each node. Other
    /// commands name an instance as NODE:INSTANCE.
    #[command(visible_alias = "ls")]
    List(NodeListArguments),
    /// Moves all data of a node to other nodes. The node then serves nothing, and can be stopped and removed.
    Drain(OneNode),
    /// Ends the draining of a node, which gets its share of data again.
    Up(OneNode),
    /// Removes a node without data from the cluster permanently.
    Remove(OneNode),
    /// Lists the managers of the control group, or sets them.
    ///
    /// With --set, new managers join one at a time: each catches up and then votes. Managers that are not named leave
    /// only after that. If a manager is down for half a minute, another node replaces it. A control group that is too
    /// small grows: it has 1 manager for up to two nodes, 3 for up to eight, and 5 for more.
    Managers(ManagersArguments),
}

#[derive(Args, Debug)]
pub(crate) struct ManagersArguments {
    /// The numbers of the nodes that form the control group: 1, 3 or 5 nodes.
    #[arg(long, value_name = "NODE,...", value_delimiter = ',', num_args = 1)]
    set: Vec<u32>,
    #[command(flatten)]
    target: ClusterTarget,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct NodeListArguments {
    #[command(flatten)]
    target: ClusterTarget,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct OneNode {
    /// The number of the node, as `zerohop node list` prints it.
    #[arg(value_parser = node_number)]
    node: u32,
    #[command(flatten)]
    target: ClusterTarget,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

/// The JSON of a change of one node.
#[derive(Serialize)]
struct NodeOutput {
    node: u32,
    /// `draining`, `up` or `removed`.
    state: &'static str,
    done: bool,
}

#[derive(Serialize)]
struct ListedNode {
    id: u32,
    state: String,
    manager: String,
    primaries: u32,
    in_sync: u32,
    following: u32,
}

/// A manager of the control group.
#[derive(Serialize)]
struct ListedManager {
    node: u32,
    state: String,
    manager: String,
}

/// Parses the number of a node. For clap.
fn node_number(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| "write the number of a node, which `zerohop node list` prints".to_owned())
}

pub(crate) async fn run(command: NodeCommand) -> Result<CommandEnding, CommandError> {
    match command {
        NodeCommand::List(arguments) => {
            let client = arguments.target.connect().await?;
            let status = admin::status(&client).await?;
            view::print_problems(&status, arguments.json)?;
            let nodes: Vec<ListedNode> = status.nodes.into_iter().map(ListedNode::from).collect();
            if arguments.json {
                output::json_lines(&nodes)?;
                return Ok(CommandEnding::Done);
            }
            let line = |node: &ListedNode| {
                let ListedNode { id, state, manager, primaries, in_sync, following } = node;
                format!(
                    "{id}\t{state}\t{manager}\t{primaries} primary, {in_sync} in sync, {following} following"
                )
            };
            output::result(&nodes.iter().map(line).collect::<Vec<_>>().join("\n"))?;
        }
        NodeCommand::Drain(one) => one.set_state("draining").await?,
        NodeCommand::Up(one) => one.set_state("up").await?,
        NodeCommand::Managers(arguments) => managers(arguments).await?,
        NodeCommand::Remove(one) => {
            admin::remove_node(&one.target.connect().await?, one.node).await?;
            output::note_done(output::COMMAND);
            one.print("removed")?;
        }
    }
    Ok(CommandEnding::Done)
}

impl OneNode {
    async fn set_state(&self, state: &'static str) -> Result<(), CommandError> {
        admin::set_node_state(&self.target.connect().await?, self.node, state).await?;
        output::note_done(output::COMMAND);
        self.print(state)
    }

    fn print(&self, state: &'static str) -> Result<(), CommandError> {
        match self.json {
            true => output::json(&NodeOutput { node: self.node, state, done: true }),
            false => Ok(()),
        }
    }
}

async fn managers(arguments: ManagersArguments) -> Result<(), CommandError> {
    let ManagersArguments { set, target, json } = arguments;
    let client = target.connect().await?;
    if !set.is_empty() {
        admin::set_managers(&client, set).await?;
        output::note_done(output::COMMAND);
    }
    let status = admin::status(&client).await?;
    view::print_problems(&status, json)?;
    let nodes = status.nodes.into_iter().filter(|node| node.in_control);
    let all: Vec<ListedManager> = nodes
        .map(|NodeStatus { id, state, manager, .. }| ListedManager { node: id, state, manager })
        .collect();
    if all.is_empty() {
        return Err(CommandError::Refused("this node stands alone: it has no control group".to_owned()));
    }
    if json {
        return output::json_lines(&all);
    }
    let line = |one: &ListedManager| format!("{}\t{}\t{}", one.node, one.state, one.manager);
    output::result(&all.iter().map(line).collect::<Vec<_>>().join("\n"))
}

impl From<NodeStatus> for ListedNode {
    fn from(status: NodeStatus) -> Self {
        let NodeStatus { id, state, manager, primaries, in_sync, following, .. } = status;
        ListedNode { id, state, manager, primaries, in_sync, following }
    }
}
