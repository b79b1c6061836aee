//! The lease of a snapshot: it is opened at partitions, renewed, read and closed. Snapshots of clients and long streams of blobs use it.

use std::sync::Arc;
use std::time::Duration;

use zerohop_placement::{Division, PartitionCount};
use zerohop_wire::Failure;
use zerohop_wire::ids::{KeyspaceId, PartitionId, SnapshotId, Timestamp};
use zerohop_wire::limits::SNAPSHOT_AGE_MS_MAX;
use zerohop_wire::messages::{Query, RecordOperation, RecordRead, SnapshotQuery};

use super::cluster_handle::ClusterHandle;
use super::error::Error;
use super::limits::{STREAM_SNAPSHOT_AGE_MS, STREAM_SNAPSHOT_LEASE, STREAM_SNAPSHOT_OPEN_US};
use super::shell::{BackgroundTask, PendingReply};
use crate::planted::{Bug, is_planted};
use crate::{Reply, SessionError as Reason, SessionRequest};

/// Number of partitions that the client queries in parallel.
pub(super) const QUERIES_PARALLEL: usize = 256;
/// Maximum number of times that the client opens a snapshot again because a keyspace was split meanwhile.
const ATTEMPTS_MAX: u32 = 4;
/// Renewals within one lease: two of them may be lost.
const RENEWALS_PER_LEASE: u32 = 3;

/// A snapshot at all partitions of its keyspaces, or at some partitions of one keyspace.
#[derive(Debug)]
pub(super) struct SnapshotLease {
    pub(super) client: ClusterHandle,
    pub(super) id: SnapshotId,
    pub(super) at: Timestamp,
    pub(super) keyspaces: Vec<(KeyspaceId, Division)>,
    /// The partitions of the only keyspace; `None`: all of all keyspaces.
    some: Option<Vec<PartitionId>>,
    /// Maximum time of a request, in microseconds.
    limit_us: u64,
}

impl SnapshotLease {
    /// A snapshot of keyspaces, which is not open yet.
    pub(super) fn new(client: &ClusterHandle, mut keyspaces: Vec<(KeyspaceId, Division)>) -> Self {
        keyspaces.sort_unstable_by_key(|(id, _)| *id);
        keyspaces.dedup_by_key(|(id, _)| *id);
        let id = u128::from(client.random()) << 64 | u128::from(client.random());
        let client = client.clone();
        Self { client, id: SnapshotId(id), at: Timestamp::ZERO, keyspaces, some: None, limit_us: u64::MAX }
    }

    /// Opens the snapshot. After an error it is open nowhere, or until its lease expires.
    pub(super) async fn open(&mut self, lease_ms: u32, age_ms: u64) -> Result<(), Error> {
        self.client = self.client.in_call();
        let opened = self.try_open(lease_ms, age_ms).await;
        if opened.is_err() {
            // Closes the snapshot on the partitions that have opened it; on all others the lease expires.
            let _left = self.query_all_partitions(SnapshotQuery::Close).await;
        }
        self.client = self.client.outside_calls();
        self.at = opened?;
        Ok(())
    }

    async fn try_open(&mut self, lease_ms: u32, age_ms: u64) -> Result<Timestamp, Error> {
        let age_ms = age_ms.min(SNAPSHOT_AGE_MS_MAX);
        let mut attempts = 0;
        let at = loop {
            match self.query_all_partitions(SnapshotQuery::Open { lease_ms, age_ms }).await {
                Ok(newest) => break newest,
                Err(error) => {
                    attempts += 1;
                    let may_follow = attempts < ATTEMPTS_MAX && self.some.is_none();
                    let Some((keyspace, division)) = error.split_into().filter(|_| may_follow) else {
                        return Err(error);
                    };
                    let present = self.keyspaces.iter_mut().find(|(id, _)| *id == keyspace);
                    let (_, known) = present.ok_or(Error::Unexpected)?;
                    known.clone_from(division);
                }
            }
        };
        // A partition that replies has a clock that is not behind the snapshot: writes from now on are not in the snapshot.
        if !is_planted(Bug::SnapshotNotFixed) {
            self.query_all_partitions(SnapshotQuery::Renew { lease_ms }).await?;
        }
        Ok(at)
    }

    /// The partitions of the snapshot.
    fn places(&self) -> Vec<(KeyspaceId, PartitionId, PartitionCount)> {
        let of = |(keyspace, division): &(KeyspaceId, Division)| {
            let (keyspace, partitions) = (*keyspace, division.count());
            let ids: Vec<PartitionId> = match &self.some {
                Some(some) => some.clone(),
                None => division.partitions().collect(),
            };
            ids.into_iter().map(move |partition| (keyspace, partition, partitions))
        };
        self.keyspaces.iter().flat_map(of).collect()
    }

    /// Sends a request to every partition and returns the highest version among the replies.
    pub(super) async fn query_all_partitions(&self, query: SnapshotQuery<'_>) -> Result<Timestamp, Error> {
        let all = self.places();
        let (mut newest, mut failed) = (Timestamp::ZERO, None);
        for some in all.chunks(QUERIES_PARALLEL) {
            let answers: Vec<PendingReply> = some
                .iter()
                .map(|place| Ok(self.client.submit(self.request(*place, query)?)))
                .collect::<Result<_, Error>>()?;
            for answer in answers {
                match answer.await.unwrap_or(Err(Reason::Closed)) {
                    Ok(Reply::Done { version, .. }) => newest = newest.max(version),
                    Ok(_) => failed = Some(Error::Unexpected),
                    Err(reason) => failed = Some(Error::general(reason)),
                }
            }
            if let Some(error) = failed.take_if(|_| !matches!(query, SnapshotQuery::Close)) {
                return Err(error);
            }
        }
        failed.map_or(Ok(newest), Err)
    }

