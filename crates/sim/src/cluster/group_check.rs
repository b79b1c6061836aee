//! After all faults: every group is complete, and its members have the same contents (I6).

use std::collections::BTreeMap;
use std::sync::Arc;

use zerohop_base::time::Time;
use zerohop_placement::{Group, GroupState, KeyspaceConfig};
use zerohop_replication::{Digest, Role};
use zerohop_wire::ids::{InstanceId, KeyspaceId, PartitionEpoch, PartitionId};

use super::{ClusterEvent, ClusterPhase, SimulatedCluster};
use crate::limits::{CLUSTER_HEALING_US, GROUPS_COMPLETE_US, SNAPSHOTS_OVER_US, TRANSACTIONS_OVER_US};

const EVERY_US: u64 = 500_000;

/// The state of a member of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
enum MemberContents {
    /// Its process does not run, or does not have the partition; with the reason.
    Not(&'static str),
    /// Its epoch, or `None` if it has been removed; and its contents, or why they are not known.
    In(Option<PartitionEpoch>, Result<Digest, String>),
}

/// The verdict on a group.
#[derive(Clone, Debug, PartialEq, Eq)]
enum GroupVerdict {
    Well,
    /// Not complete yet, with the reason.
    Not(String),
    /// Members have applied different entries, and every member has applied all that any had at the
    /// last look. Entries are being committed, and their followers are one message behind.
    Follows(String),
    /// All have applied the same entries and have different contents.
    Differs(String),
}

/// The highest index that any member of a group had applied at the last look.
pub(super) type AppliedIndexes = BTreeMap<(KeyspaceId, PartitionId), u64>;

/// The result of one look at all groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct GroupsSample {
    /// A group is not complete, or something remains that should be gone: older versions, a dropped
    /// keyspace.
    is_missing: bool,
    /// Members of a group lag behind entries that are being committed.
    is_following: bool,
    /// State of transactions remains.
    is_left: bool,
}

impl GroupsSample {
    /// Whether to look again before the verdict. Everything must be complete by `due`. Transactions
    /// have longer to end, and each end is an entry of its group, so a member may lag as long as
    /// they have time.
    fn is_check_repeated(self, now: Time, due: Time) -> bool {
        match self.is_missing {
            true => now < due,
            false => (self.is_following || self.is_left) && now < due.after_us(TRANSACTIONS_OVER_US),
        }
    }
}

/// The highest index that any member has applied.
fn farthest(found: &[(InstanceId, MemberContents)]) -> Option<u64> {
    let indices = found.iter().filter_map(|(_, found)| match found {
        MemberContents::In(_, Ok(digest)) => Some(digest.index),
        MemberContents::In(_, Err(_)) | MemberContents::Not(_) => None,
    });
    indices.max()
}

/// Judges a group by the map and its members, with so many instances up. `before` is the highest
/// applied index at the last look, if there was one.
fn check_group(
    config: &KeyspaceConfig,
    instances_up: usize,
    group: Group<'_>,
    found: &[(InstanceId, MemberContents)],
    before: Option<u64>,
) -> GroupVerdict {
    let requested = usize::from(config.replicas).min(instances_up);
    let members = group.members().count();
    if group.state != GroupState::Stable || members != requested {
        return GroupVerdict::Not(format!("has {members} of {requested} members: {group:?}"));
    }
    if group.in_sync.len() + 1 < usize::from(config.min_in_sync).min(requested) {
        return GroupVerdict::Not(format!("has too few in sync: {group:?}"));
    }
    if members == 1 {
        // There is no other member to compare with.
        return GroupVerdict::Well;
    }
    let mut digests = Vec::new();
    for (member, found) in found {
        match found {
            MemberContents::Not(why) => return GroupVerdict::Not(format!("{member} {why}")),
            MemberContents::In(epoch, _) if *epoch != Some(group.epoch) => {
                return GroupVerdict::Not(format!("{member} is in {epoch:?}, not in {group:?}"));
            }
            MemberContents::In(_, Err(why)) => {
                return GroupVerdict::Not(format!("no digest of {member}: {why}"));
            }
            MemberContents::In(_, Ok(digest)) => digests.push((*member, *digest)),
        }
    }
    let differs =
        |than: fn(&Digest, &Digest) -> bool| digests.iter().any(|(_, one)| than(one, &digests[0].1));
    if differs(|one, first| one.index != first.index) {
        let why = format!("members have applied different entries: {digests:?}");
        let has_followed = |before| digests.iter().all(|(_, digest)| digest.index >= before);
        return if before.is_some_and(has_followed) {
            GroupVerdict::Follows(why)
        } else {
            GroupVerdict::Not(why)
        };
    }
    match differs(|one, first| one != first) {
        true => GroupVerdict::Differs(format!("members hold different things: {digests:?}")),
        false => GroupVerdict::Well,
    }
}

