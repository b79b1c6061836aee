//! The state that a transaction keeps for its blobs.

use crate::{CompositeItem, SessionError as Reason};
use zerohop_wire::AbortReason;
use zerohop_wire::blob::{KEY_PREFIX, is_of_blob, routed};
use zerohop_wire::ids::Timestamp;

use super::Transaction;
use super::blob_buffer::BlobBuffer;
use super::record_name::RecordName;
use super::staged_pieces::KeyLocation;
use crate::procedures::blob_knowledge::{BlobKnowledge, BlobWrites, PresentBlob};
use crate::procedures::error::Error;

/// Length of a chunk's number, which follows the name in a key.
const NUMBER_BYTES: usize = 8;

impl Transaction {
    /// The number of writes of the transaction so far. A change of a blob counts one for the header and one for each chunk.
    ///
    /// # Errors
    /// [`Error::Ended`].
    pub fn writes(&self) -> Result<usize, Error> {
        self.with(|buffer| buffer.writes())
    }

    /// Adds a write; errors about it show this name. Returns the write's index.
    pub(crate) fn add(
        &self,
        item: CompositeItem,
        location: KeyLocation,
        name: &[u8],
    ) -> Result<usize, Error> {
        self.with(|buffer| buffer.write(item, location))?.map_err(|reason| Error::about(name, reason))
    }

    /// Adds a read dependency: the item must have this version when the transaction commits.
    pub(crate) fn add_read_dependency(&self, read: CompositeItem, version: Timestamp) -> Result<(), Error> {
        let noted = self.with(|buffer| buffer.add_version_dependency(&read, version))?;
        noted.map_err(|reason| Error::about(shown_name(read.key()), reason))
    }

    /// The transaction's knowledge of a blob.
    pub(crate) fn blob_seen(&self, place: &RecordName) -> Result<Option<BlobKnowledge>, Error> {
        self.with(|buffer| buffer.blobs.get(place).map(|kept| kept.within.clone()))
    }

    /// Stores what a read has found about a blob, unless the transaction knows the blob already.
    pub(crate) fn found_blob(&self, place: RecordName, found: BlobKnowledge) -> Result<(), Error> {
        self.with(|buffer| {
            buffer.blobs.entry(place).or_insert_with(|| BlobBuffer::of(found));
        })
    }

    /// Replaces the knowledge of a blob: earlier changes of its bytes are forgotten.
    pub(crate) fn put_blob(&self, place: RecordName, now: BlobKnowledge) -> Result<(), Error> {
        self.with(|buffer| drop(buffer.blobs.insert(place, BlobBuffer::of(now))))
    }

    /// Records a change of an existing blob.
    pub(crate) fn change_blob(
        &self,
        place: &RecordName,
        change: impl FnOnce(&mut PresentBlob, &mut BlobWrites),
    ) -> Result<(), Error> {
        self.with(|buffer| {
            if let Some(BlobBuffer { within: BlobKnowledge::There(seen), edits }) =
                buffer.blobs.get_mut(place)
            {
                change(seen, edits);
            }
        })
    }

    /// Reads the changes that the transaction has made to a blob's bytes.
    pub(crate) fn blob_edits<R: Default>(
        &self,
        place: &RecordName,
        look: impl FnOnce(&BlobWrites) -> R,
    ) -> Result<R, Error> {
        self.with(|buffer| buffer.blobs.get(place).map(|kept| look(&kept.edits)).unwrap_or_default())
    }
}

/// The error for a commit that was aborted because of a key. A caller declares no conditions on a blob. A condition that does not hold therefore
/// means that the blob was truncated or replaced since this transaction looked at it.
pub(super) fn aborted(key: &[u8], reason: AbortReason, item: Option<usize>) -> Error {
    let is_changed = is_of_blob(key) && reason == AbortReason::ConditionFailed;
    let reason = if is_changed { AbortReason::ReadChanged } else { reason };
    Error::about(shown_name(key), Reason::Aborted { reason, item })
}

/// The name of the blob to which the key belongs, or else the key itself.
fn shown_name(key: &[u8]) -> &[u8] {
    if !is_of_blob(key) {
        return key;
    }
    let named = routed(key);
    named.get(KEY_PREFIX.len()..named.len().saturating_sub(NUMBER_BYTES)).unwrap_or(key)
}
