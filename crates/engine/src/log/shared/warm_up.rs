//! After a start, blocks of the small and the cold stream are read back into memory, the newest first, as far as there is room. What is
//! in memory is read without a check, so a block is taken only if all that it has is as it was written.

use super::format::{FIRST_ENTRY_AT, LOG_BLOCK_BYTES, LogStream};
use super::scan::{LogItem, items};
use super::segment::SharedSegment;
use super::streams::SharedLog;
use crate::disk::Disk;

/// How far it has come: what is before that is still to be read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WarmUp {
    /// The number of a segment; 0: all is read.
    segment: u64,
    block: usize,
}

impl WarmUp {
    /// Begins with the newest segment that a start has found.
    pub(crate) fn new(log: &SharedLog) -> WarmUp {
        let newest = log.sealed.last_key_value();
        newest.map_or(WarmUp::default(), |(number, segment)| WarmUp {
            segment: *number,
            block: segment.blocks.len(),
        })
    }

    /// Whether nothing is left to read.
    pub(crate) fn is_done(self) -> bool {
        self.segment == 0
    }

    /// Reads a block, if it has room. It ends with the first that has none.
    pub(crate) fn step(&mut self, log: &mut SharedLog, disk: &mut impl Disk, room: u64) {
        while let Some((number, segment)) = log.sealed.range_mut(..=self.segment).next_back() {
            if *number < self.segment {
                *self = WarmUp { segment: *number, block: segment.blocks.len() };
            }
            let is_short = matches!(segment.header.stream, LogStream::Small | LogStream::Cold);
            // It may be shorter than when this began.
            self.block = self.block.min(segment.blocks.len());
            if self.block == 0 || !is_short {
                *self = WarmUp { segment: number - 1, block: usize::MAX };
                continue;
            }
            self.block -= 1;
            if segment.blocks[self.block].is_some() {
                continue;
            }
            if room < LOG_BLOCK_BYTES as u64 {
                break;
            }
            if let Some(bytes) = sound_block(segment, disk, self.block) {
                segment.blocks[self.block] = Some(bytes);
            }
            return;
        }
        *self = WarmUp::default();
    }
}

/// The bytes of a block, if all entries in it are as they were written. A block in the middle of an entry is never taken.
fn sound_block(segment: &SharedSegment, disk: &mut impl Disk, block: usize) -> Option<Vec<u8>> {
    let from = (block * LOG_BLOCK_BYTES) as u64;
    let length = segment.bytes.checked_sub(from)?.min(LOG_BLOCK_BYTES as u64);
    let mut bytes = vec![0; length as usize];
    // A block that cannot be read now is read when an entry of it is wanted.
    disk.read_at(segment.file?, from, &mut bytes).ok()?;
    let first = FIRST_ENTRY_AT.saturating_sub(from as usize).min(bytes.len());
    let is_sound = |item: LogItem<'_>| match item {
        LogItem::Entry { payload_is_good, .. } => payload_is_good,
        LogItem::Bad { .. } => false,
        _ => true,
    };
    items(segment.base, &bytes[first..], from + first as u64).all(is_sound).then_some(bytes)
}
