//! Runs a program as one atomic batch: its changes are appended, committed together and then answered, or are undone.

use zerohop_engine::disk::Disk;
use zerohop_engine::{Engine, EngineResult, EntryMeta, FLAG_JOINED};
use zerohop_wire::Failure;
use zerohop_wire::ids::Timestamp;

use super::Partition;
use crate::atomic_batch::{Unit, wrong_owner};
use crate::event::{ClockSample, PartitionEffects, Token};
use crate::failure::failure_of;
use crate::limits::BUSY_RETRY_MS;
use crate::log_writer::NewLogEntry;
use crate::operations::EngineResultExt;
use crate::planted::{Bug, is_planted};
use crate::program::{Program, ProgramResult};
use crate::reply::Reply;
use crate::write_buffer::UnitWriteBuffer;

impl Partition {
    /// Runs a program over the records. After [`ProgramResult::Now`] its reply is at the end of `reply`. After
    /// [`ProgramResult::Later`] it comes as [`PartitionEffect::Reply`](crate::PartitionEffect::Reply), or as an answer with a failure if its changes cannot be
    /// committed.
    ///
    /// # Errors
    /// `WrongOwner`, without the map changes, if the program names a key that is not the partition's own, because the caller has
    /// routed it by another map. Failures of the program or the partition: nothing has changed (after `DiskFailed` perhaps),
    /// nothing was appended to `reply`, and nothing follows later.
    pub fn run<D: Disk, P: Program>(
        &mut self,
        engine: &mut Engine<D>,
        now: ClockSample,
        token: Token,
        (program, reply): (&mut P, &mut Vec<u8>),
        effects: &mut dyn PartitionEffects,
    ) -> Result<ProgramResult, Failure<'static>> {
        self.clock.advance(now);
        self.resume_after_read_locks(engine, effects);
        let may_be_locked = self.has_unknown_read_locks() && program.may_write();
        if self.pending_replies.is_full() || may_be_locked || !self.knows_intents() {
            return Err(Failure::Busy { retry_after_ms: BUSY_RETRY_MS });
        }
        if let Some(snapshot) = program.reads_past() {
            return self.run_past(engine, snapshot, (program, reply), effects).map(|()| ProgramResult::Now);
        }
        let (begin, end) = (reply.len(), self.log_writer.end());
        let mut staged = self.buffers.staged.take().unwrap_or_default();
        let foreign = self.foreign();
        let hash_range = self.hash_range();
        let mut unit = {
            let Partition { log_writer, overlay, state, clock, transacting, .. } = self;
            let mut unit = Unit::new(engine, (log_writer, overlay, state), clock, &mut staged, foreign);
            unit.set_intents(transacting.as_deref().and_then(|one| one.intents(hash_range.clone())));
            unit.set_hash_range(hash_range.filter(|_| !is_planted(Bug::HashRangeNotChecked)));
            unit
        };
        let mut ran = program.run(&mut unit, reply);
        // This holds whatever the program returns.
        if unit.is_misrouted {
            ran = Err(wrong_owner());
        } else if unit.is_blocked {
            ran = Err(Failure::Busy { retry_after_ms: BUSY_RETRY_MS });
        }
        let (newest, appended) = (unit.newest, unit.appended);
        let at = if appended > 0 { unit.at() } else { Timestamp::ZERO };
        let result = match ran {
            Ok(true) if staged.is_empty() && appended == 0 => Ok(newest),
            Ok(true) if appended == 0 && self.log_writer.commits_at_once() => {
                let written = self.write_at_once(engine, &staged, effects);
                written.or_else(|error| self.undo_entries(engine, end).and(Err(failure_of(&error))))
            }
            Ok(true) => {
                if staged.is_empty() {
                    staged.push_end(at);
                }
                match staged.append(engine, (&mut self.log_writer, &mut self.overlay), false) {
                    Ok(()) => self.end_batch(engine, &staged, effects).or_fail(),
                    Err(error) => self.undo_entries(engine, end).and(Err(failure_of(&error))),
                }
            }
            // What it has read of others must be committed before its answer is sent.
            Ok(false) => {
                let seen = self.undo_entries(engine, end).map(|()| newest.min(end.1));
                match (seen, program.opens()) {
                    (Ok(seen), Some(opening)) => {
                        let opened = self.open_for_answer(engine, opening, (program, reply), effects);
                        opened.map(|index| index.max(seen))
                    }
                    (seen, _) => seen,
                }
            }
            Err(failure) => self.undo_entries(engine, end).and(Err(failure)),
        };
        staged.clear();
        self.buffers.staged = Some(staged);
        match result {
            Ok(index) if index <= self.state.applied || is_planted(Bug::ReadsUncommitted) => {
                Ok(ProgramResult::Now)
            }
            Ok(index) => {
                let bytes = reply.split_off(begin);
                self.pending_replies.push(index, token, Reply::Raw(bytes), effects);
                Ok(ProgramResult::Later)
            }
            Err(failure) => {
                reply.truncate(begin);
                Err(failure)
            }
        }
    }

    /// Writes an atomic batch without earlier log entries in one call, where appended entries are committed at once.
    pub(super) fn write_at_once<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        staged: &UnitWriteBuffer,
        effects: &mut dyn PartitionEffects,
    ) -> EngineResult<u64> {
        let mut entries = staged.entries();
        if let (Some(entry), true) = (entries.next(), staged.len() == 1) {
            let meta = self.log_writer.append(engine, &entry)?;
            self.apply(&meta, entry.key, entry.payload);
        } else {
            let (epoch, last) = self.log_writer.append_batch(engine, staged.entries())?;
            for (index, entry) in (last + 1 - staged.len() as u64..).zip(staged.entries()) {
                let NewLogEntry { kind, flags, at, key, payload, .. } = entry;
                let joined = if index < last { FLAG_JOINED } else { 0 };
                let meta = EntryMeta { kind, flags: flags | joined, epoch, index, timestamp: at.0 };
                self.apply(&meta, key, payload);
            }
        }
        if !self.waits.is_empty() {
            // The changes of an atomic batch become visible together.
            staged.entries().for_each(|entry| self.notify_waits(engine, entry.key, effects));
        }
        Ok(self.log_writer.last())
    }

    /// All entries of an atomic batch are in the log. They are committed now, or stay in the overlay until they are.
    pub(super) fn end_batch<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        staged: &UnitWriteBuffer,
        effects: &mut dyn PartitionEffects,
    ) -> EngineResult<u64> {
        let last = self.log_writer.last();
        if !self.log_writer.commits_at_once() {
            effects.request_flush();
            return Ok(last);
        }
        // A failure here is one of the disk, and the partition accepts no more writes.
        engine.commit(self.handle(), last)?;
        for (meta, key, note) in staged.recorded.iter() {
            self.apply(meta, key, note);
        }
        // Where all entries are committed at once, the overlay has nothing else.
        self.overlay.clear_records();
        if !self.waits.is_empty() {
            staged.recorded.iter().for_each(|(_, key, _)| self.notify_waits(engine, key, effects));
        }
        Ok(last)
    }

    fn notify_waits<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        key: &[u8],
        effects: &mut dyn PartitionEffects,
    ) {
        if self.waits.has(key) {
            self.answer_waits(engine, key, effects);
        }
    }

    /// Undoes the entries that were appended after `end`.
    fn undo_entries<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        end: (u32, u64),
    ) -> Result<(), Failure<'static>> {
        let Partition { log_writer, overlay, state, .. } = self;
        super::transactions::undo_entries(engine, (log_writer, overlay, &state.deadlines), end)
    }
}
