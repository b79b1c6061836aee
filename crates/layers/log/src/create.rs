//! Creates a log, and gives it more partitions.

use zerohop_layer_procedure::{OptimisticTransaction, Writes};

use crate::error::LogError;
use crate::keys;
use crate::procedure::{LogProcedure, LogReads};
use crate::records::{LogOptions, TailRecord};

/// A log that is created.
#[derive(Clone, Copy, Debug)]
pub struct CreateLog {
    /// Random bytes. A repeated creation has the same ones, and succeeds.
    pub id: [u8; 16],
    /// The number of partitions.
    pub partitions: u32,
    /// For how many milliseconds batches are kept.
    pub retention: Option<u64>,
    /// How many bytes each partition keeps.
    pub retention_bytes: Option<u64>,
}

/// Makes an empty keyspace a log.
pub fn create_log(create: CreateLog) -> impl LogProcedure<Output = LogOptions> + Send {
    OptimisticTransaction::new(move |now: u64, reads: &mut LogReads, writes: &mut Writes| {
        if !(1..=keys::PARTITIONS_MAX).contains(&create.partitions) {
            return Err(LogError::BadPartitionCount.into());
        }
        if let Some(options) = reads.get::<LogOptions>(&keys::options())? {
            let is_repeated = options.id == create.id;
            return if is_repeated { Ok(options) } else { Err(LogError::LogExists.into()) };
        }
        let options = LogOptions {
            id: create.id,
            created: now,
            partitions: create.partitions,
            retention: create.retention,
            retention_bytes: create.retention_bytes,
        };
        writes.put(keys::options(), &options);
        (0..create.partitions).for_each(|partition| {
            writes.put(keys::tail(partition), &TailRecord::default());
        });
        Ok(options)
    })
}

/// Changes of the options of a log. Those that are nothing stay.
#[derive(Clone, Copy, Debug, Default)]
pub struct AlterLog {
    /// The number of partitions, which does not fall. Only where new keys go changes.
    pub partitions: Option<u32>,
    /// How long batches are kept, in milliseconds; inner nothing: for ever.
    pub retention: Option<Option<u64>>,
    /// The bytes that each partition keeps; inner nothing: all.
    pub retention_bytes: Option<Option<u64>>,
}

/// Changes the options of a log. The keys of new partitions are in the last region, unless the keyspace has regions for them.
pub fn alter_log(alter: AlterLog) -> impl LogProcedure<Output = LogOptions> + Send {
    OptimisticTransaction::new(move |_, reads: &mut LogReads, writes: &mut Writes| {
        let before: LogOptions = reads.get(&keys::options())?.ok_or(LogError::NoSuchLog)?;
        let partitions = alter.partitions.unwrap_or(before.partitions);
        if partitions < before.partitions || partitions > keys::PARTITIONS_MAX {
            return Err(LogError::BadPartitionCount.into());
        }
        (before.partitions..partitions).for_each(|partition| {
            writes.put(keys::tail(partition), &TailRecord::default());
        });
        let retention = alter.retention.unwrap_or(before.retention);
        let retention_bytes = alter.retention_bytes.unwrap_or(before.retention_bytes);
        let options = LogOptions { partitions, retention, retention_bytes, ..before };
        if options != before {
            writes.put(keys::options(), &options);
        }
        Ok(options)
    })
}
