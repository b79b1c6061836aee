//! The result of an operation, before its conversion to a Python object.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyList};
use zerohop_client::{
    BlobInfo, Error, Failure, Info, Keyspace, PinnedBlobs, Record, RecordType, Reply, ScanKey, Snapshot,
    StagedContents, WatchEvent,
};

use zerohop_layer_queue::{MessageId, PartitionStatistics};
use zerohop_log_client::{LogReader, PlacedRecord};
use zerohop_objects::{ListEntry, ObjectRecord};
use zerohop_queue_client::{LeaseToken, LeasedMessage};
use zerohop_wire::admin::{KeyspaceStatus, Status};

use crate::cluster;
use crate::core::Core;
use crate::handles::{NativeKeyspace, NativePinnedBlobs, NativeSnapshot, NativeStagedContents};
use crate::log_handles::{NativeLog, NativeLogReader, OpenLog};
use crate::maintenance::OwnedByProcess;
use crate::object_handles::{
    NativeBucket, NativeObjectReader, NativeObjectWriter, OpenBucket, OpenReader, OpenWriter, object_page,
    object_state,
};
use crate::problem::{Problem, broken};
use crate::queue_handles::{NativeQueue, OpenQueue};
use crate::watch_event;

/// The result of an operation.
pub(crate) enum PythonAnswer {
    Nothing,
    Version(u64),
    Number(u64),
    Signed(i64),
    Flag(bool),
    Float(f64),
    Blob(Option<BlobInfo>),
    Blobs(Vec<Option<BlobInfo>>),
    StagedContents(StagedContents),
    PinnedBlobs(PinnedBlobs),
    Records(Vec<Option<Record>>),
    Committed {
        version: u64,
        results: Vec<Result<PythonAnswer, Problem>>,
    },
    Bytes(Option<Bytes>),
    Values(Option<Vec<Bytes>>),
    Record(Option<Record>),
    Info(Option<Info>),
    Many(Vec<Result<Reply, Error>>),
    /// The result of each operation of a batch.
    Outcomes(Vec<Result<PythonAnswer, Problem>>),
    Keys(Option<Vec<ScanKey>>),
    KeysAndValues(Option<Vec<ScanKey>>),
    Keyspace(Keyspace),
    KeyspaceStatus(Box<KeyspaceStatus>),
    Status(Box<Status>),
    Snapshot(Snapshot),
    Log(Box<OpenLog>),
    LogReader(String, Box<LogReader>),
    LogPlace {
        partition: u32,
        offset: u64,
    },
    LogBounds {
        first: u64,
        next: u64,
    },
    LogRecords(Vec<PlacedRecord>),
    /// What a member of a group reads, and records of it.
    LogPolled {
        generation: u64,
        partitions: Vec<u32>,
        records: Vec<PlacedRecord>,
    },
    LogOffsets(BTreeMap<u32, u64>),
    Queue(Box<OpenQueue>),
    MessageIds(Vec<MessageId>),
    LeasedMessages(Vec<LeasedMessage>),
    /// Of leases that were settled: those that have lapsed, and those that were extended.
    Settled(Vec<LeaseToken>, Vec<LeaseToken>),
    QueueStatistics(PartitionStatistics),
    Bucket(Box<OpenBucket>),
    /// Names, and times of creation in milliseconds since 1970.
    Buckets(Vec<(String, u64)>),
    Object(String, Box<ObjectRecord>),
    /// Entries, and whether there are more.
    ObjectPage(Vec<ListEntry<ObjectRecord>>, bool),
    ObjectWriter(Box<OpenWriter>),
    ObjectReader(Box<(ObjectRecord, OpenReader)>),
    /// An event of a watch, and its number.
    WatchEvent(u64, WatchEvent),
}

