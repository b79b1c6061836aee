//! The place of this node in the map.

use zerohop_wire::ids::{InstanceId, NodeId};

/// A node and its instances, as the map has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OwnNode {
    pub(super) node: NodeId,
    pub(super) first_instance: InstanceId,
    pub(super) instances: u32,
}

impl OwnNode {
    pub(super) fn has(&self, instance: InstanceId) -> bool {
        let first = self.first_instance.get();
        (first..first + self.instances).contains(&instance.get())
    }

    pub(super) fn instances(&self) -> impl Iterator<Item = InstanceId> {
        let first = self.first_instance.get();
        (first..first + self.instances).map(InstanceId)
    }
}
