//! The overlay: appended and uncommitted changes of records, and the sessions of their writes. Evaluation checks it first.
//!
//! Contents are not copied. A change names its entry in the log, which can be read before it is committed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use zerohop_wire::blob::BlobStamp;
use zerohop_wire::ids::{SessionId, Timestamp};
use zerohop_wire::messages::RecordType;

use crate::outcome::WriteOutcome;

/// The type of a record and the places of its contents: the engine's record from some unit on, then entries of the log. Units are
/// values of a list, or bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) record: RecordType,
    pub(crate) version: Timestamp,
    /// In milliseconds since 1970.
    pub(crate) deadline: Option<u64>,
    /// Leading units of the engine's record to skip, and how many count after them.
    pub(crate) base_skip: u64,
    pub(crate) base_units: u64,
    /// Entries behind them: log index and units.
    pub(crate) own: VecDeque<(u64, u64)>,
    /// Leading units of the first of these entries to skip.
    pub(crate) own_skip: u64,
    /// Additional properties of a chunk.
    pub(crate) chunk: Option<ChunkShape>,
}

/// The properties of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkShape {
    /// Its blob, and the newest truncation that it knows.
    pub(crate) stamp: BlobStamp,
    /// Whether the engine's record lies under the entries of `own`.
    pub(crate) has_base: bool,
    /// The number of its entries, and the bytes that these cover. Hidden entries may count.
    pub(crate) parts: u64,
    pub(crate) covered: u64,
    /// The end of the last byte that was written.
    pub(crate) end: u64,
}

/// A write of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkWrite {
    /// The chunk's blob stamp after this write.
    pub(crate) stamp: BlobStamp,
    pub(crate) offset: u32,
    pub(crate) length: u32,
}

/// How an entry changes a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordChange {
    Put {
        record: RecordType,
        units: u64,
        version: Timestamp,
        deadline: Option<u64>,
    },
    Remove,
    Append {
        record: RecordType,
        units: u64,
        version: Timestamp,
    },
    /// So many units are removed at the head.
    Trim {
        units: u64,
        version: Timestamp,
    },
    Deadline(Option<u64>),
    /// The chunk becomes this one write.
    PutChunk {
        written: ChunkWrite,
        version: Timestamp,
    },
    /// The write lies over the earlier contents of the chunk.
    OverlayChunk {
        written: ChunkWrite,
        version: Timestamp,
    },
}

/// A record with uncommitted changes.
#[derive(Debug)]
pub(crate) struct UncommittedRecord {
    /// The changes by log index.
    changes: VecDeque<(u64, RecordChange)>,
    /// The record with all changes.
    shape: Option<Shape>,
}

/// All uncommitted changes.
#[derive(Debug, Default)]
pub(crate) struct Overlay {
    records: BTreeMap<Box<[u8]>, UncommittedRecord>,
    outcomes: BTreeMap<(SessionId, u64), (u64, WriteOutcome)>,
    /// Keys of `outcomes` by log index.
    outcome_order: VecDeque<(u64, SessionId, u64)>,
    evicted: BTreeSet<SessionId>,
    /// Log index of the last eviction, and the session mark that it raises.
    eviction: (u64, Timestamp),
}

impl Shape {
    /// A record as the engine has it.
    pub(crate) fn of_base(
        record: RecordType,
        version: Timestamp,
        units: u64,
        deadline: Option<u64>,
    ) -> Shape {
        let own = VecDeque::new();
        Shape { record, version, deadline, base_skip: 0, base_units: units, own, own_skip: 0, chunk: None }
    }

    /// Values of the list, or bytes.
    pub(crate) fn length(&self) -> u64 {
        if let Some(chunk) = &self.chunk {
            return chunk.end;
        }
        let own: u64 = self.own.iter().map(|(_, units)| units).sum();
        self.base_units + own - self.own_skip
    }

    /// A chunk that consists of one write.
    fn of_write(index: u64, written: ChunkWrite, version: Timestamp) -> Shape {
        let mut shape = Shape::of_base(RecordType::Chunk, version, 0, None);
        shape.own.push_back((index, u64::from(written.length)));
        shape.chunk = Some(ChunkShape::of(written));
        shape
    }

    /// Removes units at the head; some remain.
    fn trim(&mut self, units: u64) {
        let of_base = units.min(self.base_units);
        self.base_skip += of_base;
        self.base_units -= of_base;
        self.own_skip += units - of_base;
        while let Some(&(_, units)) = self.own.front()
            && self.own_skip >= units
            && self.own_skip > 0
        {
            self.own_skip -= units;
            self.own.pop_front();
        }
    }
}