    pub(super) fn request(
        &self,
        (keyspace, partition, partitions): (KeyspaceId, PartitionId, PartitionCount),
        query: SnapshotQuery<'_>,
    ) -> Result<SessionRequest, Error> {
        let limit_us = self.limit_us.min(self.client.limit_us());
        self.request_within(limit_us, (keyspace, partition, partitions), query)
    }

    fn request_within(
        &self,
        limit_us: u64,
        (keyspace, partition, partitions): (KeyspaceId, PartitionId, PartitionCount),
        query: SnapshotQuery<'_>,
    ) -> Result<SessionRequest, Error> {
        SessionRequest::snapshot(keyspace, (partition, partitions), (self.id, query), limit_us)
            .map_err(|failure| Error::general(Reason::Answer { failure }))
    }

    /// Sends a read of a record at the snapshot's time.
    pub(super) fn start(&self, keyspace: KeyspaceId, read: &RecordRead<'_>) -> Result<PendingReply, Error> {
        self.start_within(self.client.limit_us(), keyspace, read)
    }

    fn start_within(
        &self,
        limit_us: u64,
        keyspace: KeyspaceId,
        read: &RecordRead<'_>,
    ) -> Result<PendingReply, Error> {
        let request = match read.query {
            Query::ReadChunk(_) if is_planted(Bug::SnapshotOfTheMoment) => {
                SessionRequest::record(keyspace, &RecordOperation::Read(*read), limit_us)
            }
            _ => SessionRequest::read_at(keyspace, (self.id, self.at), read, limit_us),
        };
        let request = request.map_err(|failure| Error::about(read.key, Reason::Answer { failure }))?;
        Ok(self.client.submit(request))
    }

    pub(super) async fn read(
        &self,
        keyspace: KeyspaceId,
        read: &RecordRead<'_>,
    ) -> Result<Option<Reply>, Error> {
        found(read.key, self.start(keyspace, read)?).await
    }
}

/// Renews the lease until the snapshot is dropped, closed, or gone.
pub(super) async fn renew(snapshot: Arc<SnapshotLease>, lease: Duration) {
    let lease_ms = millis(lease);
    loop {
        snapshot.client.sleep(lease / RENEWALS_PER_LEASE).await;
        if let Err(error) = snapshot.query_all_partitions(SnapshotQuery::Renew { lease_ms }).await
            && matches!(error.failure(), Some(Failure::SnapshotExpired))
        {
            // The next read of the snapshot reports this error.
            return;
        }
    }
}

/// The result of a read; `None` if there was no record.
pub(super) async fn found(key: &[u8], answer: PendingReply) -> Result<Option<Reply>, Error> {
    match answer.await.unwrap_or(Err(Reason::Closed)) {
        Ok(reply) => Ok(Some(reply)),
        Err(Reason::Answer { failure: Failure::NotFound }) => Ok(None),
        Err(reason) => Err(Error::about(key, reason)),
    }
}

/// A duration in milliseconds, at most about 50 days.
pub(super) fn millis(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX)
}

/// The snapshot of the partitions that a stream reads. The servers release it when this value is dropped.
#[derive(Debug)]
pub(super) struct StreamSnapshot {
    lease: Arc<SnapshotLease>,
    _renewing: BackgroundTask,
}

impl StreamSnapshot {
    /// Opens a snapshot at some partitions of a keyspace. The servers count it apart from the snapshots of clients.
    ///
    /// # Errors
    /// A partition does not reply soon, or has the maximum number of such snapshots; the keyspace has been split.
    pub(super) async fn open(
        client: &ClusterHandle,
        keyspace: (KeyspaceId, Division),
        partitions: Vec<PartitionId>,
    ) -> Result<Self, Error> {
        let mut lease = SnapshotLease::new(client, vec![keyspace]);
        lease.id = SnapshotId::for_stream(lease.id.0);
        lease.some = Some(partitions);
        lease.limit_us = STREAM_SNAPSHOT_OPEN_US;
        lease.open(millis(STREAM_SNAPSHOT_LEASE), STREAM_SNAPSHOT_AGE_MS).await?;
        // Reads wait as long as those of the client.
        lease.limit_us = u64::MAX;
        let lease = Arc::new(lease);
        let renewing = client.spawn(renew(Arc::clone(&lease), STREAM_SNAPSHOT_LEASE));
        Ok(Self { lease, _renewing: renewing })
    }

    /// The snapshot's time.
    pub(super) fn at(&self) -> Timestamp {
        self.lease.at
    }

    /// Sends a read of a record of the keyspace at the snapshot's time, with a time limit in microseconds.
    pub(super) fn start(&self, read: &RecordRead<'_>, limit_us: u64) -> Result<PendingReply, Error> {
        let keyspace = self.lease.keyspaces.first().ok_or(Error::Unexpected)?.0;
        self.lease.start_within(limit_us, keyspace, read)
    }
}

impl Drop for StreamSnapshot {
    fn drop(&mut self) {
        for place in self.lease.places() {
            let request = self.lease.request_within(STREAM_SNAPSHOT_OPEN_US, place, SnapshotQuery::Close);
            // Where no reply comes the lease expires.
            drop(request.map(|request| self.lease.client.submit(request)));
        }
    }
}
