//! Real files that receive only synced data, so that killing the process has the effect of a power failure.
//!
//! The system keeps the writes of a killed process, synced or not, so a test of whole processes cannot detect a missing sync. Here, unsynced bytes,
//! truncations and names stay in this process's memory and reach the files at the sync that covers them. A kill loses all of them cleanly: torn and
//! corrupt sectors are simulated by another disk.
//!
//! ```text
//!   append, truncate ──> Held: base + tail          ──sync──────> FilesDisk
//!   open, rename, remove ──> Names: pending changes ──sync_dir──> FilesDisk
//! ```
//!
//! A file whose name is not durable has no real file yet; its synced bytes wait in memory for its name.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use zerohop_engine::disk::names::{DiskNames, NameChange, NameTarget};
use zerohop_engine::disk::path::join;
use zerohop_engine::disk::{DirEntry, Disk, DiskError, DiskResult, FileId, OpenMode, SyncTicket};

use super::OpenDiskError;
use super::files::FilesDisk;
use super::folder_lock::LOCK_FILE;

/// Maximum number of bytes in memory; beyond it the disk is full. Tests that write more should sync from time to time.
pub const UNSYNCED_BYTES_MAX: u64 = 1 << 30;

/// Real files that receive only synced data; see the module.
#[derive(Debug)]
pub struct PowerLossDisk {
    real: FilesDisk,
    names: DiskNames,
    /// By the numbers of `names`. A removed file stays until its removal is durable.
    files: BTreeMap<u64, UnsyncedFile>,
    open: BTreeMap<FileId, u64>,
    begun: BTreeSet<SyncTicket>,
    next_id: u64,
    unsynced_bytes: u64,
}

/// One file: the first `base` bytes of the synced part, then the tail.
#[derive(Debug)]
struct UnsyncedFile {
    synced: SyncedPart,
    base: u64,
    tail: Vec<u8>,
}

/// The synced part of a file, with its length.
#[derive(Debug)]
enum SyncedPart {
    /// In a real file.
    Real { id: FileId, bytes: u64 },
    /// In memory, because the file's name is not durable.
    NameNotDurable(Vec<u8>),
}

impl PowerLossDisk {
    /// Opens the folder `root`, and creates it if it does not exist.
    ///
    /// # Errors
    /// As [`FilesDisk::open`].
    pub fn open(root: &Path) -> Result<Self, OpenDiskError> {
        let mut disk = PowerLossDisk {
            real: FilesDisk::open(root)?,
            names: DiskNames::default(),
            files: BTreeMap::new(),
            open: BTreeMap::new(),
            begun: BTreeSet::new(),
            next_id: 0,
            unsynced_bytes: 0,
        };
        disk.load("")?;
        disk.names.make_all_durable();
        Ok(disk)
    }

    /// Reads the names and lengths of a real folder and its subfolders.
    fn load(&mut self, folder: &str) -> DiskResult<()> {
        for entry in self.real.list(folder)? {
            let path = join(folder, &entry.name);
            if entry.is_dir {
                self.names.create_folder(&path)?;
                self.load(&path)?;
            } else {
                let file = self.names.create(&path)?;
                let id = self.real.open(&path, OpenMode::Existing)?;
                let synced = SyncedPart::Real { id, bytes: entry.bytes };
                self.files.insert(file, UnsyncedFile { synced, base: entry.bytes, tail: Vec::new() });
            }
        }
        Ok(())
    }

    fn unsynced_file(&mut self, id: FileId, operation: &'static str) -> DiskResult<&mut UnsyncedFile> {
        let file = self.open.get(&id).and_then(|number| self.files.get_mut(number));
        file.ok_or_else(|| DiskError::not_open(id, operation))
    }

    fn beyond_end(&self, id: FileId, offset: u64, bytes: usize) -> DiskError {
        let number = self.open.get(&id).copied();
        let path = self.names.files().into_iter().find(|(_, file)| Some(*file) == number);
        let path = path.map_or_else(String::new, |(path, _)| path);
        DiskError::BeyondEnd { path, offset, bytes: bytes as u64 }
    }

    /// Invalidates the ids of a file that has lost its name.
    fn invalidate_ids(&mut self, file: Option<u64>) {
        self.open.retain(|_, open| Some(*open) != file);
    }

