//! A disk that is a folder of real files.
//!
//! An append and a read are one system call each, at a length that this process tracks. After an error the tracked length is unchanged, so that the
//! next append overwrites what the failed one left. A lock on a file in the folder makes sure that only one process uses the folder at a time.

mod at_once;
mod pieces;
mod recycle;
#[cfg(test)]
mod tests;
mod zeros;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::Arc;
use std::task::Waker;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::fs::{fstatvfs, fsync, ftruncate, mkdirat, openat, renameat, statat, unlinkat};
use rustix::io::{Errno, pread, pwrite, pwritev, retry_on_intr};
use zerohop_engine::disk::path::{check, check_folder, is_component, join, split};
use zerohop_engine::disk::{DirEntry, Disk, DiskError, DiskResult, FileId, OpenMode, SyncTicket};
use zerohop_system::descriptors::Descriptors;

use self::pieces::{preallocate, read_all, write_all, write_pieces};
use super::OpenDiskError;
use super::file_limit::FileSizeLimit;
use super::file_shortage::FileShortage;
use super::folder_lock::{LOCK_FILE, lock};
use super::open_files::{OpenFiles, failed, not_done};
use super::sync_threads::{SYNCS_BEGUN_MAX, SyncThreads};

/// A folder of real files; see the module.
#[derive(Debug)]
pub struct FilesDisk {
    /// Started by the first background sync. It comes before the lock, so that dropping ends the threads before the lock.
    sync_threads: Option<SyncThreads>,
    /// The waker that a prioritized sync calls at its end.
    waker: Option<Waker>,
    begun: BTreeMap<u64, PendingFileSync>,
    next_ticket: u64,
    /// Files to which zeros are being written, and the range.
    zeroing: BTreeMap<u64, (u64, u64)>,
    files: OpenFiles,
    /// Folders whose own names are durable.
    durable_folders: BTreeSet<String>,
    /// See [`FileSizeLimit::bytes_max`]. A longer write could end the process by a signal: it is refused as on a full disk.
    file_bytes_max: u64,
    _lock: File,
}

#[derive(Debug)]
struct PendingFileSync {
    path: String,
    file: u64,
    /// The number of changes of the file that the sync covers.
    changes: u64,
    /// Folders whose own names are durable once the sync is done.
    folders: Vec<String>,
    result: Option<rustix::io::Result<()>>,
}

impl FilesDisk {
    /// Opens the folder `root`, and creates it if it does not exist.
    ///
    /// # Errors
    /// [`OpenDiskError::InUse`] while another process (or another disk of this one) uses it; [`OpenDiskError::System`].
    pub fn open(root: &Path) -> Result<Self, OpenDiskError> {
        Self::open_with(root, Descriptors::of_process().of_disk())
    }

    /// Same as [`FilesDisk::open`], with this maximum number of open files.
    ///
    /// # Errors
    /// As [`FilesDisk::open`].
    pub fn open_with(root: &Path, descriptors_max: usize) -> Result<Self, OpenDiskError> {
        make_root(root)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(root, flags, Mode::empty())
            .map_err(|errno| OpenDiskError::system(root, "opening", &errno.into()))?;
        Ok(FilesDisk {
            sync_threads: None,
            waker: None,
            begun: BTreeMap::new(),
            next_ticket: 0,
            zeroing: BTreeMap::new(),
            files: OpenFiles::new(folder, descriptors_max),
            durable_folders: BTreeSet::new(),
            file_bytes_max: FileSizeLimit::bytes_max(),
            _lock: lock(root)?,
        })
    }

    /// Creates a folder and its parents; an existing one is not changed. A crash can leave a folder of [`Disk`] without the file in it.
    pub(super) fn make_folder(&mut self, path: &str) -> DiskResult<()> {
        check(path, "make folder")?;
        let ends = path.match_indices('/').map(|(end, _)| end).chain([path.len()]);
        for folder in ends.map(|end| &path[..end]) {
            match mkdirat(self.files.root(), folder, Mode::from_raw_mode(0o700)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(Errno::NOTDIR) => return Err(self.blocking_file_error(path)),
                Err(errno) => return Err(refused(folder, "make folder", errno)),
            }
        }
        Ok(())
    }

