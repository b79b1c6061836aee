//! Finds the slot of a partition by keyspace and number.

use zerohop_wire::ids::{KeyspaceId, PartitionId};

/// Names a partition of an instance.
pub type PartitionKey = (KeyspaceId, PartitionId);

/// The place of a partition in a table. It is used again after the partition was removed.
pub(super) type SlotId = u32;

/// No partition is at this number.
const EMPTY: SlotId = SlotId::MAX;

/// The slots by keyspace and number, in order. A keyspace is searched linearly: there are only a few, so that this is as fast as
/// any table. A partition is found by its number.
#[derive(Debug, Default)]
pub(super) struct PartitionIndex {
    /// In the order of their ids; each has a partition.
    keyspaces: Vec<(KeyspaceId, Vec<SlotId>)>,
}

impl PartitionIndex {
    #[inline]
    pub(super) fn get(&self, (keyspace, partition): PartitionKey) -> Option<SlotId> {
        let (_, slots) = self.keyspaces.iter().find(|(id, _)| *id == keyspace)?;
        slots.get(partition.0 as usize).copied().filter(|slot| *slot != EMPTY)
    }

    pub(super) fn insert(&mut self, (keyspace, partition): PartitionKey, slot: SlotId) {
        let at = self.keyspaces.binary_search_by_key(&keyspace, |(id, _)| *id).unwrap_or_else(|at| {
            self.keyspaces.insert(at, (keyspace, Vec::new()));
            at
        });
        let (slots, at) = (&mut self.keyspaces[at].1, partition.0 as usize);
        if slots.len() <= at {
            slots.resize(at + 1, EMPTY);
        }
        slots[at] = slot;
    }

    pub(super) fn remove(&mut self, (keyspace, partition): PartitionKey) -> Option<SlotId> {
        let at = self.keyspaces.iter().position(|(id, _)| *id == keyspace)?;
        let slots = &mut self.keyspaces[at].1;
        let slot = std::mem::replace(slots.get_mut(partition.0 as usize)?, EMPTY);
        if slots.iter().all(|slot| *slot == EMPTY) {
            self.keyspaces.remove(at);
        }
        Some(slot).filter(|slot| *slot != EMPTY)
    }

    /// All slots, in the order of their keys.
    pub(super) fn iter(&self) -> impl Iterator<Item = (PartitionKey, SlotId)> + '_ {
        self.keyspaces.iter().flat_map(|(keyspace, slots)| {
            let numbered = (0..).map(PartitionId).zip(slots);
            numbered.filter(|(_, slot)| **slot != EMPTY).map(|(id, slot)| ((*keyspace, id), *slot))
        })
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
