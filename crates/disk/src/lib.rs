//! Real disks behind the engine's [`Disk`].
//!
//! ```text
//!   NodeDisk ── Files         FilesDisk: a folder of real files                            (files)
//!            ├─ HoldUnsynced  the same, but unsynced data never reaches the files,         (hold_unsynced)
//!            │                so that killing the process has the effect of a power failure
//!            └─ Memory        no disk: for a node that stores everything in memory         (memory)
//!   folder_lock: only one process has a folder open; a copy names that of the original
//! ```

mod file_limit;
mod file_shortage;
mod files;
mod folder_lock;
mod memory;
mod open_files;
mod power_loss;
mod replace;
mod slots;
mod sync_threads;

use std::fmt;
use std::path::{Path, PathBuf};
use std::task::Waker;

use zerohop_engine::disk::{DirEntry, Disk, DiskError, DiskResult, FileId, OpenMode, SyncTicket};
use zerohop_wire::escaped::shown_path;

pub use self::file_limit::FileSizeLimit;
pub use self::file_shortage::FileShortage;
pub use self::files::FilesDisk;
pub use self::folder_lock::{LOCK_FILE, process_of_original};
pub use self::memory::{MEMORY_DISK_BYTES_MAX, MemoryDisk};
pub use self::power_loss::{PowerLossDisk, UNSYNCED_BYTES_MAX};
pub use self::replace::{remove_file, replace_file};

/// The environment variable that selects a disk for tests of whole processes. Its only value is [`HOLD_UNSYNCED`].
pub const TEST_DISK_VARIABLE: &str = "ZEROHOP_TEST_DISK";

/// The file at the top of an embedded store's folder, by which it is known.
pub const EMBEDDED_SETTINGS_FILE: &str = "store.txt";

/// The value of [`TEST_DISK_VARIABLE`] that selects [`PowerLossDisk`].
pub const HOLD_UNSYNCED: &str = "hold-unsynced";

/// The disk of one node: real files, unless the node stores everything in memory or a test has selected [`PowerLossDisk`].
#[derive(Debug)]
pub enum NodeDisk {
    /// Real files.
    Files(FilesDisk),
    /// Real files that receive only synced data.
    HoldUnsynced(PowerLossDisk),
    /// Memory.
    Memory(MemoryDisk),
}

/// The reason why a data folder could not be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenDiskError {
    /// Another process uses the folder.
    InUse {
        /// The data folder.
        root: PathBuf,
    },
    /// [`TEST_DISK_VARIABLE`] has an unknown value.
    UnknownTestDisk {
        /// The value.
        value: String,
    },
    /// The operating system reports an error.
    System {
        /// The file or folder.
        path: PathBuf,
        /// The operation that failed.
        operation: &'static str,
        /// The reason.
        reason: String,
    },
    /// The contents could not be read.
    Disk(DiskError),
}

impl NodeDisk {
    /// Opens the data folder `root`, and creates it if it does not exist. The environment variable [`TEST_DISK_VARIABLE`] selects the kind of disk;
    /// unset or empty means real files.
    ///
    /// # Errors
    /// [`OpenDiskError`], for example because another process has the folder open.
    pub fn open(root: &Path) -> Result<Self, OpenDiskError> {
        let value = std::env::var_os(TEST_DISK_VARIABLE).unwrap_or_default();
        Self::open_kind(root, &value.to_string_lossy())
    }

    /// A disk whose contents are lost with the process.
    #[must_use]
    pub fn in_memory() -> Self {
        NodeDisk::Memory(MemoryDisk::default())
    }

    /// Sets the waker to call whenever a prioritized sync is done.
    pub fn set_sync_waker(&mut self, waker: Waker) {
        if let NodeDisk::Files(disk) = self {
            disk.set_sync_waker(waker);
        }
    }

    /// A warning that the program must show to its user at the start: this disk is not for data.
    #[must_use]
    pub fn warning(&self) -> Option<&'static str> {
        match self {
            NodeDisk::Files(_) | NodeDisk::Memory(_) => None,
            NodeDisk::HoldUnsynced(_) => Some(
                "ZEROHOP_TEST_DISK=hold-unsynced: THIS IS A DISK FOR TESTS. Data that was not synced is kept in \
                 memory and IS LOST when this process ends. Unset the variable to keep data.",
            ),
        }
    }

    fn open_kind(root: &Path, kind: &str) -> Result<Self, OpenDiskError> {
        match kind {
            "" => Ok(NodeDisk::Files(FilesDisk::open(root)?)),
            HOLD_UNSYNCED => Ok(NodeDisk::HoldUnsynced(PowerLossDisk::open(root)?)),
            _ => Err(OpenDiskError::UnknownTestDisk { value: kind.to_owned() }),
        }
    }
}

/// Calls one method of the selected disk.
macro_rules! either {
    ($self:ident.$method:ident($($argument:expr),*)) => {
        match $self {
            NodeDisk::Files(disk) => disk.$method($($argument),*),
            NodeDisk::HoldUnsynced(disk) => disk.$method($($argument),*),
            NodeDisk::Memory(disk) => disk.$method($($argument),*),
        }
    };
}

