//! The keyspace of a log.

use zerohop_layer_log::keys;
use zerohop_placement::KeyOrder;
use zerohop_wire::admin::KeyspaceSettings;

/// How the partitions of a log are stored.
#[derive(Clone, Debug, Default)]
pub struct LogSettings {
    /// The number of copies; nothing for the default of the cluster.
    pub replicas: Option<u32>,
    /// The number of copies that must have an append before it is acknowledged; nothing for the default of the cluster.
    pub min_in_sync: Option<u32>,
    /// When an append counts as stored; nothing for the default of the cluster.
    pub durability: Option<String>,
}

/// The settings of the keyspace of a log, which a manager creates. It is ordered, with a region for each log partition.
#[must_use]
pub fn new_log(name: String, partitions: u32, settings: LogSettings) -> KeyspaceSettings {
    let LogSettings { replicas, min_in_sync, durability } = settings;
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
