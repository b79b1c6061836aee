//! What is told of a keyspace that is being dropped: what that waits for, and what can be done.

use zerohop_placement::{ClusterMap, Group};
use zerohop_wire::admin::REFUSED_CLOSING;
use zerohop_wire::ids::{KeyspaceId, PartitionId};

use super::changes::{Refusal, refusal as refuse};

/// So many partitions are named; of the others, how many there are.
const NAMED_MAX: usize = 4;

/// The keyspace is being dropped, and something is under way there yet.
pub(super) fn refusal(name: &str, waits: &str) -> Refusal {
    let waits = if waits.is_empty() { String::new() } else { format!(" It waits for {waits}.") };
    let reason = format!(
        "keyspace {name} is being dropped: nothing begins in it any more, and it goes once the transactions over it that are under \
         way have ended.{waits} That takes seconds, unless a partition that has a part in one is not served (`zerohop recover` tells \
         which are not). `zerohop keyspace drop {name}` waits for it; with --at-once it goes as it is, which may undo in other \
         keyspaces what was acknowledged"
    );
    refuse(REFUSED_CLOSING, reason)
}

/// Partitions that the drop of a keyspace waits for, if that is known; else those that nobody serves.
pub(super) fn waits(map: &ClusterMap, id: KeyspaceId, undrained: Option<&[PartitionId]>) -> String {
    let Some(found) = map.keyspace(id) else { return String::new() };
    let is_open = |(id, group): &(PartitionId, Group<'_>)| match undrained {
        Some(undrained) => undrained.binary_search(id).is_ok(),
        None => map.is_lost(*group),
    };
    let open: Vec<(PartitionId, Group<'_>)> = found.groups().filter(is_open).collect();
    let named = open.iter().take(NAMED_MAX).map(|(id, group)| {
        let why = match (map.is_lost(*group), map.instance(group.primary)) {
            (true, _) => "lost: nobody serves it before nodes that are down return".to_owned(),
            (false, Some(primary)) => format!("instance {} of node {}", group.primary, primary.node),
            (false, None) => format!("instance {}", group.primary),
        };
        format!("partition {id} ({why})")
    });
    let named = named.collect::<Vec<_>>().join(", ");
    match open.len().saturating_sub(NAMED_MAX) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}
