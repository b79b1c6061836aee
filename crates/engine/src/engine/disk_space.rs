//! Whether the disk has room for new entries, for owners that can move the writes to another instance.

use super::{Engine, Handle};
use crate::disk::Disk;
use crate::engine::options::Durability;
use crate::error::EngineResult;

impl<D: Disk> Engine<D> {
    /// Whether new entries that go to the disk are likely to be accepted. False after an entry was refused
    /// for lack of room, or after the reserve was found in use, until a later check finds more free space
    /// than the reserve. Costs nothing.
    pub fn has_disk_space(&self) -> bool {
        !self.io.space.is_full()
    }

    /// Reads the free space from the disk: one system call. Without it, only a failing write shows that a
    /// disk has become full, and nothing shows that it has room again.
    pub fn check_disk_space(&mut self) {
        self.io.space.check_disk_space(&mut self.io.disk);
    }

    /// Whether a partition would accept entries of so many bytes in total now, either as entries that are
    /// admitted on a full disk or as others. No room is reserved for them.
    ///
    /// # Errors
    /// [`crate::EngineError::DiskFull`], [`crate::EngineError::MemoryFull`]; there is no such partition.
    pub fn check_space_for(&mut self, handle: Handle, bytes: u64, is_admitted: bool) -> EngineResult<()> {
        let (io, store) = self.store(handle)?;
        store.check_space_for(io, bytes, is_admitted)
    }

    /// Checks that the limit of file sizes lets a partition have an entry with so many bytes of key and payload.
    ///
    /// # Errors
    /// [`crate::EngineError::FileSizeLimit`]; there is no such partition.
    pub fn check_file_size(&mut self, handle: Handle, bytes: u64) -> EngineResult<()> {
        let (io, store) = self.store(handle)?;
        match store.durability {
            Durability::Memory => Ok(()),
            Durability::Interval { .. } | Durability::Sync => io.space.check_file_size(bytes),
        }
    }

    /// Until it is reset, appended entries are accepted on a full disk as removals are, up to half of the
    /// reserve. For entries that must be in the log so that room becomes free, or so that no request waits
    /// any longer.
    pub fn set_admits_all(&mut self, admits_all: bool) {
        self.io.space.set_admits_all(admits_all);
    }
}
