//! Reading a segment of a shared log from front to back, whatever its bytes are.

use super::format::{ALIGN_BYTES, HEAD_BYTES, HeadBase, LOG_BLOCK_BYTES, SharedHead, SharedKind, place_for};
use super::local::{Creation, LogFooter, LogMark, VoidRange};
use crate::log::entry::crc;

/// An item in a segment of a shared log.
#[derive(Clone, Debug)]
pub enum LogItem<'a> {
    /// An entry of the replicated log of a partition. Its head and key are valid; its payload only if `payload_is_good`.
    Entry {
        /// Its offset.
        offset: u64,
        /// The head.
        head: SharedHead,
        /// The key.
        key: &'a [u8],
        /// The payload.
        payload: &'a [u8],
        /// Whether the payload's checksum holds.
        payload_is_good: bool,
    },
    /// Rows of the table of log partitions.
    Creations {
        /// Their offset.
        offset: u64,
        /// The rows.
        rows: Vec<Creation>,
    },
    /// A mark.
    Mark {
        /// Its offset.
        offset: u64,
        /// Its contents.
        mark: LogMark,
    },
    /// Bytes that are nothing.
    Voids {
        /// Their offset.
        offset: u64,
        /// The rows.
        rows: Vec<VoidRange>,
    },
    /// The end of a sealed segment.
    Footer {
        /// Its offset.
        offset: u64,
        /// Its contents.
        footer: LogFooter,
    },
    /// Bytes that are no entry.
    Bad {
        /// Their offset.
        offset: u64,
        /// The offset of the next valid entry, or the end of the bytes.
        until: u64,
    },
}

/// The items of a segment. `bytes` are the file's from offset `from` on, where an entry may begin. Never panics, whatever the
/// bytes.
#[must_use]
pub fn items(base: HeadBase, bytes: &[u8], from: u64) -> LogItems<'_> {
    LogItems { base, bytes, from, at: from, is_done: false }
}

/// See [`items`].
#[derive(Clone, Debug)]
pub struct LogItems<'a> {
    base: HeadBase,
    bytes: &'a [u8],
    from: u64,
    at: u64,
    is_done: bool,
}

/// Whether an entry may begin at this offset.
pub(super) fn may_begin(head: &SharedHead, at: u64) -> bool {
    match head.kind {
        SharedKind::Pad => head.entry_bytes() <= LOG_BLOCK_BYTES,
        _ => place_for(at, head.entry_bytes(), head.payload_bytes) == at,
    }
}

impl<'a> Iterator for LogItems<'a> {
    type Item = LogItem<'a>;

    fn next(&mut self) -> Option<LogItem<'a>> {
        loop {
            let rest = self.bytes_at(self.at)?;
            if self.is_done || rest.is_empty() {
                return None;
            }
            let offset = self.at;
            let Some(head) = self.head_at(offset) else {
                let aligned = (offset + 1).next_multiple_of(ALIGN_BYTES as u64);
                let gap = rest.get(..(aligned - offset) as usize).unwrap_or(rest);
                // Too little for the head of a pad is left free.
                let is_room = gap.len() < HEAD_BYTES && gap.iter().all(|&byte| byte == 0);
                self.at = if is_room { offset + gap.len() as u64 } else { self.resumption(offset + 1) };
                if is_room {
                    continue;
                }
                return Some(LogItem::Bad { offset, until: self.at });
            };
            self.at += head.entry_bytes() as u64;
            if head.kind != SharedKind::Pad {
                return Some(self.item_of(offset, head, &rest[..head.entry_bytes()]));
            }
        }
    }
}

impl<'a> LogItems<'a> {
    fn bytes_at(&self, at: u64) -> Option<&'a [u8]> {
        self.bytes.get((at - self.from) as usize..)
    }

    /// The head of the entry here, if it is valid, complete, and may begin here.
    fn head_at(&self, at: u64) -> Option<SharedHead> {
        let bytes = self.bytes_at(at)?;
        let head = SharedHead::decode(&self.base, bytes)?;
        (may_begin(&head, at) && head.entry_bytes() <= bytes.len()).then_some(head)
    }

    /// Where reading continues after bad bytes: at the next completely valid entry. In the block of the bad bytes it may begin
    /// anywhere, behind the block only at a multiple of [`ALIGN_BYTES`].
    fn resumption(&self, after: u64) -> u64 {
        let end = self.from + self.bytes.len() as u64;
        let block_end = after.next_multiple_of(LOG_BLOCK_BYTES as u64).min(end);
        let is_valid = |&at: &u64| {
            self.head_at(at).is_some_and(|head| {
                let at = (at - self.from) as usize;
                let payload = &self.bytes[at + head.payload_at()..at + head.entry_bytes()];
                head.kind == SharedKind::Pad || crc(payload) == head.payload_crc
            })
        };
        (after..block_end).chain((block_end..end).step_by(ALIGN_BYTES)).find(is_valid).unwrap_or(end)
    }

    fn item_of(&mut self, offset: u64, head: SharedHead, entry: &'a [u8]) -> LogItem<'a> {
        let (key, payload) = (&entry[HEAD_BYTES..head.payload_at()], &entry[head.payload_at()..]);
        let payload_is_good = crc(payload) == head.payload_crc;
        let bad = LogItem::Bad { offset, until: self.at };
        let good = payload_is_good.then_some(payload);
        match head.kind {
            SharedKind::Creations => {
                good.and_then(Creation::decode_all).map_or(bad, |rows| LogItem::Creations { offset, rows })
            }
            SharedKind::Mark => {
                good.and_then(LogMark::decode).map_or(bad, |mark| LogItem::Mark { offset, mark })
            }
            SharedKind::Voids => {
                good.and_then(VoidRange::decode_all).map_or(bad, |rows| LogItem::Voids { offset, rows })
            }
            SharedKind::Footer => {
                // Old bytes may follow it.
                self.is_done = true;
                good.and_then(LogFooter::decode).map_or(bad, |footer| LogItem::Footer { offset, footer })
            }
            SharedKind::Replicated(_) | SharedKind::Pad => {
                LogItem::Entry { offset, head, key, payload, payload_is_good }
            }
        }
    }
}
