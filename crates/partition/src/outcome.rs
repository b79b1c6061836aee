//! The outcome of a write, as it is kept for a retry.
//!
//! | tag | outcome | fields |
//! | ---: | --- | --- |
//! | 1 | done at the entry's own timestamp, number 0 | none |
//! | 2 | done at the entry's own timestamp | number (8) |
//! | 3 | done | version (8), number (8) |
//! | 4 | counter at the entry's own timestamp | value (8) |
//! | 5 | counter | version (8), value (8) |
//! | 6 | taken, with the contents before the trailer | version (8), type (1) |
//! | 7 | taken | version (8), type (1), length (4), contents |
//! | 16 | `NotFound` | none |
//! | 17 | `WrongType` | type (1) |
//! | 18 | `ConditionFailed` | version (8), type (1, 0 for none) |
//! | 19 | `CompareFailed`, no record | none |
//! | 20 | `CompareFailed` | version (8), length (4), the value seen |
//! | 21 | `NotANumber` | none |
//! | 22 | `Overflow` | none |
//! | 23 | `ValueTooLong` | length (8), limit (4) |
//! | 24 | `StaleBlob` | id (8), generation (8) |
//! | 25 | `NeedHeader` | none |
//! | 26 | `TooMany` | count (8), limit (4) |
//! | 32 | a transaction is committed | timestamp (8), parts (4), of each its results: length (4), bytes |
//! | 33 | a transaction is aborted | aborting partition: keyspace (4), hash (8); reason (1), item (4) |

use std::borrow::Cow;

use bytes::Bytes;
use zerohop_record::state::ApplyOutcome;
use zerohop_transaction::limits::{PARTICIPANTS_MAX, RESULT_BYTES_MAX};
use zerohop_transaction::{Reason, Refusal, RoutingKey, TransactionOutcome};
use zerohop_wire::blob::BlobStamp;
use zerohop_wire::ids::{KeyspaceId, Timestamp};
use zerohop_wire::limits::TAKE_BYTES_MAX;
use zerohop_wire::messages::{OperationAnswer, Outcome as WireOutcome, RecordType};
use zerohop_wire::{BadRequestReason, Elements, Failure};

use crate::limits::SEEN_VALUE_BYTES_MAX;
use zerohop_base::bytes::Reader;

/// The outcome of a write: done, or refused because of the record's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WriteOutcome {
    Done {
        version: Timestamp,
        number: u64,
    },
    Counter {
        version: Timestamp,
        value: i64,
    },
    /// The record that was removed.
    RemovedRecord {
        version: Timestamp,
        record: RecordType,
        contents: Box<[u8]>,
    },
    NotFound,
    WrongType(RecordType),
    ConditionFailed {
        version: Timestamp,
        found: Option<RecordType>,
    },
    CompareFailed {
        version: Timestamp,
        seen: Option<Box<[u8]>>,
    },
    NotANumber,
    Overflow,
    ValueTooLong {
        length: u64,
        limit: u32,
    },
    TooMany {
        count: u64,
        limit: u32,
    },
    /// The outcome of a transaction over several partitions.
    Transaction(Box<TransactionOutcome>),
    StaleBlob(BlobStamp),
    NeedHeader,
}

impl From<ApplyOutcome> for WriteOutcome {
    #[inline]
    fn from(outcome: ApplyOutcome) -> Self {
        match outcome {
            ApplyOutcome::Done { version, number } => WriteOutcome::Done { version, number },
            ApplyOutcome::Counter { version, value } => WriteOutcome::Counter { version, value },
            ApplyOutcome::RemovedRecord { version, record, contents } => {
                WriteOutcome::RemovedRecord { version, record, contents }
            }
            ApplyOutcome::NotFound => WriteOutcome::NotFound,
            ApplyOutcome::WrongType(found) => WriteOutcome::WrongType(found),
            ApplyOutcome::CompareFailed { version, seen } => WriteOutcome::CompareFailed { version, seen },
            ApplyOutcome::NotANumber => WriteOutcome::NotANumber,
            ApplyOutcome::Overflow => WriteOutcome::Overflow,
            ApplyOutcome::ValueTooLong { length, limit } => WriteOutcome::ValueTooLong { length, limit },
            ApplyOutcome::TooMany { count, limit } => WriteOutcome::TooMany { count, limit },
        }
    }
}