impl Disk for NodeDisk {
    fn open(&mut self, path: &str, mode: OpenMode<'_>) -> DiskResult<FileId> {
        either!(self.open(path, mode))
    }

    fn close(&mut self, file: FileId) {
        either!(self.close(file));
    }

    fn bytes(&mut self, file: FileId) -> DiskResult<u64> {
        either!(self.bytes(file))
    }

    fn append(&mut self, file: FileId, data: &[u8]) -> DiskResult<()> {
        either!(self.append(file, data))
    }

    fn append_pieces(&mut self, file: FileId, pieces: &[&[u8]]) -> DiskResult<()> {
        either!(self.append_pieces(file, pieces))
    }

    fn read_at(&mut self, file: FileId, offset: u64, into: &mut [u8]) -> DiskResult<()> {
        either!(self.read_at(file, offset, into))
    }

    fn sync(&mut self, file: FileId) -> DiskResult<()> {
        either!(self.sync(file))
    }

    fn sync_begin(&mut self, file: FileId) -> DiskResult<SyncTicket> {
        either!(self.sync_begin(file))
    }

    fn sync_begin_awaited(&mut self, file: FileId) -> DiskResult<SyncTicket> {
        either!(self.sync_begin_awaited(file))
    }

    fn sync_begin_with_name(&mut self, file: FileId, dir: &str) -> DiskResult<SyncTicket> {
        either!(self.sync_begin_with_name(file, dir))
    }

    fn sync_done(&mut self, ticket: SyncTicket) -> DiskResult<bool> {
        either!(self.sync_done(ticket))
    }

    fn sync_wait(&mut self, ticket: SyncTicket) -> DiskResult<()> {
        either!(self.sync_wait(ticket))
    }

    fn uncache(&mut self, file: FileId, bytes: u64) {
        either!(self.uncache(file, bytes));
    }

    fn reserve(&mut self, file: FileId, bytes: u64) {
        either!(self.reserve(file, bytes));
    }

    fn truncate(&mut self, file: FileId, bytes: u64) -> DiskResult<()> {
        either!(self.truncate(file, bytes))
    }

    fn rename(&mut self, from: &str, to: &str) -> DiskResult<()> {
        either!(self.rename(from, to))
    }

    fn remove(&mut self, path: &str) -> DiskResult<()> {
        either!(self.remove(path))
    }

    fn list(&mut self, dir: &str) -> DiskResult<Vec<DirEntry>> {
        either!(self.list(dir))
    }

    fn sync_dir(&mut self, dir: &str) -> DiskResult<()> {
        either!(self.sync_dir(dir))
    }

    fn free_bytes(&mut self) -> DiskResult<u64> {
        either!(self.free_bytes())
    }

    fn lacks_files(&mut self) -> bool {
        either!(self.lacks_files())
    }

    fn file_bytes_max(&mut self) -> u64 {
        either!(self.file_bytes_max())
    }
}

impl OpenDiskError {
    fn system(path: &Path, operation: &'static str, error: &std::io::Error) -> OpenDiskError {
        OpenDiskError::System { path: path.to_owned(), operation, reason: error.to_string() }
    }
}

impl fmt::Display for OpenDiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenDiskError::InUse { root } => write!(
                f,
                "{}: another zerohop process uses this data folder, or another store of this process; stop it or give another folder",
                shown_path(root)
            ),
            OpenDiskError::UnknownTestDisk { value } => write!(
                f,
                "{TEST_DISK_VARIABLE}={value}: no such disk; the only value is {HOLD_UNSYNCED}, and unset means \
                 real files"
            ),
            OpenDiskError::System { path, operation, reason } => {
                write!(f, "{}: {operation} failed: {reason}", shown_path(path))
            }
            OpenDiskError::Disk(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for OpenDiskError {}

impl From<DiskError> for OpenDiskError {
    fn from(error: DiskError) -> Self {
        OpenDiskError::Disk(error)
    }
}

#[cfg(test)]
mod tests {
    use zerohop_engine::disk::contract::{check_against_model, check_contract};

    use super::*;

    #[test]
    fn both_disks_meet_the_contract_and_are_send() {
        fn is_send<T: Send>(_: &T) {}
        for kind in ["", HOLD_UNSYNCED] {
            let root = tempfile::tempdir().unwrap();
            let mut disk = NodeDisk::open_kind(root.path(), kind).unwrap();
            is_send(&disk);
            check_contract(&mut disk);
            check_against_model(&mut disk, 1, 200);
            assert_eq!(disk.warning().is_some(), kind == HOLD_UNSYNCED);
        }
    }

    #[test]
    fn unknown_test_disk_is_refused_with_list_of_known_ones() {
        let root = tempfile::tempdir().unwrap();
        let error = NodeDisk::open_kind(root.path(), "hold").unwrap_err();
        assert_eq!(error, OpenDiskError::UnknownTestDisk { value: "hold".to_owned() });
        assert!(error.to_string().contains(HOLD_UNSYNCED));
    }
}
