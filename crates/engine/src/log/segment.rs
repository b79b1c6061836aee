//! One segment: a file that is written once from front to back, and the part of it that is in memory.
//!
//! ```text
//!   file      |header|entry|entry|entry|entry|entry|entry|...
//!                                 ^synced     ^written      ^bytes
//!   memory    [ block 0 ][ (gone) ][ block 2 ][ block 3 ..     blocks of 64 KiB of the file
//! ```
//!
//! `synced <= written <= bytes`. Unwritten bytes are in memory; written blocks may be evicted.

mod blocks;
mod copy;
mod installed;
mod places;

use crate::disk::{Disk, DiskError, DiskResult, FileId, SyncTicket, create_file};
use crate::limits::{BLOCK_BYTES, WRITE_BLOCKS_MAX};
use crate::log::entry::{EntryBase, EntryKind, EntryMeta};
use crate::log::garbage_stats::DeadEntries;
use crate::log::header::{Footer, HEADER_BYTES, SegmentHeader};
use crate::log::tail_cache::TailOffsets;
use crate::planted::{Bug, is_planted};
use crate::resources::{LogResources, Memory, is_synced};
use places::Places;

/// The part of a segment that may be written to its file, in bytes, and its last entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WriteLimit {
    pub(crate) bytes: u64,
    pub(crate) last_index: u64,
}

/// A segment of one partition's log.
// The first cache line has the fields of every read and write; then follows the base of the entries; then the fields that a
// write and the death of an entry change. The rest is used by maintenance.
#[repr(C, align(64))]
pub(crate) struct Segment {
    /// Length, memory included.
    pub(crate) bytes: u64,
    /// Bytes in memory before this offset came from the file and were not checked.
    trusted_from: u64,
    blocks: Vec<Option<Vec<u8>>>,
    /// Log index of the last entry, `header.base.index - 1` if there is none.
    pub(crate) last_index: u64,
    /// Number of entries of the replicated log in the segment, which determines when to take a sample.
    pub(crate) entries: u32,
    /// Epoch of the last entry.
    pub(crate) last_epoch: u32,
    /// No more entries are added.
    pub(crate) sealed: bool,
    /// Whether the file's name survives a crash.
    pub(crate) name_is_durable: bool,
    /// Offset of the last entry whose place is remembered.
    last_position_at: u32,
    pub(crate) header: SegmentHeader,
    /// The length that survives a crash.
    pub(crate) synced: u64,
    /// Log index of the last entry that survives a crash as far as this file goes.
    pub(crate) synced_index: u64,
    /// The length that was issued to the file.
    pub(crate) written: u64,
    /// Bytes of entries that are no longer referenced.
    pub(crate) dead_bytes: u64,
    /// The dead entries, as far as known.
    pub(crate) dead: DeadEntries,
    /// Path of the file, which may not exist yet.
    pub(crate) path: String,
    pub(crate) file: Option<FileId>,
    /// The length that the operating system was advised not to cache.
    uncached: u64,
    /// A running sync, and its reach: bytes and log index.
    pub(crate) syncing: Option<(SyncTicket, u64, u64)>,
    /// Bytes of removals, which compaction may drop once no older entry can come back.
    pub(crate) removal_bytes: u64,
    samples: Vec<(u32, u32)>,
    positions: Places,
    recent: TailOffsets,
    /// Number of readers of the file (a copy to another node, a compaction): it is not removed.
    pub(crate) pins: u32,
    /// Its entries cannot be counted from the base of a preceding segment: it is not merged with one.
    pub(crate) is_unmergeable: bool,
    /// A corrupt entry was found here: compaction skips the file until the entry is repaired.
    pub(crate) is_damaged: bool,
    /// Blocks that are right in memory and corrupt in the file: they stay until the segment is rewritten.
    repaired: Vec<u32>,
}

