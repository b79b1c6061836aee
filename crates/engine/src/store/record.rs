//! Records as they are found, with or without their contents.

use std::collections::VecDeque;
use std::ops::Range;

use crate::index::IndexSlot;
use crate::index::location::Location;
use crate::overflow::chains::{Chain, Form, TrimPoint, trim_point};
use crate::overflow::part::ChainPart;

/// The result of reading a record's newest entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NewestEntry {
    /// Log index of the newest entry of the record.
    pub(crate) newest_index: u64,
    pub(crate) form: Form,
    pub(crate) entry_bytes: u32,
    pub(crate) units: u32,
    /// The timestamp of the newest entry; zero for a record of parts.
    pub(crate) timestamp: u64,
    pub(crate) epoch: u32,
    pub(crate) flags: u8,
    /// Whether the entry's payload needs no check: it never left memory.
    pub(crate) is_checked: bool,
}

impl NewestEntry {
    pub(crate) fn of_chain(chain: &Chain) -> NewestEntry {
        NewestEntry { newest_index: chain.applied, form: chain.form(), ..NewestEntry::UNREADABLE }
    }

    pub(crate) const UNREADABLE: NewestEntry = NewestEntry {
        newest_index: 0,
        form: Form { is_list: false, is_chunk: false },
        entry_bytes: 0,
        units: 0,
        timestamp: 0,
        epoch: 0,
        flags: 0,
        is_checked: false,
    };

    /// The shape of the record, if it is one entry whose payload is known to be intact.
    pub(crate) fn inspected(&self, hint: Hint) -> Option<RecordShape> {
        self.is_checked.then_some(RecordShape {
            is_list: self.form.is_list,
            is_chunk: self.form.is_chunk,
            flags: self.flags,
            index: self.newest_index,
            timestamp: self.timestamp,
            units: u64::from(self.units),
            hint,
        })
    }

    pub(crate) fn as_part(&self) -> ChainPart {
        ChainPart { index: self.newest_index, entry_bytes: self.entry_bytes, units: self.units }
    }

    /// Whether it represents an unreadable entry that is treated as the key's, see
    /// [`UnreadableKey::TreatAsKey`].
    pub(crate) fn is_unreadable(&self) -> bool {
        self.newest_index == 0
    }
}

/// The position at which a key's record was found, for a change of that key that follows soon: it need not be
/// searched again. After any other change in the partition the hint is void, and is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hint {
    pub(crate) fragment: u32,
    pub(crate) found: IndexSlot,
    pub(crate) location: Location,
    pub(crate) seen: NewestEntry,
    pub(crate) changes: u64,
}

/// A record as found.
#[derive(Debug)]
pub struct StoredRecord<'a> {
    /// Whether it is a list rather than bytes.
    pub is_list: bool,
    /// Whether it is a chunk: then [`Engine::read_chunk`](crate::Engine::read_chunk) puts its parts together.
    pub is_chunk: bool,
    /// The flags of its newest entry, [`FLAG_LIST`](crate::FLAG_LIST) and the upper layers' bits.
    pub flags: u8,
    /// Log index of the entry that changed it last.
    pub index: u64,
    /// Epoch of that entry.
    pub epoch: u32,
    /// Timestamp of that entry: the record's version.
    pub timestamp: u64,
    /// Its contents.
    pub body: RecordBody<'a>,
    /// The position at which it was found; `None` if it is not the newest version.
    pub hint: Option<Hint>,
}

/// The location of a record's contents.
#[derive(Debug)]
pub enum RecordBody<'a> {
    /// In one entry, whose payload this is.
    SingleEntry(&'a [u8]),
    /// In several entries: their payloads are read part by part.
    Parts(Parts),
}

/// A record without its contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordShape {
    /// Whether it is a list rather than bytes.
    pub is_list: bool,
    /// Whether it is a chunk.
    pub is_chunk: bool,
    /// The flags of its newest entry.
    pub flags: u8,
    /// Log index of the entry that changed it last.
    pub index: u64,
    /// Timestamp of that entry: the record's version.
    pub timestamp: u64,
    /// Values of a list, or bytes; for a chunk, the bytes that its parts cover in total.
    pub units: u64,
    /// The position at which it was found.
    pub hint: Hint,
}

/// Those parts of a record that hold some of its units.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartRange {
    /// In order. The payloads of their entries hold the units, without trailers.
    pub parts: Vec<ChainPart>,
    /// Units at the head of the first part that come before the requested ones.
    pub skip: u64,
}

impl PartRange {
    /// Those of these parts, up to a log index, that hold some of the units behind the skipped.
    pub(crate) fn within<'p>(
        parts: impl IntoIterator<Item = &'p ChainPart>,
        skipped: u64,
        units: Range<u64>,
        last: u64,
    ) -> PartRange {
        let requested = units.start + skipped..units.end + skipped;
        let (mut found, mut begins) = (PartRange::default(), 0);
        for part in parts {
            if begins >= requested.end || part.index > last {
                break;
            }
            let ends = begins + u64::from(part.units);
            if ends > requested.start {
                if found.parts.is_empty() {
                    found.skip = requested.start - begins;
                }
                found.parts.push(*part);
            }
            begins = ends;
        }
        found
    }
}

/// The parts of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts {
    /// In order.
    pub parts: VecDeque<ChainPart>,
    /// Units (values or bytes) to skip at the head of the first part.
    pub skipped: u64,
    /// Units in total, without the skipped.
    pub units: u64,
}

/// How to treat an entry with the key's hash whose own key cannot be read any more.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnreadableKey {
    /// Return an error: for reading.
    IsError,
    /// Treat it as the key's: the entry that is written now replaces it. If it belonged to another key, that
    /// key's record is lost anyway.
    TreatAsKey,
}

impl Parts {
    /// The position where a trim of so many units would cut; `None` if nothing would be left.
    pub fn trim_point(&self, units: u64) -> Option<TrimPoint> {
        trim_point(&self.parts, self.skipped + units)
    }
}
