//! The random operations.

use std::rc::Rc;

use zerohop_engine::disk::simulated::{DiskOperation, SimulatedFaults};
use zerohop_engine::disk::{Disk, OpenMode};
use zerohop_engine::{
    ChunkHead, Durability, EngineError, EntryKind, EntryMeta, FLAG_CHUNK, FLAG_LIST, NewEntry,
};

use super::model::{ModelEntry, apply};
use super::part::ModelledPartition;
use super::world::{EngineWorld, ErrorVerdict};

/// The operations of a `fierce` seed, in the numbers of [`EngineWorld::one_step`].
const FIERCE: [u64; 50] = [
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 55, 55, 55, 60, 60, 62, 62, 62, 68, 70, 70, 70, 70, 70,
    70, 70, 70, 70, 94, 93, 78, 79, 81, 81, 82, 83, 83, 85, 86, 87, 88, 90, 91, 91,
];

impl EngineWorld {
    /// Runs one random operation, and checks a record.
    pub fn one_step(&mut self) -> Result<(), String> {
        let at = self.random.below(self.parts.len() as u64) as usize;
        let drawn = match self.random.below(100) {
            drawn if self.plan.fierce => FIERCE[drawn as usize % FIERCE.len()],
            drawn => drawn,
        };
        match drawn {
            0..=54 => {
                for _ in 0..if self.plan.bulk { 1 + self.random.below(4) } else { 1 } {
                    match self.random.below(8) {
                        0 => self.add_batch(at)?,
                        _ => self.add_entry(at)?,
                    }
                }
            }
            55..=59 => self.commit(at)?,
            60..=61 => self.truncate(at)?,
            62..=67 => self.flush()?,
            68..=69 => self.sync()?,
            70..=77 => self.maintain()?,
            78 => self.make_durable()?,
            79..=80 => self.compact(at)?,
            81 => self.checkpoint(at)?,
            82 => self.pin(at)?,
            83..=84 => self.horizon(at)?,
            85 => self.change_durability(at)?,
            86 => self.drop_partition(at)?,
            87 => self.fault()?,
            88 => self.fill_disk()?,
            89 => self.check_all(at)?,
            90 => self.scan(at)?,
            91..=92 if self.plan.crashes => self.crash()?,
            93 if self.plan.splits => self.split(at)?,
            94..=96 => self.repair(at)?,
            _ => {}
        }
        let at = self.random.below(self.parts.len() as u64) as usize;
        self.check_record(at)?;
        // Not at every step: it reads the complete log.
        if self.step.is_multiple_of(8) {
            self.check_counters(at)?;
        }
        if let Some(left) = self.power_cut_in {
            self.power_cut_in = Some(left.saturating_sub(1));
            if left == 0 {
                self.crash()?;
            }
        }
        Ok(())
    }

    pub fn key(&mut self) -> Rc<[u8]> {
        let number = self.random.below(self.plan.keys);
        format!("k{number}{}", "x".repeat((number * 37 % 150) as usize)).into_bytes().into()
    }

    fn payload(&mut self, is_list: bool) -> Vec<u8> {
        let bytes = match self.random.below(40) {
            drawn if self.plan.bulk && drawn < 38 => self.random.below(14_000),
            0..=25 => self.random.below(60),
            26..=34 => 60 + self.random.below(400),
            35..=37 => 400 + self.random.below(4000),
            38 if self.plan.large => (64 << 10) - 2 + self.random.below(70 << 10),
            38 => self.random.below(9000),
            _ => return self.bytes_of_a_file(is_list),
        };
        let mut payload = vec![0; bytes as usize + if is_list { 4 } else { 0 }];
        self.random.fill(&mut payload);
        if is_list {
            payload[..4].copy_from_slice(&(1 + self.random.below(5) as u32).to_le_bytes());
        }
        payload
    }

    /// A value that contains bytes of the store's own files: valid entries inside a value.
    fn bytes_of_a_file(&mut self, is_list: bool) -> Vec<u8> {
        let mut out = if is_list { 3u32.to_le_bytes().to_vec() } else { Vec::new() };
        if self.disturbed {
            return out;
        }
        let mut disk = self.disk.clone();
        let folder =
            format!("p-{:016x}", self.parts[self.random.below(self.parts.len() as u64) as usize].id.0);
        let folder = if self.random.chance(1, 3) { "journal".to_owned() } else { folder };
        let names = disk.list(&folder).expect("lists");
        if !names.is_empty() {
            let name = &names[self.random.below(names.len() as u64) as usize];
            let file = disk.open(&format!("{folder}/{}", name.name), OpenMode::Existing).expect("is there");
            let mut bytes = vec![0; name.bytes.min(6000) as usize];
            let from = self.random.below(2) * (name.bytes - bytes.len() as u64);
            disk.read_at(file, from, &mut bytes).expect("reads");
            disk.close(file);
            out.extend(bytes);
        }
        out
    }

