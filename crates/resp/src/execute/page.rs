//! One partition's part of a command over all partitions.
//!
//! The request is an array of bulks: the name of the command (`dbsize`, `keys`, `scan`, `flush`, `random`), the cursor,
//! and how many keys to look at. A pattern and a type follow, each empty for any, and the partition count at the
//! sender. If the keyspace has more partitions now, the number means another partition, and nothing is looked at. The
//! answer is a [`Page`].
//!
//! | offset | bytes | what |
//! | --- | --- | --- |
//! | 0 | 1 | 0: this is no reply to a client |
//! | 1 | 1 | 1 if there are more keys; 2 if the keyspace has been split |
//! | 2 | 4 | the cursor of the next page |
//! | 6 | 8 | records counted or removed; after a split the partition count |
//! | 14 | 4 | how many keys were looked at |
//! | 18 | rest | keys: the length of each (4), its bytes |

use zerohop_wire::{BadRequestReason, Failure};

use super::keys::type_name;
use super::{ExecuteResult, Execution, INTERNAL, StopReason};
use crate::Args;
use crate::glob::Glob;
use crate::limits::{
    ALL_PARTITIONS_PAGE_KEYS, ALL_PARTITIONS_STEP_PAGES_MAX, ALL_PARTITIONS_STEP_WORK_MAX, SPLIT_RETRY_MS,
};
use crate::number::integer;

/// The answer of one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Page<'a> {
    /// The cursor of the next page; `None` at the end.
    pub(crate) next: Option<u32>,
    /// The keyspace has so many partitions, more than the sender knew of.
    pub(crate) split: Option<u32>,
    /// Records counted or removed.
    pub(crate) count: u64,
    /// Keys that were looked at.
    pub(crate) keys_examined: u32,
    pub(crate) keys: PageKeys<'a>,
}

/// The keys of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageKeys<'a>(pub(crate) &'a [u8]);

impl<'a> Iterator for PageKeys<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (length, rest) = self.0.split_first_chunk::<4>()?;
        let (key, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        self.0 = rest;
        Some(key)
    }
}

const HEAD_BYTES: usize = 18;

/// The cost of looking at a key, and of looking up its record, in units of about a nanosecond.
const KEY_COST: usize = 100;
const INSPECT_COST: usize = 500;

/// In place of the flag for more keys.
const SPLIT: u8 = 2;

impl<'a> Page<'a> {
    pub(crate) fn decode(bytes: &'a [u8]) -> Option<Page<'a>> {
        let (head, keys) = bytes.split_first_chunk::<HEAD_BYTES>()?;
        let [INTERNAL, more, n0, n1, n2, n3, count @ .., l0, l1, l2, l3] = *head else { return None };
        let count = u64::from_le_bytes(count);
        Some(Page {
            next: (more != 0).then_some(u32::from_le_bytes([n0, n1, n2, n3])),
            split: if more == SPLIT { Some(u32::try_from(count).ok()?) } else { None },
            count,
            keys_examined: u32::from_le_bytes([l0, l1, l2, l3]),
            keys: PageKeys(keys),
        })
    }
}

impl Execution<'_> {
    /// Answers one page.
    pub(super) fn page(&mut self, args: Args<'_>) -> ExecuteResult {
        let number = |place| integer(args.at(place)).and_then(|number| u32::try_from(number).ok());
        let (Some(cursor), Some(limit)) = (number(1), number(2)) else {
            return Err(StopReason::Failed(BadRequestReason::Detail.into()));
        };
        let begin = self.reply.len();
        self.reply.body().extend_from_slice(&[0; HEAD_BYTES]);
        // Older nodes do not send this field.
        let (expected, known) = (number(5).unwrap_or(0), self.records.partitions());
        if expected != 0 && known != 0 && expected != known {
            if expected > known {
                // This partition has not learned of the split yet.
                let retry_after_ms = SPLIT_RETRY_MS;
                return Err(StopReason::Failed(Failure::Unavailable { retry_after_ms }));
            }
            let head = &mut self.reply.body()[begin..begin + HEAD_BYTES];
            (head[0], head[1]) = (INTERNAL, SPLIT);
            head[6..14].copy_from_slice(&u64::from(known).to_le_bytes());
            return Ok(());
        }
        let (count, looked_at, next) = match args.at(0) {
            b"dbsize" => (self.records.count(), 0, None),
            b"flush" => self.flush(cursor, limit)?,
            b"keys" | b"scan" | b"random" => self.keys(cursor, limit, args.at(3), args.at(4))?,
            _ => return Err(StopReason::Failed(BadRequestReason::Unexpected.into())),
        };
        let mut head = [0; HEAD_BYTES];
        head[0] = INTERNAL;
        head[1] = u8::from(next.is_some());
        head[2..6].copy_from_slice(&next.unwrap_or(0).to_le_bytes());
        head[6..14].copy_from_slice(&count.to_le_bytes());
        head[14..].copy_from_slice(&looked_at.to_le_bytes());
        self.reply.body()[begin..begin + HEAD_BYTES].copy_from_slice(&head);
        Ok(())
    }

