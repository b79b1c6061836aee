//! The open files of a disk, with a limited number of descriptors.
//!
//! An id identifies a file, and a file has a descriptor only while it needs one. If too many are open, the least recently used one is closed,
//! preferably one without unsynced bytes. The system reports a failed write-back to the descriptors that were open, so closing one with unsynced
//! bytes could hide their loss. If all have unsynced bytes, the chosen file is synced first, and a failure is recorded in the file.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{FileType, Mode, OFlags, fdatasync, fstat, ftruncate, openat};
use rustix::io::{Errno, retry_on_intr};
use zerohop_engine::disk::{DiskError, DiskResult, FileId};

use super::slots::Slots;

/// A file that is open, or that has a state to remember.
#[derive(Debug)]
pub(super) struct OpenFile {
    pub(super) path: String,
    /// The length for readers; the file on the device may be longer while `needs_tail_truncation`.
    pub(super) bytes: u64,
    /// A failed append may have left bytes after the end, and their truncation failed too.
    pub(super) needs_tail_truncation: bool,
    /// Number of appends and truncations so far, including failed ones.
    pub(super) changes: u64,
    /// Number of these that a successful sync covers.
    pub(super) changes_synced: u64,
    /// Number of background syncs that have not ended.
    pub(super) syncs_begun: u32,
    /// Requested room in bytes; 0 if none.
    pub(super) reserve_bytes: u64,
    /// The end of the zeros that the file on the device has after its own end.
    pub(super) zeroed_bytes: u64,
    /// The offset from which the thread is writing zeros: meanwhile nothing may be appended there.
    pub(super) zeroing_from: Option<u64>,
    /// A sync failed. The system may have dropped the bytes and would report success for the next sync, so this stays.
    pub(super) failure: Option<DiskError>,
    ids: Vec<FileId>,
    descriptor: Option<Arc<OwnedFd>>,
    last_used: u64,
}

/// All open files.
#[derive(Debug)]
pub(super) struct OpenFiles {
    root: OwnedFd,
    files: Slots<OpenFile>,
    ids: Slots<u64>,
    by_path: BTreeMap<String, u64>,
    /// The files that have a descriptor.
    on_descriptors: Vec<u64>,
    descriptors_max: usize,
    uses: u64,
}

impl OpenFiles {
    /// `root` is the descriptor of the folder from which paths start; at most `descriptors_max` files are open.
    pub(super) fn new(root: OwnedFd, descriptors_max: usize) -> Self {
        OpenFiles {
            root,
            files: Slots::new(),
            ids: Slots::new(),
            by_path: BTreeMap::new(),
            on_descriptors: Vec::new(),
            descriptors_max,
            uses: 0,
        }
    }

    pub(super) fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// Another id for a known file; `None` if it is not known.
    pub(super) fn open_known(&mut self, path: &str) -> Option<FileId> {
        let key = *self.by_path.get(path)?;
        Some(self.add_id(key))
    }

