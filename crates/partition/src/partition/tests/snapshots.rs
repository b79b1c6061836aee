//! Snapshots: reads of an open snapshot give the answers of the time when it was opened, whatever is written later, until it is
//! closed.

use zerohop_base::random::Random;
use zerohop_engine::Durability;
use zerohop_engine::disk::Disk;
use zerohop_wire::blob::{BlobStamp, chunk_key, header_key};
use zerohop_wire::ids::{Incarnation, InstanceId, SnapshotId, Timestamp};
use zerohop_wire::messages::{
    BlobChange, Expire, Expiry, Extend, Insert, LookupRange, Member, Query, Range, ReadChunk, RecordRead,
    Remove, Scan, SnapshotQuery, SnapshotRequest, Trim, WriteChange,
};
use zerohop_wire::{BadRequestReason, Failure, Message};

use crate::entry_metadata::Mark;
use crate::limits::{ANSWER_SNAPSHOTS_MAX, SNAPSHOT_VERSIONS_MAX, SNAPSHOTS_MAX, STREAM_SNAPSHOTS_MAX};
use crate::snapshots::answer_snapshot;
use crate::testing::{OwnedAnswer, PartitionBench, PartitionRig, append, insert};
use crate::{Program, SnapshotOpening, Unit};

const LEASE_MS: u32 = 60_000;
const AGE_MS: u64 = 3_600_000;

fn send_snapshot_request(bench: &mut PartitionBench, id: u128, query: SnapshotQuery<'_>) -> OwnedAnswer {
    bench.answer_of(&Message::Snapshot(SnapshotRequest {
        seen: Timestamp::ZERO,
        id: SnapshotId(id),
        request: query,
    }))
}

fn open(bench: &mut PartitionBench, id: u128) -> Timestamp {
    let opened = send_snapshot_request(bench, id, SnapshotQuery::Open { lease_ms: LEASE_MS, age_ms: AGE_MS });
    assert_eq!(opened.number(), Ok(0));
    opened.version()
}

fn read_at(
    bench: &mut PartitionBench,
    (id, at): (u128, Timestamp),
    key: &[u8],
    query: Query<'_>,
) -> OwnedAnswer {
    send_snapshot_request(bench, id, SnapshotQuery::Read { at, read: RecordRead { key, query } })
}

fn bytes_at(bench: &mut PartitionBench, of: (u128, Timestamp), key: &[u8]) -> Option<Vec<u8>> {
    read_at(bench, of, key, Query::Lookup).bytes()
}

/// The numbers of the chunks of a blob, in order.
fn chunks_at(bench: &mut PartitionBench, (id, at): (u128, Timestamp), name: &[u8]) -> Vec<u64> {
    let (mut cursor, mut all) = (Vec::new(), Vec::new());
    loop {
        let (seen, range) = (Timestamp::ZERO, Default::default());
        let scan = Scan { seen, cursor: &cursor, prefix: name, keys_max: 2, blobs: false, range };
        let (keys, next) = send_snapshot_request(bench, id, SnapshotQuery::Chunks { at, scan }).page();
        all.extend(keys.iter().map(|key| u64::from_be_bytes(key[..].try_into().expect("is a number"))));
        if next.is_empty() {
            all.sort_unstable();
            return all;
        }
        cursor = next;
    }
}

#[test]
fn chunks_of_a_snapshot_are_listed_after_their_removal() {
    let mut bench = PartitionBench::new();
    let stamp = BlobStamp { id: 5, generation: 0 };
    let write = |bench: &mut PartitionBench, name: &[u8], number: u64| {
        let change = BlobChange::WriteChunk { stamp, offset: 0, length: 1, bytes: b"x", makes: true };
        let key = chunk_key(name, number).expect("a name");
        bench.write(&key, WriteChange::Blob(change)).number().expect("is done");
    };
    let numbers = [4096, 5000, 70_000, 80_000, (1 << 24) - 1];
    for number in [0, 4095].into_iter().chain(numbers) {
        write(&mut bench, b"film", number);
    }
    write(&mut bench, b"films", 6000);
    let at = open(&mut bench, 1);
    for number in [4096, 70_000, (1 << 24) - 1] {
        let key = chunk_key(b"film", number).expect("a name");
        let change = WriteChange::Blob(BlobChange::DropChunk { stamp });
        assert_eq!(bench.write(&key, change).number(), Ok(1));
    }
    write(&mut bench, b"film", 90_000);
    let mut listed = chunks_at(&mut bench, (1, at), b"film");
    // A later one may be listed too.
    listed.retain(|number| *number != 90_000);
    assert_eq!(listed, numbers);
    assert_eq!(chunks_at(&mut bench, (1, at), b"fil"), []);
}

