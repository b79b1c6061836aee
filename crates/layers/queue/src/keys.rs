//! The keys of the ordered keyspace of one queue.
//!
//! ```text
//! partition(4) 00                            the counts, which each push changes
//! partition(4) 01 pushed(8) message(24)      the entry of a message that is ready
//! partition(4) 02 due(8) message(24)         the entry of a message that is leased or delayed
//! partition(4) 03 message(24)                the bytes of a message
//! partition(4) 04 group                      a group
//! partition(4) 05 group 00 place(8)          a message of a group
//! partition(4) 06 consumer(16)               what a consumer has leased
//! partition(4) 07 producer(16)               what a producer has pushed
//! partition(4) 08 group 00 name              a name that was pushed
//! partition(4) 09 until(8) group 00 name     until when it counts
//! partition(4) 0a died(8) message(24)        a dead letter
//! 00000000 20                                the options of the queue
//! ```
//!
//! Numbers are big-endian. A message is named by its producer (16) and its number (8). Names have no byte 00. The group of a
//! name is empty for a message without a group.

pub use zerohop_layer_procedure::{RecordKey, after, end_of};

use crate::error::QueueError;
use crate::limits::NAME_MAX;
use crate::records::{ConsumerId, MessageId, ProducerId};

const COUNTS: u8 = 0x00;
const READY: u8 = 0x01;
const TIMED: u8 = 0x02;
const MESSAGE: u8 = 0x03;
const GROUP: u8 = 0x04;
const WAITING: u8 = 0x05;
const CONSUMER: u8 = 0x06;
const PRODUCER: u8 = 0x07;
const NAME: u8 = 0x08;
const NAME_END: u8 = 0x09;
const DEAD: u8 = 0x0a;
/// Another one than that of the options of a log, so that neither takes the other for its own.
const OPTIONS: u8 = 0x20;

fn of_partition(partition: u32, kind: u8, rest: &[u8]) -> RecordKey {
    [&partition.to_be_bytes()[..], &[kind], rest].concat()
}

fn at(partition: u32, kind: u8, time: u64, message: MessageId) -> RecordKey {
    of_partition(partition, kind, &[&time.to_be_bytes()[..], &message.to_bytes()].concat())
}

/// The separators that give each partition of a queue a region of its own.
#[must_use]
pub fn separators(partitions: u32) -> Vec<RecordKey> {
    (1..partitions).map(|partition| partition.to_be_bytes().to_vec()).collect()
}

/// Checks the name of a group or a message.
///
/// # Errors
/// [`QueueError::BadName`].
pub fn check_name(name: &str) -> Result<&str, QueueError> {
    let is_valid = (1..=NAME_MAX).contains(&name.len()) && !name.contains('\0');
    if is_valid { Ok(name) } else { Err(QueueError::BadName) }
}

/// The key of the counts.
#[must_use]
pub fn counts(partition: u32) -> RecordKey {
    of_partition(partition, COUNTS, &[])
}

/// The key of the entry of a message that is ready.
#[must_use]
pub fn ready(partition: u32, pushed: u64, message: MessageId) -> RecordKey {
    at(partition, READY, pushed, message)
}

/// The first key and the end of all entries of messages that are ready.
#[must_use]
pub fn all_ready(partition: u32) -> (RecordKey, RecordKey) {
    all_of(partition, READY)
}

/// The key of the entry of a message that is leased or delayed until `due`.
#[must_use]
pub fn timed(partition: u32, due: u64, message: MessageId) -> RecordKey {
    at(partition, TIMED, due, message)
}

/// The first key and the end of all entries of messages that are leased or delayed.
#[must_use]
pub fn all_timed(partition: u32) -> (RecordKey, RecordKey) {
    all_of(partition, TIMED)
}

/// The end of the entries that are due at `now`.
#[must_use]
pub fn due_end(partition: u32, now: u64) -> RecordKey {
    of_partition(partition, TIMED, &now.saturating_add(1).to_be_bytes())
}

/// The key of the bytes of a message.
#[must_use]
pub fn message(partition: u32, message: MessageId) -> RecordKey {
    of_partition(partition, MESSAGE, &message.to_bytes())
}

/// The key of a group.
#[must_use]
pub fn group(partition: u32, group: &str) -> RecordKey {
    of_partition(partition, GROUP, group.as_bytes())
}

/// The key of the message at a place of a group.
#[must_use]
pub fn waiting(partition: u32, group: &str, place: u64) -> RecordKey {
    of_partition(partition, WAITING, &[group.as_bytes(), &[0], &place.to_be_bytes()].concat())
}

/// The key of what a consumer has leased.
#[must_use]
pub fn consumer(partition: u32, consumer: ConsumerId) -> RecordKey {
    of_partition(partition, CONSUMER, &consumer.0)
}

/// The first key and the end of all consumers.
#[must_use]
pub fn all_consumers(partition: u32) -> (RecordKey, RecordKey) {
    all_of(partition, CONSUMER)
}

/// The key of what a producer has pushed.
#[must_use]
pub fn producer(partition: u32, producer: ProducerId) -> RecordKey {
    of_partition(partition, PRODUCER, &producer.0)
}

