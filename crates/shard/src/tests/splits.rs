//! Keyspaces are split while an instance serves, while it starts, and while it is away.

use std::collections::BTreeSet;

use zerohop_engine::disk::Disk;
use zerohop_engine::disk::simulated::SimulatedDisk;
use zerohop_placement::{ClusterMap, Durability, KeyOrder, MapChange, MapDelta, ReplicaGroup};
use zerohop_wire::ids::{
    InstanceId, KeyspaceId, PartitionEpoch, RequestId, Sequence, SessionId, SnapshotId, Timestamp,
};
use zerohop_wire::messages::{
    self, Condition, Expiry, Increment, RecordWrite, Scan, SnapshotQuery, SnapshotRequest, Stamp,
};
use zerohop_wire::{DecodeResult, Decoder, Envelope, Failure, Features, Message};

use super::super::ClockReading;
use super::super::engine_name::{engine_id, named};
use super::bench::{InstanceBench, create, first_map, next};
use zerohop_partition::Token;
use zerohop_partition::{Program, Unit};

const KEYS: u32 = 400;
const ORDERS: [KeyOrder; 2] = [KeyOrder::Hashed, KeyOrder::Ordered];

fn key(n: u32) -> String {
    format!("key {n}")
}

/// The keys at which regions of an ordered keyspace are split, one after the other.
const SEPARATORS: [&str; 3] = ["key 2", "key 31", "key 1"];

/// The next split of the keyspace: of all its partitions, or of one region.
pub(super) fn split(map: &ClusterMap) -> MapDelta {
    let id = KeyspaceId(2);
    let found = map.keyspace(id).expect("is there");
    if found.config().order == KeyOrder::Hashed {
        return next(map, vec![MapChange::SplitKeyspace(id)]);
    }
    let separator = SEPARATORS[found.division().separators().len()].as_bytes();
    let region = found.partition(separator);
    next(map, vec![MapChange::SplitRegion { keyspace: id, region, separator: separator.into(), share: 128 }])
}

/// A keyspace of four partitions with some records, half of which were overwritten many times.
fn filled_bench(durability: Durability) -> InstanceBench {
    filled_bench_of(KeyOrder::Hashed, durability)
}

/// The same; an ordered keyspace has one region.
pub(super) fn filled_bench_of(order: KeyOrder, durability: Durability) -> InstanceBench {
    let mut bench = InstanceBench::new();
    let mut delta = create(bench.instance.map(), 2, "papers", durability);
    if let [MapChange::CreateKeyspace { config, groups, .. }] = &mut delta.changes[..]
        && order == KeyOrder::Ordered
    {
        *config = config.clone().ordered();
        *groups = groups.iter().take(1).collect();
    }
    bench.apply(&delta);
    for n in 0..KEYS {
        bench.store(2, &key(n), "old");
        bench.store(2, &key(n), &format!("value {n}"));
    }
    bench
}

pub(super) fn run_until_idle(bench: &mut InstanceBench) {
    while bench.instance.splits_pending() > 0 {
        bench.advance_ms(1);
    }
}

fn all_are_there(bench: &mut InstanceBench) {
    for n in 0..KEYS {
        assert_eq!(bench.value(2, &key(n)), Ok(format!("value {n}")), "{n}");
    }
}

/// Walks through a partition, and counts its records.
#[derive(Default)]
struct Walk {
    keys: Vec<String>,
    count: u64,
}

impl Program for Walk {
    fn run<D: Disk>(
        &mut self,
        unit: &mut Unit<'_, D>,
        _reply: &mut Vec<u8>,
    ) -> Result<bool, Failure<'static>> {
        let mut cursor = Some(0);
        while let Some(at) = cursor {
            cursor = unit.scan(at, &mut |key| self.keys.push(String::from_utf8_lossy(key).into_owned()))?;
        }
        self.count += unit.count()?;
        Ok(true)
    }
}

