//! Opening an engine: every partition from its folder, then the journal over them; and its clean shutdown.

use super::drops::LeftoverFiles;
use super::maintain::Maintenance;
use super::pending_durability::JOURNALED_BYTES_MAX;
use super::shared::LOG_FOLDER;
use super::{Engine, Handle, folder_of, store_of};
use crate::disk::{Disk, OpenMode};
use crate::engine::report::RecoveryReport;
use crate::error::{EngineError, EngineResult};
use crate::io::{Io, Logs};
use crate::journal::{FOLDER, Journal};
use crate::limits::FILE_BYTES_MIN;
use crate::log::shared::format::LogId;
use crate::log::shared::streams::LogSlot;
use crate::options::{Durability, EngineOptions};
use crate::resources::{Memory, Space};
use crate::store::{PartitionStore, StoreIdentity};
use crate::{PartitionId, PartitionReport};

/// Names the format of a data folder.
const FORMAT_FILE: &str = "format";
const FORMAT: &[u8] = b"zerohop engine data, format 1\n";
/// The start of the file of a folder with one log of all partitions: the id of the log follows in hex digits, and a line feed.
const FORMAT_SHARED: &[u8] = b"zerohop engine data, format 2\nlog ";
/// The start of the file in every format; the number follows, and a line feed.
const FORMAT_BEGIN: &[u8] = b"zerohop engine data, format ";
/// Longer than the file of any format.
const FORMAT_BYTES_MAX: u64 = 96;

