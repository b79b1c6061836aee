//! I4: answers about each hash range leave in the order of epochs: no instance answers after
//! another has answered in a later epoch.
//!
//! Hash ranges are compared across splits, which give the same partition number another range. The
//! epoch of an answer tells its range, as all children have higher epochs than all parents. The map
//! of the answering instance does not: it may be newer by the time the answer leaves.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use zerohop_placement::{KeyOrder, Keyspace, KeyspaceConfig};
use zerohop_shard::AnswerOrigin;
use zerohop_wire::ids::{InstanceId, KeyspaceId, PartitionEpoch, PartitionId};

/// Number of hash ranges that are compared; keyspaces here never have more partitions.
const SLICES: u32 = 256;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct HashRanges {
    levels: BTreeMap<KeyspaceId, Levels>,
    /// The last answer about a range of a keyspace: its epoch, and the instance.
    answered: BTreeMap<(KeyspaceId, u32), (PartitionEpoch, InstanceId)>,
    /// The regions of ordered keyspaces that were ever observed, with their points, and the last answer about each.
    regions: BTreeMap<(KeyspaceId, PartitionId), ObservedRegion>,
}

#[derive(Debug)]
struct ObservedRegion {
    points: RangeInclusive<u64>,
    answered: Option<(PartitionEpoch, InstanceId)>,
}

/// The number of partitions that tells what the number of a partition means: in an ordered keyspace it always means the same.
pub(super) fn partitions_named(config: &KeyspaceConfig) -> u32 {
    match config.order {
        KeyOrder::Hashed => config.partitions.get(),
        KeyOrder::Ordered => ORDERED,
    }
}

/// Of a hashed keyspace there is at least one.
const ORDERED: u32 = 0;

/// The number of partitions of a keyspace from each epoch on; `None` in epochs between two maps
/// that were observed.
#[derive(Debug, Default)]
struct Levels(Vec<(PartitionEpoch, Option<u32>)>);

impl Levels {
    fn partitions_in(&self, epoch: PartitionEpoch) -> Option<u32> {
        self.0.iter().rev().find(|(from, _)| *from <= epoch).and_then(|(_, partitions)| *partitions)
    }
}

impl HashRanges {
    /// Records a newer map of a keyspace; `before` is the last one that was observed.
    pub(super) fn see(&mut self, id: KeyspaceId, before: Option<&Keyspace>, now: &Keyspace) {
        let epochs = |keyspace: &Keyspace| -> Vec<PartitionEpoch> {
            keyspace.groups().map(|(_, group)| group.epoch).collect()
        };
        let count = partitions_named(now.config());
        if count == ORDERED {
            for region in now.division().partitions() {
                let Some(points) = now.division().points(region) else { continue };
                self.regions.entry((id, region)).or_insert(ObservedRegion { points, answered: None });
            }
        }
        if before.is_some_and(|before| partitions_named(before.config()) == count) {
            return;
        }
        let last = before.and_then(|before| epochs(before).into_iter().max());
        let first = epochs(now).into_iter().min().unwrap_or_default();
        let levels = &mut self.levels.entry(id).or_default().0;
        levels.push((last.map_or(PartitionEpoch::default(), PartitionEpoch::next), None));
        levels.push((first, Some(count)));
    }

    /// The number of partitions of a keyspace in an epoch; none if it lies between two maps that
    /// were observed.
    pub(super) fn partitions_in(&self, keyspace: KeyspaceId, epoch: PartitionEpoch) -> Option<u32> {
        self.levels.get(&keyspace).and_then(|levels| levels.partitions_in(epoch))
    }

    /// An answer about a record leaves an instance.
    ///
    /// # Errors
    /// Another instance has answered in a later epoch; the error names both.
    pub(super) fn answers(
        &mut self,
        place: AnswerOrigin,
        instance: InstanceId,
    ) -> Result<(), (PartitionEpoch, InstanceId)> {
        let Some(partitions) = self.partitions_in(place.keyspace, place.epoch) else { return Ok(()) };
        if partitions == ORDERED {
            return self.region_answers(place, instance);
        }
        let each = SLICES / partitions.min(SLICES);
        for hash_range in place.partition.0 * each..(place.partition.0 + 1) * each {
            let newest = self.answered.entry((place.keyspace, hash_range)).or_insert((place.epoch, instance));
            if place.epoch > newest.0 {
                *newest = (place.epoch, instance);
            } else if place.epoch < newest.0 && instance != newest.1 {
                return Err(*newest);
            }
        }
        Ok(())
    }
}

