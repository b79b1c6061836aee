//! Scans and blob listings of a snapshot.

use std::collections::VecDeque;

use crate::planted::{Bug, is_planted};
use crate::{KeyRange, Reply, ScanKey};
use bytes::Bytes;
use zerohop_placement::Division;
use zerohop_wire::ids::{PartitionId, Timestamp};
use zerohop_wire::limits::SCAN_PAGE_KEYS_MAX;
use zerohop_wire::messages::{Scan, SnapshotQuery};
use zerohop_wire::{BadRequestReason, Failure};

use super::Snapshot;
use super::range_scan::SnapshotRangeScan;
use crate::procedures::blob_knowledge::is_staged;
use crate::procedures::error::Error;
use crate::procedures::keyspace::Keyspace;

/// A scan of the keys in a snapshot, partition after partition, each key exactly once.
#[derive(Debug)]
pub struct SnapshotScan<'s> {
    pages: Pages<'s>,
}

/// A listing of the names of the blobs in a snapshot: sorted within each partition, one partition after the other.
#[derive(Debug)]
pub struct SnapshotBlobList<'s> {
    pages: Pages<'s>,
}

#[derive(Debug)]
struct Pages<'s> {
    snapshot: &'s Snapshot,
    keyspace: &'s Keyspace,
    prefix: Bytes,
    listed: PageKind,
    /// The remaining partitions with the scan cursor in each; the front is the next.
    left: VecDeque<(PartitionId, Bytes)>,
}

/// The objects on the pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PageKind {
    Keys,
    Blobs,
    /// Those of the blob with the prefix as the name in the keys of its chunks.
    Chunks,
}

/// The chunks of a blob in a snapshot, partition after partition: those of high numbers.
#[derive(Debug)]
pub(super) struct SnapshotChunks<'s> {
    pages: Pages<'s>,
}

impl SnapshotChunks<'_> {
    /// The next numbers; `None` at the end.
    pub(super) async fn next_page(&mut self) -> Result<Option<Vec<u64>>, Error> {
        let Some(keys) = self.pages.next().await? else { return Ok(None) };
        let number = |key: ScanKey| key.key[..].try_into().map(u64::from_be_bytes);
        keys.into_iter().map(number).collect::<Result<_, _>>().map(Some).map_err(|_| Error::Unexpected)
    }
}

impl Snapshot {
    /// Lists the chunks that a blob had. `contents` is the name in the keys of the chunks.
    pub(super) fn chunks<'s>(&'s self, keyspace: &'s Keyspace, contents: Bytes) -> SnapshotChunks<'s> {
        SnapshotChunks { pages: self.pages(keyspace, contents, PageKind::Chunks, None) }
    }

    /// Lists the keys of a keyspace that begin with `prefix`, as they were.
    pub fn scan<'s>(&'s self, keyspace: &'s Keyspace, prefix: impl Into<Bytes>) -> SnapshotScan<'s> {
        SnapshotScan { pages: self.pages(keyspace, prefix.into(), PageKind::Keys, None) }
    }

