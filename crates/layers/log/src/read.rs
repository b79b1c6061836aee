//! Reads batches from an offset on.
//!
//! 1. A scan from the key of the offset returns the batch that has it, and those behind.
//! 2. Tail and trim are read after it. They show what an answer without the batch means: the offset is trimmed, not yet
//!    there, or appended since the scan.
//! 3. At the end of the log, a reader may wait for a change of the tail.

use zerohop_layer_procedure::{Record, Version, VersionedRecord};

use crate::error::LogError;
use crate::keys::{self, RecordKey};
use crate::planted::{Bug, is_planted};
use crate::procedure::{LogEffect, LogEvent, LogStep, TailWait};
use crate::records::{StoredBatch, TailRecord, TrimRecord};

/// The most batches of a page.
const PAGE_BATCHES: usize = 1000;

/// What a reader asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadRequest {
    /// The log partition.
    pub partition: u32,
    /// The first offset.
    pub offset: u64,
    /// The bytes of batches that end the page. A page has at least one batch, if there is one.
    pub bytes: usize,
    /// How long to wait for the first batch, in milliseconds since 1970; 0 without a wait.
    pub wait_until: u64,
}

/// Batches without a gap between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogPage {
    /// The batches. The first one may begin below the offset of the request.
    pub batches: Vec<StoredBatch>,
    /// The first offset of the log partition.
    pub first: u64,
    /// The offset of the next record that will be appended.
    pub next: u64,
}

enum ReadState {
    Idle,
    Scanning,
    ReadingBounds(Vec<StoredBatch>),
    Waiting,
}

/// A read.
pub struct ReadLog {
    request: ReadRequest,
    /// The tail was above the offset, so there is a batch, or it was trimmed.
    is_appended: bool,
    state: ReadState,
}

impl ReadLog {
    /// The read of a request.
    #[must_use]
    pub const fn new(request: ReadRequest) -> Self {
        Self { request, is_appended: false, state: ReadState::Idle }
    }

    fn scan(&mut self) -> LogStep<LogPage> {
        self.state = ReadState::Scanning;
        let ReadRequest { partition, offset, bytes, .. } = self.request;
        let (from, to) = (keys::batch(partition, offset), keys::batches_end(partition));
        LogStep::Effect(LogEffect::Scan { from, to, limit: PAGE_BATCHES, bytes })
    }

    fn read_bounds(&mut self, entries: Vec<(RecordKey, Vec<u8>)>) -> LogStep<LogPage> {
        let batches = match contiguous(entries) {
            Ok(batches) => batches,
            Err(error) => return LogStep::fail(error),
        };
        self.state = ReadState::ReadingBounds(batches);
        let partition = self.request.partition;
        LogStep::Effect(LogEffect::Read(vec![keys::tail(partition), keys::trim(partition)]))
    }

    fn finish(
        &mut self,
        now: u64,
        batches: Vec<StoredBatch>,
        bounds: &[Option<VersionedRecord>],
    ) -> LogStep<LogPage> {
        let ReadRequest { partition, offset, wait_until, .. } = self.request;
        let (version, tail, first) = match decode_bounds(partition, bounds) {
            Ok(bounds) => bounds,
            Err(error) => return LogStep::fail(error),
        };
        let next = tail.next.max(first);
        let is_gap = batches.first().is_some_and(|batch| batch.base > offset);
        if (offset < first && !is_planted(Bug::GapNotReported)) || offset > next {
            return LogStep::fail(LogError::OutOfRange { first, next });
        }
        if is_gap && !is_planted(Bug::GapNotReported) {
            return LogStep::fail(LogError::Corrupt(keys::batch(partition, offset)));
        }
        if !batches.is_empty() {
            return LogStep::Done(Ok(LogPage { batches, first, next }));
        }
        if offset < next {
            if std::mem::replace(&mut self.is_appended, true) {
                return LogStep::fail(LogError::Corrupt(keys::batch(partition, offset)));
            }
            return self.scan();
        }
        if wait_until > now {
            self.state = ReadState::Waiting;
            let wait = TailWait { key: keys::tail(partition), seen: version, until: wait_until };
            return LogStep::Effect(LogEffect::Own(wait));
        }
        LogStep::Done(Ok(LogPage { batches, first, next }))
    }
}

/// The batches of a page up to the first gap, which a trim between two parts of the scan leaves.
pub(crate) fn contiguous(entries: Vec<(RecordKey, Vec<u8>)>) -> Result<Vec<StoredBatch>, LogError> {
    let mut batches: Vec<StoredBatch> = Vec::with_capacity(entries.len());
    for (key, value) in entries {
        let Some(batch) = StoredBatch::decode(&value) else { return Err(LogError::Corrupt(key)) };
        if batches.last().is_some_and(|last| last.last() + 1 != batch.base) {
            break;
        }
        batches.push(batch);
    }
    Ok(batches)
}

/// The tail with its version, and the first offset.
pub(crate) fn decode_bounds(
    partition: u32,
    records: &[Option<VersionedRecord>],
) -> Result<(Version, TailRecord, u64), LogError> {
    let [tail, trim] = records else {
        return Err(LogError::Unavailable("the driver did not read both ends of a log".to_owned()));
    };
    let tail = tail.as_ref().ok_or(LogError::NoSuchPartition)?;
    let record = TailRecord::decode(&tail.value).ok_or_else(|| LogError::Corrupt(keys::tail(partition)))?;
    let trim = match trim {
        None => TrimRecord::default(),
        Some(trim) => {
            TrimRecord::decode(&trim.value).ok_or_else(|| LogError::Corrupt(keys::trim(partition)))?
        }
    };
    Ok((tail.version, record, trim.first))
}

impl zerohop_layer_procedure::Procedure<LogError, TailWait> for ReadLog {
    type Output = LogPage;

    fn step(&mut self, now: u64, event: LogEvent) -> LogStep<LogPage> {
        match (std::mem::replace(&mut self.state, ReadState::Idle), event) {
            (ReadState::Idle, LogEvent::Start) | (ReadState::Waiting, LogEvent::OwnDone) => self.scan(),
            (ReadState::Scanning, LogEvent::Page { entries, .. }) => self.read_bounds(entries),
            (ReadState::ReadingBounds(batches), LogEvent::Values(values)) => {
                self.finish(now, batches, &values)
            }
            (_, event) => LogStep::unexpected(&event),
        }
    }
}
