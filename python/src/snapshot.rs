//! The class `NativeSnapshot`: keyspaces as they were at one moment.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use pyo3::prelude::*;
use zerohop_client::{Error, Keyspace, Range, Record, Snapshot};
use zerohop_wire::ids::PartitionId;

use crate::answer::PythonAnswer;
use crate::arguments::Blob;
use crate::handles::NativeKeyspace;
use crate::handles::NativeSnapshot;
use crate::outcome;
use crate::problem::{Problem, broken};

/// How long the end of a snapshot waits for servers.
const CLOSE_MAX: Duration = Duration::from_secs(1);

/// A read of a snapshot, with its arguments.
enum SnapshotRead {
    Lookup(Blob),
    Inspect(Blob),
    Many(Vec<Blob>),
    Keys { partition: u32, prefix: Blob },
    BlobNames { partition: u32, prefix: Blob },
    Stat(Blob),
    Contents { name: Blob, offset: u64, length: u64 },
}

type SnapshotCallResult = PyResult<Py<PyAny>>;

#[pymethods]
impl NativeSnapshot {
    /// Its moment, as a version.
    #[getter]
    fn version(&self) -> u64 {
        self.at
    }

    fn lookup(&self, py: Python<'_>, keyspace: &NativeKeyspace, key: Blob) -> SnapshotCallResult {
        self.run(py, keyspace, SnapshotRead::Lookup(key))
    }

    fn inspect(&self, py: Python<'_>, keyspace: &NativeKeyspace, key: Blob) -> SnapshotCallResult {
        self.run(py, keyspace, SnapshotRead::Inspect(key))
    }

    fn read_many(&self, py: Python<'_>, keyspace: &NativeKeyspace, keys: Vec<Blob>) -> SnapshotCallResult {
        self.run(py, keyspace, SnapshotRead::Many(keys))
    }

    /// The number of partitions of a keyspace in the snapshot; `None` if it is not in it.
    fn partitions(&self, py: Python<'_>, keyspace: &NativeKeyspace) -> PyResult<Option<u32>> {
        Ok(self.open(py)?.division(keyspace.inner()).map(|division| division.count().get()))
    }

    /// The keys of one partition that begin with `prefix`.
    fn keys(
        &self,
        py: Python<'_>,
        keyspace: &NativeKeyspace,
        partition: u32,
        prefix: Blob,
    ) -> SnapshotCallResult {
        self.run(py, keyspace, SnapshotRead::Keys { partition, prefix })
    }

    /// The names of blobs in one partition that begin with `prefix`.
    fn blob_names(
        &self,
        py: Python<'_>,
        keyspace: &NativeKeyspace,
        partition: u32,
        prefix: Blob,
    ) -> SnapshotCallResult {
        self.run(py, keyspace, SnapshotRead::BlobNames { partition, prefix })
    }

    /// The metadata of a blob.
    fn stat(&self, py: Python<'_>, keyspace: &NativeKeyspace, name: Blob) -> SnapshotCallResult {
        self.run(py, keyspace, SnapshotRead::Stat(name))
    }

    /// Bytes of a blob from an offset on; `None` if there is no blob.
    fn read(
        &self,
        py: Python<'_>,
        keyspace: &NativeKeyspace,
        name: Blob,
        offset: u64,
        length: u64,
    ) -> SnapshotCallResult {
        self.run(py, keyspace, SnapshotRead::Contents { name, offset, length })
    }

    /// Ends the snapshot; nothing happens if it has ended. Reads that are in progress go on, and the servers then end it with its lease.
    fn close(&self, py: Python<'_>) -> SnapshotCallResult {
        let snapshot = self.slot(py)?.lock().unwrap_or_else(PoisonError::into_inner).take();
        outcome::run(&self.core, py, async move {
            if let Some(snapshot) = snapshot.and_then(Arc::into_inner) {
                // Servers that cannot be reached end it with its lease.
                let _ = tokio::time::timeout(CLOSE_MAX, snapshot.close()).await;
            }
            Ok(PythonAnswer::Nothing).into()
        })
    }
}

