//! The calls on plain blobs: those with operations that are not transactions of a client. The input of their checker.

use std::fmt;

use zerohop_base::time::Time;
use zerohop_wire::ids::KeyspaceId;

/// Number of chunks of a plain blob, of [`PLAIN_CHUNK_BYTES`] each.
pub const PLAIN_CHUNKS: usize = 4;
/// Bytes of a chunk.
pub const PLAIN_CHUNK_BYTES: u64 = 4 << 10;

/// A call on a plain blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlainBlobAct {
    /// Creates it, empty, with this value in its attributes.
    Create {
        /// The value.
        value: u64,
    },
    /// Sets its attributes to this value.
    Describe {
        /// The value.
        value: u64,
    },
    /// Sets its size: half a chunk, or a multiple of that.
    Truncate {
        /// The size in bytes.
        size: u64,
        /// In steps, as its client does with many chunks.
        in_steps: bool,
    },
    /// Writes a value to the start of a chunk.
    Write {
        /// The chunk.
        chunk: usize,
        /// The value.
        value: u64,
    },
    /// Reads its attributes and its size.
    Stat,
    /// Reads its bytes.
    Read,
    /// Removes it: atomically, or in steps, as its client does with many chunks.
    Remove {
        /// In steps.
        in_steps: bool,
    },
}

impl PlainBlobAct {
    /// Whether it changes the blob.
    #[must_use]
    pub fn is_write(self) -> bool {
        !matches!(self, PlainBlobAct::Stat | PlainBlobAct::Read)
    }

    /// Whether its client makes it in several steps.
    #[must_use]
    pub fn is_in_steps(self) -> bool {
        matches!(
            self,
            PlainBlobAct::Remove { in_steps: true } | PlainBlobAct::Truncate { in_steps: true, .. }
        )
    }
}

/// The answer to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlainBlobReply {
    /// It was done.
    Done,
    /// There is such a blob already.
    Exists,
    /// There is no such blob.
    Absent,
    /// The attributes and the size.
    Header {
        /// The value in the attributes.
        attributes: u64,
        /// The size in bytes.
        size: u64,
    },
    /// The size, and the value of each chunk, 0 if it has none.
    Contents {
        /// The size in bytes.
        size: u64,
        /// The values.
        chunks: [u64; PLAIN_CHUNKS],
    },
}

/// The end of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlainBlobEnd {
    /// It is in progress, or its client is gone.
    Open,
    /// It was answered.
    Answered(PlainBlobReply),
    /// It has not taken effect.
    NotDone(String),
    /// It has not taken effect: its client has seen the time of a fast clock, and is refused until that time.
    ClockAhead,
    /// It may have taken effect, or may still do so.
    Unknown,
    /// It was answered with bytes that no client has written, or a failure that is impossible.
    Impossible(String),
}

/// A call on a plain blob, from its begin to its end.
#[derive(Clone, Debug)]
pub struct PlainBlobCall {
    /// The client.
    pub client: usize,
    /// The keyspace.
    pub keyspace: KeyspaceId,
    /// The call.
    pub act: PlainBlobAct,
    /// When it began.
    pub invoked: Time,
    /// When it ended.
    pub returned: Option<Time>,
    /// The end.
    pub end: PlainBlobEnd,
    /// It is made after all faults, and must be answered.
    pub must_end: bool,
}

impl fmt::Display for PlainBlobCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let until = self.returned.map_or(u64::MAX, |at| at.0);
        write!(f, "c{} [{} .. {until}] {:?}: {:?}", self.client, self.invoked.0, self.act, self.end)
    }
}
