//! The table of log partitions, and the rule of ownership:
//!
//! > The entry (`n`, index `i`) belongs to partition `p` if `p`'s present number is `n`, or if `p` continues `n` through an
//! > index of at least `i`. What belongs to no partition is dead.

use std::collections::BTreeMap;

use super::format::LogPartition;
use super::local::Creation;
use crate::PartitionId;
use crate::planted::{Bug, is_planted};

/// A log partition whose entries a partition owns, up to an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ancestor {
    /// The number.
    pub number: LogPartition,
    /// The last index that the partition owns of it; `u64::MAX` of its present number.
    pub through: u64,
    /// The number is of an incomplete partition, whose entries need not follow each other.
    pub is_incoming: bool,
}

/// The table. Its state does not depend on the order in which rows are added, nor on how often: numbers rise, so the highest
/// row of a partition counts.
#[derive(Clone, Debug, Default)]
pub struct Creations {
    rows: BTreeMap<LogPartition, Creation>,
    /// The highest number of each partition that is not incoming.
    newest: BTreeMap<PartitionId, LogPartition>,
}

impl Creations {
    /// Adds a row.
    pub fn add(&mut self, row: Creation) {
        let known = self.rows.entry(row.number).or_insert(row);
        known.is_dropped |= row.is_dropped;
        if !row.is_incoming {
            let newest = self.newest.entry(row.partition).or_default();
            *newest = row.number.max(*newest);
        }
    }

    /// The row of a number.
    #[must_use]
    pub fn row(&self, number: LogPartition) -> Option<&Creation> {
        self.rows.get(&number)
    }

    /// The present number of a partition.
    #[must_use]
    pub fn present(&self, partition: PartitionId) -> Option<LogPartition> {
        let number = *self.newest.get(&partition)?;
        self.rows.get(&number).filter(|row| row.is_present()).map(|row| row.number)
    }

    /// The partitions that have a present number, with their rows.
    pub fn partitions(&self) -> impl Iterator<Item = &Creation> {
        let rows = self.newest.values().filter_map(|number| self.rows.get(number));
        rows.filter(|row| row.is_present())
    }

    /// All rows, by number.
    pub fn rows(&self) -> impl Iterator<Item = &Creation> {
        self.rows.values()
    }

    /// The highest number of the table.
    #[must_use]
    pub fn highest(&self) -> LogPartition {
        self.rows.last_key_value().map_or(LogPartition(0), |(number, _)| *number)
    }

    /// The numbers whose entries belong to a partition, the present one first. If rows compose, the lower index counts.
    pub fn lineage(&self, partition: PartitionId) -> impl Iterator<Item = Ancestor> {
        self.lineage_of(self.present(partition).unwrap_or_default())
    }

    /// The numbers whose entries the owner of a number owns, that one first. None of 0.
    pub fn lineage_of(&self, number: LogPartition) -> impl Iterator<Item = Ancestor> {
        let mut next = (number.0 > 0).then_some((number, u64::MAX));
        std::iter::from_fn(move || {
            let (number, through) = next?;
            let row = self.rows.get(&number);
            next = row.and_then(|row| row.continues).map(|(n, i)| (n, i.min(through)));
            Some(Ancestor { number, through, is_incoming: row.is_some_and(|row| row.is_incoming) })
        })
    }

    /// Whether an entry of that number and index belongs to the partition.
    #[must_use]
    pub fn belongs(&self, partition: PartitionId, number: LogPartition, index: u64) -> bool {
        self.lineage(partition).any(|ancestor| ancestor.number == number && index <= ancestor.through)
    }
}

impl Creation {
    fn is_present(&self) -> bool {
        !self.is_dropped || is_planted(Bug::DroppedEntriesReplayed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const P: PartitionId = PartitionId(7);

    fn creation(number: u32, partition: u64, continues: Option<(u32, u64)>) -> Creation {
        Creation {
            number: LogPartition(number),
            partition: PartitionId(partition),
            seed: 0,
            continues: continues.map(|(number, through)| (LogPartition(number), through)),
            is_incoming: false,
            is_dropped: false,
        }
    }

    fn owned(creations: &Creations, partition: u64, number: u32) -> Vec<u64> {
        let owns = |index: &u64| creations.belongs(PartitionId(partition), LogPartition(number), *index);
        (1..10).filter(owns).collect()
    }

    fn table(rows: &[Creation]) -> Creations {
        let mut creations = Creations::default();
        rows.iter().for_each(|row| creations.add(*row));
        creations
    }

    #[test]
    fn truncations_compose_to_the_lower_index() {
        let creations =
            table(&[creation(1, 7, None), creation(2, 7, Some((1, 5))), creation(3, 7, Some((2, 3)))]);
        assert_eq!(creations.present(P), Some(LogPartition(3)));
        assert_eq!((owned(&creations, 7, 1), owned(&creations, 7, 2)), (vec![1, 2, 3], vec![1, 2, 3]));
        assert_eq!(owned(&creations, 7, 3).len(), 9);
        assert_eq!(owned(&creations, 8, 3), []);
    }

    #[test]
    fn children_of_a_split_own_the_parent_through_its_end() {
        let gone = Creation { is_dropped: true, ..creation(1, 7, None) };
        let creations =
            table(&[creation(1, 7, None), creation(2, 8, Some((1, 4))), creation(3, 9, Some((1, 4))), gone]);
        assert_eq!(creations.present(P), None);
        assert_eq!(owned(&creations, 7, 1), []);
        assert_eq!((owned(&creations, 8, 1), owned(&creations, 9, 1)), (vec![1, 2, 3, 4], vec![1, 2, 3, 4]));
    }

    #[test]
    fn returned_partition_owns_nothing_of_its_earlier_life() {
        let gone = Creation { is_dropped: true, ..creation(1, 7, None) };
        let creations = table(&[creation(1, 7, None), gone, creation(2, 7, None)]);
        assert_eq!((owned(&creations, 7, 1), creations.present(P)), (vec![], Some(LogPartition(2))));
    }

    #[test]
    fn incoming_number_counts_only_once_a_complete_one_continues_it() {
        let incoming = Creation { is_incoming: true, ..creation(1, 7, None) };
        let mut creations = table(&[incoming]);
        assert_eq!(creations.present(P), None);
        creations.add(creation(2, 7, Some((1, 6))));
        let lineage: Vec<Ancestor> = creations.lineage(P).collect();
        assert_eq!(lineage.iter().map(|a| a.is_incoming).collect::<Vec<_>>(), [false, true]);
        assert_eq!(owned(&creations, 7, 1).len(), 6);
    }

    #[test]
    fn order_and_repetition_of_rows_do_not_matter() {
        let gone = Creation { is_dropped: true, ..creation(3, 7, Some((2, 3))) };
        let rows = [creation(1, 7, None), creation(2, 7, Some((1, 5))), creation(3, 7, Some((2, 3))), gone];
        let forward = table(&rows);
        let mut reverse = rows.to_vec();
        reverse.extend_from_slice(&rows);
        reverse.reverse();
        let reverse = table(&reverse);
        assert_eq!((forward.present(P), reverse.present(P)), (None, None));
        assert!(forward.rows().eq(reverse.rows()));
    }
}
