//! One segment of a shared log: a file that is written once from front to back, and the part of it that is in memory.
//!
//! ```text
//!   file      |header, zeros|entry|entry|entry|pad|entry|...
//!                                 ^synced     ^written  ^bytes
//!   memory    [ block 0    ][ (gone) ][ block 2 ][ block 3 ..     blocks of 1 MiB of the file
//! ```
//!
//! `synced <= written <= bytes`. What is not synced is in memory; other blocks may be evicted.

use super::format::{
    FIRST_ENTRY_AT, HEAD_BYTES, HEADER_BYTES, HeadBase, LOG_BLOCK_BYTES, LogStream, SEGMENT_NUMBER_END,
    SharedHead, SharedHeader, SharedKind, head_sum, is_long, place_for,
};
use super::live_bytes::SegmentUse;
use super::local::{LogFooter, RunRow};
use crate::disk::{Disk, DiskError, DiskResult, FileId, OpenMode, SyncTicket};
use crate::log::entry::crc;
use crate::log::header::encode_trailer;

/// The first block of a segment begins with so much memory: an idle instance costs little.
const FIRST_BLOCK_BYTES: usize = 64 << 10;

/// A piece of the small stream is issued when it is full: a flush never has more than that before it.
const SMALL_PIECE_BYTES: u64 = 256 << 10;

/// So much of an entry is read to know its head and key.
const BEGINNING_BYTES: usize = 4 << 10;

/// What is not in memory is read from the file in pieces of this length, if it is read piece by piece.
const READ_PIECE_BYTES: usize = 256 << 10;

/// A segment of a shared log.
pub(crate) struct SharedSegment {
    /// Length, memory included.
    pub(crate) bytes: u64,
    pub(crate) base: HeadBase,
    pub(super) blocks: Vec<Option<Vec<u8>>>,
    /// The runs of its entries.
    pub(crate) runs: Vec<RunRow>,
    pub(crate) header: SharedHeader,
    /// The length that was issued to the file.
    written: u64,
    /// The length that survives a crash.
    pub(crate) synced: u64,
    path: String,
    pub(super) file: Option<FileId>,
    name_is_durable: bool,
    /// No more entries are added.
    is_sealed: bool,
    pub(crate) state: SegmentState,
    /// First offset, and the one behind the last, of the long entries that were added.
    long: Vec<(u32, u32)>,
    /// What may stand behind the end of the file, of an earlier file or of the space that was laid out, is cut off.
    is_cut: bool,
    /// What its entries are for the partitions that own them.
    pub(crate) uses: SegmentUse,
}

/// The space of a file that is to be made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileReserve {
    /// To lay out ahead.
    pub(crate) bytes: u64,
    /// Spares that it leaves for others.
    pub(crate) spares: usize,
}

/// What others must know of a segment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SegmentState {
    /// Entries count from the header's timestamp, or copies of the header do.
    pub(crate) is_base_fixed: bool,
    /// A write or a sync of its file has failed: what is behind the durable end is in another segment.
    pub(crate) has_failed: bool,
    /// Its runs are those of all its entries.
    pub(crate) are_runs_known: bool,
    /// The owner does not know yet where that is, and may read it here.
    pub(crate) is_pinned: bool,
    /// What is used of it is counted, removals possibly left out.
    pub(crate) is_counted: bool,
    /// Its removals are counted too.
    pub(crate) are_removals_counted: bool,
    /// Compaction could not read all of it, and did not move all that is counted.
    pub(crate) is_damaged: bool,
    /// The last entry is being copied to behind this length. None of it is issued.
    pub(crate) complete: Option<u64>,
}

