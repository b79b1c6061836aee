//! The class `NativeTransaction`: tracked reads, buffered writes, and a commit of all of them.

use std::sync::{Arc, PoisonError};

use pyo3::prelude::*;
use zerohop_client::{Client, Error, Keyspace, Range, Transaction};

use crate::answer::PythonAnswer;
use crate::arguments::{Blob, condition, expiry};
use crate::core::Core;
use crate::handles::NativeKeyspace;
use crate::outcome;
use crate::problem::Problem;
use crate::promises::{PromisedValue, Promises};
use crate::transaction_blobs::NativeTransactionBlobs;

/// A transaction before its commit. Reads and the commit return their result, or for an event loop
/// a future of it. Writes are buffered, and return their index in the results of the commit.
#[pyclass(frozen, module = "zerohop._native")]
pub(crate) struct NativeTransaction {
    core: Arc<Core>,
    transaction: Transaction,
    promises: Promises,
}

type TransactionCallResult = PyResult<Py<PyAny>>;

#[pymethods]
impl NativeTransaction {
    fn get(&self, py: Python<'_>, keyspace: &NativeKeyspace, key: Blob) -> TransactionCallResult {
        let (keyspace, transaction) = (Arc::clone(keyspace.inner()), self.transaction.clone());
        outcome::run(&self.core, py, async move {
            let found = transaction.get(&keyspace, &key).await;
            found.map(PythonAnswer::Bytes).map_err(Problem::from).into()
        })
    }

    fn get_for_update(&self, py: Python<'_>, keyspace: &NativeKeyspace, key: Blob) -> TransactionCallResult {
        let (keyspace, transaction) = (Arc::clone(keyspace.inner()), self.transaction.clone());
        outcome::run(&self.core, py, async move {
            let found = transaction.get_for_update(&keyspace, &key).await;
            found.map(PythonAnswer::Bytes).map_err(Problem::from).into()
        })
    }

    fn lookup(&self, py: Python<'_>, keyspace: &NativeKeyspace, key: Blob) -> TransactionCallResult {
        let (keyspace, transaction) = (Arc::clone(keyspace.inner()), self.transaction.clone());
        outcome::run(&self.core, py, async move {
            let found = transaction.read(keyspace.lookup(&key)).await;
            found.map(PythonAnswer::Record).map_err(Problem::from).into()
        })
    }

    fn inspect(&self, py: Python<'_>, keyspace: &NativeKeyspace, key: Blob) -> TransactionCallResult {
        let (keyspace, transaction) = (Arc::clone(keyspace.inner()), self.transaction.clone());
        outcome::run(&self.core, py, async move {
            let found = transaction.read(keyspace.inspect(&key)).await;
            found.map(PythonAnswer::Info).map_err(Problem::from).into()
        })
    }

