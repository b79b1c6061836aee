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
    /// Tells which nodes there are.
    #[command(visible_alias = "ls")]
    List(NodeListArguments),
    /// Has everything that a node holds move to others. It then serves nothing, and can be stopped and removed.
    Drain(OneNode),
    /// Has a node that is being drained take its share again.
    Up(OneNode),
    /// Has a node that holds nothing leave the cluster for ever.
    Remove(OneNode),
    /// Tells which nodes sit in the control group, or says which are to.
    ///
    /// One at a time comes in, catches up and votes; only then those leave that are not named. Should one of them be gone for half a
    /// minute, another node takes its place as ever; and a group with fewer than there are to be (1 of up to two nodes, 3 of up to
    /// eight, 5 of more) is filled up.
    Managers(ManagersArguments),
}

#[derive(Args, Debug)]
pub(crate) struct ManagersArguments {
    /// The nodes that are to be the control group, by their numbers: 1, 3 or 5.
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
    /// Its number, as `zerohop node list` has it.
    node: u32,
    #[command(flatten)]
    target: ClusterTarget,
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

pub(crate) async fn run(command: NodeCommand) -> Result<CommandEnding, CommandError> {
    match command {
        NodeCommand::List(arguments) => {
            let client = arguments.target.connect().await?;
            let status = admin::status(&client).await?;
            view::tell(&status, arguments.json)?;
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
        NodeCommand::Drain(one) => {
            admin::set_node_state(&one.target.connect().await?, one.node, "draining").await?;
        }
        NodeCommand::Up(one) => admin::set_node_state(&one.target.connect().await?, one.node, "up").await?,
        NodeCommand::Managers(arguments) => managers(arguments).await?,
        NodeCommand::Remove(one) => admin::remove_node(&one.target.connect().await?, one.node).await?,
    }
    Ok(CommandEnding::Done)
}

async fn managers(arguments: ManagersArguments) -> Result<(), CommandError> {
    let ManagersArguments { set, target, json } = arguments;
    let client = target.connect().await?;
    if !set.is_empty() {
        admin::set_managers(&client, set).await?;
    }
    let status = admin::status(&client).await?;
    view::tell(&status, json)?;
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
