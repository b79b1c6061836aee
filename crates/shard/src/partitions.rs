//! The partitions of an instance, the leases between the instances, and the messages to them.
//!
//! Every partition is a replica of its group. A partition with a single copy is a replica without other members
//! ([`Replica::is_lone`]): it uses neither leases nor the timestamp bound.

use zerohop_engine::EngineError;
use zerohop_engine::disk::Disk;
use zerohop_placement::map::LOCAL_KEYSPACE;
use zerohop_placement::{ClusterMap, Group, GroupState, Keyspace, KeyspaceConfig, NodeState};
use zerohop_wire::ids::{Incarnation, KeyspaceId, MapEpoch, PartitionId, Timestamp};
use zerohop_wire::messages::{Member, PeerBody, PeerMessage};
use zerohop_wire::{Envelope, Failure};

use super::clock::ClockReading;
use super::effects_adapter::{EffectsAdapter, send_peer};
use super::engine_name::engine_id;
use super::member_options::options_of;
use super::{
    FlushStage, Identity, Instance, InstanceEffect, InstanceEffects, InstanceOpenError, effects_adapter,
};
use crate::limits::{FLUSH_LATER_MS, FLUSH_ROUNDS_MAX, REPORT_SYNCS_MAX, TRANSIT_ROUNDS_MAX};
use zerohop_partition::HashRange;
use zerohop_partition::MapView;
use zerohop_partition::Partition;
use zerohop_partition::Token;
use zerohop_partition::{Program, ProgramResult};
use zerohop_replication::limits::TIMESTAMP_BOUND_AHEAD_MS;
use zerohop_replication::{
    Context, Digest, GroupView, Leases, LogEnd, PartitionKey, Replica, ReplicaEvent, ReplicaTable,
};

/// How often leases and the timestamp bound are checked while batches arrive. Renewals are some tens of milliseconds apart.
const TICK_MS: u64 = 5;

/// How often they are checked though no event arrives: a quarter of a renewal period.
const IDLE_TICK_MS: u64 = 25;

/// How often the free space of the disk is queried.
const DISK_SPACE_CHECK_MS: u64 = 100;

/// The partitions of an instance; see the module.
#[derive(Debug)]
pub(super) struct PartitionTable {
    pub(super) by: ReplicaTable,
    leases: Leases,
    ticked_ms: u64,
    disk_space_checked_ms: u64,
    /// The timestamp bound that the owner was asked to sync.
    requested_timestamp_bound: Timestamp,
    /// The partitions whose flush is in progress.
    flushing: Vec<PartitionKey>,
    /// Since when entries that no client waits for need a flush, in milliseconds of the monotonic clock.
    unflushed_since_ms: Option<u64>,
}

impl PartitionTable {
    pub(super) fn new(identity: Identity, now: ClockReading, timestamp_bound: Timestamp) -> PartitionTable {
        let me = member(identity);
        PartitionTable {
            by: ReplicaTable::default(),
            leases: Leases::new(me, micros(now.elapsed_ms), timestamp_bound),
            ticked_ms: 0,
            disk_space_checked_ms: 0,
            requested_timestamp_bound: timestamp_bound,
            flushing: Vec::new(),
            unflushed_since_ms: None,
        }
    }

    /// Whether the next flush must start now.
    fn is_flush_due(&mut self, elapsed_ms: u64) -> bool {
        let is_due = self.by.needs_flush_now()
            || self.by.has_unflushed()
                && *self.unflushed_since_ms.get_or_insert(elapsed_ms) + FLUSH_LATER_MS <= elapsed_ms;
        if is_due {
            self.unflushed_since_ms = None;
        }
        is_due
    }

    /// Whether other instances have, or had, any of the partitions here.
    #[inline]
    pub(super) fn are_shared(&self) -> bool {
        self.by.shared() > 0
    }

    #[inline]
    pub(super) fn has(&self, keyspace: KeyspaceId, partition: PartitionId) -> bool {
        self.by.get((keyspace, partition)).is_some()
    }

    pub(super) fn of(&self, keyspace: KeyspaceId) -> Vec<PartitionId> {
        self.by.iter().filter(|((of, _), _)| *of == keyspace).map(|((_, partition), _)| partition).collect()
    }

