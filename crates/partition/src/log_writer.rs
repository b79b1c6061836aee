//! The log writer: numbers and appends a partition's entries. They are committed by this copy alone, or as `zerohop-replication` has
//! counted.

use std::collections::VecDeque;

use zerohop_engine::disk::Disk;
use zerohop_engine::{
    Durability, Engine, EngineError, EngineResult, EntryKind, EntryMeta, FLAG_JOINED, Handle, Hint, NewEntry,
    ReserveShare, chunk_pieces,
};
use zerohop_wire::ids::Timestamp;

/// An entry before it has a position in the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewLogEntry<'a> {
    pub(crate) kind: EntryKind,
    pub(crate) flags: u8,
    pub(crate) at: Timestamp,
    pub(crate) key: &'a [u8],
    pub(crate) payload: &'a [u8],
    /// Where the key's record was found, if it was looked up.
    pub(crate) hint: Option<&'a Hint>,
}

impl<'a> NewLogEntry<'a> {
    fn as_new(&self) -> NewEntry<'a> {
        let &NewLogEntry { kind, flags, at, key, payload, hint } = self;
        NewEntry { kind, flags, timestamp: at.0, key, payload, hint }
    }
}

/// Numbers entries (epoch, index) and reports the commit index: the entries that every in-sync member has at the keyspace's
/// durability. With other members in the group their acknowledgements are counted elsewhere, and the commit index is set here.
#[derive(Debug)]
pub(crate) struct LogWriter {
    handle: Handle,
    epoch: u32,
    durability: Durability,
    /// Epoch and index of the last entry appended.
    last: (u32, u64),
    /// Up to this log index only the log itself tells whether an entry is joined with the next.
    unsure: u64,
    /// Behind that index: the log indexes of all uncommitted entries that are joined with the next.
    joined: VecDeque<u64>,
    /// `None`: this is the only copy. Otherwise the log index up to which all needed members have the entries.
    commit_index: Option<u64>,
    /// Too few members have room on their disks for entries to be acknowledged.
    lacks_disk_space: bool,
    /// Entries that are appended now may use this share of the reserve of a full disk.
    reserve_share: ReserveShare,
    /// Behind `last` the log has undone entries, because the disk had no room even for the truncation. They are truncated before
    /// another entry is appended.
    needs_truncation: bool,
    /// Each commit is observed, so that no entry is committed when it is appended.
    is_observed: bool,
    /// No other member has ever had the log: it is durable in the order of its engine, or lost.
    is_lone: bool,
    /// Uncommitted entries, first and last log index, that may be committed before they are durable.
    needing_no_flush: VecDeque<(u64, u64)>,
}

impl LogWriter {
    pub(crate) fn new(handle: Handle, epoch: u32, durability: Durability, last: (u32, u64)) -> LogWriter {
        let epoch = epoch.max(last.0).max(1);
        LogWriter {
            handle,
            epoch,
            durability,
            last,
            unsure: 0,
            joined: VecDeque::new(),
            commit_index: None,
            lacks_disk_space: false,
            reserve_share: ReserveShare::Nothing,
            needs_truncation: false,
            is_observed: false,
            is_lone: false,
            needing_no_flush: VecDeque::new(),
        }
    }

    /// Sets whether no other member has ever had the log.
    pub(crate) fn set_lone(&mut self, is_lone: bool) {
        self.is_lone = is_lone;
        self.needing_no_flush.clear();
    }

    /// The entries behind `before` may be committed before they are durable, as soon as those before them are committed.
    pub(crate) fn commits_unflushed_after(&mut self, before: u64) {
        if before < self.last.1 {
            self.needing_no_flush.push_back((before + 1, self.last.1));
        }
    }

    /// Whether the next entries after the applied ones are such.
    pub(crate) fn may_commit_unflushed(&self, applied: u64) -> bool {
        let next = self.needing_no_flush.iter().find(|(_, end)| *end > applied);
        next.is_some_and(|(first, _)| *first <= applied + 1)
    }

    /// Sets whether each commit is observed: entries are then committed by [`LogWriter::committed`] alone.
    pub(crate) fn set_observed(&mut self, is_observed: bool) {
        self.is_observed = is_observed;
    }

