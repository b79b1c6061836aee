//! Blobs among the lines of a transaction.

use std::os::unix::ffi::OsStrExt;

use bytes::Bytes;
use zerohop_client::{Error, TransactionBlob};

use super::line::BlobOperation;
use super::transform;

/// What an operation on a blob has brought.
pub(super) enum Told {
    Done,
    /// Where an append will stand.
    At(u64),
    /// Whether there was one.
    Found(bool),
    /// How large it is, if there is one.
    Size(Option<u64>),
    Bytes(Bytes),
    Number(transform::Told),
}

/// Takes up one operation.
pub(super) async fn step(blob: &TransactionBlob<'_>, operation: &BlobOperation) -> Result<Told, Error> {
    Ok(match operation {
        BlobOperation::Create { chunk, attributes, .. } => {
            match chunk {
                Some(bits) => blob.create_with(*bits, attributes.as_bytes()).await?,
                None => blob.create(attributes.as_bytes()).await?,
            }
            Told::Done
        }
        BlobOperation::Stat { .. } => Told::Size(blob.stat().await?.map(|info| info.size)),
        BlobOperation::Read { offset, length, .. } => Told::Bytes(blob.read(*offset, *length).await?),
        BlobOperation::Write { offset, value, .. } => {
            blob.write(*offset, value.as_bytes().to_vec()).await?;
            Told::Done
        }
        BlobOperation::Append { value, .. } => Told::At(blob.append(value.as_bytes().to_vec()).await?),
        BlobOperation::Truncate { size, .. } => {
            blob.truncate(*size).await?;
            Told::Done
        }
        BlobOperation::Transform { given, .. } => Told::Number(given.write_in(blob).await?),
        BlobOperation::Rm { .. } => Told::Found(blob.remove().await?),
    })
}
