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

/// Clients that write blobs: each holds a whole one in memory.
pub(super) const BLOB_CLIENTS_MAX: i64 = 64;

/// Bytes of a blob: what a client writes as one.
pub(super) const BLOB_BYTES_MAX: u64 = 64 << 20;

/// Bytes of all blobs of a run: they lie in the cluster at once, in every copy.
pub(super) const BLOBS_BYTES_MAX: u64 = 64 << 30;

/// Bytes of a part: what tells it from others fits.
pub(super) const BLOB_PART_BYTES_MIN: u64 = 16;

/// Parts of all blobs of a run: whether each was written over is kept, a byte each.
pub(super) const BLOB_PARTS_MAX: u64 = 1 << 26;
