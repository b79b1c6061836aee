//! Where replicas should be, and the next steps towards it.
//!
//! Nothing is remembered between two plans but what the map and the reports say, so that a new leader goes on where the
//! last one stopped. Each step is one change of one group, a compare-and-set on its epoch; `steps` looks at a group
//! and says which comes next, and only what begins a move asks for budget.
//!
//! ```text
//!   group        [A | B | C]              [A | B | X! C]          [A | B X | C]           [X | B A | C]          [X | B | C]
//!   step           add the target X ──▶  (the primary) admit ──▶   promote X ──▶           A leaves
//! ```
//! (primary, in-sync replicas, followers.)

mod computed;
mod ring;
mod steps;
mod tally;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use zerohop_wire::ids::{KeyspaceId, NodeId, PartitionEpoch, PartitionId};

pub use ring::{Ring, Spot};

use crate::command::Regroup;
use crate::state::ControlState;

/// How much may be done at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanSettings {
    /// Moves under way at once, in the whole cluster: each copies a partition.
    pub moves_max: usize,
    /// Steps in one plan.
    pub steps_max: usize,
}

impl Default for PlanSettings {
    fn default() -> PlanSettings {
        PlanSettings { moves_max: 16, steps_max: 64 }
    }
}

/// What is known beside the map.
pub struct PlanInputs<'a> {
    /// How much is asked of the primary of a partition, beside others; 1 if nothing is known.
    pub loads: &'a BTreeMap<(KeyspaceId, PartitionId), u32>,
    /// Nodes that have been down for so long that their copies are made again elsewhere.
    pub given_up: &'a dyn Fn(NodeId) -> bool,
    /// Moves whose target has not caught up in all the time that it was given: they are abandoned.
    pub overdue: &'a dyn Fn(KeyspaceId, PartitionId, PartitionEpoch) -> bool,
    /// No node has gone down or come back lately: primaries are evened only then.
    pub is_calm: bool,
}

/// The next steps, at most one for each group. Done one after another, they lead to a state in which there are none: then
/// every group has its copies on nodes that are up and in different domains as far as there are any, nodes that drain are
/// empty, and no move of one copy would make the fullest instance less full beside the emptiest.
pub fn plan(state: &ControlState, seen: &PlanInputs<'_>, settings: PlanSettings) -> Vec<Regroup> {
    steps::Planner::new(state, seen, settings).plan()
}
