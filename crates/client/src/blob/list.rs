//! The names of blobs, in their order over all partitions.
//!
//! Each partition holds its names in order. A page is asked of all of them once, then of each when its page has been
//! taken: the cost is one request for each partition, and what is returned.

use std::collections::VecDeque;

use bytes::Bytes;
use zerohop_placement::PartitionCount;
use zerohop_session::{Error as Reason, Reply, Request};
use zerohop_wire::ids::PartitionId;
use zerohop_wire::limits::SCAN_PAGE_KEYS_MAX;

use super::Answer;
use crate::error::Error;
use crate::keyspace::Keyspace;

/// Partitions that are asked side by side.
const ASKED_AHEAD: usize = 64;
/// Names on a page of a partition, unless asked otherwise: with hundreds of partitions each has a few.
const PAGE_NAMES: u32 = 256;

/// A listing of blobs. A name that is there all the while comes exactly once.
#[derive(Debug)]
pub struct BlobList<'a> {
    keyspace: &'a Keyspace,
    prefix: Bytes,
    page_names: u32,
    partitions: PartitionCount,
    /// The last name that was brought: what comes is behind it.
    last: Bytes,
    lanes: Vec<Lane>,
}

/// The names of one partition.
#[derive(Debug)]
struct Lane {
    partition: PartitionId,
    names: VecDeque<Bytes>,
    /// Behind which name the next page begins; `None`: there is none.
    after: Option<Bytes>,
}

impl<'a> BlobList<'a> {
    pub(super) fn new(keyspace: &'a Keyspace, prefix: Bytes) -> Self {
        let partitions = keyspace.config().partitions;
        let mut list = Self {
            keyspace,
            prefix,
            page_names: PAGE_NAMES,
            partitions,
            last: Bytes::new(),
            lanes: Vec::new(),
        };
        list.begin(partitions);
        list
    }

    /// Brings at most so many names at once, 1 to 4,096.
    #[must_use]
    pub fn page_names(mut self, names: u32) -> Self {
        self.page_names = names.clamp(1, SCAN_PAGE_KEYS_MAX);
        self
    }

    /// Begins behind a name: the last one of an earlier listing.
    #[must_use]
    pub fn behind(mut self, name: impl Into<Bytes>) -> Self {
        self.last = name.into();
        self.begin(self.partitions);
        self
    }

    /// The next names; `None` at the end. After an error the same page can be asked for again.
    pub async fn next_page(&mut self) -> Result<Option<Vec<Bytes>>, Error> {
        let mut page = Vec::new();
        while page.len() < self.page_names as usize {
            self.fill().await?;
            let least = self.lanes.iter_mut().filter(|lane| !lane.names.is_empty());
            let Some(lane) = least.min_by(|one, other| one.names[0].cmp(&other.names[0])) else { break };
            page.extend(lane.names.pop_front());
        }
        if let Some(last) = page.last() {
            self.last = Bytes::clone(last);
        }
        Ok(Some(page).filter(|page| !page.is_empty()))
    }

    /// Asks those partitions for more whose names are all taken.
    async fn fill(&mut self) -> Result<(), Error> {
        loop {
            let is_empty = |lane: &Lane| lane.names.is_empty() && lane.after.is_some();
            let wanted: Vec<usize> =
                (0..self.lanes.len()).filter(|at| is_empty(&self.lanes[*at])).take(ASKED_AHEAD).collect();
            if wanted.is_empty() {
                return Ok(());
            }
            let answers: Vec<(usize, Answer)> = wanted.into_iter().map(|at| (at, self.ask(at))).collect();
            for (at, answer) in answers {
                match answer.await.unwrap_or(Err(Reason::Closed)) {
                    Ok(Reply::Page { next, keys }) => {
                        let lane = &mut self.lanes[at];
                        lane.names.extend(keys.into_iter().map(|key| key.key));
                        lane.after = Some(next).filter(|next| !next.is_empty());
                    }
                    Ok(_) => return Err(Error::Unexpected),
                    Err(reason) => {
                        let error = Error::general(reason);
                        let Some(partitions) = error.split_into() else { return Err(error) };
                        // Names lie elsewhere now; those that were brought are not asked for again.
                        self.begin(partitions);
                        break;
                    }
                }
            }
        }
    }

    fn ask(&self, at: usize) -> Answer {
        let (lane, client) = (&self.lanes[at], self.keyspace.client());
        let (slice, after) = ((lane.partition, self.partitions), lane.after.clone().unwrap_or_default());
        let (id, limit_us) = (self.keyspace.id(), client.limit_us());
        client.submit(Request::scan_blobs(id, slice, after, self.prefix.clone(), self.page_names, limit_us))
    }

    fn begin(&mut self, partitions: PartitionCount) {
        self.partitions = partitions;
        let lane = |partition| Lane { partition, names: VecDeque::new(), after: Some(self.last.clone()) };
        self.lanes = partitions.ids().map(lane).collect();
    }
}
