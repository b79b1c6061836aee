//! A keyspace that a client has opened.

use crate::KeyspaceLookup;
use zerohop_placement::{KeyspaceConfig, partition_of};
use zerohop_wire::ids::{KeyspaceId, PartitionId};

use super::cluster_handle::ClusterHandle;

/// A keyspace of the cluster.
#[derive(Clone, Debug)]
pub struct Keyspace {
    client: ClusterHandle,
    found: KeyspaceLookup,
}

impl Keyspace {
    pub(crate) fn new(client: ClusterHandle, found: KeyspaceLookup) -> Self {
        Self { client, found }
    }

    pub(crate) fn client(&self) -> &ClusterHandle {
        &self.client
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> KeyspaceId {
        self.found.id
    }

    /// The configuration of the keyspace at the time it was opened.
    #[must_use]
    pub fn config(&self) -> &KeyspaceConfig {
        &self.found.config
    }

    /// Returns the hash that places a key (in an ordered keyspace, its cell), and the partition of that hash among those that the keyspace had when
    /// it was opened.
    pub(crate) fn hash_and_partition(&self, key: &[u8]) -> (u64, PartitionId) {
        let cell = self.config().cell(key);
        (cell, partition_of(cell, self.config().partitions))
    }
}
