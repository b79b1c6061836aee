//! A log goes to another engine as it stands: runs of bytes are read out of segments here and taken into an empty partition there.
//!
//! ```text
//!   sender    |segment|segment|segment, open ..|        reads on from a place, entry by entry checked
//!                  └──run──run──run──┐
//!   receiver  'incoming' stands first in the folder     each run: to the file as it is, then into the index
//!             end: a checkpoint is durable ──> 'incoming' removed
//! ```
//!
//! Segments name partition, first index and generation alike on all members, and their checksums depend on nothing else; so the
//! receiver's log is the sender's, byte for byte, up to the entry that the sender stops at. What stands half in a folder looks like
//! any log that ends there. So until `incoming` has gone, an opening throws away what stands in its folder.

use super::{Engine, Handle, folder_of, store_of};
use crate::disk::{Disk, DiskError, OpenMode};
use crate::error::{EngineError, EngineResult};
use crate::planted::{Bug, is_planted};
use crate::store::snapshot_install::{Incoming, InstalledRun};

/// In the folder of a partition whose log is being taken.
pub(super) const INCOMING: &str = "incoming";

/// Where in a log to read on. The default is its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunPlace {
    /// First log index and generation of the segment; with the offset 0, of the first that begins there or behind.
    pub(crate) first_index: u64,
    pub(crate) generation: u32,
    pub(crate) offset: u64,
}

/// What was read of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogRun {
    /// Whole entries of one segment, and what stands between them; the place is behind them.
    Bytes {
        /// They begin with the segment's header. Otherwise they follow those that were read before.
        begins: bool,
    },
    /// There is nothing more up to that log index.
    End,
    /// The payload of the entry of this log index is not what was written.
    Corrupt {
        /// Which.
        index: u64,
    },
    /// The segment that was being read is not there any more.
    Replaced,
}

impl<D: Disk> Engine<D> {
    /// Fills `out` with about so many bytes of a partition's log as they stand in its segments, up to the entry of a log index that is
    /// committed. Checksums are checked; nothing corrupt is handed out. The caller holds compaction meanwhile
    /// ([`Engine::hold_compaction`]).
    ///
    /// # Errors
    /// [`EngineError::Corrupt`] if a head cannot be read; what the disk answers.
    pub fn read_run(
        &mut self,
        handle: Handle,
        place: &mut RunPlace,
        (through, bytes): (u64, usize),
        out: &mut Vec<u8>,
    ) -> EngineResult<LogRun> {
        let (io, store) = self.store(handle)?;
        store.log.read_run(&mut io.disk, place, (through, bytes), out)
    }

    /// Bytes of a partition's segments up to a log index, about: what [`Engine::read_run`] will come to.
    ///
    /// # Errors
    /// [`EngineError::UnknownPartition`].
    pub fn run_bytes(&mut self, handle: Handle, through: u64) -> EngineResult<u64> {
        let (_, store) = self.store(handle)?;
        let segments = store.log.order.iter().map(|&slot| store.log.segment(slot));
        Ok(segments.filter(|segment| segment.first_index() <= through).map(|segment| segment.bytes).sum())
    }

    /// An empty partition takes another's log from here on ([`Engine::take_run`]), until [`Engine::end_taking`]; a crash before
    /// that leaves it empty.
    ///
    /// # Errors
    /// [`EngineError::NotNext`] if it is not empty; [`EngineError::DiskFull`]; what the disk answers.
    pub fn begin_taking(&mut self, handle: Handle) -> EngineResult<()> {
        let (_, store) = self.store(handle)?;
        store.check_going()?;
        if !store.log.order.is_empty() || store.log.last != (0, 0) {
            return Err(EngineError::NotNext { last: store.log.last });
        }
        store.incoming = Incoming::Runs;
        let is_on_disk = !store.log.is_in_memory_only();
        if is_on_disk { self.mark_incoming(handle) } else { Ok(()) }
    }

    /// Adds a run that [`Engine::read_run`] has read: the next one. Its entries are committed there, and so they are here.
    /// Returns the newest timestamp in it.
    ///
    /// # Errors
    /// [`EngineError::DiskFull`], [`EngineError::MemoryFull`]: nothing was taken. [`EngineError::Format`], if it is not the next run
    /// of a log of this partition, and what the disk answers: what was taken so far is of no use.
    pub fn take_run(&mut self, handle: Handle, begins: bool, bytes: &[u8]) -> EngineResult<u64> {
        let Engine { io, partitions, upkeep, .. } = self;
        let store = store_of(partitions, handle)?;
        let taken = store.take_run(io, begins, bytes).map_err(|error| io.full_or(error))?;
        upkeep.wrote(handle, store, taken.bytes);
        if !store.log.is_in_memory_only() {
            // It is made durable as it comes, whoever asks for it: at the end only little must be waited for.
            upkeep.sync_later(handle, store.durability.sync_after_ms());
        }
        let InstalledRun { newest, .. } = taken;
        self.evict();
        Ok(newest)
    }

    /// All has been taken up to this entry, the last one: entries may be appended once [`Engine::end_taking`] was called.
    ///
    /// # Errors
    /// [`EngineError::NotNext`] if the log ends elsewhere; what the disk answers.
    pub fn taken(&mut self, handle: Handle, last: (u32, u64)) -> EngineResult<()> {
        let (io, store) = self.store(handle)?;
        store.taken(io, last)
    }

    /// The log that was taken counts from here on, also after a crash. For a log that reaches the disk there must be a
    /// checkpoint by now, as the log does not hold what its entries told of that are gone.
    ///
    /// # Errors
    /// [`EngineError::Incoming`] before [`Engine::taken`]; what the disk answers. Then it is not told.
    pub fn end_taking(&mut self, handle: Handle) -> EngineResult<()> {
        let (_, store) = self.store(handle)?;
        if !store.is_incoming() {
            return Ok(());
        }
        if store.incoming == Incoming::Runs {
            return Err(EngineError::Incoming);
        }
        let folder = folder_of(store.log.partition);
        // There may be one though the log is in memory: its durability may have been changed meanwhile.
        if self.io.disk.list(&folder)?.iter().any(|name| name.name == INCOMING) {
            self.io.disk.remove(&format!("{folder}/{INCOMING}"))?;
            self.io.disk.sync_dir(&folder)?;
        }
        let Engine { partitions, upkeep, .. } = self;
        let store = store_of(partitions, handle)?;
        store.incoming = Incoming::No;
        if !store.log.is_in_memory_only() {
            // Somebody must vouch for what was synced.
            store.is_dirty = true;
            upkeep.sync_later(handle, store.durability.sync_after_ms());
        }
        Ok(())
    }

    /// Says in the partition's folder, before anything else stands there, that it is not whole.
    pub(super) fn mark_incoming(&mut self, handle: Handle) -> EngineResult<()> {
        let (_, store) = self.store(handle)?;
        let folder = folder_of(store.log.partition);
        if is_planted(Bug::HalfTakenKept) {
            return Ok(());
        }
        let disk = &mut self.io.disk;
        let path = format!("{folder}/{INCOMING}");
        let made = match disk.open(&path, OpenMode::Create) {
            Ok(file) => {
                disk.close(file);
                Ok(())
            }
            // An earlier call made it, and had no room for what was to follow.
            Err(DiskError::AlreadyExists { .. }) => Ok(()),
            Err(error) => Err(error),
        };
        let marked = made.and_then(|()| disk.sync_dir(&folder)).and_then(|()| disk.sync_dir(""));
        marked.map_err(|error| self.io.full_or(error.into()))
    }
}
