//! The records of the keyspace and their bytes.

mod client;
mod counts;
mod entry;
mod group;
mod ids;
mod message;
mod name;
mod options;

pub use client::{ConsumerRecord, Lease, ProducerRecord};
pub use counts::CountsRecord;
pub use entry::{EntryRecord, GroupPlace};
pub use group::{GroupRecord, WaitingRecord};
pub use ids::{ConsumerId, MessageId, ProducerId};
pub use message::{DeadRecord, MessageRecord};
pub use name::NameRecord;
pub use options::QueueOptions;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use zerohop_layer_procedure::Record;

    use super::*;

    fn samples() -> Vec<Vec<u8>> {
        let id = MessageId { producer: ProducerId([1; 16]), number: 2 };
        let place = GroupPlace { group: "group".to_owned(), place: 3 };
        let message =
            MessageRecord { pushed: 4, group: Some("group".to_owned()), name: None, value: vec![1, 2, 3] };
        let consumer = Some(ConsumerId([5; 16]));
        let lease = Lease { pop: 1, due: 2, message: id, tries: 3 };
        vec![
            QueueOptions { id: [7; 16], created: 1, partitions: 2, lease: 3, tries: 4, names: 5 }.encode(),
            CountsRecord { pushed: 1, finished: 2, dead: 3, returned: 4 }.encode(),
            EntryRecord { pushed: 1, tries: 2, bytes: 3, consumer, place: Some(place) }.encode(),
            EntryRecord { pushed: 1, tries: 0, bytes: 3, consumer: None, place: None }.encode(),
            message.encode(),
            GroupRecord { first: 1, next: 2 }.encode(),
            WaitingRecord { message: id, due: 1, pushed: 2, bytes: 3 }.encode(),
            ConsumerRecord { number: 1, used: 2, lapsed: 3, leases: vec![lease; 2] }.encode(),
            ProducerRecord { number: 1, used: 2, duplicates: vec![(3, id); 2] }.encode(),
            NameRecord { message: id, until: 3 }.encode(),
            DeadRecord { tries: 1, bytes: 2 }.encode(),
        ]
    }

    fn decode_as_each(bytes: &[u8]) -> Vec<Vec<u8>> {
        fn one<R: Record>(bytes: &[u8]) -> Option<Vec<u8>> {
            R::decode(bytes).map(|record| record.encode())
        }
        [
            one::<QueueOptions>(bytes),
            one::<CountsRecord>(bytes),
            one::<EntryRecord>(bytes),
            one::<MessageRecord>(bytes),
            one::<GroupRecord>(bytes),
            one::<WaitingRecord>(bytes),
            one::<ConsumerRecord>(bytes),
            one::<ProducerRecord>(bytes),
            one::<NameRecord>(bytes),
            one::<DeadRecord>(bytes),
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
    }
}
