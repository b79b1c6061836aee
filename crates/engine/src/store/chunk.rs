//! Reading chunks: overlapping parts are put together.

use std::ops::Range;

use super::PartitionStore;
use super::record::UnreadableKey;
use crate::disk::Disk;
use crate::error::{EngineError, EngineResult};
use crate::index::location::{EntryPlace, Position};
use crate::io::Io;
use crate::limits::SUMMED_BYTES_MIN;
use crate::log::chunk_head::{ChunkHead, ChunkStamp, copy_bytes_over};
use crate::log::chunk_read::{ChecksumParts, ChunkInMemory};
use crate::log::entry::{EntryMeta, split_trailer};
use crate::overflow::chains::Chain;
use crate::overflow::extents::{COVERS_UNKNOWN, Extents, VisibleRun};
use crate::overflow::part::ChainPart;

/// The state of a chunk, without its contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkState {
    /// Log index of the entry that changed it last.
    pub index: u64,
    /// Timestamp of that entry: the chunk's version.
    pub timestamp: u64,
    /// Stamp of that entry.
    pub stamp: ChunkStamp,
    /// Number of its entries.
    pub parts: u32,
    /// Bytes that these cover in total; hidden bytes count as well.
    pub covered: u64,
    /// The end of the last of them in the chunk.
    pub end: u64,
}

impl ChunkInMemory<'_> {
    /// The state of a chunk that is this entry.
    fn state(&self) -> ChunkState {
        let EntryMeta { index, timestamp, .. } = self.head.meta;
        let (covered, end) = (u64::from(self.chunk.length), self.chunk.range().end);
        ChunkState { index, timestamp, stamp: self.chunk.stamp, parts: 1, covered, end }
    }
}

impl PartitionStore {
    /// A part of a key's chunk in place, piece by piece, as far as it was written, and the chunk's state, if
    /// one entry in memory has all of it: at the cost of one lookup. `None` means nothing about the chunk.
    pub(crate) fn chunk_at_once<'s, D: Disk>(
        &'s mut self,
        io: &'s mut Io<D>,
        key: &[u8],
        range: Range<u64>,
        see: impl FnMut(&'s [u8]),
    ) -> EngineResult<Option<(ChunkState, Option<ChecksumParts>)>> {
        let fragment = self.fragment(key);
        let found = self.find(io, fragment, key, UnreadableKey::IsError)?;
        let Some((_, location, _)) = found.filter(|(_, _, seen)| seen.form.is_chunk) else { return Ok(None) };
        let (known, position) = match location.decode() {
            EntryPlace::Entry(position) => (None, position),
            EntryPlace::Chain(id) => {
                let chain = self.readable_chain(id)?;
                let Some(state) = state_of(chain) else { return Ok(None) };
                let within = range.start..range.end.min(state.end);
                let part = chain.extents.as_ref().and_then(|extents| extents.single(&within));
                let Some(part) = part else { return Ok(None) };
                let Some(position) = self.position_of(io, part)? else { return Err(self.missing(part)) };
                (Some(state), position)
            }
        };
        let Some(large) = io.logs.view(self.handle).chunk_in_memory(position) else { return Ok(None) };
        let state = known.unwrap_or_else(|| large.state());
        let end = range.end.min(state.end).max(range.start);
        let range = range.start..end;
        let summed = if end - range.start < SUMMED_BYTES_MIN { None } else { large.summed(&range) };
        large.visit_bytes(range, see);
        Ok(Some((state, summed)))
    }

