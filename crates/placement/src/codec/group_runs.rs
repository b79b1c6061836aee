//! Many groups that change at once, as after the death of a node: one item of the delta instead of one for each group. Partitions and epochs are
//! differences from the group before, and the members of a group are the number of the list that an earlier group has, if it is equal.
//!
//! ```text
//! changes  ── put node ── set group × 16384, one keyspace ── close keyspace ──
//! items    ── put node ── set groups (one item)           ── close keyspace ──
//! ```
//!
//! A run is as long as possible: its groups follow each other in the delta, are of one keyspace, and are [`RUN_GROUPS_MIN`] at least. So each
//! delta has one encoding.

use std::collections::BTreeMap;

use zerohop_wire::ids::{KeyspaceId, PartitionEpoch, PartitionId};

use super::read::MapReader;
use super::{DecodeError, write_change, write_roles};
use crate::layout::RUN_GROUP_BYTES_MIN;
use crate::limits::CHANGES_MAX;
use crate::map::{MapChange, ReplicaGroup};

/// Groups in a row from which on they are one item. Fewer are listed, in deltas that all programs can read.
pub(super) const RUN_GROUPS_MIN: usize = 8;

/// The kind of such an item.
pub(super) const SET_GROUPS: u8 = 32;

/// The form of a delta, in its header: every change is an item; or each run of groups is one.
pub(super) const FORM_LISTED: u8 = 0;
pub(super) const FORM_RUNS: u8 = 1;

/// The most bytes of a number in groups of seven bits.
const VARINT_BYTES_MAX: u32 = 10;

/// The keyspace of a change that sets a group.
fn keyspace_of(change: &MapChange) -> Option<KeyspaceId> {
    match change {
        MapChange::SetGroup { keyspace, .. } => Some(*keyspace),
        _ => None,
    }
}

/// The items of a delta: runs of groups, and slices of one change.
fn items(changes: &[MapChange]) -> impl Iterator<Item = &[MapChange]> {
    let in_one_run =
        |a: &MapChange, b: &MapChange| keyspace_of(a).is_some() && keyspace_of(a) == keyspace_of(b);
    changes.chunk_by(in_one_run).flat_map(|several| {
        let item = if several.len() < RUN_GROUPS_MIN { 1 } else { several.len() };
        several.chunks(item)
    })
}

/// The form that these changes need.
pub(super) fn form_needed(changes: &[MapChange]) -> u8 {
    if items(changes).any(|item| item.len() > 1) { FORM_RUNS } else { FORM_LISTED }
}

/// Writes the number of items, and the items.
pub(super) fn write_items(bytes: &mut Vec<u8>, changes: &[MapChange]) {
    let count = u32::try_from(items(changes).count()).expect("no delta has 2^32 changes");
    bytes.extend_from_slice(&count.to_le_bytes());
    for item in items(changes) {
        match item {
            [change] => write_change(bytes, change),
            run => write_run(bytes, run),
        }
    }
}

/// Writes a run of groups of one keyspace.
fn write_run(bytes: &mut Vec<u8>, run: &[MapChange]) {
    bytes.push(SET_GROUPS);
    let mut roles_known: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
    let mut before = PreviousGroup::default();
    for (at, change) in run.iter().enumerate() {
        let MapChange::SetGroup { keyspace, partition, group } = change else {
            unreachable!("a run has groups only")
        };
        if at == 0 {
            let count = u32::try_from(run.len()).expect("no delta has 2^32 changes");
            bytes.extend_from_slice(&keyspace.get().to_le_bytes());
            bytes.extend_from_slice(&count.to_le_bytes());
        }
        let (partition_step, epoch_step) = before.steps_to(*partition, group.epoch);
        write_varint(bytes, partition_step);
        write_varint(bytes, epoch_step);
        let mut roles = Vec::new();
        write_roles(&mut roles, group.as_group());
        let unknown = roles_known.len() as u64;
        match roles_known.get(&roles) {
            Some(number) => write_varint(bytes, *number),
            None => {
                write_varint(bytes, unknown);
                bytes.extend_from_slice(&roles);
                roles_known.insert(roles, unknown);
            }
        }
    }
}

/// Reads a run behind its kind. `room` is how many more changes the delta may have.
pub(super) fn read_run(
    reader: &mut MapReader<'_>,
    room: usize,
    changes: &mut Vec<MapChange>,
) -> Result<(), DecodeError> {
    let keyspace = KeyspaceId(reader.u32()?);
    let count = reader.count("changes", CHANGES_MAX, RUN_GROUP_BYTES_MIN)?;
    if count > room {
        return Err(DecodeError::TooMany {
            what: "changes",
            count: CHANGES_MAX - room + count,
            limit: CHANGES_MAX,
        });
    }
    let mut roles_known: Vec<ReplicaGroup> = Vec::new();
    let mut before = PreviousGroup::default();
    for _ in 0..count {
        let (partition, epoch) = before.step(read_varint(reader)?, read_varint(reader)?)?;
        let number = read_varint(reader)?;
        let known = usize::try_from(number).ok().and_then(|number| roles_known.get(number));
        let group = match known {
            Some(roles) => ReplicaGroup { epoch, ..roles.clone() },
            None if number == roles_known.len() as u64 => {
                let group = super::read::roles(reader, partition, epoch)?;
                roles_known.push(group.clone());
                group
            }
            None => {
                return Err(DecodeError::Run {
                    what: "the members of a group are those of no earlier group",
                });
            }
        };
        changes.push(MapChange::SetGroup { keyspace, partition, group });
    }
    Ok(())
}

