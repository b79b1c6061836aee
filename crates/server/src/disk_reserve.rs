//! Space that a node keeps on its disk for its own small files. With it the node starts, votes and records decisions on
//! a disk that other programs have filled to the last byte. Reads then work, and so do the removals that make room.

use zerohop_engine::disk::{Disk, DiskResult, OpenMode};

/// The file that occupies the space.
pub(crate) const RESERVE_FILE: &str = "reserve";

/// Its length, unless a limit of file sizes is lower: room for some thousand entries of the control log, and for a copy of the log.
const RESERVE_BYTES: u64 = 4 << 20;

/// The reserve is filled only if the disk has so much free space: it must not be what fills the disk.
const FREE_BYTES_MIN: u64 = 4 * RESERVE_BYTES;

/// Bytes of one write.
const PIECE_BYTES: usize = 1 << 20;

/// The reserve of one folder.
#[derive(Debug, Default)]
pub(crate) struct DiskReserve {
    is_filled: bool,
}

impl DiskReserve {
    /// The reserve as the folder has it.
    pub(crate) fn find(disk: &mut impl Disk) -> Self {
        let Ok(file) = disk.open(RESERVE_FILE, OpenMode::Existing) else { return DiskReserve::default() };
        let is_filled = disk.bytes(file).is_ok_and(|bytes| bytes >= wanted_bytes(disk));
        disk.close(file);
        DiskReserve { is_filled }
    }

    /// Fills the reserve, unless it is filled or the disk is short of space. It is not synced: after a crash a shorter file is filled
    /// again.
    pub(crate) fn fill(&mut self, disk: &mut impl Disk) {
        if self.is_filled || !disk.free_bytes().is_ok_and(|free| free >= FREE_BYTES_MIN) {
            return;
        }
        self.is_filled = write(disk).is_ok();
        if !self.is_filled {
            // Without a file there is no reserve, which is the state before. The next call tries again.
            let _ = disk.remove(RESERVE_FILE);
        }
    }

    /// Gives the space to the disk. Returns whether there was any.
    pub(crate) fn release(&mut self, disk: &mut impl Disk) -> bool {
        std::mem::take(&mut self.is_filled) && disk.remove(RESERVE_FILE).is_ok()
    }
}

fn wanted_bytes(disk: &mut impl Disk) -> u64 {
    RESERVE_BYTES.min(disk.file_bytes_max())
}

fn write(disk: &mut impl Disk) -> DiskResult<()> {
    let _ = disk.remove(RESERVE_FILE);
    let file = disk.open(RESERVE_FILE, OpenMode::Create)?;
    let zeros = vec![0; PIECE_BYTES];
    let mut left = wanted_bytes(disk) as usize;
    let mut written = Ok(());
    while left > 0 && written.is_ok() {
        let piece_bytes = left.min(PIECE_BYTES);
        written = disk.append(file, &zeros[..piece_bytes]);
        left -= piece_bytes;
    }
    disk.close(file);
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerohop_engine::disk::simulated::SimulatedDisk;

    #[test]
    fn filled_reserve_is_found_again_and_released_once() {
        let mut disk = SimulatedDisk::new(1);
        disk.set_capacity(64 << 20);
        let mut reserve = DiskReserve::find(&mut disk);
        assert!(!reserve.release(&mut disk));
        reserve.fill(&mut disk);
        let mut reserve = DiskReserve::find(&mut disk);
        let free = disk.free_bytes().unwrap();
        assert!(reserve.release(&mut disk));
        assert_eq!(disk.free_bytes().unwrap(), free + RESERVE_BYTES);
        assert!(!reserve.release(&mut disk));
        assert!(!DiskReserve::find(&mut disk).is_filled);
    }

    #[test]
    fn reserve_is_no_longer_than_a_file_may_be() {
        let mut disk = SimulatedDisk::new(1);
        disk.set_file_bytes_max(2_500_000);
        DiskReserve::find(&mut disk).fill(&mut disk);
        assert!(DiskReserve::find(&mut disk).is_filled);
        let file = disk.open(RESERVE_FILE, OpenMode::Existing).unwrap();
        assert_eq!(disk.bytes(file), Ok(2_500_000));
    }
}
