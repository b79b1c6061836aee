//! The log that consensus reads: the last snapshot, and the entries since (and a few before). All of it is in
//! memory; the caller knows which part is on disk.

use raft::eraftpb::{ConfState, Entry, HardState, Snapshot};
use raft::{Error, GetEntriesContext, RaftState, Storage, StorageError};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct RaftLog {
    pub(super) hard: HardState,
    /// The last written hard state of this process.
    pub(super) hard_written: HardState,
    pub(super) snapshot: Snapshot,
    /// Without gaps; the first is at most one behind the snapshot's.
    entries: Vec<Entry>,
    /// Index and term of the entry before the first.
    before: (u64, u64),
}

impl RaftLog {
    pub(super) fn new(hard: HardState, snapshot: Snapshot, entries: Vec<Entry>) -> RaftLog {
        let meta = snapshot.get_metadata();
        let before = match entries.first() {
            // Entries from before the snapshot are left out: the term of the entry before them is not persisted.
            Some(first) if first.index <= meta.index => {
                let keep = entries.iter().filter(|entry| entry.index > meta.index).cloned().collect();
                return RaftLog::new(hard, snapshot, keep);
            }
            _ => (meta.index, meta.term),
        };
        RaftLog { hard, hard_written: HardState::default(), snapshot, entries, before }
    }

    /// Number and bytes of the entries that the last snapshot does not cover.
    pub(super) fn beyond_snapshot(&self) -> (usize, usize) {
        let index = self.snapshot.get_metadata().index;
        let beyond = self.entries.iter().rev().take_while(|entry| entry.index > index);
        beyond.fold((0, 0), |(count, bytes), entry| (count + 1, bytes + size(entry)))
    }

    pub(super) fn append(&mut self, entries: &[Entry]) {
        let Some(first) = entries.first() else { return };
        assert!(first.index > self.before.0, "what a snapshot covers is decided");
        let keep = (first.index - self.before.0 - 1) as usize;
        assert!(keep <= self.entries.len(), "a log has no gaps");
        self.entries.truncate(keep);
        self.entries.extend_from_slice(entries);
    }

    /// A snapshot from the leader replaces everything.
    pub(super) fn restore(&mut self, snapshot: Snapshot) {
        self.hard.commit = self.hard.commit.max(snapshot.get_metadata().index);
        *self = RaftLog::new(self.hard.clone(), snapshot, Vec::new());
    }

    /// Replaces entries by a snapshot of our own; `trail` of the entries before it are kept.
    pub(super) fn compact(&mut self, snapshot: Snapshot, trail: usize) {
        let index = snapshot.get_metadata().index;
        let cut = (index.saturating_sub(trail as u64)).saturating_sub(self.before.0) as usize;
        if cut > 0 && cut <= self.entries.len() {
            let last = &self.entries[cut - 1];
            self.before = (last.index, last.term);
            self.entries.drain(..cut);
        }
        self.snapshot = snapshot;
    }

    /// The entries to persist behind the snapshot.
    pub(super) fn beyond(&self) -> impl Iterator<Item = &Entry> {
        let index = self.snapshot.get_metadata().index;
        self.entries.iter().filter(move |entry| entry.index > index)
    }
}

fn size(entry: &Entry) -> usize {
    entry.data.len() + entry.context.len() + 32
}

impl Storage for RaftLog {
    fn initial_state(&self) -> raft::Result<RaftState> {
        let conf: ConfState = self.snapshot.get_metadata().get_conf_state().clone();
        Ok(RaftState { hard_state: self.hard.clone(), conf_state: conf })
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        _context: GetEntriesContext,
    ) -> raft::Result<Vec<Entry>> {
        if low <= self.before.0 {
            return Err(Error::Store(StorageError::Compacted));
        }
        let from = (low - self.before.0 - 1) as usize;
        let to = (high - self.before.0 - 1) as usize;
        let requested = self.entries.get(from..to).ok_or(Error::Store(StorageError::Unavailable))?;
        let limit = max_size.into().unwrap_or(u64::MAX);
        let mut bytes = 0;
        let fitting = requested.iter().take_while(|entry| {
            let first = bytes == 0;
            bytes += size(entry) as u64;
            first || bytes <= limit
        });
        Ok(fitting.cloned().collect())
    }

    fn term(&self, index: u64) -> raft::Result<u64> {
        if index == self.before.0 {
            return Ok(self.before.1);
        }
        let meta = self.snapshot.get_metadata();
        if index == meta.index {
            return Ok(meta.term);
        }
        let at = index.checked_sub(self.before.0 + 1).ok_or(Error::Store(StorageError::Compacted))?;
        let entry = self.entries.get(at as usize).ok_or(Error::Store(StorageError::Unavailable))?;
        Ok(entry.term)
    }

    fn first_index(&self) -> raft::Result<u64> {
        Ok(self.before.0 + 1)
    }

    fn last_index(&self) -> raft::Result<u64> {
        Ok(self.before.0 + self.entries.len() as u64)
    }

    fn snapshot(&self, request_index: u64, _to: u64) -> raft::Result<Snapshot> {
        if self.snapshot.get_metadata().index < request_index {
            return Err(Error::Store(StorageError::SnapshotTemporarilyUnavailable));
        }
        Ok(self.snapshot.clone())
    }
}