impl SharedSegment {
    /// A new segment in memory; it begins with the header.
    pub(crate) fn new(header: SharedHeader, folder: &str) -> SharedSegment {
        let mut segment = SharedSegment {
            bytes: 0,
            base: header.base(),
            blocks: Vec::new(),
            runs: Vec::new(),
            header,
            written: 0,
            synced: 0,
            path: segment_path(folder, header.number),
            file: None,
            name_is_durable: false,
            is_sealed: false,
            state: SegmentState {
                are_runs_known: true,
                is_counted: true,
                are_removals_counted: true,
                ..SegmentState::default()
            },
            long: Vec::new(),
            is_cut: false,
            uses: SegmentUse::default(),
        };
        segment.extend(&header.encode());
        segment.extend_zeros(FIRST_ENTRY_AT - segment.bytes as usize);
        segment
    }

    /// A segment that was found on disk with these bytes, all of which survive a crash. Nothing of it is in memory, and nothing
    /// is added to it.
    pub(crate) fn existing(header: SharedHeader, folder: &str, file: FileId, bytes: u64) -> SharedSegment {
        let mut blocks = Vec::new();
        blocks.resize_with((bytes as usize).div_ceil(LOG_BLOCK_BYTES), || None);
        SharedSegment {
            bytes,
            base: header.base(),
            blocks,
            runs: Vec::new(),
            header,
            written: bytes,
            synced: bytes,
            path: segment_path(folder, header.number),
            file: Some(file),
            name_is_durable: true,
            is_sealed: true,
            state: SegmentState { is_base_fixed: true, ..SegmentState::default() },
            long: Vec::new(),
            is_cut: true,
            uses: SegmentUse::default(),
        }
    }

    /// Adds an entry at the end, in memory. Its payload's checksum is in the head already, so each byte is summed once.
    /// Returns its offset.
    #[inline]
    pub(crate) fn push<const N: usize>(&mut self, head: &SharedHead, key: &[u8], payload: [&[u8]; N]) -> u64 {
        debug_assert!(!self.is_sealed, "nothing is added to a sealed segment");
        let at = place_for(self.bytes, head.entry_bytes(), head.payload_bytes);
        if at > self.bytes {
            self.pad(at);
        }
        if is_long(head.payload_bytes) {
            self.long.push((at as u32, at as u32 + head.entry_bytes() as u32));
        }
        let mut encoded = head.encode_unsummed(&self.base);
        let within = at as usize % LOG_BLOCK_BYTES;
        let base = self.base;
        if within > 0
            && within + head.payload_at() <= LOG_BLOCK_BYTES
            && let Some(Some(block)) = self.blocks.last_mut()
        {
            // Head and key are summed where they stand.
            reserve(block, within + head.payload_at());
            block.extend_from_slice(&encoded);
            block.extend_from_slice(key);
            let sum = head_sum(&base, [&block[within + 4..]]);
            block[within..within + 4].copy_from_slice(&sum.to_le_bytes());
            self.bytes += head.payload_at() as u64;
        } else {
            let sum = head_sum(&base, [&encoded[4..], key]);
            encoded[..4].copy_from_slice(&sum.to_le_bytes());
            self.extend(&encoded);
            self.extend(key);
        }
        payload.iter().for_each(|piece| self.extend(piece));
        at
    }

    /// Adds a local entry at the end, in memory. Returns its offset.
    pub(crate) fn push_local(&mut self, kind: SharedKind, payload: &[u8]) -> u64 {
        let head = SharedHead::local(kind, &self.base, payload.len(), crc(payload));
        self.push(&head, &[], [payload])
    }

    /// Adds the head of an entry whose payload comes in pieces, and returns its offset. Nothing else is added meanwhile.
    pub(crate) fn begin_entry(&mut self, head: &SharedHead, key: &[u8]) -> u64 {
        self.state.complete = Some(self.bytes);
        self.push(head, key, [])
    }

    /// Adds a piece of that payload.
    pub(crate) fn extend_entry(&mut self, piece: &[u8]) {
        debug_assert!(self.state.complete.is_some(), "an entry is being added");
        self.extend(piece);
    }

    /// The payload is complete.
    pub(crate) fn finish_entry(&mut self) {
        self.state.complete = None;
    }

