//! The chunks of a blob that exist, and changes of each of them that a truncation or a removal reaches.
//!
//! The positions of low numbers are visited in any case. For the others, each partition lists the chunks that it has.
//! So the number of requests depends on the chunks that exist and on the partitions, and not on the size of a sparse
//! blob. All changes are harmless if they are repeated.

use std::collections::VecDeque;

use crate::{Reply, SessionError as Reason, SessionRequest};
use bytes::Bytes;
use tokio::sync::oneshot;
use zerohop_placement::PartitionCount;
use zerohop_wire::Failure;
use zerohop_wire::ids::PartitionId;
use zerohop_wire::limits::CHUNKS_LISTED_FROM;
use zerohop_wire::messages::{
    BlobChange, Condition, RecordOperation as WireOperation, RecordWrite, WriteChange,
};

use super::{Blob, KnownHeader};
use crate::procedures::error::Error;
use crate::procedures::limits::{BLOB_CHUNK_LISTS_PARALLEL, BLOB_LISTED_CHUNKS, BLOB_TRUNCATES_PARALLEL};

/// The partitions that have not listed all their chunks yet, each with the cursor of its next page.
#[derive(Debug)]
struct ChunkWalk {
    partitions: PartitionCount,
    left: VecDeque<(PartitionId, Bytes)>,
}

impl ChunkWalk {
    fn new(partitions: PartitionCount) -> Self {
        Self { partitions, left: partitions.ids().map(|id| (id, Bytes::new())).collect() }
    }
}

/// The numbers of a blob's chunks as the partitions list them, page by page, in no order. A number may be listed twice.
#[derive(Debug)]
pub(crate) struct ListedChunks<'b> {
    blob: &'b Blob<'b>,
    contents: Bytes,
    /// The first number, which is not below [`CHUNKS_LISTED_FROM`], and the number behind the last.
    numbers: (u64, u64),
    walk: ChunkWalk,
}

impl<'b> ListedChunks<'b> {
    /// `contents` is the name in the keys of the chunks.
    pub(crate) fn new(blob: &'b Blob<'b>, contents: Bytes, numbers: (u64, u64)) -> Self {
        let walk = ChunkWalk::new(blob.keyspace.config().partitions);
        Self { blob, contents, numbers, walk }
    }

    /// The next numbers; `None` once all partitions have listed their chunks.
    pub(crate) async fn next_page(&mut self) -> Result<Option<Vec<u64>>, Error> {
        if self.walk.left.is_empty() {
            return Ok(None);
        }
        let blob = self.blob;
        let (mut requests, mut pages) = (Vec::new(), Vec::new());
        let listed = self.walk.left.len().min(BLOB_CHUNK_LISTS_PARALLEL);
        for (partition, cursor) in self.walk.left.drain(..listed) {
            let (token, page) = oneshot::channel();
            let request = SessionRequest::chunks(
                blob.keyspace.id(),
                (partition, self.walk.partitions),
                (cursor, self.contents.clone()),
                self.numbers,
                BLOB_LISTED_CHUNKS,
                blob.client().limit_us(),
            );
            requests.push((request, token));
            pages.push((partition, page));
        }
        blob.client().submit_all(requests);
        let mut found = Vec::new();
        for (partition, page) in pages {
            match page.await.unwrap_or(Err(Reason::Closed)) {
                Ok(Reply::Page { next, keys }) => {
                    if !next.is_empty() {
                        self.walk.left.push_back((partition, next));
                    }
                    for key in keys {
                        let number: [u8; 8] = key.key[..].try_into().map_err(|_| Error::Unexpected)?;
                        found.push(u64::from_be_bytes(number));
                    }
                }
                Ok(_) => return Err(Error::Unexpected),
                Err(reason) => {
                    let error = Error::about(&blob.name, reason);
                    let Some(partitions) = error.split_into() else { return Err(error) };
                    // The keyspace was split. The cursors of several counts of partitions would have to be kept apart.
                    self.walk = ChunkWalk::new(partitions);
                    break;
                }
            }
        }
        Ok(Some(found))
    }
}

/// The chunks of a blob with this header.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlobChunks<'b> {
    blob: &'b Blob<'b>,
    header: &'b KnownHeader,
}

impl<'b> BlobChunks<'b> {
    pub(super) fn of(blob: &'b Blob<'b>, header: &'b KnownHeader) -> Self {
        Self { blob, header }
    }

    /// Changes the chunks of these numbers that exist. A chunk that knows of a later truncation is not changed. The header must already keep other
    /// clients from creating chunks of these numbers.
    pub(super) async fn change_existing(
        self,
        (first, end): (u64, u64),
        change: impl Fn(u64) -> BlobChange<'static>,
    ) -> Result<(), Error> {
        if end.saturating_sub(first) <= CHUNKS_LISTED_FROM {
            return self.change_all_numbers((first, end), change).await;
        }
        self.change_all_numbers((first, end.min(CHUNKS_LISTED_FROM)), &change).await?;
        self.change_listed((first.max(CHUNKS_LISTED_FROM), end), change).await
    }

    /// Changes the chunks of these numbers, also those that do not exist.
    pub(super) async fn change_all_numbers(
        self,
        (mut next, end): (u64, u64),
        change: impl Fn(u64) -> BlobChange<'static>,
    ) -> Result<(), Error> {
        while next < end {
            let until = end.min(next + BLOB_TRUNCATES_PARALLEL);
            self.change_each(next..until, &change).await?;
            next = until;
        }
        Ok(())
    }

    /// Has the partitions list the chunks, and changes those.
    async fn change_listed(
        self,
        numbers: (u64, u64),
        change: impl Fn(u64) -> BlobChange<'static>,
    ) -> Result<(), Error> {
        let contents = Bytes::copy_from_slice(self.header.contents_name(&self.blob.name));
        let mut list = ListedChunks::new(self.blob, contents, numbers);
        while let Some(page) = list.next_page().await? {
            for part in page.chunks(BLOB_TRUNCATES_PARALLEL as usize) {
                self.change_each(part.iter().copied(), &change).await?;
            }
        }
        Ok(())
    }

    /// Changes several chunks in parallel.
    async fn change_each(
        self,
        numbers: impl Iterator<Item = u64>,
        change: &impl Fn(u64) -> BlobChange<'static>,
    ) -> Result<(), Error> {
        let Self { blob, header } = self;
        let mut under_way = Vec::new();
        for number in numbers {
            let (key, change) = (blob.chunk_key(header, number)?, WriteChange::Blob(change(number)));
            let write = RecordWrite { key: &key, condition: Condition::Always, change };
            under_way.push(blob.start(&WireOperation::Write(write))?);
        }
        for answer in under_way {
            match answer.await.unwrap_or(Err(Reason::Closed)) {
                Ok(Reply::Done { .. }) | Err(Reason::Answer { failure: Failure::StaleBlob { .. } }) => {}
                Ok(_) => return Err(Error::Unexpected),
                Err(reason) => return Err(Error::about(&blob.name, reason)),
            }
        }
        Ok(())
    }
}
