//! Finds the first record that is not older than a time.
//!
//! Records may be out of the order of their times. Each batch has the highest time up to its end, which only rises, so a
//! binary search over the offsets finds the batch of the first such record. Trimmed records count in that time: if the record
//! was one of them, batches are read from there on.

use zerohop_layer_procedure::Record;

use crate::error::LogError;
use crate::keys::{self, RecordKey};
use crate::planted::{Bug, is_planted};
use crate::procedure::{LogEffect, LogEvent, LogStep, TailWait};
use crate::read::{contiguous, decode_bounds};
use crate::records::StoredBatch;

/// The bytes of a page of the last phase.
const PAGE_BYTES: usize = 1 << 20;
/// The most batches of a page.
const PAGE_BATCHES: usize = 1000;

enum SearchState {
    Idle,
    ReadingBounds,
    /// The record is in a batch of the offsets from `low` on, at the latest in the one of `high`.
    Searching {
        low: u64,
        high: u64,
    },
    Reading {
        from: u64,
    },
}

/// A search by time.
pub struct TimeSearch {
    partition: u32,
    time: u64,
    state: SearchState,
}

impl TimeSearch {
    /// Searches the first record of a log partition whose time is not before `time`.
    #[must_use]
    pub const fn new(partition: u32, time: u64) -> Self {
        Self { partition, time, state: SearchState::Idle }
    }

    fn search(&mut self, low: u64, high: u64) -> LogStep<Option<u64>> {
        if low >= high {
            return self.read(low);
        }
        self.state = SearchState::Searching { low, high };
        self.scan(middle(low, high), 1, PAGE_BYTES)
    }

    fn read(&mut self, from: u64) -> LogStep<Option<u64>> {
        self.state = SearchState::Reading { from };
        self.scan(from, PAGE_BATCHES, PAGE_BYTES)
    }

    fn scan(&self, from: u64, limit: usize, bytes: usize) -> LogStep<Option<u64>> {
        let (from, to) = (keys::batch(self.partition, from), keys::batches_end(self.partition));
        LogStep::Effect(LogEffect::Scan { from, to, limit, bytes })
    }

    fn probe(&mut self, low: u64, high: u64, entries: &[(RecordKey, Vec<u8>)]) -> LogStep<Option<u64>> {
        // Without a batch, all of them were trimmed meanwhile.
        let Some((key, value)) = entries.first() else { return self.read(low) };
        let Some(batch) = StoredBatch::decode(value) else {
            return LogStep::fail(LogError::Corrupt(key.clone()));
        };
        let highest = match is_planted(Bug::TimesOutOfOrderMissed) {
            true => batch.batch.max_time(),
            false => batch.highest,
        };
        if highest < self.time {
            return self.search(batch.last() + 1, high);
        }
        if batch.base > middle(low, high) {
            return self.read(batch.base);
        }
        self.search(low, batch.base.max(low))
    }

    fn find(
        &mut self,
        from: u64,
        entries: Vec<(RecordKey, Vec<u8>)>,
        has_more: bool,
    ) -> LogStep<Option<u64>> {
        let batches = match contiguous(entries) {
            Ok(batches) => batches,
            Err(error) => return LogStep::fail(error),
        };
        for batch in &batches {
            let mut records = batch.records_from(from);
            if let Some((offset, _)) = records.find(|(_, record)| record.time >= self.time) {
                return LogStep::Done(Ok(Some(offset)));
            }
        }
        match batches.last() {
            Some(last) if has_more => self.read(last.last() + 1),
            _ => LogStep::Done(Ok(None)),
        }
    }
}

const fn middle(low: u64, high: u64) -> u64 {
    low + (high - low) / 2
}

impl zerohop_layer_procedure::Procedure<LogError, TailWait> for TimeSearch {
    /// The offset of the record.
    type Output = Option<u64>;

    fn step(&mut self, _: u64, event: LogEvent) -> LogStep<Option<u64>> {
        match (std::mem::replace(&mut self.state, SearchState::Idle), event) {
            (SearchState::Idle, LogEvent::Start) => {
                self.state = SearchState::ReadingBounds;
                LogStep::Effect(LogEffect::Read(vec![keys::tail(self.partition), keys::trim(self.partition)]))
            }
            (SearchState::ReadingBounds, LogEvent::Values(values)) => {
                match decode_bounds(self.partition, &values) {
                    Err(error) => LogStep::fail(error),
                    Ok((_, tail, _)) if tail.highest < self.time => LogStep::Done(Ok(None)),
                    Ok((_, tail, first)) => self.search(first, tail.next),
                }
            }
            (SearchState::Searching { low, high }, LogEvent::Page { entries, .. }) => {
                self.probe(low, high, &entries)
            }
            (SearchState::Reading { from }, LogEvent::Page { entries, next }) => {
                self.find(from, entries, next.is_some())
            }
            (_, event) => LogStep::unexpected(&event),
        }
    }
}
