//! Room that an engine holds in a file of zeros. If another program has filled the disk, a removal that finds no room removes the
//! file: so the store can be emptied, and checkpoints and compaction can give its space back.

use crate::disk::{Disk, DiskResult, OpenMode};

/// The file that occupies the room.
const FILE: &str = "reserve";

/// Bytes of one write: a call of maintenance writes so much.
const PIECE_BYTES: u64 = 1 << 20;

/// The room is filled only if so many times its length are free beside the reserve: it must not be what fills the disk.
const FREE_TIMES: u64 = 4;

/// The room that one engine holds.
#[derive(Debug, Default)]
pub(crate) struct Ballast {
    /// How long the file should be; 0: there is no ballast.
    bytes: u64,
    /// How long it is.
    filled_bytes: u64,
    /// The file was removed, and is not complete again.
    is_released: bool,
}

impl Ballast {
    /// The room as the folder has it.
    pub(crate) fn find(disk: &mut impl Disk, bytes: u64) -> Ballast {
        let filled = disk.open(FILE, OpenMode::Existing).and_then(|file| {
            let filled = disk.bytes(file);
            disk.close(file);
            filled
        });
        Ballast { bytes, filled_bytes: filled.unwrap_or(0), is_released: false }
    }

    /// Writes the next piece, if it is missing and `free_bytes` leave room for it. The file is not synced: after a crash a shorter one
    /// is filled further.
    pub(crate) fn fill(&mut self, disk: &mut impl Disk, free_bytes: u64) {
        if self.filled_bytes >= self.bytes {
            return;
        }
        if free_bytes >= FREE_TIMES * self.bytes && self.write_piece(disk).is_err() {
            // The disk is full after all, or fails, which its other writes show. A later call tries again.
            self.remove(disk);
        }
        self.is_released &= self.filled_bytes < self.bytes;
    }

    fn write_piece(&mut self, disk: &mut impl Disk) -> DiskResult<()> {
        let mode = if self.filled_bytes == 0 { OpenMode::Create } else { OpenMode::Existing };
        let file = disk.open(FILE, mode)?;
        let piece_bytes = PIECE_BYTES.min(self.bytes - self.filled_bytes);
        let written = disk.append(file, &vec![0; piece_bytes as usize]);
        disk.close(file);
        self.filled_bytes += piece_bytes;
        written
    }

    /// Gives the room to the disk. Returns whether there was any.
    pub(crate) fn release(&mut self, disk: &mut impl Disk) -> bool {
        let is_given = self.filled_bytes > 0 && self.remove(disk);
        self.is_released |= is_given;
        is_given
    }

    /// How much was given to the disk and is not filled again.
    pub(crate) fn released_bytes(&self) -> Option<u64> {
        self.is_released.then_some(self.bytes)
    }

    fn remove(&mut self, disk: &mut impl Disk) -> bool {
        self.filled_bytes = 0;
        // A disk may free the space of a removed file later. A truncation frees it now, for the entry that needs it.
        if let Ok(file) = disk.open(FILE, OpenMode::Existing) {
            let _: DiskResult<()> = disk.truncate(file, 0);
            disk.close(file);
        }
        disk.remove(FILE).is_ok()
    }
}