    /// Takes the entry away that is being added.
    pub(crate) fn abort_entry(&mut self) {
        let Some(bytes) = self.state.complete.take() else { return };
        self.long.retain(|(from, _)| u64::from(*from) < bytes);
        self.blocks.truncate((bytes as usize).div_ceil(LOG_BLOCK_BYTES));
        if let Some(Some(block)) = self.blocks.last_mut()
            && !(bytes as usize).is_multiple_of(LOG_BLOCK_BYTES)
        {
            block.truncate(bytes as usize % LOG_BLOCK_BYTES);
        }
        self.bytes = bytes;
    }

    /// The length without an entry that is being added.
    pub(crate) fn complete_bytes(&self) -> u64 {
        self.state.complete.unwrap_or(self.bytes)
    }

    /// Sets the timestamp that entries count from, as long as nothing counts from it and nothing was issued.
    #[cold]
    pub(crate) fn rebase(&mut self, timestamp: u64) {
        if !self.state.is_base_fixed && self.runs.is_empty() && self.file.is_none() {
            self.header.timestamp = timestamp;
            self.base = self.header.base();
            if let Some(Some(block)) = self.blocks.first_mut() {
                block[..HEADER_BYTES].copy_from_slice(&self.header.encode());
            }
        }
    }

    /// Ends the segment where it is: its file has failed.
    pub(crate) fn fail(&mut self) {
        self.is_sealed = true;
        (self.state.has_failed, self.state.is_pinned) = (true, true);
    }

    /// The bytes from the first entry on that does not survive a crash, and where it begins. They are in memory.
    pub(crate) fn not_synced(&self) -> (u64, Vec<u8>) {
        let block = self.synced - self.synced % LOG_BLOCK_BYTES as u64;
        // Short entries do not cross the limits of blocks, but long ones do.
        let before = self.long.iter().rev().find(|(from, _)| u64::from(*from) <= self.synced);
        let from = match before {
            Some((from, until)) if u64::from(*until) > self.synced => u64::from(*from),
            Some((_, until)) => block.max(u64::from(*until)),
            None => block,
        };
        let from = from.max(FIRST_ENTRY_AT as u64);
        let mut bytes = Vec::new();
        for block in self.blocks.iter().skip(from as usize / LOG_BLOCK_BYTES) {
            bytes.extend_from_slice(block.as_deref().unwrap_or_default());
        }
        bytes.drain(..bytes.len().min(from as usize % LOG_BLOCK_BYTES));
        (from, bytes)
    }

    /// Ends the segment with a footer.
    pub(crate) fn seal(&mut self) {
        let footer = LogFooter { header: self.header, runs: self.runs.clone() }.encode();
        let at = self.push_local(SharedKind::Footer, &footer);
        let trailer = encode_trailer(self.base.salt, at as u32, (HEAD_BYTES + footer.len()) as u32);
        self.extend(&trailer);
        self.is_sealed = true;
    }

    /// Whether what is counted of it is all that is used.
    pub(crate) fn is_counted(&self) -> bool {
        self.state.is_counted && !self.state.has_failed && !self.state.is_damaged
    }

    /// The bytes of its entries.
    pub(crate) fn entry_bytes(&self) -> u64 {
        match self.state.are_runs_known {
            true => self.runs.iter().map(|run| u64::from(run.bytes)).sum(),
            false => self.bytes,
        }
    }

    /// The bytes of its dead entries.
    pub(crate) fn dead_bytes(&self) -> u64 {
        self.entry_bytes().saturating_sub(self.uses.sums().sum())
    }

    /// Fills what lies before the place of the next entry.
    #[cold]
    fn pad(&mut self, until: u64) {
        let free = (until - self.bytes) as usize;
        let Some(payload_bytes) = free.checked_sub(HEAD_BYTES) else { return self.extend_zeros(free) };
        let head = SharedHead::local(SharedKind::Pad, &self.base, payload_bytes, 0);
        let mut encoded = head.encode_unsummed(&self.base);
        let sum = head_sum(&self.base, [&encoded[4..]]);
        encoded[..4].copy_from_slice(&sum.to_le_bytes());
        self.extend(&encoded);
        self.extend_zeros(payload_bytes);
    }

