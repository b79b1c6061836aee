//! Managers, agents and their gossip, simulated as whole clusters.
//!
//! One test binary: linking each file separately took most of a minute.

mod agents;
mod agents_alone;
mod agents_planted;
mod agents_status;
mod failover;
mod manager_retirement;
mod one_change;
mod planted;
mod removed_leader;
mod simulated;
mod support;
mod votes;
