//! A new map: partitions are added, changed and removed.

use std::collections::BTreeSet;
use std::fmt;

use zerohop_engine::EngineError;
use zerohop_engine::disk::Disk;
use zerohop_partition::limits::UNAVAILABLE_RETRY_MS;
use zerohop_placement::{ClusterMap, GroupState, Keyspace, KeyspaceConfig, MapChange, MapDelta, MapError};
use zerohop_transaction::KeyspaceRange;
use zerohop_wire::Failure;
use zerohop_wire::ids::{KeyspaceId, PartitionId};

use super::clock::ClockReading;
use super::engine_name::engine_id;
use super::member_options::durability;
use super::open::newest_keyspace;
use super::open_error::InstanceOpenError;
use super::partitions::{is_shared, view_of};
use super::{Instance, InstanceEffects};
use crate::limits::FOLLOW_AGAIN_MS;
use zerohop_replication::{GroupView, ReplicaEvent};

/// Keyspaces whose change could not be carried out, and when the instance tries again, on the monotonic clock.
#[derive(Debug, Default)]
pub(super) struct MapBacklog {
    keyspaces: BTreeSet<KeyspaceId>,
    again_ms: u64,
}

impl MapBacklog {
    pub(super) fn next_tick_ms(&self, elapsed_ms: u64) -> u64 {
        if self.keyspaces.is_empty() { u64::MAX } else { self.again_ms.max(elapsed_ms + 1) }
    }
}

/// Why an instance could not follow a change of the map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MapChangeError {
    /// The change does not follow the instance's map. Nothing was done; send the complete map.
    Map(MapError),
    /// The map was changed, but a partition could not be opened, altered or removed. It is not served.
    Partition(InstanceOpenError),
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
        MapChangeError::Partition(InstanceOpenError::Engine(error))
    }
}

impl<D: Disk> Instance<D> {
    /// Follows a change of the map: opens the partitions that are newly assigned, applies altered settings, and passes on and
    /// removes the partitions that are no longer assigned. Failed steps are tried again.
    ///
    /// # Errors
    /// See [`MapChangeError`].
    pub fn apply_map(
        &mut self,
        now: ClockReading,
        delta: &MapDelta,
        effects: &mut dyn InstanceEffects,
    ) -> Result<(), MapChangeError> {
        self.clock.advance(now);
        // Pending replies are sent under the map under which their requests came. The only copy of a partition that is split
        // passes on what it has applied.
        self.end_of_batch(now, effects);
        if self.partitions.lone_await_flush() {
            self.wait_flushes(effects);
        }
        let before = self.map().clone();
        self.history.push(delta).map_err(MapChangeError::Map)?;
        self.partitions.set_map(self.history.map().epoch());
        if changes_node_states(delta) {
            self.partitions.set_nodes(self.history.map());
        }
        self.newest_keyspace = self.newest_keyspace.max(newest_keyspace(self.history.map()));
        if changes_tokens(delta) {
            for key in self.partitions.by.with_waits() {
                self.notify_replica(key, ReplicaEvent::TokensChanged, effects);
            }
        }
        self.begin_splits(&before, delta, effects);
        let mut result = Ok(());
        let mut keyspaces = touched(delta);
        if delta.is_complete() {
            // Keyspaces that the change does not mention are gone.
            keyspaces.extend(self.partitions.keyspaces());
            keyspaces.sort_unstable();
            keyspaces.dedup();
        }
        self.readiness.follow(self.history.map(), &keyspaces);
        for keyspace in keyspaces {
            // A failure in one keyspace must not keep the others from their change.
            let followed = self.follow(keyspace, effects);
            result = result.and(self.note_failed_change(keyspace, followed));
        }
        let moved = moved_primaries(&before, self.map(), delta);
        self.send_again(&moved, effects);
        result
    }

    /// A keyspace whose change failed is tried again, now and then. A full disk is no reason to request another map.
    fn note_failed_change(
        &mut self,
        keyspace: KeyspaceId,
        followed: Result<(), MapChangeError>,
    ) -> Result<(), MapChangeError> {
        let Err(error) = followed else { return Ok(()) };
        self.failed_map_changes.keyspaces.insert(keyspace);
        self.failed_map_changes.again_ms = self.clock.elapsed_ms() + FOLLOW_AGAIN_MS;
        match error {
            MapChangeError::Partition(InstanceOpenError::Engine(
                error @ (EngineError::DiskFull { .. } | EngineError::Scarce { .. }),
            )) => {
                self.counters.record_error(&error);
                Ok(())
            }
            other => Err(other),
        }
    }