/// The keys that a walk through all partitions returns. Counts and scans by request must agree.
fn scanned(bench: &mut InstanceBench) -> Vec<String> {
    let map = bench.instance.map().clone();
    let division = map.keyspace(KeyspaceId(2)).expect("is there").division();
    let mut walk = Walk::default();
    let mut pages = 0;
    for partition in division.partitions() {
        let place = (KeyspaceId(2), partition);
        let to = Token { connection: 3, request: RequestId(1) };
        let mut reply = Vec::new();
        let now = bench.now;
        bench.instance.run(now, to, place, (&mut walk, &mut reply), &mut bench.sent).expect("runs");
        let envelope = Envelope { keyspace: KeyspaceId(2), partition, ..Envelope::default() };
        let scan = Scan {
            seen: Timestamp::ZERO,
            cursor: b"",
            prefix: b"",
            keys_max: 4096,
            blobs: false,
            range: Default::default(),
        };
        let request_id = bench.send_request(envelope, &Message::Scan(scan));
        bench.end();
        let page = bench.answer(request_id).expect("is answered").expect("is a page");
        pages += page.matches("ScannedKey").count();
    }
    assert_eq!((walk.count as usize, pages), (walk.keys.len(), walk.keys.len()));
    walk.keys
}

fn records_of(bench: &mut InstanceBench) -> u64 {
    let is_of_keyspace = |(id, _): &(zerohop_engine::PartitionId, _)| named(*id).0 == KeyspaceId(2);
    let handles: Vec<_> =
        bench.instance.engine.partitions().filter(is_of_keyspace).map(|(_, handle)| handle).collect();
    handles.into_iter().map(|handle| bench.instance.engine.records(handle).expect("is open")).sum()
}

#[test]
fn engine_ids_are_unique_and_unchanged_without_splits() {
    let plain = engine_id(KeyspaceId(7), 0, zerohop_wire::ids::PartitionId(9));
    assert_eq!(plain.0, 7 << 32 | 9);
    let mut names = BTreeSet::new();
    for splits in 0..=16 {
        for partition in [0, 1, 2, 65_535].map(zerohop_wire::ids::PartitionId) {
            let name = engine_id(KeyspaceId(7), splits, partition);
            assert_eq!(named(name), (KeyspaceId(7), splits, partition));
            assert!(names.insert(name));
        }
    }
}

#[test]
fn split_keeps_every_record_exactly_once() {
    let durabilities = [Durability::Sync, Durability::Interval { ms: 100 }, Durability::Memory];
    for (order, durability) in ORDERS.into_iter().flat_map(|order| durabilities.map(|one| (order, one))) {
        let mut bench = filled_bench_of(order, durability);
        let delta = split(bench.instance.map());
        bench.apply(&delta);
        let early = bench.get(2, &key(1));
        bench.end();
        let early = bench.answer(early).expect("is answered");
        assert!(matches!(early, Ok(_) | Err(Failure::Unavailable { .. })), "{early:?}");
        run_until_idle(&mut bench);
        all_are_there(&mut bench);
        let mut keys = scanned(&mut bench);
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), KEYS as usize, "{durability:?}");
        assert_eq!(scanned(&mut bench).len(), KEYS as usize, "each comes once, {durability:?}");
        assert!(records_of(&mut bench) > u64::from(KEYS), "what went to siblings is still here");
        for _ in 0..200 {
            bench.advance_ms(10);
        }
        assert_eq!(records_of(&mut bench), u64::from(KEYS), "and has gone, {durability:?}");
        all_are_there(&mut bench);
    }
}

