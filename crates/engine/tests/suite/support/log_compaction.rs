//! Compaction of the model of a shared log.

use std::collections::BTreeMap;

use zerohop_engine::log::shared::compact::{STEP_READ_BYTES, used_of};
use zerohop_engine::log::shared::live_bytes::EntryUse;
use zerohop_engine::log::shared::streams::LogSlot;
use zerohop_engine::{EngineError, PartitionId};

use super::log_model::{UsedEntry, WorldOwner, counted};
use super::log_world::LogWorld;

impl LogWorld {
    /// Some steps of compaction.
    pub fn compact(&mut self) -> Result<(), EngineError> {
        let free = if self.random.chance(1, 2) { 0 } else { u64::MAX };
        self.compaction.is_due(&self.log, &self.rounds, free);
        for _ in 0..1 + self.random.below(12) {
            if self.compact_once()? {
                return Ok(());
            }
            if self.compaction.wants_flush(&self.log) && self.random.chance(1, 2) {
                self.flush()?;
                self.follow_moves();
            }
        }
        Ok(())
    }

    /// A step of compaction. Returns whether there was nothing to do.
    pub fn compact_once(&mut self) -> Result<bool, EngineError> {
        let reads = self.disk.counts().bytes_read;
        let mut owner = WorldOwner { partitions: &mut self.partitions, spans: &mut self.spans };
        let step = self.compaction.step(&mut self.log, &self.rounds, &mut self.disk, &mut owner)?;
        let read = self.disk.counts().bytes_read - reads;
        assert!(read <= STEP_READ_BYTES as u64 && step.copied <= STEP_READ_BYTES, "{read}: {step:?}");
        if let Some(freed) = step.freed {
            self.spans.retain(|span| span.0 != freed);
            self.counts.recycled += 1;
            // Removals that nothing needs go with it unread.
            let is_gone =
                |used: &UsedEntry| used.place.segment == freed && used.entry_use == EntryUse::Removal;
            self.partitions.values_mut().for_each(|p| p.uses.retain(|_, used| !is_gone(used)));
        }
        self.check_counts();
        self.check_holds();
        Ok(step.is_idle)
    }

    /// What the log counts is what the model uses.
    fn check_counts(&self) {
        let mut used: BTreeMap<u64, u64> = BTreeMap::new();
        let all = self.partitions.values().flat_map(|partition| partition.uses.values());
        all.for_each(|entry| *used.entry(entry.place.segment).or_default() += u64::from(entry.bytes));
        for segment in self.log.segments() {
            let counted = used_of(&self.log, segment).expect("is there").sum();
            assert_eq!(counted, used.remove(&segment).unwrap_or_default(), "bytes used of segment {segment}");
        }
        assert_eq!(used.len(), 0, "used places in segments that are gone: {used:?}");
    }

    /// What a reader of the log needs is where it was.
    fn check_holds(&mut self) {
        let mut into = Vec::new();
        for partition in self.partitions.values() {
            for (index, place) in partition.hold.iter().flat_map(|(_, places)| places) {
                let head = self.log.read(&mut self.disk, *place, &mut into);
                let index_there = head.map(|head| head.index);
                assert!(self.disk.is_power_off() || index_there == Ok(*index), "{index}: {index_there:?}");
            }
        }
    }

    /// A reader begins, or ends.
    pub fn hold(&mut self, id: PartitionId, slot: LogSlot) {
        let Some(partition) = self.partitions.get_mut(&id) else { return };
        if let Some((hold, ..)) = partition.hold.take() {
            return self.compaction.release(hold);
        }
        let above = self.random.below(partition.now().len() as u64 + 1);
        let entries = partition.uses.range(above + 1..);
        // Copies are not where the log is read.
        let places: Vec<_> = entries.map(|(index, used)| (*index, used.place)).collect();
        partition.hold = Some((self.compaction.hold(slot, above), places));
    }

    /// All readers end.
    pub fn end_holds(&mut self) {
        for (hold, _) in self.partitions.values_mut().filter_map(|partition| partition.hold.take()) {
            self.compaction.release(hold);
        }
    }

    /// The partition has another life, or none.
    pub fn end_life(&mut self, id: PartitionId) {
        let Some(partition) = self.partitions.get_mut(&id) else { return };
        partition.uses.clear();
        if let Some((hold, ..)) = partition.hold.take() {
            self.compaction.release(hold);
        }
    }

    /// Entries up to an index are committed: what they replace is dead.
    pub fn commit(&mut self, id: PartitionId) {
        let partition = self.partitions.get_mut(&id).expect("is known");
        let Some(slot) = partition.slot else { return };
        let most = partition.now().len() as u64;
        let commit = partition.last_unit(most - self.random.below(most.min(3) + 1));
        partition.commit = commit.max(partition.commit);
        self.log.note_progress(slot, partition.commit, 0);
        let is_kept = self.random.chance(1, 4);
        partition.settle(&mut self.log, is_kept);
    }

    /// The snapshots of a partition end.
    pub fn end_kept(&mut self, id: PartitionId) {
        let partition = self.partitions.get_mut(&id).expect("is known");
        let Some(slot) = partition.slot else { return };
        for (index, used) in partition.uses.iter().filter(|(_, used)| used.entry_use == EntryUse::Kept) {
            self.log.change_use(&counted(slot, *index, used), Some(EntryUse::Kept), None);
        }
        partition.uses.retain(|_, used| used.entry_use != EntryUse::Kept);
    }
}
