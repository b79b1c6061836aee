//! A scan of the keys of a partition, page by page.
//!
//! Fields of a scan: seen (8), cursor length (4), prefix length (4), keys at most (4), bytes at most (4), length of the lower bound (4), length of
//! the upper bound (4), 1 if it is in reverse (1), 1 if values are requested (1), zero (6); then cursor, lower bound, upper bound, prefix.

use crate::elements::Element;
use crate::error::{BadRequestReason, Failure};
use crate::fields::{FieldReader, layout, nothing_left, split};
use crate::ids::Timestamp;
use crate::limits::{CURSOR_BYTES_MAX, SCAN_PAGE_KEYS_MAX};
use crate::record::{RecordType, check_key, check_value};

/// Requests a page of the keys of a partition, in an order that the server chooses. A key that exists from the first page to the last is listed
/// exactly once; one that is added or removed meanwhile, at most once. Answers `Page`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scan<'a> {
    /// The highest timestamp that the session has seen.
    pub seen: Timestamp,
    /// The scan cursor of the previous page; empty for the first page. Only the server interprets it.
    pub cursor: &'a [u8],
    /// Only keys with this prefix.
    pub prefix: &'a [u8],
    /// Maximum number of keys; a page may have fewer although there are more.
    pub keys_max: u32,
    /// Lists names of blobs, in their order, instead of keys: the cursor is the last name of the previous page.
    pub blobs: bool,
    /// Bounds, direction and values, for ordered keyspaces. Hashed ones refuse all but the default.
    pub range: ScanRange<'a>,
}

/// The part of an ordered keyspace that a scan lists, beside its prefix. The default is all of it, upwards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanRange<'a> {
    /// Only keys at or above this.
    pub from: &'a [u8],
    /// Only keys below this; empty: up to the last.
    pub to: &'a [u8],
    /// From the highest key down.
    pub reverse: bool,
    /// Values of bytes records are listed with their keys, as far as they fit into a page.
    pub values: bool,
    /// Maximum number of bytes of the keys and values of a page, of which it has at least one key; 0: as many as the server sends.
    pub bytes_max: u32,
}

/// One key of a page: version (8), key length (4), value length (4; [`NO_VALUE`]: none), type (1), zero (7), key, value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScannedKey<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The type of its record.
    pub record: RecordType,
    /// The version of its record.
    pub version: Timestamp,
    /// Its value, if the scan requests values, the record is bytes, and the value is short enough for a page.
    pub value: Option<&'a [u8]>,
}

/// The length of a value that is not sent.
const NO_VALUE: u32 = u32::MAX;

impl<'a> Scan<'a> {
    /// Writes all but the last piece of the payload to `out`, and returns that piece. Errors: a limit is exceeded.
    pub fn put(&self, out: &mut Vec<u8>) -> Result<&'a [u8], Failure<'static>> {
        check_cursor(self.cursor)?;
        check_keys_max(self.keys_max)?;
        let ScanRange { from, to: upper, reverse, values, bytes_max } = self.range;
        let prefix_len = check_key(self.prefix)?;
        let (from_len, to_len) = (check_bound(from)?, check_bound(upper)?);
        let fields: [u8; 40] = layout(|to| {
            let to = to.u64(self.seen.0).u32(self.cursor.len() as u32).u32(prefix_len).u32(self.keys_max);
            to.u32(bytes_max).u32(from_len).u32(to_len).u8(reverse.into()).u8(values.into()).zeros(6)
        });
        out.extend_from_slice(&fields);
        out.extend_from_slice(self.cursor);
        out.extend_from_slice(from);
        out.extend_from_slice(upper);
        Ok(self.prefix)
    }

