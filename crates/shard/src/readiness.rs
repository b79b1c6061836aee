//! Keyspaces that are being dropped, or that are to be split. The control group is notified once this instance is ready.
//!
//! *Dropped*: no new work starts in the keyspace, and the report says that nothing is in progress. Requests are answered that it
//! does not exist, as after the drop. Only a repeated transaction still gets its outcome. Messages of other partitions about
//! running transactions are handled, and decided transactions are completed. No partition prepares a new transaction. A drained
//! partition therefore remains drained while the same primary has it, and a new primary is queried again.
//!
//! *Split*: no unit over several keys starts in the partitions, and no transaction is coordinated there. The report says that all
//! earlier ones are committed. Reads, writes of one key, and parts of transactions that other partitions coordinate go on: each
//! child can complete its half of those. Without this, the children could get different primaries after a failure, and one could
//! have its half of an unacknowledged unit while the other has lost its own.

use std::collections::BTreeMap;

use zerohop_engine::disk::Disk;
use zerohop_placement::{ClusterMap, Group, PendingSplit};
use zerohop_wire::ids::{KeyspaceId, PartitionEpoch, PartitionId};

use super::{Instance, InstanceEffect, InstanceEffects};
use crate::limits::{DRAINED_AGAIN_MS, DRAINED_AGAIN_MS_MAX, DRAINED_CHECK_MS, DRAINED_CHECK_MS_MAX};
use zerohop_partition::planted::{Bug, is_planted};

/// The keyspaces whose readiness the control group waits for; see the module.
#[derive(Debug, Default)]
pub(super) struct Readiness {
    keyspaces: BTreeMap<KeyspaceId, AwaitedKeyspace>,
}

#[derive(Clone, Debug)]
struct AwaitedKeyspace {
    due: NextCheck,
    /// The pending split; `None`: the keyspace is being dropped.
    split: Option<PendingSplit>,
    /// Of each partition that is to be split and has its primary here: up to where its log must be committed, in this epoch.
    barriers: BTreeMap<PartitionId, (PartitionEpoch, u64)>,
}

/// When to check a keyspace next, on the monotonic clock. The other fields are the pauses until the check after that: `check_ms`
/// while work is in progress, `again_ms` once it was reported that none is.
#[derive(Clone, Copy, Debug)]
struct NextCheck {
    at_ms: u64,
    check_ms: u64,
    again_ms: u64,
}

impl NextCheck {
    const NOW: NextCheck = NextCheck { at_ms: 0, check_ms: DRAINED_CHECK_MS, again_ms: DRAINED_AGAIN_MS };

    fn checked(&mut self, elapsed_ms: u64, is_ready: bool) {
        if is_ready {
            self.at_ms = elapsed_ms + self.again_ms;
            self.again_ms = DRAINED_AGAIN_MS_MAX.min(2 * self.again_ms);
        } else {
            self.at_ms = elapsed_ms + self.check_ms;
            self.check_ms = DRAINED_CHECK_MS_MAX.min(2 * self.check_ms);
        }
    }
}

impl Readiness {
    pub(super) fn of(map: &ClusterMap) -> Readiness {
        let mut readiness = Readiness::default();
        readiness.follow(map, &[]);
        readiness
    }

    /// The map has changed these keyspaces, so earlier reports about them may not hold any more.
    pub(super) fn follow(&mut self, map: &ClusterMap, touched: &[KeyspaceId]) {
        let mut before = std::mem::take(&mut self.keyspaces);
        for (id, found) in map.keyspaces() {
            let split = found.pending_split();
            if !found.is_dropping() && split.is_none() {
                continue;
            }
            let known = before.remove(&id).filter(|one| one.split.as_ref() == split);
            let mut awaited = known.unwrap_or_else(|| AwaitedKeyspace {
                due: NextCheck::NOW,
                split: split.cloned(),
                barriers: BTreeMap::new(),
            });
            if touched.contains(&id) {
                awaited.due = NextCheck::NOW;
            }
            self.keyspaces.insert(id, awaited);
        }
    }

    /// Whether a keyspace is being dropped. Usually this checks an empty map.
    #[inline]
    pub(super) fn is_dropping(&self, keyspace: KeyspaceId) -> bool {
        !self.keyspaces.is_empty() && self.keyspaces.get(&keyspace).is_some_and(|one| one.split.is_none())
    }

