//! Writes: a repeated write gets its first outcome. Otherwise it is evaluated, logged with its outcome, and answered once
//! committed.

use zerohop_engine::disk::Disk;
use zerohop_engine::{Engine, EngineResult, EntryKind, EntryMeta, FLAG_CHUNK, FLAG_LIST, FLAG_TRAILER, Hint};
use zerohop_record::state::Contents;
use zerohop_wire::ids::{SessionId, Timestamp};
use zerohop_wire::messages::{BlobChange, RecordType, RecordWrite, Stamp, WriteChange};
use zerohop_wire::{BadRequestReason, Failure};

use super::{AnswerTarget, Partition};
use crate::entry_metadata::{EntryMetadata, SessionOutcome};
use crate::event::PartitionEffects;
use crate::failure::failure_of;
use crate::last_record_read::RecordGlimpse;
use crate::limits::{BUSY_RETRY_MS, NAMES_BYTES_MAX, SESSION_BYTES_MAX, SESSIONS_MAX};
use crate::log_writer::NewLogEntry;
use crate::operations::{self, LogAction, RecordInput, WritePlan, WriteTarget};
use crate::outcome::WriteOutcome;
use crate::overlay::{RecordChange, Shape};
use crate::planted::{Bug, is_planted};

impl Partition {
    /// Whether the session has reported that it already has the answer of this request.
    pub(super) fn is_answered(&self, stamp: &Stamp) -> bool {
        stamp.session.is_some()
            && !is_planted(Bug::SessionTableNotChecked)
            && self.state.sessions.get(stamp.session).is_some_and(|session| stamp.sequence.0 < session.lowest)
    }

