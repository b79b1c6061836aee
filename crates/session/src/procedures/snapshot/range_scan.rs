//! Scans of ranges of an ordered keyspace at the time of a snapshot.

use bytes::Bytes;
use zerohop_wire::ids::Timestamp;
use zerohop_wire::limits::SCAN_PAGE_KEYS_MAX;
use zerohop_wire::messages::{Scan, SnapshotQuery};
use zerohop_wire::{BadRequestReason, Failure};

use super::Snapshot;
use crate::procedures::error::Error;
use crate::procedures::keyspace::Keyspace;
use crate::procedures::range_scan::{RangeScanState, check_order, options_of_ranges};
use crate::{KeyRange, ScanKey};

/// A scan of a range of an ordered keyspace in a snapshot: see [`Snapshot::scan_range`].
#[derive(Debug)]
pub struct SnapshotRangeScan<'s> {
    snapshot: &'s Snapshot,
    keyspace: &'s Keyspace,
    rest: RangeScanState,
}

impl<'s> SnapshotRangeScan<'s> {
    pub(super) fn new(snapshot: &'s Snapshot, keyspace: &'s Keyspace, range: KeyRange) -> Self {
        SnapshotRangeScan { snapshot, keyspace, rest: RangeScanState::new(range) }
    }
}

options_of_ranges!(SnapshotRangeScan<'_>);

impl SnapshotRangeScan<'_> {
    /// Returns the next keys; `None` at the end. After an error the caller can request the same page again.
    ///
    /// # Errors
    /// As [`RangeScan::next_page`](crate::procedures::RangeScan::next_page); `SnapshotExpired`; the keyspace is not in the snapshot.
    pub async fn next_page(&mut self) -> Result<Option<Vec<ScanKey>>, Error> {
        check_order(self.keyspace)?;
        let Some(division) = self.snapshot.division(self.keyspace) else {
            let failure = Failure::from(BadRequestReason::NoSuchPartition);
            return Err(Error::general(crate::SessionError::Answer { failure }));
        };
        loop {
            if self.rest.is_returned() {
                let Some((region, cursor, keys_max)) = self.rest.next(division) else { return Ok(None) };
                let RangeScanState { prefix, range, .. } = &self.rest;
                let (seen, cursor, range) = (Timestamp::ZERO, &cursor[..], range.as_wire());
                let scan = Scan { seen, cursor, prefix, keys_max, blobs: false, range };
                let to = (self.keyspace.id(), region, division.count());
                let lease = self.snapshot.lease();
                let request = lease.request(to, SnapshotQuery::Scan { at: lease.at, scan })?;
                let reply = lease.client.send_request(request).await?;
                self.rest.add_page(reply, division)?;
            }
            while let Some(key) = self.rest.missing_value() {
                let record = self.snapshot.lookup(self.keyspace, &key).await?;
                self.rest.add_record(record);
            }
            let page = self.rest.return_ready();
            if !page.is_empty() {
                return Ok(Some(page));
            }
        }
    }
}