/// All keys, or names of blobs, in the order of the pages.
fn walk_at(bench: &mut PartitionBench, (id, at): (u128, Timestamp), blobs: bool) -> Vec<Vec<u8>> {
    let (mut cursor, mut all) = (Vec::new(), Vec::new());
    loop {
        let scan = Scan {
            seen: Timestamp::ZERO,
            cursor: &cursor,
            prefix: b"",
            keys_max: 3,
            blobs,
            range: Default::default(),
        };
        let (keys, next) = send_snapshot_request(bench, id, SnapshotQuery::Scan { at, scan }).page();
        all.extend(keys);
        if next.is_empty() {
            all.sort_unstable();
            return all;
        }
        cursor = next;
    }
}

fn walk(bench: &mut PartitionBench, blobs: bool) -> Vec<Vec<u8>> {
    let (mut cursor, mut all) = (Vec::new(), Vec::new());
    loop {
        let (keys, next) = match blobs {
            true => bench.scan_blobs(&cursor, b"", 3),
            false => bench.scan(&cursor, b"", 3),
        };
        all.extend(keys);
        if next.is_empty() {
            all.sort_unstable();
            return all;
        }
        cursor = next;
    }
}

/// The records of the random test: bytes and lists, a chunk, and a few headers of blobs.
fn keys() -> Vec<Vec<u8>> {
    let names = (0..4).map(|n| header_key(format!("blob-{n}").as_bytes()).expect("a name"));
    let chunks = (0..2).map(|n| chunk_key(b"blob-0", n).expect("a name"));
    (0..12).map(|n| format!("key-{n}").into_bytes()).chain(names).chain(chunks).collect()
}

const QUERIES: [Query<'static>; 4] = [
    Query::Lookup,
    Query::Inspect,
    Query::LookupRange(LookupRange { range: Range { start: -3, stop: i64::MAX } }),
    Query::ReadChunk(ReadChunk { offset: 2, length: 40 }),
];

/// An open snapshot, and the answers at the time of its opening.
struct OpenSnapshot {
    id: u128,
    at: Timestamp,
    answers: Vec<OwnedAnswer>,
    keys: Vec<Vec<u8>>,
    names: Vec<Vec<u8>>,
}

fn answers(bench: &mut PartitionBench, keys: &[Vec<u8>]) -> Vec<OwnedAnswer> {
    keys.iter().flat_map(|key| QUERIES.map(|query| bench.read(key, query))).collect()
}

#[test]
fn snapshot_reads_stay_the_same_while_it_is_open() {
    for seed in 0..6 {
        let mut random = Random::new(seed);
        let (mut bench, all) = (PartitionBench::new(), keys());
        let (mut open_ones, mut next): (Vec<OpenSnapshot>, u128) = (Vec::new(), 1);
        for _ in 0..700 {
            let (n, key) = (random.below(all.len() as u64) as usize, all[0].clone());
            let key = if n < 12 { &all[n] } else { &key };
            let value = vec![random.below(256) as u8; random.below(60) as usize];
            match random.below(16) {
                0..=2 => drop(bench.write(key, insert(&value))),
                3 => drop(bench.write(
                    key,
                    WriteChange::Insert(Insert {
                        value: &value,
                        expiry: Expiry::AfterMs(200 + random.below(2_000)),
                    }),
                )),
                4..=5 => drop(bench.write(key, append(&[&value, b"x"]))),
                6 => drop(bench.write(key, WriteChange::Extend(Extend { bytes: &value }))),
                7 => drop(bench.write(key, WriteChange::Remove(Remove))),
                8 => drop(
                    bench.write(key, WriteChange::Trim(Trim { keep: Range { start: 1, stop: i64::MAX } })),
                ),
                9 => drop(bench.write(
                    key,
                    WriteChange::Expire(Expire { expiry: Expiry::AfterMs(random.below(900) + 1) }),
                )),
                10 => {
                    let key = &all[12 + random.below(4) as usize];
                    let create = BlobChange::Create { chunk_bits: 12, attributes: &value };
                    let change = if random.chance(1, 2) {
                        WriteChange::Blob(create)
                    } else {
                        WriteChange::Remove(Remove)
                    };
                    drop(bench.write(key, change));
                }
                11..=12 => {
                    let (key, stamp) =
                        (&all[16 + random.below(2) as usize], BlobStamp { id: 9, generation: 0 });
                    let (offset, length) = (random.below(50) as u32, value.len() as u32);
                    let change = BlobChange::WriteChunk { stamp, offset, length, bytes: &value, makes: true };
                    drop(bench.write(key, WriteChange::Blob(change)));
                }
                13 if open_ones.len() < 4 => {
                    // Readers do not see expired records, which the next tick removes.
                    bench.tick();
                    let at = open(&mut bench, next);
                    let (answers, keys) = (answers(&mut bench, &all), walk(&mut bench, false));
                    open_ones.push(OpenSnapshot {
                        id: next,
                        at,
                        answers,
                        keys,
                        names: walk(&mut bench, true),
                    });
                    next += 1;
                }
                13 => {
                    let gone = open_ones.swap_remove(random.below(4) as usize);
                    assert_eq!(
                        send_snapshot_request(&mut bench, gone.id, SnapshotQuery::Close).number(),
                        Ok(0)
                    );
                    let refused = read_at(&mut bench, (gone.id, gone.at), &all[0], Query::Lookup);
                    assert_eq!(refused.number(), Err(Failure::SnapshotExpired));
                }
                14 => bench.advance_ms(random.below(300)),
                _ => bench.compact(),
            }
            if let Some(open) = open_ones.get(random.below(6) as usize) {
                let of = (open.id, open.at);
                let place = random.below(all.len() as u64) as usize;
                for (query, was) in QUERIES.into_iter().zip(&open.answers[4 * place..]) {
                    let found = read_at(&mut bench, of, &all[place], query);
                    assert_eq!(
                        &found,
                        was,
                        "seed {seed}: {query:?} of {:?}",
                        String::from_utf8_lossy(&all[place])
                    );
                }
            }
        }
        for open in &open_ones {
            let of = (open.id, open.at);
            assert_eq!(walk_at(&mut bench, of, false), open.keys, "seed {seed}");
            assert_eq!(walk_at(&mut bench, of, true), open.names, "seed {seed}");
        }
        for open in open_ones {
            assert_eq!(send_snapshot_request(&mut bench, open.id, SnapshotQuery::Close).number(), Ok(0));
        }
        bench.maintain();
        assert_eq!(bench.retained_version_count(), 0, "seed {seed}: no version is kept without a snapshot");
    }
}

