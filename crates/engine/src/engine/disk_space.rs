//! Whether the disk has room for new entries, for owners that can move the writes to another instance.

use super::{Engine, Handle};
use crate::disk::Disk;
use crate::error::EngineResult;
use crate::options::Durability;
use crate::resources::ReserveShare;

impl<D: Disk> Engine<D> {
    /// Whether new entries that go to the disk are likely to be accepted. False after an entry was refused
    /// for lack of room, or after the reserve was found in use, until a later check finds more free space
    /// than the reserve. Costs nothing.
    pub fn has_disk_space(&self) -> bool {
        !self.io.space.is_full()
    }

    /// Whether dead space is being given back, so that an entry without room should come again, and is not refused for good.
    /// As of the last call of maintenance.
    pub fn expects_disk_space(&self) -> bool {
        self.io.space.expects_room()
    }

    /// Whether entries that have found no room since the last call of maintenance should come again.
    pub fn awaits_disk_space(&self) -> bool {
        self.io.space.awaits_room()
    }

    /// Reads the free space from the disk: one system call. Without it, only a failing write shows that a
    /// disk has become full, and nothing shows that it has room again.
    pub fn check_disk_space(&mut self) {
        self.io.space.check_disk_space(&mut self.io.disk);
    }

    /// Holds so much room in a file of the folder, for removals on a disk that another program fills. Maintenance fills the file while
    /// enough is free. The first removal that finds no room removes the file.
    pub fn keep_ballast(&mut self, bytes: u64) {
        let Engine { io, .. } = self;
        io.space.keep_ballast(&mut io.disk, bytes);
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

    /// Until it is reset to [`ReserveShare::Nothing`], appended entries may use this share of the reserve on a
    /// full disk.
    pub fn set_reserve_share(&mut self, share: ReserveShare) {
        self.io.space.set_share_of_all(share);
    }
}