    /// Opens an unknown file. `flags` are added to those for reading and writing.
    pub(super) fn open_new(&mut self, path: &str, flags: OFlags) -> rustix::io::Result<FileId> {
        let descriptor = self.open_descriptor(path, flags)?;
        let stat = fstat(&descriptor)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(Errno::ISDIR);
        }
        let key = self.files.insert(OpenFile {
            path: path.to_owned(),
            bytes: stat.st_size as u64,
            needs_tail_truncation: false,
            changes: 0,
            changes_synced: 0,
            syncs_begun: 0,
            reserve_bytes: 0,
            zeroed_bytes: 0,
            zeroing_from: None,
            failure: None,
            ids: Vec::new(),
            descriptor: Some(Arc::new(descriptor)),
            last_used: self.uses,
        });
        self.by_path.insert(path.to_owned(), key);
        self.on_descriptors.push(key);
        Ok(self.add_id(key))
    }

    pub(super) fn close(&mut self, id: FileId) {
        let Some(key) = self.ids.remove(id.0) else { return };
        if let Some(file) = self.files.get_mut(key) {
            file.ids.retain(|other| *other != id);
        }
        self.remove_if_idle(key);
    }

    /// The file of an id, with an open descriptor, and its key.
    pub(super) fn get(&mut self, id: FileId, operation: &'static str) -> DiskResult<(u64, &mut OpenFile)> {
        let key = *self.ids.get(id.0).ok_or_else(|| DiskError::not_open(id, operation))?;
        if self.files.get(key).is_some_and(|file| file.descriptor.is_none()) {
            self.reopen(key, operation)?;
        }
        self.uses += 1;
        let file = self.files.get_mut(key).ok_or_else(|| DiskError::not_open(id, operation))?;
        file.last_used = self.uses;
        Ok((key, file))
    }

    /// The file of an id, with or without a descriptor.
    pub(super) fn peek(&self, id: FileId, operation: &'static str) -> DiskResult<&OpenFile> {
        let file = self.ids.get(id.0).and_then(|key| self.files.get(*key));
        file.ok_or_else(|| DiskError::not_open(id, operation))
    }

    /// The key of a file without a descriptor of which this process has synced everything: its next sync has nothing to do, and must not fail for
    /// want of a descriptor. A file that this process has only read may have unsynced bytes of an earlier process.
    pub(super) fn synced_key(&self, id: FileId) -> Option<u64> {
        let key = *self.ids.get(id.0)?;
        let file = self.files.get(key)?;
        let is_sound = file.failure.is_none() && !file.needs_tail_truncation;
        let is_synced = file.changes > 0 && !file.has_unsynced();
        (file.descriptor.is_none() && is_sound && is_synced).then_some(key)
    }

    /// The descriptor of an id's file, if the file has one now.
    pub(super) fn descriptor_if_open(&self, id: FileId) -> Option<Arc<OwnedFd>> {
        self.ids.get(id.0).and_then(|key| self.files.get(*key))?.descriptor.clone()
    }

    pub(super) fn by_key(&mut self, key: u64) -> Option<&mut OpenFile> {
        self.files.get_mut(key)
    }

    pub(super) fn by_path(&self, path: &str) -> Option<&OpenFile> {
        self.by_path.get(path).and_then(|key| self.files.get(*key))
    }

    /// Records that the file of this path was removed: invalidates its ids.
    pub(super) fn removed(&mut self, path: &str) {
        let Some(key) = self.by_path.remove(path) else { return };
        self.on_descriptors.retain(|other| *other != key);
        for id in self.files.remove(key).map(|file| file.ids).unwrap_or_default() {
            self.ids.remove(id.0);
        }
    }

    pub(super) fn renamed(&mut self, from: &str, to: &str) {
        self.removed(to);
        if let Some(key) = self.by_path.remove(from) {
            if let Some(file) = self.files.get_mut(key) {
                to.clone_into(&mut file.path);
            }
            self.by_path.insert(to.to_owned(), key);
        }
    }

    /// Drops a file that is not open and has no state to remember.
    pub(super) fn remove_if_idle(&mut self, key: u64) {
        let idle = self.files.get(key).is_some_and(|file| {
            let open = !file.ids.is_empty() || file.syncs_begun > 0 || file.zeroing_from.is_some();
            // Unsynced bytes keep their descriptor, which receives the report of a failed write-back.
            !open && file.failure.is_none() && !(file.has_unsynced() && file.descriptor.is_some())
        });
        if idle && let Some(file) = self.files.remove(key) {
            self.by_path.remove(&file.path);
            self.on_descriptors.retain(|other| *other != key);
        }
    }

    fn add_id(&mut self, key: u64) -> FileId {
        let id = FileId(self.ids.insert(key));
        if let Some(file) = self.files.get_mut(key) {
            file.ids.push(id);
        }
        id
    }

    fn reopen(&mut self, key: u64, operation: &'static str) -> DiskResult<()> {
        let path = self.files.get(key).map(|file| file.path.clone()).unwrap_or_default();
        let opened = self.open_descriptor(&path, OFlags::empty());
        let descriptor = opened.map_err(|errno| not_done(&path, operation, errno))?;
        if let Some(file) = self.files.get_mut(key) {
            file.descriptor = Some(Arc::new(descriptor));
            self.on_descriptors.push(key);
        }
        Ok(())
    }

    fn open_descriptor(&mut self, path: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        if self.on_descriptors.len() >= self.descriptors_max {
            self.close_one();
        }
        self.open_at(path, flags | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW)
    }

    /// Opens a path relative to the root.
    pub(super) fn open_at(&mut self, path: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        loop {
            let opened = retry_on_intr(|| openat(&self.root, path, flags, Mode::from_raw_mode(0o600)));
            // The process may reach its limit of descriptors before this disk does.
            if matches!(opened, Err(Errno::MFILE | Errno::NFILE)) && self.close_one() {
                continue;
            }
            return opened;
        }
    }

    /// Closes the descriptor whose loss costs least. `false` if there is none.
    fn close_one(&mut self) -> bool {
        let cost = |key: u64| self.files.get(key).map(|file| (file.has_unsynced(), file.last_used));
        let chosen = self.on_descriptors.iter().enumerate().min_by_key(|(_, key)| cost(**key));
        let Some((position, &key)) = chosen else { return false };
        self.on_descriptors.swap_remove(position);
        if let Some(file) = self.files.get_mut(key) {
            if file.has_unsynced() {
                // The outcome is recorded in the file, for its next sync.
                drop(file.sync());
            }
            file.descriptor = None;
        }
        self.remove_if_idle(key);
        true
    }
}

