//! Checks committed entries, beyond what clients can observe. All members of a group apply the same
//! entry at each index. What a primary applies is stored by all in-sync replicas. There are at
//! least as many of these as an acknowledged write requires. A violation becomes visible to a
//! client only after one more fault.
//!
//! Entries are compared by the epoch at an index: logs that match there are the same up to there.
//! Another entry may stand at an index only after a group went on with a log in doubt: from that
//! epoch on, the comparison starts again.

use std::collections::BTreeMap;

use zerohop_wire::ids::{Incarnation, InstanceId, KeyspaceId, PartitionEpoch, PartitionId};

/// Of the entries that a member applies in one turn, only the last so many are compared: a snapshot
/// install delivers thousands.
pub(super) const COMPARED_ENTRIES_MAX: u64 = 64;

/// A partition, with its keyspace's number of partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PartitionKey {
    pub(super) keyspace: KeyspaceId,
    pub(super) partitions: u32,
    pub(super) partition: PartitionId,
}

/// The entries that a member has applied in a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AppliedEntries {
    pub(crate) keyspace: KeyspaceId,
    pub(crate) partition: PartitionId,
    /// The member's epoch.
    pub(crate) epoch: PartitionEpoch,
    pub(crate) is_primary: bool,
    /// Also this epoch, which the member led when the turn began: it finishes what it has begun
    /// before it follows a new map.
    pub(crate) primary_epoch: Option<PartitionEpoch>,
    /// The highest index applied.
    pub(crate) upto: u64,
    /// Index and epoch of the entries that are compared.
    pub(crate) entries: Vec<(u64, u32)>,
}

/// What an in-sync replica has of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemberLog {
    pub(crate) epoch: PartitionEpoch,
    pub(crate) last: u64,
    pub(crate) durable: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct AgreedEntries {
    /// The epochs in which partitions went on with a log in doubt.
    again: BTreeMap<PartitionKey, Vec<PartitionEpoch>>,
    /// Per partition, and per period between two such epochs: the epoch of the entry at each index,
    /// and the first instance that applied it.
    entries: BTreeMap<(PartitionKey, usize), BTreeMap<u64, (u32, InstanceId)>>,
    /// The in-sync replicas of each observed epoch, the primary first.
    groups: BTreeMap<(KeyspaceId, PartitionId, PartitionEpoch), Vec<(InstanceId, Incarnation)>>,
}

impl AgreedEntries {
    /// From this epoch on, a partition's log may lack its end.
    pub(super) fn begins_again(&mut self, whose: PartitionKey, epoch: PartitionEpoch) {
        self.again.entry(whose).or_default().push(epoch);
    }

    /// Records the in-sync replicas of an epoch.
    pub(super) fn see(
        &mut self,
        (keyspace, partition, epoch): (KeyspaceId, PartitionId, PartitionEpoch),
        in_sync: Vec<(InstanceId, Incarnation)>,
    ) {
        self.groups.insert((keyspace, partition, epoch), in_sync);
    }

    /// The replicas that must have what is applied in an epoch; empty if the epoch was not
    /// observed.
    pub(super) fn in_sync(
        &self,
        keyspace: KeyspaceId,
        partition: PartitionId,
        epoch: PartitionEpoch,
    ) -> &[(InstanceId, Incarnation)] {
        self.groups.get(&(keyspace, partition, epoch)).map_or(&[], Vec::as_slice)
    }

    /// The number of copies of what is acknowledged in an epoch, if it is lower than `requested`.
    pub(super) fn too_few(
        &self,
        (keyspace, partition, epoch): (KeyspaceId, PartitionId, PartitionEpoch),
        requested: u8,
    ) -> Option<usize> {
        let copies = self.in_sync(keyspace, partition, epoch).len();
        (1..usize::from(requested)).contains(&copies).then_some(copies)
    }

    /// A member has applied entries.
    ///
    /// # Errors
    /// Another member has applied a different entry at one of the indexes.
    pub(super) fn applies(
        &mut self,
        whose: PartitionKey,
        by: InstanceId,
        applied: &AppliedEntries,
    ) -> Result<(), String> {
        let again = self.again.get(&whose).into_iter().flatten();
        let time = again.filter(|epoch| **epoch <= applied.epoch).count();
        let known = self.entries.entry((whose, time)).or_default();
        for (index, epoch) in &applied.entries {
            let (first, who) = *known.entry(*index).or_insert((*epoch, by));
            if first != *epoch {
                return Err(format!(
                    "{by} applies the entry of epoch {epoch} at index {index}, and {who} that of epoch {first}"
                ));
            }
        }
        Ok(())
    }
}

