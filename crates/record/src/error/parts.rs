//! The fields of an answer that encode a failure.

use std::borrow::Cow;

use super::{AbortReason, AuthFault, BadRequestReason, ErrorCode, Failure, Permission};
use crate::blob_stamp::BlobStamp;
use crate::ids::{KeyspaceId, MapEpoch, Timestamp};
use crate::record_type::RecordType;

/// The fields of an answer, for failures and outcomes; `docs/protocols/wire.md` says what each means.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parts<'a> {
    /// The error code, zero for an outcome.
    pub code: u16,
    /// The shape of the outcome, zero for a failure.
    pub shape: u8,
    /// The type of the record, zero for none.
    pub record: u8,
    /// A number that depends on code or shape.
    pub detail: u32,
    /// The version of the record, or a mark.
    pub version: Timestamp,
    /// A number that depends on code or shape.
    pub number: u64,
    /// The bytes behind the fields.
    pub payload: &'a [u8],
}

/// The type of such a number, as of [`RecordType::optional_number`]. Errors: there is no such type.
fn optional_type(number: u8) -> Result<Option<RecordType>, Failure<'static>> {
    match number {
        0 => Ok(None),
        _ => RecordType::from_number(number).map(Some).ok_or_else(|| BadRequestReason::Outcome.into()),
    }
}

impl Failure<'_> {
    /// The fields that encode it.
    #[must_use]
    pub fn parts(&self) -> Parts<'_> {
        let mut parts = Parts { code: self.code(), ..Parts::default() };
        match self {
            Self::BadRequest { reason } => parts.detail = reason.number(),
            Self::UnsupportedVersion { min, max } => parts.detail = u32::from(*min) | u32::from(*max) << 8,
            Self::UnknownKind { kind } => parts.detail = u32::from(*kind),
            Self::FrameTooLong { length, limit }
            | Self::KeyTooLong { length, limit }
            | Self::ValueTooLong { length, limit } => (parts.number, parts.detail) = (*length, *limit),
            Self::TooMany { count, limit } => (parts.number, parts.detail) = (*count, *limit),
            Self::AnswerTooLong { length } => parts.number = *length,
            Self::UnknownKeyspace { keyspace } => parts.detail = keyspace.0,
            Self::AuthFailed { fault } => parts.detail = fault.number(),
            Self::Forbidden { permission, keyspace } => {
                (parts.detail, parts.number) = (u32::from(permission.number()), u64::from(keyspace.0));
            }
            Self::WrongType { found } => parts.record = found.number(),
            Self::ConditionFailed { version, found } => {
                (parts.version, parts.record) = (*version, RecordType::optional_number(*found));
            }
            Self::CompareFailed { version, seen } => {
                parts.version = *version;
                if let Some(seen) = seen {
                    (parts.record, parts.payload) = (RecordType::Bytes.number(), seen);
                }
            }
            Self::Aborted { reason, part, item } => {
                (parts.detail, parts.number) = (reason.number(), u64::from(*part) | u64::from(*item) << 32);
            }
            Self::WrongOwner { epoch, delta } => (parts.number, parts.payload) = (epoch.0, delta),
            Self::Busy { retry_after_ms } | Self::Unavailable { retry_after_ms } => {
                parts.detail = *retry_after_ms;
            }
            Self::TooFewInSync { in_sync, needed } => {
                parts.detail = u32::from(*in_sync) | u32::from(*needed) << 16;
            }
            Self::StaleBlob { known } => {
                (parts.number, parts.version) = (known.id, Timestamp(known.generation));
            }
            Self::FileSizeLimit { limit_bytes } => parts.number = *limit_bytes,
            Self::TimedOut { version } => parts.version = *version,
            Self::SessionExpired { mark } => parts.version = *mark,
            Self::ClockAhead { ahead_ms } => parts.number = *ahead_ms,
            Self::HistoryGone { oldest } => parts.number = *oldest,
            Self::Corrupt
            | Self::Unauthorized
            | Self::AuthRequired
            | Self::OtherCluster
            | Self::NotFound
            | Self::NotANumber
            | Self::Overflow
            | Self::NeedHeader
            | Self::SnapshotExpired
            | Self::DiskFull
            | Self::MemoryFull
            | Self::DataCorrupt
            | Self::DiskFailed
            | Self::Other { .. } => {}
        }
        parts
    }
}

