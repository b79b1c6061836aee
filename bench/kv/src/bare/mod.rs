//! The bare store: what a server of these frames costs when it does nothing but read, look up and write.
//!
//! One thread, one level-triggered epoll, one read and one write for each connection and turn, one hash map. No
//! partitions, no sessions' tables, no log: the limit of the socket work, beside which a node is measured.

mod serve;
mod store;

pub(crate) use serve::serve;
