//! Whether a blob exists for a transaction, and what the transaction knows of it.

use zerohop_wire::blob::BlobStamp;
use zerohop_wire::ids::Timestamp;

use super::CachedHeader;

/// The transaction's knowledge of a blob.
#[derive(Clone, Debug)]
pub(crate) enum BlobKnowledge {
    /// The blob was absent, and the transaction does not create it.
    Absent,
    /// The transaction has removed the blob. The value is the version of the header that was read; zero: the blob was absent before this
    /// transaction created it.
    Removed(Timestamp),
    There(PresentBlob),
}

/// A blob that exists for this transaction.
#[derive(Clone, Debug)]
pub(crate) struct PresentBlob {
    /// The header as it was read, with the fence and the attributes that result from this transaction's changes, and the greatest size that it had
    /// before a truncation. For a new blob, the version of what was there before.
    pub(crate) header: CachedHeader,
    /// Size of the blob after the transaction's changes.
    pub(crate) size: u64,
    /// Contents that were read are valid up to this offset.
    pub(crate) found_end: u64,
    /// The commit gives the header a new version.
    pub(crate) has_changed_header: bool,
}

impl PresentBlob {
    pub(crate) fn found(header: CachedHeader) -> Self {
        Self { size: header.size, found_end: header.size, header, has_changed_header: false }
    }

    /// Whether this transaction creates the blob.
    pub(crate) fn is_own(&self) -> bool {
        self.header.stamp.id == BlobStamp::OWN
    }

    /// The number of chunks that may exist.
    pub(crate) fn chunks(&self) -> u64 {
        self.header.chunks().max(self.size.div_ceil(self.header.chunk_bytes()))
    }
}