impl HashRanges {
    /// The regions that share points with this one are itself, its ancestors and its descendants. The epochs of the latter are higher.
    fn region_answers(
        &mut self,
        place: AnswerOrigin,
        instance: InstanceId,
    ) -> Result<(), (PartitionEpoch, InstanceId)> {
        let key = (place.keyspace, place.partition);
        let Some(points) = self.regions.get(&key).map(|region| region.points.clone()) else { return Ok(()) };
        let of_keyspace = self.regions.range((place.keyspace, PartitionId(0))..);
        let of_keyspace = of_keyspace.take_while(|((keyspace, _), _)| *keyspace == place.keyspace);
        let meets = |region: &ObservedRegion| {
            region.points.start() <= points.end() && points.start() <= region.points.end()
        };
        let later = of_keyspace
            .filter(|(_, region)| meets(region))
            .filter_map(|(_, region)| region.answered)
            .find(|(epoch, other)| *epoch > place.epoch && *other != instance);
        if let Some(later) = later {
            return Err(later);
        }
        if let Some(region) = self.regions.get_mut(&key)
            && region.answered.is_none_or(|(epoch, _)| epoch < place.epoch)
        {
            region.answered = Some((place.epoch, instance));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYSPACE: KeyspaceId = KeyspaceId(7);
    const A: InstanceId = InstanceId(1);
    const B: InstanceId = InstanceId(2);

    /// Two partitions, of which one has come to epoch 5; split at 6, and once more, unobserved, up
    /// to epoch 12.
    fn split() -> HashRanges {
        let level = |from, partitions| (PartitionEpoch(from), partitions);
        let levels = Levels(vec![
            level(0, None),
            level(1, Some(2)),
            level(6, None),
            level(6, Some(4)),
            level(9, None),
            level(12, Some(8)),
        ]);
        HashRanges { levels: [(KEYSPACE, levels)].into(), ..HashRanges::default() }
    }

    fn place(partition: u32, epoch: u64) -> AnswerOrigin {
        AnswerOrigin {
            keyspace: KEYSPACE,
            partition: PartitionId(partition),
            epoch: PartitionEpoch(epoch),
            ..AnswerOrigin::default()
        }
    }

    #[test]
    fn older_epoch_must_not_answer_after_newer_one() {
        let mut hash_ranges = split();
        assert_eq!(hash_ranges.answers(place(0, 2), A), Ok(()));
        assert_eq!(hash_ranges.answers(place(0, 3), A), Ok(()));
        assert_eq!(hash_ranges.answers(place(0, 4), B), Ok(()), "promoted");
        assert_eq!(hash_ranges.answers(place(1, 2), A), Ok(()), "another partition");
        assert_eq!(hash_ranges.answers(place(0, 4), B), Ok(()));
        assert_eq!(hash_ranges.answers(place(0, 3), A), Err((PartitionEpoch(4), B)));
        // An answer that B evaluated before its epoch was raised may leave later.
        assert_eq!(hash_ranges.answers(place(0, 5), B), Ok(()));
        assert_eq!(hash_ranges.answers(place(0, 4), B), Ok(()));
    }

    #[test]
    fn answer_before_split_covers_parent_hash_range() {
        let mut hash_ranges = split();
        // Partition 0 is at epoch 5 on B, while A is at epoch 3 of partition 1. B receives the
        // split while its answer is on the way out.
        assert_eq!(hash_ranges.answers(place(0, 5), B), Ok(()));
        assert_eq!(hash_ranges.answers(place(1, 3), A), Ok(()));
        assert_eq!(hash_ranges.answers(place(1, 6), B), Ok(()), "the second half of 0");
        assert_eq!(hash_ranges.answers(place(1, 3), A), Ok(()), "all of 1");
    }

    #[test]
    fn a_parent_answers_no_more_once_another_has_for_a_child() {
        let mut hash_ranges = split();
        assert_eq!(hash_ranges.answers(place(1, 5), A), Ok(()));
        assert_eq!(hash_ranges.answers(place(3, 7), B), Ok(()));
        assert_eq!(hash_ranges.answers(place(0, 5), A), Ok(()));
        assert_eq!(hash_ranges.answers(place(1, 5), A), Err((PartitionEpoch(7), B)));
    }

    #[test]
    fn answers_of_epochs_between_observed_maps_are_not_checked() {
        let mut hash_ranges = split();
        assert_eq!(hash_ranges.answers(place(3, 12), B), Ok(()));
        assert_eq!(hash_ranges.answers(place(1, 10), A), Ok(()));
        assert_eq!(hash_ranges.answers(place(1, 6), A), Err((PartitionEpoch(12), B)));
    }
}
