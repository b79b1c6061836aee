//! Stops the engine in every way, and checks the restored state.

use zerohop_engine::disk::simulated::{DiskOperation, SimulatedDisk, SimulatedFaults};
use zerohop_engine::disk::{Disk, DiskResult};
use zerohop_engine::{
    Damage, DamageKind, Durability, EngineError, EntryRef, FLAG_JOINED, Handle, PartitionId,
};

use super::TestEngine as Engine;
use super::checks::{compare_all, walk};
use super::log_checks::corrupt_sections;
use super::part::ModelledPartition;
use super::world::EngineWorld;

impl EngineWorld {
    /// The engine stops: a power cut, the death of the process, or a clean close.
    pub fn crash(&mut self) -> Result<(), String> {
        let way = if self.power_cut_in.take().is_some() { 0 } else { self.random.below(8) };
        // After a failed sync, data in the system's cache may never reach the disk, even with
        // another sync, and a restarted process cannot know. Such a machine is restarted.
        let way = if self.disturbed && way == 5 { 0 } else { way };
        match way {
            0..=3 => self.lose_power(),
            4 => {
                self.trace(|| "power off, everything written".into());
                self.engine = None;
                self.disk.power_off_clean();
            }
            5 => {
                self.trace(|| "the process dies".into());
                self.engine = None;
            }
            _ => self.close()?,
        }
        self.end_faults();
        self.reopen()?;
        // Another crash, at once or after a little maintenance.
        while self.plan.fierce && self.random.chance(1, 3) {
            if self.random.chance(1, 2) {
                self.maintain()?;
            }
            match self.random.below(3) {
                0 => self.engine = None,
                _ => self.lose_power(),
            }
            self.end_faults();
            self.reopen()?;
        }
        Ok(())
    }

    /// Stops cleanly, for the last time.
    pub fn clean_restart(&mut self) -> Result<(), String> {
        if self.power_cut_in.take().is_some() {
            self.lose_power();
        } else {
            self.close()?;
        }
        self.end_faults();
        self.reopen()
    }

    fn lose_power(&mut self) {
        self.trace(|| "power cut".into());
        self.engine = None;
        self.disk.crash();
    }

    fn close(&mut self) -> Result<(), String> {
        self.trace(|| "close".into());
        if self.plan.fills_disk {
            self.disk.set_capacity(None);
        }
        let Some(engine) = self.engine.take() else { return Ok(()) };
        match engine.close() {
            Ok(_) => {
                for part in
                    self.parts.iter_mut().filter(|p| p.durability != Durability::Memory && !p.is_unsure)
                {
                    part.floor = part.floor.max(part.accepted);
                }
                Ok(())
            }
            Err(error) => {
                self.check_error("close", Durability::Sync, error)?;
                self.lose_power();
                Ok(())
            }
        }
    }

    fn end_faults(&mut self) {
        self.disk.set_faults(SimulatedFaults::default());
        self.disk.set_capacity(None);
        // A requested failure that has not happened yet is cancelled, as is a power cut.
        for operation in zerohop_engine::disk::simulated::DiskOperation::ALL {
            self.disk.fail_nth(operation, u64::MAX);
        }
        self.disturbed = false;
    }

