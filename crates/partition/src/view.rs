//! Records as a request sees them: the engine's records and the deadlines of the state, with the uncommitted changes applied.

use std::ops::Range;

use zerohop_engine::disk::Disk;
use zerohop_engine::{
    ChecksumParts, ChunkState, Engine, EngineResult, FLAG_LIST, Handle, Hint, RecordBody, TrimPoint,
    copy_part_over, split_trailer,
};
use zerohop_wire::blob::BlobStamp;
use zerohop_wire::ids::Timestamp;
use zerohop_wire::messages::RecordType;

use crate::last_record_read::RecordGlimpse;
use crate::overlay::{ChunkShape, Overlay, Shape};
use crate::state::Deadlines;

/// The records of a partition as a request sees them; see the module.
pub(crate) struct RecordView<'v, D> {
    pub(crate) engine: &'v mut Engine<D>,
    pub(crate) handle: Handle,
    /// `None` to see committed records only.
    pub(crate) overlay: Option<&'v Overlay>,
    pub(crate) deadlines: &'v Deadlines,
}

/// Units of a record in one entry: its log index, units of it to skip, units to use.
struct Piece {
    index: u64,
    skip: u64,
    take: u64,
}

/// A bytes record that is one entry.
pub(crate) struct WholeBytes<'w> {
    pub(crate) version: Timestamp,
    pub(crate) bytes: &'w [u8],
    pub(crate) hint: Option<Hint>,
}

