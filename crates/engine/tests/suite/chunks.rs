//! Chunks: a write at an offset costs its own bytes, hidden bytes become dead space, and corruption
//! is never hidden.

use zerohop_engine::disk::Disk;
use zerohop_engine::disk::simulated::{DiskOperation, SimulatedDisk};
use zerohop_engine::{
    ChunkHead, Durability, Engine, EngineError, EngineOptions, EntryKind, EntryMeta, EntryRef, FLAG_CHUNK,
    FLAG_TRAILER, Handle, NewEntry, PartitionId, PartitionOptions, chunk_pieces,
};

use zerohop_engine::log::shared::format::LogId;

use crate::support::TestEngine as Store;
use crate::support::plan::LOG;

pub(crate) const MIB: usize = 1 << 20;

/// A log for each partition, or one for all.
pub(crate) const LOGS: [Option<LogId>; 2] = [None, Some(LOG)];

pub(crate) fn options(shared_log: Option<LogId>) -> EngineOptions {
    EngineOptions { disk_reserve_bytes: 0, shared_log, ..EngineOptions::default() }
}

pub(crate) fn open(disk: &SimulatedDisk, log: Option<LogId>) -> (Store, Handle) {
    open_with(disk, options(log))
}

pub(crate) fn open_with(disk: &SimulatedDisk, options: EngineOptions) -> (Store, Handle) {
    let (mut engine, _) = Engine::open(disk.clone(), options).expect("opens");
    engine.commit_all().expect("commits");
    let partition_options = PartitionOptions { durability: Durability::Interval { ms: 10 }, index_seed: 7 };
    let p = engine.partition(PartitionId(1), partition_options).expect("opens");
    (engine, p)
}

fn write(engine: &mut Store, p: Handle, kind: EntryKind, offset: u32, bytes: &[u8]) {
    let at = engine.partition_stats(p).expect("is open").last.1 + 1;
    let head = ChunkHead { offset, length: bytes.len() as u32, stamp: [at as u8; 16] };
    let payload = [&head.encode()[..], bytes].concat();
    engine.write(p, kind, FLAG_CHUNK, at, b"chunk", &payload).expect("is accepted");
}

fn read(engine: &mut Store, p: Handle, range: std::ops::Range<u64>) -> Result<Vec<u8>, EngineError> {
    let mut bytes = Vec::new();
    engine.read_chunk(p, b"chunk", range, &mut bytes).map(|()| bytes)
}

#[test]
fn a_small_write_into_a_large_chunk_costs_a_small_log_write() {
    LOGS.into_iter().for_each(small_write_costs_a_small_log_write);
}

fn small_write_costs_a_small_log_write(log: Option<LogId>) {
    let disk = SimulatedDisk::new(1);
    let (mut engine, p) = open(&disk, log);
    write(&mut engine, p, EntryKind::Append, 0, &vec![1; MIB]);
    let before = engine.partition_stats(p).expect("is open").log.bytes;
    for n in 0..100u32 {
        write(&mut engine, p, EntryKind::Append, 5000 * n, &[2; 8]);
    }
    let grown = engine.partition_stats(p).expect("is open").log.bytes - before;
    assert!(grown < 100 * 80, "{grown} bytes for 100 writes of 8");
    let state = engine.chunk_state(p, b"chunk").expect("reads").expect("is there");
    assert_eq!((state.parts, state.covered, state.end), (101, MIB as u64 + 800, MIB as u64));
    assert_eq!((state.index, state.stamp), (101, [101; 16]));
    assert_eq!(read(&mut engine, p, 4999..5010), Ok([&[1][..], &[2; 8], &[1, 1]].concat()));
    assert_eq!(read(&mut engine, p, MIB as u64 - 1..MIB as u64 + 2), Ok(vec![1, 0, 0]));
    // Writes at the same places: the earlier ones are hidden, and are no parts any more.
    for n in 0..100u32 {
        write(&mut engine, p, EntryKind::Append, 5000 * n, &[3; 8]);
    }
    assert_eq!(engine.chunk_state(p, b"chunk").expect("reads").expect("is there").parts, 101);
    // A new `Put` makes the chunk a single part.
    write(&mut engine, p, EntryKind::Put, 0, &[4; 10]);
    let state = engine.chunk_state(p, b"chunk").expect("reads").expect("is there");
    assert_eq!((state.parts, state.end), (1, 10));
    assert_eq!(engine.lookup_assembled(p, b"chunk"), Ok(Some(vec![4; 10])));
}

