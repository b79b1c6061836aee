//! Removes batches from the beginning of a log partition.
//!
//! Each transaction removes the batches of one scan, and moves the first offset with them. It does not confirm the tail, so
//! appends go on beside it.

use zerohop_layer_procedure::{OptimisticTransaction, Record, Writes};

use crate::error::LogError;
use crate::keys::{self, RecordKey};
use crate::planted::{Bug, is_planted};
use crate::procedure::{LogEffect, LogEvent, LogProcedure, LogReads, LogStep, TailWait};
use crate::records::{StoredHeader, TailRecord, TrimRecord};

/// The most batches that a transaction removes.
const TRIM_BATCHES: usize = 100;
/// The bytes of batches that end the scan before a transaction.
const TRIM_BYTES: usize = 4 << 20;

/// What a trim removes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrimGoal {
    /// All records below an offset.
    Below(u64),
    /// Batches that were appended before a moment, and batches beyond so many bytes.
    Retention {
        /// The moment, in milliseconds since 1970.
        before: Option<u64>,
        /// The bytes that stay, at least.
        bytes: Option<u64>,
    },
}

/// What a trim did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrimOutcome {
    /// The first offset of the log partition.
    pub first: u64,
    /// The batches that it removed.
    pub batches: u64,
}

enum TrimState {
    Idle,
    ReadingTail,
    Scanning,
    Committing(Box<dyn LogProcedure<Output = TrimStep> + Send>),
}

/// What one transaction did.
#[derive(Clone, Copy)]
struct TrimStep {
    first: u64,
    removed: u64,
    /// A batch of the scan stays.
    is_last: bool,
}

/// A trim.
pub struct Trim {
    partition: u32,
    goal: TrimGoal,
    /// The bytes of all batches at the beginning of the trim.
    appended_bytes: u64,
    outcome: TrimOutcome,
    state: TrimState,
}

impl Trim {
    /// Trims a log partition.
    #[must_use]
    pub const fn new(partition: u32, goal: TrimGoal) -> Self {
        let outcome = TrimOutcome { first: 0, batches: 0 };
        Self { partition, goal, appended_bytes: 0, outcome, state: TrimState::Idle }
    }

    fn scan(&mut self) -> LogStep<TrimOutcome> {
        self.state = TrimState::Scanning;
        LogStep::Effect(LogEffect::Scan {
            from: keys::batch(self.partition, self.outcome.first),
            to: keys::batches_end(self.partition),
            limit: TRIM_BATCHES,
            bytes: TRIM_BYTES,
        })
    }

    fn commit(
        &mut self,
        now: u64,
        mut work: Box<dyn LogProcedure<Output = TrimStep> + Send>,
        event: LogEvent,
    ) -> LogStep<TrimOutcome> {
        match work.step(now, event) {
            LogStep::Effect(effect) => {
                self.state = TrimState::Committing(work);
                LogStep::Effect(effect)
            }
            LogStep::Done(Err(error)) => LogStep::fail(error),
            LogStep::Done(Ok(step)) => {
                self.outcome.first = step.first;
                self.outcome.batches += step.removed;
                if step.is_last { LogStep::Done(Ok(self.outcome)) } else { self.scan() }
            }
        }
    }

    fn remove(&mut self, now: u64, entries: &[(RecordKey, Vec<u8>)], has_more: bool) -> LogStep<TrimOutcome> {
        let mut headers = Vec::with_capacity(entries.len());
        for (key, value) in entries {
            match StoredHeader::read(value) {
                Some(header) => headers.push(header),
                None => return LogStep::fail(LogError::Corrupt(key.clone())),
            }
        }
        let work = remove_batches(self.partition, self.goal, self.appended_bytes, headers, has_more);
        self.commit(now, Box::new(work), LogEvent::Start)
    }
}

/// Removes the batches of a scan that the goal names.
fn remove_batches(
    partition: u32,
    goal: TrimGoal,
    appended_bytes: u64,
    headers: Vec<StoredHeader>,
    has_more: bool,
) -> impl LogProcedure<Output = TrimStep> + Send {
    OptimisticTransaction::new(move |_, reads: &mut LogReads, writes: &mut Writes| {
        let key = keys::trim(partition);
        let before: TrimRecord = reads.get(&key)?.unwrap_or_default();
        let mut trim = before;
        // Another trim may have removed the first ones since the scan.
        let mut rest = headers.iter().skip_while(|header| header.last < before.first).peekable();
        while let Some(header) = rest.next_if(|header| is_removed(goal, appended_bytes, &trim, header)) {
            writes.remove(keys::batch(partition, header.last));
            trim = TrimRecord {
                first: if is_planted(Bug::FirstOffsetStays) { trim.first } else { header.last + 1 },
                bytes: trim.bytes + header.bytes,
                batches: trim.batches + 1,
            };
        }
        if let (TrimGoal::Below(offset), Some(header)) = (goal, rest.peek())
            && header.base < offset
        {
            trim.first = trim.first.max(offset);
        }
        if trim != before {
            writes.put(key, &trim);
        }
        let is_last = rest.peek().is_some() || !has_more;
        Ok(TrimStep { first: trim.first, removed: trim.batches - before.batches, is_last })
    })
}

fn is_removed(goal: TrimGoal, appended_bytes: u64, trim: &TrimRecord, header: &StoredHeader) -> bool {
    match goal {
        TrimGoal::Below(offset) if is_planted(Bug::TrimTakesWholeBatch) => header.base < offset,
        TrimGoal::Below(offset) => header.last < offset,
        TrimGoal::Retention { before, bytes } => {
            let left = appended_bytes.saturating_sub(trim.bytes + header.bytes);
            before.is_some_and(|before| header.appended < before) || bytes.is_some_and(|bytes| left >= bytes)
        }
    }
}

impl zerohop_layer_procedure::Procedure<LogError, TailWait> for Trim {
    type Output = TrimOutcome;

    fn step(&mut self, now: u64, event: LogEvent) -> LogStep<TrimOutcome> {
        match (std::mem::replace(&mut self.state, TrimState::Idle), event) {
            (TrimState::Idle, LogEvent::Start) => {
                self.state = TrimState::ReadingTail;
                LogStep::Effect(LogEffect::Read(vec![keys::tail(self.partition)]))
            }
            (TrimState::ReadingTail, LogEvent::Values(values)) => {
                let Some(Some(tail)) = values.first() else {
                    return LogStep::fail(LogError::NoSuchPartition);
                };
                let Some(tail) = TailRecord::decode(&tail.value) else {
                    return LogStep::fail(LogError::Corrupt(keys::tail(self.partition)));
                };
                self.appended_bytes = tail.bytes;
                self.scan()
            }
            (TrimState::Scanning, LogEvent::Page { entries, next }) => {
                self.remove(now, &entries, next.is_some())
            }
            (TrimState::Committing(work), event) => self.commit(now, work, event),
            (_, event) => LogStep::unexpected(&event),
        }
    }
}
