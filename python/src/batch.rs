//! The class `NativeBatch`: operations of any kinds, which are collected and then sent together.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use zerohop_client::Keyspace;

use crate::answer::PythonAnswer;
use crate::arguments::{Blob, condition, expiry, limit, range};
use crate::core::Core;
use crate::number::NumberChange;
use crate::operation::{PythonOperation, run_together};
use crate::outcome::{self, CallOutcome, UsedArguments};

/// A batch of one keyspace. Each method adds an operation; `run` sends all.
#[pyclass(frozen, module = "zerohop._native")]
pub(crate) struct NativeBatch {
    core: Arc<Core>,
    keyspace: Arc<Keyspace>,
    operations: Mutex<Vec<PythonOperation>>,
}

#[pymethods]
impl NativeBatch {
    fn get(&self, key: Blob) {
        self.add(PythonOperation::Get(key));
    }

    fn lookup(&self, key: Blob) {
        self.add(PythonOperation::Lookup(key));
    }

    fn inspect(&self, key: Blob) {
        self.add(PythonOperation::Inspect(key));
    }

    fn insert(
        &self,
        key: Blob,
        value: Blob,
        after_ms: Option<u64>,
        at_ms: Option<u64>,
        only_if: Option<&str>,
        version: Option<u64>,
    ) -> PyResult<()> {
        let (expiry, condition) = (expiry(after_ms, at_ms)?, condition(only_if, version)?);
        self.add(PythonOperation::Insert { key, value, expiry, condition });
        Ok(())
    }

    fn remove(&self, key: Blob, version: Option<u64>) -> PyResult<()> {
        let condition = condition(None, version)?;
        self.add(PythonOperation::Remove { key, condition });
        Ok(())
    }

    fn take(&self, key: Blob) {
        self.add(PythonOperation::Take(key));
    }

    fn append(&self, key: Blob, values: Vec<Blob>) {
        self.add(PythonOperation::Append { key, values });
    }

    fn extend(&self, key: Blob, bytes: Blob) {
        self.add(PythonOperation::Extend { key, bytes });
    }

    fn increment(&self, key: Blob, delta: i64) {
        self.add(PythonOperation::Increment { key, delta });
    }

    fn transform(
        &self,
        key: Blob,
        operator: &str,
        kind: &str,
        operand: &Bound<'_, PyAny>,
        offset: u64,
    ) -> PyResult<()> {
        let change = NumberChange::new(operator, kind, operand, offset)?;
        self.add(PythonOperation::Transform { key, change });
        Ok(())
    }

    fn compare_swap(&self, key: Blob, expected: Option<Blob>, new: Option<Blob>) {
        self.add(PythonOperation::CompareSwap { key, expected, new });
    }

    fn expire(&self, key: Blob, after_ms: Option<u64>, at_ms: Option<u64>) -> PyResult<()> {
        let expiry = expiry(after_ms, at_ms)?;
        self.add(PythonOperation::Expire { key, expiry });
        Ok(())
    }

    fn values(&self, key: Blob, start: i64, stop: Option<i64>) {
        self.add(PythonOperation::Values { key, range: range(start, stop) });
    }

    fn trim(&self, key: Blob, start: i64, stop: Option<i64>) {
        self.add(PythonOperation::Trim { key, range: range(start, stop) });
    }

    /// Sends the operations; the batch is empty then. Returns a list with the result or the exception of each, or for an event loop a future
    /// of it.
    #[pyo3(signature = (timeout = None))]
    fn run(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Py<PyAny>> {
        let limit = limit(timeout)?;
        let operations = std::mem::take(&mut *self.operations.lock().unwrap_or_else(PoisonError::into_inner));
        let keyspace = Arc::clone(&self.keyspace);
        outcome::run(&self.core, py, async move {
            let results = run_together(&operations, &keyspace, limit).await;
            CallOutcome {
                result: Ok(PythonAnswer::Outcomes(results)),
                spent: UsedArguments::Batch(operations),
            }
        })
    }
}

impl NativeBatch {
    pub(crate) fn new(core: Arc<Core>, keyspace: Arc<Keyspace>) -> Self {
        Self { core, keyspace, operations: Mutex::default() }
    }

    fn add(&self, operation: PythonOperation) {
        self.operations.lock().unwrap_or_else(PoisonError::into_inner).push(operation);
    }
}
