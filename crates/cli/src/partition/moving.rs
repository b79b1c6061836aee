//! `zerohop partition move` and `release`: asks the control group, and polls the map until it is
//! done.

use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use tokio::time::{Instant, sleep};
use zerohop_wire::admin::{PartitionMove, PartitionStatus};

use super::PartitionName;
use crate::common::admin;
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::target::ClusterTarget;
use crate::output::{self, StatusLine};

/// The interval of map polls.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

#[derive(Args, Debug)]
pub(crate) struct MoveArguments {
    /// The partition: KEYSPACE/PARTITION, as in default/17.
    partition: PartitionName,
    /// The destination, by the numbers that `zerohop status` prints: a node, as in 4, or one of its instances, as in 4:7.
    /// Instances are numbered over all nodes [default for INSTANCE: the instance of the node with the fewest copies].
    #[arg(long, value_name = "NODE[:INSTANCE]")]
    to: MoveTarget,
    #[command(flatten)]
    target: ClusterTarget,
    /// Prints JSON: one line for each step, and one at the end.
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct ReleaseArguments {
    /// The partition: KEYSPACE/PARTITION, as in default/17.
    partition: PartitionName,
    #[command(flatten)]
    target: ClusterTarget,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

/// The JSON of a release.
#[derive(Serialize)]
struct ReleaseOutput<'a> {
    keyspace: &'a str,
    partition: u32,
    done: bool,
}

/// A node, and optionally one of its instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MoveTarget {
    node: u32,
    instance: Option<u32>,
}

/// The steps of a move, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum MoveStep {
    /// It waits for its turn: the number of concurrent moves is limited.
    Waiting,
    /// The new copy catches up.
    Copying,
    /// It has everything, and is about to become primary.
    InSync,
    /// It serves; a superfluous copy leaves.
    Primary,
    /// The partition is at its target.
    Done,
}

/// The JSON.
#[derive(Serialize)]
struct MoveOutput<'a> {
    keyspace: &'a str,
    partition: u32,
    node: u32,
    instance: u32,
    step: MoveStep,
    epoch: u64,
}

pub(super) async fn run(arguments: MoveArguments) -> Result<CommandEnding, CommandError> {
    let MoveArguments { partition: name, to, target, json } = arguments;
    let client = target.connect().await?;
    let before = find_move(&client, &name).await?;
    let copies = before.in_sync.len() + before.followers.len() + 1;
    let request = PartitionMove {
        keyspace: name.keyspace.clone(),
        partition: name.partition,
        node: Some(to.node),
        instance: to.instance,
    };
    let instance = admin::move_partition(&client, request).await?;
    let line = StatusLine::new();
    let (mut last, mut since) = (None, Instant::now());
    loop {
        let now = find_move(&client, &name).await?;
        let step = step(&now, instance, copies);
        if last.is_some_and(|last| last != MoveStep::Waiting) && step == MoveStep::Waiting {
            return Err(CommandError::Refused(format!(
                "the move of {name} has failed: {}:{instance} went away or did not catch up. The partition is where \
                 it was",
                to.node
            )));
        }
        if last != Some(step) {
            (last, since) = (Some(step), Instant::now());
            print_move(json, &line, &name, (to.node, instance), step, &now)?;
        }
        if step == MoveStep::Done {
            return Ok(CommandEnding::Done);
        }
        // The time for copying depends on the data; the control group abandons a move by itself.
        if step != MoveStep::Copying && since.elapsed() > client.options().deadline {
            return Err(CommandError::Refused(format!(
                "the move of {name} to {}:{instance} goes on, but nothing has happened for {:?}: `zerohop partition \
                 list {}` shows its state",
                to.node,
                client.options().deadline,
                name.keyspace
            )));
        }
        sleep(CHECK_INTERVAL).await;
    }
}