#[test]
fn snapshot_expires_without_renewal_or_at_maximum_age() {
    let mut bench = PartitionBench::new();
    bench.write(b"k", insert(b"old")).number().expect("is done");
    let of = (7, open(&mut bench, 7));
    assert_eq!(open(&mut bench, 7), of.1, "it is opened once");
    bench.write(b"k", insert(b"new")).number().expect("is done");
    for _ in 0..70 {
        assert_eq!(bytes_at(&mut bench, of, b"k").as_deref(), Some(&b"old"[..]));
        bench.advance_ms(u64::from(LEASE_MS) - 1);
        if send_snapshot_request(&mut bench, 7, SnapshotQuery::Renew { lease_ms: LEASE_MS }).number().is_err()
        {
            break;
        }
    }
    let expired = Err(Failure::SnapshotExpired);
    assert_eq!(read_at(&mut bench, of, b"k", Query::Lookup).number(), expired, "after its age");
    let of = (8, open(&mut bench, 8));
    bench.write(b"k", insert(b"newer")).number().expect("is done");
    assert!(bench.next_tick_ms() <= Some(bench.now_ms() + u64::from(LEASE_MS)));
    bench.advance_ms(u64::from(LEASE_MS) - 1);
    assert_eq!(bytes_at(&mut bench, of, b"k").as_deref(), Some(&b"new"[..]));
    bench.advance_ms(1);
    assert_eq!(read_at(&mut bench, of, b"k", Query::Lookup).number(), expired, "after its lease");
    assert_eq!(
        send_snapshot_request(&mut bench, 8, SnapshotQuery::Renew { lease_ms: LEASE_MS }).number(),
        expired
    );
    bench.maintain();
    assert_eq!((bench.retained_version_count(), bench.next_tick_ms()), (0, None));
}

#[test]
fn read_before_snapshot_or_in_future_is_refused() {
    let mut bench = PartitionBench::new();
    bench.write(b"k", insert(b"v")).number().expect("is done");
    let at = open(&mut bench, 1);
    let before = read_at(&mut bench, (1, Timestamp(at.0 - 1)), b"k", Query::Lookup);
    assert_eq!(before.number(), Err(Failure::SnapshotExpired));
    let ahead = Timestamp::from_millis(bench.now_ms() + 501);
    let ahead = read_at(&mut bench, (1, ahead), b"k", Query::Lookup);
    assert!(matches!(ahead.number(), Err(Failure::ClockAhead { .. })));
    // A time a little ahead is closed: later writes are above it.
    let soon = Timestamp::from_millis(bench.now_ms() + 400);
    assert_eq!(bytes_at(&mut bench, (1, soon), b"k").as_deref(), Some(&b"v"[..]));
    assert!(bench.write(b"k", insert(b"later")).version() > soon);
    assert_eq!(bytes_at(&mut bench, (1, soon), b"k").as_deref(), Some(&b"v"[..]));
}

