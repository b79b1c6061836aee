//! Changes for readers that watch the keyspace: committed entries become changes of the history, and requests read them or wait for the next one.

use std::collections::BTreeMap;
use std::sync::Arc;

use zerohop_engine::disk::Disk;
use zerohop_engine::{Engine, EngineResult, EntryKind};
use zerohop_placement::ChangeHistory;
use zerohop_record::state::ReadableRecord;
use zerohop_wire::blob::is_of_blob;
use zerohop_wire::ids::Timestamp;
use zerohop_wire::limits::CHANGE_VALUE_BYTES_MAX;
use zerohop_wire::messages::{AFTER_NOW, ChangeCause, Outcome, ReadChanges, RecordType};
use zerohop_wire::{BadRequestReason, Elements, Failure, Message};

use super::Partition;
use crate::event::{PartitionEffects, Token};
use crate::history::{ChangePage, History, RecordedChange, WaitingReader, WaitingReaders};
use crate::limits::{BUSY_RETRY_MS, HISTORY_SENT_BYTES_MAX};
use crate::operations::RecordInput;
use crate::planted::{Bug, is_planted};
use crate::view::RecordView;
use crate::watch_positions::{PartitionWatch, WatchPositions};

/// The history of a partition, and the requests that wait for its next change. `None` in a keyspace without a history.
#[derive(Debug, Default)]
pub(super) struct ChangeFeed {
    history: Option<Box<History>>,
    readers: WaitingReaders,
    positions: WatchPositions,
}

/// Records that a batch of entries changes, as they were before it.
#[derive(Debug, Default)]
pub(super) struct RecordsBefore(BTreeMap<Vec<u8>, RecordBefore>);

#[derive(Clone, Copy, Debug)]
struct RecordBefore {
    /// Zero: there was no record.
    version: Timestamp,
    deadline: Option<u64>,
    /// The last entry of the batch that changes it, and its timestamp.
    last: (u64, Timestamp),
}

impl ChangeFeed {
    /// Whether changes are kept.
    pub(super) fn is_kept(&self) -> bool {
        self.history.is_some()
    }

    /// Keeps changes within these limits, at first those behind this log index.
    pub(super) fn keep_within(&mut self, limits: ChangeHistory, applied: u64) {
        match &mut self.history {
            Some(history) => history.set_limits(limits),
            None => self.history = Some(Box::new(History::new(limits, applied))),
        }
    }

    /// Keeps no changes any more.
    pub(super) fn end(&mut self) {
        self.history = None;
    }

    /// The bytes of the newest changes; empty: none are kept.
    pub(super) fn encoded(&self) -> Vec<u8> {
        self.history.as_deref().map_or_else(Vec::new, |history| history.encode(HISTORY_SENT_BYTES_MAX))
    }

    pub(super) fn inherited(&self) -> Option<InheritedHistory> {
        self.history.as_deref().cloned().map(InheritedHistory)
    }

    /// Continues the history of a parent or of another member, if it has no change behind this log index.
    pub(super) fn adopt(&mut self, InheritedHistory(mut history): InheritedHistory, applied: u64) {
        if let Some(own) = &mut self.history
            && history.ends_by(applied)
        {
            history.set_limits(own.limits());
            **own = history;
        }
    }

    /// Forgets the changes: the state of the partition was replaced by that of this log index.
    pub(super) fn begin_after(&mut self, applied: u64) {
        if let Some(history) = &mut self.history {
            **history = History::new(history.limits(), applied);
        }
    }

    pub(super) fn first_deadline(&self) -> Option<u64> {
        self.readers.first_deadline()
    }

    pub(super) fn waits(&self) -> usize {
        self.readers.len()
    }

    /// Whether it knows readers, which are forgotten with their connections.
    pub(super) fn has_readers(&self) -> bool {
        !self.readers.is_empty() || !self.positions.is_empty()
    }

    pub(super) fn disconnect(&mut self, connection: u64) {
        self.readers.disconnect(connection);
        self.positions.disconnect(connection);
    }

    /// The readers that have asked lately, with how far they are behind.
    pub(super) fn watches(&self, now_ms: u64) -> impl Iterator<Item = PartitionWatch<'_>> {
        let lag = move |after| Some(self.history.as_ref()?.lag(after?, now_ms));
        self.positions.readers(now_ms).map(move |(connection, selection, after)| PartitionWatch {
            connection,
            selection,
            lag: lag(after).unwrap_or_default(),
        })
    }

    /// The requests that waited are answered: each has searched the changes up to its position.
    fn note_answered<'r>(&mut self, answered: impl Iterator<Item = &'r WaitingReader>) {
        for reader in answered {
            let (request, after) = reader.request();
            self.positions.answered((reader.token.connection, &request), after);
        }
    }
}

/// The changes of a partition, and their readers.
pub(super) struct PartitionChanges<'p> {
    pub(super) partition: &'p mut Partition,
}

