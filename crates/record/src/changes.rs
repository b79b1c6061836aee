//! The changes of a partition, page by page, for readers that watch a keyspace.
//!
//! Fields of a request: seen (8), after (8), newest (8), wait in ms (4), changes at most (4), bytes at most (4), length of the lower bound (4), length of the upper
//! bound (4), prefix length (4), 1 if values are requested (1), zero (7); then lower bound, upper bound, prefix. In the answer, the version is the
//! timestamp through which all changes were read, the number is the log index to read on from, and the detail is the number of changes. The payload
//! begins with the newest timestamp (8) that belongs to the index.

use crate::elements::Element;
use crate::error::{BadRequestReason, Failure};
use crate::fields::{FieldReader, layout, nothing_left, split};
use crate::ids::Timestamp;
use crate::limits::{CHANGES_PAGE_MAX, CHANGES_WAIT_MS_MAX};
use crate::numbered;
use crate::record::{RecordType, check_key, check_value};
use crate::scan::{check_bound, is_set};

/// The position of a reader that wants the changes from now on. The answer has no changes, and the position to read on from.
pub const AFTER_NOW: u64 = u64::MAX;

/// Requests the committed changes of a partition whose log index is above `after`, in the order of the log. If there are none, the answer waits.
/// Answers `Changes`; or `HistoryGone`, if the partition no longer keeps all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadChanges<'a> {
    /// The highest timestamp that the session has seen.
    pub seen: Timestamp,
    /// The log index that the previous answer gave; [`AFTER_NOW`]: from now on.
    pub after: u64,
    /// The newest timestamp that the previous answer gave with it. A partition in whose log a change at or below `after` has a higher one has lost
    /// the log that the reader knows.
    pub newest: Timestamp,
    /// How long the answer waits for a first change, in milliseconds; 0: it does not wait.
    pub wait_ms: u32,
    /// Maximum number of changes; an answer may have fewer although there are more.
    pub changes_max: u32,
    /// Maximum number of bytes of the keys and values of an answer, of which it has at least one change; 0: as many as the server sends.
    pub bytes_max: u32,
    /// Values of bytes records are returned with their keys, as far as the history has them.
    pub values: bool,
    /// Only keys at or above this.
    pub from: &'a [u8],
    /// Only keys below this; empty: up to the last.
    pub to: &'a [u8],
    /// Only keys with this prefix.
    pub prefix: &'a [u8],
}

numbered!(
    /// The cause of a change.
    ChangeCause: u8 {
        /// A request, or a transaction.
        Write = 1, "write";
        /// The record had a deadline.
        Expiry = 2, "expiry";
    }
);

/// One committed change: timestamp (8), version before (8), log index (8), key length (4), value length (4; [`NO_VALUE`]: none), type (1; 0: removed),
/// cause (1), zero (6), key, value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommittedChange<'a> {
    /// The key.
    pub key: &'a [u8],
    /// When it was made: the version of the record from then on, unless it was removed.
    pub at: Timestamp,
    /// The version of the record before; zero: there was none.
    pub before: Timestamp,
    /// The log index of the change, in its partition.
    pub index: u64,
    /// The type of the record from then on; `None`: it was removed.
    pub record: Option<RecordType>,
    /// Why it was made.
    pub cause: ChangeCause,
    /// The value from then on, if the request wants values and the history has it: of bytes records up to a maximum length.
    pub value: Option<&'a [u8]>,
}

/// The length of a value that is not sent.
const NO_VALUE: u32 = u32::MAX;

/// Bytes of a change on a page, beside key and value.
pub const CHANGE_HEAD_BYTES: usize = 40;

impl<'a> ReadChanges<'a> {
    /// Whether the request wants the changes of this key.
    #[must_use]
    pub fn wants(&self, key: &[u8]) -> bool {
        key.starts_with(self.prefix) && key >= self.from && (self.to.is_empty() || key < self.to)
    }

