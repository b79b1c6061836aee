//! The single-copy partitions of an instance, by keyspace and number, with their wake times.

use std::collections::BTreeSet;

use zerohop_engine::disk::Disk;
use zerohop_engine::{Durability, Engine, EngineResult};
use zerohop_wire::Failure;
use zerohop_wire::ids::{KeyspaceId, PartitionEpoch, PartitionId};

use super::AnswerOrigin;
use super::effects_adapter::Relay;
use crate::event::{Now, PartitionEvent, RecordRequest, StepContext, Token};
use crate::limits::TOUCHED_TICK_MS;
use crate::partition::Partition;
use crate::program::{Program, ProgramResult};

/// A partition's slot in the table.
pub(super) type SlotId = u32;

/// No partition of this number is here.
const ELSEWHERE: SlotId = SlotId::MAX;

/// All single-copy partitions of the instance.
#[derive(Debug, Default)]
pub(super) struct Table {
    slots: Vec<Option<TableSlot>>,
    free: Vec<SlotId>,
    /// By id: the slots of all partitions of each keyspace, with [`ELSEWHERE`] for those of other instances.
    keyspaces: Vec<(KeyspaceId, Box<[SlotId]>)>,
    /// When partitions need a tick, in milliseconds since 1970.
    wakes: BTreeSet<(u64, SlotId)>,
    /// The partitions that have appended entries whose answers wait for durability.
    unflushed: Vec<SlotId>,
    /// The partitions that have had a request since the last check.
    touched: Vec<SlotId>,
}

#[derive(Debug)]
struct TableSlot {
    partition: Partition,
    place: AnswerOrigin,
    /// The time under which the partition is in `wakes`; [`u64::MAX`]: it is not there.
    wake_ms: u64,
    is_unflushed: bool,
    is_touched: bool,
}

/// The result of looking up a partition that a request names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PartitionLookup {
    /// The partition is here.
    Here(SlotId, PartitionEpoch),
    /// The partition is at other instances, or does not exist.
    NotHere,
    /// No partition of this keyspace is here.
    NoKeyspace,
}

impl Table {
    #[inline]
    pub(super) fn find(&self, keyspace: KeyspaceId, partition: PartitionId) -> PartitionLookup {
        // There are only a few keyspaces, so a search through them is as fast as any table.
        let Some((_, slots)) = self.keyspaces.iter().find(|(id, _)| *id == keyspace) else {
            return PartitionLookup::NoKeyspace;
        };
        match slots.get(partition.0 as usize) {
            Some(&slot) if slot != ELSEWHERE => PartitionLookup::Here(slot, self.slot(slot).place.epoch),
            _ => PartitionLookup::NotHere,
        }
    }

    /// Adds a partition of a keyspace with this number of partitions.
    pub(super) fn add(
        &mut self,
        keyspace: KeyspaceId,
        partitions: u32,
        id: PartitionId,
        partition: Partition,
    ) {
        let place = AnswerOrigin { keyspace, partition: id, epoch: partition.epoch(), held_us: 0 };
        let slot = TableSlot { partition, place, wake_ms: u64::MAX, is_unflushed: false, is_touched: false };
        let at = match self.free.pop() {
            Some(at) => {
                self.slots[at as usize] = Some(slot);
                at
            }
            None => {
                self.slots.push(Some(slot));
                // Bounded by the partitions of a map, which are counted in 32 bits.
                (self.slots.len() - 1) as SlotId
            }
        };
        let known = self.keyspaces.iter().position(|(id, _)| *id == keyspace).unwrap_or_else(|| {
            self.keyspaces.push((keyspace, vec![ELSEWHERE; partitions as usize].into()));
            self.keyspaces.len() - 1
        });
        self.keyspaces[known].1[id.0 as usize] = at;
        // Deadlines that it has found in its log are checked soon.
        self.touch(at);
    }

    /// Removes a partition. Its pending replies must have been released.
    pub(super) fn remove(&mut self, at: SlotId) -> Option<(AnswerOrigin, Partition)> {
        let slot = self.slots.get_mut(at as usize)?.take()?;
        self.free.push(at);
        self.wakes.remove(&(slot.wake_ms, at));
        self.unflushed.retain(|other| *other != at);
        self.touched.retain(|other| *other != at);
        let AnswerOrigin { keyspace, partition, .. } = slot.place;
        if let Some(known) = self.keyspaces.iter().position(|(id, _)| *id == keyspace) {
            let slots = &mut self.keyspaces[known].1;
            slots[partition.0 as usize] = ELSEWHERE;
            if slots.iter().all(|slot| *slot == ELSEWHERE) {
                self.keyspaces.remove(known);
            }
        }
        Some((slot.place, slot.partition))
    }

