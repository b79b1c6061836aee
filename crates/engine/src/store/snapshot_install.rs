//! Snapshot install: another member's log is installed, run by run.

use super::{PartitionStore, units_of};
use crate::disk::{Disk, OpenMode};
use crate::error::{EngineError, EngineResult};
use crate::io::{Io, Logs};
use crate::limits::SEGMENT_FILE_BYTES_MAX;
use crate::log::header::{HEADER_BYTES, SegmentHeader};
use crate::log::scan::{self, ScanItem};
use crate::log::segment::Segment;
use crate::log::shared::install_run::{InstallPlace, RunHeader, entries_of};
use crate::log::{AppendedPlace, FIRST_ENTRY_AT};
use crate::options::Durability;
use crate::resources::ReserveShare;

/// Whether the data here counts as a log yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum InstallState {
    /// It is the log.
    #[default]
    No,
    /// Another member's log is being installed, run by run. The last block of its open segment is in the file
    /// only: no other operation may extend, seal or truncate it.
    Runs,
    /// All of it has arrived, and does not count before it is durable.
    Complete,
}

/// The result of installing a run.
pub(crate) struct InstalledRun {
    pub(crate) bytes: usize,
    /// The highest timestamp of its entries.
    pub(crate) newest: u64,
}

impl PartitionStore {
    /// See [`crate::Engine::install_run`].
    pub(crate) fn install_run<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        begins: bool,
        bytes: &[u8],
    ) -> EngineResult<InstalledRun> {
        self.admit_run(io, bytes)?;
        if self.incoming != InstallState::Runs {
            let reason = "a run that was not requested".into();
            return Err(EngineError::Format { path: io.logs.separate(self.handle).folder.clone(), reason });
        }
        let placed = if begins {
            self.begin_installed_segment(io, bytes)
        } else {
            self.extend_installed_segment(io, bytes)
        };
        let (slot, from) = self.stop_on_failure(placed)?;
        let body = if begins { bytes.get(HEADER_BYTES..).unwrap_or(&[]) } else { bytes };
        let segment = io.logs.separate(self.handle).segment(slot);
        let (base, covers) = (*segment.base(), (segment.header.covers_epoch, segment.header.covers_through));
        let mut newest = 0;
        for item in scan::items(&base, body, from, segment.last_index) {
            match item {
                ScanItem::Entry { offset, entry, payload_is_good: true } => {
                    let (meta, entry_bytes) = (&entry.head.meta, entry.head.entry_bytes());
                    let placed = AppendedPlace { slot, offset: offset as u32, entry_bytes };
                    io.logs.separate_mut(self.handle).segment_mut(slot).record_entry(
                        meta,
                        offset,
                        entry_bytes,
                    );
                    let units = units_of(meta.kind, meta.flags, entry.payload);
                    let applied = self.apply(io, (meta, None), placed, entry.key, entry.payload, units);
                    self.stop_on_failure(applied)?;
                    self.set_installed_end(&mut io.logs, (meta.epoch, meta.index));
                    newest = newest.max(meta.timestamp);
                }
                ScanItem::Mark { .. } => {}
                ScanItem::Footer { footer, .. } => {
                    let (epoch, index) = covers.max((footer.last_epoch, footer.last_index));
                    let segment = io.logs.separate_mut(self.handle).segment_mut(slot);
                    segment.sealed = true;
                    (segment.last_epoch, segment.last_index) = (epoch, index);
                    self.set_installed_end(&mut io.logs, (epoch, index));
                }
                ScanItem::Entry { offset, .. } | ScanItem::Bad { offset, .. } => {
                    return Err(not_a_run(
                        io.logs.separate(self.handle).segment(slot),
                        &format!("damaged at {offset}"),
                    ));
                }
            }
        }
        Ok(InstalledRun { bytes: bytes.len(), newest })
    }

    /// # Errors
    /// [`EngineError::MemoryFull`], [`EngineError::DiskFull`]: there is no room for a run now.
    pub(crate) fn admit_run<D: Disk>(&self, io: &mut Io<D>, bytes: &[u8]) -> EngineResult<()> {
        self.check_going()?;
        match self.durability {
            Durability::Memory if io.memory.is_over() => {
                Err(EngineError::MemoryFull { budget_bytes: io.memory.budget_bytes })
            }
            Durability::Memory => Ok(()),
            Durability::Interval { .. } | Durability::Sync => {
                io.space.admit(&mut io.disk, bytes.len() as u64, ReserveShare::Nothing)
            }
        }
    }

    fn set_installed_end(&mut self, logs: &mut Logs, last: (u32, u64)) {
        let log = logs.separate_mut(self.handle);
        if last.1 > log.last.1 {
            log.last = last;
        }
        self.commit = self.commit.max(last.1);
    }

    /// Makes a segment with the header at the start of the bytes. Returns the position of its entries.
    fn begin_installed_segment<D: Disk>(&mut self, io: &mut Io<D>, bytes: &[u8]) -> EngineResult<(u32, u64)> {
        let log = io.logs.separate_mut(self.handle);
        let folder = log.folder.clone();
        let wrong = |reason: &str| EngineError::Format { path: folder.clone(), reason: reason.into() };
        let header = SegmentHeader::decode(bytes).map_err(|reason| wrong(&reason))?;
        let is_next = header.partition == self.id.partition && header.base.index > log.last.1;
        if !is_next || log.order.last().is_some_and(|&slot| !log.segment(slot).sealed) {
            return Err(wrong("a segment that does not follow the last one"));
        }
        if bytes.len() as u64 > SEGMENT_FILE_BYTES_MAX {
            return Err(wrong("too many bytes of a segment"));
        }
        let mut segment = if log.is_in_memory_only() {
            let mut segment = Segment::new(header, &folder);
            io.memory.add_used(segment.resident_bytes());
            io.memory.add_used(segment.push(&bytes[HEADER_BYTES..]));
            segment
        } else {
            let path = format!("{folder}/{}", header.file_name());
            let file = io.disk.open(&path, OpenMode::Create)?;
            if let Err(error) = io.disk.append(file, bytes) {
                io.disk.close(file);
                // The same run is sent again once there is room.
                io.disk.remove(&path)?;
                return Err(error.into());
            }
            Segment::installed(header, path, file, bytes.len() as u64)
        };
        segment.clear_metadata();
        if log.order.is_empty() {
            self.id.index_seed = header.index_seed;
        }
        let slot = log.add_slot(segment)?;
        log.order.push(slot);
        Ok((slot, FIRST_ENTRY_AT))
    }

    /// Extends the last segment. Returns the position of the new bytes.
    fn extend_installed_segment<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        bytes: &[u8],
    ) -> EngineResult<(u32, u64)> {
        let (log, mut io) = io.writable_separate(self.handle);
        let open = log.order.last().copied().filter(|&slot| !log.segment(slot).sealed);
        let Some(slot) = open else {
            let reason = "more of a segment that was not begun".into();
            return Err(EngineError::Format { path: log.folder.clone(), reason });
        };
        let in_memory_only = log.is_in_memory_only();
        let segment = log.segment_mut(slot);
        let from = segment.bytes;
        if from + bytes.len() as u64 > SEGMENT_FILE_BYTES_MAX {
            return Err(not_a_run(segment, "too many bytes of a segment"));
        }
        // There may be a file that lacks the end: the log was to be written to the disk, which was full.
        match segment.file.filter(|_| !in_memory_only && segment.is_all_written()) {
            Some(file) => {
                io.disk.append(file, bytes)?;
                io.memory.freed(segment.extend_written(bytes.len() as u64));
            }
            None => {
                segment.load_open_block(&mut io)?;
                io.memory.add_used(segment.push(bytes));
            }
        }
        Ok((slot, from))
    }

    /// See [`crate::Engine::install_run`].
    pub(crate) fn install_shared_run<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        begins: bool,
        bytes: &[u8],
    ) -> EngineResult<InstalledRun> {
        self.admit_run(io, bytes)?;
        let wrong = |reason: &str| {
            let path = format!("a run of partition {}", self.id.partition);
            EngineError::Format { path, reason: reason.into() }
        };
        if self.incoming != InstallState::Runs {
            return Err(wrong("a run that was not requested"));
        }
        let (header, rest) = RunHeader::decode(bytes).ok_or_else(|| wrong("no header of a run"))?;
        let entries = entries_of(&header, rest).ok_or_else(|| wrong("other bytes than entries"))?;
        if begins != (header.begins == InstallPlace::default()) {
            return Err(wrong("a run that begins elsewhere"));
        }
        if begins && io.logs.view(self.handle).is_unused() {
            self.id.index_seed = header.index_seed;
        }
        let facts = self.log_facts();
        if let Some(shared) = io.logs.shared_mut() {
            shared.begin_run(self.handle, header.begins, facts)?;
        }
        let mut newest = 0;
        for entry in &entries {
            let Some(head) = entry.head.replicated() else { continue };
            let meta = head.meta;
            let (logs, mut resources) = io.split_resources();
            let appended = logs.append(&mut resources, self.handle, &meta, entry.key, [entry.payload], facts);
            let placed = self.stop_on_failure(appended)?;
            let units = units_of(meta.kind, meta.flags, entry.payload);
            let applied = self.apply(io, (&meta, None), placed, entry.key, entry.payload, units);
            self.stop_on_failure(applied)?;
            self.commit = self.commit.max(meta.index);
            newest = newest.max(meta.timestamp);
        }
        if let Some(shared) = io.logs.shared_mut() {
            shared.run_installed(self.handle, header.next);
        }
        Ok(InstalledRun { bytes: bytes.len(), newest })
    }

    /// See [`crate::Engine::finish_install`].
    pub(crate) fn finish_shared_install<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        last: (u32, u64),
    ) -> EngineResult<()> {
        if self.incoming == InstallState::No {
            return Err(EngineError::NotNext { last: io.logs.view(self.handle).last() });
        }
        let facts = self.log_facts();
        if let Some(shared) = io.logs.shared_mut() {
            shared.finish_install(self.handle, facts, last)?;
        }
        self.commit = last.1;
        self.recent.note_committed(last.0, last.1);
        self.incoming = InstallState::Complete;
        Ok(())
    }

    /// See [`crate::Engine::finish_install`].
    pub(crate) fn finish_install<D: Disk>(&mut self, io: &mut Io<D>, last: (u32, u64)) -> EngineResult<()> {
        let (log, mut io) = io.writable_separate(self.handle);
        if log.last != last || self.incoming == InstallState::No {
            return Err(EngineError::NotNext { last: log.last });
        }
        log.set_end(last);
        if let Some(&slot) = log.order.last() {
            let segment = log.segment_mut(slot);
            if !segment.sealed && !segment.has_open_block() {
                segment.load_open_block(&mut io)?;
                // It was checked when it arrived, but not now.
                segment.trust_from(u64::MAX);
            }
        }
        self.incoming = InstallState::Complete;
        Ok(())
    }
}

fn not_a_run(segment: &Segment, reason: &str) -> EngineError {
    EngineError::Format { path: segment.path.clone(), reason: reason.into() }
}