    fn extend_zeros(&mut self, mut bytes: usize) {
        const ZEROS: [u8; 4 << 10] = [0; 4 << 10];
        while bytes > 0 {
            let now = bytes.min(ZEROS.len());
            self.extend(&ZEROS[..now]);
            bytes -= now;
        }
    }

    /// Adds bytes at the end, in memory.
    #[inline]
    fn extend(&mut self, mut data: &[u8]) {
        while !data.is_empty() {
            let within = self.bytes as usize % LOG_BLOCK_BYTES;
            if within == 0 {
                let first = if self.blocks.is_empty() { FIRST_BLOCK_BYTES } else { LOG_BLOCK_BYTES };
                self.blocks.push(Some(Vec::with_capacity(first)));
            }
            let Some(Some(block)) = self.blocks.last_mut() else {
                unreachable!("the block that is being filled stays in memory")
            };
            let now = data.len().min(LOG_BLOCK_BYTES - within);
            reserve(block, within + now);
            block.extend_from_slice(&data[..now]);
            self.bytes += now as u64;
            data = &data[now..];
        }
    }

    /// Issues to the file what is in memory only; without `all` only full pieces. The file may be one of the spares, which are
    /// paths of files whose contents are not needed.
    pub(crate) fn write_out(
        &mut self,
        disk: &mut impl Disk,
        spares: &mut Vec<String>,
        reserve: FileReserve,
        all: bool,
    ) -> DiskResult<()> {
        let piece = match self.header.stream {
            LogStream::Small => SMALL_PIECE_BYTES,
            _ => LOG_BLOCK_BYTES as u64,
        };
        let complete = self.complete_bytes();
        let until = if all || self.is_sealed { complete } else { complete - complete % piece };
        if self.written < until {
            let file = self.ensure_file(disk, spares, reserve)?;
            while self.written < until {
                let (number, within) =
                    (self.written as usize / LOG_BLOCK_BYTES, self.written as usize % LOG_BLOCK_BYTES);
                let end = until.min((number as u64 + 1) * LOG_BLOCK_BYTES as u64);
                let Some(block) = &self.blocks[number] else {
                    unreachable!("what is not written is in memory")
                };
                disk.append(file, &block[within..within + (end - self.written) as usize])?;
                self.written = end;
            }
        }
        if let Some(file) = self.file
            && self.is_sealed
            && !self.is_cut
        {
            disk.truncate(file, self.bytes)?;
            self.is_cut = true;
        }
        Ok(())
    }

    fn ensure_file(
        &mut self,
        disk: &mut impl Disk,
        spares: &mut Vec<String>,
        reserve: FileReserve,
    ) -> DiskResult<FileId> {
        if let Some(file) = self.file {
            return Ok(file);
        }
        let spare = spares.last().filter(|_| spares.len() > reserve.spares);
        let is_spare = spare.is_some();
        let file = match spare {
            Some(from) => match disk.open(&self.path, OpenMode::Recycled { from }) {
                Ok(file) => file,
                Err(error) => {
                    if !error.is_temporary() {
                        spares.pop();
                    }
                    return Err(error);
                }
            },
            None => {
                let file = disk.open(&self.path, OpenMode::Create)?;
                disk.reserve(file, reserve.bytes);
                file
            }
        };
        if is_spare {
            spares.pop();
        }
        self.file = Some(file);
        Ok(file)
    }

    /// Starts to make what is issued survive a crash. `None`: all of it does.
    pub(crate) fn sync_begin(
        &mut self,
        disk: &mut impl Disk,
        folder: &str,
    ) -> DiskResult<Option<(SyncTicket, u64)>> {
        let Some(file) = self.file.filter(|_| self.synced < self.written || !self.name_is_durable) else {
            return Ok(None);
        };
        let ticket = if self.name_is_durable {
            disk.sync_begin_awaited(file)
        } else {
            disk.sync_begin_with_name(file, folder)
        };
        let ticket = ticket.map_err(DiskError::beyond_repair_unless_scarce)?;
        Ok(Some((ticket, self.written)))
    }

