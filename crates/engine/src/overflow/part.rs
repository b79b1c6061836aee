//! A part of a record of several parts.

/// One part of a record: an entry of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainPart {
    /// Log index of its entry.
    pub index: u64,
    /// Bytes of the complete entry, for the account of dead space.
    pub entry_bytes: u32,
    /// Values (of a list) or bytes in it; for a chunk, the bytes that it covers.
    pub units: u32,
}