impl OpenFile {
    /// The descriptor that [`OpenFiles::get`] has opened.
    pub(super) fn descriptor(&self) -> &Arc<OwnedFd> {
        self.descriptor.as_ref().expect("a file is used only with its descriptor open")
    }

    /// Makes all earlier changes durable, and records a failure.
    pub(super) fn sync(&mut self) -> DiskResult<()> {
        self.check_sound()?;
        match retry_on_intr(|| fdatasync(self.descriptor())) {
            Ok(()) => {
                self.changes_synced = self.changes;
                Ok(())
            }
            Err(errno) => Err(self.sync_failed(errno)),
        }
    }

    /// The preconditions of a successful sync.
    pub(super) fn check_sound(&mut self) -> DiskResult<()> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        self.truncate_tail()
    }

    /// Truncates what a failed append left after the end.
    pub(super) fn truncate_tail(&mut self) -> DiskResult<()> {
        if self.needs_tail_truncation {
            retry_on_intr(|| ftruncate(self.descriptor(), self.bytes))
                .map_err(|errno| failed(&self.path, "cutting what a failed append left", errno))?;
            self.needs_tail_truncation = false;
        }
        Ok(())
    }

    pub(super) fn sync_failed(&mut self, errno: Errno) -> DiskError {
        let failure = failed(&self.path, "sync", errno);
        self.failure.get_or_insert(failure).clone()
    }

    fn has_unsynced(&self) -> bool {
        self.changes > self.changes_synced
    }
}

/// The error for a failed system call that has done nothing.
pub(super) fn not_done(path: &str, operation: &'static str, errno: Errno) -> DiskError {
    let what = match errno {
        Errno::MFILE => {
            "the process has no free descriptor for a file: allow it more (`ulimit -n`), or close connections"
        }
        Errno::NFILE => {
            "the system has no free descriptor for a file: close files or connections of other programs"
        }
        Errno::NOMEM => "the system has no memory for this call: give it more, or end other programs",
        errno => return failed(path, operation, errno),
    };
    DiskError::Scarce { what }
}

