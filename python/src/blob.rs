//! Operations on blobs by name.

use bytes::Bytes;
use zerohop_client::{Blob, BlobError, Error, Keyspace, StagedContents};

use crate::answer::PythonAnswer;
use crate::memory::Memory;
use crate::number::NumberChange;
use crate::problem::Problem;

/// The largest write that the client makes in one transaction, in bytes.
const WRITE_WHOLE_BYTES_MAX: usize = 64 << 20;

/// Reads up to this size go to the client's own memory first: they succeed however often others
/// write.
const READ_WHOLE_BYTES_MAX: u64 = 1 << 20;

/// How often a longer read is started at most, if others write to its range.
const READS_MAX: u32 = 8;

/// An operation on a blob.
pub(crate) enum BlobOperation {
    Stat,
    Create {
        /// `None` for the keyspace's default.
        chunk_bits: Option<u8>,
        attributes: Vec<u8>,
        /// It stays unfinished until its attributes are set again.
        unfinished: bool,
    },
    /// Reads bytes from an offset on into memory, up to the end. Returns their number.
    ReadInto {
        offset: u64,
        into: Memory,
    },
    /// Reads so many bytes from an offset on.
    Read {
        offset: u64,
        length: u64,
    },
    Write {
        offset: u64,
        bytes: Memory,
    },
    Extend {
        bytes: Memory,
    },
    Truncate {
        size: u64,
    },
    Describe {
        attributes: Vec<u8>,
    },
    Transform(NumberChange),
    Delete,
    /// Creates new contents under a name of their own, to replace an existing blob's.
    Stage {
        chunk_bits: Option<u8>,
        attributes: Vec<u8>,
    },
    /// Replaces the blob's contents by staged ones.
    Bind {
        staged: StagedContents,
        attributes: Vec<u8>,
    },
}

impl BlobOperation {
    /// Runs it on a blob; with `unfinished`, also on an unfinished one.
    pub(crate) async fn run(
        &self,
        keyspace: &Keyspace,
        name: Bytes,
        unfinished: bool,
    ) -> Result<PythonAnswer, Problem> {
        let blob = named(keyspace, name, unfinished);
        Ok(match self {
            Self::Stat => PythonAnswer::Blob(blob.stat().await?),
            Self::Create { chunk_bits, attributes, unfinished: true } => {
                PythonAnswer::Blob(Some(blob.create_unfinished(*chunk_bits, attributes).await?))
            }
            Self::Create { chunk_bits, attributes, unfinished: false } => {
                PythonAnswer::Blob(Some(match chunk_bits {
                    Some(bits) => blob.create_with(*bits, attributes).await?,
                    None => blob.create(attributes).await?,
                }))
            }
            Self::ReadInto { offset, into } => PythonAnswer::Number(read_into(&blob, *offset, into).await?),
            Self::Read { offset, length } => {
                PythonAnswer::Bytes(Some(blob.read_at(*offset, *length).await?.read_to_end().await?))
            }
            Self::Write { offset, bytes } => {
                write(&blob, *offset, bytes).await?;
                PythonAnswer::Nothing
            }
            Self::Extend { bytes } => PythonAnswer::Number(extend(&blob, bytes).await?),
            Self::Truncate { size } => {
                blob.truncate(*size).await?;
                PythonAnswer::Nothing
            }
            Self::Describe { attributes } => {
                blob.set_attributes(attributes).await?;
                PythonAnswer::Nothing
            }
            Self::Transform(change) => change.of_blob(&blob).await?,
            Self::Delete => PythonAnswer::Flag(blob.delete().await?),
            Self::Stage { chunk_bits, attributes } => {
                PythonAnswer::StagedContents(blob.stage(*chunk_bits, attributes).await?)
            }
            Self::Bind { staged, attributes } => PythonAnswer::Number(blob.bind(staged, attributes).await?),
        })
    }
}

/// A blob; with `unfinished`, also an unfinished one.
pub(crate) fn named(keyspace: &Keyspace, name: Bytes, unfinished: bool) -> Blob<'_> {
    let blob = keyspace.blob(name);
    if unfinished { blob.with_unfinished() } else { blob }
}

/// Reads straight into memory. Parts that are written meanwhile are read again; after an error the
/// memory may have parts of several versions.
async fn read_into(blob: &Blob<'_>, offset: u64, into: &Memory) -> Result<u64, Error> {
    let length = into.len() as u64;
    if length <= READ_WHOLE_BYTES_MAX {
        let (bytes, _) = blob.read_with_version(offset, length).await?;
        return Ok(into.fill(0, &bytes) as u64);
    }
    let mut attempts = 1;
    loop {
        match read_pieces(blob, offset, into).await {
            Err(Error::Blob { why: BlobError::ChangedMeanwhile, .. }) if attempts < READS_MAX => {
                attempts += 1;
            }
            result => return result,
        }
    }
}

async fn read_pieces(blob: &Blob<'_>, offset: u64, into: &Memory) -> Result<u64, Error> {
    let mut pieces = blob.read_at(offset, into.len() as u64).await?;
    let mut at = 0;
    while let Some(piece) = pieces.next_piece().await? {
        at += into.fill(at, &piece);
    }
    Ok(at as u64)
}

/// Writes all bytes atomically if possible: in one transaction or, if they are longer and reach the
/// end, as a staged extension. A longer write elsewhere is split into pieces.
async fn write(blob: &Blob<'_>, offset: u64, bytes: &Memory) -> Result<(), Error> {
    let length = bytes.len();
    if length > WRITE_WHOLE_BYTES_MAX
        && let Some(info) = blob.stat().await?
    {
        if offset == info.size {
            return extend_staged(blob, bytes).await.map(drop);
        }
        for at in (0..length).step_by(WRITE_WHOLE_BYTES_MAX) {
            blob.write_at(offset.saturating_add(at as u64), bytes.slice(at, WRITE_WHOLE_BYTES_MAX)).await?;
        }
        return Ok(());
    }
    // An absent blob is reported, however long the write is.
    blob.write_at(offset, bytes.slice(0, length.min(WRITE_WHOLE_BYTES_MAX))).await
}

/// Adds all bytes to the end atomically. Returns their offset.
async fn extend(blob: &Blob<'_>, bytes: &Memory) -> Result<u64, Error> {
    match bytes.len() {
        length if length > WRITE_WHOLE_BYTES_MAX => extend_staged(blob, bytes).await,
        length => blob.extend(bytes.slice(0, length)).await,
    }
}

async fn extend_staged(blob: &Blob<'_>, bytes: &Memory) -> Result<u64, Error> {
    let mut staged = blob.staged_extension().await?;
    let begin = staged.position();
    staged.push(bytes.slice(0, bytes.len())).await?;
    staged.publish().await.map(|_| begin)
}
