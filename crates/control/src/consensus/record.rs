//! What a manager persists, as records appended to one file; `docs/formats/control-log.md` has the layout.
//!
//! A file starts with a snapshot. Every batch of records is synced before any dependent message is sent, so a
//! crash can tear only a tail that no other node knows of. A bad record with good ones behind it is not a
//! torn tail: the manager has lost its promises, and must join again as a new member.

use std::fmt;

use raft::eraftpb::{ConfState, Entry, EntryType, HardState, Snapshot};
use zerohop_wire::checksum::crc32c;

use crate::command::ManagerId;

const MAGIC: [u8; 4] = *b"ZHCL";
const VERSION: u16 = 1;
/// Magic, version, zero, manager, checksum.
const HEADER_BYTES: usize = 4 + 2 + 2 + 8 + 4;
/// Checksum, length, kind.
const RECORD_HEADER_BYTES: usize = 4 + 4 + 1;

const HARD_STATE: u8 = 1;
const ENTRY: u8 = 2;
const SNAPSHOT: u8 = 3;

/// Longest body of a record: a snapshot.
const BODY_BYTES_MAX: usize = crate::limits::MESSAGE_BYTES_MAX;
/// Bytes behind a bad record that are searched for a good one.
const SEARCH_BYTES_MAX: usize = 1 << 20;

/// Appends records.
#[derive(Debug, Default)]
pub(super) struct RecordWriter {
    pub(super) bytes: Vec<u8>,
}

impl RecordWriter {
    pub(super) fn header(&mut self, manager: ManagerId) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&MAGIC);
        self.bytes.extend_from_slice(&VERSION.to_le_bytes());
        self.bytes.extend_from_slice(&[0; 2]);
        self.bytes.extend_from_slice(&manager.0.to_le_bytes());
        let sum = crc32c(&self.bytes[start..]);
        self.bytes.extend_from_slice(&sum.to_le_bytes());
    }

    pub(super) fn hard_state(&mut self, hard: &HardState) {
        self.record(HARD_STATE, |bytes| {
            for number in [hard.term, hard.vote, hard.commit] {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
        });
    }

    pub(super) fn entry(&mut self, entry: &Entry) {
        self.record(ENTRY, |bytes| {
            bytes.extend_from_slice(&entry.index.to_le_bytes());
            bytes.extend_from_slice(&entry.term.to_le_bytes());
            bytes.push(number_of(entry.get_entry_type()));
            bytes.extend_from_slice(&(entry.context.len() as u32).to_le_bytes());
            bytes.extend_from_slice(&entry.context);
            bytes.extend_from_slice(&entry.data);
        });
    }

    pub(super) fn snapshot(&mut self, snapshot: &Snapshot) {
        self.record(SNAPSHOT, |bytes| {
            let meta = snapshot.get_metadata();
            bytes.extend_from_slice(&meta.index.to_le_bytes());
            bytes.extend_from_slice(&meta.term.to_le_bytes());
            for ids in [meta.get_conf_state().get_voters(), meta.get_conf_state().get_learners()] {
                bytes.extend_from_slice(&(ids.len() as u32).to_le_bytes());
                ids.iter().for_each(|id| bytes.extend_from_slice(&id.to_le_bytes()));
            }
            bytes.extend_from_slice(&snapshot.data);
        });
    }

    fn record(&mut self, kind: u8, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 8]);
        self.bytes.push(kind);
        write(&mut self.bytes);
        let length = (self.bytes.len() - start - RECORD_HEADER_BYTES) as u32;
        self.bytes[start + 4..start + 8].copy_from_slice(&length.to_le_bytes());
        let sum = crc32c(&self.bytes[start + 4..]);
        self.bytes[start..start + 4].copy_from_slice(&sum.to_le_bytes());
    }
}

/// The contents of a log file.
#[derive(Clone, Debug, Default)]
pub(super) struct PersistedLog {
    pub(super) manager: ManagerId,
    pub(super) hard: HardState,
    pub(super) snapshot: Snapshot,
    /// In order; the first is at most one index behind the snapshot, and may be before it.
    pub(super) entries: Vec<Entry>,
    /// The number of valid bytes; the rest must be truncated.
    pub(super) bytes: usize,
}

/// Bytes that are not a manager's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogError {
    /// The file has no valid header.
    Header,
    /// A later program wrote it.
    Version {
        /// Which version.
        found: u16,
    },
    /// A record is damaged and good ones follow: this manager has lost its promises. It must join again as a
    /// new member.
    Damaged {
        /// The position.
        at: usize,
    },
    /// Records are out of order.
    Order {
        /// The position.
        at: usize,
    },
    /// The snapshot is not a valid state.
    State(String),
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let member = "start this manager again, as another member";
        match self {
            Self::Header => write!(f, "not a log of a manager, or its beginning is damaged: {member}"),
            Self::Version { found } => write!(
                f,
                "the log has version {found}, and this program reads {VERSION}: use the newer program"
            ),
            Self::Damaged { at } => write!(f, "the log is damaged at byte {at}: {member}"),
            Self::Order { at } => write!(f, "the record at byte {at} does not follow: {member}"),
            Self::State(why) => write!(f, "{why}: {member}"),
        }
    }
}