impl WriteOutcome {
    /// The outcome as a client is answered.
    pub(crate) fn answer(&self) -> OperationAnswer<'_> {
        Err(match self {
            WriteOutcome::Done { version, number } => {
                return Ok(WireOutcome::Done { version: *version, number: *number });
            }
            WriteOutcome::Counter { version, value } => {
                return Ok(WireOutcome::Counter { version: *version, value: *value });
            }
            WriteOutcome::RemovedRecord { version, record: RecordType::List, contents } => {
                return list_of(contents).map(|values| {
                    let length = values.len() as u64;
                    WireOutcome::List { version: *version, length, first: 0, values }
                });
            }
            WriteOutcome::RemovedRecord { version, contents, .. } => {
                let length = contents.len() as u64;
                return Ok(WireOutcome::Value { version: *version, length, bytes: contents });
            }
            WriteOutcome::NotFound => Failure::NotFound,
            WriteOutcome::WrongType(found) => Failure::WrongType { found: *found },
            WriteOutcome::ConditionFailed { version, found } => {
                Failure::ConditionFailed { version: *version, found: *found }
            }
            WriteOutcome::CompareFailed { version, seen } => {
                Failure::CompareFailed { version: *version, seen: seen.as_deref().map(Cow::Borrowed) }
            }
            WriteOutcome::NotANumber => Failure::NotANumber,
            WriteOutcome::Overflow => Failure::Overflow,
            WriteOutcome::StaleBlob(known) => Failure::StaleBlob { known: *known },
            WriteOutcome::NeedHeader => Failure::NeedHeader,
            WriteOutcome::ValueTooLong { length, limit } => {
                Failure::ValueTooLong { length: *length, limit: *limit }
            }
            WriteOutcome::TooMany { count, limit } => Failure::TooMany { count: *count, limit: *limit },
            // The number named a transaction before and another request now. No client does that.
            WriteOutcome::Transaction(_) => BadRequestReason::Window.into(),
        })
    }

    /// The outcome as it is kept, without a long value that was seen.
    pub(crate) fn without_long_value(&self) -> WriteOutcome {
        match self {
            WriteOutcome::CompareFailed { version, seen: Some(seen) }
                if seen.len() > SEEN_VALUE_BYTES_MAX =>
            {
                WriteOutcome::ConditionFailed { version: *version, found: Some(RecordType::Bytes) }
            }
            other => other.clone(),
        }
    }

    /// Memory beside the value itself.
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            WriteOutcome::CompareFailed { seen: Some(seen), .. } => seen.len(),
            WriteOutcome::RemovedRecord { contents, .. } => contents.len(),
            WriteOutcome::Transaction(ended) => match &**ended {
                TransactionOutcome::Committed { results, .. } => {
                    size_of::<TransactionOutcome>()
                        + results.iter().map(|one| size_of_val(one) + one.len()).sum::<usize>()
                }
                TransactionOutcome::Aborted { .. } => size_of::<TransactionOutcome>(),
            },
            _ => 0,
        }
    }

    /// Appends the outcome to `out`, as an entry of timestamp `at` stores it; zero where there is no entry.
    pub(crate) fn encode(&self, at: Timestamp, out: &mut Vec<u8>) {
        let mut put = |tag: u8, fields: &[u64]| {
            out.push(tag);
            fields.iter().for_each(|field| out.extend_from_slice(&field.to_le_bytes()));
        };
        match self {
            WriteOutcome::Done { version, number: 0 } if *version == at => put(1, &[]),
            WriteOutcome::Done { version, number } if *version == at => put(2, &[*number]),
            WriteOutcome::Done { version, number } => put(3, &[version.0, *number]),
            WriteOutcome::Counter { version, value } if *version == at => put(4, &[*value as u64]),
            WriteOutcome::Counter { version, value } => put(5, &[version.0, *value as u64]),
            WriteOutcome::RemovedRecord { version, record, contents } => {
                put(REMOVED_RECORD, &[version.0]);
                out.push(record.number());
                out.extend_from_slice(&(contents.len() as u32).to_le_bytes());
                out.extend_from_slice(contents);
            }
            WriteOutcome::NotFound => put(16, &[]),
            WriteOutcome::WrongType(found) => {
                put(17, &[]);
                out.push(found.number());
            }
            WriteOutcome::ConditionFailed { version, found } => {
                put(18, &[version.0]);
                out.push(found.map_or(0, RecordType::number));
            }
            WriteOutcome::CompareFailed { seen: None, .. } => put(19, &[]),
            WriteOutcome::CompareFailed { version, seen: Some(seen) } => {
                put(20, &[version.0]);
                out.extend_from_slice(&(seen.len() as u32).to_le_bytes());
                out.extend_from_slice(seen);
            }
            WriteOutcome::NotANumber => put(21, &[]),
            WriteOutcome::Overflow => put(22, &[]),
            WriteOutcome::StaleBlob(known) => put(24, &[known.id, known.generation]),
            WriteOutcome::NeedHeader => put(25, &[]),
            WriteOutcome::ValueTooLong { length, limit } => {
                put(23, &[*length]);
                out.extend_from_slice(&limit.to_le_bytes());
            }
            WriteOutcome::TooMany { count, limit } => {
                put(26, &[*count]);
                out.extend_from_slice(&limit.to_le_bytes());
            }
            WriteOutcome::Transaction(ended) => encode_ended(ended, out),
        }
    }

    /// Appends the outcome for the trailer of its entry, whose contents are those that it took.
    pub(crate) fn encode_trailer(&self, at: Timestamp, out: &mut Vec<u8>) {
        match self {
            WriteOutcome::RemovedRecord { version, record, .. } => {
                out.push(REMOVED_RECORD_IN_ENTRY);
                out.extend_from_slice(&version.0.to_le_bytes());
                out.push(record.number());
            }
            other => other.encode(at, out),
        }
    }

    /// Completes the outcome that a trailer has with the contents of its entry.
    pub(crate) fn complete(&mut self, entry: &[u8]) {
        if let WriteOutcome::RemovedRecord { contents, .. } = self
            && contents.is_empty()
        {
            *contents = entry.into();
        }
    }

    /// Reads the output of [`WriteOutcome::encode`]; `None` if the bytes are not an outcome.
    pub(crate) fn decode(from: &mut Reader<'_>, at: Timestamp) -> Option<WriteOutcome> {
        Some(match from.u8()? {
            1 => WriteOutcome::Done { version: at, number: 0 },
            2 => WriteOutcome::Done { version: at, number: from.u64()? },
            3 => WriteOutcome::Done { version: Timestamp(from.u64()?), number: from.u64()? },
            4 => WriteOutcome::Counter { version: at, value: from.u64()? as i64 },
            5 => WriteOutcome::Counter { version: Timestamp(from.u64()?), value: from.u64()? as i64 },
            tag @ (REMOVED_RECORD | REMOVED_RECORD_IN_ENTRY) => {
                let (version, record) = (Timestamp(from.u64()?), RecordType::from_number(from.u8()?)?);
                let length = if tag == REMOVED_RECORD { from.u32()? as usize } else { 0 };
                if length > TAKE_BYTES_MAX + 4 {
                    return None;
                }
                let contents = from.bytes(length)?;
                if record == RecordType::List && tag == REMOVED_RECORD {
                    list_of(contents).ok()?;
                }
                WriteOutcome::RemovedRecord { version, record, contents: contents.into() }
            }
            16 => WriteOutcome::NotFound,
            17 => WriteOutcome::WrongType(RecordType::from_number(from.u8()?)?),
            18 => {
                let version = Timestamp(from.u64()?);
                let found = match from.u8()? {
                    0 => None,
                    number => Some(RecordType::from_number(number)?),
                };
                WriteOutcome::ConditionFailed { version, found }
            }
            19 => WriteOutcome::CompareFailed { version: Timestamp::ZERO, seen: None },
            20 => {
                let version = Timestamp(from.u64()?);
                let length = from.u32()? as usize;
                if length > SEEN_VALUE_BYTES_MAX {
                    return None;
                }
                WriteOutcome::CompareFailed { version, seen: Some(from.bytes(length)?.into()) }
            }
            21 => WriteOutcome::NotANumber,
            22 => WriteOutcome::Overflow,
            24 => WriteOutcome::StaleBlob(BlobStamp { id: from.u64()?, generation: from.u64()? }),
            25 => WriteOutcome::NeedHeader,
            23 => WriteOutcome::ValueTooLong { length: from.u64()?, limit: from.u32()? },
            26 => WriteOutcome::TooMany { count: from.u64()?, limit: from.u32()? },
            tag @ (ENDED_COMMITTED | ENDED_ABORTED) => {
                WriteOutcome::Transaction(Box::new(decode_ended(tag, from)?))
            }
            _ => return None,
        })
    }
}

