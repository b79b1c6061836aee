//! Splits: the map splits the partitions of a hashed keyspace by the next bit of the hashes, and a region of an ordered one at a key. Each becomes
//! two on the same members, or more if the instance was away.
//!
//! ```text
//!   map: keyspace split ──> parents stop serving, their clients retry ──> splits start, a few in each batch
//!        (at a start: found in the engine, of an older level)                      │ segments ahead, then the rest
//!                                                                                  v
//!                                children open, each with the parent's log, records, sessions and deadlines
//! ```
//!
//! The engine names a partition by keyspace, number of splits, and partition number. A child is therefore never confused with the
//! older partition of its number; regions have numbers that are never used again, and their keyspace has no splits. A parent is never dropped before its children exist. Until then requests for them are answered
//! `Unavailable`, and their clients retry. Parents whose children are asked for, by clients or by other members, are split first.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use zerohop_engine::disk::Disk;
use zerohop_engine::{Engine, EngineError, EngineResult};
use zerohop_placement::{ClusterMap, KeyOrder, Keyspace, MapChange, MapDelta};
use zerohop_wire::Failure;
use zerohop_wire::ids::{InstanceId, KeyspaceId, PartitionId};

use super::clock::ClockReading;
use super::engine_name::{engine_id, named};
use super::region_sizes::{MeasuredInstance, RegionSizes};
use super::{Instance, InstanceEffect, InstanceEffects, effects_adapter};
use crate::limits::{SPLIT_AGAIN_MS, SPLIT_STEPS_PER_BATCH, SPLITS_PREFERRED_MAX};
use zerohop_partition::limits::UNAVAILABLE_RETRY_MS;
use zerohop_partition::planted::{Bug, is_planted};
use zerohop_partition::{InheritedHistory, MapView};
use zerohop_replication::{Context, InheritedState, Replica, ReplicaEvent};

/// A parent: its keyspace, the splits of the keyspace at that time, and its number.
type ParentName = (KeyspaceId, u8, PartitionId);

/// The splits in progress.
#[derive(Debug, Default)]
pub(super) struct Splits {
    /// The number of splits of each keyspace of which something may be stored; 0 for keyspaces that are not here.
    levels: BTreeMap<KeyspaceId, u8>,
    /// Parents that no longer serve, by keyspace, its splits at that time, and number.
    pending: BTreeMap<ParentName, Parent>,
    /// The parent that waits, of each region that must still be created.
    awaited_regions: BTreeMap<(KeyspaceId, PartitionId), ParentName>,
    /// Parents whose children a client or another member waits for, in the order of the first request. They are split before the
    /// others. Some may be split already.
    preferred: VecDeque<ParentName>,
    /// For children to be opened: the state that their parents, which other members had too, pass on.
    inherited_states: BTreeMap<(KeyspaceId, PartitionId), InheritedState>,
    /// The changes of the parent of the child that is opened now, if the parent was the only copy.
    history_of_child: Option<InheritedHistory>,
    again_ms: u64,
    completed: u64,
    /// Regions that may be split by their size.
    pub(super) sizes: RegionSizes,
}

/// A parent that waits for its split.
#[derive(Debug)]
struct Parent {
    /// The log index of its state, and the state; `None`: it was not open, and its log contains the state.
    state: Option<(u64, Vec<u8>)>,
    inherited: Option<InheritedState>,
    /// The changes that it keeps for readers, if it is the only copy.
    history: Option<InheritedHistory>,
}

impl Splits {
    pub(super) fn level(&self, keyspace: KeyspaceId) -> u8 {
        self.levels.get(&keyspace).copied().unwrap_or(0)
    }

    pub(super) fn set_level(&mut self, keyspace: KeyspaceId, splits: u8) {
        match splits {
            0 => drop(self.levels.remove(&keyspace)),
            _ => drop(self.levels.insert(keyspace, splits)),
        }
    }

    /// Whether this is a parent that waits.
    pub(super) fn waits(&self, name: ParentName) -> bool {
        self.pending.contains_key(&name)
    }

