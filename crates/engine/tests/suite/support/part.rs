//! One partition of the world: its history, and its expected contents.

use std::collections::BTreeSet;
use std::rc::Rc;

use zerohop_engine::{
    Durability, EngineResult, EntryKind, EntryMeta, Handle, Hint, PartitionId, SegmentFile, copy_part_over,
};

use super::TestEngine as Engine;
use super::model::{ModelEntry, RecordsOfModel, apply, records_of, units_of};

/// A partition with its model.
#[derive(Clone)]
pub struct ModelledPartition {
    pub id: PartitionId,
    pub handle: Handle,
    pub durability: Durability,
    pub index_seed: u64,
    /// Whether entries come with epochs and are committed later, as in a replica group; otherwise
    /// each is committed at once.
    pub is_group: bool,
    pub log: Vec<ModelEntry>,
    pub commit: u64,
    pub records: RecordsOfModel,
    /// The log index up to which operations succeeded.
    pub accepted: u64,
    /// The log index that must survive a crash.
    pub floor: u64,
    pub epoch: u32,
    /// All epochs so far.
    pub epochs: BTreeSet<u32>,
    pub timestamp: u64,
    /// The horizon, above which versions are kept, and the timestamp from which on they were kept.
    pub horizon: Option<(u64, u64)>,
    pub pinned: Vec<Vec<SegmentFile>>,
    /// A truncation failed in the middle: nothing more is done until the partition is opened again.
    pub is_unsure: bool,
    /// A removal of the whole partition failed in the middle.
    pub is_dropping: bool,
    /// An earlier location of a key.
    pub hint: Option<(Box<[u8]>, Hint)>,
    /// A split failed: the next opening shows whether it has taken effect.
    pub splitting: Option<[PartitionId; 2]>,
}

impl ModelledPartition {
    pub fn new(id: PartitionId, handle: Handle, durability: Durability, is_group: bool) -> ModelledPartition {
        ModelledPartition {
            id,
            handle,
            durability,
            index_seed: id.0 * 7,
            is_group,
            log: Vec::new(),
            commit: 0,
            records: RecordsOfModel::new(),
            accepted: 0,
            floor: 0,
            epoch: 1,
            epochs: [1].into(),
            timestamp: 1,
            horizon: None,
            pinned: Vec::new(),
            is_unsure: false,
            is_dropping: false,
            hint: None,
            splitting: None,
        }
    }

    pub fn last(&self) -> u64 {
        self.log.len() as u64
    }

    /// The last index at or before this one that does not divide an atomic batch.
    pub fn batch_boundary_at(&self, index: u64) -> u64 {
        let upto = &self.log[..index.min(self.last()) as usize];
        upto.iter().rposition(|entry| !entry.meta.is_joined()).map_or(0, |at| at as u64 + 1)
    }

    pub fn last_epoch(&self) -> u32 {
        self.log.last().map_or(0, |entry| entry.meta.epoch)
    }

    /// The next entry.
    pub fn next(&self, kind: EntryKind, flags: u8, key: Rc<[u8]>, payload: Vec<u8>) -> ModelEntry {
        let epoch = if self.is_group { self.epoch.max(self.last_epoch()) } else { self.last_epoch().max(1) };
        let meta = EntryMeta { kind, flags, epoch, index: self.last() + 1, timestamp: self.timestamp };
        ModelEntry { meta, key, payload: payload.into() }
    }

    /// Another primary numbers the next entries. With `lower`, its epoch is below those of the
    /// removed entries, if possible: the new primary has entries of an older epoch.
    pub fn begin_epoch(&mut self, lower: bool) {
        let last = self.last_epoch();
        let highest = self.epochs.last().copied().unwrap_or(0);
        let unused = (last + 1..highest).find(|epoch| !self.epochs.contains(epoch));
        self.epoch = unused.filter(|_| lower).unwrap_or(highest + 2);
        self.epochs.insert(self.epoch);
    }

    /// Applies the entries that are committed now.
    pub fn commit_to(&mut self, index: u64) {
        self.stopped_at(self.batch_boundary_at(index));
    }

