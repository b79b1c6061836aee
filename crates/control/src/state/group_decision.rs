//! What a decision about one replica group depends on and results in, and the end of a group's recovery
//! (`recovery.rs` has the rules).

use std::collections::{BTreeMap, BTreeSet};

use zerohop_placement::{Durability, GroupState, KeyspaceConfig, NodeState, ReplicaGroup};
use zerohop_wire::ids::InstanceId;

use crate::command::LogEnd;
use crate::planted::{Bug, is_planted};

/// The state of a recovery.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// The members that have restarted and may have lost the end of their logs.
    pub restarted: BTreeSet<InstanceId>,
    /// The reported log ends of members, and whether each log is intact.
    pub reports: BTreeMap<InstanceId, (LogEnd, bool)>,
    /// The operator gave up the members that are not up.
    pub accept_loss: bool,
    /// The group continues with the readable part of its primary's damaged copy.
    pub continues_with_primary: bool,
    /// Recovery ended with a log whose end may be missing.
    pub(super) chosen_may_lack_end: bool,
}

/// The next group, and the next state of its recovery.
pub(super) struct NextGroup {
    pub(super) group: ReplicaGroup,
    /// Stored if the group is recovering.
    pub(super) recovery: Recovery,
}

/// The context of a decision about a group.
pub(super) struct GroupContext<'a> {
    pub(super) config: &'a KeyspaceConfig,
    pub(super) state_of: &'a dyn Fn(InstanceId) -> NodeState,
}

impl GroupContext<'_> {
    /// The group to continue with, if it can be determined yet.
    pub(super) fn try_to_end(&self, group: &ReplicaGroup, recovery: Recovery) -> Option<NextGroup> {
        let in_sync: Vec<InstanceId> =
            std::iter::once(group.primary).chain(group.in_sync.iter().copied()).collect();
        let up = |instance: &&InstanceId| !self.is_down(**instance);
        let report = |instance: &InstanceId| recovery.reports.get(instance).copied();
        let highest = |candidates: &[InstanceId]| {
            let reported =
                candidates.iter().filter(up).filter_map(|one| report(one).map(|reported| (reported, *one)));
            // Of equal ends the first member of the group, so that every manager chooses the same.
            let is_better = |next: LogEnd, best: LogEnd| match is_planted(Bug::LowestLogChosen) {
                true => next < best,
                false => next > best,
            };
            reported
                .reduce(|best, next| if is_better(next.0.0, best.0.0) { next } else { best })
                .map(|(_, one)| one)
        };
        let whole = in_sync.iter().filter(up).find(|one| !recovery.restarted.contains(one)).copied();
        let synced = || {
            let intact: Vec<InstanceId> =
                in_sync.iter().copied().filter(|one| report(one).is_some_and(|(_, intact)| intact)).collect();
            (self.config.durability == Durability::Sync).then(|| highest(&intact)).flatten()
        };
        // Of members that lost power together, the first to return is a follower by the time that the last
        // one returns: its log counts as much.
        let members: Vec<InstanceId> = group.as_group().members().collect();
        let all_reported = || {
            let counts = |one: &InstanceId| report(one).is_some() || is_planted(Bug::SilentMemberPassed);
            let is_passed = |one: &InstanceId| self.is_down(*one) && is_planted(Bug::DeadMemberPassed);
            in_sync.iter().all(|one| counts(one) && !self.is_down(*one) || is_passed(one))
                && members.iter().filter(up).all(|one| report(one).is_some() || in_sync.contains(one))
        };
        let (chosen, in_doubt) = if let Some(chosen) = whole.or_else(synced) {
            (chosen, false)
        } else if recovery.continues_with_primary && !self.is_down(group.primary) {
            report(&group.primary)?;
            (group.primary, true)
        } else if all_reported() {
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
            state: GroupState::Stable,
        };
        Some(NextGroup { group: next, recovery: Recovery { chosen_may_lack_end: in_doubt, ..recovery } })
    }

    pub(super) fn is_down(&self, instance: InstanceId) -> bool {
        (self.state_of)(instance) == NodeState::Down
    }
}
