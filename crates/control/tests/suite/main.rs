//! Managers, agents and their gossip, played as whole clusters.
//!
//! One program: to link each file by itself took the larger part of a minute.

mod agents;
mod agents_alone;
mod agents_planted;
mod agents_standing;
mod led;
mod one_change;
mod planted;
mod simulated;
mod support;
mod votes;