    fn create(&mut self, path: &str) -> DiskResult<FileId> {
        let flags = OFlags::CREATE | OFlags::EXCL;
        let mut opened = self.files.open_new(path, flags);
        if opened == Err(Errno::NOENT) {
            self.make_folder(split(path).0)?;
            opened = self.files.open_new(path, flags);
        }
        opened.map_err(|errno| match errno {
            Errno::EXIST | Errno::ISDIR => DiskError::AlreadyExists { path: path.to_owned() },
            Errno::NOTDIR => self.blocking_file_error(path),
            errno => refused(path, "open", errno),
        })
    }

    /// The error for a file at the path of a folder.
    fn blocking_file_error(&self, path: &str) -> DiskError {
        let folders = path.match_indices('/').map(|(end, _)| &path[..end]);
        let is_file = |path: &&str| self.is_folder(path) == Ok(false);
        DiskError::AlreadyExists { path: folders.into_iter().find(is_file).unwrap_or(path).to_owned() }
    }

    fn is_folder(&self, path: &str) -> rustix::io::Result<bool> {
        let stat = statat(self.files.root(), path, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
    }

    /// A descriptor that keeps a file's space allocated until it is closed, if there are threads to close it.
    fn last_descriptor_of(&self, path: &str, is_folder: bool) -> Option<OwnedFd> {
        let is_worth = !is_folder && self.sync_threads.is_some();
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        // Otherwise the removal itself frees the space.
        is_worth.then(|| openat(self.files.root(), path, flags, Mode::empty()).ok()).flatten()
    }

    fn open_folder(&mut self, path: &str) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        self.files.open_at(if path.is_empty() { "." } else { path }, flags)
    }

    /// The folder, and those of its parents whose own names are not known to be durable.
    fn folders_to_sync(&self, dir: &str) -> DiskResult<Vec<String>> {
        check_folder(dir, "sync_dir")?;
        let mut folders = vec![dir.to_owned()];
        let mut folder = dir;
        while !folder.is_empty() && !self.durable_folders.contains(folder) {
            folder = split(folder).0;
            folders.push(folder.to_owned());
        }
        Ok(folders)
    }

    /// See [`super::NodeDisk::set_sync_waker`].
    pub(super) fn set_sync_waker(&mut self, waker: Waker) {
        self.waker = Some(waker);
    }

    /// Passes a sync of a file, and of the folders with these names, to the threads. A sync with a waker has priority.
    fn begin(
        &mut self,
        file: FileId,
        (folders, names): (Vec<OwnedFd>, Vec<String>),
        waker: Option<Waker>,
    ) -> DiskResult<SyncTicket> {
        if let Some(key) = self.files.synced_key(file).filter(|_| folders.is_empty()) {
            // Nothing to do, so that it needs no descriptor, of which there may be none.
            let (path, ticket) = (self.files.peek(file, "sync_begin")?.path.clone(), self.next_ticket);
            self.next_ticket += 1;
            let begun = PendingFileSync { path, file: key, changes: 0, folders: names, result: Some(Ok(())) };
            self.begun.insert(ticket, begun);
            waker.into_iter().for_each(Waker::wake);
            return Ok(SyncTicket(ticket));
        }
        self.wait_for_room()?;
        let id = file;
        let (key, file) = self.files.get(id, "sync_begin")?;
        file.check_sound()?;
        let begun = PendingFileSync {
            path: file.path.clone(),
            file: key,
            changes: file.changes,
            folders: names,
            result: None,
        };
        let Ok(thread) = started(&mut self.sync_threads) else {
            return at_once::sync_at_once(self, id, begun, &folders, waker);
        };
        let descriptor = Arc::clone(file.descriptor());
        if let Err(errno) = thread.begin(self.next_ticket, descriptor, folders, waker) {
            return Err(failed(&begun.path, "sync_begin", errno));
        }
        file.syncs_begun += 1;
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.begun.insert(ticket, begun);
        Ok(SyncTicket(ticket))
    }

