//! The bounds of a benchmark, each with its reason.

use std::time::Duration;

/// Clients: each holds a connection to every instance.
pub(super) const CLIENTS_MAX: i64 = 1000;

/// Operations of one client outstanding: half of what a session may be ahead of its oldest unanswered write.
pub(super) const DEPTH_MAX: i64 = 8192;

/// Operations of one phase: their numbers fit into [`super::workload::NUMBER_DIGITS`] digits.
pub(super) const OPERATIONS_MAX: u64 = 1_000_000_000;

/// Keys shorter than this could not be told from those of others.
pub(super) const KEY_BYTES_MIN: i64 = 10;

/// Threads that drive clients.
pub(super) const THREADS_MAX: u32 = 64;

/// A batch that has reached so many bytes goes before its delay is over.
pub(super) const COLLECT_BYTES: u32 = 64 << 10;

/// How often progress is drawn.
pub(super) const PROGRESS_EVERY: Duration = Duration::from_millis(200);

/// Transactions of one kind: some minutes of one thread.
pub(super) const TRANSFERS_MAX: u64 = 10_000_000;

/// Records between which transactions transfer: what is known of how much each is wanted takes 8 bytes.
pub(super) const ACCOUNTS_MAX: u64 = 1_000_000;