    /// Errors: the bytes are not such a request.
    pub fn decode_body(blobs: bool, body: &'a [u8]) -> Result<Self, Failure<'static>> {
        let (mut fields, rest) = FieldReader::<40>::split(body)?;
        let seen = Timestamp(fields.u64());
        let cursor_len = fields.u32() as usize;
        let prefix_len = fields.u32() as usize;
        let (keys_max, bytes_max) = (fields.u32(), fields.u32());
        let (from_len, to_len) = (fields.u32() as usize, fields.u32() as usize);
        let (reverse, values) = (is_set(fields.u8())?, is_set(fields.u8())?);
        fields.zeros(6);
        fields.done()?;
        check_keys_max(keys_max)?;
        let (cursor, rest) = split(rest, cursor_len)?;
        let (from, rest) = split(rest, from_len)?;
        let (to, rest) = split(rest, to_len)?;
        let (prefix, rest) = split(rest, prefix_len)?;
        nothing_left(rest)?;
        check_cursor(cursor)?;
        check_key(prefix)?;
        check_bound(from)?;
        check_bound(to)?;
        Ok(Self {
            seen,
            cursor,
            prefix,
            keys_max,
            blobs,
            range: ScanRange { from, to, reverse, values, bytes_max },
        })
    }
}

/// Errors: the cursor exceeds the maximum length of a server's cursor.
pub fn check_cursor(cursor: &[u8]) -> Result<(), Failure<'static>> {
    if cursor.len() > CURSOR_BYTES_MAX {
        let (length, limit) = (cursor.len() as u64, CURSOR_BYTES_MAX as u32);
        return Err(Failure::KeyTooLong { length, limit });
    }
    Ok(())
}

pub(crate) fn is_set(byte: u8) -> Result<bool, Failure<'static>> {
    match byte {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(BadRequestReason::Detail.into()),
    }
}

/// A bound may be a byte longer than a key: the lowest key above one has a zero more.
pub(crate) fn check_bound(bound: &[u8]) -> Result<u32, Failure<'static>> {
    check_key(bound.strip_suffix(&[0]).unwrap_or(bound))?;
    Ok(bound.len() as u32)
}

pub(crate) fn check_keys_max(keys_max: u32) -> Result<(), Failure<'static>> {
    match keys_max {
        0 => Err(BadRequestReason::EmptyPage.into()),
        1..=SCAN_PAGE_KEYS_MAX => Ok(()),
        _ => Err(Failure::TooMany { count: keys_max.into(), limit: SCAN_PAGE_KEYS_MAX }),
    }
}

/// Bytes of a key on a page, beside key and value.
pub const SCANNED_HEAD_BYTES: usize = 24;

impl<'a> Element<'a> for ScannedKey<'a> {
    const COUNT_MAX: u32 = SCAN_PAGE_KEYS_MAX;

    fn put(&self, out: &mut Vec<u8>) -> Result<&[u8], Failure<'static>> {
        let key_len = check_key(self.key)?;
        let value_len = match self.value {
            Some(value) => check_value(value)?,
            None => NO_VALUE,
        };
        let fields: [u8; SCANNED_HEAD_BYTES] =
            layout(|to| to.u64(self.version.0).u32(key_len).u32(value_len).u8(self.record.number()).zeros(7));
        out.extend_from_slice(&fields);
        out.extend_from_slice(self.key);
        Ok(self.value.unwrap_or_default())
    }

    fn take(bytes: &mut &'a [u8]) -> Result<Self, Failure<'static>> {
        let (mut fields, rest) = FieldReader::<SCANNED_HEAD_BYTES>::split(bytes)?;
        let version = Timestamp(fields.u64());
        let (key_len, value_len) = (fields.u32() as usize, fields.u32());
        let record = RecordType::from_number(fields.u8()).ok_or(BadRequestReason::Outcome)?;
        fields.zeros(7);
        fields.done()?;
        let (key, rest) = split(rest, key_len)?;
        check_key(key)?;
        let (value, rest) = match value_len {
            NO_VALUE => (None, rest),
            bytes => split(rest, bytes as usize).map(|(value, rest)| (Some(value), rest))?,
        };
        *bytes = rest;
        Ok(Self { key, record, version, value })
    }
}