/// The group before, from which partition and epoch are counted.
#[derive(Default)]
struct PreviousGroup {
    /// One above the partition of the group before.
    next: u32,
    epoch: u64,
}

impl PreviousGroup {
    fn steps_to(&mut self, partition: PartitionId, epoch: PartitionEpoch) -> (u64, u64) {
        let steps = (
            zigzag(i64::from(partition.get()) - i64::from(self.next)),
            zigzag(epoch.get().wrapping_sub(self.epoch) as i64),
        );
        (self.next, self.epoch) = (partition.get().wrapping_add(1), epoch.get());
        steps
    }

    fn step(&mut self, partition: u64, epoch: u64) -> Result<(PartitionId, PartitionEpoch), DecodeError> {
        let partition = i64::from(self.next).checked_add(unzigzag(partition)).map(u32::try_from);
        let Some(Ok(partition)) = partition else {
            return Err(DecodeError::Run { what: "a partition has no number of 32 bits" });
        };
        let epoch = self.epoch.wrapping_add(unzigzag(epoch) as u64);
        (self.next, self.epoch) = (partition.wrapping_add(1), epoch);
        Ok((PartitionId(partition), PartitionEpoch(epoch)))
    }
}

/// Signed numbers near zero become small unsigned ones: 0, -1, 1, -2 become 0, 1, 2, 3.
fn zigzag(number: i64) -> u64 {
    (number << 1 ^ number >> 63) as u64
}

fn unzigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

