//! Pinned blobs: files that are open for reading. Any part can be read, in any order, as it was when the blobs were pinned.
//!
//! ```text
//!   one short blob ──> all bytes are read at once, and kept in memory
//!   longer ──> a snapshot of the partitions of headers and chunks, renewed while the value exists
//!                └── none to be had, or it ends early ──> consistent reads of the blob as it is now, if it is still the same
//! ```
//!
//! A read does not return bytes of a blob that has replaced the pinned one: it ends with [`BlobError::ChangedMeanwhile`] instead.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use crate::{Reply, SessionError as Reason};
use bytes::Bytes;
use zerohop_placement::Division;
use zerohop_wire::Failure;
use zerohop_wire::ids::{PartitionId, Timestamp};
use zerohop_wire::messages::{Query, ReadChunk, RecordOperation, RecordRead};

use super::multi_chunk::with_trailing_zeros;
use super::{Blob, BlobInfo, known_of};
use crate::procedures::blob_knowledge::{CachedHeader, ChunkRange};
use crate::procedures::error::{BlobError, Error};
use crate::procedures::keyspace::Keyspace;
use crate::procedures::limits::{
    BLOB_AHEAD_BYTES, BLOB_PIECE_BYTES, BLOB_PIN_MEMORY_BYTES, STREAM_SNAPSHOT_ATTEMPTS,
};
use crate::procedures::shell::PendingReply;
use crate::procedures::snapshot_lease::StreamSnapshot;

/// Blobs of one keyspace as they were at one moment: see [`PinnedBlobs::open`].
#[derive(Debug)]
pub struct PinnedBlobs {
    keyspace: Keyspace,
    blobs: Vec<PinnedBlob>,
    /// What long blobs are read from, while it is open.
    snapshot: Mutex<Option<Arc<StreamSnapshot>>>,
    /// Chunks of later versions have changed since. The maximum: there was no snapshot, and no version is known.
    at: Timestamp,
}

#[derive(Debug)]
struct PinnedBlob {
    name: Bytes,
    header: CachedHeader,
    /// All bytes, if they are few.
    contents: Option<Bytes>,
}

impl PinnedBlobs {
    /// Pins blobs: the result reads any part of them, in any order, as all of them were at a moment since the call, also if they are replaced or
    /// removed meanwhile. A single blob of up to 1 MiB is read at once. More is read from a snapshot of the partitions, which lasts half an hour
    /// and is renewed while the result exists and the client's runtime runs. If the snapshot ends early, as at a split of the keyspace, each part is
    /// read as it is now, if it has not changed. If no snapshot can be had, only replacement, removal and truncation are noticed as a change.
    ///
    /// # Errors
    /// [`BlobError::Absent`], [`BlobError::Unfinished`]: of the first blob that is so.
    pub async fn open(keyspace: &Keyspace, names: &[Bytes]) -> Result<Self, Error> {
        let client = keyspace.client().in_call();
        let handles: Vec<Blob<'_>> =
            names.iter().map(|name| keyspace.blob(name.clone()).within(&client)).collect();
        let mut pending = Vec::with_capacity(names.len());
        for blob in &handles {
            let key = blob.header_key()?;
            let lookup = RecordRead { key: &key, query: Query::Lookup };
            pending.push(blob.start(&RecordOperation::Read(lookup))?);
        }
        let mut blobs = Vec::with_capacity(names.len());
        for (blob, answer) in handles.iter().zip(pending) {
            let header = pinned_header(blob, answer.await.unwrap_or(Err(Reason::Closed)))?;
            blobs.push(PinnedBlob { name: blob.name.clone(), header, contents: None });
        }
        let mut pinned = PinnedBlobs {
            keyspace: keyspace.clone(),
            blobs,
            snapshot: Mutex::new(None),
            at: Timestamp(u64::MAX),
        };
        if !pinned.read_whole().await? {
            pinned.open_snapshot().await?;
        }
        Ok(pinned)
    }

