//! `zerohop partition list`: the instances of each partition.

use clap::Args;
use serde::Serialize;
use zerohop_wire::admin::PartitionStatus;

use crate::common::ending::{CommandEnding, CommandError};
use crate::common::replica_names::Places;
use crate::common::target::ClusterTarget;
use crate::common::{admin, damaged, view};
use crate::output;

/// The heading of the table.
const HEADING: &str = "partition\tepoch\tprimary (NODE:INSTANCE)\tin sync\tfollowing\tstate";

#[derive(Args, Debug)]
pub(crate) struct PartitionListArguments {
    /// The keyspace.
    #[arg(default_value = "default")]
    keyspace: String,
    #[command(flatten)]
    target: ClusterTarget,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct PartitionOutput {
    partition: u32,
    epoch: u64,
    primary: u32,
    in_sync: Vec<u32>,
    followers: Vec<u32>,
    /// The node of the primary, and the nodes of the others in the same order.
    primary_node: u32,
    in_sync_nodes: Vec<u32>,
    follower_nodes: Vec<u32>,
    state: String,
    /// It is not served until a node that is down returns.
    lost: bool,
    /// It is not served: its sole copy is corrupt.
    damaged: bool,
    /// Members whose node is down.
    down: Vec<u32>,
    /// The instance to which an operator has pinned it, until it is released.
    pinned: Option<u32>,
}

pub(super) async fn run(arguments: PartitionListArguments) -> Result<CommandEnding, CommandError> {
    let client = arguments.target.connect().await?;
    let (mut all, mut are_pins_known) = admin::partitions(&client, &arguments.keyspace).await?;
    if !are_pins_known {
        // Only the control group knows the placement overrides.
        let nodes = admin::status(&client).await?.nodes.into_iter();
        for node in nodes.filter(|node| node.in_control && node.state != "down") {
            let Ok(manager) = arguments.target.connect_at(&node.manager).await else { continue };
            (all, are_pins_known) = admin::partitions(&manager, &arguments.keyspace).await?;
            if are_pins_known {
                break;
            }
        }
    }
    let mut status = admin::status(&client).await?;
    view::print_problems(&status, arguments.json)?;
    let places = Places::of(&status);
    let damaged = damaged::find(&arguments.target, &mut status).await;
    let is_damaged = |partition: u32| {
        damaged.iter().any(|one| one.keyspace == arguments.keyspace && one.partition == partition)
    };
    let all: Vec<PartitionOutput> = all
        .into_iter()
        .map(|one| PartitionOutput {
            damaged: is_damaged(one.partition),
            ..PartitionOutput::of(one, &places)
        })
        .collect();
    if arguments.json {
        output::json_lines(&all)?;
        return Ok(CommandEnding::Done);
    }
    let line = |one: &PartitionOutput| {
        let PartitionOutput {
            partition,
            epoch,
            primary,
            in_sync,
            followers,
            state,
            lost,
            damaged,
            down,
            pinned,
            ..
        } = one;
        let primary = places.name(*primary);
        let (in_sync, followers) = (places.names(in_sync), places.names(followers));
        let gone = if down.is_empty() { String::new() } else { format!("\tdown: {}", places.names(down)) };
        let pinned = pinned.map(|at| format!("\tpinned to {}", places.name(at))).unwrap_or_default();
        let state = if *lost { "LOST" } else { state };
        let state = if *damaged { "DAMAGED" } else { state };
        format!("{partition}\t{epoch}\t{primary}\t{in_sync}\t{followers}\t{state}{gone}{pinned}")
    };
    output::result(HEADING)?;
    output::result(&all.iter().map(line).collect::<Vec<_>>().join("\n"))?;
    Ok(CommandEnding::Done)
}

impl PartitionOutput {
    fn of(status: PartitionStatus, places: &Places) -> Self {
        let PartitionStatus { partition, epoch, primary, in_sync, followers, state, lost, down, pinned } =
            status;
        let nodes = |of: &[u32]| of.iter().map(|one| places.node(*one)).collect::<Vec<u32>>();
        PartitionOutput {
            partition,
            epoch,
            primary_node: places.node(primary),
            in_sync_nodes: nodes(&in_sync),
            follower_nodes: nodes(&followers),
            primary,
            in_sync,
            followers,
            state,
            lost,
            damaged: false,
            down,
            pinned,
        }
    }
}
