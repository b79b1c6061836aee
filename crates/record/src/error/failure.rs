//! Reasons why a request was not done.

use std::borrow::Cow;

use super::{AbortReason, AuthFault, BadRequestReason, ErrorCode, Permission};
use crate::blob_stamp::BlobStamp;
use crate::ids::{KeyspaceId, MapEpoch, Timestamp};
use crate::record_type::RecordType;

/// The reason why a request was not done: a number for programs, fields, and a sentence for people.
///
/// After [`Failure::TimedOut`] and [`Failure::DiskFailed`], as after the loss of a connection, a write may or may not be done; after
/// [`Failure::AnswerTooLong`] it is done. All others guarantee that the request that they answer changed nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure<'a> {
    /// The request is invalid.
    BadRequest {
        /// The detail.
        reason: BadRequestReason,
    },
    /// The two sides have no common version; the server closes the connection after this.
    UnsupportedVersion {
        /// Oldest version that the server supports.
        min: u8,
        /// Newest version that the server supports.
        max: u8,
    },
    /// The server does not know this kind of frame.
    UnknownKind {
        /// The number in the header.
        kind: u16,
    },
    /// The body did not match its checksum.
    Corrupt,
    /// The frame exceeds the maximum length; the server closes the connection after this.
    FrameTooLong {
        /// Length of the body in bytes.
        length: u64,
        /// Maximum length in bytes.
        limit: u32,
    },
    /// The key is too long.
    KeyTooLong {
        /// Its length in bytes: 0 if it is empty, which is invalid.
        length: u64,
        /// Maximum length in bytes.
        limit: u32,
    },
    /// A value exceeds the maximum length, or would exceed it.
    ValueTooLong {
        /// Its present or resulting length in bytes.
        length: u64,
        /// Maximum length in bytes.
        limit: u32,
    },
    /// A frame has more items, values or keys than the maximum.
    TooMany {
        /// Their number.
        count: u64,
        /// The maximum.
        limit: u32,
    },
    /// This item's outcome did not fit in the batch's answer. A write was done.
    AnswerTooLong {
        /// Length of the outcome in bytes.
        length: u64,
    },
    /// The connection or its token does not permit this.
    Unauthorized,
    /// There is no keyspace of this id.
    UnknownKeyspace {
        /// The requested id.
        keyspace: KeyspaceId,
    },
    /// The cluster has a secret, and the client has offered no proof; the server closes the connection after this.
    AuthRequired,
    /// The handshake failed; the connection is closed after this.
    AuthFailed {
        /// The reason.
        fault: AuthFault,
    },
    /// The server belongs to another cluster than the requested one; it closes the connection after this.
    OtherCluster,
    /// The token of the connection does not permit this.
    Forbidden {
        /// The missing permission.
        permission: Permission,
        /// The keyspace; none: all keyspaces.
        keyspace: KeyspaceId,
    },
    /// There is no record of this key.
    NotFound,
    /// The record is bytes and the operation needs a list, or the reverse.
    WrongType {
        /// The type of the record.
        found: RecordType,
    },
    /// The condition on presence or version did not hold.
    ConditionFailed {
        /// The version of the record, zero if it is absent.
        version: Timestamp,
        /// The type of the record, if it exists.
        found: Option<RecordType>,
    },
    /// The record is not what `compare_swap` expected.
    CompareFailed {
        /// The version of the record, zero if it is absent.
        version: Timestamp,
        /// Its value, if it exists.
        seen: Option<Cow<'a, [u8]>>,
    },
    /// The record's bytes are not a decimal number of 64 bits.
    NotANumber,
    /// The counter would leave the range of 64 signed bits.
    Overflow,
    /// The transaction was not done and will not be done.
    Aborted {
        /// The reason.
        reason: AbortReason,
        /// The part that caused the abort, from zero; [`AbortReason::NONE`]: no particular part.
        part: u32,
        /// The item of that part, from zero; [`AbortReason::NONE`]: no particular item.
        item: u32,
    },
    /// The blob was truncated, or removed and created again, since the client read its header.
    StaleBlob {
        /// The fence that the record knows.
        known: BlobStamp,
    },
    /// There is no such chunk of this blob: the client must read the header before it creates one.
    NeedHeader,
    /// This instance is not the partition's primary, or not at the epoch of the request.
    WrongOwner {
        /// The epoch of the map after the delta is applied.
        epoch: MapEpoch,
        /// Changes of the map since the client's epoch, in placement's encoding; empty if the client must fetch them.
        delta: Cow<'a, [u8]>,
    },
    /// The instance has too many requests at the moment.
    Busy {
        /// When to send the request again, in milliseconds.
        retry_after_ms: u32,
    },
    /// The partition has no settled group that could answer at the moment.
    Unavailable {
        /// When to send the request again, in milliseconds.
        retry_after_ms: u32,
    },
    /// There are fewer in-sync copies than a write needs.
    TooFewInSync {
        /// Number of in-sync copies.
        in_sync: u16,
        /// Number of copies that a write needs.
        needed: u16,
    },
    /// The time-out has passed. A write may or may not be done; the client must repeat it under the same sequence number.
    TimedOut {
        /// For a wait: the last version of the record, zero if it was absent.
        version: Timestamp,
    },
    /// The partition has forgotten this session.
    SessionExpired {
        /// The partition has forgotten sessions that were issued before this time.
        mark: Timestamp,
    },
    /// The request's timestamp is too far ahead of the server's clock.
    ClockAhead {
        /// The distance in milliseconds.
        ahead_ms: u64,
    },
    /// The partition no longer keeps the state of the snapshot's time. The snapshot was closed, was not renewed in time, or exceeded its maximum
    /// age; or the replica that kept it has failed, moved or been split.
    SnapshotExpired,
    /// The partition no longer keeps all changes behind the position of a reader that watches it.
    HistoryGone {
        /// The lowest position from which it has all changes.
        oldest: u64,
    },
    /// The disk is nearly full; the server refuses writes, and still serves reads and removals.
    DiskFull,
    /// The limit of file sizes of the server's process (`ulimit -f`) leaves no room for this write in any file of its log.
    FileSizeLimit {
        /// The limit in bytes, not 0.
        limit_bytes: u64,
    },
    /// The memory budget is used up; the server refuses writes, and still serves reads and removals.
    MemoryFull,
    /// The stored bytes do not match their checksum, and no replica could repair them.
    DataCorrupt,
    /// The disk failed to read or write.
    DiskFailed,
    /// An error of a newer program, which this one does not know.
    Other {
        /// Its number.
        code: u16,
    },
}