/// The values of a list's contents: their number, then each with its length.
fn list_of(contents: &[u8]) -> Result<Elements<'_, &[u8]>, Failure<'static>> {
    let (count, packed) = contents.split_first_chunk::<4>().ok_or(BadRequestReason::Lengths)?;
    Elements::packed(u32::from_le_bytes(*count), packed)
}

const REMOVED_RECORD_IN_ENTRY: u8 = 6;
const REMOVED_RECORD: u8 = 7;
const ENDED_COMMITTED: u8 = 32;
const ENDED_ABORTED: u8 = 33;

fn encode_ended(ended: &TransactionOutcome, out: &mut Vec<u8>) {
    match ended {
        TransactionOutcome::Committed { timestamp, results } => {
            out.push(ENDED_COMMITTED);
            out.extend_from_slice(&timestamp.0.to_le_bytes());
            out.extend_from_slice(&(results.len() as u32).to_le_bytes());
            for result in results {
                out.extend_from_slice(&(result.len() as u32).to_le_bytes());
                out.extend_from_slice(result);
            }
        }
        TransactionOutcome::Aborted { by, refusal } => {
            out.push(ENDED_ABORTED);
            out.extend_from_slice(&by.keyspace.0.to_le_bytes());
            out.extend_from_slice(&by.point.to_le_bytes());
            out.push(refusal.reason.number());
            out.extend_from_slice(&refusal.item.to_le_bytes());
        }
    }
}