impl NativeSnapshot {
    /// Errors: the client was closed, or this process is a fork, where another thread of the parent may have locked the slot for ever.
    fn slot(&self, py: Python<'_>) -> PyResult<&Mutex<Option<Arc<Snapshot>>>> {
        self.core.client().map_err(|problem| problem.exception(py))?;
        self.snapshot.get().ok_or_else(|| broken("a snapshot is gone"))
    }

    fn open(&self, py: Python<'_>) -> PyResult<Arc<Snapshot>> {
        let open = self.slot(py)?.lock().unwrap_or_else(PoisonError::into_inner).clone();
        open.ok_or_else(|| Problem::SnapshotClosed.exception(py))
    }

    fn run(&self, py: Python<'_>, keyspace: &NativeKeyspace, read: SnapshotRead) -> SnapshotCallResult {
        let (snapshot, keyspace) = (self.open(py)?, Arc::clone(keyspace.inner()));
        outcome::run(&self.core, py, async move {
            read.run(&snapshot, &keyspace).await.map_err(Problem::from).into()
        })
    }
}

impl SnapshotRead {
    async fn run(&self, snapshot: &Snapshot, keyspace: &Keyspace) -> Result<PythonAnswer, Error> {
        Ok(match self {
            Self::Lookup(key) => PythonAnswer::Record(whole_record(snapshot, keyspace, key.as_ref()).await?),
            Self::Inspect(key) => PythonAnswer::Info(snapshot.inspect(keyspace, key.as_ref()).await?),
            Self::Many(keys) => {
                let records: Vec<_> = keys.iter().map(|key| (keyspace, key)).collect();
                let mut found = snapshot.read_many(&records).await?;
                for (record, key) in found.iter_mut().zip(keys) {
                    if record.as_ref().is_some_and(is_first_page) {
                        *record = whole_record(snapshot, keyspace, key.as_ref()).await?;
                    }
                }
                PythonAnswer::Records(found)
            }
            Self::Keys { partition, prefix } => {
                let prefix = Bytes::copy_from_slice(prefix.as_ref());
                let mut scan = snapshot.scan_partition(keyspace, PartitionId(*partition), prefix);
                let mut all = Vec::new();
                while let Some(page) = scan.next_page().await? {
                    all.extend(page.into_iter().map(|listed| listed.key));
                }
                PythonAnswer::Values(Some(all))
            }
            Self::BlobNames { partition, prefix } => {
                let prefix = Bytes::copy_from_slice(prefix.as_ref());
                let mut list = snapshot.list_blobs_of_partition(keyspace, PartitionId(*partition), prefix);
                let mut all = Vec::new();
                while let Some(page) = list.next_page().await? {
                    all.extend(page.into_iter().map(|(name, _)| name));
                }
                PythonAnswer::Values(Some(all))
            }
            Self::Stat(name) => {
                let blob = snapshot.blob(keyspace, Bytes::copy_from_slice(name.as_ref())).await?;
                PythonAnswer::Blob(blob.map(|blob| blob.info().clone()))
            }
            Self::Contents { name, offset, length } => {
                let Some(blob) = snapshot.blob(keyspace, Bytes::copy_from_slice(name.as_ref())).await? else {
                    return Ok(PythonAnswer::Bytes(None));
                };
                let mut bytes = BytesMut::new();
                let mut pieces = blob.read_at(*offset, *length);
                while let Some(piece) = pieces.next_piece().await? {
                    bytes.extend_from_slice(&piece);
                }
                PythonAnswer::Bytes(Some(bytes.freeze()))
            }
        })
    }
}

/// Whether it is the first page of a long list.
fn is_first_page(record: &Record) -> bool {
    matches!(record, Record::List { length, values, .. } if (values.len() as u64) < *length)
}

/// A record with all values of a list.
async fn whole_record(snapshot: &Snapshot, keyspace: &Keyspace, key: &[u8]) -> Result<Option<Record>, Error> {
    let mut found = snapshot.lookup(keyspace, key).await?;
    if let Some(Record::List { length, values, .. }) = &mut found {
        while (values.len() as u64) < *length {
            let start = i64::try_from(values.len()).unwrap_or(i64::MAX);
            match snapshot.lookup_range(keyspace, key, Range { start, stop: i64::MAX }).await? {
                Some(Record::List { values: more, .. }) if !more.is_empty() => values.extend(more),
                _ => return Err(Error::Unexpected),
            }
        }
    }
    Ok(found)
}