impl PartitionChanges<'_> {
    /// Reads the records that the entries of a batch will change.
    pub(super) fn before<D: Disk>(
        &self,
        engine: &mut Engine<D>,
        (begin, end): (u64, u64),
    ) -> EngineResult<RecordsBefore> {
        let mut records = RecordsBefore::default();
        let handle = self.partition.handle();
        for index in begin..=end {
            let entry = engine.read_entry(handle, index)?;
            let meta = entry.head.meta;
            if meta.kind == EntryKind::Mark || is_of_blob(entry.key) || !self.partition.owns(entry.key) {
                continue;
            }
            let (key, last) = (entry.key.to_vec(), (index, Timestamp(meta.timestamp)));
            if let Some(before) = records.0.get_mut(&key) {
                before.last = last;
                continue;
            }
            let mut view =
                RecordView { engine, handle, overlay: None, deadlines: &self.partition.state.deadlines };
            let version = view.shape(&key)?.map_or(Timestamp::ZERO, |shape| shape.version);
            let deadline = self.partition.state.deadlines.get(&key);
            records.0.insert(key, RecordBefore { version, deadline, last });
        }
        Ok(records)
    }

    /// Adds the changes of a committed batch to the history, one for each record, in the order of the log.
    pub(super) fn keep<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        RecordsBefore(records): RecordsBefore,
    ) -> EngineResult<()> {
        let handle = self.partition.handle();
        let mut changes = Vec::with_capacity(records.len());
        for (key, before) in records {
            let mut view =
                RecordView { engine, handle, overlay: None, deadlines: &self.partition.state.deadlines };
            let record = view.shape(&key)?.map(|shape| shape.record);
            if record.is_none() && before.version == Timestamp::ZERO {
                continue;
            }
            let value = match record {
                Some(RecordType::Bytes) => value_of(view, &key),
                _ => None,
            };
            let (index, at) = before.last;
            let is_over = before.deadline.is_some_and(|deadline| deadline <= at.millis());
            let cause = if record.is_none() && is_over { ChangeCause::Expiry } else { ChangeCause::Write };
            changes.push(RecordedChange {
                index,
                at,
                newest: at,
                before: before.version,
                record,
                cause,
                key: key.into(),
                value,
            });
        }
        changes.sort_unstable_by_key(|change| change.index);
        if let Some(history) = &mut self.partition.feed.history {
            for change in changes {
                history.push(change);
            }
        }
        Ok(())
    }

    /// Answers the requests that want one of the changes that were committed.
    pub(super) fn answer_readers<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        effects: &mut dyn PartitionEffects,
    ) {
        if self.partition.feed.readers.is_empty() || is_planted(Bug::WatchesNotWoken) {
            return;
        }
        let (end, hash_range) = (self.end(), self.partition.hash_range());
        let ChangeFeed { history, readers, .. } = &mut self.partition.feed;
        let Some(history) = history else { return };
        let owns = |key: &[u8]| hash_range.as_ref().is_none_or(|range| range.owns(key));
        let wanting = readers.take_wanting(history, end, owns);
        if wanting.is_empty() {
            return;
        }
        self.partition.feed.note_answered(wanting.iter().map(|(reader, _)| reader));
        let through = self.through(engine);
        for (reader, page) in wanting {
            self.answer((reader.token, reader.position()), (through, page), effects);
        }
    }

    /// Answers a request for changes, or lets it wait.
    pub(super) fn read<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        request: &ReadChanges<'_>,
        token: Token,
        effects: &mut dyn PartitionEffects,
    ) {
        let (applied, hash_range) = (self.partition.state.applied, self.partition.hash_range());
        // No later entry has a timestamp at or below this one.
        self.partition.clock.next();
        let through = self.through(engine);
        let now_ms = self.partition.clock.now_ms();
        let page = match &mut self.partition.feed.history {
            None => Err(BadRequestReason::NoHistory.into()),
            Some(_) if request.after == AFTER_NOW => Ok(ChangePage::default()),
            // The reader has seen changes that this member has not: those were of a log that was lost.
            Some(_) if request.after > self.partition.log_writer.last() => {
                Err(Failure::HistoryGone { oldest: applied })
            }
            Some(history) => {
                history.drop_old(now_ms);
                let owns = |key: &[u8]| hash_range.as_ref().is_none_or(|range| range.owns(key));
                history.page(request, request.after, owns)
            }
        };
        let waits = request.wait_ms > 0 && request.after != AFTER_NOW;
        if waits && page.as_ref().is_ok_and(|page| page.count == 0) {
            let deadline_ms = now_ms + u64::from(request.wait_ms);
            let position = self.position_behind((request.after, request.newest));
            let queued = self.partition.feed.readers.enqueue(request, (token, position), deadline_ms);
            let after = if queued.is_ok() { None } else { Some(request.after) };
            self.partition.feed.positions.remember((token.connection, request), after, now_ms);
            if let Err(failure) = queued {
                effects.answer(token, &Message::Answer(Err(failure)));
            }
            return;
        }
        let position = if request.after == AFTER_NOW { self.end() } else { (request.after, request.newest) };
        if self.partition.feed.is_kept() {
            self.partition.feed.positions.remember((token.connection, request), Some(position.0), now_ms);
        }
        self.answer((token, position), (through, page), effects);
    }

    /// Ends waits without a change.
    pub(super) fn time_out<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        now_ms: u64,
        effects: &mut dyn PartitionEffects,
    ) {
        let overdue = self.partition.feed.readers.take_overdue(now_ms);
        if overdue.is_empty() {
            return;
        }
        self.partition.feed.note_answered(overdue.iter());
        let through = self.through(engine);
        for reader in overdue {
            self.answer((reader.token, reader.position()), (through, Ok(ChangePage::default())), effects);
        }
    }

    /// Clients' tokens may permit less: all waiting requests must be sent again. This is not judged by what is here, because this member may
    /// have been replaced, and not know of it yet.
    pub(super) fn end_for_new_tokens(&mut self, effects: &mut dyn PartitionEffects) {
        self.fail(&Failure::Busy { retry_after_ms: BUSY_RETRY_MS }, effects);
    }

    /// Answers all waiting requests with a failure, and forgets the readers.
    pub(super) fn fail(&mut self, failure: &Failure<'static>, effects: &mut dyn PartitionEffects) {
        self.partition.feed.positions.clear();
        for reader in self.partition.feed.readers.take_overdue(u64::MAX) {
            effects.answer(reader.token, &Message::Answer(Err(failure.clone())));
        }
    }

    fn answer(
        &self,
        (token, position): (Token, (u64, Timestamp)),
        (through, page): (Timestamp, Result<ChangePage, Failure<'static>>),
        effects: &mut dyn PartitionEffects,
    ) {
        let ChangePage { count, packed, through: paged } = match page {
            Ok(page) => page,
            Err(failure) => return effects.answer(token, &Message::Answer(Err(failure))),
        };
        let (next, newest) = match paged {
            Some(next) => (next, self.end().1),
            None => self.position_behind(position),
        };
        // Of a page that ends before the last change, only what stands on it was returned.
        let through =
            if paged.is_some() && !is_planted(Bug::MarkOvertakesPage) { Timestamp::ZERO } else { through };
        let answer = Elements::packed(count, &packed).map(|changes| Outcome::Changes {
            next,
            newest,
            through,
            changes,
        });
        effects.answer(token, &Message::Answer(answer));
    }

    /// The position of a reader that has seen everything that is committed.
    fn end(&self) -> (u64, Timestamp) {
        let newest = self.partition.feed.history.as_ref().map_or(Timestamp::ZERO, |history| history.newest());
        (self.partition.state.applied, self.partition.clock.newest().max(newest))
    }

    /// The position of a reader after an answer that has all committed changes behind its position. A member that became primary may not have
    /// applied everything that its reader has seen. Its timestamps say nothing about that part then.
    fn position_behind(&self, position: (u64, Timestamp)) -> (u64, Timestamp) {
        if position.0 > self.partition.state.applied { position } else { self.end() }
    }

    /// The timestamp through which all changes are committed and in the history. Every later change has a higher one: entries that are not
    /// committed, transactions that may still commit, and new requests.
    fn through<D: Disk>(&mut self, engine: &mut Engine<D>) -> Timestamp {
        let newest = self.partition.clock.newest();
        let uncommitted = match self.partition.log_writer.last() > self.partition.state.applied {
            false => None,
            true => match engine.read_entry(self.partition.handle(), self.partition.state.applied + 1) {
                Ok(entry) => Some(Timestamp(entry.head.meta.timestamp)),
                Err(_) => Some(Timestamp::ZERO),
            },
        };
        let prepared = self.partition.lowest_commit();
        let end = [uncommitted, prepared].into_iter().flatten().min();
        match end {
            Some(_) if is_planted(Bug::MarkOvertakesTransactions) && uncommitted.is_none() => newest,
            Some(end) => newest.min(Timestamp(end.0.saturating_sub(1))),
            None => newest,
        }
    }
}

/// The value of a bytes record that is short enough to be kept with its change.
fn value_of<D: Disk>(view: RecordView<'_, D>, key: &[u8]) -> Option<Arc<[u8]>> {
    let mut record = RecordInput::find(view, key).ok()?;
    let (length, mut bytes) = (record.length(), Vec::new());
    // What cannot be read is damaged, and a reader that looks it up is told so.
    let is_read = length <= CHANGE_VALUE_BYTES_MAX as u64 && record.read_bytes(0..length, &mut bytes).is_ok();
    (is_read && bytes.len() as u64 == length).then(|| bytes.into())
}

/// The history of a partition that was split, which each child continues.
#[derive(Clone, Debug)]
pub struct InheritedHistory(History);

impl InheritedHistory {
    /// The bytes of its newest changes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        self.0.encode(HISTORY_SENT_BYTES_MAX)
    }

    /// The history of such bytes; `None`: they are none.
    #[must_use]
    pub fn decode(encoded: &[u8]) -> Option<InheritedHistory> {
        History::decode(encoded).map(InheritedHistory)
    }
}