impl SimulatedCluster {
    /// The deadline for complete groups, computed when the last calls have ended: these may have
    /// opened snapshots until then.
    pub(super) fn complete_groups_due(&self) -> Time {
        let now = self.now();
        let groups = self.history.healed.unwrap_or(now).after_us(CLUSTER_HEALING_US + GROUPS_COMPLETE_US);
        groups.max(now.after_us(SNAPSHOTS_OVER_US))
    }

    /// Checks whether all groups are complete, and repeats that until the deadline.
    pub(super) fn check_groups(&mut self) {
        let ClusterPhase::CompletingGroups { due } = self.phase else { return };
        let now = self.now();
        let groups: Vec<(KeyspaceId, PartitionId)> = self
            .watch
            .map
            .keyspaces()
            .flat_map(|(id, keyspace)| keyspace.groups().map(move |(partition, _)| (id, partition)))
            .collect();
        let judged: Vec<((KeyspaceId, PartitionId), GroupVerdict)> =
            groups.into_iter().map(|group| (group, self.check_partition_group(group.0, group.1))).collect();
        let dropping = self.watch.map.keyspaces().filter(|(_, keyspace)| keyspace.is_dropping());
        let dropping: Vec<KeyspaceId> = dropping.map(|(id, _)| id).collect();
        let is_missing = judged.iter().any(|(_, judged)| matches!(judged, GroupVerdict::Not(_)));
        let is_following = judged.iter().any(|(_, judged)| matches!(judged, GroupVerdict::Follows(_)));
        let kept = self.retaining_snapshots();
        let left = self.left_of_transactions();
        let looked = GroupsSample {
            is_missing: is_missing || !kept.is_empty() || !dropping.is_empty(),
            is_following,
            is_left: !left.is_empty(),
        };
        if looked.is_check_repeated(now, due) {
            return self.event_queue.at(now.after_us(EVERY_US), ClusterEvent::CheckGroups);
        }
        for kept in kept {
            self.record_violation("I8", kept);
        }
        for ((keyspace, partition), judged) in judged {
            match judged {
                GroupVerdict::Well => {}
                GroupVerdict::Not(_) if self.is_corrupt_sole_copy(keyspace, partition) => {
                    self.history.corrupt.push((keyspace, partition));
                }
                GroupVerdict::Not(why) | GroupVerdict::Follows(why) => {
                    self.record_violation("whole", format!("{keyspace}/{partition}: {why}"))
                }
                GroupVerdict::Differs(how) => {
                    self.record_violation("I6", format!("{keyspace}/{partition}: {how}"))
                }
            }
        }
        // Operations on a partition that cannot serve do not end.
        for left in left.into_iter().filter(|_| self.history.corrupt.is_empty()).collect::<Vec<_>>() {
            self.record_violation("I5", left);
        }
        for keyspace in dropping.into_iter().filter(|_| self.history.corrupt.is_empty()).collect::<Vec<_>>() {
            let what = format!("{keyspace} is being dropped, though nothing can be under way in it any more");
            self.record_violation("whole", what);
        }
        // Restarts of an instance alone do not depend on what clients run.
        if !self.programs.is_on() {
            super::restarts::Restarts { world: self }.check();
        }
        self.phase = ClusterPhase::Over;
    }

    /// Instances that still keep state for snapshots, though all leases of snapshots have expired.
    fn retaining_snapshots(&mut self) -> Vec<String> {
        let slots = self.hosts.iter_mut().flat_map(|host| &mut host.slots);
        let mut kept = Vec::new();
        for instance in slots.filter_map(|slot| slot.instance.as_mut()) {
            let (id, stats) = (instance.identity().instance, instance.stats());
            if stats.snapshots > 0 || stats.versions > 0 {
                let (versions, snapshots) = (stats.versions, stats.snapshots);
                kept.push(format!("{id} keeps {versions} versions for {snapshots} snapshots that are over"));
            }
        }
        kept
    }

