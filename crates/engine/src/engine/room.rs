//! Whether the disk has room for what is to be written, for owners that can have somebody else write it.

use super::Engine;
use crate::disk::Disk;

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
}
