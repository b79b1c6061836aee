//! The bytes of the shared log: the present writer produces the files in `corpus/log-v1`, and the present reader reads them. To
//! write the files of a new version, run this test with `ZEROHOP_WRITE_CORPUS=1`.
#![expect(clippy::disallowed_methods, reason = "reads and writes the pinned files of this folder")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use zerohop_engine::disk::simulated::{DiskOperation, SimulatedDisk};
use zerohop_engine::disk::{Disk, OpenMode};
use zerohop_engine::log::shared::format::{HEAD_BYTES, LogId, LogStream};
use zerohop_engine::log::shared::live_bytes::EntryUse;
use zerohop_engine::log::shared::recover::{LogRecovery, recover};
use zerohop_engine::log::shared::rounds::{LogRounds, RoundState};
use zerohop_engine::log::shared::streams::{LogPlace, LogSlot, NewLogPartition, SharedLog, SharedLogOptions};
use zerohop_engine::{EntryKind, EntryMeta, PartitionId};

const LOG: LogId = LogId(*b"pinned log of v1");

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/log-v1")
}

fn append(log: &mut SharedLog, slot: LogSlot, kind: EntryKind, key: &[u8], payload: &[u8]) -> LogPlace {
    let (epoch, index) = log.last(slot);
    let meta =
        EntryMeta { kind, flags: 0x40, epoch: epoch.max(1), index: index + 1, timestamp: (1 << 50) + index };
    log.append(slot, &meta, key, [payload]).expect("is accepted")
}

/// A fixed history with every kind of entry and every stream.
fn write_everything() -> BTreeMap<String, Vec<u8>> {
    let mut disk = SimulatedDisk::new(1);
    let mut log = SharedLog::new(SharedLogOptions::new("log", LOG));
    let new = [1, 2, 3].map(|id| NewLogPartition::first(PartitionId(id), 70 + id));
    let slots = log.begin(&new, None).expect("begins");
    let first = append(&mut log, slots[0], EntryKind::Put, b"first", b"entry");
    for n in 0..20u8 {
        append(&mut log, slots[0], EntryKind::Put, &[b'k', n], &[n; 30]);
        append(&mut log, slots[1], EntryKind::Append, b"bytes", &[n; 3]);
    }
    append(&mut log, slots[0], EntryKind::Remove, b"k1", b"");
    append(&mut log, slots[0], EntryKind::Trim, b"list", &[0; 16]);
    append(&mut log, slots[0], EntryKind::Mark, b"", b"an upper layer's");
    append(&mut log, slots[0], EntryKind::Put, b"long", &[9; 66_000]);
    log.flush(&mut disk, true).expect("flushes");
    log.note_progress(slots[0], 20, 10);
    let mut rounds = LogRounds::default();
    rounds.begin(&log, &mut disk).expect("begins");
    rounds.begin_section(&log, slots[1], 10, 1);
    rounds.append_section(b"blocks of the index");
    rounds.end_section(&mut disk).expect("is written");
    assert_eq!(rounds.end(&mut log, &mut disk, true), Ok(RoundState::Done));
    log.mark().expect("is written");
    log.seal(LogStream::Small).expect("seals");
    log.truncate_after(slots[1], (1, 15)).expect("is continued");
    append(&mut log, slots[1], EntryKind::Put, b"behind it", b"new");
    let parent = (log.number(slots[2]), 0, 0);
    let children = [4, 5].map(|id| NewLogPartition {
        continues: Some(parent),
        ..NewLogPartition::first(PartitionId(id), 70 + id)
    });
    log.begin(&children, Some(slots[2])).expect("splits");
    let incoming = NewLogPartition { is_incoming: true, ..NewLogPartition::first(PartitionId(6), 76) };
    log.begin(&[incoming], None).expect("begins");
    let mut entry = Vec::new();
    let head = log.read(&mut disk, first, &mut entry).expect("can be read");
    let (key, payload) = entry[HEAD_BYTES..].split_at(head.key_bytes);
    log.append_copy(slots[0], &head, key, payload, EntryUse::Kept).expect("is copied");
    // The file of the open segment cannot be made: the next one has what it had, and voids.
    disk.fail_nth(DiskOperation::Open, 1);
    log.flush(&mut disk, true).expect("flushes");
    let files = disk.list("log").expect("lists").into_iter().map(|entry| {
        let file = disk.open(&format!("log/{}", entry.name), OpenMode::Existing).expect("opens");
        let mut bytes = vec![0; entry.bytes as usize];
        disk.read_at(file, 0, &mut bytes).expect("reads");
        (entry.name, bytes)
    });
    files.collect()
}

fn read(files: &BTreeMap<String, Vec<u8>>) -> LogRecovery {
    let mut disk = SimulatedDisk::new(2);
    for (name, bytes) in files {
        let file = disk.open(&format!("log/{name}"), OpenMode::Create).expect("is made");
        disk.append(file, bytes).expect("is written");
    }
    disk.power_off_clean();
    recover(&mut disk, "log", LOG).expect("is read")
}

#[test]
fn log_writer_output_equals_pinned_bytes() {
    let written = write_everything();
    if std::env::var_os("ZEROHOP_WRITE_CORPUS").is_some() {
        std::fs::create_dir_all(corpus()).expect("is made");
        for (name, bytes) in &written {
            std::fs::write(corpus().join(name), bytes).expect("is written");
        }
    }
    let mut pinned = BTreeMap::new();
    for entry in std::fs::read_dir(corpus()).expect("the corpus is there") {
        let entry = entry.expect("can be listed");
        let name = entry.file_name().to_str().expect("plain names").to_owned();
        pinned.insert(name, std::fs::read(entry.path()).expect("can be read"));
    }
    assert!(written == pinned, "the bytes of a log differ from what is pinned: the format has changed");
    let recovery = read(&pinned);
    assert_eq!((recovery.damage.len(), recovery.checkpoint, pinned.len()), (0, 1, 5));
    let found: Vec<_> = recovery
        .partitions
        .iter()
        .map(|log| (log.partition.0, log.seed, log.last, log.entries.len()))
        .collect();
    assert_eq!(found, [(1, 71, (1, 25), 25), (2, 72, (1, 16), 6), (4, 74, (0, 0), 0), (5, 75, (0, 0), 0)]);
    assert_eq!((recovery.partitions[0].commit, recovery.partitions[0].covered), (20, 10));
}
