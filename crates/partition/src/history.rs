//! The history of a partition: its latest changes, for readers that watch the keyspace, and the requests that wait for the next one.
//!
//! Each member keeps it, as it applies the same entries in the same order. It is in memory, so it begins again with the process. A member that
//! installs a snapshot gets it with the snapshot.

use std::collections::VecDeque;
use std::sync::Arc;

use zerohop_placement::ChangeHistory;
use zerohop_wire::ids::Timestamp;
use zerohop_wire::limits::PAGE_BYTES_MAX;
use zerohop_wire::messages::{
    AFTER_NOW, CHANGE_HEAD_BYTES, ChangeCause, CommittedChange, ReadChanges, RecordType,
};
use zerohop_wire::{Elements, Failure, pack};

use crate::event::Token;
use crate::limits::{BUSY_RETRY_MS, WATCH_BYTES_MAX, WATCHES_MAX};
use crate::planted::{Bug, is_planted};
use crate::watch_positions::WatchLag;

/// Memory of one change beside its key and value.
const CHANGE_BYTES: usize = 120;

/// The fields before the changes of an encoded history.
const HEAD_BYTES: usize = 24;

/// A change that a history keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecordedChange {
    pub(crate) index: u64,
    pub(crate) at: Timestamp,
    /// The highest timestamp of this change and those before it: a transaction's may be lower than that of a write before its commit.
    pub(crate) newest: Timestamp,
    pub(crate) before: Timestamp,
    /// None: the record was removed.
    pub(crate) record: Option<RecordType>,
    pub(crate) cause: ChangeCause,
    pub(crate) key: Arc<[u8]>,
    pub(crate) value: Option<Arc<[u8]>>,
}

/// The latest changes of a partition.
#[derive(Clone, Debug)]
pub(crate) struct History {
    limits: ChangeHistory,
    changes: VecDeque<RecordedChange>,
    bytes: usize,
    /// All changes behind this log index are kept.
    complete_after: u64,
    /// The highest timestamp of the changes that were dropped.
    newest_dropped: Timestamp,
}

/// A page of changes, packed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChangePage {
    pub(crate) count: u32,
    pub(crate) packed: Vec<u8>,
    /// The log index through which the page has every change that the reader wants; `None`: all that are kept.
    pub(crate) through: Option<u64>,
}

/// A request that waits for a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WaitingReader {
    pub(crate) token: Token,
    pub(crate) deadline_ms: u64,
    after: u64,
    newest: Timestamp,
    changes_max: u32,
    bytes_max: u32,
    values: bool,
    from: Box<[u8]>,
    to: Box<[u8]>,
    prefix: Box<[u8]>,
}

/// The requests that wait for a change.
#[derive(Debug, Default)]
pub(crate) struct WaitingReaders {
    waiting: Vec<WaitingReader>,
    bytes: usize,
}

impl RecordedChange {
    fn bytes(&self) -> usize {
        CHANGE_BYTES + self.key.len() + self.value.as_ref().map_or(0, |value| value.len())
    }
}

impl History {
    /// An empty history, whose first change follows the entry of this log index.
    pub(crate) fn new(limits: ChangeHistory, applied: u64) -> History {
        History {
            limits,
            changes: VecDeque::new(),
            bytes: 0,
            complete_after: applied,
            newest_dropped: Timestamp::ZERO,
        }
    }

    /// The bytes of its newest changes, as many as take this much memory: complete after (8), newest timestamp of the changes before (8), number
    /// of changes (4), zero (4); then the changes, as in answers.
    pub(crate) fn encode(&self, bytes_max: usize) -> Vec<u8> {
        let mut bytes = 0;
        let is_within = |change: &&RecordedChange| {
            bytes += change.bytes();
            bytes <= bytes_max
        };
        let first = self.changes.len() - self.changes.iter().rev().take_while(is_within).count();
        let (complete_after, newest) = match first.checked_sub(1) {
            Some(last_left_out) => (self.changes[last_left_out].index, self.changes[last_left_out].newest),
            None => (self.complete_after, self.newest_dropped),
        };
        let mut out = Vec::with_capacity(HEAD_BYTES + bytes);
        out.extend_from_slice(&complete_after.to_le_bytes());
        out.extend_from_slice(&newest.0.to_le_bytes());
        out.extend_from_slice(&[0; 8]);
        let mut count = 0_u32;
        for change in self.changes.iter().skip(first) {
            let RecordedChange { index, at, before, record, cause, .. } = *change;
            let (key, value) = (&*change.key, change.value.as_deref());
            match pack(&CommittedChange { key, at, before, index, record, cause, value }, &mut out) {
                Ok(()) => count += 1,
                // It was in a request, so it fits. If not, nothing is sent that would not be complete.
                Err(_) => return Vec::new(),
            }
        }
        out[HEAD_BYTES - 8..HEAD_BYTES - 4].copy_from_slice(&count.to_le_bytes());
        out
    }

