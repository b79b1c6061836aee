//! What callers send to a worker, and what it answers.

use std::sync::mpsc::SyncSender;

use zerohop_engine::Damage;

use super::error::StoreError;
use super::report::StoreStats;

/// An operation and where its answer goes.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) operation: Operation,
    /// Holds one answer, so that sending it never waits.
    pub(super) reply: SyncSender<Answer>,
}

/// What a worker sends back.
pub(super) type Answer = Result<Outcome, StoreError>;

/// One operation.
#[derive(Debug)]
pub(super) enum Operation {
    Insert(KeyValue),
    InsertMany(Vec<KeyValue>),
    Append(KeyValue),
    Push(KeyValue),
    Remove(Key),
    Lookup(Key),
    Values(Key),
    /// The keys of some pages of the index of this worker's partitions, from a place on.
    Keys(Place),
    /// Everything so far survives a crash.
    Sync,
    Stats,
    Damage,
    Close,
    /// A fault of the worker itself.
    #[cfg(test)]
    Panic,
}

/// A key, and the partition that holds it.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) partition: u32,
    pub(super) key: Vec<u8>,
}

/// A key and what is stored under it.
#[derive(Debug)]
pub(super) struct KeyValue {
    pub(super) key: Key,
    pub(super) value: Vec<u8>,
}

/// A place in the walk over one worker's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) partition: u32,
    pub(super) cursor: u32,
}

/// What became of an operation.
#[derive(Debug)]
pub(super) enum Outcome {
    Done,
    Removed(bool),
    Found(Option<Vec<u8>>),
    Values(Option<Vec<Vec<u8>>>),
    Keys { keys: Vec<Vec<u8>>, next: Option<Place> },
    Stats(StoreStats),
    Damage(Vec<Damage>),
}

impl Operation {
    /// Whether it must survive a crash before it is answered.
    pub(super) fn writes(&self) -> bool {
        match self {
            Operation::Insert(_)
            | Operation::InsertMany(_)
            | Operation::Append(_)
            | Operation::Push(_)
            | Operation::Remove(_) => true,
            Operation::Lookup(_)
            | Operation::Values(_)
            | Operation::Keys(_)
            | Operation::Sync
            | Operation::Stats
            | Operation::Damage
            | Operation::Close => false,
            #[cfg(test)]
            Operation::Panic => false,
        }
    }

    /// Bytes of keys and values it carries.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Operation::Insert(record) | Operation::Append(record) | Operation::Push(record) => record.bytes(),
            Operation::InsertMany(records) => records.iter().map(KeyValue::bytes).sum(),
            Operation::Remove(key) | Operation::Lookup(key) | Operation::Values(key) => key.key.len(),
            _ => 0,
        }
    }
}

impl KeyValue {
    pub(super) fn bytes(&self) -> usize {
        self.key.key.len() + self.value.len()
    }
}

impl Outcome {
    /// Bytes of keys and values it carries.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Outcome::Found(Some(value)) => value.len(),
            Outcome::Values(Some(values)) => values.iter().map(Vec::len).sum(),
            Outcome::Keys { keys, .. } => keys.iter().map(Vec::len).sum(),
            _ => 0,
        }
    }
}