    /// Primaries that still have state of transactions, though all transactions have ended or their
    /// clients have.
    fn left_of_transactions(&mut self) -> Vec<String> {
        let (map, mut left) = (Arc::clone(&self.watch.map), Vec::new());
        for (keyspace, known) in map.keyspaces() {
            for (partition, group) in known.groups() {
                let Some((host, slot)) = self.host_of(group.primary) else { continue };
                let Some(instance) = &mut self.hosts[host].slots[slot].instance else { continue };
                let mut replicas = instance.replicas();
                let replica = replicas.find(|one| (one.0, one.1) == (keyspace, partition));
                let Some(stats) = replica.map(|one| one.2.stats()) else { continue };
                if stats.staged > 0 || stats.unfinished > 0 {
                    let (staged, unfinished) = (stats.staged, stats.unfinished);
                    left.push(format!(
                        "{keyspace}/{partition} holds {staged} staged pieces and {unfinished} transactions without an end"
                    ));
                }
            }
        }
        left
    }

    fn check_partition_group(&mut self, keyspace: KeyspaceId, partition: PartitionId) -> GroupVerdict {
        let map = Arc::clone(&self.watch.map);
        let Some(known) = map.keyspace(keyspace) else { return GroupVerdict::Well };
        let Some(group) = known.group(partition) else { return GroupVerdict::Well };
        let found: Vec<(InstanceId, MemberContents)> =
            group.members().map(|member| (member, self.find_member(member, keyspace, partition))).collect();
        let before = match farthest(&found) {
            Some(index) => self.applied_before.insert((keyspace, partition), index),
            None => self.applied_before.remove(&(keyspace, partition)),
        };
        check_group(known.config(), self.instances_up(), group, &found, before)
    }

    /// Whether a partition's only copy that counts is on a corrupt disk, and its process has found
    /// that, at its start or during a snapshot install to another member.
    fn is_corrupt_sole_copy(&mut self, keyspace: KeyspaceId, partition: PartitionId) -> bool {
        let map = Arc::clone(&self.watch.map);
        let group = map.keyspace(keyspace).and_then(|known| known.group(partition));
        let Some((host, slot)) = group.and_then(|group| self.host_of(group.primary)) else { return false };
        let is_corrupt = self.watch.lost_disks.get(&host) == Some(&Time::NEVER);
        let Some(instance) = &mut self.hosts[host].slots[slot].instance else { return false };
        let mut replicas = instance.replicas();
        is_corrupt
            && replicas.any(|one| (one.0, one.1) == (keyspace, partition) && one.2.is_corrupt_sole_copy())
    }

    fn find_member(
        &mut self,
        member: InstanceId,
        keyspace: KeyspaceId,
        partition: PartitionId,
    ) -> MemberContents {
        let Some((host, slot)) = self.host_of(member) else { return MemberContents::Not("is nowhere") };
        let Some(instance) = &mut self.hosts[host].slots[slot].instance else {
            return MemberContents::Not("does not run");
        };
        let replica = instance.replicas().find(|one| (one.0, one.1) == (keyspace, partition));
        let Some((_, _, replica)) = replica else { return MemberContents::Not("does not have it") };
        let epoch = (replica.role() != Role::Removed).then(|| replica.view().epoch);
        let digest = match instance.digest(keyspace, partition) {
            Ok(Some(digest)) => Ok(digest),
            other => Err(format!("{other:?}")),
        };
        MemberContents::In(epoch, digest)
    }
}

#[cfg(test)]
mod tests {
    use zerohop_placement::KeyspaceName;

    use super::*;

    const A: InstanceId = InstanceId(1);
    const B: InstanceId = InstanceId(2);
    const C: InstanceId = InstanceId(3);
    const EPOCH: PartitionEpoch = PartitionEpoch(7);

    fn config() -> KeyspaceConfig {
        let name = KeyspaceName::new("kept").unwrap();
        KeyspaceConfig { replicas: 3, min_in_sync: 2, ..KeyspaceConfig::new(name, 1) }
    }

    fn group<'g>(in_sync: &'g [InstanceId], followers: &'g [InstanceId]) -> Group<'g> {
        Group { epoch: EPOCH, primary: A, in_sync, followers, state: GroupState::Stable }
    }

    fn member_contents(index: u64, contents: u64) -> MemberContents {
        MemberContents::In(Some(EPOCH), Ok(Digest { index, records: 1, contents, state: 1, seed: 1 }))
    }

    fn of(third: MemberContents) -> [(InstanceId, MemberContents); 3] {
        [(A, member_contents(9, 4)), (B, member_contents(9, 4)), (C, third)]
    }

    #[track_caller]
    fn is_not(judged: &GroupVerdict, why: &str) {
        assert!(matches!(judged, GroupVerdict::Not(reason) if reason.contains(why)), "{judged:?}");
    }

