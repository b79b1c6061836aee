//! Writes that were refused by the limit of file sizes of this process (`ulimit -f`), and not for lack of room on the disk.
//!
//! The limit is one of the process, so there is one mark for all of its disks. The writes are not counted: after the first refusal an instance
//! refuses writes without an attempt.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Resource, getrlimit};
use zerohop_engine::disk::DiskError;
use zerohop_engine::limits::{KEY_BYTES_MAX, PAYLOAD_BYTES_MAX, SEGMENT_FRAME_BYTES};

static HAS_REFUSED: AtomicBool = AtomicBool::new(false);

/// A file of so many bytes can hold every entry.
const AMPLE_BYTES: u64 = (KEY_BYTES_MAX + PAYLOAD_BYTES_MAX) as u64 + SEGMENT_FRAME_BYTES;

/// The limit of file sizes, if it matters. Its text names the limit and the remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSizeLimit {
    /// It has refused a write since the start of the process.
    pub has_refused: bool,
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
        FileSizeLimit::that_refused().or(is_low.then_some(FileSizeLimit { has_refused: false, limit_bytes }))
    }

    /// The limit of this process; `None`: it has refused no write.
    #[must_use]
    pub fn that_refused() -> Option<FileSizeLimit> {
        let has_refused = HAS_REFUSED.load(Ordering::Relaxed);
        has_refused.then(|| FileSizeLimit { has_refused, limit_bytes: getrlimit(Resource::Fsize).current })
    }

    /// Notes a refused write, and returns its error.
    pub(crate) fn refusal() -> DiskError {
        HAS_REFUSED.store(true, Ordering::Relaxed);
        DiskError::Full
    }
}

impl fmt::Display for FileSizeLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FileSizeLimit { has_refused, limit_bytes } = self;
        let limit = limit_bytes.map_or(String::new(), |bytes| format!(", {bytes} bytes"));
        let effect = match has_refused {
            false => "is too low for the longest values, which are refused",
            true => "has stopped writes",
        };
        write!(
            f,
            "the limit of file sizes of this process (`ulimit -f`{limit}) {effect}: start the node without the limit (`ulimit -f \
             unlimited`; LimitFSIZE=infinity for systemd)"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_limit_that_has_refused_writes_has_no_count() {
        let limit = FileSizeLimit { has_refused: true, limit_bytes: Some(2_150_400) };
        let start = "the limit of file sizes of this process (`ulimit -f`, 2150400 bytes) has stopped writes: start the node";
        assert!(limit.to_string().starts_with(start), "{limit}");
    }
}
