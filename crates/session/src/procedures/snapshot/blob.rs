//! Blobs as they were at the time of a snapshot.

use std::collections::VecDeque;

use crate::Reply;
use bytes::Bytes;
use zerohop_wire::blob::{BlobHeader, BlobStamp, chunk_key, header_key};
use zerohop_wire::ids::Timestamp;
use zerohop_wire::limits::CHUNKS_LISTED_FROM;
use zerohop_wire::messages::{Query, ReadChunk, RecordRead};

use super::Snapshot;
use crate::procedures::blob::{BlobInfo, ChunkLister, with_trailing_zeros};
use crate::procedures::blob_knowledge::{contents_of, own_attributes};
use crate::procedures::error::Error;
use crate::procedures::keyspace::Keyspace;
use crate::procedures::shell::PendingReply;
use crate::procedures::snapshot_lease::found;

/// Size of one request in bytes, and the number of such requests in flight.
const PIECE_BYTES: u64 = 1 << 20;
const PIECES_AHEAD: usize = 4;

/// A blob in a snapshot.
#[derive(Debug)]
pub struct SnapshotBlob<'s> {
    snapshot: &'s Snapshot,
    keyspace: &'s Keyspace,
    name: Bytes,
    /// The name in the keys of the blob's chunks, and the blob stamp of these chunks.
    contents: Bytes,
    stamp: BlobStamp,
    chunk_bits: u8,
    info: BlobInfo,
}

/// A stream of the bytes of a blob in a snapshot, piece by piece.
#[derive(Debug)]
pub struct SnapshotBlobRead<'b> {
    blob: &'b SnapshotBlob<'b>,
    next: u64,
    end: u64,
    ahead: VecDeque<(Bytes, PendingReply, usize)>,
}

impl Snapshot {
    /// Returns the blob of this name as it was at the snapshot's time; `None` if there was none.
    ///
    /// # Errors
    /// Same as [`Snapshot::lookup`].
    pub async fn blob<'s>(
        &'s self,
        keyspace: &'s Keyspace,
        name: impl Into<Bytes>,
    ) -> Result<Option<SnapshotBlob<'s>>, Error> {
        let name = name.into();
        let failed = |failure| Error::about(&name, crate::SessionError::Answer { failure });
        let key = header_key(&name).map_err(failed)?;
        let read = RecordRead { key: &key, query: Query::Lookup };
        let Some(reply) = self.inner.read(keyspace.id(), &read).await? else { return Ok(None) };
        let Reply::Value { version, bytes, .. } = reply else { return Err(Error::Unexpected) };
        let header = BlobHeader::decode(&bytes).ok_or(Error::Unexpected)?;
        let BlobHeader { chunk_bits, stamp, size, attributes, .. } = header;
        let (contents, chunks) = contents_of(attributes, &name, stamp);
        let contents = Bytes::copy_from_slice(contents);
        let (attributes, finished) = own_attributes(&bytes.slice_ref(attributes));
        let info = BlobInfo {
            id: Timestamp(stamp.id),
            generation: stamp.generation,
            size,
            chunk_bytes: 1 << chunk_bits,
            attributes,
            finished,
            version,
        };
        Ok(Some(SnapshotBlob { snapshot: self, keyspace, name, contents, stamp: chunks, chunk_bits, info }))
    }
}

