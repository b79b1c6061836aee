//! The class `NativeScan`: the keys of a keyspace, page by page.

use std::sync::Arc;

use bytes::Bytes;
use pyo3::prelude::*;
use tokio::sync::Mutex;
use zerohop_client::{Keyspace, Scan};

use crate::answer::PythonAnswer;
use crate::core::Core;
use crate::problem::Problem;

/// A scan in progress.
#[pyclass(frozen, module = "zerohop._native")]
pub(crate) struct NativeScan {
    core: Arc<Core>,
    scan: Arc<Mutex<Scan>>,
}

#[pymethods]
impl NativeScan {
    /// The next keys, or a future of them; `None` at the end. After an error the same page is
    /// requested again.
    fn next_page(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let scan = Arc::clone(&self.scan);
        self.core.run(py, async move {
            scan.lock().await.next_page().await.map(PythonAnswer::Keys).map_err(Problem::from).into()
        })
    }
}

impl NativeScan {
    pub(crate) fn new(core: Arc<Core>, keyspace: &Keyspace, prefix: &[u8], page_keys: Option<u32>) -> Self {
        let mut scan = keyspace.scan(Bytes::copy_from_slice(prefix));
        if let Some(keys) = page_keys {
            scan = scan.page_keys(keys);
        }
        Self { core, scan: Arc::new(Mutex::new(scan)) }
    }
}
