//! The journal of one instance. It holds entries of `sync` partitions, and entries of `interval` partitions if many of these
//! are due at once. One flush makes a complete batch durable, however many partitions it touches.
//!
//! ```text
//!   push ... push ──flush──────> append + one sync ──> all of them survive a crash     (the caller waits)
//!   push ... push ──flush_begin──> append, sync begun ... flush_done ──> they do       (no caller waits)
//!   file full ──> next file; the old one is removed once the segments durably hold its entries
//! ```

use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub mod format;

use crate::PartitionId;
use crate::disk::crash_point::CrashPoint;
use crate::disk::{DirEntry, Disk, DiskError, DiskResult, FileId, OpenMode, SyncTicket, create_over_remains};
use crate::limits::{JOURNAL_FILE_BYTES_MIN, JOURNAL_INLINE_BYTES_MAX, JOURNAL_OF_FREE, KEY_BYTES_MAX};
use crate::log::entry::EntryMeta;
use crate::planted::{Bug, is_planted};
use format::{HEADER_BYTES, JournalHeader, JournalRecord};

/// The folder of journal files.
pub(crate) const FOLDER: &str = "journal";

/// The journal of one engine.
pub(crate) struct Journal {
    file_bytes_max: u64,
    /// The greatest length of a batch: with a file that is nearly full it is no longer than a file may be.
    batch_bytes_max: u64,
    files: VecDeque<File>,
    /// The next file, made ahead so that a full disk has space for the last accepted entries.
    spare: Option<File>,
    next_number: u64,
    buffer: Vec<u8>,
    /// The salt of the file that the buffer is for; that file may not exist yet.
    salt: u32,
    is_for_new_file: bool,
    /// The buffer's entries of each partition: handle and highest log index.
    batch: BTreeMap<u32, u64>,
    /// Partitions whose seed is in the file that the buffer is for.
    seeded: BTreeSet<u32>,
    /// Partitions whose segments must be synced with this batch.
    large: Vec<u32>,
    /// The flush that was started and is not known to be done.
    begun: Option<JournalSync>,
    /// The last flush found no room; the batch is kept.
    is_full: bool,
}

/// The owner of added entries.
#[derive(Clone, Copy)]
pub(crate) struct JournalOwner {
    pub(crate) handle: u32,
    pub(crate) partition: PartitionId,
    /// The seed of the hash of its keys, if no segment of it records the seed durably.
    pub(crate) seed: Option<u64>,
}

struct JournalSync {
    ticket: SyncTicket,
    file: FileId,
    /// Bytes of the file that it makes durable.
    bytes: u64,
    /// Their entries of each partition, beyond those known to be durable: handle and highest log index.
    partition_ends: BTreeMap<u32, u64>,
}

struct File {
    path: String,
    file: FileId,
    salt: u32,
    /// It is closed when it has this much.
    bytes_max: u64,
    written_bytes: u64,
    synced_bytes: u64,
    /// Highest log index of each partition in this file.
    partition_ends: BTreeMap<u32, u64>,
}

impl File {
    /// Whether the next batch goes into another file.
    fn is_complete(&self) -> bool {
        self.written_bytes >= self.bytes_max
    }
}

impl Journal {
    /// A journal that closes a file when it has `file_bytes_max` at the latest, on a disk where a file has at most `disk_file_bytes_max`.
    pub(crate) fn new(file_bytes_max: u64, disk_file_bytes_max: u64, next_number: u64) -> Journal {
        Journal {
            file_bytes_max,
            batch_bytes_max: disk_file_bytes_max.saturating_sub(file_bytes_max),
            files: VecDeque::new(),
            spare: None,
            next_number,
            buffer: Vec::new(),
            salt: 0,
            is_for_new_file: false,
            batch: BTreeMap::new(),
            seeded: BTreeSet::new(),
            large: Vec::new(),
            begun: None,
            is_full: false,
        }
    }

