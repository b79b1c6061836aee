//! The disk as the engine sees it: a small set of operations, each with a guarantee about what survives a crash.
//!
//! ```text
//!   append ──> issued ──(sync)──> durable          bytes
//!   open(Create), rename, remove ──(sync_dir)──> durable      names
//! ```
//!
//! After a crash, issued and unsynced changes may be present, missing, torn or garbage, sector by sector and name by name.
//! Three implementations exist: [`simulated::SimulatedDisk`] here, and in the `disk` crate real files and real files that
//! forget unsynced changes. [`contract`] checks the rules for all of them.

use std::fmt;

use crash_point::CrashPoint;

pub mod contract;
pub mod crash_point;
pub mod names;
pub mod path;
pub mod simulated;

/// An open file of one [`Disk`]. Ids are never reused while the disk exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(pub u64);

/// A sync that was started and not yet waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SyncTicket(pub u64);

/// How [`Disk::open`] treats a missing or an existing file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode<'a> {
    /// The file must exist; otherwise [`DiskError::NotFound`].
    Existing,
    /// The file must not exist and is created empty, with the folders above it; otherwise
    /// [`DiskError::AlreadyExists`].
    Create,
    /// As [`OpenMode::Create`], with the file under the name `from`, which gets the new name and is empty: open ids of it
    /// become invalid, and nothing of its contents is read through the new one. The space stays allocated, so that appends
    /// within the old length do not lengthen the file on the device. [`DiskError::NotFound`] if there is no file `from`.
    ///
    /// **After a crash, or when it is opened again, the file may have its old bytes behind what was issued**, until a
    /// truncation of it, to whatever length, is durable. The new name is durable as a rename is. Until then a crash may leave the
    /// file under `from`, with its old and its new bytes, sector by sector.
    Recycled {
        /// The present name of the file.
        from: &'a str,
    },
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

/// The error of a disk operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskError {
    /// No space is left. Nothing was written; the same call may succeed once space is freed.
    Full,
    /// The process or the system is short of a shared resource: descriptors, memory. Nothing was written; the same call may
    /// succeed later.
    Scarce {
        /// The missing resource, and how to get more of it.
        what: &'static str,
    },
    /// The file or folder does not exist.
    NotFound {
        /// The requested path.
        path: String,
    },
    /// A file or folder of that name exists already.
    AlreadyExists {
        /// The existing path.
        path: String,
    },
    /// A read, or a truncation, went past the end of the file.
    BeyondEnd {
        /// The file.
        path: String,
        /// The requested offset of the read or the truncation.
        offset: u64,
        /// The requested number of bytes; 0 for a truncation.
        bytes: u64,
    },
    /// The device or the operating system refused, or the call was invalid (a malformed path, an id that is not open). Data
    /// in flight to that file is in an unknown state.
    Failed {
        /// The file or folder.
        path: String,
        /// The operation of [`Disk`].
        operation: &'static str,
        /// Why, in words.
        reason: String,
    },
}

impl DiskError {
    /// The error for an id that was closed, that a removal or a crash has ended, or that never existed.
    #[must_use]
    pub fn not_open(file: FileId, operation: &'static str) -> Self {
        let reason = "this id is not open: the file was closed, removed or replaced".to_owned();
        DiskError::Failed { path: format!("file id {}", file.0), operation, reason }
    }