    /// Waits until the threads can take another sync. After a pause of the process, all partitions of an instance can be due at
    /// once: more syncs than the threads take are slow, and no failure.
    fn wait_for_room(&mut self) -> DiskResult<()> {
        let unfinished = |disk: &Self| disk.begun.values().filter(|sync| sync.result.is_none()).count();
        while self.begun.len() >= SYNCS_BEGUN_MAX && unfinished(self) >= SYNCS_BEGUN_MAX {
            let Some(threads) = &self.sync_threads else { break };
            let done = threads.wait_done().map_err(|errno| failed("", "sync_begin", errno))?;
            self.record_completed(done);
        }
        Ok(())
    }

    /// Records the background syncs that have ended.
    fn collect_done(&mut self) -> rustix::io::Result<()> {
        loop {
            let Some(thread) = &self.sync_threads else { return Ok(()) };
            let Some(done) = thread.next_done()? else { return Ok(()) };
            self.record_completed(done);
        }
    }

    /// Records a sync that a thread has completed.
    fn record_completed(&mut self, (ticket, result): (u64, rustix::io::Result<()>)) {
        if let Some((key, until)) = self.zeroing.remove(&ticket) {
            if let Some(file) = self.files.by_key(key) {
                file.zeroing_from = None;
                match result {
                    Ok(()) => file.zeroed_bytes = file.zeroed_bytes.max(until),
                    // The disk is full, or has a worse problem; appends and syncs will find that themselves.
                    Err(_) => file.reserve_bytes = 0,
                }
            }
            return self.files.remove_if_idle(key);
        }
        let Some(begun) = self.begun.get_mut(&ticket) else { return };
        begun.result = Some(result);
        let (key, changes) = (begun.file, begun.changes);
        if result.is_ok() {
            self.durable_folders.extend(begun.folders.drain(..).filter(|folder| !folder.is_empty()));
        }
        if let Some(file) = self.files.by_key(key) {
            file.syncs_begun -= 1;
            match result {
                Ok(()) => file.changes_synced = file.changes_synced.max(changes),
                Err(errno) => drop(file.sync_failed(errno)),
            }
        }
        self.files.remove_if_idle(key);
    }
}

/// The threads, which the first use starts.
fn started(thread: &mut Option<SyncThreads>) -> std::io::Result<&SyncThreads> {
    match thread {
        Some(thread) => Ok(thread),
        none => SyncThreads::start().map(|thread| &*none.insert(thread)),
    }
}

impl Disk for FilesDisk {
    fn open(&mut self, path: &str, mode: OpenMode<'_>) -> DiskResult<FileId> {
        check_name(path, "open")?;
        match mode {
            OpenMode::Create => self.create(path),
            OpenMode::Recycled { from } => self.recycle(from, path),
            OpenMode::Existing => match self.files.open_known(path) {
                Some(id) => Ok(id),
                None => self.files.open_new(path, OFlags::empty()).map_err(|errno| match errno {
                    Errno::NOENT | Errno::NOTDIR | Errno::ISDIR => not_found(path),
                    errno => refused(path, "open", errno),
                }),
            },
        }
    }

    fn close(&mut self, file: FileId) {
        self.files.close(file);
    }

    fn bytes(&mut self, file: FileId) -> DiskResult<u64> {
        Ok(self.files.peek(file, "bytes")?.bytes)
    }

    fn append(&mut self, file: FileId, data: &[u8]) -> DiskResult<()> {
        self.append_pieces(file, &[data])
    }

