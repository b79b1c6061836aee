//! Opening an engine: every partition from its folder, then the journal over them; and closing it in order.

use super::maintain::Upkeep;
use super::{Engine, Handle, folder_of};
use crate::disk::{Disk, OpenMode};
use crate::engine::options::{Durability, EngineOptions};
use crate::engine::report::{Damage, DamageKind, RecoveryReport};
use crate::error::{EngineError, EngineResult};
use crate::io::{Io, Memory, Space};
use crate::journal::format::{self, HEADER_BYTES, Header, Item, Record};
use crate::journal::{FOLDER, Journal};
use crate::log::entry::Meta;
use crate::log::{Log, LogOptions};
use crate::store::{Pending, Store};
use crate::{PartitionId, PartitionReport};

/// Names the format of a data folder.
const FORMAT_FILE: &str = "format";
const FORMAT: &[u8] = b"zerohop engine data, format 1\n";

impl<D: Disk> Engine<D> {
    /// Opens the data on a disk, or begins anew on an empty one. Entries behind the known commit index wait for
    /// [`Engine::commit`]; a lone owner calls [`Engine::commit_all`].
    ///
    /// # Errors
    /// [`EngineError::Format`] if the disk holds something else or a newer format; what the disk answers. Rotten and
    /// missing entries are no errors: the report names them.
    pub fn open(disk: D, options: EngineOptions) -> EngineResult<(Engine<D>, RecoveryReport)> {
        let options = options.bounded();
        let io = Io {
            disk,
            memory: Memory::new(options.memory_bytes),
            space: Space::new(options.disk_reserve_bytes),
        };
        let mut engine = Engine {
            io,
            options,
            journal: Journal::new(options.journal_file_bytes, 1),
            journal_stopped: None,
            partitions: Vec::new(),
            by_id: Default::default(),
            upkeep: Upkeep::new(),
        };
        engine.check_format()?;
        let mut report = RecoveryReport::default();
        for name in engine.io.disk.list("")? {
            if let Some(id) = name.name.strip_prefix("p-").and_then(|hex| u64::from_str_radix(hex, 16).ok()) {
                let found = engine.recover_partition(PartitionId(id))?;
                report.partitions.push((PartitionId(id), found));
            }
        }
        engine.replay_journal(&mut report)?;
        engine.evict();
        Ok((engine, report))
    }

    /// Commits everything in every log: for an owner without other replicas.
    ///
    /// # Errors
    /// As [`Engine::commit`].
    pub fn commit_all(&mut self) -> EngineResult<()> {
        for (_, handle) in self.partitions().collect::<Vec<_>>() {
            self.commit(handle, u64::MAX)?;
        }
        Ok(())
    }

    /// Closes in order: everything synced, a checkpoint of every partition that changed, no journal left to replay.
    ///
    /// # Errors
    /// What the disk answers.
    pub fn close(mut self) -> EngineResult<D> {
        self.sync()?;
        for (_, handle) in self.partitions().collect::<Vec<_>>() {
            if self.store(handle)?.1.durability == Durability::Memory {
                continue;
            }
            self.finish_work(handle)?;
            if self.options.checkpoints_begin_alone {
                self.checkpoint_begin(handle, &[])?;
                self.finish_work(handle)?;
            }
        }
        self.journal.remove_all(&mut self.io.disk)?;
        Ok(self.io.disk)
    }

    /// Removes a partition and its files.
    ///
    /// # Errors
    /// What the disk answers; what is left then is removed by the next call after opening again.
    pub fn drop_partition(&mut self, id: PartitionId) -> EngineResult<()> {
        let Some(handle) = self.by_id.remove(&id) else { return Err(EngineError::UnknownPartition) };
        self.journal.forget_partition(handle.0);
        self.upkeep.forget(handle);
        if let Some(mut store) = self.partitions[handle.0 as usize].take() {
            for slot in 0..store.log.slots.len() as u32 {
                if let Some(segment) = store.log.drop_slot(&mut self.io, slot) {
                    segment.file.into_iter().for_each(|file| self.io.disk.close(file));
                }
            }
        }
        let folder = folder_of(id);
        // The oldest segment last: what a crash leaves must not look like a log that begins anew.
        for name in self.io.disk.list(&folder)?.iter().rev() {
            self.io.disk.remove(&format!("{folder}/{}", name.name))?;
        }
        if self.io.disk.list("")?.iter().any(|n| n.name == folder) {
            self.io.disk.sync_dir(&folder)?;
            self.io.disk.remove(&folder)?;
            self.io.disk.sync_dir("")?;
        }
        Ok(())
    }

