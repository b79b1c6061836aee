//! Snapshot install: a log is copied to another engine unchanged. Runs of bytes are read from segments here
//! and installed into an empty partition there.
//!
//! ```text
//!   sender    |segment|segment|segment, open ..|        continues from a place, entry by entry checked
//!                  └──run──run──run──┐
//!   receiver  'incoming' is first in the folder         each run: to the file as it is, then into the index
//!             end: a checkpoint is durable ──> 'incoming' removed
//! ```
//!
//! Segments contain the same partition, first index and generation on all members, and their checksums depend
//! on nothing else. The receiver's log is therefore the sender's, byte for byte, up to the sender's last
//! entry. A half-installed folder looks like any log that ends there. So until `incoming` is removed, opening
//! the engine discards the contents of the folder.

use super::{Engine, Handle, SegmentFile, folder_of, store_of};
use crate::disk::crash_point::CrashPoint;
use crate::disk::{Disk, DiskError, OpenMode};
use crate::error::{EngineError, EngineResult};
use crate::log::segment_run::{LogRun, RunPlace};
use crate::planted::{Bug, is_planted};
use crate::store::run_sender::send_run;
use crate::store::snapshot_install::{InstallState, InstalledRun};

/// Marker file in the folder of a partition whose log is being installed.
pub(super) const INCOMING: &str = "incoming";

impl<D: Disk> Engine<D> {
    /// Pins the sealed segments of a partition that hold committed entries only, so that their files exist until
    /// [`Engine::unpin`].
    ///
    /// # Errors
    /// [`EngineError::UnknownPartition`].
    pub fn pin_segments(&mut self, handle: Handle) -> EngineResult<Vec<SegmentFile>> {
        if self.io.logs.shared().is_some() {
            return Ok(Vec::new());
        }
        let (io, store) = self.store(handle)?;
        let order = io.logs.separate(store.handle).order.clone();
        let mut files = Vec::new();
        for slot in order {
            let segment = io.logs.separate_mut(store.handle).segment_mut(slot);
            // Uncommitted entries may still be truncated.
            if segment.sealed && segment.is_durable() && segment.last_index <= store.commit {
                segment.pins += 1;
                files.push(SegmentFile {
                    path: segment.path.clone(),
                    bytes: segment.bytes,
                    first_index: segment.first_index(),
                    last_index: segment.last_index,
                    slot,
                });
            }
        }
        Ok(files)
    }

    /// Releases pinned segments. The files of those that compaction has replaced meanwhile are removed.
    ///
    /// # Errors
    /// [`EngineError::UnknownPartition`]; errors of the disk.
    pub fn unpin(&mut self, handle: Handle, files: &[SegmentFile]) -> EngineResult<()> {
        let (io, store) = self.store(handle)?;
        if io.logs.shared().is_some() {
            return Ok(());
        }
        for file in files {
            let segment = io.logs.separate_mut(store.handle).segment_mut(file.slot);
            debug_assert!(segment.pins > 0, "a segment that is released was pinned");
            segment.pins = segment.pins.saturating_sub(1);
        }
        store.remove_retired(io)
    }

    /// Fills `out` with about so many bytes of a partition's log as they are in its segments, up to the entry
    /// of a committed log index. Checksums are checked; corrupt bytes are never returned. The caller holds
    /// compaction meanwhile ([`Engine::pause_compaction`]).
    ///
    /// # Errors
    /// [`EngineError::Corrupt`] if a head cannot be read; errors of the disk.
    pub fn read_run(
        &mut self,
        handle: Handle,
        place: &mut RunPlace,
        (through, bytes): (u64, usize),
        out: &mut Vec<u8>,
    ) -> EngineResult<LogRun> {
        let (io, store) = self.store(handle)?;
        if io.logs.shared().is_some() {
            return send_run(store, io, place, (through, bytes), out);
        }
        io.logs.separate(store.handle).read_run(&mut io.disk, place, (through, bytes), out)
    }

    /// Bytes of a partition's segments up to a log index, about: the total that [`Engine::read_run`] will
    /// return.
    ///
    /// # Errors
    /// [`EngineError::UnknownPartition`].
    pub fn run_bytes(&mut self, handle: Handle, through: u64) -> EngineResult<u64> {
        let (io, store) = self.store(handle)?;
        if let Some(shared) = io.logs.shared() {
            return Ok(shared.install_bytes(store.handle));
        }
        let log = io.logs.separate(store.handle);
        let segments = log.order.iter().map(|&slot| log.segment(slot));
        Ok(segments.filter(|segment| segment.first_index() <= through).map(|segment| segment.bytes).sum())
    }

    /// Starts the install of another engine's log into an empty partition ([`Engine::install_run`]), until
    /// [`Engine::end_install`]; a crash before that leaves the partition empty.
    ///
    /// # Errors
    /// [`EngineError::NotNext`] if it is not empty; [`EngineError::DiskFull`]; errors of the disk.
    pub fn begin_install(&mut self, handle: Handle) -> EngineResult<()> {
        if self.io.logs.shared().is_some() {
            return self.begin_shared_install(handle);
        }
        let (io, store) = self.store(handle)?;
        store.check_going()?;
        let log = io.logs.separate(store.handle);
        if !log.order.is_empty() || log.last != (0, 0) {
            return Err(EngineError::NotNext { last: log.last });
        }
        store.incoming = InstallState::Runs;
        let is_on_disk = !log.is_in_memory_only();
        if is_on_disk {
            self.mark_incoming(handle)?;
        }
        self.io.disk.reached(CrashPoint::InstallBegun);
        Ok(())
    }