    /// Applies a change of names to the real files, and returns the folders whose names it changed.
    fn apply_name_change(&mut self, change: &NameChange) -> DiskResult<Vec<u64>> {
        match change {
            NameChange::MakeFolder { within, name, folder } => {
                self.real.make_folder(&self.names.durable_path(*within, name))?;
                Ok(vec![*within, *folder])
            }
            NameChange::Create { within, name, file } => {
                let path = self.names.durable_path(*within, name);
                self.create_real(&path, *file)?;
                Ok(vec![*within])
            }
            NameChange::Rename { from, from_name, to, to_name } => {
                let from_path = self.names.durable_path(*from, from_name);
                self.real.rename(&from_path, &self.names.durable_path(*to, to_name))?;
                Ok(vec![*from, *to])
            }
            NameChange::RemoveFile { within, name } | NameChange::RemoveFolder { within, name, .. } => {
                self.real.remove(&self.names.durable_path(*within, name))?;
                Ok(vec![*within])
            }
        }
    }

    /// Creates the real file of a file without one, with its synced bytes.
    fn create_real(&mut self, path: &str, file: u64) -> DiskResult<()> {
        let id = self.real.open(path, OpenMode::Create)?;
        let Some(open_file) = self.files.get_mut(&file) else { return Ok(()) };
        let SyncedPart::NameNotDurable(image) = &open_file.synced else { return Ok(()) };
        let bytes = image.len() as u64;
        if let Err(error) = self.real.append(id, image).and_then(|()| self.real.sync(id)) {
            // So that the call can be repeated.
            self.real.remove(path)?;
            return Err(error);
        }
        open_file.synced = SyncedPart::Real { id, bytes };
        self.unsynced_bytes -= bytes;
        Ok(())
    }
}

impl Disk for PowerLossDisk {
    fn open(&mut self, path: &str, mode: OpenMode<'_>) -> DiskResult<FileId> {
        let file = match mode {
            OpenMode::Existing => self.names.file(path, "open")?,
            OpenMode::Create => {
                check_not_lock(path, "open")?;
                let file = self.names.create(path)?;
                let synced = SyncedPart::NameNotDurable(Vec::new());
                self.files.insert(file, UnsyncedFile { synced, base: 0, tail: Vec::new() });
                file
            }
            OpenMode::Recycled { from } => {
                check_not_lock(path, "open")?;
                let file = self.names.recycle(from, path)?;
                self.invalidate_ids(Some(file));
                if let Some(unsynced) = self.files.get_mut(&file) {
                    let before = unsynced.bytes_in_memory();
                    // The sync that follows cuts the real file: it has no old bytes then.
                    (unsynced.base, unsynced.tail) = (0, Vec::new());
                    self.unsynced_bytes = self.unsynced_bytes - before + unsynced.bytes_in_memory();
                }
                file
            }
        };
        self.next_id += 1;
        let id = FileId(self.next_id);
        self.open.insert(id, file);
        Ok(id)
    }

    fn close(&mut self, file: FileId) {
        self.open.remove(&file);
    }

    fn bytes(&mut self, file: FileId) -> DiskResult<u64> {
        Ok(self.unsynced_file(file, "bytes")?.bytes())
    }

    fn append(&mut self, file: FileId, data: &[u8]) -> DiskResult<()> {
        let has_room = self.free_bytes()? >= data.len() as u64;
        let open_file = self.unsynced_file(file, "append")?;
        if !has_room {
            return Err(DiskError::Full);
        }
        open_file.tail.extend_from_slice(data);
        self.unsynced_bytes += data.len() as u64;
        Ok(())
    }

    fn read_at(&mut self, file: FileId, offset: u64, into: &mut [u8]) -> DiskResult<()> {
        let open_file = self.unsynced_file(file, "read_at")?;
        if offset.checked_add(into.len() as u64).is_none_or(|end| end > open_file.bytes()) {
            return Err(self.beyond_end(file, offset, into.len()));
        }
        let from_base = open_file.base.saturating_sub(offset).min(into.len() as u64) as usize;
        let (base, tail) = into.split_at_mut(from_base);
        if !tail.is_empty() {
            let start = (offset + from_base as u64 - open_file.base) as usize;
            tail.copy_from_slice(&open_file.tail[start..start + tail.len()]);
        }
        match &open_file.synced {
            _ if base.is_empty() => {}
            SyncedPart::NameNotDurable(image) => {
                base.copy_from_slice(&image[offset as usize..][..base.len()])
            }
            SyncedPart::Real { id, .. } => {
                let id = *id;
                self.real.read_at(id, offset, base)?;
            }
        }
        Ok(())
    }

