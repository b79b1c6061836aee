//! Clients of Redis on a whole node, over real sockets: what belongs to whom, in which order, and what strangers do.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test, whose child talks to its parent by stdout"
)]

mod cluster;
mod kill;
mod nodes;
mod order;
mod splits;
mod strangers;
mod support;
