//! The class `NativeKeyspace`: one method per operation.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use zerohop_client::Keyspace;

use crate::arguments::{Blob, WaitArgument, condition, expiry, limit, range};
use crate::batch::NativeBatch;
use crate::blobs::NativeBlobs;
use crate::core::Core;
use crate::handles::NativeKeyspace;
use crate::number::NumberChange;
use crate::operation::{PythonOperation, SendOptions};
use crate::outcome::{self, CallOutcome, UsedArguments};
use crate::scan::{NativeScan, ScanArguments};
use crate::watch::{NativeWatch, WatchArguments};

type KeyspaceCallResult = PyResult<Py<PyAny>>;

#[pymethods]
impl NativeKeyspace {
    #[pyo3(signature = (key, timeout = None))]
    fn get(&self, py: Python<'_>, key: Blob, timeout: Option<f64>) -> KeyspaceCallResult {
        self.run(py, PythonOperation::Get(key), timeout)
    }

    #[pyo3(signature = (key, timeout = None))]
    fn lookup(&self, py: Python<'_>, key: Blob, timeout: Option<f64>) -> KeyspaceCallResult {
        self.run(py, PythonOperation::Lookup(key), timeout)
    }

    #[pyo3(signature = (key, timeout = None))]
    fn inspect(&self, py: Python<'_>, key: Blob, timeout: Option<f64>) -> KeyspaceCallResult {
        self.run(py, PythonOperation::Inspect(key), timeout)
    }

    #[pyo3(signature = (key, value, after_ms = None, at_ms = None, only_if = None, version = None, timeout = None))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of a call in Python")]
    fn insert(
        &self,
        py: Python<'_>,
        key: Blob,
        value: Blob,
        after_ms: Option<u64>,
        at_ms: Option<u64>,
        only_if: Option<&str>,
        version: Option<u64>,
        timeout: Option<f64>,
    ) -> KeyspaceCallResult {
        let (expiry, condition) = (expiry(after_ms, at_ms)?, condition(only_if, version)?);
        self.run(py, PythonOperation::Insert { key, value, expiry, condition }, timeout)
    }

    #[pyo3(signature = (key, version = None, timeout = None))]
    fn remove(
        &self,
        py: Python<'_>,
        key: Blob,
        version: Option<u64>,
        timeout: Option<f64>,
    ) -> KeyspaceCallResult {
        let condition = condition(None, version)?;
        self.run(py, PythonOperation::Remove { key, condition }, timeout)
    }

    #[pyo3(signature = (key, timeout = None))]
    fn take(&self, py: Python<'_>, key: Blob, timeout: Option<f64>) -> KeyspaceCallResult {
        self.run(py, PythonOperation::Take(key), timeout)
    }

    #[pyo3(signature = (key, values, timeout = None))]
    fn append(
        &self,
        py: Python<'_>,
        key: Blob,
        values: Vec<Blob>,
        timeout: Option<f64>,
    ) -> KeyspaceCallResult {
        self.run(py, PythonOperation::Append { key, values }, timeout)
    }

    #[pyo3(signature = (key, bytes, timeout = None))]
    fn extend(&self, py: Python<'_>, key: Blob, bytes: Blob, timeout: Option<f64>) -> KeyspaceCallResult {
        self.run(py, PythonOperation::Extend { key, bytes }, timeout)
    }

    #[pyo3(signature = (key, expected, new, timeout = None))]
    fn compare_swap(
        &self,
        py: Python<'_>,
        key: Blob,
        expected: Option<Blob>,
        new: Option<Blob>,
        timeout: Option<f64>,
    ) -> KeyspaceCallResult {
        self.run(py, PythonOperation::CompareSwap { key, expected, new }, timeout)
    }

    #[pyo3(signature = (key, delta, timeout = None))]
    fn increment(&self, py: Python<'_>, key: Blob, delta: i64, timeout: Option<f64>) -> KeyspaceCallResult {
        self.run(py, PythonOperation::Increment { key, delta }, timeout)
    }

    #[pyo3(signature = (key, after_ms = None, at_ms = None, timeout = None))]
    fn expire(
        &self,
        py: Python<'_>,
        key: Blob,
        after_ms: Option<u64>,
        at_ms: Option<u64>,
        timeout: Option<f64>,
    ) -> KeyspaceCallResult {
        let expiry = expiry(after_ms, at_ms)?;
        self.run(py, PythonOperation::Expire { key, expiry }, timeout)
    }

    #[pyo3(signature = (key, start, stop = None, timeout = None))]
    fn values(
        &self,
        py: Python<'_>,
        key: Blob,
        start: i64,
        stop: Option<i64>,
        timeout: Option<f64>,
    ) -> KeyspaceCallResult {
        self.run(py, PythonOperation::Values { key, range: range(start, stop) }, timeout)
    }