    /// Reads records of any keyspaces, in one round.
    fn read_many(
        &self,
        py: Python<'_>,
        records: Vec<(Bound<'_, NativeKeyspace>, Blob)>,
    ) -> TransactionCallResult {
        let (keyspaces, keys): (Vec<_>, Vec<_>) =
            records.into_iter().map(|(keyspace, key)| (Arc::clone(keyspace.get().inner()), key)).unzip();
        let transaction = self.transaction.clone();
        outcome::run(&self.core, py, async move {
            let records: Vec<_> = keyspaces.iter().map(AsRef::as_ref).zip(&keys).collect();
            transaction.read_many(&records).await.map(PythonAnswer::Records).map_err(Problem::from).into()
        })
    }

    #[expect(clippy::too_many_arguments, reason = "keyword arguments of a call in Python")]
    fn insert(
        &self,
        py: Python<'_>,
        keyspace: &NativeKeyspace,
        key: Blob,
        value: Blob,
        after_ms: Option<u64>,
        at_ms: Option<u64>,
        only_if: Option<&str>,
        version: Option<u64>,
    ) -> PyResult<usize> {
        let (expiry, condition) = (expiry(after_ms, at_ms)?, condition(only_if, version)?);
        self.write(py, keyspace, |keyspace| {
            let insert = keyspace.insert_until(&key, &value, expiry).condition(condition);
            self.transaction.write(insert).map(PromisedValue::Version)
        })
    }

    fn remove(
        &self,
        py: Python<'_>,
        keyspace: &NativeKeyspace,
        key: Blob,
        version: Option<u64>,
    ) -> PyResult<usize> {
        let condition = condition(None, version)?;
        self.write(py, keyspace, |keyspace| {
            self.transaction.write(keyspace.remove(&key).condition(condition)).map(PromisedValue::Flag)
        })
    }

    fn append(
        &self,
        py: Python<'_>,
        keyspace: &NativeKeyspace,
        key: Blob,
        values: Vec<Blob>,
    ) -> PyResult<usize> {
        let values: Vec<&[u8]> = values.iter().map(AsRef::as_ref).collect();
        self.write(py, keyspace, |keyspace| {
            self.transaction.write(keyspace.append(&key, &values)).map(PromisedValue::Number)
        })
    }

    fn extend(&self, py: Python<'_>, keyspace: &NativeKeyspace, key: Blob, bytes: Blob) -> PyResult<usize> {
        self.write(py, keyspace, |keyspace| {
            self.transaction.write(keyspace.extend(&key, &bytes)).map(PromisedValue::Number)
        })
    }

    fn increment(&self, py: Python<'_>, keyspace: &NativeKeyspace, key: Blob, delta: i64) -> PyResult<usize> {
        self.write(py, keyspace, |keyspace| {
            self.transaction.write(keyspace.increment(&key, delta)).map(PromisedValue::Signed)
        })
    }

    fn compare_swap(
        &self,
        py: Python<'_>,
        keyspace: &NativeKeyspace,
        key: Blob,
        expected: Option<Blob>,
        new: Option<Blob>,
    ) -> PyResult<usize> {
        let (expected, new) = (expected.as_ref().map(AsRef::as_ref), new.as_ref().map(AsRef::as_ref));
        self.write(py, keyspace, |keyspace| {
            self.transaction.write(keyspace.compare_swap(&key, expected, new)).map(PromisedValue::Version)
        })
    }

    fn expire(
        &self,
        py: Python<'_>,
        keyspace: &NativeKeyspace,
        key: Blob,
        after_ms: Option<u64>,
        at_ms: Option<u64>,
    ) -> PyResult<usize> {
        let expiry = expiry(after_ms, at_ms)?;
        self.write(py, keyspace, |keyspace| {
            self.transaction.write(keyspace.expire(&key, expiry)).map(PromisedValue::Flag)
        })
    }

    fn trim(
        &self,
        py: Python<'_>,
        keyspace: &NativeKeyspace,
        key: Blob,
        start: i64,
        stop: Option<i64>,
    ) -> PyResult<usize> {
        let range = Range { start, stop: stop.unwrap_or(i64::MAX) };
        self.write(py, keyspace, |keyspace| {
            self.transaction.write(keyspace.trim(&key, range)).map(PromisedValue::Number)
        })
    }

    /// The blobs of a keyspace within this transaction.
    fn blobs(&self, keyspace: &NativeKeyspace) -> NativeTransactionBlobs {
        let (core, transaction) = (Arc::clone(&self.core), self.transaction.clone());
        NativeTransactionBlobs::new(
            core,
            transaction,
            Arc::clone(&self.promises),
            Arc::clone(keyspace.inner()),
        )
    }

    /// Reserves an index in the results of the commit.
    fn keep_place(&self) -> usize {
        self.keep(PromisedValue::Nothing)
    }

    /// The version, and the result or the exception of each write.
    fn commit(&self, py: Python<'_>) -> TransactionCallResult {
        let transaction = self.transaction.clone();
        let promises = std::mem::take(&mut *self.promises.lock().unwrap_or_else(PoisonError::into_inner));
        outcome::run(&self.core, py, async move {
            let committed = transaction.commit().await.map_err(Problem::from);
            let answer = committed.map(|committed| {
                let one = |promised: &PromisedValue| {
                    let result = match promised {
                        PromisedValue::Nothing => Ok(PythonAnswer::Nothing),
                        PromisedValue::Changed(it) => it.result(&committed),
                        PromisedValue::Version(it) => {
                            committed.result(it).map(|it| PythonAnswer::Version(it.0))
                        }
                        PromisedValue::Number(it) => committed.result(it).map(PythonAnswer::Number),
                        PromisedValue::Signed(it) => committed.result(it).map(PythonAnswer::Signed),
                        PromisedValue::Flag(it) => committed.result(it).map(PythonAnswer::Flag),
                    };
                    result.map_err(Problem::from)
                };
                let results = promises.iter().map(one).collect();
                PythonAnswer::Committed { version: committed.version().0, results }
            });
            answer.into()
        })
    }

    /// Ends it without effect; may be called repeatedly.
    fn abort(&self) {
        // Nothing of it is stored elsewhere.
        self.transaction.clone().abort();
    }
}

impl NativeTransaction {
    pub(crate) fn new(core: Arc<Core>, client: &Client) -> Self {
        Self { core, transaction: client.begin(), promises: Promises::default() }
    }

    /// The transaction, for objects and queues.
    pub(crate) const fn transaction(&self) -> &Transaction {
        &self.transaction
    }

    fn write(
        &self,
        py: Python<'_>,
        keyspace: &NativeKeyspace,
        write: impl FnOnce(&Keyspace) -> Result<PromisedValue, Error>,
    ) -> PyResult<usize> {
        self.core.client().map_err(|problem| problem.exception(py))?;
        let promised = write(keyspace.inner()).map_err(|error| Problem::Client(error).exception(py))?;
        Ok(self.keep(promised))
    }

    fn keep(&self, promised: PromisedValue) -> usize {
        let mut promises = self.promises.lock().unwrap_or_else(PoisonError::into_inner);
        promises.push(promised);
        promises.len() - 1
    }
}
