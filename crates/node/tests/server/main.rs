//! A whole node in this process, over real sockets and files, with the real client.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it must be")]

mod support;

mod bad_transactions;
mod keyspaces;
mod limits;
mod operations;
mod restart;
mod strangers;
mod transactions;
mod web;
