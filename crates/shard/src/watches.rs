//! The watches of an instance: the readers of its partitions, added up for each connection, keyspace and selection of keys.

use std::collections::BTreeMap;

use zerohop_partition::{KeySelection, Partition};
use zerohop_wire::ids::KeyspaceId;

use crate::limits::{WATCH_KEY_BYTES_LISTED_MAX, WATCHES_COUNTED_MAX, WATCHES_LISTED_MAX};

/// A watch: what one connection follows of a keyspace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstanceWatch {
    /// The keyspace.
    pub keyspace: KeyspaceId,
    /// The connection.
    pub connection: u64,
    /// The keys that it wants.
    pub selection: KeySelection,
    /// How far it is behind.
    pub progress: WatchProgress,
}

/// How far a watch is behind in the partitions of an instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchProgress {
    /// Partitions that it follows.
    pub partitions: u32,
    /// Partitions that no longer keep all changes behind its position.
    pub gone: u32,
    /// The sum of the changes behind its positions.
    pub changes_behind: u64,
    /// The greatest lag in a partition.
    pub lag_ms: u64,
}

/// The watches of a keyspace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyspaceWatches {
    /// Their number.
    pub watches: u64,
    /// The greatest lag.
    pub lag_ms: u64,
}

/// The watches of an instance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstanceWatches {
    /// The watches with the greatest lag first, up to a maximum number and up to a maximum number of bytes of their keys.
    pub listed: Vec<InstanceWatch>,
    /// All of them, by keyspace.
    pub keyspaces: BTreeMap<KeyspaceId, KeyspaceWatches>,
}

impl InstanceWatches {
    /// The watches of these partitions, each with its keyspace.
    pub(super) fn of<'p>(
        primaries: impl Iterator<Item = (KeyspaceId, &'p Partition)>,
        now_ms: u64,
    ) -> InstanceWatches {
        let mut watches = InstanceWatches::default();
        let mut found: BTreeMap<(KeyspaceId, u64, &KeySelection), WatchProgress> = BTreeMap::new();
        for (keyspace, partition) in primaries {
            for watch in partition.watches(now_ms) {
                let sums = watches.keyspaces.entry(keyspace).or_default();
                sums.lag_ms = sums.lag_ms.max(watch.lag.lag_ms);
                let key = (keyspace, watch.connection, watch.selection);
                if found.len() >= WATCHES_COUNTED_MAX && !found.contains_key(&key) {
                    continue;
                }
                let progress = found.entry(key).or_insert_with(|| {
                    sums.watches += 1;
                    WatchProgress::default()
                });
                progress.partitions += 1;
                progress.gone += u32::from(watch.lag.is_gone);
                progress.changes_behind += watch.lag.changes;
                progress.lag_ms = progress.lag_ms.max(watch.lag.lag_ms);
            }
        }
        let mut found: Vec<_> = found.into_iter().collect();
        found.sort_by_key(|(_, progress)| std::cmp::Reverse((progress.lag_ms, progress.changes_behind)));
        let mut key_bytes = 0;
        for ((keyspace, connection, selection), progress) in found.into_iter().take(WATCHES_LISTED_MAX) {
            key_bytes += selection.bytes();
            if key_bytes > WATCH_KEY_BYTES_LISTED_MAX {
                break;
            }
            let selection = selection.clone();
            watches.listed.push(InstanceWatch { keyspace, connection, selection, progress });
        }
        watches
    }
}