/// A snapshot that was opened before the records of siblings are removed keeps their versions.
#[test]
fn snapshots_of_children_list_no_records_of_siblings() {
    let request = |bench: &mut InstanceBench, partition, request| {
        let envelope = Envelope { keyspace: KeyspaceId(2), partition, ..Envelope::default() };
        let snapshot = SnapshotRequest { seen: Timestamp::ZERO, id: SnapshotId(7), request };
        let id = bench.send_request(envelope, &Message::Snapshot(snapshot));
        bench.end();
        let answer = bench.answer(id).expect("is answered").expect("is done");
        (answer, bench.sent.versions.get(&id).copied().unwrap_or_default())
    };
    for order in ORDERS {
        let mut bench = filled_bench_of(order, Durability::Memory);
        let delta = split(bench.instance.map());
        bench.apply(&delta);
        run_until_idle(&mut bench);
        assert!(records_of(&mut bench) > u64::from(KEYS), "what went to siblings is still here");
        let map = bench.instance.map().clone();
        let division = map.keyspace(KeyspaceId(2)).expect("is there").division();
        let open = SnapshotQuery::Open { lease_ms: 60_000, age_ms: 3_600_000 };
        let opened: Vec<_> =
            division.partitions().map(|one| (one, request(&mut bench, one, open).1)).collect();
        for _ in 0..200 {
            bench.advance_ms(10);
        }
        assert_eq!(records_of(&mut bench), u64::from(KEYS), "and has gone, {order:?}");
        let mut keys = 0;
        for (partition, at) in opened {
            let scan = Scan {
                seen: Timestamp::ZERO,
                cursor: b"",
                prefix: b"",
                keys_max: 4096,
                blobs: false,
                range: Default::default(),
            };
            let (page, _) = request(&mut bench, partition, SnapshotQuery::Scan { at, scan });
            keys += page.matches("ScannedKey").count();
        }
        assert_eq!(keys, KEYS as usize, "{order:?}");
    }
}

#[test]
fn request_routed_by_newer_map_is_temporarily_refused_and_served_after_split() {
    let mut bench = filled_bench(Durability::Sync);
    let delta = split(bench.instance.map());
    let newer = bench.instance.map().apply(&delta).expect("applies");
    let route = |n: &u32| newer.route(KeyspaceId(2), key(*n).as_bytes()).expect("is routed");
    let n = (0..KEYS).find(|n| route(n).partition.0 >= 4).expect("is one in an added partition");
    let (name, partition) = (key(n), route(&n).partition);
    let envelope = Envelope {
        keyspace: KeyspaceId(2),
        partition,
        partition_epoch: route(&n).epoch,
        ..Envelope::default()
    };
    let change = messages::WriteChange::Insert(messages::Insert { value: b"new", expiry: Expiry::Never });
    let write = RecordWrite { key: name.as_bytes(), condition: Condition::Always, change };
    let read = messages::RecordRead { key: name.as_bytes(), query: messages::Query::Lookup };
    let requests = [
        Message::Write { stamp: Stamp::default(), write },
        Message::Read { seen: Timestamp::ZERO, read },
        Message::Scan(Scan {
            seen: Timestamp::ZERO,
            cursor: b"",
            prefix: b"",
            keys_max: 10,
            blobs: false,
            range: Default::default(),
        }),
    ];
    let send = |bench: &mut InstanceBench, request: &Message<'_>| {
        let request_id = bench.send_request(envelope, request);
        bench.end();
        bench.answer(request_id).expect("is answered")
    };
    for request in &requests {
        let answer = send(&mut bench, request);
        assert!(matches!(answer, Err(Failure::Unavailable { .. })), "{answer:?}");
    }
    bench.apply(&delta);
    run_until_idle(&mut bench);
    for request in &requests {
        let answer = send(&mut bench, request);
        assert!(answer.is_ok(), "{answer:?}");
    }
    assert_eq!(bench.value(2, &name), Ok("new".to_owned()));
}

#[test]
fn split_survives_crash_and_continues_cleanup() {
    ORDERS.into_iter().for_each(split_survives_crash);
}

fn split_survives_crash(order: KeyOrder) {
    let mut bench = filled_bench_of(order, Durability::Sync);
    let delta = split(bench.instance.map());
    bench.apply(&delta);
    run_until_idle(&mut bench);
    let (mut bench, opened) = bench.crash();
    assert!(opened.lost_states.is_empty() && opened.removed == 0, "{opened:?}");
    all_are_there(&mut bench);
    for _ in 0..200 {
        bench.advance_ms(10);
    }
    let (mut bench, _) = bench.crash();
    assert_eq!(records_of(&mut bench), u64::from(KEYS));
    all_are_there(&mut bench);
    assert_eq!(scanned(&mut bench).len(), KEYS as usize);
}

