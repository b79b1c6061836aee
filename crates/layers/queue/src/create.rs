//! Creates a queue, and reads its options.

use zerohop_layer_procedure::{OptimisticTransaction, Writes};

use crate::error::QueueError;
use crate::keys;
use crate::limits::PARTITIONS_MAX;
use crate::procedure::{QueueProcedure, QueueReads};
use crate::records::{CountsRecord, QueueOptions};

/// The options of a new queue.
#[derive(Clone, Copy, Debug)]
pub struct CreateQueue {
    /// Random bytes: a repeated creation with the same ones succeeds.
    pub id: [u8; 16],
    /// The number of partitions.
    pub partitions: u32,
    /// How long a lease lasts unless the pop says so, in milliseconds.
    pub lease: u64,
    /// How often a message is leased before it becomes a dead letter; 0: without limit.
    pub tries: u32,
    /// How long the name of a message counts, in milliseconds.
    pub names: u64,
}

/// Creates a queue.
pub fn create_queue(create: CreateQueue) -> impl QueueProcedure<Output = QueueOptions> + Send {
    OptimisticTransaction::new(move |now: u64, reads: &mut QueueReads, writes: &mut Writes| {
        match reads.get::<QueueOptions>(&keys::options())? {
            Some(before) if before.id == create.id => return Ok(before),
            Some(_) => return Err(QueueError::QueueExists.into()),
            None => {}
        }
        if create.partitions == 0 || create.partitions > PARTITIONS_MAX {
            return Err(QueueError::BadPartitionCount.into());
        }
        if create.lease == 0 {
            return Err(QueueError::BadLease.into());
        }
        let CreateQueue { id, partitions, lease, tries, names } = create;
        let options = QueueOptions { id, created: now, partitions, lease, tries, names };
        writes.put(keys::options(), &options);
        (0..partitions).for_each(|partition| writes.put(keys::counts(partition), &CountsRecord::default()));
        Ok(options)
    })
}

/// Reads the options of a queue.
pub fn read_options() -> impl QueueProcedure<Output = QueueOptions> + Send {
    OptimisticTransaction::new(move |_, reads: &mut QueueReads, _: &mut Writes| {
        Ok(reads.get(&keys::options())?.ok_or(QueueError::NoSuchQueue)?)
    })
}