    pub(super) fn keyspaces(&self) -> impl Iterator<Item = KeyspaceId> {
        self.by.keyspaces()
    }

    pub(super) fn replica(&self, keyspace: KeyspaceId, partition: PartitionId) -> Option<&Replica> {
        self.by.get((keyspace, partition))
    }

    pub(super) fn replicas(&self) -> impl Iterator<Item = &Replica> {
        self.by.iter().map(|(_, replica)| replica)
    }

    pub(super) fn len(&self) -> usize {
        self.by.len()
    }

    pub(super) fn remove(&mut self, keyspace: KeyspaceId, partition: PartitionId) -> bool {
        self.by.remove((keyspace, partition)).is_some()
    }

    pub(super) fn take_replica(&mut self, keyspace: KeyspaceId, partition: PartitionId) -> Option<Replica> {
        self.by.remove((keyspace, partition))
    }

    pub(super) fn leases(&self) -> &Leases {
        &self.leases
    }

    pub(super) fn insert(&mut self, keyspace: KeyspaceId, partition: PartitionId, replica: Replica) {
        self.by.insert((keyspace, partition), replica);
    }

    /// All partitions follow this map from now on. Promotions wait for the end of leases granted under older maps.
    pub(super) fn set_map(&mut self, epoch: MapEpoch) {
        self.leases.set_map(epoch);
    }

    /// The set of nodes that are down may have changed with the map.
    pub(super) fn set_nodes(&mut self, map: &ClusterMap) {
        let down = map.nodes().filter(|node| node.state() == NodeState::Down);
        self.leases.set_absent(down.flat_map(|node| node.instances().map(|instance| instance.id)));
    }

    pub(super) fn next_tick_ms(&self) -> u64 {
        let leases_ms = if self.are_shared() { self.ticked_ms + IDLE_TICK_MS } else { u64::MAX };
        // Not before the event that a member waits for.
        leases_ms.min(self.by.next_tick_us().div_ceil(1_000))
    }

    /// Whether a flush is in progress. If the disk does not wake the owner, the owner polls now and then.
    pub(super) fn is_flushing(&self) -> bool {
        !self.flushing.is_empty()
    }

    /// Whether any partition waits for the flush in progress, or for the next.
    pub(super) fn awaits_flush(&self) -> bool {
        self.is_flushing() || self.by.has_unflushed()
    }

    /// Whether any lone partition does.
    pub(super) fn lone_await_flush(&self) -> bool {
        let is_lone = |key: &PartitionKey| self.by.get(*key).is_some_and(Replica::is_lone);
        self.flushing.iter().any(is_lone) || self.by.has_unflushed_lone()
    }

    #[cfg(test)]
    pub(super) fn steps(&self) -> zerohop_replication::Steps {
        self.by.steps()
    }
}

/// The group of a partition as a map names it. An instance that the map does not know has incarnation 0.
pub(super) fn view_of(map: &ClusterMap, config: &KeyspaceConfig, group: Group<'_>) -> GroupView {
    GroupView::of(group, map.epoch(), config.min_in_sync, |instance| {
        map.instance(instance).map_or(Incarnation(0), |found| found.incarnation)
    })
}

/// Whether other instances have the partition too, or this start of the process may not serve it alone. The latter holds if the
/// map names an earlier start, or if the group is recovering.
pub(super) fn is_shared(map: &ClusterMap, identity: Identity, group: Group<'_>) -> bool {
    let known = map.instance(identity.instance).map(|instance| instance.incarnation);
    group.members().count() > 1
        || group.state == GroupState::Recovering
        || known.is_some_and(|incarnation| incarnation != identity.incarnation)
}

fn member(identity: Identity) -> Member {
    Member { instance: identity.instance, incarnation: identity.incarnation }
}

/// The monotonic clock, in the unit of leases.
fn micros(elapsed_ms: u64) -> u64 {
    elapsed_ms.saturating_mul(1_000)
}

impl<D: Disk> Instance<D> {
    /// Sets the timestamp bound that was synced last, as the owner has found it on its disk. The owner must call this before
    /// anything else.
    pub fn begin_above(&mut self, now: ClockReading, timestamp_bound: Timestamp) {
        let by = std::mem::take(&mut self.partitions.by);
        self.partitions = PartitionTable { by, ..PartitionTable::new(self.identity, now, timestamp_bound) };
        self.partitions.set_map(self.history.map().epoch());
        self.partitions.set_nodes(self.history.map());
        self.clock.begin_above(timestamp_bound);
    }

