//! Writes that were refused by the limit of file sizes of this process (`ulimit -f`), and not for lack of room on the disk.
//!
//! The limit is one of the process, so the count is one for all of its disks.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Resource, getrlimit};
use zerohop_engine::disk::DiskError;
use zerohop_engine::limits::{KEY_BYTES_MAX, PAYLOAD_BYTES_MAX, SEGMENT_FRAME_BYTES};

static REFUSALS: AtomicU64 = AtomicU64::new(0);

/// A file of so many bytes can hold every entry.
const AMPLE_BYTES: u64 = (KEY_BYTES_MAX + PAYLOAD_BYTES_MAX) as u64 + SEGMENT_FRAME_BYTES;

/// The limit of file sizes, if it matters. Its text names the limit and the remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSizeLimit {
    /// Number of refused writes since the start of the process.
    pub refusals: u64,
    /// The limit now, in bytes; `None`: it has been removed.
    pub limit_bytes: Option<u64>,
}

impl FileSizeLimit {
    /// The process's limit of the length of a file, in bytes.
    pub(crate) fn bytes_max() -> u64 {
        getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX)
    }

    /// The limit of this process if it has refused writes, or is too low for the longest entries of a log.
    #[must_use]
    pub fn in_effect() -> Option<FileSizeLimit> {
        let limit_bytes = getrlimit(Resource::Fsize).current;
        let is_low = limit_bytes.is_some_and(|bytes| bytes < AMPLE_BYTES);
        FileSizeLimit::that_refused().or(is_low.then_some(FileSizeLimit { refusals: 0, limit_bytes }))
    }

    /// The limit of this process; `None`: it has refused no write.
    #[must_use]
    pub fn that_refused() -> Option<FileSizeLimit> {
        let refusals = REFUSALS.load(Ordering::Relaxed);
        (refusals > 0).then(|| FileSizeLimit { refusals, limit_bytes: getrlimit(Resource::Fsize).current })
    }

    /// Counts a refused write, and returns its error.
    pub(crate) fn refusal() -> DiskError {
        REFUSALS.fetch_add(1, Ordering::Relaxed);
        DiskError::Full
    }
}

impl fmt::Display for FileSizeLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FileSizeLimit { refusals, limit_bytes } = self;
        let limit = limit_bytes.map_or(String::new(), |bytes| format!(", {bytes} bytes"));
        let effect = match refusals {
            0 => "is too low for the longest values, which are refused".to_owned(),
            _ => format!("has refused {refusals} of its writes"),
        };
        write!(
            f,
            "the limit of file sizes of this process (`ulimit -f`{limit}) {effect}: start the node without the limit (`ulimit -f \
             unlimited`; LimitFSIZE=infinity for systemd)"
        )
    }
}
