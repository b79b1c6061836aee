//! A segment that arrives from another engine, and is written to its file as it arrives.

use super::Segment;
use crate::disk::FileId;
use crate::limits::BLOCK_BYTES;
use crate::log::header::SegmentHeader;

impl Segment {
    /// A segment of which so many bytes are in a new file, and nothing is durable or in memory.
    pub(crate) fn installed(header: SegmentHeader, path: String, file: FileId, bytes: u64) -> Segment {
        let first = header.base.index;
        let mut segment = Segment::found(header, path, file, bytes);
        (segment.synced, segment.synced_index, segment.name_is_durable) = (0, first - 1, false);
        segment
    }

    /// So many more bytes are in the file, and only there: the last block, if it was in memory, is incomplete from now on
    /// and is evicted. Returns bytes of memory freed.
    pub(crate) fn extend_written(&mut self, bytes: u64) -> usize {
        let is_short = !self.bytes.is_multiple_of(BLOCK_BYTES as u64);
        let open = self.blocks.last_mut().filter(|_| is_short);
        let freed = open.and_then(Option::take).map_or(0, |block| block.capacity());
        self.bytes += bytes;
        self.written = self.bytes;
        // Reads of it use the system's cache.
        self.uncached = self.bytes;
        self.blocks.resize_with((self.bytes as usize).div_ceil(BLOCK_BYTES), || None);
        freed
    }

    /// Whether all of it is in the file, so that more may be added there.
    pub(crate) fn is_all_written(&self) -> bool {
        self.file.is_some() && self.written == self.bytes
    }
}
