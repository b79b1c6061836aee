//! Pops records of a partition: a cursor is shared by readers, and each record goes to one of them.
//!
//! 1. Tail and trim are read without a transaction: both only rise, and appends do not conflict with pops.
//! 2. A transaction moves the cursor, and writes which records the reader's pop has. A pop that is repeated under its number
//!    gets these records.
//! 3. The records are read.

use zerohop_layer_procedure::{OptimisticTransaction, Version, Writes};

use crate::batch::LogRecord;
use crate::error::LogError;
use crate::keys::{self, RecordKey};
use crate::planted::{Bug, is_planted};
use crate::procedure::{LogEffect, LogEvent, LogProcedure, LogReads, LogStep, TailWait};
use crate::read::{contiguous, decode_bounds};
use crate::records::{CursorRecord, PopRecord, ReaderId};

/// The most batches of a scan.
const PAGE_BATCHES: usize = 1000;
/// The bytes of batches that end a scan.
const PAGE_BYTES: usize = 4 << 20;

/// A pop.
#[derive(Clone, Debug)]
pub struct PopRequest {
    /// The partition.
    pub partition: u32,
    /// The name of the cursor. A new one is at the first record.
    pub cursor: String,
    /// The reader.
    pub reader: ReaderId,
    /// The number of the pop among those of the reader: above that of the one before, or the same to repeat it.
    pub number: u64,
    /// The most records.
    pub records: u32,
    /// How long to wait for the first record, in milliseconds since 1970; 0 without a wait.
    pub wait_until: u64,
}

/// The records of a pop.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PopOutcome {
    /// The first offset.
    pub first: u64,
    /// The offset behind the last one.
    pub end: u64,
    /// The records with their offsets. Those that were trimmed before they were read are missing.
    pub records: Vec<(u64, LogRecord)>,
}

enum PopState {
    Idle,
    ReadingBounds,
    Moving(Version, Box<dyn LogProcedure<Output = PopOutcome> + Send>),
    Waiting,
    Scanning(PopOutcome),
    /// Some records are missing: they must be trimmed.
    CheckingTrim(PopOutcome),
}

/// A pop under way.
pub struct PopLog {
    request: PopRequest,
    state: PopState,
}

impl PopLog {
    /// The pop of a request.
    #[must_use]
    pub const fn new(request: PopRequest) -> Self {
        Self { request, state: PopState::Idle }
    }

    fn read_bounds(&self) -> LogStep<PopOutcome> {
        let partition = self.request.partition;
        LogStep::Effect(LogEffect::Read(vec![keys::tail(partition), keys::trim(partition)]))
    }

    fn move_cursor(
        &mut self,
        now: u64,
        version: Version,
        mut work: Box<dyn LogProcedure<Output = PopOutcome> + Send>,
        event: LogEvent,
    ) -> LogStep<PopOutcome> {
        match work.step(now, event) {
            LogStep::Effect(effect) => {
                self.state = PopState::Moving(version, work);
                LogStep::Effect(effect)
            }
            LogStep::Done(Err(error)) => LogStep::fail(error),
            LogStep::Done(Ok(pop)) if pop.first < pop.end => self.scan(pop),
            LogStep::Done(Ok(_)) if self.request.wait_until > now => {
                self.state = PopState::Waiting;
                let key = keys::tail(self.request.partition);
                LogStep::Effect(LogEffect::Own(TailWait {
                    key,
                    seen: version,
                    until: self.request.wait_until,
                }))
            }
            LogStep::Done(Ok(pop)) => LogStep::Done(Ok(pop)),
        }
    }

    fn scan(&mut self, pop: PopOutcome) -> LogStep<PopOutcome> {
        let partition = self.request.partition;
        let from = pop.records.last().map_or(pop.first, |(offset, _)| offset + 1);
        // A batch with the last record has its key at the last record or behind it.
        let to = keys::batches_end(partition);
        self.state = PopState::Scanning(pop);
        let limit = usize::try_from(self.request.records).unwrap_or(PAGE_BATCHES).clamp(1, PAGE_BATCHES);
        LogStep::Effect(LogEffect::Scan { from: keys::batch(partition, from), to, limit, bytes: PAGE_BYTES })
    }