    pub(super) fn write<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        stamp: &Stamp,
        sequence: u64,
        write: &RecordWrite<'_>,
        to: &mut AnswerTarget<'_>,
        effects: &mut dyn PartitionEffects,
    ) {
        if stamp.session.is_some() {
            if let Some((index, outcome)) = self.first_outcome(stamp.session, sequence) {
                self.counts.answered_again += 1;
                self.deliver(to, index, &outcome.answer(), effects);
                return;
            }
            if let Err(failure) = self.admit_session(stamp, sequence) {
                self.deliver(to, 0, &Err(failure), effects);
                return;
            }
        }
        match self.evaluate(engine, stamp, sequence, write, effects) {
            Ok((index, outcome)) => self.deliver(to, index, &outcome.answer(), effects),
            Err(failure) => self.deliver(to, 0, &Err(failure), effects),
        }
    }

    /// The outcome of a write that was done before, and the index of its entry.
    pub(super) fn first_outcome(&self, session: SessionId, sequence: u64) -> Option<(u64, WriteOutcome)> {
        if self.overlay.eviction(session).1 || is_planted(Bug::SessionTableNotChecked) {
            return None;
        }
        if let Some((index, outcome)) = self.overlay.outcome(session, sequence) {
            return Some((index, outcome.clone()));
        }
        Some((0, self.state.sessions.get(session)?.outcome(sequence)?.clone()))
    }

    /// Whether a session may gain a new outcome.
    pub(super) fn admit_session(&self, stamp: &Stamp, sequence: u64) -> Result<(), Failure<'static>> {
        let sessions = &self.state.sessions;
        let (rising_mark, is_evicted) = self.overlay.eviction(stamp.session);
        let mark = sessions.session_mark().max(rising_mark);
        let busy = Err(Failure::Busy { retry_after_ms: BUSY_RETRY_MS });
        let is_full = sessions.bytes() >= SESSION_BYTES_MAX;
        match sessions.get(stamp.session) {
            _ if is_evicted => Err(Failure::SessionExpired { mark }),
            // In this batch the first write is unanswered and a later one is answered. No client sends that.
            Some(session) if sequence < session.lowest => Err(BadRequestReason::Window.into()),
            Some(session) if is_full && !session.would_free(stamp.lowest_unanswered.0) => busy,
            Some(_) => Ok(()),
            None if stamp.session.issued < mark => Err(Failure::SessionExpired { mark }),
            None if is_full || sessions.len() >= SESSIONS_MAX => busy,
            None => Ok(()),
        }
    }

    /// Evaluates a write and logs its effect. Returns the index of the newest entry that its outcome depends on.
    fn evaluate<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        stamp: &Stamp,
        sequence: u64,
        write: &RecordWrite<'_>,
        effects: &mut dyn PartitionEffects,
    ) -> Result<(u64, WriteOutcome), Failure<'static>> {
        if write.key.is_empty() {
            return Err(super::read::no_key());
        }
        let is_new_blob = matches!(write.change, WriteChange::Blob(BlobChange::Create { .. }));
        if is_new_blob && self.state.names.bytes() >= NAMES_BYTES_MAX {
            return Err(Failure::MemoryFull);
        }
        let depends_on_record = operations::depends_on_record(write);
        if depends_on_record {
            self.expire_if_due(engine, write.key, effects)?;
        }
        let at = self.clock.next();
        let mut buffer = std::mem::take(&mut self.buffers.contents);
        buffer.clear();
        let mut view = self.view(engine);
        if is_planted(Bug::OverlayIgnored) {
            view.overlay = None;
        }
        let RecordGlimpse { shape, hint } = match view.find_if(depends_on_record, write.key) {
            Ok(seen) => seen,
            Err(error) => return Err(failure_of(&error)),
        };
        let (now_ms, bytes_max) = (self.clock.now_ms(), self.terms.bytes_max);
        let mut target = WriteTarget {
            found: RecordInput { view, key: write.key, shape },
            at,
            now_ms,
            bytes_max,
            buffer: &mut buffer,
        };
        let planned = operations::plan(&mut target, write);
        let before = target.found.shape.take();
        let result = planned.and_then(|WritePlan { action, outcome }| {
            let what = (at, write.key, hint.as_ref());
            let index = self.log(engine, (stamp, sequence), what, &action, &outcome, &mut buffer);
            match index.map_err(|error| failure_of(&error))? {
                // It is not logged; its outcome depends on the record as it was.
                None if is_planted(Bug::ReadsUncommitted) => Ok((0, outcome)),
                None => {
                    let newest = self.overlay.record(write.key).map_or(0, |known| known.newest());
                    Ok((newest, outcome))
                }
                Some(meta) => {
                    let is_refused = matches!(action, LogAction::Nothing);
                    self.logged(engine, &meta, write.key, (action, before), effects)?;
                    let answers_at_once = is_planted(Bug::AnswersBeforeFlush)
                        || is_planted(Bug::ReadsUncommitted) && is_refused;
                    Ok((if answers_at_once { 0 } else { meta.index }, outcome))
                }
            }
        });
        self.buffers.contents = buffer;
        result
    }

    /// Appends the entry of an action and its outcome, if there is anything to write.
    fn log<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        (stamp, sequence): (&Stamp, u64),
        (at, key, hint): (Timestamp, &[u8], Option<&Hint>),
        action: &LogAction<'_>,
        outcome: &WriteOutcome,
        buffer: &mut Vec<u8>,
    ) -> EngineResult<Option<EntryMeta>> {
        let kept = || outcome.without_long_value();
        let lowest = stamp.lowest_unanswered.0;
        let session = stamp.session.is_some().then(|| SessionOutcome {
            session: stamp.session,
            sequence,
            lowest,
            outcome: kept(),
        });
        let note = EntryMetadata { deadline: action.entry_deadline(), session };
        let list = |record: &RecordType| if *record == RecordType::List { FLAG_LIST } else { 0 };
        let (kind, flags, contents) = match action {
            LogAction::Put { record, contents, .. } => (EntryKind::Put, list(record), *contents),
            LogAction::Append { record, contents, .. } => (EntryKind::Append, list(record), *contents),
            LogAction::PutChunk(..) => (EntryKind::Put, FLAG_CHUNK, Contents::Buffered),
            LogAction::OverlayChunk(..) => (EntryKind::Append, FLAG_CHUNK, Contents::Buffered),
            LogAction::Remove => (EntryKind::Remove, 0, Contents::AsReceived(&[])),
            // Without a session no request is repeated.
            LogAction::Take if note.session.is_none() => (EntryKind::Remove, 0, Contents::AsReceived(&[])),
            LogAction::Take => (EntryKind::Remove, 0, Contents::Buffered),
            LogAction::Trim { to, .. } => {
                buffer.clear();
                buffer.extend_from_slice(&to.encode());
                (EntryKind::Trim, 0, Contents::Buffered)
            }
            LogAction::Nothing if note.is_empty() => return Ok(None),
            LogAction::Nothing | LogAction::Deadline(_) => {
                buffer.clear();
                note.push_mark(at, buffer);
                (EntryKind::Mark, 0, Contents::Buffered)
            }
        };
        let has_trailer = kind != EntryKind::Mark && !note.is_empty();
        let payload = match contents {
            // The bytes are appended without a copy.
            Contents::AsReceived(bytes) if !has_trailer => bytes,
            Contents::AsReceived(bytes) => {
                buffer.clear();
                buffer.extend_from_slice(bytes);
                note.push_trailer(at, buffer);
                &buffer[..]
            }
            Contents::Buffered => {
                if has_trailer {
                    note.push_trailer(at, buffer);
                }
                &buffer[..]
            }
        };
        let flags = if has_trailer { flags | FLAG_TRAILER } else { flags };
        let key = if matches!(action, LogAction::Nothing) { &[] } else { key };
        let entry = NewLogEntry { kind, flags, at, key, payload, hint };
        let meta = self.log_writer.append_with(engine, &entry, action.separate_bytes())?;
        if self.log_writer.commits_at_once() {
            self.apply(&meta, key, payload);
        }
        self.record_outcome(&meta, stamp.session, sequence, kept);
        Ok(Some(meta))
    }

    /// Makes an outcome available to a retry that arrives before its entry is committed.
    fn record_outcome(
        &mut self,
        meta: &EntryMeta,
        session: SessionId,
        sequence: u64,
        outcome: impl FnOnce() -> WriteOutcome,
    ) {
        if session.is_some() && !self.log_writer.commits_at_once() {
            self.overlay.add_outcome(meta.index, session, sequence, outcome());
        }
    }

    /// Handles an appended entry: it is committed now, or stays in the overlay until it is.
    fn logged<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        meta: &EntryMeta,
        key: &[u8],
        (action, before): (LogAction<'_>, Option<Shape>),
        effects: &mut dyn PartitionEffects,
    ) -> Result<(), Failure<'static>> {
        if self.log_writer.commits_at_once() {
            if self.waits.has(key) {
                self.answer_waits(engine, key, effects);
            }
            return Ok(());
        }
        effects.request_flush();
        let version = Timestamp(meta.timestamp);
        let change = match action {
            LogAction::Put { record, units, deadline, .. } => {
                RecordChange::Put { record, units, version, deadline }
            }
            LogAction::Remove | LogAction::Take => RecordChange::Remove,
            LogAction::Append { record, units, .. } => RecordChange::Append { record, units, version },
            LogAction::Trim { units, .. } => RecordChange::Trim { units, version },
            LogAction::Deadline(deadline) => RecordChange::Deadline(deadline),
            LogAction::PutChunk(written, _) => RecordChange::PutChunk { written, version },
            LogAction::OverlayChunk(written, _) => RecordChange::OverlayChunk { written, version },
            LogAction::Nothing => return Ok(()),
        };
        self.overlay.change(meta.index, key, change, before);
        Ok(())
    }

    /// Whether the deadline of a record has come.
    #[inline]
    pub(super) fn is_due(&self, key: &[u8]) -> bool {
        let deadline = match self.overlay.record(key) {
            Some(known) => known.shape().and_then(|shape| shape.deadline),
            None => self.state.deadlines.get(key),
        };
        deadline.is_some_and(|deadline| deadline <= self.clock.now_ms())
    }

    /// Removes a record whose deadline has come, before a request is evaluated over it.
    pub(super) fn expire_if_due<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        key: &[u8],
        effects: &mut dyn PartitionEffects,
    ) -> Result<bool, Failure<'static>> {
        if !self.is_due(key) {
            return Ok(false);
        }
        self.remove_without_request(engine, key, effects)?;
        Ok(true)
    }

    /// Removes a record that a sibling owns. No client can have received a result about it here since the split.
    pub(super) fn remove_foreign<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        key: &[u8],
        effects: &mut dyn PartitionEffects,
    ) -> Result<(), Failure<'static>> {
        // An uncommitted entry has already removed it.
        let is_gone = self.overlay.record(key).is_some_and(|known| known.shape().is_none());
        if is_gone { Ok(()) } else { self.remove_without_request(engine, key, effects) }
    }

    fn remove_without_request<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        key: &[u8],
        effects: &mut dyn PartitionEffects,
    ) -> Result<(), Failure<'static>> {
        let at = self.clock.next();
        let (stamp, action) = (Stamp::default(), LogAction::Remove);
        let outcome = WriteOutcome::Done { version: Timestamp::ZERO, number: 1 };
        let logged = self.log(engine, (&stamp, 0), (at, key, None), &action, &outcome, &mut Vec::new());
        if let Some(meta) = logged.map_err(|error| failure_of(&error))? {
            self.logged(engine, &meta, key, (action, None), effects)?;
        }
        Ok(())
    }
}