    /// A sync has ended that covers this length, and the name.
    pub(crate) fn record_synced(&mut self, bytes: u64) {
        self.synced = self.synced.max(bytes);
        self.name_is_durable = true;
    }

    /// Whether all of it survives a crash, and nothing more will be added.
    pub(crate) fn is_settled(&self) -> bool {
        self.state.has_failed
            || self.is_sealed && self.is_cut && self.synced == self.bytes && self.name_is_durable
    }

    /// The path of its file, if it has one.
    pub(crate) fn file_path(&self) -> Option<&str> {
        self.file.map(|_| self.path.as_str())
    }

    /// Evicts the blocks that survive a crash, but for the one that is being filled. Returns bytes of memory freed.
    pub(crate) fn evict_synced(&mut self) -> usize {
        // An entry that does not wholly survive a crash stays whole in memory.
        let is_crossing =
            |(from, until): &&(u32, u32)| (u64::from(*from)..u64::from(*until)).contains(&self.synced);
        let whole = if self.is_settled() && !self.state.is_pinned {
            self.blocks.len()
        } else {
            let crossing = self.long.iter().rev().find(is_crossing);
            crossing.map_or(self.synced, |(from, _)| u64::from(*from)) as usize / LOG_BLOCK_BYTES
        };
        self.blocks[..whole].iter_mut().filter_map(Option::take).map(|block| block.capacity()).sum()
    }

    /// Bytes of memory used by blocks.
    pub(crate) fn resident_bytes(&self) -> usize {
        self.blocks.iter().flatten().map(Vec::capacity).sum()
    }

    /// The bytes at an offset if they are in one block in memory; at most `bytes`, less at the segment's end. They are as they
    /// were written.
    #[inline]
    pub(crate) fn in_memory(&self, offset: u64, bytes: usize) -> Option<&[u8]> {
        let block = self.blocks.get(offset as usize / LOG_BLOCK_BYTES)?.as_ref()?;
        let within = offset as usize % LOG_BLOCK_BYTES;
        let end = within + bytes;
        if end <= block.len() {
            return Some(&block[within..end]);
        }
        // The last entry may be shorter than requested.
        let is_end = offset as usize - within + block.len() == self.bytes as usize;
        (is_end && within < block.len()).then(|| &block[within..])
    }

    /// Reads up to `bytes` at an offset into `into`. Returns whether all of them were in memory, and need no check.
    pub(crate) fn read_some(
        &self,
        disk: &mut impl Disk,
        offset: u64,
        bytes: usize,
        into: &mut Vec<u8>,
    ) -> DiskResult<bool> {
        let bytes = (bytes as u64).min(self.bytes.saturating_sub(offset)) as usize;
        self.read(disk, offset, bytes, into)?;
        let last = (offset as usize + bytes).div_ceil(LOG_BLOCK_BYTES);
        let blocks = self.blocks.get(offset as usize / LOG_BLOCK_BYTES..last);
        Ok(blocks.is_some_and(|blocks| blocks.iter().all(Option::is_some)))
    }

    /// The head of the entry at an offset; `None` if there is no valid one.
    pub(crate) fn head_at(&self, disk: &mut impl Disk, offset: u64) -> DiskResult<Option<SharedHead>> {
        if let Some(bytes) = self.in_memory(offset, HEAD_BYTES) {
            return Ok(SharedHead::decode_unsummed(&self.base, bytes));
        }
        let (mut read, mut bytes) = (Vec::new(), 4 * HEAD_BYTES);
        loop {
            self.read_some(disk, offset, bytes, &mut read)?;
            match SharedHead::decode_unsummed(&self.base, &read) {
                Some(head) if head.payload_at() > bytes => bytes = head.payload_at(),
                _ => return Ok(SharedHead::decode(&self.base, &read)),
            }
        }
    }