    fn append_pieces(&mut self, file: FileId, pieces: &[&[u8]]) -> DiskResult<()> {
        let bytes = pieces.iter().map(|piece| piece.len() as u64).sum::<u64>();
        let (key, open) = self.files.get(file, "append")?;
        if open.reserve_bytes > 0 {
            let end = open.bytes + bytes;
            self.collect_done().map_err(|errno| failed("", "append", errno))?;
            self.wait_for_zeros(file, end, "append")?;
        }
        let file_bytes_max = self.file_bytes_max;
        let (_, file) = self.files.get(file, "append")?;
        if file.bytes.saturating_add(bytes) > file_bytes_max {
            return Err(FileSizeLimit::refusal());
        }
        file.truncate_tail()?;
        file.changes += 1;
        let descriptor = file.descriptor();
        let written = preallocate(descriptor, file.bytes, bytes).and_then(|()| match pieces {
            [data] => write_all(data, file.bytes, |piece, at| pwrite(descriptor, piece, at)),
            pieces => write_pieces(pieces, file.bytes, |pieces, at| pwritev(descriptor, pieces, at)),
        });
        match written {
            Ok(()) => {
                file.bytes += bytes;
                if file.reserve_bytes > 0 {
                    self.zero_ahead(key);
                }
                Ok(())
            }
            Err(errno) => {
                // If this truncation fails too, the next append or sync of the file repeats it before anything else.
                file.needs_tail_truncation = true;
                drop(file.truncate_tail());
                Err(refused(&file.path, "append", errno))
            }
        }
    }

    fn read_at(&mut self, file: FileId, offset: u64, into: &mut [u8]) -> DiskResult<()> {
        let (_, file) = self.files.get(file, "read_at")?;
        let bytes = into.len() as u64;
        if offset.checked_add(bytes).is_none_or(|end| end > file.bytes) {
            return Err(DiskError::BeyondEnd { path: file.path.clone(), offset, bytes });
        }
        read_all(into, offset, |piece, at| pread(file.descriptor(), piece, at)).map_err(|errno| match errno {
            None => DiskError::Failed {
                path: file.path.clone(),
                operation: "read_at",
                reason: "the file is shorter than this process left it".to_owned(),
            },
            Some(errno) => not_done(&file.path, "read_at", errno),
        })
    }

    fn sync(&mut self, file: FileId) -> DiskResult<()> {
        if self.files.synced_key(file).is_some() {
            return Ok(());
        }
        let (_, file) = self.files.get(file, "sync")?;
        file.sync()
    }

    fn sync_begin(&mut self, file: FileId) -> DiskResult<SyncTicket> {
        self.begin(file, (Vec::new(), Vec::new()), None)
    }

    fn sync_begin_awaited(&mut self, file: FileId) -> DiskResult<SyncTicket> {
        let waker = self.waker.clone();
        self.begin(file, (Vec::new(), Vec::new()), waker)
    }

    fn sync_begin_with_name(&mut self, file: FileId, dir: &str) -> DiskResult<SyncTicket> {
        let names = self.folders_to_sync(dir)?;
        let open =
            |folder: &String| self.open_folder(folder).map_err(|errno| not_done(folder, "sync_dir", errno));
        let folders = names.iter().map(open).collect::<DiskResult<Vec<_>>>()?;
        self.begin(file, (folders, names), None)
    }

    fn sync_done(&mut self, ticket: SyncTicket) -> DiskResult<bool> {
        let collected = self.collect_done();
        let begun = self.begun.get(&ticket.0).ok_or_else(|| DiskError::no_such_ticket(ticket))?;
        let result = match (begun.result, collected) {
            (Some(result), _) | (None, result @ Err(_)) => result,
            (None, Ok(())) => return Ok(false),
        };
        // The failure may have been reported to another sync of the file meanwhile; then this sync has failed too.
        let earlier = self.files.by_key(begun.file).and_then(|file| file.failure.clone());
        let answer = match (result, earlier) {
            (Ok(()), None) => Ok(true),
            (Ok(()), Some(failure)) => Err(failure),
            (Err(errno), _) => Err(failed(&begun.path, "sync", errno)),
        };
        self.begun.remove(&ticket.0);
        answer
    }

