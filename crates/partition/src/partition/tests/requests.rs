//! Requests that own their bytes, so that a client can send them again.

use zerohop_wire::Many;
use zerohop_wire::ids::Timestamp;
use zerohop_wire::messages::{Change, Condition, Expiry, Query, Range, Transform, Until, Write};

/// A write that a client has sent and may send again.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) key: Vec<u8>,
    pub(super) condition: Condition,
    pub(super) op: Op,
}

#[derive(Clone, Debug)]
pub(super) enum Op {
    Insert(Vec<u8>, Expiry),
    Remove,
    Append(Vec<Vec<u8>>),
    Extend(Vec<u8>),
    CompareSwap(Option<Vec<u8>>, Option<Vec<u8>>),
    Increment(i64),
    SetBit(u64, bool),
    Expire(Expiry),
    Trim(Range),
    Transform(Transform),
}

/// An operation of a batch: a write by its sequence, or a read.
pub(super) type Item = Result<(u64, Sent), (Vec<u8>, Query<'static>)>;

#[derive(Clone, Debug)]
pub(super) enum OwnedUntil {
    Equals(Vec<u8>),
    Differs(Vec<u8>),
    Absent,
    Present,
    Changed(Timestamp),
}

impl OwnedUntil {
    pub(super) fn until(&self) -> Until<'_> {
        match self {
            OwnedUntil::Equals(value) => Until::Equals(value),
            OwnedUntil::Differs(value) => Until::Differs(value),
            OwnedUntil::Absent => Until::Absent,
            OwnedUntil::Present => Until::Present,
            OwnedUntil::Changed(version) => Until::Changed(*version),
        }
    }
}

/// Calls with the wire's borrowed form of an operation.
pub(super) fn with_write<T>(sent: &Sent, call: impl FnOnce(Write<'_>) -> T) -> T {
    let values: Vec<&[u8]> = match &sent.op {
        Op::Append(values) => values.iter().map(Vec::as_slice).collect(),
        _ => Vec::new(),
    };
    let change = match &sent.op {
        Op::Insert(value, expiry) => Change::Insert { value, expiry: *expiry },
        Op::Remove => Change::Remove,
        Op::Append(_) => Change::Append { values: Many::given(&values) },
        Op::Extend(bytes) => Change::Extend { bytes },
        Op::CompareSwap(expected, new) => {
            Change::CompareSwap { expected: expected.as_deref(), new: new.as_deref() }
        }
        Op::Increment(delta) => Change::Increment { delta: *delta },
        Op::SetBit(offset, on) => Change::SetBit { offset: *offset, on: *on },
        Op::Expire(expiry) => Change::Expire { expiry: *expiry },
        Op::Trim(keep) => Change::Trim { keep: *keep },
        Op::Transform(transform) => Change::Transform(*transform),
    };
    call(Write { key: &sent.key, condition: sent.condition, change })
}
