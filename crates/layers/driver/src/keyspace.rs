//! The keyspace of a layer.

use zerohop_client::KeyOrder;
use zerohop_wire::admin::KeyspaceSettings;

/// How the partitions of a layer are stored.
#[derive(Clone, Debug, Default)]
pub struct StorageSettings {
    /// The number of copies; nothing for the default of the cluster.
    pub replicas: Option<u32>,
    /// The number of copies that must have a write before it is acknowledged; nothing for the default of the cluster.
    pub min_in_sync: Option<u32>,
    /// When a write counts as stored; nothing for the default of the cluster.
    pub durability: Option<String>,
}

impl StorageSettings {
    /// The settings of an ordered keyspace with a region for each partition, which a manager creates. At each of `separators` a region begins.
    #[must_use]
    pub fn keyspace(self, name: String, separators: Vec<Vec<u8>>) -> KeyspaceSettings {
        let Self { replicas, min_in_sync, durability } = self;
        // A node that does not know separators refuses the number.
        let partitions = u32::try_from(separators.len() + 1).ok().filter(|_| !separators.is_empty());
        KeyspaceSettings {
            name,
            partitions,
            hash: Some(KeyOrder::ORDERED.to_owned()),
            replicas,
            min_in_sync,
            durability,
            split_at: separators,
            ..KeyspaceSettings::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keyspace_has_a_region_more_than_separators() {
        let settings = |separators| StorageSettings::default().keyspace("jobs".to_owned(), separators);
        let one = settings(Vec::new());
        assert_eq!((one.partitions, one.hash.as_deref()), (None, Some(KeyOrder::ORDERED)));
        let three = settings(vec![vec![1], vec![2]]);
        assert_eq!((three.partitions, three.split_at), (Some(3), vec![vec![1], vec![2]]));
    }
}
