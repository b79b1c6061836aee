//! Truncation and removal of a blob.
//!
//! One transaction truncates header and chunks. If there are too many chunks, the client first changes the header, which then records the pending
//! truncation. Next it truncates the chunks, and finally it marks the truncation as complete in the header. If the client dies in between, the next
//! writer does the rest; a repetition is harmless. Until the truncation is complete, a reader with the old header may read removed bytes in chunks
//! that were not reached yet.

use crate::{Reply, SessionError as Reason};
use zerohop_wire::Failure;
use zerohop_wire::blob::{BlobStamp, FillState};
use zerohop_wire::messages::{
    BlobChange, Condition, RecordOperation as WireOperation, RecordWrite, Remove, WriteChange,
};

use super::{Blob, KnownHeader};
use crate::procedures::error::{BlobError, Error};
use crate::procedures::limits::{BLOB_ATTEMPTS_MAX, BLOB_TRUNCATE_CHUNKS_MAX, BLOB_TRUNCATES_PARALLEL};
use crate::procedures::transaction::Attempts;

impl Blob<'_> {
    /// Sets the size of the blob: bytes behind it are removed, and added bytes are zeros. Returns when all of this is done. Up to 4,096 chunks are
    /// truncated atomically, so that no reader sees an intermediate state. Ends with `NotFound` if the blob is absent.
    pub async fn truncate(&self, size: u64) -> Result<(), Error> {
        let key = self.header_key()?;
        let mut attempts = Attempts::new(self.keyspace.client());
        self.remember(None);
        for _ in 0..BLOB_ATTEMPTS_MAX {
            let header = self.completed_header().await?;
            let stamp = header.stamp;
            if size >= header.size {
                self.check_end(&header, size)?;
                match self
                    .change(&key, Condition::IfVersion(header.version), BlobChange::Grow { stamp, size })
                    .await
                {
                    Ok(_) => return Ok(()),
                    Err(error) => self.unless_other(error)?,
                }
                continue;
            }
            if header.chunks() - (size >> header.chunk_bits) > BLOB_TRUNCATE_CHUNKS_MAX {
                let change = BlobChange::Cut { stamp, size };
                match self.change(&key, Condition::IfVersion(header.version), change).await {
                    Ok(_) => {
                        self.remember(None);
                        return self.completed_header().await.map(drop);
                    }
                    Err(error) => self.unless_other(error)?,
                }
                continue;
            }
            let (after, cut) = (next(stamp), next(header.chunk_stamp()));
            let mut together = self.together();
            together.header(Condition::IfVersion(header.version), BlobChange::Cut { stamp, size })?;
            for number in size >> header.chunk_bits..header.chunks() {
                let keep = size.saturating_sub(number << header.chunk_bits) as u32;
                let change = BlobChange::CutChunk { stamp: cut, keep, creates_absent: false };
                together.chunk(&header, number, change, None)?;
            }
            together.header(Condition::Always, BlobChange::Settle { stamp: after })?;
            match together.commit().await {
                Ok(_) => {
                    self.remember(None);
                    return Ok(());
                }
                Err(error) => self.again_after(error, &mut attempts).await?,
            }
        }
        Err(self.error(BlobError::Contended))
    }

    /// Removes the blob, atomically under the same limit as [`Blob::truncate`]. Returns whether it existed.
    pub async fn delete(&self) -> Result<bool, Error> {
        let (was_there, rest) = tokio::join!(self.delete_if(|_| true), self.remove_staged());
        let was_there = was_there?;
        // Also removes staged contents that were never bound, and leftovers of old contents.
        rest.map(|()| was_there)
    }

    /// Same as [`Blob::delete`], if the header satisfies `is_meant`.
    pub(super) async fn delete_if(&self, is_meant: impl Fn(&KnownHeader) -> bool) -> Result<bool, Error> {
        let mut attempts = Attempts::new(self.keyspace.client());
        for _ in 0..BLOB_ATTEMPTS_MAX {
            let Some(header) = self.header().await?.filter(&is_meant) else { return Ok(false) };
            if header.chunks() > BLOB_TRUNCATE_CHUNKS_MAX {
                if self.delete_in_steps(&header).await? {
                    return Ok(true);
                }
                continue;
            }
            let mut together = self.together();
            together.remove_header(header.version)?;
            for number in 0..header.chunks() {
                let change = BlobChange::DropChunk { stamp: header.chunk_stamp() };
                together.chunk(&header, number, change, None)?;
            }
            match together.commit().await {
                Ok(_) => {
                    self.remember(None);
                    return Ok(true);
                }
                Err(error) => {
                    self.again_after(error, &mut attempts).await.map_err(|error| self.contended(error))?;
                }
            }
        }
        Err(self.error(BlobError::Contended))
    }

    /// Removes a blob with more chunks than fit in one transaction: the client truncates them, removes the header, and then removes the rest of the
    /// chunks.
    async fn delete_in_steps(&self, header: &KnownHeader) -> Result<bool, Error> {
        let (key, chunks) = (self.header_key()?, header.chunks());
        // A client that was killed during the removal has already truncated the blob.
        if header.size > 0 || header.is_staged_append == FillState::UnderWay {
            let change = BlobChange::Cut { stamp: header.stamp, size: 0 };
            if let Err(error) = self.change(&key, Condition::IfVersion(header.version), change).await {
                return self.unless_other(error).map(|()| false);
            }
        }
        self.remember(None);
        let Some(now) = self.header().await? else { return Ok(true) };
        if now.size > 0 || now.stamp.id != header.stamp.id {
            return Ok(false);
        }
        let (stamp, marks) = (now.chunk_stamp(), now.is_staged_append == FillState::CutOff);
        self.each_chunk(&now, (0, chunks), |_| BlobChange::CutChunk {
            stamp,
            keep: 0,
            creates_absent: marks,
        })
        .await?;
        let remove = RecordWrite {
            key: &key,
            condition: Condition::IfVersion(now.version),
            change: WriteChange::Remove(Remove),
        };
        if let Err(error) = self.call(&WireOperation::Write(remove)).await {
            return self.unless_other(error).map(|()| false);
        }
        self.remember(None);
        self.each_chunk(&now, (0, chunks), |_| BlobChange::DropChunk { stamp }).await?;
        Ok(true)
    }

    /// Completes a pending truncation, or cuts off the bytes of a staged append.
    pub(super) async fn complete_truncation(&self, header: &KnownHeader) -> Result<(), Error> {
        let key = self.header_key()?;
        let (stamp, size, bits) = (header.stamp, header.size, header.chunk_bits);
        if header.is_staged_append == FillState::UnderWay {
            let cut = BlobChange::Cut { stamp, size };
            let cut = self.change(&key, Condition::IfVersion(header.version), cut).await;
            return cut.map(drop).or_else(|error| self.unless_other(error));
        }
        let marks = header.is_staged_append == FillState::CutOff;
        let keep = |number: u64| size.saturating_sub(number << bits) as u32;
        let cut = |number| BlobChange::CutChunk {
            stamp: header.chunk_stamp(),
            keep: keep(number),
            creates_absent: marks,
        };
        self.each_chunk(
            header,
            (size >> bits, header.pending_truncation_end.div_ceil(header.chunk_bytes())),
            cut,
        )
        .await?;
        let settled = self.change(&key, Condition::Always, BlobChange::Settle { stamp }).await;
        // Another client has truncated the blob again.
        settled.map(drop).or_else(|error| self.unless_other(error))
    }

    /// Changes chunks one by one, several in parallel. A chunk that knows of a later truncation is not changed.
    async fn each_chunk(
        &self,
        header: &KnownHeader,
        (mut next, end): (u64, u64),
        change: impl Fn(u64) -> BlobChange<'static>,
    ) -> Result<(), Error> {
        while next < end {
            let until = end.min(next + BLOB_TRUNCATES_PARALLEL);
            let mut under_way = Vec::new();
            for number in next..until {
                let (key, change) = (self.chunk_key(header, number)?, WriteChange::Blob(change(number)));
                let write = RecordWrite { key: &key, condition: Condition::Always, change };
                under_way.push(self.start(&WireOperation::Write(write))?);
            }
            for answer in under_way {
                match answer.await.unwrap_or(Err(Reason::Closed)) {
                    Ok(Reply::Done { .. }) | Err(Reason::Answer { failure: Failure::StaleBlob { .. } }) => {}
                    Ok(_) => return Err(Error::Unexpected),
                    Err(reason) => return Err(Error::about(&self.name, reason)),
                }
            }
            next = until;
        }
        Ok(())
    }

    /// Returns the error, unless it says that the header has changed.
    pub(super) fn unless_other(&self, error: Error) -> Result<(), Error> {
        match error.failure() {
            Some(Failure::ConditionFailed { .. } | Failure::NotFound) => {
                self.remember(None);
                Ok(())
            }
            _ => self.unless_stale(error),
        }
    }
}

/// The generation after a truncation.
pub(super) fn next(stamp: BlobStamp) -> BlobStamp {
    BlobStamp { generation: stamp.generation + 1, ..stamp }
}
