//! Computes the contents of a record after the transaction's own writes, with the result that its primary would compute.

use bytes::Bytes;
use zerohop_session::Reply;
use zerohop_wire::Failure;
use zerohop_wire::ids::Timestamp;
use zerohop_wire::messages::{RecordOperation, RecordWrite, WriteChange};

/// The complete contents of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Local {
    Absent,
    Bytes(Vec<u8>),
    List(Vec<Bytes>),
}

impl Local {
    /// The record that a lookup returned, if the lookup returned all of it.
    pub(super) fn of(answer: &Result<Reply, Failure<'static>>) -> Option<Self> {
        match answer {
            Err(Failure::NotFound) => Some(Self::Absent),
            Ok(Reply::Value { bytes, length, .. }) if bytes.len() as u64 == *length => {
                Some(Self::Bytes(bytes.to_vec()))
            }
            Ok(Reply::List { values, length, .. }) if values.len() as u64 == *length => {
                Some(Self::List(values.clone()))
            }
            _ => None,
        }
    }

    /// Applies these writes to a record. `None`: the result depends on contents that are unknown. Errors: the client cannot compute the effect of
    /// one of the writes.
    pub(super) fn after(base: Option<Self>, writes: &[RecordOperation<'_>]) -> Result<Option<Self>, ()> {
        let mut local = base;
        for write in writes {
            if let RecordOperation::Write(RecordWrite { change, .. }) = write {
                local = apply(local, change)?;
            }
        }
        Ok(local)
    }

    /// The record as the reply to a lookup. It has no version yet.
    pub(super) fn answer(self) -> Result<Reply, Failure<'static>> {
        let version = Timestamp::ZERO;
        match self {
            Self::Absent => Err(Failure::NotFound),
            Self::Bytes(bytes) => {
                Ok(Reply::Value { version, length: bytes.len() as u64, bytes: bytes.into() })
            }
            Self::List(values) => Ok(Reply::List { version, length: values.len() as u64, first: 0, values }),
        }
    }
}

/// Applies one write to a record, known or not. Conditions count as true, because otherwise the entire transaction aborts. A write that does not
/// fit the record's type changes nothing.
fn apply(local: Option<Local>, change: &WriteChange<'_>) -> Result<Option<Local>, ()> {
    let known = match (change, local) {
        (WriteChange::Insert { value, .. }, _) => return Ok(Some(Local::Bytes(value.to_vec()))),
        (WriteChange::Remove, _) => return Ok(Some(Local::Absent)),
        (WriteChange::CompareSwap { new, .. }, _) => {
            return Ok(Some(new.map_or(Local::Absent, |new| Local::Bytes(new.to_vec()))));
        }
        (WriteChange::Expire { .. }, local) => return Ok(local),
        (WriteChange::SetBit { .. } | WriteChange::Transform(_) | WriteChange::Trim { .. }, _) => {
            return Err(());
        }
        (_, None) => return Ok(None),
        (_, Some(known)) => known,
    };
    Ok(Some(match (change, known) {
        (WriteChange::Extend { bytes }, Local::Absent) => Local::Bytes(bytes.to_vec()),
        (WriteChange::Extend { bytes }, Local::Bytes(mut all)) => {
            all.extend_from_slice(bytes);
            Local::Bytes(all)
        }
        (WriteChange::Append { values }, Local::Absent) => Local::List(values.iter().map(copied).collect()),
        (WriteChange::Append { values }, Local::List(mut all)) => {
            all.extend(values.iter().map(copied));
            Local::List(all)
        }
        (WriteChange::Increment { delta }, Local::Absent) => Local::Bytes(delta.to_string().into_bytes()),
        (WriteChange::Increment { delta }, Local::Bytes(text)) => {
            let number = std::str::from_utf8(&text).ok().and_then(|text| text.parse::<i64>().ok());
            match number.and_then(|number| number.checked_add(*delta)) {
                Some(sum) => Local::Bytes(sum.to_string().into_bytes()),
                None => Local::Bytes(text),
            }
        }
        (_, other) => other,
    }))
}

fn copied(value: &[u8]) -> Bytes {
    Bytes::copy_from_slice(value)
}

#[cfg(test)]
mod tests {
    use zerohop_wire::Elements;
    use zerohop_wire::messages::{Condition, Expiry, Range};

    use super::*;

    fn after(base: Option<Local>, changes: &[WriteChange<'_>]) -> Result<Option<Local>, ()> {
        fn write(change: WriteChange<'_>) -> RecordOperation<'_> {
            RecordOperation::Write(RecordWrite { key: b"k", condition: Condition::Always, change })
        }
        Local::after(base, &changes.iter().copied().map(write).collect::<Vec<_>>())
    }

    fn bytes(text: &str) -> Local {
        Local::Bytes(text.as_bytes().to_vec())
    }

    #[test]
    fn writes_lie_over_what_was_read() {
        let insert = WriteChange::Insert { value: b"4", expiry: Expiry::Never };
        let add = WriteChange::Increment { delta: 3 };
        let extend = WriteChange::Extend { bytes: b"!" };
        assert_eq!(after(None, &[insert, add, extend]), Ok(Some(bytes("7!"))));
        assert_eq!(after(None, &[add]), Ok(None));
        assert_eq!(after(Some(Local::Absent), &[add, add]), Ok(Some(bytes("6"))));
        assert_eq!(after(Some(bytes("x")), &[add]), Ok(Some(bytes("x"))));
        assert_eq!(after(Some(bytes("x")), &[WriteChange::Remove]), Ok(Some(Local::Absent)));
        let swap = WriteChange::CompareSwap { expected: None, new: Some(b"new") };
        assert_eq!(after(None, &[swap]), Ok(Some(bytes("new"))));
        let values: [&[u8]; 1] = [b"v"];
        let append = WriteChange::Append { values: Elements::from_slice(&values) };
        let list = |count| Local::List(vec![Bytes::from_static(b"v"); count]);
        assert_eq!(after(Some(list(1)), &[append, append]), Ok(Some(list(3))));
        assert_eq!(after(Some(bytes("x")), &[append]), Ok(Some(bytes("x"))));
        assert_eq!(after(Some(list(1)), &[WriteChange::Trim { keep: Range::ALL }]), Err(()));
    }
}