    /// Whether a partition is a child that must still be created.
    pub(super) fn awaits(&self, keyspace: KeyspaceId, partition: PartitionId) -> bool {
        self.waiting_parent(keyspace, partition).is_some()
    }

    /// The waiting parent of a child that must still be created.
    fn waiting_parent(&self, keyspace: KeyspaceId, partition: PartitionId) -> Option<ParentName> {
        if self.pending.is_empty() {
            return None;
        }
        if let Some(parent) = self.awaited_regions.get(&(keyspace, partition)) {
            return Some(*parent);
        }
        let now = self.level(keyspace);
        // This searches by levels and not through all waiting parents, which may be tens of thousands.
        let mut parents =
            (0..now).map(|splits| (keyspace, splits, PartitionId(partition.0 >> (now - splits))));
        parents.find(|parent| self.pending.contains_key(parent))
    }

    /// A client or another member has asked for a child: its parent is split before those that nothing waits for.
    pub(super) fn prefer(&mut self, keyspace: KeyspaceId, partition: PartitionId) {
        if let Some(parent) = self.waiting_parent(keyspace, partition) {
            self.prefer_parent(parent);
        }
    }

    /// The children of the parents that wait, after a change of the map.
    fn await_regions(&mut self, keyspace: KeyspaceId, found: &Keyspace) {
        self.awaited_regions.retain(|(of, _), _| *of != keyspace);
        let waiting = self.pending.keys().filter(|(of, ..)| *of == keyspace);
        let children = waiting.flat_map(|name| {
            found.division().descendants(name.2).into_iter().map(|child| ((keyspace, child), *name))
        });
        self.awaited_regions.extend(children);
    }

    /// A parent waits no longer.
    fn take(&mut self, name: ParentName) -> Option<Parent> {
        self.awaited_regions.retain(|_, parent| *parent != name);
        self.pending.remove(&name)
    }

    fn prefer_parent(&mut self, parent: ParentName) {
        if self.preferred.len() < SPLITS_PREFERRED_MAX && !self.preferred.contains(&parent) {
            self.preferred.push_back(parent);
        }
    }

    /// The parent that is split next.
    pub(super) fn next_parent(&mut self) -> Option<ParentName> {
        while let Some(name) = self.preferred.front() {
            if self.pending.contains_key(name) {
                return Some(*name);
            }
            self.preferred.pop_front();
        }
        self.pending.keys().next().copied()
    }

    pub(super) fn inherited_state(
        &self,
        keyspace: KeyspaceId,
        partition: PartitionId,
    ) -> Option<&InheritedState> {
        self.inherited_states.get(&(keyspace, partition))
    }

    /// The changes that a child continues which is the only copy.
    pub(super) fn take_history(&mut self) -> Option<InheritedHistory> {
        self.history_of_child.take()
    }

    /// A child is open.
    pub(super) fn inherited(&mut self, keyspace: KeyspaceId, partition: PartitionId) {
        self.inherited_states.remove(&(keyspace, partition));
    }

    /// When there is something to do, on the monotonic clock.
    pub(super) fn next_tick_ms(&self, elapsed_ms: u64) -> u64 {
        if self.pending.is_empty() { u64::MAX } else { self.again_ms.max(elapsed_ms + 1) }
    }
}

/// Whether the only change to this keyspace is a single split.
fn is_only_a_split(delta: &MapDelta, keyspace: KeyspaceId) -> bool {
    let about = |change: &&MapChange| match change {
        MapChange::CreateKeyspace { id, .. }
        | MapChange::AlterKeyspace { id, .. }
        | MapChange::DropKeyspace(id)
        | MapChange::BeginDropKeyspace(id)
        | MapChange::CancelSplit(id)
        | MapChange::SplitKeyspace(id) => *id == keyspace,
        MapChange::SetGroup { keyspace: of, .. }
        | MapChange::HasSplit { keyspace: of, .. }
        | MapChange::BeginSplit { keyspace: of, .. }
        | MapChange::SplitRegion { keyspace: of, .. }
        | MapChange::HasRegions { keyspace: of, .. } => *of == keyspace,
        MapChange::PutNode(_) | MapChange::RemoveNode(_) => true,
        MapChange::PutToken(_) | MapChange::RemoveToken(_) => false,
    };
    delta.changes.iter().filter(about).count() == 1
}