    pub fn random_entry(&mut self, at: usize) -> ModelEntry {
        let key = self.key();
        let is_list = self.random.chance(1, 2);
        let upper = (self.random.below(16) as u8) << 4;
        let list_flag = |is_list| if is_list { FLAG_LIST | upper } else { upper };
        let part = &self.parts[at];
        // The record after the commit of all uncommitted entries.
        let mut records = std::collections::BTreeMap::new();
        records.extend(part.records.get_key_value(&key).map(|(key, value)| (key.clone(), value.clone())));
        part.log[part.commit as usize..].iter().filter(|e| e.key == key).for_each(|e| apply(&mut records, e));
        let removed = records.remove(&key);
        let is_chunk_key = self.plan.chunks && key.get(1).is_some_and(|digit| digit % 2 == 1);
        let (kind, is_list, payload) = match self.random.below(20) {
            0..=2 if is_chunk_key => return self.chunk_entry(at, EntryKind::Put, key),
            // Sometimes a chunk is appended to as another type, which replaces it.
            3..=7 | 11..=16 if is_chunk_key => return self.chunk_entry(at, EntryKind::Append, key),
            0..=7 => (EntryKind::Put, is_list, self.payload(is_list)),
            8..=10 => (EntryKind::Remove, false, Vec::new()),
            11..=17 => {
                // Sometimes the entry is of another type, which replaces the record.
                let wrong = self.random.chance(1, 30);
                let is_list = removed.as_ref().map_or(is_list, |value| value.is_list != wrong);
                (EntryKind::Append, is_list, self.payload(is_list))
            }
            18 => {
                match removed.as_ref().filter(|value| value.units() > 0).map(|value| (value, value.units())) {
                    Some((value, units)) => {
                        let gone = self.random.below(units);
                        match value.trim_point(gone) {
                            Some(to) => (EntryKind::Trim, value.is_list, to.encode().to_vec()),
                            None => (EntryKind::Remove, false, Vec::new()),
                        }
                    }
                    None => (EntryKind::Remove, false, Vec::new()),
                }
            }
            _ => (EntryKind::Mark, false, self.payload(false)),
        };
        let (jumps, drawn) = (self.plan.jumps, self.random.below(40));
        let step = self.random.below(3);
        let part = &mut self.parts[at];
        part.timestamp += step;
        if jumps && drawn == 0 {
            part.timestamp += 1 << 46;
            if part.is_group {
                part.epoch += 200;
                part.epochs.insert(part.epoch);
            }
        }
        let key = if kind == EntryKind::Mark && drawn % 2 == 0 { Rc::from([]) } else { key };
        part.next(kind, list_flag(is_list), key, payload)
    }

    /// A write of a chunk: bytes, or zeros without bytes.
    fn chunk_entry(&mut self, at: usize, kind: EntryKind, key: Rc<[u8]>) -> ModelEntry {
        let mut bytes = self.payload(false);
        let length = match self.random.below(4) {
            0 => {
                bytes.clear();
                self.random.below(3000)
            }
            _ => bytes.len() as u64,
        };
        let offset = match self.random.below(3) {
            0 => 0,
            _ => self.random.below(3000),
        };
        let mut head = ChunkHead { offset: offset as u32, length: length as u32, stamp: [0; 16] };
        self.random.fill(&mut head.stamp);
        let step = self.random.below(3);
        let part = &mut self.parts[at];
        part.timestamp += step;
        part.next(kind, FLAG_CHUNK, key, [&head.encode()[..], &bytes].concat())
    }

