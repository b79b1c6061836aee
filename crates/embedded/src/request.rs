//! Requests to a worker, and its answers.

use std::sync::mpsc::SyncSender;

use zerohop_engine::{Cursor, Damage};

use super::error::StoreError;
use super::report::StoreStats;

/// An operation and the channel for its answer.
#[derive(Debug)]
pub(super) struct StoreRequest {
    pub(super) operation: StoreOperation,
    /// Has room for one answer, so that sending it never blocks.
    pub(super) reply: SyncSender<StoreAnswer>,
}

/// The answer of a worker.
pub(super) type StoreAnswer = Result<StoreOutcome, StoreError>;

/// One operation.
#[derive(Debug)]
pub(super) enum StoreOperation {
    Insert(KeyValue),
    InsertMany(Vec<KeyValue>),
    Extend(KeyValue),
    Append(KeyValue),
    Remove(StoreKey),
    Lookup(StoreKey),
    Values(StoreKey),
    /// The keys of some pages of the index of this worker's partitions, from a position on.
    Keys(WalkPosition),
    /// A page of a range of the keys of an ordered store.
    Range(RangeRequest),
    /// Makes all earlier writes durable.
    Sync,
    Stats,
    Damage,
    Close,
    /// Causes a fault of the worker.
    #[cfg(test)]
    Panic,
}

/// A key, and its partition.
#[derive(Debug)]
pub(super) struct StoreKey {
    pub(super) partition: u32,
    pub(super) key: Vec<u8>,
}

/// A key and its value.
#[derive(Debug)]
pub(super) struct KeyValue {
    pub(super) key: StoreKey,
    pub(super) value: Vec<u8>,
}

/// A position in the iteration over one worker's keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WalkPosition {
    pub(super) partition: u32,
    pub(super) cursor: Cursor,
}

/// A record of a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreRecord {
    /// Its key.
    pub key: Vec<u8>,
    /// Its bytes, if the range is one with values and the record is no list.
    pub value: Option<Vec<u8>>,
    /// Whether the record is a list.
    pub is_list: bool,
}

impl StoreRecord {
    /// Number of bytes of its key and value.
    pub(super) fn bytes(&self) -> usize {
        self.key.len() + self.value.as_ref().map_or(0, Vec::len)
    }
}

/// A page of a range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RangeRequest {
    pub(super) from: Vec<u8>,
    /// The first key above the range; `None`: the end of the keys.
    pub(super) to: Option<Vec<u8>>,
    pub(super) prefix: Vec<u8>,
    pub(super) reverse: bool,
    pub(super) values: bool,
    /// From the page before; empty for the first one.
    pub(super) cursor: Vec<u8>,
}

/// The result of an operation.
#[derive(Debug)]
pub(super) enum StoreOutcome {
    Done,
    Removed(bool),
    Found(Option<Vec<u8>>),
    Values(Option<Vec<Vec<u8>>>),
    Keys {
        keys: Vec<Vec<u8>>,
        next: Option<WalkPosition>,
    },
    /// `next` is the cursor of the next page; empty: there is none.
    Range {
        records: Vec<StoreRecord>,
        next: Vec<u8>,
    },
    Stats(StoreStats),
    Damage(Vec<Damage>),
}

impl StoreOperation {
    /// Whether it must be durable before it is answered.
    pub(super) fn writes(&self) -> bool {
        match self {
            StoreOperation::Insert(_)
            | StoreOperation::InsertMany(_)
            | StoreOperation::Extend(_)
            | StoreOperation::Append(_)
            | StoreOperation::Remove(_) => true,
            StoreOperation::Lookup(_)
            | StoreOperation::Values(_)
            | StoreOperation::Keys(_)
            | StoreOperation::Range(_)
            | StoreOperation::Sync
            | StoreOperation::Stats
            | StoreOperation::Damage
            | StoreOperation::Close => false,
            #[cfg(test)]
            StoreOperation::Panic => false,
        }
    }

    /// The key of an operation on a single record.
    pub(super) fn key(&self) -> Option<&StoreKey> {
        match self {
            StoreOperation::Insert(record)
            | StoreOperation::Extend(record)
            | StoreOperation::Append(record) => Some(&record.key),
            StoreOperation::Remove(key) | StoreOperation::Lookup(key) | StoreOperation::Values(key) => {
                Some(key)
            }
            _ => None,
        }
    }

    /// Number of bytes of its keys and values.
    pub(super) fn bytes(&self) -> usize {
        match self {
            StoreOperation::Insert(record)
            | StoreOperation::Extend(record)
            | StoreOperation::Append(record) => record.bytes(),
            StoreOperation::InsertMany(records) => records.iter().map(KeyValue::bytes).sum(),
            StoreOperation::Remove(key) | StoreOperation::Lookup(key) | StoreOperation::Values(key) => {
                key.key.len()
            }
            _ => 0,
        }
    }
}

impl KeyValue {
    pub(super) fn bytes(&self) -> usize {
        self.key.key.len() + self.value.len()
    }
}

impl StoreOutcome {
    /// Number of bytes of its key and value.
    pub(super) fn bytes(&self) -> usize {
        match self {
            StoreOutcome::Found(Some(value)) => value.len(),
            StoreOutcome::Values(Some(values)) => values.iter().map(Vec::len).sum(),
            StoreOutcome::Keys { keys, .. } => keys.iter().map(Vec::len).sum(),
            StoreOutcome::Range { records, .. } => records.iter().map(StoreRecord::bytes).sum(),
            _ => 0,
        }
    }
}
