//! A control group that never fails. Groups change by compare-and-set on their epoch, by the rules of
//! `docs/protocols/control.md`.

use std::collections::BTreeMap;

use zerohop_replication::{GroupChange, GroupView, LogEnd, Member, Role};
use zerohop_wire::ids::{Incarnation, InstanceId, MapEpoch, PartitionEpoch};

const DEAD_US: u64 = 700_000;
const COPIES: usize = 3;

#[derive(Clone, Debug, Default)]
pub struct Map {
    pub epoch: u64,
    pub groups: Vec<GroupView>,
}

/// Bugs of a control group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlBug {
    /// A restarted instance gets its place back, whatever its durability.
    ReadmitsRestarted,
    /// Any member is promoted.
    PromotesFollowers,
}

#[derive(Clone, Debug)]
struct ModelledInstance {
    incarnation: Incarnation,
    last_message_us: u64,
    /// For each partition: the log end, and the first start that the disk has survived.
    ends: Vec<(LogEnd, u64)>,
}

/// A partition that is being moved to another instance.
#[derive(Clone, Copy, Debug)]
pub struct ReplicaMove {
    pub partition: usize,
    pub to: InstanceId,
}

#[derive(Debug, Default)]
pub struct ControlCounts {
    pub promotions: u64,
    pub admissions: u64,
    pub removals: u64,
    pub keeps: u64,
    pub readmissions: u64,
    pub restarts_of_all: u64,
    pub moves: u64,
}

pub struct ControlModel {
    pub map: Map,
    pub is_sync: bool,
    pub bug: Option<ControlBug>,
    pub moving: Option<ReplicaMove>,
    pub counts: ControlCounts,
    /// Partitions of which up to an interval may be missing since the last check, or everything, since the disks are gone.
    pub losses: Vec<(usize, bool)>,
    known: BTreeMap<InstanceId, ModelledInstance>,
}

impl ControlModel {
    /// Groups of three of four instances, with incarnations as of their first start.
    pub fn new(is_sync: bool, partitions: usize) -> ControlModel {
        let member = |n: usize| Member { instance: InstanceId(n as u32), incarnation: Incarnation(1) };
        let groups = (0..partitions).map(|p| GroupView {
            epoch: PartitionEpoch(1),
            map_epoch: MapEpoch(1),
            primary: member(p % 3),
            in_sync: vec![member((p + 1) % 3)],
            followers: vec![member((p + 2) % 3)],
            min_in_sync: 2,
        });
        let map = Map { epoch: 1, groups: groups.collect() };
        ControlModel {
            map,
            is_sync,
            bug: None,
            moving: None,
            counts: ControlCounts::default(),
            losses: Vec::new(),
            known: BTreeMap::new(),
        }
    }

    pub fn record_message(&mut self, now_us: u64, from: Member, ends: Vec<(LogEnd, u64)>) {
        let known = self.known.get(&from.instance);
        if known.is_none_or(|known| known.incarnation <= from.incarnation) {
            let known = ModelledInstance { incarnation: from.incarnation, last_message_us: now_us, ends };
            self.known.insert(from.instance, known);
        }
    }

    /// A primary requests a change of its group.
    pub fn handle_proposal(
        &mut self,
        partition: usize,
        from: Member,
        epoch: PartitionEpoch,
        change: GroupChange,
    ) {
        let group = &self.map.groups[partition];
        if group.epoch != epoch || group.primary != from {
            return;
        }
        let mut group = group.clone();
        match change {
            GroupChange::Admit(member) => {
                let Some(at) = group.followers.iter().position(|one| *one == member) else { return };
                if self.is_stale(member) {
                    return;
                }
                group.followers.remove(at);
                group.in_sync.push(member);
                self.counts.admissions += 1;
            }
            GroupChange::Remove(member) if member == group.primary => {
                let Some(heir) = group.in_sync.pop() else { return };
                group.followers.push(std::mem::replace(&mut group.primary, heir));
                self.counts.promotions += 1;
            }
            GroupChange::Remove(member) => {
                let Some(at) = group.in_sync.iter().position(|one| *one == member) else { return };
                group.in_sync.remove(at);
                group.followers.push(member);
                self.counts.removals += 1;
            }
            GroupChange::RaiseEpoch => self.counts.keeps += 1,
        }
        self.set(partition, group);
    }