    #[test]
    fn group_is_consistent_if_members_are_equal() {
        let whole = group(&[B], &[C]);
        assert_eq!(check_group(&config(), 5, whole, &of(member_contents(9, 4)), None), GroupVerdict::Well);
        let differs = check_group(&config(), 5, whole, &of(member_contents(9, 5)), None);
        assert!(matches!(differs, GroupVerdict::Differs(_)), "{differs:?}");
        let mut other = of(member_contents(9, 4));
        other[2].1 = MemberContents::In(
            Some(EPOCH),
            Ok(Digest { index: 9, records: 1, contents: 4, state: 2, seed: 1 }),
        );
        assert!(
            matches!(check_group(&config(), 5, whole, &other, None), GroupVerdict::Differs(_)),
            "sessions count too"
        );
    }

    #[test]
    fn lagging_or_moving_member_is_waited_for() {
        let judged = |third| check_group(&config(), 5, group(&[B], &[C]), &of(third), None);
        is_not(&judged(member_contents(8, 3)), "different entries");
        is_not(&judged(MemberContents::Not("does not run")), "does not run");
        let digest = Digest { index: 9, records: 1, contents: 4, state: 1, seed: 1 };
        is_not(&judged(MemberContents::In(Some(PartitionEpoch(6)), Ok(digest))), "is in");
        is_not(&judged(MemberContents::In(None, Ok(digest))), "is in None");
        is_not(&judged(MemberContents::In(Some(EPOCH), Err("a disk".to_owned()))), "no digest");
    }

    #[test]
    fn lagging_member_follows_only_if_it_makes_progress() {
        let judged = |third, before| check_group(&config(), 5, group(&[B], &[C]), &of(third), before);
        let follows = judged(member_contents(8, 3), Some(8));
        assert!(
            matches!(&follows, GroupVerdict::Follows(why) if why.contains("different entries")),
            "{follows:?}"
        );
        is_not(&judged(member_contents(7, 3), Some(8)), "different entries");
        is_not(&judged(member_contents(8, 3), Some(9)), "different entries");
        is_not(&judged(member_contents(8, 3), None), "different entries");
        assert_eq!(judged(member_contents(9, 4), Some(8)), GroupVerdict::Well);
        let differs = judged(member_contents(9, 5), Some(8));
        assert!(matches!(differs, GroupVerdict::Differs(_)), "at one index nothing excuses it: {differs:?}");
        is_not(&judged(MemberContents::Not("does not run"), Some(8)), "does not run");
        assert_eq!(farthest(&of(member_contents(8, 3))), Some(9));
        assert_eq!(farthest(&[(A, MemberContents::Not("does not run"))]), None);
    }

    #[test]
    fn members_may_follow_the_ends_of_transactions_past_the_time_at_which_all_must_be_well() {
        let (due, end) = (Time(100), Time(100).after_us(TRANSACTIONS_OVER_US));
        let (missing, following) = (
            GroupsSample { is_missing: true, ..GroupsSample::default() },
            GroupsSample { is_following: true, ..GroupsSample::default() },
        );
        let left = GroupsSample { is_left: true, ..GroupsSample::default() };
        assert!(!GroupsSample::default().is_check_repeated(Time(1), due), "all is well");
        assert!(missing.is_check_repeated(Time(99), due) && !missing.is_check_repeated(due, due));
        assert!(following.is_check_repeated(due, due) && !following.is_check_repeated(end, due));
        assert!(left.is_check_repeated(due, due) && !left.is_check_repeated(end, due));
        let all = GroupsSample { is_missing: true, is_following: true, is_left: true };
        assert!(!all.is_check_repeated(due, due), "what is missing at its time is reported then");
    }

    #[test]
    fn a_group_has_as_many_members_as_are_wanted_and_can_be() {
        let two = [(A, member_contents(9, 4)), (B, member_contents(9, 4))];
        is_not(&check_group(&config(), 5, group(&[B], &[]), &two, None), "2 of 3 members");
        assert_eq!(check_group(&config(), 2, group(&[B], &[]), &two, None), GroupVerdict::Well);
        let four = [
            (A, member_contents(9, 4)),
            (B, member_contents(9, 4)),
            (C, member_contents(9, 4)),
            (InstanceId(4), member_contents(9, 4)),
        ];
        is_not(&check_group(&config(), 5, group(&[B], &[C, InstanceId(4)]), &four, None), "4 of 3 members");
        is_not(
            &check_group(&config(), 5, group(&[], &[B, C]), &of(member_contents(9, 4)), None),
            "too few in sync",
        );
        let admitting = Group { state: GroupState::Admitting, ..group(&[B], &[C]) };
        is_not(&check_group(&config(), 5, admitting, &of(member_contents(9, 4)), None), "members");
    }
}
