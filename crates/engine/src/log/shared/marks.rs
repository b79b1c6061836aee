//! Marks of a shared log: what survives a crash, written down now and then for recovery.

use super::format::{LogPartition, LogStream, SharedKind};
use super::local::{Birth, LogMark, MarkRow};
use super::streams::{LogSlot, SharedLog};
use crate::error::EngineResult;

/// A mark is written after so many bytes, or after so many times its own length, whichever is more.
const MARK_EVERY_BYTES: u64 = 1 << 20;
const MARK_EVERY_LENGTHS: u64 = 50;

/// What the next mark says.
pub(super) struct MarkState {
    /// Bytes appended since the last mark, and at how many the next is due.
    pub(super) bytes: u64,
    due_bytes: u64,
    /// Rows that the next mark repeats.
    pub(super) births: Vec<Birth>,
    /// Log partitions whose births may not survive a crash, and how many flushes had begun then.
    pub(super) fresh: Vec<(LogPartition, u64)>,
    /// Slots of which the next mark has rows.
    pub(super) changed: Vec<u32>,
    /// The number of the newest checkpoint file.
    pub(super) checkpoint: u64,
    /// A timestamp of an entry, for segments that begin with a local one.
    pub(super) timestamp: u64,
}

impl MarkState {
    /// Before the first mark. The timestamp is of any late entry.
    pub(super) fn new(timestamp: u64) -> MarkState {
        MarkState {
            bytes: 0,
            due_bytes: MARK_EVERY_BYTES,
            births: Vec::new(),
            fresh: Vec::new(),
            changed: Vec::new(),
            checkpoint: 0,
            timestamp,
        }
    }
}

impl SharedLog {
    /// Sets the commit index, and the index that checkpoints cover, for the next mark.
    pub fn note_progress(&mut self, slot: LogSlot, commit: u64, covered: u64) {
        let tail = &mut self.tails[slot.0 as usize];
        if (tail.commit, tail.covered) != (commit, covered) {
            (tail.commit, tail.covered) = (commit, covered);
            self.change(slot);
        }
    }

    /// Whether a mark is due: enough bytes were appended since the last one.
    #[must_use]
    pub fn is_mark_due(&self) -> bool {
        self.marks.bytes >= self.marks.due_bytes
    }

    /// Appends a mark, if there is anything to say: what survives a crash by now, after the births since the last mark again.
    /// `checkpoint` is the number of the newest checkpoint file.
    ///
    /// # Errors
    /// [`EngineError::Stopped`].
    pub fn mark(&mut self, checkpoint: u64) -> EngineResult<()> {
        self.check_runs()?;
        let is_news = std::mem::replace(&mut self.marks.checkpoint, checkpoint) != checkpoint;
        if is_news || !self.marks.changed.is_empty() || !self.marks.births.is_empty() {
            self.ensure_open(LogStream::Small, None, 0);
            self.push_mark();
        }
        Ok(())
    }

    pub(super) fn change(&mut self, slot: LogSlot) {
        let tail = &mut self.tails[slot.0 as usize];
        if !tail.is_in_memory && !std::mem::replace(&mut tail.is_changed, true) {
            self.marks.changed.push(slot.0);
        }
    }

    pub(super) fn push_mark(&mut self) {
        let Some(header) = self.open[LogStream::Small as usize].as_ref().map(|open| open.header) else {
            return;
        };
        if let Some(open) = &mut self.open[LogStream::Small as usize] {
            open.is_base_fixed = true;
        }
        let births = std::mem::take(&mut self.marks.births);
        if !births.is_empty() {
            let payload = self.births_payload(births);
            self.push_local(SharedKind::Births, &payload);
        }
        let (mut rows, flushes) = (Vec::with_capacity(self.marks.changed.len()), self.flushes.count);
        let tails = &mut self.tails;
        self.marks.changed.retain(|slot| {
            let tail = &mut tails[*slot as usize];
            let durable = tail.durable(flushes);
            rows.push(MarkRow {
                number: tail.number,
                epoch: tail.last.0,
                durable,
                commit: tail.commit,
                covered: tail.covered,
            });
            // What is not durable yet is in the next mark too.
            tail.is_changed = durable < tail.last.1;
            tail.is_changed
        });
        let mark = LogMark { header, ends: self.ends, checkpoint: self.marks.checkpoint, rows }.encode();
        self.push_local(SharedKind::Mark, &mark);
        self.marks.bytes = 0;
        self.marks.due_bytes = MARK_EVERY_BYTES.max(MARK_EVERY_LENGTHS * mark.len() as u64);
    }
}
