//! A control group under a simulated network, disks and clocks, with clients that send all kinds of
//! commands, from one seed; and its invariants.

pub(crate) mod check;
pub(crate) mod disk;
pub(crate) mod node_check;
pub(crate) mod node_play;
pub(crate) mod nodes;
pub(crate) mod random;
mod simulated_manager_event;
pub(crate) mod voting;
pub(crate) mod workload;
pub(crate) mod world;
