//! Managers, agents and their gossip, simulated as whole clusters.
//!
//! One test binary: linking each file separately took most of a minute.

mod agents;
mod agents_alone;
mod agents_planted;
mod agents_standing;
mod led;
mod one_change;
mod planted;
mod removed_leader;
mod seats;
mod simulated;
mod support;
mod votes;
