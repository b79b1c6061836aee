//! Every bound of a run, with its reason.

use std::time::Duration;

/// Records are numbered with 32 bits in the orders and samples.
pub(crate) const RECORDS_MAX: u64 = 1 << 31;

/// Records of the tables unless told otherwise: one that fits caches, one that does not.
pub(crate) const RECORDS: [u64; 2] = [1_000_000, 10_000_000];

/// More rounds than this prove nothing more, and a slip of the keyboard should not take a day.
pub(crate) const ROUNDS_MAX: usize = 1000;

/// Rounds unless told otherwise: medians over seven settle, but ten million records take a peer minutes a round.
pub(crate) const ROUNDS_SMALL: usize = 7;
/// Rounds from [`RECORDS_LARGE`] on.
pub(crate) const ROUNDS_LARGE: usize = 3;
/// From here on a store counts as large.
pub(crate) const RECORDS_LARGE: u64 = 5_000_000;

/// What a subject may take on the disk, most of all a log-structured one before it compacts: 8 GB for ten million
/// records of 147 bytes.
pub(crate) const DISK_BYTES_PER_RECORD: u64 = 800;
/// Write-ahead logs, lock files and the like, whatever the number of records.
pub(crate) const DISK_BYTES_MIN: u64 = 512 << 20;

/// A run that takes longer is ended and reported as failed: start, flushes and compactions.
pub(crate) const RUN_BASE: Duration = Duration::from_secs(60);
/// And this much a record, over all phases: five times the slowest subject seen, on a busy machine.
pub(crate) const RUN_PER_RECORD: Duration = Duration::from_micros(200);
/// The same for a subject that flushes the disk at every write: three such phases of 200 us each, thrice over.
pub(crate) const RUN_PER_RECORD_FLUSHING: Duration = Duration::from_micros(2000);

/// How often the driver looks whether a child has ended; it shares the machine with it.
pub(crate) const POLL: Duration = Duration::from_millis(20);

/// Compiling one peer.
pub(crate) const COMPILE: Duration = Duration::from_secs(300);

/// The time a subject may take for a run.
pub(crate) fn run_limit(records: u64, flushes: bool) -> Duration {
    let per_record = if flushes { RUN_PER_RECORD_FLUSHING } else { RUN_PER_RECORD };
    RUN_BASE + per_record.saturating_mul(u32::try_from(records).unwrap_or(u32::MAX))
}

/// The space a subject must find on the disk.
pub(crate) fn disk_limit(records: u64) -> u64 {
    DISK_BYTES_MIN + records * DISK_BYTES_PER_RECORD
}
