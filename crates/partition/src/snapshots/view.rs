//! Records as they were at a time: the engine's older versions, with their deadlines. Only committed data is read, and only at
//! times that are closed.

use std::collections::BTreeSet;
use std::ops::Range;

use zerohop_engine::disk::Disk;
use zerohop_engine::{
    ChunkHead, Cursor, Engine, Handle, KeyRange, KeysOfRange, Parts, RecordBody, StoredRecord,
    copy_part_over, split_trailer,
};
use zerohop_record::state::ReadableRecord;
use zerohop_wire::blob::{BlobStamp, header_key};
use zerohop_wire::ids::Timestamp;
use zerohop_wire::messages::{OperationAnswer, RecordRead, RecordType};
use zerohop_wire::{BadRequestReason, Failure};

use super::PastVersions;
use crate::operations::EngineResultExt;
use crate::operations::range::{OrderedKeys, RecordInRange, describe};
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

/// The contents of a record, or their places.
enum PastContents {
    /// The bodies of its entries, those of a chunk in their order.
    Bodies(Vec<Vec<u8>>),
    Parts(Parts),
}

/// A record as it was.
struct PastRecord<'p, 'v, D> {
    view: &'p mut PastView<'v, D>,
    key: &'p [u8],
    record: RecordType,
    version: Timestamp,
    length: u64,
    stamp: Option<BlobStamp>,
    contents: PastContents,
}

impl<'v, D: Disk> PastView<'v, D> {
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
            // It had expired, and that was not logged yet.
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
                let mut bytes = Vec::new();
                self.each_part(&parts, &mut |body, skip| {
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
        range: Range<u64>,
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

    /// Whether the partition keeps the order of its keys.
    pub(crate) fn is_ordered(&mut self) -> bool {
        self.engine.key_order(self.handle).is_ok_and(|order| order.is_kept())
    }

    /// Answers a read. `out` is empty, and holds what the answer borrows.
    pub(crate) fn answer<'o>(&mut self, read: &RecordRead<'_>, out: &'o mut Vec<u8>) -> OperationAnswer<'o> {
        if !read.query.is_in_snapshots() {
            return Err(BadRequestReason::SnapshotQuery.into());
        }
        match self.find(read.key)? {
            Some(mut record) => read.answer(&mut record, out),
            None => Err(Failure::NotFound),
        }
    }

    fn find<'p>(&'p mut self, key: &'p [u8]) -> Result<Option<PastRecord<'p, 'v, D>>, Failure<'static>> {
        let Some(found) = self.engine.lookup_at(self.handle, key, self.at.0).or_fail()? else {
            return Ok(None);
        };
        let (version, record) = (Timestamp(found.timestamp), type_of(&found));
        let (mut length, mut contents) = match found.body {
            RecordBody::Parts(parts) => (parts.units, PastContents::Parts(parts)),
            RecordBody::SingleEntry(body) => {
                let count = body.first_chunk::<4>().filter(|_| record == RecordType::List);
                let length = count.map_or(body.len() as u64, |count| u32::from_le_bytes(*count).into());
                (length, PastContents::Bodies(vec![body.to_vec()]))
            }
        };
        let mut stamp = None;
        if record == RecordType::Chunk {
            // Only its entries say what a chunk is, so they are read once and kept.
            let mut bodies = Vec::new();
            match contents {
                PastContents::Bodies(all) => bodies = all,
                PastContents::Parts(parts) => {
                    self.each_part(&parts, &mut |body, _| bodies.push(body.to_vec()))?
                }
            }
            let heads = || bodies.iter().filter_map(|body| ChunkHead::decode(body));
            length = heads().map(|head| head.range().end).max().unwrap_or(0);
            stamp = Some(heads().next_back().map(|head| BlobStamp::decode(&head.stamp)).unwrap_or_default());
            contents = PastContents::Bodies(bodies);
        }
        Ok(Some(PastRecord { view: self, key, record, version, length, stamp, contents }))
    }

    /// Passes the body of each part, and the number of leading bytes to skip.
    fn each_part(
        &mut self,
        parts: &Parts,
        each: &mut dyn FnMut(&[u8], usize),
    ) -> Result<(), Failure<'static>> {
        let mut skip = parts.skipped as usize;
        for part in &parts.parts {
            let entry = self.engine.read_entry(self.handle, part.index).or_fail()?;
            let (body, _) = split_trailer(entry.head.meta.flags, entry.payload);
            each(body, std::mem::take(&mut skip));
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

impl<D: Disk> ReadableRecord for PastRecord<'_, '_, D> {
    fn record_type(&self) -> Option<RecordType> {
        Some(self.record)
    }

    fn version(&self) -> Timestamp {
        self.version
    }

    fn length(&self) -> u64 {
        self.length
    }

    fn deadline(&self) -> Option<u64> {
        self.view.past.deadline(self.key, self.view.at, self.view.state)
    }

    fn stamp(&self) -> Option<BlobStamp> {
        self.stamp
    }

    fn read_bytes(&mut self, range: Range<u64>, out: &mut Vec<u8>) -> Result<(), Failure<'static>> {
        let mut place = 0;
        let mut add = |body: &[u8], skip: usize| {
            let body = body.get(skip..).unwrap_or(&[]);
            let (from, until) = (place, place + body.len() as u64);
            place = until;
            let (begin, end) = (range.start.max(from), range.end.min(until));
            if begin < end {
                out.extend_from_slice(&body[(begin - from) as usize..(end - from) as usize]);
            }
        };
        match &self.contents {
            PastContents::Bodies(bodies) if self.record == RecordType::Chunk => {
                // The writes of a chunk lie over one another.
                out.resize((range.end - range.start) as usize, 0);
                bodies.iter().for_each(|body| copy_part_over(out, range.start, body));
                Ok(())
            }
            PastContents::Bodies(bodies) => {
                bodies.iter().for_each(|body| add(body, 0));
                Ok(())
            }
            PastContents::Parts(parts) => self.view.each_part(parts, &mut add),
        }
    }

    fn read_values(
        &mut self,
        values: Range<u64>,
        (count_max, bytes_max): (u32, usize),
        out: &mut Vec<u8>,
    ) -> Result<u32, Failure<'static>> {
        let (mut count, begin) = (0, out.len());
        let end = values.end.min(values.start.saturating_add(count_max.into()));
        self.view.values(self.key, values.start..end, &mut |value| {
            let bytes = out.len() - begin + 4 + value.len();
            let has_room = count == 0 || bytes <= bytes_max;
            if has_room {
                out.extend_from_slice(&(value.len() as u32).to_le_bytes());
                out.extend_from_slice(value);
                count += 1;
            }
            has_room
        })?;
        Ok(count)
    }
}

impl<D: Disk> KeySource for PastView<'_, D> {
    fn page(&mut self, from: &Cursor) -> Result<IndexPage, Failure<'static>> {
        self.engine.scan_at(self.handle, from, self.at.0).or_fail()
    }

