//! Whether the disk has room for what is to be written, for owners that can have somebody else write it.

use super::{Engine, Handle};
use crate::disk::Disk;
use crate::error::EngineResult;

impl<D: Disk> Engine<D> {
    /// Whether new entries that go to the disk are likely to be accepted: none was refused for lack of room, nor was the reserve
    /// found touched, unless there was more room than the reserve at a later look. Costs nothing.
    pub fn has_room(&self) -> bool {
        !self.io.space.is_full()
    }

    /// Asks the disk how much room there is: one call of the system. Without it a disk that has become full is noticed by the
    /// next write, and one that has room again never.
    pub fn look_at_room(&mut self) {
        self.io.space.look(&mut self.io.disk);
    }

    /// Whether entries of so many bytes in all would be accepted by a partition now, as what is let in on a full disk or as others.
    /// Nothing is kept for them.
    ///
    /// # Errors
    /// [`crate::EngineError::DiskFull`], [`crate::EngineError::MemoryFull`]; there is no such partition.
    pub fn ask_for_room(&mut self, handle: Handle, bytes: u64, is_let_in: bool) -> EngineResult<()> {
        let (io, store) = self.store(handle)?;
        store.ask_for_room(io, bytes, is_let_in)
    }

    /// From now on, until it is taken back, what is appended is let in on a full disk as removals are, up to half of the reserve:
    /// what has to be in the log so that there will be room, or that nobody waits any more.
    pub fn let_in(&mut self, lets_in: bool) {
        self.io.space.let_in(lets_in);
    }
}
