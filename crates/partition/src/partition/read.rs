//! Reads: answered from the engine and the overlay. A wait whose condition does not hold is queued.

use zerohop_engine::Engine;
use zerohop_engine::disk::Disk;
use zerohop_record::state::ReadableRecord;
use zerohop_wire::blob::{BlobStamp, header_key};
use zerohop_wire::checksum::crc32c_of_middle;
use zerohop_wire::ids::Timestamp;
use zerohop_wire::limits::KEY_BYTES_MAX;
use zerohop_wire::messages::{
    ChunkList, LookupRange, Outcome as WireOutcome, Query, ReadChunk, RecordRead, Scan, Wait, WaitUntil,
};
use zerohop_wire::{Failure, Message};

use super::read_locks::ReadLockRequest;
use super::update_locks::PartitionUpdateLocks;
use super::{AnswerTarget, Partition, deliver, deliver_read_locked};
use crate::event::{PartitionEffects, Token};
use crate::limits::WAIT_DEFAULT_MS;
use crate::operations::range::PresentRecords;
use crate::operations::{self, EngineResultExt, RecordInput};
use crate::planted::{Bug, is_planted};
use crate::view::{RecordView, WholeBytes};
use crate::waits::{self, WaitCondition, WaitTarget};

/// The failure for an empty key, which no record has. Reads get it as writes do.
pub(super) fn no_key() -> Failure<'static> {
    Failure::KeyTooLong { length: 0, limit: KEY_BYTES_MAX as u32 }
}

impl Partition {
    pub(super) fn read<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        (read, read_lock): (&RecordRead<'_>, Option<&ReadLockRequest>),
        time_out_ms: u32,
        to: &mut AnswerTarget<'_>,
        effects: &mut dyn PartitionEffects,
    ) {
        if read.key.is_empty() {
            return self.deliver(to, 0, &Err(no_key()), effects);
        }
        if let Query::Confirm(_) = read.query
            && !is_planted(Bug::ConfirmIgnoresIntents)
            && (self.has_intent(read.key) || self.is_due(read.key) && !self.may_expire(read.key))
        {
            // A transaction is about to change the record, so it cannot be confirmed.
            let answer = Ok(WireOutcome::Done { version: Timestamp::ZERO, number: 0 });
            self.deliver(to, 0, &answer, effects);
            return;
        }
        if let Err(failure) = self.expire_if_due(engine, read.key, effects) {
            self.deliver(to, 0, &Err(failure), effects);
            return;
        }
        if let Query::Wait(Wait { until }) = read.query {
            self.wait(engine, (read, &until), time_out_ms, to, effects);
            return;
        }
        if let Query::UpdateLock(lock) = read.query {
            let mut locks = PartitionUpdateLocks { partition: self };
            if locks.request(engine, (read.key, lock), time_out_ms, to, effects) {
                return;
            }
        }
        let Partition { state, overlay, pending_replies, log_writer, buffers, transacting, clock, .. } = self;
        let (commit, handle) = (state.applied, log_writer.handle());
        let overlay = &*overlay;
        let mut grant = |version| {
            let read_lock = read_lock.filter(|_| !matches!(read.query, Query::Confirm(_)));
            read_lock.map_or(0, |read_lock| {
                read_lock.grant(transacting.as_deref_mut(), (overlay, state, clock), (read.key, version))
            })
        };
        let mut view = RecordView { engine, handle, overlay: Some(overlay), deadlines: &state.deadlines };
        // A committed record in a single entry is answered without a copy.
        if let Query::Lookup | Query::LookupRange(_) | Query::UpdateLock(_) = read.query
            && let Ok(Some(WholeBytes { version, bytes: whole, .. })) = view.whole(read.key)
        {
            let length = whole.len() as u64;
            let bytes = match read.query {
                Query::LookupRange(LookupRange { range }) => {
                    let part = range.clip(length);
                    &whole[part.start as usize..part.end as usize]
                }
                _ => whole,
            };
            let answer = Ok(WireOutcome::Value { version, length, bytes });
            deliver_read_locked(pending_replies, commit, to, (0, grant(version)), &answer, effects);
            return;
        }
        if let Query::ReadChunk(ReadChunk { offset, length }) = read.query {
            let mut pieces = Vec::new();
            let found = view.chunk_at_once(read.key, (offset, length), |piece| pieces.push(piece));
            if let Ok(Some((state, summed))) = found {
                let (version, stamp) = (Timestamp(state.timestamp), BlobStamp::decode(&state.stamp));
                let bytes = pieces.iter().map(|piece| piece.len() as u64).sum();
                let crc = summed.map(|of| crc32c_of_middle(of.payload_crc, &of.before, bytes, &of.behind));
                let answer = Ok(WireOutcome::ChunkMultiBuffer { version, stamp, pieces: &pieces, crc });
                deliver_read_locked(pending_replies, commit, to, (0, grant(version)), &answer, effects);
                return;
            }
        }
        let waits = !is_planted(Bug::ReadsUncommitted);
        let index = overlay.record(read.key).filter(|_| waits).map_or(0, |known| known.newest());
        buffers.contents.clear();
        let mut found = RecordInput::find(view, read.key);
        let answer = match &mut found {
            Ok(record) => read.answer(record, &mut buffers.contents),
            Err(failure) => Err(failure.clone()),
        };
        let read_lock_us = match (&answer, &found) {
            (Ok(_), Ok(RecordInput { shape: Some(shape), .. })) => grant(shape.version),
            _ => 0,
        };
        deliver_read_locked(pending_replies, commit, to, (index, read_lock_us), &answer, effects);
    }

