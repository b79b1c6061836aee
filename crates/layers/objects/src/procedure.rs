//! The form of a procedure: a state machine that gets events and answers each with one effect, or with its result.

use crate::error::ObjectError;
use crate::ids::BodyId;
use crate::keys::RecordKey;

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

/// What the driver of a procedure does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Reads keys. Answer: [`Event::Values`].
    Read(Vec<RecordKey>),
    /// Commits the writes in one transaction if each key of `conditions` still has its version, or is still absent.
    /// Answer: [`Event::Committed`] or [`Event::Conflict`].
    Transact {
        /// The versions that must still stand.
        conditions: Vec<(RecordKey, Option<Version>)>,
        /// What is written.
        writes: Vec<Write>,
    },
    /// Reads at most `limit` records from `from` on, below `to`. Answer: [`Event::Page`].
    Scan {
        /// The first key.
        from: RecordKey,
        /// The end, which is not in the range.
        to: RecordKey,
        /// The most records.
        limit: usize,
    },
    /// Deletes the blob of a body, if there is one. Answer: [`Event::BodyDeleted`].
    DeleteBody(BodyId),
}

/// What a procedure gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
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
    /// The body is gone.
    BodyDeleted,
    /// The effect failed. A transaction may have happened.
    Failed(ObjectError),
}

/// The answer of a procedure to an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step<T> {
    /// The driver carries this out and reports its end.
    Effect(Effect),
    /// The procedure has ended.
    Done(Result<T, ObjectError>),
}

/// A procedure. It does no I/O.
pub trait Procedure {
    /// What it results in.
    type Output;

    /// Takes an event. `now` is in milliseconds since 1970.
    fn step(&mut self, now: u64, event: Event) -> Step<Self::Output>;
}

impl<T> Step<T> {
    /// The end with an error.
    pub const fn fail(error: ObjectError) -> Self {
        Self::Done(Err(error))
    }

    /// The end for an event that the state does not expect: a fault of the driver.
    #[must_use]
    pub fn unexpected(event: &Event) -> Self {
        match event {
            Event::Failed(error) => Self::fail(error.clone()),
            other => Self::fail(ObjectError::Unavailable(format!("the driver reported {other:?}"))),
        }
    }
}