    /// Tries the failed changes again, at the end of each batch.
    pub(super) fn follow_again(&mut self, effects: &mut dyn InstanceEffects) {
        if self.failed_map_changes.keyspaces.is_empty()
            || self.clock.elapsed_ms() < self.failed_map_changes.again_ms
        {
            return;
        }
        for keyspace in std::mem::take(&mut self.failed_map_changes.keyspaces) {
            let followed = self.follow(keyspace, effects);
            if let Err(error) = self.note_failed_change(keyspace, followed) {
                self.counters.record_error_text(error.to_string());
            }
        }
    }

    /// A partition could not be opened, so the change of its keyspace is tried again.
    pub(super) fn follow_later(&mut self, keyspace: KeyspaceId, error: &MapChangeError) {
        self.failed_map_changes.keyspaces.insert(keyspace);
        self.failed_map_changes.again_ms = self.clock.elapsed_ms() + FOLLOW_AGAIN_MS;
        match error {
            MapChangeError::Partition(InstanceOpenError::Engine(error)) => self.counters.record_error(error),
            other => self.counters.record_error_text(other.to_string()),
        }
    }

    /// Drops a partition that the map does not assign to this instance any more. The engine removes its files later, so that
    /// requests do not wait for that.
    fn drop_files(&mut self, keyspace: KeyspaceId, id: PartitionId) -> Result<(), MapChangeError> {
        let id = engine_id(keyspace, self.splits.level(keyspace), id);
        self.engine.drop_partition_later(id).map_err(MapChangeError::from)
    }

    /// Aligns the partitions of one keyspace with the map.
    fn follow(
        &mut self,
        keyspace: KeyspaceId,
        effects: &mut dyn InstanceEffects,
    ) -> Result<(), MapChangeError> {
        let map = self.map().clone();
        let Some(found) = map.keyspace(keyspace) else { return self.remove_keyspace(keyspace, effects) };
        let config = found.config();
        self.alter(keyspace, config, effects)?;
        let mut result = Ok(());
        for id in found.division().partitions() {
            result = result.and(self.follow_one((keyspace, id), found, effects));
        }
        result
    }

    /// Aligns one partition with the map.
    pub(super) fn follow_one(
        &mut self,
        (keyspace, id): (KeyspaceId, PartitionId),
        found: &Keyspace,
        effects: &mut dyn InstanceEffects,
    ) -> Result<(), MapChangeError> {
        let Some(group) = found.group(id).filter(|_| !self.splits.awaits(keyspace, id)) else {
            return Ok(());
        };
        let map = self.map().clone();
        let is_member = group.members().any(|member| member == self.identity.instance);
        let is_lone = is_member && !is_shared(&map, self.identity, group);
        let has_inherited = self.splits.inherited_state(keyspace, id).is_some();
        if !self.partitions.has(keyspace, id) {
            if is_lone && !has_inherited {
                let opened = self.open_lone(keyspace, id, found, group);
                return opened.map(drop).map_err(MapChangeError::Partition);
            }
            if !is_member && !has_inherited {
                return Ok(());
            }
            self.open_shared(keyspace, id, found, group).map_err(MapChangeError::Partition)?;
        }
        self.notify_group((keyspace, id), (&map, found.config(), group), effects);
        if is_member {
            return Ok(());
        }
        // A former primary that leaves the group does not learn the outcomes of the batches that wait for them here.
        let failure = Failure::Unavailable { retry_after_ms: UNAVAILABLE_RETRY_MS };
        self.notify_replica((keyspace, id), ReplicaEvent::Removed(failure), effects);
        self.drop_replica(keyspace, id)
    }

    /// The map names other instances, so the copy here is no longer needed.
    fn drop_replica(&mut self, keyspace: KeyspaceId, id: PartitionId) -> Result<(), MapChangeError> {
        if self.partitions.remove(keyspace, id) { self.drop_files(keyspace, id) } else { Ok(()) }
    }

    /// At a start, opens the partitions that the map assigns to this instance and others. They are in no group before a map names
    /// this start.
    pub(super) fn open_all_shared(
        &mut self,
        all: &[(KeyspaceId, PartitionId)],
    ) -> Result<(), InstanceOpenError> {
        let map = self.map().clone();
        self.partitions.set_map(map.epoch());
        self.partitions.set_nodes(&map);
        for &(keyspace, id) in all {
            let Some(found) = map.keyspace(keyspace) else { continue };
            let Some(group) = found.group(id) else { continue };
            self.open_shared(keyspace, id, found, group)?;
            self.notify_group((keyspace, id), (&map, found.config(), group), &mut super::DiscardAnswers);
        }
        Ok(())
    }

