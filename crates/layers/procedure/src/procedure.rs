//! The form of a procedure: a state machine that gets events and answers each with one effect, or with its result.

use std::convert::Infallible;
use std::fmt::Debug;

use crate::keys::RecordKey;

/// The `bytes` of a scan whose page ends by its number of records only.
pub const NO_BYTE_LIMIT: usize = usize::MAX;

/// The error of a layer.
pub trait LayerError: Clone + Debug {
    /// Other writers changed the same records in each attempt.
    fn busy() -> Self;

    /// The record of a key has bytes that no version of the code writes.
    fn corrupt(key: RecordKey) -> Self;

    /// The store or the driver did not do its part. A write may have happened.
    fn unavailable(why: String) -> Self;
}

/// The version of a record. It differs between any two writes of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u64);

/// A record as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionedRecord {
    /// Its version.
    pub version: Version,
    /// Its bytes.
    pub value: Vec<u8>,
}

/// A record that a transaction writes, or removes without `value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The key.
    pub key: RecordKey,
    /// The new bytes.
    pub value: Option<Vec<u8>>,
}

/// A number that a transaction adds to, whatever it is: 8 bytes, little-endian. Transactions that only add do not conflict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addition {
    /// The key of the record.
    pub key: RecordKey,
    /// Where the number is in the record, in bytes.
    pub offset: u64,
    /// What is added. The sum wraps around.
    pub by: i64,
}

/// What the driver of a procedure does next. `A` is what only one layer asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect<A = Infallible> {
    /// Reads keys. Answer: [`Event::Values`].
    Read(Vec<RecordKey>),
    /// Commits the writes and additions in one transaction if each key of `conditions` still has its version, or is still absent.
    /// Answer: [`Event::Committed`] or [`Event::Conflict`].
    Transact {
        /// The versions that must still stand.
        conditions: Vec<(RecordKey, Option<Version>)>,
        /// What is written.
        writes: Vec<Write>,
        /// What is added to numbers of other records.
        additions: Vec<Addition>,
    },
    /// Reads at most `limit` records from `from` on, below `to`. The page ends behind the record with which the bytes of its
    /// values reach `bytes`. Answer: [`Event::Page`].
    Scan {
        /// The first key.
        from: RecordKey,
        /// The end, which is not in the range.
        to: RecordKey,
        /// The most records.
        limit: usize,
        /// The bytes of values that end the page.
        bytes: usize,
    },
    /// An effect of the layer. Answer: [`Event::OwnDone`].
    Own(A),
}

/// What a procedure gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<E> {
    /// The first event.
    Start,
    /// The records of [`Effect::Read`], in its order.
    Values(Vec<Option<VersionedRecord>>),
    /// The transaction has committed.
    Committed,
    /// A condition did not hold, and nothing was written.
    Conflict,
    /// A page of [`Effect::Scan`].
    Page {
        /// The records, in the order of keys.
        entries: Vec<(RecordKey, Vec<u8>)>,
        /// Where the scan continues; nothing at the end of the range.
        next: Option<RecordKey>,
    },
    /// The effect of the layer is carried out.
    OwnDone,
    /// The effect failed. A transaction may have happened.
    Failed(E),
}

/// The answer of a procedure to an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step<T, E, A = Infallible> {
    /// The driver carries this out and reports its end.
    Effect(Effect<A>),
    /// The procedure has ended.
    Done(Result<T, E>),
}

/// A procedure of a layer with the errors `E` and the effects `A`. It does no I/O.
pub trait Procedure<E, A = Infallible> {
    /// What it results in.
    type Output;

    /// Takes an event. `now` is in milliseconds since 1970.
    fn step(&mut self, now: u64, event: Event<E>) -> Step<Self::Output, E, A>;
}

impl<T, E: LayerError, A> Step<T, E, A> {
    /// The end with an error.
    pub const fn fail(error: E) -> Self {
        Self::Done(Err(error))
    }

    /// The end for an event that the state does not expect: a fault of the driver.
    #[must_use]
    pub fn unexpected(event: &Event<E>) -> Self {
        match event {
            Event::Failed(error) => Self::fail(error.clone()),
            other => Self::fail(E::unavailable(format!("the driver reported {other:?}"))),
        }
    }
}
