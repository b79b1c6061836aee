//! The planner: where replicas should be, and the next steps towards it.
//!
//! A plan depends only on the map and the reports, so that a new leader continues where the last one stopped.
//! Each step is one change of one group, a compare-and-set on its epoch. `steps` decides the next step of a
//! group; only a step that starts a move needs budget.
//!
//! ```text
//!   group        [A | B | C]              [A | B | X! C]          [A | B X | C]           [X | B A | C]          [X | B | C]
//!   step           add the target X ──▶  (the primary) admit ──▶   promote X ──▶           A leaves
//! ```
//! (primary, in-sync replicas, followers.)

mod load;
mod steps;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use zerohop_wire::ids::{KeyspaceId, NodeId, PartitionEpoch, PartitionId};

use crate::command::Regroup;
use crate::state::ControlState;
pub use crate::state::{Ring, RingPoint};

/// Limits on simultaneous changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanSettings {
    /// Simultaneous moves in the whole cluster: each copies a partition.
    pub moves_max: usize,
    /// Steps in one plan.
    pub steps_max: usize,
}

impl Default for PlanSettings {
    fn default() -> PlanSettings {
        PlanSettings { moves_max: 16, steps_max: 64 }
    }
}

/// Inputs of a plan beside the map.
pub struct PlanInputs<'a> {
    /// The load of a partition's primary, relative to others; 1 if nothing is known.
    pub loads: &'a BTreeMap<(KeyspaceId, PartitionId), u32>,
    /// Whether a node has been down for so long that its copies are made again elsewhere.
    pub long_down_nodes: &'a dyn Fn(NodeId) -> bool,
    /// Whether a move is abandoned because its target has not caught up within the time limit.
    pub overdue: &'a dyn Fn(KeyspaceId, PartitionId, PartitionEpoch) -> bool,
    /// Whether no node has gone down or come back lately: primaries are balanced only then.
    pub is_stable: bool,
}

/// The next steps, at most one for each group. Done one after another, they lead to a state in which no steps are left.
/// Then every group has its copies on nodes that are up, and in different domains as far as there are any. Draining
/// nodes are empty. A move of one copy from the fullest to the emptiest instance would not improve the balance.
pub fn plan(state: &ControlState, seen: &PlanInputs<'_>, settings: PlanSettings) -> Vec<Regroup> {
    steps::Planner::new(state, seen, settings).plan()
}