impl<D: Disk> Engine<D> {
    /// Opens the data on a disk, or starts with an empty state on an empty disk. Entries behind the known commit index wait
    /// for [`Engine::commit`]; an owner without other replicas calls [`Engine::commit_all`].
    ///
    /// # Errors
    /// [`EngineError::Format`] if the disk holds other data or a newer format; errors of the disk. Corrupt
    /// and missing entries are not errors: the report names them. [`EngineError::FileSizeLimit`] below
    /// [`FILE_BYTES_MIN`].
    pub fn open(mut disk: D, options: EngineOptions) -> EngineResult<(Engine<D>, RecoveryReport)> {
        let file_bytes_max = disk.file_bytes_max();
        if file_bytes_max < FILE_BYTES_MIN {
            return Err(EngineError::FileSizeLimit { limit_bytes: file_bytes_max });
        }
        let options = options.bounded(file_bytes_max);
        let io = Io {
            disk,
            memory: Memory::new(options.memory_bytes),
            space: Space::new(options.disk_reserve_bytes, file_bytes_max),
            logs: Logs::default(),
        };
        let mut engine = Engine {
            io,
            options,
            journal: Journal::new(options.journal_file_bytes, file_bytes_max, 1),
            journal_stopped: None,
            partitions: Vec::new(),
            by_id: Default::default(),
            dropping: Default::default(),
            buried: Vec::new(),
            splits: Default::default(),
            maintenance: Maintenance::new(options.check_after_bytes),
            scratch: Vec::new(),
        };
        let mut report = RecoveryReport::default();
        if let Some(log) = engine.check_format()? {
            engine.open_shared(log, &mut report)?;
            engine.truncate_incomplete_batches(&mut report)?;
            engine.evict();
            return Ok((engine, report));
        }
        let names = engine.io.disk.list("")?;
        let (there, gone) = engine.end_splits(&names)?;
        for id in there {
            let found = engine.recover_partition(id)?;
            report.partitions.push((id, found));
        }
        let is_journal_empty = engine.replay_journal(&mut report, &gone)?;
        engine.dropping = gone.iter().map(|id| (*id, LeftoverFiles::UntilNextStart)).collect();
        for id in gone.into_iter().filter(|_| is_journal_empty) {
            engine.remove_files(id)?;
        }
        engine.truncate_incomplete_batches(&mut report)?;
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

    /// Checks what the folder says of its format, and writes it into a new one. Returns the id of the shared log, if it has one.
    fn check_format(&mut self) -> EngineResult<Option<LogId>> {
        let shared_log = self.options.shared_log;
        let disk = &mut self.io.disk;
        let names = disk.list("")?;
        let wrong =
            |reason: &str| Err(EngineError::Format { path: FORMAT_FILE.into(), reason: reason.into() });
        if let Some(name) = names.iter().find(|n| n.name == FORMAT_FILE) {
            let file = disk.open(FORMAT_FILE, OpenMode::Existing)?;
            let mut bytes = vec![0; name.bytes.min(FORMAT_BYTES_MAX) as usize];
            let read = disk.read_at(file, 0, &mut bytes);
            disk.close(file);
            read?;
            if bytes == FORMAT {
                return Ok(None);
            }
            if let Some(log) = shared_log.and_then(|_| log_of(&bytes)) {
                return Ok(Some(log));
            }
            if let Some(other) = other_format(&bytes) {
                return wrong(&format!(
                    "this data folder is of format {other}, this program knows format 1: use the zerohop that wrote it"
                ));
            }
            let is_data = |name: &str| name.starts_with("p-") || name == FOLDER || name == LOG_FOLDER;
            let has_data = names.iter().any(|n| is_data(&n.name));
            if has_data {
                return wrong(
                    "damaged: it names no format, though the folder has data. If other nodes have copies, start with an \
                     empty folder. Otherwise copy this file from another data folder of the same program",
                );
            }
            // A crash came between creating the file and syncing it.
            disk.remove(FORMAT_FILE)?;
        } else if names.iter().any(|n| n.name != "lock" && !n.name.ends_with(".tmp")) {
            return wrong(
                "missing, though the folder is not empty: this is not a zerohop data folder; name another",
            );
        }
        let file = disk.open(FORMAT_FILE, OpenMode::Create)?;
        let content = shared_log.map_or_else(|| FORMAT.to_vec(), format_of_shared);
        disk.append(file, &content)?;
        disk.sync(file)?;
        disk.sync_dir("")?;
        disk.close(file);
        Ok(shared_log)
    }

    /// Segments and journal are read: an atomic batch that is incomplete now has no end.
    fn truncate_incomplete_batches(&mut self, report: &mut RecoveryReport) -> EngineResult<()> {
        for (id, handle) in self.partitions().collect::<Vec<_>>() {
            let is_journaled = self.journal.has_records_of(handle.0);
            let (io, store) = self.store(handle)?;
            let cut = store.truncate_incomplete_batch(io)?;
            let last = io.logs.view(store.handle).last().1;
            // The journal is kept if the disk is full. If it loses this record, the entries are truncated
            // once more.
            if cut > 0 && is_journaled {
                self.journal.push_truncated(handle.0, id, last);
            }
            if let Some((_, found)) = report.partitions.iter_mut().find(|(other, _)| *other == id) {
                found.unfinished = cut;
            }
        }
        Ok(())
    }

    /// Adds an empty partition under the next handle.
    pub(super) fn add_partition(
        &mut self,
        id: PartitionId,
        index_seed: u64,
        durability: Durability,
    ) -> Handle {
        let handle = Handle(self.partitions.len() as u32);
        self.io.logs.add(handle.0, id, folder_of(id), self.log_options(durability));
        let identity = StoreIdentity { partition: id, index_seed };
        self.partitions.push(Some(Box::new(PartitionStore::new(handle.0, identity, durability))));
        self.by_id.insert(id, handle);
        handle
    }

    /// Adds a partition that recovery has found in the shared log.
    pub(super) fn add_found(&mut self, id: PartitionId, index_seed: u64, slot: LogSlot) -> Handle {
        let handle = Handle(self.partitions.len() as u32);
        self.io.logs.add_found(handle.0, id, slot);
        let identity = StoreIdentity { partition: id, index_seed };
        self.partitions.push(Some(Box::new(PartitionStore::new(handle.0, identity, Durability::DEFAULT))));
        self.by_id.insert(id, handle);
        handle
    }

    pub(super) fn recover_partition(&mut self, id: PartitionId) -> EngineResult<PartitionReport> {
        let handle = self.add_partition(id, 0, Durability::DEFAULT);
        let Engine { io, partitions, maintenance, .. } = self;
        let store = store_of(partitions, handle)?;
        let report = store.recover(io)?;
        maintenance.recovered(&io.logs, handle, store);
        self.evict();
        Ok(report)
    }

    /// Closes cleanly: everything is synced, every changed partition has a checkpoint, and no journal is left
    /// to replay. If the disk has no room for all of that, everything still survives, in the journal, whose
    /// space is preallocated; the next start replays it.
    ///
    /// # Errors
    /// Errors of the disk. [`EngineError::DiskFull`]: there was no room in the journal either, and partitions
    /// that do not flush every write lose their last accepted entries.
    pub fn close(mut self) -> EngineResult<D> {
        match self.tidy() {
            Err(EngineError::DiskFull { .. } | EngineError::Scarce { .. }) => self.save()?,
            tidied => tidied?,
        }
        Ok(self.io.disk)
    }

    fn tidy(&mut self) -> EngineResult<()> {
        let tidied = self.tidy_all();
        tidied.map_err(|error| self.io.full_or(error))
    }

    fn tidy_all(&mut self) -> EngineResult<()> {
        self.end_all_drops()?;
        self.sync()?;
        // The marks that confirm what is synced: unreadable bytes before a mark are corrupt, not a torn tail.
        let Engine { io, partitions, .. } = self;
        for store in partitions.iter_mut().flatten().filter(|store| counts(store) && !store.is_stopped()) {
            let (logs, mut resources) = io.split_resources();
            logs.mark_now(&mut resources, store.handle, store.log_facts())?;
        }
        self.sync()?;
        if self.io.logs.shared().is_some() {
            return self.tidy_shared();
        }
        for (_, handle) in self.partitions().collect::<Vec<_>>() {
            if self.store(handle)?.1.durability == Durability::Memory {
                continue;
            }
            self.finish_work(handle)?;
            if self.options.starts_checkpoints {
                self.checkpoint_begin(handle, &[])?;
                self.finish_work(handle)?;
            }
        }
        self.journal.remove_all(&mut self.io.disk)?;
        Ok(())
    }

    /// One round with all partitions that have changed.
    fn tidy_shared(&mut self) -> EngineResult<()> {
        for (_, handle) in self.partitions().collect::<Vec<_>>() {
            self.finish_work(handle)?;
            if self.options.starts_checkpoints {
                self.checkpoint_begin(handle, &[])?;
            }
        }
        while self.step_checkpoint(true)? {}
        Ok(())
    }

    /// Stores in the journal what would not survive a crash.
    fn save(&mut self) -> EngineResult<()> {
        let handles: Vec<Handle> = self.partitions().map(|(_, handle)| handle).collect();
        for handle in handles {
            let (io, store) = self.store(handle)?;
            if io.logs.shared().is_none() && counts(store) && !survives(&mut io.logs, store) {
                if self.journal.has_no_room_for(JOURNALED_BYTES_MAX as usize) {
                    self.flush()?;
                }
                self.journal_tail(handle)?;
            }
        }
        self.flush()?;
        let Engine { io, partitions, .. } = self;
        match partitions
            .iter_mut()
            .flatten()
            .filter(|store| counts(store))
            .all(|store| survives(&mut io.logs, store))
        {
            true => Ok(()),
            false => Err(EngineError::DiskFull { free_bytes: io.disk.free_bytes()? }),
        }
    }
}

/// The content of the format file of a folder with a shared log.
fn format_of_shared(log: LogId) -> Vec<u8> {
    let digits: String = log.0.iter().map(|byte| format!("{byte:02x}")).collect();
    [FORMAT_SHARED, digits.as_bytes(), b"\n"].concat()
}

/// The id of the shared log that the format file names.
fn log_of(bytes: &[u8]) -> Option<LogId> {
    let digits = bytes.strip_prefix(FORMAT_SHARED)?.strip_suffix(b"\n")?;
    let digits = std::str::from_utf8(digits).ok()?.as_bytes();
    let digit = |at: usize| digits.get(at).and_then(|digit| char::from(*digit).to_digit(16));
    let mut log = LogId::default();
    for (at, byte) in log.0.iter_mut().enumerate() {
        *byte = (digit(2 * at)? << 4 | digit(2 * at + 1)?) as u8;
    }
    (digits.len() == 2 * log.0.len()).then_some(log)
}

/// The number of another format, if the file names one. Any other content is a damaged file, also a number of
/// more than nine digits.
fn other_format(bytes: &[u8]) -> Option<u32> {
    let line = bytes.strip_prefix(FORMAT_BEGIN)?;
    let digits = &line[..line.iter().position(|byte| *byte == b'\n')?];
    let is_number = (1..=9).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
    let number: u32 = std::str::from_utf8(digits).ok().filter(|_| is_number)?.parse().ok()?;
    // One bit of a digit may have flipped: no program has ever written format 0, and this program writes only
    // its own.
    (number > 1).then_some(number)
}

/// The partition that this folder belongs to.
pub(super) fn id_of_folder(name: &str) -> Option<PartitionId> {
    name.strip_prefix("p-").and_then(|hex| u64::from_str_radix(hex, 16).ok()).map(PartitionId)
}

/// Whether the partition should exist at the next start.
fn counts(store: &PartitionStore) -> bool {
    store.durability != Durability::Memory && !store.is_incoming()
}

fn survives(logs: &mut Logs, store: &PartitionStore) -> bool {
    logs.synced_index(store.handle).max(store.journaled) >= logs.view(store.handle).last().1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::simulated::SimulatedDisk;
    use crate::{EntryKind, PartitionOptions};

    /// A disk with a record on it, and with these bytes as its format file.
    fn with_format(bytes: &[u8], has_data: bool) -> SimulatedDisk {
        let mut disk = SimulatedDisk::new(1);
        if has_data {
            let (mut engine, _) = Engine::open(disk.clone(), EngineOptions::default()).expect("opens");
            let options = PartitionOptions { durability: Durability::DEFAULT, index_seed: 7 };
            let p = engine.partition(PartitionId(1), options).expect("opens");
            engine.write(p, EntryKind::Put, 0, 1, b"key", b"value").expect("writes");
            engine.close().expect("closes");
            disk.remove(FORMAT_FILE).expect("is there");
        }
        let file = disk.open(FORMAT_FILE, OpenMode::Create).expect("opens");
        disk.append(file, bytes).expect("writes");
        disk.close(file);
        disk
    }

    fn refusal(bytes: &[u8]) -> String {
        let opened = Engine::open(with_format(bytes, true), EngineOptions::default());
        opened.map(drop).expect_err("another format, or none").to_string()
    }

    #[test]
    fn corrupt_format_file_is_distinguished_from_other_format() {
        for (bytes, number) in
            [(&b"zerohop engine data, format 2\n"[..], 2), (b"zerohop engine data, format 17\n", 17)]
        {
            let error = refusal(bytes);
            assert!(
                error.contains(&format!("is of format {number}")) && error.contains("zerohop that wrote it"),
                "{error}"
            );
            assert!(!error.contains("damaged"), "{error}");
        }
        // Every bit, except those that make another digit of the number.
        for at in 0..FORMAT.len() {
            for bit in 0..8 {
                let mut bytes = FORMAT.to_vec();
                bytes[at] ^= 1 << bit;
                if other_format(&bytes).is_none() {
                    let error = refusal(&bytes);
                    assert!(
                        error.contains("format: damaged") && error.contains("empty folder"),
                        "{at} {bit}: {error}"
                    );
                    assert!(!error.contains("zerohop that wrote it"), "{error}");
                } else {
                    assert_eq!(at, FORMAT_BEGIN.len(), "only the number");
                }
            }
        }
        for bytes in [&b""[..], &FORMAT[..10], &[0; 4096], b"zerohop engine data, format 0\n"] {
            assert!(refusal(bytes).contains("damaged"), "{bytes:?}");
        }
        // A crash came while the folder was made.
        for bytes in [&b""[..], &FORMAT[..10]] {
            assert!(Engine::open(with_format(bytes, false), EngineOptions::default()).is_ok());
        }
    }
}