/// Seven bits in each byte, the lowest first; the highest bit of a byte says that another follows.
fn write_varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn read_varint(reader: &mut MapReader<'_>) -> Result<u64, DecodeError> {
    let mut number = 0u64;
    for at in 0..VARINT_BYTES_MAX {
        let byte = reader.u8()?;
        let bits = u64::from(byte & 0x7f);
        if bits << (7 * at) >> (7 * at) != bits {
            break;
        }
        number |= bits << (7 * at);
        if byte < 0x80 {
            return Ok(number);
        }
    }
    Err(DecodeError::Run { what: "a number has more than 64 bits" })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use zerohop_wire::ids::{InstanceId, MapEpoch};

    use super::*;
    use crate::layout::HEADER_BYTES;
    use crate::map::{GroupState, MapDelta};

    fn group(epoch: u64, members: &[u32]) -> ReplicaGroup {
        ReplicaGroup {
            in_sync: members[1..].iter().copied().map(InstanceId).collect(),
            ..ReplicaGroup::of_one(PartitionEpoch(epoch), InstanceId(members[0]))
        }
    }

    fn set(keyspace: u32, partition: u32, group: ReplicaGroup) -> MapChange {
        MapChange::SetGroup { keyspace: KeyspaceId(keyspace), partition: PartitionId(partition), group }
    }

    fn delta(changes: Vec<MapChange>) -> MapDelta {
        MapDelta { from: MapEpoch(5), to: MapEpoch(6), changes }
    }

    /// Seven groups of three lists of members, and one whose state and epoch differ.
    fn sample() -> MapDelta {
        let mut changes: Vec<MapChange> = (0..7)
            .map(|at| set(2, 3 * at, group(9, &[[10, 11], [11, 12], [12, 10]][at as usize % 3])))
            .collect();
        let recovering = ReplicaGroup { state: GroupState::Recovering, ..group(0x0203, &[11, 12]) };
        changes.push(set(2, 4, recovering));
        delta(changes)
    }

    const GOLDEN: &[u8] = &[
        b'Z', b'H', b'M', b'D', 2, 0, 1, 0, 5, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0,
        0, // header
        32, 2, 0, 0, 0, 8, 0, 0, 0, // kind, keyspace, groups
        0, 18, 0, 1, 0, 10, 0, 0, 0, 11, 0, 0, 0, // partition 0, epoch 9, new members
        4, 0, 1, 1, 0, 11, 0, 0, 0, 12, 0, 0, 0, // partition 3
        4, 0, 2, 1, 0, 12, 0, 0, 0, 10, 0, 0, 0, // partition 6
        4, 0, 0, 4, 0, 1, 4, 0, 2, 4, 0, 0, // partitions 9, 12, 15, 18, with members as before
        29, 0xf4, 0x07, 3, 1, 0x80, 11, 0, 0, 0, 12, 0, 0, 0, // partition 4, epoch 0x203, recovering
    ];

    #[test]
    fn many_groups_have_golden_bytes() {
        assert_eq!(sample().encode(), GOLDEN);
        assert_eq!(MapDelta::decode(GOLDEN).unwrap(), sample());
    }

    #[test]
    fn few_groups_and_those_of_several_keyspaces_are_listed() {
        let few: Vec<MapChange> = (0..7).map(|at| set(1, at, group(2, &[3]))).collect();
        let other = |changes: &[MapChange]| {
            changes.iter().cloned().chain((0..7).map(|at| set(4, at, group(2, &[3])))).collect()
        };
        for changes in [few.clone(), other(&few)] {
            let bytes = delta(changes).encode();
            assert_eq!((bytes[6], bytes[HEADER_BYTES]), (FORM_LISTED, 6));
        }
        // Groups between other changes are runs of their own.
        let mut changes = sample().changes;
        changes.push(MapChange::BeginDropKeyspace(KeyspaceId(9)));
        changes.extend(sample().changes);
        let bytes = delta(changes.clone()).encode();
        assert_eq!((bytes[6], bytes[24]), (FORM_RUNS, 3));
        assert_eq!(MapDelta::decode(&bytes).unwrap().changes, changes);
    }

    #[test]
    fn groups_in_another_form_are_refused() {
        let with = |at: usize, value: u8| {
            let mut bytes = GOLDEN.to_vec();
            bytes[at] = value;
            MapDelta::decode(&bytes)
        };
        let run = |what| Err(DecodeError::Run { what });
        let other_form = || run("the delta has another form than its changes need");
        assert!(matches!(with(6, 0), Err(DecodeError::Unknown { what: "kind of change", number: 32 })));
        assert_eq!(with(6, 2), Err(DecodeError::Unknown { what: "form of a delta", number: 2 }));
        assert_eq!(with(7, 1), Err(DecodeError::Reserved));
        // A list that an earlier group has, and the number of a list that there is not.
        let mut repeated = GOLDEN.to_vec();
        (repeated[55], repeated[59]) = (10, 11);
        assert_eq!(MapDelta::decode(&repeated), other_form());
        assert_eq!(with(78, 9), run("the members of a group are those of no earlier group"));
        // The same changes as a list.
        let mut listed = GOLDEN[..HEADER_BYTES].to_vec();
        (listed[6], listed[24]) = (FORM_LISTED, 8);
        sample().changes.iter().for_each(|change| write_change(&mut listed, change));
        assert_eq!(MapDelta::decode(&listed), other_form());
        // A number in more bytes than it needs, and in more bits than there are.
        let mut longer = GOLDEN.to_vec();
        longer.splice(37..38, [0x80, 0]);
        assert_eq!(MapDelta::decode(&longer), other_form());
        longer.splice(37..39, [0xff; 10]);
        assert_eq!(MapDelta::decode(&longer), run("a number has more than 64 bits"));
        assert_eq!(with(37, 1), run("a partition has no number of 32 bits"));
    }

    #[test]
    fn groups_of_runs_count_as_changes() {
        let run = |groups: u32| (0..groups).map(|at| set(1, at, group(2, &[3]))).collect::<Vec<_>>();
        let mut bytes = delta(run(CHANGES_MAX as u32)).encode();
        assert_eq!(MapDelta::decode(&bytes).unwrap().changes.len(), CHANGES_MAX);
        // One more, of another keyspace.
        bytes[24] += 1;
        write_change(&mut bytes, &set(2, 0, group(2, &[3])));
        let refused = DecodeError::TooMany { what: "changes", count: CHANGES_MAX + 1, limit: CHANGES_MAX };
        assert_eq!(MapDelta::decode(&bytes), Err(refused.clone()));
        let mut bytes = delta(run(8)).encode();
        bytes[33..37].copy_from_slice(&(CHANGES_MAX as u32 + 1).to_le_bytes());
        assert_eq!(MapDelta::decode(&bytes), Err(refused));
    }

    proptest! {
        #[test]
        fn numbers_roundtrip(number: u64) {
            let mut bytes = Vec::new();
            write_varint(&mut bytes, number);
            prop_assert_eq!(read_varint(&mut MapReader::new(&bytes).unwrap()).unwrap(), number);
            prop_assert_eq!(zigzag(unzigzag(number)), number);
        }

        #[test]
        fn any_groups_roundtrip(
            groups in prop::collection::vec((0..3u32, any::<u32>(), any::<u64>(), prop::collection::vec(0..3u32, 1..4)), 0..80),
        ) {
            let changes = groups.iter().map(|(keyspace, partition, epoch, members)| {
                set(*keyspace / 2, *partition, group(*epoch, members))
            });
            let delta = delta(changes.collect());
            prop_assert_eq!(&MapDelta::decode(&delta.encode()).unwrap(), &delta);
        }
    }
}