/// All partitions that a parent was split into; none if it was not split.
fn all_children_of(found: &Keyspace, (splits, parent): (u8, PartitionId)) -> Vec<PartitionId> {
    if found.config().order == KeyOrder::Ordered {
        return found.division().descendants(parent);
    }
    let Some(further) = found.splits().checked_sub(splits).filter(|further| *further > 0) else {
        return Vec::new();
    };
    let first = parent.0 << further;
    (first..first + (1 << further)).map(PartitionId).collect()
}

/// The children of this partition that this instance must have.
fn children_of(found: &Keyspace, me: InstanceId, parent: (u8, PartitionId)) -> Vec<PartitionId> {
    let is_here =
        |id: &PartitionId| found.group(*id).is_some_and(|group| group.members().any(|member| member == me));
    all_children_of(found, parent).into_iter().filter(is_here).collect()
}

/// Removes a partition at a start. On a full disk the engine continues once there is room.
pub(super) fn drop_stored<D: Disk>(
    engine: &mut Engine<D>,
    id: zerohop_engine::PartitionId,
) -> Result<(), EngineError> {
    match engine.drop_partition(id) {
        Err(EngineError::DiskFull { .. } | EngineError::Scarce { .. }) => Ok(()),
        other => other,
    }
}

/// At a start, splits stored partitions whose keyspace was split since. Splits for which the disk has no room wait.
pub(super) fn split_stored<D: Disk>(
    engine: &mut Engine<D>,
    map: &ClusterMap,
    me: InstanceId,
) -> EngineResult<Splits> {
    let mut splits = Splits::default();
    for (keyspace, found) in map.keyspaces() {
        splits.set_level(keyspace, found.splits());
    }
    let stored: Vec<_> = engine.partitions().collect();
    for (id, handle) in stored {
        let name @ (keyspace, level, parent) = named(id);
        let is_split = |found: &&Keyspace| !all_children_of(found, (level, parent)).is_empty();
        let Some(found) = map.keyspace(keyspace).filter(is_split) else { continue };
        if found.config().durability == zerohop_placement::Durability::Memory {
            continue;
        }
        let children = children_of(found, me, (level, parent));
        let children: Vec<_> =
            children.into_iter().map(|child| engine_id(keyspace, found.splits(), child)).collect();
        let is_dropped = found.config().order == KeyOrder::Ordered && is_planted(Bug::SplitRegionDropped);
        if engine.partition_stats(handle)?.last.1 == 0 || is_dropped {
            // There is nothing to pass on. Either the partition was already split and a crash has interrupted the removal of its
            // folder, while its children may have accepted entries since. Or it was never written.
            drop_stored(engine, id)?;
        } else if !children.is_empty() {
            drop_empty(engine, &children)?;
            // A child with entries is newer: this member left the parent, became a member of the child later, and a crash has brought
            // the parent back.
            let stored: BTreeSet<_> = engine.partitions().map(|(id, _)| id).collect();
            let missing: Vec<_> = children.into_iter().filter(|child| !stored.contains(child)).collect();
            if missing.is_empty() {
                drop_stored(engine, id)?;
                continue;
            }
            match engine.split_partition(id, &missing, None) {
                Ok(None) => splits.completed += 1,
                Err(EngineError::DiskFull { .. } | EngineError::Scarce { .. }) => {
                    splits.pending.insert(name, Parent { state: None, inherited: None, history: None });
                    splits.await_regions(keyspace, found);
                }
                Ok(Some(error)) | Err(error) => return Err(error),
            }
        }
    }
    Ok(splits)
}

