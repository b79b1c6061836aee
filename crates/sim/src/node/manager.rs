//! The node's manager, as instances see it: it keeps the map and changes it.

use std::sync::Arc;

use zerohop_placement::{
    Address, ClusterMap, Durability, HashKind, KeyspaceConfig, KeyspaceName, MapChange, MapDelta, MapHistory,
    Node, NodeState, PartitionCount, ReplicaGroup, partition_of,
};
use zerohop_wire::ids::{Incarnation, InstanceId, KeyspaceId, MapEpoch, NodeId, PartitionEpoch, PartitionId};
use zerohop_wire::messages::ClusterId;

use crate::limits::SPLITS_MAX;

/// The only cluster.
pub(crate) const CLUSTER: ClusterId = ClusterId(*b"simulated-cluste");

/// The map, and its changes so far.
#[derive(Debug)]
pub(crate) struct Manager {
    pub(crate) history: MapHistory,
    instances: u32,
    next_keyspace: u32,
}

impl Manager {
    pub(crate) fn new(instances: u32) -> Self {
        let history = MapHistory::new(Arc::new(ClusterMap::default()));
        Self { history, instances, next_keyspace: 1 }
    }

    pub(crate) fn map(&self) -> &Arc<ClusterMap> {
        self.history.map()
    }

    /// The address of an instance.
    pub(crate) fn address(instance: u32) -> Address {
        parsed(&format!("node:{}", 7401 + instance))
    }

    /// The instance that listens there; none if it is the manager's address, or unused.
    pub(crate) fn instance_at(&self, address: &str) -> Option<usize> {
        (0..self.instances).find(|at| Self::address(*at).as_str() == address).map(|at| at as usize)
    }

    /// A process starts: every group gets a new epoch, so that it is not confused with the previous
    /// process.
    pub(crate) fn begin(&mut self, incarnation: Incarnation) {
        let node = Node {
            id: NodeId(1),
            state: NodeState::Up,
            incarnation,
            manager: parsed("node:7400"),
            first_instance: InstanceId(0),
            instances: (0..self.instances).map(Self::address).collect(),
        };
        let raised = self.map().keyspaces().flat_map(|(keyspace, found)| {
            found.groups().map(move |(partition, group)| {
                let mut group = group.to_group();
                group.epoch = PartitionEpoch(group.epoch.0 + 1);
                MapChange::SetGroup { keyspace, partition, group }
            })
        });
        let changes = std::iter::once(MapChange::PutNode(node)).chain(raised).collect();
        self.change(changes);
    }

    /// Creates a keyspace, with its partitions spread over the instances.
    pub(crate) fn create(
        &mut self,
        partitions: u32,
        durability: Durability,
        batch_delay_us: u32,
    ) -> (KeyspaceId, MapDelta) {
        let id = KeyspaceId(self.next_keyspace);
        self.next_keyspace += 1;
        let name = KeyspaceName::new(&format!("keyspace-{}", id.0)).expect("is a name");
        let partitions = PartitionCount::new(partitions).expect("is a power of two");
        let config = KeyspaceConfig {
            partitions,
            hash: HashKind::Xxh3,
            durability,
            batch_delay_us,
            batch_bytes: 4 << 10,
            ..KeyspaceConfig::new(name, u64::from(id.0) * 7919).fitted_to(1)
        };
        let group =
            |at: u32| ReplicaGroup::of_one(PartitionEpoch(1), InstanceId((at + id.0) % self.instances));
        let groups = (0..partitions.get()).map(group).collect();
        (id, self.change(vec![MapChange::CreateKeyspace { id, config, groups }]))
    }

    /// Changes a keyspace's durability.
    pub(crate) fn alter(&mut self, id: KeyspaceId, durability: Durability) -> Option<MapDelta> {
        let config = self.map().keyspace(id)?.config().clone();
        Some(
            self.change(vec![MapChange::AlterKeyspace {
                id,
                config: KeyspaceConfig { durability, ..config },
            }]),
        )
    }

    /// Splits every partition of a keyspace, up to `SPLITS_MAX` times.
    pub(crate) fn split(&mut self, id: KeyspaceId) -> Option<MapDelta> {
        let found = self.map().keyspace(id)?;
        (found.splits() < SPLITS_MAX).then(|| self.change(vec![MapChange::SplitKeyspace(id)]))
    }

    /// The smallest hash range of a key's keyspace that splits may make, by its number: its records
    /// always stay in one partition.
    pub(crate) fn slice(&self, id: KeyspaceId, key: &[u8]) -> Option<PartitionId> {
        let found = self.map().keyspace(id)?;
        let config = found.config();
        let finest = PartitionCount::new(config.partitions.get() << (SPLITS_MAX - found.splits()));
        Some(partition_of(config.hash.hash(config.seed, key), finest.expect("is a power of two")))
    }

    pub(crate) fn drop_keyspace(&mut self, id: KeyspaceId) -> MapDelta {
        self.change(vec![MapChange::DropKeyspace(id)])
    }

    fn change(&mut self, changes: Vec<MapChange>) -> MapDelta {
        let from = self.map().epoch();
        let delta = MapDelta { from, to: MapEpoch(from.0 + 1), changes };
        // The changes are this file's own, and every run tries them.
        self.history.push(&delta).expect("the manager's changes fit its map");
        delta
    }
}

fn parsed(address: &str) -> Address {
    Address::new(address).expect("is an address")
}
