//! A disk in memory that crashes, becomes corrupt, fails, slows down and fills up, all from a seed.
//!
//! ```text
//!   SimulatedDisk ── a handle; clones share the disk: the engine owns one, the test another
//!     Names        the issued and the durable names                 (disk::names)
//!     FileBytes    the issued and the durable bytes                 (file)
//!     Faults       active faults; Counts, Latency                   (faults)
//!     State        all of it, with a stream of random numbers for   (state)
//!                  each kind of draw, so that none shifts another
//! ```
//!
//! The same seed and the same calls give the same disk, byte for byte.

mod faults;
mod file;
mod state;
#[cfg(test)]
mod tests;

use std::cell::{RefCell, RefMut};
use std::rc::Rc;

pub use self::faults::{DiskOperation, Latency, OperationCounts, Probability, SimulatedFaults};
use self::file::FileBytes;
pub use self::file::SECTOR_BYTES;
use self::state::{AimedPowerCut, PendingDiskSync, Refusals, SimulatedState, Streams};
use super::crash_point::CrashPoint;
use super::names::NameTarget;
use super::{DirEntry, Disk, DiskError, DiskResult, FileId, OpenMode, SyncTicket};

/// Polls after which a started sync is done at the latest.
pub const SYNC_POLLS_MAX: u64 = 4;

/// A handle to a simulated disk; clones are handles to the same one. See the module.
#[derive(Clone, Debug)]
pub struct SimulatedDisk {
    state: Rc<RefCell<SimulatedState>>,
}

/// One byte that [`SimulatedDisk::corrupt_random`] hit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorruptByte {
    /// The file.
    pub path: String,
    /// The byte in it.
    pub offset: u64,
    /// The bits that were flipped.
    pub mask: u8,
}

