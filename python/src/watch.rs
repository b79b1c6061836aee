//! The class `NativeWatch`: the changes of a keyspace, event by event.
//!
//! An event that was returned is returned again until the next call says that the program has it: a future that was cancelled, or a call that Ctrl-C has
//! ended, loses none.

use std::ops::Bound;
use std::sync::{Arc, Mutex as StdMutex, MutexGuard, PoisonError};

use bytes::Bytes;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tokio::sync::{Mutex, Notify};
use tokio::time::timeout;
use zerohop_client::{KeyRange, Keyspace, Watch, WatchCursor, WatchEvent, WatchOptions};

use crate::answer::PythonAnswer;
use crate::arguments::{Blob, limit};
use crate::core::Core;
use crate::maintenance::OwnedByProcess;
use crate::outcome;
use crate::problem::{Problem, broken};

/// A watch of a keyspace.
#[pyclass(frozen, module = "zerohop._native")]
pub(crate) struct NativeWatch {
    core: Arc<Core>,
    shared: OwnedByProcess<Arc<SharedWatch>>,
}

/// The options of a watch.
pub(crate) struct WatchArguments {
    pub(crate) prefix: Blob,
    pub(crate) from: Option<Blob>,
    pub(crate) to: Option<Blob>,
    pub(crate) cursor: Option<Blob>,
    pub(crate) values: bool,
    pub(crate) mark_ms: u32,
}

/// A watch, and its last event. A call of an event loop that was cancelled continues, and so may share it with the next one.
struct SharedWatch {
    /// `None` after `close`.
    watch: Mutex<Option<Watch>>,
    last: StdMutex<LastEvent>,
    closing: Notify,
}

/// The event that was returned last.
#[derive(Default)]
struct LastEvent {
    /// Number of events that were returned.
    number: u64,
    event: Option<WatchEvent>,
    /// The position before it.
    before: Option<WatchCursor>,
    /// The position behind it, and behind unwanted events after it.
    behind: Option<WatchCursor>,
}

#[pymethods]
impl NativeWatch {
    /// Waits until it has a position.
    fn begin(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let shared = self.open(py)?;
        outcome::run(&self.core, py, async move { shared.begin().await.into() })
    }

    /// The next event with its number, or a future of it; `None` if there is none within `wait` seconds. `received` is the number of the last
    /// event that the program has: a later one is returned again.
    #[pyo3(signature = (received, marks, wait = None))]
    fn next(&self, py: Python<'_>, received: u64, marks: bool, wait: Option<f64>) -> PyResult<Py<PyAny>> {
        let wait = limit(wait)?;
        let shared = self.open(py)?;
        outcome::run(&self.core, py, async move {
            let event = shared.next(received, marks);
            match wait {
                Some(wait) => timeout(wait, event).await.unwrap_or(Ok(PythonAnswer::Nothing)),
                None => event.await,
            }
            .into()
        })
    }

    /// The bytes of the position behind the events up to the number `received`. With `next_index` it is before the change of the last event that
    /// has this log index.
    #[pyo3(signature = (received, next_index = None))]
    fn cursor(
        &self,
        py: Python<'_>,
        received: u64,
        next_index: Option<u64>,
    ) -> PyResult<Option<Py<PyBytes>>> {
        self.core.check_process().map_err(|problem| problem.exception(py))?;
        let cursor = self.shared()?.cursor(received, next_index);
        Ok(cursor.map(|cursor| PyBytes::new(py, &cursor.to_bytes()).unbind()))
    }

    /// Ends the watch, and a call that waits for an event.
    fn close(&self) -> PyResult<()> {
        if self.core.client().is_ok() {
            self.shared()?.close();
        }
        Ok(())
    }
}

