//! The blocks of a segment in memory.

use super::Segment;
use crate::disk::{Disk, DiskResult};
use crate::limits::{BLOCK_BYTES, EVICT_DEAD_BYTES_MIN};
use crate::resources::LogResources;

impl Segment {
    /// Replaces bytes of the file in memory, where they stay. All later reads are checked, as the rest of their blocks may
    /// be as corrupt. Returns the memory used.
    pub(crate) fn patch(&mut self, disk: &mut impl Disk, offset: u64, bytes: &[u8]) -> DiskResult<usize> {
        let (mut allocated, mut at, mut left) = (0, offset, bytes);
        while !left.is_empty() {
            let number = at as usize / BLOCK_BYTES;
            let begin = (number * BLOCK_BYTES) as u64;
            if !self.has_block(number) {
                let mut block = vec![0; (self.bytes - begin).min(BLOCK_BYTES as u64) as usize];
                let file = self.ensure_file(disk)?;
                disk.read_at(file, begin, &mut block)?;
                allocated += self.install(number, block);
            }
            let within = (at - begin) as usize;
            let now = left.len().min(BLOCK_BYTES - within);
            if let Some(Some(block)) = self.blocks.get_mut(number) {
                block[within..within + now].copy_from_slice(&left[..now]);
            }
            if !self.repaired.contains(&(number as u32)) {
                self.repaired.push(number as u32);
            }
            (at, left) = (at + now as u64, &left[now..]);
        }
        self.trust_from(u64::MAX);
        Ok(allocated)
    }

    /// Number of blocks that [`Segment::patch`] has pinned in memory.
    pub(crate) fn repaired_blocks(&self) -> usize {
        self.repaired.len()
    }

    /// Number of blocks, in memory or not.
    pub(crate) fn block_count(&self) -> usize {
        self.blocks.len()
    }

    pub(crate) fn has_block(&self, number: usize) -> bool {
        self.blocks.get(number).is_some_and(Option::is_some)
    }

    /// Loads the block that is filled next, up to the segment's end. Counts the memory that it takes.
    pub(crate) fn load_open_block<D: Disk>(&mut self, io: &mut LogResources<'_, D>) -> DiskResult<()> {
        if self.has_open_block() {
            return Ok(());
        }
        let within = self.bytes as usize % BLOCK_BYTES;
        let number = self.bytes as usize / BLOCK_BYTES;
        let mut block = vec![0; within];
        let file = self.ensure_file(io.disk)?;
        io.disk.read_at(file, (number * BLOCK_BYTES) as u64, &mut block)?;
        io.memory.add_used(self.install(number, block));
        Ok(())
    }

    /// Whether the block that is filled next is in memory, or is a new one. It ends at the end of the segment.
    pub(crate) fn has_open_block(&self) -> bool {
        let within = self.bytes as usize % BLOCK_BYTES;
        let open_block = self.blocks.get(self.bytes as usize / BLOCK_BYTES).and_then(Option::as_ref);
        debug_assert!(
            open_block.is_none_or(|block| block.len() == within),
            "a block that is not as long as it says"
        );
        within == 0 || open_block.is_some()
    }

    /// Evicts a block that is in the file too. Returns bytes of memory freed.
    pub(crate) fn evict(&mut self, number: usize) -> usize {
        let end = (number as u64 + 1) * BLOCK_BYTES as u64;
        let is_last_of_open = !self.sealed && end > self.bytes;
        if self.written < end.min(self.bytes) || is_last_of_open || self.repaired.contains(&(number as u32)) {
            return 0;
        }
        self.blocks.get_mut(number).and_then(Option::take).map_or(0, |b| b.capacity())
    }

    /// Evicts the blocks that hold nothing but this dead entry, as far as they are in the file: the next writes use their
    /// memory, whereas new memory would have to be cleared. Returns bytes of memory freed.
    pub(crate) fn evict_dead_entry(&mut self, offset: u32, entry_bytes: u64) -> usize {
        if entry_bytes < EVICT_DEAD_BYTES_MIN {
            return 0;
        }
        let (first, end) = (u64::from(offset).div_ceil(BLOCK_BYTES as u64), u64::from(offset) + entry_bytes);
        (first..end / BLOCK_BYTES as u64).map(|number| self.evict(number as usize)).sum()
    }

    /// Puts a block that was read from the file (and checked) into memory. Returns the memory used.
    pub(crate) fn install(&mut self, number: usize, block: Vec<u8>) -> usize {
        let Some(place) = self.blocks.get_mut(number) else { return 0 };
        if place.is_some() {
            return 0;
        }
        let allocated = block.capacity();
        *place = Some(block);
        allocated
    }
}
