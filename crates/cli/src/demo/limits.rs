//! The bounds of the demo, each with its reason.

use std::time::Duration;

/// Files above this size are stored in parts of this size: small enough that threads and partitions share a large
/// file, far below the longest value.
pub(super) const PART_BYTES: usize = 1 << 20;

/// Parts of one file that are written, or read, at a time: what a thread holds in memory.
pub(super) const PARTS_AT_ONCE: usize = 4;

/// Files written at a time by one thread, so that they share a flush.
pub(super) const GROUP_FILES_MAX: usize = 64;

/// Bytes of small files written at a time by one thread, the last not counted.
pub(super) const GROUP_BYTES_MAX: usize = 4 << 20;

/// Threads that store and check.
pub(super) const THREADS_MAX: usize = 8;

/// Files below the folder: their paths are kept in memory.
pub(super) const FILES_MAX: usize = 4 << 20;

/// How long the child may be silent before it is taken for stuck. Longer than its store waits for a disk.
pub(super) const CHILD_SILENCE_MAX: Duration = Duration::from_secs(180);

/// How long the child may work in all.
pub(super) const CHILD_TIME_MAX: Duration = Duration::from_secs(3600);

/// Lines of the child that wait to be read here; then its pipe fills up and it waits.
pub(super) const CHILD_LINES_MAX: usize = 1024;

/// The longest line of the child: a path of 64 KiB in hexadecimal digits, and a few numbers.
pub(super) const CHILD_LINE_BYTES_MAX: u64 = 256 << 10;

/// How often the progress is drawn.
pub(super) const PROGRESS_EVERY: Duration = Duration::from_millis(100);

/// Faults that the report for people names; the JSON names all that were kept.
pub(super) const FAULTS_SHOWN_MAX: usize = 20;

/// Faults that are kept; beyond it they are only counted.
pub(super) const FAULTS_KEPT_MAX: usize = 1000;