    /// As [`Journal::push_pieces`], for one of several consecutive entries: [`Journal::pushed`] ends them.
    pub(crate) fn push_one_of(&mut self, whose: JournalOwner, entry: (&EntryMeta, &[u8], &[u8])) {
        let (meta, key, payload) = entry;
        if payload.len() > JOURNAL_INLINE_BYTES_MAX {
            return self.push_reference(whose, (meta, key), payload.len());
        }
        self.push_seed(whose);
        let partition = whose.partition;
        self.push_record(&JournalRecord::Entry { partition, meta: *meta, key, payload });
    }

    /// Adds an entry, whose payload comes in pieces, to the batch. An entry above the inline size is only referred to: its
    /// partition's segments are synced with the batch.
    pub(crate) fn push_pieces<const N: usize>(
        &mut self,
        whose: JournalOwner,
        (meta, key): (&EntryMeta, &[u8]),
        payload: [&[u8]; N],
    ) {
        let bytes = payload.iter().map(|piece| piece.len()).sum::<usize>();
        match payload[..] {
            [whole] => self.push_one_of(whose, (meta, key, whole)),
            _ if bytes > JOURNAL_INLINE_BYTES_MAX => {
                self.push_reference(whose, (meta, key), bytes);
            }
            _ => self.push_one_of(whose, (meta, key, &payload.concat())),
        }
        self.batch.insert(whose.handle, meta.index);
    }

    /// Adds a reference to an entry in its segment, which joins the flush.
    fn push_reference(&mut self, whose: JournalOwner, (meta, key): (&EntryMeta, &[u8]), bytes: usize) {
        let JournalOwner { handle, partition, .. } = whose;
        if !self.large.contains(&handle) {
            self.large.push(handle);
        }
        self.push_record(&JournalRecord::Reference {
            partition,
            meta: *meta,
            key,
            payload_bytes: bytes as u32,
        });
    }

    /// Records the log index up to which a partition's entries were added.
    pub(crate) fn pushed(&mut self, handle: u32, index: u64) {
        self.batch.insert(handle, index);
    }

    /// Records that a partition's log is about to be truncated after `index`.
    pub(crate) fn push_truncate_started(&mut self, partition: PartitionId, index: u64) {
        self.push_record(&JournalRecord::TruncateStarted { partition, index });
    }

    /// Records that a partition's log was truncated after `index`.
    pub(crate) fn push_truncated(&mut self, handle: u32, partition: PartitionId, index: u64) {
        self.push_record(&JournalRecord::Truncated { partition, index });
        // This makes no entry durable; and the record need not outlast the entries before it, which are removed first.
        let begun = self.begun.as_mut().and_then(|begun| begun.partition_ends.get_mut(&handle));
        for durable_end in self.batch.get_mut(&handle).into_iter().chain(begun) {
            *durable_end = index.min(*durable_end);
        }
    }

    /// Once in each file: earlier files may be gone by the time that this one is replayed.
    fn push_seed(&mut self, JournalOwner { handle, partition, seed }: JournalOwner) {
        let Some(seed) = seed else { return };
        self.begin_batch();
        if self.seeded.insert(handle) {
            self.push_record(&JournalRecord::Seed { partition, seed });
        }
    }

    fn push_record(&mut self, record: &JournalRecord<'_>) {
        self.begin_batch();
        format::encode(self.salt, record, &mut self.buffer);
    }

    fn begin_batch(&mut self) {
        if self.buffer.is_empty() {
            let open = self.files.back().filter(|f| !f.is_complete());
            // A batch goes into one file. A new file is made when the batch is flushed.
            let (salt, synced_bytes) = match open {
                Some(file) => (file.salt, file.synced_bytes),
                None => (JournalHeader::new(self.next_number).salt, HEADER_BYTES as u64),
            };
            self.is_for_new_file = open.is_none();
            if self.is_for_new_file {
                self.seeded.clear();
            }
            self.salt = salt;
            format::encode(salt, &JournalRecord::Batch { synced_bytes }, &mut self.buffer);
        }
    }

