//! The keys of the ordered keyspace of one log.
//!
//! ```text
//! partition(4) 00                       the tail: what appends move
//! partition(4) 01 last offset(8)        a batch, by the offset of its last record
//! partition(4) 02 producer(16)          what a producer has appended
//! partition(4) 03                       what was trimmed
//! 00000000 10                           the options of the log
//! ```
//!
//! Numbers are big-endian. A scan from the key of an offset finds the batch that has this offset first.

pub use zerohop_layer_procedure::{RecordKey, end_of};

use crate::batch::ProducerId;

/// The most partitions of a log.
pub const PARTITIONS_MAX: u32 = 4096;

const TAIL: u8 = 0x00;
const BATCH: u8 = 0x01;
const PRODUCER: u8 = 0x02;
const TRIM: u8 = 0x03;
const OPTIONS: u8 = 0x10;

fn of_partition(partition: u32, kind: u8, rest: &[u8]) -> RecordKey {
    [&partition.to_be_bytes()[..], &[kind], rest].concat()
}

/// The separators that give each partition of a log a region of its own.
#[must_use]
pub fn separators(partitions: u32) -> Vec<RecordKey> {
    (1..partitions).map(|partition| partition.to_be_bytes().to_vec()).collect()
}

/// The key of the tail.
#[must_use]
pub fn tail(partition: u32) -> RecordKey {
    of_partition(partition, TAIL, &[])
}

/// The key of the batch whose last record has this offset.
#[must_use]
pub fn batch(partition: u32, last: u64) -> RecordKey {
    of_partition(partition, BATCH, &last.to_be_bytes())
}

/// The end of the keys of batches.
#[must_use]
pub fn batches_end(partition: u32) -> RecordKey {
    end_of(&of_partition(partition, BATCH, &[]))
}

/// The key of the state of a producer.
#[must_use]
pub fn producer(partition: u32, id: ProducerId) -> RecordKey {
    of_partition(partition, PRODUCER, &id.0)
}

/// The key of what was trimmed.
#[must_use]
pub fn trim(partition: u32) -> RecordKey {
    of_partition(partition, TRIM, &[])
}

/// The key of the options.
#[must_use]
pub fn options() -> RecordKey {
    of_partition(0, OPTIONS, &[])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_a_partition_are_in_its_region_and_batches_are_in_the_order_of_offsets() {
        let separators = separators(3);
        assert_eq!(separators, [vec![0, 0, 0, 1], vec![0, 0, 0, 2]]);
        for partition in 0..3 {
            let all = [
                tail(partition),
                batch(partition, u64::MAX),
                producer(partition, ProducerId([0xff; 16])),
                trim(partition),
            ];
            let regions = all.map(|key| separators.iter().filter(|one| **one <= key).count());
            assert_eq!(regions, [partition as usize; 4]);
        }
        assert!(batch(1, 255) < batch(1, 256) && batch(1, u64::MAX) < batches_end(1));
        assert!(batches_end(1) <= producer(1, ProducerId([0; 16])));
    }
}
