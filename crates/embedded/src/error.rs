//! Errors of the embedded store.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use zerohop_disk::OpenDiskError;
use zerohop_engine::EngineError;
use zerohop_wire::escaped::shown_path;

use super::limits::{RECORD_BYTES_MAX, VALUE_BYTES_MAX};

/// The reason why an operation was refused or has failed. None of these errors loses earlier answered writes, unless its description says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreError {
    /// The folder could not be opened, for example because another process uses it.
    Folder(OpenDiskError),
    /// The folder has other contents, another format, or a store with other fixed options.
    Settings {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong, and what the user can do.
        reason: String,
    },
    /// The value is too long for one call.
    ValueTooLong {
        /// Its length in bytes.
        bytes: usize,
    },
    /// The record would exceed the maximum length that a lookup can return.
    RecordTooLong {
        /// The resulting length in bytes.
        bytes: u64,
    },
    /// The record is a list and the operation needs bytes, or the reverse.
    WrongType {
        /// Whether the record is a list.
        is_list: bool,
    },
    /// The store is not ordered, so that it has no ranges of keys.
    NotOrdered,
    /// The lower bound of a range is above its upper bound.
    Bounds,
    /// The engine refused or failed; a write has changed nothing.
    Engine(EngineError),
    /// The write was accepted, but could not be made durable. It may or may not exist from now on.
    NotDurable(EngineError),
    /// A worker's queue stayed full; the operation was not done.
    Busy {
        /// The worker.
        instance: u16,
        /// How long the caller waited.
        waited: Duration,
    },
    /// A worker did not answer in time. A write may or may not exist from now on.
    NoAnswer {
        /// The worker.
        instance: u16,
        /// How long the caller waited.
        waited: Duration,
    },
    /// A worker has failed. A pending write may or may not exist from now on.
    Ended {
        /// The worker.
        instance: u16,
        /// What happened.
        reason: String,
    },
    /// The store was closed.
    Closed,
    /// The system could not provide a thread or a random number.
    System {
        /// The operation that failed.
        operation: &'static str,
        /// The reason.
        reason: String,
    },
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::Folder(error) => error.fmt(f),
            StoreError::Settings { path, reason } => write!(f, "{}: {reason}", shown_path(path)),
            StoreError::ValueTooLong { bytes } => {
                write!(f, "a value has at most {VALUE_BYTES_MAX} bytes, this one {bytes}: store it in parts")
            }
            StoreError::RecordTooLong { bytes } => write!(
                f,
                "a record takes at most {RECORD_BYTES_MAX} bytes, this one would take {bytes}: begin another one"
            ),
            StoreError::WrongType { is_list: true } => {
                write!(f, "this record is a list: read it with `values`, add to it with `append`")
            }
            StoreError::WrongType { is_list: false } => {
                write!(f, "this record is bytes: read it with `lookup`, add to it with `extend`")
            }
            StoreError::NotOrdered => write!(
                f,
                "the store is not ordered: walk over all keys with `keys`, or copy its data into a store with the option \
                 `ordered`"
            ),
            StoreError::Bounds => {
                write!(f, "the lower bound of the range is above its upper bound: exchange them")
            }
            StoreError::Engine(error) => error.fmt(f),
            StoreError::NotDurable(error) => {
                write!(
                    f,
                    "the write was applied but may not survive a crash, because the flush failed: {error}"
                )
            }
            StoreError::Busy { instance, waited } => write!(
                f,
                "instance {instance} took no request for {waited:?}: its disk is slow or stuck; nothing was done, \
                 try again"
            ),
            StoreError::NoAnswer { instance, waited } => write!(
                f,
                "instance {instance} gave no answer for {waited:?}: its disk is slow or stuck; a write may or may \
                 not be there, look it up"
            ),
            StoreError::Ended { instance, reason } => {
                write!(f, "instance {instance} has ended ({reason}): close the store and open it again")
            }
            StoreError::Closed => write!(f, "the store is closed: open it again"),
            StoreError::System { operation, reason } => write!(f, "{operation} failed: {reason}"),
        }
    }
}

impl std::error::Error for StoreError {}

impl From<EngineError> for StoreError {
    fn from(error: EngineError) -> Self {
        StoreError::Engine(error)
    }
}

impl From<OpenDiskError> for StoreError {
    fn from(error: OpenDiskError) -> Self {
        StoreError::Folder(error)
    }
}
