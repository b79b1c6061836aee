//! Changes of the members of the control group, and faults in them.

use zerohop_control::command::{CommandRequest, ControlCommand, ManagerId, ManagerInfo, RequestId};
use zerohop_control::manager::{ManagerEvent, RaftManager};

use super::super::random::Random;
use super::{ManagerSlot, ManagerWorld, QUIET_END};

/// The origin of the request that replaces the leader.
const OPERATOR: u64 = 1_000;
/// The token of that request: no client waits for the answer.
const OPERATOR_TOKEN: u64 = 1 << 40;

fn info(slot: &ManagerSlot) -> ManagerInfo {
    ManagerInfo { id: slot.id, addr: slot.addr.clone() }
}

/// A command that sets so many of the managers as members.
pub(super) fn choose_members(slots: &[ManagerSlot], count: usize, work: &mut Random) -> ControlCommand {
    let mut chosen: Vec<&ManagerSlot> = slots.iter().collect();
    while chosen.len() > count {
        chosen.remove(work.below(chosen.len() as u64) as usize);
    }
    ControlCommand::SetManagers(chosen.into_iter().map(info).collect())
}

impl ManagerWorld {
    /// The leader has just written to its log, and all new members are voters. It may have proposed a removal.
    /// Sometimes it is paused or killed at this moment, and the remaining managers reach only the manager that
    /// is being removed: that manager wins the election with its own removal in its log.
    pub(super) fn maybe_stop_remover(&mut self, at: usize) {
        let Some(removed) = self.next_removed(at) else { return };
        if !self.faults.chance(300) {
            return;
        }
        self.checker.saw("leaders stopped in a removal");
        let for_us = 1_000_000 + self.faults.below(3_000_000);
        if self.faults.chance(500) {
            self.crash(at, for_us);
        } else {
            self.slots[at].paused_until = self.now + for_us;
        }
        for from in 0..self.slots.len() {
            for to in 0..self.slots.len() {
                if ![from, to].contains(&removed) {
                    self.network_cuts.insert((from, to), self.now + for_us);
                }
            }
        }
    }

    /// The manager that this leader removes next, if all new members are voters and it is not itself.
    fn next_removed(&self, at: usize) -> Option<usize> {
        let manager = self.slots[at].process.as_ref().filter(|manager| manager.leading().is_some())?;
        let (voters, learners) = manager.members();
        let expected: Vec<ManagerId> = manager.state().managers().iter().map(|one| one.id).collect();
        if !learners.is_empty() || !expected.iter().all(|id| voters.contains(id)) {
            return None;
        }
        let removed = voters.iter().find(|id| !expected.contains(id) && **id != manager.id())?;
        self.slots.iter().position(|slot| slot.id == *removed)
    }

    /// Another manager takes the place of the leader, and one of the remaining members is paused to the end.
    /// Only the list of a group that has all its members is changed.
    pub(super) fn replace_leader(&mut self) {
        let leads = |slot: &ManagerSlot| slot.process.as_ref().is_some_and(|one| one.leading().is_some());
        let Some(leader) = self.slots.iter().position(leads) else { return };
        let Some((voters, learners)) = self.slots[leader].process.as_ref().map(RaftManager::members) else {
            return;
        };
        let is_whole = voters.len() as u64 == self.scenario.managers && learners.is_empty();
        let is_free = |slot: &&ManagerSlot| !voters.contains(&slot.id);
        let Some(new) = self.slots.iter().find(is_free).filter(|_| is_whole) else { return };
        let (new, id) = (info(new), self.slots[leader].id);
        let others = self.slots.iter().filter(|slot| voters.contains(&slot.id) && slot.id != id);
        let mut expected: Vec<ManagerInfo> = others.map(info).collect();
        let paused = self.faults.pick(&expected).id;
        expected.insert(self.faults.below(expected.len() as u64 + 1) as usize, new);
        for slot in self.slots.iter_mut().filter(|slot| slot.id == paused) {
            slot.paused_until = QUIET_END + 1;
        }
        self.checker.saw("leaders replaced");
        let command = ControlCommand::SetManagers(expected);
        let id = RequestId { origin: OPERATOR, number: 1 };
        let request = CommandRequest { id, after: 0, command };
        self.handle_event(leader, ManagerEvent::Request { token: OPERATOR_TOKEN << 8, request });
    }
}