    fn add_entry(&mut self, at: usize) -> Result<(), String> {
        if self.parts[at].is_unsure {
            return Ok(());
        }
        let entry = self.random_entry(at);
        let ModelledPartition { handle, is_group, durability, .. } = self.parts[at];
        self.trace(|| {
            format!("p{at} {:?} key {} bytes {}", entry.meta, entry.key.len(), entry.payload.len())
        });
        let (meta, key, payload) = (&entry.meta, &entry.key, &entry.payload);
        let result = if is_group {
            self.engine().append(handle, meta, key, payload)
        } else {
            let hint = self.hint_for(at, meta, key);
            let &EntryMeta { kind, flags, timestamp, .. } = meta;
            let new = NewEntry { kind, flags, timestamp, key, payload, hint: hint.as_ref() };
            let written = self.engine().write_entry(handle, &new);
            written.map(|index| assert_eq!(index, meta.index, "the returned index"))
        };
        let what = format!("entry {}", meta.index);
        match result {
            Ok(()) => {
                let part = &mut self.parts[at];
                part.log.push(entry);
                part.accepted = part.last();
                if !is_group {
                    part.commit_to(u64::MAX);
                }
            }
            Err(error) => {
                if let ErrorVerdict::Failed = self.check_error(&what, durability, error)? {
                    self.see_whether_it_happened(at, entry)?;
                }
            }
        }
        self.check_ends(at)
    }

    /// After a disk failure an entry may be in the log or not.
    pub fn see_whether_it_happened(&mut self, at: usize, entry: ModelEntry) -> Result<(), String> {
        let handle = self.parts[at].handle;
        let stats = self.engine().partition_stats(handle).map_err(|e| e.to_string())?;
        let part = &mut self.parts[at];
        if stats.last.1 == entry.meta.index {
            part.log.push(entry);
            part.stopped_at(stats.commit);
        }
        Ok(())
    }

    fn commit(&mut self, at: usize) -> Result<(), String> {
        let ModelledPartition { handle, is_group, durability, is_unsure, commit, .. } = self.parts[at];
        if !is_group || is_unsure {
            return Ok(());
        }
        let index = commit + self.random.below(self.parts[at].accepted.saturating_sub(commit) + 1);
        self.trace(|| format!("p{at} commit {index}"));
        match self.engine().commit(handle, index) {
            Ok(()) => self.parts[at].commit_to(index),
            Err(error) => {
                self.check_error("commit", durability, error)?;
                let stats = self.engine().partition_stats(handle).map_err(|e| e.to_string())?;
                self.parts[at].stopped_at(stats.commit);
            }
        }
        self.check_ends(at)
    }

    fn truncate(&mut self, at: usize) -> Result<(), String> {
        let ModelledPartition { handle, is_group, durability, is_unsure, commit, .. } = self.parts[at];
        let last = self.parts[at].last();
        if !is_group || is_unsure || last == commit {
            return Ok(());
        }
        if commit > 0 && self.random.chance(1, 5) {
            let refused = self.engine().truncate_after(handle, commit - 1);
            match refused {
                Err(EngineError::Committed { .. }) => {}
                Err(EngineError::Stopped { .. }) if self.disturbed => {}
                other => return Err(format!("cutting committed entries: {other:?}")),
            }
        }
        let index = commit + self.random.below(last - commit + 1);
        let index = self.parts[at].batch_boundary_at(index);
        self.trace(|| format!("p{at} cut after {index}"));
        if self.plan.fills_disk {
            // If the journal has no space to record a truncation, a crash may undo it.
            self.disk.set_capacity(None);
        }
        let result = self.engine().truncate_after(handle, index);
        let lower = self.random.chance(1, 3);
        let part = &mut self.parts[at];
        part.floor = part.floor.min(index);
        part.accepted = part.accepted.min(index);
        match result {
            Ok(()) => {
                part.log.truncate(index as usize);
                part.begin_epoch(lower);
                self.check_ends(at)
            }
            Err(error) => {
                part.is_unsure = true;
                self.check_error("cut", durability, error).map(drop)
            }
        }
    }

    fn flush(&mut self) -> Result<(), String> {
        match self.engine().flush() {
            Ok(()) => {
                self.trace(|| "flush".into());
                for part in self.parts.iter_mut().filter(|p| p.durability == Durability::Sync && !p.is_unsure)
                {
                    part.floor = part.floor.max(part.accepted);
                }
                Ok(())
            }
            Err(error) => self.check_error("flush", Durability::Sync, error).map(drop),
        }
    }

    fn sync(&mut self) -> Result<(), String> {
        match self.engine().sync() {
            Ok(()) => {
                self.trace(|| "sync".into());
                for part in
                    self.parts.iter_mut().filter(|p| p.durability != Durability::Memory && !p.is_unsure)
                {
                    part.floor = part.floor.max(part.accepted);
                }
                Ok(())
            }
            Err(error) => self.check_error("sync", Durability::Sync, error).map(drop),
        }
    }

