//! Types of records, and common parts of operations on them.

use crate::error::{BadRequestReason, Failure};
use crate::ids::Timestamp;
use crate::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
pub use crate::record_type::RecordType;

/// The condition of a write on the state of the record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// No condition.
    #[default]
    Always,
    /// The record is absent.
    IfAbsent,
    /// The record exists.
    IfPresent,
    /// The record exists, with exactly this version.
    IfVersion(Timestamp),
}

impl Condition {
    /// Its number and its version on the wire.
    #[must_use]
    pub fn numbers(self) -> (u8, u64) {
        match self {
            Self::Always => (0, 0),
            Self::IfAbsent => (1, 0),
            Self::IfPresent => (2, 0),
            Self::IfVersion(version) => (3, version.0),
        }
    }

    /// The condition of such numbers. Errors: there is none.
    pub fn from_numbers(condition: u8, version: u64) -> Result<Self, Failure<'static>> {
        match (condition, version) {
            (0, 0) => Ok(Self::Always),
            (1, 0) => Ok(Self::IfAbsent),
            (2, 0) => Ok(Self::IfPresent),
            (3, _) => Ok(Self::IfVersion(Timestamp(version))),
            _ => Err(BadRequestReason::Condition.into()),
        }
    }
}

/// The expiry of a record. The primary decides it by its clock, and logs it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expiry {
    /// Never; removes the record's expiry.
    #[default]
    Never,
    /// This many milliseconds after the primary accepts the request.
    AfterMs(u64),
    /// At this time, in milliseconds since 1970.
    AtMs(u64),
    /// Unchanged; never if the record is absent.
    Unchanged,
}

impl Expiry {
    /// Its mode and its milliseconds on the wire.
    #[must_use]
    pub fn numbers(self) -> (u8, u64) {
        match self {
            Self::Never => (0, 0),
            Self::AfterMs(ms) => (1, ms),
            Self::AtMs(ms) => (2, ms),
            Self::Unchanged => (3, 0),
        }
    }

    /// The expiry of such numbers. Errors: there is none.
    pub fn from_numbers(mode: u8, ms: u64) -> Result<Self, Failure<'static>> {
        match (mode, ms) {
            (_, ms) if ms > Timestamp::MILLIS_MAX => Err(BadRequestReason::Expiry.into()),
            (0, 0) => Ok(Self::Never),
            (1, ms) => Ok(Self::AfterMs(ms)),
            (2, ms) => Ok(Self::AtMs(ms)),
            (3, 0) => Ok(Self::Unchanged),
            _ => Err(BadRequestReason::Expiry.into()),
        }
    }

    /// As [`Self::numbers`]. Errors: more milliseconds than a timestamp has.
    pub fn check(self) -> Result<(u8, u64), Failure<'static>> {
        let (mode, ms) = self.numbers();
        Self::from_numbers(mode, ms)?;
        Ok((mode, ms))
    }
}

/// A part of a list, in values, or of a bytes record, in bytes: from `start` to `stop`, exclusive. Negative numbers count from the end (-1 is the
/// last); both are limited to what exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first index.
    pub start: i64,
    /// The index after the last; `i64::MAX` for the end of the record.
    pub stop: i64,
}

impl Range {
    /// The complete record.
    pub const ALL: Self = Self { start: 0, stop: i64::MAX };

    /// The range in a record of `length`: always `0 <= start <= stop <= length`.
    #[must_use]
    pub fn clip(self, length: u64) -> core::ops::Range<u64> {
        let place = |at: i64| match u64::try_from(at) {
            Ok(from_front) => from_front.min(length),
            Err(_) => length.saturating_sub(at.unsigned_abs()),
        };
        let (start, stop) = (place(self.start), place(self.stop));
        start..stop.max(start)
    }
}

/// Errors: the key is longer than `KEY_BYTES_MAX`.
pub fn check_key(key: &[u8]) -> Result<u32, Failure<'static>> {
    if key.len() > KEY_BYTES_MAX {
        return Err(Failure::KeyTooLong { length: key.len() as u64, limit: KEY_BYTES_MAX as u32 });
    }
    Ok(key.len() as u32)
}

/// Errors: the value is longer than `VALUE_BYTES_MAX`.
pub fn check_value(value: &[u8]) -> Result<u32, Failure<'static>> {
    check_length(value.len())
}

/// Errors: as [`check_value`].
pub fn check_length(length: usize) -> Result<u32, Failure<'static>> {
    if length > VALUE_BYTES_MAX {
        return Err(Failure::ValueTooLong { length: length as u64, limit: VALUE_BYTES_MAX as u32 });
    }
    Ok(length as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_clip_to_the_length() {
        let clip = |start, stop, length| Range { start, stop }.clip(length);
        assert_eq!(clip(0, i64::MAX, 5), 0..5);
        assert_eq!(clip(-2, i64::MAX, 5), 3..5);
        assert_eq!(clip(1, -1, 5), 1..4);
        assert_eq!(clip(-9, 2, 5), 0..2);
        assert_eq!(clip(4, 2, 5), 4..4);
        assert_eq!(clip(9, 12, 5), 5..5);
        assert_eq!(clip(i64::MIN, i64::MIN, u64::MAX), (u64::MAX - (1 << 63))..(u64::MAX - (1 << 63)));
    }

    #[test]
    fn invalid_operands_of_conditions_and_expiry_are_refused() {
        assert_eq!(Condition::from_numbers(1, 7), Err(BadRequestReason::Condition.into()));
        assert_eq!(Condition::from_numbers(4, 0), Err(BadRequestReason::Condition.into()));
        assert_eq!(Expiry::from_numbers(0, 7), Err(BadRequestReason::Expiry.into()));
        assert_eq!(Expiry::from_numbers(2, u64::MAX), Err(BadRequestReason::Expiry.into()));
    }
}
