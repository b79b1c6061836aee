//! The bounds of a benchmark, each with its reason.

use std::time::Duration;

/// Clients: each has a connection to every instance.
pub(super) const CLIENTS_MAX: i64 = 1000;

/// Operations in flight of one client: half the distance that a session may be ahead of its oldest
/// unanswered write.
pub(super) const DEPTH_MAX: i64 = 8192;

/// Operations of one phase: their numbers fit into [`super::workload::NUMBER_DIGITS`] digits.
pub(super) const OPERATIONS_MAX: u64 = 1_000_000_000;

/// Bytes of a key: shorter keys could collide with keys of others.
pub(super) const KEY_BYTES_MIN: i64 = 10;

/// Threads that drive clients.
pub(super) const THREADS_MAX: u32 = 64;

/// A batch that has reached this size is sent before its delay is over.
pub(super) const COLLECT_BYTES: u32 = 64 << 10;

/// Interval between two drawings of the progress line.
pub(super) const PROGRESS_EVERY: Duration = Duration::from_millis(200);

/// Records of a workload of YCSB: the sum for Zipf's law takes some seconds, and keys are removed one by one.
pub(super) const YCSB_RECORDS_MAX: u64 = 100_000_000;

/// Bytes of a value of YCSB: the numbers of its record and of its write.
pub(super) const YCSB_VALUE_BYTES_MIN: i64 = 16;

/// Transactions of one kind: some minutes of one thread.
pub(super) const TRANSFERS_MAX: u64 = 10_000_000;

/// Records between which transactions transfer: the table of demand takes 8 bytes for each.
pub(super) const ACCOUNTS_MAX: u64 = 1_000_000;

/// Clients that write blobs: each has a whole blob in memory.
pub(super) const BLOB_CLIENTS_MAX: i64 = 64;

/// Bytes of a blob: the most that a client writes in one operation.
pub(super) const BLOB_BYTES_MAX: u64 = 64 << 20;

/// Bytes of all blobs of a run: they are in the cluster at the same time, in every copy.
pub(super) const BLOBS_BYTES_MAX: u64 = 64 << 30;

/// Bytes of a part: enough for the identity of the part.
pub(super) const BLOB_PART_BYTES_MIN: u64 = 16;

/// Parts of all blobs of a run: a byte of memory for each, which says whether it was overwritten.
pub(super) const BLOB_PARTS_MAX: u64 = 1 << 26;
