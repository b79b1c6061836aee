//! Checks that each epoch has one cluster map: two different maps of an epoch mean that two control
//! groups have decided.

use std::collections::BTreeMap;
use std::sync::Arc;

use zerohop_placement::ClusterMap;
use zerohop_wire::ids::MapEpoch;

/// Number of maps that are remembered: a node that is further behind receives a whole map.
const REMEMBERED_MAX: usize = 4_096;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Maps(BTreeMap<MapEpoch, Arc<ClusterMap>>);

impl Maps {
    /// Records a node's map. Returns whether it equals the other nodes' map of its epoch.
    pub(super) fn see(&mut self, map: &Arc<ClusterMap>) -> bool {
        let known = self.0.entry(map.epoch()).or_insert_with(|| Arc::clone(map));
        let is_same = Arc::ptr_eq(known, map) || known == map;
        if self.0.len() > REMEMBERED_MAX {
            self.0.pop_first();
        }
        is_same
    }
}

#[cfg(test)]
mod tests {
    use zerohop_placement::{MapChange, MapDelta, Node, NodeState};
    use zerohop_wire::ids::{Incarnation, InstanceId, NodeId};

    use super::super::host::{instance_address, manager_address};
    use super::*;

    fn map(changes: Vec<MapChange>) -> Arc<ClusterMap> {
        let empty = ClusterMap::default();
        let delta = MapDelta { from: empty.epoch(), to: empty.epoch().next(), changes };
        Arc::new(empty.apply(&delta).unwrap())
    }

    #[test]
    fn different_maps_of_one_epoch_are_found() {
        let mut maps = Maps::default();
        let one = map(Vec::new());
        assert!(maps.see(&one) && maps.see(&one));
        assert!(maps.see(&map(Vec::new())), "the same, sent to another");
        let joined = Node {
            id: NodeId(1),
            state: NodeState::Up,
            incarnation: Incarnation(7),
            manager: manager_address(0),
            first_instance: InstanceId(1),
            instances: vec![instance_address(0, 0)],
        };
        let other = map(vec![MapChange::PutNode(joined)]);
        assert!(!maps.see(&other), "decided by another group");
    }
}