    /// Reads the beginning of the entry at an offset into `into`: head, key, and so many bytes of the payload, if it has them, or
    /// more. `None` if head and key are not valid.
    pub(crate) fn read_beginning(
        &self,
        disk: &mut impl Disk,
        offset: u64,
        payload_bytes: usize,
        into: &mut Vec<u8>,
    ) -> DiskResult<Option<SharedHead>> {
        let mut bytes = BEGINNING_BYTES;
        loop {
            self.read_some(disk, offset, bytes, into)?;
            let Some(head) = SharedHead::decode_unsummed(&self.base, into) else { return Ok(None) };
            let needed = head.payload_at() + head.payload_bytes.min(payload_bytes);
            if bytes >= needed {
                let head = SharedHead::decode(&self.base, into);
                return Ok(head.filter(|head| offset + head.entry_bytes() as u64 <= self.bytes));
            }
            bytes = needed;
        }
    }

    /// The bytes at an offset, at most so many, as far as they are in one block: in place, or a part of them read into `into`.
    pub(crate) fn piece<'s>(
        &'s self,
        disk: &mut impl Disk,
        offset: u64,
        bytes: usize,
        into: &'s mut Vec<u8>,
    ) -> DiskResult<&'s [u8]> {
        let bytes = bytes.min(LOG_BLOCK_BYTES - offset as usize % LOG_BLOCK_BYTES);
        if let Some(found) = self.in_memory(offset, bytes) {
            return Ok(found);
        }
        self.read(disk, offset, bytes.min(READ_PIECE_BYTES), into)?;
        Ok(into)
    }

    /// Reads bytes into `into`, from memory where possible.
    pub(crate) fn read(
        &self,
        disk: &mut impl Disk,
        offset: u64,
        bytes: usize,
        into: &mut Vec<u8>,
    ) -> DiskResult<()> {
        into.clear();
        let (mut at, end) = (offset, offset + bytes as u64);
        // A crash may leave less than a header.
        if end > self.bytes && bytes > 0 {
            return Err(DiskError::BeyondEnd { path: self.path.clone(), offset, bytes: bytes as u64 });
        }
        while at < end {
            let (number, within) = (at as usize / LOG_BLOCK_BYTES, at as usize % LOG_BLOCK_BYTES);
            let now = ((end - at) as usize).min(LOG_BLOCK_BYTES - within);
            match &self.blocks[number] {
                Some(block) => into.extend_from_slice(&block[within..within + now]),
                None => {
                    let file = self.file.ok_or_else(|| DiskError::NotFound { path: self.path.clone() })?;
                    let from = into.len();
                    into.resize(from + now, 0);
                    disk.read_at(file, at, &mut into[from..])?;
                }
            }
            at += now as u64;
        }
        Ok(())
    }
}

/// Gives a block memory for so many bytes: doubled at first, then all that a block has.
#[inline]
fn reserve(block: &mut Vec<u8>, bytes: usize) {
    if block.capacity() < bytes {
        let requested = (4 * block.capacity()).clamp(bytes, LOG_BLOCK_BYTES);
        block.reserve_exact(requested - block.len());
    }
}

/// The path of a segment.
pub(crate) fn segment_path(folder: &str, number: u64) -> String {
    format!("{folder}/{number:016x}.log")
}

/// The path of a spare.
pub(crate) fn spare_path(folder: &str, number: u64) -> String {
    format!("{folder}/{number:016x}.spare")
}

/// The number in the name of a segment, or in that of a spare.
pub(crate) fn number_in(name: &str, extension: &str) -> Option<u64> {
    let digits = name.strip_suffix(extension)?.strip_suffix('.')?;
    let is_number =
        digits.len() == 16 && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    u64::from_str_radix(digits, 16).ok().filter(|number| is_number && *number < SEGMENT_NUMBER_END)
}
