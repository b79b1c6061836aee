//! A manager that is being removed from the control group wins an election, because the leader was
//! paused before the removal was decided. It decides its own removal, and must not remain leader. Also
//! restarts of managers during such a change.

use zerohop_base::time::Time;
use zerohop_control::command::{CommandRequest, ControlCommand, ManagerId, RequestId};
use zerohop_control::manager::{ManagerEvent, RaftManager, RequestAnswer};
use zerohop_wire::ids::NodeId;

use crate::support::voting::{VotingMember, bootstrap_members, info};

/// Positions of the managers; their ids are one higher.
const FIRST: usize = 0;
const REMOVED: usize = 2;
const ADDED: usize = 3;
const STEP_US: u64 = 10_000;
const SECOND: u64 = 1_000_000;
/// A command that is decided and changes nothing.
const NOTHING: ControlCommand = ControlCommand::RemoveNode(NodeId(99));

/// The decision that another manager takes the place of one.
fn expected() -> ControlCommand {
    ControlCommand::SetManagers([1, 2, ADDED as u64 + 1].map(info).to_vec())
}

struct Group {
    members: Vec<VotingMember>,
}

impl Group {
    fn new() -> Group {
        let mut members = Vec::from(bootstrap_members());
        members.push(VotingMember::with_log(RaftManager::join(ManagerId(ADDED as u64 + 1))));
        Group { members }
    }

    /// Delivers all messages that pass, one round, and drops the others.
    fn deliver(&mut self, passes: impl Fn(usize, usize) -> bool) {
        for from in 0..self.members.len() {
            let id = self.members[from].manager.id();
            for (to, bytes) in std::mem::take(&mut self.members[from].sent) {
                let to = to.0 as usize - 1;
                if passes(from, to) {
                    self.members[to].handle_event(ManagerEvent::Received { from: id, bytes: &bytes });
                }
            }
        }
    }

    /// Runs until the condition is true. Returns whether it became true within this time.
    fn run(
        &mut self,
        for_us: u64,
        passes: impl Fn(usize, usize) -> bool,
        mut until: impl FnMut(&mut Group) -> bool,
    ) -> bool {
        for _ in 0..for_us / STEP_US {
            for member in &mut self.members {
                member.now += STEP_US;
                if member.manager.tick_due() <= Time(member.now) {
                    member.handle_event(ManagerEvent::Tick);
                }
            }
            for _ in 0..3 {
                self.deliver(&passes);
                if until(self) {
                    return true;
                }
            }
        }
        false
    }

    fn leads(&self, at: usize) -> bool {
        self.members[at].manager.leading().is_some()
    }

    fn leader(&self) -> Option<usize> {
        (0..self.members.len())
            .filter(|at| self.leads(*at))
            .max_by_key(|at| self.members[*at].manager.leading())
    }

    fn request(&mut self, at: usize, number: u64, command: ControlCommand) {
        let id = RequestId { origin: 7, number };
        let request = CommandRequest { id, after: 0, command };
        self.members[at].handle_event(ManagerEvent::Request { token: number, request });
    }

    /// Runs until all logs have the removal of a manager, and the leader does not know that it is decided.
    fn with_removal_in_logs() -> Group {
        let mut group = Group::new();
        assert!(group.run(SECOND, |_, _| true, |group| group.leads(FIRST)), "the first is elected");
        group.request(FIRST, 1, expected());
        let has_all = |group: &mut Group| group.members[FIRST].manager.members().0.len() == 4;
        assert!(group.run(5 * SECOND, |_, _| true, has_all), "the new manager votes");
        // The removal is proposed and sent, and no answer arrives.
        group.run(STEP_US * 12, |from, _| from == FIRST, |_| false);
        assert!(group.leads(FIRST));
        group
    }