fn decode_ended(tag: u8, from: &mut Reader<'_>) -> Option<TransactionOutcome> {
    if tag == ENDED_ABORTED {
        let by = RoutingKey { keyspace: KeyspaceId(from.u32()?), point: from.u64()? };
        let refusal = Refusal { reason: Reason::from_number(from.u8()?)?, item: from.u32()? };
        return Some(TransactionOutcome::Aborted { by, refusal });
    }
    let timestamp = Timestamp(from.u64()?);
    let count = from.count(4, PARTICIPANTS_MAX)?;
    let (mut results, mut left) = (Vec::with_capacity(count), RESULT_BYTES_MAX);
    for _ in 0..count {
        let length = from.u32()? as usize;
        left = left.checked_sub(length)?;
        results.push(Bytes::copy_from_slice(from.bytes(length)?));
    }
    Some(TransactionOutcome::Committed { timestamp, results })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_read_back_as_they_were_written() {
        let (at, other) = (Timestamp(77), Timestamp(5));
        let outcomes = [
            WriteOutcome::Done { version: at, number: 0 },
            WriteOutcome::Done { version: at, number: 9 },
            WriteOutcome::Done { version: other, number: 0 },
            WriteOutcome::Done { version: Timestamp::ZERO, number: 1 },
            WriteOutcome::Counter { version: at, value: -3 },
            WriteOutcome::Counter { version: other, value: i64::MIN },
            WriteOutcome::RemovedRecord {
                version: other,
                record: RecordType::Bytes,
                contents: (*b"it").into(),
            },
            WriteOutcome::RemovedRecord { version: other, record: RecordType::Bytes, contents: [].into() },
            WriteOutcome::RemovedRecord {
                version: other,
                record: RecordType::List,
                contents: [1, 0, 0, 0, 2, 0, 0, 0, 7, 8].into(),
            },
            WriteOutcome::NotFound,
            WriteOutcome::WrongType(RecordType::List),
            WriteOutcome::ConditionFailed { version: other, found: Some(RecordType::Bytes) },
            WriteOutcome::ConditionFailed { version: Timestamp::ZERO, found: None },
            WriteOutcome::CompareFailed { version: Timestamp::ZERO, seen: None },
            WriteOutcome::CompareFailed { version: other, seen: Some((*b"seen").into()) },
            WriteOutcome::NotANumber,
            WriteOutcome::Overflow,
            WriteOutcome::ValueTooLong { length: 1 << 40, limit: 7 },
            WriteOutcome::TooMany { count: 1 << 40, limit: 7 },
            WriteOutcome::Transaction(Box::new(TransactionOutcome::Committed {
                timestamp: other,
                results: vec![Bytes::from_static(b"one"), Bytes::new()],
            })),
            WriteOutcome::Transaction(Box::new(TransactionOutcome::Aborted {
                by: RoutingKey { keyspace: KeyspaceId(3), point: 9 },
                refusal: Reason::ReadChanged.into(),
            })),
            WriteOutcome::StaleBlob(BlobStamp { id: 1 << 50, generation: 3 }),
            WriteOutcome::NeedHeader,
        ];
        for at in [at, Timestamp::ZERO] {
            for outcome in &outcomes {
                let mut bytes = Vec::new();
                outcome.encode(at, &mut bytes);
                let mut reader = Reader::new(&bytes);
                assert_eq!(WriteOutcome::decode(&mut reader, at).as_ref(), Some(outcome));
                assert!(reader.is_at_end());
                let cut = &bytes[..bytes.len() - 1];
                assert_eq!(WriteOutcome::decode(&mut Reader::new(cut), at), None, "{outcome:?} cut short");
            }
        }
    }

    #[test]
    fn outcome_drops_long_seen_value_and_keeps_version() {
        let version = Timestamp(5);
        let long = vec![0; SEEN_VALUE_BYTES_MAX + 1].into_boxed_slice();
        let failed = WriteOutcome::CompareFailed { version, seen: Some(long) };
        assert_eq!(
            failed.without_long_value(),
            WriteOutcome::ConditionFailed { version, found: Some(RecordType::Bytes) }
        );
    }
}
