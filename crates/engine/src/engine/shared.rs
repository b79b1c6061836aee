//! An engine over one log of all its partitions: what differs from partitions with logs of their own.

use std::collections::BTreeSet;

use super::durability::begin_durability;
use super::log_owner::StoresOfLog;
use super::{Engine, Handle, store_of};
use crate::disk::Disk;
use crate::engine::report::RecoveryReport;
use crate::error::{EngineError, EngineResult};
use crate::io::Logs;
use crate::limits::CHECKPOINTS_RETAINED;
use crate::log::shared::compact::{StreamFigures, figures};
use crate::log::shared::format::{LogId, LogStream};
use crate::log::shared::live_bytes::EntryUse;
use crate::log::shared::prefix::LogDamage;
use crate::log::shared::recover::{read_section, recover};
use crate::log::shared::rounds::learn_runs;
use crate::log::shared::streams::SharedLogOptions;
use crate::logs::{CountedEntry, RelocatedPlace, SharedLogs};
use crate::options::Durability;
use crate::planted::{Bug, is_planted};
use crate::store::PartitionStore;
use crate::store::entry_use::PlacedEntry;
use crate::{Damage, DamageKind, PartitionId};

/// Steps of a compaction that is waited for, between two flushes.
const COMPACTION_STEPS_AT_ONCE: u64 = 64;

/// The folder of the log.
pub(super) const LOG_FOLDER: &str = "log";

/// The log of an idle instance records after so many milliseconds what survives a crash.
const MARK_AFTER_MS: u64 = 100;

/// The shortest segments of the small and of the large stream: several of the longest entries of tests fit.
const SEGMENT_BYTES_MIN: u64 = 24 << 10;
const LARGE_SEGMENT_BYTES_MIN: u64 = 300 << 10;

impl<D: Disk> Engine<D> {
    /// Reads the log of all partitions.
    pub(super) fn open_shared(&mut self, log: LogId, report: &mut RecoveryReport) -> EngineResult<()> {
        let recovery = recover(&mut self.io.disk, LOG_FOLDER, log)?;
        let (found, damage) = (recovery.partitions.clone(), recovery.damage.clone());
        let options = SharedLogOptions {
            segment_bytes: self.options.segment_bytes.max(SEGMENT_BYTES_MIN),
            large_segment_bytes: (4 * self.options.segment_bytes).max(LARGE_SEGMENT_BYTES_MIN),
            ..SharedLogOptions::new(LOG_FOLDER, log)
        };
        let (logs, slots) = SharedLogs::resume(&mut self.io.disk, options, recovery)?;
        self.io.logs = Logs::Shared(Box::new(logs));
        let keeps_lost = damage.iter().any(|damage| matches!(damage, LogDamage::Copies { .. }));
        for (log, slot) in found.iter().zip(slots) {
            let section = match &log.section {
                Some(row) => read_section(&mut self.io.disk, LOG_FOLDER, row)?,
                None => None,
            };
            let handle = self.add_found(log.partition, log.seed, slot);
            let Engine { io, partitions, maintenance, .. } = self;
            let store = store_of(partitions, handle)?;
            if let Some(shared) = io.logs.shared() {
                store.checkpoints.retained = shared.rounds.retained(&shared.log, slot);
            }
            let mut recovered = store.recover_shared(io, log, section.as_deref(), keeps_lost)?;
            let of_it = damage.iter().filter_map(|damage| damage_of(damage, log.partition, &io.logs));
            recovered.damage.extend(of_it);
            store.damage = recovered.damage.clone();
            maintenance.recovered(&io.logs, handle, store);
            report.partitions.push((log.partition, recovered));
        }
        self.count_live();
        report.journal.extend(damage.iter().filter_map(damage_of_all));
        Ok(())
    }

