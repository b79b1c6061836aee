//! State that each node reports only of itself, so that all nodes that are up are asked: its
//! alerts, the room on its disk, and partitions whose sole copy is corrupt.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;
use zerohop_wire::admin::{DamagedPartition, Status};
use zerohop_wire::words::counted;

use super::admin;
use super::target::ClusterTarget;

/// Most nodes that are asked.
const NODES_QUERIED_MAX: usize = 128;

/// How long a node may take; a node that does not answer in time is left out.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// Adds the other nodes' reports to `status`, which is the answer of the first node. Returns the
/// damaged partitions, by keyspace and partition.
pub(crate) async fn find(target: &ClusterTarget, status: &mut Status) -> Vec<DamagedPartition> {
    let others = status.nodes.iter().filter(|node| node.state != "down" && node.pid == 0);
    let mut asked = JoinSet::new();
    for node in others.take(NODES_QUERIED_MAX) {
        let (target, manager) = (target.clone(), node.manager.clone());
        asked.spawn(timeout(ANSWER_MAX, async move {
            let client = target.connect_at(&manager).await?;
            admin::status(&client).await
        }));
    }
    while let Some(told) = asked.join_next().await {
        let Ok(Ok(Ok(told))) = told else { continue };
        for own in told.nodes.into_iter().filter(|node| node.pid != 0) {
            if let Some(node) = status.nodes.iter_mut().find(|node| node.id == own.id) {
                (node.troubles, node.damaged) = (own.troubles, own.damaged);
                (node.disk_free_bytes, node.disk_total_bytes) = (own.disk_free_bytes, own.disk_total_bytes);
            }
        }
    }
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
