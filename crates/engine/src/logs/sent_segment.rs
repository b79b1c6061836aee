//! What a sender of a snapshot install knows of the segment that it sends.

/// The entries of a partition in a segment.
pub(crate) struct SentSegment {
    pub(super) number: u64,
    /// The install is as of this log index: the segment may have got later entries since.
    pub(super) through: u64,
    /// Log index and offset, by index.
    pub(super) entries: Vec<(u64, u32)>,
}
