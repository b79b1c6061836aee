//! The delays and limits of a leader.

use crate::plan::PlanSettings;

/// The number of groups for which the time between idle plans is twice as long.
const GROUPS_PER_IDLE_PLAN: u64 = 4_096;

/// The delays after which the leader acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeadSettings {
    /// Time that a node must have been down before its copies are made again elsewhere. Longer than a restart
    /// takes.
    pub replace_after_ms: u64,
    /// Time limit for the target of a move to catch up.
    pub move_max_ms: u64,
    /// Time limit for the primaries of a pending split to be ready.
    pub split_max_ms: u64,
    /// Time that a manager must have been silent before another node takes its place in the control group.
    /// Never, unless the shell stores the log of a manager that its node was not started with.
    pub manager_after_ms: u64,
    /// Time between two plans.
    pub plan_ms: u64,
    /// Time between two plans if the last plan was empty, no node is down, and nothing but loads has changed.
    /// Each 4,096 groups add as much, because a plan examines all of them.
    pub idle_plan_ms: u64,
    /// Time for which a report that a node does not answer is valid.
    pub report_ms: u64,
    /// Time without any node going down or coming back before primaries are balanced: a flapping node should
    /// have no primaries.
    pub stable_ms: u64,
    /// A node that goes down within this time after it came back flaps: it must wait before it may come back
    /// again.
    pub flap_ms: u64,
    /// The first wait of a flapping node; each later wait is twice as long.
    pub back_ms: u64,
    /// The longest wait of a flapping node.
    pub back_max_ms: u64,
    /// How much a plan does at once.
    pub plan: PlanSettings,
}

impl Default for LeadSettings {
    fn default() -> LeadSettings {
        LeadSettings {
            replace_after_ms: 30_000,
            move_max_ms: 600_000,
            split_max_ms: 5_000,
            manager_after_ms: u64::MAX,
            plan_ms: 100,
            idle_plan_ms: 1_000,
            report_ms: 1_000,
            stable_ms: 5_000,
            flap_ms: 10_000,
            back_ms: 500,
            back_max_ms: 4_000,
            plan: PlanSettings::default(),
        }
    }
}

impl LeadSettings {
    /// Time between two plans of an idle leader of so many groups.
    #[must_use]
    pub fn idle_plan_after_ms(&self, groups: u64) -> u64 {
        self.idle_plan_ms.saturating_mul(1 + groups / GROUPS_PER_IDLE_PLAN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_leader_of_many_groups_plans_less_often() {
        let settings = LeadSettings::default();
        assert_eq!(settings.idle_plan_after_ms(256), 1_000);
        assert_eq!(settings.idle_plan_after_ms(25_600), 7_000);
    }
}