    fn sync(&mut self, file: FileId) -> DiskResult<()> {
        let number = self.open.get(&file).copied();
        let open_file = number.and_then(|number| self.files.get_mut(&number));
        let open_file = open_file.ok_or_else(|| DiskError::not_open(file, "sync"))?;
        let before = open_file.bytes_in_memory();
        let result = open_file.sync(&mut self.real);
        self.unsynced_bytes = self.unsynced_bytes - before + open_file.bytes_in_memory();
        result
    }

    /// Executes the sync at once.
    fn sync_begin(&mut self, file: FileId) -> DiskResult<SyncTicket> {
        self.sync(file)?;
        self.next_id += 1;
        let ticket = SyncTicket(self.next_id);
        self.begun.insert(ticket);
        Ok(ticket)
    }

    fn sync_done(&mut self, ticket: SyncTicket) -> DiskResult<bool> {
        if self.begun.remove(&ticket) { Ok(true) } else { Err(DiskError::no_such_ticket(ticket)) }
    }

    fn truncate(&mut self, file: FileId, bytes: u64) -> DiskResult<()> {
        let open_file = self.unsynced_file(file, "truncate")?;
        if bytes > open_file.bytes() {
            return Err(self.beyond_end(file, bytes, 0));
        }
        let before = open_file.bytes_in_memory();
        open_file.tail.truncate(bytes.saturating_sub(open_file.base) as usize);
        open_file.base = open_file.base.min(bytes);
        let after = open_file.bytes_in_memory();
        self.unsynced_bytes = self.unsynced_bytes - before + after;
        Ok(())
    }

    fn rename(&mut self, from: &str, to: &str) -> DiskResult<()> {
        check_not_lock(to, "rename")?;
        let replaced = self.names.rename(from, to)?;
        self.invalidate_ids(replaced);
        Ok(())
    }

    fn remove(&mut self, path: &str) -> DiskResult<()> {
        let removed = self.names.remove(path)?;
        self.invalidate_ids(removed);
        Ok(())
    }

    fn list(&mut self, dir: &str) -> DiskResult<Vec<DirEntry>> {
        let entries = self.names.list(dir)?.map(|(name, named)| {
            let (bytes, is_dir) = match named {
                NameTarget::File(file) => (self.files.get(&file).map_or(0, UnsyncedFile::bytes), false),
                NameTarget::Folder(_) => (0, true),
            };
            DirEntry { name: name.to_owned(), bytes, is_dir }
        });
        Ok(entries.collect())
    }

    fn sync_dir(&mut self, dir: &str) -> DiskResult<()> {
        let mut touched = BTreeSet::new();
        for number in self.names.needed_by(dir)? {
            let Some(change) = self.names.pending(number).cloned() else { continue };
            touched.extend(self.apply_name_change(&change)?);
            if let Some(gone) = self.names.make_durable(number)
                && let Some(open_file) = self.files.remove(&gone)
            {
                self.unsynced_bytes -= open_file.bytes_in_memory();
            }
        }
        for folder in touched {
            if let Some(path) = self.names.durable_folder(folder) {
                self.real.sync_dir(&path)?;
            }
        }
        self.real.sync_dir(dir)
    }

    fn free_bytes(&mut self) -> DiskResult<u64> {
        let free = self.real.free_bytes()?.saturating_sub(self.unsynced_bytes);
        Ok(free.min(UNSYNCED_BYTES_MAX.saturating_sub(self.unsynced_bytes)))
    }

    fn lacks_files(&mut self) -> bool {
        self.real.lacks_files()
    }

    fn file_bytes_max(&mut self) -> u64 {
        self.real.file_bytes_max()
    }
}

impl UnsyncedFile {
    fn bytes(&self) -> u64 {
        self.base + self.tail.len() as u64
    }

    fn bytes_in_memory(&self) -> u64 {
        let image = match &self.synced {
            SyncedPart::Real { .. } => 0,
            SyncedPart::NameNotDurable(image) => image.len(),
        };
        (image + self.tail.len()) as u64
    }

    /// Writes the file's bytes to the real file, if it has one. After an error every byte is still in memory or already in the real file, and the
    /// call may be repeated.
    fn sync(&mut self, real: &mut FilesDisk) -> DiskResult<()> {
        match &mut self.synced {
            SyncedPart::NameNotDurable(image) => {
                image.truncate(self.base as usize);
                image.append(&mut self.tail);
                self.base = image.len() as u64;
                Ok(())
            }
            SyncedPart::Real { id, bytes } => {
                if self.base < *bytes {
                    real.truncate(*id, self.base)?;
                    *bytes = self.base;
                }
                real.append(*id, &self.tail)?;
                *bytes += self.tail.len() as u64;
                self.base = *bytes;
                self.tail.clear();
                real.sync(*id)
            }
        }
    }
}

