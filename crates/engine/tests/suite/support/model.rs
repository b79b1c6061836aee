//! The expected contents of a partition: a list of entries, and the map that results from applying
//! them.

use std::collections::BTreeMap;
use std::rc::Rc;

use zerohop_engine::{
    CHUNK_HEAD_BYTES, ChunkHead, ChunkStamp, EntryKind, EntryMeta, FLAG_CHUNK, FLAG_LIST, TrimPoint,
};

/// An entry of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelEntry {
    pub meta: EntryMeta,
    pub key: Rc<[u8]>,
    pub payload: Rc<[u8]>,
}

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelValue {
    pub is_list: bool,
    /// Log index and payload of each part.
    pub parts: Vec<(u64, Rc<[u8]>)>,
    pub skipped: u64,
    /// Log index of the last entry that changed it.
    pub newest: u64,
    /// The contents, if it is a chunk.
    pub chunk: Option<Chunk>,
}

/// The contents of a chunk, byte by byte.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chunk {
    pub bytes: Vec<u8>,
    pub stamp: ChunkStamp,
}

impl ModelValue {
    /// Number of units, without those that are trimmed.
    pub fn units(&self) -> u64 {
        if self.chunk.is_some() {
            return 0;
        }
        let whole: u64 = self.parts.iter().map(|(_, payload)| units_of(self.is_list, payload)).sum();
        whole.saturating_sub(self.skipped)
    }

    /// The target of a trim of this many units; `None` if nothing is left.
    pub fn trim_point(&self, units: u64) -> Option<TrimPoint> {
        let mut skip = self.skipped + units;
        for (index, payload) in &self.parts {
            let here = units_of(self.is_list, payload);
            if skip < here {
                return Some(TrimPoint { part: *index, skip });
            }
            skip -= here;
        }
        None
    }
}

/// Units in one part: values of a list, or bytes.
pub fn units_of(is_list: bool, payload: &[u8]) -> u64 {
    if is_list {
        payload.first_chunk::<4>().map_or(0, |count| u64::from(u32::from_le_bytes(*count)))
    } else {
        payload.len() as u64
    }
}

impl Chunk {
    fn write(&mut self, payload: &[u8]) {
        let head = ChunkHead::decode(payload).expect("chunks are written with heads");
        let (begin, length) = (head.offset as usize, head.length as usize);
        if self.bytes.len() < begin + length {
            self.bytes.resize(begin + length, 0);
        }
        match &payload[CHUNK_HEAD_BYTES..] {
            [] => self.bytes[begin..begin + length].fill(0),
            data => self.bytes[begin..begin + length].copy_from_slice(data),
        }
        self.stamp = head.stamp;
    }
}

/// Removes the parts whose bytes are all hidden by later parts; the first part stays. An empty part
/// is removed if a later part covers its position.
fn hide(parts: &mut Vec<(u64, Rc<[u8]>)>) {
    let range = |payload: &[u8]| ChunkHead::decode(payload).expect("chunks are written with heads").range();
    let ranges: Vec<_> = parts.iter().map(|(_, payload)| range(payload)).collect();
    let is_hidden = |at: usize| {
        let (own, later) = (&ranges[at], &ranges[at + 1..]);
        match own.is_empty() {
            true => later.iter().any(|over| over.start <= own.start && own.end <= over.end),
            false => own.clone().all(|byte| later.iter().any(|over| over.contains(&byte))),
        }
    };
    let hidden: Vec<bool> = (0..parts.len()).map(|at| at > 0 && is_hidden(at)).collect();
    let mut hidden = hidden.iter();
    parts.retain(|_| hidden.next() == Some(&false));
}

/// All records of a partition.
pub type RecordsOfModel = BTreeMap<Rc<[u8]>, ModelValue>;

/// Applies one committed entry.
pub fn apply(records: &mut RecordsOfModel, entry: &ModelEntry) {
    let ModelEntry { meta, key, payload } = entry;
    let is_list = meta.flags & FLAG_LIST != 0;
    let is_chunk = meta.flags & FLAG_CHUNK != 0;
    let alone = || {
        let mut chunk = is_chunk.then(Chunk::default);
        chunk.iter_mut().for_each(|chunk| chunk.write(payload));
        ModelValue {
            is_list,
            parts: vec![(meta.index, payload.clone())],
            skipped: 0,
            newest: meta.index,
            chunk,
        }
    };
    match meta.kind {
        EntryKind::Put => {
            records.insert(key.clone(), alone());
        }
        EntryKind::Remove => {
            records.remove(key);
        }
        EntryKind::Append => match records.get_mut(key) {
            None => {
                records.insert(key.clone(), alone());
            }
            Some(ModelValue { chunk: Some(chunk), parts, newest, .. }) if is_chunk => {
                chunk.write(payload);
                parts.push((meta.index, payload.clone()));
                hide(parts);
                *newest = meta.index;
            }
            Some(value) if value.is_list == is_list && value.chunk.is_some() == is_chunk => {
                value.parts.push((meta.index, payload.clone()));
                value.newest = meta.index;
            }
            // Upper layers refuse this case.
            Some(_) => drop(records.insert(key.clone(), alone())),
        },
        EntryKind::Trim => {
            let value = records.get_mut(key).filter(|value| value.chunk.is_none());
            if let (Some(value), Some(to)) = (value, TrimPoint::decode(payload)) {
                value.parts.retain(|(index, _)| *index >= to.part);
                value.skipped = to.skip;
                value.newest = meta.index;
            }
        }
        _ => {}
    }
}

/// The records that result from the first entries of a log.
pub fn records_of<'a>(log: impl IntoIterator<Item = &'a ModelEntry>) -> RecordsOfModel {
    let mut records = RecordsOfModel::new();
    log.into_iter().for_each(|entry| apply(&mut records, entry));
    records
}