    /// Counts what the stores refer to, all of which are complete: compaction may begin.
    fn count_live(&mut self) {
        let Engine { io, partitions, .. } = self;
        if let Some(shared) = io.logs.shared_mut() {
            shared.begin_counting();
        }
        partitions.iter().flatten().for_each(|store| store.count_live(&mut io.logs));
        if let Some(shared) = io.logs.shared_mut() {
            shared.end_counting();
        }
    }

    /// Changes the places of entries whose file has failed.
    pub(super) fn settle_moved(&mut self) -> EngineResult<()> {
        let Engine { io, partitions, .. } = self;
        let (logs, mut resources) = io.split_resources();
        let Some(shared) = logs.shared_mut() else { return Ok(()) };
        for moved in shared.take_moved(&mut resources)? {
            let Ok(store) = store_of(partitions, Handle(moved.handle)) else { continue };
            let entry_use = store.use_of(&placed_entry(&moved));
            store.redirect(&placed_entry(&moved), moved.to);
            let [from, to] = [moved.from, moved.to].map(|at| CountedEntry::at(moved.index, at));
            shared.change_use(moved.handle, from, entry_use, None);
            shared.change_use(moved.handle, to, None, entry_use);
        }
        Ok(())
    }

    /// The log cannot go on, unless the disk is only full: no partition that is on the disk accepts more entries.
    pub(super) fn shared_failed(&mut self, error: EngineError) -> EngineError {
        let has_stopped = self.io.logs.shared().is_some_and(|shared| shared.log.has_stopped());
        if has_stopped {
            for store in self.partitions.iter_mut().flatten().filter(|s| s.durability != Durability::Memory) {
                store.stopped.get_or_insert_with(|| error.to_string().into_boxed_str());
            }
        }
        error
    }

    /// See [`Engine::flush`]. With `all` also if no owner waits.
    pub(super) fn flush_shared(&mut self, all: bool) -> EngineResult<()> {
        let (logs, mut resources) = self.io.split_resources();
        let Some(shared) = logs.shared_mut().filter(|shared| all || shared.wants_flush) else {
            return Ok(());
        };
        let flushed = shared.flush(&mut resources);
        self.settle_moved()?;
        flushed.map_err(|error| self.shared_failed(error))
    }

    /// See [`Engine::flush_begin`].
    pub(super) fn flush_begin_shared(&mut self) -> EngineResult<bool> {
        let (logs, mut resources) = self.io.split_resources();
        let Some(shared) = logs.shared_mut().filter(|shared| shared.wants_flush) else { return Ok(false) };
        let begun = shared.flush_begin(&mut resources);
        if begun == Ok(true) {
            shared.wants_flush = false;
        }
        self.settle_moved()?;
        match begun {
            Ok(true) => Ok(true),
            // One flush runs at a time.
            Ok(false) => self.flush_shared(false).map(|()| false),
            Err(error) => Err(self.shared_failed(error)),
        }
    }

    /// See [`Engine::flush_done`].
    pub(super) fn flush_done_shared(&mut self) -> EngineResult<bool> {
        let (logs, mut resources) = self.io.split_resources();
        let Some(shared) = logs.shared_mut() else { return Ok(true) };
        let done = shared.flush_done(&mut resources, false);
        shared.wants_flush |= done.is_err();
        self.settle_moved()?;
        done.map_err(|error| self.shared_failed(error))
    }

