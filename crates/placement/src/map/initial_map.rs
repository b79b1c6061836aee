//! The first map of a standalone node, the placement of a keyspace on it, and the map of a store without nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use zerohop_wire::ids::{InstanceId, KeyspaceId, MapEpoch, PartitionEpoch};

use super::{ClusterMap, Groups, Keyspace, MapChange, MapDelta, MapError, Node, ReplicaGroup};
use crate::hash::finalise;
use crate::keyspace::KeyspaceConfig;

/// The id of the keyspace `default`.
pub const DEFAULT_KEYSPACE: KeyspaceId = KeyspaceId(1);

/// The id of the only keyspace of a local store. No keyspace of a cluster has it. An engine names its partitions by their numbers
/// alone.
pub const LOCAL_KEYSPACE: KeyspaceId = KeyspaceId::NONE;

impl ClusterMap {
    /// The first map of a standalone node: the node itself and the keyspace `default`, with the given seed, spread over its instances.
    pub fn of_one_node(node: Node, seed: u64) -> Result<ClusterMap, MapError> {
        let config = KeyspaceConfig::default_keyspace(seed).fitted_to(1);
        let groups = ReplicaGroup::spread(&config, &node).into();
        let create = MapChange::CreateKeyspace { id: DEFAULT_KEYSPACE, config, groups };
        let changes = vec![MapChange::PutNode(node), create];
        ClusterMap::default().apply(&MapDelta { from: MapEpoch(0), to: MapEpoch(1), changes })
    }

    /// The map of a local store: one keyspace and no nodes. `groups` has the instance of every partition. Its epoch is zero, as that
    /// of a map that is not known yet: an instance removes no stored partition because of it. It is neither sent nor stored.
    ///
    /// # Errors
    /// The configuration or a group is invalid.
    pub fn of_local_store(config: KeyspaceConfig, groups: &Groups) -> Result<ClusterMap, MapError> {
        let id = LOCAL_KEYSPACE;
        config.check().map_err(|error| MapError::Config { keyspace: id, error })?;
        let partitions = config.partitions.get();
        if groups.len() != partitions as usize {
            return Err(MapError::GroupCount { keyspace: id, groups: groups.len(), partitions });
        }
        if let Some((partition, fault)) = groups.table().fault() {
            return Err(MapError::Group { keyspace: id, partition, fault });
        }
        let keyspace = Keyspace::new(config, groups.table().clone());
        Ok(ClusterMap { keyspaces: BTreeMap::from([(id, Arc::new(keyspace))]), ..ClusterMap::default() })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::ReplicaGroup;
    use crate::partitions::PartitionCount;
    use zerohop_wire::ids::{InstanceId, MapEpoch, PartitionEpoch, PartitionId};

    #[test]
    fn local_map_names_the_instance_of_each_partition() {
        let partitions = PartitionCount::new(4).unwrap();
        let config = KeyspaceConfig { partitions, ..KeyspaceConfig::new("local".parse().unwrap(), 1) };
        let config = config.fitted_to(1);
        let group = |n: u32| ReplicaGroup::of_one(PartitionEpoch(1), InstanceId(1 + n / 2));
        let map = ClusterMap::of_local_store(config.clone(), &(0..4).map(group).collect()).unwrap();
        assert_eq!((map.epoch(), map.nodes().count()), (MapEpoch(0), 0));
        let owned: Vec<_> =
            map.partitions_of(InstanceId(2)).map(|(id, partition, _)| (id, partition)).collect();
        assert_eq!(owned, [2, 3].map(|n| (LOCAL_KEYSPACE, PartitionId(n))));
        let few = ClusterMap::of_local_store(config, &(0..3).map(group).collect());
        assert!(matches!(few, Err(MapError::GroupCount { groups: 3, partitions: 4, .. })), "{few:?}");
    }
}
