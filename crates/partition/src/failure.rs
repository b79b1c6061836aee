//! Engine errors as the failures that a client is answered.

use zerohop_engine::EngineError;
use zerohop_engine::limits::{KEY_BYTES_MAX, PAYLOAD_BYTES_MAX};
use zerohop_wire::{BadRequestReason, Failure};

/// When a client retries while the process lacks descriptors or memory, in milliseconds.
const SCARCE_RETRY_MS: u32 = 100;

/// The failure that a client sees. None of these is remembered, so the request may be sent again under its number.
pub(crate) fn failure_of(error: &EngineError) -> Failure<'static> {
    match error {
        EngineError::DiskFull { .. } => Failure::DiskFull,
        EngineError::FileSizeLimit { limit_bytes } => Failure::FileSizeLimit { limit_bytes: *limit_bytes },
        EngineError::Scarce { .. } => Failure::Busy { retry_after_ms: SCARCE_RETRY_MS },
        EngineError::MemoryFull { .. } => Failure::MemoryFull,
        EngineError::Corrupt { .. } => Failure::DataCorrupt,
        EngineError::PayloadTooLong { bytes } => {
            Failure::ValueTooLong { length: *bytes as u64, limit: PAYLOAD_BYTES_MAX as u32 }
        }
        // The wire bounds keys from above; only an empty one comes this far.
        EngineError::KeyLength { .. } => Failure::KeyTooLong { length: 0, limit: KEY_BYTES_MAX as u32 },
        EngineError::NotOrdered => Failure::BadRequest { reason: BadRequestReason::NotOrdered },
        EngineError::Cursor(_) => Failure::BadRequest { reason: BadRequestReason::Cursor },
        EngineError::Disk(_)
        | EngineError::Stopped { .. }
        | EngineError::UnknownPartition
        | EngineError::NotNext { .. }
        | EngineError::Incoming
        | EngineError::Committed { .. }
        | EngineError::Format { .. }
        | EngineError::Limit { .. } => Failure::DiskFailed,
    }
}