    /// Starts to make durable what is due: all partitions together.
    pub(super) fn sync_dirty_shared(&mut self, now_ms: u64) -> EngineResult<()> {
        let is_stopped = self.io.logs.shared().is_none_or(|shared| shared.log.has_stopped());
        if is_stopped || !self.flush_done_shared()? {
            return Ok(());
        }
        let Engine { io, partitions, maintenance, .. } = self;
        let (logs, mut resources) = io.split_resources();
        let Some(shared) = logs.shared_mut() else { return Ok(()) };
        let is_any_due = maintenance.dirty.first().is_some_and(|(due, _)| *due <= now_ms);
        let is_due = is_any_due || shared.log.needs_flush();
        let is_mark_due = now_ms >= maintenance.mark_at_ms && maintenance.dirty.is_empty();
        if !is_due && !is_mark_due {
            shared.count(&mut resources);
            return Ok(());
        }
        maintenance.mark_at_ms = now_ms.saturating_add(MARK_AFTER_MS);
        for store in partitions.iter().flatten().filter(|store| store.is_dirty) {
            if let Some(slot) = shared.slot(store.handle) {
                shared.log.note_progress(slot, store.commit, store.checkpoints.covered());
            }
        }
        let begun = match is_due {
            true => shared.flush_begin(&mut resources),
            false => match shared.log.mark() {
                Ok(true) => shared.flush_begin(&mut resources),
                marked => marked,
            },
        };
        if begun == Ok(true) {
            maintenance.counts.segment_syncs += 1;
            partitions.iter_mut().flatten().for_each(|store| store.is_dirty = false);
            maintenance.dirty.clear();
            maintenance.sync_due.clear();
        }
        self.settle_moved()?;
        match begun {
            // Tried again with the next call.
            Err(error) if error.is_out_of_space() => Ok(()),
            Err(error) => Err(self.shared_failed(error)),
            Ok(_) => Ok(()),
        }
    }

    /// Frees and copies what is due of the log. Returns whether there is more to do at once.
    pub(super) fn step_shared_compaction(&mut self, steps: u64) -> EngineResult<bool> {
        let is_pressed = self.io.logs.shared().is_some_and(|shared| shared.compaction.is_pressed());
        let is_pressed = is_pressed || self.io.memory.is_over();
        let free_bytes = if is_pressed { 0 } else { self.io.space.free_bytes() };
        let mut has_more = true;
        for _ in 0..steps {
            let Engine { io, partitions, maintenance, .. } = self;
            let Some(shared) = io.logs.shared_mut().filter(|shared| !shared.log.has_stopped()) else {
                return Ok(false);
            };
            if maintenance.round.is_between_sections() {
                shared.segments.reuse_released();
            }
            if !shared.segments.has_room() {
                return Ok(false);
            }
            let (log, rounds, compaction, parts) = shared.split_for_compaction();
            learn_runs(log, &mut io.disk)?;
            has_more = compaction.is_due(log, rounds, free_bytes);
            if !has_more {
                break;
            }
            let is_stopped = |store: &&PartitionStore| store.is_stopped();
            for store in partitions.iter().flatten().map(|store| &**store).filter(is_stopped) {
                if let Some(slot) = parts.slot(store.handle) {
                    compaction.hold_all(log, slot);
                }
            }
            let mut owner = StoresOfLog { partitions, parts };
            let step = match compaction.step(log, rounds, &mut io.disk, &mut owner) {
                Ok(step) => step,
                // Tried again with the next call.
                Err(error) if error.is_out_of_space() => return Ok(false),
                Err(error) => return Err(self.shared_failed(error)),
            };
            if let Some(freed) = step.freed {
                shared.segments.release(freed);
                maintenance.counts.compactions += 1;
                maintenance.reclaim.is_given_back(maintenance.now_ms);
            }
            if step.is_idle {
                has_more = false;
                break;
            }
        }
        self.flush_for_compaction()?;
        Ok(has_more)
    }

    fn press_compaction(&mut self, is_pressed: bool) {
        if let Some(shared) = self.io.logs.shared_mut() {
            shared.compaction.press(is_pressed);
        }
    }

    /// Counts what is dead in the log.
    pub(super) fn look_at_shared_log(&mut self) {
        let Some(shared) = self.io.logs.shared() else { return };
        let figures = figures(&shared.log);
        let wasted = |stream: &StreamFigures| stream.dead + stream.used.removals;
        let bytes = figures.streams.iter().map(|stream| stream.used.sum() + stream.dead).sum();
        let on_disk =
            LogStream::ON_DISK.iter().map(|stream| wasted(&figures.streams[*stream as usize])).sum();
        self.maintenance.reclaim.set_log_bytes(bytes, figures.streams.iter().map(wasted).sum(), on_disk);
    }

