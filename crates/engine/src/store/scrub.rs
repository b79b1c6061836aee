//! The position and the findings of a scrub.

/// An entry whose payload is not as written; its head and key are intact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CorruptEntry {
    /// Its epoch.
    pub epoch: u32,
    /// Its log index.
    pub index: u64,
}

/// The position at which a scrub continues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubPosition {
    /// First log index of the segment.
    pub(crate) index: u64,
    /// How often the segment was rewritten.
    pub(crate) generation: u32,
    /// Offset in it.
    pub(crate) offset: u64,
}

/// The result of a step of a scrub.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrubStep {
    /// The next position; `None`: everything has been read.
    pub next: Option<ScrubPosition>,
    /// Bytes read.
    pub bytes: u64,
    /// Entries that can be repaired.
    pub corrupt: Vec<CorruptEntry>,
    /// The scrub found bytes that are no entry; the original entry cannot be determined.
    pub is_unreadable: bool,
}