    pub(super) fn slots(&self) -> Vec<SlotId> {
        (0..self.slots.len() as SlotId).filter(|at| self.slots[*at as usize].is_some()).collect()
    }

    /// The partitions of one keyspace.
    pub(super) fn of(&self, keyspace: KeyspaceId) -> Vec<SlotId> {
        let found = self.keyspaces.iter().find(|(id, _)| *id == keyspace);
        found.map_or(Vec::new(), |(_, slots)| slots.iter().copied().filter(|at| *at != ELSEWHERE).collect())
    }

    /// The keyspaces that have partitions here.
    pub(super) fn keyspaces(&self) -> impl Iterator<Item = KeyspaceId> {
        self.keyspaces.iter().map(|(id, _)| *id)
    }

    /// The partitions in which requests of a connection wait that may have closed.
    pub(super) fn with_waits(&self) -> Vec<SlotId> {
        let waits = |at: &SlotId| self.slots[*at as usize].as_ref().is_some_and(|s| s.partition.has_waits());
        (0..self.slots.len() as SlotId).filter(waits).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(super) fn partition(&self, at: SlotId) -> &Partition {
        &self.slot(at).partition
    }

    pub(super) fn place(&self, at: SlotId) -> AnswerOrigin {
        self.slot(at).place
    }

    /// Passes a request to a partition.
    #[inline]
    pub(super) fn request<D: Disk>(
        &mut self,
        at: SlotId,
        (engine, at_time): (&mut Engine<D>, StepContext<'_>),
        request: RecordRequest<'_>,
        relay: &mut Relay<'_>,
    ) {
        self.step(at, (engine, at_time), PartitionEvent::Request(request), relay);
        self.touch(at);
    }

    /// Runs a program as one atomic batch of a partition.
    #[inline]
    pub(super) fn run<D: Disk, P: Program>(
        &mut self,
        at: SlotId,
        (engine, at_time): (&mut Engine<D>, StepContext<'_>),
        token: Token,
        (program, reply): (&mut P, &mut Vec<u8>),
        relay: &mut Relay<'_>,
    ) -> Result<ProgramResult, Failure<'static>> {
        let slot = self.slot_mut(at);
        relay.place = slot.place;
        relay.wants_flush = false;
        let result = slot.partition.run(engine, at_time.now, token, (program, reply), relay);
        if relay.wants_flush && !std::mem::replace(&mut slot.is_unflushed, true) {
            self.unflushed.push(at);
        }
        self.touch(at);
        result
    }

    /// Passes an event to a partition.
    #[inline]
    pub(super) fn step<D: Disk>(
        &mut self,
        at: SlotId,
        (engine, at_time): (&mut Engine<D>, StepContext<'_>),
        event: PartitionEvent<'_>,
        relay: &mut Relay<'_>,
    ) {
        let slot = self.slot_mut(at);
        relay.place = slot.place;
        relay.wants_flush = false;
        let result = slot.partition.step(engine, at_time, event, relay);
        if relay.wants_flush && !std::mem::replace(&mut slot.is_unflushed, true) {
            self.unflushed.push(at);
        }
        if let Err(error) = result {
            relay.counters.trouble(&error);
        }
    }

    /// See [`Partition::set_durability`].
    pub(super) fn set_durability<D: Disk>(
        &mut self,
        at: SlotId,
        engine: &mut Engine<D>,
        durability: Durability,
        relay: &mut Relay<'_>,
    ) -> EngineResult<()> {
        let slot = self.slot_mut(at);
        relay.place = slot.place;
        slot.partition.set_durability(engine, durability, relay)?;
        self.touch(at);
        Ok(())
    }

    /// The map has raised the epoch of a partition that stays here.
    pub(super) fn set_epoch(&mut self, at: SlotId, epoch: PartitionEpoch) {
        let slot = self.slot_mut(at);
        if epoch > slot.place.epoch {
            slot.partition.raise_epoch(epoch);
            slot.place.epoch = epoch;
        }
    }

    /// Answers all pending replies of a partition with a failure.
    pub(super) fn release(&mut self, at: SlotId, failure: &Failure<'static>, relay: &mut Relay<'_>) {
        let slot = self.slot_mut(at);
        relay.place = slot.place;
        slot.partition.release(failure, relay);
    }

    pub(super) fn checkpoint<D: Disk>(&mut self, at: SlotId, engine: &mut Engine<D>) -> EngineResult<()> {
        self.slot_mut(at).partition.checkpoint(engine)
    }

    /// Removes and returns the partitions that wait for a flush.
    pub(super) fn take_unflushed(&mut self, into: &mut Vec<SlotId>) {
        for at in self.unflushed.drain(..) {
            if let Some(slot) = self.slots[at as usize].as_mut() {
                slot.is_unflushed = false;
                into.push(at);
            }
        }
    }

    /// These partitions wait for the next flush after all.
    pub(super) fn put_unflushed(&mut self, slots: &mut Vec<SlotId>) {
        for at in slots.drain(..) {
            if !std::mem::replace(&mut self.slot_mut(at).is_unflushed, true) {
                self.unflushed.push(at);
            }
        }
    }

    pub(super) fn has_unflushed(&self) -> bool {
        !self.unflushed.is_empty()
    }

    pub(super) fn touch(&mut self, at: SlotId) {
        if !std::mem::replace(&mut self.slot_mut(at).is_touched, true) {
            self.touched.push(at);
        }
    }

    /// Schedules a tick soon for the partitions whose dead space waits for a checkpoint.
    pub(super) fn touch_pressed<D: Disk>(&mut self, engine: &Engine<D>) {
        let is_pressed = |slot: &Option<TableSlot>| {
            slot.as_ref().is_some_and(|slot| engine.is_pressed(slot.partition.handle()))
        };
        let pressed = (0..).zip(&self.slots).filter(|(_, slot)| is_pressed(slot));
        let pressed: Vec<SlotId> = pressed.map(|(at, _)| at).collect();
        pressed.into_iter().for_each(|at| self.touch(at));
    }

    /// Sets the time of the next tick of the partitions that have had a request. `true`: there were some.
    pub(super) fn settle_touched(&mut self, now: Now) -> bool {
        let mut touched = std::mem::take(&mut self.touched);
        let any = !touched.is_empty();
        for at in touched.drain(..) {
            let Some(slot) = self.slots[at as usize].as_mut() else { continue };
            slot.is_touched = false;
            // Neither check is urgent: whether a checkpoint is due, and whether sessions must be forgotten.
            let soon = slot.wake_ms.min(now.ms + TOUCHED_TICK_MS);
            let wake_ms = slot.partition.next_wake_ms().map_or(soon, |wake_ms| wake_ms.min(soon));
            self.wake_at(at, wake_ms);
        }
        self.touched = touched;
        any
    }

    /// Removes and returns the partitions whose wake time has come.
    pub(super) fn take_due(&mut self, now: Now, into: &mut Vec<SlotId>) {
        while let Some(&(wake_ms, at)) = self.wakes.first()
            && wake_ms <= now.ms
        {
            self.wakes.pop_first();
            self.slot_mut(at).wake_ms = u64::MAX;
            into.push(at);
        }
    }

    /// Sets the time of the next tick after a tick.
    pub(super) fn ticked(&mut self, at: SlotId, now: Now) {
        if let Some(wake_ms) = self.slot(at).partition.next_upkeep_ms() {
            // Work that was not possible just now, as on a full disk, is not tried without a pause.
            self.wake_at(at, wake_ms.max(now.ms + 1));
        }
    }

    /// When the next partition needs a tick, in milliseconds since 1970.
    pub(super) fn next_wake_ms(&self) -> Option<u64> {
        self.wakes.first().map(|(wake_ms, _)| *wake_ms)
    }

    fn wake_at(&mut self, at: SlotId, wake_ms: u64) {
        let slot = self.slots[at as usize].as_mut().expect("names a partition that is held");
        if slot.wake_ms != wake_ms {
            self.wakes.remove(&(slot.wake_ms, at));
            slot.wake_ms = wake_ms;
            self.wakes.insert((wake_ms, at));
        }
    }

    fn slot(&self, at: SlotId) -> &TableSlot {
        self.slots[at as usize].as_ref().expect("names a partition that is held")
    }

    fn slot_mut(&mut self, at: SlotId) -> &mut TableSlot {
        self.slots[at as usize].as_mut().expect("names a partition that is held")
    }
}
