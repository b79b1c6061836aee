//! A record in memory: for a transaction that reads back its own writes, and for models of a partition.

use std::ops::Range;

use crate::error::Failure;
use crate::fields::take_length_prefixed;
use crate::ids::Timestamp;
use crate::operations::WriteChange;
use crate::record::{Expiry, RecordType};
use crate::state::{ApplyOutcome, Change, Contents, EvaluatedWrite, ReadableRecord, RecordState};

/// A complete record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryRecord {
    /// Its contents.
    pub contents: MemoryContents,
    /// Its version.
    pub version: Timestamp,
    /// When it expires, in milliseconds since 1970.
    pub deadline: Option<u64>,
}

/// The contents of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemoryContents {
    /// One value.
    Bytes(Vec<u8>),
    /// The values of a list, in their order.
    List(Vec<Vec<u8>>),
}

impl MemoryRecord {
    /// Its type.
    #[must_use]
    pub fn record_type(&self) -> RecordType {
        match self.contents {
            MemoryContents::Bytes(_) => RecordType::Bytes,
            MemoryContents::List(_) => RecordType::List,
        }
    }

    /// Its length in units: bytes, or values.
    #[must_use]
    pub fn length(&self) -> u64 {
        match &self.contents {
            MemoryContents::Bytes(bytes) => bytes.len() as u64,
            MemoryContents::List(values) => values.len() as u64,
        }
    }
}

impl WriteChange<'_> {
    /// Applies the write to a record in memory, without a condition. `at` is the version of a changed record, `now_ms` the time in
    /// milliseconds since 1970. `None`: a write of a blob, which only a partition applies.
    ///
    /// # Errors
    /// The contents that the write made are not those of a list. No operation of the table makes such contents.
    pub fn apply_in_memory(
        &self,
        record: &mut Option<MemoryRecord>,
        at: Timestamp,
        now_ms: u64,
    ) -> Option<Result<ApplyOutcome, Failure<'static>>> {
        let mut state = MemoryState { record: record.take(), at, now_ms, buffer: Vec::new() };
        let applied = self.apply(&mut state);
        let MemoryState { record: before, buffer, .. } = state;
        *record = before;
        Some(match applied? {
            Ok(EvaluatedWrite { change, outcome }) => {
                carry_out(record, change, &buffer, at).map(|()| outcome)
            }
            Err(failure) => Err(failure),
        })
    }
}

fn carry_out(
    record: &mut Option<MemoryRecord>,
    change: Change<'_>,
    buffer: &[u8],
    version: Timestamp,
) -> Result<(), Failure<'static>> {
    let made = |record_type, contents| {
        let bytes = match contents {
            Contents::AsReceived(bytes) => bytes,
            Contents::Buffered => buffer,
        };
        Ok::<_, Failure<'static>>(match record_type {
            RecordType::List => MemoryContents::List(unpack(bytes)?),
            RecordType::Bytes | RecordType::Chunk => MemoryContents::Bytes(bytes.to_vec()),
        })
    };
    match change {
        Change::Put { record: record_type, contents, deadline, .. } => {
            *record = Some(MemoryRecord { contents: made(record_type, contents)?, version, deadline });
        }
        Change::Remove | Change::Take => *record = None,
        Change::Append { record: record_type, contents, .. } => {
            let added = made(record_type, contents)?;
            match (record, added) {
                (
                    Some(MemoryRecord { contents: MemoryContents::Bytes(all), version: known, .. }),
                    MemoryContents::Bytes(more),
                ) => {
                    all.extend(more);
                    *known = version;
                }
                (
                    Some(MemoryRecord { contents: MemoryContents::List(all), version: known, .. }),
                    MemoryContents::List(more),
                ) => {
                    all.extend(more);
                    *known = version;
                }
                (record, contents) => *record = Some(MemoryRecord { contents, version, deadline: None }),
            }
        }
        Change::DropFront(units) => {
            if let Some(MemoryRecord { contents: MemoryContents::List(all), version: known, .. }) = record {
                all.drain(..units as usize);
                *known = version;
            }
        }
        Change::Deadline(deadline) => {
            if let Some(record) = record {
                record.deadline = deadline;
            }
        }
        Change::Nothing => {}
    }
    Ok(())
}

/// The values of a list's contents: their number, then each with its length.
fn unpack(contents: &[u8]) -> Result<Vec<Vec<u8>>, Failure<'static>> {
    let mut rest = contents.get(4..).unwrap_or_default();
    let mut values = Vec::new();
    while !rest.is_empty() {
        values.push(take_length_prefixed(&mut rest)?.to_vec());
    }
    Ok(values)
}

/// A record in memory, as an operation sees it.
struct MemoryState {
    record: Option<MemoryRecord>,
    at: Timestamp,
    now_ms: u64,
    buffer: Vec<u8>,
}

impl ReadableRecord for Option<MemoryRecord> {
    fn record_type(&self) -> Option<RecordType> {
        self.as_ref().map(MemoryRecord::record_type)
    }

    fn version(&self) -> Timestamp {
        self.as_ref().map(|record| record.version).unwrap_or_default()
    }

    fn length(&self) -> u64 {
        self.as_ref().map_or(0, MemoryRecord::length)
    }

    fn deadline(&self) -> Option<u64> {
        self.as_ref().and_then(|record| record.deadline)
    }

    fn read_bytes(&mut self, range: Range<u64>, out: &mut Vec<u8>) -> Result<(), Failure<'static>> {
        if let Some(MemoryRecord { contents: MemoryContents::Bytes(bytes), .. }) = self {
            out.extend_from_slice(&bytes[range.start as usize..range.end as usize]);
        }
        Ok(())
    }

    fn read_values(
        &mut self,
        values: Range<u64>,
        (count_max, bytes_max): (u32, usize),
        out: &mut Vec<u8>,
    ) -> Result<u32, Failure<'static>> {
        let Some(MemoryRecord { contents: MemoryContents::List(all), .. }) = self else { return Ok(0) };
        let (begin, mut count) = (out.len(), 0);
        for value in &all[values.start as usize..values.end as usize] {
            if count == count_max || count > 0 && out.len() - begin + value.len() + 4 > bytes_max {
                break;
            }
            out.extend_from_slice(&(value.len() as u32).to_le_bytes());
            out.extend_from_slice(value);
            count += 1;
        }
        Ok(count)
    }
}

impl RecordState for MemoryState {
    type Record = Option<MemoryRecord>;

    fn record(&self) -> &Self::Record {
        &self.record
    }

    fn record_and_buffer(&mut self) -> (&mut Self::Record, &mut Vec<u8>) {
        (&mut self.record, &mut self.buffer)
    }

    fn next_version(&self) -> Timestamp {
        self.at
    }

    fn deadline_of(&self, expiry: Expiry) -> Result<Option<u64>, Failure<'static>> {
        Ok(match expiry {
            Expiry::Never => None,
            Expiry::AfterMs(ms) => Some(self.now_ms.saturating_add(ms)),
            Expiry::AtMs(ms) => Some(ms.max(1)),
            Expiry::Unchanged => self.deadline(),
        })
    }
}
