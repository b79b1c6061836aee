//! Staged extensions: bytes that do not fit in memory are written behind the blob's end, where no reader looks. One write of the header then makes
//! them a part of the blob.

use std::collections::VecDeque;

use crate::{Reply, SessionError as Reason};
use bytes::BytesMut;
use zerohop_wire::Failure;
use zerohop_wire::blob::{BlobStamp, StagedExtensionState, bytes_max};
use zerohop_wire::messages::{
    BlobChange, Condition, RecordOperation as WireOperation, RecordWrite, WriteChange,
};

use super::Blob;
use super::truncate::next;
use crate::planted::{Bug, is_planted};
use crate::procedures::blob_knowledge::{CachedHeader, ChunkRange};
use crate::procedures::error::{BlobError, Error};
use crate::procedures::limits::{BLOB_AHEAD_BYTES, BLOB_ATTEMPTS_MAX, BLOB_STAGED_STEP_CHUNKS};
use crate::procedures::shell::PendingReply;

/// A staged extension in progress. The bytes become visible when they are published. If the value is dropped before that, they never become visible,
/// and the next writer of the blob removes them.
#[derive(Debug)]
pub struct StagedExtension<'a> {
    pub(super) blob: Blob<'a>,
    /// The header after the last announcement of the staged extension.
    pub(super) header: CachedHeader,
    /// The fence of the chunk writes: the generation before the extension.
    stamp: BlobStamp,
    /// The end of the blob before the extension, and the end of the pushed bytes.
    begin: u64,
    pub(super) end: u64,
    /// Pushed bytes that are not sent yet: less than a chunk.
    unsent: BytesMut,
    under_way: VecDeque<(PendingReply, usize)>,
    under_way_bytes: usize,
}

impl<'a> Blob<'a> {
    /// Starts to extend the blob by any number of bytes, with a few chunks of memory. No reader sees any of them before
    /// [`StagedExtension::publish`], and afterwards all of them. If another client writes to the blob meanwhile, that client takes precedence: the
    /// added bytes never become visible, and the extension ends with [`BlobError::Contended`].
    pub async fn staged_extension(&self) -> Result<StagedExtension<'a>, Error> {
        let blob = &self.in_call();
        for _ in 0..BLOB_ATTEMPTS_MAX {
            let header = blob.completed_header().await?;
            let until = step_behind(&header, header.size);
            // Another client's extension meanwhile would have moved the end.
            let condition = Condition::IfVersion(header.version);
            if let Some(filled) = blob.announce_end(&header, until, condition).await? {
                let (begin, stamp) = (header.size, header.stamp);
                return Ok(StagedExtension {
                    blob: blob.outside_calls(),
                    header: filled,
                    stamp,
                    begin,
                    end: begin,
                    unsent: BytesMut::new(),
                    under_way: VecDeque::new(),
                    under_way_bytes: 0,
                });
            }
        }
        Err(blob.error(BlobError::Contended))
    }

    /// Announces in the header the end up to which chunks are being written. `None`: the header has changed.
    async fn announce_end(
        &self,
        header: &CachedHeader,
        until: u64,
        condition: Condition,
    ) -> Result<Option<CachedHeader>, Error> {
        let (key, stamp) = (self.header_key()?, header.stamp);
        let extension = BlobChange::StageExtension { stamp, until };
        match self.change(&key, condition, extension).await {
            Ok(Reply::Done { version, number: generation }) => {
                let stamp = BlobStamp { generation, ..stamp };
                let filled = CachedHeader {
                    version,
                    stamp,
                    pending_truncation_end: until,
                    staged_extension: StagedExtensionState::UnderWay,
                    ..header.clone()
                };
                self.remember(Some(filled.clone()));
                Ok(Some(filled))
            }
            Ok(_) => Err(Error::Unexpected),
            Err(error) => self.unless_other(error).map(|()| None),
        }
    }
}

