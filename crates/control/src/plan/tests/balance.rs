//! A node that was down, or whose primaries have less load, gets primaries, even if other replicas are in sync.

use super::*;

#[test]
fn returning_node_gets_primaries_without_copies() {
    let mut bench = PlanBench::new();
    let nodes: Vec<NodeId> = (0..3).map(|domain| bench.node(domain, 1, 1)).collect();
    bench.keyspace(64, 3, 7);
    bench.apply_until_done();
    let is_even = |bench: &PlanBench| spread(bench.primaries().into_values().map(|one| one as usize)) <= 2;
    let members = |bench: &PlanBench| -> Vec<BTreeSet<InstanceId>> {
        (0..64).map(|partition| bench.members(partition).into_iter().collect()).collect()
    };
    assert!(is_even(&bench));
    let before = members(&bench);
    let loads = BTreeMap::new();
    let seen = PlanInputs {
        loads: &loads,
        long_down_nodes: &|_| false,
        overdue: &|_, _, _| false,
        is_stable: false,
    };
    bench.set(nodes[0], NodeState::Down);
    for admission in bench.admissions() {
        bench.done(admission);
    }
    bench.set(nodes[0], NodeState::Up);
    assert_eq!(plan(&bench.state, &seen, bench.settings), [], "it may go away again");
    let primaries = bench.primaries();
    assert_eq!(primaries.values().min(), Some(&0), "{primaries:?}");
    bench.apply_until_done();
    assert!(is_even(&bench), "{:?}", bench.primaries());
    assert_eq!(members(&bench), before);
    bench.check_groups();
}

#[test]
fn primaries_are_balanced_even_if_primary_is_only_in_sync_replica() {
    let mut bench = PlanBench::new();
    (0..3).for_each(|domain| _ = bench.node(domain, 1, 1));
    bench.keyspace(16, 3, 7);
    let (keyspace, found) = bench.state.map().keyspaces().next().unwrap();
    let config = KeyspaceConfig { min_in_sync: 1, ..found.config().clone() };
    bench.done(ControlCommand::AlterKeyspace(keyspace, config));
    bench.apply_until_done();
    // One partition has more load than all others: they move elsewhere.
    bench.loads.insert((keyspace, PartitionId(3)), 40);
    bench.apply_until_done();
    let mut primaries: Vec<u64> = bench.primaries().into_values().collect();
    primaries.sort_unstable();
    assert_eq!((primaries[2], spread(primaries[..2].iter().map(|one| *one as usize)) <= 2), (40, true));
    bench.check_groups();
}
