//! Consistent reads of several chunks: all parts are as they were at one moment.
//!
//! The client reads all chunks in parallel. If the primaries promise that no chunk changes before the last reply has arrived, the read is complete.
//! Otherwise, or if the parts are too long for one round, the client confirms all chunks afterwards. Each primary confirms that the chunk's version
//! is unchanged and that no change of it is pending. Contents that were the same in both rounds were so at every moment between them.
//!
//! The read needs no header for that: a chunk that a truncation has reached reports it. The client reads the header again, after the confirmations,
//! only where the header affects the result: where the blob ends, or whether an absent chunk has existed meanwhile. It compares generation and
//! size, whose earlier values never return.

use std::collections::VecDeque;

use crate::{Coalescing, Collect, CompositeItem, Reply, SessionError as Reason, SessionRequest};
use bytes::{Bytes, BytesMut};
use tokio::sync::oneshot;
use zerohop_wire::blob::BlobStamp;
use zerohop_wire::ids::Timestamp;
use zerohop_wire::limits::{BODY_BYTES_MAX, TRANSACTION_ITEMS_MAX};
use zerohop_wire::messages::{Confirm, Query, ReadChunk, RecordOperation as WireOperation, RecordRead};
use zerohop_wire::{AbortReason, Failure};

use super::multi_chunk::with_trailing_zeros;
use super::{Blob, known_of};
use crate::planted::{Bug, is_planted};
use crate::procedures::blob_knowledge::{CachedHeader, ChunkRange};
use crate::procedures::error::{BlobError, Error};
use crate::procedures::limits::{
    BLOB_AHEAD_BYTES, BLOB_CHECKS_MAX, BLOB_CONFIRMS_AHEAD, BLOB_CONFIRMS_MAX, BLOB_SHARED_BYTES_MAX,
};
use crate::procedures::shell::PendingReply;
use crate::procedures::transaction::Attempts;

/// The versions that a read of a blob has seen, so that a write can depend on them: see [`Blob::write_at_if`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobReadVersion {
    pub(super) stamp: BlobStamp,
    /// Where the blob ended, if the read reached its end.
    pub(super) size: Option<u64>,
    /// Chunks and their versions; zero: the chunk was absent.
    pub(super) chunks: Vec<(u64, Timestamp)>,
}

/// The result of reading a part of a chunk.
#[derive(Clone, Debug)]
pub(super) struct ChunkReadResult {
    /// Zero: the chunk is absent.
    pub(super) version: Timestamp,
    /// The bytes, without trailing zeros.
    pub(super) bytes: Bytes,
}

