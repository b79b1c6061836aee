//! The size of a log.

/// The size of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogSizes {
    /// Bytes of all segments.
    pub bytes: u64,
    /// Bytes of entries that are no longer referenced.
    pub dead_bytes: u64,
    /// Bytes of removals.
    pub removal_bytes: u64,
    /// Segment files.
    pub segments: u64,
}