    #[pyo3(signature = (key, start, stop = None, timeout = None))]
    fn trim(
        &self,
        py: Python<'_>,
        key: Blob,
        start: i64,
        stop: Option<i64>,
        timeout: Option<f64>,
    ) -> KeyspaceCallResult {
        self.run(py, PythonOperation::Trim { key, range: range(start, stop) }, timeout)
    }

    #[pyo3(signature = (key, until, value = None, version = None, timeout = None))]
    fn wait(
        &self,
        py: Python<'_>,
        key: Blob,
        until: &str,
        value: Option<Blob>,
        version: Option<u64>,
        timeout: Option<f64>,
    ) -> KeyspaceCallResult {
        let until = match (until, value, version) {
            ("present", None, None) => WaitArgument::Present,
            ("absent", None, None) => WaitArgument::Absent,
            ("equals", Some(value), None) => WaitArgument::Equals(value),
            ("differs", Some(value), None) => WaitArgument::Differs(value),
            ("changed", None, Some(version)) => WaitArgument::Changed(version),
            _ => return Err(PyValueError::new_err("a wait is for one thing")),
        };
        self.run(py, PythonOperation::Wait { key, until }, timeout)
    }

    fn get_many(&self, py: Python<'_>, keys: Vec<Blob>) -> KeyspaceCallResult {
        self.run(py, PythonOperation::GetMany(keys), None)
    }

    #[pyo3(signature = (records, after_ms = None, at_ms = None))]
    fn insert_many(
        &self,
        py: Python<'_>,
        records: &Bound<'_, PyDict>,
        after_ms: Option<u64>,
        at_ms: Option<u64>,
    ) -> KeyspaceCallResult {
        let expiry = expiry(after_ms, at_ms)?;
        let records = records
            .iter()
            .map(|(key, value)| Ok((key.extract()?, value.extract()?)))
            .collect::<PyResult<_>>()?;
        self.run(py, PythonOperation::InsertMany { records, expiry }, None)
    }

    fn read_many(&self, py: Python<'_>, keys: Vec<Blob>) -> KeyspaceCallResult {
        self.run(py, PythonOperation::ReadMany(keys), None)
    }

    /// A batch of operations of any kinds.
    fn batch(&self) -> NativeBatch {
        NativeBatch::new(Arc::clone(&self.core), Arc::clone(&self.keyspace))
    }

    /// Its blobs.
    fn blobs(&self) -> NativeBlobs {
        NativeBlobs::new(Arc::clone(&self.core), Arc::clone(&self.keyspace))
    }

    fn remove_many(&self, py: Python<'_>, keys: Vec<Blob>) -> KeyspaceCallResult {
        self.run(py, PythonOperation::RemoveMany(keys), None)
    }

    #[pyo3(signature = (key, operator, kind, operand, offset))]
    fn transform(
        &self,
        py: Python<'_>,
        key: Blob,
        operator: &str,
        kind: &str,
        operand: &Bound<'_, PyAny>,
        offset: u64,
    ) -> KeyspaceCallResult {
        let change = NumberChange::new(operator, kind, operand, offset)?;
        self.run(py, PythonOperation::Transform { key, change }, None)
    }

    #[pyo3(signature = (prefix, page_keys = None, from_ = None, to = None, reverse = false, limit = None, values = false))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of a call in Python")]
    fn scan(
        &self,
        prefix: Blob,
        page_keys: Option<u32>,
        from_: Option<Blob>,
        to: Option<Blob>,
        reverse: bool,
        limit: Option<u64>,
        values: bool,
    ) -> NativeScan {
        let arguments = ScanArguments { prefix, page_keys, from: from_, to, reverse, limit, values };
        NativeScan::new(Arc::clone(&self.core), &self.keyspace, &arguments)
    }

    /// A watch, which begins at a cursor, or without one with [`NativeWatch::begin`].
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of a call in Python")]
    fn watch(
        &self,
        py: Python<'_>,
        prefix: Blob,
        from_: Option<Blob>,
        to: Option<Blob>,
        cursor: Option<Blob>,
        values: bool,
        mark_ms: u32,
    ) -> PyResult<NativeWatch> {
        let arguments = WatchArguments { prefix, from: from_, to, cursor, values, mark_ms };
        NativeWatch::new(py, Arc::clone(&self.core), &self.keyspace, &arguments)
    }
}

impl NativeKeyspace {
    pub(crate) fn new(core: Arc<Core>, keyspace: Arc<Keyspace>) -> Self {
        Self { core, keyspace }
    }

    pub(crate) fn inner(&self) -> &Arc<Keyspace> {
        &self.keyspace
    }

    fn run(&self, py: Python<'_>, operation: PythonOperation, timeout: Option<f64>) -> KeyspaceCallResult {
        let limit = limit(timeout)?;
        let keyspace = Arc::clone(&self.keyspace);
        outcome::run(&self.core, py, async move {
            let result = operation.run(&keyspace, SendOptions::within(limit)).await;
            CallOutcome { result, spent: UsedArguments::Operation(operation) }
        })
    }
}
