//! A keyspace that a client has opened.

use crate::KeyspaceLookup;
use zerohop_placement::{Division, KeyOrder, KeyspaceConfig};
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

    /// How its keys were divided among partitions at the time it was opened.
    #[must_use]
    pub fn division(&self) -> &Division {
        &self.found.division
    }

    /// Returns a point of a key's partition, which in a hashed keyspace is the hash of the key, and the partition. Both are of the time at which the
    /// keyspace was opened.
    pub(crate) fn point_and_partition(&self, key: &[u8]) -> (u64, PartitionId) {
        let partition = self.division().partition(key);
        let point = match self.config().order {
            KeyOrder::Hashed => self.config().hash_of(key),
            KeyOrder::Ordered => self.division().points(partition).map_or(0, |points| *points.start()),
        };
        (point, partition)
    }
}