impl Segment {
    /// A new segment in memory; it starts with the header.
    pub(crate) fn new(header: SegmentHeader, folder: &str) -> Segment {
        let mut segment = Segment {
            path: format!("{folder}/{}", header.file_name()),
            file: None,
            name_is_durable: false,
            bytes: 0,
            written: 0,
            synced: 0,
            uncached: 0,
            synced_index: header.base.index - 1,
            syncing: None,
            blocks: Vec::new(),
            last_index: header.base.index - 1,
            last_epoch: header.base.epoch,
            dead_bytes: 0,
            dead: DeadEntries::none(),
            removal_bytes: 0,
            entries: 0,
            samples: Vec::new(),
            positions: Places::default(),
            last_position_at: 0,
            recent: TailOffsets::default(),
            sealed: false,
            pins: 0,
            is_unmergeable: false,
            trusted_from: 0,
            is_damaged: false,
            repaired: Vec::new(),
            header,
        };
        segment.push(&header.encode());
        segment
    }

    /// A segment found on disk, with nothing of it in memory.
    pub(crate) fn found(header: SegmentHeader, path: String, file: FileId, bytes: u64) -> Segment {
        let mut segment = Segment::new(header, "");
        segment.blocks = Vec::new();
        segment.blocks.resize_with((bytes as usize).div_ceil(BLOCK_BYTES), || None);
        Segment {
            path,
            file: Some(file),
            name_is_durable: true,
            bytes,
            written: bytes,
            synced: bytes,
            uncached: bytes,
            dead: DeadEntries::unknown(),
            ..segment
        }
    }

    /// The base of the entries' fields.
    pub(crate) fn base(&self) -> &EntryBase {
        &self.header.base
    }

    /// The lowest log index it may hold.
    pub(crate) fn first_index(&self) -> u64 {
        self.header.base.index
    }

    /// Records the fields of an entry at `offset`.
    pub(crate) fn record_entry(&mut self, meta: &EntryMeta, offset: u64, entry_bytes: usize) {
        let place = ((meta.index - self.first_index()) as u32, offset as u32);
        if self.entries.is_multiple_of(crate::limits::SAMPLE_EVERY) {
            self.samples.push(place);
            self.last_position_at = place.1;
        } else {
            self.positions.record(place, &mut self.last_position_at);
        }
        self.recent.record(place.0, place.1);
        self.entries += 1;
        self.last_index = meta.index;
        self.last_epoch = meta.epoch;
        if is_removal(meta) {
            self.removal_bytes += entry_bytes as u64;
        }
    }

    /// The last entries are about to be truncated, and this is one of them.
    pub(crate) fn forget_entry(&mut self, meta: &EntryMeta, entry_bytes: usize) {
        if is_removal(meta) && !is_planted(Bug::CutRemovalCounted) {
            debug_assert!(self.removal_bytes >= entry_bytes as u64, "the removal was counted");
            self.removal_bytes = self.removal_bytes.saturating_sub(entry_bytes as u64);
        }
    }

    /// The offset at which a search for the entry of this log index starts.
    pub(crate) fn sample_before(&self, index: u64) -> u64 {
        let requested = index.saturating_sub(self.first_index());
        if let Some(offset) = self.recent.before(requested.min(u32::MAX.into()) as u32) {
            return offset;
        }
        let after = self.samples.partition_point(|&(i, _)| u64::from(i) <= requested);
        let sample = after.checked_sub(1).map(|at| self.samples[at].1);
        sample.max(self.positions.before(requested)).map_or(HEADER_BYTES as u64, u64::from)
    }

    /// Forgets what is known of its entries: it is about to be read from the first entry on.
    pub(crate) fn clear_metadata(&mut self) {
        self.samples.clear();
        self.positions.truncate(0);
        self.recent.clear();
        (self.entries, self.dead_bytes, self.removal_bytes, self.last_position_at) = (0, 0, 0, 0);
        self.dead = DeadEntries::unknown();
    }

