//! Records as they were at a time: the engine's older versions, with their deadlines. Only committed data is read, and only at
//! times that are closed.

use std::collections::BTreeSet;

use zerohop_engine::disk::Disk;
use zerohop_engine::{ChunkHead, Engine, Handle, Parts, RecordBody, StoredRecord, lay_over, split_trailer};
use zerohop_wire::blob::{BlobStamp, header_key};
use zerohop_wire::ids::Timestamp;
use zerohop_wire::limits::{LIST_PAGE_VALUES_MAX, PAGE_BYTES_MAX};
use zerohop_wire::messages::{OperationAnswer, Outcome as Brought, Query, Range, RecordRead, RecordType};
use zerohop_wire::{Elements, Failure, What};

use super::PastVersions;
use crate::operations::EngineResultExt;
use crate::operations::scan::{IndexPage, KeySource};
use crate::state::PartitionState;
use crate::view::Values;

/// The records of a partition at a time; see the module.
pub(crate) struct PastView<'v, D> {
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
    /// Answers a read. `out` is empty, and stores the contents that the answer borrows.
    pub(crate) fn answer<'o>(&mut self, read: &RecordRead<'_>, out: &'o mut Vec<u8>) -> OperationAnswer<'o> {
        let found = self.engine.lookup_at(self.handle, read.key, self.at.0).or_fail()?;
        let Some(record) = found else { return Err(Failure::NotFound) };
        let (version, kind) = (Timestamp(record.timestamp), type_of(&record));
        let was = match record.body {
            RecordBody::Whole(bytes) => RecordState::Whole(bytes.to_vec()),
            RecordBody::Parts(parts) => RecordState::Parts(parts),
        };
        match read.query {
            Query::Inspect => {
                let length = match kind {
                    RecordType::Chunk => self.end_of(&was)?,
                    _ => units_of(&was, kind),
                };
                let expires_at_ms = self.past.deadline(read.key, self.at, self.state);
                Ok(Brought::Info { version, record: kind, length, expires_at_ms })
            }
            Query::Lookup => self.contents((&was, kind, version), Range::ALL, out),
            Query::LookupRange { range } => self.contents((&was, kind, version), range, out),
            Query::ReadChunk { offset, length } => {
                if kind != RecordType::Chunk {
                    return Err(Failure::WrongType { found: kind });
                }
                self.chunk(&was, version, (offset, length), out)
            }
            _ => Err(What::SnapshotQuery.into()),
        }
    }

    fn contents<'o>(
        &mut self,
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
                Ok(Brought::Value { version, length, bytes: out })
            }
            RecordType::List => {
                let (mut place, mut count, mut is_full) = (0, 0, false);
                self.each_part(was, &mut |body, skip| {
                    for value in Values(body.get(4..).unwrap_or(&[])).skip(skip) {
                        let is_wanted = part.contains(&place);
                        place += 1;
                        if !is_wanted || is_full {
                            continue;
                        }
                        is_full = count == LIST_PAGE_VALUES_MAX
                            || count > 0 && out.len() + value.len() > PAGE_BYTES_MAX;
                        if !is_full {
                            out.extend_from_slice(value);
                            count += 1;
                        }
                    }
                })?;
                Ok(Brought::List {
                    version,
                    length,
                    first: part.start,
                    values: Elements::packed(count, out)?,
                })
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
            lay_over(out, begin, body);
            if let Some(head) = ChunkHead::decode(body) {
                (end, stamp) = (end.max(head.range().end), head.stamp);
            }
        })?;
        out.truncate(end.saturating_sub(begin) as usize);
        Ok(Brought::Chunk { version, stamp: BlobStamp::decode(&stamp), bytes: out })
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
        self.look(&key)
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

    fn look(&mut self, key: &[u8]) -> Result<Option<(RecordType, Timestamp)>, Failure<'static>> {
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
