//! All replicas of one instance. Each is stepped only when it has something to do.
//!
//! ```text
//!   request, message, map ──> step ──> touched ──┐
//!   a lease starts or ends ──> its primaries ────┤
//!   a wake time has come ────────────────────────┴─> settle: Tick ──> when the next tick is due
//! ```
//!
//! A partition without events whose members are all up to date is in none of these lists. A batch therefore costs only as much as
//! the partitions that it touches, however many there are.

mod background;

use std::collections::{BTreeMap, BTreeSet};

use zerohop_engine::disk::Disk;
use zerohop_engine::{Durability, Engine, EngineResult};
use zerohop_placement::ChangeHistory;
use zerohop_wire::Failure;
use zerohop_wire::ids::{KeyspaceId, PartitionEpoch, Timestamp};
use zerohop_wire::messages::Member;

use super::copy_throttle::CopyThrottle;
use super::limits::{DEFERRED_CHECK_US, SCRUB_BYTES, SCRUB_BYTES_PER_S, STEP_PAUSE_US_MIN};
use super::lone::LoneOutcome;
use super::partition_index::{PartitionIndex, PartitionKey, SlotId};
use super::{Context, Replica, ReplicaEffects, ReplicaEvent};
use zerohop_partition::{FlushNeed, Program, ProgramResult, RecordRequest, Token};

/// Effects of many replicas: the table announces the replica whose effects follow.
pub trait TableEffects: ReplicaEffects {
    /// The following effects are those of this replica, in this epoch.
    fn of(&mut self, key: PartitionKey, epoch: PartitionEpoch);

    /// The most urgent [`zerohop_partition::PartitionEffect::FlushWanted`] since the last call of [`TableEffects::of`].
    fn flush_need(&self) -> FlushNeed;
}

/// Counters of steps, which show whether idle partitions cost anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// Ticks.
    pub ticks: u64,
    /// Pieces of logs that were scrubbed: one partition after the other, however many there are.
    pub scrubs: u64,
    /// All other events.
    pub others: u64,
}

/// All replicas of one instance; see the module.
#[derive(Debug)]
pub struct ReplicaTable {
    slots: Vec<Option<ReplicaSlot>>,
    free: Vec<SlotId>,
    index: PartitionIndex,
    /// The replicas that are not [single copies](Replica::is_lone). Leases, scrubbing and the timestamp bound are for them.
    shared: usize,
    schedule: Schedule,
    /// Followers here have accepted or acknowledged entries since the last check. These entries must be synced.
    is_used: bool,
    unflushed: UnflushedReplicas,
    leases: RequiredLeases,
    newest: Timestamp,
    steps: Steps,
    scrub: ScrubTurn,
    pace: CopyThrottle,
    /// The disk was full at the last check.
    was_full: bool,
}

/// In this order: a request at a lone replica reads the first fields, which are in one cache line, and then the partition.
#[derive(Debug)]
#[repr(C)]
struct ReplicaSlot {
    /// The epoch of a lone replica that serves: [`Replica::lone_epoch`].
    lone_epoch: Option<PartitionEpoch>,
    key: PartitionKey,
    /// The time under which the replica is in the schedule; [`u64::MAX`]: it is not there.
    tick_due_us: u64,
    is_touched: bool,
    is_unflushed: bool,
    replica: Replica,
}

impl ReplicaSlot {
    fn new(key: PartitionKey, replica: Replica) -> Self {
        let lone_epoch = replica.lone_epoch();
        Self { lone_epoch, key, tick_due_us: u64::MAX, is_touched: false, is_unflushed: false, replica }
    }
}

/// When replicas need a tick.
#[derive(Debug, Default)]
struct Schedule {
    /// In microseconds of the monotonic clock.
    ticks_due: BTreeSet<(u64, SlotId)>,
    /// The replicas with an event since the last check.
    touched: Vec<SlotId>,
}

/// The replicas that need a flush, and when.
#[derive(Debug, Default)]
struct UnflushedReplicas {
    slots: Vec<SlotId>,
    need: FlushNeed,
}

impl UnflushedReplicas {
    fn add(&mut self, at: SlotId, is_unflushed: &mut bool, need: FlushNeed) {
        if need > FlushNeed::Nothing && !std::mem::replace(is_unflushed, true) {
            self.slots.push(at);
        }
        self.need = self.need.max(need);
    }
}

/// The members whose leases are needed, and whether the leases were valid at the last check.
#[derive(Debug, Default)]
struct RequiredLeases {
    members: BTreeMap<Member, bool>,
    /// Groups have changed since the members were computed.
    is_old: bool,
}

