//! The methods of `NativeQueue`: queues of a cluster, also within transactions.

use std::sync::Arc;
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use zerohop_client::{Client, Error, Reason};
use zerohop_layer_queue::{CreateQueue, NewMessage, PartitionStatistics, QueueError, SettleAction};
use zerohop_queue_client::{BadLeaseToken, LeaseToken, OpenError, QueueClient, StorageSettings, new_queue};
use zerohop_wire::admin::{AdminQuestion, REFUSED_EXISTS};

use crate::answer::PythonAnswer;
use crate::arguments::{Blob, limit};
use crate::cluster;
use crate::outcome;
use crate::problem::{LayerUse, Problem, broken};
use crate::queue_handles::{NativeQueue, OpenQueue};
use crate::transaction::NativeTransaction;

/// The most messages of a pop: a consumer may have few leases.
const POP_MAX: u32 = 512;

/// Opens the queue of a name.
pub(crate) async fn open(client: &Client, name: &str) -> Result<PythonAnswer, Problem> {
    let opened = QueueClient::open(client, name).await;
    opened.map(|queue| answer(queue, name)).map_err(|error| problem(name, LayerUse::Read, error))
}

/// Creates a queue, and opens it.
pub(crate) async fn create(
    client: &Client,
    name: String,
    create: CreateQueue,
    settings: StorageSettings,
) -> Result<PythonAnswer, Problem> {
    let keyspace = AdminQuestion::CreateKeyspace(new_queue(name.clone(), create.partitions, settings));
    match cluster::request(client, keyspace).await {
        // It may be one that an interrupted creation has left.
        Err(Problem::Client(Error::Refused { code, .. })) if &*code == REFUSED_EXISTS => {}
        result => drop(result?),
    }
    let created = QueueClient::create(client, &name, create).await;
    created.map(|queue| answer(queue, &name)).map_err(|error| match error {
        OpenError::Queue(QueueError::NoSuchQueue) => {
            Problem::Queue { name: name.clone(), error: QueueError::QueueExists, used: LayerUse::Write }
        }
        error => problem(&name, LayerUse::Write, error),
    })
}

fn problem(name: &str, used: LayerUse, error: OpenError) -> Problem {
    let error = match error {
        OpenError::Client(error) if !matches!(error.reason(), Some(Reason::NoKeyspace { .. })) => {
            return Problem::Client(error);
        }
        OpenError::Client(_) => QueueError::NoSuchQueue,
        OpenError::Queue(error) => error,
    };
    Problem::Queue { name: name.to_owned(), error, used }
}

fn answer(queue: QueueClient, name: &str) -> PythonAnswer {
    PythonAnswer::Queue(Box::new(OpenQueue::new(name.to_owned(), queue)))
}

impl OpenQueue {
    fn failed(&self, used: LayerUse) -> impl Fn(QueueError) -> Problem + '_ {
        move |error| Problem::Queue { name: self.name.clone(), error, used }
    }

    async fn push(&self, messages: Vec<NewMessage>, patience: Duration) -> Result<PythonAnswer, Problem> {
        let Some(producer) = self.producer() else { return Err(Problem::Closed) };
        let until = later(self.queue.now(), patience);
        let pushed = producer.lock().await.push(messages, until).await;
        pushed.map(|(ids, _)| PythonAnswer::MessageIds(ids)).map_err(self.failed(LayerUse::Write))
    }

    /// The counts of all partitions together.
    async fn statistics(&self) -> Result<PythonAnswer, Problem> {
        let mut all = PartitionStatistics::default();
        for partition in 0..self.queue.options().partitions {
            let one = self.queue.statistics(partition).await.map_err(self.failed(LayerUse::Read))?;
            all.depth += one.depth;
            all.leased += one.leased;
            all.delayed += one.delayed;
            all.oldest = all.oldest.into_iter().chain(one.oldest).min();
        }
        Ok(PythonAnswer::QueueStatistics(all))
    }
}

const fn later(now: u64, wait: Duration) -> u64 {
    now.saturating_add(wait.as_millis() as u64)
}

fn new_messages(
    values: Vec<Blob>,
    group: Option<&String>,
    name: Option<&String>,
    delay: u64,
) -> Vec<NewMessage> {
    let message = |value: Blob| NewMessage {
        value: value.as_ref().to_vec(),
        group: group.cloned(),
        name: name.cloned(),
        delay,
    };
    values.into_iter().map(message).collect()
}

fn leases(receipts: &[String]) -> PyResult<Vec<LeaseToken>> {
    let bad = |error: BadLeaseToken| PyValueError::new_err(error.to_string());
    receipts.iter().map(|receipt| receipt.parse().map_err(bad)).collect()
}

