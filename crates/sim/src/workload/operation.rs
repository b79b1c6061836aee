//! An operation of a client, owned: it stays in the history long after the request is gone.

use std::fmt;

use zerohop_wire::Elements;
use zerohop_wire::ids::Timestamp;
use zerohop_wire::messages::{
    Append, CompareSwap, Condition, CountBits, Expire, Expiry, Extend, GetBit, Increment, Insert,
    LookupRange, Query, Range, RecordOperation as Wire, RecordRead, RecordWrite, Remove, SetBit, Take,
    Transform, Trim, Wait, WaitUntil, WriteChange,
};

use super::tokens::display_bytes;

/// One operation on one record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordCall {
    /// The record.
    pub key: Box<[u8]>,
    /// The condition of a write.
    pub condition: Condition,
    /// The action.
    pub act: RecordAction,
}

/// A change of a record, or a read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the operation of the same name in `zerohop_wire::messages`")]
pub enum RecordAction {
    Insert { value: Vec<u8>, expiry: Expiry },
    Remove,
    Append { values: Vec<Vec<u8>> },
    Extend { bytes: Vec<u8> },
    CompareSwap { expected: Option<Vec<u8>>, new: Option<Vec<u8>> },
    Increment { delta: i64 },
    SetBit { offset: u64, on: bool },
    Transform(Transform),
    Expire { expiry: Expiry },
    Trim { keep: Range },
    Take,
    Lookup,
    LookupRange { range: Range },
    Inspect,
    GetBit { offset: u64 },
    CountBits { range: Range },
    Wait { until: WaitGoal },
}

/// The state that a wait is for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is that of the same name in `zerohop_wire::messages::Until`")]
pub enum WaitGoal {
    Equals(Vec<u8>),
    Differs(Vec<u8>),
    Absent,
    Present,
    Changed(Timestamp),
}

impl WaitGoal {
    fn as_wire(&self) -> WaitUntil<'_> {
        match self {
            Self::Equals(value) => WaitUntil::Equals(value),
            Self::Differs(value) => WaitUntil::Differs(value),
            Self::Absent => WaitUntil::Absent,
            Self::Present => WaitUntil::Present,
            Self::Changed(version) => WaitUntil::Changed(*version),
        }
    }
}

impl RecordCall {
    /// An operation without a condition.
    #[must_use]
    pub fn new(key: &[u8], act: RecordAction) -> Self {
        Self { key: key.into(), condition: Condition::Always, act }
    }

    /// Whether it may change the record.
    #[must_use]
    pub fn is_write(&self) -> bool {
        self.with_wire(|operation| matches!(operation, Wire::Write(_)))
    }

    /// Whether it waits on the server.
    #[must_use]
    pub fn is_wait(&self) -> bool {
        matches!(self.act, RecordAction::Wait { .. })
    }

    /// Passes the wire form to `then`.
    pub fn with_wire<R>(&self, then: impl FnOnce(&Wire<'_>) -> R) -> R {
        let key = &*self.key;
        let read = |query| Wire::Read(RecordRead { key, query });
        let write = |change| Wire::Write(RecordWrite { key, condition: self.condition, change });
        match &self.act {
            RecordAction::Append { values } => {
                let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
                then(&write(WriteChange::Append(Append { values: Elements::from_slice(&values) })))
            }
            RecordAction::Insert { value, expiry } => {
                then(&write(WriteChange::Insert(Insert { value, expiry: *expiry })))
            }
            RecordAction::Remove => then(&write(WriteChange::Remove(Remove))),
            RecordAction::Extend { bytes } => then(&write(WriteChange::Extend(Extend { bytes }))),
            RecordAction::CompareSwap { expected, new } => {
                then(&write(WriteChange::CompareSwap(CompareSwap {
                    expected: expected.as_deref(),
                    new: new.as_deref(),
                })))
            }
            RecordAction::Increment { delta } => {
                then(&write(WriteChange::Increment(Increment { delta: *delta })))
            }
            RecordAction::SetBit { offset, on } => {
                then(&write(WriteChange::SetBit(SetBit { offset: *offset, on: *on })))
            }
            RecordAction::Transform(transform) => then(&write(WriteChange::Transform(*transform))),
            RecordAction::Expire { expiry } => then(&write(WriteChange::Expire(Expire { expiry: *expiry }))),
            RecordAction::Take => then(&write(WriteChange::Take(Take))),
            RecordAction::Trim { keep } => then(&write(WriteChange::Trim(Trim { keep: *keep }))),
            RecordAction::Lookup => then(&read(Query::Lookup)),
            RecordAction::LookupRange { range } => {
                then(&read(Query::LookupRange(LookupRange { range: *range })))
            }
            RecordAction::Inspect => then(&read(Query::Inspect)),
            RecordAction::GetBit { offset } => then(&read(Query::GetBit(GetBit { offset: *offset }))),
            RecordAction::CountBits { range } => then(&read(Query::CountBits(CountBits { range: *range }))),
            RecordAction::Wait { until } => then(&read(Query::Wait(Wait { until: until.as_wire() }))),
        }
    }
}

impl fmt::Display for RecordCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.act {
            RecordAction::Insert { value, expiry } => {
                write!(f, "insert {} {:?}", display_bytes(value), expiry)?
            }
            RecordAction::Append { values } => {
                write!(f, "append")?;
                values.iter().try_for_each(|value| write!(f, " {}", display_bytes(value)))?;
            }
            RecordAction::Extend { bytes } => write!(f, "extend {}", display_bytes(bytes))?,
            RecordAction::CompareSwap { expected, new } => {
                let both = |value: &Option<Vec<u8>>| value.as_deref().map(display_bytes);
                write!(f, "swap {:?} for {:?}", both(expected), both(new))?;
            }
            RecordAction::Wait { until: WaitGoal::Equals(value) } => {
                write!(f, "wait until it is {}", display_bytes(value))?
            }
            RecordAction::Wait { until: WaitGoal::Differs(value) } => {
                write!(f, "wait until it is not {}", display_bytes(value))?
            }
            other => write!(f, "{other:?}")?,
        }
        write!(f, " of {}", display_bytes(&self.key))?;
        match self.condition {
            Condition::Always => Ok(()),
            condition => write!(f, " {condition:?}"),
        }
    }
}