    fn check_format(&mut self) -> EngineResult<()> {
        let disk = &mut self.io.disk;
        let names = disk.list("")?;
        let wrong =
            |reason: &str| Err(EngineError::Format { path: FORMAT_FILE.into(), reason: reason.into() });
        if let Some(name) = names.iter().find(|n| n.name == FORMAT_FILE) {
            let file = disk.open(FORMAT_FILE, OpenMode::Existing)?;
            let mut bytes = vec![0; name.bytes.min(FORMAT.len() as u64) as usize];
            let read = disk.read_at(file, 0, &mut bytes);
            disk.close(file);
            read?;
            if bytes == FORMAT {
                return Ok(());
            }
            let has_data = names.iter().any(|n| n.name.starts_with("p-") || n.name == FOLDER);
            if bytes.starts_with(&FORMAT[..20]) || has_data {
                return wrong("this data folder is of another format; use the zerohop that wrote it");
            }
            // A crash came between creating the file and syncing it.
            disk.remove(FORMAT_FILE)?;
        } else if names.iter().any(|n| n.name != "lock" && !n.name.ends_with(".tmp")) {
            return wrong(
                "missing, though the folder is not empty: this is not a zerohop data folder; name another",
            );
        }
        let file = disk.open(FORMAT_FILE, OpenMode::Create)?;
        disk.append(file, FORMAT)?;
        disk.sync(file)?;
        disk.sync_dir("")?;
        disk.close(file);
        Ok(())
    }

    fn recover_partition(&mut self, id: PartitionId) -> EngineResult<PartitionReport> {
        let handle = Handle(self.partitions.len() as u32);
        let options = LogOptions { segment_bytes: self.options.segment_bytes, in_memory_only: false };
        let mut store =
            Box::new(Store::new(Log::new(id, handle.0, folder_of(id), 0, options), Durability::Interval));
        let report = store.recover(&mut self.io)?;
        self.upkeep.recovered(handle, &store);
        self.partitions.push(Some(store));
        self.by_id.insert(id, handle);
        self.evict();
        Ok(report)
    }

    /// Brings into the logs what only the journal holds, makes it durable there, and begins a new journal.
    fn replay_journal(&mut self, report: &mut RecoveryReport) -> EngineResult<()> {
        let names = self.io.disk.list(FOLDER)?;
        let mut next_number = 1;
        for (at, name) in names.iter().enumerate() {
            let path = format!("{FOLDER}/{}", name.name);
            let file = self.io.disk.open(&path, OpenMode::Existing)?;
            let mut bytes = vec![0; name.bytes as usize];
            let read = self.io.disk.read_at(file, 0, &mut bytes);
            self.io.disk.close(file);
            read?;
            match Header::decode(&bytes) {
                Ok(header) => {
                    next_number = next_number.max(header.number + 1);
                    let bad = self.replay_file(&header, &bytes[HEADER_BYTES..], report)?;
                    report.journal.extend(bad.map(|offset| journal_damage(format!("{path}+{offset}"))));
                }
                Err(reason) if reason.contains("not known here") => {
                    return Err(EngineError::Format { path, reason });
                }
                // The last file may have been begun and not synced.
                Err(_) if at + 1 == names.len() => {}
                Err(reason) => report.journal.push(journal_damage(format!("{path}: {reason}"))),
            }
            let number = name.name.strip_suffix(".jnl").and_then(|hex| u64::from_str_radix(hex, 16).ok());
            next_number = next_number.max(number.map_or(1, |n| n + 1));
        }
        for store in self.partitions.iter_mut().flatten() {
            store.log.sync(&mut self.io)?;
            store.journaled = store.log.last.1;
        }
        for name in &names {
            self.io.disk.remove(&format!("{FOLDER}/{}", name.name))?;
            self.io.disk.sync_dir(FOLDER)?;
        }
        self.journal = Journal::new(self.options.journal_file_bytes, next_number);
        Ok(())
    }

