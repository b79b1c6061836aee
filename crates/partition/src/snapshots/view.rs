//! Records as they were at a time: the engine's older versions, with their deadlines. Only committed data is read, and only at
//! times that are closed.

use std::collections::BTreeSet;

use zerohop_engine::disk::Disk;
use zerohop_engine::{
    ChunkHead, Engine, Handle, Parts, RecordBody, StoredRecord, copy_part_over, split_trailer,
};
use zerohop_wire::blob::{BlobStamp, header_key};
use zerohop_wire::ids::Timestamp;
use zerohop_wire::limits::{LIST_PAGE_VALUES_MAX, PAGE_BYTES_MAX};
use zerohop_wire::messages::{OperationAnswer, Outcome as WireOutcome, Query, Range, RecordRead, RecordType};
use zerohop_wire::{BadRequestReason, Elements, Failure};

use super::PastVersions;
use crate::operations::EngineResultExt;
use crate::operations::scan::{IndexPage, KeySource};
use crate::state::PartitionState;
use crate::view::Values;

/// The records of a partition as they were when a snapshot was opened.
pub struct PastView<'v, D> {
    pub(crate) engine: &'v mut Engine<D>,
    pub(crate) handle: Handle,
    pub(crate) state: &'v PartitionState,
    pub(crate) past: &'v PastVersions,
    pub(crate) at: Timestamp,
}

/// A record without its contents, or with them if they are in one entry.
enum RecordState {
    Whole(Vec<u8>),
    Parts(Parts),
}

