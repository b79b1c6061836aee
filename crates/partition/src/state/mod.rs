//! The state of a partition beside its records: deadlines, sessions, names of blobs, numbers of chunks, the highest timestamp. It changes only by
//! committed entries, through one function. The primary, the other members, and a member that restarts all use it.

mod chunks;
mod codec;
mod deadlines;
#[cfg(test)]
mod documented;
mod names;
mod sessions;
mod transactions;

use zerohop_engine::{EntryKind, EntryMeta, split_trailer};
use zerohop_wire::blob::{listed_chunk, name_of_header};
use zerohop_wire::ids::{SessionId, Timestamp};

pub(crate) use chunks::ChunkTable;
pub use codec::StateError;
pub(crate) use deadlines::Deadlines;
pub(crate) use names::HeaderNames;
pub(crate) use sessions::{Outcomes, SessionRecord, Sessions};
pub(crate) use transactions::ReplicatedTransactions;

use crate::entry_metadata::{EntryMetadata, Mark, SessionOutcome};

/// The committed state of a partition, as of a log index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartitionState {
    /// The last entry applied.
    pub(crate) applied: u64,
    /// The highest timestamp among the entries applied.
    pub(crate) newest: Timestamp,
    pub(crate) sessions: Sessions,
    pub(crate) deadlines: Deadlines,
    pub(crate) names: HeaderNames,
    pub(crate) chunks: ChunkTable,
    /// As of this number of splits of the keyspace, the partition has no records of siblings.
    pub(crate) cleaned_splits: u8,
    /// `None` for a partition without transactions over several partitions.
    pub(crate) transacted: Option<Box<ReplicatedTransactions>>,
}

/// An entry that this version cannot have written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownEntry;

/// The event that an entry has for the transactions in progress.
#[derive(Debug)]
pub(crate) enum TransactionEvent {
    Nothing,
    Transaction(zerohop_transaction::TransactionEntry),
    Evicted(Vec<SessionId>),
}

impl PartitionState {
    /// The number of sessions.
    #[must_use]
    pub fn sessions_count(&self) -> usize {
        self.sessions.len()
    }

    /// The number of records that expire.
    #[must_use]
    pub fn deadlines_count(&self) -> usize {
        self.deadlines.len()
    }

    /// Applies a committed entry, which follows the last one. Applying an entry twice changes nothing that a later entry does not
    /// set again.
    ///
    /// # Errors
    /// Its note cannot be read; nothing has changed.
    pub fn apply(&mut self, meta: &EntryMeta, key: &[u8], payload: &[u8]) -> Result<(), UnknownEntry> {
        self.apply_with_event(meta, key, payload).map(drop)
    }

    /// [`PartitionState::apply`], and the transaction event of the entry.
    pub(crate) fn apply_with_event(
        &mut self,
        meta: &EntryMeta,
        key: &[u8],
        payload: &[u8],
    ) -> Result<TransactionEvent, UnknownEntry> {
        let at = Timestamp(meta.timestamp);
        let mut event = TransactionEvent::Nothing;
        let note = match meta.kind {
            EntryKind::Mark => match Mark::decode(payload, at).ok_or(UnknownEntry)? {
                Mark::Note(note) => {
                    if let Some(deadline) = note.deadline {
                        self.deadlines.set(key, Some(deadline).filter(|ms| *ms != 0));
                    }
                    note
                }
                Mark::Eviction { mark, sessions } => {
                    self.sessions.evict(&sessions, mark);
                    if let Some(transacted) = &mut self.transacted {
                        transacted.state.evict(&sessions);
                    }
                    event = TransactionEvent::Evicted(sessions);
                    EntryMetadata::default()
                }
                Mark::SplitCleanedUp { splits } => {
                    self.cleaned_splits = splits;
                    EntryMetadata::default()
                }
                Mark::Transaction { lowest, entry } => {
                    let session = SessionOutcome::of_transaction(&entry, lowest);
                    let transacted = self.transacted.get_or_insert_default();
                    transacted.apply(meta.index, &entry);
                    if transacted.is_empty() {
                        self.transacted = None;
                    }
                    event = TransactionEvent::Transaction(entry);
                    EntryMetadata { session, ..EntryMetadata::default() }
                }
                // Data kept for snapshots is not part of the state: it does not outlive the process.
                Mark::Epoch { .. } | Mark::Filler | Mark::Snapshot(_) => EntryMetadata::default(),
            },
            kind => {
                let (contents, trailer) = split_trailer(meta.flags, payload);
                let mut note = EntryMetadata::of_trailer(meta, trailer).ok_or(UnknownEntry)?;
                if let Some(session) = &mut note.session {
                    session.outcome.complete(contents);
                }
                match kind {
                    EntryKind::Put => {
                        self.deadlines.set(key, note.deadline);
                        if let Some(name) = name_of_header(key) {
                            self.names.add(name);
                        } else if let Some((name, number)) = listed_chunk(key) {
                            self.chunks.add(name, number);
                        }
                    }
                    EntryKind::Remove => {
                        self.deadlines.set(key, None);
                        if let Some(name) = name_of_header(key) {
                            self.names.remove(name);
                        } else if let Some((name, number)) = listed_chunk(key) {
                            self.chunks.remove(name, number);
                        }
                    }
                    // Other kinds leave a record's deadline as it is.
                    _ => {}
                }
                note
            }
        };
        if let Some(session) = note.session {
            self.sessions.record(session, at.millis());
        }
        self.applied = meta.index;
        self.newest = self.newest.max(at);
        Ok(event)
    }
}