    fn sync_wait(&mut self, ticket: SyncTicket) -> DiskResult<()> {
        if let Some(thread) = &self.sync_threads {
            thread.prioritize(ticket.0);
        }
        while !self.sync_done(ticket)? {
            // A thread executes it; the next call reports an error of the threads themselves.
            let done = self.sync_threads.as_ref().map(SyncThreads::wait_done);
            if let Some(Ok(done)) = done {
                self.record_completed(done);
            }
        }
        Ok(())
    }

    /// The threads do this, because it takes a while; without them the system keeps the bytes.
    fn uncache(&mut self, file: FileId, bytes: u64) {
        if let (Some(file), Some(thread)) = (self.files.descriptor_if_open(file), &self.sync_threads) {
            thread.uncache(file, bytes);
        }
    }

    fn reserve(&mut self, file: FileId, bytes: u64) {
        if let Ok((key, open)) = self.files.get(file, "reserve") {
            open.reserve_bytes = bytes;
            self.zero_ahead(key);
        }
    }

    fn truncate(&mut self, file: FileId, bytes: u64) -> DiskResult<()> {
        self.wait_for_zeros(file, u64::MAX, "truncate")?;
        let (_, file) = self.files.get(file, "truncate")?;
        if bytes > file.bytes {
            return Err(DiskError::BeyondEnd { path: file.path.clone(), offset: bytes, bytes: 0 });
        }
        file.changes += 1;
        retry_on_intr(|| ftruncate(file.descriptor(), bytes))
            .map_err(|errno| refused(&file.path, "truncate", errno))?;
        file.bytes = bytes;
        (file.reserve_bytes, file.zeroed_bytes) = (0, 0);
        file.needs_tail_truncation = false;
        Ok(())
    }

    fn rename(&mut self, from: &str, to: &str) -> DiskResult<()> {
        check_name(from, "rename")?;
        check_name(to, "rename")?;
        match self.is_folder(from) {
            Ok(false) => {}
            Ok(true) | Err(Errno::NOENT | Errno::NOTDIR) => return Err(not_found(from)),
            Err(errno) => return Err(refused(from, "rename", errno)),
        }
        if from == to {
            return Ok(());
        }
        let root = self.files.root();
        renameat(root, from, root, to).map_err(|errno| match errno {
            Errno::NOENT | Errno::NOTDIR => not_found(to),
            Errno::ISDIR => DiskError::AlreadyExists { path: to.to_owned() },
            errno => refused(to, "rename", errno),
        })?;
        self.files.renamed(from, to);
        Ok(())
    }

    fn remove(&mut self, path: &str) -> DiskResult<()> {
        check_name(path, "remove")?;
        let removed = self.is_folder(path).and_then(|is_folder| {
            let flags = if is_folder { AtFlags::REMOVEDIR } else { AtFlags::empty() };
            let last = self.last_descriptor_of(path, is_folder);
            unlinkat(self.files.root(), path, flags)?;
            if let (Some(last), Some(thread)) = (last, &self.sync_threads) {
                thread.close(last);
            }
            Ok(())
        });
        removed.map_err(|errno| match errno {
            Errno::NOENT | Errno::NOTDIR => not_found(path),
            errno => refused(path, "remove", errno),
        })?;
        self.files.removed(path);
        self.durable_folders.remove(path);
        Ok(())
    }

