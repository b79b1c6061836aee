//! `zerohop node list`, `drain`, `up` and `remove`: the nodes of a cluster that runs.

use clap::{Args, Subcommand};
use serde::Serialize;
use zerohop_wire::admin::NodeStatus;

use crate::common::admin;
use crate::common::ending::{CommandError, Ending};
use crate::common::target::Target;
use crate::output;

#[derive(Debug, Subcommand)]
pub(crate) enum NodeCommand {
    /// Tells which nodes there are.
    List(ListArguments),
    /// Has everything that a node holds move to others. It then serves nothing, and can be stopped and removed.
    Drain(OneNode),
    /// Has a node that is being drained take its share again.
    Up(OneNode),
    /// Has a node that holds nothing leave the cluster for ever.
    Remove(OneNode),
}

#[derive(Args, Debug)]
pub(crate) struct ListArguments {
    #[command(flatten)]
    target: Target,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct OneNode {
    /// Its number, as `zerohop node list` has it.
    node: u32,
    #[command(flatten)]
    target: Target,
}

#[derive(Serialize)]
struct Listed {
    id: u32,
    state: String,
    manager: String,
    primaries: u32,
    in_sync: u32,
    following: u32,
}

pub(crate) async fn run(command: NodeCommand) -> Result<Ending, CommandError> {
    match command {
        NodeCommand::List(arguments) => {
            let client = arguments.target.connect().await?;
            let nodes: Vec<Listed> =
                admin::status(&client).await?.nodes.into_iter().map(Listed::from).collect();
            if arguments.json {
                output::json(&nodes)?;
                return Ok(Ending::Done);
            }
            let line = |node: &Listed| {
                let Listed { id, state, manager, primaries, in_sync, following } = node;
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
        NodeCommand::Remove(one) => admin::remove_node(&one.target.connect().await?, one.node).await?,
    }
    Ok(Ending::Done)
}

impl From<NodeStatus> for Listed {
    fn from(status: NodeStatus) -> Self {
        let NodeStatus { id, state, manager, primaries, in_sync, following, .. } = status;
        Listed { id, state, manager, primaries, in_sync, following }
    }
}
