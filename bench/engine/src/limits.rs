//! Every limit of a run, with its reason.

use std::time::Duration;

/// Records are numbered with 32 bits in the orders and samples.
pub(crate) const RECORDS_MAX: u64 = 1 << 31;

/// Default numbers of records: one that fits caches, one that does not.
pub(crate) const RECORDS: [u64; 2] = [1_000_000, 10_000_000];

/// Most rounds: more add no information, and a typing error should not take a day.
pub(crate) const ROUNDS_MAX: usize = 1000;

/// Default number of rounds: enough for stable medians. Ten million records take a peer minutes a
/// round.
pub(crate) const ROUNDS_SMALL: usize = 7;
/// Rounds from [`RECORDS_LARGE`] on.
pub(crate) const ROUNDS_LARGE: usize = 3;
/// The number of records from which on a store counts as large.
pub(crate) const RECORDS_LARGE: u64 = 5_000_000;

/// Most bytes of a subject on disk, reached by a log-structured one before compaction: 8 GB for ten
/// million records of 147 bytes.
pub(crate) const DISK_BYTES_PER_RECORD: u64 = 800;
/// Write-ahead logs, lock files and the like, independent of the number of records.
pub(crate) const DISK_BYTES_MIN: u64 = 512 << 20;

/// Time limit of a run: this for start, flushes and compactions.
pub(crate) const RUN_BASE: Duration = Duration::from_secs(60);
/// The addition per record, over all phases: five times the slowest subject seen, on a busy
/// machine.
pub(crate) const RUN_PER_RECORD: Duration = Duration::from_micros(200);
/// The same for a subject that flushes at every write: three such phases of 200 us each, times
/// three.
pub(crate) const RUN_PER_RECORD_FLUSHING: Duration = Duration::from_micros(2000);

/// How often the driver checks whether a child has ended; both share the machine.
pub(crate) const POLL: Duration = Duration::from_millis(20);

/// Compiling one peer.
pub(crate) const COMPILE: Duration = Duration::from_secs(300);

/// The time limit of a run.
pub(crate) fn run_limit(records: u64, flushes: bool) -> Duration {
    let per_record = if flushes { RUN_PER_RECORD_FLUSHING } else { RUN_PER_RECORD };
    RUN_BASE + per_record.saturating_mul(u32::try_from(records).unwrap_or(u32::MAX))
}

/// The free space that a subject needs.
pub(crate) fn disk_limit(records: u64) -> u64 {
    DISK_BYTES_MIN + records * DISK_BYTES_PER_RECORD
}