    /// A put or a removal of its key has replaced the entry at this offset.
    pub(crate) fn count_dead_at(&mut self, offset: u32, entry_bytes: u64) {
        self.dead_bytes += entry_bytes;
        self.dead.mark_dead(offset);
    }

    /// Whether the dead entries and the removals, which are other entries, fit into the segment.
    pub(crate) fn has_sound_counts(&self) -> bool {
        self.dead_bytes + self.removal_bytes <= self.bytes
    }

    /// Whether every entry is known to have been replaced. (There are never more than `entries`.)
    pub(crate) fn is_all_dead(&self) -> bool {
        self.dead.is_complete() && self.dead.count() == self.entries
    }

    /// One of the entries is no longer referenced, for whatever reason.
    pub(crate) fn count_dead(&mut self, entry_bytes: u64) {
        self.dead_bytes += entry_bytes;
        self.dead.mark_dead_at_unknown();
    }

    /// The samples of entries before an offset.
    pub(crate) fn samples_before(&self, offset: u64) -> Vec<(u32, u32)> {
        self.samples.iter().copied().filter(|&(_, at)| u64::from(at) < offset).collect()
    }

    /// Adopts a checkpoint's samples of the entries before an offset.
    pub(crate) fn adopt_samples(&mut self, samples: Vec<(u32, u32)>) {
        self.entries = samples.len() as u32 * crate::limits::SAMPLE_EVERY;
        self.samples = samples;
    }

    /// Whether any sample helps to find its entries.
    pub(crate) fn has_samples(&self) -> bool {
        !self.samples.is_empty()
    }

    /// Bytes that are read into memory from now on are checked only from this offset on.
    pub(crate) fn trust_from(&mut self, offset: u64) {
        self.trusted_from = offset.min(self.bytes);
    }

    pub(crate) fn footer(&self, judged_at: u64) -> Footer {
        Footer {
            judged_at,
            last_index: self.last_index,
            last_epoch: self.last_epoch,
            removal_bytes: self.removal_bytes as u32,
            samples: self.samples.clone(),
        }
    }

    pub(crate) fn adopt_footer(&mut self, footer: Footer) {
        self.last_index = footer.last_index;
        self.last_epoch = footer.last_epoch;
        self.removal_bytes = u64::from(footer.removal_bytes);
        self.samples = footer.samples;
        self.samples.shrink_to_fit();
        self.entries = self.samples.len() as u32 * crate::limits::SAMPLE_EVERY;
        self.sealed = true;
    }

    /// Bytes of memory used by blocks.
    pub(crate) fn resident_bytes(&self) -> usize {
        self.blocks.iter().flatten().map(Vec::capacity).sum()
    }

    /// Bytes of memory used by everything else.
    pub(crate) fn overhead_bytes(&self) -> usize {
        size_of::<Segment>()
            + self.blocks.capacity() * size_of::<Option<Vec<u8>>>()
            + self.samples.capacity() * 8
            + self.positions.bytes()
            + self.dead.bytes()
            + self.path.capacity()
    }

    /// Adds the parts of an entry at the end, in memory: head, key, and the pieces of its payload. Returns the memory used.
    #[inline]
    pub(crate) fn push_parts<const N: usize>(
        &mut self,
        head: &[u8],
        key: &[u8],
        payload: [&[u8]; N],
    ) -> usize {
        let bytes = head.len() + key.len() + payload.iter().map(|piece| piece.len()).sum::<usize>();
        let within = self.bytes as usize % BLOCK_BYTES;
        // Nearly always the current block has room for all of it.
        if within > 0
            && within + bytes <= BLOCK_BYTES
            && let Some(Some(block)) = self.blocks.last_mut()
            && block.capacity() - block.len() >= bytes
        {
            block.extend_from_slice(head);
            block.extend_from_slice(key);
            payload.iter().for_each(|piece| block.extend_from_slice(piece));
            self.bytes += bytes as u64;
            return 0;
        }
        let before = self.push(head) + self.push(key);
        before + payload.into_iter().map(|piece| self.push(piece)).sum::<usize>()
    }