/// The position of the scrub over all logs.
#[derive(Debug)]
struct ScrubTurn {
    /// Microseconds between two steps; [`u64::MAX`]: never.
    every_us: u64,
    at_us: u64,
    /// The replica whose log is being scrubbed.
    key: Option<PartitionKey>,
}

impl Default for ReplicaTable {
    fn default() -> ReplicaTable {
        ReplicaTable {
            slots: Vec::new(),
            free: Vec::new(),
            index: PartitionIndex::default(),
            shared: 0,
            schedule: Schedule::default(),
            is_used: false,
            unflushed: UnflushedReplicas::default(),
            leases: RequiredLeases::default(),
            newest: Timestamp::ZERO,
            steps: Steps::default(),
            scrub: ScrubTurn { every_us: scrub_every_us(SCRUB_BYTES_PER_S), at_us: 0, key: None },
            pace: CopyThrottle::new(0),
            was_full: false,
        }
    }
}

fn scrub_every_us(bytes_per_s: u64) -> u64 {
    (SCRUB_BYTES as u64 * 1_000_000).checked_div(bytes_per_s).unwrap_or(u64::MAX)
}

impl ReplicaTable {
    /// Adds a replica. It replaces a replica with the same key.
    pub fn insert(&mut self, key: PartitionKey, replica: Replica) {
        self.remove(key);
        let is_shared = !replica.is_lone();
        if is_shared {
            self.newest = self.newest.max(replica.newest());
        }
        self.shared += usize::from(is_shared);
        let slot = Some(ReplicaSlot::new(key, replica));
        let at = match self.free.pop() {
            Some(at) => {
                self.slots[at as usize] = slot;
                at
            }
            None => {
                self.slots.push(slot);
                // Bounded by the partitions of a map, which are counted in 32 bits.
                (self.slots.len() - 1) as SlotId
            }
        };
        self.index.insert(key, at);
        self.leases.is_old = true;
        self.touch(at);
    }

    /// Removes a replica. Its pending replies must have been released.
    pub fn remove(&mut self, key: PartitionKey) -> Option<Replica> {
        let at = self.index.remove(key)?;
        let slot = self.slots[at as usize].take()?;
        self.free.push(at);
        self.schedule.ticks_due.remove(&(slot.tick_due_us, at));
        self.schedule.touched.retain(|other| *other != at);
        self.unflushed.slots.retain(|other| *other != at);
        self.shared -= usize::from(!slot.replica.is_lone());
        self.leases.is_old = true;
        Some(slot.replica)
    }

    /// A replica.
    #[must_use]
    #[inline]
    pub fn get(&self, key: PartitionKey) -> Option<&Replica> {
        self.index.get(key).map(|at| &self.slot(at).replica)
    }

    /// See [`Replica::break_invariant`].
    pub fn break_invariant(&mut self, key: PartitionKey) -> bool {
        let Some(at) = self.index.get(key) else { return false };
        self.touch(at);
        self.slot_mut(at).replica.break_invariant()
    }

