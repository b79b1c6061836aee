//! The open files of a disk, on a bounded number of descriptors.
//!
//! An id stands for a file, a file has a descriptor while it needs one. When too many are open, the one used longest
//! ago goes, by preference one with nothing unsynced: the system reports a failed write-back to the descriptors that
//! were open, so closing one with unsynced bytes could hide that they are lost. If all have unsynced bytes, the one
//! that goes is synced first, and if that fails the file remembers.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{FileType, Mode, OFlags, fdatasync, fstat, ftruncate, openat};
use rustix::io::{Errno, retry_on_intr};
use zerohop_engine::disk::{DiskError, DiskResult, FileId};

use super::slots::Slots;

/// A file that is open, or that has something to remember.
#[derive(Debug)]
pub(super) struct OpenFile {
    pub(super) path: String,
    /// What readers see; the file on the device may be longer while `tail_to_cut`.
    pub(super) bytes: u64,
    /// A failed append may have left bytes past the end, and cutting them failed too.
    pub(super) tail_to_cut: bool,
    /// Appends and cuts so far, failed ones included.
    pub(super) changes: u64,
    /// Of those, the ones that a good sync covers.
    pub(super) changes_synced: u64,
    /// Syncs begun and not yet ended.
    pub(super) syncs_begun: u32,
    /// Room that was asked for; 0 if none.
    pub(super) reserve_bytes: u64,
    /// Up to where the file on the device holds zeros behind its end.
    pub(super) zeroed_bytes: u64,
    /// Where the thread is writing zeros from: nothing may be appended there meanwhile.
    pub(super) zeroing_from: Option<u64>,
    /// A sync failed. The system may have dropped the bytes and would report the next sync as good, so this stays.
    pub(super) failure: Option<DiskError>,
    ids: Vec<FileId>,
    descriptor: Option<Arc<OwnedFd>>,
    last_used: u64,
}

/// All of them.
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
    /// `root` is the descriptor of the folder that paths start from; at most `descriptors_max` files are open.
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

    /// Another id for a file that is known, if it is.
    pub(super) fn open_known(&mut self, path: &str) -> Option<FileId> {
        let key = *self.by_path.get(path)?;
        Some(self.add_id(key))
    }

    /// Opens a file that is not known. `flags` beyond those for reading and writing.
    pub(super) fn open_new(&mut self, path: &str, flags: OFlags) -> rustix::io::Result<FileId> {
        let descriptor = self.open_descriptor(path, flags)?;
        let stat = fstat(&descriptor)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(Errno::ISDIR);
        }
        let key = self.files.insert(OpenFile {
            path: path.to_owned(),
            bytes: stat.st_size as u64,
            tail_to_cut: false,
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
        self.forget_if_idle(key);
    }

    /// The file of an id, with a descriptor that is open, and its key.
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

    /// The file of this path is gone: ends its ids.
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

    /// Drops a file that nobody has open and that has nothing to remember.
    pub(super) fn forget_if_idle(&mut self, key: u64) {
        let idle = self.files.get(key).is_some_and(|file| {
            let open = !file.ids.is_empty() || file.syncs_begun > 0 || file.zeroing_from.is_some();
            // Unsynced bytes keep their descriptor, and with it the report of what becomes of them.
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
            self.give_up_one();
        }
        self.open_at(path, flags | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW)
    }

    /// Opens something below the root.
    pub(super) fn open_at(&mut self, path: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        loop {
            let opened = retry_on_intr(|| openat(&self.root, path, flags, Mode::from_raw_mode(0o600)));
            // The process may have run out of descriptors before this disk has.
            if matches!(opened, Err(Errno::MFILE | Errno::NFILE)) && self.give_up_one() {
                continue;
            }
            return opened;
        }
    }

    /// Closes the descriptor that costs least to lose. False if there is none.
    fn give_up_one(&mut self) -> bool {
        let cost = |key: u64| self.files.get(key).map(|file| (file.has_unsynced(), file.last_used));
        let chosen = self.on_descriptors.iter().enumerate().min_by_key(|(_, key)| cost(**key));
        let Some((position, &key)) = chosen else { return false };
        self.on_descriptors.swap_remove(position);
        if let Some(file) = self.files.get_mut(key) {
            if file.has_unsynced() {
                // The outcome is kept in the file, for whoever syncs it.
                drop(file.sync());
            }
            file.descriptor = None;
        }
        self.forget_if_idle(key);
        true
    }
}

impl OpenFile {
    /// The descriptor that [`OpenFiles::get`] has opened.
    pub(super) fn descriptor(&self) -> &Arc<OwnedFd> {
        self.descriptor.as_ref().expect("a file is used only with its descriptor open")
    }

    /// Makes everything issued durable, and remembers it if that fails.
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

    /// What has to hold before a sync may promise anything.
    pub(super) fn check_sound(&mut self) -> DiskResult<()> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        self.cut_tail()
    }

    /// Cuts what a failed append left past the end.
    pub(super) fn cut_tail(&mut self) -> DiskResult<()> {
        if self.tail_to_cut {
            retry_on_intr(|| ftruncate(self.descriptor(), self.bytes))
                .map_err(|errno| failed(&self.path, "cutting what a failed append left", errno))?;
            self.tail_to_cut = false;
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

/// The answer to a refusal of the operating system that has done nothing.
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

/// The answer to a refusal of the operating system.
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
    fn descriptors_are_bounded_and_files_with_unsynced_bytes_keep_theirs_longest() {
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
    fn a_file_that_loses_its_descriptor_unsynced_is_synced_first() {
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
    fn a_closed_file_is_forgotten_unless_bytes_wait_or_a_sync_failed() {
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
    fn what_a_failed_append_left_is_cut_before_a_sync_promises_anything() {
        let (_folder, mut files) = open_files();
        let id = create(&mut files, 0);
        write(&mut files, id);
        let (_, file) = files.get(id, "test").unwrap();
        rustix::io::pwrite(file.descriptor(), b"left over", 1).unwrap();
        file.tail_to_cut = true;
        file.sync().unwrap();
        assert!(!file.tail_to_cut);
        assert_eq!(fstat(file.descriptor()).unwrap().st_size, 1);
    }
}
