//! Atomic writes, extensions and transforms.

use crate::Reply;
use zerohop_wire::Failure;
use zerohop_wire::messages::{BlobChange, Condition, Number, ReturnedNumber};

use super::multi_chunk::is_refused;
use super::{Blob, BlobReadVersion};
use crate::planted::{Bug, is_planted};
use crate::procedures::blob_knowledge::{CachedHeader, ChunkRange};
use crate::procedures::error::{BlobError, Error};
use crate::procedures::limits::{BLOB_ATTEMPTS_MAX, BLOB_EXTEND_ATTEMPTS_MAX, BLOB_WRITE_BYTES_MAX};
use crate::procedures::transaction::Attempts;
use crate::procedures::transform::Transform;

impl Blob<'_> {
    /// Writes bytes at an offset, which may be behind the end: bytes in between become zeros. The write is atomic over all its chunks: a reader
    /// sees all of it or nothing. More than 64 MiB are refused: see [`Blob::staged_extension`].
    pub async fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let blob = &self.in_call();
        let end = blob.check_range(offset, bytes)?;
        if bytes.is_empty() {
            return blob.known().await.map(drop);
        }
        let mut attempts = Attempts::new(blob.client());
        for _ in 0..BLOB_ATTEMPTS_MAX {
            let header = blob.completed_header().await?;
            if blob.write_single_chunk(&header, offset, bytes).await? {
                return Ok(());
            }
            // The chunk's refusal is newer than the remembered header.
            let header = blob.completed_header().await?;
            blob.check_end(&header, end)?;
            let mut transaction = blob.transaction();
            transaction.header(Condition::Always, BlobChange::Grow { stamp: header.stamp, size: end })?;
            transaction.write(&header, offset, bytes)?;
            match transaction.commit().await {
                Ok(_) => {
                    blob.remember_size(&header, end);
                    return Ok(());
                }
                Err(error) => blob.retry_after(error, &mut attempts).await?,
            }
        }
        Err(blob.error(BlobError::Contended))
    }

    /// Same as [`Blob::write_at`], if nothing of what was read has changed since. Otherwise it writes nothing and ends with an error for which
    /// [`Error::is_conflict`] is true.
    pub async fn write_at_if(&self, seen: &BlobReadVersion, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let blob = &self.in_call();
        let end = blob.check_range(offset, bytes)?;
        // An empty write extends nothing, whatever its offset.
        let end = if bytes.is_empty() { 0 } else { end };
        let mut attempts = Attempts::new(blob.client());
        for _ in 0..BLOB_ATTEMPTS_MAX {
            let header = blob.completed_header().await?;
            if header.stamp != seen.stamp || seen.size.is_some_and(|size| size != header.size) {
                // The remembered header may be the outdated one.
                let now = blob.known().await?;
                if now.stamp != seen.stamp || seen.size.is_some_and(|size| size != now.size) {
                    return Err(blob.changed());
                }
                continue;
            }
            blob.check_end(&header, end)?;
            let mut transaction = blob.transaction();
            let grow = BlobChange::Grow { stamp: header.stamp, size: end };
            let condition = match seen.size {
                // A read up to the end depends on where the end is.
                Some(_) => Condition::IfVersion(header.version),
                None => Condition::Always,
            };
            transaction.header(condition, grow)?;
            for (number, version) in &seen.chunks {
                transaction.check(&header, *number, *version)?;
            }
            transaction.write(&header, offset, bytes)?;
            match transaction.commit().await {
                Ok(_) => {
                    blob.remember_size(&header, end);
                    return Ok(());
                }
                Err(error) if is_refused(&error) => blob.remember(None),
                Err(error) if error.is_changed_read() => return Err(error),
                Err(error) => blob.retry_after(error, &mut attempts).await?,
            }
        }
        Err(blob.error(BlobError::Contended))
    }

    /// Adds bytes to the end and returns their offset. The bytes are contiguous, and a reader sees all of them or none. More than 64 MiB are refused: see
    /// [`Blob::staged_extension`].
    pub async fn extend(&self, bytes: &[u8]) -> Result<u64, Error> {
        let blob = &self.in_call();
        blob.check_range(0, bytes)?;
        let (mut attempts, mut first_end) = (Attempts::new(blob.client()), None);
        for _ in 0..BLOB_EXTEND_ATTEMPTS_MAX {
            let header = blob.completed_header().await?;
            let (stamp, mut offset) = (header.stamp, header.size);
            let first_end = *first_end.get_or_insert(offset);
            if is_planted(Bug::BlobExtendKeepsOffset) {
                offset = first_end;
            }
            if bytes.is_empty() {
                return blob.known().await.map(|header| header.size);
            }
            let size = offset.checked_add(bytes.len() as u64).ok_or_else(|| blob.beyond())?;
            blob.check_end(&header, size)?;
            let mut transaction = blob.transaction();
            transaction.header(Condition::IfVersion(header.version), BlobChange::Grow { stamp, size })?;
            transaction.write(&header, offset, bytes)?;
            match transaction.commit().await {
                Ok((version, _)) => {
                    blob.remember(Some(CachedHeader { version, size, ..header }));
                    return Ok(offset);
                }
                Err(error) => blob.retry_after(error, &mut attempts).await?,
            }
        }
        Err(blob.error(BlobError::Contended))
    }

    /// Changes a number in the blob, also across chunks; absent bytes count as zeros. A number within one chunk is changed on its server. Returns
    /// the new number.
    pub async fn transform<N: Number>(&self, transform: Transform<N>) -> Result<N, Error> {
        self.transformed(transform, ReturnedNumber::New).await
    }

    /// Same as [`Blob::transform`], but returns the previous number.
    pub async fn transform_and_get_old<N: Number>(&self, transform: Transform<N>) -> Result<N, Error> {
        self.transformed(transform, ReturnedNumber::Old).await
    }

    async fn transformed<N: Number>(
        &self,
        transform: Transform<N>,
        returned: ReturnedNumber,
    ) -> Result<N, Error> {
        let blob = &self.in_call();
        let (offset, wire) = transform.parts(returned);
        let (width, mut attempts) = (N::TYPE.bytes() as u64, Attempts::new(blob.client()));
        let end = offset.checked_add(width).ok_or_else(|| blob.beyond())?;
        for _ in 0..BLOB_ATTEMPTS_MAX {
            let header = blob.completed_header().await?;
            blob.check_end(&header, end)?;
            let mut parts = header.parts(offset, width);
            let (Some(part), None) = (parts.next(), parts.next()) else {
                match blob.transform_across(&header, (offset, end), wire).await {
                    Ok(bits) => return Ok(N::from_bits(bits)),
                    Err(error) => blob.retry_after(error, &mut attempts).await?,
                }
                continue;
            };
            let (stamp, offset) = (header.chunk_stamp(), u64::from(part.within));
            let wire = zerohop_wire::messages::Transform { offset, ..wire };
            if end <= header.size {
                let key = blob.chunk_key(&header, part.number)?;
                let change = BlobChange::TransformChunk { stamp, transform: wire, makes: false };
                match blob.change(&key, Condition::Always, change).await {
                    Ok(Reply::Done { number, .. }) => return Ok(N::from_bits(number)),
                    Ok(_) => return Err(Error::Unexpected),
                    Err(error) => blob.unless_absent(error)?,
                }
            }
            let header = blob.completed_header().await?;
            let stamp = header.stamp;
            let mut transaction = blob.transaction();
            transaction.header(Condition::Always, BlobChange::Grow { stamp, size: end })?;
            let stamp = header.chunk_stamp();
            let change = BlobChange::TransformChunk { stamp, transform: wire, makes: true };
            transaction.chunk(&header, part.number, change, None)?;
            match transaction.commit().await {
                Ok((_, answers)) => {
                    blob.remember_size(&header, end);
                    return match answers.into_iter().nth(1) {
                        Some(Ok(Reply::Done { number, .. })) => Ok(N::from_bits(number)),
                        _ => Err(Error::Unexpected),
                    };
                }
                Err(error) => blob.retry_after(error, &mut attempts).await?,
            }
        }
        Err(blob.error(BlobError::Contended))
    }

    /// Transforms a number that lies in two chunks: the client reads it, and writes it if both chunks are unchanged.
    async fn transform_across(
        &self,
        header: &CachedHeader,
        (offset, end): (u64, u64),
        transform: zerohop_wire::messages::Transform,
    ) -> Result<u64, Error> {
        let parts: Vec<ChunkRange> = header.parts(offset, end - offset).collect();
        let looked = self.read_parts(header, &parts).await?;
        let (mut number, width) = ([0; 8], (end - offset) as usize);
        for (part, looked) in parts.iter().zip(&looked) {
            let from = (part.at - offset) as usize;
            number[from..from + looked.bytes.len()].copy_from_slice(&looked.bytes);
        }
        let old = u64::from_le_bytes(number);
        let new = transform.operator.applied(transform.number, old, transform.operand);
        let bytes = &new.to_le_bytes()[..width];
        let mut transaction = self.transaction();
        transaction.header(Condition::Always, BlobChange::Grow { stamp: header.stamp, size: end })?;
        for (part, looked) in parts.iter().zip(&looked) {
            let from = (part.at - offset) as usize;
            transaction.write_part(
                header,
                *part,
                &bytes[from..from + part.length as usize],
                Some(looked.version),
            )?;
        }
        transaction.commit().await?;
        self.remember_size(header, end);
        Ok(if transform.returns == ReturnedNumber::Old { old } else { new })
    }

    /// Writes into one existing chunk, within the blob. `false`: there is no such chunk, or the blob has changed.
    async fn write_single_chunk(
        &self,
        header: &CachedHeader,
        offset: u64,
        bytes: &[u8],
    ) -> Result<bool, Error> {
        let mut parts = header.parts(offset, bytes.len() as u64);
        let (Some(part), None) = (parts.next(), parts.next()) else { return Ok(false) };
        if offset + bytes.len() as u64 > header.size {
            return Ok(false);
        }
        let key = self.chunk_key(header, part.number)?;
        let ChunkRange { within: offset, length, .. } = part;
        let stamp = header.chunk_stamp();
        let change = BlobChange::WriteChunk { stamp, offset, length, bytes, makes: false };
        match self.change(&key, Condition::Always, change).await {
            Ok(_) => Ok(true),
            Err(error) => self.unless_absent(error).map(|()| false),
        }
    }

    /// Returns the error, unless it says that the chunk is absent or the blob has changed.
    fn unless_absent(&self, error: Error) -> Result<(), Error> {
        match error.failure() {
            Some(Failure::NeedHeader) => Ok(()),
            _ => self.unless_stale(error),
        }
    }

    /// Whether to try again after a transaction that was not done; after a pause if it conflicted with others.
    pub(super) async fn retry_after(&self, error: Error, attempts: &mut Attempts) -> Result<(), Error> {
        if is_refused(&error) {
            // Another client was faster: the remembered header is outdated.
            self.remember(None);
            return Ok(());
        }
        self.remember(None);
        let pause = attempts.after(&error).ok_or_else(|| error.naming(&self.name))?;
        self.client().sleep(pause).await;
        Ok(())
    }

    /// Remembers that the blob is at least this large now.
    fn remember_size(&self, header: &CachedHeader, end: u64) {
        let mut known = self.known.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(known) = known.as_mut().filter(|known| known.stamp == header.stamp) {
            known.size = known.size.max(end);
        }
    }

    /// Checks the limits of one write, and returns its end.
    pub(super) fn check_range(&self, offset: u64, bytes: &[u8]) -> Result<u64, Error> {
        if bytes.len() > BLOB_WRITE_BYTES_MAX {
            return Err(self.error(BlobError::TooLong { limit: BLOB_WRITE_BYTES_MAX as u64 }));
        }
        offset.checked_add(bytes.len() as u64).ok_or_else(|| self.beyond())
    }
}
