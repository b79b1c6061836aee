//! The first map of a standalone node, and the placement of a keyspace on it.

use zerohop_wire::ids::{InstanceId, KeyspaceId, MapEpoch, PartitionEpoch};

use super::{ClusterMap, MapChange, MapDelta, MapError, Node, ReplicaGroup};
use crate::hash::finalise;
use crate::keyspace::KeyspaceConfig;

/// The id of the keyspace `default`.
pub const DEFAULT_KEYSPACE: KeyspaceId = KeyspaceId(1);

impl ClusterMap {
    /// The first map of a standalone node: the node itself and the keyspace `default`, with the given seed, spread over its instances.
    pub fn of_one_node(node: Node, seed: u64) -> Result<ClusterMap, MapError> {
        let config = KeyspaceConfig::default_keyspace(seed).fitted_to(1);
        let groups = ReplicaGroup::spread(&config, &node).into();
        let create = MapChange::CreateKeyspace { id: DEFAULT_KEYSPACE, config, groups };
        let changes = vec![MapChange::PutNode(node), create];
        ClusterMap::default().apply(&MapDelta { from: MapEpoch(0), to: MapEpoch(1), changes })
    }
}

impl ReplicaGroup {
    /// Groups of one member for the partitions of a new keyspace: round robin over the instances of `node`. The keyspace's seed determines the
    /// first instance, so that the first partitions of all keyspaces are not on the same core.
    ///
    /// The result is empty for a node without instances, and no map accepts it.
    pub fn spread(config: &KeyspaceConfig, node: &Node) -> Vec<ReplicaGroup> {
        let instances: Vec<InstanceId> =
            (node.first_instance.get()..).map(InstanceId).take(node.instances.len()).collect();
        let count = instances.len().max(1);
        let offset = (finalise(config.seed) % count as u64) as usize;
        let turned = instances.iter().cycle().skip(offset).take(config.partitions.get() as usize);
        turned.map(|instance| ReplicaGroup::of_one(PartitionEpoch(1), *instance)).collect()
    }
}
