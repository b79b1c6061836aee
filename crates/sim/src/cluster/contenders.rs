//! Clients that use the keys of a transaction that is in progress.

use super::transactions::AccountsState;
use super::{ClusterEvent, ClusterPhase, SimulatedCluster};
use crate::streams::Draw;
use crate::workload::transactional::ClientOperationPlan;

const MS: u64 = 1_000;

/// The share of transactions without read dependencies that get contenders, and the highest number
/// of contenders. Half of them start within a message delay, the others within the length of a
/// transaction.
const CONTENTION: (u64, u64) = (1, 3);
const CONTENDERS_MAX: u64 = 2;
const CONTENDER_AFTER_US: u64 = 3 * MS;
const CONTENDER_LATER_US: u64 = 40 * MS;

impl SimulatedCluster {
    /// Schedules operations of other clients on the keys of a transaction in progress; without this
    /// they would rarely conflict.
    pub(super) fn draw_contenders(&mut self, client: usize, plan: &ClientOperationPlan) {
        let (ClientOperationPlan::Commit(steps), ClusterPhase::Faults) = (plan, self.phase) else { return };
        if self.transacting.draws.random().chance(CONTENTION.0, CONTENTION.1) {
            for _ in 0..self.transacting.draws.random().between(1, CONTENDERS_MAX) {
                let Some(plan) = self.transacting.draws.conflicting_plan(steps) else { return };
                let random = self.transacting.draws.random();
                let other = random.below(self.scenario.clients as u64) as usize;
                let most_us = if random.chance(1, 2) { CONTENDER_AFTER_US } else { CONTENDER_LATER_US };
                let after_us = random.below(most_us);
                if other != client {
                    self.event_queue.at(
                        self.now().after_us(after_us),
                        ClusterEvent::Contender { client: other, operation: plan },
                    );
                }
            }
        }
    }

    /// A client starts a conflicting operation.
    pub(super) fn start_contender(&mut self, client: usize, plan: ClientOperationPlan) {
        if self.phase == ClusterPhase::Faults
            && self.now() >= self.clients[client].paused_until
            && self.transacting.opened == AccountsState::Yes
        {
            let limit_us = self.transacting.draws.random().between(1_500 * MS, 12_000 * MS);
            self.begin_operation(client, plan, limit_us, (false, true));
        }
    }
}