impl Blob<'_> {
    /// Sends a read of a part of a chunk.
    pub(super) fn read_part(&self, header: &CachedHeader, part: ChunkRange) -> Result<PendingReply, Error> {
        let key = self.chunk_key(header, part.number)?;
        let query = Query::ReadChunk(ReadChunk { offset: part.within, length: part.length });
        self.start(&WireOperation::Read(RecordRead { key: &key, query }))
    }

    /// Interprets the reply for a reader with this header. `None`: the chunk belongs to a later generation.
    pub(super) fn interpret_part(
        &self,
        header: &CachedHeader,
        answer: Result<Reply, Reason>,
    ) -> Result<Option<ChunkReadResult>, Error> {
        let known = header.chunk_stamp();
        Ok(Some(match answer {
            Ok(Reply::Chunk { stamp, .. }) if stamp > known => return Ok(None),
            Ok(Reply::Chunk { version, stamp, bytes }) if stamp.id == known.id => {
                ChunkReadResult { version, bytes }
            }
            // A chunk with another id is left over from an earlier blob of this name and does not belong to this blob.
            Ok(Reply::Chunk { version, .. }) => ChunkReadResult { version, bytes: Bytes::new() },
            Err(Reason::Answer { failure: Failure::NotFound }) => {
                ChunkReadResult { version: Timestamp::ZERO, bytes: Bytes::new() }
            }
            Ok(_) => return Err(Error::Unexpected),
            Err(reason) => return Err(Error::about(&self.name, reason)),
        }))
    }

    /// Reads all the parts, with a limited number of bytes in flight.
    pub(super) async fn read_parts(
        &self,
        header: &CachedHeader,
        parts: &[ChunkRange],
    ) -> Result<Vec<ChunkReadResult>, Error> {
        let mut all = Vec::with_capacity(parts.len());
        let mut under_way: VecDeque<(PendingReply, u64)> = VecDeque::new();
        let (mut next, mut ahead) = (0, 0);
        while all.len() < parts.len() {
            while next < parts.len() && (under_way.is_empty() || ahead < self.limits().ahead_bytes) {
                let length = u64::from(parts[next].length);
                under_way.push_back((self.read_part(header, parts[next])?, length));
                (next, ahead) = (next + 1, ahead + length);
            }
            let Some((answer, length)) = under_way.pop_front() else { break };
            ahead -= length;
            let answer = answer.await.unwrap_or(Err(Reason::Closed));
            all.push(self.interpret_part(header, answer)?.ok_or_else(|| self.changed())?);
        }
        Ok(all)
    }

    /// Reads all the parts in parallel. Returns whether they are known to be of one moment.
    async fn read_parts_parallel(
        &self,
        header: &CachedHeader,
        parts: &[ChunkRange],
    ) -> Result<(Vec<ChunkReadResult>, bool), Error> {
        let about = |reason| Error::about(&self.name, reason);
        let mut items = Vec::with_capacity(parts.len());
        for part in parts {
            let key = self.chunk_key(header, part.number)?;
            let query = Query::ReadChunk(ReadChunk { offset: part.within, length: part.length });
            let read = WireOperation::Read(RecordRead { key: &key, query });
            let item = CompositeItem::new(self.keyspace.id(), &read, None);
            items.push(item.map_err(|invalid| about(Reason::InvalidTransaction(invalid)))?);
        }
        let client = self.client();
        let request = SessionRequest::read_unconfirmed(items, client.limit_us());
        let request = request.map_err(|invalid| about(Reason::InvalidTransaction(invalid)))?;
        let reply = client.submit(request).await.unwrap_or(Err(Reason::Closed)).map_err(about)?;
        let Reply::UnconfirmedReads { answers, is_one_moment } = reply else { return Err(Error::Unexpected) };
        let mut all = Vec::with_capacity(parts.len());
        for answer in answers {
            let answer = answer.map_err(|failure| Reason::Answer { failure });
            all.push(self.interpret_part(header, answer)?.ok_or_else(|| self.changed())?);
        }
        Ok((all, is_one_moment))
    }

    /// Asks the primaries whether all chunks still have these versions, in one frame for each partition. Returns the chunks that do not.
    pub(super) async fn unconfirmed(
        &self,
        header: &CachedHeader,
        chunks: &[(u64, Timestamp)],
    ) -> Result<Vec<u64>, Error> {
        let mut changed = Vec::new();
        for some in chunks.chunks(BLOB_CONFIRMS_AHEAD) {
            let (mut requests, mut answers) = (Vec::new(), Vec::new());
            for &(number, version) in some {
                let key = self.chunk_key(header, number)?;
                let confirm =
                    WireOperation::Read(RecordRead { key: &key, query: Query::Confirm(Confirm { version }) });
                let batching = Coalescing::Within(Collect { delay_us: 0, bytes: BODY_BYTES_MAX as u32 });
                let (token, answer) = oneshot::channel();
                requests.push((self.request(&confirm)?.collecting(batching), token));
                answers.push((number, answer));
            }
            self.client().submit_all(requests);
            for (number, answer) in answers {
                match answer.await.unwrap_or(Err(Reason::Closed)) {
                    Ok(Reply::Done { number: 1, .. }) => {}
                    Ok(_) => changed.push(number),
                    Err(reason) => return Err(Error::about(&self.name, reason)),
                }
            }
        }
        Ok(changed)
    }

    /// Whether the header still has the same generation and size.
    pub(super) async fn is_unchanged(&self, header: &CachedHeader) -> Result<bool, Error> {
        let now = self.known().await?;
        Ok(now.stamp == header.stamp && now.size == header.size)
    }

    /// The error for contents that have changed: the caller must repeat the read, or the operation that depends on it.
    pub(super) fn changed(&self) -> Error {
        self.remember(None);
        Error::about(&self.name, Reason::Aborted { reason: AbortReason::ReadChanged, item: None })
    }

    /// Reads several ranges, each an offset and a length, up to the blob's end, all as they were at one moment. Also returns the versions that the
    /// result depends on.
    pub(super) async fn read_whole(
        &self,
        ranges: &[(u64, u64)],
    ) -> Result<(Vec<Bytes>, BlobReadVersion), Error> {
        let (header, requested, looked) = self.read_consistent(ranges, u64::MAX).await?;
        Ok(requested.joined(&header, looked))
    }

    /// Same as [`Blob::read_whole`] for one range, in one piece for each chunk. Refuses more than `bytes_max` bytes.
    pub(super) async fn read_pieces(&self, range: (u64, u64), bytes_max: u64) -> Result<Vec<Bytes>, Error> {
        let (_, requested, looked) = self.read_consistent(&[range], bytes_max).await?;
        let lengths = requested.parts.iter().map(|part| part.length as usize);
        Ok(looked
            .into_iter()
            .zip(lengths)
            .map(|(one, length)| with_trailing_zeros(one.bytes, length))
            .collect())
    }

    async fn read_consistent(
        &self,
        ranges: &[(u64, u64)],
        bytes_max: u64,
    ) -> Result<(CachedHeader, ChunkRanges, Vec<ChunkReadResult>), Error> {
        let (mut blob, mut failures) = (self.in_call(), 0);
        while failures < BLOB_CHECKS_MAX {
            let mut header = blob.recalled().await?;
            let passes_end = |header: &CachedHeader| {
                ranges.iter().any(|(at, length)| at.saturating_add(*length) > header.size)
            };
            if passes_end(&header) && failures == 0 {
                // The remembered header may be older than the last growth of the blob.
                header = blob.known().await?;
            }
            let requested = ChunkRanges::of(&header, ranges);
            if requested.bytes() > bytes_max {
                return Err(self.error(BlobError::TooLong { limit: bytes_max }));
            }
            if failures >= BLOB_CONFIRMS_MAX && requested.bytes() <= BLOB_SHARED_BYTES_MAX {
                match blob.read_in_transaction(&header, &requested).await? {
                    Some(looked) => return Ok((header, requested, looked)),
                    None => failures += 1,
                }
                continue;
            }
            let looked = match requested.is_short(self.limits().ahead_bytes) {
                true => blob.read_parts_parallel(&header, &requested.parts).await,
                false if requested.bytes() > BLOB_AHEAD_BYTES => {
                    // Each part has a time limit of its own, and the call begins again with the confirmation.
                    let looked = self.outside_calls().read_parts(&header, &requested.parts).await;
                    blob = self.outside_calls().in_call();
                    looked.map(|looked| (looked, false))
                }
                false => blob.read_parts(&header, &requested.parts).await.map(|looked| (looked, false)),
            };
            let (looked, is_one_moment) = match looked {
                Ok(looked) => looked,
                Err(error) if error.is_changed_read() => {
                    failures += 1;
                    continue;
                }
                Err(error) => return Err(error),
            };
            if let Some(looked) =
                blob.confirm_parts(&header, &requested, (looked, is_one_moment), &mut failures).await?
            {
                return Ok((header, requested, looked));
            }
        }
        Err(self.error(BlobError::Contended))
    }

    /// Confirms the parts, unless they are known to be of one moment, and reads those again that have changed. `None`: the blob has another
    /// generation now.
    async fn confirm_parts(
        &self,
        header: &CachedHeader,
        requested: &ChunkRanges,
        (mut looked, mut is_one_moment): (Vec<ChunkReadResult>, bool),
        failures: &mut u32,
    ) -> Result<Option<Vec<ChunkReadResult>>, Error> {
        let parts = &requested.parts;
        loop {
            let has_holes = has_holes(&looked);
            // A single chunk that exists was read at one moment.
            if parts.len() > 1 && !std::mem::take(&mut is_one_moment) && !is_planted(Bug::BlobReadUnconfirmed)
            {
                let versions = versions_of(parts, &looked);
                let changed = match *failures >= BLOB_CONFIRMS_MAX {
                    true => self.unchecked(header, &versions).await?,
                    false => self.unconfirmed(header, &versions).await?,
                };
                if !changed.is_empty() {
                    *failures += 1;
                    if *failures >= BLOB_CHECKS_MAX {
                        return Err(self.error(BlobError::Contended));
                    }
                    if *failures >= BLOB_CONFIRMS_MAX && requested.bytes() <= BLOB_SHARED_BYTES_MAX {
                        // The read is short enough for a transaction, which waits for its turn.
                        return Ok(None);
                    }
                    for (part, looked) in parts.iter().zip(&mut looked) {
                        if changed.contains(&part.number) {
                            let answer = self.read_part(header, *part)?.await.unwrap_or(Err(Reason::Closed));
                            let Some(again) = self.interpret_part(header, answer)? else {
                                self.remember(None);
                                return Ok(None);
                            };
                            *looked = again;
                        }
                    }
                    continue;
                }
            }
            if (requested.is_to_the_end || has_holes) && !self.is_unchanged(header).await? {
                *failures += 1;
                return Ok(None);
            }
            return Ok(Some(looked));
        }
    }

    /// Same as [`Blob::unconfirmed`], but with a transaction that checks the versions: it waits for writers.
    async fn unchecked(&self, header: &CachedHeader, chunks: &[(u64, Timestamp)]) -> Result<Vec<u64>, Error> {
        let mut attempts = Attempts::new(self.client());
        for _ in 0..BLOB_CHECKS_MAX {
            let mut transaction = self.transaction();
            for (number, version) in chunks {
                transaction.check(header, *number, *version)?;
            }
            match transaction.commit().await {
                Ok(_) => return Ok(Vec::new()),
                Err(error) if error.is_changed_read() => {
                    // The transaction does not tell which chunks have changed. A confirming round finds them, and perhaps others that have changed
                    // since.
                    let changed = self.unconfirmed(header, chunks).await?;
                    if !changed.is_empty() {
                        return Ok(changed);
                    }
                }
                Err(error) => {
                    let pause = attempts.after(&error).ok_or(error)?;
                    self.client().sleep(pause).await;
                }
            }
        }
        Ok(chunks.iter().map(|(number, _)| *number).collect())
    }

    /// Reads header and chunks in one transaction, which waits for writers. `None`: the header has changed.
    async fn read_in_transaction(
        &self,
        header: &CachedHeader,
        requested: &ChunkRanges,
    ) -> Result<Option<Vec<ChunkReadResult>>, Error> {
        let mut attempts = Attempts::new(self.client());
        let answers = loop {
            let mut transaction = self.transaction();
            transaction.add_header_read()?;
            requested.parts.iter().try_for_each(|part| transaction.add_part_read(header, *part))?;
            match transaction.commit().await {
                Ok((_, answers)) => break answers,
                Err(error) => {
                    let pause = attempts.after(&error).ok_or(error)?;
                    self.client().sleep(pause).await;
                }
            }
        };
        let mut answers = answers.into_iter();
        let now = match answers.next() {
            Some(Ok(reply)) => known_of(&reply)?,
            Some(Err(Failure::NotFound)) => return Err(self.not_found()),
            _ => return Err(Error::Unexpected),
        };
        let is_same = now.stamp == header.stamp && now.size == header.size;
        self.remember(Some(now));
        if !is_same {
            return Ok(None);
        }
        let mut looked = Vec::with_capacity(requested.parts.len());
        for answer in answers {
            let answer = answer.map_err(|failure| Reason::Answer { failure });
            looked.extend(self.interpret_part(header, answer)?);
        }
        Ok(Some(looked).filter(|looked| looked.len() == requested.parts.len()))
    }
}