/// A failed attempt may have left folders without entries.
fn drop_empty<D: Disk>(engine: &mut Engine<D>, children: &[zerohop_engine::PartitionId]) -> EngineResult<()> {
    for (id, handle) in engine.partitions().filter(|(id, _)| children.contains(id)).collect::<Vec<_>>() {
        if engine.partition_stats(handle)?.last.1 == 0 {
            engine.drop_partition(id)?;
        }
    }
    Ok(())
}

impl<D: Disk> Instance<D> {
    /// Splits regions that have more live bytes than this; `None`: none is split by its size.
    pub fn set_region_limit(&mut self, bytes: Option<u64>) {
        self.splits.sizes = RegionSizes::with_limit(bytes);
    }

    /// Requests a split of the largest region above the limit, at the end of a batch.
    pub(super) fn split_large_regions(&mut self, effects: &mut dyn InstanceEffects) {
        let now_ms = self.clock.elapsed_ms();
        if !self.splits.sizes.is_due(now_ms) {
            return;
        }
        let (map, instance, splits_pending) =
            (self.map().clone(), self.identity.instance, self.splits_pending());
        let Instance { engine, partitions, splits, counters, .. } = self;
        let mut here = MeasuredInstance { engine, partitions, map: &map, instance, splits_pending };
        match splits.sizes.check(now_ms, &mut here) {
            Ok(Some(large)) => effects.push(InstanceEffect::SplitRegion(&large)),
            Ok(None) => {}
            Err(error) => counters.record_error(&error),
        }
    }

    /// The map has split keyspaces. Their partitions here stop serving and wait for their split.
    pub(super) fn begin_splits(
        &mut self,
        before: &ClusterMap,
        delta: &MapDelta,
        effects: &mut dyn InstanceEffects,
    ) {
        let map = self.map().clone();
        for (keyspace, found) in map.keyspaces() {
            let Some(old) = before.keyspace(keyspace) else {
                self.splits.set_level(keyspace, found.splits());
                continue;
            };
            if found.splits() <= old.splits() && found.division().regions() == old.division().regions() {
                continue;
            }
            let follows = !delta.is_complete() && is_only_a_split(delta, keyspace);
            for id in self.partitions.of(keyspace) {
                let name = (keyspace, old.splits(), id);
                let Some(first_child) = all_children_of(found, (old.splits(), id)).first().copied() else {
                    continue;
                };
                if self.partitions.replica(keyspace, id).is_some_and(Replica::is_lone) {
                    self.notify_replica((keyspace, id), ReplicaEvent::Removed(unavailable()), effects);
                    let Some(replica) = self.partitions.take_replica(keyspace, id) else { continue };
                    self.holding.ends_ms = self.holding.ends_ms.max(replica.read_locks_end_ms());
                    let (applied, state, history) = replica.pass_on_lone();
                    let parent = Parent { state: Some((applied, state)), inherited: None, history };
                    self.splits.pending.insert(name, parent);
                    continue;
                }
                let Some(mut inherited) = self.split_shared((keyspace, id), effects) else { continue };
                let children = found.group(first_child).filter(|_| follows);
                if let Some(children) = children
                    && old.group(id).is_some_and(|group| group.epoch == inherited.epoch())
                {
                    inherited.follows_at_once(children.epoch);
                }
                let state = Some((inherited.applied, std::mem::take(&mut inherited.state)));
                let has_replies = !inherited.replies.is_empty();
                let parent = Parent { state, inherited: Some(inherited), history: None };
                self.splits.pending.insert(name, parent);
                if has_replies {
                    self.splits.prefer_parent(name);
                }
            }
            self.split_unopened(keyspace, found);
            self.splits.set_level(keyspace, found.splits());
            self.splits.await_regions(keyspace, found);
        }
    }

