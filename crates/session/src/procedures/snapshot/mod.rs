//! Snapshots: keyspaces as they were at one time, for as long as a lease is renewed.
//!
//! ```text
//!   open, at every partition ──> the highest of their times is the snapshot's ──> a second round: no clock is behind it
//!                                                                                       │
//!   a task renews, three times a lease          reads and scans at that time <──────────┘
//! ```
//!
//! Writes that were acknowledged before [`ClusterHandle::snapshot`] was called are in the snapshot, and writes that begin after it has returned are not. A
//! transaction that runs during the call is in the snapshot completely or not at all. `docs/protocols/snapshots.md` gives the reasons.

mod blob;
mod range_scan;
mod scan;

use std::sync::Arc;
use std::time::Duration;

use crate::Reply;
use zerohop_placement::Division;
use zerohop_wire::ids::Timestamp;
use zerohop_wire::messages::{LookupRange, Query, Range, RecordRead, SnapshotQuery};

pub use blob::{SnapshotBlob, SnapshotBlobRead};
pub use range_scan::SnapshotRangeScan;
pub use scan::{SnapshotBlobList, SnapshotScan};

use crate::procedures::cluster_handle::ClusterHandle;
use crate::procedures::error::Error;
use crate::procedures::keyspace::Keyspace;
use crate::procedures::operation::{self, Info, Record};
use crate::procedures::shell::{BackgroundTask, PendingReply};
use crate::procedures::snapshot_lease::{QUERIES_PARALLEL, SnapshotLease, found, millis, renew};

/// Options of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotOptions {
    /// How long the servers keep the snapshot after its client has vanished: 30 s by default, 5 minutes at most. The client renews the lease by
    /// itself.
    pub lease: Duration,
    /// Maximum age of the snapshot: 5 minutes by default, a week at most. A record that changes while the snapshot is open is stored twice, in
    /// memory and on disk.
    pub age: Duration,
}

impl Default for SnapshotOptions {
    fn default() -> Self {
        Self { lease: Duration::from_secs(30), age: Duration::from_secs(300) }
    }
}

/// Keyspaces as they were at one time. If the handle is dropped without [`Snapshot::close`], the servers release the snapshot when its lease
/// expires.
#[derive(Debug)]
pub struct Snapshot {
    inner: Arc<SnapshotLease>,
    renewing: BackgroundTask,
}

impl ClusterHandle {
    /// Opens a snapshot of keyspaces: their present state stays readable for the next five minutes.
    ///
    /// # Errors
    /// A partition is not reachable within the client's deadline, or already has the maximum number of snapshots.
    pub async fn snapshot(&self, keyspaces: &[&Keyspace]) -> Result<Snapshot, Error> {
        self.snapshot_with(keyspaces, SnapshotOptions::default()).await
    }

    /// Same as [`ClusterHandle::snapshot`], with options.
    ///
    /// # Errors
    /// Those of [`ClusterHandle::snapshot`], and a lease or an age that exceeds its limit.
    pub async fn snapshot_with(
        &self,
        keyspaces: &[&Keyspace],
        options: SnapshotOptions,
    ) -> Result<Snapshot, Error> {
        let keyspaces = keyspaces.iter().map(|one| (one.id(), one.division().clone())).collect();
        let mut inner = SnapshotLease::new(self, keyspaces);
        let age_ms = u64::try_from(options.age.as_millis()).unwrap_or(u64::MAX);
        inner.open(millis(options.lease), age_ms).await?;
        let inner = Arc::new(inner);
        let renewing = self.spawn(renew(Arc::clone(&inner), options.lease));
        Ok(Snapshot { inner, renewing })
    }
}

impl Snapshot {
    /// The snapshot's time: every change with this version or an earlier one is in the snapshot.
    #[must_use]
    pub fn at(&self) -> Timestamp {
        self.inner.at
    }

    pub(super) fn lease(&self) -> &SnapshotLease {
        &self.inner
    }

    /// The snapshot's id, which is unique.
    #[must_use]
    pub fn id(&self) -> [u8; 16] {
        self.inner.id.0.to_le_bytes()
    }

    /// How a keyspace was divided when the snapshot was opened; `None` if the keyspace is not in the snapshot.
    #[must_use]
    pub fn division(&self, keyspace: &Keyspace) -> Option<&Division> {
        self.inner.keyspaces.iter().find(|(id, _)| *id == keyspace.id()).map(|(_, division)| division)
    }