    /// Has dead space of the log given back, however little is written, and the checkpoints made that it waits for.
    pub(super) fn press_shared_log(&mut self) {
        let is_short = self.is_short_of_space();
        let begins_alone = self.options.starts_checkpoints;
        let Engine { io, partitions, maintenance, .. } = self;
        let Some(shared) = io.logs.shared_mut() else { return };
        shared.compaction.earn_all(&shared.log);
        let mut pressed = BTreeSet::new();
        for slot in shared.rounds.blocking(&shared.log, is_short) {
            let Some(handle) = shared.handle_of(slot).map(Handle) else { continue };
            if store_of(partitions, handle).is_ok_and(|store| store.checkpoints.lacks_two(store.commit)) {
                pressed.insert(handle);
            }
        }
        shared.compaction.press(is_short);
        maintenance.reclaim.press_only(pressed.clone());
        if begins_alone {
            pressed.into_iter().for_each(|handle| self.checkpoint_later(handle));
        }
    }

    /// Writes down the commit index of each partition, before the flush of all streams that victims wait for: entries are dead for
    /// compaction once others are committed, and recovery must not fall back behind that.
    pub(super) fn mark_commits(&mut self) -> EngineResult<()> {
        let Engine { io, partitions, .. } = self;
        let Some(shared) = io.logs.shared_mut() else { return Ok(()) };
        if is_planted(Bug::CommitsNotMarked) {
            return Ok(());
        }
        for store in partitions.iter().flatten() {
            if let Some(slot) = shared.slot(store.handle) {
                shared.log.note_progress(slot, store.commit, 0);
            }
        }
        match shared.log.mark() {
            Err(error) => Err(self.shared_failed(error)),
            Ok(_) => Ok(()),
        }
    }

    /// Victims are free once a flush of all streams has ended.
    fn flush_for_compaction(&mut self) -> EngineResult<()> {
        let Some(shared) = self.io.logs.shared() else { return Ok(()) };
        if !shared.compaction.wants_flush(&shared.log) || shared.log.is_flushing() {
            return Ok(());
        }
        self.mark_commits()?;
        let (logs, mut resources) = self.io.split_resources();
        let Some(shared) = logs.shared_mut() else { return Ok(()) };
        let begun = shared.flush_begin_with_cold(&mut resources);
        self.settle_moved()?;
        match begun {
            Err(error) if !error.is_out_of_space() => Err(self.shared_failed(error)),
            _ => Ok(()),
        }
    }

    /// Compacts the log until nothing more is to be gained.
    pub(super) fn compact_shared(&mut self) -> EngineResult<()> {
        let is_alone = self.options.starts_checkpoints;
        for stream in LogStream::ON_DISK {
            if let Some(shared) = self.io.logs.shared_mut() {
                shared.log.seal(stream).map_err(|error| self.shared_failed(error))?;
            }
        }
        for _ in 0..if is_alone { CHECKPOINTS_RETAINED } else { 0 } {
            for (_, handle) in self.partitions().collect::<Vec<_>>() {
                self.queue_section(handle, &[], true)?;
            }
            while self.step_round(true)? {}
        }
        loop {
            self.press_compaction(true);
            let has_more = self.step_shared_compaction(COMPACTION_STEPS_AT_ONCE)?;
            self.press_compaction(false);
            let (logs, mut resources) = self.io.split_resources();
            let Some(shared) = logs.shared_mut() else { return Ok(()) };
            let is_flushing = shared.log.is_flushing();
            let flushed = shared.flush_done(&mut resources, true);
            self.settle_moved()?;
            flushed.map_err(|error| self.shared_failed(error))?;
            if !has_more && !is_flushing {
                return Ok(());
            }
        }
    }

