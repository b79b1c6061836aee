//! Long replies, read page by page from a snapshot of their partition.
//!
//! The unit of a command whose reply is long is answered with a [`LongReply`], each of the
//! following units with a [`PastPage`]. Numbers are little-endian.
//!
//! | offset | bytes | of a long reply |
//! | --- | --- | --- |
//! | 0 | 1 | 0: this is no reply to a client |
//! | 1 | 16 | id of the snapshot |
//! | 17 | 8 | the timestamp at which it is read |
//! | 25 | 8 | the first requested value of the list; 0 for `MGET` |
//! | 33 | 8 | how many values it has |
//! | 41 | | the unit that was answered in this way |
//!
//! | offset | bytes | of a page |
//! | --- | --- | --- |
//! | 0 | 1 | 0 |
//! | 1 | 4 | how many values it has |
//! | 5 | | these, as a client gets them |
//!
//! A page of `LRANGE` is requested by the key, its first value and its end (exclusive); one of
//! `MGET` by its keys.

use std::ops::Range;

use zerohop_wire::ids::{SnapshotId, Timestamp};
use zerohop_wire::{BadRequestReason, Failure};

use super::{INTERNAL, Scratch, StopReason, next};
use crate::limits::{PAGE_BYTES, STEP_VALUES_MAX};
use crate::number::integer;
use crate::unit::UnitKind;
use crate::{Args, RecordType, ReplyWriter, Unit};

const HEAD_BYTES: usize = 41;

/// Bytes of a page before its values.
const PAGE_HEAD_BYTES: usize = 5;

/// A partition's records as of a snapshot. The methods are those of [`Records`](crate::Records).
pub trait PastRecords {
    /// Passes a whole bytes record to `take`, once, and returns its metadata.
    fn lookup(
        &mut self,
        key: &[u8],
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<Option<RecordType>, Failure<'static>>;

    /// Passes a range of a list's values to `each`, in order, until it returns false. The range is
    /// known to exist.
    fn values(
        &mut self,
        key: &[u8],
        range: Range<u64>,
        each: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<(), Failure<'static>>;
}

/// The values of a long reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PagedReply {
    first: u64,
    count: u64,
}

impl PagedReply {
    pub(crate) fn of(range: Range<u64>) -> PagedReply {
        PagedReply { first: range.start, count: range.end - range.start }
    }

    /// Appends the reply to the unit, with the snapshot from which the pages are read.
    pub fn opened(self, unit: &Unit<'_>, id: SnapshotId, at: Timestamp, reply: &mut Vec<u8>) {
        reply.push(INTERNAL);
        reply.extend_from_slice(&id.0.to_le_bytes());
        for number in [at.0, self.first, self.count] {
            reply.extend_from_slice(&number.to_le_bytes());
        }
        unit.encode(reply);
    }
}

/// The reply of a unit whose long reply is read in pages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LongReply<'a> {
    pub(crate) id: SnapshotId,
    pub(crate) at: Timestamp,
    pub(crate) first: u64,
    pub(crate) count: u64,
    pub(crate) unit: Unit<'a>,
}

impl<'a> LongReply<'a> {
    pub(crate) fn decode(bytes: &'a [u8]) -> Option<LongReply<'a>> {
        let (head, unit) = bytes.split_first_chunk::<HEAD_BYTES>()?;
        let (&[INTERNAL], rest) = head.split_first_chunk::<1>()? else { return None };
        let (id, rest) = rest.split_first_chunk::<16>()?;
        let number =
            |place: usize| rest.get(8 * place..)?.first_chunk::<8>().map(|bytes| u64::from_le_bytes(*bytes));
        Some(LongReply {
            id: SnapshotId(u128::from_le_bytes(*id)),
            at: Timestamp(number(0)?),
            first: number(1)?,
            count: number(2)?,
            unit: Unit::decode(unit).ok()?,
        })
    }
}

/// The reply of a page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PastPage<'a> {
    pub(crate) count: u64,
    pub(crate) values: &'a [u8],
}

impl<'a> PastPage<'a> {
    pub(crate) fn decode(bytes: &'a [u8]) -> Option<PastPage<'a>> {
        let (head, values) = bytes.split_first_chunk::<PAGE_HEAD_BYTES>()?;
        let [INTERNAL, count @ ..] = *head else { return None };
        Some(PastPage { count: u64::from(u32::from_le_bytes(count)), values })
    }
}

/// Executes a page of a long reply over the records of its snapshot, and appends its reply. `true`:
/// the snapshot is not needed any more.
///
/// # Errors Those of the records, and that the unit is invalid.
pub fn execute_past(
    unit: &Unit<'_>,
    records: &mut dyn PastRecords,
    scratch: &mut Scratch,
    reply: &mut Vec<u8>,
) -> Result<bool, Failure<'static>> {
    if unit.kind != UnitKind::Past {
        return Err(BadRequestReason::Unexpected.into());
    }
    let begin = reply.len();
    reply.extend_from_slice(&[INTERNAL, 0, 0, 0, 0]);
    if unit.commands.is_empty() {
        return Ok(true);
    }
    let (spans, _) = next(&mut scratch.parser, unit.commands)?;
    let args = Args::within(unit.commands, spans);
    let end = begin + PAGE_BYTES;
    let mut count = 0u32;
    let mut writer = ReplyWriter::new(reply, unit.protocol);
    if args.is(0, "LRANGE") {
        let place = |at| integer(args.at(at)).and_then(|place| u64::try_from(place).ok());
        let (Some(from), Some(until)) = (place(2), place(3)) else {
            return Err(BadRequestReason::Unexpected.into());
        };
        let range = from..until.min(from.saturating_add(STEP_VALUES_MAX));
        records.values(args.at(1), range, &mut |value| {
            let has_room = count == 0 || writer.len() + value.len() <= end;
            if has_room {
                writer.bulk(value);
                count += 1;
            }
            has_room
        })?;
    } else {
        for key in args.iter().skip(1) {
            if records.lookup(key, &mut |bytes| writer.bulk(bytes))? != Some(RecordType::Bytes) {
                writer.null();
            }
            count += 1;
            if writer.len() >= end {
                break;
            }
        }
    }
    if let Some(bytes) = reply.get_mut(begin + 1..begin + PAGE_HEAD_BYTES) {
        bytes.copy_from_slice(&count.to_le_bytes());
    }
    Ok(false)
}

impl From<PagedReply> for StopReason {
    fn from(paged: PagedReply) -> StopReason {
        StopReason::Paged(paged)
    }
}