/// Later writes reuse its memory, and its remaining bytes are read from the file.
#[test]
fn replaced_large_entry_leaves_memory_at_once() {
    let disk = SimulatedDisk::new(1);
    let (mut engine, p) = open(&disk, None);
    write(&mut engine, p, EntryKind::Put, 0, &vec![1; 2 * MIB]);
    let before = engine.stats().resident_bytes;
    for byte in 2..=4 {
        write(&mut engine, p, EntryKind::Put, 0, &vec![byte; 2 * MIB]);
        // The blocks at both ends of each entry have other bytes too.
        let resident = engine.stats().resident_bytes;
        assert!(resident < before + (512 << 10), "{resident} bytes, before {before}");
    }
    let dead = engine.partition_stats(p).expect("is open").log.dead_bytes;
    assert!(dead > 6 * MIB as u64, "{dead} bytes are dead");
    let end = 2 * MIB as u64 - 3..2 * MIB as u64 + 1;
    assert_eq!(read(&mut engine, p, end.clone()), Ok(vec![4, 4, 4, 0]));
    let mut sent = Vec::new();
    let note = |entry: EntryRef<'_>, is_right: bool| sent.push((entry.payload.to_vec(), is_right));
    engine.entries_after(p, 0, note).expect("reads");
    for ((payload, is_right), byte) in sent.iter().zip(1..) {
        assert!(*is_right && payload[payload.len() - 2 * MIB..] == vec![byte; 2 * MIB], "{byte}");
    }
    assert_eq!(sent.len(), 4);
    engine.sync().expect("syncs");
    drop(engine);
    disk.power_off_clean();
    let (mut engine, p) = open(&disk, None);
    assert_eq!(read(&mut engine, p, end), Ok(vec![4, 4, 4, 0]));
}

#[test]
fn a_record_of_another_kind_is_no_chunk() {
    for log in LOGS {
        let disk = SimulatedDisk::new(1);
        let (mut engine, p) = open(&disk, log);
        engine.write(p, EntryKind::Put, 0, 1, b"chunk", &[9; 100]).expect("is accepted");
        assert_eq!(engine.chunk_state(p, b"chunk"), Ok(None));
        assert_eq!(read(&mut engine, p, 0..3), Ok(vec![0; 3]));
        write(&mut engine, p, EntryKind::Append, 1, b"x");
        assert_eq!(engine.lookup_assembled(p, b"chunk"), Ok(Some(b"\0x".to_vec())), "replaced");
    }
}

/// The range of a write is in its payload. For a corrupt write the range is unknown, so that no
/// byte of the chunk may be returned.
#[test]
fn corrupt_overwrite_fails_reads_and_hides_old_bytes() {
    LOGS.into_iter().for_each(corrupt_overwrite_fails_reads);
}

/// A mark behind the writes shows that they were synced, so that they are no torn tail. A log of all partitions has one by MiB.
pub(crate) fn show_that_synced(engine: &mut Store, p: Handle) {
    for _ in 0..2 {
        let timestamp = engine.partition_stats(p).expect("is open").last.1 + 1;
        engine.write(p, EntryKind::Put, 0, timestamp, b"other", &vec![0; MIB]).expect("is accepted");
        engine.sync().expect("syncs");
    }
}

