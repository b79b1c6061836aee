//! A new map: partitions come, change and go.

use std::fmt;

use zerohop_engine::EngineError;
use zerohop_engine::disk::Disk;
use zerohop_placement::{Change, KeyspaceConfig, MapDelta, MapError};
use zerohop_wire::Failure;
use zerohop_wire::ids::{KeyspaceId, PartitionId};

use super::clock::Time;
use super::open::{OpenError, durability, engine_id, newest_keyspace, open_partition};
use super::table::Found;
use super::{Effects, Instance, relay};

/// Why an instance could not follow a change of the map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MapChangeError {
    /// The change does not follow the map that it has: nothing was done; send the whole map.
    Map(MapError),
    /// The map was changed, but a partition could not be opened, altered or removed; it is not served.
    Partition(OpenError),
}

impl fmt::Display for MapChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MapChangeError::Map(error) => error.fmt(f),
            MapChangeError::Partition(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for MapChangeError {}

impl From<EngineError> for MapChangeError {
    fn from(error: EngineError) -> MapChangeError {
        MapChangeError::Partition(OpenError::Engine(error))
    }
}

impl<D: Disk> Instance<D> {
    /// Follows a change of the map: takes up the partitions that it now holds, applies what was altered, gives away and
    /// removes what it no longer holds.
    ///
    /// # Errors
    /// See [`MapChangeError`].
    pub fn apply_map(
        &mut self,
        now: Time,
        delta: &MapDelta,
        effects: &mut dyn Effects,
    ) -> Result<(), MapChangeError> {
        self.clock.advance(now);
        // What is held back is answered under the map that it came under.
        self.end_of_batch(now, effects);
        self.history.push(delta).map_err(MapChangeError::Map)?;
        self.newest_keyspace = self.newest_keyspace.max(newest_keyspace(self.history.map()));
        let mut result = Ok(());
        let mut keyspaces = touched(delta);
        if delta.is_whole() {
            // Those that it does not tell of are gone.
            keyspaces.extend(self.table.keyspaces());
            keyspaces.sort_unstable();
            keyspaces.dedup();
        }
        for keyspace in keyspaces {
            // One keyspace in trouble must not keep the others from their change.
            result = result.and(self.follow(keyspace, effects));
        }
        result
    }

    /// Brings what is held of one keyspace in line with the map.
    fn follow(&mut self, keyspace: KeyspaceId, effects: &mut dyn Effects) -> Result<(), MapChangeError> {
        let map = self.map().clone();
        let Some(found) = map.keyspace(keyspace) else { return self.give_up(keyspace, effects) };
        let config = found.config();
        self.alter(keyspace, config, effects)?;
        let mut result = Ok(());
        for (id, group) in found.groups() {
            let is_ours = group.primary == self.identity.instance;
            let outcome = match self.table.find(keyspace, id) {
                Found::Here(slot, _) if is_ours => {
                    self.table.set_epoch(slot, group.epoch);
                    Ok(())
                }
                Found::Here(..) => self.drop_partition(keyspace, id, effects),
                _ if is_ours => self.take_up(keyspace, id, config, group),
                _ => Ok(()),
            };
            result = result.and(outcome);
        }
        result
    }

    fn take_up(
        &mut self,
        keyspace: KeyspaceId,
        id: PartitionId,
        config: &KeyspaceConfig,
        group: zerohop_placement::Group<'_>,
    ) -> Result<(), MapChangeError> {
        let (partition, _) = open_partition(&mut self.engine, keyspace, id, config, group)
            .map_err(MapChangeError::Partition)?;
        self.table.add(keyspace, config.partitions.get(), id, partition);
        Ok(())
    }

    fn alter(
        &mut self,
        keyspace: KeyspaceId,
        config: &KeyspaceConfig,
        effects: &mut dyn Effects,
    ) -> Result<(), MapChangeError> {
        let Instance { engine, table, history, connections, counters, .. } = self;
        let mut relay = relay(history, connections, counters, effects);
        for slot in table.of(keyspace) {
            table.set_durability(slot, engine, durability(config), &mut relay)?;
        }
        Ok(())
    }

    /// The keyspace is gone, and all that is in it.
    fn give_up(&mut self, keyspace: KeyspaceId, effects: &mut dyn Effects) -> Result<(), MapChangeError> {
        let mut result = Ok(());
        for slot in self.table.of(keyspace) {
            let id = self.table.place(slot).partition;
            result = result.and(self.drop_partition(keyspace, id, effects));
        }
        result
    }

    /// Serves a partition no more, and removes its files: the map names others, or nobody.
    fn drop_partition(
        &mut self,
        keyspace: KeyspaceId,
        id: PartitionId,
        effects: &mut dyn Effects,
    ) -> Result<(), MapChangeError> {
        let Found::Here(slot, _) = self.table.find(keyspace, id) else { return Ok(()) };
        let failure = match self.map().keyspace(keyspace) {
            None => Failure::UnknownKeyspace { keyspace },
            Some(_) => Failure::Unavailable { retry_after_ms: crate::limits::UNAVAILABLE_RETRY_MS },
        };
        let Instance { engine, table, history, connections, counters, .. } = self;
        table.release(slot, &failure, &mut relay(history, connections, counters, effects));
        table.remove(slot);
        engine.drop_partition(engine_id(keyspace, id))?;
        Ok(())
    }
}

/// The keyspaces that a change tells of, each once.
fn touched(delta: &MapDelta) -> Vec<KeyspaceId> {
    let of = |change: &Change| match change {
        Change::CreateKeyspace { id, .. }
        | Change::AlterKeyspace { id, .. }
        | Change::DropKeyspace(id)
        | Change::SplitKeyspace(id) => Some(*id),
        Change::SetGroup { keyspace, .. } => Some(*keyspace),
        Change::PutNode(_) | Change::RemoveNode(_) => None,
    };
    let mut ids: Vec<KeyspaceId> = delta.changes.iter().filter_map(of).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}
