//! Frames that have been sent and not been answered.

use crate::slots::Handle;
use crate::time::Time;

/// One frame under way.
#[derive(Debug)]
pub(crate) struct Flight {
    /// The place of its connection.
    pub(crate) connection: u32,
    pub(crate) sent: Time,
    pub(crate) cargo: Cargo,
    /// An operation in it has been sent again since.
    pub(crate) overdue: bool,
}

/// What the frame asks.
#[derive(Debug)]
pub(crate) enum Cargo {
    Hello,
    Prove,
    Ping,
    Map,
    SessionOpen,
    One(Handle),
    /// In the order of the batch.
    Batch(Vec<Handle>),
}
