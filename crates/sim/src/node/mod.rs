//! The node: its instances, the manager's map, its clock. The work of `server` with sockets, threads
//! and files is done here with simulated ones, around the same instances.

mod clock;
mod manager;
pub(crate) mod port;
mod slot;

pub(crate) use clock::NodeClock;
pub(crate) use manager::{CLUSTER, Manager};
pub(crate) use port::FEATURES;
pub(crate) use slot::{NodeSlot, SlotTurn, carries_writes};
