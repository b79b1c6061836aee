//! Splits that wait until units over several keys are committed.

use zerohop_engine::disk::simulated::SimulatedDisk;
use zerohop_placement::{Durability, MapChange, PendingSplit, ReplicaGroup};
use zerohop_wire::Failure;
use zerohop_wire::ids::{InstanceId, KeyspaceId, MapEpoch, PartitionEpoch, PartitionId, RequestId};

use super::super::ClockReading;
use super::bench::{InstanceBench, create, first_map};
use super::groups::{Append, apply, run_batches};
use zerohop_partition::{ProgramResult, Token};

const KEYSPACE: KeyspaceId = KeyspaceId(9);

/// Two instances with both copies of one partition, and which of them is its primary.
fn pair() -> ([InstanceBench; 2], usize, PartitionId) {
    let now = ClockReading { unix_ms: 1_000_000, elapsed_ms: 10_000 };
    let one =
        |instance| InstanceBench::of(instance, SimulatedDisk::new(u64::from(instance)), first_map(2), now).0;
    let mut benches = [one(1), one(2)];
    let delta = create(benches[0].instance.map(), KEYSPACE.get(), "shared", Durability::Sync);
    benches.iter_mut().for_each(|bench| bench.apply(&delta));
    let partition = benches[0].envelope(KEYSPACE.get(), "k").partition;
    let primary = benches[0].instance.map().route(KEYSPACE, b"k").expect("is there").instance;
    let group = ReplicaGroup {
        in_sync: vec![InstanceId(3 - primary.get())],
        ..ReplicaGroup::of_one(PartitionEpoch(2), primary)
    };
    apply(&mut benches, vec![MapChange::SetGroup { keyspace: KEYSPACE, partition, group }]);
    run_batches(&mut benches, 1_500);
    (benches, primary.get() as usize - 1, partition)
}

/// Runs a unit that may change several records.
fn run_unit(bench: &mut InstanceBench, number: u64, partition: PartitionId) -> Result<(), Failure<'static>> {
    let to = Token { connection: 7, request: RequestId(number) };
    let place = (KEYSPACE, partition);
    let ran = bench.instance.run(bench.now, to, place, (&mut Append("k"), &mut Vec::new()), &mut bench.sent);
    ran.map(|result| assert_eq!(result, ProgramResult::Later))
}

fn begin() -> Vec<MapChange> {
    vec![MapChange::BeginSplit { keyspace: KEYSPACE, split: PendingSplit::Keyspace }]
}

/// Time passes at one instance, and its messages are lost.
fn run_alone(bench: &mut InstanceBench, ms: u64) {
    for _ in 0..ms / 10 {
        bench.now.unix_ms += 10;
        bench.now.elapsed_ms += 10;
        bench.end();
        bench.sent.to_peers.clear();
    }
}

fn is_ready(bench: &InstanceBench, map: MapEpoch) -> bool {
    bench.sent.drained.contains(&(KEYSPACE, map))
}

/// Whether the primary is ready while the other member does not have a unit over several keys yet.
fn is_ready_before_its_unit_is_committed() -> bool {
    let (mut benches, first, partition) = pair();
    assert_eq!(run_unit(&mut benches[first], 1 << 40, partition), Ok(()));
    benches[first].end();
    benches[first].sent.to_peers.clear();
    apply(&mut benches, begin());
    let map = benches[first].instance.map().epoch();
    run_alone(&mut benches[first], 200);
    let is_early = is_ready(&benches[first], map);
    run_batches(&mut benches, 1_500);
    assert!(is_ready(&benches[first], map), "it is committed");
    is_early
}

#[test]
fn primary_is_ready_to_split_once_its_units_are_committed() {
    assert!(!is_ready_before_its_unit_is_committed());
}

#[cfg(debug_assertions)]
#[test]
fn split_that_is_not_prepared_is_found() {
    use zerohop_partition::planted::{Bug, plant};
    plant(Some(Bug::SplitNotPrepared));
    let is_early = is_ready_before_its_unit_is_committed();
    plant(None);
    assert!(is_early);
}

#[test]
fn units_over_several_keys_wait_for_a_pending_split_and_others_do_not() {
    let (mut benches, first, partition) = pair();
    apply(&mut benches, begin());
    let busy = run_unit(&mut benches[first], 1 << 40, partition);
    assert!(matches!(busy, Err(Failure::Busy { .. })), "{busy:?}");
    let (write, read) =
        (benches[first].put(KEYSPACE.get(), "k", "v"), benches[first].get(KEYSPACE.get(), "k"));
    run_batches(&mut benches, 300);
    assert_eq!(benches[first].answer(write), Some(Ok("done".to_owned())));
    assert!(benches[first].answer(read).is_some());
    assert!(is_ready(&benches[first], benches[first].instance.map().epoch()));
    apply(&mut benches, vec![MapChange::CancelSplit(KEYSPACE)]);
    assert_eq!(run_unit(&mut benches[first], 1 << 41, partition), Ok(()));
    run_batches(&mut benches, 300);
    assert_eq!(benches[first].answer(1 << 41), Some(Ok("appended".to_owned())));
}