    fn set(&mut self, partition: usize, mut group: GroupView) {
        self.map.epoch += 1;
        group.epoch = group.epoch.next();
        group.map_epoch = MapEpoch(self.map.epoch);
        self.map.groups[partition] = group;
    }

    /// The process that the group names is gone, and another runs in its place.
    fn is_stale(&self, member: Member) -> bool {
        self.known.get(&member.instance).is_some_and(|known| known.incarnation != member.incarnation)
    }

    fn is_alive(&self, now_us: u64, member: Member) -> bool {
        let known = self.known.get(&member.instance);
        known.is_some_and(|k| k.incarnation == member.incarnation && now_us < k.last_message_us + DEAD_US)
    }

    fn present(&self, now_us: u64, instance: InstanceId) -> Option<(Member, &ModelledInstance)> {
        let known = self.known.get(&instance).filter(|known| now_us < known.last_message_us + DEAD_US)?;
        Some((Member { instance, incarnation: known.incarnation }, known))
    }

    /// Checks one partition, and makes at most one change of its group. Returns the follower to be admitted for a move.
    pub fn look(&mut self, now_us: u64, partition: usize) -> Option<Member> {
        if let Some(group) = self.restarted(now_us, partition) {
            self.set(partition, group);
            return None;
        }
        let group = self.map.groups[partition].clone();
        if !self.is_alive(now_us, group.primary) {
            let followers =
                if self.bug == Some(ControlBug::PromotesFollowers) { &group.followers[..] } else { &[] };
            let heir = followers.iter().chain(&group.in_sync).find(|m| self.is_alive(now_us, **m)).copied();
            if let Some(heir) = heir {
                let mut group = group;
                group.primary = heir;
                group.in_sync.retain(|member| *member != heir);
                group.followers.retain(|member| *member != heir);
                self.counts.promotions += 1;
                self.set(partition, group);
            }
            return None;
        }
        self.rebuild(now_us, partition, group)
    }

    /// A group that names a process that is gone, while its instance runs again.
    fn restarted(&mut self, now_us: u64, partition: usize) -> Option<GroupView> {
        let mut group = self.map.groups[partition].clone();
        let members = std::iter::once(group.primary).chain(group.others()).collect::<Vec<_>>();
        for member in members {
            let Some((present, known)) = self.present(now_us, member.instance) else { continue };
            if present == member {
                continue;
            }
            let (end, disk_since) = known.ends[partition];
            // The log belongs to the process that the group names, and was not started on an empty disk since.
            let is_its_own = end.is_intact && end.is_complete && disk_since <= member.incarnation.0;
            let readmits = self.bug == Some(ControlBug::ReadmitsRestarted);
            let replace = |list: &mut Vec<Member>| {
                list.iter_mut().filter(|one| **one == member).for_each(|one| *one = present);
            };
            if (self.is_sync && is_its_own || readmits) && group.role(member) != Role::Follower {
                // The log has everything that the member ever acknowledged, and nothing was committed without it since.
                if group.primary == member {
                    group.primary = present;
                }
                replace(&mut group.in_sync);
                self.counts.readmissions += 1;
                return Some(group);
            }
            match group.role(member) {
                Role::Follower => {
                    replace(&mut group.followers);
                    return Some(group);
                }
                Role::InSync
                    if self.is_alive(now_us, group.primary) || self.has_live_copy(now_us, &group, member) =>
                {
                    group.in_sync.retain(|one| *one != member);
                    group.followers.push(present);
                    return Some(group);
                }
                Role::Primary => {
                    let heir = group.in_sync.iter().find(|one| self.is_alive(now_us, **one)).copied();
                    if let Some(heir) = heir {
                        group.primary = heir;
                        group.in_sync.retain(|one| *one != heir);
                        group.followers.push(present);
                        self.counts.promotions += 1;
                        return Some(group);
                    }
                    if let Some(group) = self.restart_of_all(now_us, partition, &group) {
                        return Some(group);
                    }
                }
                _ => {}
            }
        }
        None
    }

