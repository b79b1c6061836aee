//! Why a request was not done.

use std::borrow::Cow;

use super::{AbortReason, AuthFault, ErrorCode, Permission, What};
use crate::blob::BlobStamp;
use crate::ids::{KeyspaceId, MapEpoch, Timestamp};
use crate::messages::RecordType;

/// Why a request was not done: a number for programs, fields, and a sentence for people.
///
/// After [`Failure::TimedOut`] and [`Failure::DiskFailed`], as after the loss of a connection, a write may or may not
/// be done; after [`Failure::AnswerTooLong`] it is. All others promise that the request they answer changed nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure<'a> {
    /// The request could not be understood.
    BadRequest {
        /// What was wrong with it.
        what: What,
    },
    /// No common version; the connection closes after this.
    UnsupportedVersion {
        /// Oldest version the answering side speaks.
        min: u8,
        /// Newest version the answering side speaks.
        max: u8,
    },
    /// A frame of a kind that the answering side does not know.
    UnknownKind {
        /// The number in the header.
        kind: u16,
    },
    /// The body did not match its checksum.
    Corrupt,
    /// The frame is longer than any may be; the connection closes after this.
    FrameTooLong {
        /// Bytes the body would have had.
        length: u64,
        /// Bytes it may have.
        limit: u32,
    },
    /// The key is too long.
    KeyTooLong {
        /// Bytes it has: 0 if it is empty, which no key may be.
        length: u64,
        /// Bytes it may have.
        limit: u32,
    },
    /// A value is too long, or would become so.
    ValueTooLong {
        /// Bytes it has or would have.
        length: u64,
        /// Bytes it may have.
        limit: u32,
    },
    /// More items, values or keys than one frame may have.
    TooMany {
        /// How many there are.
        count: u64,
        /// How many there may be.
        limit: u32,
    },
    /// This item's outcome did not fit into the batch's answer. For a write: it was done.
    AnswerTooLong {
        /// Bytes of the outcome.
        length: u64,
    },
    /// The connection or its token does not permit this.
    Unauthorized,
    /// There is no such keyspace.
    UnknownKeyspace {
        /// The one asked for.
        keyspace: KeyspaceId,
    },
    /// The cluster has a secret, and who connects has offered no proof of knowing it; the connection closes after this.
    AuthRequired,
    /// One side does not believe the other; the connection closes after this.
    AuthFailed {
        /// Why not.
        fault: AuthFault,
    },
    /// Who answers is of another cluster than the one that is meant; the connection closes after this.
    OtherCluster,
    /// The token of the connection does not permit this.
    Forbidden {
        /// What it would need.
        permission: Permission,
        /// In which keyspace; none: in all.
        keyspace: KeyspaceId,
    },
    /// There is no record of this key.
    NotFound,
    /// The record is bytes and the operation wants a list, or the other way round.
    WrongType {
        /// What the record is.
        found: RecordType,
    },
    /// The condition on presence or version did not hold.
    ConditionFailed {
        /// The version of the record, zero if there is none.
        version: Timestamp,
        /// What the record is, if there is one.
        found: Option<RecordType>,
    },
    /// The record was not what `compare_swap` expected.
    CompareFailed {
        /// The version of the record, zero if there is none.
        version: Timestamp,
        /// Its value, if there is one.
        seen: Option<Cow<'a, [u8]>>,
    },
    /// The record's bytes are not a decimal number of 64 bits.
    NotANumber,
    /// The counter would leave the range of 64 signed bits.
    Overflow,
    /// The transaction was not done, nor will be.
    Aborted {
        /// Why not.
        reason: AbortReason,
        /// Which of its parts said so, from zero; [`AbortReason::NONE`]: none in particular.
        part: u32,
        /// Which item of that part, from zero; [`AbortReason::NONE`]: none in particular.
        item: u32,
    },
    /// The blob was cut, or removed and made again, since the request's sender read its header.
    StaleBlob {
        /// What the record knows.
        known: BlobStamp,
    },
    /// There is no such chunk of this blob: the header has to be read before one is made.
    NeedHeader,
    /// The partition is not served here, or not at the epoch that the request named.
    WrongOwner {
        /// The epoch of the map after the delta is applied.
        epoch: MapEpoch,
        /// Changes of the map since the client's epoch, as placement encodes them; empty if they must be fetched.
        delta: Cow<'a, [u8]>,
    },
    /// Too much is asked of this instance just now.
    Busy {
        /// When to ask again.
        retry_after_ms: u32,
    },
    /// The partition has no settled group that could answer just now.
    Unavailable {
        /// When to ask again.
        retry_after_ms: u32,
    },
    /// Fewer copies are in sync than a write needs.
    TooFewInSync {
        /// Copies in sync.
        in_sync: u16,
        /// Copies needed.
        needed: u16,
    },
    /// The time-out passed. For a write: it may or may not be done; repeat it under the same sequence number.
    TimedOut {
        /// For a wait: the version that was last seen, zero if there is no record.
        version: Timestamp,
    },
    /// The partition has forgotten this session.
    SessionExpired {
        /// Sessions issued before this are forgotten.
        mark: Timestamp,
    },
    /// The request's timestamp is too far ahead of the server's clock.
    ClockAhead {
        /// How far.
        ahead_ms: u64,
    },
    /// The partition does not keep what was there at the time of the snapshot: it was closed, not renewed in time, open for
    /// longer than it may be, or whoever kept it has failed, moved or been split.
    SnapshotExpired,
    /// The disk is nearly full; writes are refused, reads and removals go on.
    DiskFull,
    /// The memory budget is used up; writes are refused, reads and removals go on.
    MemoryFull,
    /// The stored bytes do not match their checksum, and no replica could repair them.
    DataCorrupt,
    /// The disk refused to read or write.
    DiskFailed,
    /// An error that a newer program has and this one does not.
    Other {
        /// Its number.
        code: u16,
    },
}

