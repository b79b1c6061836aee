//! The methods of the class `NativePinnedBlobs`: blobs as they were when a file was opened.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use pyo3::prelude::*;
use zerohop_client::PinnedBlobs;

use crate::answer::PythonAnswer;
use crate::handles::NativePinnedBlobs;
use crate::memory::Memory;
use crate::outcome::{self, CallOutcome, UsedArguments};
use crate::problem::{Problem, broken};

#[pymethods]
impl NativePinnedBlobs {
    /// The metadata of the blobs, at once.
    fn infos(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let infos = self.pinned()?.infos().map(Some).collect();
        PythonAnswer::Blobs(infos).object(py, &self.core)
    }

    /// Up to so many bytes of the blob of this number.
    fn read(&self, py: Python<'_>, number: usize, offset: u64, length: u64) -> PyResult<Py<PyAny>> {
        let pinned = self.pinned()?;
        outcome::run(&self.core, py, async move {
            let mut bytes = BytesMut::new();
            let read = pinned.read(number, offset, length, |piece| bytes.extend_from_slice(piece)).await;
            let result = read.map(|_| PythonAnswer::Bytes(Some(Bytes::from(bytes))));
            result.map_err(Problem::from).into()
        })
    }

    /// Reads bytes of the blob of this number into memory. Returns how many.
    fn read_into(
        &self,
        py: Python<'_>,
        number: usize,
        offset: u64,
        into: &Bound<'_, PyAny>,
    ) -> PyResult<Py<PyAny>> {
        let (pinned, into) = (self.pinned()?, Arc::new(Memory::writable(into)?));
        outcome::run(&self.core, py, async move {
            let mut at = 0;
            let read =
                pinned.read(number, offset, into.len() as u64, |piece| at += into.fill(at, piece)).await;
            let result = read.map(PythonAnswer::Number).map_err(Problem::from);
            CallOutcome { result, spent: UsedArguments::Memory(into) }
        })
    }
}

impl NativePinnedBlobs {
    fn pinned(&self) -> PyResult<Arc<PinnedBlobs>> {
        self.pinned.get().cloned().ok_or_else(|| broken("pinned blobs are gone"))
    }
}