impl ChunkShape {
    fn of(written: ChunkWrite) -> ChunkShape {
        let (offset, length) = (u64::from(written.offset), u64::from(written.length));
        ChunkShape { stamp: written.stamp, has_base: false, parts: 1, covered: length, end: offset + length }
    }
}

impl RecordChange {
    fn apply(self, index: u64, shape: Option<Shape>) -> Option<Shape> {
        match (self, shape) {
            (RecordChange::Put { record, units, version, deadline }, _) => {
                let mut shape = Shape::of_base(record, version, 0, deadline);
                shape.own.push_back((index, units));
                Some(shape)
            }
            (RecordChange::Remove, _) => None,
            (RecordChange::Append { record, units, version }, shape) => {
                let mut shape = shape.unwrap_or_else(|| Shape::of_base(record, version, 0, None));
                shape.own.push_back((index, units));
                shape.version = version;
                Some(shape)
            }
            (RecordChange::PutChunk { written, version }, _) => {
                Some(Shape::of_write(index, written, version))
            }
            (RecordChange::OverlayChunk { written, version }, None) => {
                Some(Shape::of_write(index, written, version))
            }
            (RecordChange::OverlayChunk { written, version }, Some(mut shape)) => {
                let new = ChunkShape::of(written);
                let old = shape.chunk.unwrap_or(ChunkShape { parts: 0, covered: 0, end: 0, ..new });
                shape.own.push_back((index, u64::from(written.length)));
                shape.version = version;
                shape.chunk = Some(ChunkShape {
                    stamp: written.stamp,
                    has_base: old.has_base,
                    parts: old.parts + new.parts,
                    covered: old.covered + new.covered,
                    end: old.end.max(new.end),
                });
                Some(shape)
            }
            (_, None) => None,
            (RecordChange::Trim { units, version }, Some(mut shape)) => {
                shape.trim(units);
                shape.version = version;
                Some(shape)
            }
            (RecordChange::Deadline(deadline), Some(shape)) => Some(Shape { deadline, ..shape }),
        }
    }
}

impl UncommittedRecord {
    pub(crate) fn shape(&self) -> Option<&Shape> {
        self.shape.as_ref()
    }

    /// Log index of the newest change.
    pub(crate) fn newest(&self) -> u64 {
        self.changes.back().map_or(0, |(index, _)| *index)
    }
}

