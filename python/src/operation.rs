//! Operations on a keyspace with owned arguments: they run without Python.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use zerohop_client::{
    Coalescing, Collect, Condition, Error, Expiry, Failure, Keyspace, Range, Reason, Record, RecordType,
    Reply,
};
use zerohop_wire::limits::BODY_BYTES_MAX;
use zerohop_wire::messages::{
    Insert, Query, RecordOperation as WireOperation, RecordRead, RecordWrite, Remove, WriteChange,
};

use crate::answer::PythonAnswer;
use crate::arguments::{Blob, WaitArgument};
use crate::number::NumberChange;
use crate::problem::Problem;

/// The highest number of open operations of a batch: a fraction of the session's limit, so that
/// other callers have space.
pub(crate) const BATCH_OPERATIONS_MAX: usize = 16 << 10;

/// The bytes of keys and values of a batch's open operations, or of one operation, if that is
/// larger: for the same reason.
const BATCH_BYTES_MAX: usize = 32 << 20;

/// An operation, with its arguments.
pub(crate) enum PythonOperation {
    Get(Blob),
    Lookup(Blob),
    Inspect(Blob),
    Insert { key: Blob, value: Blob, expiry: Expiry, condition: Condition },
    Remove { key: Blob, condition: Condition },
    Take(Blob),
    Append { key: Blob, values: Vec<Blob> },
    Extend { key: Blob, bytes: Blob },
    CompareSwap { key: Blob, expected: Option<Blob>, new: Option<Blob> },
    Increment { key: Blob, delta: i64 },
    Expire { key: Blob, expiry: Expiry },
    Values { key: Blob, range: Range },
    Trim { key: Blob, range: Range },
    Wait { key: Blob, until: WaitArgument },
    Transform { key: Blob, change: NumberChange },
    ReadMany(Vec<Blob>),
    GetMany(Vec<Blob>),
    InsertMany { records: Vec<(Blob, Blob)>, expiry: Expiry },
    RemoveMany(Vec<Blob>),
}

/// How an operation is sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SendOptions {
    /// The time limit, by default the client's. Batches of one kind have the default.
    pub(crate) limit: Option<Duration>,
    /// Whether it shares a frame with operations that are submitted in the same turn.
    shares_frame: bool,
}

impl SendOptions {
    /// Those of a single call.
    pub(crate) fn within(limit: Option<Duration>) -> SendOptions {
        SendOptions { limit, shares_frame: false }
    }
}

