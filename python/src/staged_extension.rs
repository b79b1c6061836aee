//! The class `NativeStagedExtension`: bytes that are staged behind a blob's end over several calls, and
//! published together by the last call.
//!
//! A staged extension borrows its keyspace. So a worker, a future that owns both, runs one step after
//! the other, driven by the caller of the step. A step that fails or is cancelled drops the worker:
//! its bytes are then never published, and no more can be added.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use bytes::{Bytes, BytesMut};
use pyo3::prelude::*;
use tokio::sync::{Mutex, Notify, mpsc, oneshot};
use zerohop_client::{Blob, Error, Keyspace, StagedExtension};

use crate::answer::PythonAnswer;
use crate::arguments::Blob as Name;
use crate::blob::named;
use crate::core::Core;
use crate::memory::Memory;
use crate::outcome::{self, CallOutcome, UsedArguments};
use crate::problem::Problem;

/// Up to this size the bytes are buffered and written in one transaction at the end, without
/// staging: one chunk, which is copied fast.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// Bytes by which a blob is being extended.
#[pyclass(frozen, module = "zerohop._native")]
pub(crate) struct NativeStagedExtension {
    core: Arc<Core>,
    /// `None`: it has ended.
    worker: Arc<ExtensionSlot>,
}

struct ExtensionSlot {
    worker: Mutex<Option<Worker>>,
    /// Ends the worker, during the present step or the next one.
    given_up: Notify,
}

struct Worker {
    work: Pin<Box<dyn Future<Output = ()> + Send>>,
    steps: mpsc::Sender<(ExtensionStep, StepReply)>,
}

/// The number of bytes added so far, or the size of the blob.
type StepReply = oneshot::Sender<Result<u64, Error>>;

enum ExtensionStep {
    Push(Arc<Memory>),
    /// With new attributes, if given.
    Publish(Option<Bytes>),
}

#[pymethods]
impl NativeStagedExtension {
    /// Adds bytes. Returns how many have been added in total.
    fn push(&self, py: Python<'_>, bytes: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let bytes = Arc::new(Memory::readable(bytes)?);
        let worker = Arc::clone(&self.worker);
        outcome::run(&self.core, py, async move {
            let result = step(&worker, ExtensionStep::Push(Arc::clone(&bytes))).await;
            CallOutcome { result: result.map(PythonAnswer::Number), spent: UsedArguments::Memory(bytes) }
        })
    }

    /// Publishes the bytes in the blob. Returns its size.
    #[pyo3(signature = (attributes = None))]
    fn publish(&self, py: Python<'_>, attributes: Option<Name>) -> PyResult<Py<PyAny>> {
        let attributes = attributes.map(|attributes| Bytes::copy_from_slice(attributes.as_ref()));
        let worker = Arc::clone(&self.worker);
        outcome::run(&self.core, py, async move {
            let result = step(&worker, ExtensionStep::Publish(attributes)).await;
            result.map(PythonAnswer::Number).into()
        })
    }

    /// Abandons the extension, including the step in progress: after cancellation of its future, an
    /// event loop's step would continue.
    fn give_up(&self) {
        self.worker.given_up.notify_one();
    }
}

impl NativeStagedExtension {
    pub(crate) fn new(core: Arc<Core>, keyspace: Arc<Keyspace>, (name, unfinished): (Bytes, bool)) -> Self {
        let (sender, steps) = mpsc::channel(1);
        let worker = Worker { work: Box::pin(work(keyspace, (name, unfinished), steps)), steps: sender };
        let place = ExtensionSlot { worker: Mutex::new(Some(worker)), given_up: Notify::new() };
        Self { core, worker: Arc::new(place) }
    }
}

/// Runs a step. If it is dropped before its end, the worker ends.
async fn step(place: &ExtensionSlot, step: ExtensionStep) -> Result<u64, Problem> {
    let mut worker = place.worker.lock().await;
    let mut given_up = pin!(place.given_up.notified());
    let is_last = matches!(step, ExtensionStep::Publish(_));
    let mut running = worker.take().ok_or(Problem::ExtensionEnded)?;
    let (sender, mut answer) = oneshot::channel();
    // The worker runs one step at a time, and waits for this one.
    running.steps.try_send((step, sender)).map_err(|_| Problem::ExtensionEnded)?;
    let result = poll_fn(|cx| {
        if given_up.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(Problem::ExtensionEnded));
        }
        let ended = running.work.as_mut().poll(cx).is_ready();
        match Pin::new(&mut answer).poll(cx) {
            Poll::Pending if ended => Poll::Ready(Err(Problem::ExtensionEnded)),
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(result)) => Poll::Ready(result.map_err(Problem::from)),
            Poll::Ready(Err(_)) => Poll::Ready(Err(Problem::ExtensionEnded)),
        }
    })
    .await;
    if result.is_ok() && !is_last {
        *worker = Some(running);
    }
    result
}

/// Runs steps until one fails, or publishes.
async fn work(
    keyspace: Arc<Keyspace>,
    (name, unfinished): (Bytes, bool),
    mut steps: mpsc::Receiver<(ExtensionStep, StepReply)>,
) {
    let blob = named(&keyspace, name, unfinished);
    let mut extension = RunningExtension { blob: &blob, kept: BytesMut::new(), staged: None, count: 0 };
    while let Some((step, reply)) = steps.recv().await {
        let result = match step {
            // The memory is released before the answer is sent, so that the caller has the last
            // reference to it.
            ExtensionStep::Push(bytes) => extension.push(&bytes).await,
            ExtensionStep::Publish(attributes) => {
                let _ = reply.send(extension.publish(attributes).await);
                return;
            }
        };
        let is_failure = result.is_err();
        // The receiver is dropped only together with this future.
        let _ = reply.send(result);
        if is_failure {
            return;
        }
    }
}

struct RunningExtension<'b, 'k> {
    blob: &'b Blob<'k>,
    /// The bytes so far, while they are few.
    kept: BytesMut,
    staged: Option<StagedExtension<'k>>,
    count: u64,
}

impl RunningExtension<'_, '_> {
    async fn push(&mut self, bytes: &Memory) -> Result<u64, Error> {
        let length = bytes.len();
        if self.staged.is_none() && self.kept.len() + length > KEPT_BYTES_MAX {
            let mut staged = self.blob.staged_extension().await?;
            staged.push(&std::mem::take(&mut self.kept)).await?;
            self.staged = Some(staged);
        }
        match &mut self.staged {
            Some(staged) => staged.push(bytes.slice(0, length)).await?,
            None => self.kept.extend_from_slice(bytes.slice(0, length)),
        }
        self.count += length as u64;
        Ok(self.count)
    }

    async fn publish(self, attributes: Option<Bytes>) -> Result<u64, Error> {
        let Some(staged) = self.staged else {
            let end = self.blob.extend(&self.kept).await? + self.kept.len() as u64;
            if let Some(attributes) = attributes {
                self.blob.set_attributes(&attributes).await?;
            }
            return Ok(end);
        };
        match attributes {
            Some(attributes) => staged.publish_with(&attributes).await,
            None => staged.publish().await,
        }
    }
}
