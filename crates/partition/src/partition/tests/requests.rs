//! Requests that own their bytes, so that a client can send them again.

use zerohop_wire::Elements;
use zerohop_wire::ids::Timestamp;
use zerohop_wire::messages::{
    Append, CompareSwap, Condition, Expire, Expiry, Extend, Increment, Insert, Query, Range, RecordWrite,
    Remove, SetBit, Transform, Trim, WaitUntil, WriteChange,
};

/// A write that a client has sent and may send again.
#[derive(Clone, Debug)]
pub(super) struct ClientWrite {
    pub(super) key: Vec<u8>,
    pub(super) condition: Condition,
    pub(super) op: WriteOp,
}

#[derive(Clone, Debug)]
pub(super) enum WriteOp {
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
pub(super) type BatchItem = Result<(u64, ClientWrite), (Vec<u8>, Query<'static>)>;

#[derive(Clone, Debug)]
pub(super) enum OwnedWaitUntil {
    Equals(Vec<u8>),
    Differs(Vec<u8>),
    Absent,
    Present,
    Changed(Timestamp),
}

impl OwnedWaitUntil {
    pub(super) fn until(&self) -> WaitUntil<'_> {
        match self {
            OwnedWaitUntil::Equals(value) => WaitUntil::Equals(value),
            OwnedWaitUntil::Differs(value) => WaitUntil::Differs(value),
            OwnedWaitUntil::Absent => WaitUntil::Absent,
            OwnedWaitUntil::Present => WaitUntil::Present,
            OwnedWaitUntil::Changed(version) => WaitUntil::Changed(*version),
        }
    }
}

/// Calls with the wire's borrowed form of an operation.
pub(super) fn with_write<T>(sent: &ClientWrite, call: impl FnOnce(RecordWrite<'_>) -> T) -> T {
    let values: Vec<&[u8]> = match &sent.op {
        WriteOp::Append(values) => values.iter().map(Vec::as_slice).collect(),
        _ => Vec::new(),
    };
    let change = match &sent.op {
        WriteOp::Insert(value, expiry) => WriteChange::Insert(Insert { value, expiry: *expiry }),
        WriteOp::Remove => WriteChange::Remove(Remove),
        WriteOp::Append(_) => WriteChange::Append(Append { values: Elements::from_slice(&values) }),
        WriteOp::Extend(bytes) => WriteChange::Extend(Extend { bytes }),
        WriteOp::CompareSwap(expected, new) => {
            WriteChange::CompareSwap(CompareSwap { expected: expected.as_deref(), new: new.as_deref() })
        }
        WriteOp::Increment(delta) => WriteChange::Increment(Increment { delta: *delta }),
        WriteOp::SetBit(offset, on) => WriteChange::SetBit(SetBit { offset: *offset, on: *on }),
        WriteOp::Expire(expiry) => WriteChange::Expire(Expire { expiry: *expiry }),
        WriteOp::Trim(keep) => WriteChange::Trim(Trim { keep: *keep }),
        WriteOp::Transform(transform) => WriteChange::Transform(*transform),
    };
    call(RecordWrite { key: &sent.key, condition: sent.condition, change })
}