    /// The history of such bytes, with the limits of none; `None`: they are damaged.
    pub(crate) fn decode(encoded: &[u8]) -> Option<History> {
        let (head, packed) = encoded.split_at_checked(HEAD_BYTES)?;
        let (complete_after, head) = head.split_first_chunk()?;
        let (newest_dropped, head) = head.split_first_chunk()?;
        let (count, zero) = head.split_first_chunk()?;
        let complete_after = u64::from_le_bytes(*complete_after);
        let mut history = History::new(ChangeHistory::NONE, complete_after);
        history.newest_dropped = Timestamp(u64::from_le_bytes(*newest_dropped));
        let mut last = complete_after;
        for change in Elements::<CommittedChange<'_>>::packed(u32::from_le_bytes(*count), packed).ok()?.iter()
        {
            let CommittedChange { key, at, before, index, record, cause, value } = change;
            if index <= last {
                return None;
            }
            last = index;
            history.append(RecordedChange {
                index,
                at,
                newest: at,
                before,
                record,
                cause,
                key: key.into(),
                value: value.map(Into::into),
            });
        }
        (zero == [0; 4]).then_some(history)
    }

    pub(crate) fn limits(&self) -> ChangeHistory {
        self.limits
    }

    /// Adopts other limits. Changes beyond them go with the next one.
    pub(crate) fn set_limits(&mut self, limits: ChangeHistory) {
        self.limits = limits;
    }

    /// Adds the next change, and drops those that are too old or too many.
    ///
    /// # Panics
    /// If it is not behind the last one: readers would miss it.
    pub(crate) fn push(&mut self, change: RecordedChange) {
        let last = self.changes.back().map_or(self.complete_after, |last| last.index);
        assert!(change.index > last, "changes are added in the order of the log");
        let now_ms = change.at.millis();
        self.append(change);
        self.drop_old(now_ms);
    }

    fn append(&mut self, mut change: RecordedChange) {
        change.newest = self.newest().max(change.at);
        self.bytes += change.bytes();
        self.changes.push_back(change);
    }

    /// Drops the changes that are too old, or too many.
    pub(crate) fn drop_old(&mut self, now_ms: u64) {
        let begin_ms = now_ms.saturating_sub(u64::from(self.limits.ms));
        while let Some(first) = self.changes.front()
            && (self.bytes > self.limits.bytes as usize || first.at.millis() < begin_ms)
        {
            self.bytes -= first.bytes();
            // A reader at the position of the dropped change has seen it.
            self.complete_after = first.index - u64::from(is_planted(Bug::HistoryEndForgotten));
            self.newest_dropped = first.newest;
            self.changes.pop_front();
        }
    }

    /// The highest timestamp of all changes.
    pub(crate) fn newest(&self) -> Timestamp {
        self.changes.back().map_or(self.newest_dropped, |last| last.newest)
    }

    /// Whether all its changes are at or below this log index.
    pub(crate) fn ends_by(&self, applied: u64) -> bool {
        self.changes.back().map_or(self.complete_after, |last| last.index) <= applied
    }

    /// How far a reader is behind that has all changes up to `after`, a log index.
    pub(crate) fn lag(&self, after: u64, now_ms: u64) -> WatchLag {
        let first = self.changes.partition_point(|change| change.index <= after);
        let is_gone = after < self.complete_after;
        let oldest = match self.changes.get(first) {
            Some(change) => Some(change.at),
            None => is_gone.then_some(self.newest_dropped),
        };
        WatchLag {
            changes: (self.changes.len() - first) as u64,
            lag_ms: oldest.map_or(0, |oldest| now_ms.saturating_sub(oldest.millis())),
            is_gone,
        }
    }

