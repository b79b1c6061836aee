//! Replacement of all contents of a blob at once.

use zerohop_wire::messages::{BlobChange, Condition};

use super::Blob;
use super::truncate::next;
use crate::procedures::error::{BlobError, Error};
use crate::procedures::limits::{BLOB_ATTEMPTS_MAX, BLOB_WRITE_BYTES_MAX};
use crate::procedures::transaction::Attempts;

impl Blob<'_> {
    /// Replaces the contents with these bytes, and the attributes unless they are `None`. A reader sees all of the old contents or all of the new.
    /// Ends with `NotFound` if the blob is absent. Refuses more than 64 MiB, or the replacement of more than 4,096 chunks.
    pub async fn replace(&self, bytes: &[u8], attributes: Option<&[u8]>) -> Result<(), Error> {
        let blob = &self.in_call();
        if bytes.len() > BLOB_WRITE_BYTES_MAX {
            return Err(blob.error(BlobError::TooLong { limit: BLOB_WRITE_BYTES_MAX as u64 }));
        }
        let mut attempts = Attempts::new(blob.client());
        blob.remember(None);
        for _ in 0..BLOB_ATTEMPTS_MAX {
            let mut header = blob.completed_header().await?;
            let chunks_max = blob.limits().transaction_chunks;
            if header.chunks() > chunks_max {
                let limit = chunks_max << header.chunk_bits;
                return Err(blob.error(BlobError::TooLong { limit }));
            }
            let (old, chunks) = (header.stamp, header.chunks());
            let mut transaction = blob.transaction();
            if header.size > 0 {
                header.stamp = next(old);
            }
            let stamp = header.stamp;
            transaction
                .header(Condition::IfVersion(header.version), BlobChange::Truncate { stamp: old, size: 0 })?;
            transaction.header(Condition::Always, BlobChange::Settle { stamp })?;
            if let Some(attributes) = attributes {
                let attributes = &header.attributes_with_contents(attributes);
                transaction.header(Condition::Always, BlobChange::Describe { stamp, attributes })?;
            }
            transaction.header(Condition::Always, BlobChange::Grow { stamp, size: bytes.len() as u64 })?;
            for number in 0..chunks {
                let stamp = header.chunk_stamp();
                transaction.chunk(
                    &header,
                    number,
                    BlobChange::TruncateChunk { stamp, keep: 0, creates_absent: false },
                    None,
                )?;
            }
            transaction.write(&header, 0, bytes)?;
            match transaction.commit().await {
                Ok(_) => {
                    blob.remember(None);
                    return Ok(());
                }
                Err(error) => blob.retry_after(error, &mut attempts).await?,
            }
        }
        Err(blob.error(BlobError::Contended))
    }
}
