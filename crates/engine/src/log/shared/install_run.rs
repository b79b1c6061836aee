//! A run: entries of a partition that are sent to another engine, where they become the partition's log.
//!
//! Header, 72 bytes:
//!
//! | offset | bytes | field |
//! | ---: | ---: | --- |
//! | 0 | 4 | `zhr1` |
//! | 4 | 4 | CRC-32C of bytes 8 to 72 |
//! | 8 | 8 | index seed of the partition |
//! | 16 | 8 | timestamp that entries count from |
//! | 24 | 24 | where the run begins at the sender |
//! | 48 | 24 | where the next run begins |
//!
//! Entries as in a segment of salt 0 follow, of log partition 1, without gaps. A place at the sender has a stage (4 bytes; 0:
//! records of one entry, 1: records of several), zero (4), segment or chain (8), and the log index behind which it is (8).
//!
//! The entries need not be in the order of their log indexes. Those of one key are.

use super::format::{HEAD_BYTES, HeadBase, LogPartition, SharedHead, SharedKind, head_sum};
use crate::log::entry::{EntryKind, TIMESTAMP_RANGE, crc, u32_at, u64_at};

/// Bytes of the header.
pub const RUN_HEADER_BYTES: usize = 72;

const MAGIC: &[u8; 4] = b"zhr1";
const PLACE_BYTES: usize = 24;

/// Which entries of a partition are being sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunStage {
    /// Of records that one entry has, segment by segment.
    #[default]
    Entries,
    /// Of records of several entries, record by record.
    Chains,
}

/// Where a run begins at the sender. The default is the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InstallPlace {
    /// Which entries.
    pub stage: RunStage,
    /// The number of the segment, or the id of the chain.
    pub at: u64,
    /// The entries of that up to this log index come before.
    pub after: u64,
}

impl InstallPlace {
    fn encode(self) -> [u8; PLACE_BYTES] {
        let mut out = [0; PLACE_BYTES];
        out[0..4].copy_from_slice(&u32::from(self.stage == RunStage::Chains).to_le_bytes());
        out[8..16].copy_from_slice(&self.at.to_le_bytes());
        out[16..24].copy_from_slice(&self.after.to_le_bytes());
        out
    }

    fn decode(bytes: &[u8]) -> Option<InstallPlace> {
        let stage = match (u32_at(bytes, 0), u32_at(bytes, 4)) {
            (0, 0) => RunStage::Entries,
            (1, 0) => RunStage::Chains,
            _ => return None,
        };
        Some(InstallPlace { stage, at: u64_at(bytes, 8), after: u64_at(bytes, 16) })
    }
}

/// The header of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunHeader {
    /// The seed of the hash of the partition's keys.
    pub index_seed: u64,
    /// The timestamp that entries count from.
    pub timestamp: u64,
    /// Where the run begins at the sender.
    pub begins: InstallPlace,
    /// Where the next one does.
    pub next: InstallPlace,
}

impl RunHeader {
    /// The header as bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; RUN_HEADER_BYTES] {
        let mut out = [0; RUN_HEADER_BYTES];
        out[0..4].copy_from_slice(MAGIC);
        out[8..16].copy_from_slice(&self.index_seed.to_le_bytes());
        out[16..24].copy_from_slice(&self.timestamp.to_le_bytes());
        out[24..48].copy_from_slice(&self.begins.encode());
        out[48..72].copy_from_slice(&self.next.encode());
        let sum = crc(&out[8..]);
        out[4..8].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// Reads a header, and returns the bytes of the entries; `None` if it is none.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<(RunHeader, &[u8])> {
        let (header, entries) = bytes.split_first_chunk::<RUN_HEADER_BYTES>()?;
        (&header[0..4] == MAGIC && crc(&header[8..]) == u32_at(header, 4)).then_some(())?;
        let header = RunHeader {
            index_seed: u64_at(header, 8),
            timestamp: u64_at(header, 16),
            begins: InstallPlace::decode(&header[24..48])?,
            next: InstallPlace::decode(&header[48..72])?,
        };
        Some((header, entries))
    }

    fn base(&self) -> HeadBase {
        HeadBase { salt: 0, timestamp: self.timestamp }
    }
}

/// A run that is being made.
pub(crate) struct RunWriter<'o> {
    header: RunHeader,
    out: &'o mut Vec<u8>,
}