    pub fn maintain(&mut self) -> Result<(), String> {
        let most = if self.plan.fierce && self.random.chance(1, 2) { 4 } else { 30 };
        for _ in 0..1 + self.random.below(most) {
            self.now_ms += self.random.below(60);
            let now_ms = self.now_ms;
            if let Err(error) = self.engine().maintain(now_ms) {
                self.check_error("maintain", Durability::Sync, error)?;
            }
        }
        self.trace(|| "maintain".into());
        for at in 0..self.parts.len() {
            self.raise_floor(at)?;
        }
        Ok(())
    }

    /// Maintenance, called often enough, makes all entries of `interval` partitions durable.
    pub fn make_durable(&mut self) -> Result<(), String> {
        if self.disturbed || self.plan.fills_disk {
            return Ok(());
        }
        self.trace(|| "settle".into());
        for _ in 0..100 {
            self.now_ms += 50;
            let now_ms = self.now_ms;
            self.engine().maintain(now_ms).map_err(|e| format!("maintain: {e}"))?;
        }
        for at in 0..self.parts.len() {
            self.raise_floor(at)?;
            let part = &self.parts[at];
            if matches!(part.durability, Durability::Interval { .. }) && part.floor < part.last() {
                return Err(format!(
                    "p{at}: only {} of {} durable after 50 intervals",
                    part.floor,
                    part.last()
                ));
            }
        }
        Ok(())
    }

    /// Everything that the engine reports as durable must be.
    fn raise_floor(&mut self, at: usize) -> Result<(), String> {
        let ModelledPartition { handle, durability, is_unsure, .. } = self.parts[at];
        if durability == Durability::Memory || is_unsure {
            return Ok(());
        }
        let durable = self.engine().durable_index(handle).map_err(|e| e.to_string())?;
        let part = &mut self.parts[at];
        if durable > part.last() {
            return Err(format!("p{at}: {durable} durable, but the log ends at {}", part.last()));
        }
        part.floor = part.floor.max(part.batch_boundary_at(durable));
        Ok(())
    }

    fn compact(&mut self, at: usize) -> Result<(), String> {
        let ModelledPartition { handle, durability, is_unsure, .. } = self.parts[at];
        if is_unsure {
            return Ok(());
        }
        self.trace(|| format!("p{at} compact"));
        match self.engine().compact(handle) {
            Ok(()) => self.check_dead_space(at),
            Err(error) => self.check_error("compact", durability, error).map(drop),
        }
    }

    fn checkpoint(&mut self, at: usize) -> Result<(), String> {
        let ModelledPartition { handle, durability, .. } = self.parts[at];
        self.trace(|| format!("p{at} checkpoint"));
        // The state of an upper layer: all entries up to here.
        let commit = self.parts[at].commit;
        match self.engine().checkpoint_begin(handle, &commit.to_le_bytes()) {
            Ok(()) => Ok(()),
            Err(error) => self.check_error("checkpoint", durability, error).map(drop),
        }
    }

    fn pin(&mut self, at: usize) -> Result<(), String> {
        let handle = self.parts[at].handle;
        if !self.parts[at].pinned.is_empty() && self.random.chance(1, 2) {
            let files = self.parts[at].pinned.remove(0);
            if !self.disturbed {
                let mut disk = self.disk.clone();
                for file in &files {
                    let open =
                        disk.open(&file.path, OpenMode::Existing).map_err(|e| format!("pinned: {e}"))?;
                    let bytes = disk.bytes(open).map_err(|e| e.to_string())?;
                    disk.close(open);
                    if bytes != file.bytes {
                        return Err(format!(
                            "the pinned {} had {} bytes and has {bytes}",
                            file.path, file.bytes
                        ));
                    }
                }
            }
            self.trace(|| format!("p{at} unpin {}", files.len()));
            let durability = self.parts[at].durability;
            return match self.engine().unpin(handle, &files) {
                Ok(()) => Ok(()),
                Err(error) => self.check_error("unpin", durability, error).map(drop),
            };
        }
        let files = self.engine().pin_segments(handle).map_err(|e| e.to_string())?;
        self.trace(|| format!("p{at} pin {}", files.len()));
        self.parts[at].pinned.push(files);
        Ok(())
    }