#[test]
fn start_completes_split_after_crash_before_it() {
    for (order, splits) in ORDERS.into_iter().flat_map(|order| [(order, 1), (order, 2), (order, 3)]) {
        let mut bench = filled_bench_of(order, Durability::Sync);
        let mut map = ClusterMap::clone(bench.instance.map());
        for _ in 0..splits {
            map = map.apply(&split(&map)).expect("follows");
        }
        if splits == 1 {
            // The instance has the new map, and has split nothing yet.
            let delta = split(bench.instance.map());
            bench.apply(&delta);
        }
        let InstanceBench { disk, instance, now, .. } = bench;
        drop(instance);
        disk.crash();
        let (mut bench, opened) = InstanceBench::on(disk, map, now);
        assert!(opened.lost_states.is_empty() && opened.removed == 0, "{opened:?}");
        all_are_there(&mut bench);
        assert_eq!(scanned(&mut bench).len(), KEYS as usize, "{splits} splits");
        for _ in 0..200 {
            bench.advance_ms(10);
        }
        assert_eq!(records_of(&mut bench), u64::from(KEYS));
    }
}

#[test]
fn retry_at_a_child_gets_the_first_outcome() {
    let mut bench = filled_bench(Durability::Sync);
    let session = SessionId { issued: Timestamp::from_millis(999_000), nonce: 5 };
    let stamp = |sequence| Stamp {
        session,
        sequence: Sequence(sequence),
        lowest_unanswered: Sequence(1),
        ..Stamp::default()
    };
    let count = |bench: &mut InstanceBench, n: u32, sequence: u64, envelope: Envelope| {
        let change = messages::WriteChange::Increment(Increment { delta: 1 });
        let key = format!("counter {n}");
        let write = RecordWrite { key: key.as_bytes(), condition: Condition::Always, change };
        let request = bench.send_request(envelope, &Message::Write { stamp: stamp(sequence), write });
        bench.end();
        bench.answer(request).expect("is answered")
    };
    let mut first = Vec::new();
    for n in 0..40 {
        let envelope = bench.envelope(2, &format!("counter {n}"));
        first.push((envelope, count(&mut bench, n, u64::from(n) + 1, envelope)));
    }
    let delta = split(bench.instance.map());
    bench.apply(&delta);
    run_until_idle(&mut bench);
    for restarted in [false, true] {
        if restarted {
            bench = bench.crash().0;
        }
        for (n, (old, answered)) in (0..).zip(&first) {
            let stale = count(&mut bench, n, u64::from(n) + 1, *old);
            assert!(matches!(stale, Err(Failure::WrongOwner { .. })), "{n}: {stale:?}");
            let envelope = bench.envelope(2, &format!("counter {n}"));
            let again = count(&mut bench, n, u64::from(n) + 1, envelope);
            assert_eq!(&again, answered, "counter {n}");
        }
    }
}

#[test]
fn children_keep_deadlines_and_waits_are_retried() {
    let mut bench = filled_bench(Durability::Interval { ms: 100 });
    let at_ms = bench.now.unix_ms + 5_000;
    let expiring = bench.put_with(2, "short-lived", "x", Expiry::AtMs(at_ms));
    let wait = bench.wait(2, "never", 60_000);
    bench.end();
    assert!(bench.answer(expiring).expect("is answered").is_ok());
    let delta = split(bench.instance.map());
    bench.apply(&delta);
    assert!(matches!(bench.answer(wait), Some(Err(Failure::Unavailable { .. }))));
    run_until_idle(&mut bench);
    assert_eq!(bench.value(2, "short-lived"), Ok("x".to_owned()));
    bench.advance_ms(5_000);
    assert_eq!(bench.value(2, "short-lived"), Err(Failure::NotFound));
}

#[test]
fn full_disk_delays_a_split() {
    let mut bench = filled_bench(Durability::Sync);
    bench.disk.set_capacity(Some(0));
    let delta = split(bench.instance.map());
    bench.apply(&delta);
    for _ in 0..5 {
        bench.advance_ms(300);
    }
    let pending = bench.instance.splits_pending();
    assert!(pending > 0);
    let named = bench.instance.stats().splits_pending;
    assert_eq!(
        (named.parents, named.primaries),
        (pending as u64, 2 * pending as u64),
        "the status names them"
    );
    bench.disk.set_capacity(None);
    for _ in 0..20 {
        bench.advance_ms(300);
    }
    assert_eq!(bench.instance.splits_pending(), 0);
    assert_eq!(bench.instance.stats().splits_pending.primaries, 0);
    all_are_there(&mut bench);
}

