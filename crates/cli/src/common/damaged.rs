//! State that each node reports only of itself, so that all nodes that are up are asked: its
//! troubles, the room on its disk, and partitions whose sole copy is corrupt.

use zerohop_wire::admin::{DamagedPartition, Status};
use zerohop_wire::plurals::counted;

use super::every_node;
use super::target::ClusterTarget;

/// Adds the other nodes' reports to `status`, which is the answer of the first node. Returns the
/// damaged partitions, by keyspace and partition.
pub(crate) async fn find(target: &ClusterTarget, status: &mut Status) -> Vec<DamagedPartition> {
    every_node::add_others(target, status).await;
    let mut found: Vec<_> = status.nodes.iter().flat_map(|node| node.damaged.clone()).collect();
    found.sort_by(|one, other| (&one.keyspace, one.partition).cmp(&(&other.keyspace, other.partition)));
    found.dedup_by(|one, other| (&one.keyspace, one.partition) == (&other.keyspace, other.partition));
    found
}

/// What a copy lacks, as text.
pub(crate) fn lacking(one: &DamagedPartition) -> String {
    let DamagedPartition { found, named, .. } = one;
    match &named[..] {
        [] => "its log ends too early, or has a gap".to_owned(),
        some if *found as usize <= some.len() => some.join("; "),
        some => format!("{}: {}; …", counted(*found, "place"), some.join("; ")),
    }
}
