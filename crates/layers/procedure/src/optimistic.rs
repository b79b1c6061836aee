//! Transactions that are pure functions of what they read, and are tried again when another writer was first.

use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;

use crate::keys::RecordKey;
use crate::planted::{Bug, is_planted};
use crate::procedure::{
    Addition, Effect, Event, LayerError, Procedure, Step, Version, VersionedRecord, Write,
};
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
pub struct Writes {
    records: Vec<Write>,
    additions: Vec<Addition>,
}

impl Writes {
    /// Writes a record.
    pub fn put(&mut self, key: RecordKey, record: &impl Record) {
        self.records.push(Write { key, value: Some(record.encode()) });
    }

    /// Writes a record without bytes.
    pub fn put_empty(&mut self, key: RecordKey) {
        self.records.push(Write { key, value: Some(Vec::new()) });
    }

    /// Removes a record.
    pub fn remove(&mut self, key: RecordKey) {
        self.records.push(Write { key, value: None });
    }

    /// Adds to a number of a record that the attempt neither reads nor writes.
    pub fn add(&mut self, key: RecordKey, offset: u64, by: i64) {
        self.additions.push(Addition { key, offset, by });
    }

    /// The records that are written, and what is added.
    #[must_use]
    pub fn into_parts(self) -> (Vec<Write>, Vec<Addition>) {
        (self.records, self.additions)
    }

    const fn is_empty(&self) -> bool {
        self.records.is_empty() && self.additions.is_empty()
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

/// What an attempt does next.
pub enum AttemptStep<T, E> {
    /// It reads these keys: [`Attempt::supply`] gives it their records.
    Read(Vec<RecordKey>),
    /// It has decided. An error has no writes.
    Decided(Result<T, E>, Writes),
}

/// A decision with what it has read.
pub struct Attempt<D: Decide<E>, E> {
    decide: D,
    reads: Reads<E>,
    requested: Vec<RecordKey>,
    rounds: u32,
}

impl<E: LayerError, D: Decide<E>> Attempt<D, E> {
    /// An attempt that has read nothing.
    pub fn new(decide: D) -> Self {
        Self { decide, reads: Reads::default(), requested: Vec::new(), rounds: 0 }
    }

    /// Decides, or asks for records.
    pub fn advance(&mut self, now: u64) -> AttemptStep<D::Output, E> {
        let mut writes = Writes::default();
        match self.decide.decide(now, &mut self.reads, &mut writes) {
            Ok(output) => AttemptStep::Decided(Ok(output), writes),
            Err(Pause::Missing) => {
                self.rounds += 1;
                self.requested = std::mem::take(&mut self.reads.missing).into_iter().collect();
                AttemptStep::Read(self.requested.clone())
            }
            Err(Pause::Fail(error)) => AttemptStep::Decided(Err(error), Writes::default()),
        }
    }

    /// Gives it the records of [`AttemptStep::Read`], in its order. Result: whether there is one for each key.
    #[must_use]
    pub fn supply(&mut self, values: Vec<Option<VersionedRecord>>) -> bool {
        let is_complete = values.len() == self.requested.len();
        self.reads.seen.extend(std::mem::take(&mut self.requested).into_iter().zip(values));
        is_complete
    }

    /// What it depends on: keys and their versions. Those that it assumes to be absent are among them.
    pub fn conditions(&self) -> impl Iterator<Item = (RecordKey, Option<Version>)> + '_ {
        self.reads
            .seen
            .iter()
            .map(|(key, record)| (key.clone(), record.as_ref().map(|record| record.version)))
    }

    /// Forgets what it has read.
    fn restart(&mut self) {
        self.reads = Reads::default();
        self.requested.clear();
        self.rounds = 0;
    }
}

enum TransactionState<T, E> {
    Idle,
    Reading,
    Committing(Result<T, E>),
}

/// A transaction around a decision.
///
/// Invariant: a result that depends on records of more than one round, or on writes, is reported only after a commit that has
/// confirmed the version of each record read.
pub struct OptimisticTransaction<D: Decide<E>, E> {
    attempt: Attempt<D, E>,
    conflicts: u32,
    state: TransactionState<D::Output, E>,
}

impl<E: LayerError, D: Decide<E>> OptimisticTransaction<D, E> {
    /// The transaction of a decision.
    pub fn new(decide: D) -> Self {
        Self { attempt: Attempt::new(decide), conflicts: 0, state: TransactionState::Idle }
    }

    fn advance<A>(&mut self, now: u64) -> Step<D::Output, E, A> {
        let (output, writes) = match self.attempt.advance(now) {
            AttemptStep::Read(keys) => {
                self.state = TransactionState::Reading;
                return Step::Effect(Effect::Read(keys));
            }
            AttemptStep::Decided(output, writes) => (output, writes),
        };
        if writes.is_empty() && self.attempt.rounds <= 1 {
            return Step::Done(output);
        }
        let (writes, additions) = writes.into_parts();
        let mut conditions: Vec<_> = self.attempt.conditions().collect();
        if is_planted(Bug::OnlyWrittenChecked) {
            conditions.retain(|(key, _)| writes.iter().any(|write| write.key == *key));
        }
        if is_planted(Bug::NothingChecked) {
            conditions.clear();
        }
        self.state = TransactionState::Committing(output);
        Step::Effect(Effect::Transact { conditions, writes, additions })
    }
}

impl<E: LayerError, A, D: Decide<E>> Procedure<E, A> for OptimisticTransaction<D, E> {
    type Output = D::Output;

    fn step(&mut self, now: u64, event: Event<E>) -> Step<D::Output, E, A> {
        match (std::mem::replace(&mut self.state, TransactionState::Idle), event) {
            (TransactionState::Idle, Event::Start) => self.advance(now),
            (TransactionState::Reading, Event::Values(values)) => {
                if self.attempt.supply(values) {
                    self.advance(now)
                } else {
                    Step::fail(E::unavailable("the driver has not read all keys".to_owned()))
                }
            }
            (TransactionState::Committing(output), Event::Committed) => Step::Done(output),
            (TransactionState::Committing(_), Event::Conflict) => {
                self.conflicts += 1;
                if self.conflicts == ATTEMPTS_MAX {
                    return Step::fail(E::busy());
                }
                self.attempt.restart();
                self.advance(now)
            }
            (_, event) => Step::unexpected(&event),
        }
    }
}
