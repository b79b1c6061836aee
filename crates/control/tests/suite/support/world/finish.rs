//! The checks at the end of a run.

use zerohop_control::command::ManagerId;
use zerohop_control::manager::RaftManager;

use super::{ManagerSlot, ManagerWorld, QUIET_END};

impl ManagerWorld {
    /// After a time without faults: there is one leader, all states are equal, no client waits, and
    /// every repeated request gets its first answer. A manager that is paused to the end may be behind.
    pub(super) fn finish(&mut self) {
        let waiting = self.clients.iter().filter(|client| client.pending.is_some()).count();
        if waiting > 0 {
            self.checker.violations.push(format!("{waiting} clients still wait for an answer"));
        }
        let Some(leader) = self
            .slots
            .iter()
            .position(|slot| slot.process.as_ref().is_some_and(|manager| manager.leading().is_some()))
        else {
            self.checker.violations.push("there is no leader at the end".to_owned());
            return;
        };
        let mut state = self.slots[leader].process.as_ref().expect("runs").state().clone();
        for (at, slot) in self.slots.iter().enumerate() {
            let other = slot.process.as_ref().map(RaftManager::state);
            let member = state.managers().iter().any(|manager| manager.id == slot.id);
            let is_paused = slot.paused_until > QUIET_END;
            if member && !is_paused && other != Some(&state) {
                self.checker.violations.push(format!("manager {at} differs from the leader's state"));
            }
        }
        let (voters, learners) = self.slots[leader].process.as_ref().expect("runs").members();
        let mut expected: Vec<ManagerId> = state.managers().iter().map(|manager| manager.id).collect();
        expected.sort_unstable();
        if (voters, learners) != (expected, Vec::new()) {
            self.checker.violations.push("the control group is not as it was set".to_owned());
        }
        let decided: Vec<_> = self.checker.decided.values().cloned().collect();
        for (request, first) in decided {
            let again = state.apply(&request);
            let forgotten = first.applied_count + 4_096 <= state.applied_count();
            if again.outcome != first && !forgotten {
                let violation = format!("{:?} got {first:?}, and at the end {:?}", request.id, again.outcome);
                self.checker.violations.push(violation);
                break;
            }
        }
        self.hash_event(state.applied_count());
        let batches = |slot: &ManagerSlot| slot.process.as_ref().map_or(0, |one| one.counters().batches);
        (0..self.slots.iter().map(batches).sum()).for_each(|_| self.checker.saw("batches"));
        *self.checker.coverage.entry("applied").or_default() += state.applied_count();
        let terms = self.checker.terms() as u64;
        *self.checker.coverage.entry("terms").or_default() += terms;
        self.checker.violations.truncate(5);
    }
}