impl SnapshotBlob<'_> {
    /// The blob's size, attributes and other header fields at the snapshot's time.
    #[must_use]
    pub fn info(&self) -> &BlobInfo {
        &self.info
    }

    /// Streams up to `length` bytes from `offset`, up to the blob's end, in pieces and with a few MiB of memory. All bytes are as they were at the
    /// snapshot's time.
    #[must_use]
    pub fn read_at(&self, offset: u64, length: u64) -> SnapshotBlobRead<'_> {
        let end = offset.saturating_add(length).min(self.info.size);
        SnapshotBlobRead { blob: self, next: offset, end, ahead: VecDeque::new() }
    }

    /// The numbers of the chunks that may have contents, in ascending order; all other chunks consist of zeros. For a
    /// sparse blob the number of requests depends on the chunks that exist and on the partitions. If the blob was
    /// truncated, removed or replaced since the snapshot's time, it depends on the keys of the partitions instead.
    ///
    /// # Errors
    /// Same as [`Snapshot::lookup`].
    pub async fn chunk_numbers(&self) -> Result<impl Iterator<Item = u64> + use<>, Error> {
        let end = self.info.size.div_ceil(self.info.chunk_bytes);
        if end <= CHUNKS_LISTED_FROM {
            return Ok((0..end).chain(Vec::new()));
        }
        let now = self.keyspace.blob(self.name.clone());
        let mut numbers = Vec::new();
        let mut list = ChunkLister::new(&now, self.contents.clone(), (CHUNKS_LISTED_FROM, end));
        while let Some(page) = list.next_page().await? {
            numbers.extend(page);
        }
        // A chunk disappears only after the header has a new generation or id. So if it has the old ones after the lists, these have all chunks of
        // the snapshot, and perhaps later ones.
        let is_same = |now: BlobInfo| (now.id, now.generation) == (self.info.id, self.info.generation);
        if !now.stat().await?.is_some_and(is_same) {
            numbers.clear();
            let mut list = self.snapshot.chunks(self.keyspace, self.contents.clone());
            while let Some(page) = list.next_page().await? {
                numbers.extend(page.into_iter().filter(|number| (CHUNKS_LISTED_FROM..end).contains(number)));
            }
        }
        numbers.sort_unstable();
        numbers.dedup();
        Ok((0..CHUNKS_LISTED_FROM).chain(numbers))
    }

    /// When one of the blob's chunks was last changed. `None`: the chunk was never written and consists of zeros.
    ///
    /// # Errors
    /// Same as [`Snapshot::lookup`].
    pub async fn chunk_version(&self, number: u64) -> Result<Option<Timestamp>, Error> {
        Ok(self.chunk_part(number, 0).await?.map(|(version, _)| version))
    }

    /// Returns one of the blob's chunks, up to the blob's end and without trailing zeros, and when it was last changed. `None`: the chunk was never
    /// written and consists of zeros.
    ///
    /// # Errors
    /// Same as [`Snapshot::lookup`].
    pub async fn chunk(&self, number: u64) -> Result<Option<(Timestamp, Bytes)>, Error> {
        let begin = number << self.chunk_bits;
        let length = self.info.size.saturating_sub(begin).min(self.info.chunk_bytes);
        self.chunk_part(number, length as u32).await
    }

    async fn chunk_part(&self, number: u64, length: u32) -> Result<Option<(Timestamp, Bytes)>, Error> {
        let key = self.chunk_key(number)?;
        let query = Query::ReadChunk(ReadChunk { offset: 0, length });
        match found(&self.name, self.start(&key, query)?).await? {
            Some(Reply::Chunk { version, stamp, bytes }) if stamp.id == self.stamp.id => {
                Ok(Some((version, bytes)))
            }
            Some(Reply::Chunk { .. }) | None => Ok(None),
            Some(_) => Err(Error::Unexpected),
        }
    }

    fn chunk_key(&self, number: u64) -> Result<Vec<u8>, Error> {
        let failed = |failure| Error::about(&self.name, crate::SessionError::Answer { failure });
        chunk_key(&self.contents, number).map_err(failed)
    }

    fn start(&self, key: &[u8], query: Query<'_>) -> Result<PendingReply, Error> {
        self.snapshot.inner.start(self.keyspace.id(), &RecordRead { key, query })
    }
}

impl SnapshotBlobRead<'_> {
    /// The next piece; `None` at the end.
    ///
    /// # Errors
    /// Same as [`Snapshot::lookup`].
    pub async fn next_piece(&mut self) -> Result<Option<Bytes>, Error> {
        while self.ahead.len() < PIECES_AHEAD && self.next < self.end {
            self.request_next()?;
        }
        let Some((name, answer, length)) = self.ahead.pop_front() else { return Ok(None) };
        match found(&name, answer).await? {
            // A chunk with another id is left over from another blob of this name and does not belong to this blob.
            Some(Reply::Chunk { stamp, bytes, .. }) if stamp.id == self.blob.stamp.id => {
                Ok(Some(with_trailing_zeros(bytes, length)))
            }
            Some(Reply::Chunk { .. }) | None => Ok(Some(with_trailing_zeros(Bytes::new(), length))),
            Some(_) => Err(Error::Unexpected),
        }
    }

    fn request_next(&mut self) -> Result<(), Error> {
        let bits = self.blob.chunk_bits;
        let number = self.next >> bits;
        let within = self.next - (number << bits);
        let length = ((1 << bits) - within).min(self.end - self.next).min(PIECE_BYTES);
        let key = self.blob.chunk_key(number)?;
        let query = Query::ReadChunk(ReadChunk { offset: within as u32, length: length as u32 });
        let answer = self.blob.start(&key, query)?;
        self.ahead.push_back((self.blob.name.clone(), answer, length as usize));
        self.next += length;
        Ok(())
    }
}
