//! What the layers over ordered keyspaces share.
//!
//! - [`Procedure`]: a state machine that gets events and answers each with one effect, or with its result.
//! - [`Record`]: a record whose first byte is its format.
//! - [`OptimisticTransaction`]: a transaction that is a function of what it reads, and whose commit confirms the version of
//!   each record read. [`Attempt`] is its decision alone, for a transaction that has other parts too.
//!
//! A layer has an error of its own, and may have effects of its own. The procedures open no socket, read no clock and draw no
//! random numbers.

mod keys;
mod optimistic;
pub mod planted;
mod procedure;
pub mod record;

pub use keys::{RecordKey, after, end_of};
pub use optimistic::{Attempt, AttemptStep, Decide, OptimisticTransaction, Pause, Reads, Writes};
pub use procedure::{
    Addition, Effect, Event, LayerError, NO_BYTE_LIMIT, Procedure, Step, Version, VersionedRecord, Write,
};
pub use record::Record;
