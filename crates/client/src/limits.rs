//! Every bound of the client's own, each with its reason; those of a session are in `zerohop_session::limits`.

use std::time::Duration;

/// Most records that a transaction has read or will write: as many as it may send.
pub(crate) const TRANSACTION_ITEMS_MAX: usize = zerohop_wire::limits::TRANSACTION_ITEMS_MAX as usize;

/// Most bytes of operations that one transaction holds until its commit.
pub(crate) const TRANSACTION_BYTES_MAX: usize = 128 << 20;

/// First pause of a transaction that was in others' way: about what a commit takes.
pub(crate) const BACKOFF_MIN: Duration = Duration::from_millis(1);

/// Longest pause between two attempts.
pub(crate) const BACKOFF_MAX: Duration = Duration::from_millis(200);
