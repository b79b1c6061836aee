//! The methods of `NativeLog`, `NativeLogReader` and `NativeLogPopper`: logs of a cluster.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tokio::sync::Mutex;
use zerohop_client::{Client, Error, Reason};
use zerohop_layer_log::{CreateLog, LogError, LogRecord, TrimGoal};
use zerohop_log_client::{
    LogClient, LogMember, LogPopper, LogReader, OpenError, PlacedRecord, ReadStart, StorageSettings, new_log,
};
use zerohop_wire::admin::{AdminQuestion, REFUSED_EXISTS};

use crate::answer::PythonAnswer;
use crate::arguments::{Blob, limit};
use crate::cluster;
use crate::log_group::NativeLogGroup;
use crate::log_handles::{NativeLog, NativeLogPopper, NativeLogReader, OpenLog};
use crate::maintenance::OwnedByProcess;
use crate::outcome;
use crate::problem::{LayerUse, Problem, broken};

/// The arguments of a new log.
#[derive(Debug)]
pub(crate) struct LogArguments {
    pub(crate) id: [u8; 16],
    pub(crate) partitions: u32,
    pub(crate) retention_ms: Option<u64>,
    pub(crate) retention_bytes: Option<u64>,
    pub(crate) settings: StorageSettings,
}

/// A record of a caller: value, key, headers, time in milliseconds since 1970.
type RecordArgument = (Option<Blob>, Option<Blob>, Vec<(String, Option<Blob>)>, Option<u64>);

/// Opens the log of a name.
pub(crate) async fn open(client: &Client, name: String) -> Result<PythonAnswer, Problem> {
    let opened = LogClient::open(client, &name).await;
    opened.map(|log| answer(log, &name)).map_err(|error| problem(&name, LayerUse::Read, error))
}

/// Creates a log, and opens it.
pub(crate) async fn create(
    client: &Client,
    name: String,
    arguments: LogArguments,
) -> Result<PythonAnswer, Problem> {
    let LogArguments { id, partitions, retention_ms: retention, retention_bytes, settings } = arguments;
    let keyspace = AdminQuestion::CreateKeyspace(new_log(name.clone(), partitions, settings));
    match cluster::request(client, keyspace).await {
        // It may be one that an interrupted creation has left.
        Err(Problem::Client(Error::Refused { code, .. })) if &*code == REFUSED_EXISTS => {}
        result => drop(result?),
    }
    let created = LogClient::create(client, &name, CreateLog { id, partitions, retention, retention_bytes });
    created.await.map(|log| answer(log, &name)).map_err(|error| match error {
        OpenError::Log(LogError::NoSuchLog) => {
            Problem::Log { name: name.clone(), error: LogError::LogExists, used: LayerUse::Write }
        }
        error => problem(&name, LayerUse::Write, error),
    })
}

fn problem(name: &str, used: LayerUse, error: OpenError) -> Problem {
    let error = match error {
        OpenError::Client(error) if !matches!(error.reason(), Some(Reason::NoKeyspace { .. })) => {
            return Problem::Client(error);
        }
        OpenError::Client(_) => LogError::NoSuchLog,
        OpenError::Log(error) => error,
    };
    Problem::Log { name: name.to_owned(), error, used }
}

fn answer(log: LogClient, name: &str) -> PythonAnswer {
    PythonAnswer::Log(Box::new(OpenLog::new(name.to_owned(), log)))
}

impl OpenLog {
    fn failed(&self, used: LayerUse) -> impl Fn(LogError) -> Problem + '_ {
        move |error| Problem::Log { name: self.name.clone(), error, used }
    }

    async fn append(
        &self,
        partition: Option<u32>,
        mut records: Vec<LogRecord>,
        patience: Duration,
    ) -> Result<PythonAnswer, Problem> {
        let turn = self.next_producer.fetch_add(1, Ordering::Relaxed) % self.producers.len();
        let Some(producer) = self.producers.get(turn) else { return Err(Problem::Closed) };
        let mut producer = producer.lock().await;
        let now = self.log.now();
        records.iter_mut().filter(|record| record.time == 0).for_each(|record| record.time = now);
        let key = records.first().and_then(|record| record.key.as_deref());
        let partition = partition.unwrap_or_else(|| producer.choose_partition(key));
        let until = later(now, patience);
        let appended =
            producer.append(partition, &records, until).await.map_err(self.failed(LayerUse::Write))?;
        Ok(PythonAnswer::LogPlace { partition, offset: appended.base })
    }
}