impl std::error::Error for LogError {}

impl PersistedLog {
    pub(super) fn read(bytes: &[u8]) -> Result<PersistedLog, LogError> {
        let header = bytes.get(..HEADER_BYTES).ok_or(LogError::Header)?;
        let (content, check) = header.split_at(HEADER_BYTES - 4);
        if content[..4] != MAGIC || crc32c(content).to_le_bytes() != check {
            return Err(LogError::Header);
        }
        let version = u16::from_le_bytes([content[4], content[5]]);
        if version != VERSION {
            return Err(LogError::Version { found: version });
        }
        let manager = ManagerId(u64::from_le_bytes(content[8..16].try_into().map_err(|_| LogError::Header)?));
        let mut stored = PersistedLog { manager, bytes: HEADER_BYTES, ..PersistedLog::default() };
        while let Some((kind, body, end)) = record(bytes, stored.bytes) {
            stored.apply_record(kind, body).ok_or(LogError::Order { at: stored.bytes })?;
            stored.bytes = end;
        }
        let limit = bytes.len().min(stored.bytes.saturating_add(SEARCH_BYTES_MAX));
        if (stored.bytes + 1..limit).any(|at| record(bytes, at).is_some()) {
            return Err(LogError::Damaged { at: stored.bytes });
        }
        // Entries of the last batch may be torn off behind the commit index that was written with them.
        let last = stored.entries.last().map_or(stored.snapshot.get_metadata().index, |entry| entry.index);
        stored.hard.commit = stored.hard.commit.clamp(stored.snapshot.get_metadata().index, last);
        Ok(stored)
    }

    fn apply_record(&mut self, kind: u8, body: &[u8]) -> Option<()> {
        let mut rest = body;
        match kind {
            HARD_STATE => {
                self.hard.term = number(&mut rest)?;
                self.hard.vote = number(&mut rest)?;
                self.hard.commit = number(&mut rest)?;
                rest.is_empty().then_some(())
            }
            ENTRY => {
                let mut entry =
                    Entry { index: number(&mut rest)?, term: number(&mut rest)?, ..Entry::default() };
                let (kind, after) = rest.split_first()?;
                entry.set_entry_type(entry_type(*kind)?);
                let (length, after) = after.split_first_chunk::<4>()?;
                let (context, data) = after.split_at_checked(u32::from_le_bytes(*length) as usize)?;
                entry.context = context.to_vec().into();
                entry.data = data.to_vec().into();
                let keep = self.entries.partition_point(|older| older.index < entry.index);
                self.entries.truncate(keep);
                let follows = match self.entries.last() {
                    Some(last) => entry.index == last.index + 1,
                    None => entry.index <= self.snapshot.get_metadata().index + 1,
                };
                self.entries.push(entry);
                follows.then_some(())
            }
            SNAPSHOT => {
                let mut snapshot = Snapshot::default();
                let meta = snapshot.mut_metadata();
                meta.index = number(&mut rest)?;
                meta.term = number(&mut rest)?;
                let mut conf = ConfState::default();
                conf.set_voters(ids(&mut rest)?);
                conf.set_learners(ids(&mut rest)?);
                meta.set_conf_state(conf);
                snapshot.data = rest.to_vec().into();
                self.snapshot = snapshot;
                self.entries.clear();
                Some(())
            }
            _ => None,
        }
    }
}

/// A valid record at this position: its kind, its body, and the position of the next record.
fn record(bytes: &[u8], at: usize) -> Option<(u8, &[u8], usize)> {
    let (check, rest) = bytes.get(at..)?.split_first_chunk::<4>()?;
    let (length, _) = rest.split_first_chunk::<4>()?;
    let length = u32::from_le_bytes(*length) as usize;
    if length > BODY_BYTES_MAX {
        return None;
    }
    // One checksum over everything behind it: combining several by exclusive-or lets repeating bytes pass for
    // a record.
    let (summed, _) = rest.split_at_checked(RECORD_HEADER_BYTES - 4 + length)?;
    (crc32c(summed) == u32::from_le_bytes(*check))
        .then(|| (summed[4], &summed[5..], at + RECORD_HEADER_BYTES + length))
}

fn number(rest: &mut &[u8]) -> Option<u64> {
    let (number, after) = rest.split_first_chunk::<8>()?;
    *rest = after;
    Some(u64::from_le_bytes(*number))
}

fn ids(rest: &mut &[u8]) -> Option<Vec<u64>> {
    let (count, after) = rest.split_first_chunk::<4>()?;
    *rest = after;
    let count = u32::from_le_bytes(*count) as usize;
    if count > rest.len() / 8 {
        return None;
    }
    (0..count).map(|_| number(rest)).collect()
}

