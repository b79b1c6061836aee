//! Groups in which everybody who was in sync has started again, or is gone.
//!
//! Nobody serves such a partition until it is known which log to go on with. Members tell what they hold
//! ([`crate::command::ControlCommand::Held`]); a log does not change while its group recovers, so a report stays true.
//!
//! | found | the group goes on with |
//! | --- | --- |
//! | one in sync that is up and has not started again, or has with all that it held (intact logs under `sync`, or under `interval` after a stop in order) | that one: it holds everything |
//! | `sync` durability, one in sync with an intact log | that one: everything acknowledged was on its disk |
//! | all that were in sync, and all other members that are up, have told what they hold | the log with the highest end; what a flush had not reached may be missing |
//! | the operator's `recover`, and all members that are up have told | the log with the highest end, be it a follower's |
//! | the operator's `recover` of a damaged copy, and that has told | that one, as far as it is whole |
//! | the operator's `recover`, and no member is up | nothing: it begins empty, on another instance |

use std::collections::{BTreeMap, BTreeSet};

use zerohop_placement::{Durability, GroupState, MapChange, ReplicaGroup};
use zerohop_wire::ids::{InstanceId, KeyspaceId, PartitionId};

use super::groups::{GroupContext, Next};
use super::{ControlState, MapDraft};
use crate::command::{CommandRefusal, HeldLogs, KeptCopy, LogEnd};
use crate::plan;

/// What is known of a group that recovers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Those of its members that have started again and may have lost the end of their logs.
    pub restarted: BTreeSet<InstanceId>,
    /// What members hold, and whether it is intact.
    pub reports: BTreeMap<InstanceId, (LogEnd, bool)>,
    /// The operator gave up those that are not up.
    pub accept_loss: bool,
    /// It goes on with what is whole of its primary's damaged copy.
    pub keeps_primary: bool,
    /// It ended with a log of which the end may be missing.
    pub(super) chosen_in_doubt: bool,
}

impl ControlState {
    /// Members of recovering groups tell what they hold. What does not concern the present state of a group is passed
    /// over: the report of one log must not keep others from being heard.
    pub(super) fn held(&mut self, held: &HeldLogs, draft: &mut MapDraft) -> Result<u64, CommandRefusal> {
        let node = self.map().node(held.node).ok_or(CommandRefusal::UnknownNode)?;
        if node.incarnation() != held.incarnation {
            return Err(CommandRefusal::StaleIncarnation);
        }
        let own: BTreeSet<InstanceId> = node.instances().map(|instance| instance.id).collect();
        let mut taken = BTreeSet::new();
        for log in held.logs.iter().filter(|log| own.contains(&log.instance)) {
            let place = (log.keyspace, log.partition);
            let group = self.map().keyspace(log.keyspace).and_then(|keyspace| keyspace.group(log.partition));
            let answers = group.is_some_and(|group| {
                group.state == GroupState::Recovering
                    && group.epoch == log.epoch
                    && group.members().any(|member| member == log.instance)
            });
            if !answers {
                continue;
            }
            self.recoveries.entry(place).or_default().reports.insert(log.instance, (log.end, log.intact));
            taken.insert(place);
        }
        for (keyspace, partition) in &taken {
            self.end_if_possible(*keyspace, *partition, draft);
        }
        Ok(taken.len() as u64)
    }