const fn later(now: u64, wait: Duration) -> u64 {
    now.saturating_add(wait.as_millis() as u64)
}

fn record((value, key, headers, time): RecordArgument) -> LogRecord {
    let bytes = |blob: Blob| blob.as_ref().to_vec();
    LogRecord {
        time: time.unwrap_or(0),
        key: key.map(bytes),
        value: value.map(bytes),
        headers: headers.into_iter().map(|(name, value)| (name, value.map(bytes))).collect(),
    }
}

#[pymethods]
impl NativeLog {
    /// The number of partitions.
    #[getter]
    fn partitions(&self, py: Python<'_>) -> PyResult<u32> {
        Ok(self.open(py)?.log.options().partitions)
    }

    /// Appends records as one batch. Returns its partition and the offset of its first record.
    fn append(
        &self,
        py: Python<'_>,
        records: Vec<RecordArgument>,
        partition: Option<u32>,
    ) -> PyResult<Py<PyAny>> {
        let open = self.open(py)?;
        let patience = self.client(py)?.options().deadline;
        let records = records.into_iter().map(record).collect();
        outcome::run(&self.core, py, async move { open.append(partition, records, patience).await.into() })
    }

    /// The first offset of a partition, and that of the next record.
    fn bounds(&self, py: Python<'_>, partition: u32) -> PyResult<Py<PyAny>> {
        let open = self.open(py)?;
        outcome::run(&self.core, py, async move {
            let bounds = open.log.bounds(partition).await.map_err(open.failed(LayerUse::Read));
            bounds.map(|bounds| PythonAnswer::LogBounds { first: bounds.first, next: bounds.next }).into()
        })
    }

    /// Removes the batches below an offset of a partition, or without an offset those that the log's retention does not keep. Returns
    /// the number of batches.
    fn trim(&self, py: Python<'_>, partition: u32, below: Option<u64>) -> PyResult<Py<PyAny>> {
        let open = self.open(py)?;
        outcome::run(&self.core, py, async move {
            let Some(goal) = below.map(TrimGoal::Below).or_else(|| open.log.retention()) else {
                return Ok(PythonAnswer::Number(0)).into();
            };
            let trimmed = open.log.trim(partition, goal).await.map_err(open.failed(LayerUse::Write));
            trimmed.map(|trimmed| PythonAnswer::Number(trimmed.batches)).into()
        })
    }

    /// A reader of partitions, or a future of it: from the first record, from the end, or from a time in milliseconds since 1970.
    fn reader(
        &self,
        py: Python<'_>,
        partitions: Vec<u32>,
        at_end: bool,
        time: Option<u64>,
    ) -> PyResult<Py<PyAny>> {
        let open = self.open(py)?;
        let start = match time {
            Some(time) => ReadStart::Time(time),
            None if at_end => ReadStart::End,
            None => ReadStart::First,
        };
        outcome::run(&self.core, py, async move {
            let reader = LogReader::open(open.log.clone(), &partitions, start).await;
            let reader = reader.map_err(open.failed(LayerUse::Read));
            reader.map(|reader| PythonAnswer::LogReader(open.name.clone(), Box::new(reader))).into()
        })
    }

    /// A reader that begins at these offsets of partitions.
    fn reader_at(&self, py: Python<'_>, offsets: BTreeMap<u32, u64>) -> PyResult<NativeLogReader> {
        let open = self.open(py)?;
        let reader = LogReader::new(open.log.clone(), offsets);
        Ok(NativeLogReader::new(Arc::clone(&self.core), open.name.clone(), reader))
    }

    /// A reader of a cursor.
    fn popper(&self, py: Python<'_>, cursor: String) -> PyResult<NativeLogPopper> {
        zerohop_layer_log::keys::check_name(&cursor)
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        let open = self.open(py)?;
        let popper = Mutex::new(LogPopper::new(open.log.clone(), cursor));
        let popper = OwnedByProcess::new(Arc::new((open.name.clone(), popper)));
        Ok(NativeLogPopper { core: Arc::clone(&self.core), popper })
    }