#[test]
fn requested_partition_is_split_first() {
    let mut bench = filled_bench(Durability::Sync);
    // The disk has no room, so that nothing is split before the requests arrive.
    bench.disk.set_capacity(Some(0));
    let delta = split(bench.instance.map());
    bench.apply(&delta);
    let first = bench.instance.splits.next_parent().expect("nothing is split yet");
    let parent_of = |bench: &InstanceBench, n: u32| bench.envelope(2, &key(n)).partition.0 >> 1;
    let other = (0..KEYS).find(|n| parent_of(&bench, *n) == 3).expect("the last parent has keys");
    assert_eq!(first.2.0, 0, "without requests the order is that of the numbers");
    let request = bench.get(2, &key(other));
    let answer = bench.answer(request).expect("is answered");
    assert!(matches!(answer, Err(Failure::Unavailable { .. })), "{answer:?}");
    assert_eq!(bench.instance.splits.next_parent().map(|parent| parent.2.0), Some(3));
    // Partitions for which nothing waits follow, and a failure does not keep the others from their turn.
    bench.advance_ms(300);
    assert_eq!(bench.instance.splits.next_parent(), Some(first));
    bench.disk.set_capacity(None);
    bench.advance_ms(300);
    run_until_idle(&mut bench);
    all_are_there(&mut bench);
}

#[test]
fn start_on_full_disk_delays_a_split() {
    for capacity in [Some(0), None] {
        let bench = filled_bench(Durability::Sync);
        let map = ClusterMap::clone(bench.instance.map());
        let map = map.apply(&split(&map)).expect("follows");
        let InstanceBench { disk, instance, now, .. } = bench;
        drop(instance);
        disk.crash();
        disk.set_capacity(capacity);
        let (mut bench, opened) = InstanceBench::on(disk, map, now);
        assert_eq!((bench.instance.splits_pending() > 0, opened.removed), (capacity.is_some(), 0));
        bench.advance_ms(300);
        bench.disk.set_capacity(None);
        for _ in 0..20 {
            bench.advance_ms(300);
        }
        assert_eq!(bench.instance.splits_pending(), 0);
        all_are_there(&mut bench);
    }
}

/// A partition that a start or a map change could not open still has a log. Its children start with that log, and not empty.
#[test]
fn stored_partition_that_is_not_open_is_split() {
    let mut bench = filled_bench(Durability::Sync);
    let id = bench.instance.partitions.of(KeyspaceId(2))[1];
    drop(bench.instance.partitions.take_replica(KeyspaceId(2), id));
    let delta = split(bench.instance.map());
    bench.apply(&delta);
    run_until_idle(&mut bench);
    all_are_there(&mut bench);
}

#[test]
fn keyspace_dropped_during_split_leaves_no_files() {
    let mut bench = filled_bench(Durability::Sync);
    let delta = split(bench.instance.map());
    bench.apply(&delta);
    bench.advance_ms(1);
    let drop = next(bench.instance.map(), vec![MapChange::DropKeyspace(KeyspaceId(2))]);
    bench.apply(&drop);
    assert_eq!(bench.instance.splits_pending(), 0);
    // Their files are removed in small steps.
    (0..50).for_each(|_| bench.advance_ms(50));
    let names = bench.disk.list("").expect("lists");
    assert!(!names.iter().any(|name| name.name.starts_with("p-00000002")), "{names:?}");
}