impl<'o> RunWriter<'o> {
    /// Begins a run in `out`, which is overwritten.
    pub(crate) fn new(index_seed: u64, begins: InstallPlace, out: &'o mut Vec<u8>) -> RunWriter<'o> {
        out.clear();
        out.resize(RUN_HEADER_BYTES, 0);
        RunWriter { header: RunHeader { index_seed, timestamp: 0, begins, next: begins }, out }
    }

    /// Bytes of entries so far.
    pub(crate) fn bytes(&self) -> usize {
        self.out.len() - RUN_HEADER_BYTES
    }

    /// Adds an entry. Returns whether it can be in this run: otherwise it begins the next.
    pub(crate) fn push(&mut self, entry: &SharedHead, key: &[u8], payload: &[u8]) -> bool {
        if self.bytes() == 0 {
            self.header.timestamp = entry.timestamp.saturating_sub(TIMESTAMP_RANGE / 2);
        }
        let base = self.header.base();
        if !base.reaches(entry.timestamp) {
            return false;
        }
        let head = SharedHead { partition: LogPartition(1), back: 0, is_kept: false, ..*entry };
        let mut bytes = head.encode_unsummed(&base);
        let sum = head_sum(&base, [&bytes[4..], key]);
        bytes[0..4].copy_from_slice(&sum.to_le_bytes());
        self.out.extend_from_slice(&bytes);
        self.out.extend_from_slice(key);
        self.out.extend_from_slice(payload);
        true
    }

    /// Ends the run: the next one begins there.
    pub(crate) fn end(mut self, next: InstallPlace) {
        self.header.next = next;
        self.out[..RUN_HEADER_BYTES].copy_from_slice(&self.header.encode());
    }
}

/// An entry of a run.
#[derive(Clone, Copy, Debug)]
pub struct RunEntry<'r> {
    /// Its head.
    pub head: SharedHead,
    /// The key.
    pub key: &'r [u8],
    /// The payload, which is as it was written.
    pub payload: &'r [u8],
}

/// The entries of a run; `None` if there are other bytes.
#[must_use]
pub fn entries_of<'r>(header: &RunHeader, mut bytes: &'r [u8]) -> Option<Vec<RunEntry<'r>>> {
    let (base, mut entries) = (header.base(), Vec::new());
    while !bytes.is_empty() {
        let head = SharedHead::decode(&base, bytes).filter(|head| head.partition == LogPartition(1))?;
        let (entry, rest) = bytes.split_at_checked(head.entry_bytes())?;
        let (key, payload) = entry[HEAD_BYTES..].split_at(head.key_bytes);
        let is_of_record =
            matches!(head.kind, SharedKind::Replicated(EntryKind::Put | EntryKind::Append | EntryKind::Trim));
        (is_of_record && !key.is_empty() && crc(payload) == head.payload_crc).then_some(())?;
        entries.push(RunEntry { head, key, payload });
        bytes = rest;
    }
    Some(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(index: u64, timestamp: u64, key: &[u8], payload: &[u8]) -> SharedHead {
        SharedHead {
            kind: SharedKind::Replicated(EntryKind::Put),
            flags: 3,
            partition: LogPartition(9),
            epoch: 4,
            index,
            timestamp,
            back: 7,
            key_bytes: key.len(),
            payload_bytes: payload.len(),
            payload_crc: crc(payload),
            is_kept: false,
        }
    }

    fn run() -> Vec<u8> {
        let mut out = vec![1, 2, 3];
        let begins = InstallPlace { stage: RunStage::Entries, at: 5, after: 6 };
        let mut writer = RunWriter::new(77, begins, &mut out);
        assert!(writer.push(&head(8, 1_000, b"one", b"first"), b"one", b"first"));
        assert!(writer.push(&head(3, 900, b"two", b""), b"two", b""));
        assert!(!writer.push(&head(9, 1 << 60, b"far", b""), b"far", b""), "its timestamp is out of reach");
        writer.end(InstallPlace { stage: RunStage::Chains, at: 1, after: 2 });
        out
    }

    #[test]
    fn run_is_read_as_it_was_written() {
        let run = run();
        let (header, bytes) = RunHeader::decode(&run).expect("is a run");
        assert_eq!((header.index_seed, header.begins.at, header.next.stage), (77, 5, RunStage::Chains));
        let entries = entries_of(&header, bytes).expect("are entries");
        let seen: Vec<_> =
            entries.iter().map(|e| (e.head.index, e.head.timestamp, e.key, e.payload)).collect();
        assert_eq!(seen, [(8, 1_000, &b"one"[..], &b"first"[..]), (3, 900, b"two", b"")]);
    }

    #[test]
    fn every_changed_or_missing_byte_is_noticed() {
        let run = run();
        let read = |bytes: &[u8]| {
            RunHeader::decode(bytes).and_then(|(header, rest)| entries_of(&header, rest).map(|all| all.len()))
        };
        assert_eq!(read(&run), Some(2));
        for at in 0..run.len() {
            let mut changed = run.clone();
            changed[at] ^= 1;
            assert_eq!(read(&changed), None, "byte {at}");
        }
        let ends = [RUN_HEADER_BYTES, RUN_HEADER_BYTES + HEAD_BYTES + 8];
        for length in (0..run.len()).filter(|length| !ends.contains(length)) {
            assert_eq!(read(&run[..length]), None, "{length} bytes");
        }
    }
}
