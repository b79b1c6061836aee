//! A run of bytes of a log, as a snapshot install reads it.

/// The position in a log at which reading continues. The default is its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunPlace {
    /// First log index and generation of the segment; with the offset 0, of the first segment that starts at
    /// or behind that index.
    pub(crate) first_index: u64,
    pub(crate) generation: u32,
    pub(crate) offset: u64,
}

/// The result of reading a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogRun {
    /// Complete entries of one segment, and the bytes between them; the place is behind them.
    Bytes {
        /// They start with the segment's header. Otherwise they follow the bytes that were read before.
        begins: bool,
    },
    /// There is nothing more up to that log index.
    End,
    /// The payload of the entry of this log index is not as written.
    Corrupt {
        /// The log index.
        index: u64,
    },
    /// The segment that was being read does not exist any more.
    Replaced,
}