    /// Collects keys until so many have been looked at, or the step has used its work limit; then
    /// it may return no key.
    fn keys(
        &mut self,
        mut cursor: u32,
        limit: u32,
        pattern: &[u8],
        wanted_type: &[u8],
    ) -> Result<(u64, u32, Option<u32>), StopReason> {
        let pattern = (!pattern.is_empty()).then(|| Glob::new(pattern));
        let (mut looked_at, mut work) = (0u32, 0);
        for page in 1.. {
            let begin = self.reply.len();
            let body = self.reply.body();
            let next = self.records.scan(cursor, &mut |key| {
                looked_at += 1;
                work += pattern.as_ref().map_or(KEY_COST, |pattern| pattern.cost(key.len())) + key.len() / 4;
                if pattern.as_ref().is_none_or(|pattern| pattern.matches(key)) {
                    body.extend_from_slice(&(key.len() as u32).to_le_bytes());
                    body.extend_from_slice(key);
                }
            })?;
            if !wanted_type.is_empty() {
                work += self.filter_type(begin, wanted_type)? * INSPECT_COST;
            }
            self.check_reply()?;
            match next {
                Some(next)
                    if looked_at < limit
                        && work < ALL_PARTITIONS_STEP_WORK_MAX
                        && page < ALL_PARTITIONS_STEP_PAGES_MAX
                        && next != cursor =>
                {
                    cursor = next;
                }
                next => return Ok((0, looked_at, next)),
            }
        }
        Ok((0, looked_at, None))
    }

    /// Drops keys after `begin` whose records have another type. Returns how many it looked at.
    fn filter_type(&mut self, begin: usize, requested: &[u8]) -> Result<usize, StopReason> {
        let found = self.reply.body().split_off(begin);
        let mut looked_at = 0;
        for key in PageKeys(&found) {
            looked_at += 1;
            let record = self.records.inspect(key)?.map(|info| info.record);
            if record.is_some() && type_name(record).as_bytes().eq_ignore_ascii_case(requested) {
                let body = self.reply.body();
                body.extend_from_slice(&(key.len() as u32).to_le_bytes());
                body.extend_from_slice(key);
            }
        }
        Ok(looked_at)
    }

    /// Removes up to so many records.
    fn flush(&mut self, mut cursor: u32, limit: u32) -> Result<(u64, u32, Option<u32>), StopReason> {
        let mut removed = 0;
        let limit = u64::from(limit).min(ALL_PARTITIONS_PAGE_KEYS as u64);
        for page in 1.. {
            let found = &mut *self.scratch;
            found.clear();
            let next = self.records.scan(cursor, &mut |key| {
                found.extend_from_slice(&(key.len() as u32).to_le_bytes());
                found.extend_from_slice(key);
            })?;
            for key in PageKeys(self.scratch) {
                removed += u64::from(self.records.remove(key)?);
            }
            match next {
                Some(next) if removed < limit && page < ALL_PARTITIONS_STEP_PAGES_MAX && next != cursor => {
                    cursor = next
                }
                next => return Ok((removed, removed as u32, next)),
            }
        }
        Ok((removed, removed as u32, None))
    }
}
