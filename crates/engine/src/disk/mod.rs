//! The disk as the engine sees it: a handful of operations, each with a promise about what survives a crash.
//!
//! ```text
//!   append ──> issued ──(sync)──> durable          bytes
//!   open(Create), rename, remove ──(sync_dir)──> durable      names
//! ```
//!
//! What was issued and not synced may, after a crash, be there, be gone, be torn, or be garbage, sector by
//! sector and name by name. Three implementations exist: [`simulated::SimulatedDisk`] here, and in the `node`
//! crate real files and real files that forget what was not synced.

use std::fmt;

pub mod simulated;

/// An open file of one [`Disk`]. Ids are never reused while the disk lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(pub u64);

/// A sync that was begun and not yet waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SyncTicket(pub u64);

/// How [`Disk::open`] treats a missing or an existing file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// The file must exist; otherwise [`DiskError::NotFound`].
    Existing,
    /// The file must not exist and is created empty, with the folders above it; otherwise
    /// [`DiskError::AlreadyExists`].
    Create,
}

/// One name in a folder, as [`Disk::list`] returns it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// The last component of the path.
    pub name: String,
    /// Bytes in the file; 0 for a folder.
    pub bytes: u64,
    /// Whether this is a folder.
    pub is_dir: bool,
}

/// What a disk may answer instead of doing what it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskError {
    /// No space is left. Nothing was written; the same call may succeed once space is freed.
    Full,
    /// There is no such file or folder.
    NotFound { path: String },
    /// A file of that name exists already.
    AlreadyExists { path: String },
    /// A read went past the end of the file.
    BeyondEnd { path: String, offset: u64, bytes: u64 },
    /// The device or the operating system refused. What was in flight to that file is in an unknown state.
    Failed { path: String, operation: &'static str, reason: String },
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DiskError::Full => write!(f, "no space is left on the disk"),
            DiskError::NotFound { path } => write!(f, "{path}: no such file"),
            DiskError::AlreadyExists { path } => write!(f, "{path}: exists already"),
            DiskError::BeyondEnd { path, offset, bytes } => {
                write!(f, "{path}: {bytes} bytes at {offset} lie beyond its end")
            }
            DiskError::Failed { path, operation, reason } => {
                write!(f, "{path}: {operation} failed: {reason}")
            }
        }
    }
}

impl std::error::Error for DiskError {}

/// The result of a disk operation.
pub type DiskResult<T> = Result<T, DiskError>;

/// A folder of append-only files. Paths are relative, components joined by `/`, of `[a-z0-9.-]` only.
///
/// Every operation is complete when it returns, except a begun sync.
pub trait Disk {
    /// Opens a file for appending and reading.
    fn open(&mut self, path: &str, mode: OpenMode) -> DiskResult<FileId>;

    /// Forgets an open file. Its unsynced bytes keep their fate; a begun sync of it goes on.
    fn close(&mut self, file: FileId);

    /// The length of the file in bytes, issued appends included.
    fn bytes(&mut self, file: FileId) -> DiskResult<u64>;

    /// Adds `data` at the end of the file. All or nothing to readers: after an error the file's length is what
    /// it was, and the call may be repeated if the error was [`DiskError::Full`].
    fn append(&mut self, file: FileId, data: &[u8]) -> DiskResult<()>;

    /// Fills `into` from `offset`. Sees every append that returned. Short reads are errors.
    fn read_at(&mut self, file: FileId, offset: u64, into: &mut [u8]) -> DiskResult<()>;

    /// Makes the file's bytes and its length, as issued so far, survive a crash. Does not make its name durable:
    /// that takes [`Disk::sync_dir`].
    fn sync(&mut self, file: FileId) -> DiskResult<()>;

    /// Begins what [`Disk::sync`] does and returns at once. Covers what was issued before this call.
    fn sync_begin(&mut self, file: FileId) -> DiskResult<SyncTicket>;

    /// Whether a begun sync is done. An error means that the sync failed: nothing may be believed durable. A
    /// ticket is forgotten once this has returned `Ok(true)` or an error.
    fn sync_done(&mut self, ticket: SyncTicket) -> DiskResult<bool>;

    /// Cuts the file to `bytes`, which must not exceed its length. Durable after the next sync of the file.
    fn truncate(&mut self, file: FileId, bytes: u64) -> DiskResult<()>;

    /// Gives a file another name, replacing a file of that name. Open ids follow the file. Durable after a sync of
    /// the folder it lands in.
    fn rename(&mut self, from: &str, to: &str) -> DiskResult<()>;

    /// Removes a file, or an empty folder. Open ids of it become invalid. Durable after a sync of its folder.
    fn remove(&mut self, path: &str) -> DiskResult<()>;

    /// The names in a folder, sorted; empty if there is no such folder. `""` is the top.
    fn list(&mut self, dir: &str) -> DiskResult<Vec<DirEntry>>;

    /// Makes creations, renames and removals in the folder survive a crash, and the names of the folders above it.
    fn sync_dir(&mut self, dir: &str) -> DiskResult<()>;

    /// Bytes that can still be written, as far as the disk knows.
    fn free_bytes(&mut self) -> DiskResult<u64>;
}