    /// The timestamp bound that [`InstanceEffect::SyncTimestampBound`] requested is on disk.
    pub fn timestamp_bound_synced(&mut self, timestamp_bound: Timestamp) {
        self.partitions.leases.synced(timestamp_bound);
    }

    /// Sets the bytes per second of snapshots sent to other instances, for a move or after an absence. 0: unlimited, as long as
    /// requests do not wait.
    pub fn set_copy_rate(&mut self, bytes_per_s: u64) {
        self.partitions.by.set_copy_rate(bytes_per_s);
    }

    /// Sets the bytes per second of scrubbing in the logs of shared partitions; 0: none. The initial value is
    /// [`zerohop_replication::limits::SCRUB_BYTES_PER_S`].
    pub fn set_scrub(&mut self, bytes_per_s: u64) {
        self.partitions.by.set_scrub(bytes_per_s);
    }

    /// The control group requests the admission of a follower of a partition, for a move.
    pub fn request_admission(
        &mut self,
        now: ClockReading,
        (keyspace, partition): (KeyspaceId, PartitionId),
        follower: Member,
        effects: &mut dyn InstanceEffects,
    ) {
        self.clock.advance(now);
        self.notify_replica((keyspace, partition), ReplicaEvent::AdmissionRequested(follower), effects);
    }

    /// The log index reports to the control group about groups that recover. Those of partitions that are lone or elsewhere are
    /// missing. A follower's log is synced first; beyond [`REPORT_SYNCS_MAX`], and on a disk that fails, what is durable is reported.
    pub fn log_ends(&mut self, requested: &[PartitionKey]) -> Vec<(PartitionKey, LogEnd)> {
        let (mut ends, mut syncs) = (Vec::with_capacity(requested.len()), 0);
        for &key in requested {
            let Some(replica) = self.partitions.by.get(key).filter(|replica| !replica.is_lone()) else {
                continue;
            };
            // A log of which the disk does not show the durable part is reported as incomplete.
            if syncs < REPORT_SYNCS_MAX && replica.is_report_volatile(&mut self.engine).unwrap_or(false) {
                syncs += 1;
                // What is not durable is not reported, so the group goes on without it.
                drop(self.engine.sync_partition(replica.handle()));
            }
            ends.push((key, replica.reported_log_end(&mut self.engine)));
        }
        ends
    }

    /// Whether any partition is shared with other instances, so that leases are in use.
    pub fn shares(&self) -> bool {
        self.partitions.are_shared()
    }

    /// All partitions, as replicas of their groups.
    pub fn replicas(&self) -> impl Iterator<Item = (KeyspaceId, PartitionId, &Replica)> {
        self.partitions.by.iter().map(|((keyspace, partition), replica)| (keyspace, partition, replica))
    }

    /// The epoch of the entry at a log index of a shared partition. The result is none if the partition is not here, or its log
    /// does not know the entry any more.
    ///
    /// # Errors
    /// As [`zerohop_engine::Engine::epoch_at`].
    pub fn entry_epoch(
        &mut self,
        (keyspace, partition): (KeyspaceId, PartitionId),
        index: u64,
    ) -> zerohop_engine::EngineResult<Option<u32>> {
        let Some(replica) = self.partitions.by.get((keyspace, partition)) else { return Ok(None) };
        self.engine.epoch_at(replica.handle(), index)
    }

    /// Has the primary of a partition break one of its invariants, as a fault of the program would: for tests and simulations.
    /// Returns false if it is not here, or has stopped, and always without debug assertions.
    pub fn break_invariant(&mut self, keyspace: KeyspaceId, partition: PartitionId) -> bool {
        self.partitions.by.break_invariant((keyspace, partition))
    }

    /// The last log index of a shared partition that survives a crash; none if the partition is not here.
    ///
    /// # Errors
    /// As [`zerohop_engine::Engine::durable_index`].
    pub fn durable_index(
        &mut self,
        keyspace: KeyspaceId,
        partition: PartitionId,
    ) -> zerohop_engine::EngineResult<Option<u64>> {
        let Some(replica) = self.partitions.by.get((keyspace, partition)) else { return Ok(None) };
        self.engine.durable_index(replica.handle()).map(Some)
    }

