//! The events of a watch as Python objects.

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use zerohop_client::{ChangedRecord, RecordType, Timestamp, WatchEvent};

/// The number of an event, its changes and the timestamp of its mark.
pub(crate) fn to_python(py: Python<'_>, number: u64, event: WatchEvent) -> PyResult<Py<PyAny>> {
    let (changes, mark) = match event {
        WatchEvent::Changes(changes) => (changes, None),
        WatchEvent::Mark(through) => (Vec::new(), Some(through.0)),
    };
    let changes = changes.iter().map(|changed| change(py, changed)).collect::<PyResult<Vec<_>>>()?;
    (number, PyList::new(py, changes)?, mark).into_py_any(py)
}

/// The arguments of `zerohop._watches.Change`.
fn change(py: Python<'_>, changed: &ChangedRecord) -> PyResult<Py<PyAny>> {
    let ChangedRecord { key, partition, at, before, index, record, cause, value } = changed;
    let kind = if record.is_some() { "put" } else { "remove" };
    let value = value.as_ref().map(|value| PyBytes::new(py, value));
    let version = record.map(|_| at.0);
    let version_before = (*before != Timestamp::ZERO).then_some(before.0);
    let is_list = *record == Some(RecordType::List);
    let key = PyBytes::new(py, key);
    (key, kind, value, is_list, version, version_before, at.0, cause.text(), partition.0, *index)
        .into_py_any(py)
}