/// The error for a failed system call.
pub(super) fn failed(path: &str, operation: &'static str, errno: Errno) -> DiskError {
    DiskError::Failed { path: path.to_owned(), operation, reason: errno.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN_MAX: usize = 192;

    fn open_files() -> (tempfile::TempDir, OpenFiles) {
        let folder = tempfile::tempdir().unwrap();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let root = rustix::fs::open(folder.path(), flags, Mode::empty()).unwrap();
        (folder, OpenFiles::new(root, OPEN_MAX))
    }

    fn create(files: &mut OpenFiles, number: usize) -> FileId {
        files.open_new(&format!("f{number}"), OFlags::CREATE | OFlags::EXCL).unwrap()
    }

    fn write(files: &mut OpenFiles, id: FileId) {
        let (_, file) = files.get(id, "test").unwrap();
        rustix::io::pwrite(file.descriptor(), b"x", file.bytes).unwrap();
        file.bytes += 1;
        file.changes += 1;
    }

    fn has_descriptor(files: &OpenFiles, id: FileId) -> bool {
        files.peek(id, "test").unwrap().descriptor.is_some()
    }

    #[test]
    fn descriptors_are_bounded_and_unsynced_files_keep_theirs_longest() {
        let (_folder, mut files) = open_files();
        let unsynced = create(&mut files, 0);
        write(&mut files, unsynced);
        let ids: Vec<FileId> = (1..400).map(|number| create(&mut files, number)).collect();
        assert_eq!(files.on_descriptors.len(), OPEN_MAX);
        assert!(has_descriptor(&files, unsynced), "the oldest, but unsynced");
        assert!(!has_descriptor(&files, ids[0]));
        assert!(has_descriptor(&files, ids[398]));
        files.get(ids[0], "test").unwrap();
        assert!(has_descriptor(&files, ids[0]), "reopened on demand");
        assert_eq!(files.on_descriptors.len(), OPEN_MAX);
    }

    #[test]
    fn unsynced_file_is_synced_before_its_descriptor_is_closed() {
        let (_folder, mut files) = open_files();
        let ids: Vec<FileId> = (0..OPEN_MAX + 1)
            .map(|number| {
                let id = create(&mut files, number);
                write(&mut files, id);
                id
            })
            .collect();
        assert!(!has_descriptor(&files, ids[0]));
        assert!(!files.peek(ids[0], "test").unwrap().has_unsynced());
        assert!(files.peek(ids[1], "test").unwrap().has_unsynced());
    }

    #[test]
    fn closed_file_is_removed_unless_unsynced_or_failed() {
        let (_folder, mut files) = open_files();
        let clean = create(&mut files, 0);
        files.close(clean);
        assert!(files.by_path("f0").is_none());

        let unsynced = create(&mut files, 1);
        write(&mut files, unsynced);
        files.close(unsynced);
        let again = files.open_known("f1").unwrap();
        assert!(files.peek(unsynced, "test").is_err(), "the old id stays closed");
        let (_, file) = files.get(again, "test").unwrap();
        file.sync().unwrap();
        file.sync_failed(Errno::IO);
        files.close(again);
        let again = files.open_known("f1").unwrap();
        let (_, file) = files.get(again, "test").unwrap();
        assert!(file.sync().is_err(), "a failed sync is not healed by the next one");
    }

    #[test]
    fn failed_append_is_truncated_before_next_sync() {
        let (_folder, mut files) = open_files();
        let id = create(&mut files, 0);
        write(&mut files, id);
        let (_, file) = files.get(id, "test").unwrap();
        rustix::io::pwrite(file.descriptor(), b"left over", 1).unwrap();
        file.needs_tail_truncation = true;
        file.sync().unwrap();
        assert!(!file.needs_tail_truncation);
        assert_eq!(fstat(file.descriptor()).unwrap().st_size, 1);
    }
}