    /// The metadata of the blobs, in the order of their names.
    pub fn infos(&self) -> impl Iterator<Item = BlobInfo> + '_ {
        self.blobs.iter().map(|blob| BlobInfo::of(&blob.header))
    }

    /// Reads up to `length` bytes of the blob of this number from `offset`, up to its end, and passes them to `take` piece by piece, with a few MiB
    /// of memory. Returns their number. After an error, `take` has had a part of them.
    ///
    /// # Errors
    /// [`BlobError::ChangedMeanwhile`]: the snapshot has ended, and the blob was changed, replaced or removed since it was pinned.
    pub async fn read(
        &self,
        number: usize,
        offset: u64,
        length: u64,
        mut take: impl FnMut(&[u8]),
    ) -> Result<u64, Error> {
        let Some(pinned) = self.blobs.get(number) else { return Err(Error::Unexpected) };
        let end = offset.saturating_add(length).min(pinned.header.size);
        if let Some(contents) = &pinned.contents {
            let from = offset.min(end) as usize;
            take(&contents[from..end as usize]);
            return Ok((end as usize - from) as u64);
        }
        let blob = self.keyspace.blob(pinned.name.clone()).in_call();
        let mut parts = pieces(&pinned.header, offset, end);
        let mut ahead: VecDeque<(PendingReply, ChunkRange)> = VecDeque::new();
        let mut at = offset;
        while at < end {
            let Some(snapshot) = self.present_snapshot() else {
                let length = (end - at).min(BLOB_AHEAD_BYTES);
                take(&self.read_unpinned(pinned, at, length).await?);
                at += length;
                continue;
            };
            let has_room = |ahead: &VecDeque<(PendingReply, ChunkRange)>| {
                ahead.iter().map(|(_, part)| u64::from(part.length)).sum::<u64>() < BLOB_AHEAD_BYTES
            };
            while has_room(&ahead)
                && let Some(part) = parts.next()
            {
                let key = blob.chunk_key(&pinned.header, part.number)?;
                let query = Query::ReadChunk(ReadChunk { offset: part.within, length: part.length });
                let limit_us = blob.outside_calls().client().limit_us();
                ahead.push_back((snapshot.start(&RecordRead { key: &key, query }, limit_us)?, part));
            }
            let Some((answer, part)) = ahead.pop_front() else { break };
            let answer = answer.await.unwrap_or(Err(Reason::Closed));
            if is_snapshot_over(&answer) {
                *self.snapshot.lock().unwrap_or_else(PoisonError::into_inner) = None;
                ahead.clear();
                continue;
            }
            let found = blob.interpret_part(&pinned.header, answer)?.ok_or_else(|| changed(&blob))?;
            take(&with_trailing_zeros(found.bytes, part.length as usize));
            at += u64::from(part.length);
        }
        Ok(end.saturating_sub(offset))
    }

    fn present_snapshot(&self) -> Option<Arc<StreamSnapshot>> {
        self.snapshot.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads all bytes of a single short blob. `false`: there are several, or it is too long.
    async fn read_whole(&mut self) -> Result<bool, Error> {
        let [pinned] = &mut self.blobs[..] else { return Ok(false) };
        if pinned.header.size > BLOB_PIN_MEMORY_BYTES {
            return Ok(false);
        }
        let blob = self.keyspace.blob(pinned.name.clone()).in_call();
        blob.remember(Some(pinned.header.clone()));
        let (contents, seen) = blob.read_with_version(0, BLOB_PIN_MEMORY_BYTES + 1).await?;
        // The read may have found a later version than the header is of.
        let header = blob.recalled().await?;
        let is_of_header = header.stamp == seen.stamp && header.size == contents.len() as u64;
        if is_of_header && header.size <= BLOB_PIN_MEMORY_BYTES {
            (pinned.header, pinned.contents) = (header, Some(contents));
        }
        Ok(pinned.contents.is_some())
    }

    /// Opens a snapshot of the partitions of all headers and chunks, and reads the headers in it. Without one, the headers are those read before.
    async fn open_snapshot(&mut self) -> Result<(), Error> {
        let mut division = self.keyspace.division().clone();
        for _ in 0..STREAM_SNAPSHOT_ATTEMPTS {
            let partitions = self.partitions(&division)?;
            let client = self.keyspace.client();
            let opened =
                StreamSnapshot::open(client, (self.keyspace.id(), division.clone()), partitions.clone())
                    .await;
            let snapshot = match opened {
                Ok(snapshot) => snapshot,
                Err(error) => match error.split_into() {
                    Some((_, present)) => {
                        division = present.clone();
                        continue;
                    }
                    None => return Ok(()),
                },
            };
            let mut pending = Vec::with_capacity(self.blobs.len());
            for pinned in &self.blobs {
                let key = self.keyspace.blob(pinned.name.clone()).header_key()?;
                let lookup = RecordRead { key: &key, query: Query::Lookup };
                pending.push(snapshot.start(&lookup, client.limit_us())?);
            }
            for (pinned, answer) in self.blobs.iter_mut().zip(pending) {
                let answer = answer.await.unwrap_or(Err(Reason::Closed));
                if is_snapshot_over(&answer) {
                    return Ok(());
                }
                pinned.header = pinned_header(&self.keyspace.blob(pinned.name.clone()), answer)?;
            }
            // A blob may have been replaced since its header was read, and lie in other partitions now.
            if self.partitions(&division)?.iter().all(|needed| partitions.binary_search(needed).is_ok()) {
                self.at = snapshot.at();
                self.snapshot = Mutex::new(Some(Arc::new(snapshot)));
                return Ok(());
            }
        }
        Ok(())
    }

    /// The partitions of the headers and of all chunks, in order.
    fn partitions(&self, division: &Division) -> Result<Vec<PartitionId>, Error> {
        let of = |key: Vec<u8>| division.partition(&key);
        let mut partitions = Vec::new();
        for pinned in &self.blobs {
            let blob = self.keyspace.blob(pinned.name.clone());
            let chunks = pinned.header.size.div_ceil(pinned.header.chunk_bytes());
            if chunks > 4 * u64::from(division.count().get()) {
                let mut all: Vec<PartitionId> = division.partitions().collect();
                all.sort_unstable();
                return Ok(all);
            }
            partitions.push(of(blob.header_key()?));
            for number in 0..chunks {
                partitions.push(of(blob.chunk_key(&pinned.header, number)?));
            }
        }
        partitions.sort_unstable();
        partitions.dedup();
        Ok(partitions)
    }

    /// Reads a range of the blob as it is now, if that is what it was when it was pinned.
    async fn read_unpinned(&self, pinned: &PinnedBlob, offset: u64, length: u64) -> Result<Bytes, Error> {
        let blob = self.keyspace.blob(pinned.name.clone());
        let (contents, seen) = match blob.read_with_version(offset, length).await {
            Err(Error::Blob { why: BlobError::Absent | BlobError::Unfinished, .. }) => {
                return Err(changed(&blob));
            }
            read => read?,
        };
        let is_old = |(_, version): &(u64, Timestamp)| *version <= self.at;
        let is_same = seen.stamp == pinned.header.stamp && contents.len() as u64 == length;
        match is_same && seen.chunks.iter().all(is_old) {
            true => Ok(contents),
            false => Err(changed(&blob)),
        }
    }
}