    /// Opens again, sometimes with a power cut meanwhile, and compares everything.
    fn reopen(&mut self) -> Result<(), String> {
        while self.plan.cuts_power && self.random.chance(1, if self.plan.fierce { 3 } else { 6 }) {
            if self.random.chance(1, 3) {
                self.fail_to_open()?;
                continue;
            }
            let operations = self.random.below(80);
            self.trace(|| format!("opening, power goes after {operations} operations"));
            self.disk.cut_power_after(operations);
            match Engine::open(self.disk.clone(), self.plan.options) {
                Ok(_) | Err(EngineError::Disk(_)) => {}
                Err(error) => return Err(format!("opening while the power goes: {error}")),
            }
            self.disk.crash();
        }
        if self.plan.fills_disk && self.random.chance(1, 2) {
            self.open_when_full()?;
        }
        let twin = self.random.chance(1, 2).then(|| self.disk.duplicate());
        let opened = Engine::open(self.disk.clone(), self.plan.options);
        let (mut engine, report) = opened.map_err(|e| format!("opening again: {e}"))?;
        self.trace(|| format!("{report:?}"));
        let dropping: Vec<_> = self.parts.iter().filter(|p| p.is_dropping).map(|p| p.id).collect();
        if let Some(damage) = report.damage().find(|d| !dropping.contains(&d.partition)) {
            return Err(format!("nothing is corrupt, but: {damage}"));
        }
        for id in &dropping {
            if engine.partitions().any(|(there, _)| there == *id) {
                engine.drop_partition(*id).map_err(|e| format!("dropping {id} again: {e}"))?;
            }
        }
        self.engine = Some(engine);
        self.resolve_splits()?;
        for at in 0..self.parts.len() {
            self.check_partition(at)?;
        }
        if let Some(twin) = twin.filter(|_| dropping.is_empty()) {
            self.compare_twin(twin)?;
        }
        for at in 0..self.parts.len() {
            self.reopen_partition(at)?;
        }
        Ok(())
    }

    /// The engine opens although the disk is full, and is opened again when there is space.
    fn open_when_full(&mut self) -> Result<(), String> {
        let free = self.random.below(3000);
        self.trace(|| format!("opening with {free} bytes free"));
        self.disk.set_capacity(self.used_bytes() + free);
        let opened = Engine::open(self.disk.clone(), self.plan.options);
        let (mut engine, _) = opened.map_err(|e| format!("opening when the disk is full: {e}"))?;
        if self.plan.has_state_in_log {
            for (_, handle) in engine.partitions().collect::<Vec<_>>() {
                engine.declare_state_in_log(handle).map_err(|e| e.to_string())?;
            }
        }
        for _ in 0..self.random.below(20) {
            self.now_ms += 50;
            engine.maintain(self.now_ms).map_err(|e| format!("maintenance when the disk is full: {e}"))?;
        }
        drop(engine);
        if self.random.chance(1, 2) {
            self.disk.crash();
        }
        self.disk.set_capacity(None);
        Ok(())
    }

    /// A disk operation fails during the opening, and the next attempt succeeds, without a restart
    /// of the machine.
    fn fail_to_open(&mut self) -> Result<(), String> {
        const MAY_FAIL: [DiskOperation; 6] = [
            DiskOperation::Open,
            DiskOperation::ReadAt,
            DiskOperation::List,
            DiskOperation::Append,
            DiskOperation::Truncate,
            DiskOperation::Remove,
        ];
        let operation = MAY_FAIL[self.random.below(6) as usize];
        let nth = 1 + self.random.below(12);
        self.trace(|| format!("opening, {operation:?} number {nth} fails"));
        self.disk.fail_nth(operation, nth);
        let opened = Engine::open(self.disk.clone(), self.plan.options);
        self.disk.fail_nth(operation, u64::MAX);
        match opened {
            Ok(_) | Err(EngineError::Disk(_)) => Ok(()),
            Err(error) => Err(format!("opening while {operation:?} fails: {error}")),
        }
    }

