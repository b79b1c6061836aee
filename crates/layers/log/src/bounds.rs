//! What a log and its partitions are.

use zerohop_layer_procedure::{OptimisticTransaction, Writes};

use crate::error::LogError;
use crate::keys;
use crate::procedure::{LogProcedure, LogReads};
use crate::records::{LogOptions, TailRecord, TrimRecord};

/// The extent of a log partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The first offset.
    pub first: u64,
    /// The offset of the next record.
    pub next: u64,
    /// The bytes of its batches.
    pub bytes: u64,
    /// The number of its batches.
    pub batches: u64,
}

/// Reads the extent of a log partition.
pub fn bounds(partition: u32) -> impl LogProcedure<Output = Bounds> + Send {
    OptimisticTransaction::new(move |_, reads: &mut LogReads, _: &mut Writes| {
        let (tail_key, trim_key) = (keys::tail(partition), keys::trim(partition));
        reads.require([tail_key.clone(), trim_key.clone()])?;
        let tail: TailRecord = reads.get(&tail_key)?.ok_or(LogError::NoSuchPartition)?;
        let trim: TrimRecord = reads.get(&trim_key)?.unwrap_or_default();
        // Both were read one after the other: the log may have been appended to and trimmed between.
        Ok(Bounds {
            first: trim.first,
            next: tail.next.max(trim.first),
            bytes: tail.bytes.saturating_sub(trim.bytes),
            batches: tail.batches.saturating_sub(trim.batches),
        })
    })
}

/// Reads the options of a log.
pub fn read_options() -> impl LogProcedure<Output = LogOptions> + Send {
    OptimisticTransaction::new(move |_, reads: &mut LogReads, _: &mut Writes| {
        Ok(reads.get(&keys::options())?.ok_or(LogError::NoSuchLog)?)
    })
}