impl PythonAnswer {
    /// Converts it to a Python object.
    pub(crate) fn object(self, py: Python<'_>, core: &Arc<Core>) -> PyResult<Py<PyAny>> {
        match self {
            Self::Nothing | Self::Bytes(None) | Self::Values(None) | Self::Keys(None) => Ok(py.None()),
            Self::Record(None) | Self::Info(None) | Self::Blob(None) => Ok(py.None()),
            Self::KeysAndValues(None) => Ok(py.None()),
            Self::Float(number) => number.into_py_any(py),
            Self::Blob(Some(BlobInfo {
                id,
                generation,
                size,
                chunk_bytes,
                attributes,
                finished,
                version,
            })) => (id.0, generation, size, chunk_bytes, PyBytes::new(py, &attributes), version.0, finished)
                .into_py_any(py),
            Self::StagedContents(staged) => {
                core.keep_up();
                let (name, id) = (PyBytes::new(py, &staged.name), staged.id);
                (name, id, NativeStagedContents::new(staged)).into_py_any(py)
            }
            Self::PinnedBlobs(pinned) => {
                core.keep_up();
                let pinned = OwnedByProcess::new(Arc::new(pinned));
                NativePinnedBlobs { core: Arc::clone(core), pinned }.into_py_any(py)
            }
            Self::Blobs(blobs) => {
                let blobs = blobs.into_iter().map(|info| Self::Blob(info).object(py, core));
                PyList::new(py, blobs.collect::<PyResult<Vec<_>>>()?)?.into_py_any(py)
            }
            Self::Records(records) => {
                let records = records.into_iter().map(|record| Self::Record(record).object(py, core));
                PyList::new(py, records.collect::<PyResult<Vec<_>>>()?)?.into_py_any(py)
            }
            Self::Committed { version, results } => (version, outcomes(py, core, results)?).into_py_any(py),
            Self::Outcomes(results) => outcomes(py, core, results)?.into_py_any(py),
            Self::Version(number) | Self::Number(number) => number.into_py_any(py),
            Self::Signed(number) => number.into_py_any(py),
            Self::Flag(flag) => flag.into_py_any(py),
            Self::Bytes(Some(bytes)) => Ok(PyBytes::new(py, &bytes).into_any().unbind()),
            Self::Values(Some(values)) => list(py, &values)?.into_py_any(py),
            Self::Record(Some(Record::Bytes { version, bytes, .. })) => {
                (version.0, PyBytes::new(py, &bytes)).into_py_any(py)
            }
            Self::Record(Some(Record::List { version, values, .. })) => {
                (version.0, list(py, &values)?).into_py_any(py)
            }
            Self::Info(Some(Info { version, record, length, expires_at_ms })) => {
                (version.0, record == RecordType::List, length, expires_at_ms).into_py_any(py)
            }
            Self::Keys(Some(keys)) => {
                PyList::new(py, keys.iter().map(|listed| PyBytes::new(py, &listed.key)))?.into_py_any(py)
            }
            Self::KeysAndValues(Some(keys)) => {
                let pair = |listed: &ScanKey| {
                    let value = listed.value.as_ref().map(|value| PyBytes::new(py, value));
                    (PyBytes::new(py, &listed.key), value)
                };
                PyList::new(py, keys.iter().map(pair))?.into_py_any(py)
            }
            Self::Keyspace(keyspace) => {
                NativeKeyspace::new(Arc::clone(core), Arc::new(keyspace)).into_py_any(py)
            }
            Self::KeyspaceStatus(found) => cluster::keyspace(py, *found),
            Self::Status(found) => cluster::cluster_status(py, *found),
            Self::Snapshot(snapshot) => {
                core.keep_up();
                let at = snapshot.at().0;
                let snapshot = OwnedByProcess::new(Mutex::new(Some(Arc::new(snapshot))));
                NativeSnapshot { core: Arc::clone(core), snapshot, at }.into_py_any(py)
            }
            Self::Many(outcomes) => many(py, outcomes),
            Self::Log(open) => NativeLog::new(Arc::clone(core), *open).into_py_any(py),
            Self::LogReader(name, reader) => {
                NativeLogReader::new(Arc::clone(core), name, *reader).into_py_any(py)
            }
            Self::LogPlace { partition, offset } => (partition, offset).into_py_any(py),
            Self::LogBounds { first, next } => (first, next).into_py_any(py),
            Self::LogRecords(records) => log_records(py, &records)?.into_py_any(py),
            Self::LogPolled { generation, partitions, records } => {
                (generation, partitions, log_records(py, &records)?).into_py_any(py)
            }
            Self::LogOffsets(offsets) => offsets.into_py_any(py),
            Self::Queue(open) => NativeQueue::new(Arc::clone(core), *open).into_py_any(py),
            Self::MessageIds(ids) => texts(&ids).into_py_any(py),
            Self::LeasedMessages(messages) => {
                let messages = messages.iter().map(|leased| leased_message(py, leased));
                PyList::new(py, messages.collect::<PyResult<Vec<_>>>()?)?.into_py_any(py)
            }
            Self::Settled(lapsed, extended) => (texts(&lapsed), texts(&extended)).into_py_any(py),
            Self::QueueStatistics(PartitionStatistics { depth, leased, delayed, oldest, .. }) => {
                (depth, leased, delayed, oldest).into_py_any(py)
            }
            Self::Bucket(open) => NativeBucket::new(Arc::clone(core), *open).into_py_any(py),
            Self::Buckets(buckets) => buckets.into_py_any(py),
            Self::Object(name, object) => object_state(py, name.as_bytes(), &object),
            Self::ObjectPage(entries, is_truncated) => object_page(py, &entries, is_truncated),
            Self::ObjectWriter(open) => {
                core.keep_up();
                NativeObjectWriter::new(Arc::clone(core), *open).into_py_any(py)
            }
            Self::ObjectReader(found) => {
                let (object, open) = *found;
                let name = open.place.name.clone().unwrap_or_default();
                let state = object_state(py, name.as_bytes(), &object)?;
                (state, NativeObjectReader::new(Arc::clone(core), open)).into_py_any(py)
            }
            Self::WatchEvent(number, event) => watch_event::to_python(py, number, event),
        }
    }
}