impl SimulatedDisk {
    /// An empty disk without limits or faults.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        SimulatedDisk { state: Rc::new(RefCell::new(SimulatedState::new(seed))) }
    }

    /// A second disk in the same state, with the same future, sharing nothing: to try several crashes at one point.
    #[must_use]
    pub fn duplicate(&self) -> Self {
        SimulatedDisk { state: Rc::new(RefCell::new(self.state().clone())) }
    }

    /// Sets another seed for the draws from now on.
    pub fn reseed(&self, seed: u64) {
        self.state().random = Streams::new(seed);
    }

    /// The power fails and returns. Unsynced data is old, new, torn or garbage; names not covered by `sync_dir` survive as a
    /// prefix per folder. All file ids and tickets are invalid from here on.
    pub fn crash(&self) {
        let state = &mut *self.state();
        state.names.crash(&mut state.random.crash);
        for file in state.files.values_mut() {
            file.crash(&mut state.random.crash);
        }
        state.restart();
    }

    /// A clean shutdown: everything issued survives. All file ids and tickets are invalid from here on.
    pub fn power_off_clean(&self) {
        let state = &mut *self.state();
        state.names.make_all_durable();
        state.files.values_mut().for_each(FileBytes::power_off_clean);
        state.restart();
    }

    /// Allows `operations` more calls and fails every later one, until [`SimulatedDisk::crash`] or
    /// [`SimulatedDisk::power_off_clean`]: so a crash can come in the middle of one call of an engine.
    pub fn cut_power_after(&self, operations: u64) {
        self.state().power.operations_until_cut = Some(operations);
    }

    /// Cuts the power `operations` calls after the engine has reached one of these points for the `nth` time from now; 1 is
    /// the next. Until [`SimulatedDisk::crash`], [`SimulatedDisk::power_off_clean`] or
    /// [`SimulatedDisk::cancel_aimed_cut`].
    pub fn cut_power_at(&self, points: &[CrashPoint], nth: u64, operations: u64) {
        assert!(nth > 0, "the next time is the first");
        self.state().power.aimed = Some(AimedPowerCut { points: points.to_vec(), nth, operations });
    }

    /// The power that [`SimulatedDisk::cut_power_at`] would cut later stays on.
    pub fn cancel_aimed_cut(&self) {
        let power = &mut self.state().power;
        power.aimed = None;
        if power.cut_at.take().is_some() && power.operations_until_cut != Some(0) {
            power.operations_until_cut = None;
        }
    }

    /// The point at which [`SimulatedDisk::cut_power_at`] cuts the power, or has cut it, since the last start.
    #[must_use]
    pub fn cut_at(&self) -> Option<CrashPoint> {
        self.state().power.cut_at
    }

    /// How often the engine has reached a point since the disk was made, across crashes.
    #[must_use]
    pub fn times_reached(&self, point: CrashPoint) -> u64 {
        self.state().power.reached[point as usize]
    }

    /// Whether the power has failed as scheduled by [`SimulatedDisk::cut_power_after`] or
    /// [`SimulatedDisk::cut_power_at`].
    #[must_use]
    pub fn is_power_off(&self) -> bool {
        self.state().power_is_off()
    }

    /// Replaces the active faults.
    pub fn set_faults(&self, faults: SimulatedFaults) {
        self.state().faults = faults;
    }

    /// The active faults.
    #[must_use]
    pub fn faults(&self) -> SimulatedFaults {
        self.state().faults.clone()
    }

    /// Makes the `nth` call of `operation` from now fail, once; 1 is the next.
    pub fn fail_nth(&self, operation: DiskOperation, nth: u64) {
        assert!(nth > 0, "the next call is the first");
        self.state().fail_nth.insert(operation, nth);
    }

    /// Lets `before` more calls that need a shared resource pass, and refuses the next `times` of them with [`DiskError::Scarce`], or with
    /// [`DiskError::Full`] those that need space. Such a call does nothing.
    pub fn refuse(&self, error: DiskError, before: u64, times: u64) {
        assert!(error.is_temporary(), "the call may succeed later");
        self.state().power.refusals = Some(Refusals { error, before, times });
    }

    /// How many calls are still to be refused by [`SimulatedDisk::refuse`].
    #[must_use]
    pub fn refusals_left(&self) -> u64 {
        self.state().power.refusals.as_ref().map_or(0, |refusals| refusals.times)
    }

    /// Switches a planted bug on or off: syncs of files succeed and make nothing durable.
    pub fn lose_syncs(&self, lose: bool) {
        self.state().faults.lose_syncs = lose;
    }

    /// Flips bits in `count` random bytes of durable files and returns them; larger files are hit more often. Fewer if
    /// nothing is durable.
    pub fn corrupt_random(&self, count: usize) -> Vec<CorruptByte> {
        let state = &mut *self.state();
        let durable = |state: &SimulatedState, file| state.files[&file].durable_bytes() as u64;
        let mut files = state.names.files();
        files.sort();
        let total: u64 = files.iter().map(|(_, file)| durable(state, *file)).sum();
        let mut hits = Vec::new();
        for _ in 0..if total == 0 { 0 } else { count } {
            let mut offset = state.random.corruption.below(total);
            let mask = 1 + state.random.corruption.below(255) as u8;
            for (path, file) in &files {
                let bytes = durable(state, *file);
                if offset < bytes {
                    state.corruption(*file, offset, mask);
                    hits.push(CorruptByte { path: path.clone(), offset, mask });
                    break;
                }
                offset -= bytes;
            }
        }
        hits
    }

    /// Flips the bits of `mask` in one durable byte.
    ///
    /// # Errors
    /// [`DiskError::NotFound`]; [`DiskError::BeyondEnd`] if the file has no such durable byte.
    pub fn corrupt_at(&self, path: &str, offset: u64, mask: u8) -> DiskResult<()> {
        let mut state = self.state();
        let file = state.names.file(path, "corruption")?;
        if offset >= state.files[&file].durable_bytes() as u64 {
            return Err(DiskError::BeyondEnd { path: path.to_owned(), offset, bytes: 1 });
        }
        state.corruption(file, offset, mask);
        Ok(())
    }

    /// Total bytes that all files may have; `None` for no limit.
    pub fn set_capacity(&self, bytes: impl Into<Option<u64>>) {
        self.state().limits.capacity = bytes.into();
    }

    /// The greatest length that an append may give a file from now on; `None` for no limit.
    pub fn set_file_bytes_max(&self, bytes: impl Into<Option<u64>>) {
        self.state().limits.file_bytes_max = bytes.into();
    }

    /// Whether it says from now on that few files can still be created; it creates them.
    pub fn set_lacks_files(&self, lacks_files: bool) {
        self.state().limits.lacks_files = lacks_files;
    }

    /// Sets how many bytes are allocated ahead for a file that is announced to grow ([`Disk::reserve`]), from now on;
    /// none at first.
    pub fn set_preallocated_bytes(&self, bytes: u64) {
        self.state().limits.preallocated_bytes = bytes;
    }

    /// Sets after how many polls a started sync is done at the latest, from now on; [`SYNC_POLLS_MAX`] at first.
    pub fn set_sync_polls_max(&self, polls: u64) {
        self.state().sync_polls_max = polls;
    }

    /// Sets how long operations take from now on.
    pub fn set_latency(&self, latency: Latency) {
        self.state().latency = latency;
    }

    /// Simulated microseconds that all operations so far have taken.
    #[must_use]
    pub fn elapsed_us(&self) -> u64 {
        self.state().elapsed_us
    }

    /// Calls since the disk was made, across crashes. The difference of two values covers the time between them.
    #[must_use]
    pub fn counts(&self) -> OperationCounts {
        self.state().counts
    }

    fn state(&self) -> RefMut<'_, SimulatedState> {
        self.state.borrow_mut()
    }
}

