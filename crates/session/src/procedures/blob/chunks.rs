//! The chunks of a blob that exist, and changes of each of them that a truncation or a removal reaches.
//!
//! The positions of low numbers are visited in any case. For the others, each partition lists the chunks that it has.
//! So the number of requests depends on the chunks that exist and on the partitions, and not on the size of a sparse
//! blob. All changes are harmless if they are repeated.
//!
//! A truncation that ends early, as at the deadline of its call, leaves how far it came with the client's handle to the cluster. The next call of that
//! client for the same truncation goes on from there, so that several calls together complete what takes longer than one.

use crate::{Reply, SessionError as Reason, SessionRequest};
use bytes::Bytes;
use tokio::sync::oneshot;
use zerohop_wire::Failure;
use zerohop_wire::limits::CHUNKS_LISTED_FROM;
use zerohop_wire::messages::{
    BlobChange, Condition, RecordOperation as WireOperation, RecordWrite, WriteChange,
};

use super::Blob;
use crate::procedures::blob_knowledge::CachedHeader;
use crate::procedures::error::Error;
use crate::procedures::limits::{BLOB_CHUNK_LISTS_PARALLEL, BLOB_LISTED_CHUNKS, BLOB_TRUNCATES_PARALLEL};
use crate::procedures::unfinished_truncations::{ChunkProgress, ChunkWalk, TruncationHandle, TruncationName};

/// The numbers of a blob's chunks as the partitions list them, page by page, in no order. A number may be listed twice.
#[derive(Debug)]
pub(crate) struct ChunkLister<'b> {
    list: ChunkList<'b>,
    walk: ChunkWalk,
}

/// What the partitions are to list.
#[derive(Debug)]
struct ChunkList<'b> {
    blob: &'b Blob<'b>,
    contents: Bytes,
    /// The first number, which is not below [`CHUNKS_LISTED_FROM`], and the number behind the last.
    numbers: (u64, u64),
}

impl<'b> ChunkLister<'b> {
    /// `contents` is the name in the keys of the chunks.
    pub(crate) fn new(blob: &'b Blob<'b>, contents: Bytes, numbers: (u64, u64)) -> Self {
        let walk = ChunkWalk::new(blob.keyspace.division().clone());
        Self { list: ChunkList { blob, contents, numbers }, walk }
    }

    /// The next numbers; `None` once all partitions have listed their chunks.
    pub(crate) async fn next_page(&mut self) -> Result<Option<Vec<u64>>, Error> {
        self.list.next_page(&mut self.walk).await
    }
}

impl ChunkList<'_> {
    /// The next numbers of a walk; `None` at its end. The walk moves on only once the numbers are there.
    async fn next_page(&self, walk: &mut ChunkWalk) -> Result<Option<Vec<u64>>, Error> {
        if walk.left.is_empty() {
            return Ok(None);
        }
        let blob = self.blob;
        let (mut requests, mut pages) = (Vec::new(), Vec::new());
        let listed = walk.left.len().min(BLOB_CHUNK_LISTS_PARALLEL);
        for (partition, cursor) in walk.left.range(..listed) {
            let (token, page) = oneshot::channel();
            let request = SessionRequest::chunks(
                blob.keyspace.id(),
                (*partition, walk.division.count()),
                (cursor.clone(), self.contents.clone()),
                self.numbers,
                BLOB_LISTED_CHUNKS,
                blob.client().limit_us(),
            );
            requests.push((request, token));
            pages.push((*partition, page));
        }
        blob.client().submit_all(requests);
        let (mut found, mut onward) = (Vec::new(), Vec::new());
        for (partition, page) in pages {
            match page.await.unwrap_or(Err(Reason::Closed)) {
                Ok(Reply::Page { next, keys }) => {
                    if !next.is_empty() {
                        onward.push((partition, next));
                    }
                    for key in keys {
                        let number: [u8; 8] = key.key[..].try_into().map_err(|_| Error::Unexpected)?;
                        found.push(u64::from_be_bytes(number));
                    }
                }
                Ok(_) => return Err(Error::Unexpected),
                Err(reason) => {
                    let error = Error::about(&blob.name, reason);
                    let Some((_, division)) = error.split_into() else { return Err(error) };
                    // The keyspace was split. The cursors of several counts of partitions would have to be kept apart.
                    *walk = ChunkWalk::new(division.clone());
                    return Ok(Some(found));
                }
            }
        }
        walk.left.drain(..listed);
        walk.left.extend(onward);
        Ok(Some(found))
    }
}

