//! What Python gets for a bucket, a put in progress and a reader of an object. The methods are in [`crate::objects`].

use std::sync::Arc;

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::PyList;
use tokio::sync::Mutex;
use zerohop_object_client::{ClusterStore, ObjectClient, ObjectReader, ObjectWriter};
use zerohop_objects::{ListEntry, ObjectRecord};

use crate::core::Core;
use crate::maintenance::OwnedByProcess;
use crate::object_place::ObjectPlace;

/// The objects of a cluster.
pub(crate) type Objects = ObjectClient<ClusterStore>;

/// An open bucket.
pub(crate) struct OpenBucket {
    pub(crate) name: String,
    pub(crate) objects: Objects,
}

/// A put in progress.
pub(crate) struct OpenWriter {
    pub(crate) place: ObjectPlace,
    pub(crate) objects: Objects,
    /// `None`: it has ended, or has failed.
    pub(crate) writer: Mutex<Option<ObjectWriter<ClusterStore>>>,
}

/// An object that is read in pieces.
pub(crate) struct OpenReader {
    pub(crate) place: ObjectPlace,
    pub(crate) reader: Mutex<ObjectReader<ClusterStore>>,
}

/// A bucket. Every operation returns its result, or for an event loop a future of it.
#[pyclass(frozen, module = "zerohop._native")]
pub(crate) struct NativeBucket {
    pub(crate) core: Arc<Core>,
    pub(crate) open: OwnedByProcess<Arc<OpenBucket>>,
}

/// A put in progress. If it is dropped, nothing of it appears.
#[pyclass(frozen, module = "zerohop._native")]
pub(crate) struct NativeObjectWriter {
    pub(crate) core: Arc<Core>,
    pub(crate) open: OwnedByProcess<Arc<OpenWriter>>,
}

/// The rest of an object's bytes.
#[pyclass(frozen, module = "zerohop._native")]
pub(crate) struct NativeObjectReader {
    pub(crate) core: Arc<Core>,
    pub(crate) open: OwnedByProcess<Arc<OpenReader>>,
}

impl NativeBucket {
    pub(crate) fn new(core: Arc<Core>, open: OpenBucket) -> Self {
        Self { core, open: OwnedByProcess::new(Arc::new(open)) }
    }
}

impl NativeObjectWriter {
    pub(crate) fn new(core: Arc<Core>, open: OpenWriter) -> Self {
        Self { core, open: OwnedByProcess::new(Arc::new(open)) }
    }
}

impl NativeObjectReader {
    pub(crate) fn new(core: Arc<Core>, open: OpenReader) -> Self {
        Self { core, open: OwnedByProcess::new(Arc::new(open)) }
    }
}

/// The arguments of `zerohop._objects.object_info`.
pub(crate) fn object_state(py: Python<'_>, name: &[u8], object: &ObjectRecord) -> PyResult<Py<PyAny>> {
    let name = String::from_utf8_lossy(name).into_owned();
    let ObjectRecord { size, modified, etag, attributes, tags, .. } = object;
    (name, *size, *modified, etag.to_string(), attributes.clone(), tags.clone()).into_py_any(py)
}

/// The entries of a listing, and whether there are more.
pub(crate) fn object_page(
    py: Python<'_>,
    entries: &[ListEntry<ObjectRecord>],
    is_truncated: bool,
) -> PyResult<Py<PyAny>> {
    let entry = |entry: &ListEntry<ObjectRecord>| match entry {
        ListEntry::Record(name, _, object) => object_state(py, name, object),
        ListEntry::Prefix(prefix) => String::from_utf8_lossy(prefix).into_owned().into_py_any(py),
    };
    let entries = entries.iter().map(entry).collect::<PyResult<Vec<_>>>()?;
    (PyList::new(py, entries)?, is_truncated).into_py_any(py)
}
