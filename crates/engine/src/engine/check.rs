//! Broken invariants of a partition, whether the engine finds them or its owner: nothing more is written to its log.

use zerohop_base::invariant::BrokenInvariant;

use super::{Engine, Handle};
use crate::disk::Disk;
use crate::error::EngineResult;
use crate::store::recount::{SegmentRecount, recount};

impl<D: Disk> Engine<D> {
    /// Checks the invariants of a partition's log that cost the same for every log. The owner calls it at the end of each of its
    /// steps. A partition that is not open keeps all of them.
    ///
    /// # Errors
    /// The broken invariant; the owner then calls [`Engine::stop_broken`].
    #[inline]
    pub fn check(&self, handle: Handle) -> Result<(), BrokenInvariant> {
        match self.partitions.get(handle.0 as usize) {
            Some(Some(store)) => store.check(&self.io.logs),
            _ => Ok(()),
        }
    }

    /// Why the disk has failed under the partition's log, which accepts no entries before the partition is opened again.
    pub fn disk_failure(&self, handle: Handle) -> Option<&str> {
        self.partitions.get(handle.0 as usize)?.as_ref()?.stopped.as_deref()
    }

    /// An invariant of the partition is broken: its log gets no more entries, is not truncated, compacted or covered by a
    /// checkpoint until the partition is opened again. The entries that it has are made durable as before, because they may
    /// have been acknowledged. Other partitions go on.
    pub fn stop_broken(&mut self, handle: Handle, broken: BrokenInvariant) {
        if let Ok((_, store)) = self.store(handle) {
            store.broken.get_or_insert_with(|| Box::new(broken));
        }
    }

    /// Counts the dead bytes of each segment from the log and the index, beside the counters that must equal them. Reads the
    /// complete log. Empty while no exact count is possible: while compaction redirects locations, during a snapshot install,
    /// after a failure of the disk, and if a part of the log is corrupt.
    ///
    /// # Errors
    /// [`crate::EngineError::UnknownPartition`]; errors of the disk.
    pub fn recount(&mut self, handle: Handle) -> EngineResult<Vec<SegmentRecount>> {
        let (io, store) = self.store(handle)?;
        recount(store, io)
    }