    /// The digest of a shared partition; none if it is not here. Reads all its records.
    ///
    /// # Errors
    /// As [`Replica::digest`].
    pub fn digest(
        &mut self,
        keyspace: KeyspaceId,
        partition: PartitionId,
    ) -> zerohop_engine::EngineResult<Option<Digest>> {
        let Some(replica) = self.partitions.by.get((keyspace, partition)) else { return Ok(None) };
        replica.digest(&mut self.engine).map(Some)
    }

    /// Handles a message of another instance. `false`: it is not meant for this process, or concerns no partition here.
    pub(super) fn peer(
        &mut self,
        envelope: &Envelope,
        peer: &PeerMessage<'_>,
        effects: &mut dyn InstanceEffects,
    ) -> bool {
        let me = member(self.identity);
        if let PeerBody::Transaction(bytes) = peer.body {
            // Late messages do no harm, not even those to an earlier start of this process.
            self.transaction(envelope.partition_epoch, bytes, effects);
            return true;
        }
        if peer.to != me || !self.partitions.are_shared() {
            return false;
        }
        if let PeerBody::LeaseQuery { map_epoch, .. } | PeerBody::LeaseGrant { map_epoch, .. } = peer.body {
            // Lease messages also announce new maps, since an idle partition sends nothing.
            if map_epoch > self.partitions.leases.map_epoch() {
                effects.push(InstanceEffect::FetchMap);
            }
            if let PeerBody::LeaseQuery { timestamp_bound, .. } = peer.body
                && timestamp_bound > Timestamp::ZERO
            {
                // This is how far ahead of its own time the other instance wants its bound.
                self.clock
                    .observe_peer_time(timestamp_bound.millis().saturating_sub(TIMESTAMP_BOUND_AHEAD_MS));
            }
            let now_us = micros(self.clock.elapsed_ms());
            if let Some(body) = self.partitions.leases.handle_message(now_us, peer.from, &peer.body) {
                send_peer(effects, &Envelope::default(), me, peer.from, &body);
            }
            return true;
        }
        let key = (envelope.keyspace, envelope.partition);
        // Another member has split its copy, and its entries wait for the copy here.
        self.splits.prefer(key.0, key.1);
        let event = ReplicaEvent::Peer { from: peer.from, epoch: envelope.partition_epoch, body: &peer.body };
        self.notify_replica(key, event, effects);
        true
    }