    /// Whether the batch must be flushed before an entry with so many bytes of key and payload is added: no file could hold both.
    #[inline]
    pub(crate) fn has_no_room_for(&self, bytes: usize) -> bool {
        let inlined = bytes.min(JOURNAL_INLINE_BYTES_MAX + KEY_BYTES_MAX);
        (self.buffer.len() + inlined + RECORDS_ROOM_BYTES) as u64 > self.batch_bytes_max
    }

    /// Whether little or no space is preallocated for the next batches.
    pub(crate) fn needs_spare(&self) -> bool {
        let is_near_end = |file: &File| file.written_bytes >= file.bytes_max - file.bytes_max / 8;
        self.spare.is_none() && self.files.back().is_none_or(is_near_end)
    }

    /// Makes the next file ahead, durably. If that fails nothing is left of it.
    pub(crate) fn make_spare<D: Disk>(&mut self, disk: &mut D) -> DiskResult<()> {
        self.spare = Some(self.make_file(disk)?);
        Ok(())
    }

    /// Begins the next file: the one made ahead, or a new one.
    fn begin_file<D: Disk>(&mut self, disk: &mut D) -> DiskResult<()> {
        let file = match self.spare.take() {
            Some(file) => file,
            None => self.make_file(disk)?,
        };
        self.next_number += 1;
        self.is_for_new_file = false;
        self.files.push_back(file);
        disk.reached(CrashPoint::JournalBegun);
        Ok(())
    }

    /// Makes the file of the next number, durably. If that fails nothing is left of it.
    fn make_file<D: Disk>(&self, disk: &mut D) -> DiskResult<File> {
        let header = JournalHeader::new(self.next_number);
        let path = format!("{FOLDER}/{:016x}.jnl", header.number);
        let file = create_over_remains(disk, &path)?;
        let written = disk.append(file, &header.encode());
        let synced = written.and_then(|()| {
            disk.sync(file).map_err(DiskError::beyond_repair)?;
            disk.sync_dir(FOLDER).map_err(DiskError::beyond_repair_unless_scarce)
        });
        if let Err(error) = synced {
            disk.close(file);
            // What cannot be removed now is removed by the next attempt.
            match disk.remove(&path) {
                Err(other) if !other.is_temporary() => return Err(other),
                _ => return Err(error),
            }
        }
        // The last batch of a file may end behind its nominal end.
        let bytes_max = self.bytes_max_on(disk);
        disk.reserve(file, bytes_max + bytes_max / 16);
        let salt = header.salt;
        let bytes = HEADER_BYTES as u64;
        let holds = BTreeMap::new();
        Ok(File {
            path,
            file,
            salt,
            bytes_max,
            written_bytes: bytes,
            synced_bytes: bytes,
            partition_ends: holds,
        })
    }

    /// The bytes at which the next file is closed: fewer on a disk with little room, whose journal would otherwise take it.
    fn bytes_max_on<D: Disk>(&self, disk: &mut D) -> u64 {
        // A disk that does not report its free space has enough of it, as far as is known.
        let share = disk.free_bytes().map_or(u64::MAX, |free| free / JOURNAL_OF_FREE);
        share.max(JOURNAL_FILE_BYTES_MIN).min(self.file_bytes_max)
    }

    /// Adds a file from before the store was opened, to which nothing more is written. It holds entries of these partitions,
    /// up to these log indexes.
    pub(crate) fn add_old_file<D: Disk>(
        &mut self,
        disk: &mut D,
        name: &DirEntry,
        holds: BTreeMap<u32, u64>,
    ) -> DiskResult<()> {
        let path = format!("{FOLDER}/{}", name.name);
        let file = disk.open(&path, OpenMode::Existing)?;
        self.files.push_back(File {
            path,
            file,
            salt: 0,
            bytes_max: 0,
            written_bytes: name.bytes,
            synced_bytes: name.bytes,
            partition_ends: holds,
        });
        Ok(())
    }

