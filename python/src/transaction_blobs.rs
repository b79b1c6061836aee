//! The class `NativeTransactionBlobs`: the blobs of a keyspace within a transaction.

use std::future::Future;
use std::sync::{Arc, PoisonError};

use bytes::Bytes;
use pyo3::prelude::*;
use zerohop_client::{Error, Keyspace, Transaction};

use crate::answer::PythonAnswer;
use crate::arguments::Blob as Name;
use crate::core::Core;
use crate::memory::Memory;
use crate::number::NumberChange;
use crate::outcome;
use crate::problem::Problem;
use crate::promises::{PromisedValue, Promises};

/// More than a transaction accepts in one write to a blob: longer ones are refused, so that they
/// need not be copied.
const COPIED_BYTES_MAX: usize = (64 << 20) + 1;

/// The blobs of a keyspace within a transaction. Every operation returns its result, or for an
/// event loop a future of it, as it may read the blob's header; changes wait for the commit.
#[pyclass(frozen, module = "zerohop._native")]
pub(crate) struct NativeTransactionBlobs {
    core: Arc<Core>,
    transaction: Transaction,
    promises: Promises,
    keyspace: Arc<Keyspace>,
}

type TransactionBlobCallResult = PyResult<Py<PyAny>>;

#[pymethods]
impl NativeTransactionBlobs {
    fn stat(&self, py: Python<'_>, name: Name) -> TransactionBlobCallResult {
        let (keyspace, transaction, name) = self.parts(&name);
        self.run(py, async move { transaction.blob(&keyspace, name).stat().await.map(PythonAnswer::Blob) })
    }

    fn stat_many(&self, py: Python<'_>, names: Vec<Name>) -> TransactionBlobCallResult {
        let (keyspace, transaction) = (Arc::clone(&self.keyspace), self.transaction.clone());
        self.run(py, async move {
            let named = |name: &Name| keyspace.blob(Bytes::copy_from_slice(name.as_ref()));
            let blobs: Vec<_> = names.iter().map(named).collect();
            transaction.stat_blobs(&blobs).await.map(PythonAnswer::Blobs)
        })
    }

    #[pyo3(signature = (name, attributes, chunk_bits = None))]
    fn create(
        &self,
        py: Python<'_>,
        name: Name,
        attributes: Name,
        chunk_bits: Option<u8>,
    ) -> TransactionBlobCallResult {
        let (keyspace, transaction, name) = self.parts(&name);
        let attributes = attributes.as_ref().to_vec();
        self.run(py, async move {
            let blob = transaction.blob(&keyspace, name);
            match chunk_bits {
                Some(bits) => blob.create_with(bits, &attributes).await?,
                None => blob.create(&attributes).await?,
            }
            Ok(PythonAnswer::Nothing)
        })
    }

    fn read(&self, py: Python<'_>, name: Name, offset: u64, length: u64) -> TransactionBlobCallResult {
        let (keyspace, transaction, name) = self.parts(&name);
        self.run(py, async move {
            let bytes = transaction.blob(&keyspace, name).read(offset, length).await?;
            Ok(PythonAnswer::Bytes(Some(bytes)))
        })
    }

    fn write(
        &self,
        py: Python<'_>,
        name: Name,
        offset: u64,
        bytes: &Bound<'_, PyAny>,
    ) -> TransactionBlobCallResult {
        let (keyspace, transaction, name) = self.parts(&name);
        let bytes = copied(py, bytes)?;
        self.run(py, async move {
            transaction.blob(&keyspace, name).write(offset, bytes).await?;
            Ok(PythonAnswer::Nothing)
        })
    }

    fn extend(&self, py: Python<'_>, name: Name, bytes: &Bound<'_, PyAny>) -> TransactionBlobCallResult {
        let (keyspace, transaction, name) = self.parts(&name);
        let bytes = copied(py, bytes)?;
        self.run(py, async move {
            transaction.blob(&keyspace, name).extend(bytes).await.map(PythonAnswer::Number)
        })
    }

    fn truncate(&self, py: Python<'_>, name: Name, size: u64) -> TransactionBlobCallResult {
        let (keyspace, transaction, name) = self.parts(&name);
        self.run(py, async move {
            transaction.blob(&keyspace, name).truncate(size).await?;
            Ok(PythonAnswer::Nothing)
        })
    }

    fn set_attributes(&self, py: Python<'_>, name: Name, attributes: Name) -> TransactionBlobCallResult {
        let (keyspace, transaction, name) = self.parts(&name);
        let attributes = attributes.as_ref().to_vec();
        self.run(py, async move {
            transaction.blob(&keyspace, name).set_attributes(&attributes).await?;
            Ok(PythonAnswer::Nothing)
        })
    }

    /// The new or the old number takes an index in the results of the commit that was reserved for
    /// it.
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of a call in Python")]
    fn transform(
        &self,
        py: Python<'_>,
        place: usize,
        name: Name,
        operator: &str,
        kind: &str,
        operand: &Bound<'_, PyAny>,
        offset: u64,
        old: bool,
    ) -> TransactionBlobCallResult {
        let (keyspace, transaction, name) = self.parts(&name);
        let change = NumberChange::new(operator, kind, operand, offset)?;
        let promises = Arc::clone(&self.promises);
        self.run(py, async move {
            let promise = change.in_transaction(&transaction.blob(&keyspace, name), old).await?;
            let mut promises = promises.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(kept) = promises.get_mut(place) {
                *kept = PromisedValue::Changed(promise);
            }
            Ok(PythonAnswer::Nothing)
        })
    }

    fn delete(&self, py: Python<'_>, name: Name) -> TransactionBlobCallResult {
        let (keyspace, transaction, name) = self.parts(&name);
        self.run(py, async move { transaction.blob(&keyspace, name).remove().await.map(PythonAnswer::Flag) })
    }
}

impl NativeTransactionBlobs {
    pub(crate) fn new(
        core: Arc<Core>,
        transaction: Transaction,
        promises: Promises,
        keyspace: Arc<Keyspace>,
    ) -> Self {
        Self { core, transaction, promises, keyspace }
    }

    fn parts(&self, name: &Name) -> (Arc<Keyspace>, Transaction, Bytes) {
        let name = Bytes::copy_from_slice(name.as_ref());
        (Arc::clone(&self.keyspace), self.transaction.clone(), name)
    }

    fn run(
        &self,
        py: Python<'_>,
        call: impl Future<Output = Result<PythonAnswer, Error>> + Send + 'static,
    ) -> TransactionBlobCallResult {
        outcome::run(&self.core, py, async move { call.await.map_err(Problem::from).into() })
    }
}

/// A copy of the present bytes: they wait for the commit, and their owner may change them before.
fn copied(py: Python<'_>, object: &Bound<'_, PyAny>) -> PyResult<Bytes> {
    let memory = Memory::readable(object)?;
    Ok(py.detach(|| Bytes::copy_from_slice(memory.slice(0, memory.len().min(COPIED_BYTES_MAX)))))
}