    /// Runs an atomic batch over the records of a partition; `None`: it is not here.
    #[inline]
    pub(super) fn run_here<P: Program>(
        &mut self,
        key: PartitionKey,
        to: Token,
        (program, reply): (&mut P, &mut Vec<u8>),
        effects: &mut dyn InstanceEffects,
    ) -> Option<Result<ProgramResult, Failure<'static>>> {
        self.with_partitions(effects, |by, context, adapter| {
            by.run(key, context, to, (program, reply), adapter)
        })
    }

    /// Passes an event to one partition.
    pub(super) fn notify_replica(
        &mut self,
        key: PartitionKey,
        event: ReplicaEvent<'_>,
        effects: &mut dyn InstanceEffects,
    ) {
        self.with_partitions(effects, |by, context, adapter| {
            if let Err(error) = by.step(key, context, event, adapter) {
                adapter.counters.record_error(&error);
            }
        });
    }

    pub(super) fn with_partitions<T>(
        &mut self,
        effects: &mut dyn InstanceEffects,
        act: impl FnOnce(&mut ReplicaTable, &mut Context<'_, D>, &mut EffectsAdapter<'_>) -> T,
    ) -> T {
        let Instance { identity, engine, partitions, history, connections, counters, transit, clock, .. } =
            self;
        let PartitionTable { by, leases, .. } = partitions;
        let map = MapView::of(history.map());
        let mut adapter = effects_adapter(history, connections, counters, transit, effects);
        (adapter.this_member, adapter.is_stopping) = (member(*identity), self.is_stopping);
        let mut context =
            Context { engine, now: clock.now(), now_us: micros(clock.elapsed_ms()), leases, map };
        act(by, &mut context, &mut adapter)
    }

    /// Answers all waiting requests with a failure.
    pub(super) fn release_all(&mut self, failure: &Failure<'static>, effects: &mut dyn InstanceEffects) {
        let all: Vec<PartitionKey> = self.partitions.by.iter().map(|(key, _)| key).collect();
        for key in all {
            self.notify_replica(key, ReplicaEvent::Removed(failure.clone()), effects);
        }
    }

    /// The end of a batch: leases and timestamp bound every few milliseconds, then ticks and pending messages. `true`: an event had
    /// touched some partition.
    pub(super) fn settle(&mut self, effects: &mut dyn InstanceEffects) -> bool {
        let are_shared = self.partitions.are_shared();
        self.clock.set_shared(are_shared);
        if are_shared {
            self.check_leases(effects);
        }
        // Entries appended in this batch are sent at its end. The owner gathers them for each peer.
        let mut troubles = Vec::new();
        let any = self.with_partitions(effects, |by, context, adapter| {
            by.end_batch(context, adapter, |_, error| troubles.push(error))
        });
        troubles.iter().for_each(|error| self.counters.record_error(error));
        any
    }

    /// Notifies the partitions whose flush has ended, and starts the next flush for all that need one. A flush runs while
    /// requests are served. Entries appended meanwhile belong to the next flush. They go to other members at once, so that all
    /// members flush at the same time.
    pub(super) fn flush(&mut self, effects: &mut dyn InstanceEffects) {
        for _ in 0..FLUSH_ROUNDS_MAX {
            if !self.partitions.awaits_flush() || !self.end_flush(effects) {
                return;
            }
            // What the end of a flush causes is in the next one.
            self.deliver_all(effects);
            if !self.partitions.is_flush_due(self.clock.elapsed_ms()) {
                return;
            }
            let keys = self.partitions.by.take_unflushed();
            self.counters.flushes += 1;
            let begun = self.engine.flush_begin();
            // Space may become free, so the flush is tried again later. New writes are refused meanwhile.
            if let Err(EngineError::DiskFull { .. } | EngineError::Scarce { .. }) = begun {
                return self.partitions.by.put_unflushed(keys);
            }
            self.partitions.flushing = keys;
            effects.push(InstanceEffect::Flush(FlushStage::Begun));
            match begun {
                Ok(true) => return,
                Ok(false) => {}
                Err(error) => {
                    self.counters.record_error(&error);
                    self.notify_flushed(&ReplicaEvent::FlushFailed, effects);
                }
            }
        }
    }

    /// Flushes for all partitions that need it and waits, until nothing more needs one. Without room on the disk, what remains
    /// waits for the next batch.
    pub(super) fn wait_flushes(&mut self, effects: &mut dyn InstanceEffects) {
        for _ in 0..TRANSIT_ROUNDS_MAX {
            if !self.partitions.awaits_flush() && self.transit.is_empty() {
                return;
            }
            self.deliver_all(effects);
            let keys = self.partitions.by.take_unflushed();
            self.counters.flushes += 1;
            effects.push(InstanceEffect::Flush(FlushStage::Begun));
            let event = match self.engine.flush() {
                Ok(()) => ReplicaEvent::Flushed,
                Err(EngineError::DiskFull { .. } | EngineError::Scarce { .. }) => {
                    return self.partitions.by.put_unflushed(keys);
                }
                Err(error) => {
                    self.counters.record_error(&error);
                    ReplicaEvent::FlushFailed
                }
            };
            self.partitions.flushing.extend(keys);
            self.notify_flushed(&event, effects);
        }
    }

    /// Whether no flush is in progress any more.
    fn end_flush(&mut self, effects: &mut dyn InstanceEffects) -> bool {
        match self.engine.flush_done() {
            Ok(false) => return false,
            Ok(true) => self.notify_flushed(&ReplicaEvent::Flushed, effects),
            Err(error) => {
                if !self.partitions.flushing.is_empty() {
                    self.counters.record_error(&error);
                }
                self.notify_flushed(&ReplicaEvent::FlushFailed, effects);
            }
        }
        true
    }

    fn notify_flushed(&mut self, event: &ReplicaEvent<'_>, effects: &mut dyn InstanceEffects) {
        if self.partitions.flushing.is_empty() {
            return;
        }
        effects.push(InstanceEffect::Flush(FlushStage::Ended));
        for key in std::mem::take(&mut self.partitions.flushing) {
            self.notify_replica(key, event.clone(), effects);
        }
        effects.push(InstanceEffect::Flush(FlushStage::Notified));
    }

    fn check_leases(&mut self, effects: &mut dyn InstanceEffects) {
        let elapsed_ms = self.clock.elapsed_ms();
        let Instance { identity, engine, partitions, clock, .. } = self;
        if elapsed_ms < partitions.ticked_ms + TICK_MS {
            return;
        }
        let PartitionTable {
            by,
            leases,
            ticked_ms,
            disk_space_checked_ms: room_ms,
            requested_timestamp_bound: requested_bound,
            ..
        } = partitions;
        *ticked_ms = elapsed_ms;
        if elapsed_ms >= *room_ms + DISK_SPACE_CHECK_MS {
            *room_ms = elapsed_ms;
            engine.check_disk_space();
        }
        leases.raise_wanted_timestamp_bound(
            clock.timestamp_bound_base_ms(TIMESTAMP_BOUND_AHEAD_MS),
            by.newest(),
        );
        if let Some(timestamp_bound) = leases.to_sync().filter(|requested| *requested > *requested_bound) {
            *requested_bound = timestamp_bound;
            effects.push(InstanceEffect::SyncTimestampBound(timestamp_bound));
        }
        let newest = by.newest();
        for (to, body) in leases.lease_requests(micros(elapsed_ms), newest, by.lease_granters()) {
            send_peer(effects, &Envelope::default(), member(*identity), to, &body);
        }
    }

    /// Opens a partition of which the map assigns the only copy to this instance. Returns the newest timestamp in it, and whether
    /// its sessions were lost.
    pub(super) fn open_lone(
        &mut self,
        keyspace: KeyspaceId,
        id: PartitionId,
        found: &Keyspace,
        group: Group<'_>,
    ) -> Result<(Timestamp, bool), InstanceOpenError> {
        let options = options_of(found, id, group.epoch);
        let name = engine_id(keyspace, found.splits(), id);
        let (mut partition, restored) = Partition::open(&mut self.engine, name, options)
            .map_err(|error| InstanceOpenError::of_partition(keyspace, id, error))?;
        partition.begin_history(found.config().history);
        if let Some(history) = self.splits.take_history() {
            partition.adopt_history(history);
        }
        // The owner of a local store routes each key itself, and its keyspace is never split.
        if keyspace != LOCAL_KEYSPACE
            && let Some(range) = HashRange::of(keyspace, found, id)
        {
            partition.set_hash_range(range);
        }
        partition.await_read_locks(self.holding.ends_ms);
        let newest = partition.newest();
        let replica = Replica::lone(partition, name, self.lone_view(group), options);
        self.partitions.insert(keyspace, id, replica);
        Ok((newest, restored.has_lost_state))
    }

    /// The group of a partition whose only member is this start of the process.
    pub(super) fn lone_view(&self, group: Group<'_>) -> GroupView {
        let (primary, map_epoch) = (member(self.identity), self.map().epoch());
        GroupView { epoch: group.epoch, map_epoch, primary, ..GroupView::default() }
    }

    /// Opens a partition that the map assigns to this instance and to others.
    pub(super) fn open_shared(
        &mut self,
        keyspace: KeyspaceId,
        id: PartitionId,
        found: &Keyspace,
        group: Group<'_>,
    ) -> Result<(), InstanceOpenError> {
        let me = member(self.identity);
        let options = options_of(found, id, group.epoch);
        let name = engine_id(keyspace, found.splits(), id);
        let mut replica = Replica::open(&mut self.engine, me, name, options)
            .map_err(|error| InstanceOpenError::of_partition(keyspace, id, error))?;
        replica.begin_history(found.config().history);
        if let Some(inherited) = self.splits.inherited_state(keyspace, id) {
            replica.inherit(inherited, group.epoch, micros(self.clock.elapsed_ms()));
        }
        if let Some(range) = HashRange::of(keyspace, found, id) {
            replica.set_hash_range(range);
        }
        replica.await_read_locks(self.holding.ends_ms);
        self.partitions.insert(keyspace, id, replica);
        self.splits.inherited(keyspace, id);
        Ok(())
    }
}