    fn has_live_copy(&self, now_us: u64, group: &GroupView, but: Member) -> bool {
        group.in_sync.iter().any(|one| *one != but && self.is_alive(now_us, *one))
    }

    /// All members that had everything have restarted; the highest log is used.
    fn restart_of_all(&mut self, now_us: u64, partition: usize, group: &GroupView) -> Option<GroupView> {
        let holders = std::iter::once(group.primary).chain(group.in_sync.iter().copied());
        let mut best: Option<(LogEnd, bool, Member)> = None;
        let mut all = Vec::new();
        for holder in holders {
            let (present, known) = self.present(now_us, holder.instance)?;
            if present == holder {
                return None;
            }
            let (end, disk_since) = known.ends[partition];
            let is_its_own = disk_since <= holder.incarnation.0;
            if end.is_complete
                && best.is_none_or(|(best, own, _)| (own, rank(best)) < (is_its_own, rank(end)))
            {
                best = Some((end, is_its_own, present));
            }
            all.push(present);
        }
        let (_, is_its_own, primary) = best?;
        if !self.is_sync || !is_its_own {
            // Up to an interval may be lost; or an operator has accepted that all disks are gone.
            self.losses.push((partition, !is_its_own));
        }
        let mut group = group.clone();
        group.primary = primary;
        group.in_sync.clear();
        group.followers.retain(|one| all.iter().all(|other| other.instance != one.instance));
        group.followers.extend(all.into_iter().filter(|one| *one != primary));
        self.counts.restarts_of_all += 1;
        Some(group)
    }

    /// Gives a group its full strength, or continues a move.
    fn rebuild(&mut self, now_us: u64, partition: usize, mut group: GroupView) -> Option<Member> {
        let count = 1 + group.others().count();
        if let Some(ReplicaMove { to, .. }) = self.moving.filter(|moving| moving.partition == partition) {
            let Some((target, _)) = self.present(now_us, to) else {
                self.moving = None;
                return None;
            };
            match group.role(target) {
                Role::Removed => {
                    group.followers.retain(|one| one.instance != to);
                    group.followers.push(target);
                    self.set(partition, group);
                }
                Role::Follower => return Some(target),
                Role::InSync => {
                    group.in_sync.retain(|one| *one != target);
                    group.in_sync.insert(0, std::mem::replace(&mut group.primary, target));
                    self.counts.moves += 1;
                    self.moving = None;
                    self.set(partition, group);
                }
                Role::Primary => self.moving = None,
            }
            return None;
        }
        if count > COPIES {
            // Dead members are removed first, then members that are not needed.
            let dead = group.followers.iter().position(|one| !self.is_alive(now_us, *one));
            if group.followers.is_empty() {
                group.in_sync.pop();
            } else {
                group.followers.remove(dead.unwrap_or(0));
            }
            self.set(partition, group);
            return None;
        }
        let dead = group.followers.iter().position(|one| !self.is_alive(now_us, *one));
        let spare = (0..4).map(InstanceId).find_map(|instance| {
            let (member, _) = self.present(now_us, instance)?;
            let is_in =
                std::iter::once(group.primary).chain(group.others()).any(|one| one.instance == instance);
            (!is_in).then_some(member)
        });
        match (dead, spare) {
            (Some(dead), Some(spare)) => group.followers[dead] = spare,
            (None, Some(spare)) if count < COPIES => group.followers.push(spare),
            _ => return None,
        }
        self.set(partition, group);
        None
    }
}

fn rank(end: LogEnd) -> (u32, u64) {
    (end.last.epoch, end.last.index.0)
}
