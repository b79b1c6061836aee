//! What the marks of a shared log say: what survives a crash, written down now and then for recovery.

use super::format::LogPartition;
use super::local::Creation;

/// A mark is written after so many bytes, or after so many times its own length, whichever is more.
pub(super) const MARK_EVERY_BYTES: u64 = 1 << 20;
pub(super) const MARK_EVERY_LENGTHS: u64 = 50;

/// What the next mark says.
pub(super) struct MarkState {
    /// Bytes appended since the last mark, and at how many the next is due.
    pub(super) bytes: u64,
    pub(super) due_bytes: u64,
    /// Bytes of entries appended so far, without copies.
    pub(super) appended: u64,
    /// Rows that the next mark repeats.
    pub(super) creations: Vec<Creation>,
    /// Log partitions whose creations may not survive a crash, and how many flushes had begun then.
    pub(super) fresh: Vec<(LogPartition, u64)>,
    /// Slots of which the next mark has rows.
    pub(super) changed: Vec<u32>,
    /// The number of the newest checkpoint file, and of the one that the last mark names.
    pub(super) checkpoint: u64,
    pub(super) marked_checkpoint: u64,
    /// A timestamp of an entry, for segments that begin with a local one.
    pub(super) timestamp: u64,
}

impl MarkState {
    /// Before the first mark. The timestamp is of any late entry.
    pub(super) fn new(timestamp: u64, checkpoint: u64) -> MarkState {
        MarkState {
            bytes: 0,
            due_bytes: MARK_EVERY_BYTES,
            appended: 0,
            creations: Vec::new(),
            fresh: Vec::new(),
            changed: Vec::new(),
            checkpoint,
            marked_checkpoint: checkpoint,
            timestamp,
        }
    }
}