/// The header in an answer, of a blob that is finished.
fn pinned_header(blob: &Blob<'_>, answer: Result<Reply, Reason>) -> Result<CachedHeader, Error> {
    match answer {
        Ok(reply) => blob.finished(known_of(&reply)?),
        Err(Reason::Answer { failure: Failure::NotFound }) => Err(blob.not_found()),
        Err(reason) => Err(Error::about(&blob.name, reason)),
    }
}

/// The parts of a range, each within one chunk and one request.
fn pieces(header: &CachedHeader, offset: u64, end: u64) -> impl Iterator<Item = ChunkRange> + use<> {
    let (header, mut at) = (header.clone(), offset);
    std::iter::from_fn(move || {
        let part = header.parts(at, end.saturating_sub(at).min(BLOB_PIECE_BYTES)).next()?;
        at += u64::from(part.length);
        Some(part)
    })
}

/// Whether the servers no longer keep the snapshot, or cannot find it: the keyspace was split.
fn is_snapshot_over(answer: &Result<Reply, Reason>) -> bool {
    matches!(answer, Err(Reason::Answer { failure: Failure::SnapshotExpired } | Reason::Split { .. }))
}

fn changed(blob: &Blob<'_>) -> Error {
    blob.error(BlobError::ChangedMeanwhile)
}