    fn wait<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        (read, until): (&RecordRead<'_>, &WaitUntil<'_>),
        time_out_ms: u32,
        to: &mut AnswerTarget<'_>,
        effects: &mut dyn PartitionEffects,
    ) {
        let Partition { state, overlay, pending_replies, log_writer, buffers, .. } = &mut *self;
        let (commit, handle) = (state.applied, log_writer.handle());
        let view = RecordView { engine, handle, overlay: Some(overlay), deadlines: &state.deadlines };
        let index = overlay.record(read.key).map_or(0, |known| known.newest());
        match awaited(view, read.key, until, &mut buffers.contents) {
            Ok((mut record, true)) => {
                let answer = read.answer(&mut record, &mut buffers.contents);
                deliver(pending_replies, commit, to, index, &answer, effects);
            }
            Ok((_, false)) => {
                let time_out_ms = if time_out_ms == 0 { WAIT_DEFAULT_MS } else { time_out_ms };
                let deadline_ms = self.clock.now_ms() + u64::from(time_out_ms);
                let requester = (self.wait_target(to), to.token().connection);
                let awaited = WaitCondition::of(until);
                if let Err(failure) = self.waits.enqueue(read.key, awaited, requester, deadline_ms) {
                    self.deliver(to, 0, &Err(failure), effects);
                }
            }
            Err(failure) => self.deliver(to, 0, &Err(failure), effects),
        }
    }

    /// Where the answer of a request goes that waits.
    pub(super) fn wait_target(&mut self, to: &AnswerTarget<'_>) -> WaitTarget {
        match to {
            AnswerTarget::One(token) => WaitTarget::One(*token),
            AnswerTarget::Item(_, place) => WaitTarget::Item(self.waits.batch_number(), *place),
        }
    }

    /// Answers the waits for a record that has just been committed, by committed data alone. A wait sees every state of a record.
    pub(super) fn answer_waits<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        key: &[u8],
        effects: &mut dyn PartitionEffects,
    ) {
        if is_planted(Bug::WaitsNotChecked) {
            return;
        }
        for number in self.waits.of(key) {
            let Partition { state, log_writer, buffers, waits, .. } = &mut *self;
            let Some(wait) = waits.get(number) else { continue };
            let Some(until) = wait.awaited.until() else { continue };
            let view = RecordView {
                engine,
                handle: log_writer.handle(),
                overlay: None,
                deadlines: &state.deadlines,
            };
            let mut contents = std::mem::take(&mut buffers.contents);
            let mut found = awaited(view, key, &until, &mut contents);
            let answer = match &mut found {
                Ok((_, false)) => {
                    buffers.contents = contents;
                    continue;
                }
                Ok((record, true)) => Query::Lookup.answer(key, record, &mut contents),
                Err(failure) => Err(failure.clone()),
            };
            if let Some(wait) = waits.take(number) {
                self.deliver_wait(wait.requester, &answer, effects);
            }
            self.buffers.contents = contents;
        }
        PartitionUpdateLocks { partition: self }.changed(engine, key, effects);
    }

    /// Answers a wait whose time-out has passed, by committed data. The change that it has seen on arrival may be uncommitted.
    /// Until that change is committed, the record may still be as requested.
    pub(super) fn time_out<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        wait: &waits::Wait,
        effects: &mut dyn PartitionEffects,
    ) {
        let Some(until) = wait.awaited.until() else {
            return PartitionUpdateLocks { partition: self }.answer(engine, wait, effects);
        };
        let Partition { state, log_writer, buffers, .. } = &mut *self;
        let view =
            RecordView { engine, handle: log_writer.handle(), overlay: None, deadlines: &state.deadlines };
        let mut contents = std::mem::take(&mut buffers.contents);
        let answer = match awaited(view, &wait.key, &until, &mut contents) {
            Ok((mut record, true)) => Query::Lookup.answer(&wait.key, &mut record, &mut contents),
            Ok((record, false)) => Err(Failure::TimedOut { version: record.version() }),
            Err(failure) => Err(failure),
        };
        self.deliver_wait(wait.requester, &answer, effects);
        self.buffers.contents = contents;
    }

    pub(super) fn scan<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        scan: &Scan<'_>,
        token: Token,
        effects: &mut dyn PartitionEffects,
    ) {
        let foreign = self.foreign();
        let foreign = foreign.as_ref();
        let Partition { state, log_writer, buffers, clock, .. } = self;
        buffers.contents.clear();
        buffers.cursor.clear();
        let mut view =
            RecordView { engine, handle: log_writer.handle(), overlay: None, deadlines: &state.deadlines };
        let out = (&mut buffers.contents, &mut buffers.cursor);
        let answer = match scan.blobs {
            true => {
                let names = state.names.behind(scan.prefix, scan.cursor);
                let look = |name: &[u8]| {
                    let shape = view.shape(&header_key(name)?).or_fail()?;
                    Ok(shape.map(|shape| (shape.record, shape.version)))
                };
                operations::scan::names(names, scan, foreign, look, out)
            }
            false if view.is_ordered() => {
                let mut present = PresentRecords { view: &mut view, now_ms: clock.now_ms() };
                operations::range::page(&mut present, scan, foreign, out)
            }
            false => operations::scan::answer(&mut view, scan, (clock.now_ms(), foreign), out),
        };
        effects.answer(token, &Message::Answer(answer));
    }

    pub(super) fn list_chunks<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        list: &ChunkList<'_>,
        token: Token,
        effects: &mut dyn PartitionEffects,
    ) {
        let foreign = self.foreign();
        let foreign = foreign.as_ref();
        let Partition { state, log_writer, buffers, .. } = self;
        buffers.contents.clear();
        buffers.cursor.clear();
        let mut view =
            RecordView { engine, handle: log_writer.handle(), overlay: None, deadlines: &state.deadlines };
        let out = (&mut buffers.contents, &mut buffers.cursor);
        let answer = operations::chunk_list::answer(&mut view, &state.chunks, list, foreign, out);
        effects.answer(token, &Message::Answer(answer));
    }
}

/// The record of a wait, and whether it is in the awaited state. `out` is used as a buffer, and left empty.
fn awaited<'c, 'v, D: Disk>(
    view: RecordView<'v, D>,
    key: &'c [u8],
    until: &WaitUntil<'_>,
    out: &mut Vec<u8>,
) -> Result<(RecordInput<'c, 'v, D>, bool), Failure<'static>> {
    out.clear();
    let mut record = RecordInput::find(view, key)?;
    let is_satisfied = until.is_satisfied(&mut record, out)?;
    Ok((record, is_satisfied))
}