/// What happens to leased messages, in so many milliseconds.
fn settle_action(word: &str, time: u64) -> PyResult<SettleAction> {
    match word {
        "acknowledge" => Ok(SettleAction::Acknowledge),
        "release" => Ok(SettleAction::Release { delay: time }),
        "extend" => Ok(SettleAction::Extend { lease: time }),
        _ => Err(broken("a lease is settled in an unknown way")),
    }
}

#[pymethods]
impl NativeQueue {
    /// The number of partitions.
    #[getter]
    fn partitions(&self, py: Python<'_>) -> PyResult<u32> {
        Ok(self.open(py)?.queue.options().partitions)
    }

    /// Pushes messages, and returns their ids. Times are in milliseconds.
    fn push(
        &self,
        py: Python<'_>,
        values: Vec<Blob>,
        group: Option<String>,
        name: Option<String>,
        delay: u64,
    ) -> PyResult<Py<PyAny>> {
        let open = self.open(py)?;
        let patience = self.client(py)?.options().deadline;
        let messages = new_messages(values, group.as_ref(), name.as_ref(), delay);
        outcome::run(&self.core, py, async move { open.push(messages, patience).await.into() })
    }

    /// Pops messages of one partition, or none if there is none within `wait` seconds. Without a lease, that of the queue counts.
    fn pop(&self, py: Python<'_>, messages: u32, lease: Option<u64>, wait: f64) -> PyResult<Py<PyAny>> {
        let wait = limit(Some(wait))?.unwrap_or_default();
        let open = self.open(py)?;
        let patience = self.client(py)?.options().deadline;
        outcome::run(&self.core, py, async move {
            let lease = lease.unwrap_or(open.queue.options().lease);
            let until = if wait.is_zero() { 0 } else { later(open.queue.now(), wait) };
            let popped = open.consumer().await.pop(messages.min(POP_MAX), lease, until, patience).await;
            popped.map(PythonAnswer::LeasedMessages).map_err(open.failed(LayerUse::Write)).into()
        })
    }

    /// Settles leases. Returns those that have lapsed, and those that were extended.
    fn settle(
        &self,
        py: Python<'_>,
        receipts: Vec<String>,
        action: &str,
        time_ms: u64,
    ) -> PyResult<Py<PyAny>> {
        let (leases, action) = (leases(&receipts)?, settle_action(action, time_ms)?);
        let open = self.open(py)?;
        let patience = self.client(py)?.options().deadline;
        outcome::run(&self.core, py, async move {
            let until = later(open.queue.now(), patience);
            let settled = open.queue.settle(&leases, action, until).await;
            let answer = |(lapsed, extended)| PythonAnswer::Settled(lapsed, extended);
            settled.map(answer).map_err(open.failed(LayerUse::Write)).into()
        })
    }

    /// Counts of all partitions together.
    fn statistics(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let open = self.open(py)?;
        outcome::run(&self.core, py, async move { open.statistics().await.into() })
    }

    /// Pushes messages in a transaction, and returns their ids.
    fn push_within(
        &self,
        py: Python<'_>,
        transaction: &NativeTransaction,
        values: Vec<Blob>,
        group: Option<String>,
        name: Option<String>,
        delay: u64,
    ) -> PyResult<Py<PyAny>> {
        let open = self.open(py)?;
        let transaction = transaction.transaction().clone();
        let messages = new_messages(values, group.as_ref(), name.as_ref(), delay);
        outcome::run(&self.core, py, async move {
            let pushed = open.queue.push_within(&transaction, messages).await;
            // Nothing is written before the commit.
            pushed.map(PythonAnswer::MessageIds).map_err(open.failed(LayerUse::Read)).into()
        })
    }

    /// Acknowledges messages in a transaction. If a lease has lapsed, the transaction ends without effect.
    fn acknowledge_within(
        &self,
        py: Python<'_>,
        transaction: &NativeTransaction,
        receipts: Vec<String>,
    ) -> PyResult<Py<PyAny>> {
        let leases = leases(&receipts)?;
        let open = self.open(py)?;
        let transaction = transaction.transaction().clone();
        outcome::run(&self.core, py, async move {
            let done = open.queue.acknowledge_within(&transaction, &leases).await;
            if done.is_err() {
                transaction.abort();
            }
            done.map(|()| PythonAnswer::Nothing).map_err(open.failed(LayerUse::Read)).into()
        })
    }
}

impl NativeQueue {
    fn client(&self, py: Python<'_>) -> PyResult<Client> {
        self.core.client().cloned().map_err(|problem| problem.exception(py))
    }

    fn open(&self, py: Python<'_>) -> PyResult<Arc<OpenQueue>> {
        self.client(py)?;
        self.open.get().cloned().ok_or_else(|| broken("a queue is gone"))
    }
}
