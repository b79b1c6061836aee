//! The bare store: the cost of a server of these frames that only reads, looks up and writes.
//!
//! One thread, one level-triggered epoll, one read and one write for each connection and turn, one
//! hash map. No partitions, session tables or log: the limit of socket work, with which a node is
//! compared.

mod serve;
mod store;

pub(crate) use serve::serve;
