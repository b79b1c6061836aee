//! The lives of partitions in a shared log, and what it says of them: creations, truncations, drops, marks.

use super::flushes::FlushCount;
use super::format::{HEAD_BYTES, LogPartition, LogStream, SharedKind};
use super::live_bytes::EntryUse;
use super::local::{Creation, LogMark, MarkRow};
use super::marks::{MARK_EVERY_BYTES, MARK_EVERY_LENGTHS};
use super::segment::SharedSegment;
use super::streams::{LogSlot, SharedLog};
use super::tail::{NewLogPartition, PartitionTail};
use crate::PartitionId;
use crate::error::{EngineError, EngineResult};

/// An entry whose use is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryUseCount {
    /// The slot of the partition that owns it.
    pub slot: LogSlot,
    /// The number of its segment.
    pub segment: u64,
    /// Its log index.
    pub index: u64,
    /// Its length.
    pub bytes: u32,
}

impl SharedLog {
    /// Opens log partitions that begin, each with a number of its own, in one local entry. A split gives the parent as
    /// `dropped`, whose number only the children own from here on.
    ///
    /// # Errors
    /// [`EngineError::Stopped`]; [`EngineError::Limit`] if there are no more numbers.
    pub fn begin(
        &mut self,
        begun: &[NewLogPartition],
        dropped: Option<LogSlot>,
    ) -> EngineResult<Vec<LogSlot>> {
        self.check_runs()?;
        if u32::MAX - self.next.partition < begun.len() as u32 {
            return Err(EngineError::Limit { what: "numbers of log partitions" });
        }
        let mut rows = Vec::with_capacity(begun.len() + 1);
        let mut is_on_disk = false;
        for new in begun {
            let number = LogPartition(self.next.partition);
            self.next.partition += 1;
            let continues = new.continues.map(|(continued, through, _)| (continued, through));
            is_on_disk |= !new.is_in_memory;
            rows.push(Creation {
                number,
                partition: new.partition,
                seed: new.seed,
                continues,
                is_incoming: new.is_incoming,
                is_dropped: false,
            });
        }
        let slots: Vec<LogSlot> =
            rows.iter().zip(begun).map(|(row, new)| self.open_slot(row.number, new)).collect();
        slots.iter().for_each(|slot| self.change(*slot));
        if let Some(parent) = dropped {
            let number = self.tail(parent).number;
            for (slot, new) in slots.iter().zip(begun) {
                if new.continues.is_some_and(|(continued, ..)| continued == number) {
                    self.segments_mut().for_each(|segment| segment.uses.share(parent.0, slot.0));
                }
            }
            is_on_disk |= !self.tail(parent).is_in_memory;
            rows.extend(self.dropped_row(parent));
        }
        self.add_creations(rows, is_on_disk);
        Ok(slots)
    }

    /// The entries of a log partition have no owner from here on.
    ///
    /// # Errors
    /// [`EngineError::Stopped`].
    pub fn drop_partition(&mut self, slot: LogSlot) -> EngineResult<()> {
        self.check_runs()?;
        let is_on_disk = !self.tail(slot).is_in_memory;
        let rows: Vec<Creation> = self.dropped_row(slot).into_iter().collect();
        self.add_creations(rows, is_on_disk);
        Ok(())
    }

    /// Log partitions without a creation have no owner.
    pub(super) fn mark_ownerless(&mut self, unregistered_partitions: &[LogPartition]) -> EngineResult<()> {
        self.check_runs()?;
        let row = |number: &LogPartition| Creation {
            number: *number,
            partition: PartitionId::default(),
            seed: 0,
            continues: None,
            // An incoming number is present in no partition.
            is_incoming: true,
            is_dropped: true,
        };
        self.add_creations(unregistered_partitions.iter().map(row).collect(), true);
        Ok(())
    }

    /// Truncates a log after an entry: its number is continued through that one by a new number, which the slot has from here on. The
    /// owner counts what is truncated as dead ([`SharedLog::change_use`]).
    ///
    /// # Errors
    /// As [`SharedLog::begin`].
    pub fn truncate_after(&mut self, slot: LogSlot, last: (u32, u64)) -> EngineResult<()> {
        let is_incoming = self.creations.row(self.tail(slot).number).is_some_and(|row| row.is_incoming);
        self.continue_after(slot, last, is_incoming)
    }

    /// An incoming log is complete up to its last entry, which need not be there: a number that is not incoming continues it.
    ///
    /// # Errors
    /// As [`SharedLog::begin`].
    pub fn end_incoming(&mut self, slot: LogSlot, last: (u32, u64)) -> EngineResult<()> {
        self.continue_after(slot, last, false)
    }