    /// Lists the keys of a range of an ordered keyspace as they were: see [`Keyspace::scan_range`].
    pub fn scan_range<'s, K: AsRef<[u8]>>(
        &'s self,
        keyspace: &'s Keyspace,
        bounds: impl std::ops::RangeBounds<K>,
    ) -> SnapshotRangeScan<'s> {
        SnapshotRangeScan::new(self, keyspace, KeyRange::of(bounds))
    }

    /// Same as [`Snapshot::scan`], for only one partition.
    pub fn scan_partition<'s>(
        &'s self,
        keyspace: &'s Keyspace,
        partition: PartitionId,
        prefix: impl Into<Bytes>,
    ) -> SnapshotScan<'s> {
        SnapshotScan { pages: self.pages(keyspace, prefix.into(), PageKind::Keys, Some(partition)) }
    }

    /// Lists the names of blobs that begin with `prefix`, as they were.
    pub fn list_blobs<'s>(
        &'s self,
        keyspace: &'s Keyspace,
        prefix: impl Into<Bytes>,
    ) -> SnapshotBlobList<'s> {
        SnapshotBlobList { pages: self.pages(keyspace, prefix.into(), PageKind::Blobs, None) }
    }

    /// Same as [`Snapshot::list_blobs`], for only one partition: the partition that stores the blobs' headers.
    pub fn list_blobs_of_partition<'s>(
        &'s self,
        keyspace: &'s Keyspace,
        partition: PartitionId,
        prefix: impl Into<Bytes>,
    ) -> SnapshotBlobList<'s> {
        SnapshotBlobList { pages: self.pages(keyspace, prefix.into(), PageKind::Blobs, Some(partition)) }
    }

    fn pages<'s>(
        &'s self,
        keyspace: &'s Keyspace,
        prefix: Bytes,
        listed: PageKind,
        only: Option<PartitionId>,
    ) -> Pages<'s> {
        let all = self.division(keyspace).into_iter().flat_map(Division::partitions);
        let left =
            all.filter(|id| only.is_none_or(|only| only == *id)).map(|id| (id, Bytes::new())).collect();
        Pages { snapshot: self, keyspace, prefix, listed, left }
    }
}

impl SnapshotScan<'_> {
    /// Returns the next keys; `None` at the end. After an error the caller can request the same page again.
    ///
    /// # Errors
    /// `SnapshotExpired`; the keyspace is not in the snapshot; the page cannot be read within the client's deadline.
    pub async fn next_page(&mut self) -> Result<Option<Vec<ScanKey>>, Error> {
        self.pages.next().await
    }
}

impl SnapshotBlobList<'_> {
    /// Returns the next names, each with the time at which the blob's header was last written; `None` at the end. After an error the caller can
    /// request the same page again.
    ///
    /// # Errors
    /// Same as [`SnapshotScan::next_page`].
    pub async fn next_page(&mut self) -> Result<Option<Vec<(Bytes, Timestamp)>>, Error> {
        while let Some(names) = self.pages.next().await? {
            let own = names.into_iter().filter(|name| !is_staged(&name.key));
            let page: Vec<_> = own.map(|name| (name.key, name.version)).collect();
            // A page of staged contents alone is not the end.
            if !page.is_empty() {
                return Ok(Some(page));
            }
        }
        Ok(None)
    }
}

impl Pages<'_> {
    async fn next(&mut self) -> Result<Option<Vec<ScanKey>>, Error> {
        let inner = &self.snapshot.inner;
        let Some(division) = self.snapshot.division(self.keyspace) else {
            let failure = Failure::from(BadRequestReason::NoSuchPartition);
            return Err(Error::general(crate::SessionError::Answer { failure }));
        };
        while let Some((partition, cursor)) = self.left.front() {
            let (seen, keys_max) = (Timestamp::ZERO, SCAN_PAGE_KEYS_MAX);
            let scan = Scan {
                seen,
                cursor,
                prefix: &self.prefix,
                keys_max,
                blobs: self.listed == PageKind::Blobs,
                range: Default::default(),
            };
            let query = match self.listed {
                PageKind::Chunks => SnapshotQuery::Chunks { at: inner.at, scan },
                PageKind::Keys | PageKind::Blobs => SnapshotQuery::Scan { at: inner.at, scan },
            };
            let request = inner.request((self.keyspace.id(), *partition, division.count()), query)?;
            let Reply::Page { next, keys } = inner.client.send_request(request).await? else {
                return Err(Error::Unexpected);
            };
            match self.left.front_mut() {
                Some((_, cursor)) if !next.is_empty() => *cursor = next,
                _ => drop(self.left.pop_front()),
            }
            if !keys.is_empty() {
                return Ok(Some(keys));
            }
            if is_planted(Bug::SnapshotScanEndsEarly) {
                return Ok(None);
            }
        }
        Ok(None)
    }
}