    /// Adds bytes at the end, in memory. Returns the memory used.
    pub(crate) fn push(&mut self, mut data: &[u8]) -> usize {
        let mut allocated = 0;
        while !data.is_empty() {
            let within = self.bytes as usize % BLOCK_BYTES;
            if within == 0 {
                // The first block of a segment starts small: an almost idle partition costs little.
                let first = if self.blocks.is_empty() { FIRST_BLOCK_BYTES } else { BLOCK_BYTES };
                self.blocks.push(Some(Vec::with_capacity(first)));
                allocated += first;
            }
            let Some(Some(block)) = self.blocks.last_mut() else {
                unreachable!("the block that is being filled stays in memory")
            };
            let now = data.len().min(BLOCK_BYTES - within);
            if block.capacity() - block.len() < now {
                let before = block.capacity();
                let requested = (2 * before).clamp(within + now, BLOCK_BYTES);
                block.reserve_exact(requested - block.len());
                allocated += block.capacity() - before;
            }
            block.extend_from_slice(&data[..now]);
            self.bytes += now as u64;
            data = &data[now..];
        }
        allocated
    }

    /// The bytes at an offset if they are in one block in memory and need no check; at most `bytes`, less at the segment's
    /// end.
    #[inline]
    pub(crate) fn in_memory(&self, offset: u64, bytes: usize) -> Option<&[u8]> {
        if offset < self.trusted_from {
            return None;
        }
        let block = self.blocks.get(offset as usize / BLOCK_BYTES)?.as_ref()?;
        let within = offset as usize % BLOCK_BYTES;
        let end = within + bytes;
        if end <= block.len() {
            return Some(&block[within..end]);
        }
        // The last entry of a segment may be shorter than requested.
        (offset as usize - within + block.len() == self.bytes as usize && within < block.len())
            .then(|| &block[within..])
    }

    /// Reads up to `bytes` at an offset into `into`, from memory where possible. Returns whether they need no check, as they
    /// never left memory or were checked.
    pub(crate) fn read(
        &self,
        disk: &mut impl Disk,
        offset: u64,
        bytes: usize,
        into: &mut Vec<u8>,
    ) -> DiskResult<bool> {
        into.clear();
        let end = self.bytes.min(offset + bytes as u64);
        let mut at = offset;
        let mut all_memory = offset >= self.trusted_from;
        while at < end {
            let number = at as usize / BLOCK_BYTES;
            let within = at as usize % BLOCK_BYTES;
            let block_end = end.min((number as u64 + 1) * BLOCK_BYTES as u64);
            match &self.blocks[number] {
                Some(block) => {
                    into.extend_from_slice(&block[within..within + (block_end - at) as usize]);
                    at = block_end;
                }
                None => {
                    // One call reads as many blocks as are not in memory.
                    let mut stop = number + 1;
                    while self.blocks.get(stop).is_some_and(Option::is_none) {
                        stop += 1;
                    }
                    let until = end.min((stop * BLOCK_BYTES) as u64);
                    let from = into.len();
                    into.resize(from + (until - at) as usize, 0);
                    let file = self.file.ok_or_else(|| DiskError::NotFound { path: self.path.clone() })?;
                    disk.read_at(file, at, &mut into[from..])?;
                    at = until;
                    all_memory = false;
                }
            }
        }
        Ok(all_memory)
    }

    /// Whether a block is full and not in the file.
    pub(crate) fn has_full_block_to_write(&self) -> bool {
        self.bytes / BLOCK_BYTES as u64 > self.written / BLOCK_BYTES as u64
    }

