//! Streams of a blob's bytes, which read a few pieces ahead of the caller.
//!
//! ```text
//!   fits in the bytes ahead ──> one consistent read at the first piece
//!   longer ──> a snapshot of the partitions that it reads ──> every piece at the snapshot's time
//!                     └── none to be had, or it ends early ──> the pieces as they are now ──> at the end a confirming round
//! ```
//!
//! A stream with a snapshot finishes the version with which it has begun, also if the blob is replaced or removed meanwhile. A stream without a
//! snapshot returns pieces before it knows that all are of one version, but keeps the last piece until that is confirmed. A caller that has read
//! everything without an error has one version of the blob. A caller that gets an error has bytes of several versions and must start again.

use std::collections::VecDeque;

use crate::SessionError as Reason;
use bytes::{Bytes, BytesMut};
use zerohop_placement::Division;
use zerohop_wire::Failure;
use zerohop_wire::ids::{PartitionId, Timestamp};
use zerohop_wire::messages::{Query, ReadChunk, RecordRead};

use super::multi_chunk::with_trailing_zeros;
use super::{Blob, BlobInfo, BlobReadVersion, known_of};
use crate::procedures::blob_knowledge::{CachedHeader, ChunkRange};
use crate::procedures::error::{BlobError, Error};
use crate::procedures::limits::{
    BLOB_CONFIRMS_AHEAD, BLOB_PIECE_BYTES, BLOB_STREAM_CHUNKS_MAX, STREAM_SNAPSHOT_ATTEMPTS,
};
use crate::procedures::shell::PendingReply;
use crate::procedures::snapshot_lease::StreamSnapshot;

/// A stream of the bytes of a blob, piece by piece.
#[derive(Debug)]
pub struct BlobRead<'a> {
    blob: Blob<'a>,
    header: CachedHeader,
    offset: u64,
    /// The offset of the next request.
    next: u64,
    end: u64,
    /// Where the caller wants the stream to end; beyond the blob's end, the stream ends there.
    requested_end: u64,
    /// The first piece has been asked for.
    is_begun: bool,
    /// A short stream: the pieces that are read and not returned.
    short: VecDeque<Bytes>,
    /// A long stream: what all pieces are read from, while it is open.
    snapshot: Option<StreamSnapshot>,
    /// Pieces were read without a snapshot, so the end must confirm all of them.
    needs_confirmation: bool,
    ahead: VecDeque<(PendingReply, ChunkRange)>,
    ahead_bytes: u64,
    /// Versions of the chunks, from the first one that was read.
    versions: Vec<Timestamp>,
    pieces: u64,
}

impl<'a> Blob<'a> {
    /// Streams up to `length` bytes from `offset`, up to the blob's end, with a few MiB of memory. All bytes are of one
    /// version: they all existed at one moment since the call. The stream finishes the version with which its first
    /// piece began, also if the blob is replaced or removed meanwhile. More than 16 MiB are read from a snapshot of
    /// their partitions. It lasts half an hour, and is renewed while the client's runtime runs. If that snapshot cannot
    /// be had or ends early, as at a split of the keyspace, the rest is read as it is now. If it is not of the same
    /// version, the stream ends with [`BlobError::ChangedMeanwhile`], and the earlier pieces are of several versions.
    pub async fn read_at(&self, offset: u64, length: u64) -> Result<BlobRead<'a>, Error> {
        let end = offset.saturating_add(length);
        let header = match self.recall() {
            Some(known) if end <= known.size => self.finished(known)?,
            _ => self.known().await?,
        };
        self.check_length(&header, offset, end.min(header.size))?;
        Ok(BlobRead {
            blob: self.outside_calls(),
            offset,
            next: offset,
            end: end.min(header.size),
            header,
            requested_end: end,
            is_begun: false,
            short: VecDeque::new(),
            snapshot: None,
            needs_confirmation: false,
            ahead: VecDeque::new(),
            ahead_bytes: 0,
            versions: Vec::new(),
            pieces: 0,
        })
    }

    /// Checks the number of chunks of a stream.
    fn check_length(&self, header: &CachedHeader, offset: u64, end: u64) -> Result<(), Error> {
        if end.saturating_sub(offset) >> header.chunk_bits > BLOB_STREAM_CHUNKS_MAX {
            let limit = BLOB_STREAM_CHUNKS_MAX << header.chunk_bits;
            return Err(self.error(BlobError::TooLong { limit }));
        }
        Ok(())
    }

    /// Reads up to `length` bytes from `offset`, up to the blob's end, and the versions that a write can depend on: see [`Blob::write_at_if`]. All
    /// bytes are in memory and of one version: the client repeats the read of parts that change during it.
    pub async fn read_with_version(
        &self,
        offset: u64,
        length: u64,
    ) -> Result<(Bytes, BlobReadVersion), Error> {
        let (read, version) = self.read_whole(&[(offset, length)]).await?;
        Ok((read.into_iter().next().unwrap_or_default(), version))
    }

    /// Reads several ranges, each an offset and a length in bytes, up to the blob's end. All bytes are in memory and as of one moment.
    pub async fn read_ranges(&self, ranges: &[(u64, u64)]) -> Result<Vec<Bytes>, Error> {
        self.read_whole(ranges).await.map(|(read, _)| read)
    }
}

