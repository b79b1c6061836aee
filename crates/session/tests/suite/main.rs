//! The session against servers that are played, some of them badly.
//!
//! One program: to link each file by itself took the larger part of a minute.

mod connections;
mod exactly_once;
mod gathering;
mod operations;
mod routing;
mod secrets;
mod support;
mod transactions;
mod transactions_random;
