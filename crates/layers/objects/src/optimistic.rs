//! Transactions that are pure functions of what they read, and are tried again when another writer was first.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::ObjectError;
use crate::keys::RecordKey;
use crate::planted::{Bug, is_planted};
use crate::procedure::{Effect, Event, Procedure, Step, VersionedRecord, Write};
use crate::records::Record;

/// The most attempts of a transaction.
const ATTEMPTS_MAX: u32 = 64;

/// Why a decision stops.
#[derive(Debug)]
pub(crate) enum Pause {
    /// It needs records that the attempt has not read: `Reads` has their keys.
    Missing,
    /// The transaction ends with this error.
    Fail(ObjectError),
}

impl From<ObjectError> for Pause {
    fn from(error: ObjectError) -> Self {
        Self::Fail(error)
    }
}

/// The records that an attempt has read.
#[derive(Default)]
pub(crate) struct Reads {
    seen: BTreeMap<RecordKey, Option<VersionedRecord>>,
    missing: BTreeSet<RecordKey>,
}

impl Reads {
    /// Asks for several records in one round.
    pub(crate) fn require(&mut self, keys: impl IntoIterator<Item = RecordKey>) -> Result<(), Pause> {
        for key in keys {
            if !self.seen.contains_key(&key) {
                self.missing.insert(key);
            }
        }
        if self.missing.is_empty() { Ok(()) } else { Err(Pause::Missing) }
    }

    /// The record of `key`.
    pub(crate) fn get<R: Record>(&mut self, key: &[u8]) -> Result<Option<R>, Pause> {
        self.require([key.to_vec()])?;
        match self.seen.get(key).and_then(Option::as_ref) {
            None => Ok(None),
            Some(record) => {
                R::decode(&record.value).map(Some).ok_or_else(|| ObjectError::Corrupt(key.to_vec()).into())
            }
        }
    }
}

/// The writes of an attempt.
#[derive(Default)]
pub(crate) struct Writes(Vec<Write>);

impl Writes {
    pub(crate) fn put(&mut self, key: RecordKey, record: &impl Record) {
        self.0.push(Write { key, value: Some(record.encode()) });
    }

    pub(crate) fn put_empty(&mut self, key: RecordKey) {
        self.0.push(Write { key, value: Some(Vec::new()) });
    }

    pub(crate) fn remove(&mut self, key: RecordKey) {
        self.0.push(Write { key, value: None });
    }
}

/// A function of the time and of what was read. It adds its writes and returns the result of the transaction.
pub(crate) trait Decide {
    type Output;

    fn decide(&mut self, now: u64, reads: &mut Reads, writes: &mut Writes) -> Result<Self::Output, Pause>;
}

impl<T, F: FnMut(u64, &mut Reads, &mut Writes) -> Result<T, Pause>> Decide for F {
    type Output = T;

    fn decide(&mut self, now: u64, reads: &mut Reads, writes: &mut Writes) -> Result<T, Pause> {
        self(now, reads, writes)
    }
}

enum TransactionState<T> {
    Idle,
    Reading(Vec<RecordKey>),
    Committing(Result<T, ObjectError>),
}

/// A transaction around a decision.
///
/// Invariant: a result that rests on records of more than one round, or on writes, is reported only after a commit that has
/// confirmed the version of each record read.
pub(crate) struct OptimisticTransaction<D: Decide> {
    decide: D,
    reads: Reads,
    rounds: u32,
    attempts: u32,
    state: TransactionState<D::Output>,
}

impl<D: Decide> OptimisticTransaction<D> {
    pub(crate) fn new(decide: D) -> Self {
        Self { decide, reads: Reads::default(), rounds: 0, attempts: 0, state: TransactionState::Idle }
    }

    fn advance(&mut self, now: u64) -> Step<D::Output> {
        let mut writes = Writes::default();
        let output = match self.decide.decide(now, &mut self.reads, &mut writes) {
            Ok(output) => Ok(output),
            Err(Pause::Missing) => {
                self.rounds += 1;
                let keys: Vec<RecordKey> = std::mem::take(&mut self.reads.missing).into_iter().collect();
                self.state = TransactionState::Reading(keys.clone());
                return Step::Effect(Effect::Read(keys));
            }
            Err(Pause::Fail(error)) => {
                writes.0.clear();
                Err(error)
            }
        };
        if writes.0.is_empty() && self.rounds <= 1 {
            return Step::Done(output);
        }
        let mut conditions: Vec<_> = self
            .reads
            .seen
            .iter()
            .map(|(key, record)| (key.clone(), record.as_ref().map(|record| record.version)))
            .collect();
        if is_planted(Bug::OnlyWrittenChecked) {
            conditions.retain(|(key, _)| writes.0.iter().any(|write| write.key == *key));
        }
        if is_planted(Bug::NothingChecked) {
            conditions.clear();
        }
        self.state = TransactionState::Committing(output);
        Step::Effect(Effect::Transact { conditions, writes: writes.0 })
    }
}

impl<D: Decide> Procedure for OptimisticTransaction<D> {
    type Output = D::Output;

    fn step(&mut self, now: u64, event: Event) -> Step<D::Output> {
        match (std::mem::replace(&mut self.state, TransactionState::Idle), event) {
            (TransactionState::Idle, Event::Start) => self.advance(now),
            (TransactionState::Reading(keys), Event::Values(values)) if keys.len() == values.len() => {
                self.reads.seen.extend(keys.into_iter().zip(values));
                self.advance(now)
            }
            (TransactionState::Committing(output), Event::Committed) => Step::Done(output),
            (TransactionState::Committing(_), Event::Conflict) => {
                self.attempts += 1;
                if self.attempts == ATTEMPTS_MAX {
                    return Step::fail(ObjectError::Busy);
                }
                self.reads = Reads::default();
                self.rounds = 0;
                self.advance(now)
            }
            (_, event) => Step::unexpected(&event),
        }
    }
}