/// The first key and the end of all producers.
#[must_use]
pub fn all_producers(partition: u32) -> (RecordKey, RecordKey) {
    all_of(partition, PRODUCER)
}

/// The key of a name in a group, which is empty for messages without a group.
#[must_use]
pub fn name(partition: u32, group: &str, name: &str) -> RecordKey {
    of_partition(partition, NAME, &[group.as_bytes(), &[0], name.as_bytes()].concat())
}

/// The key of the moment until when a name counts.
#[must_use]
pub fn name_end(partition: u32, until: u64, group: &str, name: &str) -> RecordKey {
    let name = [&until.to_be_bytes()[..], group.as_bytes(), &[0], name.as_bytes()].concat();
    of_partition(partition, NAME_END, &name)
}

/// The first key of all ends of names, and the end of those that do not count at `now`.
#[must_use]
pub fn ended_names(partition: u32, now: u64) -> (RecordKey, RecordKey) {
    (of_partition(partition, NAME_END, &[]), of_partition(partition, NAME_END, &now.to_be_bytes()))
}

/// The key of the name that the key of its end has.
#[must_use]
pub fn name_of_end(key: &[u8]) -> Option<RecordKey> {
    let (partition, rest) = key.split_first_chunk::<4>()?;
    let name = rest.get(9..)?;
    Some([&partition[..], &[NAME], name].concat())
}

/// The key of a dead letter.
#[must_use]
pub fn dead(partition: u32, died: u64, message: MessageId) -> RecordKey {
    at(partition, DEAD, died, message)
}

/// The first key and the end of all dead letters.
#[must_use]
pub fn all_dead(partition: u32) -> (RecordKey, RecordKey) {
    all_of(partition, DEAD)
}

/// The key of the options.
#[must_use]
pub fn options() -> RecordKey {
    of_partition(0, OPTIONS, &[])
}

fn all_of(partition: u32, kind: u8) -> (RecordKey, RecordKey) {
    let from = of_partition(partition, kind, &[]);
    let end = end_of(&from);
    (from, end)
}

/// The time and the message that the key of an entry or of a dead letter has.
#[must_use]
pub fn time_and_message(key: &[u8]) -> Option<(u64, MessageId)> {
    let (time, message) = key.get(5..)?.split_first_chunk::<8>()?;
    Some((u64::from_be_bytes(*time), MessageId::from_bytes(message.try_into().ok()?)))
}

/// The id that the key of a consumer or a producer has.
#[must_use]
pub fn id_of(key: &[u8]) -> Option<[u8; 16]> {
    key.get(5..)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: MessageId = MessageId { producer: ProducerId([0xff; 16]), number: u64::MAX };

    #[test]
    fn keys_of_a_partition_are_in_its_region() {
        let separators = separators(3);
        assert_eq!(separators, [vec![0, 0, 0, 1], vec![0, 0, 0, 2]]);
        for partition in 0..3 {
            let all = [
                counts(partition),
                ready(partition, u64::MAX, MESSAGE),
                timed(partition, u64::MAX, MESSAGE),
                message(partition, MESSAGE),
                group(partition, "group"),
                waiting(partition, "group", u64::MAX),
                consumer(partition, ConsumerId([0xff; 16])),
                producer(partition, ProducerId([0xff; 16])),
                name(partition, "", "name"),
                name_end(partition, u64::MAX, "group", "name"),
                dead(partition, u64::MAX, MESSAGE),
            ];
            let regions = all.map(|key| separators.iter().filter(|one| **one <= key).count());
            assert_eq!(regions, [partition as usize; 11]);
        }
    }

    #[test]
    fn ranges_have_their_keys_and_no_others() {
        let (from, end) = all_timed(1);
        let last = timed(1, u64::MAX, MESSAGE);
        assert!(from < timed(1, 0, MESSAGE) && last < end && ready(1, u64::MAX, MESSAGE) < from);
        assert!(timed(1, 7, MESSAGE) < due_end(1, 7) && due_end(1, 7) <= timed(1, 8, MessageId::default()));
        let (from, end) = ended_names(1, 7);
        assert!(from < name_end(1, 6, "g", "n") && name_end(1, 6, "g", "n") < end);
        assert!(end <= name_end(1, 7, "", "n"));
    }

    #[test]
    fn keys_have_what_they_were_made_of() {
        assert_eq!(time_and_message(&ready(3, 9, MESSAGE)), Some((9, MESSAGE)));
        assert_eq!(time_and_message(&ready(3, 9, MESSAGE)[..30]), None);
        assert_eq!(name_of_end(&name_end(3, 9, "g", "n")), Some(name(3, "g", "n")));
        assert_eq!(name_of_end(&[0; 12]), None);
        assert_eq!(id_of(&consumer(3, ConsumerId([4; 16]))), Some([4; 16]));
        assert_eq!(check_name("a\0"), Err(QueueError::BadName));
        assert_eq!(check_name(&"a".repeat(NAME_MAX + 1)), Err(QueueError::BadName));
    }
}
