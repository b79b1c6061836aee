//! Reading a segment's bytes from front to back, whatever they are.

use super::EntryRef;
use super::entry::{self, EntryBase, EntryKind, HeadDecode, u64_at};
use super::header::{Footer, HEADER_BYTES, SegmentHeader};

/// The contents of a [`EntryKind::Synced`] entry: how far the log was synced and committed when it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Log index of the last entry known to survive a crash.
    pub synced: u64,
    /// Log index of the last committed entry.
    pub commit: u64,
}

impl Mark {
    /// The payload: synced (8), commit (8), and a copy of the segment's header (80), in case the header becomes corrupt.
    pub(crate) fn encode(&self, header: &SegmentHeader) -> [u8; 16 + HEADER_BYTES] {
        let mut out = [0; 16 + HEADER_BYTES];
        out[0..8].copy_from_slice(&self.synced.to_le_bytes());
        out[8..16].copy_from_slice(&self.commit.to_le_bytes());
        out[16..].copy_from_slice(&header.encode());
        out
    }

    fn decode(bytes: &[u8]) -> Option<Mark> {
        (bytes.len() == 16 + HEADER_BYTES)
            .then(|| Mark { synced: u64_at(bytes, 0), commit: u64_at(bytes, 8) })
    }
}

/// An item in a segment.
#[derive(Clone, Debug)]
pub enum ScanItem<'a> {
    /// An entry of the replicated log. Its head and key are valid; its payload only if `payload_is_good`.
    Entry {
        /// Its offset.
        offset: u64,
        /// The entry.
        entry: EntryRef<'a>,
        /// Whether the payload's checksum holds.
        payload_is_good: bool,
    },
    /// A mark.
    Mark {
        /// The offset of its end.
        end: u64,
        /// Its contents.
        mark: Mark,
    },
    /// The end of a sealed segment.
    Footer {
        /// Its offset.
        offset: u64,
        /// Its contents.
        footer: Footer,
    },
    /// Bytes that are no entry, up to the next valid one or the end of the file.
    Bad {
        /// Their offset.
        offset: u64,
        /// Whether a valid entry follows in this file.
        more_follows: bool,
    },
}

/// The items of a segment. `bytes` are the file's from offset `from` on, where an entry starts; the entries before it have
/// log indexes up to `after`. Never panics, whatever the bytes.
pub fn items<'a>(base: &EntryBase, bytes: &'a [u8], from: u64, after: u64) -> Items<'a> {
    Items { base: *base, bytes, from, at: 0, last_index: after, done: false }
}

/// See [`items`].
pub struct Items<'a> {
    base: EntryBase,
    bytes: &'a [u8],
    from: u64,
    at: usize,
    last_index: u64,
    done: bool,
}

impl<'a> Iterator for Items<'a> {
    type Item = ScanItem<'a>;

    fn next(&mut self) -> Option<ScanItem<'a>> {
        if self.done || self.at >= self.bytes.len() {
            return None;
        }
        let offset = self.from + self.at as u64;
        match self.entry_at(self.at) {
            Some(entry) => {
                self.at += entry.head.entry_bytes();
                Some(self.item_of(offset, entry))
            }
            None => {
                let next = (self.at + 1..self.bytes.len()).find(|&at| self.is_resumption(at));
                self.at = next.unwrap_or(self.bytes.len());
                Some(ScanItem::Bad { offset, more_follows: next.is_some() })
            }
        }
    }
}

impl<'a> Items<'a> {
    /// The entry at this position, if its head is valid, it is complete, and it is in order.
    fn entry_at(&self, at: usize) -> Option<EntryRef<'a>> {
        let bytes = self.bytes.get(at..)?;
        let HeadDecode::Head(head) = entry::decode_head(&self.base, bytes) else { return None };
        let is_in_order = head.meta.kind.is_local() || head.meta.index > self.last_index;
        (is_in_order && head.entry_bytes() <= bytes.len()).then(|| super::entry_of(head, bytes))
    }

    /// Whether reading can continue here after bad bytes: only at a completely valid entry.
    fn is_resumption(&self, at: usize) -> bool {
        self.entry_at(at).is_some_and(|e| entry::crc(e.payload) == e.head.payload_crc)
    }

    fn item_of(&mut self, offset: u64, entry: EntryRef<'a>) -> ScanItem<'a> {
        let payload_is_good = entry::crc(entry.payload) == entry.head.payload_crc;
        match entry.head.meta.kind {
            EntryKind::Synced => match Mark::decode(entry.payload).filter(|_| payload_is_good) {
                Some(mark) => ScanItem::Mark { end: self.from + self.at as u64, mark },
                None => ScanItem::Bad { offset, more_follows: self.at < self.bytes.len() },
            },
            EntryKind::Footer => {
                self.done = true;
                match Footer::decode(entry.payload).filter(|_| payload_is_good) {
                    Some(footer) => ScanItem::Footer { offset, footer },
                    None => ScanItem::Bad { offset, more_follows: false },
                }
            }
            _ => {
                self.last_index = entry.head.meta.index;
                ScanItem::Entry { offset, entry, payload_is_good }
            }
        }
    }
}