    /// The state of a key's chunk; `None` if the key has no record, or one that is not a chunk.
    pub(crate) fn chunk_state<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        key: &[u8],
    ) -> EngineResult<Option<ChunkState>> {
        let fragment = self.fragment(key);
        let found = self.find(io, fragment, key, UnreadableKey::IsError)?;
        let Some((_, location, _)) = found.filter(|(_, _, seen)| seen.form.is_chunk) else {
            return Ok(None);
        };
        let id = match location.decode() {
            EntryPlace::Chain(id) => id,
            EntryPlace::Entry(position) => {
                let (log, scratch) = (io.logs.view(self.handle), &mut self.scratch);
                if let Some(large) = log.chunk_in_memory(position) {
                    return Ok(Some(large.state()));
                }
                let (meta, head) = log.visit_chunk(&mut io.disk, position, scratch, &mut |_, _| {})?;
                let (covered, end) = head.map_or((0, 0), |head| (u64::from(head.length), head.range().end));
                let stamp = head.map_or([0; 16], |head| head.stamp);
                let EntryMeta { index, timestamp, .. } = meta;
                return Ok(Some(ChunkState { index, timestamp, stamp, parts: 1, covered, end }));
            }
        };
        let chain = self.readable_chain(id)?;
        if let Some(state) = state_of(chain) {
            return Ok(Some(state));
        }
        let (parts, index, extents) = (chain.parts.len() as u32, chain.applied, chain.extents.as_deref());
        let mut unknown = Vec::new();
        let (mut covered, mut end) = (chain.units, extents.map_or(0, |extents| extents.end(&chain.parts)));
        let loose = extents.into_iter().flat_map(|extents| extents.unmerged(&chain.parts));
        unknown.extend(loose.filter(|(part, _)| part.units == COVERS_UNKNOWN).map(|(part, _)| part.index));
        let newest = newest_of(chain);
        // The entry may have been repaired since.
        for index in unknown {
            let entry = self.read_entry(io, index)?;
            let head = head_of(entry.head.meta.flags, entry.payload);
            let (length, its_end) = head.map_or((0, 0), |head| (u64::from(head.length), head.range().end));
            (covered, end) = (covered - u64::from(COVERS_UNKNOWN) + length, end.max(its_end));
        }
        let (timestamp, stamp) = match newest {
            Some(known) => known,
            None => {
                let entry = self.read_entry(io, index)?;
                let head = head_of(entry.head.meta.flags, entry.payload);
                (entry.head.meta.timestamp, head.map_or([0; 16], |head| head.stamp))
            }
        };
        Ok(Some(ChunkState { index, timestamp, stamp, parts, covered, end }))
    }

    /// Appends these bytes of a key's chunk to `out`: zeros where nothing was written. After an error `out` is as before.
    pub(crate) fn read_chunk<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        key: &[u8],
        range: Range<u64>,
        out: &mut Vec<u8>,
    ) -> EngineResult<()> {
        let begin = out.len();
        let read = self.append_chunk(io, key, range, out);
        if read.is_err() {
            out.truncate(begin);
        }
        read
    }

    fn append_chunk<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        key: &[u8],
        range: Range<u64>,
        out: &mut Vec<u8>,
    ) -> EngineResult<()> {
        let begin = out.len();
        let wanted_bytes = (range.end.saturating_sub(range.start)) as usize;
        let fragment = self.fragment(key);
        let found = self.find(io, fragment, key, UnreadableKey::IsError)?;
        let Some((_, location, _)) = found.filter(|(_, _, seen)| seen.form.is_chunk) else {
            out.resize(begin + wanted_bytes, 0);
            return Ok(());
        };
        if let EntryPlace::Entry(position) = location.decode()
            && let Some(large) = io.logs.view(self.handle).chunk_in_memory(position)
        {
            large.append(range, out);
            return Ok(());
        }
        out.resize(begin + wanted_bytes, 0);
        let id = match location.decode() {
            EntryPlace::Chain(id) => id,
            EntryPlace::Entry(position) => {
                let all = VisibleRun { begin: range.start, end: range.end.max(range.start), part: 0 };
                return self.overlay_runs(io, position, &[all], (range.start, &mut out[begin..]));
            }
        };
        let chain = self.readable_chain(id)?;
        let Some(extents) = &chain.extents else { return Ok(()) };
        let requested = extents.visible_runs(&chain.parts, &range).unwrap_or_else(|| {
            // In the order of the log: each part hides the bytes that it covers of earlier ones.
            let with_offsets = chain.parts.iter().zip(&extents.offsets);
            let touching = with_offsets.filter(|&(part, &offset)| Extents::touches(part, offset, &range));
            touching
                .map(|(part, _)| VisibleRun { begin: range.start, end: range.end, part: part.index })
                .collect()
        });
        for runs in requested.chunk_by(|a, b| a.part == b.part) {
            let index = runs[0].part;
            let Some(position) = self.position_of(io, index)? else { return Err(self.missing(index)) };
            self.overlay_runs(io, position, runs, (range.start, &mut out[begin..]))?;
        }
        Ok(())
    }

    /// Copies the part that an entry has of some runs of a chunk over them: `out` holds the chunk's bytes from `from` on.
    fn overlay_runs<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        position: Position,
        runs: &[VisibleRun],
        (from, out): (u64, &mut [u8]),
    ) -> EngineResult<()> {
        let place = |run: &VisibleRun| (run.begin - from) as usize..(run.end - from) as usize;
        let (log, scratch) = (io.logs.view(self.handle), &mut self.scratch);
        if let Some(large) = log.chunk_in_memory(position) {
            runs.iter().for_each(|run| large.overlay(&mut out[place(run)], run.begin));
            return Ok(());
        }
        let mut see = |covers: Range<u64>, bytes: &[u8]| {
            for run in runs {
                copy_bytes_over(&mut out[place(run)], run.begin, covers.clone(), bytes);
            }
        };
        log.visit_chunk(&mut io.disk, position, scratch, &mut see).map(drop)
    }

    /// A chunk of one entry, as the part that it becomes.
    pub(super) fn chunk_part<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        position: Position,
        seen: ChainPart,
    ) -> EngineResult<(ChainPart, Option<ChunkHead>)> {
        let (log, scratch) = (io.logs.view(self.handle), &mut self.scratch);
        if let Some(large) = log.chunk_in_memory(position) {
            return Ok((ChainPart { units: large.chunk.length, ..seen }, Some(large.chunk)));
        }
        match log.visit_chunk(&mut io.disk, position, scratch, &mut |_, _| {}) {
            Ok((_, head)) => {
                let units = head.map_or(COVERS_UNKNOWN, |head| head.length);
                Ok((ChainPart { units, ..seen }, head))
            }
            Err(EngineError::Corrupt { .. }) => Ok((ChainPart { units: COVERS_UNKNOWN, ..seen }, None)),
            Err(error) => Err(error),
        }
    }
}

/// The state of a chunk of several parts, if that is known without reading the log.
fn state_of(chain: &Chain) -> Option<ChunkState> {
    let extents = chain.extents.as_deref()?;
    let (timestamp, stamp) = newest_of(chain)?;
    if extents.has_unknown(&chain.parts) {
        return None;
    }
    let (parts, end) = (chain.parts.len() as u32, extents.end(&chain.parts));
    Some(ChunkState { index: chain.applied, timestamp, stamp, parts, covered: chain.units, end })
}

/// Timestamp and stamp of the entry that has changed it last, if they are known.
fn newest_of(chain: &Chain) -> Option<(u64, ChunkStamp)> {
    let stamp = chain.extents.as_ref().and_then(|extents| extents.stamp);
    chain.newest().map(|meta| meta.timestamp).zip(stamp)
}

fn head_of(flags: u8, payload: &[u8]) -> Option<ChunkHead> {
    ChunkHead::decode(split_trailer(flags, payload).0)
}