impl PythonOperation {
    /// Runs it.
    pub(crate) async fn run(
        &self,
        keyspace: &Keyspace,
        SendOptions { limit, shares_frame }: SendOptions,
    ) -> Result<PythonAnswer, Problem> {
        // Rare operations are boxed, so that the common ones stay small.
        macro_rules! done {
            ($operation:expr) => {{
                let operation = $operation;
                let operation = if shares_frame { operation.collecting(SAME_TURN) } else { operation };
                match limit {
                    Some(limit) => operation.deadline(limit).await?,
                    None => operation.await?,
                }
            }};
        }
        Ok(match self {
            Self::Get(key) => PythonAnswer::Bytes(done!(keyspace.lookup_bytes(key))),
            Self::Lookup(key) => match done!(keyspace.lookup(key)) {
                Some(Record::List { version, length, values, .. }) if (values.len() as u64) < length => {
                    let range = Range { start: 0, stop: i64::MAX };
                    let values = Box::pin(list(keyspace, key.as_ref(), range, limit)).await?;
                    let values = values.unwrap_or_default();
                    PythonAnswer::Record(Some(Record::List {
                        version,
                        length: values.len() as u64,
                        first: 0,
                        values,
                    }))
                }
                record => PythonAnswer::Record(record),
            },
            Self::Inspect(key) => PythonAnswer::Info(done!(keyspace.inspect(key))),
            Self::Insert { key, value, expiry, condition } => PythonAnswer::Version(
                done!(keyspace.insert_until(key, value, *expiry).condition(*condition)).0,
            ),
            Self::Remove { key, condition } => {
                PythonAnswer::Flag(done!(keyspace.remove(key).condition(*condition)))
            }
            Self::Take(key) => PythonAnswer::Record(done!(keyspace.take(key))),
            Self::Append { key, values } => {
                let values: Vec<&[u8]> = values.iter().map(AsRef::as_ref).collect();
                PythonAnswer::Number(done!(keyspace.append(key, &values)))
            }
            Self::Extend { key, bytes } => PythonAnswer::Number(done!(keyspace.extend(key, bytes))),
            Self::CompareSwap { key, expected, new } => {
                let (expected, new) = (expected.as_ref().map(AsRef::as_ref), new.as_ref().map(AsRef::as_ref));
                PythonAnswer::Version(done!(keyspace.compare_swap(key, expected, new)).0)
            }
            Self::Increment { key, delta } => PythonAnswer::Signed(done!(keyspace.increment(key, *delta))),
            Self::Expire { key, expiry } => PythonAnswer::Flag(done!(keyspace.expire(key, *expiry))),
            Self::Values { key, range } => {
                PythonAnswer::Values(Box::pin(list(keyspace, key.as_ref(), *range, limit)).await?)
            }
            Self::Trim { key, range } => PythonAnswer::Number(done!(keyspace.trim(key, *range))),
            Self::Wait { key, until } => PythonAnswer::Record(done!(keyspace.wait(key, until.until()))),
            Self::Transform { key, change } => change.of_record(keyspace, key.as_ref()).await?,
            Self::ReadMany(keys) => PythonAnswer::Records(keyspace.read_many(keys).await?),
            Self::GetMany(keys) => {
                let read = |key: &'_ Blob| -> usize { key.as_ref().len() };
                let operation = |key| WireOperation::Read(RecordRead { key, query: Query::Lookup });
                let found = batch(keyspace, keys, read, |key: &Blob| operation(borrowed(key)));
                PythonAnswer::Many(Box::pin(found).await)
            }
            Self::InsertMany { records, expiry } => {
                let size = |(key, value): &(Blob, Blob)| key.as_ref().len() + value.as_ref().len();
                let done = Box::pin(batch(keyspace, records, size, |(key, value)| {
                    let change = WriteChange::Insert(Insert { value: borrowed(value), expiry: *expiry });
                    WireOperation::Write(RecordWrite {
                        key: borrowed(key),
                        condition: Condition::Always,
                        change,
                    })
                }))
                .await;
                // Versions are returned only beside failures.
                match done.iter().all(Result::is_ok) {
                    true => PythonAnswer::Nothing,
                    false => PythonAnswer::Many(done),
                }
            }
            Self::RemoveMany(keys) => {
                let size = |key: &Blob| key.as_ref().len();
                let found = Box::pin(batch(keyspace, keys, size, |key: &Blob| {
                    let (condition, change) = (Condition::Always, WriteChange::Remove(Remove));
                    WireOperation::Write(RecordWrite { key: borrowed(key), condition, change })
                }))
                .await;
                PythonAnswer::Many(found)
            }
        })
    }
}

/// For operations that are submitted in the same turn.
const SAME_TURN: Coalescing = Coalescing::Within(Collect { delay_us: 0, bytes: BODY_BYTES_MAX as u32 });

impl PythonOperation {
    /// Bytes of keys and values that it sends.
    fn bytes(&self) -> usize {
        let length = |blob: &Blob| blob.as_ref().len();
        let all = |blobs: &[Blob]| blobs.iter().map(length).sum::<usize>();
        match self {
            Self::Get(key) | Self::Lookup(key) | Self::Inspect(key) | Self::Take(key) => length(key),
            Self::Remove { key, .. }
            | Self::Increment { key, .. }
            | Self::Expire { key, .. }
            | Self::Values { key, .. }
            | Self::Trim { key, .. }
            | Self::Wait { key, .. }
            | Self::Transform { key, .. } => length(key),
            Self::Insert { key, value, .. } => length(key) + length(value),
            Self::Extend { key, bytes } => length(key) + length(bytes),
            Self::Append { key, values } => length(key) + all(values),
            Self::CompareSwap { key, expected, new } => {
                length(key) + expected.iter().chain(new).map(length).sum::<usize>()
            }
            Self::ReadMany(keys) | Self::GetMany(keys) | Self::RemoveMany(keys) => all(keys),
            Self::InsertMany { records, .. } => {
                records.iter().map(|(key, value)| length(key) + length(value)).sum()
            }
        }
    }
}