impl Disk for SimulatedDisk {
    fn open(&mut self, path: &str, mode: OpenMode<'_>) -> DiskResult<FileId> {
        let mut state = self.state();
        state.needs_descriptor()?;
        state.refuse_once(DiskOperation::Open)?;
        state.admit(DiskOperation::Open, 0, path)?;
        let file = match mode {
            OpenMode::Existing => state.names.file(path, "open")?,
            OpenMode::Create => {
                let file = state.names.create(path)?;
                state.files.insert(file, FileBytes::default());
                file
            }
            OpenMode::Recycled { from } => {
                let file = state.names.recycle(from, path)?;
                state.open.retain(|_, open| *open != file);
                if let Some(bytes) = state.files.get_mut(&file) {
                    bytes.recycle();
                }
                file
            }
        };
        let id = FileId(state.id());
        state.open.insert(id, file);
        Ok(id)
    }

    fn close(&mut self, file: FileId) {
        let mut state = self.state();
        state.counts.count(DiskOperation::Close);
        state.open.remove(&file);
    }

    fn bytes(&mut self, file: FileId) -> DiskResult<u64> {
        let mut state = self.state();
        state.admit_file(DiskOperation::Bytes, 0, file)?;
        Ok(state.file(file, DiskOperation::Bytes)?.issued().len() as u64)
    }

    fn append(&mut self, file: FileId, data: &[u8]) -> DiskResult<()> {
        let mut state = self.state();
        state.needs_descriptor()?;
        state.refuse_once(DiskOperation::Append)?;
        if let Err(error) = state.admit_file(DiskOperation::Append, data.len(), file) {
            let reached = state.random.fail.below(data.len() as u64 + 1) as usize;
            if let Ok(file) = state.file(file, DiskOperation::Append) {
                file.append_failed(&data[..reached]);
            }
            return Err(error);
        }
        let added = data.len() as u64;
        let free = state.free();
        let file_bytes_max = state.limits.file_bytes_max.unwrap_or(u64::MAX);
        let bytes = state.file(file, DiskOperation::Append)?;
        if bytes.issued().len() as u64 + added > file_bytes_max {
            return Err(DiskError::Full);
        }
        let ahead = bytes.allocated_ahead();
        let more = added.saturating_sub(ahead);
        if free < more {
            return Err(DiskError::Full);
        }
        bytes.append(data);
        bytes.set_allocated_ahead(ahead.saturating_sub(added));
        state.used += more;
        state.counts.bytes_written += added;
        Ok(())
    }

