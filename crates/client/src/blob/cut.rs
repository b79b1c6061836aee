//! Making a blob smaller, and removing it.
//!
//! The header is cut first, and says what is still to be done; then the chunks are; then the header says that all are.
//! Whoever dies in between leaves the rest to the next writer, and doing it twice does no harm.

use zerohop_session::{Error as Reason, Reply};
use zerohop_wire::Failure;
use zerohop_wire::ids::Timestamp;
use zerohop_wire::messages::{BlobChange, Change, Condition, Operation as WireOperation, Write};

use super::{ATTEMPTS_MAX, Blob, Known};
use crate::error::{BlobTrouble, Error};

/// Chunks that are cut side by side.
const CUTS_AHEAD: u64 = 64;

impl Blob<'_> {
    /// Makes it this large: what is cut off is gone, what is added are zeros. Brings when all of it is done. Ends with
    /// `NotFound` if there is no such blob.
    pub async fn truncate(&self, size: u64) -> Result<(), Error> {
        let key = self.header_key()?;
        for _ in 0..ATTEMPTS_MAX {
            let header = self.settled().await?;
            let change = BlobChange::Cut { stamp: header.stamp, size };
            match self.change(&key, Condition::IfVersion(header.version), change).await {
                Ok(_) if size >= header.size => return Ok(()),
                Ok(_) => return self.settled().await.map(drop),
                Err(error) if matches!(error.failure(), Some(Failure::ConditionFailed { .. })) => {}
                Err(error) => self.unless_stale(error)?,
            }
        }
        Err(self.trouble(BlobTrouble::Contended))
    }

    /// Removes it. Brings whether there was one.
    pub async fn delete(&self) -> Result<bool, Error> {
        let key = self.header_key()?;
        for _ in 0..ATTEMPTS_MAX {
            let Some(header) = self.header().await? else { return Ok(false) };
            let mut cut = Vec::new();
            let version = if header.size > 0 || header.uncut > 0 {
                let change = BlobChange::Cut { stamp: header.stamp, size: 0 };
                match self.change(&key, Condition::IfVersion(header.version), change).await {
                    Ok(_) => {}
                    Err(error) if matches!(error.failure(), Some(Failure::ConditionFailed { .. })) => {
                        continue;
                    }
                    Err(error) => {
                        self.unless_stale(error)?;
                        continue;
                    }
                }
                let Some(header) = self.header().await? else { return Ok(true) };
                if header.size > 0 {
                    continue;
                }
                cut = self.cut_chunks(&header).await?;
                header.version
            } else {
                header.version
            };
            let remove =
                Write { key: &key, condition: Condition::IfVersion(version), change: Change::Remove };
            match self.ask(&WireOperation::Write(remove)).await {
                Ok(_) => {
                    self.remove_chunks(cut).await?;
                    return Ok(true);
                }
                Err(error) if matches!(error.failure(), Some(Failure::ConditionFailed { .. })) => {}
                Err(error) => return Err(error),
            }
        }
        Err(self.trouble(BlobTrouble::Contended))
    }

    /// Does what is left of a cut.
    pub(super) async fn finish_cut(&self, header: &Known) -> Result<(), Error> {
        self.cut_chunks(header).await?;
        let (key, stamp) = (self.header_key()?, header.stamp);
        match self.change(&key, Condition::Always, BlobChange::Settle { stamp }).await {
            Ok(_) => Ok(()),
            // Somebody has cut it again.
            Err(error) => self.unless_stale(error),
        }
    }

    /// Cuts the chunks behind the size, up to where the blob has ended. The numbers of those that there were, with the
    /// version that they have now.
    async fn cut_chunks(&self, header: &Known) -> Result<Vec<(u64, Timestamp)>, Error> {
        let (bits, stamp) = (header.chunk_bits, header.stamp);
        let (mut next, end) = (header.size >> bits, header.uncut.div_ceil(header.chunk_bytes()));
        let mut cut = Vec::new();
        while next < end {
            let until = end.min(next + CUTS_AHEAD);
            let mut under_way = Vec::new();
            for number in next..until {
                let keep = header.size.saturating_sub(number << bits) as u32;
                let key = self.chunk_key(number)?;
                let change = Change::Blob(BlobChange::CutChunk { stamp, keep });
                let write = Write { key: &key, condition: Condition::Always, change };
                under_way.push((number, self.start(&WireOperation::Write(write))?));
            }
            for (number, answer) in under_way {
                match answer.await.unwrap_or(Err(Reason::Closed)) {
                    Ok(Reply::Done { version, number: 1 }) => cut.push((number, version)),
                    // There was none, or it knows of a later cut.
                    Ok(_) | Err(Reason::Answer { failure: Failure::StaleBlob { .. } }) => {}
                    Err(reason) => return Err(Error::about(&self.name, reason)),
                }
            }
            next = until;
        }
        Ok(cut)
    }

    /// Removes what is left of the chunks of a blob that is gone, unless another of its name has taken them.
    async fn remove_chunks(&self, cut: Vec<(u64, Timestamp)>) -> Result<(), Error> {
        for some in cut.chunks(CUTS_AHEAD as usize) {
            let mut under_way = Vec::new();
            for &(number, version) in some {
                let key = self.chunk_key(number)?;
                let condition = Condition::IfVersion(version);
                let write = Write { key: &key, condition, change: Change::Remove };
                under_way.push(self.start(&WireOperation::Write(write))?);
            }
            for answer in under_way {
                match answer.await.unwrap_or(Err(Reason::Closed)) {
                    Ok(_) | Err(Reason::Answer { failure: Failure::ConditionFailed { .. } }) => {}
                    Err(reason) => return Err(Error::about(&self.name, reason)),
                }
            }
        }
        Ok(())
    }
}