    pub(crate) fn handle(&self) -> Handle {
        self.handle
    }

    pub(crate) fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Entries from here on have this epoch.
    pub(crate) fn raise_epoch(&mut self, epoch: u32) {
        self.epoch = self.epoch.max(epoch);
    }

    /// The epoch has changed, and from now on other members must have the entries, or none must. Entries already committed stay
    /// committed.
    pub(crate) fn set_members(&mut self, epoch: u32, is_alone: bool, committed: u64) {
        self.epoch = epoch;
        self.commit_index = (!is_alone).then(|| self.commit_index.unwrap_or(0).max(committed));
    }

    /// Whether this is the only copy that an entry needs.
    pub(crate) fn is_single_copy(&self) -> bool {
        self.commit_index.is_none()
    }

    /// All needed members have the entries up to this log index.
    pub(crate) fn set_commit_index(&mut self, index: u64) {
        if let Some(agreed) = &mut self.commit_index {
            *agreed = index.max(*agreed);
        }
    }

    /// The log now ends with this entry, because it was received, or because the log was truncated behind it.
    pub(crate) fn set_last(&mut self, last: (u32, u64)) {
        self.last = last;
        while self.needing_no_flush.back().is_some_and(|(_, end)| *end > last.1) {
            self.needing_no_flush.pop_back();
        }
        self.joined.truncate(self.joined.partition_point(|one| *one <= last.1));
    }

    /// Entries up to this log index may be joined with the next; which ones was not recorded.
    pub(crate) fn may_be_joined(&mut self, index: u64) {
        self.unsure = self.unsure.max(index);
    }

    /// The last entry is joined with the next.
    pub(crate) fn is_joined(&mut self) {
        let index = self.last.1;
        assert!(self.joined.back().is_none_or(|before| *before < index), "what was cut off is noted no more");
        self.joined.push_back(index);
    }

    /// The log has been emptied and has a new handle.
    pub(crate) fn begin_again(&mut self, handle: Handle) {
        self.handle = handle;
        self.last = (0, 0);
        self.joined.clear();
        self.needing_no_flush.clear();
        self.needs_truncation = false;
        self.commit_index = self.commit_index.map(|_| 0);
    }

    pub(crate) fn durability(&self) -> Durability {
        self.durability
    }

    /// Log index of the last entry appended.
    pub(crate) fn last(&self) -> u64 {
        self.last.1
    }

    pub(crate) fn set_durability(&mut self, durability: Durability) {
        self.durability = durability;
    }

    /// Sets whether too few members have room for entries that make their logs permanently longer. Such entries are refused as if
    /// this disk were full.
    pub(crate) fn set_lacks_disk_space(&mut self, lacks_room: bool) {
        self.lacks_disk_space = lacks_room;
    }

    /// Whether entries of so many bytes in all would be accepted now, as admitted ones or as others.
    pub(crate) fn check_space_for<D: Disk>(
        &self,
        engine: &mut Engine<D>,
        bytes: u64,
        is_admitted: bool,
    ) -> EngineResult<()> {
        self.check_disk_space(engine, if is_admitted { EntryKind::Mark } else { EntryKind::Put })?;
        engine.check_space_for(self.handle, bytes, is_admitted)
    }

    /// See [`Engine::set_reserve_share`].
    pub(crate) fn set_reserve_share<D: Disk>(&mut self, engine: &mut Engine<D>, share: ReserveShare) {
        engine.set_reserve_share(share);
        self.reserve_share = share;
    }

    /// Whether an entry here can be kept from surviving a crash without those that were accepted before, of all partitions.
    pub(crate) fn keeps_order<D: Disk>(&self, engine: &mut Engine<D>) -> bool {
        self.is_lone
            && self.is_single_copy()
            && self.durability == Durability::Sync
            && engine.set_journal_first(self.handle, false)
    }

    /// Sets whether entries that are appended from now on are, where [`LogWriter::keeps_order`].
    pub(crate) fn set_journal_first<D: Disk>(&self, engine: &mut Engine<D>, is_on: bool) {
        if self.is_lone && self.durability == Durability::Sync {
            engine.set_journal_first(self.handle, is_on);
        }
    }