/// XORs the first byte behind `before` bytes ahead of this text, which is in one file of the log.
pub(crate) fn corrupt_before(disk: &SimulatedDisk, log: Option<LogId>, text: &[u8], before: u64) {
    let (folder, extension) = match log {
        None => ("p-0000000000000001", ".seg"),
        Some(_) => ("log", ".log"),
    };
    let mut reader = disk.clone();
    let names = reader.list(folder).expect("lists");
    let found = names.iter().filter(|name| name.name.ends_with(extension)).find_map(|name| {
        let path = format!("{folder}/{}", name.name);
        let file = reader.open(&path, zerohop_engine::disk::OpenMode::Existing).expect("opens");
        let mut bytes = vec![0; name.bytes as usize];
        reader.read_at(file, 0, &mut bytes).expect("reads");
        reader.close(file);
        bytes.windows(text.len()).position(|window| window == text).map(|at| (path, at as u64))
    });
    let (path, at) = found.expect("is there");
    disk.corrupt_at(&path, at - before, 0x40).expect("is there");
}

fn corrupt_overwrite_fails_reads(log: Option<LogId>) {
    let disk = SimulatedDisk::new(1);
    let (mut engine, p) = open(&disk, log);
    write(&mut engine, p, EntryKind::Append, 0, &[1; 1000]);
    write(&mut engine, p, EntryKind::Append, 100, b"to corrupt it");
    write(&mut engine, p, EntryKind::Append, 500, &[3; 10]);
    engine.sync().expect("syncs");
    show_that_synced(&mut engine, p);
    drop(engine);
    disk.power_off_clean();
    // Corrupts the offset in the head: the decoded range would be elsewhere.
    corrupt_before(&disk, log, b"to corrupt it", 24);
    let (mut engine, p) = open(&disk, log);
    for range in [0..10, 100..113, 500..510] {
        let got = read(&mut engine, p, range.clone());
        assert!(matches!(got, Err(EngineError::Corrupt { .. })), "{range:?}: {got:?}");
    }
    assert!(matches!(engine.chunk_state(p, b"chunk"), Err(EngineError::Corrupt { .. })));
    let corrupt = engine.corrupt_of(p, b"chunk").expect("reads");
    assert_eq!(corrupt.iter().map(|corrupt| corrupt.index).collect::<Vec<_>>(), [2]);
    // Entries of a log of all partitions are not repaired yet.
    if log.is_some() {
        return;
    }
    // After the repair the chunk is readable again.
    let head = ChunkHead { offset: 100, length: 13, stamp: [2; 16] };
    let payload = [&head.encode()[..], b"to corrupt it"].concat();
    assert_eq!(engine.repair(p, (1, 2, 2), b"chunk", &payload), Ok(true));
    assert_eq!(read(&mut engine, p, 99..114), Ok([&[1][..], b"to corrupt it", &[1]].concat()));
    let state = engine.chunk_state(p, b"chunk").expect("reads").expect("is there");
    assert_eq!((state.parts, state.covered, state.end), (3, 1023, 1000));
}

/// A chunk longer than the memory blocks of the log: read in part and whole, from memory and from
/// its file, with and without a trailer, and as zeros without bytes.
#[test]
fn long_chunk_reads_alike_from_memory_and_file() {
    LOGS.into_iter().for_each(long_chunk_reads_alike);
}

