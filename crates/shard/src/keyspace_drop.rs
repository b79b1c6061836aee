//! Keyspaces that are being dropped. No new work starts in them, and the control group is notified once nothing is in progress.
//!
//! Requests for such a keyspace are answered that it does not exist, as after the drop. Only a repeated transaction still gets
//! its outcome. Messages of other partitions about running transactions are handled, and decided transactions are completed. No
//! partition prepares a new transaction. A drained partition therefore remains drained while the same primary has it, and a new
//! primary is queried again.

use std::collections::BTreeMap;

use zerohop_engine::disk::Disk;
use zerohop_placement::{ClusterMap, Group};
use zerohop_wire::ids::{KeyspaceId, PartitionId};

use super::{Instance, InstanceEffect, InstanceEffects};
use crate::limits::{DRAINED_AGAIN_MS, DRAINED_AGAIN_MS_MAX, DRAINED_CHECK_MS, DRAINED_CHECK_MS_MAX};
use zerohop_partition::planted::{Bug, is_planted};

/// The keyspaces that are being dropped; see the module.
#[derive(Debug, Default)]
pub(super) struct DroppingKeyspaces {
    keyspaces: BTreeMap<KeyspaceId, NextCheck>,
}

/// When to check a keyspace next, on the monotonic clock. The other fields are the pauses until the check after that: `check_ms`
/// while work is in progress, `again_ms` once it was reported that none is.
#[derive(Clone, Copy, Debug)]
struct NextCheck {
    at_ms: u64,
    check_ms: u64,
    again_ms: u64,
}

impl DroppingKeyspaces {
    pub(super) fn of(map: &ClusterMap) -> DroppingKeyspaces {
        let mut dropping = DroppingKeyspaces::default();
        dropping.follow(map, &[]);
        dropping
    }

    /// The map has changed these keyspaces, so earlier reports about them may not hold any more.
    pub(super) fn follow(&mut self, map: &ClusterMap, touched: &[KeyspaceId]) {
        let before = std::mem::take(&mut self.keyspaces);
        let now = NextCheck { at_ms: 0, check_ms: DRAINED_CHECK_MS, again_ms: DRAINED_AGAIN_MS };
        for (id, _) in map.keyspaces().filter(|(_, found)| found.is_dropping()) {
            let due = before.get(&id).filter(|_| !touched.contains(&id)).copied().unwrap_or(now);
            self.keyspaces.insert(id, due);
        }
    }

    /// Whether a keyspace is being dropped. Usually this checks an empty map.
    #[inline]
    pub(super) fn has(&self, keyspace: KeyspaceId) -> bool {
        !self.keyspaces.is_empty() && self.keyspaces.contains_key(&keyspace)
    }

    pub(super) fn next_tick_ms(&self, elapsed_ms: u64) -> u64 {
        self.keyspaces.values().map(|due| due.at_ms.max(elapsed_ms + 1)).min().unwrap_or(u64::MAX)
    }
}

impl<D: Disk> Instance<D> {
    /// Reports the keyspaces in which nothing is in progress here, at the end of each batch.
    pub(super) fn report_drained(&mut self, effects: &mut dyn InstanceEffects) {
        let elapsed_ms = self.clock.elapsed_ms();
        let is_due = |due: &NextCheck| due.at_ms <= elapsed_ms;
        if !self.draining.keyspaces.values().any(is_due) {
            return;
        }
        let epoch = self.map().epoch();
        let due = self.draining.keyspaces.iter().filter(|(_, due)| is_due(due)).map(|(id, _)| *id);
        for keyspace in due.collect::<Vec<_>>() {
            let is_drained = self.is_drained(keyspace) || is_planted(Bug::KeyspaceNotDrained);
            let has_primary = self.primary_of(keyspace).next().is_some();
            let Some(due) = self.draining.keyspaces.get_mut(&keyspace) else { continue };
            if is_drained {
                due.at_ms = elapsed_ms + due.again_ms;
                due.again_ms = DRAINED_AGAIN_MS_MAX.min(2 * due.again_ms);
                if has_primary {
                    effects.push(InstanceEffect::Drained { keyspace, map: epoch });
                }
            } else {
                due.at_ms = elapsed_ms + due.check_ms;
                due.check_ms = DRAINED_CHECK_MS_MAX.min(2 * due.check_ms);
            }
        }
    }

    /// The keyspaces that are being dropped according to the map here, and in which nothing is in progress here.
    pub(super) fn drained(&self) -> Vec<KeyspaceId> {
        self.draining.keyspaces.keys().copied().filter(|keyspace| self.is_drained(*keyspace)).collect()
    }

    /// Whether nothing is in progress in any partition whose primary this instance is.
    fn is_drained(&self, keyspace: KeyspaceId) -> bool {
        // A partition that waits for a split, or that could not be opened, is not known to be drained.
        self.primary_of(keyspace).all(|(id, group)| {
            let replica = self.partitions.replica(keyspace, id);
            replica.is_some_and(|replica| replica.view().epoch == group.epoch && replica.is_drained())
        })
    }

    /// The partitions of a keyspace whose primary this instance is.
    fn primary_of(&self, keyspace: KeyspaceId) -> impl Iterator<Item = (PartitionId, Group<'_>)> {
        let me = self.identity.instance;
        let groups = self.map().keyspace(keyspace).into_iter().flat_map(|found| found.groups());
        groups.filter(move |(_, group)| group.primary == me)
    }
}