    /// Adds the next run that [`Engine::read_run`] has read. Its entries are committed at the sender, and
    /// therefore here. Returns the newest timestamp in it.
    ///
    /// # Errors
    /// [`EngineError::DiskFull`], [`EngineError::MemoryFull`]: nothing was installed. [`EngineError::Format`]
    /// if it is not the next run of a log of this partition, and errors of the disk: the part installed so
    /// far is of no use.
    pub fn install_run(&mut self, handle: Handle, begins: bool, bytes: &[u8]) -> EngineResult<u64> {
        let Engine { io, partitions, maintenance, .. } = self;
        let store = store_of(partitions, handle)?;
        let installed = match io.logs.shared() {
            Some(_) => store.install_shared_run(io, begins, bytes),
            None => store.install_run(io, begins, bytes),
        };
        let installed = installed.map_err(|error| io.full_or(error))?;
        maintenance.wrote(handle, store, installed.bytes);
        io.disk.reached(CrashPoint::InstallRun);
        if !io.logs.view(store.handle).is_in_memory_only() {
            // The runs become durable as they arrive, without a request: at the end little is left to wait
            // for.
            maintenance.sync_later(handle, store.durability.sync_after_ms());
        }
        let InstalledRun { newest, .. } = installed;
        self.evict();
        Ok(newest)
    }

    /// The log is installed up to this last entry: entries may be appended after [`Engine::end_install`].
    ///
    /// # Errors
    /// [`EngineError::NotNext`] if the log ends elsewhere; errors of the disk.
    pub fn finish_install(&mut self, handle: Handle, last: (u32, u64)) -> EngineResult<()> {
        let (io, store) = self.store(handle)?;
        if io.logs.shared().is_some() {
            return store.finish_shared_install(io, last);
        }
        store.finish_install(io, last)
    }

    /// The installed log counts from here on, also after a crash. A log that reaches the disk must have a
    /// checkpoint by now, as the log lacks the state of entries that were dropped.
    ///
    /// # Errors
    /// [`EngineError::Incoming`] before [`Engine::finish_install`]; errors of the disk. The log then does not count.
    pub fn end_install(&mut self, handle: Handle) -> EngineResult<()> {
        let (_, store) = self.store(handle)?;
        if !store.is_incoming() {
            return Ok(());
        }
        if store.incoming == InstallState::Runs {
            return Err(EngineError::Incoming);
        }
        if self.io.logs.shared().is_some() {
            return self.end_shared_install(handle);
        }
        let (_, store) = self.store(handle)?;
        let folder = folder_of(store.id.partition);
        // The marker may exist though the log is in memory: its durability may have been changed meanwhile.
        if self.io.disk.list(&folder)?.iter().any(|name| name.name == INCOMING) {
            self.io.disk.remove(&format!("{folder}/{INCOMING}"))?;
            self.io.disk.reached(CrashPoint::InstallEnded);
            self.io.disk.sync_dir(&folder)?;
        }
        let Engine { io, partitions, maintenance, .. } = self;
        let store = store_of(partitions, handle)?;
        store.incoming = InstallState::No;
        if !io.logs.separate(store.handle).is_in_memory_only() {
            // A mark must confirm what was synced.
            store.is_dirty = true;
            maintenance.sync_later(handle, store.durability.sync_after_ms());
        }
        Ok(())
    }

    /// Writes the marker `incoming` into the partition's folder, before anything else is there.
    pub(super) fn mark_incoming(&mut self, handle: Handle) -> EngineResult<()> {
        let (_, store) = self.store(handle)?;
        let folder = folder_of(store.id.partition);
        if is_planted(Bug::PartialInstallNotMarked) {
            return Ok(());
        }
        let disk = &mut self.io.disk;
        let path = format!("{folder}/{INCOMING}");
        let made = match disk.open(&path, OpenMode::Create) {
            Ok(file) => {
                disk.close(file);
                Ok(())
            }
            // An earlier call made it, and had no room for the rest.
            Err(DiskError::AlreadyExists { .. }) => Ok(()),
            Err(error) => Err(error),
        };
        let marked = made.and_then(|()| disk.sync_dir(&folder)).and_then(|()| disk.sync_dir(""));
        marked.map_err(|error| self.io.full_or(error.into()))
    }

    /// See [`Engine::begin_install`].
    fn begin_shared_install(&mut self, handle: Handle) -> EngineResult<()> {
        let (io, store) = self.store(handle)?;
        store.check_going()?;
        let log = io.logs.view(store.handle);
        if !log.is_unused() {
            return Err(EngineError::NotNext { last: log.last() });
        }
        store.incoming = InstallState::Runs;
        io.disk.reached(CrashPoint::InstallBegun);
        Ok(())
    }

    /// See [`Engine::end_install`].
    fn end_shared_install(&mut self, handle: Handle) -> EngineResult<()> {
        let (io, store) = self.store(handle)?;
        let is_on_disk = !io.logs.view(store.handle).is_in_memory_only();
        if let Some(shared) = io.logs.shared_mut() {
            shared.end_install(store.handle)?;
        }
        if is_on_disk && !is_planted(Bug::InstallEndNotSynced) {
            self.flush_shared(true)?;
        }
        self.io.disk.reached(CrashPoint::InstallEnded);
        let Engine { partitions, maintenance, .. } = self;
        let store = store_of(partitions, handle)?;
        store.incoming = InstallState::No;
        if is_on_disk {
            // A mark must confirm what was synced.
            store.is_dirty = true;
            maintenance.sync_later(handle, store.durability.sync_after_ms());
        }
        Ok(())
    }
}
