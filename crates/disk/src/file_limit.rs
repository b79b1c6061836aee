//! Writes that were refused by the limit of file sizes of this process (`ulimit -f`), and not for lack of room on the disk.
//!
//! The limit is one of the process, so the count is one for all of its disks.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Resource, getrlimit};
use zerohop_engine::disk::DiskError;

static REFUSALS: AtomicU64 = AtomicU64::new(0);

/// The limit of file sizes, once it has refused writes. Its text names the limit and the remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSizeLimit {
    /// Number of refused writes since the start of the process.
    pub refusals: u64,
    /// The limit now, in bytes; `None`: it has been removed.
    pub limit_bytes: Option<u64>,
}

impl FileSizeLimit {
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
        write!(
            f,
            "the limit of file sizes of this process (`ulimit -f`{limit}) has refused {refusals} of its writes: start the node without \
             the limit (`ulimit -f unlimited`; LimitFSIZE=infinity for systemd)"
        )
    }
}
