//! An engine over one log of all its partitions: what differs from partitions with logs of their own.

use super::durability::begin_durability;
use super::{Engine, Handle, store_of};
use crate::disk::Disk;
use crate::engine::report::RecoveryReport;
use crate::error::{EngineError, EngineResult};
use crate::io::Logs;
use crate::log::shared::format::LogId;
use crate::log::shared::prefix::LogDamage;
use crate::log::shared::recover::{read_section, recover};
use crate::log::shared::streams::SharedLogOptions;
use crate::logs::SharedLogs;
use crate::options::Durability;
use crate::{Damage, DamageKind, PartitionId};

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
        report.journal.extend(damage.iter().filter_map(damage_of_all));
        Ok(())
    }

    /// Changes the places of entries whose file has failed.
    pub(super) fn settle_moved(&mut self) -> EngineResult<()> {
        let Engine { io, partitions, .. } = self;
        let (logs, mut resources) = io.split_resources();
        let Some(shared) = logs.shared_mut() else { return Ok(()) };
        for moved in shared.take_moved(&mut resources)? {
            if let Ok(store) = store_of(partitions, Handle(moved.handle)) {
                store.redirect(&moved);
            }
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
        let (logs, mut resources) = io.split_resources();
        if let Some(shared) = logs.shared_mut() {
            if is_unused {
                shared.set_in_memory(store.handle, !is_to_disk);
            } else if is_in_memory && is_to_disk {
                let moved = shared.write_to_disk(&mut resources, store.handle, facts)?;
                moved.iter().for_each(|moved| store.redirect(moved));
            }
        }
        if !is_unused && is_to_disk && (durability == Durability::Sync || before == Durability::Memory) {
            self.flush_shared(true)?;
        }
        let Engine { partitions, maintenance, .. } = self;
        let store = store_of(partitions, handle)?;
        begin_durability(maintenance, (handle, store), durability);
        Ok(durability)
    }

    /// What the shared log is not used for before it can do it.
    ///
    /// # Errors
    /// [`EngineError::Limit`].
    pub(super) fn check_separate(&self, what: &'static str) -> EngineResult<()> {
        match self.io.logs.shared() {
            Some(_) => Err(EngineError::Limit { what }),
            None => Ok(()),
        }
    }
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
