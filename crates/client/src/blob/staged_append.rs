//! Adding to a blob what is longer than memory: it is written behind the end, where nobody reads, and then made a part of the
//! blob by one write.

use std::collections::VecDeque;

use bytes::BytesMut;
use zerohop_session::{Reply, SessionError as Reason};
use zerohop_wire::Failure;
use zerohop_wire::blob::{BlobStamp, FillState, bytes_max};
use zerohop_wire::messages::{
    BlobChange, Condition, RecordOperation as WireOperation, RecordWrite, WriteChange,
};

use super::truncate::next;
use super::{Blob, BlobAnswer, ChunkRange, KnownHeader};
use crate::error::{BlobTrouble, Error};
use crate::limits::{BLOB_AHEAD_BYTES, BLOB_ATTEMPTS_MAX, BLOB_FILL_STEP_CHUNKS};

/// Bytes that are being added to a blob. They are seen once they are published; dropped before, they are never seen, and the
/// next writer of the blob clears them away.
#[derive(Debug)]
pub struct BlobFill<'a> {
    pub(super) blob: Blob<'a>,
    /// As filling has left it.
    pub(super) header: KnownHeader,
    /// Under which chunks are written: the generation before.
    stamp: BlobStamp,
    /// Where the blob has ended; where what was given ends.
    begin: u64,
    pub(super) end: u64,
    /// What was given and is not sent: less than a chunk.
    rest: BytesMut,
    under_way: VecDeque<(BlobAnswer, usize)>,
    under_way_bytes: usize,
}

impl<'a> Blob<'a> {
    /// Begins to add bytes at the end, however many, within a few chunks of memory. Nobody sees any of them before
    /// [`BlobFill::publish`], and then all. Whoever else writes to the blob meanwhile goes before: then nothing of what was
    /// filled is ever seen, and it ends with [`BlobTrouble::Contended`].
    pub async fn fill(&self) -> Result<BlobFill<'a>, Error> {
        for _ in 0..BLOB_ATTEMPTS_MAX {
            let header = self.settled().await?;
            let until = step_behind(&header, header.size);
            // Whoever has appended meanwhile has moved the end.
            let condition = Condition::IfVersion(header.version);
            if let Some(filled) = self.fill_until(&header, until, condition).await? {
                let (begin, stamp) = (header.size, header.stamp);
                return Ok(BlobFill {
                    blob: self.clone(),
                    header: filled,
                    stamp,
                    begin,
                    end: begin,
                    rest: BytesMut::new(),
                    under_way: VecDeque::new(),
                    under_way_bytes: 0,
                });
            }
        }
        Err(self.trouble(BlobTrouble::Contended))
    }

    /// Has the header say that it is filled up to a point; `None`: the header is another by now.
    async fn fill_until(
        &self,
        header: &KnownHeader,
        until: u64,
        condition: Condition,
    ) -> Result<Option<KnownHeader>, Error> {
        let (key, stamp) = (self.header_key()?, header.stamp);
        let fill = BlobChange::Fill { stamp, until };
        match self.change(&key, condition, fill).await {
            Ok(Reply::Done { version, number: generation }) => {
                let stamp = BlobStamp { generation, ..stamp };
                let filled = KnownHeader {
                    version,
                    stamp,
                    uncut: until,
                    filling: FillState::UnderWay,
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

impl BlobFill<'_> {
    /// Where in the blob the next byte will stand.
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
                self.rest.extend_from_slice(piece);
            } else if self.rest.is_empty() {
                self.send(piece).await?;
            } else {
                self.rest.extend_from_slice(piece);
                let whole = std::mem::take(&mut self.rest);
                self.send(&whole).await?;
                self.rest = whole;
                self.rest.clear();
            }
        }
        Ok(())
    }

    /// Makes all that was given a part of the blob. Brings its size.
    pub async fn publish(mut self) -> Result<u64, Error> {
        self.all_are_done().await?;
        let (blob, key) = (&self.blob, self.blob.header_key()?);
        let (stamp, size) = (self.header.stamp, self.end);
        match blob.change(&key, Condition::Always, BlobChange::Publish { stamp, size }).await {
            Ok(_) => {
                blob.remember(None);
                Ok(size)
            }
            Err(error) => Err(self.beaten(error)),
        }
    }

    /// Has all that was given be written behind the end.
    pub(super) async fn all_are_done(&mut self) -> Result<(), Error> {
        let rest = std::mem::take(&mut self.rest);
        if !rest.is_empty() {
            self.send(&rest).await?;
        }
        while !self.under_way.is_empty() {
            self.one_is_done().await?;
        }
        Ok(())
    }

    /// Sends what ends at a chunk's end, or at that of all.
    async fn send(&mut self, bytes: &[u8]) -> Result<(), Error> {
        // What is sent lies before what has been given last and is not sent.
        let sent_end = self.end;
        let at = sent_end - bytes.len() as u64;
        debug_assert!(at >= self.begin);
        if sent_end > self.header.uncut {
            let until = step_behind(&self.header, sent_end);
            let more = self.blob.fill_until(&self.header, until, Condition::Always).await?;
            self.header = more.ok_or_else(|| self.blob.trouble(BlobTrouble::Contended))?;
            if self.header.stamp != next(self.stamp) {
                return Err(self.blob.trouble(BlobTrouble::Contended));
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
        answer.map(drop).map_err(|reason| self.beaten(Error::about(&self.blob.name, reason)))
    }

    /// What a refusal means: somebody else has written to the blob, or removed it.
    fn beaten(&self, error: Error) -> Error {
        self.blob.remember(None);
        match error.failure() {
            Some(Failure::StaleBlob { .. } | Failure::NotFound) => self.blob.trouble(BlobTrouble::Contended),
            _ => error,
        }
    }
}

/// Up to where the header says that the blob is filled, once this much of it is.
fn step_behind(header: &KnownHeader, end: u64) -> u64 {
    // What lies behind the last chunk that there may be is not filled.
    let most = bytes_max(header.chunk_bits).max(header.size);
    end.saturating_add(BLOB_FILL_STEP_CHUNKS << header.chunk_bits).min(most)
}
