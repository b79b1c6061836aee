//! The class `NativeKeyspace`: each operation as a method.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use zerohop_client::{Keyspace, Range};

use crate::arguments::{Awaited, Blob, condition, expiry, limit};
use crate::blobs::NativeBlobs;
use crate::core::{Core, Outcome, Spent};
use crate::number::NumberChange;

use crate::operation::Operation;
use crate::scan::NativeScan;

/// A keyspace. Every operation brings its result, or for an event loop a future of it.
#[pyclass(frozen, module = "zerohop._native")]
pub(crate) struct NativeKeyspace {
    core: Arc<Core>,
    keyspace: Arc<Keyspace>,
}

type Brought = PyResult<Py<PyAny>>;

#[pymethods]
impl NativeKeyspace {
    #[pyo3(signature = (key, timeout = None))]
    fn get(&self, py: Python<'_>, key: Blob, timeout: Option<f64>) -> Brought {
        self.run(py, Operation::Get(key), timeout)
    }

    #[pyo3(signature = (key, timeout = None))]
    fn lookup(&self, py: Python<'_>, key: Blob, timeout: Option<f64>) -> Brought {
        self.run(py, Operation::Lookup(key), timeout)
    }

    #[pyo3(signature = (key, timeout = None))]
    fn inspect(&self, py: Python<'_>, key: Blob, timeout: Option<f64>) -> Brought {
        self.run(py, Operation::Inspect(key), timeout)
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
    ) -> Brought {
        let (expiry, condition) = (expiry(after_ms, at_ms)?, condition(only_if, version)?);
        self.run(py, Operation::Insert { key, value, expiry, condition }, timeout)
    }

    #[pyo3(signature = (key, version = None, timeout = None))]
    fn remove(&self, py: Python<'_>, key: Blob, version: Option<u64>, timeout: Option<f64>) -> Brought {
        let condition = condition(None, version)?;
        self.run(py, Operation::Remove { key, condition }, timeout)
    }

    #[pyo3(signature = (key, values, timeout = None))]
    fn append(&self, py: Python<'_>, key: Blob, values: Vec<Blob>, timeout: Option<f64>) -> Brought {
        self.run(py, Operation::Append { key, values }, timeout)
    }

    #[pyo3(signature = (key, bytes, timeout = None))]
    fn extend(&self, py: Python<'_>, key: Blob, bytes: Blob, timeout: Option<f64>) -> Brought {
        self.run(py, Operation::Extend { key, bytes }, timeout)
    }

    #[pyo3(signature = (key, expected, new, timeout = None))]
    fn compare_swap(
        &self,
        py: Python<'_>,
        key: Blob,
        expected: Option<Blob>,
        new: Option<Blob>,
        timeout: Option<f64>,
    ) -> Brought {
        self.run(py, Operation::CompareSwap { key, expected, new }, timeout)
    }

    #[pyo3(signature = (key, delta, timeout = None))]
    fn increment(&self, py: Python<'_>, key: Blob, delta: i64, timeout: Option<f64>) -> Brought {
        self.run(py, Operation::Increment { key, delta }, timeout)
    }

    #[pyo3(signature = (key, after_ms = None, at_ms = None, timeout = None))]
    fn expire(
        &self,
        py: Python<'_>,
        key: Blob,
        after_ms: Option<u64>,
        at_ms: Option<u64>,
        timeout: Option<f64>,
    ) -> Brought {
        let expiry = expiry(after_ms, at_ms)?;
        self.run(py, Operation::Expire { key, expiry }, timeout)
    }

    #[pyo3(signature = (key, start, stop = None, timeout = None))]
    fn values(
        &self,
        py: Python<'_>,
        key: Blob,
        start: i64,
        stop: Option<i64>,
        timeout: Option<f64>,
    ) -> Brought {
        self.run(py, Operation::Values { key, range: range(start, stop) }, timeout)
    }

    #[pyo3(signature = (key, start, stop = None, timeout = None))]
    fn trim(
        &self,
        py: Python<'_>,
        key: Blob,
        start: i64,
        stop: Option<i64>,
        timeout: Option<f64>,
    ) -> Brought {
        self.run(py, Operation::Trim { key, range: range(start, stop) }, timeout)
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
    ) -> Brought {
        let until = match (until, value, version) {
            ("present", None, None) => Awaited::Present,
            ("absent", None, None) => Awaited::Absent,
            ("equals", Some(value), None) => Awaited::Equals(value),
            ("differs", Some(value), None) => Awaited::Differs(value),
            ("changed", None, Some(version)) => Awaited::Changed(version),
            _ => return Err(PyValueError::new_err("a wait is for one thing")),
        };
        self.run(py, Operation::Wait { key, until }, timeout)
    }

    fn get_many(&self, py: Python<'_>, keys: Vec<Blob>) -> Brought {
        self.run(py, Operation::GetMany(keys), None)
    }

    #[pyo3(signature = (records, after_ms = None, at_ms = None))]
    fn insert_many(
        &self,
        py: Python<'_>,
        records: &Bound<'_, PyDict>,
        after_ms: Option<u64>,
        at_ms: Option<u64>,
    ) -> Brought {
        let expiry = expiry(after_ms, at_ms)?;
        let records = records
            .iter()
            .map(|(key, value)| Ok((key.extract()?, value.extract()?)))
            .collect::<PyResult<_>>()?;
        self.run(py, Operation::InsertMany { records, expiry }, None)
    }

    fn read_many(&self, py: Python<'_>, keys: Vec<Blob>) -> Brought {
        self.run(py, Operation::ReadMany(keys), None)
    }

    /// Its blobs.
    fn blobs(&self) -> NativeBlobs {
        NativeBlobs::new(Arc::clone(&self.core), Arc::clone(&self.keyspace))
    }

    fn remove_many(&self, py: Python<'_>, keys: Vec<Blob>) -> Brought {
        self.run(py, Operation::RemoveMany(keys), None)
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
    ) -> Brought {
        let change = NumberChange::new(operator, kind, operand, offset)?;
        self.run(py, Operation::Transform { key, change }, None)
    }

    #[pyo3(signature = (prefix, page_keys = None))]
    fn scan(&self, prefix: Blob, page_keys: Option<u32>) -> NativeScan {
        NativeScan::new(Arc::clone(&self.core), &self.keyspace, prefix.as_ref(), page_keys)
    }
}

impl NativeKeyspace {
    pub(crate) fn new(core: Arc<Core>, keyspace: Arc<Keyspace>) -> Self {
        Self { core, keyspace }
    }

    pub(crate) fn inner(&self) -> &Arc<Keyspace> {
        &self.keyspace
    }

    fn run(&self, py: Python<'_>, operation: Operation, timeout: Option<f64>) -> Brought {
        let limit = limit(timeout)?;
        let keyspace = Arc::clone(&self.keyspace);
        self.core.run(py, async move {
            let result = operation.run(&keyspace, limit).await;
            Outcome { result, spent: Spent::Operation(operation) }
        })
    }
}

fn range(start: i64, stop: Option<i64>) -> Range {
    Range { start, stop: stop.unwrap_or(i64::MAX) }
}