    /// Creates the file if there is none yet.
    fn ensure_file(&mut self, disk: &mut impl Disk) -> DiskResult<FileId> {
        if let Some(file) = self.file {
            return Ok(file);
        }
        let file = create_file(disk, &self.path)?;
        self.file = Some(file);
        Ok(file)
    }

    /// All of it.
    pub(crate) fn end(&self) -> WriteLimit {
        WriteLimit { bytes: self.bytes, last_index: self.last_index }
    }

    /// Issues to the file what is in memory only, up to a limit; without `all` only full blocks. Returns bytes issued.
    pub(crate) fn write_out(
        &mut self,
        disk: &mut impl Disk,
        limit: WriteLimit,
        all: bool,
    ) -> DiskResult<u64> {
        debug_assert!(limit.bytes <= self.bytes);
        let until = if all { limit.bytes } else { limit.bytes - limit.bytes % BLOCK_BYTES as u64 };
        if self.written >= until {
            return Ok(0);
        }
        let file = self.ensure_file(disk)?;
        let before = self.written;
        while self.written < until {
            let number = self.written as usize / BLOCK_BYTES;
            let within = self.written as usize % BLOCK_BYTES;
            let last = (until as usize).div_ceil(BLOCK_BYTES).min(number + WRITE_BLOCKS_MAX);
            let (mut pieces, mut bytes) = ([&[][..]; WRITE_BLOCKS_MAX], 0);
            for (piece, block) in pieces.iter_mut().zip(&self.blocks[number..last]) {
                let Some(block) = block else { unreachable!("what is not written is in memory") };
                let from = if bytes == 0 { within } else { 0 };
                let left = (until - self.written) as usize - bytes;
                *piece = &block[from..block.len().min(from + left)];
                bytes += piece.len();
            }
            disk.append_pieces(file, &pieces[..last - number])?;
            self.written += bytes as u64;
        }
        Ok(self.written - before)
    }

    /// Writes everything up to a limit and waits until it survives a crash.
    pub(crate) fn sync(&mut self, disk: &mut impl Disk, folder: &str, limit: WriteLimit) -> DiskResult<()> {
        self.write_out(disk, limit, true)?;
        if self.synced < self.written {
            let file = self.ensure_file(disk)?;
            disk.sync(file).map_err(DiskError::beyond_repair)?;
        }
        self.make_name_durable(disk, folder)?;
        (self.synced, self.synced_index) = (self.written, limit.last_index);
        Ok(())
    }

    /// Writes everything up to a limit and starts to make it survive a crash; [`Segment::sync_done`] ends it.
    pub(crate) fn sync_begin(
        &mut self,
        disk: &mut impl Disk,
        folder: &str,
        limit: WriteLimit,
    ) -> DiskResult<()> {
        self.write_out(disk, limit, true)?;
        let is_needed = self.synced < self.written || self.file.is_some() && !self.name_is_durable;
        if is_needed && self.syncing.is_none() {
            let file = self.ensure_file(disk)?;
            let ticket = if self.name_is_durable {
                disk.sync_begin(file)
            } else {
                disk.sync_begin_with_name(file, folder)
            }
            .map_err(DiskError::beyond_repair_unless_scarce)?;
            self.syncing = Some((ticket, self.written, limit.last_index));
        }
        Ok(())
    }

    /// Whether no sync is running any more. With `wait` it waits for a running one.
    pub(crate) fn sync_done(&mut self, disk: &mut impl Disk, wait: bool) -> DiskResult<bool> {
        let Some((ticket, bytes, index)) = self.syncing else { return Ok(true) };
        if !is_synced(disk, ticket, wait).map_err(DiskError::beyond_repair)? {
            return Ok(false);
        }
        self.syncing = None;
        self.name_is_durable = true;
        // A truncation may have come between.
        if bytes <= self.bytes {
            self.synced = self.synced.max(bytes);
            self.synced_index = self.synced_index.max(index);
        }
        Ok(true)
    }