impl<D: Disk> RecordView<'_, D> {
    /// Whether the partition keeps the order of its keys.
    pub(crate) fn is_ordered(&mut self) -> bool {
        self.engine.key_order(self.handle).is_ok_and(|order| order.is_kept())
    }

    /// The shape of a key's record.
    pub(crate) fn shape(&mut self, key: &[u8]) -> EngineResult<Option<Shape>> {
        Ok(self.find(key)?.shape)
    }

    /// The same, and its place.
    pub(crate) fn find(&mut self, key: &[u8]) -> EngineResult<RecordGlimpse> {
        if let Some(known) = self.overlay.and_then(|overlay| overlay.record(key)) {
            return Ok(RecordGlimpse { shape: known.shape().cloned(), hint: None });
        }
        let Some(found) = self.engine.inspect(self.handle, key)? else { return Ok(RecordGlimpse::default()) };
        if found.is_chunk {
            return self.find_chunk(key, found.hint);
        }
        let record = if found.is_list { RecordType::List } else { RecordType::Bytes };
        let deadline = self.deadlines.get(key);
        let shape = Shape::of_base(record, Timestamp(found.timestamp), found.units, deadline);
        Ok(RecordGlimpse { shape: Some(shape), hint: Some(found.hint) })
    }

    #[cold]
    fn find_chunk(&mut self, key: &[u8], hint: Hint) -> EngineResult<RecordGlimpse> {
        let Some(state) = self.engine.chunk_state(self.handle, key)? else {
            return Ok(RecordGlimpse::default());
        };
        let mut shape = Shape::of_base(RecordType::Chunk, Timestamp(state.timestamp), 0, None);
        shape.chunk = Some(ChunkShape {
            stamp: BlobStamp::decode(&state.stamp),
            has_base: true,
            parts: u64::from(state.parts),
            covered: state.covered,
            end: state.end,
        });
        Ok(RecordGlimpse { shape: Some(shape), hint: Some(hint) })
    }

    /// Shows a part of a committed chunk without a copy, piece by piece, as far as it was written, if the chunk is one entry in
    /// memory. This is the common case, at the cost of one lookup. After `Ok(None)` the caller must get the shape.
    pub(crate) fn chunk_at_once<'s>(
        &'s mut self,
        key: &[u8],
        (offset, length): (u32, u32),
        see: impl FnMut(&'s [u8]),
    ) -> EngineResult<Option<(ChunkState, Option<ChecksumParts>)>> {
        if self.overlay.is_some_and(|overlay| overlay.record(key).is_some()) {
            return Ok(None);
        }
        let begin = u64::from(offset);
        self.engine.chunk_at_once(self.handle, key, begin..begin + u64::from(length), see)
    }

    /// Appends a range of a chunk to `out`; unwritten bytes are zeros.
    pub(crate) fn chunk(
        &mut self,
        key: &[u8],
        shape: &Shape,
        range: Range<u64>,
        out: &mut Vec<u8>,
    ) -> EngineResult<()> {
        let begin = out.len();
        if shape.chunk.is_some_and(|chunk| chunk.has_base) {
            self.engine.read_chunk(self.handle, key, range.clone(), out)?;
        } else {
            out.resize(begin + (range.end - range.start) as usize, 0);
        }
        for &(index, _) in &shape.own {
            let entry = self.engine.read_entry(self.handle, index)?;
            let (payload, _) = split_trailer(entry.head.meta.flags, entry.payload);
            copy_part_over(&mut out[begin..], range.start, payload);
        }
        Ok(())
    }

    /// The same, if it matters.
    pub(crate) fn find_if(&mut self, matters: bool, key: &[u8]) -> EngineResult<RecordGlimpse> {
        if matters { self.find(key) } else { Ok(RecordGlimpse::default()) }
    }

    /// A bytes record in one committed entry, with its version: the common case, at the cost of one lookup. After `Ok(None)` the
    /// caller must get the shape.
    pub(crate) fn whole(&mut self, key: &[u8]) -> EngineResult<Option<WholeBytes<'_>>> {
        if self.overlay.is_some_and(|overlay| overlay.record(key).is_some()) {
            return Ok(None);
        }
        Ok(match self.engine.lookup(self.handle, key)? {
            Some(record) if !record.is_list && !record.is_chunk => match record.body {
                RecordBody::SingleEntry(bytes) => {
                    let (version, hint) = (Timestamp(record.timestamp), record.hint);
                    Some(WholeBytes { version, bytes, hint })
                }
                RecordBody::Parts(_) => None,
            },
            _ => None,
        })
    }

    /// Appends a range of a bytes record to `out`.
    pub(crate) fn bytes(
        &mut self,
        key: &[u8],
        shape: &Shape,
        range: Range<u64>,
        out: &mut Vec<u8>,
    ) -> EngineResult<()> {
        out.reserve((range.end - range.start) as usize);
        for piece in self.pieces(key, shape, range)? {
            let entry = self.engine.read_entry(self.handle, piece.index)?;
            let (body, _) = split_trailer(entry.head.meta.flags, entry.payload);
            let from = piece.skip as usize;
            out.extend_from_slice(body.get(from..from + piece.take as usize).unwrap_or(&[]));
        }
        Ok(())
    }

    /// Appends values of a list to `out`, at most so many and until so many bytes are reached, and returns their number. If the range
    /// has values, at least one is appended.
    pub(crate) fn values(
        &mut self,
        key: &[u8],
        shape: &Shape,
        range: Range<u64>,
        (count_max, bytes_max): (u32, usize),
        out: &mut Vec<u8>,
    ) -> EngineResult<u32> {
        let (begin, mut count) = (out.len(), 0);
        let range = range.start..range.end.min(range.start + u64::from(count_max));
        for piece in self.pieces(key, shape, range)? {
            let entry = self.engine.read_entry(self.handle, piece.index)?;
            debug_assert!(entry.head.meta.flags & FLAG_LIST != 0);
            let (body, _) = split_trailer(entry.head.meta.flags, entry.payload);
            let values = Values(body.get(4..).unwrap_or(&[]));
            for value in values.skip(piece.skip as usize).take(piece.take as usize) {
                if count > 0 && out.len() - begin + value.len() > bytes_max {
                    return Ok(count);
                }
                out.extend_from_slice(value);
                count += 1;
            }
        }
        Ok(count)
    }

    /// Hands a range of the values of a list to `each`, for as long as that says true.
    pub(crate) fn each_value(
        &mut self,
        key: &[u8],
        shape: &Shape,
        range: Range<u64>,
        each: &mut dyn FnMut(&[u8]) -> bool,
    ) -> EngineResult<()> {
        for piece in self.pieces(key, shape, range)? {
            let entry = self.engine.read_entry(self.handle, piece.index)?;
            let (body, _) = split_trailer(entry.head.meta.flags, entry.payload);
            let values = Values(body.get(4..).unwrap_or(&[]));
            for value in values.skip(piece.skip as usize).take(piece.take as usize) {
                if !each(&value[4..]) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// The place where a trim of so many units at the head cuts; some units remain.
    pub(crate) fn trim_to(&mut self, key: &[u8], shape: &Shape, units: u64) -> EngineResult<TrimPoint> {
        let pieces = self.pieces(key, shape, units..units + 1)?;
        let first = pieces.first().map(|piece| TrimPoint { part: piece.index, skip: piece.skip });
        Ok(first.unwrap_or(TrimPoint { part: 0, skip: 0 }))
    }

    /// The entries of a range of units.
    fn pieces(&mut self, key: &[u8], shape: &Shape, range: Range<u64>) -> EngineResult<Vec<Piece>> {
        let mut pieces = Vec::new();
        let mut left = range.end.saturating_sub(range.start);
        let mut push = |index, skip, units: u64| {
            let take = left.min(units - skip);
            left -= take;
            pieces.push(Piece { index, skip, take });
        };
        if range.start < shape.base_units && range.end > range.start {
            let through = range.end.min(shape.base_units);
            let of_base = range.start + shape.base_skip..through + shape.base_skip;
            let found = self.engine.parts_of(self.handle, key, of_base)?;
            let mut skip = found.skip;
            for part in found.parts {
                push(part.index, skip, u64::from(part.units));
                skip = 0;
            }
        }
        let mut begins = shape.base_units;
        let mut own_skip = shape.own_skip;
        for &(index, units) in &shape.own {
            let counts = units - own_skip;
            let ends = begins + counts;
            if ends > range.start && begins < range.end {
                push(index, own_skip + range.start.saturating_sub(begins), units);
            }
            (begins, own_skip) = (ends, 0);
        }
        Ok(pieces)
    }
}

/// The values in a part's body, each after its length.
pub(crate) struct Values<'a>(pub(crate) &'a [u8]);

impl<'a> Iterator for Values<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let length = u32::from_le_bytes(*self.0.first_chunk::<4>()?) as usize;
        let (value, rest) = self.0.split_at_checked(4 + length)?;
        self.0 = rest;
        Some(value)
    }
}