/// Runs operations together, in as many rounds as the bounds require. Each has its own result, in their order.
pub(crate) async fn run_together(
    operations: &[PythonOperation],
    keyspace: &Keyspace,
    limit: Option<Duration>,
) -> Vec<Result<PythonAnswer, Problem>> {
    let options = SendOptions { limit, shares_frame: true };
    let mut results = Vec::with_capacity(operations.len());
    let mut left = operations;
    while !left.is_empty() {
        let (now, later) = left.split_at(piece(left, PythonOperation::bytes));
        let mut calls: Vec<_> = now.iter().map(|one| Box::pin(one.run(keyspace, options))).collect();
        let mut early: Vec<_> = calls.iter().map(|_| None).collect();
        // The first poll of a call sends its operation: all are sent in this turn.
        poll_fn(|context| {
            for (call, result) in calls.iter_mut().zip(&mut early) {
                if let Poll::Ready(done) = call.as_mut().poll(context) {
                    *result = Some(done);
                }
            }
            Poll::Ready(())
        })
        .await;
        for (call, early) in calls.into_iter().zip(early) {
            results.push(match early {
                Some(result) => result,
                None => call.await,
            });
        }
        left = later;
    }
    results
}

/// The number of the first items that are sent together: at least one.
fn piece<T>(items: &[T], size: impl Fn(&T) -> usize) -> usize {
    let mut bytes = 0;
    let fits = |item: &&T| {
        bytes += size(item);
        bytes <= BATCH_BYTES_MAX
    };
    items.iter().take(BATCH_OPERATIONS_MAX).take_while(fits).count().max(1)
}

fn borrowed(blob: &Blob) -> &[u8] {
    blob.as_ref()
}

/// Sends `items` together, in as many rounds as the bounds require.
async fn batch<'a, T>(
    keyspace: &Keyspace,
    items: &'a [T],
    size: impl Fn(&T) -> usize,
    operation: impl Fn(&'a T) -> WireOperation<'a>,
) -> Vec<Result<Reply, Error>> {
    let mut outcomes = Vec::with_capacity(items.len());
    let mut left = items;
    while !left.is_empty() {
        let (now, later) = left.split_at(piece(left, &size));
        let operations: Vec<WireOperation<'a>> = now.iter().map(&operation).collect();
        let results = keyspace.batch(&operations).await.into_iter().zip(&operations);
        outcomes.extend(results.map(|(outcome, operation)| match outcome {
            Ok(Reply::List { .. }) => Err(wrong_type(operation.key(), RecordType::List)),
            other => other,
        }));
        left = later;
    }
    outcomes
}

/// A part of a list, page after page. Values that are appended meanwhile may be included; values
/// that are trimmed meanwhile are left out. `None` if the record is absent.
async fn list(
    keyspace: &Keyspace,
    key: &[u8],
    range: Range,
    limit: Option<Duration>,
) -> Result<Option<Vec<bytes::Bytes>>, Problem> {
    let (mut start, mut all) = (range.start, Vec::new());
    loop {
        let page = keyspace.lookup_range(key, Range { start, stop: range.stop });
        let page = match limit {
            Some(limit) => page.deadline(limit).await?,
            None => page.await?,
        };
        let (first, length, values) = match page {
            None if all.is_empty() => return Ok(None),
            None => return Ok(Some(all)),
            Some(Record::Bytes { .. }) => {
                return Err(wrong_type(key, RecordType::Bytes).into());
            }
            Some(Record::List { first, length, values, .. }) => (first, length, values),
        };
        let next = first + values.len() as u64;
        let none = values.is_empty();
        all.extend(values);
        let stop = match range.stop {
            stop if stop < 0 => length.saturating_sub(stop.unsigned_abs()),
            stop => length.min(stop.unsigned_abs()),
        };
        if none || next >= stop {
            return Ok(Some(all));
        }
        start = i64::try_from(next).unwrap_or(i64::MAX);
    }
}

/// The error of a server that knew the wanted type.
fn wrong_type(key: &[u8], found: RecordType) -> Error {
    let reason = Box::new(Reason::Answer { failure: Failure::WrongType { found } });
    Error::Operation { key: Some(key[..key.len().min(KEY_BYTES_SHOWN)].into()), reason }
}

/// The longest part of a key in an exception, as elsewhere.
const KEY_BYTES_SHOWN: usize = 64;
