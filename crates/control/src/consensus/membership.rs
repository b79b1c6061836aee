//! Changes of the members of the control group, one step at a time.

use raft::eraftpb::{ConfChange, ConfChangeType};
use raft::{INVALID_ID, ProgressState};

use super::Consensus;
use crate::command::ManagerId;
use crate::limits::LEARNER_BEHIND_MAX;
use crate::planted::{Bug, is_planted};

/// A step towards the wanted membership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Membership {
    Learn(ManagerId),
    Vote(ManagerId),
    Remove(ManagerId),
}

impl Consensus {
    /// Takes the next step towards these members; the leader takes one step at a time. A new member is a
    /// learner first, and becomes a voter once it is nearly up to date and answers. Members are removed after
    /// all new members have become voters.
    pub(crate) fn reconcile(&mut self, requested: &[ManagerId]) {
        if !self.is_ready_leader() || self.core.raft.has_pending_conf() {
            return;
        }
        let conf = self.core.raft.prs().conf().to_conf_state();
        let (voters, learners) = (conf.get_voters(), conf.get_learners());
        let committed = self.core.raft.raft_log.committed;
        // While leadership is transferred nothing is decided, so the heir of this leader must answer too. The
        // core leaves a member that has everything, from a snapshot, in `Probe` until the next entry.
        let near = |id: &ManagerId| {
            self.core.raft.prs().get(id.0).is_some_and(|one| {
                let is_near = match one.state {
                    ProgressState::Replicate => one.matched + LEARNER_BEHIND_MAX >= committed,
                    ProgressState::Probe => one.matched >= committed,
                    ProgressState::Snapshot => false,
                };
                is_near && (one.recent_active || is_planted(Bug::HandoverToSilentManager))
            })
        };
        // The voters that are left must be able to decide: more than half of them have all that is committed, also the
        // list that names them. A voter that was only active a moment ago may be gone by now.
        let is_complete = |id: u64| self.core.raft.prs().get(id).is_some_and(|one| one.matched >= committed);
        let can_spare = |old: u64| {
            let left = voters.iter().filter(|id| **id != old);
            let answering = left.clone().filter(|id| is_complete(**id) && near(&ManagerId(**id)));
            2 * answering.count() > left.count()
        };
        let missing: Vec<ManagerId> =
            requested.iter().copied().filter(|id| !voters.contains(&id.0)).collect();
        let mut unwanted: Vec<u64> = voters
            .iter()
            .chain(learners)
            .copied()
            .filter(|id| !requested.contains(&ManagerId(*id)))
            .collect();
        unwanted.sort_unstable();
        let step = if let Some(new) = missing.iter().find(|id| !learners.contains(&id.0)) {
            Membership::Learn(*new)
        } else if let Some(ready) = missing.iter().find(|id| near(id)) {
            Membership::Vote(*ready)
        } else if missing.is_empty()
            && let Some(old) = unwanted.iter().find(|id| **id != self.id.0 && can_spare(**id))
        {
            Membership::Remove(ManagerId(*old))
        } else if missing.is_empty() && unwanted.contains(&self.id.0) {
            // The last member to remove is this leader: another manager takes over and removes it.
            let heir = requested.iter().copied().find(|id| near(id));
            if let Some(heir) = heir {
                self.transfer(heir);
            }
            return;
        } else {
            return;
        };
        self.propose_membership(step);
    }

    fn propose_membership(&mut self, step: Membership) {
        let (change, context) = conf_change(step);
        // Refused if another change is pending: the next tick retries.
        let _ = self.core.propose_conf_change(context, change);
        self.pump();
    }

    /// A manager that is being removed can win an election, and then applies its own removal as leader. The
    /// core lets it stay leader: it keeps the voters from an election, and every proposal is refused. So the
    /// manager steps down before any other message, and the voter that is furthest ahead campaigns at once.
    /// If that voter cannot, the voters elect a leader after their time-outs.
    pub(super) fn step_down_if_removed(&mut self) {
        let raft = &self.core.raft;
        if !self.is_leader() || raft.promotable() || is_planted(Bug::RemovedLeaderStays) {
            return;
        }
        let term = raft.term;
        let voters = raft.prs().conf().to_conf_state().voters;
        let heirs = raft.prs().iter().filter(|(id, _)| voters.contains(id));
        let heir = heirs.max_by_key(|(id, one)| (one.matched, one.recent_active, **id)).map(|(id, _)| *id);
        if let Some(heir) = heir {
            self.core.raft.send_timeout_now(heir);
        }
        self.core.raft.become_follower(term, INVALID_ID);
    }
}

/// The change in the core's format, and in a format of our own that is sent with it.
pub(super) fn conf_change(step: Membership) -> (ConfChange, Vec<u8>) {
    let (number, kind, id) = match step {
        Membership::Learn(id) => (1, ConfChangeType::AddLearnerNode, id),
        Membership::Vote(id) => (2, ConfChangeType::AddNode, id),
        Membership::Remove(id) => (3, ConfChangeType::RemoveNode, id),
    };
    let mut change = ConfChange { node_id: id.0, ..ConfChange::default() };
    change.set_change_type(kind);
    let mut context = vec![number];
    context.extend_from_slice(&id.0.to_le_bytes());
    (change, context)
}

pub(super) fn membership(context: &[u8]) -> Option<Membership> {
    let (number, id) = context.split_first()?;
    let id = ManagerId(u64::from_le_bytes(id.try_into().ok()?));
    match number {
        1 => Some(Membership::Learn(id)),
        2 => Some(Membership::Vote(id)),
        3 => Some(Membership::Remove(id)),
        _ => None,
    }
}