fn long_chunk_reads_alike(log: Option<LogId>) {
    let disk = SimulatedDisk::new(1);
    let (mut engine, p) = open(&disk, log);
    // The other entry makes the chunk begin inside a block.
    engine.write(p, EntryKind::Put, 0, 1, b"other", &[5; 777]).expect("is accepted");
    let contents: Vec<u8> = (0..300_000_u32).map(|n| (n / 3) as u8).collect();
    let mut expected = vec![0; 5_000];
    expected.extend_from_slice(&contents);
    let ranges = [
        0..10,
        4_990..5_020,
        5_000..305_000,
        60_000..70_000,
        130_000..270_000,
        304_990..305_030,
        400_000..400_010,
    ];
    let check = |engine: &mut Store, p: Handle, expected: &[u8], in_memory: bool| {
        let state = engine.chunk_state(p, b"chunk").expect("reads").expect("is there");
        assert_eq!((state.parts, state.covered, state.end), (1, 300_000, 305_000));
        for range in &ranges {
            let all: Vec<u8> =
                range.clone().map(|at| expected.get(at as usize).copied().unwrap_or(0)).collect();
            assert!(read(engine, p, range.clone()).expect("reads") == all, "{range:?}");
            let mut part = b"before".to_vec();
            match engine
                .chunk_at_once(p, b"chunk", range.clone(), |piece| part.extend_from_slice(piece))
                .expect("reads")
            {
                Some((found, summed)) => {
                    assert_eq!(found, state);
                    // Zeros without bytes have no checksum.
                    let is_all_of_it = *range == (5_000..305_000) && all.iter().any(|byte| *byte != 0);
                    assert_eq!(summed.is_some(), is_all_of_it, "{range:?}");
                    if let Some(zerohop_engine::ChecksumParts { payload_crc, before, behind }) = summed {
                        assert_eq!(
                            payload_crc,
                            zerohop_engine::log::entry::crc(&[&before, &part[6..], &behind].concat())
                        );
                    }
                    let written = range.end.min(305_000).max(range.start) - range.start;
                    assert!(part[6..] == all[..written as usize] && part.starts_with(b"before"), "{range:?}");
                }
                None => assert!(!in_memory && part == b"before"),
            }
        }
        assert!(engine.lookup_assembled(p, b"chunk").expect("reads").expect("is there") == expected);
    };
    write(&mut engine, p, EntryKind::Put, 5_000, &contents);
    check(&mut engine, p, &expected, true);
    engine.sync().expect("syncs");
    drop(engine);
    disk.power_off_clean();
    // Parts of it are in memory from the start.
    let (mut engine, p) = open(&disk, log);
    check(&mut engine, p, &expected, false);
    // Small writes over it are parts that are read in place.
    for at in [4_999_u32, 5_000, 69_990, 304_995] {
        write(&mut engine, p, EntryKind::Append, at, &[0xEE; 20]);
        let end = expected.len().max(at as usize + 20);
        expected.resize(end, 0);
        expected[at as usize..at as usize + 20].fill(0xEE);
    }
    for range in &ranges {
        let all: Vec<u8> = range.clone().map(|at| expected.get(at as usize).copied().unwrap_or(0)).collect();
        assert!(read(&mut engine, p, range.clone()).expect("reads") == all, "{range:?}");
    }
    expected.truncate(305_000);
    expected[5_000..].copy_from_slice(&contents);
    expected[..5_000].fill(0);

    let head = ChunkHead { offset: 5_000, length: 300_000, stamp: [9; 16] };
    let trailer = [1, 2, 3, 4];
    let flags = FLAG_CHUNK | zerohop_engine::FLAG_TRAILER;
    let payload = [&head.encode()[..], &contents, &trailer].concat();
    engine.write(p, EntryKind::Put, flags, 50, b"chunk", &payload).expect("is accepted");
    check(&mut engine, p, &expected, true);
    let payload = [&head.encode()[..], &trailer].concat();
    engine.write(p, EntryKind::Put, flags, 51, b"chunk", &payload).expect("is accepted");
    check(&mut engine, p, &vec![0; 305_000], true);
}

/// In the log, in memory, in the journal, and after a crash.
#[test]
fn multi_buffer_chunk_write_equals_contiguous_one() {
    LOGS.into_iter().for_each(multi_buffer_write_equals_contiguous_one);
}

