//! The current map with its newest changes, from which outdated clients get only what they lack.

use std::collections::VecDeque;
use std::sync::Arc;

use zerohop_wire::ids::MapEpoch;
use zerohop_wire::messages::Map;

use super::{ClusterMap, MapDelta, MapError};
use crate::limits::{HISTORY_BYTES_MAX, HISTORY_DELTAS_MAX};

/// The current map, and the changes that led to it from earlier epochs.
#[derive(Clone, Debug, Default)]
pub struct MapHistory {
    map: Arc<ClusterMap>,
    /// The newest changes, encoded, in order; each starts at the epoch where the one before ended.
    deltas: VecDeque<HistoryStep>,
    bytes: usize,
}

#[derive(Clone, Debug)]
struct HistoryStep {
    from: MapEpoch,
    delta: Arc<MapDelta>,
    bytes: usize,
}

/// The changes that a client lacks, with owned bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapDifference {
    /// The epoch of the map after the changes.
    pub epoch: MapEpoch,
    /// The epoch to which the changes apply; zero if this is the complete map.
    pub since: MapEpoch,
    /// The changes, encoded; empty if there are none.
    pub encoded: Vec<u8>,
}

impl MapHistory {
    /// A history without past changes.
    #[must_use]
    pub fn new(map: Arc<ClusterMap>) -> MapHistory {
        MapHistory { map, deltas: VecDeque::new(), bytes: 0 }
    }

    /// The current map.
    #[must_use]
    pub fn map(&self) -> &Arc<ClusterMap> {
        &self.map
    }

    /// Applies a delta to the current map.
    ///
    /// # Errors
    /// As [`ClusterMap::apply`]; nothing has changed then.
    pub fn push(&mut self, delta: &MapDelta) -> Result<(), MapError> {
        self.map = Arc::new(self.map.apply(delta)?);
        if delta.is_complete() {
            self.deltas.clear();
            self.bytes = 0;
            return Ok(());
        }
        let bytes = delta.encode().len();
        self.deltas.push_back(HistoryStep { from: delta.from, delta: Arc::new(delta.clone()), bytes });
        self.bytes += bytes;
        while self.deltas.len() > HISTORY_DELTAS_MAX || self.bytes > HISTORY_BYTES_MAX {
            let Some(oldest) = self.deltas.pop_front() else { break };
            self.bytes -= oldest.bytes;
        }
        Ok(())
    }

    /// The changes since the map of `epoch`: none if that is as new as this one or newer, the changes if they are known, otherwise the complete
    /// map.
    #[must_use]
    pub fn since(&self, epoch: MapEpoch) -> MapDifference {
        let to = self.map.epoch();
        if epoch >= to {
            return MapDifference { epoch: to, since: epoch, encoded: Vec::new() };
        }
        match self.joined(epoch) {
            Some(delta) => MapDifference { epoch: to, since: epoch, encoded: delta.encode() },
            None => MapDifference { epoch: to, since: MapEpoch(0), encoded: self.map.encode() },
        }
    }

    /// Whether [`MapHistory::since`] returns changes for the map of `epoch`, instead of the complete map.
    #[must_use]
    pub fn knows(&self, epoch: MapEpoch) -> bool {
        epoch >= self.map.epoch() || self.deltas.iter().any(|step| step.from == epoch)
    }

    fn joined(&self, epoch: MapEpoch) -> Option<MapDelta> {
        let first = self.deltas.iter().position(|step| step.from == epoch)?;
        let mut steps = self.deltas.range(first..);
        let mut joined = MapDelta::clone(&steps.next()?.delta);
        for step in steps {
            joined = joined.join(&step.delta).ok()?;
        }
        Some(joined)
    }
}

impl MapDifference {
    /// The answer to `MapGet`.
    #[must_use]
    pub fn as_message(&self) -> Map<'_> {
        Map { epoch: self.epoch, since: self.since, encoded: &self.encoded }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::node;
    use super::*;
    use crate::keyspace::KeyspaceConfig;
    use crate::map::MapChange;
    use crate::map::ReplicaGroup;
    use zerohop_wire::ids::KeyspaceId;

    fn create(map: &ClusterMap, id: u32) -> MapDelta {
        let name = format!("k{id}").parse().expect("is a name");
        let config = KeyspaceConfig::new(name, u64::from(id)).fitted_to(1);
        let groups = ReplicaGroup::spread(&config, &node(1, 10, 2));
        MapDelta {
            from: map.epoch(),
            to: map.epoch().next(),
            changes: vec![MapChange::CreateKeyspace { id: KeyspaceId(id), config, groups: groups.into() }],
        }
    }

    fn history(deltas: u32) -> (MapHistory, Vec<Arc<ClusterMap>>) {
        let first = ClusterMap::of_one_node(node(1, 10, 2), 1).expect("is a map");
        let mut history = MapHistory::new(Arc::new(first));
        let mut maps = vec![Arc::clone(history.map())];
        for id in 2..2 + deltas {
            history.push(&create(history.map(), id)).expect("follows");
            maps.push(Arc::clone(history.map()));
        }
        (history, maps)
    }

    #[test]
    fn lagging_map_catches_up_by_delta() {
        let (history, maps) = history(4);
        for old in &maps {
            let since = history.since(old.epoch());
            assert_eq!(since.epoch, history.map().epoch());
            assert_eq!(since.since, old.epoch());
            assert!(history.knows(old.epoch()));
            if old.epoch() == history.map().epoch() {
                assert!(since.encoded.is_empty());
                continue;
            }
            let delta = MapDelta::decode(&since.encoded).expect("was encoded");
            assert_eq!(old.apply(&delta).as_ref(), Ok(&**history.map()));
        }
    }

    #[test]
    fn old_epoch_gets_the_complete_map() {
        let (history, maps) = history(HISTORY_DELTAS_MAX as u32 + 2);
        let since = history.since(maps[0].epoch());
        assert_eq!(since.since, MapEpoch(0));
        assert!(!history.knows(maps[0].epoch()) && !history.knows(MapEpoch(0)));
        assert_eq!(ClusterMap::decode(&since.encoded).as_ref(), Ok(&**history.map()));
        assert_eq!(history.since(MapEpoch(0)).since, MapEpoch(0));
        let newest = &maps[maps.len() - 2];
        assert_eq!(history.since(newest.epoch()).since, newest.epoch());
        // A newer epoch than this one: the client gets its changes from another node.
        assert!(history.since(MapEpoch(10_000)).encoded.is_empty());
    }

    #[test]
    fn delta_that_does_not_follow_is_refused_without_effect() {
        let (mut history, maps) = history(2);
        let before = history.since(maps[0].epoch());
        assert!(history.push(&create(&maps[0], 9)).is_err());
        assert_eq!(history.since(maps[0].epoch()), before);
    }
}
