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

use std::collections::{BTreeMap, BTreeSet};

use zerohop_engine::disk::Disk;
use zerohop_engine::{Engine, EngineResult};
use zerohop_wire::Failure;
use zerohop_wire::ids::{PartitionEpoch, Timestamp};
use zerohop_wire::messages::{Call, FollowerReport, Member};

use super::copy_throttle::Pace;
use super::limits::{NAP_US, SCRUB_BYTES, SCRUB_BYTES_PER_S, SETTLE_US};
use super::{Context, Replica, ReplicaEffects, ReplicaEvent, Role};
use crate::event::Token;
use crate::{Program, ProgramResult};

/// Effects of many replicas: the caller announces the replica whose effects follow.
pub trait EffectsOf<K>: ReplicaEffects {
    /// The following effects are those of this replica, in this epoch.
    fn of(&mut self, key: K, epoch: PartitionEpoch);

    /// Whether [`crate::PartitionEffect::FlushWanted`] has come since the last call of [`EffectsOf::of`].
    fn wants_flush(&self) -> bool;
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
pub struct Replicas<K> {
    by: BTreeMap<K, ReplicaSlot>,
    /// When replicas need a tick, in microseconds of the monotonic clock.
    wakes: BTreeSet<(u64, K)>,
    touched: Vec<K>,
    /// Followers here have accepted or acknowledged entries since the last check. These entries must be synced.
    is_used: bool,
    /// The replicas that need a flush.
    unflushed: Vec<K>,
    /// The members whose leases are needed, and whether the leases were valid at the last check.
    wanted: BTreeMap<Member, bool>,
    /// Groups have changed since `wanted` was computed.
    is_wanted_old: bool,
    newest: Timestamp,
    steps: Steps,
    /// Microseconds between two scrub steps; [`u64::MAX`]: never.
    scrub_every_us: u64,
    scrub_at_us: u64,
    /// The replica whose log is being scrubbed.
    scrubbed: Option<K>,
    pace: Pace,
    /// The disk was full at the last check.
    was_full: bool,
}

#[derive(Debug)]
struct ReplicaSlot {
    replica: Replica,
    /// The time under which the replica is in `wakes`; [`u64::MAX`]: it is not there.
    wake_us: u64,
    is_touched: bool,
    is_unflushed: bool,
}

impl<K> Default for Replicas<K> {
    fn default() -> Replicas<K> {
        Replicas {
            by: BTreeMap::new(),
            wakes: BTreeSet::new(),
            touched: Vec::new(),
            is_used: false,
            unflushed: Vec::new(),
            wanted: BTreeMap::new(),
            is_wanted_old: false,
            newest: Timestamp::ZERO,
            steps: Steps::default(),
            scrub_every_us: scrub_every_us(SCRUB_BYTES_PER_S),
            scrub_at_us: 0,
            scrubbed: None,
            pace: Pace::new(0),
            was_full: false,
        }
    }
}

fn scrub_every_us(bytes_per_s: u64) -> u64 {
    (SCRUB_BYTES as u64 * 1_000_000).checked_div(bytes_per_s).unwrap_or(u64::MAX)
}

impl<K: Copy + Ord> Replicas<K> {
    /// Adds a replica. It replaces a replica with the same key.
    pub fn insert(&mut self, key: K, replica: Replica) {
        self.remove(key);
        self.newest = self.newest.max(replica.newest());
        let slot = ReplicaSlot { replica, wake_us: u64::MAX, is_touched: false, is_unflushed: false };
        self.by.insert(key, slot);
        self.is_wanted_old = true;
        self.touch(key);
    }

    /// Removes a replica.
    pub fn remove(&mut self, key: K) -> Option<Replica> {
        let slot = self.by.remove(&key)?;
        self.wakes.remove(&(slot.wake_us, key));
        self.touched.retain(|other| *other != key);
        self.unflushed.retain(|other| *other != key);
        self.is_wanted_old = true;
        Some(slot.replica)
    }