impl StagedExtension<'_> {
    /// Offset in the blob of the next byte.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.end
    }

    /// Adds bytes.
    pub async fn push(&mut self, mut bytes: &[u8]) -> Result<(), Error> {
        let chunk = self.header.chunk_bytes();
        while !bytes.is_empty() {
            let room = (chunk - self.end % chunk) as usize;
            let (piece, behind) = bytes.split_at(room.min(bytes.len()));
            bytes = behind;
            let end = self.end.checked_add(piece.len() as u64).ok_or_else(|| self.blob.beyond())?;
            self.blob.check_end(&self.header, end)?;
            self.end = end;
            if piece.len() < room {
                self.unsent.extend_from_slice(piece);
            } else if self.unsent.is_empty() {
                self.send(piece).await?;
            } else {
                self.unsent.extend_from_slice(piece);
                let whole = std::mem::take(&mut self.unsent);
                self.send(&whole).await?;
                self.unsent = whole;
                self.unsent.clear();
            }
        }
        Ok(())
    }

    /// Makes all pushed bytes a part of the blob. Returns the blob's size in bytes.
    pub async fn publish(mut self) -> Result<u64, Error> {
        self.blob = self.blob.in_call();
        self.all_are_done().await?;
        let (blob, key) = (&self.blob, self.blob.header_key()?);
        let (stamp, size) = (self.header.stamp, self.end);
        match blob.change(&key, Condition::Always, BlobChange::Publish { stamp, size }).await {
            Ok(_) => {
                blob.remember(None);
                Ok(size)
            }
            Err(error) => Err(self.contended_error(error)),
        }
    }

    /// Writes all pushed bytes behind the end and waits for the replies.
    pub(super) async fn all_are_done(&mut self) -> Result<(), Error> {
        let rest = std::mem::take(&mut self.unsent);
        if !rest.is_empty() {
            self.send(&rest).await?;
        }
        while !self.under_way.is_empty() && !is_planted(Bug::BlobPublishedEarly) {
            self.one_is_done().await?;
        }
        Ok(())
    }

    /// Sends bytes that end at a chunk boundary, or at the end of all.
    async fn send(&mut self, bytes: &[u8]) -> Result<(), Error> {
        // These bytes precede the pushed bytes that are not sent yet.
        let sent_end = self.end;
        let at = sent_end - bytes.len() as u64;
        debug_assert!(at >= self.begin);
        if sent_end > self.header.pending_truncation_end {
            let until = step_behind(&self.header, sent_end);
            let more = self.blob.announce_end(&self.header, until, Condition::Always).await?;
            self.header = more.ok_or_else(|| self.blob.error(BlobError::Contended))?;
            if self.header.stamp != next(self.stamp) {
                return Err(self.blob.error(BlobError::Contended));
            }
        }
        for part in self.header.parts(at, bytes.len() as u64) {
            let ChunkRange { number, within: offset, length, at: part_at } = part;
            let (key, from) = (self.blob.chunk_key(&self.header, number)?, (part_at - at) as usize);
            let bytes = &bytes[from..from + length as usize];
            let stamp = self.header.in_chunks(self.stamp);
            let change = BlobChange::WriteChunk { stamp, offset, length, bytes, makes: true };
            let write =
                RecordWrite { key: &key, condition: Condition::Always, change: WriteChange::Blob(change) };
            let answer = self.blob.start(&WireOperation::Write(write))?;
            self.under_way.push_back((answer, bytes.len()));
            self.under_way_bytes += bytes.len();
        }
        while self.under_way.len() > 1 && self.under_way_bytes as u64 > BLOB_AHEAD_BYTES {
            self.one_is_done().await?;
        }
        Ok(())
    }

    async fn one_is_done(&mut self) -> Result<(), Error> {
        let Some((answer, length)) = self.under_way.pop_front() else { return Ok(()) };
        self.under_way_bytes -= length;
        let answer = answer.await.unwrap_or(Err(Reason::Closed));
        answer.map(drop).map_err(|reason| self.contended_error(Error::about(&self.blob.name, reason)))
    }

    /// The meaning of a refusal: another client has written to the blob, or removed it.
    fn contended_error(&self, error: Error) -> Error {
        self.blob.remember(None);
        match error.failure() {
            Some(Failure::StaleBlob { .. } | Failure::NotFound) => self.blob.error(BlobError::Contended),
            _ => error,
        }
    }
}

/// The end that the header announces next, once the extension has reached `end`.
fn step_behind(header: &CachedHeader, end: u64) -> u64 {
    // The announcement does not go beyond the last chunk that a blob may have.
    let most = bytes_max(header.chunk_bits).max(header.size);
    end.saturating_add(BLOB_STAGED_STEP_CHUNKS << header.chunk_bits).min(most)
}
