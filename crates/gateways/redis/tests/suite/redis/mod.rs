//! Redis clients of a whole node, over real sockets: ownership of keys, order, and hostile clients.

mod cluster;
mod connection;
mod dropped;
mod foreign_clients;
mod information;
mod kill;
mod long_replies;
mod nodes;
mod order;
mod scans;
mod splits;
pub(crate) mod support;
