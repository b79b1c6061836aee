//! The region in the locks of a `Prepare` entry.
//!
//! In a hashed keyspace the lock keys are points, so a child of a split finds the locks that are its own, and whether all of them are. In an ordered
//! keyspace lock keys are hashes of keys, and points name regions: a child keeps all locks of its parent, of which its sibling's do no harm. To tell
//! what its parent has prepared from what it has prepared itself, the entry has one more lock: the number of the region, with an access that no
//! transform has. It is not acquired.

use zerohop_wire::ids::PartitionId;

use crate::id::KeyspaceRange;
use crate::intents::{Intents, Locks};
use crate::item::Access;

/// The access of this lock.
const REGION: Access = Access::Transform(u8::MAX);

impl Intents {
    /// The locks for the entry of a part that is prepared here. A lock of the part with the same key takes the place of the region's; then a child
    /// takes the part for one of its parent, and the transaction is tried again.
    pub(crate) fn logged(&self, mut locks: Locks) -> Locks {
        if let Some(region) = self.region.map(lock_of)
            && let Err(at) = locks.binary_search_by_key(&region.0, |(lock_key, _)| *lock_key)
        {
            locks.insert(at, region);
        }
        locks
    }

    /// Those of the locks of an entry that are acquired here: this partition may have been split off from a larger one since.
    pub(crate) fn own_of(&self, locks: &Locks, points: KeyspaceRange) -> Locks {
        let is_own = |(lock_key, access): &(u64, Access)| match self.region {
            None => points.contains_lock_key(*lock_key),
            Some(_) => *access != REGION,
        };
        locks.iter().copied().filter(is_own).collect()
    }

    /// Whether all that an entry prepares is in this partition.
    pub(crate) fn has_all(&self, locks: &Locks, points: KeyspaceRange) -> bool {
        match self.region.map(lock_of) {
            None => locks.iter().all(|(lock_key, _)| points.contains_lock_key(*lock_key)),
            Some(region) => locks.contains(&region),
        }
    }
}

fn lock_of(region: PartitionId) -> (u64, Access) {
    (u64::from(region.get()), REGION)
}

#[cfg(test)]
mod tests {
    use zerohop_wire::ids::KeyspaceId;

    use super::*;

    const POINTS: KeyspaceRange = KeyspaceRange { keyspace: KeyspaceId(1), first: 100, last: 199 };

    fn intents(region: Option<u32>) -> Intents {
        Intents::of(region.map(PartitionId))
    }

    #[test]
    fn child_takes_all_locks_of_its_parent_and_knows_that_it_has_not_all_items() {
        let locks: Locks = vec![(3, Access::Read), (150, Access::Write), (u64::MAX, Access::Transform(1))];
        let parent = intents(Some(7)).logged(locks.clone());
        assert_eq!(parent.iter().map(|(lock_key, _)| *lock_key).collect::<Vec<_>>(), [3, 7, 150, u64::MAX]);
        for (region, has_all) in [(7, true), (8, false)] {
            let one = intents(Some(region));
            assert_eq!(
                (one.own_of(&parent, POINTS), one.has_all(&parent, POINTS)),
                (locks.clone(), has_all),
                "{region}"
            );
        }
        let hashed = intents(None);
        assert_eq!(hashed.logged(locks.clone()), locks);
        assert_eq!(
            (hashed.own_of(&locks, POINTS), hashed.has_all(&locks, POINTS)),
            (vec![(150, Access::Write)], false)
        );
        assert!(hashed.has_all(&vec![(100, Access::Write), (199, Access::Read)], POINTS));
    }

    #[test]
    fn lock_with_the_number_of_the_region_takes_its_place() {
        let locks: Locks = vec![(7, Access::Write)];
        let one = intents(Some(7));
        assert_eq!(one.logged(locks.clone()), locks);
        assert!(!one.has_all(&locks, POINTS), "the transaction is tried again after a failover");
        assert_eq!(one.own_of(&locks, POINTS), locks);
    }
}
