//! A partition as [`crate::replica`] moves it: entries come from a primary or go to others, commit by agreement, are cut,
//! or arrive as a whole state.

use zerohop_engine::disk::Disk;
use zerohop_engine::{Durability, Engine, EngineError, EngineResult, EntryKind, Meta, PartitionId};
use zerohop_wire::Failure;
use zerohop_wire::ids::Timestamp;

use super::Partition;
use super::transactions::is_let_in_mark;
use crate::entry_metadata::Mark;
use crate::event::{Now, PartitionEffects};
use crate::log_writer::NewLogEntry;
use crate::overlay::Overlay;
use crate::partition::open::MemberOptions;
use crate::planted::{Bug, is_planted};
use crate::state::{PartitionState, StateError};

impl Partition {
    /// Acts in this epoch from now on. Alone it commits by itself; what is appended must be committed by then.
    pub(crate) fn set_members(&mut self, epoch: u32, is_alone: bool) {
        self.group.set_members(epoch, is_alone, self.state.applied);
    }

    /// Up to this log index everybody holds it who must: commits it.
    pub(crate) fn agree<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        index: u64,
        effects: &mut dyn PartitionEffects,
    ) -> EngineResult<()> {
        self.group.agree(index);
        if self.group.committed(engine)? > self.state.applied { self.commit(engine, effects) } else { Ok(()) }
    }

    /// Logs that a new primary begins here. Returns the log index. A unit that the log has only the beginning of, and
    /// which nobody was told of, goes: what would end it never comes.
    pub(crate) fn append_mark<D: Disk>(&mut self, engine: &mut Engine<D>) -> EngineResult<u64> {
        let last = self.group.last();
        let mut whole = last;
        while whole > self.state.applied && engine.read_entry(self.handle(), whole)?.head.meta.is_joined() {
            whole -= 1;
        }
        if whole < last {
            self.cut_after(engine, whole)?;
        }
        self.lead_snapshots();
        let at = self.clock.next();
        let mut payload = Vec::new();
        Mark::Epoch { snapshots: self.snapshots_kept() }.encode(at, &mut payload);
        let entry =
            NewLogEntry { kind: EntryKind::Mark, flags: 0, at, key: &[], payload: &payload, hint: None };
        Ok(self.group.append(engine, &entry)?.index)
    }

    /// Takes an entry that the primary has numbered: the next one.
    pub(crate) fn receive<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        meta: &Meta,
        key: &[u8],
        payload: &[u8],
    ) -> EngineResult<()> {
        self.group.cut_owed(engine)?;
        self.snapshot_received(engine, meta, payload)?;
        let mut appended = engine.append(self.handle(), meta, key, payload);
        if let Err(EngineError::DiskFull { .. } | EngineError::Scarce { .. } | EngineError::MemoryFull { .. }) =
            appended
            && is_let_in_mark(meta, payload)
        {
            self.group.let_in(engine, true);
            appended = engine.append(self.handle(), meta, key, payload);
            self.group.let_in(engine, false);
        }
        if let Err(error) = appended {
            self.cut_snapshots_after(engine, meta.index - 1)?;
            return Err(error);
        }
        self.group.set_last((meta.epoch, meta.index));
        if meta.is_joined() {
            self.group.is_joined();
        }
        // Never behind what stands in the log: it may be promoted.
        self.clock.witness(Timestamp(meta.timestamp));
        Ok(())
    }

    /// Cuts the uncommitted entries after a log index off.
    pub(crate) fn cut_after<D: Disk>(&mut self, engine: &mut Engine<D>, index: u64) -> EngineResult<()> {
        engine.cut_after(self.handle(), index)?;
        self.held.cut_after(index);
        self.cut_snapshots_after(engine, index)?;
        let last = engine.partition_stats(self.handle())?.last;
        self.group.set_last(last);
        Ok(())
    }

    /// It is primary no more: whoever waits is told so, and what was evaluated and is not committed is forgotten; the
    /// entries stay in the log until a primary says otherwise.
    pub(crate) fn stand_down(&mut self, failure: &Failure<'static>, effects: &mut dyn PartitionEffects) {
        self.let_go(failure, effects);
        self.forget_work(failure, effects);
    }

    /// The same of a member that goes on in its group: units wait until then for what becomes of their entries.
    pub(crate) fn stand_by(
        &mut self,
        until_us: u64,
        failure: &Failure<'static>,
        effects: &mut dyn PartitionEffects,
    ) {
        self.keep_units(until_us, failure, effects);
        self.forget_work(failure, effects);
    }

    fn forget_work(&mut self, failure: &Failure<'static>, effects: &mut dyn PartitionEffects) {
        while let Some(wait) = self.waits.take_overdue(u64::MAX) {
            self.deliver_wait(wait.asker, &Err(failure.clone()), effects);
        }
        self.overlay = Overlay::default();
        self.forget_transactions(failure, effects);
        // Whoever is primary next begins with a mark, behind all that is on its way.
        self.transactions_after = 0;
    }

    /// Whether enough hold what is written for it to be promised.
    pub(crate) fn set_has_copies(&mut self, has_copies: bool) {
        self.has_copies = has_copies;
    }

    /// Whether too few members have room on their disks for what is written to be promised.
    pub(crate) fn set_lacks_room(&mut self, lacks_room: bool) {
        self.group.set_lacks_room(lacks_room);
    }

    /// Answers what is held with a failure: the writes may have happened and are not known to be safe.
    pub(crate) fn let_go(&mut self, failure: &Failure<'static>, effects: &mut dyn PartitionEffects) {
        self.held.let_go(failure, effects);
    }

    /// Answers what is held with a failure, but for units, whose answers wait until then for [`Partition::settle_kept`].
    pub(crate) fn keep_units(
        &mut self,
        until_us: u64,
        failure: &Failure<'static>,
        effects: &mut dyn PartitionEffects,
    ) {
        self.held.keep(until_us, failure, effects);
    }

    /// Enough members hold the log up to this index, and it is committed.
    pub(crate) fn settle_kept(&mut self, index: u64, effects: &mut dyn PartitionEffects) {
        self.held.settle(index.min(self.state.applied), effects);
    }

    /// Answers what is kept with a failure.
    pub(crate) fn let_kept_go(&mut self, failure: &Failure<'static>, effects: &mut dyn PartitionEffects) {
        self.held.let_kept_go(failure, effects);
    }

    /// When answers that are kept must be let go, in microseconds; [`u64::MAX`]: none are.
    pub(crate) fn kept_until_us(&self) -> u64 {
        self.held.kept_until_us()
    }

    /// Time goes on though nothing happens.
    pub(crate) fn advance_clock(&mut self, now: Now) {
        self.clock.advance(now);
    }

    /// Gives no timestamp at or below this one any more.
    pub(crate) fn begin_above(&mut self, ceiling: Timestamp) {
        if !is_planted(Bug::CeilingForgotten) {
            self.clock.begin_above(ceiling);
        }
    }

    /// From when on what is too far ahead is counted, in milliseconds since 1970.
    pub(crate) fn present_ms(&self) -> u64 {
        self.clock.present_ms()
    }

    /// Whether the timestamps of one more request, which has seen this one, stay below a ceiling.
    pub(crate) fn is_below(&self, seen: Timestamp, ceiling: Timestamp) -> bool {
        self.clock.is_below(seen, ceiling)
    }

    /// The log index that the state is as of.
    pub(crate) fn applied(&self) -> u64 {
        self.state.applied
    }

    /// Whether nobody else must hold an entry.
    pub(crate) fn is_alone(&self) -> bool {
        self.group.is_alone()
    }

    /// Whether anything of it outlives the process.
    pub(crate) fn reaches_disk(&self) -> bool {
        self.group.reaches_disk()
    }

    /// Epoch and index of the last entry of its log.
    pub(crate) fn last_name(&self) -> (u32, u64) {
        self.group.end()
    }

    pub(crate) fn durability(&self) -> Durability {
        self.group.durability()
    }

    pub(crate) fn state(&self) -> &PartitionState {
        &self.state
    }

    /// The session table goes, as a promotion must never have it.
    pub(crate) fn forget_sessions(&mut self) {
        self.state.sessions.forget_all(Timestamp::ZERO);
    }

    /// Drops everything it holds and begins with an empty log.
    pub(crate) fn wipe<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        (id, options): (PartitionId, MemberOptions),
    ) -> EngineResult<()> {
        self.held.lose_track();
        match engine.drop_partition(id) {
            Ok(()) | Err(EngineError::UnknownPartition) => {}
            Err(error) => return Err(error),
        }
        let (handle, _) = Partition::prepare(engine, id, options)?;
        self.group.begin_again(handle);
        self.state = PartitionState::default();
        self.transacting = None;
        self.snapshots = None;
        self.overlay = Overlay::default();
        Ok(())
    }

    /// The empty log takes another member's, run by run.
    pub(crate) fn begin_taking<D: Disk>(&mut self, engine: &mut Engine<D>) -> EngineResult<()> {
        engine.begin_taking(self.handle())
    }

    /// Takes a run of the other member's log.
    pub(crate) fn take_run<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        begins: bool,
        bytes: &[u8],
    ) -> EngineResult<()> {
        let newest = engine.take_run(self.handle(), begins, bytes)?;
        self.clock.witness(Timestamp(newest));
        Ok(())
    }

    /// All of it is there, up to this entry.
    pub(crate) fn taken<D: Disk>(&mut self, engine: &mut Engine<D>, last: (u32, u64)) -> EngineResult<()> {
        engine.taken(self.handle(), last)?;
        self.group.set_last(last);
        Ok(())
    }

    /// The log is as whoever sent it has it up to its end, and this is the state there.
    pub(crate) fn install<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        state: &[u8],
    ) -> Result<(), StateError> {
        let mut state = PartitionState::decode(state)?;
        self.held.lose_track();
        let last = self.group.last();
        if engine.commit(self.handle(), last).is_err() {
            return Err(StateError::Damaged);
        }
        state.applied = last;
        self.clock.witness(state.newest);
        self.clock.witness(state.sessions.mark());
        self.state = state;
        self.group.agree(last);
        Ok(())
    }
}