    /// Tells the system not to cache synced bytes that stay in memory. Complete blocks only: before an append to a part of a
    /// page, the page would have to be read again. If memory is short, the system's copy is kept.
    pub(crate) fn uncache(&mut self, disk: &mut impl Disk, memory: &Memory) {
        let whole = self.synced - self.synced % BLOCK_BYTES as u64;
        if whole > self.uncached
            && memory.is_ample()
            && let Some(file) = self.file
        {
            disk.uncache(file, whole);
            self.uncached = whole;
        }
    }

    /// Whether all of it survives a crash.
    pub(crate) fn is_durable(&self) -> bool {
        self.synced == self.bytes && self.name_is_durable
    }

    /// Makes the file's name survive a crash, if it does not yet.
    pub(crate) fn make_name_durable(&mut self, disk: &mut impl Disk, folder: &str) -> DiskResult<()> {
        if self.file.is_some() && !self.name_is_durable {
            disk.sync_dir(folder)?;
            self.name_is_durable = true;
        }
        Ok(())
    }

    /// Truncates the segment to `bytes`, in memory and in the file, and makes the truncation survive a crash before anything
    /// is written behind it: otherwise old entries could appear behind new ones.
    pub(crate) fn truncate<D: Disk>(
        &mut self,
        io: &mut LogResources<'_, D>,
        bytes: u64,
        last: (u32, u64),
    ) -> DiskResult<()> {
        assert!(bytes >= HEADER_BYTES as u64 && bytes <= self.bytes);
        let before = self.resident_bytes();
        // The block that is filled next must be in memory.
        let number = bytes as usize / BLOCK_BYTES;
        let within = bytes as usize % BLOCK_BYTES;
        let mut tail = None;
        if within > 0 && !self.has_block(number) {
            let mut block = vec![0; within];
            let file = self.ensure_file(io.disk)?;
            io.disk.read_at(file, (number * BLOCK_BYTES) as u64, &mut block)?;
            tail = Some(block);
        }
        let mut cut = Ok(());
        if self.written > bytes {
            let file = self.ensure_file(io.disk)?;
            io.disk.truncate(file, bytes)?;
            // From here on the file is shorter, whatever happens: so is its part in memory.
            cut = io.disk.sync(file).map_err(DiskError::beyond_repair);
            self.written = bytes;
            // A file whose name is not durable may still be lost completely.
            self.synced = if self.name_is_durable && cut.is_ok() { bytes } else { 0 };
        }
        if let Some(block) = tail {
            self.blocks[number] = Some(block);
            self.trusted_from = self.trusted_from.max(bytes);
        }
        self.sealed = false;
        self.syncing = None;
        self.bytes = bytes;
        self.trusted_from = self.trusted_from.min(bytes);
        self.blocks.truncate((bytes as usize).div_ceil(BLOCK_BYTES));
        if within > 0
            && let Some(Some(block)) = self.blocks.last_mut()
        {
            block.truncate(within);
        }
        self.samples.retain(|&(_, offset)| u64::from(offset) < bytes);
        self.positions.truncate(bytes);
        self.last_position_at = 0;
        self.recent.clear();
        self.dead.truncate_from(bytes);
        self.repaired.retain(|&number| (number as usize) < self.blocks.len());
        self.uncached = self.uncached.min(bytes);
        // An upper bound: the next sample comes soon enough.
        self.entries = self.samples.len() as u32 * crate::limits::SAMPLE_EVERY;
        (self.last_epoch, self.last_index) = last;
        let is_synced = self.synced == self.bytes;
        self.synced_index = if is_synced { last.1 } else { self.synced_index.min(last.1) };
        io.memory.freed(before);
        io.memory.add_used(self.resident_bytes());
        cut
    }
}

fn is_removal(meta: &EntryMeta) -> bool {
    matches!(meta.kind, EntryKind::Remove | EntryKind::Trim)
}

const FIRST_BLOCK_BYTES: usize = 1 << 10;