/// What a client should do about a [`Failure`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Tell the user: the same request would fail again.
    GiveUp,
    /// Apply the map's delta or fetch the map, then send the same request to the partition's owner.
    Reroute,
    /// Send the same request again, under the same sequence number, after this many milliseconds.
    AgainAfterMs(u32),
}

impl Failure<'_> {
    /// The number that travels.
    #[must_use]
    pub fn code(&self) -> u16 {
        match self {
            Self::Other { code } => *code,
            known => known.known_code().number(),
        }
    }

    /// What a client should do about it.
    #[must_use]
    pub fn advice(&self) -> Advice {
        match self {
            Self::WrongOwner { .. } => Advice::Reroute,
            Self::Busy { retry_after_ms } | Self::Unavailable { retry_after_ms } => {
                Advice::AgainAfterMs(*retry_after_ms)
            }
            Self::Corrupt => Advice::AgainAfterMs(0),
            _ => Advice::GiveUp,
        }
    }

    /// The same failure, holding its bytes itself.
    #[must_use]
    pub fn into_owned(self) -> Failure<'static> {
        match self {
            Self::CompareFailed { version, seen } => {
                Failure::CompareFailed { version, seen: seen.map(|s| Cow::Owned(s.into_owned())) }
            }
            Self::WrongOwner { epoch, delta } => {
                Failure::WrongOwner { epoch, delta: Cow::Owned(delta.into_owned()) }
            }
            Self::BadRequest { what } => Failure::BadRequest { what },
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
            Self::DiskFull => Failure::DiskFull,
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
            Self::DiskFull => ErrorCode::DiskFull,
            Self::MemoryFull => ErrorCode::MemoryFull,
            Self::DataCorrupt => ErrorCode::DataCorrupt,
            Self::DiskFailed => ErrorCode::DiskFailed,
        }
    }
}

impl From<What> for Failure<'_> {
    fn from(what: What) -> Self {
        Self::BadRequest { what }
    }
}

impl std::error::Error for Failure<'_> {}