    /// The changes that a reader wants, behind `after`, as many as fit one page; `owns` says whether a key is the partition's.
    ///
    /// # Errors
    /// Some of them are no longer kept, or the reader knows another log: one that was lost, whose place later writes have taken.
    pub(crate) fn page(
        &self,
        wanted: &ReadChanges<'_>,
        after: u64,
        owns: impl Fn(&[u8]) -> bool,
    ) -> Result<ChangePage, Failure<'static>> {
        if after < self.complete_after && after != AFTER_NOW {
            return Err(Failure::HistoryGone { oldest: self.complete_after });
        }
        let most = match wanted.bytes_max {
            0 => PAGE_BYTES_MAX,
            bytes => PAGE_BYTES_MAX.min(bytes as usize),
        };
        let mut page = ChangePage::default();
        let first = self.changes.partition_point(|change| change.index <= after);
        // Who replaces a lost log begins above its timestamps, so a later one in its place shows that the reader has not seen the change.
        let seen = first.checked_sub(1).map_or(self.newest_dropped, |last| self.changes[last].newest);
        if seen > wanted.newest && after != AFTER_NOW && !is_planted(Bug::LostLogForgotten) {
            let oldest = self.changes.back().map_or(self.complete_after, |last| last.index);
            return Err(Failure::HistoryGone { oldest });
        }
        for change in self.changes.iter().skip(first) {
            if !wanted.wants(&change.key) || !owns(&change.key) {
                continue;
            }
            let value = change.value.as_deref().filter(|_| wanted.values);
            let bytes = CHANGE_HEAD_BYTES + change.key.len() + value.map_or(0, <[u8]>::len);
            let is_full =
                page.count == wanted.changes_max || page.count > 0 && page.packed.len() + bytes > most;
            if is_full {
                // Between this change and the last one of the page, there is none that the reader wants.
                page.through = Some(change.index - 1);
                break;
            }
            let RecordedChange { index, at, before, record, cause, ref key, .. } = *change;
            pack(&CommittedChange { key, at, before, index, record, cause, value }, &mut page.packed)?;
            page.count += 1;
        }
        Ok(page)
    }
}

impl WaitingReader {
    fn bytes(&self) -> usize {
        size_of::<WaitingReader>() + self.from.len() + self.to.len() + self.prefix.len()
    }

    /// Everything up to here was searched: a log index, with its newest timestamp.
    pub(crate) fn position(&self) -> (u64, Timestamp) {
        (self.after, self.newest)
    }

    /// The request, with the position up to which it was searched.
    pub(crate) fn request(&self) -> (ReadChanges<'_>, u64) {
        let request = ReadChanges {
            seen: Timestamp::ZERO,
            after: self.after,
            newest: self.newest,
            wait_ms: 0,
            changes_max: self.changes_max,
            bytes_max: self.bytes_max,
            values: self.values,
            from: &self.from,
            to: &self.to,
            prefix: &self.prefix,
        };
        (request, self.after)
    }
}

