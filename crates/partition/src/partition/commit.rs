//! The commit index moves: entries are applied, waits are checked, answers are sent.

use zerohop_engine::disk::Disk;
use zerohop_engine::{Engine, EngineResult, EntryKind, EntryMeta};

use super::Partition;
use super::changes::PartitionChanges;
use crate::entry_metadata::{MARK_EPOCH, MARK_SNAPSHOT};
use crate::event::PartitionEffects;
use crate::failure::failure_of;
use crate::planted::{Bug, is_planted};
use crate::state::TransactionEvent;
use crate::view::RecordView;

impl Partition {
    /// Commits the entries that the log writer reports as committed.
    pub(super) fn commit<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        effects: &mut dyn PartitionEffects,
    ) -> EngineResult<()> {
        let through = self.log_writer.committed(engine, self.state.applied)?;
        let result = self.commit_through(engine, through, effects);
        self.notify_committed(engine, effects);
        // What is committed before it is durable has no answer of its own.
        let durable = self.log_writer.durable(engine)?;
        self.pending_replies.release(self.state.applied.min(durable), effects);
        if let Err(error) = &result {
            self.pending_replies.fail(failure_of(error), effects);
        }
        result
    }

    fn commit_through<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        through: u64,
        effects: &mut dyn PartitionEffects,
    ) -> EngineResult<()> {
        let handle = self.handle();
        let mut entries_left_over = Vec::new();
        while self.state.applied < through {
            let begin = self.state.applied + 1;
            let end = match self.log_writer.batch_end(engine, begin, through)? {
                _ if is_planted(Bug::BatchCommittedInPieces) => begin,
                Some(end) => end,
                None => break,
            };
            let before = match self.feed.is_kept() {
                true => Some(PartitionChanges { partition: self }.before(engine, (begin, end))?),
                false => None,
            };
            // If any request waits, or changes are kept, batches are committed one by one, so that each state of a record is seen.
            let is_observed = before.is_some() || !self.waits.is_empty();
            engine.commit(handle, if is_observed { end } else { through })?;
            let (mut keys_to_wake, mut snapshots) = (Vec::new(), Vec::new());
            for index in self.state.applied + 1..=end {
                let entry = engine.read_entry(handle, index)?;
                let meta = entry.head.meta;
                self.apply(&meta, entry.key, entry.payload);
                let is_mark = meta.kind == EntryKind::Mark;
                if is_mark && matches!(entry.payload.first(), Some(&MARK_SNAPSHOT | &MARK_EPOCH)) {
                    snapshots.push((meta, entry.payload.to_vec()));
                }
                if self.overlay.committed(index, entry.key) {
                    entries_left_over.push(entry.key.to_vec());
                }
                if self.waits.has(entry.key) {
                    keys_to_wake.push(entry.key.to_vec());
                }
            }
            for (meta, payload) in snapshots {
                self.snapshot_committed(engine, &meta, &payload)?;
            }
            if let Some(before) = before {
                PartitionChanges { partition: self }.keep(engine, before)?;
            }
            // The changes of an atomic batch become visible together.
            for key in keys_to_wake {
                self.answer_waits(engine, &key, effects);
            }
        }
        PartitionChanges { partition: self }.answer_readers(engine, effects);
        for key in entries_left_over {
            let mut view = RecordView { engine, handle, overlay: None, deadlines: &self.state.deadlines };
            let base = view.shape(&key)?;
            self.overlay.rebase(&key, base);
        }
        Ok(())
    }

    /// Applies a committed entry to the state, and keeps its transaction event for [`Partition::notify_committed`].
    ///
    /// # Panics
    /// If this program cannot have written the entry: its contents would be lost.
    pub(super) fn apply(&mut self, meta: &EntryMeta, key: &[u8], payload: &[u8]) {
        assert_eq!(meta.index, self.state.applied + 1, "entries are applied in order");
        let before = match self.snapshots {
            Some(_) => self.state.deadlines.get(key),
            None => None,
        };
        let applied = self.state.apply_with_event(meta, key, payload);
        if self.snapshots.is_some() {
            self.retain_past_version(before, meta, key);
        }
        match applied {
            Ok(TransactionEvent::Nothing) => {}
            Ok(event) => self.record_committed(meta.index, event),
            Err(_) => panic!("entry {} has a note that cannot be read", meta.index),
        }
    }
}