pub(super) async fn release(arguments: ReleaseArguments) -> Result<CommandEnding, CommandError> {
    let ReleaseArguments { partition: name, target, json } = arguments;
    let PartitionName { keyspace, partition } = name.clone();
    let request = PartitionMove { keyspace: keyspace.clone(), partition, node: None, instance: None };
    admin::move_partition(&target.connect().await?, request).await.map_err(|error| match error {
        CommandError::Refused(reason) => CommandError::Refused(format!("partition {name}: {reason}")),
        error => error,
    })?;
    output::note_done(output::COMMAND);
    if json {
        output::json(&ReleaseOutput { keyspace: &keyspace, partition, done: true })?;
    }
    Ok(CommandEnding::Done)
}

async fn find_move(
    client: &zerohop_client::Client,
    name: &PartitionName,
) -> Result<PartitionStatus, CommandError> {
    let found = admin::partition(client, &name.keyspace, name.partition).await?;
    found.ok_or_else(|| {
        CommandError::Refused(format!("keyspace {} has no partition {}", name.keyspace, name.partition))
    })
}

/// The step of a move of a partition that had this many copies.
fn step(now: &PartitionStatus, to: u32, copies: usize) -> MoveStep {
    let has = now.in_sync.len() + now.followers.len() + 1;
    match now.primary == to {
        true if has <= copies && now.state == "settled" => MoveStep::Done,
        true => MoveStep::Primary,
        false if now.in_sync.contains(&to) => MoveStep::InSync,
        false if now.followers.contains(&to) => MoveStep::Copying,
        false => MoveStep::Waiting,
    }
}

fn print_move(
    json: bool,
    line: &StatusLine,
    name: &PartitionName,
    (node, instance): (u32, u32),
    step: MoveStep,
    now: &PartitionStatus,
) -> Result<(), CommandError> {
    if json {
        let PartitionName { keyspace, partition } = name;
        return output::json(&MoveOutput {
            keyspace,
            partition: *partition,
            node,
            instance,
            step,
            epoch: now.epoch,
        });
    }
    match step {
        MoveStep::Waiting => line.show(&format!("{name}: waits for its turn")),
        MoveStep::Copying => line.show(&format!("{name}: {node}:{instance} catches up")),
        MoveStep::InSync => line.show(&format!("{name}: {node}:{instance} is in sync")),
        MoveStep::Primary => line.show(&format!("{name}: {node}:{instance} serves; a copy leaves")),
        MoveStep::Done => {
            line.show("");
            return output::result(&format!("{name} is served by {node}:{instance} (epoch {})", now.epoch));
        }
    }
    Ok(())
}

impl FromStr for MoveTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (node, instance) = match text.split_once(':') {
            Some((node, instance)) => (node, Some(instance)),
            None => (text, None),
        };
        let number = |text: &str| {
            text.parse()
                .map_err(|_| "write NODE or NODE:INSTANCE, by their numbers, as in 4 or 4:7".to_owned())
        };
        Ok(MoveTarget { node: number(node)?, instance: instance.map(number).transpose()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_nodes_or_instances_of_them() {
        assert_eq!("4".parse(), Ok(MoveTarget { node: 4, instance: None }));
        assert_eq!("4:7".parse(), Ok(MoveTarget { node: 4, instance: Some(7) }));
        for bad in ["", "x", "4:", ":7", "4:7:1", "-1"] {
            assert!(bad.parse::<MoveTarget>().is_err(), "{bad}");
        }
    }

    #[test]
    fn move_step_follows_from_roles_in_the_group() {
        let group = |primary, in_sync: &[u32], followers: &[u32], state: &str| PartitionStatus {
            primary,
            in_sync: in_sync.to_vec(),
            followers: followers.to_vec(),
            state: state.to_owned(),
            ..PartitionStatus::default()
        };
        for (expected, now) in [
            (MoveStep::Waiting, group(1, &[2], &[3], "settled")),
            (MoveStep::Copying, group(1, &[2], &[9, 3], "admitting")),
            (MoveStep::InSync, group(1, &[2, 9], &[3], "settled")),
            (MoveStep::Primary, group(9, &[1, 2], &[3], "settled")),
            (MoveStep::Done, group(9, &[2], &[3], "settled")),
        ] {
            assert_eq!(step(&now, 9, 3), expected, "{now:?}");
        }
    }
}
