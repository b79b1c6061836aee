//! Scans: a scan lists the keys of a keyspace, partition after partition, page by page.

use std::collections::VecDeque;

use crate::{Reply, ScanKey, SessionRequest};
use bytes::Bytes;
use zerohop_placement::Division;
use zerohop_wire::ids::PartitionId;
use zerohop_wire::limits::SCAN_PAGE_KEYS_MAX;

use super::error::Error;
use super::keyspace::Keyspace;
use crate::planted::{Bug, is_planted};

/// A scan. A key that exists during the complete scan is listed exactly once.
#[derive(Debug)]
pub struct Scan {
    keyspace: Keyspace,
    prefix: Bytes,
    page_keys: u32,
    division: Division,
    /// The remaining partitions with the scan cursor in each; the front is the next.
    left: VecDeque<(PartitionId, Bytes)>,
}

impl Scan {
    pub(crate) fn new(keyspace: Keyspace, prefix: Bytes) -> Self {
        let division = keyspace.division().clone();
        let left = division.partitions().map(|id| (id, Bytes::new())).collect();
        Self { keyspace, prefix, page_keys: SCAN_PAGE_KEYS_MAX, division, left }
    }

    /// Sets the maximum number of keys of one page, 1 to 4,096.
    #[must_use]
    pub fn page_keys(mut self, keys: u32) -> Self {
        self.page_keys = keys.clamp(1, SCAN_PAGE_KEYS_MAX);
        self
    }

    /// Returns the next keys; `None` at the end. After an error the caller can request the same page again.
    pub async fn next_page(&mut self) -> Result<Option<Vec<ScanKey>>, Error> {
        while let Some((partition, cursor)) = self.left.front() {
            let (cursor, prefix) = (cursor.clone(), self.prefix.clone());
            let (id, hash_range) = (self.keyspace.id(), (*partition, self.division.count()));
            let client = self.keyspace.client().clone();
            let request =
                SessionRequest::scan(id, hash_range, cursor, prefix, self.page_keys, client.limit_us());
            let (next, keys) = match client.send_request(request).await {
                Ok(Reply::Page { next, keys }) => (next, keys),
                Ok(_) => return Err(Error::Unexpected),
                Err(error) => match error.split_into() {
                    Some((_, division)) => {
                        self.continue_after_split(division.clone());
                        continue;
                    }
                    None => return Err(error),
                },
            };
            match self.left.front_mut() {
                Some((_, cursor)) if !next.is_empty() => *cursor = next,
                _ => drop(self.left.pop_front()),
            }
            if !keys.is_empty() {
                return Ok(Some(keys));
            }
        }
        Ok(None)
    }

    /// Partitions were split. Each has become several, and each of these lists its keys in the order of the old partition.
    fn continue_after_split(&mut self, division: Division) {
        let children = |(partition, cursor): (PartitionId, Bytes)| {
            let mut children = division.successors(partition, &self.division);
            if is_planted(Bug::ScanSkipsChildren) {
                children.truncate(1);
            }
            let cursor = if is_planted(Bug::ScanCursorLost) { Bytes::new() } else { cursor };
            children.into_iter().map(move |child| (child, cursor.clone()))
        };
        self.left = std::mem::take(&mut self.left).into_iter().flat_map(children).collect();
        self.division = division;
    }
}