    /// The restored log is a prefix of the written one, and has everything that was synced.
    fn check_partition(&mut self, at: usize) -> Result<(), String> {
        let ModelledPartition { id, durability, is_group, is_dropping, .. } = self.parts[at];
        let found = self.engine().partitions().find(|(there, _)| *there == id).map(|(_, handle)| handle);
        if durability == Durability::Memory || is_dropping {
            if let Some(handle) = found.filter(|_| !is_dropping) {
                let last = self.engine().partition_stats(handle).map_err(|e| e.to_string())?.last.1;
                // A partition that was on disk, and was then truncated to nothing, may have a
                // folder.
                if last > 0 {
                    return Err(format!("p{at}: a partition in memory has files"));
                }
                self.engine().drop_partition(id).map_err(|error| error.to_string())?;
            }
            let again = ModelledPartition::new(id, zerohop_engine::Handle(0), durability, is_group);
            self.parts[at] = again;
            self.parts[at].handle = self.declare_at(at)?;
            return Ok(());
        }
        let handle = match found {
            Some(handle) => handle,
            None => self.declare_at(at)?,
        };
        let stats = self.engine().partition_stats(handle).map_err(|e| e.to_string())?;
        let part = &mut self.parts[at];
        part.handle = handle;
        let (epoch, last) = stats.last;
        if last < part.floor || last > part.last() {
            let (floor, end) = (part.floor, part.last());
            return Err(format!("p{at}: {last} entries came back; {floor} were durable, {end} written"));
        }
        if part.batch_boundary_at(last) != last {
            return Err(format!("p{at}: ends at {last}, within a unit"));
        }
        let expected_epoch = if last == 0 { 0 } else { part.log[last as usize - 1].meta.epoch };
        if epoch != expected_epoch {
            return Err(format!("p{at}: ends at {last} of epoch {epoch}, not {expected_epoch}"));
        }
        if stats.commit > part.commit {
            return Err(format!("p{at}: {} committed, but only {} were", stats.commit, part.commit));
        }
        if stats.durable != last {
            return Err(format!("p{at}: after opening only {} of {last} durable", stats.durable));
        }
        part.restart_at(last, stats.commit);
        let part = &self.parts[at];
        let engine = self.engine.as_mut().expect("open");
        compare_all(engine, part, handle, &part.records)
            .map_err(|error| format!("p{at}: {error}"))?
            .map_err(|wrong| format!("after opening: {wrong}"))?;
        self.check_ends(at)?;
        self.check_state(at)?;
        self.check_counters(at)?;
        self.scan(at)
    }

    /// An upper layer finds its state in the checkpoint, and every later entry.
    fn check_state(&mut self, at: usize) -> Result<(), String> {
        if !self.plan.has_state_in_log {
            return Ok(());
        }
        let engine = self.engine.as_mut().expect("open");
        check_state_of(engine, self.parts[at].handle, &self.parts[at])
            .map_err(|wrong| format!("p{at}: {wrong}"))
    }

    fn declare_at(&mut self, at: usize) -> Result<zerohop_engine::Handle, String> {
        let ModelledPartition { id, durability, index_seed, .. } = self.parts[at];
        self.declare(id, durability, index_seed)
    }

    /// A partition is declared again and continues.
    fn reopen_partition(&mut self, at: usize) -> Result<(), String> {
        let handle = self.declare_at(at)?;
        let part = &mut self.parts[at];
        part.handle = handle;
        if part.durability == Durability::Memory {
            return Ok(());
        }
        let upto = if part.is_group {
            part.commit + self.random.below(part.last() - part.commit + 1)
        } else {
            u64::MAX
        };
        part.commit_to(upto);
        part.begin_epoch(false);
        self.engine().commit(handle, upto).map_err(|e| format!("committing again: {e}"))?;
        self.check_counters(at)?;
        self.check_ends(at)
    }