    /// Applies the entries that are committed now; after a disk failure they may end inside an
    /// atomic batch.
    pub fn stopped_at(&mut self, index: u64) {
        for at in self.commit..index.min(self.last()) {
            apply(&mut self.records, &self.log[at as usize]);
        }
        self.commit = self.commit.max(index.min(self.last()));
    }

    /// The log is cut after `last`, and only the entries up to `commit` are known to be committed.
    pub fn restart_at(&mut self, last: u64, commit: u64) {
        self.log.truncate(last as usize);
        self.commit = commit;
        self.records = records_of(&self.log[..commit as usize]);
        (self.accepted, self.floor) = (last, last);
        self.horizon = None;
        self.pinned.clear();
        self.is_unsure = false;
        self.hint = None;
    }

    /// The length of an entry in bytes.
    pub fn entry_bytes(entry: &ModelEntry) -> u64 {
        28 + (entry.key.len() + entry.payload.len()) as u64
    }

    /// Bytes of the entries that the records consist of.
    pub fn live_bytes(&self) -> u64 {
        let parts = self.records.values().flat_map(|value| &value.parts);
        let live: u64 =
            parts.map(|(index, _)| ModelledPartition::entry_bytes(&self.log[*index as usize - 1])).sum();
        let uncommitted: u64 =
            self.log[self.commit as usize..].iter().map(ModelledPartition::entry_bytes).sum();
        live + uncommitted
    }
}

/// Chunks are written within this many bytes.
pub const CHUNK_SPACE: usize = 160 << 10;

/// A record as the engine gives it, read whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadRecord {
    pub is_list: bool,
    pub flags: u8,
    pub index: u64,
    pub epoch: u32,
    pub timestamp: u64,
    pub parts: Vec<Vec<u8>>,
    pub skipped: u64,
    pub units: u64,
    /// The contents of a chunk, from its beginning.
    pub chunk: Option<Vec<u8>>,
}

/// Reads a record with all its parts.
pub fn read(
    engine: &mut Engine,
    handle: Handle,
    key: &[u8],
    at: Option<u64>,
) -> EngineResult<Option<ReadRecord>> {
    let record = match at {
        None => engine.lookup(handle, key)?,
        Some(at) => engine.lookup_at(handle, key, at)?,
    };
    let Some(record) = record else { return Ok(None) };
    let (is_list, flags) = (record.is_list, record.flags);
    let mut got = ReadRecord {
        is_list,
        flags,
        index: record.index,
        epoch: record.epoch,
        timestamp: record.timestamp,
        parts: Vec::new(),
        skipped: 0,
        units: 0,
        chunk: None,
    };
    if record.is_chunk {
        let indexes: Vec<u64> = match &record.body {
            zerohop_engine::RecordBody::SingleEntry(payload) => {
                let mut bytes = vec![0; CHUNK_SPACE];
                copy_part_over(&mut bytes, 0, payload);
                got.chunk = Some(bytes);
                Vec::new()
            }
            zerohop_engine::RecordBody::Parts(parts) => parts.parts.iter().map(|part| part.index).collect(),
        };
        if let (None, Some(at)) = (&got.chunk, at) {
            let mut bytes = vec![0; CHUNK_SPACE];
            for index in indexes {
                copy_part_over(&mut bytes, 0, engine.read_entry(handle, index)?.payload);
            }
            got.chunk = Some(bytes);
            assert!(at > 0 || got.index > 0, "it was there");
        } else if at.is_none() {
            let mut bytes = Vec::new();
            engine.read_chunk(handle, key, 0..CHUNK_SPACE as u64, &mut bytes)?;
            got.chunk = Some(bytes);
        }
        return Ok(Some(got));
    }
    match record.body {
        zerohop_engine::RecordBody::SingleEntry(payload) => {
            got.units = units_of(is_list, payload);
            got.parts.push(payload.to_vec());
        }
        zerohop_engine::RecordBody::Parts(parts) => {
            (got.skipped, got.units) = (parts.skipped, parts.units);
            for part in parts.parts {
                got.parts.push(engine.read_entry(handle, part.index)?.payload.to_vec());
            }
        }
    }
    Ok(Some(got))
}
