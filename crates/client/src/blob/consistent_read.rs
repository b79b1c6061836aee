//! Parts of several chunks as they all were at one moment.
//!
//! All are read at once, and where nobody may change them before the last of them has come, that is all. Else, and where they are too
//! long to be asked for at once, all are confirmed behind that: each primary says that the chunk's version is unchanged and nobody is about to change
//! it. What was the same in both rounds was so at every moment between them. The header need not be read for that: a chunk
//! that a cut has reached tells so. It is looked at once more, behind the confirmations, where it says something of the answer:
//! where the blob ends, or that a chunk which is not there has not come and gone. It is compared by generation and size,
//! which are never again what they were.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use tokio::sync::oneshot;
use zerohop_session::{Coalescing, Collect, CompositeItem, Reply, SessionError as Reason, SessionRequest};
use zerohop_wire::blob::BlobStamp;
use zerohop_wire::ids::Timestamp;
use zerohop_wire::limits::{BODY_BYTES_MAX, TRANSACTION_ITEMS_MAX};
use zerohop_wire::messages::{Query, RecordOperation as WireOperation, RecordRead};
use zerohop_wire::{AbortReason, Failure};

use super::multi_chunk::whole;
use super::{Blob, BlobAnswer, ChunkRange, KnownHeader, known_of};
use crate::error::{BlobTrouble, Error};
use crate::limits::{
    BLOB_AHEAD_BYTES, BLOB_CHECKS_MAX, BLOB_CONFIRMS_AHEAD, BLOB_CONFIRMS_MAX, BLOB_SHARED_BYTES_MAX,
};
use crate::transaction::Attempts;

/// What was read of a blob, so that a write can rest on it: see [`Blob::write_at_if`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobSeen {
    pub(super) stamp: BlobStamp,
    /// Where the blob ended, if the read came to its end.
    pub(super) size: Option<u64>,
    /// Chunks, and the versions that they had; zero: there was none.
    pub(super) chunks: Vec<(u64, Timestamp)>,
}

/// A part of a chunk as it was found.
#[derive(Clone, Debug)]
pub(super) struct FoundPart {
    /// Zero: there is no chunk.
    pub(super) version: Timestamp,
    /// Zeros at the end are left out.
    pub(super) bytes: Bytes,
}