    /// Partitions whose segments must be synced before [`Journal::flush`].
    pub(crate) fn take_needing_sync(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.large)
    }

    /// Whether there are any.
    pub(crate) fn has_large(&self) -> bool {
        !self.large.is_empty()
    }

    /// Puts them back, if syncing them failed.
    pub(crate) fn put_large_back(&mut self, large: Vec<u32>) {
        self.large.extend(large);
    }

    /// Whether an added entry is not known to be durable.
    pub(crate) fn has_batch(&self) -> bool {
        !self.buffer.is_empty() || self.begun.is_some()
    }

    /// Whether the last flush found no room: its batch is kept, and the caller should avoid adding to it.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Whether a flush was started and is not known to be done.
    pub(crate) fn is_flushing(&self) -> bool {
        self.begun.is_some()
    }

    /// Makes the added entries survive a crash: one append, one sync. Returns what is durable now: partition handles and
    /// their highest log indexes. After `Full` the batch is kept and the call may be repeated.
    pub(crate) fn flush<D: Disk>(&mut self, disk: &mut D) -> DiskResult<BTreeMap<u32, u64>> {
        let is_new = !self.buffer.is_empty();
        let mut partition_ends = if is_new { self.append_batch(disk)? } else { BTreeMap::new() };
        // The started flush may hold entries that the caller waits for. Also, a failure is reported to only one of two syncs
        // of a file, and this sync must not miss it.
        if let Some(begun) = &self.begun {
            disk.sync_wait(begun.ticket).map_err(DiskError::beyond_repair)?;
        }
        if is_new && let Some(file) = self.files.back_mut() {
            if !is_planted(Bug::JournalNotSynced) {
                disk.sync(file.file).map_err(DiskError::beyond_repair)?;
            }
            file.synced_bytes = file.written_bytes;
        }
        for (handle, index) in self.begun.take().into_iter().flat_map(|begun| begun.partition_ends) {
            let known = partition_ends.entry(handle).or_default();
            *known = index.max(*known);
        }
        Ok(partition_ends)
    }

    /// Starts to make the batch survive a crash; [`Journal::flush_done`] reports the end. Only while no other flush was
    /// started. After `Full` the batch is kept.
    pub(crate) fn flush_begin<D: Disk>(&mut self, disk: &mut D, is_awaited: bool) -> DiskResult<()> {
        debug_assert!(self.begun.is_none());
        if self.buffer.is_empty() {
            return Ok(());
        }
        let partition_ends = self.append_batch(disk)?;
        let Some(file) = self.files.back() else { unreachable!("a file was begun") };
        let begun = if is_awaited { disk.sync_begin_awaited(file.file) } else { disk.sync_begin(file.file) };
        let ticket = begun.map_err(DiskError::beyond_repair)?;
        self.begun = Some(JournalSync { ticket, file: file.file, bytes: file.written_bytes, partition_ends });
        Ok(())
    }

    /// The entries that the started flush has made durable, once it is done. After an error none of its entries is known to
    /// be durable; they are returned with the error.
    pub(crate) fn flush_done<D: Disk>(
        &mut self,
        disk: &mut D,
    ) -> Result<BTreeMap<u32, u64>, (DiskError, BTreeMap<u32, u64>)> {
        let Some(begun) = &self.begun else { return Ok(BTreeMap::new()) };
        let done = disk.sync_done(begun.ticket).map_err(DiskError::beyond_repair);
        if done == Ok(false) && !is_planted(Bug::JournalNotSynced) {
            return Ok(BTreeMap::new());
        }
        let Some(JournalSync { file, bytes, partition_ends, .. }) = self.begun.take() else {
            return Ok(BTreeMap::new());
        };
        if let Err(error) = done {
            return Err((error, partition_ends));
        }
        if let Some(file) = self.files.iter_mut().find(|one| one.file == file) {
            file.synced_bytes = file.synced_bytes.max(bytes);
        }
        Ok(partition_ends)
    }

    /// Appends the batch to the newest file. Returns its entries.
    fn append_batch<D: Disk>(&mut self, disk: &mut D) -> DiskResult<BTreeMap<u32, u64>> {
        if self.is_for_new_file {
            self.begin_file(disk).inspect_err(|error| self.is_full = error.is_temporary())?;
        }
        let Some(file) = self.files.back_mut() else { unreachable!("a file was begun") };
        disk.append(file.file, &self.buffer).inspect_err(|error| self.is_full = error.is_temporary())?;
        self.is_full = false;
        file.written_bytes += self.buffer.len() as u64;
        for (&handle, &index) in &self.batch {
            let last = file.partition_ends.entry(handle).or_default();
            *last = (*last).max(index);
        }
        self.buffer.clear();
        self.buffer.shrink_to(BUFFER_RETAINED_BYTES);
        Ok(std::mem::take(&mut self.batch))
    }

    /// The entries of the oldest file that is no longer written: partition handles and highest log indexes. On a full disk
    /// (`is_full`) the file that is written counts too, if no batch is for it and its removal frees enough.
    pub(crate) fn oldest_closed(&self, is_full: bool) -> Option<&BTreeMap<u32, u64>> {
        let is_followed = self.files.len() > 1;
        let is_at_rest = |file: &&File| self.begun.as_ref().is_none_or(|begun| begun.file != file.file);
        let gives_room =
            |file: &File| is_full && self.buffer.is_empty() && file.written_bytes >= JOURNAL_FILE_BYTES_MIN;
        let oldest = self.files.front().filter(is_at_rest);
        oldest.filter(|f| is_followed || f.is_complete() || gives_room(f)).map(|f| &f.partition_ends)
    }

    /// Removes the oldest file: the segments durably hold its entries. In order, so that after a crash the remaining files
    /// are the newest.
    pub(crate) fn remove_oldest<D: Disk>(&mut self, disk: &mut D) -> DiskResult<()> {
        let Some(file) = self.files.front() else { return Ok(()) };
        match disk.remove(&file.path) {
            Ok(()) | Err(DiskError::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
        disk.reached(CrashPoint::JournalRemoved);
        disk.sync_dir(FOLDER)?;
        disk.close(file.file);
        self.files.pop_front();
        Ok(())
    }

    /// Removes all files: at a clean shutdown, once the segments hold everything.
    pub(crate) fn remove_all<D: Disk>(&mut self, disk: &mut D) -> DiskResult<()> {
        self.files.extend(self.spare.take());
        while !self.files.is_empty() {
            self.remove_oldest(disk)?;
        }
        Ok(())
    }

    /// Whether a replay could find a record of this partition.
    pub(crate) fn has_records_of(&self, handle: u32) -> bool {
        self.batch.contains_key(&handle) || self.files.iter().any(|f| f.partition_ends.contains_key(&handle))
    }

    pub(crate) fn bytes_on_disk(&self) -> u64 {
        self.files.iter().map(|f| f.written_bytes).sum()
    }

    pub(crate) fn remove_partition(&mut self, handle: u32) {
        for file in &mut self.files {
            file.partition_ends.remove(&handle);
        }
        self.batch.remove(&handle);
        self.seeded.remove(&handle);
        if let Some(begun) = &mut self.begun {
            begun.partition_ends.remove(&handle);
        }
        self.large.retain(|&h| h != handle);
    }
}

/// Room for the heads of some records, and for records of seeds and truncations.
const RECORDS_ROOM_BYTES: usize = 16 << 10;
const BUFFER_RETAINED_BYTES: usize = 4 << 20;
