//! Lists of blob names, sorted over all partitions.
//!
//! Each partition stores its names in order. The client requests the first page from all partitions in parallel, and later a further page from each
//! partition whose page is used up. A listing costs one request for each partition, plus the names it returns. The first pages are short, as most
//! listings are. Each further page of a partition is twice as long as the one before.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::{Reply, SessionError as Reason, SessionRequest};
use bytes::Bytes;
use tokio::sync::oneshot;
use zerohop_placement::Division;
use zerohop_wire::ids::PartitionId;
use zerohop_wire::limits::SCAN_PAGE_KEYS_MAX;

use crate::procedures::blob_knowledge::is_staged;
use crate::procedures::cluster_handle::ClusterHandle;
use crate::procedures::error::Error;
use crate::procedures::keyspace::Keyspace;
use crate::procedures::shell::PendingReply;

/// Number of partitions that the client queries in parallel.
const QUERIES_PARALLEL: usize = 256;
/// Default number of names of one page.
const PAGE_NAMES: u32 = 256;
/// Names on the first page of a partition: with hundreds of partitions each returns only a few.
const FIRST_NAMES: u32 = 16;

/// A listing of blobs. A name that exists during the complete listing appears exactly once.
#[derive(Debug)]
pub struct BlobList<'a> {
    keyspace: &'a Keyspace,
    /// The keyspace's handle; while a page is read one that ends with the call.
    client: ClusterHandle,
    prefix: Bytes,
    page_names: u32,
    has_unfinished: bool,
    has_staged: bool,
    merge: Merge,
}

/// The merge of the names of all partitions into one order.
#[derive(Debug)]
struct Merge {
    division: Division,
    /// The last name that was output; if the merge starts again, it continues after this name.
    last: Bytes,
    page_queues: Vec<PartitionNames>,
    /// The smallest name of each queue that has any, with the queue.
    heads: BinaryHeap<Reverse<(Bytes, usize)>>,
    /// The names collected for the next page.
    page: Vec<Bytes>,
}

/// The names of one partition, except the name that is among the heads.
#[derive(Debug)]
struct PartitionNames {
    partition: PartitionId,
    names: VecDeque<Bytes>,
    has_head: bool,
    /// The name after which the next page begins; `None`: there is no further page.
    after: Option<Bytes>,
    page_names: u32,
}

impl<'a> BlobList<'a> {
    pub(super) fn new(keyspace: &'a Keyspace, prefix: Bytes) -> Self {
        let merge = Merge::new(keyspace.division().clone(), Bytes::new());
        let client = keyspace.client().clone();
        Self {
            keyspace,
            client,
            prefix,
            page_names: PAGE_NAMES,
            has_unfinished: false,
            has_staged: false,
            merge,
        }
    }

    /// Reads all pages inside the call of this handle.
    pub(super) fn within(mut self, client: &ClusterHandle) -> Self {
        self.client = client.clone();
        self
    }

    /// Sets the maximum number of names of one page, 1 to 4,096.
    #[must_use]
    pub fn page_names(mut self, names: u32) -> Self {
        self.page_names = names.clamp(1, SCAN_PAGE_KEYS_MAX);
        self
    }

    /// Includes the names of unfinished blobs, which the listing otherwise leaves out: see [`Blob::put`]. This saves the reads of the headers.
    ///
    /// [`Blob::put`]: crate::procedures::Blob::put
    #[must_use]
    pub fn with_unfinished(mut self) -> Self {
        self.has_unfinished = true;
        self
    }

    /// Includes the names of staged contents.
    pub(super) fn with_staged(mut self) -> Self {
        (self.has_unfinished, self.has_staged) = (true, true);
        self
    }

    /// Starts after a name, for example the last one of an earlier listing.
    #[must_use]
    pub fn behind(mut self, name: impl Into<Bytes>) -> Self {
        self.merge = Merge::new(self.merge.division.clone(), name.into());
        self
    }

    /// Returns the next names; `None` at the end. After an error the caller can request the same page again.
    pub async fn next_page(&mut self) -> Result<Option<Vec<Bytes>>, Error> {
        let outside = self.client.clone();
        self.client = outside.in_call();
        let page = self.page_in_call().await;
        self.client = outside;
        page
    }

    async fn page_in_call(&mut self) -> Result<Option<Vec<Bytes>>, Error> {
        loop {
            while self.merge.page.len() < self.page_names as usize {
                self.request_pages().await?;
                if !self.merge.emit_smallest() {
                    break;
                }
                if !self.has_staged && self.merge.page.last().is_some_and(|name| is_staged(name)) {
                    self.merge.page.pop();
                }
            }
            if self.merge.page.is_empty() {
                return Ok(None);
            }
            let finished = self.finished().await?;
            let mut page = std::mem::take(&mut self.merge.page);
            let mut finished = finished.into_iter();
            page.retain(|_| finished.next().unwrap_or(true));
            if !page.is_empty() {
                return Ok(Some(page));
            }
        }
    }

    /// Which blobs of the page exist and are finished. Empty: the page is shown as it is.
    async fn finished(&self) -> Result<Vec<bool>, Error> {
        if self.has_unfinished {
            return Ok(Vec::new());
        }
        let found = self.keyspace.stat_blobs_within(&self.client, &self.merge.page).await?;
        Ok(found.into_iter().map(|info| info.is_some_and(|info| info.finished)).collect())
    }

