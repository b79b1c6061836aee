//! Computes the contents of a record after the transaction's own writes, with the result that its primary would compute.

use crate::Reply;
use bytes::Bytes;
use zerohop_record::memory::{MemoryContents, MemoryRecord};
use zerohop_record::state::ApplyOutcome;
use zerohop_wire::Failure;
use zerohop_wire::ids::Timestamp;
use zerohop_wire::messages::{Condition, RecordOperation, RecordWrite, WriteChange};

/// A record as the transaction sees it; `None` if it is absent. It has neither version nor expiry.
pub(super) type LocalRecord = Option<MemoryRecord>;

fn local(contents: MemoryContents) -> LocalRecord {
    Some(MemoryRecord { contents, version: Timestamp::ZERO, deadline: None })
}

/// The record that a lookup returned, if the lookup returned all of it.
pub(super) fn of_answer(answer: &Result<Reply, Failure<'static>>) -> Option<LocalRecord> {
    match answer {
        Err(Failure::NotFound) => Some(None),
        Ok(Reply::Value { bytes, length, .. }) if bytes.len() as u64 == *length => {
            Some(local(MemoryContents::Bytes(bytes.to_vec())))
        }
        Ok(Reply::List { values, length, .. }) if values.len() as u64 == *length => {
            Some(local(MemoryContents::List(values.iter().map(|value| value.to_vec()).collect())))
        }
        _ => None,
    }
}

/// The record that a lookup returned, for [`try_write`]: of a long list only the values of the first page.
pub(super) fn beginning_of_answer(answer: &Result<Reply, Failure<'static>>) -> Option<LocalRecord> {
    match answer {
        Ok(Reply::List { values, .. }) => {
            Some(local(MemoryContents::List(values.iter().map(|value| value.to_vec()).collect())))
        }
        answer => of_answer(answer),
    }
}

/// Whether the condition of a write is known not to hold for this record. A condition on a version is decided at the commit.
pub(super) fn condition_fails(operation: &RecordOperation<'_>, record: Option<&LocalRecord>) -> bool {
    let RecordOperation::Write(write) = operation else { return false };
    matches!(
        (write.condition, record),
        (Condition::IfAbsent, Some(Some(_))) | (Condition::IfPresent, Some(None))
    )
}