impl WaitingReaders {
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Lets a request wait for a change behind the log index `after`.
    ///
    /// # Errors
    /// `Busy` at the limits.
    pub(crate) fn enqueue(
        &mut self,
        request: &ReadChanges<'_>,
        (token, (after, newest)): (Token, (u64, Timestamp)),
        deadline_ms: u64,
    ) -> Result<(), Failure<'static>> {
        let reader = WaitingReader {
            token,
            deadline_ms,
            after,
            newest,
            changes_max: request.changes_max,
            bytes_max: request.bytes_max,
            values: request.values,
            from: request.from.into(),
            to: request.to.into(),
            prefix: request.prefix.into(),
        };
        if self.waiting.len() >= WATCHES_MAX || self.bytes + reader.bytes() > WATCH_BYTES_MAX {
            return Err(Failure::Busy { retry_after_ms: BUSY_RETRY_MS });
        }
        self.bytes += reader.bytes();
        self.waiting.push(reader);
        Ok(())
    }

    /// Removes and returns the requests that want one of the changes behind the position up to which they were searched. The others were
    /// searched up to `through` then, a log index with its newest timestamp.
    pub(crate) fn take_wanting(
        &mut self,
        history: &History,
        through: (u64, Timestamp),
        owns: impl Fn(&[u8]) -> bool,
    ) -> Vec<(WaitingReader, Result<ChangePage, Failure<'static>>)> {
        let mut wanting = Vec::new();
        let mut at = 0;
        while let Some(reader) = self.waiting.get_mut(at) {
            let (request, after) = reader.request();
            match history.page(&request, after, &owns) {
                Ok(page) if page.count == 0 => {
                    if reader.after <= through.0 {
                        (reader.after, reader.newest) = through;
                    }
                    at += 1;
                }
                page => {
                    let reader = self.waiting.swap_remove(at);
                    self.bytes -= reader.bytes();
                    wanting.push((reader, page));
                }
            }
        }
        wanting
    }

    /// When the next wait ends.
    pub(crate) fn first_deadline(&self) -> Option<u64> {
        self.waiting.iter().map(|reader| reader.deadline_ms).min()
    }

    /// Removes and returns the requests whose wait ends.
    pub(crate) fn take_overdue(&mut self, now_ms: u64) -> Vec<WaitingReader> {
        let overdue: Vec<WaitingReader> =
            self.waiting.extract_if(.., |reader| reader.deadline_ms <= now_ms).collect();
        self.bytes -= overdue.iter().map(WaitingReader::bytes).sum::<usize>();
        overdue
    }

    /// Forgets the waits of a connection.
    pub(crate) fn disconnect(&mut self, connection: u64) {
        let gone = self.waiting.extract_if(.., |reader| reader.token.connection == connection);
        self.bytes -= gone.map(|reader| reader.bytes()).sum::<usize>();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: ChangeHistory = ChangeHistory { ms: 1_000, bytes: 1_000 };
    /// The timestamp of a reader that knows the same log as the partition.
    const LAST: Timestamp = Timestamp(u64::MAX);
    const ALL: ReadChanges<'static> = ReadChanges {
        seen: Timestamp::ZERO,
        after: 0,
        newest: LAST,
        wait_ms: 0,
        changes_max: 100,
        bytes_max: 0,
        values: true,
        from: b"",
        to: b"",
        prefix: b"",
    };

    fn change(index: u64, key: &str) -> RecordedChange {
        RecordedChange {
            index,
            at: Timestamp::from_millis(10_000 + index),
            newest: Timestamp::ZERO,
            before: Timestamp::ZERO,
            record: Some(RecordType::Bytes),
            cause: ChangeCause::Write,
            key: key.as_bytes().into(),
            value: Some(b"value".as_slice().into()),
        }
    }

    fn indexes(page: &ChangePage) -> Vec<u64> {
        let changes = Elements::<CommittedChange<'_>>::packed(page.count, &page.packed).unwrap();
        changes.iter().map(|change| change.index).collect()
    }

    #[test]
    fn a_page_has_the_wanted_changes_in_order() {
        let mut history = History::new(LIMITS, 5);
        for (index, key) in [(6, "a"), (8, "b"), (9, "foreign"), (11, "a")] {
            history.push(change(index, key));
        }
        let owns = |key: &[u8]| key != b"foreign";
        let found = |wanted: &ReadChanges<'_>, after| history.page(wanted, after, owns).unwrap();
        assert_eq!(indexes(&found(&ALL, 5)), [6, 8, 11]);
        assert_eq!(indexes(&found(&ALL, 8)), [11]);
        assert_eq!(found(&ALL, 11), ChangePage::default());
        let prefix = ReadChanges { prefix: b"a", ..ALL };
        assert_eq!(indexes(&found(&prefix, 5)), [6, 11]);
        let one = ReadChanges { changes_max: 1, ..ALL };
        let page = found(&one, 5);
        assert_eq!((indexes(&page), page.through), (vec![6], Some(7)));
        let page = found(&ReadChanges { bytes_max: 1, ..ALL }, 6);
        assert_eq!(
            (indexes(&page), page.through),
            (vec![8], Some(10)),
            "at least one, and the foreign one is passed"
        );
    }

    #[test]
    fn positions_before_the_oldest_change_are_refused() {
        let mut history = History::new(LIMITS, 5);
        let gone = |history: &History, after| history.page(&ALL, after, |_| true).unwrap_err();
        assert_eq!(gone(&history, 4), Failure::HistoryGone { oldest: 5 });
        for index in 6..50 {
            history.push(change(index, "key"));
        }
        let (count, bytes) = (history.changes.len(), history.bytes);
        assert!(bytes <= 1_000 && count > 3, "{count} changes of {bytes} bytes");
        let oldest = 49 - count as u64;
        assert_eq!(gone(&history, oldest - 1), Failure::HistoryGone { oldest });
        assert_eq!(history.page(&ALL, oldest, |_| true).unwrap().count as usize, count);
        history.drop_old(10_048 + 1_000);
        assert_eq!(history.changes.len(), 2);
        history.drop_old(10_050 + 1_000);
        assert_eq!(
            ((history.changes.len(), history.bytes), gone(&history, 48)),
            ((0, 0), Failure::HistoryGone { oldest: 49 })
        );
        assert_eq!(history.page(&ALL, 49, |_| true), Ok(ChangePage::default()));
    }

    #[test]
    fn encoded_history_has_the_newest_changes() {
        let mut history = History::new(ChangeHistory { bytes: 10_000, ..LIMITS }, 5);
        assert_eq!(History::decode(&history.encode(1_000)).map(|it| it.complete_after), Some(5));
        for index in 6..50 {
            history.push(change(index, "key"));
        }
        let removed =
            RecordedChange { record: None, value: None, cause: ChangeCause::Expiry, ..change(50, "") };
        history.push(removed);
        let found = History::decode(&history.encode(10_000)).unwrap();
        assert_eq!((&found.changes, found.bytes), (&history.changes, history.bytes));
        assert_eq!((found.complete_after, found.newest_dropped), (5, Timestamp::ZERO));
        let newest = History::decode(&history.encode(1_000)).unwrap();
        let first = newest.changes.front().unwrap().index;
        assert!(first > 40 && newest.bytes <= 1_000 && newest.changes.len() > 3, "{newest:?}");
        assert_eq!((newest.complete_after, newest.newest_dropped.millis()), (first - 1, 10_000 + first - 1));
        assert_eq!(newest.newest(), history.newest());
    }

    #[test]
    fn damaged_bytes_are_no_history() {
        let mut history = History::new(LIMITS, 5);
        (6..9).for_each(|index| history.push(change(index, "key")));
        let encoded = history.encode(1_000);
        assert!((0..encoded.len()).all(|length| History::decode(&encoded[..length]).is_none()));
        for (at, what) in [(16, "a count"), (20, "a reserved byte"), (0, "a start behind the first change")] {
            let mut damaged = encoded.clone();
            damaged[at] = 9;
            assert!(History::decode(&damaged).is_none(), "{what}");
        }
    }

    #[test]
    fn the_lag_of_a_reader_is_that_of_the_oldest_change_behind_its_position() {
        let mut history = History::new(LIMITS, 5);
        assert_eq!(history.lag(5, 20_000), WatchLag::default());
        for index in [6, 8, 11] {
            history.push(change(index, "key"));
        }
        let lag = |changes, lag_ms, is_gone| WatchLag { changes, lag_ms, is_gone };
        assert_eq!(history.lag(5, 10_106), lag(3, 100, false));
        assert_eq!(history.lag(6, 10_108), lag(2, 100, false));
        assert_eq!(history.lag(10, 10_000), lag(1, 0, false), "a clock behind the change shows no lag");
        assert_eq!(history.lag(11, 20_000), lag(0, 0, false));
        assert_eq!(history.lag(4, 10_106), lag(3, 100, true));
        history.drop_old(20_000);
        assert_eq!(history.lag(8, 20_011), lag(0, 10_000, true));
        assert_eq!(history.lag(11, 20_011), lag(0, 0, false));
    }

    #[test]
    fn waiting_requests_get_the_next_wanted_change() {
        let mut history = History::new(LIMITS, 5);
        let mut readers = WaitingReaders::default();
        let token = |connection| Token { connection, ..Token::default() };
        readers.enqueue(&ReadChanges { prefix: b"a", ..ALL }, (token(1), (5, LAST)), 100).unwrap();
        readers.enqueue(&ReadChanges { prefix: b"b", ..ALL }, (token(2), (5, LAST)), 90).unwrap();
        assert_eq!(readers.first_deadline(), Some(90));
        history.push(change(6, "b"));
        let wanting = readers.take_wanting(&history, (6, LAST), |_| true);
        assert_eq!(wanting.len(), 1);
        assert_eq!(wanting[0].0.token, token(2));
        assert_eq!(readers.len(), 1);
        assert!(readers.take_overdue(99).is_empty());
        assert_eq!(readers.take_overdue(100).len(), 1);
        assert_eq!((readers.is_empty(), readers.bytes), (true, 0));
        readers.enqueue(&ALL, (token(3), (5, LAST)), 100).unwrap();
        readers.disconnect(3);
        assert_eq!((readers.is_empty(), readers.bytes), (true, 0));
    }

    #[test]
    fn no_more_requests_wait_than_the_limit() {
        let mut readers = WaitingReaders::default();
        let enqueue = |readers: &mut WaitingReaders, request: &ReadChanges<'_>| {
            readers.enqueue(request, (Token::default(), (0, LAST)), 1)
        };
        for _ in 0..WATCHES_MAX {
            enqueue(&mut readers, &ALL).unwrap();
        }
        let busy = Err(Failure::Busy { retry_after_ms: BUSY_RETRY_MS });
        assert_eq!(enqueue(&mut readers, &ALL), busy);
        let (mut readers, long) = (WaitingReaders::default(), vec![0; 64 << 10]);
        let long = ReadChanges { prefix: &long, ..ALL };
        let admitted = (0..).take_while(|_| enqueue(&mut readers, &long).is_ok()).count();
        assert!(admitted * long.prefix.len() <= WATCH_BYTES_MAX);
    }
}
