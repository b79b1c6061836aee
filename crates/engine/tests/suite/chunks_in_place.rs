//! How much of a chunk's entry is read and copied: nothing of what is in memory, and only the beginning of what is replaced.

use zerohop_engine::disk::simulated::SimulatedDisk;
use zerohop_engine::{
    ChunkHead, ChunkState, EngineError, EntryKind, EntryMeta, FLAG_CHUNK, FLAG_TRAILER, Handle, NewEntry,
};

use crate::chunks::{LOGS, MIB, corrupt_before, open, open_with, options, show_that_synced};
use crate::support::TestEngine as Store;
use crate::support::plan::LOG;

/// The length of the long chunks: they cross blocks of either kind of log.
const LENGTH: usize = 5 * MIB + 12_345;

fn contents() -> Vec<u8> {
    (0..LENGTH as u32).map(|n| (n / 7) as u8 ^ (n >> 16) as u8).collect()
}

fn write(engine: &mut Store, p: Handle, (kind, key): (EntryKind, &[u8]), offset: u32, bytes: &[u8]) {
    let timestamp = engine.partition_stats(p).expect("is open").last.1 + 1;
    let payload = &ChunkHead { offset, length: bytes.len() as u32, stamp: [1; 16] }.encode()[..];
    let entry = NewEntry { kind, flags: FLAG_CHUNK, timestamp, key, payload, hint: None };
    engine.write_chunk_entry(p, &entry, bytes).expect("is accepted");
}

fn read(
    engine: &mut Store,
    p: Handle,
    key: &[u8],
    range: std::ops::Range<usize>,
) -> Result<Vec<u8>, EngineError> {
    let mut bytes = b"before".to_vec();
    let result = engine.read_chunk(p, key, range.start as u64..range.end as u64, &mut bytes);
    assert!(bytes.starts_with(b"before"));
    assert!(result.is_ok() || bytes.len() == 6, "nothing is returned with an error");
    result.map(|()| bytes.split_off(6))
}

fn state(engine: &mut Store, p: Handle, key: &[u8]) -> ChunkState {
    engine.chunk_state(p, key).expect("reads").expect("is there")
}

/// Bytes read from the disk, and bytes by which buffers have grown.
fn costs<T>(
    disk: &SimulatedDisk,
    engine: &mut Store,
    p: Handle,
    work: impl FnOnce(&mut Store) -> T,
) -> (T, u64, u64) {
    let buffers = |engine: &mut Store| engine.partition_stats(p).expect("is open").overhead_bytes;
    let (read, before) = (disk.counts().bytes_read, buffers(engine));
    let done = work(engine);
    (done, disk.counts().bytes_read - read, buffers(engine).saturating_sub(before))
}

#[test]
fn chunk_in_memory_is_read_and_overwritten_without_a_copy() {
    for log in LOGS {
        let disk = SimulatedDisk::new(1);
        let (mut engine, p) = open(&disk, log);
        let mut expected = contents();
        let ((), bytes_read, copied) = costs(&disk, &mut engine, p, |engine| {
            write(engine, p, (EntryKind::Put, b"chunk"), 0, &expected);
            assert_eq!(state(engine, p, b"chunk").end, LENGTH as u64);
            assert_eq!(read(engine, p, b"chunk", 100..110), Ok(expected[100..110].to_vec()));
            let mut at_once = Vec::new();
            let seen =
                engine.chunk_at_once(p, b"chunk", 0..u64::MAX, |piece| at_once.extend_from_slice(piece));
            assert!(seen.expect("reads").is_some_and(|(_, summed)| summed.is_some()), "{log:?}");
            assert!(at_once == expected);
            // The first of them makes the entry a part of several.
            for at in [5, MIB - 2, LENGTH - 7] {
                write(engine, p, (EntryKind::Append, b"chunk"), at as u32, b"other");
                expected[at..at + 5].copy_from_slice(b"other");
            }
            assert!(read(engine, p, b"chunk", 0..LENGTH) == Ok(expected.clone()), "{log:?}");
            // An entry of another node's log is applied when it is committed.
            let last = engine.partition_stats(p).expect("is open").last.1;
            let (index, kind) = (last + 1, EntryKind::Put);
            let meta = EntryMeta { kind, flags: FLAG_CHUNK, epoch: 1, index, timestamp: index };
            let head = ChunkHead { offset: 0, length: LENGTH as u32, stamp: [2; 16] };
            engine
                .append_pieces(p, &meta, b"chunk", [&head.encode()[..], &expected, &[]])
                .expect("is accepted");
            engine.commit(p, index).expect("commits");
            assert_eq!(state(engine, p, b"chunk").parts, 1);
            write(engine, p, (EntryKind::Put, b"chunk"), 0, b"short");
            assert_eq!(read(engine, p, b"chunk", 0..6), Ok(b"short\0".to_vec()));
        });
        assert_eq!(bytes_read, 0, "{log:?}");
        assert!(copied < 64 << 10, "{copied} bytes of buffers, {log:?}");
    }
}