    /// The entries of an incoming log have all been appended. It ends with this one, which need not be there.
    ///
    /// # Errors
    /// [`EngineError::NotNext`] if it has entries behind that.
    pub(crate) fn set_incoming_end(&mut self, slot: LogSlot, last: (u32, u64)) -> EngineResult<()> {
        let tail = &mut self.tails[slot.0 as usize];
        if !tail.is_incoming || tail.last.1 > last.1 {
            return Err(EngineError::NotNext { last: tail.last });
        }
        tail.appended(last, self.flushes.count);
        self.change(slot);
        Ok(())
    }

    /// How many files have failed.
    pub(crate) fn failed_files(&self) -> u64 {
        self.failed.count
    }

    /// Length of a segment of the small stream.
    pub(crate) fn segment_bytes(&self) -> u64 {
        self.options.segment_bytes
    }

    /// How many runs all segments have.
    pub(crate) fn runs(&self) -> u64 {
        let segments = self.sealed.values().chain(self.open.iter().flatten());
        segments.map(|segment| segment.runs.len() as u64).sum()
    }

    /// The number of the first segment from a number on.
    pub(crate) fn segment_from(&self, number: u64) -> Option<u64> {
        let open = self.open.iter().flatten().map(|open| open.header.number).filter(|open| *open >= number);
        open.chain(self.sealed.range(number..).next().map(|(sealed, _)| *sealed)).min()
    }

    /// Whether the log of a slot has no file.
    pub(crate) fn is_in_memory(&self, slot: LogSlot) -> bool {
        self.tail(slot).is_in_memory
    }

    /// Whether the log of a slot is incoming.
    pub(crate) fn is_incoming(&self, slot: LogSlot) -> bool {
        self.tail(slot).is_incoming
    }

    fn continue_after(&mut self, slot: LogSlot, last: (u32, u64), is_incoming: bool) -> EngineResult<()> {
        let tail = self.tail(slot);
        let Some(row) = self.creations.row(tail.number).copied() else {
            return Err(EngineError::UnknownPartition);
        };
        let new = NewLogPartition {
            partition: row.partition,
            seed: row.seed,
            continues: Some((tail.number, last.1, last.0)),
            is_incoming,
            is_in_memory: tail.is_in_memory,
        };
        let (commit, covered) = (tail.commit, tail.covered);
        for begun in self.begin(&[new], None)? {
            // The slot keeps its place in the owner's table.
            self.tails.swap(slot.0 as usize, begun.0 as usize);
            self.free_slot(begun);
            self.tails[slot.0 as usize].is_changed = self.marks.changed.contains(&slot.0);
            self.note_progress(slot, commit, covered);
            self.change(slot);
        }
        Ok(())
    }

    /// Opens a log partition that recovery has found, and which goes on with its number.
    pub(super) fn reopen(
        &mut self,
        number: LogPartition,
        last: (u32, u64),
        new: &NewLogPartition,
    ) -> LogSlot {
        let mut tail = PartitionTail::new(number, new, None);
        tail.adopt(last);
        self.place(tail)
    }

    fn open_slot(&mut self, number: LogPartition, new: &NewLogPartition) -> LogSlot {
        let is_continued = |tail: &&PartitionTail| new.continues.is_some_and(|(n, ..)| n == tail.number);
        let tail = PartitionTail::new(number, new, self.tails.iter().find(is_continued));
        self.place(tail)
    }

    fn place(&mut self, tail: PartitionTail) -> LogSlot {
        match self.free_slots.pop() {
            Some(slot) => {
                self.tails[slot as usize] = tail;
                LogSlot(slot)
            }
            None => {
                self.tails.push(tail);
                LogSlot(self.tails.len() as u32 - 1)
            }
        }
    }

    fn free_slot(&mut self, slot: LogSlot) {
        self.marks.changed.retain(|changed| *changed != slot.0);
        self.free_slots.push(slot.0);
    }

    /// The row that drops the log partition of a slot, which is free again.
    fn dropped_row(&mut self, slot: LogSlot) -> Option<Creation> {
        self.segments_mut().for_each(|segment| segment.uses.forget(slot.0));
        let row = self.creations.row(self.tail(slot).number).copied();
        self.free_slot(slot);
        row.map(|row| Creation { is_dropped: true, ..row })
    }

    /// Whether a row may not survive a crash.
    pub(super) fn has_fresh_creations(&self) -> bool {
        self.marks.fresh.iter().any(|(_, begun)| *begun >= self.flushes.count.done)
    }