    fn cursor_behind(&mut self, key: &[u8]) -> Result<Cursor, Failure<'static>> {
        self.engine.cursor_behind(self.handle, key).or_fail()
    }

    fn record_meta(&mut self, key: &[u8]) -> Result<Option<(RecordType, Timestamp)>, Failure<'static>> {
        let record = self.engine.lookup_at(self.handle, key, self.at.0).or_fail()?;
        Ok(record.map(|record| (type_of(&record), Timestamp(record.timestamp))))
    }
}

impl<D: Disk> OrderedKeys for PastView<'_, D> {
    fn keys(&mut self, range: KeyRange<'_>, most: usize) -> Result<KeysOfRange, Failure<'static>> {
        self.engine.key_order(self.handle).or_fail()?.keys(range, most, Some(self.at.0)).or_fail()
    }

    fn record(
        &mut self,
        key: &[u8],
        value: Option<&mut Vec<u8>>,
    ) -> Result<Option<RecordInRange>, Failure<'static>> {
        let now_ms = self.at.millis();
        match self.find(key)? {
            Some(mut record) => describe(&mut record, now_ms, value),
            None => Ok(None),
        }
    }
}

fn type_of(record: &StoredRecord<'_>) -> RecordType {
    match (record.is_list, record.is_chunk) {
        (true, _) => RecordType::List,
        (_, true) => RecordType::Chunk,
        _ => RecordType::Bytes,
    }
}