    fn horizon(&mut self, at: usize) -> Result<(), String> {
        if !self.plan.horizons {
            return Ok(());
        }
        let part = &mut self.parts[at];
        let committed_at = match part.commit {
            0 => 0,
            commit => part.log[commit as usize - 1].meta.timestamp,
        };
        part.horizon = match part.horizon {
            _ if self.random.chance(1, 3) => None,
            None => Some((committed_at, committed_at)),
            Some((horizon, since)) => {
                Some((horizon + self.random.below(committed_at.saturating_sub(horizon) + 1), since))
            }
        };
        let (handle, horizon) = (part.handle, part.horizon);
        self.trace(|| format!("p{at} horizon {horizon:?}"));
        self.engine().set_horizon(handle, horizon.map(|(h, _)| h)).map_err(|e| e.to_string())
    }

    fn change_durability(&mut self, at: usize) -> Result<(), String> {
        let ModelledPartition { handle, durability, is_unsure, .. } = self.parts[at];
        let expected = match durability {
            // The log of a memory partition lacks entries that an upper layer would read again; in
            // `crates/partition` such a change begins with a checkpoint.
            Durability::Memory if self.plan.has_state_in_log => return Ok(()),
            Durability::Memory if self.random.chance(1, 2) => Durability::Interval { ms: 20 },
            Durability::Memory => Durability::Sync,
            // A partition that is on disk already gets a long interval, or none.
            Durability::Interval { ms: 100 } if self.random.chance(1, 4) => Durability::Memory,
            Durability::Interval { ms: 100 } if self.random.chance(1, 2) => Durability::Interval { ms: 20 },
            Durability::Interval { .. } => Durability::Sync,
            Durability::Sync => Durability::Interval { ms: 100 },
        };
        if is_unsure {
            return Ok(());
        }
        self.trace(|| format!("p{at} durability {expected:?}"));
        match self.engine().set_durability(handle, expected) {
            Ok(now) => {
                let part = &mut self.parts[at];
                part.durability = now;
                part.is_dropping = false;
                if now == Durability::Sync || durability == Durability::Memory {
                    part.floor = part.floor.max(part.accepted);
                }
                Ok(())
            }
            Err(error) => {
                // Some of it may be on the disk; its owner drops that at the next start.
                self.parts[at].is_dropping |= durability == Durability::Memory;
                self.check_error("durability", durability, error).map(drop)
            }
        }
    }

    fn drop_partition(&mut self, at: usize) -> Result<(), String> {
        if self.random.chance(3, 4) {
            return Ok(());
        }
        let ModelledPartition { id, durability, is_group, .. } = self.parts[at];
        self.trace(|| format!("p{at} drop"));
        if self.random.chance(1, 2) {
            self.engine().drop_partition_later(id).map_err(|error| error.to_string())?;
        }
        match self.engine().drop_partition(id) {
            Ok(()) => {
                let mut again = ModelledPartition::new(id, zerohop_engine::Handle(0), durability, is_group);
                again.handle = self.declare(id, durability, again.index_seed)?;
                self.parts[at] = again;
                Ok(())
            }
            Err(error) => {
                self.check_error("drop", durability, error)?;
                self.parts[at].is_dropping = true;
                self.crash()
            }
        }
    }

    /// Switches on a random fault.
    fn fault(&mut self) -> Result<(), String> {
        if self.plan.cuts_power && self.random.chance(1, 2) && self.power_cut_in.is_none() {
            let operations = self.random.below(60);
            self.trace(|| format!("power goes after {operations} operations"));
            self.disk.cut_power_after(operations);
            self.power_cut_in = Some(8);
            self.disturbed = true;
        } else if self.plan.failures {
            let operation = DiskOperation::ALL[self.random.below(DiskOperation::ALL.len() as u64) as usize];
            self.trace(|| format!("{operation:?} will fail"));
            if self.random.chance(2, 3) {
                self.disk.fail_nth(operation, 1 + self.random.below(5));
            } else {
                self.disk
                    .set_faults(SimulatedFaults::default().failing(operation, 1, 3).stalling(1, 10, 1000));
            }
            self.disturbed = true;
        }
        Ok(())
    }

    fn fill_disk(&mut self) -> Result<(), String> {
        if self.plan.fills_disk {
            let free = self.random.below(30_000);
            let grow = self.random.chance(1, 3);
            let used = self.used_bytes();
            let capacity = if grow { None } else { Some(used + free) };
            self.trace(|| format!("capacity {capacity:?}"));
            self.disk.set_capacity(capacity);
        }
        Ok(())
    }

    pub fn used_bytes(&self) -> u64 {
        let mut disk = self.disk.duplicate();
        disk.cut_power_after(u64::MAX);
        disk.set_faults(SimulatedFaults::default());
        disk.set_capacity(u64::MAX);
        disk.free_bytes().map_or(0, |free| u64::MAX - free)
    }
}
