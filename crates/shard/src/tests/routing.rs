//! Requests routed by an older map reach a partition that has been split. They are refused, and none of their effects happens.

use zerohop_engine::disk::Disk;
use zerohop_engine::disk::simulated::SimulatedDisk;
use zerohop_placement::{Durability, KeyspaceConfig, MapChange, ReplicaGroup, Separators};
use zerohop_wire::ids::{
    InstanceId, KeyspaceId, PartitionEpoch, PartitionId, RequestId, SnapshotId, Timestamp,
};
use zerohop_wire::messages::{
    self, Condition, Expiry, Extend, OperationBatch, Query, RecordOperation, RecordRead, RecordWrite,
    SnapshotQuery, SnapshotRequest, Stamp, Wait, WaitUntil,
};
use zerohop_wire::{Elements, Envelope, Failure, Message};

use super::super::ClockReading;
use super::bench::{InstanceBench, create, first_map, next};
use super::splits::{run_batches, run_until_idle, split};
use zerohop_partition::Token;
use zerohop_partition::{Program, ProgramResult, Unit};

const PAPERS: KeyspaceId = KeyspaceId(2);

/// Keys in partition 0 of four that are in partitions 0 and 1 of eight.
fn torn(bench: &InstanceBench) -> [String; 2] {
    let map = split_of(bench);
    let found = |expected: u32| {
        let is_so = |key: &String| {
            bench.envelope(2, key).partition == PartitionId(0)
                && map.keyspace(PAPERS).expect("is there").partition(key.as_bytes()) == PartitionId(expected)
        };
        (0..1_000).map(|n| format!("key {n}")).find(is_so).expect("is one")
    };
    [found(0), found(1)]
}

fn split_of(bench: &InstanceBench) -> zerohop_placement::ClusterMap {
    bench.instance.map().apply(&split(bench.instance.map())).expect("applies")
}

/// Counts its runs for each key, as a client's `INCR` does, after it has read other keys.
struct Count<'k> {
    lookups: &'k [&'k str],
    key: &'k str,
}

impl Program for Count<'_> {
    fn run<D: Disk>(
        &mut self,
        unit: &mut Unit<'_, D>,
        reply: &mut Vec<u8>,
    ) -> Result<bool, Failure<'static>> {
        for key in self.lookups {
            // The program ignores the result.
            drop(unit.inspect(key.as_bytes()));
        }
        drop(unit.extend(self.key.as_bytes(), b"+"));
        reply.extend_from_slice(b"counted");
        Ok(true)
    }
}

/// Writes without reading the earlier record.
struct BlindPut<'k>(&'k str);

impl Program for BlindPut<'_> {
    fn run<D: Disk>(&mut self, unit: &mut Unit<'_, D>, _: &mut Vec<u8>) -> Result<bool, Failure<'static>> {
        unit.put(self.0.as_bytes(), b"put", Expiry::Never)?;
        Ok(true)
    }
}

fn run(
    bench: &mut InstanceBench,
    partition: PartitionId,
    program: &mut impl Program,
) -> Result<ProgramResult, Failure<'static>> {
    let (now, to, mut reply) = (bench.now, Token { connection: 3, request: RequestId(1) }, Vec::new());
    let ran = bench.instance.run(now, to, (PAPERS, partition), (program, &mut reply), &mut bench.sent);
    assert!(ran.is_ok() || reply.is_empty());
    bench.sent.answers.remove(&1);
    ran
}

fn is_refused<T: std::fmt::Debug>(result: Result<T, Failure<'static>>) {
    assert!(matches!(result, Err(Failure::WrongOwner { .. })), "{result:?}");
}

/// Atomic batches and requests; the latter's keys have left the partition to which the former were routed.
fn nothing_of_the_other_half_is_done(bench: &mut InstanceBench, [stays, leaves]: &[String; 2]) {
    let first = PartitionId(0);
    is_refused(run(bench, first, &mut Count { lookups: &[], key: leaves }));
    is_refused(run(bench, first, &mut Count { lookups: &[leaves], key: stays }));
    is_refused(run(bench, first, &mut BlindPut(leaves)));
    let envelope = Envelope { keyspace: PAPERS, partition: first, ..Envelope::default() };
    let read = |query| RecordRead { key: leaves.as_bytes(), query };
    let change = messages::WriteChange::Extend(Extend { bytes: b"+" });
    let write = RecordWrite { key: leaves.as_bytes(), condition: Condition::Always, change };
    let good = RecordWrite { key: stays.as_bytes(), ..write };
    let operations = [RecordOperation::Write(good), RecordOperation::Write(write)];
    let (stamp, seen) = (Stamp::default(), Timestamp::ZERO);
    let query = SnapshotQuery::Read { at: Timestamp(1), read: read(Query::Lookup) };
    let requests = [
        Message::Write { stamp, write },
        Message::Read { seen, read: read(Query::Lookup) },
        Message::Read { seen, read: read(Query::Wait(Wait { until: WaitUntil::Present })) },
        Message::Batch(OperationBatch { stamp, operations: Elements::from_slice(&operations) }),
        Message::Snapshot(SnapshotRequest { seen, id: SnapshotId::default(), request: query }),
    ];
    for request in &requests {
        let request_id = bench.send_request(envelope, request);
        bench.end();
        is_refused(bench.answer(request_id).expect("is answered"));
    }
}