#[test]
fn snapshots_and_their_retained_versions_are_bounded() {
    let mut bench = PartitionBench::new();
    for id in 0..SNAPSHOTS_MAX as u128 {
        open(&mut bench, id);
    }
    let one_more = send_snapshot_request(&mut bench, 1_000, SnapshotQuery::Open { lease_ms: 1, age_ms: 1 });
    assert_eq!(one_more.number(), Err(BadRequestReason::Snapshots.into()));
    // Those of streams are counted apart.
    let stream = |id| SnapshotId::for_stream(id).0;
    for id in 0..STREAM_SNAPSHOTS_MAX as u128 {
        open(&mut bench, stream(id));
    }
    let query = SnapshotQuery::Open { lease_ms: 1, age_ms: 1 };
    let one_more = send_snapshot_request(&mut bench, stream(1_000), query);
    assert_eq!(one_more.number(), Err(BadRequestReason::Snapshots.into()));
    for id in 0..STREAM_SNAPSHOTS_MAX as u128 {
        send_snapshot_request(&mut bench, stream(id), SnapshotQuery::Close);
    }
    // Those of long answers are counted apart, and their ids are not for clients.
    assert_eq!(open_for_answer(&mut bench.at_once, 1, None), Ok(()));
    let requester = Member { instance: InstanceId(1), incarnation: Incarnation(2) };
    let short = SnapshotQuery::Open { lease_ms: 1, age_ms: 1 };
    let of_client = send_snapshot_request(&mut bench, answer_snapshot(requester, 99).0, short);
    assert_eq!(of_client.number(), Err(BadRequestReason::SnapshotId.into()));
    assert_eq!(close_for_answer(&mut bench.at_once, 1), Ok(0));
    for id in 1..SNAPSHOTS_MAX as u128 {
        send_snapshot_request(&mut bench, id, SnapshotQuery::Close);
    }
    let of = (0, open(&mut bench, 0));
    for n in 0..=SNAPSHOT_VERSIONS_MAX as u32 {
        bench.at_once.write(
            crate::testing::token(u64::from(n) + 1_000_000),
            Default::default(),
            b"k",
            insert(&n.to_le_bytes()),
        );
    }
    bench.at_once.step(crate::PartitionEvent::Tick);
    let token = crate::testing::token(5);
    let read = RecordRead { key: b"k", query: Query::Lookup };
    let read = SnapshotQuery::Read { at: of.1, read };
    let message =
        Message::Snapshot(SnapshotRequest { seen: Timestamp::ZERO, id: SnapshotId(0), request: read });
    bench.at_once.send(token, 0, &message);
    let answer = bench.at_once.answer(token).expect("is answered");
    assert_eq!(answer.number(), Err(Failure::SnapshotExpired));
}

/// A program that is answered from a snapshot, which is counted to a token.
struct LongAnswer(SnapshotOpening);

impl Program for LongAnswer {
    fn run<D: Disk>(&mut self, _: &mut Unit<'_, D>, _: &mut Vec<u8>) -> Result<bool, Failure<'static>> {
        Ok(false)
    }

    fn opens(&self) -> Option<SnapshotOpening> {
        Some(self.0)
    }
}

fn answer_id(number: u64) -> SnapshotId {
    answer_snapshot(Member { instance: InstanceId(1), incarnation: Incarnation(2) }, number)
}

fn open_for_answer(rig: &mut PartitionRig, number: u64, holder: Option<u64>) -> Result<(), Failure<'static>> {
    let opening = SnapshotOpening { id: answer_id(number), lease_ms: LEASE_MS, age_ms: AGE_MS, holder };
    let token = crate::testing::token(7_000_000 + number);
    let mut program = LongAnswer(opening);
    rig.partition.run(&mut rig.engine, rig.now, token, (&mut program, &mut Vec::new()), &mut rig.out)?;
    rig.flush();
    Ok(())
}

fn close_for_answer(rig: &mut PartitionRig, number: u64) -> Result<u64, Failure<'static>> {
    let token = crate::testing::token(8_000_000 + number);
    let (seen, request) = (Timestamp::ZERO, SnapshotQuery::Close);
    rig.send(token, 0, &Message::Snapshot(SnapshotRequest { seen, id: answer_id(number), request }));
    rig.flush();
    rig.answer(token).expect("is answered").number()
}