fn multi_buffer_write_equals_contiguous_one(log: Option<LogId>) {
    // The short chunks are in the journal itself. The long ones are only referred to there, and the
    // log is flushed with it.
    let (short, long) = ([1, 5_000, 20_000, 65_506], [65_507, 70_000, 200_000, 3 * MIB]);
    let [interval, sync] = [Durability::Interval { ms: 10 }, Durability::Sync];
    for (durability, lengths) in [(interval, short), (interval, long), (sync, short), (sync, long)] {
        let disk = SimulatedDisk::new(1);
        let partition_options = PartitionOptions { durability, index_seed: 7 };
        let (mut engine, _) = Engine::open(disk.clone(), options(log)).expect("opens");
        let p = engine.partition(PartitionId(1), partition_options).expect("opens");
        let mut expected = Vec::new();
        for (at, length) in (1..).zip(lengths) {
            let bytes: Vec<u8> = (0..length).map(|byte| (byte * 7 / 5 + at as usize) as u8).collect();
            let head = ChunkHead { offset: 3, length: length as u32, stamp: [at as u8; 16] };
            // Head and trailer; the last byte is the trailer's length.
            let payload = [&head.encode()[..], b"trail", &[6]].concat();
            let whole = [&head.encode()[..], &bytes, b"trail", &[6]].concat();
            let (flags, key) = (FLAG_CHUNK | FLAG_TRAILER, b"chunk".as_slice());
            if at % 3 == 0 {
                let meta = EntryMeta { kind: EntryKind::Put, flags, epoch: 1, index: at, timestamp: at };
                let pieces = chunk_pieces(&payload, &bytes);
                engine.append_pieces(p, &meta, key, pieces).expect("is accepted");
                engine.commit(p, at).expect("commits");
            } else {
                let payload = &payload;
                let entry = NewEntry { kind: EntryKind::Put, flags, timestamp: at, key, payload, hint: None };
                assert_eq!(engine.write_chunk_entry(p, &entry, &bytes), Ok(at));
            }
            let state = engine.chunk_state(p, key).expect("reads").expect("is there");
            assert_eq!((state.parts, state.covered, state.end), (1, length as u64, length as u64 + 3));
            assert_eq!(read(&mut engine, p, 3..length as u64 + 3), Ok(bytes));
            expected.push(whole);
        }
        engine.flush().expect("flushes");
        if durability != Durability::Sync {
            engine.sync().expect("syncs");
        }
        drop(engine);
        disk.crash();
        let (mut engine, _) = Engine::open(disk.clone(), options(log)).expect("opens");
        engine.commit_all().expect("commits");
        let p = engine.partition(PartitionId(1), partition_options).expect("opens");
        let mut found = Vec::new();
        let note = |entry: EntryRef<'_>, is_right: bool| found.push((entry.payload.to_vec(), is_right));
        engine.entries_after(p, 0, note).expect("reads");
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.into_iter().zip(expected) {
            assert!(found == (expected, true), "{durability:?}");
        }
    }
}

/// One call for each block would cost a third more than a write to the file.
#[test]
fn long_entry_is_written_with_one_call_per_mebibyte() {
    LOGS.into_iter().for_each(long_entry_is_written_with_few_calls);
}

fn long_entry_is_written_with_few_calls(log: Option<LogId>) {
    let disk = SimulatedDisk::new(1);
    let (mut engine, p) = open(&disk, log);
    let (calls, written) = (disk.counts().of(DiskOperation::Append), disk.counts().bytes_written);
    let bytes = vec![7; 8 * MIB];
    let payload = &ChunkHead { offset: 0, length: bytes.len() as u32, stamp: [1; 16] }.encode()[..];
    let entry = NewEntry {
        kind: EntryKind::Put,
        flags: FLAG_CHUNK,
        timestamp: 1,
        key: b"chunk",
        payload,
        hint: None,
    };
    engine.write_chunk_entry(p, &entry, &bytes).expect("is accepted");
    let (calls, written) =
        (disk.counts().of(DiskOperation::Append) - calls, disk.counts().bytes_written - written);
    assert!((1..=9).contains(&calls) && written >= 8 * MIB as u64, "{calls} calls for {written} bytes");
    assert_eq!(read(&mut engine, p, 0..8 * MIB as u64), Ok(bytes));
}