    fn read_at(&mut self, file: FileId, offset: u64, into: &mut [u8]) -> DiskResult<()> {
        let mut state = self.state();
        state.needs_descriptor()?;
        state.refuse_once(DiskOperation::ReadAt)?;
        state.admit_file(DiskOperation::ReadAt, into.len(), file)?;
        let issued = state.file(file, DiskOperation::ReadAt)?.issued();
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let Some(bytes) = issued.get(start..start.saturating_add(into.len())) else {
            return Err(state.beyond_end(file, offset, into.len()));
        };
        into.copy_from_slice(bytes);
        state.counts.bytes_read += into.len() as u64;
        Ok(())
    }

    fn sync(&mut self, file: FileId) -> DiskResult<()> {
        let state = &mut *self.state();
        if state.power_is_off() {
            return state.admit_file(DiskOperation::Sync, 0, file);
        }
        let admitted = state.admit_file(DiskOperation::Sync, 0, file);
        let number = state.number(file, DiskOperation::Sync)?;
        state.complete_begun(number, None);
        let Some(bytes) = state.files.get_mut(&number) else { return admitted };
        match admitted {
            Ok(()) if state.faults.lose_syncs => {}
            Ok(()) => bytes.sync(),
            Err(_) => bytes.sync_failed(None, &mut state.random.fail),
        }
        admitted
    }

    fn sync_begin(&mut self, file: FileId) -> DiskResult<SyncTicket> {
        let mut state = self.state();
        state.admit_file(DiskOperation::SyncBegin, 0, file)?;
        let number = state.number(file, DiskOperation::SyncBegin)?;
        let ticket = SyncTicket(state.id());
        state.file(file, DiskOperation::SyncBegin)?.sync_begin(ticket);
        let polls_max = state.sync_polls_max;
        let polls_left = state.random.schedule.below(polls_max + 1);
        state.begun.insert(ticket, PendingDiskSync { file: number, polls_left, carried_out: false });
        Ok(ticket)
    }

    fn sync_done(&mut self, ticket: SyncTicket) -> DiskResult<bool> {
        let state = &mut *self.state();
        let Some(begun) = state.begun.get_mut(&ticket) else {
            state.counts.count(DiskOperation::SyncDone);
            return Err(DiskError::no_such_ticket(ticket));
        };
        let (number, carried_out) = (begun.file, begun.carried_out);
        let waiting = begun.polls_left > 0;
        begun.polls_left = begun.polls_left.saturating_sub(1);
        let power_was_off = state.power_is_off();
        if let Err(error) = state.admit_number(DiskOperation::SyncDone, 0, number) {
            state.begun.remove(&ticket);
            if !power_was_off && !carried_out {
                state.complete_begun(number, Some(ticket));
                if let Some(bytes) = state.files.get_mut(&number) {
                    bytes.sync_failed(Some(ticket), &mut state.random.fail);
                }
            }
            return Err(error);
        }
        if waiting {
            return Ok(false);
        }
        if !carried_out {
            state.complete_begun(number, Some(ticket));
            state.complete(number, ticket);
        }
        state.begun.remove(&ticket);
        Ok(true)
    }

    fn reserve(&mut self, file: FileId, bytes: u64) {
        let state = &mut *self.state();
        if state.power_is_off() {
            return;
        }
        let ahead = state.limits.preallocated_bytes.min(state.free());
        if let Ok(number) = state.number(file, DiskOperation::Append)
            && let Some(file) = state.files.get_mut(&number)
        {
            file.reserve(bytes as usize);
            state.used += ahead;
            file.set_allocated_ahead(file.allocated_ahead() + ahead);
        }
    }