/// What a truncation does with chunks that do not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AbsentChunks {
    /// They stay absent.
    Stay,
    /// They are created, empty, so that they refuse late writes.
    AreCreated,
}

/// The chunks of a blob with this header.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlobChunks<'b> {
    blob: &'b Blob<'b>,
    header: &'b CachedHeader,
}

impl<'b> BlobChunks<'b> {
    pub(super) fn of(blob: &'b Blob<'b>, header: &'b CachedHeader) -> Self {
        Self { blob, header }
    }

    /// Truncates the chunks of these numbers with `change`. The header must already keep other clients from creating chunks of these numbers. Goes on
    /// where an earlier call of this client for the same truncation ended. The caller completes what this returns once the header no longer needs it.
    pub(super) async fn truncate(
        self,
        numbers: (u64, u64),
        absent: AbsentChunks,
        change: impl Fn(u64) -> BlobChange<'static>,
    ) -> Result<TruncationHandle<'b>, Error> {
        let Self { blob, header } = self;
        let name = TruncationName {
            keyspace: blob.keyspace.id(),
            contents: Bytes::copy_from_slice(header.contents_name(&blob.name)),
            stamp: header.chunk_stamp(),
            numbers,
            creates_absent: absent == AbsentChunks::AreCreated,
        };
        let mut begun = blob.client().unfinished_truncations().begin(name);
        self.change_from(begun.progress(), numbers, absent, change).await?;
        Ok(begun)
    }

    /// Changes the chunks of these numbers that exist. A chunk that knows of a later truncation is not changed. The header must already keep other
    /// clients from creating chunks of these numbers.
    pub(super) async fn change_existing(
        self,
        numbers: (u64, u64),
        change: impl Fn(u64) -> BlobChange<'static>,
    ) -> Result<(), Error> {
        let mut progress = ChunkProgress::from(numbers.0);
        self.change_from(&mut progress, numbers, AbsentChunks::Stay, change).await
    }

    /// Changes the chunks of these numbers that `progress` has not reached. Progress is made after each group of chunks.
    async fn change_from(
        self,
        progress: &mut ChunkProgress,
        (first, end): (u64, u64),
        absent: AbsentChunks,
        change: impl Fn(u64) -> BlobChange<'static>,
    ) -> Result<(), Error> {
        let is_listed = absent == AbsentChunks::Stay && end.saturating_sub(first) > CHUNKS_LISTED_FROM;
        let visited_end = if is_listed { end.min(CHUNKS_LISTED_FROM) } else { end };
        while progress.next < visited_end {
            let until = visited_end.min(progress.next + BLOB_TRUNCATES_PARALLEL);
            self.change_each(progress.next..until, &change).await?;
            progress.next = until;
        }
        if !is_listed {
            return Ok(());
        }
        let list = ChunkList {
            blob: self.blob,
            contents: Bytes::copy_from_slice(self.header.contents_name(&self.blob.name)),
            numbers: (first.max(CHUNKS_LISTED_FROM), end),
        };
        let division = self.blob.keyspace.division();
        loop {
            while !progress.listed.is_empty() {
                let left = progress.listed.len().saturating_sub(BLOB_TRUNCATES_PARALLEL as usize);
                self.change_each(progress.listed[left..].iter().copied(), &change).await?;
                progress.listed.truncate(left);
            }
            let walk = progress.walk.get_or_insert_with(|| ChunkWalk::new(division.clone()));
            match list.next_page(walk).await? {
                Some(page) => progress.listed = page,
                None => return Ok(()),
            }
        }
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