    /// The same files without their checkpoints, or without the newest of them, give the same
    /// state: nothing was dropped too early.
    fn compare_twin(&mut self, twin: SimulatedDisk) -> Result<(), String> {
        let mut disk = twin.clone();
        let only_newest = self.random.chance(1, 3);
        for folder in disk.list("").map_err(|e| e.to_string())? {
            let names = disk.list(&folder.name).map_err(|e| e.to_string())?;
            let checkpoints: Vec<_> = names.iter().filter(|n| n.name.ends_with(".ckp")).collect();
            // A single checkpoint has no older one as a substitute.
            let kept = match only_newest && checkpoints.len() > 1 {
                true => checkpoints.len() - 1,
                // The directories of rounds are not in the log too, once compaction has freed segments.
                false if self.plan.is_shared() => checkpoints.len(),
                false => 0,
            };
            for name in &checkpoints[kept..] {
                disk.remove(&format!("{}/{}", folder.name, name.name)).map_err(|e| e.to_string())?;
            }
        }
        if self.plan.is_shared() && !only_newest {
            corrupt_sections(&mut disk);
        }
        let (mut other, report) =
            Engine::open(twin, self.plan.options).map_err(|e| format!("without checkpoints: {e}"))?;
        let is_expected = |damage: &&Damage| self.plan.is_shared() && damage.kind == DamageKind::Checkpoint;
        if let Some(damage) = report.damage().find(|damage| !is_expected(damage)) {
            return Err(format!("without checkpoints: {damage}"));
        }
        for (id, handle) in other.partitions().collect::<Vec<_>>() {
            // For a memory partition, entries on the disk are dropped.
            let on_disk = |p: &&ModelledPartition| p.id == id && p.durability != Durability::Memory;
            let Some(part) = self.parts.iter().find(on_disk) else { continue };
            let wrong = |wrong: String| format!("without checkpoints: {wrong}");
            other.commit(handle, part.commit).map_err(|e| wrong(e.to_string()))?;
            let stats = other.partition_stats(handle).map_err(|e| wrong(e.to_string()))?;
            if (stats.last.1, stats.commit) != (part.last(), part.commit) {
                return Err(wrong(format!(
                    "partition {id} ends at {:?}, committed {}, not {} and {}",
                    stats.last,
                    stats.commit,
                    part.last(),
                    part.commit
                )));
            }
            if only_newest && self.plan.has_state_in_log {
                let is_left = disk_has_checkpoint(&mut disk, id).map_err(|e| wrong(e.to_string()))?;
                if is_left {
                    check_state_of(&mut other, handle, part).map_err(wrong)?;
                }
            }
            compare_all(&mut other, part, handle, &part.records)
                .map_err(|e| wrong(e.to_string()))?
                .map_err(wrong)?;
            let met = walk(&mut other, handle).map_err(|e| wrong(e.to_string()))?.len();
            if met != part.records.len() {
                return Err(wrong(format!("a walk met {met} keys of {}", part.records.len())));
            }
        }
        Ok(())
    }
}

/// Every entry behind the state of an upper layer in a checkpoint must be there.
fn check_state_of(engine: &mut Engine, handle: Handle, part: &ModelledPartition) -> Result<(), String> {
    let extra = engine.recovered_extra(handle).map_err(|e| e.to_string())?;
    let commit_of =
        |extra: &[u8]| extra.first_chunk::<8>().map_or(u64::MAX, |commit| u64::from_le_bytes(*commit));
    let after = match &extra {
        None => 0,
        Some((commit, extra)) if commit_of(extra) == *commit => *commit,
        Some((commit, extra)) => {
            return Err(format!("state as of {}, said to be of {commit}", commit_of(extra)));
        }
    };
    let mut next = after + 1;
    let mut wrong = None;
    let mut check = |entry: EntryRef<'_>, is_good: bool| {
        let expected = part.log.get(next as usize - 1);
        let is_it = expected.is_some_and(|expected| {
            let (mut meta, mut wanted) = (entry.head.meta, expected.meta);
            // Compaction drops the flag: parts of a committed atomic batch may be removed.
            (meta.flags, wanted.flags) = (meta.flags & !FLAG_JOINED, wanted.flags & !FLAG_JOINED);
            (meta, entry.key, entry.payload) == (wanted, &*expected.key, &*expected.payload)
        });
        if wrong.is_none() && !(is_it && is_good) {
            wrong = Some(format!("entry {next}, behind the state as of {after}, is {:?}", entry.head.meta));
        }
        next += 1;
    };
    engine.entries_after(handle, after, &mut check).map_err(|e| e.to_string())?;
    match wrong {
        Some(wrong) => Err(wrong),
        None if next == part.last() + 1 => Ok(()),
        None => Err(format!("behind the state as of {after}, entries end before {next} of {}", part.last())),
    }
}

fn disk_has_checkpoint(disk: &mut SimulatedDisk, id: PartitionId) -> DiskResult<bool> {
    let names = disk.list(&format!("p-{:016x}", id.0))?;
    Ok(names.iter().any(|name| name.name.ends_with(".ckp")))
}
