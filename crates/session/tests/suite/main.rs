//! The session against simulated servers, some of them faulty.
//!
//! One test binary: linking each file separately took most of a minute.

mod connections;
mod exactly_once;
mod gathering;
mod operations;
mod routing;
mod secrets;
mod support;
mod transactions;
mod transactions_random;
mod versions;