/// Whether an in-sync replica has what its primary has applied in an epoch, durably if `is_sync`. A
/// replica of a later epoch may have released it since.
pub(super) fn is_replicated(applied: &AppliedEntries, by: MemberLog, is_sync: bool) -> bool {
    by.epoch > applied.epoch
        || by.epoch == applied.epoch && by.last >= applied.upto && (!is_sync || by.durable >= applied.upto)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: InstanceId = InstanceId(1);
    const B: InstanceId = InstanceId(2);
    const PARTITION: PartitionKey =
        PartitionKey { keyspace: KeyspaceId(7), partitions: 2, partition: PartitionId(1) };

    fn applied(epoch: u64, entries: &[(u64, u32)]) -> AppliedEntries {
        AppliedEntries {
            keyspace: PARTITION.keyspace,
            partition: PARTITION.partition,
            epoch: PartitionEpoch(epoch),
            is_primary: true,
            primary_epoch: None,
            upto: entries.last().map_or(0, |(index, _)| *index),
            entries: entries.to_vec(),
        }
    }

    #[test]
    fn same_entries_may_be_applied_by_any_member_at_any_time() {
        let mut agreed = AgreedEntries::default();
        assert_eq!(agreed.applies(PARTITION, A, &applied(1, &[(1, 1), (2, 1)])), Ok(()));
        assert_eq!(agreed.applies(PARTITION, B, &applied(2, &[(2, 1), (3, 2)])), Ok(()));
        assert_eq!(agreed.applies(PARTITION, A, &applied(2, &[(3, 2)])), Ok(()));
        let other = PartitionKey { partitions: 4, ..PARTITION };
        assert_eq!(agreed.applies(other, A, &applied(5, &[(3, 5)])), Ok(()), "a child's log");
    }

    #[test]
    fn another_entry_at_an_index_is_found() {
        let mut agreed = AgreedEntries::default();
        assert_eq!(agreed.applies(PARTITION, A, &applied(2, &[(8, 2), (9, 2)])), Ok(()));
        let differs = agreed.applies(PARTITION, B, &applied(2, &[(9, 1)]));
        assert!(differs.is_err_and(|text| text.contains("index 9")));
    }

    #[test]
    fn recovery_may_replace_entries_and_late_old_ones_are_ignored() {
        let mut agreed = AgreedEntries::default();
        assert_eq!(agreed.applies(PARTITION, A, &applied(2, &[(9, 2)])), Ok(()));
        agreed.begins_again(PARTITION, PartitionEpoch(4));
        assert_eq!(agreed.applies(PARTITION, B, &applied(4, &[(9, 4)])), Ok(()));
        assert_eq!(agreed.applies(PARTITION, A, &applied(3, &[(9, 2)])), Ok(()), "it has not heard");
        assert!(agreed.applies(PARTITION, A, &applied(5, &[(9, 2)])).is_err());
    }

    #[test]
    fn acknowledged_write_has_enough_copies() {
        let mut agreed = AgreedEntries::default();
        let at = |epoch| (PARTITION.keyspace, PARTITION.partition, PartitionEpoch(epoch));
        agreed.see(at(3), vec![(A, Incarnation(1)), (B, Incarnation(1))]);
        agreed.see(at(4), vec![(B, Incarnation(1))]);
        assert_eq!((agreed.too_few(at(3), 2), agreed.too_few(at(3), 3)), (None, Some(2)));
        assert_eq!((agreed.too_few(at(4), 1), agreed.too_few(at(4), 2)), (None, Some(1)));
        assert_eq!(agreed.too_few(at(5), 2), None, "between two maps that were seen");
    }

    #[test]
    fn in_sync_replicas_have_applied_entries_durably() {
        let what = applied(3, &[(9, 3)]);
        let holds = |epoch, last, durable| MemberLog { epoch: PartitionEpoch(epoch), last, durable };
        assert!(is_replicated(&what, holds(3, 9, 9), true) && is_replicated(&what, holds(3, 12, 0), false));
        assert!(!is_replicated(&what, holds(3, 9, 8), true), "not durable");
        assert!(!is_replicated(&what, holds(3, 8, 8), false), "not there");
        assert!(!is_replicated(&what, holds(2, 9, 9), true), "said in an older epoch, it does not count");
        assert!(is_replicated(&what, holds(4, 0, 0), true), "it has left since");
    }
}