    /// All replicas, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (PartitionKey, &Replica)> {
        self.index.iter().map(|(key, at)| (key, &self.slot(at).replica))
    }

    /// The keyspaces that have a replica here, in order.
    pub fn keyspaces(&self) -> impl Iterator<Item = KeyspaceId> + '_ {
        self.index.keyspaces()
    }

    /// How many replicas are not [single copies](Replica::is_lone).
    #[must_use]
    #[inline]
    pub fn shared(&self) -> usize {
        self.shared
    }

    /// The number of replicas.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether there are no replicas.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The counters of steps so far.
    #[must_use]
    pub fn steps(&self) -> Steps {
        self.steps
    }

    /// The newest timestamp that any replica has assigned or seen, or that a queued request has seen. The timestamp bound must be
    /// above it.
    #[must_use]
    pub fn newest(&self) -> Timestamp {
        self.newest
    }

    /// The members whose leases are needed.
    pub fn lease_granters(&mut self) -> impl Iterator<Item = Member> + '_ {
        if std::mem::take(&mut self.leases.is_old) {
            let before = std::mem::take(&mut self.leases.members);
            for slot in self.slots.iter().flatten() {
                for member in slot.replica.lease_granters() {
                    let had = before.get(&member).copied().unwrap_or(false);
                    self.leases.members.entry(member).or_insert(had);
                }
            }
        }
        self.leases.members.keys().copied()
    }

    /// Passes an event to one replica. The caller must call [`ReplicaTable::end_batch`] afterwards.
    ///
    /// # Errors
    /// As [`Replica::step`].
    pub fn step<D: Disk>(
        &mut self,
        key: PartitionKey,
        context: &mut Context<'_, D>,
        event: ReplicaEvent<'_>,
        effects: &mut dyn TableEffects,
    ) -> EngineResult<()> {
        match self.index.get(key) {
            Some(at) => self.step_at(at, context, event, effects),
            None => Ok(()),
        }
    }

    /// Passes a request to the replica of its partition, as [`ReplicaTable::step`] does; `None`: the partition is not here.
    ///
    /// # Errors
    /// As [`Replica::step`].
    #[inline]
    pub fn request<D: Disk>(
        &mut self,
        key: PartitionKey,
        context: &mut Context<'_, D>,
        request: RecordRequest<'_>,
        effects: &mut dyn TableEffects,
    ) -> Option<EngineResult<()>> {
        let at = self.index.get(key)?;
        let slot = self.slots[at as usize].as_mut().expect(SLOT_IS_USED);
        debug_assert_eq!(slot.lone_epoch, slot.replica.lone_epoch());
        let Some(epoch) = slot.lone_epoch.filter(|epoch| request.envelope.partition_epoch <= *epoch) else {
            return Some(self.step_at(at, context, ReplicaEvent::Request(request), effects));
        };
        self.steps.others += 1;
        effects.of(key, epoch);
        let result = slot.replica.serve_lone(context, request, effects);
        self.unflushed.add(at, &mut slot.is_unflushed, effects.flush_need());
        if !std::mem::replace(&mut slot.is_touched, true) {
            self.schedule.touched.push(at);
        }
        if matches!(result, LoneOutcome::Broken(_)) {
            slot.lone_epoch = None;
        }
        let (LoneOutcome::Still(done) | LoneOutcome::Broken(done)) = result;
        Some(done)
    }

    fn step_at<D: Disk>(
        &mut self,
        at: SlotId,
        context: &mut Context<'_, D>,
        event: ReplicaEvent<'_>,
        effects: &mut dyn TableEffects,
    ) -> EngineResult<()> {
        let slot = self.slots[at as usize].as_mut().expect(SLOT_IS_USED);
        let was_lone = slot.replica.is_lone();
        let epoch = match &event {
            ReplicaEvent::Group(view) => {
                self.leases.is_old = true;
                view.epoch
            }
            _ => slot.replica.view().epoch,
        };
        let is_scrub = matches!(event, ReplicaEvent::Scrub { .. });
        let is_own = is_scrub || matches!(event, ReplicaEvent::Tick);
        let is_routine = event.is_routine();
        match event {
            ReplicaEvent::Tick => self.steps.ticks += 1,
            ReplicaEvent::Scrub { .. } => self.steps.scrubs += 1,
            _ => self.steps.others += 1,
        }
        effects.of(slot.key, epoch);
        slot.replica.set_copy_allowance(self.pace.allowance_bytes());
        let result = slot.replica.step(context, event, effects);
        self.pace.spend(slot.replica.take_copied_bytes());
        slot.lone_epoch = slot.replica.lone_epoch();
        let is_lone = slot.replica.is_lone();
        if !is_lone {
            self.newest = self.newest.max(slot.replica.newest());
            self.shared += usize::from(was_lone);
        }
        self.unflushed.add(at, &mut slot.is_unflushed, effects.flush_need());
        if is_routine && result.is_ok() && slot.replica.is_steady() {
            self.is_used = true;
            self.schedule_check(at, context.now_us);
        } else if !is_own || is_scrub && slot.replica.is_repair() {
            self.touch(at);
        }
        result
    }

    /// Schedules a tick for a replica a little later, unless an earlier tick is scheduled.
    fn schedule_check(&mut self, at: SlotId, now_us: u64) {
        let slot = self.slot(at);
        let wake_us = now_us + DEFERRED_CHECK_US;
        if !slot.is_touched && slot.tick_due_us > wake_us {
            self.wake_at(at, wake_us);
        }
    }

    /// Runs an atomic batch over the records of one replica ([`Replica::run`]). The caller must call [`ReplicaTable::end_batch`]
    /// afterwards.
    ///
    /// # Errors
    /// As there; `None`: there is no such replica.
    pub fn run<D: Disk, P: Program>(
        &mut self,
        key: PartitionKey,
        context: &mut Context<'_, D>,
        token: Token,
        (program, reply): (&mut P, &mut Vec<u8>),
        effects: &mut dyn TableEffects,
    ) -> Option<Result<ProgramResult, Failure<'static>>> {
        let at = self.index.get(key)?;
        let slot = self.slots[at as usize].as_mut().expect(SLOT_IS_USED);
        self.steps.others += 1;
        effects.of(key, slot.replica.view().epoch);
        let result = slot.replica.run(context, token, (program, reply), effects);
        if !slot.replica.is_lone() {
            self.newest = self.newest.max(slot.replica.newest());
        }
        slot.lone_epoch = slot.replica.lone_epoch();
        self.unflushed.add(at, &mut slot.is_unflushed, effects.flush_need());
        self.touch(at);
        Some(result)
    }

    /// Follows altered settings of a keyspace: how long changes are kept, and, for a replica that is the only copy, when entries survive a crash.
    ///
    /// # Errors
    /// As there.
    pub fn alter<D: Disk>(
        &mut self,
        key: PartitionKey,
        context: &mut Context<'_, D>,
        (durability, history): (Durability, ChangeHistory),
        effects: &mut dyn TableEffects,
    ) -> EngineResult<()> {
        let Some(at) = self.index.get(key) else { return Ok(()) };
        let slot = self.slots[at as usize].as_mut().expect(SLOT_IS_USED);
        effects.of(key, slot.replica.view().epoch);
        slot.replica.set_durability(context.engine, durability, effects)?;
        slot.replica.alter_history(context.engine, history, effects)?;
        self.touch(at);
        Ok(())
    }

    /// Starts a checkpoint of a replica that is the only copy, so that the next start reads no log.
    ///
    /// # Errors
    /// As [`Engine::checkpoint_begin`].
    pub fn checkpoint_lone<D: Disk>(&mut self, engine: &mut Engine<D>) -> EngineResult<()> {
        self.slots.iter_mut().flatten().try_for_each(|slot| slot.replica.checkpoint_lone(engine))
    }

    /// Removes and returns the replicas that need a flush. The caller must notify them of it.
    pub fn take_unflushed(&mut self) -> Vec<PartitionKey> {
        let unflushed = std::mem::take(&mut self.unflushed);
        let mut keys = Vec::with_capacity(unflushed.slots.len());
        for at in unflushed.slots {
            let slot = self.slot_mut(at);
            slot.is_unflushed = false;
            keys.push(slot.key);
        }
        keys
    }

    /// There was no room for the flush, so these replicas need the next one.
    pub fn put_unflushed(&mut self, keys: Vec<PartitionKey>) {
        for key in keys {
            let Some(at) = self.index.get(key) else { continue };
            let slot = self.slots[at as usize].as_mut().expect(SLOT_IS_USED);
            self.unflushed.add(at, &mut slot.is_unflushed, FlushNeed::Now);
        }
    }

    /// Whether any replica needs a flush.
    #[must_use]
    pub fn has_unflushed(&self) -> bool {
        !self.unflushed.slots.is_empty()
    }

    /// Whether any of them must not wait for another that does.
    #[must_use]
    pub fn needs_flush_now(&self) -> bool {
        self.unflushed.need == FlushNeed::Now
    }

    /// Whether any [lone](Replica::is_lone) replica needs a flush.
    #[must_use]
    pub fn has_unflushed_lone(&self) -> bool {
        let mut unflushed = self.unflushed.slots.iter().filter_map(|at| self.slots[*at as usize].as_ref());
        unflushed.any(|slot| slot.replica.is_lone())
    }

    /// The replicas in which requests of some connection wait.
    #[must_use]
    pub fn with_waits(&self) -> Vec<PartitionKey> {
        self.slots.iter().flatten().filter(|slot| slot.replica.has_waits()).map(|slot| slot.key).collect()
    }

    /// The replicas with transactions in progress.
    #[must_use]
    pub fn with_transactions(&self) -> Vec<PartitionKey> {
        let is_open = |slot: &&ReplicaSlot| slot.replica.partition().is_transacting();
        self.slots.iter().flatten().filter(is_open).map(|slot| slot.key).collect()
    }

    /// The end of a batch: ticks the shared replicas that were touched, those whose wake time has come, and those whose leases
    /// have started or ended. `true`: an event had touched a replica. Failures go to `trouble`.
    pub fn end_batch<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        effects: &mut dyn TableEffects,
        mut trouble: impl FnMut(&mut dyn TableEffects, zerohop_engine::EngineError),
    ) -> bool {
        let any = !self.schedule.touched.is_empty() | std::mem::take(&mut self.is_used);
        if self.shared > 0 {
            self.pace.begin_turn(context.now_us);
            if let Err(error) = self.scrub(context, effects) {
                trouble(effects, error);
            }
            self.check_leases(context);
            self.check_disk_space(context);
        }
        let now_us = context.now_us;
        let mut touched = std::mem::take(&mut self.schedule.touched);
        for at in touched.drain(..) {
            let Some(slot) = self.slots[at as usize].as_mut() else { continue };
            slot.is_touched = false;
            // Checks that are not urgent come a little later: whether a checkpoint is due, whether sessions must be forgotten.
            let soon = slot.tick_due_us.min(now_us + DEFERRED_CHECK_US);
            if slot.replica.is_lone() {
                // It has answered, and has no other member to send to.
                let wake_us = slot.replica.lone_deadline_us(context).min(soon);
                self.wake_at(at, wake_us);
                continue;
            }
            if let Err(error) = self.step_at(at, context, ReplicaEvent::Tick, effects) {
                trouble(effects, error);
            }
            self.schedule_tick(at, context, soon);
        }
        // The vector keeps its room, unless an event of these steps has touched a replica again.
        if self.schedule.touched.is_empty() {
            self.schedule.touched = touched;
        }
        while let Some(&(wake_us, at)) = self.schedule.ticks_due.first()
            && wake_us <= now_us
        {
            self.schedule.ticks_due.pop_first();
            if self.slots[at as usize].is_none() {
                continue;
            }
            self.slot_mut(at).tick_due_us = u64::MAX;
            if let Err(error) = self.step_at(at, context, ReplicaEvent::Tick, effects) {
                trouble(effects, error);
            }
            self.schedule_tick(at, context, u64::MAX);
        }
        any
    }

    /// When [`ReplicaTable::end_batch`] has something to do though no event arrives; 0: at once.
    #[must_use]
    pub fn next_tick_us(&self) -> u64 {
        if !self.schedule.touched.is_empty() || self.has_unflushed() {
            return 0;
        }
        self.schedule.ticks_due.first().map_or(u64::MAX, |(wake_us, _)| *wake_us)
    }

    /// Sets the bytes per second of snapshots, over all members that receive them. Such members have no data or are too
    /// far behind. 0: unlimited, as long as requests do not wait.
    pub fn set_copy_rate(&mut self, bytes_per_s: u64) {
        self.pace = CopyThrottle::new(bytes_per_s);
    }

    /// Sets the bytes per second of logs that are scrubbed, over all replicas; 0: none.
    pub fn set_scrub(&mut self, bytes_per_s: u64) {
        self.scrub.every_us = scrub_every_us(bytes_per_s);
    }

    fn touch_those(&mut self, is_meant: impl Fn(&Replica) -> bool) {
        for at in 0..self.slots.len() as SlotId {
            if self.slots[at as usize].as_ref().is_some_and(|slot| is_meant(&slot.replica)) {
                self.touch(at);
            }
        }
    }

    fn touch(&mut self, at: SlotId) {
        if !std::mem::replace(&mut self.slot_mut(at).is_touched, true) {
            self.schedule.touched.push(at);
        }
    }

    fn schedule_tick<D: Disk>(&mut self, at: SlotId, context: &mut Context<'_, D>, until_us: u64) {
        // Never at once, so that work that is not possible now is not tried without a pause.
        let wake_us =
            self.slot(at).replica.next_tick_us(context).min(until_us).max(context.now_us + STEP_PAUSE_US_MIN);
        self.wake_at(at, wake_us);
    }

    fn wake_at(&mut self, at: SlotId, wake_us: u64) {
        let slot = self.slots[at as usize].as_mut().expect(SLOT_IS_USED);
        if wake_us != slot.tick_due_us {
            self.schedule.ticks_due.remove(&(slot.tick_due_us, at));
            slot.tick_due_us = wake_us;
            if wake_us < u64::MAX {
                self.schedule.ticks_due.insert((wake_us, at));
            }
        }
    }

    fn slot(&self, at: SlotId) -> &ReplicaSlot {
        self.slots[at as usize].as_ref().expect(SLOT_IS_USED)
    }

    fn slot_mut(&mut self, at: SlotId) -> &mut ReplicaSlot {
        self.slots[at as usize].as_mut().expect(SLOT_IS_USED)
    }
}

/// The invariant of slot ids: the index and the lists name only slots with a replica.
const SLOT_IS_USED: &str = "a listed slot has a replica";
