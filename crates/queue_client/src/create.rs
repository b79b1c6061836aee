//! The keyspace of a queue.

use zerohop_layer_queue::keys;
use zerohop_placement::KeyOrder;
use zerohop_wire::admin::KeyspaceSettings;

/// How the partitions of a queue are stored.
#[derive(Clone, Debug, Default)]
pub struct QueueSettings {
    /// The number of copies; nothing for the default of the cluster.
    pub replicas: Option<u32>,
    /// The number of copies that must have a push before it is acknowledged; nothing for the default of the cluster.
    pub min_in_sync: Option<u32>,
    /// When a push counts as stored; nothing for the default of the cluster.
    pub durability: Option<String>,
}

/// The settings of the keyspace of a queue, which a manager creates. It is ordered, with a region for each partition.
#[must_use]
pub fn new_queue(name: String, partitions: u32, settings: QueueSettings) -> KeyspaceSettings {
    let QueueSettings { replicas, min_in_sync, durability } = settings;
    let split_at = keys::separators(partitions);
    KeyspaceSettings {
        name,
        // A node that does not know separators refuses the number.
        partitions: (!split_at.is_empty()).then_some(partitions),
        hash: Some(KeyOrder::ORDERED.to_owned()),
        replicas,
        min_in_sync,
        durability,
        split_at,
        ..KeyspaceSettings::default()
    }
}