fn check_not_lock(path: &str, operation: &'static str) -> DiskResult<()> {
    if path == LOCK_FILE {
        let reason = "this name belongs to the lock of the data folder".to_owned();
        return Err(DiskError::Failed { path: path.to_owned(), operation, reason });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use zerohop_base::random::Random;
    use zerohop_engine::disk::contract::{check_against_model, check_contract};

    use super::*;

    fn contents(disk: &mut impl Disk, path: &str) -> Option<Vec<u8>> {
        let id = disk.open(path, OpenMode::Existing).ok()?;
        let mut bytes = vec![0; disk.bytes(id).unwrap() as usize];
        disk.read_at(id, 0, &mut bytes).unwrap();
        Some(bytes)
    }

    #[test]
    fn keeps_the_contract() {
        let root = tempfile::tempdir().unwrap();
        check_contract(&mut PowerLossDisk::open(root.path()).unwrap());
    }

    #[test]
    fn disk_matches_model_and_keeps_no_bytes_after_sync() {
        for seed in 0..10 {
            let root = tempfile::tempdir().unwrap();
            let mut disk = PowerLossDisk::open(root.path()).unwrap();
            check_against_model(&mut disk, seed, 300);
            let mut files = disk.names.files();
            files.sort();
            let expected: Vec<_> = files
                .iter()
                .map(|(path, _)| {
                    let id = disk.open(path, OpenMode::Existing).unwrap();
                    disk.sync(id).unwrap();
                    (path.clone(), contents(&mut disk, path))
                })
                .collect();
            for folder in ["", "p", "p/q", "r"] {
                assert!(disk.names.find(folder).is_none() || disk.sync_dir(folder).is_ok());
            }
            assert_eq!(disk.unsynced_bytes, 0);
            drop(disk);
            let mut disk = PowerLossDisk::open(root.path()).unwrap();
            assert_eq!(disk.names.files().len(), expected.len());
            for (path, bytes) in expected {
                assert!(contents(&mut disk, &path) == bytes, "seed {seed}: {path}");
            }
        }
    }

    #[test]
    fn bytes_reach_files_only_with_their_sync() {
        let root = tempfile::tempdir().unwrap();
        let mut disk = PowerLossDisk::open(root.path()).unwrap();
        let file = disk.open("d/f", OpenMode::Create).unwrap();
        disk.append(file, b"synced, not named").unwrap();
        disk.sync(file).unwrap();
        disk.append(file, b"; unsynced").unwrap();
        assert_eq!(disk.real.list(""), Ok(vec![]));
        disk.sync_dir("d").unwrap();
        assert_eq!(contents(&mut disk.real, "d/f").unwrap(), b"synced, not named");
        disk.truncate(file, 6).unwrap();
        disk.append(file, b"!").unwrap();
        disk.rename("d/f", "d/g").unwrap();
        assert_eq!(contents(&mut disk, "d/g").unwrap(), b"synced!");
        assert_eq!(contents(&mut disk.real, "d/f").unwrap(), b"synced, not named");
        disk.sync(file).unwrap();
        assert_eq!(contents(&mut disk.real, "d/f").unwrap(), b"synced!");
        disk.sync_dir("d").unwrap();
        assert_eq!(contents(&mut disk.real, "d/f"), None);
        assert_eq!(contents(&mut disk.real, "d/g").unwrap(), b"synced!");
        disk.remove("d/g").unwrap();
        disk.remove("d").unwrap();
        assert_eq!(disk.real.list("").unwrap().len(), 1);
        disk.sync_dir("").unwrap();
        assert_eq!(disk.real.list(""), Ok(vec![]));
    }

    #[test]
    fn unsynced_bytes_count_as_used() {
        let root = tempfile::tempdir().unwrap();
        let mut disk = PowerLossDisk::open(root.path()).unwrap();
        let file = disk.open("f", OpenMode::Create).unwrap();
        let mut data = vec![0; 1 << 20];
        Random::new(1).fill(&mut data);
        disk.append(file, &data).unwrap();
        assert!(disk.free_bytes().unwrap() <= UNSYNCED_BYTES_MAX - (1 << 20));
        disk.unsynced_bytes = UNSYNCED_BYTES_MAX;
        assert_eq!(disk.append(file, b"x"), Err(DiskError::Full));
        assert_eq!(disk.bytes(file), Ok(1 << 20));
    }
}