/// A list with the result, or the exception, of each operation.
fn outcomes<'py>(
    py: Python<'py>,
    core: &Arc<Core>,
    results: Vec<Result<PythonAnswer, Problem>>,
) -> PyResult<Bound<'py, PyList>> {
    let one = |result: Result<PythonAnswer, Problem>| match result {
        Ok(answer) => answer.object(py, core),
        Err(problem) => Ok(problem.value(py)?.unbind()),
    };
    PyList::new(py, results.into_iter().map(one).collect::<PyResult<Vec<_>>>()?)
}

fn list<'py>(py: Python<'py>, values: &[Bytes]) -> PyResult<Bound<'py, PyList>> {
    PyList::new(py, values.iter().map(|value| PyBytes::new(py, value)))
}

fn log_records<'py>(py: Python<'py>, records: &[PlacedRecord]) -> PyResult<Bound<'py, PyList>> {
    let records = records.iter().map(|placed| log_record(py, placed));
    PyList::new(py, records.collect::<PyResult<Vec<_>>>()?)
}

/// The arguments of `zerohop._logs.LogRecord`.
fn log_record(py: Python<'_>, placed: &PlacedRecord) -> PyResult<Py<PyAny>> {
    let PlacedRecord { partition, offset, record } = placed;
    let bytes = |bytes: &Option<Vec<u8>>| bytes.as_ref().map(|bytes| PyBytes::new(py, bytes));
    let headers: Vec<_> = record.headers.iter().map(|(name, value)| (name, bytes(value))).collect();
    (*partition, *offset, record.time, bytes(&record.key), bytes(&record.value), headers).into_py_any(py)
}

fn texts(values: &[impl ToString]) -> Vec<String> {
    values.iter().map(ToString::to_string).collect()
}

/// The arguments of `zerohop._queues.MessageState`.
fn leased_message(py: Python<'_>, leased: &LeasedMessage) -> PyResult<Py<PyAny>> {
    let LeasedMessage { lease, message } = leased;
    let (id, tries) = (lease.receipt.message.to_string(), lease.receipt.tries);
    let value = PyBytes::new(py, &message.value);
    (lease.to_string(), id, value, &message.group, &message.name, tries, message.pushed).into_py_any(py)
}

/// A list with an object for each outcome. If any failed, an exception with the list, in which
/// exceptions take the place of these.
fn many(py: Python<'_>, outcomes: Vec<Result<Reply, Error>>) -> PyResult<Py<PyAny>> {
    let mut failed = 0_usize;
    let mut one = |outcome: Result<Reply, Error>| -> PyResult<Bound<'_, PyAny>> {
        match outcome {
            Ok(Reply::Value { bytes, .. }) => Ok(PyBytes::new(py, &bytes).into_any()),
            Ok(Reply::Done { number, .. }) => number.into_bound_py_any(py),
            Err(error) if matches!(error.failure(), Some(Failure::NotFound)) => Ok(py.None().into_bound(py)),
            Err(error) => {
                failed += 1;
                Problem::Client(error).value(py)
            }
            Ok(_) => Err(broken("a server answered a batch with something else")),
        }
    };
    let objects = outcomes.into_iter().map(&mut one).collect::<PyResult<Vec<_>>>()?;
    let objects = PyList::new(py, objects)?;
    if failed == 0 {
        return objects.into_py_any(py);
    }
    static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let make = MAKE.import(py, "zerohop.errors", "_make_batch")?;
    Err(PyErr::from_value(make.call1((failed, objects))?))
}
