//! What every crate of zerohop shares, and no crate has a second copy of.
//!
//! - [`connection`]: the name of a connection.
//! - [`time`]: the monotonic time that state machines take as an argument.
//! - [`random`]: deterministic random numbers.
//! - [`bytes`]: a reader of little-endian fields from bytes that are not trusted.
//! - [`mutants`]: the switch of planted bugs.
//! - [`invariant`]: the name of a broken invariant of a state machine.
//!
//! Nothing here reads a clock, draws entropy or does I/O.

pub mod bytes;
pub mod connection;
pub mod invariant;
pub mod mutants;
pub mod random;
pub mod time;
