//! Staged pieces as records. They are written, replicated, removed and recovered as all records are, under keys that no request
//! can name. The log entry of a piece and its record are one atomic batch, so neither exists without the other.
//!
//! | entry | beside it |
//! | --- | --- |
//! | `StagePiece` | the record |
//! | `Apply`, `Commit` | what the pieces that it had pinned have become, and their removals |
//! | `Expire` | removals |

use bytes::Bytes;
use zerohop_engine::disk::Disk;
use zerohop_engine::{Engine, Handle};
use zerohop_transaction::{StageId, TransactionEntry};
use zerohop_wire::Failure;
use zerohop_wire::blob::staged_key;

use crate::atomic_batch::Unit;
use crate::state::PartitionState;

/// The changes of records that accompany a transaction's log entry.
#[derive(Debug, Default)]
pub(super) struct EntryAttachment {
    /// Operations to be executed.
    pub(super) effect: Option<Bytes>,
    /// A piece that is staged.
    pub(super) staged_piece: Option<(StageId, Bytes)>,
    /// Pieces that are removed.
    pub(super) removed_pieces: Vec<StageId>,
}

impl EntryAttachment {
    /// The attachment of an entry. The entry becomes the form that goes into the log.
    pub(super) fn of(entry: &mut TransactionEntry, state: &PartitionState) -> EntryAttachment {
        let transacted = state.transacted.as_ref().map(|one| &one.state);
        let records = |ids: &[StageId]| {
            let is_record =
                |id: &&StageId| transacted.is_some_and(|one| one.staged_record_length(id).is_some());
            ids.iter().filter(is_record).copied().collect()
        };
        let mut beside = EntryAttachment::default();
        match entry {
            TransactionEntry::Commit { effect, pinned, .. } => {
                beside.removed_pieces = records(pinned);
                beside.effect = Some(effect.clone());
            }
            TransactionEntry::Apply { id, prepared, .. } => {
                beside.removed_pieces =
                    transacted.map_or_else(Vec::new, |one| records(one.pinned_of(id, *prepared)));
                beside.effect = transacted.and_then(|one| one.effect_of(id, *prepared));
            }
            TransactionEntry::Expire { ids } => beside.removed_pieces = records(ids),
            TransactionEntry::Stage { id, bytes } => {
                let (id, bytes) = (*id, std::mem::take(bytes));
                *entry = TransactionEntry::StagePiece { id, bytes: bytes.len() as u64 };
                beside.staged_piece = Some((id, bytes));
            }
            _ => {}
        }
        // The effect has a clock and no operation: the transaction only reads here.
        beside.effect = beside.effect.filter(|effect| effect.len() > size_of::<u64>());
        beside
    }

    pub(super) fn is_empty(&self) -> bool {
        self.effect.is_none() && self.staged_piece.is_none() && self.removed_pieces.is_empty()
    }

    /// Adds records and removes them, behind the operations, which read them.
    pub(super) fn apply_pieces<D: Disk>(&self, unit: &mut Unit<'_, D>) -> Result<(), Failure<'static>> {
        if let Some((id, bytes)) = &self.staged_piece {
            unit.put_internal(&staged_key(id.session, id.sequence), bytes)?;
        }
        self.removed_pieces
            .iter()
            .try_for_each(|id| unit.remove_internal(&staged_key(id.session, id.sequence)))
    }
}

/// The bytes of a piece that is staged and committed; `None`: it does not exist, or cannot be read.
pub(super) fn piece<D: Disk>(
    engine: &mut Engine<D>,
    handle: Handle,
    state: &PartitionState,
    id: &StageId,
) -> Option<Bytes> {
    let transacted = state.transacted.as_ref()?;
    let Some(length) = transacted.state.staged_record_length(id) else {
        return transacted.staged(id);
    };
    let found = engine.lookup_assembled(handle, &staged_key(id.session, id.sequence)).ok()??;
    (found.len() as u64 == length).then(|| found.into())
}