    /// Stored partitions of a keyspace that could not be opened are split as well. Their children start with the stored data.
    fn split_unopened(&mut self, keyspace: KeyspaceId, found: &Keyspace) {
        for (id, _) in self.engine.partitions() {
            let (of, level, partition) = named(id);
            let name = (keyspace, level, partition);
            let is_split = of == keyspace && !all_children_of(found, (level, partition)).is_empty();
            if is_split && !self.splits.pending.contains_key(&name) {
                let is_last = level == self.splits.level(keyspace);
                let inherited =
                    if is_last { self.splits.inherited_states.remove(&(keyspace, partition)) } else { None };
                self.splits.pending.insert(name, Parent { state: None, inherited, history: None });
            }
        }
    }

    fn split_shared(
        &mut self,
        key: (KeyspaceId, PartitionId),
        effects: &mut dyn InstanceEffects,
    ) -> Option<InheritedState> {
        let Instance { engine, partitions, history, connections, counters, transit, clock, .. } = self;
        let mut replica = partitions.take_replica(key.0, key.1)?;
        let mut adapter = effects_adapter(history, connections, counters, transit, effects);
        let epoch = replica.view().epoch;
        adapter.origin = super::AnswerOrigin { keyspace: key.0, partition: key.1, epoch, read_lock_us: 0 };
        let now_us = clock.elapsed_ms().saturating_mul(1_000);
        let map = MapView::of(adapter.history.map());
        let mut context = Context { engine, now: clock.now(), now_us, leases: partitions.leases(), map };
        self.holding.ends_ms = self.holding.ends_ms.max(replica.read_locks_end_ms());
        Some(replica.end_by_split(&mut context, &unavailable(), &mut adapter))
    }

    /// Does a bounded part of the waiting splits, at the end of each batch.
    pub(super) fn step_splits(&mut self, effects: &mut dyn InstanceEffects) {
        let elapsed_ms = self.clock.elapsed_ms();
        for _ in 0..SPLIT_STEPS_PER_BATCH {
            if elapsed_ms < self.splits.again_ms {
                return;
            }
            let Some(name) = self.splits.next_parent() else { return };
            if let Err(error) = self.step_split(name, effects) {
                // A full disk may have room again; after other failures the next start continues.
                self.splits.again_ms = elapsed_ms + SPLIT_AGAIN_MS;
                self.splits.preferred.pop_front();
                self.counters.record_error(&error);
            }
        }
    }

    fn step_split(
        &mut self,
        (keyspace, splits, parent): ParentName,
        effects: &mut dyn InstanceEffects,
    ) -> EngineResult<()> {
        let map = self.map().clone();
        let name = (keyspace, splits, parent);
        let id = engine_id(keyspace, splits, parent);
        let Some(found) = map.keyspace(keyspace) else {
            self.forget_parent(name, &Failure::UnknownKeyspace { keyspace }, effects);
            return self.engine.drop_partition(id);
        };
        let children = children_of(found, self.identity.instance, (splits, parent));
        if children.is_empty() {
            self.forget_parent(name, &unavailable(), effects);
            return self.engine.drop_partition(id);
        }
        let ids: Vec<_> = children.iter().map(|child| engine_id(keyspace, found.splits(), *child)).collect();
        if !self.engine.split_ahead(id, &ids)? {
            return Ok(());
        }
        let Some(waiting) = self.splits.pending.get(&name) else { return Ok(()) };
        drop_empty(&mut self.engine, &ids)?;
        let nothing = zerohop_partition::state::PartitionState::default().encode();
        let state =
            waiting.state.as_ref().map(|(applied, state)| match is_planted(Bug::SessionTableNotSplit) {
                true => (*applied, nothing.as_slice()),
                false => (*applied, state.as_slice()),
            });
        if let Some(error) = self.engine.split_partition(id, &ids, state)? {
            self.counters.record_error(&error);
        }
        self.splits.completed += 1;
        let (mut inherited, history) = match self.splits.take(name) {
            Some(parent) => (parent.inherited, parent.history),
            None => (None, None),
        };
        if let Some(inherited) = &mut inherited {
            match children.len() == all_children_of(found, (splits, parent)).len() {
                true => inherited.replies.share_among(u32::try_from(children.len()).unwrap_or(u32::MAX)),
                // Another member knows what became of the entries in the other children.
                false => self.fail_replies((keyspace, parent), inherited, &unavailable(), effects),
            }
        }
        for child in children {
            if let Some(inherited) = &inherited {
                self.splits.inherited_states.insert((keyspace, child), inherited.clone());
            }
            self.splits.history_of_child.clone_from(&history);
            // A child that cannot be opened must not prevent its sibling from opening.
            if let Err(error) = self.follow_one((keyspace, child), found, effects) {
                self.follow_later(keyspace, &error);
            }
        }
        self.splits.history_of_child = None;
        Ok(())
    }

