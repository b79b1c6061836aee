//! The errors of the engine.

use std::fmt;

use crate::PartitionId;
use crate::disk::DiskError;
use crate::index::cursor::CursorFault;

/// The result of an engine operation.
pub type EngineResult<T> = Result<T, EngineError>;

/// Why an operation was refused or failed. No error loses entries that were accepted earlier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineError {
    /// The disk has no room for more entries. Reads and (for a while) removals still work; writes work again once space is
    /// freed.
    DiskFull {
        /// Bytes still free.
        free_bytes: u64,
    },
    /// No file may be long enough for this entry: the limit of file sizes of the process (`ulimit -f`) forbids it.
    FileSizeLimit {
        /// The greatest length of a file, in bytes.
        limit_bytes: u64,
    },
    /// The process or the system is out of descriptors or memory, or compaction is about to give back space of a full disk:
    /// nothing was done, and the call may be repeated.
    Scarce {
        /// The missing resource, and how to get more of it.
        what: &'static str,
    },
    /// A partition that never reaches a disk has filled the memory budget.
    MemoryFull {
        /// The budget, in bytes.
        budget_bytes: u64,
    },
    /// The disk failed; the partition accepts no writes until it is opened again.
    Disk(DiskError),
    /// An earlier failure of the disk, or a broken invariant, stopped this partition: it accepts no writes until it is opened
    /// again.
    Stopped {
        /// The failure.
        reason: String,
    },
    /// The bytes on disk of this entry differ from those written. They were not returned.
    Corrupt {
        /// The partition.
        partition: PartitionId,
        /// Segment file and offset, for the operator.
        place: String,
    },
    /// The key is empty or longer than [`crate::limits::KEY_BYTES_MAX`].
    KeyLength {
        /// Bytes given.
        bytes: usize,
    },
    /// The payload is longer than [`crate::limits::PAYLOAD_BYTES_MAX`].
    PayloadTooLong {
        /// Bytes given.
        bytes: usize,
    },
    /// The partition was never opened, or has been dropped.
    UnknownPartition,
    /// The log ends elsewhere: an entry must follow the last one, in index and without a lower epoch.
    NotNext {
        /// Epoch and index of the last entry.
        last: (u32, u64),
    },
    /// Another member's log is being installed: until it is complete, no other entry is added to it or truncated.
    Incoming,
    /// Committed entries are never truncated.
    Committed {
        /// The commit index.
        commit: u64,
    },
    /// The files have another format, or do not match their names.
    Format {
        /// The file.
        path: String,
        /// The fault.
        reason: String,
    },
    /// The cursor is no position of this partition's index. Nothing was done.
    Cursor(CursorFault),
    /// The partition does not keep the order of its keys: it has no ranges. Nothing was done.
    NotOrdered,
    /// A bound of [`crate::limits`] was reached.
    Limit {
        /// The limit, in words.
        what: &'static str,
    },
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EngineError::DiskFull { free_bytes } => write!(
                f,
                "the disk is nearly full ({free_bytes} bytes left): writes are refused until space is freed; reads and removals go on"
            ),
            EngineError::FileSizeLimit { limit_bytes } => write!(
                f,
                "the limit of file sizes of this process (`ulimit -f`, {limit_bytes} bytes) leaves no room for it: start the process with a \
                 higher limit (`ulimit -f unlimited`; LimitFSIZE=infinity for systemd)"
            ),
            EngineError::Scarce { what } => write!(f, "{what}"),
            EngineError::MemoryFull { budget_bytes } => {
                write!(
                    f,
                    "data held only in memory has filled its budget of {budget_bytes} bytes: remove some or raise the budget"
                )
            }
            EngineError::Disk(error) => write!(f, "{error}"),
            EngineError::Stopped { reason } => {
                write!(
                    f,
                    "writes stopped after a failure ({reason}): repair the disk if it has failed, and open the store again"
                )
            }
            EngineError::Corrupt { partition, place } => write!(
                f,
                "partition {partition}: the bytes at {place} are not the ones that were written; they were not returned"
            ),
            EngineError::KeyLength { bytes } => {
                write!(f, "a key has 1 to {} bytes, this one {bytes}", crate::limits::KEY_BYTES_MAX)
            }
            EngineError::PayloadTooLong { bytes } => {
                write!(f, "a value has at most {} bytes, this one {bytes}", crate::limits::PAYLOAD_BYTES_MAX)
            }
            EngineError::UnknownPartition => write!(f, "this partition is not open here"),
            EngineError::NotNext { last: (epoch, index) } => {
                write!(f, "the entry does not follow the last one, which is {index} of epoch {epoch}")
            }
            EngineError::Incoming => {
                write!(f, "this partition is taking another's log in, and has not all of it")
            }
            EngineError::Committed { commit } => {
                write!(f, "entries up to {commit} are committed and cannot be cut off")
            }
            EngineError::Format { path, reason } => write!(f, "{path}: {reason}"),
            EngineError::Cursor(fault) => write!(f, "the cursor is no position here: {fault}"),
            EngineError::NotOrdered => write!(f, "this partition does not keep the order of its keys"),
            EngineError::Limit { what } => write!(f, "limit reached: {what}"),
        }
    }
}

impl std::error::Error for EngineError {}

impl EngineError {
    /// Whether nothing was done, and the same call may succeed once the disk has room, or the process has descriptors.
    #[must_use]
    pub fn is_out_of_space(&self) -> bool {
        match self {
            EngineError::DiskFull { .. } | EngineError::Scarce { .. } => true,
            EngineError::Disk(error) => error.is_temporary(),
            _ => false,
        }
    }
}

impl From<CursorFault> for EngineError {
    fn from(fault: CursorFault) -> Self {
        EngineError::Cursor(fault)
    }
}

impl From<DiskError> for EngineError {
    fn from(error: DiskError) -> Self {
        match error {
            DiskError::Scarce { what } => EngineError::Scarce { what },
            error => EngineError::Disk(error),
        }
    }
}