    /// Whether nothing was done, and the same call may succeed later.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        matches!(self, DiskError::Full | DiskError::Scarce { .. })
    }

    /// The meaning of the error of an operation that makes a name durable, and a file with it: without a descriptor for the folder nothing was
    /// done, and the same call may succeed later.
    #[must_use]
    pub(crate) fn beyond_repair_unless_scarce(self) -> Self {
        match self {
            DiskError::Scarce { .. } => self,
            other => other.beyond_repair(),
        }
    }

    /// The meaning of a sync's error: if the disk has no room for what it accepted earlier, the error is not a full disk
    /// where a retry may succeed, but a loss of data.
    #[must_use]
    pub(crate) fn beyond_repair(self) -> Self {
        match self {
            DiskError::Full => DiskError::Failed {
                path: String::new(),
                operation: "sync",
                reason: "there was no space left for bytes that had been accepted".to_owned(),
            },
            DiskError::Scarce { what } => {
                DiskError::Failed { path: String::new(), operation: "sync", reason: what.to_owned() }
            }
            other => other,
        }
    }

    /// The error for a ticket that has been answered already, that a crash has ended, or that never existed.
    #[must_use]
    pub fn no_such_ticket(ticket: SyncTicket) -> Self {
        let reason = "no sync of this ticket is under way".to_owned();
        DiskError::Failed { path: format!("sync ticket {}", ticket.0), operation: "sync_done", reason }
    }
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DiskError::Full => write!(f, "no space is left on the disk"),
            DiskError::Scarce { what } => write!(f, "{what}"),
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

/// Creates a file; if its name is temporary, as [`create_over_remains`].
pub(crate) fn create_file(disk: &mut impl Disk, path: &str) -> DiskResult<FileId> {
    if path.ends_with(".tmp") { create_over_remains(disk, path) } else { disk.open(path, OpenMode::Create) }
}

/// Creates a file whose name no file in use has. What an attempt before has left under it, because its removal was refused, is
/// removed first.
pub(crate) fn create_over_remains(disk: &mut impl Disk, path: &str) -> DiskResult<FileId> {
    match disk.open(path, OpenMode::Create) {
        Err(DiskError::AlreadyExists { .. }) => {
            disk.remove(path)?;
            disk.open(path, OpenMode::Create)
        }
        created => created,
    }
}

