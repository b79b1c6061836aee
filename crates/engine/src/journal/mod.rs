//! The journal of one instance: entries of `sync` partitions, so that one flush makes a whole batch durable however
//! many partitions it touches.
//!
//! ```text
//!   push ... push ──flush──> append + one sync ──> all of them survive a crash
//!   file full ──> next file; the old one goes once the segments hold, durably, what it holds
//! ```

use std::collections::{BTreeMap, VecDeque};

pub mod format;

use crate::PartitionId;
use crate::disk::{Disk, DiskError, DiskResult, FileId, OpenMode};
use crate::limits::JOURNAL_INLINE_BYTES_MAX;
use crate::log::entry::Meta;
use crate::planted::{Bug, is_planted};
use format::{HEADER_BYTES, Header, Record};

/// The folder of journal files.
pub(crate) const FOLDER: &str = "journal";

/// The journal of one engine.
pub(crate) struct Journal {
    file_bytes_max: u64,
    files: VecDeque<File>,
    next_number: u64,
    buffer: Vec<u8>,
    /// Of the file that the buffer is for, which may be yet to be made.
    salt: u32,
    is_for_new_file: bool,
    /// What the buffer holds of each partition: handle and highest log index.
    batch: BTreeMap<u32, u64>,
    /// Partitions whose segments must be synced with this batch.
    large: Vec<u32>,
}

struct File {
    path: String,
    file: FileId,
    salt: u32,
    synced_bytes: u64,
    /// Highest log index of each partition in here.
    holds: BTreeMap<u32, u64>,
}

impl Journal {
    pub(crate) fn new(file_bytes_max: u64, next_number: u64) -> Journal {
        Journal {
            file_bytes_max,
            files: VecDeque::new(),
            next_number,
            buffer: Vec::new(),
            salt: 0,
            is_for_new_file: false,
            batch: BTreeMap::new(),
            large: Vec::new(),
        }
    }

    /// Takes an entry into the batch. An entry above the inline size is only referred to: its partition's segments are
    /// synced with the batch.
    pub(crate) fn push(&mut self, handle: u32, partition: PartitionId, entry: (&Meta, &[u8], &[u8])) {
        let (&meta, key, payload) = entry;
        let record = if payload.len() > JOURNAL_INLINE_BYTES_MAX {
            if !self.large.contains(&handle) {
                self.large.push(handle);
            }
            Record::Reference { partition, meta, key, payload_bytes: payload.len() as u32 }
        } else {
            Record::Entry { partition, meta, key, payload }
        };
        self.push_record(&record);
        self.batch.insert(handle, meta.index);
    }

    /// Takes note that a partition's log was cut after `index`.
    pub(crate) fn push_cut(&mut self, handle: u32, partition: PartitionId, index: u64) {
        self.push_record(&Record::Cut { partition, index });
        // It makes no entry durable; and it need not outlast the entries before it, which go first.
        if let Some(held) = self.batch.get_mut(&handle) {
            *held = index.min(*held);
        }
    }

    fn push_record(&mut self, record: &Record<'_>) {
        if self.buffer.is_empty() {
            let open = self.files.back().filter(|f| f.synced_bytes < self.file_bytes_max);
            // A batch goes into one file. A new one is made when the batch is flushed.
            let (salt, synced_bytes) = match open {
                Some(file) => (file.salt, file.synced_bytes),
                None => (Header::new(self.next_number).salt, HEADER_BYTES as u64),
            };
            self.is_for_new_file = open.is_none();
            self.salt = salt;
            format::encode(salt, &Record::Batch { synced_bytes }, &mut self.buffer);
        }
        format::encode(self.salt, record, &mut self.buffer);
    }