    /// Passes the current group to the replica, and the follower to be admitted, if there is one.
    fn notify_group(
        &mut self,
        key: (KeyspaceId, PartitionId),
        (map, config, group): (&ClusterMap, &KeyspaceConfig, zerohop_placement::Group<'_>),
        effects: &mut dyn InstanceEffects,
    ) {
        // A copy that has left a group is not the only copy, even if one other member remains: it may commit nothing.
        let has_left = !group.members().any(|member| member == self.identity.instance);
        let view = match has_left || is_shared(map, self.identity, group) {
            true => view_of(map, config, group),
            false => GroupView { min_in_sync: config.min_in_sync, ..self.lone_view(group) },
        };
        let target = view.followers.first().copied();
        self.notify_replica(key, ReplicaEvent::Group(view), effects);
        if let Some(target) = target.filter(|_| group.state == GroupState::Admitting) {
            self.notify_replica(key, ReplicaEvent::AdmissionRequested(target), effects);
        }
    }

    fn alter(
        &mut self,
        keyspace: KeyspaceId,
        config: &KeyspaceConfig,
        effects: &mut dyn InstanceEffects,
    ) -> Result<(), MapChangeError> {
        let durability = durability(config);
        for id in self.partitions.of(keyspace) {
            self.with_partitions(effects, |by, context, adapter| {
                by.alter((keyspace, id), context, (durability, config.history), adapter)
            })?;
        }
        Ok(())
    }

    /// The keyspace and all its partitions are gone.
    fn remove_keyspace(
        &mut self,
        keyspace: KeyspaceId,
        effects: &mut dyn InstanceEffects,
    ) -> Result<(), MapChangeError> {
        let mut result = Ok(());
        for id in self.partitions.of(keyspace) {
            self.notify_replica(
                (keyspace, id),
                ReplicaEvent::Removed(Failure::UnknownKeyspace { keyspace }),
                effects,
            );
            result = result.and(self.drop_replica(keyspace, id));
        }
        result.and(self.forget_splits(keyspace, effects).map_err(MapChangeError::from))
    }
}

/// Whether nodes may have gone down, or come up again.
fn changes_node_states(delta: &MapDelta) -> bool {
    let of_node = |change: &MapChange| matches!(change, MapChange::PutNode(_) | MapChange::RemoveNode(_));
    delta.is_complete() || delta.changes.iter().any(of_node)
}

/// Whether tokens may permit less than before.
fn changes_tokens(delta: &MapDelta) -> bool {
    let of_token = |change: &MapChange| matches!(change, MapChange::PutToken(_) | MapChange::RemoveToken(_));
    delta.is_complete() || delta.changes.iter().any(of_token)
}

/// The ranges of partitions whose primary is another one than before.
fn moved_primaries(before: &ClusterMap, now: &ClusterMap, delta: &MapDelta) -> Vec<KeyspaceRange> {
    let of = |change: &MapChange| {
        let MapChange::SetGroup { keyspace, partition, group } = change else { return None };
        let former = before.keyspace(*keyspace)?.group(*partition)?.primary;
        let points = now.keyspace(*keyspace)?.division().points(*partition)?;
        let range = KeyspaceRange { keyspace: *keyspace, first: *points.start(), last: *points.end() };
        (former != group.primary).then_some(range)
    };
    delta.changes.iter().filter_map(of).collect()
}

/// The keyspaces that a change mentions, each once.
fn touched(delta: &MapDelta) -> Vec<KeyspaceId> {
    let of = |change: &MapChange| match change {
        MapChange::CreateKeyspace { id, .. }
        | MapChange::AlterKeyspace { id, .. }
        | MapChange::DropKeyspace(id)
        | MapChange::BeginDropKeyspace(id)
        | MapChange::CancelSplit(id)
        | MapChange::SplitKeyspace(id) => Some(*id),
        MapChange::SetGroup { keyspace, .. }
        | MapChange::HasSplit { keyspace, .. }
        | MapChange::BeginSplit { keyspace, .. }
        | MapChange::SplitRegion { keyspace, .. }
        | MapChange::HasRegions { keyspace, .. } => Some(*keyspace),
        MapChange::PutNode(_)
        | MapChange::RemoveNode(_)
        | MapChange::PutToken(_)
        | MapChange::RemoveToken(_) => None,
    };
    let mut ids: Vec<KeyspaceId> = delta.changes.iter().filter_map(of).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}
