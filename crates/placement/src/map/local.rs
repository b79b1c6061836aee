//! The map of a store inside one process, which belongs to no cluster.

use std::collections::BTreeMap;
use std::sync::Arc;

use zerohop_wire::ids::KeyspaceId;

use super::{ClusterMap, Groups, Keyspace, MapError};
use crate::keyspace::KeyspaceConfig;

/// The id of the only keyspace of a local store. No keyspace of a cluster has it. An engine names its partitions by their numbers
/// alone.
pub const LOCAL_KEYSPACE: KeyspaceId = KeyspaceId::NONE;

impl ClusterMap {
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
        let keyspace = Keyspace { config, splits: 0, is_dropping: false, groups: groups.table().clone() };
        Ok(ClusterMap { keyspaces: BTreeMap::from([(id, Arc::new(keyspace))]), ..ClusterMap::default() })
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