    /// The end of a step that has changed a partition's log.
    #[inline]
    pub(super) fn end_step(&mut self, handle: Handle) {
        if cfg!(debug_assertions)
            && let Ok((io, store)) = self.store(handle)
        {
            store.end_step(&io.logs);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::simulated::SimulatedDisk;
    use crate::log::PartitionLog;
    use crate::store::PartitionStore;
    use crate::{
        Durability, EngineError, EngineOptions, EntryKind, EntryMeta, PartitionId, PartitionOptions,
    };

    /// Two segments and a bit, of which the last entries are not committed.
    fn filled() -> (Engine<SimulatedDisk>, Handle) {
        let options = EngineOptions {
            segment_bytes: 64 << 10,
            disk_reserve_bytes: 0,
            starts_checkpoints: false,
            ..EngineOptions::default()
        };
        let (mut engine, _) = Engine::open(SimulatedDisk::new(1), options).expect("opens");
        let options = PartitionOptions { durability: Durability::DEFAULT, index_seed: 7 };
        let handle = engine.partition(PartitionId(1), options).expect("opens");
        for index in 1..=200 {
            append(&mut engine, handle, index).expect("is accepted");
        }
        engine.commit(handle, 150).expect("is committed");
        engine.sync().expect("syncs");
        (engine, handle)
    }

    fn append(engine: &mut Engine<SimulatedDisk>, handle: Handle, index: u64) -> Result<(), EngineError> {
        let meta = EntryMeta { kind: EntryKind::Put, flags: 0, epoch: 1, index, timestamp: index };
        engine.append(handle, &meta, format!("key {index}").as_bytes(), &[7; 1_000])
    }

    /// The rule that is broken after this change of the state.
    fn broken_by(
        change: impl FnOnce(&mut PartitionStore, &mut PartitionLog),
    ) -> (Option<&'static str>, Option<&'static str>) {
        let (mut engine, handle) = filled();
        let (io, store) = engine.store(handle).expect("is open");
        assert!(io.logs.separate(store.handle).order.len() > 2 && store.check_all(&io.logs) == Ok(()));
        change(store, io.logs.separate_mut(handle.0));
        let rule = |checked: Result<(), BrokenInvariant>| checked.err().map(|broken| broken.rule);
        (rule(store.check(&io.logs)), rule(store.check_all(&io.logs)))
    }

    #[test]
    fn each_broken_step_invariant_is_named() {
        let both = |rule| (Some(rule), Some(rule));
        let found = broken_by(|_, log| log.last.1 = 149);
        assert_eq!(found, both("no entry is committed that is not in the log"));
        let found = broken_by(|store, _| store.commit = 151);
        assert_eq!(found, both("no pending entry is committed"));
        let found = broken_by(|_, log| log.last.1 = 199);
        assert_eq!(found, both("the pending entries are in the log"));
        let is_in_order = "a segment is synced up to what is written, and written up to its end";
        let open = |log: &PartitionLog| log.order.last().copied().expect("has segments");
        let found = broken_by(|_, log| {
            let slot = open(log);
            let segment = log.segment_mut(slot);
            segment.written = segment.bytes + 1;
        });
        assert_eq!(found, both(is_in_order));
        let found = broken_by(|_, log| {
            let slot = open(log);
            let segment = log.segment_mut(slot);
            segment.synced = segment.written + 1;
        });
        assert_eq!(found, both(is_in_order));
    }

    #[test]
    fn each_broken_segment_invariant_is_named() {
        let only_all = |rule| (None, Some(rule));
        let found = broken_by(|_, log| log.order.insert(0, 1_000));
        assert_eq!(found, only_all("the order of segments names segments that exist"));
        let first = |log: &PartitionLog| log.order[0];
        let found = broken_by(|_, log| {
            let slot = first(log);
            let segment = log.segment_mut(slot);
            segment.synced = segment.bytes + 1;
        });
        assert_eq!(found, only_all("a segment is synced up to what is written, and written up to its end"));
        let found = broken_by(|_, log| log.order.swap(0, 1));
        assert_eq!(found, only_all("the segments are in the order of their log indexes"));
        let found = broken_by(|_, log| {
            let slot = first(log);
            log.segment_mut(slot).sealed = false;
        });
        assert_eq!(found, only_all("only the last segment is open"));
        let are_sound = "a segment has no more dead bytes and removals than bytes";
        let found = broken_by(|_, log| {
            let slot = first(log);
            let segment = log.segment_mut(slot);
            segment.dead_bytes = segment.bytes + 1;
        });
        assert_eq!(found, only_all(are_sound));
        let found = broken_by(|_, log| {
            let slot = first(log);
            let segment = log.segment_mut(slot);
            (segment.dead_bytes, segment.removal_bytes) = (1, segment.bytes);
        });
        assert_eq!(found, only_all(are_sound));
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "no pending entry is committed")]
    fn a_step_ends_with_a_check() {
        let (mut engine, handle) = filled();
        engine.store(handle).expect("is open").1.commit = 151;
        drop(append(&mut engine, handle, 201));
    }

    #[test]
    fn broken_partition_refuses_writes_and_others_accept_them() {
        let (mut engine, handle) = filled();
        let options = PartitionOptions { durability: Durability::Sync, index_seed: 7 };
        let other = engine.partition(PartitionId(2), options).expect("opens");
        append(&mut engine, handle, 201).expect("is accepted");
        let broken = BrokenInvariant { owner: "a replica", rule: "it is whole" };
        engine.stop_broken(handle, broken);
        let error = append(&mut engine, handle, 202).expect_err("is refused").to_string();
        assert!(error.contains("an invariant of a replica is broken: it is whole"), "{error}");
        assert!(engine.truncate_after(handle, 160).is_err());
        append(&mut engine, other, 1).expect("is accepted");
        engine.flush().expect("flushes");
        engine.sync().expect("syncs");
        assert_eq!(engine.durable_index(handle), Ok(201), "what was accepted before is made durable");
        assert_eq!(engine.durable_index(other), Ok(1));
        let disk = engine.close().expect("closes");
        // The next start opens it, and writes it again.
        let options = EngineOptions { disk_reserve_bytes: 0, ..EngineOptions::default() };
        let (mut engine, report) = Engine::open(disk, options).expect("opens");
        assert_eq!(report.damage().next(), None);
        let options = PartitionOptions { durability: Durability::DEFAULT, index_seed: 7 };
        let handle = engine.partition(PartitionId(1), options).expect("opens");
        append(&mut engine, handle, 202).expect("is accepted");
    }
}
