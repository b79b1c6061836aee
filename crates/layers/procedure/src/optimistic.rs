//! Transactions that are pure functions of what they read, and are tried again when another writer was first.

use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;

use crate::keys::RecordKey;
use crate::planted::{Bug, is_planted};
use crate::procedure::{Effect, Event, LayerError, Procedure, Step, VersionedRecord, Write};
use crate::record::Record;

/// The most attempts of a transaction.
const ATTEMPTS_MAX: u32 = 64;

/// Why a decision stops.
#[derive(Debug)]
pub enum Pause<E> {
    /// It needs records that the attempt has not read: `Reads` has their keys.
    Missing,
    /// The transaction ends with this error.
    Fail(E),
}

impl<E: LayerError> From<E> for Pause<E> {
    fn from(error: E) -> Self {
        Self::Fail(error)
    }
}

/// The records that an attempt has read.
pub struct Reads<E> {
    seen: BTreeMap<RecordKey, Option<VersionedRecord>>,
    missing: BTreeSet<RecordKey>,
    error: PhantomData<fn() -> E>,
}

impl<E> Default for Reads<E> {
    fn default() -> Self {
        Self { seen: BTreeMap::new(), missing: BTreeSet::new(), error: PhantomData }
    }
}

impl<E: LayerError> Reads<E> {
    /// Asks for several records in one round.
    ///
    /// # Errors
    /// [`Pause::Missing`] if one of them is not read yet.
    pub fn require(&mut self, keys: impl IntoIterator<Item = RecordKey>) -> Result<(), Pause<E>> {
        for key in keys {
            if !self.seen.contains_key(&key) {
                self.missing.insert(key);
            }
        }
        if self.missing.is_empty() { Ok(()) } else { Err(Pause::Missing) }
    }

    /// Makes the commit depend on the absence of `key`, which is not read first.
    pub fn assume_absent(&mut self, key: RecordKey) {
        self.seen.entry(key).or_insert(None);
    }

    /// The record of `key`.
    ///
    /// # Errors
    /// [`Pause::Missing`] if it is not read yet; the layer's error if it is corrupt.
    pub fn get<R: Record>(&mut self, key: &[u8]) -> Result<Option<R>, Pause<E>> {
        self.require([key.to_vec()])?;
        match self.seen.get(key).and_then(Option::as_ref) {
            None => Ok(None),
            Some(record) => R::decode(&record.value).map(Some).ok_or_else(|| E::corrupt(key.to_vec()).into()),
        }
    }
}

/// The writes of an attempt.
#[derive(Default)]
pub struct Writes(Vec<Write>);

impl Writes {
    /// Writes a record.
    pub fn put(&mut self, key: RecordKey, record: &impl Record) {
        self.0.push(Write { key, value: Some(record.encode()) });
    }

    /// Writes a record without bytes.
    pub fn put_empty(&mut self, key: RecordKey) {
        self.0.push(Write { key, value: Some(Vec::new()) });
    }

    /// Removes a record.
    pub fn remove(&mut self, key: RecordKey) {
        self.0.push(Write { key, value: None });
    }
}

/// A function of the time and of what was read. It adds its writes and returns the result of the transaction.
pub trait Decide<E> {
    /// The result of the transaction.
    type Output;

    /// Decides.
    ///
    /// # Errors
    /// [`Pause::Missing`] if records are to be read first; else the error with which the transaction ends.
    fn decide(
        &mut self,
        now: u64,
        reads: &mut Reads<E>,
        writes: &mut Writes,
    ) -> Result<Self::Output, Pause<E>>;
}

impl<T, E, F: FnMut(u64, &mut Reads<E>, &mut Writes) -> Result<T, Pause<E>>> Decide<E> for F {
    type Output = T;

    fn decide(&mut self, now: u64, reads: &mut Reads<E>, writes: &mut Writes) -> Result<T, Pause<E>> {
        self(now, reads, writes)
    }
}

enum TransactionState<T, E> {
    Idle,
    Reading(Vec<RecordKey>),
    Committing(Result<T, E>),
}

/// A transaction around a decision.
///
/// Invariant: a result that depends on records of more than one round, or on writes, is reported only after a commit that has
/// confirmed the version of each record read.
pub struct OptimisticTransaction<D: Decide<E>, E> {
    decide: D,
    reads: Reads<E>,
    rounds: u32,
    attempts: u32,
    state: TransactionState<D::Output, E>,
}

impl<E: LayerError, D: Decide<E>> OptimisticTransaction<D, E> {
    /// The transaction of a decision.
    pub fn new(decide: D) -> Self {
        Self { decide, reads: Reads::default(), rounds: 0, attempts: 0, state: TransactionState::Idle }
    }

    fn advance<A>(&mut self, now: u64) -> Step<D::Output, E, A> {
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

impl<E: LayerError, A, D: Decide<E>> Procedure<E, A> for OptimisticTransaction<D, E> {
    type Output = D::Output;

    fn step(&mut self, now: u64, event: Event<E>) -> Step<D::Output, E, A> {
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
                    return Step::fail(E::busy());
                }
                self.reads = Reads::default();
                self.rounds = 0;
                self.advance(now)
            }
            (_, event) => Step::unexpected(&event),
        }
    }
}
