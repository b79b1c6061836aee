//! Whether a partition has a primary that can serve, as far as the map tells.

use zerohop_wire::ids::InstanceId;

use super::{ClusterMap, Group, GroupState, NodeState};

impl ClusterMap {
    /// Whether a group waits for members that are down. No replica serves it until one of them returns, or until the operator declares that they
    /// will not return (`zerohop recover`). A primary that is down does not count if an in-sync replica is up, because that replica takes over at
    /// once.
    pub fn is_unavailable(&self, group: Group<'_>) -> bool {
        let mut in_sync = std::iter::once(group.primary).chain(group.in_sync.iter().copied());
        match group.state {
            GroupState::Stable | GroupState::Admitting => in_sync.all(|instance| self.is_down(instance)),
            // If the other members were sufficient, the recovery would have ended.
            GroupState::Recovering => in_sync.any(|instance| self.is_down(instance)),
        }
    }

    /// Whether the node of an instance is down, or was removed.
    pub fn is_down(&self, instance: InstanceId) -> bool {
        let node = self.instance(instance).and_then(|instance| self.node(instance.node));
        node.is_none_or(|node| node.state() == NodeState::Down)
    }
}

#[cfg(test)]
mod tests {
    use zerohop_wire::ids::{Incarnation, MapEpoch, NodeId, PartitionEpoch};

    use super::super::{Address, MapChange, MapDelta, Node, ReplicaGroup};
    use super::*;

    #[test]
    fn group_is_unavailable_when_required_logs_are_down() {
        let node = |id: u32, state| Node {
            id: NodeId(id),
            state,
            incarnation: Incarnation(1),
            manager: Address::new(&format!("n{id}:1")).unwrap(),
            first_instance: InstanceId(id),
            instances: vec![Address::new(&format!("n{id}:2")).unwrap()],
        };
        let states = [NodeState::Down, NodeState::Up, NodeState::Draining];
        let put = |(id, state)| MapChange::PutNode(node(id, state));
        let changes = (1..).zip(states).map(put).collect();
        let delta = MapDelta { from: MapEpoch(0), to: MapEpoch(1), changes };
        let map = ClusterMap::default().apply(&delta).unwrap();
        let group = |primary: u32, in_sync: &[u32], followers: &[u32], state| ReplicaGroup {
            in_sync: in_sync.iter().copied().map(InstanceId).collect(),
            followers: followers.iter().copied().map(InstanceId).collect(),
            state,
            ..ReplicaGroup::of_one(PartitionEpoch(1), InstanceId(primary))
        };
        let (settled, recovering) = (GroupState::Stable, GroupState::Recovering);
        for (expected, group) in [
            (false, group(2, &[1], &[], settled)),
            (false, group(1, &[3], &[], settled)),
            (true, group(1, &[], &[2, 3], settled)),
            (true, group(9, &[], &[2], settled)),
            (true, group(2, &[1], &[3], recovering)),
            (false, group(2, &[3], &[1], recovering)),
        ] {
            assert_eq!(map.is_unavailable(group.as_group()), expected, "{group:?}");
        }
    }
}