    /// Runs until the manager to be removed leads, with its own removal in its log and not decided.
    fn with_removed_leader() -> Group {
        let mut group = Group::with_removal_in_logs();
        // The leader is paused. Only the manager that is to be removed reaches two others.
        let passes = |from, to| from != FIRST && to != FIRST && (from == REMOVED || to == REMOVED);
        let is_led = |group: &mut Group| group.leads(REMOVED);
        assert!(group.run(10 * SECOND, passes, is_led), "the manager to be removed is elected");
        let voters = group.members[REMOVED].manager.members().0;
        assert!(voters.contains(&ManagerId(REMOVED as u64 + 1)), "it is not removed yet");
        group
    }

    /// The remaining managers have a leader, which decides.
    fn assert_decides(&mut self, passes: impl Fn(usize, usize) -> bool) {
        let is_removed = |group: &mut Group| {
            let leader = group.leader().filter(|leader| *leader != REMOVED);
            leader.is_some_and(|leader| group.members[leader].manager.members().0.len() == 3)
        };
        assert!(self.run(5 * SECOND, &passes, is_removed), "no other manager leads");
        let leader = self.leader().expect("one leads");
        let mut number = 10;
        let is_decided = |group: &mut Group| {
            number += 1;
            group.request(leader, number, NOTHING);
            group.members[leader].answers.iter().any(|one| matches!(one, RequestAnswer::Decided(_)))
        };
        self.members[leader].answers.clear();
        assert!(self.run(SECOND, passes, is_decided), "nothing is decided");
        assert!(!self.leads(REMOVED));
    }
}

#[test]
fn leader_that_decides_its_own_removal_hands_over() {
    let mut group = Group::with_removed_leader();
    group.assert_decides(|_, _| true);
}

#[test]
fn removed_leader_hands_over_while_another_manager_is_paused() {
    let mut group = Group::with_removed_leader();
    group.assert_decides(|from, to| from != FIRST && to != FIRST);
}

#[test]
fn requests_behind_removal_of_leader_do_no_harm() {
    let mut group = Group::with_removed_leader();
    for number in 2..6 {
        group.request(REMOVED, number, NOTHING);
        group.deliver(|from, to| from != FIRST && to != FIRST);
    }
    group.assert_decides(|from, to| from != FIRST && to != FIRST);
}

#[test]
fn leader_to_be_removed_does_not_wait_for_paused_successor() {
    let mut group = Group::new();
    assert!(group.run(SECOND, |_, _| true, |group| group.leads(FIRST)), "the first is elected");
    let to = ManagerId(REMOVED as u64 + 1);
    group.members[FIRST].handle_event(ManagerEvent::TransferLeadership(to));
    assert!(group.run(SECOND, |_, _| true, |group| group.leads(REMOVED)), "it leads");
    group.run(SECOND, |_, _| true, |_| false);
    // The first in the list of the wanted managers is paused from now on.
    group.request(REMOVED, 1, expected());
    group.assert_decides(|from, to| from != FIRST && to != FIRST);
}

#[test]
fn added_manager_votes_in_group_that_decides_nothing_else() {
    let mut group = Group::new();
    assert!(group.run(SECOND, |_, _| true, |group| group.leads(FIRST)), "the first is elected");
    group.request(FIRST, 1, expected());
    let is_done = |group: &mut Group| {
        group.members[FIRST].manager.members() == ([1, 2, 4].map(ManagerId).to_vec(), Vec::new())
    };
    assert!(group.run(5 * SECOND, |_, _| true, is_done), "{:?}", group.members[FIRST].manager.members());
}

/// The voters that each manager knows after a restart, with the removal of one of them in every log.
fn voters_after_restart() -> Vec<usize> {
    let mut group = Group::with_removal_in_logs();
    group.members.iter_mut().for_each(VotingMember::crash);
    group.members.iter().map(|one| one.manager.members().0.len()).collect()
}

#[test]
fn restarted_manager_knows_members_before_undecided_change() {
    assert_eq!(voters_after_restart(), [4; 4]);
}

#[cfg(debug_assertions)]
#[test]
fn unwritten_commit_index_makes_restarted_manager_count_older_members() {
    use zerohop_control::planted::{Bug, plant};
    plant(Some(Bug::CommitIndexNotWritten));
    let voters = voters_after_restart();
    plant(None);
    assert!(voters.contains(&3), "{voters:?}");
}
