//! The state of a forced new cluster: one surviving manager bootstraps the control group again. The last
//! decisions of the other managers may be missing from it. Therefore all numbers that count upward jump far
//! ahead of any value that the others can have reached, and nodes that know of later decisions discard them.

use zerohop_placement::{ClusterMap, MapChange, MapDelta, MapHistory, ReplicaGroup};
use zerohop_wire::ids::{MapEpoch, PartitionEpoch};

use super::{ControlState, NodeRecord};
use crate::command::ManagerInfo;
use crate::limits::NEW_CLUSTER_COUNTER_JUMP;

impl ControlState {
    /// See the module. `survivor` gets the mark and returns the only manager.
    pub(crate) fn forced_new(mut self, survivor: impl FnOnce(u64) -> ManagerInfo) -> ControlState {
        self.requests.jump(NEW_CLUSTER_COUNTER_JUMP);
        self.managers = vec![survivor(self.applied_count())];
        let map = self.map().clone();
        for node in map.nodes().map(|node| node.id()) {
            let facts = NodeRecord { unconfirmed: true, ..self.facts(node) };
            self.facts.insert(node, facts);
        }
        let mut changes = Vec::new();
        for (keyspace, found) in map.keyspaces() {
            for (partition, group) in found.groups() {
                let epoch = PartitionEpoch(group.epoch.get() + NEW_CLUSTER_COUNTER_JUMP);
                let group = ReplicaGroup { epoch, ..group.to_group() };
                changes.push(MapChange::SetGroup { keyspace, partition, group });
            }
        }
        let from = map.epoch();
        if from > MapEpoch(0) {
            let delta = MapDelta { from, to: MapEpoch(from.get() + NEW_CLUSTER_COUNTER_JUMP), changes };
            let ahead: Result<ClusterMap, _> = map.apply(&delta);
            // Only epochs have changed, and only upward.
            let ahead = ahead.expect("a map with higher epochs is one");
            self.update_primary_reports(&delta);
            self.history = MapHistory::new(std::sync::Arc::new(ahead));
        }
        self
    }
}