    fn list(&mut self, dir: &str) -> DiskResult<Vec<DirEntry>> {
        check_folder(dir, "list")?;
        let refusal = |errno| not_done(dir, "list", errno);
        let folder = match self.open_folder(dir) {
            Ok(folder) => folder,
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(Vec::new()),
            Err(errno) => return Err(refusal(errno)),
        };
        let mut entries = Vec::new();
        for entry in Dir::read_from(&folder).map_err(refusal)? {
            let entry = entry.map_err(refusal)?;
            // A name that is not valid for the disk was not created by it.
            let Ok(name) = entry.file_name().to_str() else { continue };
            if !is_component(name) || (dir.is_empty() && name == LOCK_FILE) {
                continue;
            }
            let stat = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW).map_err(refusal)?;
            let is_dir = match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => true,
                FileType::RegularFile => false,
                _ => continue,
            };
            let known = self.files.by_path(&join(dir, name)).map(|file| file.bytes);
            let bytes = if is_dir { 0 } else { known.unwrap_or(stat.st_size as u64) };
            entries.push(DirEntry { name: name.to_owned(), bytes, is_dir });
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn sync_dir(&mut self, dir: &str) -> DiskResult<()> {
        check_folder(dir, "sync_dir")?;
        let mut folder = dir;
        loop {
            let descriptor = self.open_folder(folder).map_err(|errno| match errno {
                Errno::NOENT | Errno::NOTDIR => not_found(folder),
                errno => not_done(folder, "sync_dir", errno),
            })?;
            retry_on_intr(|| fsync(&descriptor)).map_err(|errno| failed(folder, "sync_dir", errno))?;
            if folder.is_empty() || self.durable_folders.contains(folder) {
                break;
            }
            folder = split(folder).0;
        }
        // This is correct only now, because every parent's name is durable.
        let mut folder = dir;
        while !folder.is_empty() && self.durable_folders.insert(folder.to_owned()) {
            folder = split(folder).0;
        }
        Ok(())
    }

    fn free_bytes(&mut self) -> DiskResult<u64> {
        let free = fstatvfs(self.files.root()).map_err(|errno| failed("", "free_bytes", errno))?;
        Ok(free.f_bavail.saturating_mul(free.f_frsize))
    }

    fn lacks_files(&mut self) -> bool {
        fstatvfs(self.files.root())
            .is_ok_and(|free| FileShortage::note(free.f_files, free.f_favail).is_some())
    }

    fn file_bytes_max(&mut self) -> u64 {
        self.file_bytes_max
    }
}

fn make_root(root: &Path) -> Result<(), OpenDiskError> {
    let missing: Vec<&Path> = root.ancestors().take_while(|folder| !folder.exists()).collect();
    let missing: Vec<&Path> = missing.into_iter().filter(|folder| !folder.as_os_str().is_empty()).collect();
    // The data is accessible only to this account, whatever its umask.
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(root);
    made.map_err(|error| OpenDiskError::system(root, "making the folder", &error))?;
    for folder in missing {
        let above = match folder.parent() {
            Some(above) if !above.as_os_str().is_empty() => above,
            _ => Path::new("."),
        };
        rustix::fs::open(above, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .and_then(fsync)
            .map_err(|errno| OpenDiskError::system(above, "syncing the folder", &errno.into()))?;
    }
    Ok(())
}
fn check_name(path: &str, operation: &'static str) -> DiskResult<()> {
    check(path, operation)?;
    if path == LOCK_FILE {
        let reason = "this name belongs to the lock of the data folder".to_owned();
        return Err(DiskError::Failed { path: path.to_owned(), operation, reason });
    }
    Ok(())
}

fn not_found(path: &str) -> DiskError {
    DiskError::NotFound { path: path.to_owned() }
}

/// The error for a failure that may be caused by lack of space: of the disk, of a quota, or of the file size limit (`ulimit -f`).
fn refused(path: &str, operation: &'static str, errno: Errno) -> DiskError {
    match errno {
        Errno::NOSPC | Errno::DQUOT => DiskError::Full,
        Errno::FBIG => FileSizeLimit::refusal(),
        errno => not_done(path, operation, errno),
    }
}
