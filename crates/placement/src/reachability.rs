//! The nodes that answer a node, and what that means for replica groups: the one rule for all reports.

use std::collections::BTreeSet;

use zerohop_wire::ids::{InstanceId, NodeId};

use crate::map::{ClusterMap, Group, GroupState};

/// What a node knows of the others that the map does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reachability {
    /// The control group decides, as far as the node knows.
    pub has_quorum: bool,
    /// Nodes that are up in the map and do not answer the node.
    pub silent: BTreeSet<NodeId>,
}

/// How a replica group is served, as a node sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupService {
    /// It is served.
    Served,
    /// Its primary is up, and an in-sync replica does not answer, so that writes stand still.
    Stuck,
    /// Its primary is up in the map and does not answer.
    PrimarySilent,
    /// It has no primary.
    NoPrimary,
}

impl Reachability {
    /// All nodes answer, and there is a quorum.
    pub const ALL: Reachability = Reachability { has_quorum: true, silent: BTreeSet::new() };

    /// How a group is served.
    pub fn service(&self, map: &ClusterMap, group: &Group<'_>) -> GroupService {
        let is_silent = |instance: InstanceId| {
            map.instance(instance).is_some_and(|found| self.silent.contains(&found.node))
        };
        let is_gone = |instance: InstanceId| map.is_down(instance) || is_silent(instance);
        if group.state == GroupState::Recovering || map.is_down(group.primary) {
            GroupService::NoPrimary
        } else if is_silent(group.primary) {
            GroupService::PrimarySilent
        } else if group.in_sync.iter().any(|one| is_gone(*one)) {
            GroupService::Stuck
        } else {
            GroupService::Served
        }
    }
}

impl Default for Reachability {
    fn default() -> Self {
        Reachability::ALL
    }
}

impl GroupService {
    /// Whether no primary answers.
    pub fn lacks_primary(self) -> bool {
        matches!(self, GroupService::PrimarySilent | GroupService::NoPrimary)
    }
}

#[cfg(test)]
mod tests {
    use zerohop_wire::ids::{Incarnation, MapEpoch, PartitionEpoch};

    use super::*;
    use crate::map::{Address, MapChange, MapDelta, Node, NodeState, ReplicaGroup};

    #[test]
    fn service_of_a_group_depends_on_its_nodes_in_the_map_and_on_silent_ones() {
        let node = |id: u32, state| Node {
            id: NodeId(id),
            state,
            incarnation: Incarnation(1),
            manager: Address::new(&format!("n{id}:1")).unwrap(),
            first_instance: InstanceId(id),
            instances: vec![Address::new(&format!("n{id}:2")).unwrap()],
        };
        let states = [NodeState::Up, NodeState::Up, NodeState::Down, NodeState::Up];
        let changes = (1..).zip(states).map(|(id, state)| MapChange::PutNode(node(id, state))).collect();
        let delta = MapDelta { from: MapEpoch(0), to: MapEpoch(1), changes };
        let map = ClusterMap::default().apply(&delta).unwrap();
        let silent = Reachability { has_quorum: true, silent: BTreeSet::from([NodeId(4)]) };
        let group = |primary: u32, in_sync: u32, state| ReplicaGroup {
            in_sync: vec![InstanceId(in_sync)],
            state,
            ..ReplicaGroup::of_one(PartitionEpoch(1), InstanceId(primary))
        };
        let (stable, recovering) = (GroupState::Stable, GroupState::Recovering);
        for (group, service) in [
            (group(1, 2, stable), GroupService::Served),
            (group(1, 2, recovering), GroupService::NoPrimary),
            (group(3, 1, stable), GroupService::NoPrimary),
            (group(4, 1, stable), GroupService::PrimarySilent),
            (group(1, 4, stable), GroupService::Stuck),
            (group(1, 3, stable), GroupService::Stuck),
        ] {
            assert_eq!(silent.service(&map, &group.as_group()), service, "{group:?}");
        }
        let group = group(4, 1, stable);
        assert_eq!(Reachability::ALL.service(&map, &group.as_group()), GroupService::Served);
    }
}
