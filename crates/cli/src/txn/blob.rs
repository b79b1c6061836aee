//! Blob operations in the lines of a transaction.

use std::os::unix::ffi::OsStrExt;

use bytes::Bytes;
use zerohop_client::{Error, TransactionBlob};

use super::line::BlobOperation;
use super::transform;

/// The return value of an operation on a blob.
pub(super) enum BlobResult {
    Done,
    /// The offset of the added bytes.
    At(u64),
    /// Whether the blob existed.
    Found(bool),
    /// The size of the blob, if it exists.
    Size(Option<u64>),
    Bytes(Bytes),
    Number(transform::NumberReader),
}

/// Adds one operation to the transaction.
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
        BlobOperation::Extend { value, .. } => BlobResult::At(blob.extend(value.as_bytes().to_vec()).await?),
        BlobOperation::Truncate { size, .. } => {
            blob.truncate(*size).await?;
            BlobResult::Done
        }
        BlobOperation::Transform { given, .. } => BlobResult::Number(given.write_in(blob).await?),
        BlobOperation::Rm { .. } => BlobResult::Found(blob.remove().await?),
    })
}