    /// Requests the next page from those partitions whose names are used up.
    async fn request_pages(&mut self) -> Result<(), Error> {
        loop {
            let requested = self.merge.missing_pages();
            if requested.is_empty() {
                return Ok(());
            }
            let (mut requests, mut answers) = (Vec::new(), Vec::new());
            for at in requested {
                let (token, answer): (_, PendingReply) = oneshot::channel();
                requests.push((self.request(at), token));
                answers.push((at, answer));
            }
            self.client.submit_all(requests);
            for (at, answer) in answers {
                match answer.await.unwrap_or(Err(Reason::Closed)) {
                    Ok(Reply::Page { next, keys }) => {
                        self.merge.add_page(at, keys.into_iter().map(|key| key.key), next);
                    }
                    Ok(_) => return Err(Error::Unexpected),
                    Err(reason) => {
                        let error = Error::general(reason);
                        let Some((_, division)) = error.split_into() else { return Err(error) };
                        // The keyspace was split: other partitions store the names now.
                        self.merge.begin(division.clone());
                        break;
                    }
                }
            }
        }
    }

    fn request(&self, at: usize) -> SessionRequest {
        let queue = &self.merge.page_queues[at];
        let (hash_range, after) =
            ((queue.partition, self.merge.division.count()), queue.after.clone().unwrap_or_default());
        // A page of few names needs no more from any partition.
        let names = queue.page_names.min(self.page_names);
        SessionRequest::scan_blobs(
            self.keyspace.id(),
            hash_range,
            after,
            self.prefix.clone(),
            names,
            self.client.limit_us(),
        )
    }
}

impl Merge {
    fn new(division: Division, last: Bytes) -> Self {
        let (page_queues, heads, page) = (Vec::new(), BinaryHeap::new(), Vec::new());
        let mut merge = Self { division: division.clone(), last, page_queues, heads, page };
        merge.begin(division);
        merge
    }

    /// Starts again: requests from all partitions the names after the last output name.
    fn begin(&mut self, division: Division) {
        let after = self.last.clone();
        let queue = |partition| PartitionNames {
            partition,
            names: VecDeque::new(),
            has_head: false,
            after: Some(after.clone()),
            page_names: FIRST_NAMES,
        };
        self.page_queues = division.partitions().map(queue).collect();
        self.division = division;
        self.heads.clear();
    }

    /// The queues that need a reply before the merge can output a name.
    fn missing_pages(&self) -> Vec<usize> {
        let is_wanted = |at: &usize| !self.page_queues[*at].has_head && self.page_queues[*at].after.is_some();
        (0..self.page_queues.len()).filter(is_wanted).take(QUERIES_PARALLEL).collect()
    }

    /// Adds a page of a queue. `next`: the name after which there may be more; empty if there are no more.
    fn add_page(&mut self, at: usize, names: impl Iterator<Item = Bytes>, next: Bytes) {
        let queue = &mut self.page_queues[at];
        queue.names.extend(names);
        queue.after = Some(next).filter(|next| !next.is_empty());
        queue.page_names = (queue.page_names * 2).min(SCAN_PAGE_KEYS_MAX);
        self.show(at);
    }

    /// Moves the smallest name of the queue to the heads.
    fn show(&mut self, at: usize) {
        let head = self.page_queues[at].names.pop_front();
        self.page_queues[at].has_head = head.is_some();
        self.heads.extend(head.map(|name| Reverse((name, at))));
    }

    /// Outputs the smallest name of all. Returns whether there was one.
    fn emit_smallest(&mut self) -> bool {
        let Some(Reverse((name, at))) = self.heads.pop() else { return false };
        self.last = name.clone();
        self.page.push(name);
        self.show(at);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerohop_placement::{KeyspaceConfig, PartitionCount};

    /// Simulates the partitions: each has the names that `of` gives it.
    fn add_page(merge: &mut Merge, of: impl Fn(PartitionId) -> Vec<String>) {
        while let Some(at) = merge.missing_pages().first().copied() {
            let queue = &merge.page_queues[at];
            let after = queue.after.clone().unwrap_or_default();
            let mut left: VecDeque<String> =
                of(queue.partition).into_iter().filter(|name| name.as_bytes() > &after[..]).collect();
            let page: Vec<Bytes> = left.drain(..left.len().min(2)).map(Bytes::from).collect();
            let next = match left.is_empty() {
                true => Bytes::new(),
                false => page.last().cloned().unwrap_or_default(),
            };
            merge.add_page(at, page.into_iter(), next);
        }
    }

    fn division(partitions: u32) -> Division {
        let mut config = KeyspaceConfig::new("k".parse().unwrap(), 7);
        config.partitions = PartitionCount::new(partitions).unwrap();
        Division::new(&config)
    }

    fn names(partition: PartitionId, partitions: u32) -> Vec<String> {
        let mine = (0..40).filter(|n| n % partitions == partition.0 % partitions);
        mine.map(|n| format!("{n:02}")).collect()
    }

    #[test]
    fn merged_names_are_ordered_and_unique_across_a_split() {
        let mut merge = Merge::new(division(4), Bytes::from_static(b"02"));
        for _ in 0..7 {
            add_page(&mut merge, |partition| names(partition, 4));
            assert!(merge.emit_smallest());
        }
        // The names collected so far have not been returned yet.
        merge.begin(division(8));
        loop {
            add_page(&mut merge, |partition| names(partition, 8));
            if !merge.emit_smallest() {
                break;
            }
        }
        let all: Vec<Bytes> = (3..40).map(|n| Bytes::from(format!("{n:02}"))).collect();
        assert_eq!(merge.page, all);
    }

    #[test]
    fn pages_of_a_partition_grow() {
        let mut merge = Merge::new(division(1), Bytes::new());
        let sizes: Vec<u32> = (0..10)
            .map(|n: u8| {
                let size = merge.page_queues[0].page_names;
                merge.add_page(0, [Bytes::copy_from_slice(&[n])].into_iter(), Bytes::copy_from_slice(&[n]));
                size
            })
            .collect();
        assert_eq!(sizes, [16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 4096]);
    }
}