impl Overlay {
    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty() && self.outcomes.is_empty() && self.eviction.0 == 0
    }

    pub(crate) fn record(&self, key: &[u8]) -> Option<&UncommittedRecord> {
        if self.records.is_empty() { None } else { self.records.get(key) }
    }

    /// The uncommitted outcome of a session's write, and the index of its entry.
    pub(crate) fn outcome(&self, session: SessionId, sequence: u64) -> Option<(u64, &WriteOutcome)> {
        self.outcomes.get(&(session, sequence)).map(|(index, outcome)| (*index, outcome))
    }

    /// The session mark that an uncommitted eviction raises, and whether the eviction forgets this session.
    pub(crate) fn eviction(&self, session: SessionId) -> (Timestamp, bool) {
        (self.eviction.1, self.evicted.contains(&session))
    }

    pub(crate) fn is_evicting(&self) -> bool {
        self.eviction.0 != 0
    }

    /// Adds a change of a record. `before` is its earlier shape; it may be anything if the change does not depend on it.
    pub(crate) fn change(&mut self, index: u64, key: &[u8], change: RecordChange, before: Option<Shape>) {
        if let Some(known) = self.records.get_mut(key) {
            known.shape = change.apply(index, known.shape.take());
            known.changes.push_back((index, change));
            return;
        }
        let shape = change.apply(index, before);
        self.records
            .insert(key.into(), UncommittedRecord { changes: VecDeque::from([(index, change)]), shape });
    }

    pub(crate) fn add_outcome(
        &mut self,
        index: u64,
        session: SessionId,
        sequence: u64,
        outcome: WriteOutcome,
    ) {
        self.outcomes.insert((session, sequence), (index, outcome));
        self.outcome_order.push_back((index, session, sequence));
    }

    pub(crate) fn add_eviction(&mut self, index: u64, sessions: &[SessionId], mark: Timestamp) {
        self.evicted.extend(sessions);
        self.eviction = (index, self.eviction.1.max(mark));
    }

    /// An entry of this key was committed. Returns whether newer changes of the key remain; then [`Overlay::rebase`] must follow.
    pub(crate) fn committed(&mut self, index: u64, key: &[u8]) -> bool {
        while let Some(&(first, session, sequence)) = self.outcome_order.front()
            && first <= index
        {
            self.outcome_order.pop_front();
            self.outcomes.remove(&(session, sequence));
        }
        if self.eviction.0 != 0 && self.eviction.0 <= index {
            self.evicted.clear();
            self.eviction = (0, Timestamp::ZERO);
        }
        let Some(known) = self.records.get_mut(key) else { return false };
        while known.changes.front().is_some_and(|(first, _)| *first <= index) {
            known.changes.pop_front();
        }
        if known.changes.is_empty() {
            self.records.remove(key);
            return false;
        }
        true
    }

    /// All changes of records were committed.
    pub(crate) fn clear_records(&mut self) {
        self.records.clear();
    }

    /// The entries after this index were undone. Returns the keys of which changes remain; [`Overlay::rebase`] must follow for
    /// each.
    pub(crate) fn undo_after(&mut self, after: u64) -> Vec<Box<[u8]>> {
        let mut left_over = Vec::new();
        self.records.retain(|key, known| {
            let before = known.changes.len();
            while known.changes.back().is_some_and(|(index, _)| *index > after) {
                known.changes.pop_back();
            }
            if known.changes.len() < before && !known.changes.is_empty() {
                left_over.push(key.clone());
            }
            !known.changes.is_empty()
        });
        left_over
    }

    /// Applies the remaining changes to the engine's present record.
    pub(crate) fn rebase(&mut self, key: &[u8], base: Option<Shape>) {
        if let Some(known) = self.records.get_mut(key) {
            known.shape =
                known.changes.iter().fold(base, |shape, (index, change)| change.apply(*index, shape));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: RecordType = RecordType::List;

    fn append(units: u64) -> RecordChange {
        RecordChange::Append { record: LIST, units, version: Timestamp(9) }
    }

    #[test]
    fn changes_lie_over_the_committed_record_in_order() {
        let mut overlay = Overlay::default();
        let base = Shape::of_base(LIST, Timestamp(1), 5, Some(70));
        overlay.change(11, b"k", append(2), Some(base.clone()));
        overlay.change(12, b"k", RecordChange::Trim { units: 6, version: Timestamp(10) }, None);
        let shape = overlay.record(b"k").and_then(UncommittedRecord::shape).expect("is there").clone();
        assert_eq!((shape.length(), shape.base_units, shape.own_skip, shape.deadline), (1, 0, 1, Some(70)));
        overlay.change(13, b"k", append(3), None);
        assert_eq!(overlay.record(b"k").and_then(UncommittedRecord::shape).map(Shape::length), Some(4));
        assert_eq!(overlay.record(b"k").map(UncommittedRecord::newest), Some(13));
        // After the first is committed, the engine's record includes it.
        assert!(overlay.committed(11, b"k"));
        overlay.rebase(b"k", Some(Shape { base_units: 7, ..base }));
        let shape = overlay.record(b"k").and_then(UncommittedRecord::shape).expect("is there");
        assert_eq!((shape.length(), shape.base_skip, shape.base_units, shape.own.len()), (4, 6, 1, 1));
        assert!(!overlay.committed(13, b"k"));
        assert!(overlay.is_empty());
    }

    #[test]
    fn write_after_uncommitted_removal_starts_an_empty_record() {
        let mut overlay = Overlay::default();
        let base = Shape::of_base(LIST, Timestamp(1), 5, Some(70));
        overlay.change(11, b"k", RecordChange::Remove, Some(base));
        assert_eq!(overlay.record(b"k").map(|u| u.shape().is_none()), Some(true));
        overlay.change(12, b"k", append(2), None);
        let shape = overlay.record(b"k").and_then(UncommittedRecord::shape).expect("is there");
        assert_eq!((shape.length(), shape.deadline), (2, None));
    }

    #[test]
    fn committed_outcomes_and_evictions_leave_the_overlay() {
        let mut overlay = Overlay::default();
        let session = SessionId { issued: Timestamp(1), nonce: 1 };
        overlay.add_outcome(5, session, 1, WriteOutcome::NotFound);
        overlay.add_eviction(6, &[session], Timestamp(2));
        assert_eq!(overlay.outcome(session, 1), Some((5, &WriteOutcome::NotFound)));
        assert_eq!(overlay.eviction(session), (Timestamp(2), true));
        overlay.committed(5, b"");
        assert!(overlay.outcome(session, 1).is_none() && overlay.is_evicting());
        overlay.committed(6, b"");
        assert!(overlay.is_empty() && overlay.eviction(session) == (Timestamp::ZERO, false));
    }
}
