//! Streams of a blob's bytes, which read a few pieces ahead of the caller.
//!
//! The stream returns pieces before it knows that all are of one version, but keeps the last piece until that is confirmed. A caller that has read
//! everything without an error has one version of the blob. A caller that gets an error has bytes of several versions and must start again.

use std::collections::VecDeque;

use crate::SessionError as Reason;
use bytes::Bytes;
use zerohop_wire::ids::Timestamp;

use super::multi_chunk::with_trailing_zeros;
use super::{Blob, BlobReadVersion, ChunkRange, KnownHeader};
use crate::procedures::error::{BlobError, Error};
use crate::procedures::limits::{
    BLOB_AHEAD_BYTES, BLOB_CONFIRMS_AHEAD, BLOB_PIECE_BYTES, BLOB_STREAM_CHUNKS_MAX,
};
use crate::procedures::shell::PendingReply;

/// A stream of the bytes of a blob, piece by piece.
#[derive(Debug)]
pub struct BlobRead<'a> {
    blob: Blob<'a>,
    header: KnownHeader,
    offset: u64,
    /// The offset of the next request.
    next: u64,
    end: u64,
    /// The stream ends where the blob ends.
    is_to_the_end: bool,
    ahead: VecDeque<(PendingReply, ChunkRange)>,
    ahead_bytes: u64,
    /// Versions of the chunks, from the first one that was read.
    versions: Vec<Timestamp>,
    pieces: u64,
}

impl<'a> Blob<'a> {
    /// Streams up to `length` bytes from `offset`, up to the blob's end, with a few MiB of memory. All bytes are of one version: they all existed
    /// at one moment since the call. The stream checks this before the last piece. If it is not so, the stream ends with
    /// [`BlobError::ChangedMeanwhile`], and the earlier pieces are of several versions.
    pub async fn read_at(&self, offset: u64, length: u64) -> Result<BlobRead<'a>, Error> {
        let end = offset.saturating_add(length);
        let header = match self.recall() {
            Some(known) if end <= known.size => self.finished(known)?,
            _ => self.known().await?,
        };
        let is_to_the_end = end > header.size;
        let end = end.min(header.size);
        let chunks = end.saturating_sub(offset) >> header.chunk_bits;
        if chunks > BLOB_STREAM_CHUNKS_MAX {
            let limit = BLOB_STREAM_CHUNKS_MAX << header.chunk_bits;
            return Err(self.error(BlobError::TooLong { limit }));
        }
        Ok(BlobRead {
            blob: self.clone(),
            header,
            offset,
            next: offset,
            end,
            is_to_the_end,
            ahead: VecDeque::new(),
            ahead_bytes: 0,
            versions: Vec::new(),
            pieces: 0,
        })
    }

    /// Reads up to `length` bytes from `offset`, up to the blob's end, and the versions that a write can depend on: see [`Blob::write_at_if`]. All
    /// bytes are in memory and of one version: the client repeats the read of parts that change during it.
    pub async fn read_seen(&self, offset: u64, length: u64) -> Result<(Bytes, BlobReadVersion), Error> {
        let (read, seen) = self.read_whole(&[(offset, length)]).await?;
        Ok((read.into_iter().next().unwrap_or_default(), seen))
    }

    /// Reads several ranges, each an offset and a length in bytes, up to the blob's end. All bytes are in memory and as of one moment.
    pub async fn read_ranges(&self, ranges: &[(u64, u64)]) -> Result<Vec<Bytes>, Error> {
        self.read_whole(ranges).await.map(|(read, _)| read)
    }
}

impl BlobRead<'_> {
    /// The number of bytes that remain.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.ahead_bytes + self.end.saturating_sub(self.next)
    }

    /// The next piece; `None` at the end.
    pub async fn next_piece(&mut self) -> Result<Option<Bytes>, Error> {
        while self.next < self.end && (self.ahead.is_empty() || self.ahead_bytes < BLOB_AHEAD_BYTES) {
            self.request_next()?;
        }
        let Some((answer, part)) = self.ahead.pop_front() else { return Ok(None) };
        self.ahead_bytes -= u64::from(part.length);
        let answer = answer.await.unwrap_or(Err(Reason::Closed));
        let Some(looked) = self.blob.interpret_part(&self.header, answer)? else {
            return Err(self.changed());
        };
        let place = (part.number - (self.offset >> self.header.chunk_bits)) as usize;
        match self.versions.get(place) {
            Some(version) if *version != looked.version => return Err(self.changed()),
            Some(_) => {}
            None => self.versions.push(looked.version),
        }
        self.pieces += 1;
        // An absent chunk may have been removed with the blob: the stream must not return it as zeros.
        if looked.version == Timestamp::ZERO
            && self.left() > 0
            && !self.blob.is_as_it_was(&self.header).await?
        {
            return Err(self.changed());
        }
        if self.left() == 0 && !self.is_one_version().await? {
            return Err(self.changed());
        }
        Ok(Some(with_trailing_zeros(looked.bytes, part.length as usize)))
    }

    /// Reads all remaining bytes in one piece, for ranges that are known to be small. The client repeats the read of parts that change during it.
    pub async fn read_to_end(self) -> Result<Bytes, Error> {
        let end = if self.is_to_the_end { u64::MAX } else { self.end };
        let from = self.end - self.left().min(self.end);
        let read = self.blob.read_whole(&[(from, end - from)]).await?.0;
        Ok(read.into_iter().next().unwrap_or_default())
    }

    /// Whether everything that was read existed at one moment.
    async fn is_one_version(&self) -> Result<bool, Error> {
        let first = self.offset >> self.header.chunk_bits;
        // A single reply is of one moment.
        if self.pieces > 1 {
            for (some, at) in self.versions.chunks(BLOB_CONFIRMS_AHEAD).zip(0..) {
                let numbers = first + at * BLOB_CONFIRMS_AHEAD as u64..;
                let versions: Vec<(u64, Timestamp)> = numbers.zip(some.iter().copied()).collect();
                if !self.blob.unconfirmed(&self.header, &versions).await?.is_empty() {
                    return Ok(false);
                }
            }
        }
        let has_holes = self.versions.contains(&Timestamp::ZERO);
        Ok(!(self.is_to_the_end || has_holes) || self.blob.is_as_it_was(&self.header).await?)
    }

    fn request_next(&mut self) -> Result<(), Error> {
        let length = (self.end - self.next).min(BLOB_PIECE_BYTES);
        let Some(part) = self.header.parts(self.next, length).next() else { return Ok(()) };
        self.ahead.push_back((self.blob.read_part(&self.header, part)?, part));
        self.ahead_bytes += u64::from(part.length);
        self.next += u64::from(part.length);
        Ok(())
    }

    fn changed(&self) -> Error {
        self.blob.remember(None);
        self.blob.error(BlobError::ChangedMeanwhile)
    }
}