    /// Replays one file. Returns where bad bytes stand that are known to have been synced.
    fn replay_file(
        &mut self,
        header: &Header,
        bytes: &[u8],
        report: &mut RecoveryReport,
    ) -> EngineResult<Option<u64>> {
        let synced = format::items(header.salt, bytes).filter_map(|item| match item {
            Item::Record(Record::Batch { synced_bytes }) => Some(synced_bytes),
            _ => None,
        });
        let synced = synced.max().unwrap_or(0);
        let mut bad = None;
        for item in format::items(header.salt, bytes) {
            match item {
                // Torn: nothing behind it was acknowledged.
                Item::Bad { offset, .. } if offset >= synced => break,
                Item::Bad { offset, .. } => bad = bad.or(Some(offset)),
                Item::Record(Record::Entry { partition, meta, key, payload }) => {
                    self.replay_entry(partition, &meta, key, payload, report)?;
                }
                Item::Record(Record::Reference { partition, meta, .. }) => {
                    if !self.holds(partition, &meta)? {
                        // Its segment was to be synced before this record: the flush never ended.
                        break;
                    }
                }
                Item::Record(Record::Cut { partition, index }) => {
                    if let Some(&handle) = self.by_id.get(&partition) {
                        let (io, store) = self.store(handle)?;
                        if index >= store.commit {
                            store.cut_after(io, index)?;
                        }
                    }
                }
                Item::Record(Record::Batch { .. }) => {}
            }
        }
        Ok(bad)
    }

    fn holds(&mut self, partition: PartitionId, meta: &Meta) -> EngineResult<bool> {
        let Some(&handle) = self.by_id.get(&partition) else { return Ok(false) };
        let (io, store) = self.store(handle)?;
        Ok(meta.index <= store.commit || store.log.epoch_at(io, meta.index)? == Some(meta.epoch))
    }

    fn replay_entry(
        &mut self,
        partition: PartitionId,
        meta: &Meta,
        key: &[u8],
        payload: &[u8],
        report: &mut RecoveryReport,
    ) -> EngineResult<()> {
        let handle = match self.by_id.get(&partition) {
            Some(&handle) => handle,
            None => {
                let found = self.recover_partition(partition)?;
                report.partitions.push((partition, found));
                self.by_id[&partition]
            }
        };
        let (io, store) = self.store(handle)?;
        let last = store.log.last;
        if meta.index <= last.1 {
            let held = if meta.index <= store.commit { None } else { store.log.epoch_at(io, meta.index)? };
            match held {
                // At equal index the higher epoch wins and ends the entries of lower ones behind it.
                Some(epoch) if epoch < meta.epoch => store.cut_after(io, meta.index - 1)?,
                _ => return Ok(()),
            }
        }
        if meta.epoch < store.log.last.0 {
            return Ok(());
        }
        let mut found = Vec::new();
        if meta.index > store.log.last.1 + 1 {
            let kind = DamageKind::Missing { from: store.log.last.1 + 1, through: meta.index - 1 };
            found.push(Damage { partition, kind, place: "the journal".into() });
            store.damage.extend(found.iter().cloned());
        }
        let placed = store.append(io, meta, key, payload)?;
        store.pending.push_back(Pending { meta: *meta, placed });
        if let Some((_, partition_report)) = report.partitions.iter_mut().find(|(id, _)| *id == partition) {
            partition_report.from_journal += 1;
            partition_report.damage.extend(found);
        }
        Ok(())
    }
}

fn journal_damage(place: String) -> Damage {
    Damage { partition: PartitionId(0), kind: DamageKind::Journal, place }
}