#[test]
fn token_leaves_snapshots_of_long_answers_to_others() {
    let mut bench = PartitionBench::new();
    let (rig, mut number) = (&mut bench.at_once, 0);
    // The number of snapshots that a token, or a client without one, gets before the next one has to wait.
    let mut opened = |rig: &mut PartitionRig, holder| {
        let first = number;
        loop {
            match open_for_answer(rig, number, holder) {
                Ok(()) => number += 1,
                Err(Failure::Busy { .. }) => return number - first,
                Err(failure) => panic!("{failure}"),
            }
        }
    };
    assert_eq!(opened(rig, Some(7)), 8);
    assert_eq!(opened(rig, Some(8)), 4);
    assert_eq!(opened(rig, Some(9)), 2);
    // What ends is free for all, and a token has no more than before.
    for number in 0..4 {
        assert_eq!(close_for_answer(rig, number), Ok(0));
    }
    assert_eq!(opened(rig, Some(7)), 1);
    assert_eq!(opened(rig, Some(10)), 3);
    assert_eq!(opened(rig, None), 2);
    assert_eq!(opened(rig, Some(11)), 0);
    let id = answer_snapshot(Member { instance: InstanceId(1), incarnation: Incarnation(2) }, 99);
    let count = rig.partition.snapshots.as_deref().map(|snapshots| snapshots.count_like(id));
    assert_eq!(count, Some(ANSWER_SNAPSHOTS_MAX));
}

#[test]
fn restart_drops_snapshots_and_reports_it() {
    for durability in [Durability::Sync, Durability::DEFAULT] {
        let mut rig = crate::testing::PartitionRig::new(durability);
        rig.write(crate::testing::token(1), Default::default(), b"k", insert(b"old"));
        let id = SnapshotId(1);
        let open = SnapshotQuery::Open { lease_ms: LEASE_MS, age_ms: AGE_MS };
        rig.send(
            crate::testing::token(2),
            0,
            &Message::Snapshot(SnapshotRequest { seen: Timestamp::ZERO, id, request: open }),
        );
        rig.flush();
        let at = rig.answer(crate::testing::token(2)).expect("is open").version();
        rig.engine.sync().expect("syncs");
        let mut rig = rig.crash(durability);
        rig.write(crate::testing::token(3), Default::default(), b"k", insert(b"new"));
        rig.flush();
        let read = SnapshotQuery::Read { at, read: RecordRead { key: b"k", query: Query::Lookup } };
        rig.send(
            crate::testing::token(4),
            0,
            &Message::Snapshot(SnapshotRequest { seen: Timestamp::ZERO, id, request: read }),
        );
        rig.flush();
        let answer = rig.answer(crate::testing::token(4)).expect("is answered");
        assert_eq!(answer.number(), Err(Failure::SnapshotExpired));
    }
}

#[test]
fn epoch_marker_bytes_name_retained_snapshots() {
    let at = Timestamp(9);
    let golden = |ids: &[u128]| {
        let mut payload = Vec::new();
        let snapshots = ids.iter().map(|id| SnapshotId(*id)).collect();
        Mark::Epoch { snapshots }.encode(at, &mut payload);
        payload
    };
    assert_eq!(golden(&[]), [16], "as it was before it named any");
    let mut bytes = vec![16];
    bytes.extend((1..=16).chain(33..=48));
    let both = [0x100f_0e0d_0c0b_0a09_0807_0605_0403_0201, 0x302f_2e2d_2c2b_2a29_2827_2625_2423_2221];
    assert_eq!(golden(&both), bytes);
    bytes.pop();
    assert_eq!(Mark::decode(&bytes, at), None);
}

/// While too few members are there to commit anything, ticks append one mark that ends an overdue snapshot, and not one each. A log
/// that gets one at each tick fills the disk.
#[test]
fn overdue_snapshot_appends_only_one_uncommitted_end_mark() {
    let mut bench = PartitionBench::new();
    open(&mut bench, 1);
    let rig = &mut bench.at_once;
    rig.partition.set_members(1, false);
    let begun = rig.partition.last_name().1;
    rig.now.ms += u64::from(LEASE_MS) + 1;
    for _ in 0..20 {
        rig.now.ms += 1;
        rig.step(crate::PartitionEvent::Tick);
    }
    assert_eq!(rig.partition.last_name().1, begun + 1);
    assert_eq!(rig.partition.stats().snapshots, 1, "the mark is not committed");
    rig.partition.commit_acknowledged(&mut rig.engine, begun + 1, &mut rig.out).expect("commits");
    assert_eq!(rig.partition.stats().snapshots, 0);
}
