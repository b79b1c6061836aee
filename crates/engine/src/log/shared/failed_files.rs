//! The answer of a shared log to a failed write or sync: what may be lost with a file is written again, into another one.
//!
//! ```text
//!   failed    |header|entry|entry|entr~~~~~~~~~~      ends at its durable end; voids say so
//!                                 |   |
//!   next      |header|voids|      entry|entry|...     synced before the flush ends
//! ```
//!
//! A later successful sync of the failed file proves nothing: the system may have dropped what it could not write.

use super::format::{LogPartition, LogPlace};
use super::local::VoidRange;

/// An entry whose place has changed, because the file of its segment failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelocatedEntry {
    /// Its log partition.
    pub number: LogPartition,
    /// Its log index.
    pub index: u64,
    /// Its length. Of what it is, nothing is counted at its new place yet.
    pub bytes: u32,
    /// Its former place. Until `SharedLog::take_moved` it can be read there too.
    pub from: LogPlace,
    /// Its place.
    pub to: LogPlace,
}

/// The failures of a log's files, and what follows from them.
#[derive(Debug, Default)]
pub(super) struct FailedFiles {
    /// Bytes that are nothing.
    pub(super) voids: Vec<VoidRange>,
    /// Files of each stream that have failed since a flush last ended.
    pub(super) in_a_row: [u32; 4],
    /// Files that have failed so far.
    pub(super) count: u64,
    /// Entries whose places the owner does not know yet.
    pub(super) moved: Vec<RelocatedEntry>,
}