    /// A replica.
    #[must_use]
    pub fn get(&self, key: K) -> Option<&Replica> {
        self.by.get(&key).map(|slot| &slot.replica)
    }

    /// All replicas, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (K, &Replica)> {
        self.by.iter().map(|(key, slot)| (*key, &slot.replica))
    }

    /// The number of replicas.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by.len()
    }

    /// Whether there are no replicas.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by.is_empty()
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
    pub fn lease_wanted_of(&mut self) -> impl Iterator<Item = Member> + '_ {
        if std::mem::take(&mut self.is_wanted_old) {
            let before = std::mem::take(&mut self.wanted);
            for member in self.by.values().flat_map(|slot| slot.replica.lease_wanted_of()) {
                let held = before.get(&member).copied().unwrap_or(false);
                self.wanted.entry(member).or_insert(held);
            }
        }
        self.wanted.keys().copied()
    }

    /// Passes an event to one replica. The caller must call [`Replicas::settle`] afterwards.
    ///
    /// # Errors
    /// As [`Replica::step`].
    pub fn step<D: Disk>(
        &mut self,
        key: K,
        context: &mut Context<'_, D>,
        told: ReplicaEvent<'_>,
        effects: &mut dyn EffectsOf<K>,
    ) -> EngineResult<()> {
        let Some(slot) = self.by.get_mut(&key) else { return Ok(()) };
        let epoch = match &told {
            ReplicaEvent::Group(view) => {
                self.is_wanted_old = true;
                view.epoch
            }
            _ => slot.replica.view().epoch,
        };
        let is_scrub = matches!(told, ReplicaEvent::Scrub { .. });
        let is_own = is_scrub || matches!(told, ReplicaEvent::Tick);
        let is_routine = is_routine(&told);
        match told {
            ReplicaEvent::Tick => self.steps.ticks += 1,
            ReplicaEvent::Scrub { .. } => self.steps.scrubs += 1,
            _ => self.steps.others += 1,
        }
        effects.of(key, epoch);
        slot.replica.set_copy_room(self.pace.room());
        let result = slot.replica.step(context, told, effects);
        self.pace.spend(slot.replica.take_copied());
        self.newest = self.newest.max(slot.replica.newest());
        if effects.wants_flush() && !std::mem::replace(&mut slot.is_unflushed, true) {
            self.unflushed.push(key);
        }
        if is_routine && result.is_ok() && slot.replica.is_steady() {
            self.is_used = true;
            self.look_later(key, context.now_us);
        } else if !is_own || is_scrub && slot.replica.is_repair() {
            self.touch(key);
        }
        result
    }

    /// Schedules a tick for a replica a little later, unless an earlier tick is scheduled.
    fn look_later(&mut self, key: K, now_us: u64) {
        let Some(slot) = self.by.get_mut(&key).filter(|slot| !slot.is_touched) else { return };
        let wake_us = now_us + SETTLE_US;
        if slot.wake_us > wake_us {
            self.wakes.remove(&(slot.wake_us, key));
            slot.wake_us = wake_us;
            self.wakes.insert((wake_us, key));
        }
    }

    /// Runs an atomic batch over the records of one replica ([`Replica::run`]). The caller must call [`Replicas::settle`]
    /// afterwards.
    ///
    /// # Errors
    /// As there; `None`: there is no such replica.
    pub fn run<D: Disk, P: Program>(
        &mut self,
        key: K,
        context: &mut Context<'_, D>,
        token: Token,
        (program, reply): (&mut P, &mut Vec<u8>),
        effects: &mut dyn EffectsOf<K>,
    ) -> Option<Result<ProgramResult, Failure<'static>>> {
        let slot = self.by.get_mut(&key)?;
        self.steps.others += 1;
        effects.of(key, slot.replica.view().epoch);
        let result = slot.replica.run(context, token, (program, reply), effects);
        self.newest = self.newest.max(slot.replica.newest());
        if effects.wants_flush() && !std::mem::replace(&mut slot.is_unflushed, true) {
            self.unflushed.push(key);
        }
        self.touch(key);
        Some(result)
    }

    /// Removes and returns the replicas that need a flush. The caller must notify them of it.
    pub fn take_unflushed(&mut self) -> Vec<K> {
        let unflushed = std::mem::take(&mut self.unflushed);
        for key in &unflushed {
            if let Some(slot) = self.by.get_mut(key) {
                slot.is_unflushed = false;
            }
        }
        unflushed
    }

    /// There was no room for the flush, so these replicas need the next one.
    pub fn put_unflushed(&mut self, keys: Vec<K>) {
        for key in keys {
            if let Some(slot) = self.by.get_mut(&key)
                && !std::mem::replace(&mut slot.is_unflushed, true)
            {
                self.unflushed.push(key);
            }
        }
    }

    /// Whether any replica needs a flush.
    #[must_use]
    pub fn has_unflushed(&self) -> bool {
        !self.unflushed.is_empty()
    }

    /// The replicas in which requests of some connection wait.
    #[must_use]
    pub fn with_waits(&self) -> Vec<K> {
        self.by.iter().filter(|(_, slot)| slot.replica.has_waits()).map(|(key, _)| *key).collect()
    }

    /// The end of a batch: ticks the replicas that were touched, those whose wake time has come, and those whose leases have
    /// started or ended. `true`: an event had touched a replica. Failures go to `trouble`.
    pub fn settle<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        effects: &mut dyn EffectsOf<K>,
        mut trouble: impl FnMut(&mut dyn EffectsOf<K>, zerohop_engine::EngineError),
    ) -> bool {
        let any = !self.touched.is_empty() | std::mem::take(&mut self.is_used);
        self.pace.begin_turn(context.now_us);
        if let Err(error) = self.scrub(context, effects) {
            trouble(effects, error);
        }
        self.look_at_leases(context);
        self.look_at_room(context);
        let now_us = context.now_us;
        for key in std::mem::take(&mut self.touched) {
            let Some(slot) = self.by.get_mut(&key) else { continue };
            slot.is_touched = false;
            // Checks that are not urgent come a little later: whether a checkpoint is due.
            let soon = slot.wake_us.min(now_us + SETTLE_US);
            if let Err(error) = self.step(key, context, ReplicaEvent::Tick, effects) {
                trouble(effects, error);
            }
            self.sleep(key, context, soon);
        }
        while let Some(&(wake_us, key)) = self.wakes.first()
            && wake_us <= now_us
        {
            self.wakes.pop_first();
            if let Some(slot) = self.by.get_mut(&key) {
                slot.wake_us = u64::MAX;
            }
            if let Err(error) = self.step(key, context, ReplicaEvent::Tick, effects) {
                trouble(effects, error);
            }
            self.sleep(key, context, u64::MAX);
        }
        any
    }

    /// When [`Replicas::settle`] has something to do though no event arrives; 0: at once.
    #[must_use]
    pub fn next_wake_us(&self) -> u64 {
        if !self.touched.is_empty() || !self.unflushed.is_empty() {
            return 0;
        }
        self.wakes.first().map_or(u64::MAX, |(wake_us, _)| *wake_us)
    }

    /// Sets the bytes per second of snapshots, over all members that receive them because they have no data or are too far
    /// behind. 0: unlimited, as long as requests do not wait.
    pub fn set_copy_rate(&mut self, bytes_per_s: u64) {
        self.pace = Pace::new(bytes_per_s);
    }

    /// Sets the bytes per second of logs that are scrubbed, over all replicas; 0: none.
    pub fn set_scrub(&mut self, bytes_per_s: u64) {
        self.scrub_every_us = scrub_every_us(bytes_per_s);
    }

    /// Scrubs a piece of one log if it is time. It reads the log of one replica to its end, then the next.
    fn scrub<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        effects: &mut dyn EffectsOf<K>,
    ) -> EngineResult<()> {
        if self.scrub_every_us == u64::MAX || context.now_us < self.scrub_at_us {
            return Ok(());
        }
        self.scrub_at_us = context.now_us + self.scrub_every_us;
        let after = self.scrubbed.and_then(|key| {
            let is_done = self.by.get(&key).is_none_or(|slot| slot.replica.is_between_scrubs());
            let next = (std::ops::Bound::Excluded(key), std::ops::Bound::Unbounded);
            if is_done { self.by.range(next).next().map(|(key, _)| *key) } else { Some(key) }
        });
        self.scrubbed = after.or_else(|| self.by.keys().next().copied());
        let Some(key) = self.scrubbed else { return Ok(()) };
        self.step(key, context, ReplicaEvent::Scrub { bytes: SCRUB_BYTES }, effects)
    }

    /// Ticks a primary when a lease that it needs starts or ends. Such changes are few, and come with events and not with time.
    fn look_at_leases<D: Disk>(&mut self, context: &Context<'_, D>) {
        drop(self.lease_wanted_of());
        let mut changed = Vec::new();
        for (member, held) in &mut self.wanted {
            let holds = context.leases.holds(context.now_us, *member);
            if std::mem::replace(held, holds) != holds {
                changed.push(*member);
            }
        }
        if changed.is_empty() {
            return;
        }
        let concerned = self.by.iter().filter(|(_, slot)| {
            slot.replica.role() == Role::Primary
                && slot.replica.view().others().any(|other| changed.contains(&other))
        });
        for key in concerned.map(|(key, _)| *key).collect::<Vec<_>>() {
            self.touch(key);
        }
    }

    /// Ticks all replicas when the disk becomes full, or has room again.
    fn look_at_room<D: Disk>(&mut self, context: &Context<'_, D>) {
        let is_full = !context.engine.has_room();
        if std::mem::replace(&mut self.was_full, is_full) != is_full {
            for key in self.by.keys().copied().collect::<Vec<_>>() {
                self.touch(key);
            }
        }
    }

    /// Schedules a tick in the next batch for the replicas whose dead space waits for a checkpoint.
    pub fn touch_pressed<D: Disk>(&mut self, engine: &Engine<D>) {
        let pressed = self.by.iter().filter(|(_, slot)| engine.is_pressed(slot.replica.handle()));
        for key in pressed.map(|(key, _)| *key).collect::<Vec<_>>() {
            self.touch(key);
        }
    }

    fn touch(&mut self, key: K) {
        if let Some(slot) = self.by.get_mut(&key)
            && !std::mem::replace(&mut slot.is_touched, true)
        {
            self.touched.push(key);
        }
    }

    fn sleep<D: Disk>(&mut self, key: K, context: &mut Context<'_, D>, until_us: u64) {
        let Some(slot) = self.by.get_mut(&key) else { return };
        // Never at once, so that work that is not possible now is not tried without a pause.
        let wake_us = slot.replica.next_wake_us(context).min(until_us).max(context.now_us + NAP_US);
        if wake_us != slot.wake_us {
            self.wakes.remove(&(slot.wake_us, key));
            slot.wake_us = wake_us;
            if wake_us < u64::MAX {
                self.wakes.insert((wake_us, key));
            }
        }
    }
}

/// Whether a member of a healthy group has nothing left to do after this event: it has appended and acknowledged entries, or
/// counted an acknowledgement.
fn is_routine(told: &ReplicaEvent<'_>) -> bool {
    matches!(
        told,
        ReplicaEvent::Peer {
            call: Call::Replicate { .. } | Call::ReplicateAck(FollowerReport::Holds { .. }),
            ..
        }
    )
}
