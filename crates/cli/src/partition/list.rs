//! `zerohop partition list`: who holds what.

use clap::Args;
use serde::Serialize;
use zerohop_wire::admin::PartitionStatus;

use crate::common::ending::{CommandError, Ending};
use crate::common::target::Target;
use crate::common::{admin, damaged};
use crate::output;

#[derive(Args, Debug)]
pub(crate) struct ListArguments {
    /// The keyspace.
    #[arg(default_value = "default")]
    keyspace: String,
    #[command(flatten)]
    target: Target,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Listed {
    partition: u32,
    epoch: u64,
    primary: u32,
    in_sync: Vec<u32>,
    followers: Vec<u32>,
    state: String,
    /// Nobody serves it before a node that is down returns.
    lost: bool,
    /// Nobody serves it: its only copy that counts is damaged.
    damaged: bool,
    /// Members whose node is down.
    down: Vec<u32>,
    /// The instance where an operator wants it, until it is released.
    pinned: Option<u32>,
}

pub(super) async fn run(arguments: ListArguments) -> Result<Ending, CommandError> {
    let client = arguments.target.connect().await?;
    let (mut all, mut are_pins_known) = admin::partitions(&client, &arguments.keyspace).await?;
    if !are_pins_known {
        // Only the control group knows where operators want partitions.
        let nodes = admin::status(&client).await?.nodes.into_iter();
        for node in nodes.filter(|node| node.in_control && node.state != "down") {
            let Ok(manager) = arguments.target.connect_at(&node.manager).await else { continue };
            (all, are_pins_known) = admin::partitions(&manager, &arguments.keyspace).await?;
            if are_pins_known {
                break;
            }
        }
    }
    let damaged = damaged::find(&arguments.target, &mut admin::status(&client).await?).await;
    let is_damaged = |partition: u32| {
        damaged.iter().any(|one| one.keyspace == arguments.keyspace && one.partition == partition)
    };
    let all: Vec<Listed> = all
        .into_iter()
        .map(|one| Listed { damaged: is_damaged(one.partition), ..Listed::from(one) })
        .collect();
    if arguments.json {
        output::json_lines(&all)?;
        return Ok(Ending::Done);
    }
    let some = |instances: &[u32]| match instances {
        [] => "-".to_owned(),
        some => some.iter().map(u32::to_string).collect::<Vec<_>>().join(","),
    };
    let line = |one: &Listed| {
        let Listed { partition, epoch, primary, in_sync, followers, state, lost, damaged, down, pinned } =
            one;
        let (in_sync, followers) = (some(in_sync), some(followers));
        let gone = if down.is_empty() { String::new() } else { format!("\tdown: {}", some(down)) };
        let pinned = pinned.map(|at| format!("\tmoved to {at} by hand")).unwrap_or_default();
        let state = if *lost { "LOST" } else { state };
        let state = if *damaged { "DAMAGED" } else { state };
        format!(
            "{partition}\tepoch {epoch}\tprimary {primary}\tin sync {in_sync}\tfollowing {followers}\t{state}{gone}{pinned}"
        )
    };
    output::result(&all.iter().map(line).collect::<Vec<_>>().join("\n"))?;
    Ok(Ending::Done)
}

impl From<PartitionStatus> for Listed {
    fn from(status: PartitionStatus) -> Self {
        let PartitionStatus { partition, epoch, primary, in_sync, followers, state, lost, down, pinned } =
            status;
        Listed { partition, epoch, primary, in_sync, followers, state, lost, damaged: false, down, pinned }
    }
}