impl BlobRead<'_> {
    /// The metadata of the blob whose bytes the stream returns. The first piece may change it, if the blob has changed since [`Blob::read_at`].
    #[must_use]
    pub fn info(&self) -> BlobInfo {
        BlobInfo::of(&self.header)
    }

    /// The number of bytes that remain. The first piece may change it, if the blob has changed since [`Blob::read_at`].
    #[must_use]
    pub fn left(&self) -> u64 {
        let short: u64 = self.short.iter().map(|piece| piece.len() as u64).sum();
        short + self.ahead_bytes + self.end.saturating_sub(self.next)
    }

    /// The next piece; `None` at the end.
    pub async fn next_piece(&mut self) -> Result<Option<Bytes>, Error> {
        self.blob = self.blob.outside_calls().in_call();
        if !std::mem::replace(&mut self.is_begun, true) {
            self.begin().await?;
        }
        if let Some(piece) = self.short.pop_front() {
            return Ok(Some(piece));
        }
        while self.next < self.end
            && (self.ahead.is_empty() || self.ahead_bytes < self.blob.limits().ahead_bytes)
        {
            self.request_next()?;
        }
        let Some((answer, part)) = self.ahead.pop_front() else { return Ok(None) };
        self.ahead_bytes -= u64::from(part.length);
        let mut answer = answer.await.unwrap_or(Err(Reason::Closed));
        if matches!(answer, Err(Reason::Answer { failure: Failure::SnapshotExpired })) {
            // From here on the pieces are read as they are now.
            (self.snapshot, self.needs_confirmation) = (None, true);
            answer = self.blob.read_part(&self.header, part)?.await.unwrap_or(Err(Reason::Closed));
        }
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
        if self.needs_confirmation
            && looked.version == Timestamp::ZERO
            && self.left() > 0
            && !self.blob.is_unchanged(&self.header).await?
        {
            return Err(self.changed());
        }
        if self.left() == 0 {
            self.snapshot = None;
            if self.needs_confirmation && !self.is_one_version().await? {
                return Err(self.changed());
            }
        }
        Ok(Some(with_trailing_zeros(looked.bytes, part.length as usize)))
    }

    /// Reads all remaining bytes in one piece, for ranges that are known to be small. The client repeats the read of parts that change during it.
    pub async fn read_to_end(mut self) -> Result<Bytes, Error> {
        if self.is_begun {
            let mut all = BytesMut::new();
            while let Some(piece) = self.next_piece().await? {
                all.extend_from_slice(&piece);
            }
            return Ok(all.freeze());
        }
        let read = self.blob.read_whole(&[self.range()]).await?.0;
        Ok(read.into_iter().next().unwrap_or_default())
    }

    /// Offset and length of a stream that has not begun.
    fn range(&self) -> (u64, u64) {
        (self.offset, self.requested_end.saturating_sub(self.offset))
    }

    fn is_to_the_end(&self) -> bool {
        self.requested_end > self.header.size
    }

    /// Reads a short stream, or opens the snapshot of a long one.
    async fn begin(&mut self) -> Result<(), Error> {
        let ahead_bytes = self.blob.limits().ahead_bytes;
        if self.end.saturating_sub(self.next) <= ahead_bytes {
            match self.blob.read_pieces(self.range(), ahead_bytes).await {
                Ok(pieces) => {
                    (self.short, self.next) = (pieces.into(), self.end);
                    // The read may have found a later blob than the one that this stream began with.
                    self.header = self.blob.recall().unwrap_or_else(|| self.header.clone());
                    return Ok(());
                }
                // The blob has grown since.
                Err(Error::Blob { why: BlobError::TooLong { .. }, .. }) => {
                    self.header = self.blob.known().await?
                }
                Err(error) => return Err(error),
            }
            self.end = self.requested_end.min(self.header.size);
        }
        self.needs_confirmation = !self.open_snapshot().await?;
        Ok(())
    }

    /// Opens a snapshot of the partitions that the stream reads, and reads the header in it. Returns whether there is one now.
    async fn open_snapshot(&mut self) -> Result<bool, Error> {
        let keyspace = self.blob.keyspace;
        let mut division = keyspace.division().clone();
        for _ in 0..STREAM_SNAPSHOT_ATTEMPTS {
            let partitions = self.partitions(&division)?;
            let opened = StreamSnapshot::open(
                self.blob.client(),
                (keyspace.id(), division.clone()),
                partitions.clone(),
            )
            .await;
            let snapshot = match opened {
                Ok(snapshot) => snapshot,
                Err(error) => match error.split_into() {
                    Some((_, present)) => {
                        division = present.clone();
                        continue;
                    }
                    None => return Ok(false),
                },
            };
            let key = self.blob.header_key()?;
            let limit_us = self.blob.client().limit_us();
            let lookup = snapshot.start(&RecordRead { key: &key, query: Query::Lookup }, limit_us)?;
            let Ok(Ok(reply)) = lookup.await else { return Ok(false) };
            let Ok(header) = self.blob.finished(known_of(&reply)?) else { return Ok(false) };
            let end = self.requested_end.min(header.size);
            self.blob.check_length(&header, self.offset, end)?;
            (self.header, self.end) = (header, end);
            // The blob may have been replaced since the header was read, and lie in other partitions now.
            if self.partitions(&division)?.iter().all(|needed| partitions.binary_search(needed).is_ok()) {
                self.snapshot = Some(snapshot);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The partitions of the header and of the chunks that the stream reads, in order.
    fn partitions(&self, division: &Division) -> Result<Vec<PartitionId>, Error> {
        let bits = self.header.chunk_bits;
        let (first, behind) = (self.offset >> bits, self.end.div_ceil(1 << bits));
        if behind.saturating_sub(first) > 4 * u64::from(division.count().get()) {
            let mut all: Vec<PartitionId> = division.partitions().collect();
            all.sort_unstable();
            return Ok(all);
        }
        let of = |key: Vec<u8>| division.partition(&key);
        let mut partitions = vec![of(self.blob.header_key()?)];
        for number in first..behind {
            partitions.push(of(self.blob.chunk_key(&self.header, number)?));
        }
        partitions.sort_unstable();
        partitions.dedup();
        Ok(partitions)
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
        Ok(!(self.is_to_the_end() || has_holes) || self.blob.is_unchanged(&self.header).await?)
    }

    fn request_next(&mut self) -> Result<(), Error> {
        let length = (self.end - self.next).min(BLOB_PIECE_BYTES);
        let Some(part) = self.header.parts(self.next, length).next() else { return Ok(()) };
        // This call awaits the first one; later calls, with a time of their own, await the others.
        let blob = if self.ahead.is_empty() { self.blob.clone() } else { self.blob.outside_calls() };
        let reply = match &self.snapshot {
            Some(snapshot) => {
                let key = self.blob.chunk_key(&self.header, part.number)?;
                let query = Query::ReadChunk(ReadChunk { offset: part.within, length: part.length });
                snapshot.start(&RecordRead { key: &key, query }, blob.client().limit_us())?
            }
            None => blob.read_part(&self.header, part)?,
        };
        self.ahead.push_back((reply, part));
        self.ahead_bytes += u64::from(part.length);
        self.next += u64::from(part.length);
        Ok(())
    }

    fn changed(&self) -> Error {
        self.blob.remember(None);
        self.blob.error(BlobError::ChangedMeanwhile)
    }
}
