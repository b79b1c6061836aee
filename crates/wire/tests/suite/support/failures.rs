//! Failures, all of them.

use std::borrow::Cow;

use zerohop_wire::blob::BlobStamp;
use zerohop_wire::ids::*;
use zerohop_wire::messages::RecordType;
use zerohop_wire::{AbortReason, AuthFault, BadRequestReason, Failure, Permission};

/// One failure of every code, and one of an unknown code, with these fields.
pub fn failures<'a>(n: &[u64; 5], bytes: &'a [u8]) -> Vec<Failure<'a>> {
    let (length, limit, retry_after_ms) = (n[1], n[2] as u32, n[2] as u32);
    let version = Timestamp(n[0]);
    let bytes = Cow::Borrowed(bytes);
    vec![
        Failure::BadRequest { reason: BadRequestReason::ALL[n[0] as usize % BadRequestReason::ALL.len()] },
        Failure::UnsupportedVersion { min: n[0] as u8, max: n[1] as u8 },
        Failure::UnknownKind { kind: n[0] as u16 },
        Failure::Corrupt,
        Failure::FrameTooLong { length, limit },
        Failure::KeyTooLong { length, limit },
        Failure::ValueTooLong { length, limit },
        Failure::TooMany { count: length, limit },
        Failure::AnswerTooLong { length },
        Failure::Unauthorized,
        Failure::UnknownKeyspace { keyspace: KeyspaceId(n[2] as u32) },
        Failure::AuthRequired,
        Failure::AuthFailed { fault: AuthFault::ALL[n[0] as usize % AuthFault::ALL.len()] },
        Failure::OtherCluster,
        Failure::Forbidden { permission: Permission::Write, keyspace: KeyspaceId(n[2] as u32) },
        Failure::NotFound,
        Failure::WrongType { found: RecordType::List },
        Failure::ConditionFailed {
            version,
            found: Some(RecordType::Bytes).filter(|_| n[3].is_multiple_of(2)),
        },
        Failure::CompareFailed { version, seen: Some(bytes.clone()) },
        Failure::CompareFailed { version, seen: None },
        Failure::NotANumber,
        Failure::Overflow,
        Failure::Aborted {
            reason: AbortReason::ALL[n[0] as usize % AbortReason::ALL.len()],
            part: n[1] as u32,
            item: n[2] as u32,
        },
        Failure::StaleBlob { known: BlobStamp { id: n[1], generation: n[0] } },
        Failure::NeedHeader,
        Failure::WrongOwner { epoch: MapEpoch(n[1]), delta: bytes },
        Failure::Busy { retry_after_ms },
        Failure::Unavailable { retry_after_ms },
        Failure::TooFewInSync { in_sync: n[1] as u16, needed: n[2] as u16 },
        Failure::TimedOut { version },
        Failure::SessionExpired { mark: version },
        Failure::ClockAhead { ahead_ms: n[1] },
        Failure::SnapshotExpired,
        Failure::HistoryGone { oldest: n[1] },
        Failure::DiskFull,
        Failure::MemoryFull,
        Failure::DataCorrupt,
        Failure::DiskFailed,
        Failure::Other { code: 999 },
    ]
}
