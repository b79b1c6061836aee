//! The class `NativeBlobs`: operations on the blobs of a keyspace, one method each.

use std::sync::Arc;

use bytes::Bytes;
use pyo3::prelude::*;
use zerohop_client::{Keyspace, PinnedBlobs, StagedContents};

use crate::answer::PythonAnswer;
use crate::arguments::Blob as Name;
use crate::blob::BlobOperation;
use crate::blob_list::NativeBlobList;
use crate::core::Core;
use crate::memory::Memory;
use crate::number::NumberChange;
use crate::operation::BATCH_OPERATIONS_MAX;
use crate::outcome::{self, CallOutcome, UsedArguments};
use crate::problem::Problem;
use crate::staged_extension::NativeStagedExtension;

/// The blobs of a keyspace. Every operation returns its result, or for an event loop a future of
/// it.
#[pyclass(frozen, module = "zerohop._native")]
pub(crate) struct NativeBlobs {
    core: Arc<Core>,
    keyspace: Arc<Keyspace>,
    /// Includes unfinished blobs.
    unfinished: bool,
}

type BlobCallResult = PyResult<Py<PyAny>>;

#[pymethods]
impl NativeBlobs {
    fn stat(&self, py: Python<'_>, name: Name) -> BlobCallResult {
        self.run(py, &name, BlobOperation::Stat)
    }

    fn stat_many(&self, py: Python<'_>, names: Vec<Name>) -> BlobCallResult {
        let keyspace = Arc::clone(&self.keyspace);
        outcome::run(&self.core, py, async move {
            let result = stat_many(&keyspace, &names).await;
            CallOutcome { result, spent: UsedArguments::Names(names) }
        })
    }

    /// The same blobs, including unfinished ones.
    fn with_unfinished(&self) -> Self {
        let (core, keyspace) = (Arc::clone(&self.core), Arc::clone(&self.keyspace));
        Self { core, keyspace, unfinished: true }
    }

    #[pyo3(signature = (name, attributes, chunk_bits = None, unfinished = false))]
    fn create(
        &self,
        py: Python<'_>,
        name: Name,
        attributes: Name,
        chunk_bits: Option<u8>,
        unfinished: bool,
    ) -> BlobCallResult {
        let attributes = attributes.as_ref().to_vec();
        self.run(py, &name, BlobOperation::Create { chunk_bits, attributes, unfinished })
    }

    fn read_into(&self, py: Python<'_>, name: Name, offset: u64, into: &Bound<'_, PyAny>) -> BlobCallResult {
        let into = Memory::writable(into)?;
        self.run(py, &name, BlobOperation::ReadInto { offset, into })
    }

    /// The blobs as they are at this moment, for reads of any part of them later on.
    fn pin(&self, py: Python<'_>, names: Vec<Name>) -> BlobCallResult {
        let keyspace = Arc::clone(&self.keyspace);
        outcome::run(&self.core, py, async move {
            let copied: Vec<Bytes> = names.iter().map(|name| Bytes::copy_from_slice(name.as_ref())).collect();
            let result = PinnedBlobs::open(&keyspace, &copied).await.map(PythonAnswer::PinnedBlobs);
            CallOutcome { result: result.map_err(Problem::from), spent: UsedArguments::Names(names) }
        })
    }

    fn read(&self, py: Python<'_>, name: Name, offset: u64, length: u64) -> BlobCallResult {
        self.run(py, &name, BlobOperation::Read { offset, length })
    }

    fn write(&self, py: Python<'_>, name: Name, offset: u64, bytes: &Bound<'_, PyAny>) -> BlobCallResult {
        let bytes = Memory::readable(bytes)?;
        self.run(py, &name, BlobOperation::Write { offset, bytes })
    }

    fn staged_extension(&self, name: Name) -> NativeStagedExtension {
        let name = Bytes::copy_from_slice(name.as_ref());
        NativeStagedExtension::new(
            Arc::clone(&self.core),
            Arc::clone(&self.keyspace),
            (name, self.unfinished),
        )
    }

    fn extend(&self, py: Python<'_>, name: Name, bytes: &Bound<'_, PyAny>) -> BlobCallResult {
        let bytes = Memory::readable(bytes)?;
        self.run(py, &name, BlobOperation::Extend { bytes })
    }

    fn truncate(&self, py: Python<'_>, name: Name, size: u64) -> BlobCallResult {
        self.run(py, &name, BlobOperation::Truncate { size })
    }

    fn set_attributes(&self, py: Python<'_>, name: Name, attributes: Name) -> BlobCallResult {
        self.run(py, &name, BlobOperation::Describe { attributes: attributes.as_ref().to_vec() })
    }

    fn transform(
        &self,
        py: Python<'_>,
        name: Name,
        operator: &str,
        kind: &str,
        operand: &Bound<'_, PyAny>,
        offset: u64,
    ) -> BlobCallResult {
        let change = NumberChange::new(operator, kind, operand, offset)?;
        self.run(py, &name, BlobOperation::Transform(change))
    }

    /// Begins new contents for an existing blob. Returns their temporary name, and their id.
    #[pyo3(signature = (name, attributes, chunk_bits = None))]
    fn stage(&self, py: Python<'_>, name: Name, attributes: Name, chunk_bits: Option<u8>) -> BlobCallResult {
        let attributes = attributes.as_ref().to_vec();
        self.run(py, &name, BlobOperation::Stage { chunk_bits, attributes })
    }

    /// Replaces the blob's contents by the staged ones.
    fn bind(&self, py: Python<'_>, name: Name, place: Name, id: u64, attributes: Name) -> BlobCallResult {
        let staged = StagedContents::named(Bytes::copy_from_slice(place.as_ref()), id);
        self.run(py, &name, BlobOperation::Bind { staged, attributes: attributes.as_ref().to_vec() })
    }

    fn delete(&self, py: Python<'_>, name: Name) -> BlobCallResult {
        self.run(py, &name, BlobOperation::Delete)
    }

    #[pyo3(signature = (prefix, page_names = None, behind = None))]
    fn list(&self, prefix: Name, page_names: Option<u32>, behind: Option<Name>) -> NativeBlobList {
        let copied = |name: &Name| Bytes::copy_from_slice(name.as_ref());
        let (prefix, behind) = (copied(&prefix), behind.as_ref().map(copied).unwrap_or_default());
        let (core, keyspace) = (Arc::clone(&self.core), Arc::clone(&self.keyspace));
        NativeBlobList::new(core, keyspace, prefix, behind, (page_names, self.unfinished))
    }
}

impl NativeBlobs {
    pub(crate) fn new(core: Arc<Core>, keyspace: Arc<Keyspace>) -> Self {
        Self { core, keyspace, unfinished: false }
    }

    fn run(&self, py: Python<'_>, name: &Name, operation: BlobOperation) -> BlobCallResult {
        let (keyspace, name) = (Arc::clone(&self.keyspace), Bytes::copy_from_slice(name.as_ref()));
        let unfinished = self.unfinished;
        outcome::run(&self.core, py, async move {
            let result = operation.run(&keyspace, name, unfinished).await;
            CallOutcome { result, spent: UsedArguments::Blob(operation) }
        })
    }
}

/// The metadata of several blobs, one batch after the other.
async fn stat_many(keyspace: &Keyspace, names: &[Name]) -> Result<PythonAnswer, Problem> {
    let mut found = Vec::with_capacity(names.len());
    for batch in names.chunks(BATCH_OPERATIONS_MAX) {
        found.extend(keyspace.stat_blobs(batch).await?);
    }
    Ok(PythonAnswer::Blobs(found))
}