/// The reaction of a client to a [`Failure`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Report the failure to the user: the same request would fail again.
    ReportToUser,
    /// Apply the map's delta or fetch the map, then send the same request to the partition's primary.
    Reroute,
    /// Repeat the request under the same sequence number, after this many milliseconds.
    AgainAfterMs(u32),
}

impl Failure<'_> {
    /// The number on the wire.
    #[must_use]
    pub fn code(&self) -> u16 {
        match self {
            Self::Other { code } => *code,
            known => known.known_code().number(),
        }
    }

    /// The reaction that a client should have.
    #[must_use]
    pub fn advice(&self) -> Advice {
        match self {
            Self::WrongOwner { .. } => Advice::Reroute,
            Self::Busy { retry_after_ms } | Self::Unavailable { retry_after_ms } => {
                Advice::AgainAfterMs(*retry_after_ms)
            }
            Self::Corrupt => Advice::AgainAfterMs(0),
            _ => Advice::ReportToUser,
        }
    }

    /// The same failure with owned bytes.
    #[must_use]
    pub fn into_owned(self) -> Failure<'static> {
        match self {
            Self::CompareFailed { version, seen } => {
                Failure::CompareFailed { version, seen: seen.map(|s| Cow::Owned(s.into_owned())) }
            }
            Self::WrongOwner { epoch, delta } => {
                Failure::WrongOwner { epoch, delta: Cow::Owned(delta.into_owned()) }
            }
            Self::BadRequest { reason } => Failure::BadRequest { reason },
            Self::UnsupportedVersion { min, max } => Failure::UnsupportedVersion { min, max },
            Self::UnknownKind { kind } => Failure::UnknownKind { kind },
            Self::Corrupt => Failure::Corrupt,
            Self::FrameTooLong { length, limit } => Failure::FrameTooLong { length, limit },
            Self::KeyTooLong { length, limit } => Failure::KeyTooLong { length, limit },
            Self::ValueTooLong { length, limit } => Failure::ValueTooLong { length, limit },
            Self::TooMany { count, limit } => Failure::TooMany { count, limit },
            Self::AnswerTooLong { length } => Failure::AnswerTooLong { length },
            Self::Unauthorized => Failure::Unauthorized,
            Self::UnknownKeyspace { keyspace } => Failure::UnknownKeyspace { keyspace },
            Self::AuthRequired => Failure::AuthRequired,
            Self::AuthFailed { fault } => Failure::AuthFailed { fault },
            Self::OtherCluster => Failure::OtherCluster,
            Self::Forbidden { permission, keyspace } => Failure::Forbidden { permission, keyspace },
            Self::NotFound => Failure::NotFound,
            Self::WrongType { found } => Failure::WrongType { found },
            Self::ConditionFailed { version, found } => Failure::ConditionFailed { version, found },
            Self::NotANumber => Failure::NotANumber,
            Self::Overflow => Failure::Overflow,
            Self::Aborted { reason, part, item } => Failure::Aborted { reason, part, item },
            Self::StaleBlob { known } => Failure::StaleBlob { known },
            Self::NeedHeader => Failure::NeedHeader,
            Self::Busy { retry_after_ms } => Failure::Busy { retry_after_ms },
            Self::Unavailable { retry_after_ms } => Failure::Unavailable { retry_after_ms },
            Self::TooFewInSync { in_sync, needed } => Failure::TooFewInSync { in_sync, needed },
            Self::TimedOut { version } => Failure::TimedOut { version },
            Self::SessionExpired { mark } => Failure::SessionExpired { mark },
            Self::ClockAhead { ahead_ms } => Failure::ClockAhead { ahead_ms },
            Self::SnapshotExpired => Failure::SnapshotExpired,
            Self::HistoryGone { oldest } => Failure::HistoryGone { oldest },
            Self::DiskFull => Failure::DiskFull,
            Self::FileSizeLimit { limit_bytes } => Failure::FileSizeLimit { limit_bytes },
            Self::MemoryFull => Failure::MemoryFull,
            Self::DataCorrupt => Failure::DataCorrupt,
            Self::DiskFailed => Failure::DiskFailed,
            Self::Other { code } => Failure::Other { code },
        }
    }

    fn known_code(&self) -> ErrorCode {
        match self {
            Self::BadRequest { .. } | Self::Other { .. } => ErrorCode::BadRequest,
            Self::UnsupportedVersion { .. } => ErrorCode::UnsupportedVersion,
            Self::UnknownKind { .. } => ErrorCode::UnknownKind,
            Self::Corrupt => ErrorCode::Corrupt,
            Self::FrameTooLong { .. } => ErrorCode::FrameTooLong,
            Self::KeyTooLong { .. } => ErrorCode::KeyTooLong,
            Self::ValueTooLong { .. } => ErrorCode::ValueTooLong,
            Self::TooMany { .. } => ErrorCode::TooMany,
            Self::AnswerTooLong { .. } => ErrorCode::AnswerTooLong,
            Self::Unauthorized => ErrorCode::Unauthorized,
            Self::UnknownKeyspace { .. } => ErrorCode::UnknownKeyspace,
            Self::AuthRequired => ErrorCode::AuthRequired,
            Self::AuthFailed { .. } => ErrorCode::AuthFailed,
            Self::OtherCluster => ErrorCode::OtherCluster,
            Self::Forbidden { .. } => ErrorCode::Forbidden,
            Self::NotFound => ErrorCode::NotFound,
            Self::WrongType { .. } => ErrorCode::WrongType,
            Self::ConditionFailed { .. } => ErrorCode::ConditionFailed,
            Self::CompareFailed { .. } => ErrorCode::CompareFailed,
            Self::NotANumber => ErrorCode::NotANumber,
            Self::Overflow => ErrorCode::Overflow,
            Self::Aborted { .. } => ErrorCode::Aborted,
            Self::StaleBlob { .. } => ErrorCode::StaleBlob,
            Self::NeedHeader => ErrorCode::NeedHeader,
            Self::WrongOwner { .. } => ErrorCode::WrongOwner,
            Self::Busy { .. } => ErrorCode::Busy,
            Self::Unavailable { .. } => ErrorCode::Unavailable,
            Self::TooFewInSync { .. } => ErrorCode::TooFewInSync,
            Self::TimedOut { .. } => ErrorCode::TimedOut,
            Self::SessionExpired { .. } => ErrorCode::SessionExpired,
            Self::ClockAhead { .. } => ErrorCode::ClockAhead,
            Self::SnapshotExpired => ErrorCode::SnapshotExpired,
            Self::HistoryGone { .. } => ErrorCode::HistoryGone,
            Self::DiskFull | Self::FileSizeLimit { .. } => ErrorCode::DiskFull,
            Self::MemoryFull => ErrorCode::MemoryFull,
            Self::DataCorrupt => ErrorCode::DataCorrupt,
            Self::DiskFailed => ErrorCode::DiskFailed,
        }
    }
}

impl From<BadRequestReason> for Failure<'_> {
    fn from(reason: BadRequestReason) -> Self {
        Self::BadRequest { reason }
    }
}

impl std::error::Error for Failure<'_> {}
