//! Blobs among the lines of a transaction.

use std::os::unix::ffi::OsStrExt;

use bytes::Bytes;
use zerohop_client::{Error, TransactionBlob};

use super::line::BlobOperation;
use super::transform;

/// What an operation on a blob has brought.
pub(super) enum BlobResult {
    Done,
    /// Where an append will stand.
    At(u64),
    /// Whether there was one.
    Found(bool),
    /// How large it is, if there is one.
    Size(Option<u64>),
    Bytes(Bytes),
    Number(transform::NumberReader),
}

/// Takes up one operation.
pub(super) async fn step(blob: &TransactionBlob<'_>, operation: &BlobOperation) -> Result<BlobResult, Error> {
    Ok(match operation {
        BlobOperation::Create { chunk, attributes, .. } => {
            match chunk {
                Some(bits) => blob.create_with(*bits, attributes.as_bytes()).await?,
                None => blob.create(attributes.as_bytes()).await?,
            }
            BlobResult::Done
        }
        BlobOperation::Stat { .. } => BlobResult::Size(blob.stat().await?.map(|info| info.size)),
        BlobOperation::Read { offset, length, .. } => BlobResult::Bytes(blob.read(*offset, *length).await?),
        BlobOperation::Write { offset, value, .. } => {
            blob.write(*offset, value.as_bytes().to_vec()).await?;
            BlobResult::Done
        }
        BlobOperation::Append { value, .. } => BlobResult::At(blob.append(value.as_bytes().to_vec()).await?),
        BlobOperation::Truncate { size, .. } => {
            blob.truncate(*size).await?;
            BlobResult::Done
        }
        BlobOperation::Transform { given, .. } => BlobResult::Number(given.write_in(blob).await?),
        BlobOperation::Rm { .. } => BlobResult::Found(blob.remove().await?),
    })
}