    fn add_creations(&mut self, rows: Vec<Creation>, is_on_disk: bool) {
        rows.iter().for_each(|row| self.creations.add(*row));
        if is_on_disk && !rows.is_empty() {
            let FlushCount { begun, done } = self.flushes.count;
            self.marks.fresh.retain(|(_, before)| *before >= done);
            self.marks.fresh.extend(rows.iter().map(|row| (row.number, begun)));
            self.marks.creations.extend(rows.iter().copied());
            let payload = self.creations_payload(rows);
            self.ensure_open(LogStream::Small, None, HEAD_BYTES + payload.len());
            self.push_local(SharedKind::Creations, &payload);
        }
    }

    /// The payload of an entry of these rows, and of those that they continue, as far as these may not survive a crash: a row
    /// must not survive without what makes the partition's earlier entries its own.
    pub(super) fn creations_payload(&self, mut rows: Vec<Creation>) -> Vec<u8> {
        let mut at = 0;
        while let Some(row) = rows.get(at) {
            let continued = row.continues.map(|(number, _)| number);
            let is_fresh = |number: &LogPartition| self.marks.fresh.iter().any(|(fresh, _)| fresh == number);
            let is_new = |number: &LogPartition| !rows.iter().any(|row| row.number == *number);
            let continued = continued.filter(is_fresh).filter(is_new);
            rows.extend(continued.and_then(|number| self.creations.row(number)));
            at += 1;
        }
        Creation::encode_all(&rows)
    }

    /// Counts that an entry of a segment becomes something else for its partition; `None`: dead, or not counted yet. An entry
    /// that was appended is counted as live.
    pub fn change_use(&mut self, entry: &EntryUseCount, from: Option<EntryUse>, to: Option<EntryUse>) {
        if let Some(segment) = self.segment_mut(entry.segment) {
            segment.uses.change(entry.slot.0, (entry.index, entry.bytes), from, to);
        }
    }

    /// Contents in a segment are needed as a removal from here on.
    pub(crate) fn note_dead_contents(&mut self, slot: LogSlot, segment: u64) {
        if let Some(segment) = self.segment_mut(segment) {
            segment.uses.note_dead_contents(slot.0);
        }
    }

    /// The owner counts what is used in the segments that recovery has found, and knows the lengths of entries there only as
    /// their locations name them.
    pub(crate) fn begin_counting(&mut self) {
        self.segments_mut().filter(|segment| !segment.state.is_counted).for_each(|s| s.uses.round());
    }

    /// The owner has counted what is used in the segments that recovery has found, before which compaction takes none of them.
    /// Without removals none is freed unread.
    pub fn end_counting(&mut self, with_removals: bool) {
        self.segments_mut().for_each(|segment| {
            segment.state.is_counted = true;
            segment.state.are_removals_counted |= with_removals;
        });
    }

    /// What compaction could not read of a segment is elsewhere by now, or given up.
    pub fn end_damage(&mut self, segment: u64) {
        if let Some(segment) = self.segment_mut(segment).filter(|segment| segment.state.is_damaged) {
            segment.uses.clear();
            (segment.state.is_damaged, segment.state.are_removals_counted) = (false, true);
        }
    }

    /// The same, if nothing is used of the segment any more.
    pub(crate) fn end_damage_if_unused(&mut self, segment: u64) {
        let is_unused = |segment: &SharedSegment| segment.uses.sums().sum() == 0;
        if self.segment(segment).is_some_and(is_unused) {
            self.end_damage(segment);
        }
    }

    fn segments_mut(&mut self) -> impl Iterator<Item = &mut SharedSegment> {
        let open = self.open.iter_mut().flatten();
        self.sealed.values_mut().chain(open).map(|segment| &mut **segment)
    }

    /// Sets the commit index, and the index that checkpoints cover, for the next mark.
    pub fn note_progress(&mut self, slot: LogSlot, commit: u64, covered: u64) {
        let tail = &mut self.tails[slot.0 as usize];
        let covered = covered.max(tail.covered);
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

    /// Appends a mark, if there is anything to say: what survives a crash by now, after the creations since the last mark again.
    /// Returns whether there was.
    ///
    /// # Errors
    /// [`EngineError::Stopped`].
    pub fn mark(&mut self) -> EngineResult<bool> {
        self.check_runs()?;
        let is_news = self.marks.checkpoint != self.marks.marked_checkpoint;
        let is_any = is_news || !self.marks.changed.is_empty() || !self.marks.creations.is_empty();
        if is_any {
            self.ensure_open(LogStream::Small, None, 0);
            self.push_mark();
        }
        Ok(is_any)
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
            open.state.is_base_fixed = true;
        }
        let creations = std::mem::take(&mut self.marks.creations);
        if !creations.is_empty() {
            let payload = self.creations_payload(creations);
            self.push_local(SharedKind::Creations, &payload);
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
        self.marks.marked_checkpoint = self.marks.checkpoint;
        self.marks.due_bytes = MARK_EVERY_BYTES.max(MARK_EVERY_LENGTHS * mark.len() as u64);
    }
}
