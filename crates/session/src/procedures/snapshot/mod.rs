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
mod scan;

use std::sync::Arc;
use std::time::Duration;

use crate::planted::{Bug, is_planted};
use crate::{Reply, SessionError as Reason, SessionRequest};
use zerohop_placement::PartitionCount;
use zerohop_wire::Failure;
use zerohop_wire::ids::{KeyspaceId, PartitionId, SnapshotId, Timestamp};
use zerohop_wire::limits::SNAPSHOT_AGE_MS_MAX;
use zerohop_wire::messages::{LookupRange, Query, Range, RecordOperation, RecordRead, SnapshotAsk};

pub use blob::{SnapshotBlob, SnapshotBlobRead};
pub use scan::{SnapshotBlobList, SnapshotScan};

use crate::procedures::cluster_handle::ClusterHandle;
use crate::procedures::error::Error;
use crate::procedures::keyspace::Keyspace;
use crate::procedures::operation::{self, Info, Record};
use crate::procedures::shell::{BackgroundTask, PendingReply};

/// Number of partitions that the client queries in parallel.
const QUERIES_PARALLEL: usize = 256;
/// Maximum number of times that the client opens a snapshot again because a keyspace was split meanwhile.
const ATTEMPTS_MAX: u32 = 4;
/// Renewals within one lease: two of them may be lost.
const RENEWALS_PER_LEASE: u32 = 3;

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
    inner: Arc<Inner>,
    renewing: BackgroundTask,
}

#[derive(Debug)]
struct Inner {
    client: ClusterHandle,
    id: SnapshotId,
    at: Timestamp,
    keyspaces: Vec<(KeyspaceId, PartitionCount)>,
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
        let id = u128::from(self.random()) << 64 | u128::from(self.random());
        let mut inner = Inner {
            client: self.clone(),
            id: SnapshotId(id),
            at: Timestamp::ZERO,
            keyspaces: keyspaces.iter().map(|one| (one.id(), one.config().partitions)).collect(),
        };
        inner.keyspaces.sort_unstable_by_key(|(id, _)| *id);
        inner.keyspaces.dedup_by_key(|(id, _)| *id);
        let lease_ms = u32::try_from(options.lease.as_millis()).unwrap_or(u32::MAX);
        let age_ms = u64::try_from(options.age.as_millis()).unwrap_or(u64::MAX);
        match inner.open(lease_ms, age_ms).await {
            Ok(at) => inner.at = at,
            Err(error) => {
                // Closes the snapshot on the partitions that have opened it; on all others the lease expires.
                let _left = inner.query_all_partitions(SnapshotAsk::Close).await;
                return Err(error);
            }
        }
        let inner = Arc::new(inner);
        let renewing = self.spawn(renew(Arc::clone(&inner), options.lease, lease_ms));
        Ok(Snapshot { inner, renewing })
    }
}

/// Renews the lease until the snapshot is dropped, closed, or gone.
async fn renew(inner: Arc<Inner>, lease: Duration, lease_ms: u32) {
    loop {
        inner.client.sleep(lease / RENEWALS_PER_LEASE).await;
        if let Err(error) = inner.query_all_partitions(SnapshotAsk::Renew { lease_ms }).await
            && matches!(error.failure(), Some(Failure::SnapshotExpired))
        {
            // The next read of the snapshot reports this error.
            return;
        }
    }
}

impl Inner {
    async fn open(&mut self, lease_ms: u32, age_ms: u64) -> Result<Timestamp, Error> {
        let age_ms = age_ms.min(SNAPSHOT_AGE_MS_MAX);
        let mut attempts = 0;
        let at = loop {
            match self.query_all_partitions(SnapshotAsk::Open { lease_ms, age_ms }).await {
                Ok(newest) => break newest,
                Err(error) => {
                    attempts += 1;
                    let Some(partitions) = error.split_into().filter(|_| attempts < ATTEMPTS_MAX) else {
                        return Err(error);
                    };
                    self.follow_split(partitions).await?;
                }
            }
        };
        // A partition that replies has a clock that is not behind the snapshot: writes from now on are not in the snapshot.
        if !is_planted(Bug::SnapshotNotFixed) {
            self.query_all_partitions(SnapshotAsk::Renew { lease_ms }).await?;
        }
        Ok(at)
    }

    /// One of the keyspaces has more partitions. The client queries each keyspace, because the error does not say which one was split.
    async fn follow_split(&mut self, partitions: PartitionCount) -> Result<(), Error> {
        for at in 0..self.keyspaces.len() {
            let (id, before) = self.keyspaces[at];
            if before >= partitions {
                continue;
            }
            let ask = self.request_within(1_000_000, (id, PartitionId(0), partitions), SnapshotAsk::Close)?;
            if let Ok(Ok(_)) = self.client.submit(ask).await {
                self.keyspaces[at].1 = partitions;
            }
        }
        Ok(())
    }