    /// Writes all but the last piece of the payload to `out`, and returns that piece. Errors: a limit is exceeded.
    pub fn put(&self, out: &mut Vec<u8>) -> Result<&'a [u8], Failure<'static>> {
        self.check()?;
        let (from_len, to_len) = (check_bound(self.from)?, check_bound(self.to)?);
        let prefix_len = check_key(self.prefix)?;
        let fields: [u8; 56] = layout(|to| {
            let to = to.u64(self.seen.0).u64(self.after).u64(self.newest.0);
            let to = to.u32(self.wait_ms).u32(self.changes_max);
            let to = to.u32(self.bytes_max).u32(from_len).u32(to_len).u32(prefix_len);
            to.u8(self.values.into()).zeros(7)
        });
        out.extend_from_slice(&fields);
        out.extend_from_slice(self.from);
        out.extend_from_slice(self.to);
        Ok(self.prefix)
    }

    /// Errors: the bytes are not such a request.
    pub fn decode_body(body: &'a [u8]) -> Result<Self, Failure<'static>> {
        let (mut fields, rest) = FieldReader::<56>::split(body)?;
        let (seen, after, newest) = (Timestamp(fields.u64()), fields.u64(), Timestamp(fields.u64()));
        let (wait_ms, changes_max, bytes_max) = (fields.u32(), fields.u32(), fields.u32());
        let (from_len, to_len) = (fields.u32() as usize, fields.u32() as usize);
        let prefix_len = fields.u32() as usize;
        let values = is_set(fields.u8())?;
        fields.zeros(7);
        fields.done()?;
        let (from, rest) = split(rest, from_len)?;
        let (to, rest) = split(rest, to_len)?;
        let (prefix, rest) = split(rest, prefix_len)?;
        nothing_left(rest)?;
        let request = Self { seen, after, newest, wait_ms, changes_max, bytes_max, values, from, to, prefix };
        request.check()?;
        check_bound(from)?;
        check_bound(to)?;
        check_key(prefix)?;
        Ok(request)
    }

    fn check(&self) -> Result<(), Failure<'static>> {
        if !self.to.is_empty() && self.from > self.to {
            return Err(BadRequestReason::Bounds.into());
        }
        match self.changes_max {
            0 => return Err(BadRequestReason::EmptyPage.into()),
            1..=CHANGES_PAGE_MAX => {}
            count => return Err(Failure::TooMany { count: count.into(), limit: CHANGES_PAGE_MAX }),
        }
        match self.wait_ms {
            0..=CHANGES_WAIT_MS_MAX => Ok(()),
            wait_ms => Err(Failure::TooMany { count: wait_ms.into(), limit: CHANGES_WAIT_MS_MAX }),
        }
    }
}