/// A reader of an entry in a file needs all of it, for its checksum, but not twice, and not at one time in memory.
#[test]
fn chunk_in_a_file_is_read_once_and_replaced_unread() {
    let disk = SimulatedDisk::new(1);
    let (mut engine, p) = open(&disk, Some(LOG));
    let expected = contents();
    for key in [&b"read"[..], b"replaced", b"removed"] {
        write(&mut engine, p, (EntryKind::Put, key), 0, &expected);
    }
    engine.sync().expect("syncs");
    drop(engine);
    disk.power_off_clean();
    let (mut engine, p) = open(&disk, Some(LOG));
    let (found, bytes_read, copied) =
        costs(&disk, &mut engine, p, |engine| read(engine, p, b"read", MIB - 10..MIB + 10));
    assert_eq!(found, Ok(expected[MIB - 10..MIB + 10].to_vec()));
    let all = LENGTH as u64;
    assert!((all..all + (16 << 10)).contains(&bytes_read), "{bytes_read} bytes were read");
    assert!(copied < 300 << 10, "{copied} bytes of buffers");
    assert!(read(&mut engine, p, b"read", 0..LENGTH) == Ok(expected));
    let ((), bytes_read, _) = costs(&disk, &mut engine, p, |engine| {
        write(engine, p, (EntryKind::Put, b"replaced"), 0, b"short");
        let timestamp = engine.partition_stats(p).expect("is open").last.1 + 1;
        engine.write(p, EntryKind::Remove, 0, timestamp, b"removed", b"").expect("is accepted");
    });
    assert!(bytes_read < 32 << 10, "{bytes_read} bytes were read to replace a chunk");
    assert_eq!(read(&mut engine, p, b"replaced", 0..6), Ok(b"short\0".to_vec()));
    assert_eq!(engine.chunk_state(p, b"removed"), Ok(None));
}

#[test]
fn chunk_partly_in_memory_reads_the_rest_from_its_file() {
    let disk = SimulatedDisk::new(1);
    let (mut engine, p) =
        open_with(&disk, zerohop_engine::EngineOptions { memory_bytes: MIB as u64, ..options(Some(LOG)) });
    let expected = contents();
    write(&mut engine, p, (EntryKind::Put, b"chunk"), 0, &expected);
    engine.sync().expect("syncs");
    // Over budget, so that blocks are evicted, but not the one that is being filled.
    for n in 0..40 {
        engine.maintain(n).expect("works");
    }
    let (found, bytes_read, copied) =
        costs(&disk, &mut engine, p, |engine| read(engine, p, b"chunk", 0..LENGTH));
    assert!(found == Ok(expected));
    assert!((MIB as u64..LENGTH as u64).contains(&bytes_read), "{bytes_read} bytes were read");
    assert!(copied < 300 << 10, "{copied} bytes of buffers");
}

/// Trailers and zeros without bytes, from the file; lengths at which they could be taken for each other are among them.
#[test]
fn trailer_in_a_file_is_no_byte_of_the_chunk() {
    let disk = SimulatedDisk::new(1);
    let (mut engine, p) = open(&disk, Some(LOG));
    let key = |length: usize, is_stored: bool| format!("{length} {is_stored}").into_bytes();
    let lengths = [0, 1, 6, 300, 4_096, 70_000, 2 * MIB];
    let cases: Vec<(usize, bool)> =
        lengths.iter().flat_map(|&length| [(length, false), (length, true)]).collect();
    for (at, &(length, is_stored)) in (1..).zip(&cases) {
        let head = ChunkHead { offset: 3, length: length as u32, stamp: [at as u8; 16] };
        let data = vec![9; if is_stored { length } else { 0 }];
        let payload = [&head.encode()[..], &data, b"trail", &[6]].concat();
        let flags = FLAG_CHUNK | FLAG_TRAILER;
        engine.write(p, EntryKind::Put, flags, at, &key(length, is_stored), &payload).expect("is accepted");
    }
    engine.sync().expect("syncs");
    drop(engine);
    disk.power_off_clean();
    let (mut engine, p) = open(&disk, Some(LOG));
    for (at, &(length, is_stored)) in (1..).zip(&cases) {
        let key = key(length, is_stored);
        let mut expected = vec![0; 3];
        expected.resize(3 + length, if is_stored { 9 } else { 0 });
        expected.resize(3 + length + 20, 0);
        assert!(read(&mut engine, p, &key, 0..length + 23) == Ok(expected), "{length} {is_stored}");
        let found = state(&mut engine, p, &key);
        assert_eq!((found.index, found.stamp, found.end), (at, [at as u8; 16], length as u64 + 3));
    }
}

#[test]
fn corrupt_byte_beside_the_requested_ones_fails_the_read() {
    let disk = SimulatedDisk::new(1);
    let (mut engine, p) = open(&disk, Some(LOG));
    let mut expected = contents();
    expected[4 * MIB..4 * MIB + 13].copy_from_slice(b"to corrupt it");
    write(&mut engine, p, (EntryKind::Put, b"chunk"), 0, &expected);
    engine.sync().expect("syncs");
    show_that_synced(&mut engine, p);
    drop(engine);
    disk.power_off_clean();
    corrupt_before(&disk, Some(LOG), b"to corrupt it", 0);
    let (mut engine, p) = open(&disk, Some(LOG));
    for range in [0..10, MIB..MIB + 10, 4 * MIB..4 * MIB + 20, LENGTH - 3..LENGTH] {
        let found = read(&mut engine, p, b"chunk", range.clone());
        assert!(matches!(found, Err(EngineError::Corrupt { .. })), "{range:?}");
    }
    assert!(matches!(engine.chunk_state(p, b"chunk"), Err(EngineError::Corrupt { .. })));
    // A small write over it does not hide that, but a replacement does.
    write(&mut engine, p, (EntryKind::Append, b"chunk"), 4 * MIB as u32, b"is not hidden");
    assert!(matches!(read(&mut engine, p, b"chunk", 0..10), Err(EngineError::Corrupt { .. })));
    write(&mut engine, p, (EntryKind::Put, b"chunk"), 0, b"right");
    assert_eq!(read(&mut engine, p, b"chunk", 0..5), Ok(b"right".to_vec()));
}