    /// Makes the next file, durably. If that fails nothing is left of it.
    fn begin_file<D: Disk>(&mut self, disk: &mut D) -> DiskResult<()> {
        let header = Header::new(self.next_number);
        let path = format!("{FOLDER}/{:016x}.jnl", header.number);
        let file = disk.open(&path, OpenMode::Create)?;
        let written = disk.append(file, &header.encode());
        let synced = written.and_then(|()| {
            disk.sync(file).and_then(|()| disk.sync_dir(FOLDER)).map_err(DiskError::beyond_repair)
        });
        if let Err(error) = synced {
            disk.close(file);
            disk.remove(&path)?;
            return Err(error);
        }
        self.next_number += 1;
        self.is_for_new_file = false;
        let salt = header.salt;
        let holds = BTreeMap::new();
        self.files.push_back(File { path, file, salt, synced_bytes: HEADER_BYTES as u64, holds });
        Ok(())
    }

    /// Partitions whose segments must be synced before [`Journal::flush`].
    pub(crate) fn take_large(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.large)
    }

    /// Puts them back, if syncing them failed.
    pub(crate) fn put_large_back(&mut self, large: Vec<u32>) {
        self.large.extend(large);
    }

    pub(crate) fn has_batch(&self) -> bool {
        !self.buffer.is_empty()
    }

    /// Makes the batch survive a crash: one append, one sync. Returns what it held: partition handles and their
    /// highest log indexes. After `Full` the batch is kept and the call may be repeated.
    pub(crate) fn flush<D: Disk>(&mut self, disk: &mut D) -> DiskResult<BTreeMap<u32, u64>> {
        if self.buffer.is_empty() {
            return Ok(BTreeMap::new());
        }
        if self.is_for_new_file {
            self.begin_file(disk)?;
        }
        let Some(file) = self.files.back_mut() else { unreachable!("a file was begun") };
        disk.append(file.file, &self.buffer)?;
        if !is_planted(Bug::MissingFlush) {
            disk.sync(file.file).map_err(DiskError::beyond_repair)?;
        }
        file.synced_bytes += self.buffer.len() as u64;
        for (&handle, &index) in &self.batch {
            let held = file.holds.entry(handle).or_default();
            *held = (*held).max(index);
        }
        self.buffer.clear();
        self.buffer.shrink_to(BUFFER_BYTES_KEPT);
        Ok(std::mem::take(&mut self.batch))
    }

    /// What the oldest file that is no longer written holds: partition handles and highest log indexes.
    pub(crate) fn oldest_closed(&self) -> Option<&BTreeMap<u32, u64>> {
        let is_closed = self.files.len() > 1;
        self.files.front().filter(|_| is_closed).map(|f| &f.holds)
    }

    /// Removes the oldest file: the segments hold, durably, what it holds. In order, so that after a crash the files
    /// that are left are the newest.
    pub(crate) fn remove_oldest<D: Disk>(&mut self, disk: &mut D) -> DiskResult<()> {
        let Some(file) = self.files.front() else { return Ok(()) };
        match disk.remove(&file.path) {
            Ok(()) | Err(DiskError::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
        disk.sync_dir(FOLDER)?;
        disk.close(file.file);
        self.files.pop_front();
        Ok(())
    }

    /// Removes all files: at an orderly close, once the segments hold everything.
    pub(crate) fn remove_all<D: Disk>(&mut self, disk: &mut D) -> DiskResult<()> {
        while !self.files.is_empty() {
            self.remove_oldest(disk)?;
        }
        Ok(())
    }

    /// Whether a replay could meet something of this partition.
    pub(crate) fn holds(&self, handle: u32) -> bool {
        self.batch.contains_key(&handle) || self.files.iter().any(|f| f.holds.contains_key(&handle))
    }

    pub(crate) fn bytes_on_disk(&self) -> u64 {
        self.files.iter().map(|f| f.synced_bytes).sum()
    }

    pub(crate) fn forget_partition(&mut self, handle: u32) {
        for file in &mut self.files {
            file.holds.remove(&handle);
        }
        self.batch.remove(&handle);
        self.large.retain(|&h| h != handle);
    }
}

const BUFFER_BYTES_KEPT: usize = 4 << 20;