/// A folder of append-only files. Paths are relative, components joined by `/`, of `[a-z0-9.-]` only (see [`path`]).
///
/// Every operation is complete when it returns, except a started sync. An operation that fails with [`DiskError::NotFound`],
/// [`DiskError::AlreadyExists`], [`DiskError::BeyondEnd`] or [`DiskError::Full`] has changed nothing, except that it may
/// have made folders.
///
/// Synced bytes stay synced when later appends share their last sector: the device may tear or garble what it is writing,
/// not the unchanged part of the same sector.
pub trait Disk {
    /// Opens a file for appending and reading. A file may be open under several ids; they see one file.
    fn open(&mut self, path: &str, mode: OpenMode<'_>) -> DiskResult<FileId>;

    /// Closes an open file. Whether its unsynced bytes survive does not change; a started sync of it continues.
    fn close(&mut self, file: FileId);

    /// The length of the file in bytes, issued appends included.
    fn bytes(&mut self, file: FileId) -> DiskResult<u64>;

    /// Adds `data` at the end of the file, atomically for readers: after an error the file's length is unchanged, and the
    /// call may be repeated if the error was [`DiskError::Full`].
    fn append(&mut self, file: FileId, data: &[u8]) -> DiskResult<()>;

    /// As [`Disk::append`] of all these, one behind the other: afterwards all of them are in the file, or none. One call may
    /// cost less than many.
    fn append_pieces(&mut self, file: FileId, pieces: &[&[u8]]) -> DiskResult<()> {
        match pieces {
            [one] => self.append(file, one),
            several => self.append(file, &several.concat()),
        }
    }

    /// Fills `into` from `offset`. Sees every append that returned. Short reads are errors.
    fn read_at(&mut self, file: FileId, offset: u64, into: &mut [u8]) -> DiskResult<()>;

    /// Makes the file's bytes and its length, as issued so far, survive a crash. Does not make its name durable:
    /// [`Disk::sync_dir`] does.
    ///
    /// After an error nothing issued since the last successful sync of the file may be considered durable, **and a later
    /// successful sync does not repair it**: the system may have dropped data that it could not write. The caller must write
    /// the bytes again, elsewhere.
    fn sync(&mut self, file: FileId) -> DiskResult<()>;

    /// Starts what [`Disk::sync`] does and returns at once. Covers everything issued before this call. A disk may refuse
    /// more than 1024 started and unanswered syncs.
    fn sync_begin(&mut self, file: FileId) -> DiskResult<SyncTicket>;

    /// As [`Disk::sync_begin`], for a sync that a request waits for: it has priority over other syncs, and a disk that can
    /// wake its owner does so when it is done.
    fn sync_begin_awaited(&mut self, file: FileId) -> DiskResult<SyncTicket> {
        self.sync_begin(file)
    }

    /// Starts what [`Disk::sync`] of the file and then [`Disk::sync_dir`] of its folder do, and returns as soon as it can:
    /// for a new file, whose name is not durable yet.
    fn sync_begin_with_name(&mut self, file: FileId, dir: &str) -> DiskResult<SyncTicket> {
        self.sync_dir(dir)?;
        self.sync_begin(file)
    }

    /// Whether a started sync is done. An error means that the sync failed: nothing may be considered durable. A ticket is
    /// forgotten once this has returned `Ok(true)` or an error.
    fn sync_done(&mut self, ticket: SyncTicket) -> DiskResult<bool>;

    /// Waits until a started sync is done. Errors, and the fate of the ticket, as [`Disk::sync_done`].
    fn sync_wait(&mut self, ticket: SyncTicket) -> DiskResult<()> {
        while !self.sync_done(ticket)? {}
        Ok(())
    }

    /// Announces that the file's first `bytes`, which are synced, will hardly be read from the disk: they are in the
    /// caller's memory, or needed only by recovery. A hint: a system with a cache of its own may use the space for other
    /// data.
    fn uncache(&mut self, _file: FileId, _bytes: u64) {}

    /// Announces that the file, which is new, will be appended to up to about so many bytes, and synced after many of these
    /// appends. A hint: the disk may allocate the space ahead, so that an append does not lengthen the file on the device,
    /// which a sync would have to write too. **After a crash, or when it is opened again, such a file may have zeros behind
    /// what was issued.** Until then it has the length that was issued.
    fn reserve(&mut self, _file: FileId, _bytes: u64) {}

    /// Announces that the engine has reached a point at which a crash leaves something to decide. A hint: a simulated disk
    /// may lose its power there.
    fn reached(&mut self, _point: CrashPoint) {}

    /// Truncates the file to `bytes`, which must not exceed its length ([`DiskError::BeyondEnd`]). Durable after the next
    /// sync of the file.
    fn truncate(&mut self, file: FileId, bytes: u64) -> DiskResult<()>;

    /// Gives a file another name in an existing folder, replacing a file of that name. Open ids follow the file; those of a
    /// replaced one become invalid. Atomic: after a crash the file has exactly one of its names. Durable after a sync of the
    /// target folder. Folders are not renamed.
    fn rename(&mut self, from: &str, to: &str) -> DiskResult<()>;

    /// Removes a file, or an empty folder. Open ids of it become invalid, and its bytes count as free. Durable after a sync
    /// of its folder; until then a crash may restore the name, with the file's contents.
    fn remove(&mut self, path: &str) -> DiskResult<()>;

    /// The names in a folder, sorted; empty if there is no such folder. `""` is the top.
    fn list(&mut self, dir: &str) -> DiskResult<Vec<DirEntry>>;

    /// Makes creations, renames and removals in the folder survive a crash, and the names of the folders above it. Other
    /// names in the folders above may stay undone. Without it, a crash keeps a prefix of a folder's changes.
    fn sync_dir(&mut self, dir: &str) -> DiskResult<()>;

    /// Bytes that can still be written, as far as the disk knows.
    fn free_bytes(&mut self) -> DiskResult<u64>;

    /// Whether so few files can still be created that data may soon find no file to be written to, although bytes are free.
    fn lacks_files(&mut self) -> bool;

    /// The greatest length that an append may give a file; a longer one is refused with [`DiskError::Full`].
    fn file_bytes_max(&mut self) -> u64 {
        u64::MAX
    }
}
