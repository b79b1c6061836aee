//! The records of the keyspace and their bytes.

mod cursor;
mod group;
mod options;
mod producer;
mod stored_batch;
mod tail;

pub use cursor::{CursorRecord, PopRecord, ReaderId};
pub use group::{GroupMember, GroupRecord, HeartbeatRecord, MemberId, OffsetRecord};
pub use options::LogOptions;
pub use producer::{PRODUCER_BATCHES, ProducerBatch, ProducerRecord};
pub use stored_batch::StoredBatch;
pub(crate) use stored_batch::StoredHeader;
pub use tail::{TailRecord, TrimRecord};

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use zerohop_layer_procedure::Record;

    use super::*;
    use crate::batch::{Batch, BatchLimits, LogRecord};

    fn samples() -> Vec<Vec<u8>> {
        let record = LogRecord { time: 5, key: None, value: Some(vec![1, 2, 3]), headers: Vec::new() };
        let batch = Batch::new(&[record], None, &BatchLimits::default()).unwrap();
        let sent = ProducerBatch { sequence: 3, count: 4, base: 5 };
        let member = GroupMember { id: MemberId([6; 16]), first: 1, count: 2 };
        vec![
            GroupRecord { generation: 3, partitions: 4, members: vec![member; 2] }.encode(),
            HeartbeatRecord { until: 5 }.encode(),
            OffsetRecord { offset: 6, generation: 7, committed: 8 }.encode(),
            CursorRecord { offset: 9 }.encode(),
            PopRecord { number: 1, first: 2, count: 3, used: 4 }.encode(),
            LogOptions { id: [7; 16], created: 1, partitions: 2, retention: Some(3), retention_bytes: None }
                .encode(),
            TailRecord { next: 1, highest: 2, bytes: 3, batches: 4 }.encode(),
            TrimRecord { first: 1, bytes: 3, batches: 4 }.encode(),
            ProducerRecord { epoch: 1, used: 2, batches: vec![sent; 2] }.encode(),
            StoredBatch { base: 1, highest: 2, appended: 3, batch }.encode(),
        ]
    }

    fn decode_as_each(bytes: &[u8]) -> Vec<Vec<u8>> {
        fn one<R: Record>(bytes: &[u8]) -> Option<Vec<u8>> {
            R::decode(bytes).map(|record| record.encode())
        }
        [
            one::<LogOptions>(bytes),
            one::<TailRecord>(bytes),
            one::<TrimRecord>(bytes),
            one::<ProducerRecord>(bytes),
            one::<StoredBatch>(bytes),
            one::<GroupRecord>(bytes),
            one::<HeartbeatRecord>(bytes),
            one::<OffsetRecord>(bytes),
            one::<CursorRecord>(bytes),
            one::<PopRecord>(bytes),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    #[test]
    fn records_are_read_back_and_no_prefix_of_one_is_read_as_another_text() {
        for bytes in samples() {
            assert!(decode_as_each(&bytes).contains(&bytes), "{bytes:?}");
            for end in 0..bytes.len() {
                let shorter = decode_as_each(&bytes[..end]);
                assert!(shorter.iter().all(|again| again == &bytes[..end]), "{bytes:?} to {end}");
            }
        }
    }

    proptest! {
        #[test]
        fn decoders_never_panic_and_what_they_read_is_written_the_same(
            sample in any::<prop::sample::Index>(),
            changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        ) {
            let samples = samples();
            let mut bytes = samples[sample.index(samples.len())].clone();
            for (place, byte) in changes {
                let place = place.index(bytes.len());
                bytes[place] = byte;
            }
            for again in decode_as_each(&bytes) {
                prop_assert_eq!(&again, &bytes);
            }
        }

        #[test]
        fn damaged_stored_batch_is_refused(place in 1 + 24..1000_usize, bit in 0..8_u8) {
            let mut bytes = samples().pop().unwrap();
            let place = place % bytes.len();
            bytes[place] ^= 1 << bit;
            // What the append adds has no checksum of its own: the store checks whole records.
            prop_assert!(StoredBatch::decode(&bytes).is_none() || (1..25).contains(&place));
        }
    }
}
