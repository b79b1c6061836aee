//! A control group under a simulated network, disks and clocks, with clients that ask for all kinds of things, from one
//! seed; and what must hold of it.

pub(crate) mod check;
pub(crate) mod disk;
mod manager_happening;
pub(crate) mod node_check;
pub(crate) mod node_play;
pub(crate) mod nodes;
pub(crate) mod random;
pub(crate) mod workload;
pub(crate) mod world;