impl<'a> Element<'a> for CommittedChange<'a> {
    const COUNT_MAX: u32 = CHANGES_PAGE_MAX;

    fn put(&self, out: &mut Vec<u8>) -> Result<&[u8], Failure<'static>> {
        let key_len = check_key(self.key)?;
        let value_len = match self.value {
            Some(value) => check_value(value)?,
            None => NO_VALUE,
        };
        let record = RecordType::optional_number(self.record);
        let fields: [u8; CHANGE_HEAD_BYTES] = layout(|to| {
            let to = to.u64(self.at.0).u64(self.before.0).u64(self.index).u32(key_len).u32(value_len);
            to.u8(record).u8(self.cause.number()).zeros(6)
        });
        out.extend_from_slice(&fields);
        out.extend_from_slice(self.key);
        Ok(self.value.unwrap_or_default())
    }

    fn take(bytes: &mut &'a [u8]) -> Result<Self, Failure<'static>> {
        let (mut fields, rest) = FieldReader::<CHANGE_HEAD_BYTES>::split(bytes)?;
        let (at, before, index) = (Timestamp(fields.u64()), Timestamp(fields.u64()), fields.u64());
        let (key_len, value_len) = (fields.u32() as usize, fields.u32());
        let record = match fields.u8() {
            0 => None,
            number => Some(RecordType::from_number(number).ok_or(BadRequestReason::Outcome)?),
        };
        let cause = ChangeCause::from_number(fields.u8()).ok_or(BadRequestReason::Outcome)?;
        fields.zeros(6);
        fields.done()?;
        let (key, rest) = split(rest, key_len)?;
        check_key(key)?;
        let (value, rest) = match value_len {
            NO_VALUE => (None, rest),
            bytes => split(rest, bytes as usize).map(|(value, rest)| (Some(value), rest))?,
        };
        *bytes = rest;
        Ok(Self { key, at, before, index, record, cause, value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elements::Elements;

    fn request() -> ReadChanges<'static> {
        ReadChanges {
            seen: Timestamp(1),
            after: 2,
            newest: Timestamp(9),
            wait_ms: 3,
            changes_max: 4,
            bytes_max: 5,
            values: true,
            from: b"a",
            to: b"mm",
            prefix: b"abc",
        }
    }

    fn encoded(request: &ReadChanges<'_>) -> Result<Vec<u8>, Failure<'static>> {
        let mut out = Vec::new();
        let tail = request.put(&mut out)?;
        out.extend_from_slice(tail);
        Ok(out)
    }

    #[test]
    fn requests_decode_to_what_was_encoded() {
        let bytes = encoded(&request()).unwrap();
        assert_eq!(ReadChanges::decode_body(&bytes), Ok(request()));
        for length in 0..bytes.len() {
            assert!(ReadChanges::decode_body(&bytes[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn requests_beyond_limits_are_refused_by_both_sides() {
        let refused = [
            (ReadChanges { changes_max: 0, ..request() }, BadRequestReason::EmptyPage.into()),
            (
                ReadChanges { changes_max: CHANGES_PAGE_MAX + 1, ..request() },
                Failure::TooMany { count: u64::from(CHANGES_PAGE_MAX) + 1, limit: CHANGES_PAGE_MAX },
            ),
            (
                ReadChanges { wait_ms: CHANGES_WAIT_MS_MAX + 1, ..request() },
                Failure::TooMany { count: u64::from(CHANGES_WAIT_MS_MAX) + 1, limit: CHANGES_WAIT_MS_MAX },
            ),
            (ReadChanges { from: b"n", ..request() }, BadRequestReason::Bounds.into()),
        ];
        for (request, failure) in refused {
            assert_eq!(encoded(&request), Err(failure));
        }
        let mut bytes = encoded(&request()).unwrap();
        bytes[28..32].fill(0);
        assert_eq!(ReadChanges::decode_body(&bytes), Err(BadRequestReason::EmptyPage.into()));
    }

    #[test]
    fn changes_decode_to_what_was_encoded() {
        let written = CommittedChange {
            key: b"k",
            at: Timestamp(7),
            before: Timestamp(6),
            index: 5,
            record: Some(RecordType::Bytes),
            cause: ChangeCause::Write,
            value: Some(b"v"),
        };
        let expired = CommittedChange { record: None, cause: ChangeCause::Expiry, value: None, ..written };
        let mut out = Vec::new();
        let changes = [written, expired];
        let tail = Elements::from_slice(&changes).put(&mut out).unwrap();
        out.extend_from_slice(tail);
        let found: Vec<_> = Elements::<CommittedChange<'_>>::packed(2, &out).unwrap().iter().collect();
        assert_eq!(found, changes);
    }

    #[test]
    fn a_reader_wants_keys_of_its_range_and_prefix() {
        let request = request();
        let wanted = |key: &[u8]| request.wants(key);
        assert!(wanted(b"abc") && wanted(b"abcd"));
        assert!(!wanted(b"ab") && !wanted(b"b") && !wanted(b"mm"));
        let all = ReadChanges { from: b"", to: b"", prefix: b"", ..request };
        assert!(all.wants(b"zz"));
    }
}