impl NativeWatch {
    pub(crate) fn new(
        py: Python<'_>,
        core: Arc<Core>,
        keyspace: &Keyspace,
        arguments: &WatchArguments,
    ) -> PyResult<Self> {
        core.client().map_err(|problem| problem.exception(py))?;
        let WatchArguments { prefix, from, to, cursor, values, mark_ms } = arguments;
        let cursor = cursor.as_ref().map(|bytes| WatchCursor::from_bytes(bytes.as_ref()));
        let cursor = cursor.transpose().map_err(|error| PyValueError::new_err(error.to_string()))?;
        let from = from.as_ref().map_or(Bound::Unbounded, |key| Bound::Included(key.as_ref()));
        let to = to.as_ref().map_or(Bound::Unbounded, |key| Bound::Excluded(key.as_ref()));
        let options = WatchOptions {
            cursor,
            range: KeyRange::of::<&[u8]>((from, to)),
            prefix: Bytes::copy_from_slice(prefix.as_ref()),
            values: *values,
            mark_ms: *mark_ms,
            ..WatchOptions::default()
        };
        let watch = keyspace.watch(options).map_err(|error| Problem::from(error).exception(py))?;
        let last = LastEvent { behind: watch.cursor(), ..LastEvent::default() };
        let (watch, last) = (Mutex::new(Some(watch)), StdMutex::new(last));
        let shared = OwnedByProcess::new(Arc::new(SharedWatch { watch, last, closing: Notify::new() }));
        Ok(Self { core, shared })
    }

    fn shared(&self) -> PyResult<&Arc<SharedWatch>> {
        self.shared.get().ok_or_else(|| broken("a watch is gone"))
    }

    /// Errors: the client was closed, or this process is a fork.
    fn open(&self, py: Python<'_>) -> PyResult<Arc<SharedWatch>> {
        self.core.client().map_err(|problem| problem.exception(py))?;
        self.shared().cloned()
    }
}

impl SharedWatch {
    fn last(&self) -> MutexGuard<'_, LastEvent> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn begin(&self) -> Result<PythonAnswer, Problem> {
        let mut open = self.watch.lock().await;
        let watch = open.as_mut().ok_or(Problem::WatchClosed)?;
        let begun = tokio::select! {
            begun = watch.begin() => begun,
            () = self.closing.notified() => {
                *open = None;
                return Err(Problem::WatchClosed);
            }
        };
        begun?;
        let mut last = self.last();
        if last.behind.is_none() {
            last.behind = watch.cursor();
        }
        Ok(PythonAnswer::Nothing)
    }

    /// No event is lost if the future is dropped: the last one is stored when there is one.
    async fn next(&self, received: u64, marks: bool) -> Result<PythonAnswer, Problem> {
        let mut open = self.watch.lock().await;
        let watch = open.as_mut().ok_or(Problem::WatchClosed)?;
        if let Some(event) = self.last().unreceived(received) {
            return Ok(event);
        }
        loop {
            let event = tokio::select! {
                event = watch.next() => event?,
                () = self.closing.notified() => {
                    *open = None;
                    return Err(Problem::WatchClosed);
                }
            };
            let mut last = self.last();
            match event {
                WatchEvent::Mark(_) if !marks => last.behind = watch.cursor(),
                event => return Ok(last.replace(event, watch.cursor())),
            }
        }
    }

    fn cursor(&self, received: u64, next_index: Option<u64>) -> Option<WatchCursor> {
        let last = self.last();
        match next_index {
            _ if received < last.number => last.before.clone(),
            None => last.behind.clone(),
            // No call waits while the program has changes, so the lock is free.
            Some(index) => {
                let within = self.watch.try_lock().ok().and_then(|open| {
                    open.as_ref().and_then(|watch| watch.cursor_within(index.saturating_sub(1)))
                });
                within.or_else(|| last.before.clone())
            }
        }
    }

    fn close(&self) {
        match self.watch.try_lock() {
            Ok(mut open) => *open = None,
            Err(_) => self.closing.notify_one(),
        }
    }
}

impl LastEvent {
    /// The last event, if its number is above that of the last one that the program has.
    fn unreceived(&self, received: u64) -> Option<PythonAnswer> {
        let event = self.event.clone().filter(|_| self.number > received);
        event.map(|event| PythonAnswer::WatchEvent(self.number, event))
    }

    fn replace(&mut self, event: WatchEvent, behind: Option<WatchCursor>) -> PythonAnswer {
        self.number += 1;
        self.event = Some(event.clone());
        self.before = std::mem::replace(&mut self.behind, behind);
        PythonAnswer::WatchEvent(self.number, event)
    }
}