    /// A parent is not split any more.
    fn forget_parent(
        &mut self,
        name: ParentName,
        failure: &Failure<'static>,
        effects: &mut dyn InstanceEffects,
    ) {
        let removed = self.splits.take(name);
        if let Some(mut inherited) = removed.and_then(|parent| parent.inherited) {
            self.fail_replies((name.0, name.2), &mut inherited, failure, effects);
        }
    }

    /// The children that could learn the fate of these replies are not here.
    fn fail_replies(
        &mut self,
        key: (KeyspaceId, PartitionId),
        inherited: &mut InheritedState,
        failure: &Failure<'static>,
        effects: &mut dyn InstanceEffects,
    ) {
        let Instance { history, connections, counters, transit, .. } = self;
        let mut adapter = effects_adapter(history, connections, counters, transit, effects);
        let epoch = inherited.epoch();
        adapter.origin = super::AnswerOrigin { keyspace: key.0, partition: key.1, epoch, read_lock_us: 0 };
        inherited.replies.fail(failure, &mut adapter);
    }

    /// Carries out all waiting splits, however long that takes, for an owner that serves no requests meanwhile.
    pub fn split_all(&mut self, now: ClockReading, effects: &mut dyn InstanceEffects) {
        self.clock.advance(now);
        while !self.splits.pending.is_empty() && self.splits.again_ms <= self.clock.elapsed_ms() {
            self.step_splits(effects);
        }
    }

    /// The number of partitions that were split since the start.
    #[must_use]
    pub fn splits_completed(&self) -> u64 {
        self.splits.completed
    }

    /// The number of children with their primary here whose parents wait for their split.
    pub(super) fn unsplit_primaries(&self) -> u64 {
        let mut count = 0;
        for (keyspace, splits, parent) in self.splits.pending.keys() {
            let Some(found) = self.map().keyspace(*keyspace) else { continue };
            let children = all_children_of(found, (*splits, *parent)).into_iter();
            let is_here = |id: &PartitionId| {
                found.group(*id).is_some_and(|group| group.primary == self.identity.instance)
            };
            count += children.filter(is_here).count() as u64;
        }
        count
    }

    /// The number of partitions that wait for their split.
    #[must_use]
    pub fn splits_pending(&self) -> usize {
        self.splits.pending.len()
    }

    /// The keyspace is gone, and so are its waiting splits.
    pub(super) fn forget_splits(
        &mut self,
        keyspace: KeyspaceId,
        effects: &mut dyn InstanceEffects,
    ) -> EngineResult<()> {
        let mut result = Ok(());
        let names: Vec<_> = self.splits.pending.keys().filter(|name| name.0 == keyspace).copied().collect();
        for name in names {
            self.forget_parent(name, &Failure::UnknownKeyspace { keyspace }, effects);
            result = result.and(self.engine.drop_partition(engine_id(name.0, name.1, name.2)));
        }
        let of_it = self.splits.inherited_states.keys().filter(|(of, _)| *of == keyspace).copied();
        for key in of_it.collect::<Vec<_>>() {
            let Some(mut inherited) = self.splits.inherited_states.remove(&key) else { continue };
            self.fail_replies(key, &mut inherited, &Failure::UnknownKeyspace { keyspace }, effects);
        }
        self.splits.set_level(keyspace, 0);
        result
    }
}

fn unavailable() -> Failure<'static> {
    Failure::Unavailable { retry_after_ms: UNAVAILABLE_RETRY_MS }
}