/// Applies one more write to a record. Errors: the record refuses it because of its type or contents, and stays as it is.
pub(super) fn try_write(record: &mut LocalRecord, change: &WriteChange<'_>) -> Result<(), Failure<'static>> {
    let Some(applied) = change.apply_in_memory(record, Timestamp::ZERO, 0) else { return Ok(()) };
    Err(match applied? {
        ApplyOutcome::WrongType(found) => Failure::WrongType { found },
        ApplyOutcome::NotANumber => Failure::NotANumber,
        ApplyOutcome::Overflow => Failure::Overflow,
        ApplyOutcome::ValueTooLong { length, limit } => Failure::ValueTooLong { length, limit },
        ApplyOutcome::TooMany { count, limit } => Failure::TooMany { count, limit },
        // A comparison that fails aborts the entire transaction. A removal of nothing is no refusal.
        ApplyOutcome::CompareFailed { .. } | ApplyOutcome::NotFound => return Ok(()),
        ApplyOutcome::Done { .. } | ApplyOutcome::Counter { .. } | ApplyOutcome::RemovedRecord { .. } => {
            return Ok(());
        }
    })
}

/// Applies these writes to a record. `None`: the result depends on contents that are unknown. Errors: the client cannot compute the effect of
/// one of the writes.
pub(super) fn after(
    base: Option<LocalRecord>,
    writes: &[RecordOperation<'_>],
) -> Result<Option<LocalRecord>, ()> {
    let mut local = base;
    for write in writes {
        if let RecordOperation::Write(RecordWrite { change, .. }) = write {
            local = apply(local, change)?;
        }
    }
    Ok(local)
}

/// The record as the reply to a lookup.
pub(super) fn answer(local: LocalRecord) -> Result<Reply, Failure<'static>> {
    let version = Timestamp::ZERO;
    match local.ok_or(Failure::NotFound)?.contents {
        MemoryContents::Bytes(bytes) => {
            Ok(Reply::Value { version, length: bytes.len() as u64, bytes: bytes.into() })
        }
        MemoryContents::List(values) => Ok(Reply::List {
            version,
            length: values.len() as u64,
            first: 0,
            values: values.into_iter().map(Bytes::from).collect(),
        }),
    }
}

/// Applies one write to a record, known or not. Conditions count as true, because otherwise the entire transaction aborts. A write
/// that does not fit the record's type changes nothing. Errors: the write is one of a blob.
fn apply(base: Option<LocalRecord>, change: &WriteChange<'_>) -> Result<Option<LocalRecord>, ()> {
    let mut known = match (change, base) {
        // If the record is another one, the transaction aborts.
        (WriteChange::CompareSwap(swap), _) => {
            swap.expected.and_then(|expected| local(MemoryContents::Bytes(expected.to_vec())))
        }
        (_, Some(known)) => known,
        (WriteChange::Remove(_) | WriteChange::Take(_), None) => return Ok(Some(None)),
        (change, None) if change.depends_on_record() => return Ok(None),
        (_, None) => None,
    };
    change.apply_in_memory(&mut known, Timestamp::ZERO, 0).ok_or(())?.map_err(|_| ())?;
    Ok(Some(known))
}

#[cfg(test)]
mod tests {
    use zerohop_wire::Elements;
    use zerohop_wire::blob::BlobStamp;
    use zerohop_wire::messages::{
        Append, BlobChange, CompareSwap, Condition, Expiry, Extend, Increment, Insert, Range as Part, Remove,
        SetBit, Trim,
    };

    use super::*;

    fn after(base: Option<LocalRecord>, changes: &[WriteChange<'_>]) -> Result<Option<LocalRecord>, ()> {
        fn write(change: WriteChange<'_>) -> RecordOperation<'_> {
            RecordOperation::Write(RecordWrite { key: b"k", condition: Condition::Always, change })
        }
        super::after(base, &changes.iter().copied().map(write).collect::<Vec<_>>())
    }

    fn bytes(text: &str) -> LocalRecord {
        local(MemoryContents::Bytes(text.as_bytes().to_vec()))
    }

    #[test]
    fn overlay_applies_writes_to_read_value() {
        let insert = WriteChange::Insert(Insert { value: b"4", expiry: Expiry::Never });
        let add = WriteChange::Increment(Increment { delta: 3 });
        let extend = WriteChange::Extend(Extend { bytes: b"!" });
        assert_eq!(after(None, &[insert, add, extend]), Ok(Some(bytes("7!"))));
        assert_eq!(after(None, &[add]), Ok(None));
        assert_eq!(after(Some(None), &[add, add]), Ok(Some(bytes("6"))));
        assert_eq!(after(Some(bytes("x")), &[add]), Ok(Some(bytes("x"))));
        assert_eq!(after(Some(bytes("x")), &[WriteChange::Remove(Remove)]), Ok(Some(None)));
        let swap = WriteChange::CompareSwap(CompareSwap { expected: None, new: Some(b"new") });
        assert_eq!(after(None, &[swap]), Ok(Some(bytes("new"))));
        let values: [&[u8]; 1] = [b"v"];
        let append = WriteChange::Append(Append { values: Elements::from_slice(&values) });
        let list = |count| local(MemoryContents::List(vec![b"v".to_vec(); count]));
        assert_eq!(after(Some(list(1)), &[append, append]), Ok(Some(list(3))));
        assert_eq!(after(Some(bytes("x")), &[append]), Ok(Some(bytes("x"))));
        let keep = |start, stop| WriteChange::Trim(Trim { keep: Part { start, stop } });
        assert_eq!(after(Some(list(3)), &[keep(1, i64::MAX)]), Ok(Some(list(2))));
        assert_eq!(after(Some(list(3)), &[keep(0, 1)]), Ok(Some(list(1))));
        assert_eq!(after(Some(list(3)), &[keep(3, 3)]), Ok(Some(None)));
        assert_eq!(after(None, &[keep(0, 1)]), Ok(None));
        let bit = WriteChange::SetBit(SetBit { offset: 7, on: true });
        assert_eq!(after(Some(None), &[bit, extend]), Ok(Some(bytes("\u{1}!"))));
        for (record, change, suits) in [
            (bytes("x"), add, false),
            (bytes("1"), add, true),
            (bytes("x"), append, false),
            (list(1), append, true),
            (list(1), extend, false),
            (list(1), swap, false),
            (bytes("x"), swap, true),
            (list(1), insert, true),
            (None, WriteChange::Remove(Remove), true),
        ] {
            let mut after = record.clone();
            assert_eq!(try_write(&mut after, &change).is_ok(), suits, "{record:?} {change:?}");
            assert!(suits || after == record, "{record:?} {change:?}");
        }
        let blob = WriteChange::Blob(BlobChange::DropChunk { stamp: BlobStamp::default() });
        assert_eq!(after(Some(bytes("x")), &[blob]), Err(()));
    }
}
