//! Finds the slot of a partition by keyspace and number.

use std::collections::BTreeMap;

use zerohop_wire::ids::{KeyspaceId, PartitionId};

/// Names a partition of an instance.
pub type PartitionKey = (KeyspaceId, PartitionId);

/// The place of a partition in a table. It is used again after the partition was removed.
pub(super) type SlotId = u32;

/// No partition is at this number.
const EMPTY: SlotId = SlotId::MAX;

/// Numbers below this one are found by position. Only regions that were split very often have higher ones.
const DENSE_NUMBERS: u32 = 1 << 16;

/// The slots by keyspace and number, in order. A keyspace is searched linearly: there are only a few, so that this is as fast as
/// any table. A partition is found by its number.
#[derive(Debug, Default)]
pub(super) struct PartitionIndex {
    /// In the order of their ids; each has a partition.
    keyspaces: Vec<(KeyspaceId, NumberedSlots)>,
}

/// The slots of a keyspace.
#[derive(Debug, Default)]
struct NumberedSlots {
    dense: Vec<SlotId>,
    sparse: BTreeMap<u32, SlotId>,
}

impl NumberedSlots {
    #[inline]
    fn get(&self, number: u32) -> Option<SlotId> {
        match self.dense.get(number as usize) {
            Some(slot) => Some(*slot).filter(|slot| *slot != EMPTY),
            None => self.sparse.get(&number).copied(),
        }
    }

    fn insert(&mut self, number: u32, slot: SlotId) {
        if number >= DENSE_NUMBERS {
            self.sparse.insert(number, slot);
            return;
        }
        let at = number as usize;
        if self.dense.len() <= at {
            self.dense.resize(at + 1, EMPTY);
        }
        self.dense[at] = slot;
    }

    fn remove(&mut self, number: u32) -> Option<SlotId> {
        match self.dense.get_mut(number as usize) {
            Some(slot) => Some(std::mem::replace(slot, EMPTY)).filter(|slot| *slot != EMPTY),
            None => self.sparse.remove(&number),
        }
    }

    fn is_empty(&self) -> bool {
        self.sparse.is_empty() && self.dense.iter().all(|slot| *slot == EMPTY)
    }

    fn iter(&self) -> impl Iterator<Item = (PartitionId, SlotId)> + '_ {
        let dense = (0..).map(PartitionId).zip(self.dense.iter().copied()).filter(|(_, slot)| *slot != EMPTY);
        dense.chain(self.sparse.iter().map(|(number, slot)| (PartitionId(*number), *slot)))
    }
}

impl PartitionIndex {
    #[inline]
    pub(super) fn get(&self, (keyspace, partition): PartitionKey) -> Option<SlotId> {
        let (_, slots) = self.keyspaces.iter().find(|(id, _)| *id == keyspace)?;
        slots.get(partition.0)
    }

    pub(super) fn insert(&mut self, (keyspace, partition): PartitionKey, slot: SlotId) {
        let at = self.keyspaces.binary_search_by_key(&keyspace, |(id, _)| *id).unwrap_or_else(|at| {
            self.keyspaces.insert(at, (keyspace, NumberedSlots::default()));
            at
        });
        self.keyspaces[at].1.insert(partition.0, slot);
    }

    pub(super) fn remove(&mut self, (keyspace, partition): PartitionKey) -> Option<SlotId> {
        let at = self.keyspaces.iter().position(|(id, _)| *id == keyspace)?;
        let slots = &mut self.keyspaces[at].1;
        let slot = slots.remove(partition.0);
        if slots.is_empty() {
            self.keyspaces.remove(at);
        }
        slot
    }

    /// All slots, in the order of their keys.
    pub(super) fn iter(&self) -> impl Iterator<Item = (PartitionKey, SlotId)> + '_ {
        self.keyspaces
            .iter()
            .flat_map(|(keyspace, slots)| slots.iter().map(|(id, slot)| ((*keyspace, id), slot)))
    }

    /// The keyspaces that have a partition, in order.
    pub(super) fn keyspaces(&self) -> impl Iterator<Item = KeyspaceId> + '_ {
        self.keyspaces.iter().map(|(id, _)| *id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(keyspace: u32, partition: u32) -> PartitionKey {
        (KeyspaceId(keyspace), PartitionId(partition))
    }

    #[test]
    fn partitions_are_found_listed_in_order_and_removed() {
        let mut index = PartitionIndex::default();
        for (slot, name) in (0..).zip([key(7, 3), key(2, 9), key(7, 0), key(9, 0)]) {
            index.insert(name, slot);
        }
        assert_eq!(index.get(key(2, 9)), Some(1));
        assert_eq!([index.get(key(2, 8)), index.get(key(2, 99)), index.get(key(3, 0))], [None; 3]);
        let all: Vec<_> = index.iter().collect();
        assert_eq!(all, [(key(2, 9), 1), (key(7, 0), 2), (key(7, 3), 0), (key(9, 0), 3)]);
        assert_eq!(
            (index.remove(key(7, 0)), index.remove(key(7, 0)), index.remove(key(1, 0))),
            (Some(2), None, None)
        );
        assert_eq!((index.remove(key(7, 3)), index.get(key(7, 3))), (Some(0), None));
        let left: Vec<_> = index.keyspaces().collect();
        assert_eq!(left, [KeyspaceId(2), KeyspaceId(9)]);
    }
}