impl Blob<'_> {
    /// Asks for a part of a chunk.
    pub(super) fn look(&self, header: &KnownHeader, part: ChunkRange) -> Result<BlobAnswer, Error> {
        let key = self.chunk_key(header, part.number)?;
        let query = Query::ReadChunk { offset: part.within, length: part.length };
        self.start(&WireOperation::Read(RecordRead { key: &key, query }))
    }

    /// What has come of that, for whoever knows this header; `None`: the chunk knows a later one.
    pub(super) fn looked(
        &self,
        header: &KnownHeader,
        answer: Result<Reply, Reason>,
    ) -> Result<Option<FoundPart>, Error> {
        let known = header.chunk_stamp();
        Ok(Some(match answer {
            Ok(Reply::Chunk { stamp, .. }) if stamp > known => return Ok(None),
            Ok(Reply::Chunk { version, stamp, bytes }) if stamp.id == known.id => {
                FoundPart { version, bytes }
            }
            // What is left of an earlier blob of the name is none of this one's.
            Ok(Reply::Chunk { version, .. }) => FoundPart { version, bytes: Bytes::new() },
            Err(Reason::Answer { failure: Failure::NotFound }) => {
                FoundPart { version: Timestamp::ZERO, bytes: Bytes::new() }
            }
            Ok(_) => return Err(Error::Unexpected),
            Err(reason) => return Err(Error::about(&self.name, reason)),
        }))
    }

    /// All of some parts, some bytes ahead.
    pub(super) async fn look_at(
        &self,
        header: &KnownHeader,
        parts: &[ChunkRange],
    ) -> Result<Vec<FoundPart>, Error> {
        let mut all = Vec::with_capacity(parts.len());
        let mut under_way: VecDeque<(BlobAnswer, u64)> = VecDeque::new();
        let (mut next, mut ahead) = (0, 0);
        while all.len() < parts.len() {
            while next < parts.len() && (under_way.is_empty() || ahead < BLOB_AHEAD_BYTES) {
                let length = u64::from(parts[next].length);
                under_way.push_back((self.look(header, parts[next])?, length));
                (next, ahead) = (next + 1, ahead + length);
            }
            let Some((answer, length)) = under_way.pop_front() else { break };
            ahead -= length;
            let answer = answer.await.unwrap_or(Err(Reason::Closed));
            all.push(self.looked(header, answer)?.ok_or_else(|| self.changed())?);
        }
        Ok(all)
    }

    /// All of some parts at once, and whether they were all so at one moment; else that is not known.
    async fn look_at_once(
        &self,
        header: &KnownHeader,
        parts: &[ChunkRange],
    ) -> Result<(Vec<FoundPart>, bool), Error> {
        let about = |reason| Error::about(&self.name, reason);
        let mut items = Vec::with_capacity(parts.len());
        for part in parts {
            let key = self.chunk_key(header, part.number)?;
            let query = Query::ReadChunk { offset: part.within, length: part.length };
            let read = WireOperation::Read(RecordRead { key: &key, query });
            let item = CompositeItem::new(self.keyspace.id(), &read, None);
            items.push(item.map_err(|unfit| about(Reason::Unfit(unfit)))?);
        }
        let client = self.keyspace.client();
        let request = SessionRequest::look_at(items, client.limit_us());
        let request = request.map_err(|unfit| about(Reason::Unfit(unfit)))?;
        let reply = client.submit(request).await.unwrap_or(Err(Reason::Closed)).map_err(about)?;
        let Reply::Looked { answers, is_one_moment } = reply else { return Err(Error::Unexpected) };
        let mut all = Vec::with_capacity(parts.len());
        for answer in answers {
            let answer = answer.map_err(|failure| Reason::Answer { failure });
            all.push(self.looked(header, answer)?.ok_or_else(|| self.changed())?);
        }
        Ok((all, is_one_moment))
    }

    /// Asks of all chunks whether they have these versions still, in one frame for each partition. Those that have not.
    pub(super) async fn unconfirmed(
        &self,
        header: &KnownHeader,
        chunks: &[(u64, Timestamp)],
    ) -> Result<Vec<u64>, Error> {
        let mut changed = Vec::new();
        for some in chunks.chunks(BLOB_CONFIRMS_AHEAD) {
            let (mut requests, mut answers) = (Vec::new(), Vec::new());
            for &(number, version) in some {
                let key = self.chunk_key(header, number)?;
                let confirm =
                    WireOperation::Read(RecordRead { key: &key, query: Query::Confirm { version } });
                let together = Coalescing::Within(Collect { delay_us: 0, bytes: BODY_BYTES_MAX as u32 });
                let (token, answer) = oneshot::channel();
                requests.push((self.request(&confirm)?.collecting(together), token));
                answers.push((number, answer));
            }
            self.keyspace.client().submit_all(requests);
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

    /// Whether the header says still what it said.
    pub(super) async fn is_as_it_was(&self, header: &KnownHeader) -> Result<bool, Error> {
        let now = self.known().await?;
        Ok(now.stamp == header.stamp && now.size == header.size)
    }

    /// What was read has changed: the read, or what rests on it, is to be begun again.
    pub(super) fn changed(&self) -> Error {
        self.remember(None);
        Error::about(&self.name, Reason::Aborted { reason: AbortReason::ReadChanged, item: None })
    }

    /// Several ranges, offsets and lengths, each as far as the blob has it, all as they were at one moment; and what that rests
    /// on.
    pub(super) async fn read_whole(&self, ranges: &[(u64, u64)]) -> Result<(Vec<Bytes>, BlobSeen), Error> {
        let mut failures = 0;
        while failures < BLOB_CHECKS_MAX {
            let mut header = self.recalled().await?;
            let passes_end = |header: &KnownHeader| {
                ranges.iter().any(|(at, length)| at.saturating_add(*length) > header.size)
            };
            if passes_end(&header) && failures == 0 {
                // What is remembered may be from before it grew.
                header = self.known().await?;
            }
            let wanted = WantedRanges::of(&header, ranges);
            if failures >= BLOB_CONFIRMS_MAX && wanted.bytes() <= BLOB_SHARED_BYTES_MAX {
                match self.read_together(&header, &wanted).await? {
                    Some(looked) => return Ok(wanted.joined(&header, looked)),
                    None => failures += 1,
                }
                continue;
            }
            let looked = match wanted.is_short() {
                true => self.look_at_once(&header, &wanted.parts).await,
                false => self.look_at(&header, &wanted.parts).await.map(|looked| (looked, false)),
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
                self.settle(&header, &wanted, (looked, is_one_moment), &mut failures).await?
            {
                return Ok(wanted.joined(&header, looked));
            }
        }
        Err(self.trouble(BlobTrouble::Contended))
    }

    /// Confirms what was found, unless it is known to be of one moment, and reads again what has changed. `None`: the blob is another by now.
    async fn settle(
        &self,
        header: &KnownHeader,
        wanted: &WantedRanges,
        (mut looked, mut is_one_moment): (Vec<FoundPart>, bool),
        failures: &mut u32,
    ) -> Result<Option<Vec<FoundPart>>, Error> {
        let parts = &wanted.parts;
        loop {
            let has_holes = has_holes(&looked);
            // One chunk that is there was so at one moment.
            if parts.len() > 1 && !std::mem::take(&mut is_one_moment) {
                let versions = versions_of(parts, &looked);
                let changed = match *failures >= BLOB_CONFIRMS_MAX {
                    true => self.unchecked(header, &versions).await?,
                    false => self.unconfirmed(header, &versions).await?,
                };
                if !changed.is_empty() {
                    *failures += 1;
                    if *failures >= BLOB_CHECKS_MAX {
                        return Err(self.trouble(BlobTrouble::Contended));
                    }
                    if *failures >= BLOB_CONFIRMS_MAX && wanted.bytes() <= BLOB_SHARED_BYTES_MAX {
                        // Short enough for a transaction, which waits for its turn.
                        return Ok(None);
                    }
                    for (part, looked) in parts.iter().zip(&mut looked) {
                        if changed.contains(&part.number) {
                            let answer = self.look(header, *part)?.await.unwrap_or(Err(Reason::Closed));
                            let Some(again) = self.looked(header, answer)? else {
                                self.remember(None);
                                return Ok(None);
                            };
                            *looked = again;
                        }
                    }
                    continue;
                }
            }
            if (wanted.is_to_the_end || has_holes) && !self.is_as_it_was(header).await? {
                *failures += 1;
                return Ok(None);
            }
            return Ok(Some(looked));
        }
    }

    /// As [`Blob::unconfirmed`], by a transaction that checks the versions: it waits for writers.
    async fn unchecked(&self, header: &KnownHeader, chunks: &[(u64, Timestamp)]) -> Result<Vec<u64>, Error> {
        let mut attempts = Attempts::new(self.keyspace.client());
        for _ in 0..BLOB_CHECKS_MAX {
            let mut together = self.together();
            for (number, version) in chunks {
                together.check(header, *number, *version)?;
            }
            match together.commit().await {
                Ok(_) => return Ok(Vec::new()),
                Err(error) if error.is_changed_read() => {
                    // Which of them, and perhaps others since: confirmations tell.
                    let changed = self.unconfirmed(header, chunks).await?;
                    if !changed.is_empty() {
                        return Ok(changed);
                    }
                }
                Err(error) => {
                    let pause = attempts.after(&error).ok_or(error)?;
                    tokio::time::sleep(pause).await;
                }
            }
        }
        Ok(chunks.iter().map(|(number, _)| *number).collect())
    }

    /// Header and chunks by one transaction, which waits for writers. `None`: the header is another.
    async fn read_together(
        &self,
        header: &KnownHeader,
        wanted: &WantedRanges,
    ) -> Result<Option<Vec<FoundPart>>, Error> {
        let mut attempts = Attempts::new(self.keyspace.client());
        let answers = loop {
            let mut together = self.together();
            together.look_at_header()?;
            wanted.parts.iter().try_for_each(|part| together.look(header, *part))?;
            match together.commit().await {
                Ok((_, answers)) => break answers,
                Err(error) => {
                    let pause = attempts.after(&error).ok_or(error)?;
                    tokio::time::sleep(pause).await;
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
        let mut looked = Vec::with_capacity(wanted.parts.len());
        for answer in answers {
            let answer = answer.map_err(|failure| Reason::Answer { failure });
            looked.extend(self.looked(header, answer)?);
        }
        Ok(Some(looked).filter(|looked| looked.len() == wanted.parts.len()))
    }
}

/// Ranges of a blob, in parts that lie within one chunk each.
#[derive(Debug)]
struct WantedRanges {
    parts: Vec<ChunkRange>,
    /// How many of the parts make up each range.
    counts: Vec<usize>,
    /// One of them ends where the blob does.
    is_to_the_end: bool,
}

impl WantedRanges {
    fn of(header: &KnownHeader, ranges: &[(u64, u64)]) -> WantedRanges {
        let (mut parts, mut counts, mut is_to_the_end) = (Vec::new(), Vec::new(), false);
        for &(offset, length) in ranges {
            let before = parts.len();
            let end = offset.saturating_add(length);
            is_to_the_end |= end > header.size;
            parts.extend(header.parts(offset, end.min(header.size).saturating_sub(offset)));
            counts.push(parts.len() - before);
        }
        WantedRanges { parts, counts, is_to_the_end }
    }

    fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| u64::from(part.length)).sum()
    }

    /// Whether all of it may be asked for at once.
    fn is_short(&self) -> bool {
        let is_few = (2..=TRANSACTION_ITEMS_MAX as usize).contains(&self.parts.len());
        is_few && self.bytes() <= BLOB_AHEAD_BYTES
    }

    /// The bytes of each range, and what they rest on.
    fn joined(&self, header: &KnownHeader, looked: Vec<FoundPart>) -> (Vec<Bytes>, BlobSeen) {
        let seen = BlobSeen {
            stamp: header.stamp,
            size: self.is_to_the_end.then_some(header.size),
            chunks: versions_of(&self.parts, &looked),
        };
        let mut pieces =
            self.parts.iter().zip(looked).map(|(part, one)| whole(one.bytes, part.length as usize));
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

fn has_holes(looked: &[FoundPart]) -> bool {
    looked.iter().any(|one| one.version == Timestamp::ZERO)
}

/// Which chunks were read, at which versions.
fn versions_of(parts: &[ChunkRange], looked: &[FoundPart]) -> Vec<(u64, Timestamp)> {
    parts.iter().zip(looked).map(|(part, one)| (part.number, one.version)).collect()
}
