//! What a read of a blob shows to the checker.

use bytes::Bytes;
use zerohop_session::procedures::{BlobInfo, BlobReadVersion};

use crate::cycles::CheckedAction;
use crate::workload::blobs::{BlobContents, CHUNK_BYTES, read_attributes};

/// Stands for the version of a chunk that a reader does not know: the reads that know it tell.
pub(super) const UNKNOWN_VERSION: u64 = u64::MAX;

/// All of a blob, with the versions.
#[derive(Clone, Debug)]
pub(super) struct VersionedContents {
    pub(super) bytes: Bytes,
    pub(super) seen: BlobReadVersion,
    /// The metadata that the reader has seen last.
    pub(super) info: Option<BlobInfo>,
}

/// The reads that a read with versions shows, or an error for contents that no client has written.
pub(super) fn read_actions(blob: u64, read: &VersionedContents) -> Result<Vec<CheckedAction>, String> {
    let VersionedContents { bytes, seen, info } = read;
    let info = info.as_ref().ok_or("it has no header")?;
    if seen.blob() != (info.id, info.generation) {
        return Err(format!("{info:?} is the header of other contents than {seen:?}"));
    }
    let mut versions = seen.chunks().iter().map(|(_, version)| version.0);
    contents(blob, info, bytes, || versions.next().unwrap_or(0))?.actions()
}

/// The same for a read without versions.
pub(super) fn streamed_actions(
    blob: u64,
    info: &BlobInfo,
    bytes: &[u8],
) -> Result<Vec<CheckedAction>, String> {
    contents(blob, info, bytes, || UNKNOWN_VERSION)?.actions()
}

/// The tokens of the tail.
pub(super) fn tail_of(blob: u64, info: &BlobInfo, bytes: &[u8]) -> Result<Vec<u64>, String> {
    contents(blob, info, bytes, || UNKNOWN_VERSION)?.tail()
}

fn contents<'c>(
    blob: u64,
    info: &BlobInfo,
    bytes: &'c [u8],
    mut version: impl FnMut() -> u64,
) -> Result<BlobContents<'c>, String> {
    if bytes.len() as u64 != info.size {
        return Err(format!("blob {blob}: {} bytes of {info:?}", bytes.len()));
    }
    let (edition, change) =
        read_attributes(&info.attributes).ok_or_else(|| format!("blob {blob}: no header: {info:?}"))?;
    let chunks = bytes.chunks(CHUNK_BYTES as usize).map(|chunk| (version(), chunk)).collect();
    let order = info.id.0 + info.generation;
    Ok(BlobContents { blob, edition, change, order, size: info.size, chunks })
}