/// Ranges of a blob, split into parts that lie within one chunk each.
#[derive(Debug)]
struct ChunkRanges {
    parts: Vec<ChunkRange>,
    /// The number of parts of each range.
    counts: Vec<usize>,
    /// One of the ranges reaches the blob's end.
    is_to_the_end: bool,
}

impl ChunkRanges {
    fn of(header: &CachedHeader, ranges: &[(u64, u64)]) -> ChunkRanges {
        let (mut parts, mut counts, mut is_to_the_end) = (Vec::new(), Vec::new(), false);
        for &(offset, length) in ranges {
            let before = parts.len();
            let end = offset.saturating_add(length);
            is_to_the_end |= end > header.size;
            parts.extend(header.parts(offset, end.min(header.size).saturating_sub(offset)));
            counts.push(parts.len() - before);
        }
        ChunkRanges { parts, counts, is_to_the_end }
    }

    fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| u64::from(part.length)).sum()
    }

    /// Whether all of it may be read in one round.
    fn is_short(&self, ahead_bytes: u64) -> bool {
        let is_few = (2..=TRANSACTION_ITEMS_MAX as usize).contains(&self.parts.len());
        is_few && self.bytes() <= ahead_bytes
    }

    /// The bytes of each range, and the versions that they depend on.
    fn joined(&self, header: &CachedHeader, looked: Vec<ChunkReadResult>) -> (Vec<Bytes>, BlobReadVersion) {
        let seen = BlobReadVersion {
            stamp: header.stamp,
            size: self.is_to_the_end.then_some(header.size),
            chunks: versions_of(&self.parts, &looked),
        };
        let mut pieces = self
            .parts
            .iter()
            .zip(looked)
            .map(|(part, one)| with_trailing_zeros(one.bytes, part.length as usize));
        let mut join = |count: usize, length: usize| match count {
            0 => Bytes::new(),
            1 => pieces.next().unwrap_or_default(),
            _ => {
                let mut all = BytesMut::with_capacity(length);
                pieces.by_ref().take(count).for_each(|piece| all.extend_from_slice(&piece));
                all.freeze()
            }
        };
        let mut left = &self.parts[..];
        let mut joined = Vec::with_capacity(self.counts.len());
        for &count in &self.counts {
            let (own, behind) = left.split_at(count);
            left = behind;
            joined.push(join(count, own.iter().map(|part| part.length as usize).sum()));
        }
        (joined, seen)
    }
}

fn has_holes(looked: &[ChunkReadResult]) -> bool {
    looked.iter().any(|one| one.version == Timestamp::ZERO)
}

/// The chunks that were read, with their versions.
fn versions_of(parts: &[ChunkRange], looked: &[ChunkReadResult]) -> Vec<(u64, Timestamp)> {
    parts.iter().zip(looked).map(|(part, one)| (part.number, one.version)).collect()
}