    /// Whether a partition is to be split. Usually this checks an empty map.
    #[inline]
    pub(super) fn awaits_split(&self, keyspace: KeyspaceId, partition: PartitionId) -> bool {
        let split = || self.keyspaces.get(&keyspace)?.split.as_ref();
        !self.keyspaces.is_empty() && split().is_some_and(|split| split.covers(partition))
    }

    pub(super) fn next_tick_ms(&self, elapsed_ms: u64) -> u64 {
        self.keyspaces.values().map(|one| one.due.at_ms.max(elapsed_ms + 1)).min().unwrap_or(u64::MAX)
    }
}

impl<D: Disk> Instance<D> {
    /// Reports the keyspaces in which this instance is ready, at the end of each batch.
    pub(super) fn report_readiness(&mut self, effects: &mut dyn InstanceEffects) {
        let elapsed_ms = self.clock.elapsed_ms();
        let is_due = |one: &AwaitedKeyspace| one.due.at_ms <= elapsed_ms;
        if !self.readiness.keyspaces.values().any(is_due) {
            return;
        }
        let epoch = self.map().epoch();
        let due = self.readiness.keyspaces.iter().filter(|(_, one)| is_due(one));
        let due: Vec<_> = due.map(|(id, one)| (*id, one.split.clone())).collect();
        for (keyspace, split) in due {
            let (is_ready, has_primary) = match split {
                None => {
                    let is_drained = self.is_drained(keyspace) || is_planted(Bug::KeyspaceNotDrained);
                    (is_drained, self.primary_of(keyspace).next().is_some())
                }
                Some(split) => self.is_ready_to_split(keyspace, &split),
            };
            if let Some(one) = self.readiness.keyspaces.get_mut(&keyspace) {
                one.due.checked(elapsed_ms, is_ready);
            }
            if is_ready && has_primary {
                effects.push(InstanceEffect::Drained { keyspace, map: epoch });
            }
        }
    }

    /// The keyspaces that are being dropped according to the map here, and in which nothing is in progress here.
    pub(super) fn drained(&self) -> Vec<KeyspaceId> {
        let dropping = self.readiness.keyspaces.iter().filter(|(_, one)| one.split.is_none());
        dropping.map(|(keyspace, _)| *keyspace).filter(|keyspace| self.is_drained(*keyspace)).collect()
    }

    /// Whether nothing is in progress in any partition whose primary this instance is.
    fn is_drained(&self, keyspace: KeyspaceId) -> bool {
        // A partition that waits for a split, or that could not be opened, is not known to be drained.
        self.primary_of(keyspace).all(|(id, group)| {
            let replica = self.partitions.replica(keyspace, id);
            replica.is_some_and(|replica| replica.view().epoch == group.epoch && replica.is_drained())
        })
    }

    /// Whether all units over several keys are committed in the partitions that are to be split and have their primary here, and
    /// whether there is such a partition.
    fn is_ready_to_split(&mut self, keyspace: KeyspaceId, split: &PendingSplit) -> (bool, bool) {
        let own = self.primary_of(keyspace).filter(|(id, _)| split.covers(*id));
        let own: Vec<(PartitionId, PartitionEpoch)> = own.map(|(id, group)| (id, group.epoch)).collect();
        let has_primary = !own.is_empty();
        let Some(awaited) = self.readiness.keyspaces.get_mut(&keyspace) else { return (false, has_primary) };
        let mut is_ready = true;
        for (id, epoch) in own {
            // A partition that could not be opened is not known to be ready.
            let replica =
                self.partitions.replica(keyspace, id).filter(|replica| replica.view().epoch == epoch);
            let known = awaited.barriers.get(&id).filter(|(of, _)| *of == epoch).map(|(_, index)| *index);
            let barrier = known.or_else(|| replica.and_then(|replica| replica.split_barrier()));
            let is_committed =
                replica.zip(barrier).is_some_and(|(replica, index)| replica.applied() >= index);
            if let Some(index) = barrier {
                awaited.barriers.insert(id, (epoch, index));
            }
            is_ready &= is_committed || is_planted(Bug::SplitNotPrepared);
        }
        (is_ready, has_primary)
    }

    /// The partitions of a keyspace whose primary this instance is.
    fn primary_of(&self, keyspace: KeyspaceId) -> impl Iterator<Item = (PartitionId, Group<'_>)> {
        let me = self.identity.instance;
        let groups = self.map().keyspace(keyspace).into_iter().flat_map(|found| found.groups());
        groups.filter(move |(_, group)| group.primary == me)
    }
}
