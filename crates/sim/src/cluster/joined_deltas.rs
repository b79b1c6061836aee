//! Answers about the map that hold the change of a group and its split together: a node or a client that was away gets several
//! changes at once.

use std::collections::BTreeSet;

use zerohop_placement::{ClusterMap, Group, MapChange, MapDelta};
use zerohop_wire::ids::InstanceId;

/// Whether a delta changes a group, and splits it then.
pub(super) fn regroups_and_splits(delta: &MapDelta) -> bool {
    let changes = || delta.changes.iter().enumerate();
    changes().any(|(at, change)| match change {
        MapChange::SetGroup { keyspace: of, partition, .. } => {
            delta.changes[at..].iter().any(|later| match later {
                MapChange::SplitKeyspace(keyspace) => keyspace == of,
                MapChange::SplitRegion { keyspace, region, .. } => (keyspace, region) == (of, partition),
                _ => false,
            })
        }
        _ => false,
    })
}

/// Whether several changes between two maps split a keyspace and give a group of it other members or other roles.
pub(super) fn are_regrouped_and_split(before: &ClusterMap, after: &ClusterMap) -> bool {
    if after.epoch().0 < before.epoch().0 + 2 {
        return false;
    }
    after.keyspaces().any(|(id, keyspace)| {
        let Some(old) = before.keyspace(id).filter(|old| old.division() != keyspace.division()) else {
            return false;
        };
        let were: BTreeSet<_> = old.groups().map(|(_, group)| roles(group)).collect();
        keyspace.groups().any(|(_, group)| !were.contains(&roles(group)))
    })
}

fn roles(group: Group<'_>) -> (InstanceId, Vec<InstanceId>, Vec<InstanceId>) {
    (group.primary, group.in_sync.to_vec(), group.followers.to_vec())
}

#[cfg(test)]
mod tests {
    use zerohop_placement::ReplicaGroup;
    use zerohop_wire::ids::{KeyspaceId, MapEpoch, PartitionEpoch, PartitionId};

    use super::*;

    #[test]
    fn change_of_a_group_counts_only_before_its_split() {
        let (keyspace, region) = (KeyspaceId(1), PartitionId(2));
        let group = ReplicaGroup::of_one(PartitionEpoch(3), InstanceId(1));
        let set = |partition| MapChange::SetGroup { keyspace, partition, group: group.clone() };
        let split =
            || MapChange::SplitRegion { keyspace, region, separator: Box::from(&b"m"[..]), share: 128 };
        let both = |changes| regroups_and_splits(&MapDelta { from: MapEpoch(4), to: MapEpoch(6), changes });
        assert!(both(vec![set(region), split()]));
        assert!(both(vec![set(region), MapChange::SplitKeyspace(keyspace)]));
        assert!(!both(vec![split(), set(region)]));
        assert!(!both(vec![set(PartitionId(1)), split()]));
        assert!(!both(vec![set(region), MapChange::SplitKeyspace(KeyspaceId(2))]));
    }
}