    /// The operator gives up what is not up, or what is damaged of the only copy.
    pub(super) fn recover(
        &mut self,
        (keyspace, partition): (KeyspaceId, PartitionId),
        damaged: Option<KeptCopy>,
        draft: &mut MapDraft,
    ) -> Result<u64, CommandRefusal> {
        let found = self.map().keyspace(keyspace).ok_or(CommandRefusal::UnknownKeyspace)?;
        let group = found.group(partition).ok_or(CommandRefusal::UnknownPartition)?;
        let view = GroupContext { config: found.config(), state_of: &|instance| self.state_of(instance) };
        let serves = group.state != GroupState::Recovering
            && std::iter::once(group.primary)
                .chain(group.in_sync.iter().copied())
                .any(|instance| !view.is_down(instance));
        // The only copy that counts, of which its instance says that it cannot serve.
        let is_alone = serves && group.in_sync.is_empty();
        if serves && !(is_alone && damaged.is_some()) {
            return Err(CommandRefusal::NotLost);
        }
        if group.members().all(|instance| view.is_down(instance)) {
            // Nobody is left to tell anything. Whoever was a member is none any more: what it has, should it return, is
            // removed, as others may have written something else by then.
            let held = |one: &plan::Spot| self.map().partitions_of(one.instance).count();
            let ring = plan::Ring::new(self, found.config().seed);
            let heir = ring.spots().iter().min_by_key(|spot| held(spot)).ok_or(CommandRefusal::NoNodes)?;
            let next = ReplicaGroup::of_one(group.epoch.next(), heir.instance);
            let epoch = next.epoch;
            draft.may_have_lost.push((keyspace, partition));
            draft.changes.push(MapChange::SetGroup { keyspace, partition, group: next });
            return Ok(epoch.get());
        }
        let mut recovery = self.recoveries.get(&(keyspace, partition)).cloned().unwrap_or_default();
        recovery.accept_loss = true;
        recovery.keeps_primary |= damaged == Some(KeptCopy::Damaged);
        if is_alone {
            // Its log counts for no more than it tells.
            recovery.restarted.insert(group.primary);
        }
        let mut next = group.to_group();
        next.state = GroupState::Recovering;
        let next = view.try_to_end(&next, recovery.clone()).unwrap_or_else(|| {
            next.epoch = next.epoch.next();
            Next { group: next, recovery }
        });
        let epoch = next.group.epoch;
        self.decide(keyspace, partition, next, draft);
        Ok(epoch.get())
    }

    fn end_if_possible(&mut self, keyspace: KeyspaceId, partition: PartitionId, draft: &mut MapDraft) {
        let Some(found) = self.map().keyspace(keyspace) else { return };
        let Some(group) = found.group(partition) else { return };
        let recovery = self.recoveries.get(&(keyspace, partition)).cloned().unwrap_or_default();
        let view = GroupContext { config: found.config(), state_of: &|instance| self.state_of(instance) };
        if let Some(next) = view.try_to_end(&group.to_group(), recovery) {
            if next.recovery.chosen_in_doubt {
                draft.may_have_lost.push((keyspace, partition));
            }
            draft.changes.push(MapChange::SetGroup { keyspace, partition, group: next.group });
        }
    }
}

impl GroupContext<'_> {
    /// The group with which to go on, if it can be told yet.
    pub(super) fn try_to_end(&self, group: &ReplicaGroup, recovery: Recovery) -> Option<Next> {
        let in_sync: Vec<InstanceId> =
            std::iter::once(group.primary).chain(group.in_sync.iter().copied()).collect();
        let up = |instance: &&InstanceId| !self.is_down(**instance);
        let report = |instance: &InstanceId| recovery.reports.get(instance).copied();
        let highest = |candidates: &[InstanceId]| {
            let told = candidates.iter().filter(up).filter_map(|one| report(one).map(|told| (told, *one)));
            // Of equal ends the first of the group, so that every manager chooses the same.
            told.reduce(|best, next| if next.0.0 > best.0.0 { next } else { best }).map(|(_, one)| one)
        };
        let whole = in_sync.iter().filter(up).find(|one| !recovery.restarted.contains(one)).copied();
        let synced = || {
            let intact: Vec<InstanceId> =
                in_sync.iter().copied().filter(|one| report(one).is_some_and(|(_, intact)| intact)).collect();
            (self.config.durability == Durability::Sync).then(|| highest(&intact)).flatten()
        };
        // Of members that lost power together, the first to return is a follower by the time that the last one does: its
        // log counts as much.
        let members: Vec<InstanceId> = group.as_group().members().collect();
        let all_told = || {
            in_sync.iter().all(|one| report(one).is_some() && !self.is_down(*one))
                && members.iter().filter(up).all(|one| report(one).is_some())
        };
        let (chosen, in_doubt) = if let Some(chosen) = whole.or_else(synced) {
            (chosen, false)
        } else if recovery.keeps_primary && !self.is_down(group.primary) {
            report(&group.primary)?;
            (group.primary, true)
        } else if all_told() {
            (highest(&members)?, true)
        } else if recovery.accept_loss {
            if !members.iter().filter(up).all(|one| report(one).is_some()) {
                return None;
            }
            (highest(&members)?, true)
        } else {
            return None;
        };
        let others = group.as_group().members().filter(|member| *member != chosen).collect();
        let next = ReplicaGroup {
            epoch: group.epoch.next(),
            primary: chosen,
            in_sync: Vec::new(),
            followers: others,
            state: GroupState::Settled,
        };
        Some(Next { group: next, recovery: Recovery { chosen_in_doubt: in_doubt, ..recovery } })
    }
}
