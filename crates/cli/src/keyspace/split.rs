//! `zerohop keyspace split`.

use clap::Args;
use zerohop_server::limits::DISK_RESERVE_BYTES;
use zerohop_wire::admin::{KeyspaceSettings, Status};

use super::KeyspacePlace;
use super::settings::print_one;
use super::show::find;
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::quantity::format_bytes;
use crate::common::{admin, every_node};
use crate::output;

#[derive(Args, Debug)]
pub(crate) struct SplitArguments {
    /// The name of the keyspace.
    name: String,
    /// Splits it even if a node reports too little free space for the second copy of its data. Partitions for which a disk
    /// has no room are not served until it has.
    #[arg(long)]
    without_room: bool,
    #[command(flatten)]
    place: KeyspacePlace,
}

pub(crate) async fn run(arguments: SplitArguments) -> Result<CommandEnding, CommandError> {
    let SplitArguments { name, without_room, place } = arguments;
    let client = place.target.connect().await?;
    let keyspace = find(&client, &name).await?;
    if !without_room {
        let mut status = admin::status(&client).await?;
        every_node::add_others(&place.target, &mut status).await;
        check_room(&status, &name)?;
    }
    // The request names the final number of partitions, so that a repeated request splits only
    // once.
    let partitions = Some(keyspace.partitions.saturating_mul(2));
    let settings = KeyspaceSettings { name, partitions, ..KeyspaceSettings::default() };
    let altered = admin::alter(&client, settings).await?;
    output::note_done(output::COMMAND);
    print_one(&place, altered)?;
    Ok(CommandEnding::Done)
}

/// Checks that each disk has room for a second copy of the keyspace's data, beside the reserve. Nodes report the data of all of
/// their copies as one sum, so each counts as having an equal part. A node that did not answer is not judged.
fn check_room(status: &Status, name: &str) -> Result<(), CommandError> {
    let with_disk = status.nodes.iter().filter(|node| node.disk_total_bytes > 0);
    let nodes = with_disk.clone().count().max(1) as u64;
    let stored = status.keyspaces.iter().find(|found| found.name == name).map_or(0, |found| found.log_bytes);
    let copy_bytes = stored.div_ceil(nodes);
    let needed = DISK_RESERVE_BYTES + copy_bytes;
    match with_disk.min_by_key(|node| node.disk_free_bytes).filter(|node| node.disk_free_bytes < needed) {
        None => Ok(()),
        Some(node) => Err(CommandError::RefusedAs {
            word: "no_room",
            reason: format!(
                "a split makes a second copy of the data of each node, here about {}, and leaves {} free: node {} has only {} free. \
                 Make room first; with --without-room it is split anyway, and partitions without room are not served until there is",
                format_bytes(copy_bytes),
                format_bytes(DISK_RESERVE_BYTES),
                node.id,
                format_bytes(node.disk_free_bytes),
            ),
        }),
    }
}

#[cfg(test)]
mod tests {
    use zerohop_wire::admin::{KeyspaceStatus, NodeStatus};

    use super::*;

    const MIB: u64 = 1 << 20;

    fn status(free: &[u64], log_bytes: u64) -> Status {
        let node = |(at, free): (usize, &u64)| NodeStatus {
            id: at as u32 + 1,
            disk_free_bytes: *free,
            disk_total_bytes: 1_000 * MIB,
            ..NodeStatus::default()
        };
        Status {
            nodes: free.iter().enumerate().map(node).collect(),
            keyspaces: vec![KeyspaceStatus { name: "k".to_owned(), log_bytes, ..KeyspaceStatus::default() }],
            ..Status::default()
        }
    }

    #[test]
    fn split_needs_a_second_copy_beside_the_reserve_on_each_node() {
        assert!(check_room(&status(&[65 * MIB], 0), "k").is_ok());
        assert!(check_room(&status(&[59 * MIB], 0), "k").is_err());
        assert!(check_room(&status(&[500 * MIB, 164 * MIB, 500 * MIB], 300 * MIB), "k").is_ok());
        let refused = check_room(&status(&[500 * MIB, 163 * MIB, 500 * MIB], 300 * MIB), "k");
        let Err(CommandError::RefusedAs { word, reason }) = refused else { panic!("{refused:?}") };
        assert!(word == "no_room" && reason.contains("node 2 has only 170.9 MB"), "{reason}");
        // A node in memory, or one that did not answer, has no disk.
        let mut unknown = status(&[0], 300 * MIB);
        unknown.nodes[0].disk_total_bytes = 0;
        assert!(check_room(&unknown, "k").is_ok());
    }
}
