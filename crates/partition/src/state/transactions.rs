//! The committed state of transactions over several partitions, and the bytes staged for future ones.
//!
//! Encoding, behind everything else of the state: number of entries (4), then each: log index (8), length (4), and an entry of
//! `zerohop_transaction`; staged pieces come first. The state is rebuilt from these entries. For a piece that is a record the
//! entry has only the name and the length. Pieces that earlier versions have staged are here with their bytes.

use std::collections::BTreeMap;

use bytes::Bytes;
use zerohop_transaction::{ParticipantState, StageId, TransactionEntry};
use zerohop_wire::ids::LogIndex;

use zerohop_base::bytes::Reader;

/// The replicated transactions of a partition; see the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReplicatedTransactions {
    pub(crate) state: ParticipantState,
    /// The bytes of staged pieces that are not records.
    staged: BTreeMap<StageId, Bytes>,
}

impl ReplicatedTransactions {
    /// Applies a committed entry.
    pub(crate) fn apply(&mut self, index: u64, entry: &TransactionEntry) {
        let installed = self.state.apply(LogIndex(index), entry);
        // The new contents of records are in the log behind the entry.
        for id in installed.iter().flat_map(|install| &install.pinned) {
            self.staged.remove(id);
        }
        match entry {
            TransactionEntry::Stage { id, bytes } => drop(self.staged.insert(*id, bytes.clone())),
            TransactionEntry::Expire { ids } => {
                for id in ids.iter().filter(|id| !self.state.has_staged(id)) {
                    self.staged.remove(id);
                }
            }
            _ => {}
        }
    }

    /// Whether there is nothing to remember.
    pub(crate) fn is_empty(&self) -> bool {
        self.state.is_empty()
    }

    /// The bytes of a staged piece.
    pub(crate) fn staged(&self, id: &StageId) -> Option<Bytes> {
        self.staged.get(id).cloned()
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        // Pieces without a pin come first; entries that pin them follow.
        let pieces = self
            .staged
            .iter()
            .map(|(id, bytes)| (LogIndex(0), TransactionEntry::Stage { id: *id, bytes: bytes.clone() }));
        let entries: Vec<(LogIndex, TransactionEntry)> = pieces.chain(self.state.entries()).collect();
        out.extend_from_slice(&(entries.len() as u32).to_le_bytes());
        for (index, entry) in &entries {
            let bytes = entry.encode();
            out.extend_from_slice(&index.0.to_le_bytes());
            out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
            out.extend_from_slice(&bytes);
        }
    }

    /// Reads the output of [`ReplicatedTransactions::encode`], for a state as of this log index; `None` if it is damaged.
    pub(super) fn decode(from: &mut Reader<'_>, applied: u64) -> Option<ReplicatedTransactions> {
        let count = from.u32()?;
        let mut entries = Vec::new();
        for _ in 0..count {
            let index = LogIndex(from.u64()?);
            let length = from.u32()? as usize;
            entries.push((index, TransactionEntry::decode(from.bytes(length)?).ok()?));
        }
        let staged = entries.iter().filter_map(|(_, entry)| match entry {
            TransactionEntry::Stage { id, bytes } => Some((*id, bytes.clone())),
            _ => None,
        });
        let staged = staged.collect();
        let state = ParticipantState::restore(
            LogIndex(applied),
            entries.iter().map(|(index, entry)| (*index, entry)),
        );
        Some(ReplicatedTransactions { state, staged })
    }
}