    /// See [`Engine::set_durability`].
    pub(super) fn set_durability_shared(
        &mut self,
        handle: Handle,
        durability: Durability,
    ) -> EngineResult<Durability> {
        let (io, store) = self.store(handle)?;
        let (is_unused, before) = (io.logs.view(store.handle).is_unused(), store.durability);
        let is_in_memory = io.logs.view(store.handle).is_in_memory_only();
        let durability = match durability {
            Durability::Memory if !is_unused && !is_in_memory => super::durability::ON_DISK_ALREADY,
            _ => durability,
        };
        if before == durability {
            return Ok(durability);
        }
        let (facts, is_to_disk) = (store.log_facts(), durability != Durability::Memory);
        let committed = (store.epoch_at(io, store.commit)?.unwrap_or_default(), store.commit);
        let (logs, mut resources) = io.split_resources();
        if let Some(shared) = logs.shared_mut() {
            if is_unused {
                shared.set_in_memory(store.handle, !is_to_disk);
            } else if is_in_memory && is_to_disk {
                let moved = shared.write_to_disk(&mut resources, store.handle, facts, committed)?;
                for moved in moved {
                    let entry_use = store.use_of(&placed_entry(&moved));
                    store.redirect(&placed_entry(&moved), moved.to);
                    let entry = CountedEntry::at(moved.index, moved.to);
                    shared.change_use(moved.handle, entry, Some(EntryUse::Live), entry_use);
                }
            }
        }
        let (io, store) = self.store(handle)?;
        // What recovery has found is durable: after a crash on a full disk there may be no room for a flush.
        let is_durable = store.durable_index(&mut io.logs) >= io.logs.view(store.handle).last().1;
        let needs_sync = durability == Durability::Sync || before == Durability::Memory;
        if !is_unused && is_to_disk && needs_sync && !is_durable {
            self.flush_shared(true)?;
        }
        let Engine { partitions, maintenance, .. } = self;
        let store = store_of(partitions, handle)?;
        begin_durability(maintenance, (handle, store), durability);
        Ok(durability)
    }
}

fn placed_entry(moved: &RelocatedPlace) -> PlacedEntry<'_> {
    let RelocatedPlace { index, kind, flags, ref key, from, .. } = *moved;
    PlacedEntry { index, kind, flags, key, at: from }
}

/// Damage to a partition, in the words of reports.
fn damage_of(damage: &LogDamage, partition: PartitionId, logs: &Logs) -> Option<Damage> {
    let place = LOG_FOLDER.to_owned();
    match damage {
        LogDamage::Missing { partition: whose, from, through } if *whose == partition => {
            let kind = DamageKind::Missing { from: *from, through: *through };
            Some(Damage { partition, kind, place })
        }
        LogDamage::Section { number, round } => {
            let creations = logs.shared()?.log.creations();
            let is_its = creations.lineage(partition).any(|ancestor| ancestor.number == *number);
            let place = format!("{LOG_FOLDER}/{round:016x}.ckp");
            is_its.then_some(Damage { partition, kind: DamageKind::Checkpoint, place })
        }
        _ => None,
    }
}

/// Damage that is not of one partition.
fn damage_of_all(damage: &LogDamage) -> Option<Damage> {
    let (kind, place) = match damage {
        LogDamage::Copies { range } => {
            let place = format!("{LOG_FOLDER}/{:016x}.log+{}", range.segment, range.from);
            (DamageKind::Unreadable { after: 0 }, place)
        }
        LogDamage::Header { segment } => {
            (DamageKind::Unreadable { after: 0 }, format!("{LOG_FOLDER}/{segment:016x}.log"))
        }
        LogDamage::Round { round } => (DamageKind::Checkpoint, format!("{LOG_FOLDER}/{round:016x}.ckp")),
        LogDamage::Unowned { number } => {
            (DamageKind::Unreadable { after: 0 }, format!("{LOG_FOLDER}, log partition {}", number.0))
        }
        LogDamage::Missing { .. } | LogDamage::Payload { .. } | LogDamage::Section { .. } => return None,
    };
    Some(Damage { partition: PartitionId::default(), kind, place })
}
