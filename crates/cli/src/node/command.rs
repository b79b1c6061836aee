//! `zerohop node list`, `drain`, `up`, `remove` and `managers`: the nodes of a running cluster.

use std::collections::BTreeSet;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde::Serialize;
use tokio::time::{Instant, sleep};
use zerohop_client::Client;
use zerohop_wire::admin::{NodeStatus, Status};

use super::drain::{self, DrainArguments};
use super::one_node::OneNode;
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::target::ClusterTarget;
use crate::common::{admin, view};
use crate::output;

/// The pause between two looks at the control group.
const MANAGERS_PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug, Subcommand)]
pub(crate) enum NodeCommand {
    /// Lists the nodes, with their numbers.
    ///
    /// Nodes that start together have the numbers of their places in the list of hosts; a node that joins later gets the
    /// next number. A number is not used again. Instances are numbered over all nodes, in the order in which their
    /// nodes joined, so node 2 may have instance 1. Numbers begin with 0, and with 1 for a node alone. `zerohop
    /// status` prints the instances of each node. Other
    /// commands name an instance as NODE:INSTANCE.
    #[command(visible_alias = "ls")]
    List(NodeListArguments),
    /// Moves all data of a node to other nodes. The node then serves nothing, and can be stopped and removed.
    ///
    /// The command waits until the node has no data, and shows on standard error how many copies are left.
    Drain(DrainArguments),
    /// Ends the draining of a node, which gets its share of data again.
    Up(OneNode),
    /// Removes a node without data from the cluster permanently.
    Remove(OneNode),
    /// Lists the managers of the control group, or sets them.
    ///
    /// With --set, new managers join one at a time: each catches up and then votes. Managers that are not named leave
    /// only after that. The command waits for the end of that, at most for the time of --timeout. After that it
    /// prints the managers of that moment, and the change goes on. If a manager is down for half a minute, another
    /// node
    /// replaces it. A control group that is too small grows. It has 1 manager for up to two nodes, 3 for up to eight,
    /// and 5 for more.
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

/// The JSON of a change of one node.
#[derive(Serialize)]
struct NodeOutput {
    node: u32,
    /// `up` or `removed`.
    state: &'static str,
    done: bool,
}

#[derive(Serialize)]
struct NodeListOutput {
    id: u32,
    state: String,
    manager: String,
    primaries: u32,
    in_sync: u32,
    following: u32,
}

/// A manager of the control group.
#[derive(Serialize)]
struct ManagerOutput {
    node: u32,
    state: String,
    manager: String,
}

pub(crate) async fn run(command: NodeCommand) -> Result<CommandEnding, CommandError> {
    match command {
        NodeCommand::List(arguments) => {
            let client = arguments.target.connect().await?;
            let status = admin::status(&client).await?;
            view::print_problems(&status, arguments.json)?;
            let nodes: Vec<NodeListOutput> = status.nodes.into_iter().map(NodeListOutput::from).collect();
            if arguments.json {
                output::json_lines(&nodes)?;
                return Ok(CommandEnding::Done);
            }
            let line = |node: &NodeListOutput| {
                let NodeListOutput { id, state, manager, primaries, in_sync, following } = node;
                format!(
                    "{id}\t{state}\t{manager}\t{primaries} primary, {in_sync} in sync, {following} following"
                )
            };
            output::result(&nodes.iter().map(line).collect::<Vec<_>>().join("\n"))?;
        }
        NodeCommand::Drain(arguments) => drain::run(arguments).await?,
        NodeCommand::Up(one) => {
            admin::set_node_state(&one.target.connect().await?, one.node, "up").await?;
            output::note_done(output::COMMAND);
            one.print("up")?;
        }
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
    let mut status = None;
    if !set.is_empty() {
        admin::set_managers(&client, set.clone()).await?;
        output::note_done(output::COMMAND);
        status = Some(until_managers_are(&target, &client, &set).await?);
    }
    let status = match status {
        Some(status) => status,
        None => admin::status(&client).await?,
    };
    view::print_problems(&status, json)?;
    let nodes = status.nodes.into_iter().filter(|node| node.in_control);
    let all: Vec<ManagerOutput> = nodes
        .map(|NodeStatus { id, state, manager, .. }| ManagerOutput { node: id, state, manager })
        .collect();
    if all.is_empty() {
        return Err(CommandError::Refused("this node stands alone: it has no control group".to_owned()));
    }
    if json {
        return output::json_lines(&all);
    }
    let line = |one: &ManagerOutput| format!("{}\t{}\t{}", one.node, one.state, one.manager);
    output::result(&all.iter().map(line).collect::<Vec<_>>().join("\n"))
}

/// Waits until these nodes are the control group, or the time is over, and returns the status then.
async fn until_managers_are(
    target: &ClusterTarget,
    client: &Client,
    requested: &[u32],
) -> Result<Status, CommandError> {
    let until = Instant::now().checked_add(target.timeout());
    loop {
        let status = admin::status(client).await;
        let is_over = until.is_some_and(|until| Instant::now() >= until);
        match status {
            Ok(status) if are_managers(&status, requested) => return Ok(status),
            Ok(status) if is_over => {
                output::problem(
                    "zerohop: the change is accepted and in progress: new managers join one at a time; `zerohop node managers` \
                     shows how far it is, and --timeout allows this command more time",
                );
                return Ok(status);
            }
            // The node that was asked may have left the control group, or follow another leader in a moment.
            Err(error) if is_over => return Err(error),
            Ok(_) | Err(_) => sleep(MANAGERS_PAUSE).await,
        }
    }
}

fn are_managers(status: &Status, requested: &[u32]) -> bool {
    let requested: BTreeSet<u32> = requested.iter().copied().collect();
    let present: BTreeSet<u32> =
        status.nodes.iter().filter(|node| node.in_control).map(|node| node.id).collect();
    present == requested
}

impl From<NodeStatus> for NodeListOutput {
    fn from(status: NodeStatus) -> Self {
        let NodeStatus { id, state, manager, primaries, in_sync, following, .. } = status;
        NodeListOutput { id, state, manager, primaries, in_sync, following }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn managers_are_complete_when_exactly_the_wanted_ones_are_in_the_control_group() {
        let status = |ids: &[u32]| {
            let node = |id| NodeStatus { id, in_control: ids.contains(&id), ..NodeStatus::default() };
            Status { nodes: (1..6).map(node).collect(), ..Status::default() }
        };
        assert!(are_managers(&status(&[1, 2, 4]), &[4, 1, 2]));
        assert!(!are_managers(&status(&[1, 2, 3, 4]), &[1, 2, 4]), "one has not left");
        assert!(!are_managers(&status(&[1, 2]), &[1, 2, 4]), "one has not joined");
    }
}
