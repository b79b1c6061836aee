//! Reading a log unchanged, for a snapshot install into another engine.

use super::entry::{self, EntryKind, HeadDecode};
use super::header::{HEADER_BYTES, TRAILER_BYTES};
use super::segment::Segment;
use super::shared::install_run::InstallPlace;
use super::{FIRST_ENTRY_AT, PartitionLog};
use crate::disk::Disk;
use crate::error::EngineResult;

/// The position in a log at which reading continues. The default is its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunPlace {
    /// First log index and generation of the segment; with the offset 0, of the first segment that starts at
    /// or behind that index.
    pub(crate) first_index: u64,
    pub(crate) generation: u32,
    pub(crate) offset: u64,
    /// In a shared log: the place, and how often entries had been moved despite holds when it was the next.
    pub(crate) install: InstallPlace,
    pub(crate) moves: u64,
}

/// The result of reading a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogRun {
    /// Complete entries of one segment, and the bytes between them; the place is behind them.
    Bytes {
        /// They start with the segment's header. Otherwise they follow the bytes that were read before.
        begins: bool,
    },
    /// There is nothing more up to that log index.
    End,
    /// The payload of the entry of this log index is not as written.
    Corrupt {
        /// The log index.
        index: u64,
    },
    /// The segment that was being read does not exist any more.
    Replaced,
}

/// How far the bytes that were read can be returned.
enum RunWalk {
    /// Up to here; more of the segment follows.
    More(usize),
    /// Up to here, and that is all of the segment, or all up to the requested log index.
    All(usize),
    /// Not even the first entry is complete: it needs so many bytes.
    Needs(usize),
    Corrupt {
        at: usize,
        /// Set if its head is valid.
        index: Option<u64>,
    },
}

impl PartitionLog {
    /// See [`crate::Engine::read_run`].
    pub(crate) fn read_run<D: Disk>(
        &self,
        disk: &mut D,
        place: &mut RunPlace,
        (through, requested): (u64, usize),
        out: &mut Vec<u8>,
    ) -> EngineResult<LogRun> {
        let at = self.order.partition_point(|&slot| self.segment(slot).first_index() < place.first_index);
        let Some(&slot) = self.order.get(at) else {
            return Ok(if place.offset == 0 { LogRun::End } else { LogRun::Replaced });
        };
        let segment = self.segment(slot);
        let begins = place.offset == 0;
        if !begins
            && (segment.first_index(), segment.header.generation) != (place.first_index, place.generation)
        {
            return Ok(LogRun::Replaced);
        }
        if segment.first_index() > through {
            return Ok(LogRun::End);
        }
        let from = if begins { FIRST_ENTRY_AT } else { place.offset };
        // The header is sent with the first entries.
        let before = if begins { HEADER_BYTES } else { 0 };
        let mut length = requested.max(entry::HEAD_BYTES);
        let (used, is_all) = loop {
            segment.read(disk, from - before as u64, before + length, out)?;
            let is_end = from + (out.len() - before) as u64 == segment.bytes;
            match walk(segment, &out[before..], is_end, through) {
                RunWalk::Needs(more) => length = more.max(length + 1),
                RunWalk::More(used) => break (used, false),
                RunWalk::All(used) => break (used, true),
                // The bytes before it are sent first.
                RunWalk::Corrupt { at, .. } if at > 0 => break (at, false),
                RunWalk::Corrupt { index: Some(index), .. } => return Ok(LogRun::Corrupt { index }),
                RunWalk::Corrupt { index: None, .. } => return Err(self.corrupt(slot, from as u32)),
            }
        };
        out.truncate(before + used);
        if begins {
            // The header as known in memory, in case it is corrupt in the file.
            out[..before].copy_from_slice(&segment.header.encode());
        }
        let generation = segment.header.generation;
        *place = if !is_all {
            let (first_index, offset) = (segment.first_index(), from + used as u64);
            RunPlace { first_index, generation, offset, ..RunPlace::default() }
        } else {
            RunPlace { first_index: segment.first_index() + 1, ..RunPlace::default() }
        };
        Ok(LogRun::Bytes { begins })
    }
}

fn walk(segment: &Segment, bytes: &[u8], is_end: bool, through: u64) -> RunWalk {
    let mut at = 0;
    let is_whole = segment.sealed && segment.last_index <= through;
    loop {
        let left = &bytes[at..];
        if left.is_empty() && is_end && !is_whole {
            return RunWalk::All(at);
        }
        let needed = match entry::decode_head(segment.base(), left) {
            HeadDecode::Head(head) if head.entry_bytes() <= left.len() => {
                let is_behind = !head.meta.kind.is_local() && head.meta.index > through;
                if is_behind || head.meta.kind == EntryKind::Footer && !is_whole {
                    return RunWalk::All(at);
                }
                let payload = &left[head.payload_at()..head.entry_bytes()];
                if entry::crc(payload) != head.payload_crc {
                    let index = (!head.meta.kind.is_local()).then_some(head.meta.index);
                    return RunWalk::Corrupt { at, index };
                }
                let end = at + head.entry_bytes();
                if head.meta.kind != EntryKind::Footer {
                    at = end;
                    continue;
                }
                // The trailer is sent with it.
                if is_end && bytes.len() == end + TRAILER_BYTES {
                    return RunWalk::All(bytes.len());
                }
                head.entry_bytes() + TRAILER_BYTES
            }
            HeadDecode::Head(head) => head.entry_bytes(),
            HeadDecode::Need(needed) => needed,
            HeadDecode::Bad => return RunWalk::Corrupt { at, index: None },
        };
        return match at {
            _ if is_end => RunWalk::Corrupt { at, index: None },
            0 => RunWalk::Needs(needed),
            _ => RunWalk::More(at),
        };
    }
}
