//! The keys of the ordered keyspace of one log.
//!
//! ```text
//! partition(4) 00                       the tail: what appends move
//! partition(4) 01 last offset(8)        a batch, by the offset of its last record
//! partition(4) 02 producer(16)          what a producer has appended
//! partition(4) 03                       what was trimmed
//! partition(4) 04 group                 what a group has committed
//! partition(4) 05 cursor                a cursor that readers share
//! partition(4) 06 cursor 00 reader(16)  the last pop of a reader
//! 00000000 10                           the options of the log
//! 00000000 11 group                     a group
//! 00000000 12 group 00 member(16)       the heartbeat of a member
//! ```
//!
//! Numbers are big-endian. Names of groups and cursors have no byte 00. A scan from the key of an offset finds the batch that has this offset first.

pub use zerohop_layer_procedure::{RecordKey, end_of};

use crate::batch::ProducerId;
use crate::error::LogError;
use crate::records::{MemberId, ReaderId};

/// The most partitions of a log.
pub const PARTITIONS_MAX: u32 = 4096;

const TAIL: u8 = 0x00;
const BATCH: u8 = 0x01;
const PRODUCER: u8 = 0x02;
const TRIM: u8 = 0x03;
const OFFSET: u8 = 0x04;
const CURSOR: u8 = 0x05;
const POP: u8 = 0x06;
const OPTIONS: u8 = 0x10;
const GROUP: u8 = 0x11;
const HEARTBEAT: u8 = 0x12;

/// The most bytes of the name of a group or a cursor.
pub const NAME_MAX: usize = 249;

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

/// Checks the name of a group or a cursor.
///
/// # Errors
/// [`LogError::BadName`].
pub fn check_name(name: &str) -> Result<&str, LogError> {
    let is_valid = (1..=NAME_MAX).contains(&name.len()) && !name.contains('\0');
    if is_valid { Ok(name) } else { Err(LogError::BadName) }
}

/// The key of what a group has committed.
#[must_use]
pub fn group_offset(partition: u32, group: &str) -> RecordKey {
    of_partition(partition, OFFSET, group.as_bytes())
}

/// The key of a cursor.
#[must_use]
pub fn cursor(partition: u32, cursor: &str) -> RecordKey {
    of_partition(partition, CURSOR, cursor.as_bytes())
}

/// The key of the last pop of a reader.
#[must_use]
pub fn pop(partition: u32, cursor: &str, reader: ReaderId) -> RecordKey {
    of_partition(partition, POP, &[cursor.as_bytes(), &[0], &reader.0].concat())
}

/// The key of a group.
#[must_use]
pub fn group(group: &str) -> RecordKey {
    of_partition(0, GROUP, group.as_bytes())
}

/// What the keys of all groups begin with.
#[must_use]
pub fn groups() -> RecordKey {
    of_partition(0, GROUP, &[])
}

/// What the keys of all that groups have committed in a partition begin with.
#[must_use]
pub fn group_offsets(partition: u32) -> RecordKey {
    of_partition(partition, OFFSET, &[])
}

/// The name in the key of a group, or of what it has committed.
#[must_use]
pub fn name_of(key: &[u8]) -> Option<&str> {
    std::str::from_utf8(key.get(5..)?).ok()
}

/// What the keys of the heartbeats of a group begin with.
#[must_use]
pub fn heartbeats(group: &str) -> RecordKey {
    of_partition(0, HEARTBEAT, &[group.as_bytes(), &[0]].concat())
}

/// The key of the heartbeat of a member.
#[must_use]
pub fn heartbeat(group: &str, member: MemberId) -> RecordKey {
    [&heartbeats(group)[..], &member.0].concat()
}

/// The member that the key of a heartbeat has.
#[must_use]
pub fn member_of(key: &[u8]) -> Option<MemberId> {
    key.last_chunk().map(|id| MemberId(*id))
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
                group_offset(partition, "group"),
                cursor(partition, "cursor"),
                pop(partition, "cursor", ReaderId([0xff; 16])),
            ];
            let regions = all.map(|key| separators.iter().filter(|one| **one <= key).count());
            assert_eq!(regions, [partition as usize; 7]);
        }
        assert!(batch(1, 255) < batch(1, 256) && batch(1, u64::MAX) < batches_end(1));
        assert!(batches_end(1) <= producer(1, ProducerId([0; 16])));
    }

    #[test]
    fn names_are_checked_and_heartbeats_of_groups_do_not_mix() {
        let long = "a".repeat(NAME_MAX + 1);
        for name in ["", "a\0b", &long] {
            assert_eq!(check_name(name), Err(LogError::BadName));
        }
        assert_eq!(check_name(&long[1..]), Ok(&long[1..]));
        assert_eq!(name_of(&group("ab")), Some("ab"));
        assert_eq!(name_of(&group_offset(7, "ab")), Some("ab"));
        assert!(group_offset(7, "ab").starts_with(&group_offsets(7)) && group("ab").starts_with(&groups()));
        let member = MemberId([0xff; 16]);
        assert_eq!(member_of(&heartbeat("ab", member)), Some(member));
        assert!(heartbeat("ab", member) < end_of(&heartbeats("ab")));
        assert!(end_of(&heartbeats("ab")) <= heartbeats("abc"));
    }
}
