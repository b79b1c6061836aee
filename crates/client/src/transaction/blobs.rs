//! What a transaction keeps for the blobs that it has to do with: see [`crate::blob::TransactionBlob`].

use zerohop_session::{CompositeItem, SessionError as Reason};
use zerohop_wire::AbortReason;
use zerohop_wire::blob::{KEY_PREFIX, is_of_blob, routed};
use zerohop_wire::ids::Timestamp;

use super::Transaction;
use super::buffer::{Cell, RecordName};
use crate::blob::{BlobKnowledge, Edits, SeenBlob};
use crate::error::Error;

/// What a transaction keeps for one blob.
#[derive(Debug)]
pub(super) struct BlobBuffer {
    within: BlobKnowledge,
    edits: Edits,
}

impl BlobBuffer {
    fn of(within: BlobKnowledge) -> Self {
        Self { within, edits: Edits::default() }
    }
}

/// Bytes of a chunk's number behind the name in a key.
const NUMBER_BYTES: usize = 8;

impl Transaction {
    /// How many writes it has so far. Changes of a blob are one for its header and one for each chunk.
    ///
    /// # Errors
    /// [`Error::Ended`].
    pub fn writes(&self) -> Result<usize, Error> {
        self.with(|buffer| buffer.writes())
    }

    /// Adds a write, of which errors speak by this name. Which of the writes it is.
    pub(crate) fn add(&self, item: CompositeItem, cell: Cell, name: &[u8]) -> Result<usize, Error> {
        self.with(|buffer| buffer.write(item, cell))?.map_err(|reason| Error::about(name, reason))
    }

    /// What a read is of must have this version when it commits.
    pub(crate) fn rest(&self, read: CompositeItem, version: Timestamp) -> Result<(), Error> {
        let noted = self.with(|buffer| buffer.note_version(&read, version))?;
        noted.map_err(|reason| Error::about(shown(read.key()), reason))
    }

    /// What it knows of a blob.
    pub(crate) fn blob_seen(&self, place: &RecordName) -> Result<Option<BlobKnowledge>, Error> {
        self.with(|buffer| buffer.blobs.get(place).map(|kept| kept.within.clone()))
    }

    /// A blob was found so, unless it was found before.
    pub(crate) fn found_blob(&self, place: RecordName, found: BlobKnowledge) -> Result<(), Error> {
        self.with(|buffer| {
            buffer.blobs.entry(place).or_insert_with(|| BlobBuffer::of(found));
        })
    }

    /// A blob is so from now on: what was done to its bytes before is forgotten.
    pub(crate) fn put_blob(&self, place: RecordName, now: BlobKnowledge) -> Result<(), Error> {
        self.with(|buffer| drop(buffer.blobs.insert(place, BlobBuffer::of(now))))
    }

    /// Takes note of a change of a blob that is there.
    pub(crate) fn change_blob(
        &self,
        place: &RecordName,
        change: impl FnOnce(&mut SeenBlob, &mut Edits),
    ) -> Result<(), Error> {
        self.with(|buffer| {
            if let Some(BlobBuffer { within: BlobKnowledge::There(seen), edits }) =
                buffer.blobs.get_mut(place)
            {
                change(seen, edits);
            }
        })
    }

    /// Looks at what was done to a blob's bytes.
    pub(crate) fn blob_edits<R: Default>(
        &self,
        place: &RecordName,
        look: impl FnOnce(&Edits) -> R,
    ) -> Result<R, Error> {
        self.with(|buffer| buffer.blobs.get(place).map(|kept| look(&kept.edits)).unwrap_or_default())
    }
}

/// Why a commit was refused over a key. Of a blob no caller declares conditions: one that does not hold says that it was cut,
/// or replaced, since this transaction looked at it.
pub(super) fn aborted(key: &[u8], reason: AbortReason, item: Option<usize>) -> Error {
    let is_changed = is_of_blob(key) && reason == AbortReason::ConditionFailed;
    let reason = if is_changed { AbortReason::ReadChanged } else { reason };
    Error::about(shown(key), Reason::Aborted { reason, item })
}

/// The name of the blob that a key is of, or the key.
fn shown(key: &[u8]) -> &[u8] {
    if !is_of_blob(key) {
        return key;
    }
    let named = routed(key);
    named.get(KEY_PREFIX.len()..named.len().saturating_sub(NUMBER_BYTES)).unwrap_or(key)
}
