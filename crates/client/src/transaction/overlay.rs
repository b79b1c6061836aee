//! Computes the contents of a record after the transaction's own writes, with the result that its primary would compute.

use std::ops::Range;

use bytes::Bytes;
use zerohop_record::fields::take_length_prefixed;
use zerohop_record::state::{Change, Contents, RecordState};
use zerohop_session::Reply;
use zerohop_wire::Failure;
use zerohop_wire::ids::Timestamp;
use zerohop_wire::messages::{Expiry, RecordOperation, RecordType, RecordWrite, WriteChange};

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

/// Applies one write to a record, known or not. Conditions count as true, because otherwise the entire transaction aborts. A write
/// that does not fit the record's type changes nothing.
///
/// Errors: the write is one of a blob, or its contents are too long.
fn apply(local: Option<Local>, change: &WriteChange<'_>) -> Result<Option<Local>, ()> {
    let known = match (change, local) {
        // If the record is another one, the transaction aborts.
        (WriteChange::CompareSwap(swap), _) => {
            swap.expected.map_or(Local::Absent, |expected| Local::Bytes(expected.to_vec()))
        }
        (_, Some(known)) => known,
        (WriteChange::Remove(_), None) => return Ok(Some(Local::Absent)),
        (change, None) if change.depends_on_record() => return Ok(None),
        (_, None) => Local::Absent,
    };
    let mut state = LocalState { local: known, buffer: Vec::new() };
    let applied = change.apply(&mut state).ok_or(())?.map_err(|_| ())?;
    let LocalState { local, buffer } = state;
    let bytes = |contents| match contents {
        Contents::AsReceived(bytes) => bytes,
        Contents::Buffered => &buffer[..],
    };
    Ok(Some(match (applied.change, local) {
        (Change::Put { record: RecordType::List, contents, .. }, _) => Local::List(unpack(bytes(contents))?),
        (Change::Put { contents, .. }, _) => Local::Bytes(bytes(contents).to_vec()),
        (Change::Remove, _) => Local::Absent,
        (Change::Append { contents, .. }, Local::Bytes(mut all)) => {
            all.extend_from_slice(bytes(contents));
            Local::Bytes(all)
        }
        (Change::Append { contents, .. }, Local::List(mut all)) => {
            all.extend(unpack(bytes(contents))?);
            Local::List(all)
        }
        (Change::Append { contents, .. }, Local::Absent) => Local::List(unpack(bytes(contents))?),
        (Change::DropFront(units), Local::List(mut all)) => {
            all.drain(..units as usize);
            Local::List(all)
        }
        (Change::DropFront(_) | Change::Deadline(_) | Change::Nothing, local) => local,
    }))
}

/// The values of a list's contents: their number, then each with its length.
fn unpack(contents: &[u8]) -> Result<Vec<Bytes>, ()> {
    let (count, mut packed) = contents.split_first_chunk::<4>().ok_or(())?;
    let value = |_| take_length_prefixed(&mut packed).map(Bytes::copy_from_slice).map_err(|_| ());
    (0..u32::from_le_bytes(*count)).map(value).collect()
}

/// A record in the transaction's memory, as an operation sees it. It has neither version nor expiry.
struct LocalState {
    local: Local,
    buffer: Vec<u8>,
}

impl RecordState for LocalState {
    fn record_type(&self) -> Option<RecordType> {
        match &self.local {
            Local::Absent => None,
            Local::Bytes(_) => Some(RecordType::Bytes),
            Local::List(_) => Some(RecordType::List),
        }
    }

    fn version(&self) -> Timestamp {
        Timestamp::ZERO
    }

    fn length(&self) -> u64 {
        match &self.local {
            Local::Absent => 0,
            Local::Bytes(bytes) => bytes.len() as u64,
            Local::List(values) => values.len() as u64,
        }
    }

    fn deadline(&self) -> Option<u64> {
        None
    }

    fn next_version(&self) -> Timestamp {
        Timestamp::ZERO
    }

    fn deadline_of(&self, _: Expiry) -> Result<Option<u64>, Failure<'static>> {
        Ok(None)
    }

    fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    fn load(&mut self) -> Result<(), Failure<'static>> {
        if let Local::Bytes(bytes) = &self.local {
            self.buffer.extend_from_slice(bytes);
        }
        Ok(())
    }

    fn load_values(&mut self, values: Range<u64>, bytes_max: usize) -> Result<u64, Failure<'static>> {
        let Local::List(all) = &self.local else { return Ok(0) };
        let (begin, mut count) = (self.buffer.len(), 0);
        for value in all.iter().skip(values.start as usize).take((values.end - values.start) as usize) {
            if self.buffer.len() - begin + value.len() + 4 > bytes_max {
                break;
            }
            self.buffer.extend_from_slice(&(value.len() as u32).to_le_bytes());
            self.buffer.extend_from_slice(value);
            count += 1;
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use zerohop_wire::Elements;
    use zerohop_wire::blob::BlobStamp;
    use zerohop_wire::messages::{
        Append, BlobChange, CompareSwap, Condition, Extend, Increment, Insert, Range as Part, Remove, SetBit,
        Trim,
    };

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
        let insert = WriteChange::Insert(Insert { value: b"4", expiry: Expiry::Never });
        let add = WriteChange::Increment(Increment { delta: 3 });
        let extend = WriteChange::Extend(Extend { bytes: b"!" });
        assert_eq!(after(None, &[insert, add, extend]), Ok(Some(bytes("7!"))));
        assert_eq!(after(None, &[add]), Ok(None));
        assert_eq!(after(Some(Local::Absent), &[add, add]), Ok(Some(bytes("6"))));
        assert_eq!(after(Some(bytes("x")), &[add]), Ok(Some(bytes("x"))));
        assert_eq!(after(Some(bytes("x")), &[WriteChange::Remove(Remove)]), Ok(Some(Local::Absent)));
        let swap = WriteChange::CompareSwap(CompareSwap { expected: None, new: Some(b"new") });
        assert_eq!(after(None, &[swap]), Ok(Some(bytes("new"))));
        let values: [&[u8]; 1] = [b"v"];
        let append = WriteChange::Append(Append { values: Elements::from_slice(&values) });
        let list = |count| Local::List(vec![Bytes::from_static(b"v"); count]);
        assert_eq!(after(Some(list(1)), &[append, append]), Ok(Some(list(3))));
        assert_eq!(after(Some(bytes("x")), &[append]), Ok(Some(bytes("x"))));
        let keep = |start, stop| WriteChange::Trim(Trim { keep: Part { start, stop } });
        assert_eq!(after(Some(list(3)), &[keep(1, i64::MAX)]), Ok(Some(list(2))));
        assert_eq!(after(Some(list(3)), &[keep(0, 1)]), Ok(Some(list(1))));
        assert_eq!(after(Some(list(3)), &[keep(3, 3)]), Ok(Some(Local::Absent)));
        assert_eq!(after(None, &[keep(0, 1)]), Ok(None));
        let bit = WriteChange::SetBit(SetBit { offset: 7, on: true });
        assert_eq!(after(Some(Local::Absent), &[bit, extend]), Ok(Some(bytes("\u{1}!"))));
        let blob = WriteChange::Blob(BlobChange::DropChunk { stamp: BlobStamp::default() });
        assert_eq!(after(Some(bytes("x")), &[blob]), Err(()));
    }
}