/// Time passes, batches end, and the messages between the two instances arrive.
pub(super) fn run_batches(benches: &mut [InstanceBench; 2], ms: u64) {
    let decoder = Decoder::with_version(zerohop_wire::GREETING_VERSION, Features::default());
    for _ in 0..ms / 5 {
        for at in 0..2 {
            let bench = &mut benches[at];
            bench.now.unix_ms += 5;
            bench.now.elapsed_ms += 5;
            bench.end();
            for timestamp_bound in std::mem::take(&mut bench.sent.timestamp_bounds) {
                bench.instance.timestamp_bound_synced(timestamp_bound);
            }
            for bytes in std::mem::take(&mut bench.sent.to_peers) {
                let other = &mut benches[1 - at];
                let DecodeResult::Frame { frame, .. } = decoder.decode(&bytes) else { panic!("no frame") };
                let mut scratch = Vec::new();
                let message = frame.message(&mut scratch).expect("was encoded so");
                let to = Token { connection: 9, request: RequestId(0) };
                other.instance.request(other.now, to, &frame.envelope, &message, &mut other.sent);
                other.end();
            }
        }
    }
}

#[test]
fn replicated_partitions_split_and_fail_over() {
    let now = ClockReading { unix_ms: 1_000_000, elapsed_ms: 10_000 };
    let one =
        |instance| InstanceBench::of(instance, SimulatedDisk::new(u64::from(instance)), first_map(2), now).0;
    let mut benches = [one(1), one(2)];
    let apply = |benches: &mut [InstanceBench; 2], changes| {
        let delta = next(benches[0].instance.map(), changes);
        benches.iter_mut().for_each(|bench| bench.apply(&delta));
    };
    let delta = create(benches[0].instance.map(), 2, "shared", Durability::Sync);
    benches.iter_mut().for_each(|bench| bench.apply(&delta));
    let regroup = |benches: &[InstanceBench; 2], primary: u32| -> Vec<MapChange> {
        let found = benches[0].instance.map().keyspace(KeyspaceId(2)).expect("is there").clone();
        let change = |(partition, group): (_, zerohop_placement::Group<'_>)| {
            let epoch = PartitionEpoch(group.epoch.0 + 1);
            let in_sync = vec![InstanceId(3 - primary)];
            let group = ReplicaGroup { in_sync, ..ReplicaGroup::of_one(epoch, InstanceId(primary)) };
            MapChange::SetGroup { keyspace: KeyspaceId(2), partition, group }
        };
        found.groups().map(change).collect()
    };
    let changes = regroup(&benches, 1);
    apply(&mut benches, changes);
    run_batches(&mut benches, 1_500);
    let put = |benches: &mut [InstanceBench; 2], at: usize, n: u32| {
        let request = benches[at].put(2, &key(n), &format!("value {n}"));
        run_batches(benches, 30);
        assert_eq!(benches[at].answer(request), Some(Ok("done".to_owned())), "{n}");
    };
    (0..60).for_each(|n| put(&mut benches, 0, n));
    // Evaluated, and not yet on the other instance when both receive the split.
    let doubtful: Vec<u64> = (60..80).map(|n| benches[0].put(2, &key(n), &format!("value {n}"))).collect();
    apply(&mut benches, vec![MapChange::SplitKeyspace(KeyspaceId(2))]);
    for request in doubtful {
        let answer = benches[0].answer(request).expect("is answered");
        assert!(matches!(answer, Err(Failure::TimedOut { .. })), "{answer:?}");
    }
    run_batches(&mut benches, 100);
    (80..100).for_each(|n| put(&mut benches, 0, n));
    let changes = regroup(&benches, 2);
    apply(&mut benches, changes);
    run_batches(&mut benches, 1_000);
    for n in 0..100 {
        let request = benches[1].get(2, &key(n));
        run_batches(&mut benches, 5);
        assert_eq!(benches[1].answer(request), Some(Ok(format!("value {n}"))), "{n}");
    }
    run_batches(&mut benches, 3_000);
    for bench in &mut benches {
        assert_eq!(records_of(bench), 100, "what is each partition's own");
    }
}

#[cfg(debug_assertions)]
#[test]
fn planted_counts_of_siblings_records_are_seen() {
    use zerohop_partition::planted::{Bug, plant};

    let mut bench = filled_bench(Durability::Interval { ms: 100 });
    plant(Some(Bug::SiblingRecordsCounted));
    let delta = split(bench.instance.map());
    bench.apply(&delta);
    run_until_idle(&mut bench);
    let found = scanned(&mut bench).len();
    plant(None);
    assert!(found > KEYS as usize, "{found}");
}
