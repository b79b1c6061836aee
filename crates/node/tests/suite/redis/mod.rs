//! Clients of Redis on a whole node, over real sockets: what belongs to whom, in which order, and what strangers do.

mod cluster;
mod kill;
mod long_replies;
mod nodes;
mod order;
mod scans;
mod splits;
mod strangers;
pub(crate) mod support;