    fn collect(
        &mut self,
        mut pop: PopOutcome,
        entries: Vec<(RecordKey, Vec<u8>)>,
        has_more: bool,
    ) -> LogStep<PopOutcome> {
        let batches = match contiguous(entries) {
            Ok(batches) => batches,
            Err(error) => return LogStep::fail(error),
        };
        let from = pop.records.last().map_or(pop.first, |(offset, _)| offset + 1);
        let records = batches.iter().flat_map(|batch| batch.records_from(from));
        let (before, end) = (pop.records.len(), pop.end);
        pop.records.extend(records.take_while(|(offset, _)| *offset < end));
        let is_read = pop.records.last().is_some_and(|(offset, _)| offset + 1 == end);
        if !is_read && has_more && pop.records.len() > before {
            return self.scan(pop);
        }
        if pop.records.len() as u64 == end - pop.first {
            return LogStep::Done(Ok(pop));
        }
        self.state = PopState::CheckingTrim(pop);
        self.read_bounds()
    }
}

/// Moves the cursor, or finds what the pop has got before. Result: the range, without records.
fn move_cursor(request: PopRequest, first: u64, next: u64) -> impl LogProcedure<Output = PopOutcome> + Send {
    OptimisticTransaction::new(move |now: u64, reads: &mut LogReads, writes: &mut Writes| {
        let PopRequest { partition, reader, number, records, .. } = request;
        let name = keys::check_name(&request.cursor)?;
        let (cursor_key, pop_key) = (keys::cursor(partition, name), keys::pop(partition, name, reader));
        reads.require([cursor_key.clone(), pop_key.clone()])?;
        match reads.get::<PopRecord>(&pop_key)? {
            Some(before) if before.number > number => {
                return Err(LogError::OldPop { number: before.number }.into());
            }
            Some(before) if before.number == number && !is_planted(Bug::RepeatedPopMoves) => {
                let end = before.first + u64::from(before.count);
                return Ok(PopOutcome { first: before.first, end, records: Vec::new() });
            }
            _ => {}
        }
        let cursor: CursorRecord = reads.get(&cursor_key)?.unwrap_or_default();
        let start = cursor.offset.max(first);
        let end = start.saturating_add(u64::from(records)).min(next).max(start);
        if start < end {
            // At most `records`.
            let count = u32::try_from(end - start).unwrap_or(records);
            writes.put(cursor_key, &CursorRecord { offset: end });
            writes.put(pop_key, &PopRecord { number, first: start, count, used: now });
        }
        Ok(PopOutcome { first: start, end, records: Vec::new() })
    })
}

/// Forgets a reader of a cursor that pops no more. A repeated pop of it would get other records.
pub fn forget_reader(
    partition: u32,
    cursor: String,
    reader: ReaderId,
) -> impl LogProcedure<Output = ()> + Send {
    OptimisticTransaction::new(move |_, reads: &mut LogReads, writes: &mut Writes| {
        let key = keys::pop(partition, keys::check_name(&cursor)?, reader);
        if reads.get::<PopRecord>(&key)?.is_some() {
            writes.remove(key);
        }
        Ok(())
    })
}

impl zerohop_layer_procedure::Procedure<LogError, TailWait> for PopLog {
    type Output = PopOutcome;

    fn step(&mut self, now: u64, event: LogEvent) -> LogStep<PopOutcome> {
        let partition = self.request.partition;
        match (std::mem::replace(&mut self.state, PopState::Idle), event) {
            (PopState::Idle, LogEvent::Start) | (PopState::Waiting, LogEvent::OwnDone) => {
                self.state = PopState::ReadingBounds;
                self.read_bounds()
            }
            (PopState::ReadingBounds, LogEvent::Values(values)) => match decode_bounds(partition, &values) {
                Err(error) => LogStep::fail(error),
                Ok((version, tail, first)) => {
                    let work = move_cursor(self.request.clone(), first, tail.next);
                    self.move_cursor(now, version, Box::new(work), LogEvent::Start)
                }
            },
            (PopState::Moving(version, work), event) => self.move_cursor(now, version, work, event),
            (PopState::Scanning(pop), LogEvent::Page { entries, next }) => {
                self.collect(pop, entries, next.is_some())
            }
            (PopState::CheckingTrim(pop), LogEvent::Values(values)) => {
                match decode_bounds(partition, &values) {
                    Err(error) => LogStep::fail(error),
                    Ok((_, _, first)) => finish(partition, pop, first),
                }
            }
            (_, event) => LogStep::unexpected(&event),
        }
    }
}

/// The end of a pop with missing records: all of them must be below the first offset.
fn finish(partition: u32, pop: PopOutcome, first: u64) -> LogStep<PopOutcome> {
    let mut expected = pop.first.max(first);
    for (offset, _) in pop.records.iter().filter(|(offset, _)| *offset >= first) {
        if *offset != expected {
            return LogStep::fail(LogError::Corrupt(keys::batch(partition, expected)));
        }
        expected += 1;
    }
    if expected < pop.end {
        return LogStep::fail(LogError::Corrupt(keys::batch(partition, expected)));
    }
    LogStep::Done(Ok(pop))
}