    /// Sends a request to every partition and returns the highest version among the replies.
    async fn query_all_partitions(&self, ask: SnapshotAsk<'_>) -> Result<Timestamp, Error> {
        let all: Vec<(KeyspaceId, PartitionId, PartitionCount)> = self
            .keyspaces
            .iter()
            .flat_map(|(keyspace, partitions)| {
                partitions.ids().map(move |partition| (*keyspace, partition, *partitions))
            })
            .collect();
        let (mut newest, mut failed) = (Timestamp::ZERO, None);
        for some in all.chunks(QUERIES_PARALLEL) {
            let answers: Vec<PendingReply> = some
                .iter()
                .map(|place| Ok(self.client.submit(self.request(*place, ask)?)))
                .collect::<Result<_, Error>>()?;
            for answer in answers {
                match answer.await.unwrap_or(Err(Reason::Closed)) {
                    Ok(Reply::Done { version, .. }) => newest = newest.max(version),
                    Ok(_) => failed = Some(Error::Unexpected),
                    Err(reason) => failed = Some(Error::general(reason)),
                }
            }
            if let Some(error) = failed.take_if(|_| !matches!(ask, SnapshotAsk::Close)) {
                return Err(error);
            }
        }
        failed.map_or(Ok(newest), Err)
    }

    fn request(
        &self,
        (keyspace, partition, partitions): (KeyspaceId, PartitionId, PartitionCount),
        ask: SnapshotAsk<'_>,
    ) -> Result<SessionRequest, Error> {
        self.request_within(self.client.limit_us(), (keyspace, partition, partitions), ask)
    }

    fn request_within(
        &self,
        limit_us: u64,
        (keyspace, partition, partitions): (KeyspaceId, PartitionId, PartitionCount),
        ask: SnapshotAsk<'_>,
    ) -> Result<SessionRequest, Error> {
        SessionRequest::snapshot(keyspace, (partition, partitions), (self.id, ask), limit_us)
            .map_err(|failure| Error::general(Reason::Answer { failure }))
    }

    /// Sends a read of a record at the snapshot's time.
    fn start(&self, keyspace: KeyspaceId, read: &RecordRead<'_>) -> Result<PendingReply, Error> {
        let limit_us = self.client.limit_us();
        let request = match read.query {
            Query::ReadChunk(_) if is_planted(Bug::SnapshotOfTheMoment) => {
                SessionRequest::record(keyspace, &RecordOperation::Read(*read), limit_us)
            }
            _ => SessionRequest::read_at(keyspace, (self.id, self.at), read, limit_us),
        };
        let request = request.map_err(|failure| Error::about(read.key, Reason::Answer { failure }))?;
        Ok(self.client.submit(request))
    }

    async fn read(&self, keyspace: KeyspaceId, read: &RecordRead<'_>) -> Result<Option<Reply>, Error> {
        found(read.key, self.start(keyspace, read)?).await
    }
}

/// The result of a read; `None` if there was no record.
async fn found(key: &[u8], answer: PendingReply) -> Result<Option<Reply>, Error> {
    match answer.await.unwrap_or(Err(Reason::Closed)) {
        Ok(reply) => Ok(Some(reply)),
        Err(Reason::Answer { failure: Failure::NotFound }) => Ok(None),
        Err(reason) => Err(Error::about(key, reason)),
    }
}

impl Snapshot {
    /// The snapshot's time: every change with this version or an earlier one is in the snapshot.
    #[must_use]
    pub fn at(&self) -> Timestamp {
        self.inner.at
    }

    /// The snapshot's id, which is unique.
    #[must_use]
    pub fn id(&self) -> [u8; 16] {
        self.inner.id.0.to_le_bytes()
    }

    /// How many partitions a keyspace had when the snapshot was opened; `None` if the keyspace is not in the snapshot.
    #[must_use]
    pub fn partitions(&self, keyspace: &Keyspace) -> Option<PartitionCount> {
        self.inner.keyspaces.iter().find(|(id, _)| *id == keyspace.id()).map(|(_, partitions)| *partitions)
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
        let mut told = Vec::with_capacity(records.len());
        for some in records.chunks(QUERIES_PARALLEL) {
            let answers = self.start_all(some, Query::Lookup)?;
            for ((_, key), answer) in some.iter().zip(answers) {
                told.push(match found(key.as_ref(), answer).await? {
                    Some(reply) => Some(record(reply)?),
                    None => None,
                });
            }
        }
        Ok(told)
    }

    /// Reads the metadata of several records as they were, in parallel. The results are in the order of the keys.
    ///
    /// # Errors
    /// Same as [`Snapshot::lookup`].
    pub async fn inspect_many<K: AsRef<[u8]>>(
        &self,
        records: &[(&Keyspace, K)],
    ) -> Result<Vec<Option<Info>>, Error> {
        let mut told = Vec::with_capacity(records.len());
        for some in records.chunks(QUERIES_PARALLEL) {
            let answers = self.start_all(some, Query::Inspect)?;
            for ((_, key), answer) in some.iter().zip(answers) {
                told.push(match found(key.as_ref(), answer).await? {
                    Some(reply) => match operation::info(Ok(reply)) {
                        Some(Ok(info)) => info,
                        _ => return Err(Error::Unexpected),
                    },
                    None => None,
                });
            }
        }
        Ok(told)
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
        self.inner.query_all_partitions(SnapshotAsk::Close).await.map(drop)
    }
}

fn record(reply: Reply) -> Result<Record, Error> {
    match operation::record(Ok(reply)) {
        Some(Ok(Some(record))) => Ok(record),
        _ => Err(Error::Unexpected),
    }
}
