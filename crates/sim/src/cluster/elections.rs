//! Election faults: the leader of the control group is gone. For some seconds the remaining
//! managers are killed and restarted, paused for a moment, or get messages late or twice. This
//! produces several candidates in one term, and voters that die just after they have voted.

use zerohop_base::time::Time;

use super::faults::ClusterFault;
use super::traffic::Traffic;
use super::{ClusterEvent, ClusterPhase, SimulatedCluster};
use crate::kinds::FaultKind;
use crate::streams::Draw;

const MS: u64 = 1_000;

/// The longest downtime of a process that is killed in this period, in microseconds.
const DOWN_US_MAX: u64 = 15 * MS;

impl SimulatedCluster {
    pub(super) fn begin_election_faults(&mut self) {
        let now = self.now();
        if self.targeted_faults.elections_until > now || self.managers().len() < 3 || self.leader().is_none()
        {
            return;
        }
        self.coverage.fault(FaultKind::Elections);
        self.targeted_faults.elections_until =
            now.after_us(self.streams.node.between(1_500 * MS, 4_000 * MS));
        self.trace.record(now, format_args!("FIGHT until {}", self.targeted_faults.elections_until.0));
        if let Some(leader) = self.leader() {
            self.crash_and_restart(leader, 200 * MS);
        }
        self.schedule_election_fault();
    }

    fn managers(&self) -> Vec<usize> {
        self.hosts.iter().filter(|host| host.manager.is_some()).map(|host| host.at).collect()
    }

    fn schedule_election_fault(&mut self) {
        let at = self.now().after_us(self.streams.node.between(5 * MS, 120 * MS));
        if at < self.targeted_faults.elections_until {
            self.event_queue.at(at, ClusterEvent::Fault(ClusterFault::ElectionFaults));
        }
    }

    pub(super) fn disturb_election(&mut self) {
        let now = self.now();
        let managers = self.managers();
        let (one, other) = (*self.streams.node.pick(&managers), *self.streams.node.pick(&managers));
        let for_us = self.streams.node.between(5 * MS, 150 * MS);
        match self.streams.node.below(10) {
            // The new leader is lost again.
            0 => {
                if let Some(leader) = self.leader() {
                    self.crash_and_restart(leader, 5 * DOWN_US_MAX);
                }
            }
            1..=5 if one != other => {
                self.begin_stall(one, Some(other), Some(Traffic::Agents), now.after_us(for_us));
            }
            6..=8 if self.hosts[one].is_up => {
                let until = now.after_us(3 * for_us);
                self.trace.record(now, format_args!("PAUSE of the agent of n{one} until {}", until.0));
                self.hosts[one].agent_paused_until = self.hosts[one].agent_paused_until.max(until);
            }
            _ => {}
        }
        self.schedule_election_fault();
    }

    /// Whether election faults are in progress.
    pub(super) fn has_election_faults(&self) -> bool {
        self.targeted_faults.elections_until > self.now() && self.phase == ClusterPhase::Faults
    }

    /// During election faults some messages of managers are repeated, a little later.
    pub(super) fn repeat_election_message(
        &mut self,
        at: Time,
        (from, to): (usize, usize),
        traffic: Traffic,
    ) -> Option<Time> {
        if !self.has_election_faults()
            || traffic != Traffic::Agents
            || from == to
            || !self.streams.network.chance(1, 4)
        {
            return None;
        }
        Some(at.after_us(self.streams.network.below(60 * MS)))
    }

    /// A manager has written to its log, and messages that depend on the write are sent: some
    /// managers die at this moment and restart at once.
    pub(super) fn draw_end_of_voter(&mut self, at: usize) {
        let manager = self.hosts[at].agent.as_ref().and_then(|agent| agent.manager());
        let is_voter = manager.is_some_and(|manager| manager.leader().is_none());
        if self.has_election_faults() && is_voter && self.streams.node.chance(1, 3) {
            self.crash_and_restart(at, DOWN_US_MAX);
        }
    }
}