#[test]
fn request_routed_before_split_is_refused_by_first_child() {
    for durability in [Durability::Sync, Durability::Interval { ms: 100 }, Durability::Memory] {
        let mut bench = InstanceBench::new();
        let delta = create(bench.instance.map(), 2, "papers", durability);
        bench.apply(&delta);
        let keys = torn(&bench);
        keys.iter().for_each(|key| bench.store(2, key, "+"));
        let delta = split(bench.instance.map());
        bench.apply(&delta);
        run_until_idle(&mut bench);
        nothing_of_the_other_half_is_done(&mut bench, &keys);
        let [stays, leaves] = &keys;
        for (n, key) in [(0, stays), (1, leaves)] {
            run(&mut bench, PartitionId(n), &mut Count { lookups: &[key], key }).expect("is its own");
            bench.advance_ms(200);
            assert_eq!(bench.value(2, key), Ok("++".to_owned()));
        }
    }
}

#[test]
fn key_of_another_region_is_refused() {
    for leaves in ["b", "b0", "z"] {
        let mut bench = InstanceBench::new();
        let map = bench.instance.map();
        let config = KeyspaceConfig::new("papers".parse().expect("is a name"), 3).fitted_to(1);
        let config = config.divided_at(Separators::new(["b", "m"]).expect("they ascend"));
        let groups = ReplicaGroup::spread(&config, &map.nodes().next().expect("has a node").to_node());
        let delta = next(map, vec![MapChange::CreateKeyspace { id: PAPERS, config, groups: groups.into() }]);
        bench.apply(&delta);
        let keys = ["a\u{7f}".to_owned(), leaves.to_owned()];
        nothing_of_the_other_half_is_done(&mut bench, &keys);
        for key in &keys {
            bench.store(2, key, "+");
            assert_eq!(bench.value(2, key), Ok("+".to_owned()));
        }
    }
}

#[test]
fn request_routed_before_split_is_refused_by_shared_child() {
    let now = ClockReading { unix_ms: 1_000_000, elapsed_ms: 10_000 };
    let one =
        |instance| InstanceBench::of(instance, SimulatedDisk::new(u64::from(instance)), first_map(2), now).0;
    let mut benches = [one(1), one(2)];
    let apply = |benches: &mut [InstanceBench; 2], changes| {
        let delta = next(benches[0].instance.map(), changes);
        benches.iter_mut().for_each(|bench| bench.apply(&delta));
    };
    let delta = create(benches[0].instance.map(), 2, "papers", Durability::Sync);
    benches.iter_mut().for_each(|bench| bench.apply(&delta));
    let keys = torn(&benches[0]);
    let in_sync = vec![InstanceId(2)];
    let group = ReplicaGroup { in_sync, ..ReplicaGroup::of_one(PartitionEpoch(2), InstanceId(1)) };
    let partition = PartitionId(0);
    apply(&mut benches, vec![MapChange::SetGroup { keyspace: PAPERS, partition, group }]);
    run_batches(&mut benches, 1_500);
    for key in &keys {
        let request = benches[0].put(2, key, "+");
        run_batches(&mut benches, 100);
        assert_eq!(benches[0].answer(request), Some(Ok("done".to_owned())));
    }
    apply(&mut benches, vec![MapChange::SplitKeyspace(PAPERS)]);
    run_batches(&mut benches, 1_000);
    nothing_of_the_other_half_is_done(&mut benches[0], &keys);
    for (n, key) in [(0, &keys[0]), (1, &keys[1])] {
        run(&mut benches[0], PartitionId(n), &mut Count { lookups: &[key], key }).expect("is its own");
        run_batches(&mut benches, 100);
        let request = benches[0].get(2, key);
        run_batches(&mut benches, 10);
        assert_eq!(benches[0].answer(request), Some(Ok("++".to_owned())));
    }
}

#[test]
fn wait_on_key_moved_by_split_is_redirected_at_once() {
    let mut bench = InstanceBench::new();
    let delta = create(bench.instance.map(), 2, "papers", Durability::Sync);
    bench.apply(&delta);
    let keys = torn(&bench);
    let waits = keys.each_ref().map(|key| bench.wait(2, key, 60_000));
    bench.end();
    let delta = split(bench.instance.map());
    bench.apply(&delta);
    for request in waits {
        let answer = bench.answer(request).expect("is answered");
        assert!(matches!(answer, Err(Failure::Unavailable { .. })), "{answer:?}");
    }
}

#[cfg(debug_assertions)]
#[test]
fn planted_units_of_siblings_are_seen() {
    use zerohop_partition::planted::{Bug, plant};

    let tests = [
        request_routed_before_split_is_refused_by_first_child as fn(),
        key_of_another_region_is_refused,
        request_routed_before_split_is_refused_by_shared_child,
    ];
    for test in tests {
        plant(Some(Bug::HashRangeNotChecked));
        let seen = std::panic::catch_unwind(test).is_err();
        plant(None);
        assert!(seen, "HashRangeNotChecked is not seen");
    }
}
