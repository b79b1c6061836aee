//! File systems with a fixed number of files (inodes): nearly none may be left while bytes are free.
//!
//! The nodes of a process share the disk, so there is one mark for all.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// So many files must remain: each partition may need one for data that it has accepted, and compaction and checkpoints need others.
const FILES_RESERVE: u64 = 1_024;

/// A shortage ends once so many more remain: each call of maintenance may remove or create some.
const SHORTAGE_END_FILES: u64 = FILES_RESERVE / 8;

/// The number of files that remain, in a shortage.
static FILES_LEFT: AtomicU64 = AtomicU64::new(u64::MAX);

/// Few files can still be created. Its text names the cause and the remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileShortage {
    /// So many remain.
    pub files_left: u64,
}

impl FileShortage {
    /// The shortage that the disk reported last.
    #[must_use]
    pub fn now() -> Option<FileShortage> {
        let files_left = FILES_LEFT.load(Ordering::Relaxed);
        (files_left != u64::MAX).then_some(FileShortage { files_left })
    }

    /// Notes how many of its files a file system has left. One without a fixed number has none.
    pub(crate) fn note(files: u64, files_left: u64) -> Option<FileShortage> {
        let found = FileShortage::of(files, files_left, FileShortage::now().is_some());
        FILES_LEFT.store(found.map_or(u64::MAX, |found| found.files_left), Ordering::Relaxed);
        found
    }

    fn of(files: u64, files_left: u64, was_short: bool) -> Option<FileShortage> {
        let reserve = FILES_RESERVE.min(files / 2);
        let needed = if was_short { reserve + SHORTAGE_END_FILES.min(reserve / 8) } else { reserve };
        (files > 0 && files_left < needed).then_some(FileShortage { files_left })
    }
}

impl fmt::Display for FileShortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FileShortage { files_left } = self;
        write!(
            f,
            "its file system can create only {files_left} more files (`df -i` shows its inodes): remove other files"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortage_begins_below_reserve_and_ends_above_it() {
        let is_short = |files, left, was| FileShortage::of(files, left, was).is_some();
        assert!(!is_short(1_000_000, 1_024, false) && is_short(1_000_000, 1_023, false));
        assert!(is_short(1_000_000, 1_151, true) && !is_short(1_000_000, 1_152, true));
        // A small file system keeps half of its files.
        assert!(!is_short(700, 350, false) && is_short(700, 349, false));
        assert!(!is_short(0, 0, false), "this file system has no fixed number of files");
    }
}
