//! Staged pieces as records: written, replicated, given back and found again after a crash as all records are, under keys that no
//! request reaches. What the log says of one, and the record, are one unit, so that neither is there without the other.
//!
//! | entry | beside it |
//! | --- | --- |
//! | `Hold` | the record |
//! | `Apply`, `Commit` | what the pieces that it had pinned have become, and their removals |
//! | `Expire` | removals |

use bytes::Bytes;
use zerohop_engine::disk::Disk;
use zerohop_engine::{Engine, Handle};
use zerohop_transaction::{StageId, TransactionEntry as Logged};
use zerohop_wire::Failure;
use zerohop_wire::blob::staged_key;

use crate::atomic_batch::Unit;
use crate::state::PartitionState;

/// What stands in the log beside an entry of transactions.
#[derive(Debug, Default)]
pub(super) struct EntryAttachment {
    /// Operations to be done.
    pub(super) effect: Option<Bytes>,
    /// A piece that is staged.
    pub(super) holds: Option<(StageId, Bytes)>,
    /// Pieces that are let go of.
    pub(super) lets_go: Vec<StageId>,
}

impl EntryAttachment {
    /// That of an entry, which becomes the one that goes into the log.
    pub(super) fn of(entry: &mut Logged, state: &PartitionState) -> EntryAttachment {
        let transacted = state.transacted.as_ref().map(|one| &one.state);
        let records = |ids: &[StageId]| {
            let is_record = |id: &&StageId| transacted.is_some_and(|one| one.held_as_record(id).is_some());
            ids.iter().filter(is_record).copied().collect()
        };
        let mut beside = EntryAttachment::default();
        match entry {
            Logged::Commit { effect, pinned, .. } => {
                beside.lets_go = records(pinned);
                beside.effect = Some(effect.clone());
            }
            Logged::Apply { id, prepared, .. } => {
                beside.lets_go =
                    transacted.map_or_else(Vec::new, |one| records(one.pinned_of(id, *prepared)));
                beside.effect = transacted.and_then(|one| one.effect_of(id, *prepared));
            }
            Logged::Expire { ids } => beside.lets_go = records(ids),
            Logged::Stage { id, bytes } => {
                let (id, bytes) = (*id, std::mem::take(bytes));
                *entry = Logged::Hold { id, bytes: bytes.len() as u64 };
                beside.holds = Some((id, bytes));
            }
            _ => {}
        }
        // A clock, and no operation: it only reads.
        beside.effect = beside.effect.filter(|effect| effect.len() > size_of::<u64>());
        beside
    }

    pub(super) fn is_nothing(&self) -> bool {
        self.effect.is_none() && self.holds.is_none() && self.lets_go.is_empty()
    }

    /// Adds records, and takes them away: behind the operations, which read them.
    pub(super) fn settle<D: Disk>(&self, unit: &mut Unit<'_, D>) -> Result<(), Failure<'static>> {
        if let Some((id, bytes)) = &self.holds {
            unit.hold(&staged_key(id.session, id.sequence), bytes)?;
        }
        self.lets_go.iter().try_for_each(|id| unit.let_go(&staged_key(id.session, id.sequence)))
    }
}

/// The bytes of a piece that is staged, and committed; `None`: it is not there, or cannot be read.
pub(super) fn piece<D: Disk>(
    engine: &mut Engine<D>,
    handle: Handle,
    state: &PartitionState,
    id: &StageId,
) -> Option<Bytes> {
    let transacted = state.transacted.as_ref()?;
    let Some(length) = transacted.state.held_as_record(id) else {
        return transacted.staged(id);
    };
    let found = engine.lookup_whole(handle, &staged_key(id.session, id.sequence)).ok()??;
    (found.len() as u64 == length).then(|| found.into())
}