    /// A member of a group, which leaves after `session` milliseconds without a sign of life.
    fn group(&self, py: Python<'_>, group: String, session: u64) -> PyResult<NativeLogGroup> {
        zerohop_layer_log::keys::check_name(&group)
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        let open = self.open(py)?;
        let patience = self.client(py)?.options().deadline;
        let member = LogMember::new(open.log.clone(), group, session, patience);
        Ok(NativeLogGroup::new(Arc::clone(&self.core), open.name.clone(), member))
    }
}

impl NativeLog {
    fn client(&self, py: Python<'_>) -> PyResult<Client> {
        self.core.client().cloned().map_err(|problem| problem.exception(py))
    }

    fn open(&self, py: Python<'_>) -> PyResult<Arc<OpenLog>> {
        self.client(py)?;
        self.open.get().cloned().ok_or_else(|| broken("a log is gone"))
    }
}

#[pymethods]
impl NativeLogReader {
    /// The next records, or none if there is none within `wait` seconds.
    fn next(&self, py: Python<'_>, bytes: usize, wait: f64) -> PyResult<Py<PyAny>> {
        let wait = limit(Some(wait))?.unwrap_or_default();
        self.core.client().map_err(|problem| problem.exception(py))?;
        let reader = self.reader.get().cloned().ok_or_else(|| broken("a reader is gone"))?;
        outcome::run(&self.core, py, async move {
            let (name, reader) = &*reader;
            let mut reader = reader.lock().await;
            let until = if wait.is_zero() { 0 } else { later(reader.log().now(), wait) };
            let records = reader.next(bytes, until).await;
            let failed = |error| Problem::Log { name: name.clone(), error, used: LayerUse::Read };
            records.map(PythonAnswer::LogRecords).map_err(failed).into()
        })
    }

    /// The next offset of each partition, or a future of them.
    fn offsets(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.core.client().map_err(|problem| problem.exception(py))?;
        let reader = self.reader.get().cloned().ok_or_else(|| broken("a reader is gone"))?;
        outcome::run(&self.core, py, async move {
            Ok(PythonAnswer::LogOffsets(reader.1.lock().await.offsets().clone())).into()
        })
    }
}

#[pymethods]
impl NativeLogPopper {
    /// Pops records of the first of these partitions that has some, or returns none if there is none within `wait` seconds.
    fn pop(
        &self,
        py: Python<'_>,
        partitions: Option<Vec<u32>>,
        records: u32,
        wait: f64,
    ) -> PyResult<Py<PyAny>> {
        let wait = limit(Some(wait))?.unwrap_or_default();
        let patience = self.core.client().map_err(|problem| problem.exception(py))?.options().deadline;
        let popper = self.popper.get().cloned().ok_or_else(|| broken("a cursor is gone"))?;
        outcome::run(&self.core, py, async move {
            let (name, popper) = &*popper;
            let mut popper = popper.lock().await;
            let partitions = partitions.unwrap_or_else(|| (0..popper.log().options().partitions).collect());
            let until = later(popper.log().now(), wait);
            let failed = |error| Problem::Log { name: name.clone(), error, used: LayerUse::Write };
            let popped = popper.pop_any(&partitions, records, until, patience).await.map_err(failed);
            let placed = |partition| move |(offset, record)| PlacedRecord { partition, offset, record };
            let records = popped.map(|popped| match popped {
                Some((partition, popped)) => popped.records.into_iter().map(placed(partition)).collect(),
                None => Vec::new(),
            });
            records.map(PythonAnswer::LogRecords).into()
        })
    }

    /// Removes what the log remembers of the pops of this reader.
    fn forget(&self, py: Python<'_>, partition: u32) -> PyResult<Py<PyAny>> {
        self.core.client().map_err(|problem| problem.exception(py))?;
        let popper = self.popper.get().cloned().ok_or_else(|| broken("a cursor is gone"))?;
        outcome::run(&self.core, py, async move {
            let (name, popper) = &*popper;
            let failed = |error| Problem::Log { name: name.clone(), error, used: LayerUse::Write };
            let forgotten = popper.lock().await.forget(partition).await.map_err(failed);
            forgotten.map(|()| PythonAnswer::Nothing).into()
        })
    }
}