impl<'a> Failure<'a> {
    /// The failure that these fields encode. Fields that a code does not use are ignored, so that a newer program may add to them. A code that this
    /// program does not know becomes [`Failure::Other`].
    pub fn from_parts(parts: Parts<'a>) -> Result<Self, Failure<'static>> {
        let Parts { code, record, detail, version, number, payload, .. } = parts;
        let (low, high) = (detail as u16, (detail >> 16) as u16);
        let Some(known) = ErrorCode::from_number(code) else {
            return Ok(Self::Other { code });
        };
        Ok(match known {
            ErrorCode::BadRequest => match BadRequestReason::from_number(detail) {
                Some(reason) => Self::BadRequest { reason },
                None => Self::Other { code },
            },
            ErrorCode::UnsupportedVersion => {
                let [min, max] = low.to_le_bytes();
                Self::UnsupportedVersion { min, max }
            }
            ErrorCode::UnknownKind => Self::UnknownKind { kind: low },
            ErrorCode::Corrupt => Self::Corrupt,
            ErrorCode::FrameTooLong => Self::FrameTooLong { length: number, limit: detail },
            ErrorCode::KeyTooLong => Self::KeyTooLong { length: number, limit: detail },
            ErrorCode::ValueTooLong => Self::ValueTooLong { length: number, limit: detail },
            ErrorCode::TooMany => Self::TooMany { count: number, limit: detail },
            ErrorCode::AnswerTooLong => Self::AnswerTooLong { length: number },
            ErrorCode::Unauthorized => Self::Unauthorized,
            ErrorCode::UnknownKeyspace => Self::UnknownKeyspace { keyspace: KeyspaceId(detail) },
            ErrorCode::AuthRequired => Self::AuthRequired,
            ErrorCode::AuthFailed => match AuthFault::from_number(detail) {
                Some(fault) => Self::AuthFailed { fault },
                None => Self::Other { code },
            },
            ErrorCode::OtherCluster => Self::OtherCluster,
            ErrorCode::Forbidden => {
                let permission = u8::try_from(detail).ok().and_then(Permission::from_number);
                match (permission, u32::try_from(number)) {
                    (Some(permission), Ok(keyspace)) => {
                        Self::Forbidden { permission, keyspace: KeyspaceId(keyspace) }
                    }
                    _ => Self::Other { code },
                }
            }
            ErrorCode::NotFound => Self::NotFound,
            ErrorCode::WrongType => {
                Self::WrongType { found: RecordType::from_number(record).ok_or(BadRequestReason::Outcome)? }
            }
            ErrorCode::ConditionFailed => Self::ConditionFailed { version, found: optional_type(record)? },
            ErrorCode::CompareFailed => {
                let found = optional_type(record)?;
                Self::CompareFailed { version, seen: found.map(|_| Cow::Borrowed(payload)) }
            }
            ErrorCode::NotANumber => Self::NotANumber,
            ErrorCode::Overflow => Self::Overflow,
            ErrorCode::Aborted => match AbortReason::from_number(detail) {
                Some(reason) => Self::Aborted { reason, part: number as u32, item: (number >> 32) as u32 },
                None => Self::Other { code },
            },
            ErrorCode::StaleBlob => {
                Self::StaleBlob { known: BlobStamp { id: number, generation: version.0 } }
            }
            ErrorCode::NeedHeader => Self::NeedHeader,
            ErrorCode::WrongOwner => {
                Self::WrongOwner { epoch: MapEpoch(number), delta: Cow::Borrowed(payload) }
            }
            ErrorCode::Busy => Self::Busy { retry_after_ms: detail },
            ErrorCode::Unavailable => Self::Unavailable { retry_after_ms: detail },
            ErrorCode::TooFewInSync => Self::TooFewInSync { in_sync: low, needed: high },
            ErrorCode::TimedOut => Self::TimedOut { version },
            ErrorCode::SessionExpired => Self::SessionExpired { mark: version },
            ErrorCode::ClockAhead => Self::ClockAhead { ahead_ms: number },
            ErrorCode::SnapshotExpired => Self::SnapshotExpired,
            ErrorCode::HistoryGone => Self::HistoryGone { oldest: number },
            ErrorCode::DiskFull if number > 0 => Self::FileSizeLimit { limit_bytes: number },
            ErrorCode::DiskFull => Self::DiskFull,
            ErrorCode::MemoryFull => Self::MemoryFull,
            ErrorCode::DataCorrupt => Self::DataCorrupt,
            ErrorCode::DiskFailed => Self::DiskFailed,
        })
    }
}