    fn reached(&mut self, point: CrashPoint) {
        let state = &mut *self.state();
        if state.power_is_off() {
            return;
        }
        state.power.reached[point as usize] += 1;
        let power = &mut state.power;
        let Some(aimed) = power.aimed.as_mut().filter(|aimed| aimed.points.contains(&point)) else { return };
        aimed.nth -= 1;
        if aimed.nth == 0 {
            let left = power.operations_until_cut.unwrap_or(u64::MAX);
            power.operations_until_cut = Some(left.min(aimed.operations));
            (power.aimed, power.cut_at) = (None, Some(point));
        }
    }

    fn truncate(&mut self, file: FileId, bytes: u64) -> DiskResult<()> {
        let mut state = self.state();
        state.needs_descriptor()?;
        state.refuse_once(DiskOperation::Truncate)?;
        state.admit_file(DiskOperation::Truncate, 0, file)?;
        let contents = state.file(file, DiskOperation::Truncate)?;
        let cut = (contents.issued().len() as u64).checked_sub(bytes);
        let Some(cut) = cut else { return Err(state.beyond_end(file, bytes, 0)) };
        let freed = contents.truncate(bytes as usize);
        state.used -= cut + freed;
        Ok(())
    }

    fn rename(&mut self, from: &str, to: &str) -> DiskResult<()> {
        let mut state = self.state();
        state.refuse_once(DiskOperation::Rename)?;
        state.admit(DiskOperation::Rename, 0, from)?;
        let replaced = state.names.rename(from, to)?;
        state.remove_unnamed(replaced);
        Ok(())
    }

    fn remove(&mut self, path: &str) -> DiskResult<()> {
        let mut state = self.state();
        state.refuse_once(DiskOperation::Remove)?;
        state.admit(DiskOperation::Remove, 0, path)?;
        let removed = state.names.remove(path)?;
        state.remove_unnamed(removed);
        Ok(())
    }

    fn list(&mut self, dir: &str) -> DiskResult<Vec<DirEntry>> {
        let mut state = self.state();
        state.needs_descriptor()?;
        state.refuse_once(DiskOperation::List)?;
        state.admit(DiskOperation::List, 0, dir)?;
        let entries = state.names.list(dir)?.map(|(name, named)| {
            let (bytes, is_dir) = match named {
                NameTarget::File(file) => (state.files[&file].issued().len() as u64, false),
                NameTarget::Folder(_) => (0, true),
            };
            DirEntry { name: name.to_owned(), bytes, is_dir }
        });
        Ok(entries.collect())
    }

    fn sync_dir(&mut self, dir: &str) -> DiskResult<()> {
        let state = &mut *self.state();
        let power_was_off = state.power_is_off();
        state.needs_descriptor()?;
        state.refuse_once(DiskOperation::SyncDir)?;
        let admitted = state.admit(DiskOperation::SyncDir, 0, dir);
        let mut changes = state.names.needed_by(dir)?;
        match admitted {
            Ok(()) if state.faults.lose_folder_syncs => changes.clear(),
            Ok(()) => {}
            Err(_) if power_was_off => changes.clear(),
            Err(_) => changes.truncate(state.random.fail.below(changes.len() as u64 + 1) as usize),
        }
        for change in changes {
            if let Some(gone) = state.names.make_durable(change) {
                state.files.remove(&gone);
            }
        }
        admitted
    }

    fn lacks_files(&mut self) -> bool {
        self.state().limits.lacks_files
    }

    fn file_bytes_max(&mut self) -> u64 {
        self.state().limits.file_bytes_max.unwrap_or(u64::MAX)
    }

    fn free_bytes(&mut self) -> DiskResult<u64> {
        let mut state = self.state();
        state.admit(DiskOperation::FreeBytes, 0, "")?;
        Ok(state.free())
    }
}