impl<D: Disk> PastView<'_, D> {
    /// Hands the whole of a bytes record to `take`, once, and says what the record was.
    ///
    /// # Errors
    /// What the disk or the log says.
    pub fn lookup(
        &mut self,
        key: &[u8],
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<Option<RecordType>, Failure<'static>> {
        let deadline_ms = self.past.deadline(key, self.at, self.state);
        if deadline_ms.is_some_and(|deadline_ms| deadline_ms <= self.at.millis()) {
            // It had expired, and nobody had logged that yet.
            return Ok(None);
        }
        let Some(record) = self.engine.lookup_at(self.handle, key, self.at.0).or_fail()? else {
            return Ok(None);
        };
        let kind = type_of(&record);
        if kind != RecordType::Bytes {
            return Ok(Some(kind));
        }
        match record.body {
            RecordBody::SingleEntry(bytes) => take(bytes),
            RecordBody::Parts(parts) => {
                let (was, mut bytes) = (RecordState::Parts(parts), Vec::new());
                self.each_part(&was, &mut |body, skip| {
                    bytes.extend_from_slice(body.get(skip..).unwrap_or(&[]));
                })?;
                take(&bytes);
            }
        }
        Ok(Some(kind))
    }

    /// Hands a range of the values of a list to `each`, in their order, for as long as that says true. The list is known to have
    /// had them.
    ///
    /// # Errors
    /// What the disk or the log says.
    pub fn values(
        &mut self,
        key: &[u8],
        range: std::ops::Range<u64>,
        each: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<(), Failure<'static>> {
        let mut left = range.end.saturating_sub(range.start);
        let found = self.engine.parts_of_at(self.handle, key, self.at.0, range).or_fail()?;
        let mut skip = found.skip as usize;
        for part in &found.parts {
            let entry = self.engine.read_entry(self.handle, part.index).or_fail()?;
            let (body, _) = split_trailer(entry.head.meta.flags, entry.payload);
            let values = Values(body.get(4..).unwrap_or(&[]));
            for value in values.skip(std::mem::take(&mut skip)).take(left as usize) {
                left -= 1;
                if !each(value.get(4..).unwrap_or(&[])) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Answers a read. `out` is empty, and holds what the answer borrows.
    pub(crate) fn answer<'o>(&mut self, read: &RecordRead<'_>, out: &'o mut Vec<u8>) -> OperationAnswer<'o> {
        let found = self.engine.lookup_at(self.handle, read.key, self.at.0).or_fail()?;
        let Some(record) = found else { return Err(Failure::NotFound) };
        let (version, kind) = (Timestamp(record.timestamp), type_of(&record));
        let was = match record.body {
            RecordBody::SingleEntry(bytes) => RecordState::Whole(bytes.to_vec()),
            RecordBody::Parts(parts) => RecordState::Parts(parts),
        };
        match read.query {
            Query::Inspect => {
                let length = match kind {
                    RecordType::Chunk => self.end_of(&was)?,
                    _ => units_of(&was, kind),
                };
                let expires_at_ms = self.past.deadline(read.key, self.at, self.state);
                Ok(WireOutcome::Info { version, record: kind, length, expires_at_ms })
            }
            Query::Lookup => self.contents(read.key, (&was, kind, version), Range::ALL, out),
            Query::LookupRange { range } => self.contents(read.key, (&was, kind, version), range, out),
            Query::ReadChunk { offset, length } => {
                if kind != RecordType::Chunk {
                    return Err(Failure::WrongType { found: kind });
                }
                self.chunk(&was, version, (offset, length), out)
            }
            _ => Err(BadRequestReason::SnapshotQuery.into()),
        }
    }

    fn contents<'o>(
        &mut self,
        key: &[u8],
        (was, kind, version): (&RecordState, RecordType, Timestamp),
        range: Range,
        out: &'o mut Vec<u8>,
    ) -> OperationAnswer<'o> {
        let length = units_of(was, kind);
        let part = range.clip(length);
        match kind {
            RecordType::Chunk => Err(Failure::WrongType { found: kind }),
            RecordType::Bytes => {
                let mut place = 0;
                self.each_part(was, &mut |body, skip| {
                    let body = body.get(skip..).unwrap_or(&[]);
                    let (from, until) = (place, place + body.len() as u64);
                    place = until;
                    let (begin, end) = (part.start.max(from), part.end.min(until));
                    if begin < end {
                        out.extend_from_slice(&body[(begin - from) as usize..(end - from) as usize]);
                    }
                })?;
                Ok(WireOutcome::Value { version, length, bytes: out })
            }
            RecordType::List => {
                let (mut count, first) = (0, part.start);
                let end = part.end.min(first.saturating_add(u64::from(LIST_PAGE_VALUES_MAX)));
                self.values(key, first..end, &mut |value| {
                    let bytes = out.len() + 4 + value.len();
                    let has_room = count == 0 || bytes <= PAGE_BYTES_MAX;
                    if has_room {
                        out.extend_from_slice(&(value.len() as u32).to_le_bytes());
                        out.extend_from_slice(value);
                        count += 1;
                    }
                    has_room
                })?;
                Ok(WireOutcome::List { version, length, first, values: Elements::packed(count, out)? })
            }
        }
    }

    /// A part of a chunk: its writes laid over one another, in order.
    fn chunk<'o>(
        &mut self,
        was: &RecordState,
        version: Timestamp,
        (offset, length): (u32, u32),
        out: &'o mut Vec<u8>,
    ) -> OperationAnswer<'o> {
        let begin = u64::from(offset);
        out.resize(length as usize, 0);
        let (mut end, mut stamp) = (0, [0; 16]);
        self.each_part(was, &mut |body, _| {
            copy_part_over(out, begin, body);
            if let Some(head) = ChunkHead::decode(body) {
                (end, stamp) = (end.max(head.range().end), head.stamp);
            }
        })?;
        out.truncate(end.saturating_sub(begin) as usize);
        Ok(WireOutcome::Chunk { version, stamp: BlobStamp::decode(&stamp), bytes: out })
    }

    /// Where a chunk's last write ends.
    fn end_of(&mut self, was: &RecordState) -> Result<u64, Failure<'static>> {
        let mut end = 0;
        self.each_part(was, &mut |body, _| {
            end = end.max(ChunkHead::decode(body).map_or(0, |head| head.range().end));
        })?;
        Ok(end)
    }

    /// Passes the body of each part, and the number of leading bytes to skip.
    fn each_part(
        &mut self,
        was: &RecordState,
        each: &mut dyn FnMut(&[u8], usize),
    ) -> Result<(), Failure<'static>> {
        match was {
            RecordState::Whole(bytes) => each(bytes, 0),
            RecordState::Parts(parts) => {
                let mut skip = parts.skipped as usize;
                for part in &parts.parts {
                    let entry = self.engine.read_entry(self.handle, part.index).or_fail()?;
                    let (body, _) = split_trailer(entry.head.meta.flags, entry.payload);
                    each(body, std::mem::take(&mut skip));
                }
            }
        }
        Ok(())
    }

    /// Names of blobs that may have existed: the present ones, and those removed since, in order.
    pub(crate) fn names(&self, prefix: &[u8], after: &[u8]) -> Vec<Vec<u8>> {
        let now = self.state.names.behind(prefix, after);
        let gone = self.past.names(prefix, after, self.at);
        let all: BTreeSet<&[u8]> = now.chain(gone).collect();
        all.into_iter().map(<[u8]>::to_vec).collect()
    }

    /// The header that a blob had.
    pub(crate) fn header(
        &mut self,
        name: &[u8],
    ) -> Result<Option<(RecordType, Timestamp)>, Failure<'static>> {
        let key = header_key(name)?;
        self.record_meta(&key)
    }
}

impl<D: Disk> KeySource for PastView<'_, D> {
    fn page(&mut self, from: u32) -> Result<IndexPage, Failure<'static>> {
        let (keys, next) = self.engine.scan_at(self.handle, from, self.at.0).or_fail()?;
        let mut found = Vec::with_capacity(keys.len());
        for key in keys {
            found.push((self.engine.fragment_of(self.handle, &key).or_fail()?, key));
        }
        Ok((found, next))
    }

    fn record_meta(&mut self, key: &[u8]) -> Result<Option<(RecordType, Timestamp)>, Failure<'static>> {
        let record = self.engine.lookup_at(self.handle, key, self.at.0).or_fail()?;
        Ok(record.map(|record| (type_of(&record), Timestamp(record.timestamp))))
    }
}

fn type_of(record: &StoredRecord<'_>) -> RecordType {
    match (record.is_list, record.is_chunk) {
        (true, _) => RecordType::List,
        (_, true) => RecordType::Chunk,
        _ => RecordType::Bytes,
    }
}

fn units_of(was: &RecordState, kind: RecordType) -> u64 {
    match was {
        RecordState::Parts(parts) => parts.units,
        RecordState::Whole(bytes) if kind == RecordType::List => {
            bytes.first_chunk::<4>().map_or(0, |count| u64::from(u32::from_le_bytes(*count)))
        }
        RecordState::Whole(bytes) => bytes.len() as u64,
    }
}