    fn check_disk_space<D: Disk>(&self, engine: &Engine<D>, kind: EntryKind) -> EngineResult<()> {
        let is_admitted =
            self.reserve_share >= ReserveShare::Half || matches!(kind, EntryKind::Remove | EntryKind::Mark);
        match self.lacks_disk_space && !is_admitted {
            true if engine.expects_disk_space() => Err(EngineError::Scarce {
                what: "the disks are nearly full, and compaction gives space back: come again",
            }),
            true => Err(EngineError::DiskFull { free_bytes: 0 }),
            false => Ok(()),
        }
    }

    /// Whether entries are committed when they are appended, because no other member needs them and they need not be on disk.
    pub(crate) fn commits_at_once(&self) -> bool {
        self.needs_no_flush() && !self.is_observed
    }

    /// Whether entries need neither another member nor the disk.
    fn needs_no_flush(&self) -> bool {
        self.durability != Durability::Sync && self.commit_index.is_none()
    }

    /// Whether the partition's data outlives the process.
    pub(crate) fn reaches_disk(&self) -> bool {
        self.durability != Durability::Memory
    }

    /// Appends an entry, and commits it if [`LogWriter::commits_at_once`].
    pub(crate) fn append<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        entry: &NewLogEntry<'_>,
    ) -> EngineResult<EntryMeta> {
        self.append_with(engine, entry, &[])
    }

    /// The same. `bytes` are a chunk's bytes that belong behind the head in the payload, if they are in another buffer.
    pub(crate) fn append_with<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        entry: &NewLogEntry<'_>,
        bytes: &[u8],
    ) -> EngineResult<EntryMeta> {
        let &NewLogEntry { kind, flags, at, key, payload, .. } = entry;
        let meta = EntryMeta { kind, flags, epoch: self.epoch, index: self.last.1 + 1, timestamp: at.0 };
        self.check_disk_space(engine, kind)?;
        self.truncate_undone(engine)?;
        // The engine's fast path numbers in the epoch of the last entry.
        if self.commits_at_once() && self.last.0 == self.epoch {
            let index = match bytes {
                [] => engine.write_entry(self.handle, &entry.as_new())?,
                bytes => engine.write_chunk_entry(self.handle, &entry.as_new(), bytes)?,
            };
            assert_eq!(index, meta.index, "only this writer appends to this log");
        } else {
            match bytes {
                [] => engine.append(self.handle, &meta, key, payload)?,
                bytes => engine.append_pieces(self.handle, &meta, key, chunk_pieces(payload, bytes))?,
            }
            if self.commits_at_once() {
                engine.commit(self.handle, meta.index)?;
            }
        }
        self.last = (meta.epoch, meta.index);
        Ok(meta)
    }

    /// Appends the entries of an atomic batch, where [`LogWriter::commits_at_once`], and commits them. Returns the log index of
    /// the last entry, and the epoch of all. After a failure some entries may be in the log, uncommitted.
    pub(crate) fn append_batch<'e, D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        entries: impl ExactSizeIterator<Item = NewLogEntry<'e>> + Clone,
    ) -> EngineResult<(u32, u64)> {
        self.truncate_undone(engine)?;
        if self.last.0 == self.epoch {
            let index = engine.write_batch(self.handle, entries.map(|entry| entry.as_new()))?;
            self.last.1 = index;
            return Ok(self.last);
        }
        let mut left = entries.len();
        for entry in entries {
            left -= 1;
            let joined = if left > 0 { FLAG_JOINED } else { 0 };
            self.append_only(engine, &NewLogEntry { flags: entry.flags | joined, ..entry })?;
        }
        engine.commit(self.handle, self.last.1)?;
        Ok(self.last)
    }

    /// Appends an entry that is not committed before others that follow it.
    pub(crate) fn append_only<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        entry: &NewLogEntry<'_>,
    ) -> EngineResult<EntryMeta> {
        let &NewLogEntry { kind, flags, at, key, payload, .. } = entry;
        let meta = EntryMeta { kind, flags, epoch: self.epoch, index: self.last.1 + 1, timestamp: at.0 };
        self.check_disk_space(engine, kind)?;
        self.truncate_undone(engine)?;
        engine.append(self.handle, &meta, key, payload)?;
        self.last = (meta.epoch, meta.index);
        if meta.is_joined() {
            self.is_joined();
        }
        Ok(meta)
    }

    /// The last entry of the atomic batch that starts with this entry, the first uncommitted one; `None` if it is behind
    /// `through`.
    pub(crate) fn batch_end<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        begin: u64,
        through: u64,
    ) -> EngineResult<Option<u64>> {
        while self.joined.front().is_some_and(|one| *one < begin) {
            self.joined.pop_front();
        }
        let mut end = begin;
        while end <= through {
            let is_joined = if end <= self.unsure {
                engine.read_entry(self.handle, end)?.head.meta.is_joined()
            } else {
                self.joined.binary_search(&end).is_ok()
            };
            if !is_joined {
                return Ok(Some(end));
            }
            end += 1;
        }
        Ok(None)
    }

    /// Epoch and index of the last entry appended.
    pub(crate) fn end(&self) -> (u32, u64) {
        self.last
    }

    /// Undoes the entries appended since `end`, which no client's answer depends on.
    pub(crate) fn undo_after<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        end: (u32, u64),
    ) -> EngineResult<()> {
        self.set_last(end);
        self.needs_truncation = true;
        self.truncate_undone(engine)
    }

    /// Truncates undone entries that are still in the log.
    ///
    /// # Errors
    /// The disk has no room for that, so nothing may be appended yet. Any other error ends this log until the next start.
    pub(crate) fn truncate_undone<D: Disk>(&mut self, engine: &mut Engine<D>) -> EngineResult<()> {
        if self.needs_truncation {
            engine.truncate_after(self.handle, self.last.1)?;
            self.needs_truncation = false;
        }
        Ok(())
    }

    /// The commit index now, if it was `applied` before.
    pub(crate) fn committed<D: Disk>(&mut self, engine: &mut Engine<D>, applied: u64) -> EngineResult<u64> {
        if let Some(agreed) = self.commit_index {
            return Ok(agreed.min(self.last.1));
        }
        if self.needs_no_flush() {
            return Ok(self.last.1);
        }
        while self.needing_no_flush.front().is_some_and(|(_, end)| *end <= applied) {
            self.needing_no_flush.pop_front();
        }
        let mut through = self.durable(engine)?.max(applied);
        for &(first, end) in &self.needing_no_flush {
            if first > through + 1 {
                break;
            }
            through = through.max(end);
        }
        Ok(through)
    }

    /// The log index up to which answers need not wait for the disk.
    pub(crate) fn durable<D: Disk>(&self, engine: &mut Engine<D>) -> EngineResult<u64> {
        match self.commit_index.is_some() || self.needs_no_flush() {
            true => Ok(self.last.1),
            false => Ok(engine.durable_index(self.handle)?.min(self.last.1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerohop_engine::disk::simulated::SimulatedDisk;
    use zerohop_engine::{EngineOptions, PartitionId, PartitionOptions};

    fn entry(kind: EntryKind, payload: &[u8]) -> NewLogEntry<'_> {
        NewLogEntry { kind, flags: 0, at: Timestamp(1), key: b"key", payload, hint: None }
    }

    /// The journal must record a truncation before it is made, and there may be no room for that.
    #[test]
    fn undone_entries_are_truncated_before_the_next_append() {
        let disk = SimulatedDisk::new(1);
        let options = EngineOptions { disk_reserve_bytes: 0, ..EngineOptions::default() };
        let (mut engine, _) = Engine::open(disk.clone(), options).expect("opens");
        let own = PartitionOptions { durability: Durability::Sync, index_seed: 7 };
        let handle = engine.partition(PartitionId(1), own).expect("opens");
        let mut log_writer = LogWriter::new(handle, 1, Durability::Sync, (0, 0));
        log_writer.append_only(&mut engine, &entry(EntryKind::Put, b"kept")).expect("is accepted");
        engine.flush().expect("has room");
        let end = log_writer.end();
        for _ in 0..2 {
            log_writer.append_only(&mut engine, &entry(EntryKind::Put, b"given up")).expect("is accepted");
        }
        disk.set_capacity(1);
        engine.check_disk_space();
        let given_up = log_writer.undo_after(&mut engine, end);
        assert!(matches!(given_up, Err(EngineError::DiskFull { .. })), "{given_up:?}");
        assert_eq!(log_writer.end(), end, "no entry may follow what was given up");
        // A removal is admitted however full the disk is, but not behind undone entries.
        let removed = log_writer.append(&mut engine, &entry(EntryKind::Remove, b""));
        assert!(matches!(removed, Err(EngineError::DiskFull { .. })), "{removed:?}");
        assert_eq!(log_writer.end(), end);
        disk.set_capacity(None);
        engine.check_disk_space();
        let meta = log_writer
            .append_only(&mut engine, &entry(EntryKind::Put, b"behind"))
            .expect("there is room again");
        assert_eq!((meta.epoch, meta.index), (1, 2));
        assert_eq!(engine.partition_stats(handle).expect("is open").last, log_writer.end());
        engine.commit(handle, 2).expect("commits");
        assert_eq!(engine.lookup_assembled(handle, b"key"), Ok(Some(b"behind".to_vec())));
        // The truncation is owed only once.
        log_writer.truncate_undone(&mut engine).expect("nothing is owed");
        assert_eq!(engine.partition_stats(handle).expect("is open").last, (1, 2));
    }

    /// Otherwise half an atomic batch would become visible, or a commit would wait for entries that never come.
    #[test]
    fn atomic_batch_end_is_found_after_undo_and_recovery() {
        let options = EngineOptions { disk_reserve_bytes: 0, ..EngineOptions::default() };
        let (mut engine, _) = Engine::open(SimulatedDisk::new(3), options).expect("opens");
        let own = PartitionOptions { durability: Durability::Sync, index_seed: 7 };
        let handle = engine.partition(PartitionId(1), own).expect("opens");
        let mut log_writer = LogWriter::new(handle, 1, Durability::Sync, (0, 0));
        let append = |engine: &mut Engine<SimulatedDisk>, log_writer: &mut LogWriter, flags: u8| {
            let entry = NewLogEntry { flags, ..entry(EntryKind::Put, b"value") };
            log_writer.append_only(engine, &entry).expect("is accepted");
        };
        for flags in [FLAG_JOINED, FLAG_JOINED, 0, 0] {
            append(&mut engine, &mut log_writer, flags);
        }
        // The undone entry was joined with the next, and its replacement is not.
        let end = log_writer.end();
        append(&mut engine, &mut log_writer, FLAG_JOINED);
        log_writer.undo_after(&mut engine, end).expect("has room");
        append(&mut engine, &mut log_writer, 0);
        let mut found = LogWriter::new(handle, 1, Durability::Sync, log_writer.end());
        found.may_be_joined(5);
        for log_writer in [&mut log_writer, &mut found] {
            let mut ends =
                |begin, through| log_writer.batch_end(&mut engine, begin, through).expect("is there");
            assert_eq!([ends(1, 5), ends(1, 3), ends(1, 2)], [Some(3), Some(3), None]);
            assert_eq!([ends(4, 5), ends(5, 5)], [Some(4), Some(5)]);
        }
    }

    #[test]
    fn restarted_log_needs_no_truncation() {
        let disk = SimulatedDisk::new(2);
        let options = EngineOptions { disk_reserve_bytes: 0, ..EngineOptions::default() };
        let (mut engine, _) = Engine::open(disk, options).expect("opens");
        let own = PartitionOptions { durability: Durability::Sync, index_seed: 7 };
        let handle = engine.partition(PartitionId(1), own).expect("opens");
        let mut log_writer = LogWriter::new(handle, 1, Durability::Sync, (0, 0));
        log_writer.needs_truncation = true;
        log_writer.begin_again(handle);
        engine.begin_install(handle).expect("begins");
        assert_eq!(log_writer.truncate_undone(&mut engine), Ok(()), "what is taken must not be cut");
    }
}