    /// Reads the record as it was; `None` if there was none. For a long list the result has only the first page.
    ///
    /// # Errors
    /// `SnapshotExpired`; the record cannot be read within the client's deadline.
    pub async fn lookup(
        &self,
        keyspace: &Keyspace,
        key: &(impl AsRef<[u8]> + ?Sized),
    ) -> Result<Option<Record>, Error> {
        self.lookup_range(keyspace, key, Range::ALL).await
    }

    /// Reads a part of the record as it was.
    ///
    /// # Errors
    /// Same as [`Snapshot::lookup`].
    pub async fn lookup_range(
        &self,
        keyspace: &Keyspace,
        key: &(impl AsRef<[u8]> + ?Sized),
        range: Range,
    ) -> Result<Option<Record>, Error> {
        let read = RecordRead { key: key.as_ref(), query: Query::LookupRange(LookupRange { range }) };
        match self.inner.read(keyspace.id(), &read).await? {
            Some(reply) => record(reply).map(Some),
            None => Ok(None),
        }
    }

    /// Reads the record's metadata as it was.
    ///
    /// # Errors
    /// Same as [`Snapshot::lookup`].
    pub async fn inspect(
        &self,
        keyspace: &Keyspace,
        key: &(impl AsRef<[u8]> + ?Sized),
    ) -> Result<Option<Info>, Error> {
        let read = RecordRead { key: key.as_ref(), query: Query::Inspect };
        match self.inner.read(keyspace.id(), &read).await? {
            Some(reply) => match operation::info(Ok(reply)) {
                Some(Ok(info)) => Ok(info),
                _ => Err(Error::Unexpected),
            },
            None => Ok(None),
        }
    }

    /// Reads several records as they were, in parallel. The results are in the order of the keys.
    ///
    /// # Errors
    /// Same as [`Snapshot::lookup`].
    pub async fn read_many<K: AsRef<[u8]>>(
        &self,
        records: &[(&Keyspace, K)],
    ) -> Result<Vec<Option<Record>>, Error> {
        let mut results = Vec::with_capacity(records.len());
        for some in records.chunks(QUERIES_PARALLEL) {
            let answers = self.start_all(some, Query::Lookup)?;
            for ((_, key), answer) in some.iter().zip(answers) {
                results.push(match found(key.as_ref(), answer).await? {
                    Some(reply) => Some(record(reply)?),
                    None => None,
                });
            }
        }
        Ok(results)
    }

    /// Reads the metadata of several records as they were, in parallel. The results are in the order of the keys.
    ///
    /// # Errors
    /// Same as [`Snapshot::lookup`].
    pub async fn inspect_many<K: AsRef<[u8]>>(
        &self,
        records: &[(&Keyspace, K)],
    ) -> Result<Vec<Option<Info>>, Error> {
        let mut results = Vec::with_capacity(records.len());
        for some in records.chunks(QUERIES_PARALLEL) {
            let answers = self.start_all(some, Query::Inspect)?;
            for ((_, key), answer) in some.iter().zip(answers) {
                results.push(match found(key.as_ref(), answer).await? {
                    Some(reply) => match operation::info(Ok(reply)) {
                        Some(Ok(info)) => info,
                        _ => return Err(Error::Unexpected),
                    },
                    None => None,
                });
            }
        }
        Ok(results)
    }

    fn start_all<K: AsRef<[u8]>>(
        &self,
        records: &[(&Keyspace, K)],
        query: Query<'_>,
    ) -> Result<Vec<PendingReply>, Error> {
        let start = |(keyspace, key): &(&Keyspace, K)| {
            self.inner.start(keyspace.id(), &RecordRead { key: key.as_ref(), query })
        };
        records.iter().map(start).collect()
    }

    /// Closes the snapshot, so that the servers release it.
    ///
    /// # Errors
    /// A partition is not reachable within the client's deadline; it releases the snapshot when the lease expires.
    pub async fn close(self) -> Result<(), Error> {
        drop(self.renewing);
        self.inner.query_all_partitions(SnapshotQuery::Close).await.map(drop)
    }
}

fn record(reply: Reply) -> Result<Record, Error> {
    match operation::record(Ok(reply)) {
        Some(Ok(Some(record))) => Ok(record),
        _ => Err(Error::Unexpected),
    }
}
