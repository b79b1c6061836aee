//! Lists of the chunks that a blob has in a partition, from the table of chunks and by a walk of the index.

use zerohop_engine::Durability;
use zerohop_wire::blob::{BlobStamp, chunk_key};
use zerohop_wire::ids::Timestamp;
use zerohop_wire::messages::{BlobChange, ChunkList, WriteChange};
use zerohop_wire::{BadRequestReason, Failure, Message};

use crate::state::{ChunkTable, PartitionState};
use crate::testing::{PartitionBench, insert};

const STAMP: BlobStamp = BlobStamp { id: 5, generation: 0 };
const END: u64 = 1 << 24;
const NUMBERS: [u64; 8] = [0, 4095, 4096, 5000, 65_535, 65_536, 70_000, END - 1];

fn write(bench: &mut PartitionBench, name: &[u8], number: u64) {
    let change = BlobChange::WriteChunk { stamp: STAMP, offset: 9, length: 1, bytes: b"x", makes: true };
    let key = chunk_key(name, number).expect("a name");
    bench.write(&key, WriteChange::Blob(change)).number().expect("is done");
}

fn remove(bench: &mut PartitionBench, name: &[u8], number: u64) {
    let key = chunk_key(name, number).expect("a name");
    let change = WriteChange::Blob(BlobChange::DropChunk { stamp: STAMP });
    assert_eq!(bench.write(&key, change).number(), Ok(1));
}

/// All numbers of the pages of a list, in order, and the count of pages.
fn list(bench: &mut PartitionBench, name: &[u8], numbers: (u64, u64), numbers_max: u32) -> (Vec<u64>, usize) {
    let (mut cursor, mut found, mut pages) = (Vec::new(), Vec::new(), 0);
    loop {
        let (seen, (first, end)) = (Timestamp::ZERO, numbers);
        let list = ChunkList { seen, name, first, end, cursor: &cursor, numbers_max };
        let (page, next) = bench.answer_of(&Message::Chunks(list)).page();
        assert!(page.len() <= numbers_max as usize);
        found.extend(page.iter().map(|key| u64::from_be_bytes(key[..].try_into().expect("is a number"))));
        pages += 1;
        if next.is_empty() {
            break;
        }
        cursor = next;
    }
    found.sort_unstable();
    (found, pages)
}

fn check(bench: &mut PartitionBench) {
    let listed = [4096, 65_535, 65_536, 70_000, END - 1];
    for numbers_max in [1, 2, 5, 4096] {
        assert_eq!(list(bench, b"film", (0, END), numbers_max).0, listed, "by {numbers_max}");
    }
    assert_eq!(list(bench, b"film", (4097, 70_000), 2).0, [65_535, 65_536]);
    assert_eq!(list(bench, b"film", (70_000, 70_000), 2).0, []);
    assert_eq!(list(bench, b"fil", (0, END), 2).0, [4096]);
    assert_eq!(list(bench, b"films", (0, END), 2).0, []);
}

#[test]
fn chunks_of_high_numbers_are_listed_also_after_crash_and_without_table() {
    let mut bench = PartitionBench::new();
    for number in NUMBERS {
        write(&mut bench, b"film", number);
    }
    // A second write of a chunk does not list it twice.
    write(&mut bench, b"film", 65_536);
    write(&mut bench, b"fil", 4096);
    bench.write(b"plain", insert(b"v")).number().expect("is done");
    remove(&mut bench, b"film", 5000);
    check(&mut bench);
    // The table gives the numbers without a look at other records.
    for n in 0..3000_u32 {
        bench.write(&n.to_be_bytes(), insert(b"v")).number().expect("is done");
    }
    assert_eq!(list(&mut bench, b"film", (0, END), 4096).1, 1);
    let state = bench.at_once.partition.state().encode();
    assert_eq!(PartitionState::decode(&state).as_ref(), Ok(bench.at_once.partition.state()));
    let complete = bench.at_once.partition.state().chunks.clone();
    for partition in [&mut bench.at_once.partition, &mut bench.flushed.partition] {
        partition.state.chunks = ChunkTable::incomplete();
    }
    check(&mut bench);
    let rig = bench.flushed.crash(Durability::Sync);
    assert_eq!(rig.partition.state().chunks, complete);
}

#[test]
fn chunk_list_refuses_bad_names_ranges_and_cursors() {
    let mut bench = PartitionBench::new();
    let good = ChunkList { name: b"film", end: END, numbers_max: 9, ..ChunkList::default() };
    assert_eq!(bench.answer_of(&Message::Chunks(good)).page(), (Vec::new(), Vec::new()));
    let refused = bench.answer_of(&Message::Chunks(ChunkList { cursor: b"\x80abc", ..good })).number();
    assert_eq!(refused, Err(Failure::BadRequest { reason: BadRequestReason::Cursor }));
    let mut out = Vec::new();
    for bad in [
        ChunkList { name: b"", ..good },
        ChunkList { name: &[b'x'; 4097], ..good },
        ChunkList { first: END + 1, ..good },
        ChunkList { numbers_max: 0, ..good },
        ChunkList { numbers_max: 4097, ..good },
    ] {
        assert!(Message::Chunks(bad).encode_body(&mut out).is_err(), "{bad:?}");
    }
}
