//! What a transaction keeps for one blob.

use crate::procedures::blob_knowledge::{BlobKnowledge, BlobWrites};

/// The state that a transaction keeps for one blob.
#[derive(Debug)]
pub(super) struct BlobBuffer {
    pub(super) within: BlobKnowledge,
    pub(super) edits: BlobWrites,
}

impl BlobBuffer {
    pub(super) fn of(within: BlobKnowledge) -> Self {
        Self { within, edits: BlobWrites::default() }
    }
}