/// Numbers of the format; they never change.
pub(super) fn number_of(kind: EntryType) -> u8 {
    match kind {
        EntryType::EntryNormal => 0,
        EntryType::EntryConfChange => 1,
        EntryType::EntryConfChangeV2 => 2,
    }
}

pub(super) fn entry_type(number: u8) -> Option<EntryType> {
    [EntryType::EntryNormal, EntryType::EntryConfChange, EntryType::EntryConfChangeV2]
        .get(usize::from(number))
        .copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry(index: u64, term: u64) -> Entry {
        let mut entry = Entry { index, term, ..Entry::default() };
        entry.data = vec![index as u8; 5].into();
        entry.context = vec![term as u8; 2].into();
        entry
    }

    fn file() -> Vec<u8> {
        let mut writer = RecordWriter::default();
        writer.header(ManagerId(7));
        let mut snapshot = Snapshot::default();
        snapshot.mut_metadata().index = 3;
        snapshot.mut_metadata().term = 1;
        snapshot.mut_metadata().mut_conf_state().set_voters(vec![7, 8]);
        snapshot.data = vec![1, 2, 3].into();
        writer.snapshot(&snapshot);
        for index in 4..8 {
            writer.entry(&entry(index, 1));
        }
        writer.hard_state(&HardState { term: 2, vote: 8, commit: 6, ..HardState::default() });
        writer.entry(&entry(6, 2));
        writer.bytes
    }

    #[test]
    fn log_reads_appended_entries_and_later_ones_replace_earlier() {
        let bytes = file();
        let stored = PersistedLog::read(&bytes).unwrap();
        assert_eq!((stored.manager, stored.bytes), (ManagerId(7), bytes.len()));
        assert_eq!((stored.hard.term, stored.hard.vote, stored.hard.commit), (2, 8, 6));
        assert_eq!(stored.entries, [entry(4, 1), entry(5, 1), entry(6, 2)]);
        let meta = stored.snapshot.get_metadata();
        assert_eq!((meta.index, meta.term, meta.get_conf_state().get_voters()), (3, 1, &[7, 8][..]));
        assert_eq!(&stored.snapshot.data[..], [1, 2, 3]);
    }

    #[test]
    fn torn_tail_is_truncated_with_its_commit_index() {
        let bytes = file();
        let last = PersistedLog::read(&bytes[..bytes.len() - 1]).unwrap();
        // Entry 6 of term 2 is torn; the entry that it replaced is still there.
        assert_eq!(last.entries.last().unwrap(), &entry(7, 1));
        for length in HEADER_BYTES..bytes.len() {
            let stored = PersistedLog::read(&bytes[..length]).unwrap();
            assert!(stored.bytes <= length);
            let end = stored.entries.last().map_or(stored.snapshot.get_metadata().index, |last| last.index);
            assert!(stored.hard.commit <= end);
        }
    }

    #[test]
    fn damage_in_the_middle_is_no_torn_tail() {
        let bytes = file();
        let last = bytes.len() - (RECORD_HEADER_BYTES + 21 + 7);
        for at in HEADER_BYTES..last {
            let mut bytes = bytes.clone();
            bytes[at] ^= 0x10;
            assert!(matches!(PersistedLog::read(&bytes), Err(LogError::Damaged { .. })), "byte {at}");
        }
        for at in 0..HEADER_BYTES {
            let mut bytes = bytes.clone();
            bytes[at] ^= 0x10;
            assert_eq!(PersistedLog::read(&bytes).unwrap_err(), LogError::Header, "byte {at}");
        }
    }

    /// Seed 1111 of the simulation: a torn record header, at a place where numbers repeat, was mistaken for
    /// damage.
    #[test]
    fn repeated_numbers_are_not_read_as_a_record() {
        for number in 0..64u32 {
            let bytes = [number, 0, number, 0, number, 0].map(u32::to_le_bytes).concat();
            for at in 0..bytes.len() {
                assert!(record(&bytes, at).is_none(), "{number} at {at}");
            }
            let mut file = file();
            let good = file.len();
            file.extend_from_slice(&bytes);
            assert_eq!(PersistedLog::read(&file).unwrap().bytes, good);
        }
    }

    /// Every later program must read the first bytes of a log.
    #[test]
    fn golden_bytes_are_written() {
        let mut writer = RecordWriter::default();
        writer.header(ManagerId(0x0102));
        writer.hard_state(&HardState { term: 2, vote: 3, commit: 4, ..HardState::default() });
        let hard_state = [2u64, 3, 4].map(u64::to_le_bytes).concat();
        assert_eq!(&writer.bytes[..16], b"ZHCL\x01\0\0\0\x02\x01\0\0\0\0\0\0");
        assert_eq!(&writer.bytes[24..28], [24, 0, 0, 0]);
        assert_eq!(writer.bytes[28], 1);
        assert_eq!(&writer.bytes[29..], hard_state);
    }

    proptest! {
        #[test]
        fn changed_bytes_never_panic(edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6)) {
            let mut bytes = file();
            for (at, value) in edits {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
            let _ = PersistedLog::read(&bytes);
        }
    }
}
