//! Keyspaces that are dropped or split once all their primaries have reported that they are ready.

use zerohop_placement::{PendingSplit, Separators};
use zerohop_wire::ids::MapEpoch;

use super::*;

fn hashed(replicas: u8) -> KeyspaceConfig {
    KeyspaceConfig {
        partitions: PartitionCount::new(8).unwrap(),
        replicas,
        min_in_sync: 1,
        ..KeyspaceConfig::new("reported".parse().unwrap(), 6)
    }
}

fn create(bench: &mut StateBench, config: KeyspaceConfig) -> KeyspaceId {
    let made = bench.done(ControlCommand::CreateKeyspace(config)).outcome.result.unwrap();
    KeyspaceId(made.number as u32)
}

fn primaries_of(bench: &StateBench, keyspace: KeyspaceId) -> Vec<InstanceId> {
    let found = bench.state.map().keyspace(keyspace).unwrap();
    let all: BTreeSet<InstanceId> = found.groups().map(|(_, group)| group.primary).collect();
    all.into_iter().collect()
}

fn ready(keyspace: KeyspaceId, instance: InstanceId, map: MapEpoch) -> ControlCommand {
    ControlCommand::Drained(KeyspaceDrained { keyspace, instance, map })
}

fn begin(keyspace: KeyspaceId) -> ControlCommand {
    ControlCommand::BeginSplit { keyspace, split: PendingSplit::Keyspace }
}

/// The number of splits of a keyspace, and whether one is pending.
fn splits(bench: &StateBench, keyspace: KeyspaceId) -> (u8, bool) {
    let found = bench.state.map().keyspace(keyspace).unwrap();
    (found.splits(), found.pending_split().is_some())
}

#[test]
fn dropping_keyspace_is_removed_once_all_primaries_are_drained() {
    let mut bench = StateBench::new(3, INTERVAL);
    let keyspace = create(&mut bench, hashed(2));
    let primaries = |bench: &StateBench| primaries_of(bench, keyspace);
    let drained = |instance, map| ready(keyspace, instance, map);
    let all = primaries(&bench);
    assert!(all.len() > 1);
    let before = bench.state.map().epoch();
    assert!(matches!(bench.refused(drained(all[0], before)), CommandRefusal::Map(_)), "it is not closed");
    bench.done(ControlCommand::BeginDropKeyspace(keyspace));
    bench.done(ControlCommand::BeginDropKeyspace(keyspace));
    let closed = bench.state.map().epoch();
    assert_eq!(closed, before.next(), "again it changes nothing");
    assert!(matches!(bench.refused(ControlCommand::SplitKeyspace(keyspace)), CommandRefusal::Map(_)));
    for instance in primaries(&bench) {
        assert!(
            matches!(bench.refused(drained(instance, before)), CommandRefusal::Map(_)),
            "by an older map"
        );
    }
    // All instances but one have reported, and then a group changes: its new primary has not reported.
    for instance in &all[1..] {
        bench.done(drained(*instance, closed));
    }
    bench.restart(all[1], true);
    assert!(matches!(bench.refused(drained(all[0], closed)), CommandRefusal::Map(_)));
    let now = bench.state.map().epoch();
    for (at, instance) in primaries(&bench).into_iter().enumerate() {
        let found = bench.state.map().keyspace(keyspace).expect("not all have said so");
        let waits = found.groups().filter(|(_, group)| primaries(&bench)[at..].contains(&group.primary));
        let waits: Vec<PartitionId> = waits.map(|(partition, _)| partition).collect();
        assert_eq!(bench.state.undrained(keyspace), waits);
        assert!(
            matches!(bench.refused(drained(InstanceId(99), now)), CommandRefusal::Map(_)),
            "it is not asked"
        );
        bench.done(drained(instance, now));
    }
    assert!(
        bench.state.map().keyspace(keyspace).is_none() && bench.state.reported_keyspaces().next().is_none()
    );
}

#[test]
fn keyspace_is_split_once_all_primaries_are_ready() {
    let mut bench = StateBench::new(3, INTERVAL);
    let keyspace = create(&mut bench, hashed(2));
    let before = bench.state.map().epoch();
    bench.done(begin(keyspace));
    bench.done(begin(keyspace));
    let begun = bench.state.map().epoch();
    assert_eq!((begun, splits(&bench, keyspace)), (before.next(), (0, true)), "again it changes nothing");
    let all = primaries_of(&bench, keyspace);
    assert!(matches!(bench.refused(ready(keyspace, all[0], before)), CommandRefusal::Map(_)), "an older map");
    // All instances but one are ready, and then a group changes: its new primary has not reported.
    all[1..].iter().for_each(|instance| drop(bench.done(ready(keyspace, *instance, begun))));
    let (partition, group) = bench.state.map().keyspace(keyspace).unwrap().groups().next().unwrap();
    let (epoch, (_, incarnation)) = (group.epoch, bench.node_of(group.primary));
    let (by, step) = (RegroupOrigin::Instance(group.primary, incarnation), GroupStep::RaiseEpoch);
    bench.done(ControlCommand::Regroup(Regroup { keyspace, partition, epoch, by, step }));
    assert!(matches!(bench.refused(ready(keyspace, all[0], begun)), CommandRefusal::Map(_)));
    let now = bench.state.map().epoch();
    for instance in primaries_of(&bench, keyspace) {
        assert_eq!(splits(&bench, keyspace), (0, true));
        assert!(ControlState::decode(&bench.state.encode()).unwrap() == bench.state);
        bench.done(ready(keyspace, instance, now));
    }
    assert_eq!((splits(&bench, keyspace), bench.state.reported_keyspaces().count()), ((1, false), 0));
}

#[cfg(debug_assertions)]
#[test]
fn report_that_counts_after_a_change_of_groups_is_found() {
    let mut bench = StateBench::new(3, INTERVAL);
    let keyspace = create(&mut bench, hashed(2));
    bench.done(begin(keyspace));
    let (begun, all) = (bench.state.map().epoch(), primaries_of(&bench, keyspace));
    bench.restart(all[1], true);
    assert!(matches!(bench.refused(ready(keyspace, all[0], begun)), CommandRefusal::Map(_)));
    crate::planted::plant(Some(crate::planted::Bug::OlderReportCounts));
    bench.done(ready(keyspace, all[0], begun));
    crate::planted::plant(None);
}

#[test]
fn cancelled_split_is_not_done_by_late_reports() {
    let mut bench = StateBench::new(3, INTERVAL);
    let keyspace = create(&mut bench, hashed(2));
    bench.done(begin(keyspace));
    let (begun, all) = (bench.state.map().epoch(), primaries_of(&bench, keyspace));
    bench.done(ready(keyspace, all[0], begun));
    bench.done(ControlCommand::CancelSplit(keyspace));
    bench.done(ControlCommand::CancelSplit(keyspace));
    assert_eq!(splits(&bench, keyspace), (0, false));
    for instance in &all {
        assert!(matches!(bench.refused(ready(keyspace, *instance, begun)), CommandRefusal::Map(_)));
    }
    // The next split waits for new reports.
    bench.done(begin(keyspace));
    for instance in &all {
        assert!(matches!(bench.refused(ready(keyspace, *instance, begun)), CommandRefusal::Map(_)));
    }
    bench.done(ControlCommand::BeginDropKeyspace(keyspace));
    assert_eq!(splits(&bench, keyspace), (0, false), "it is dropped instead");
    assert!(matches!(bench.refused(begin(keyspace)), CommandRefusal::Map(_)));
}

#[test]
fn partitions_with_one_copy_are_split_at_once() {
    let mut bench = StateBench::new(3, INTERVAL);
    let keyspace = create(&mut bench, hashed(1));
    bench.done(begin(keyspace));
    assert_eq!(splits(&bench, keyspace), (1, false));
}

#[test]
fn region_is_split_once_its_own_primary_is_ready() {
    let mut bench = StateBench::new(3, INTERVAL);
    let regions = Separators::new(["d", "m", "s"]).unwrap();
    let config = KeyspaceConfig { replicas: 2, min_in_sync: 1, ..hashed(2) }.divided_at(regions);
    let keyspace = create(&mut bench, config);
    let (region, separator) = (PartitionId(1), b"h"[..].into());
    let split = PendingSplit::Region { region, separator, share: 128 };
    bench.done(ControlCommand::BeginSplit { keyspace, split: split.clone() });
    let other = PendingSplit::Region { region: PartitionId(2), separator: b"o"[..].into(), share: 128 };
    let second = bench.refused(ControlCommand::BeginSplit { keyspace, split: other });
    assert!(matches!(second, CommandRefusal::Map(_)), "one at a time");
    let begun = bench.state.map().epoch();
    let primary = bench.state.map().keyspace(keyspace).unwrap().group(region).unwrap().primary;
    for instance in primaries_of(&bench, keyspace).into_iter().filter(|one| *one != primary) {
        bench.done(ready(keyspace, instance, begun));
        assert_eq!(bench.state.undrained(keyspace), [region]);
    }
    bench.done(ready(keyspace, primary, begun));
    let found = bench.state.map().keyspace(keyspace).unwrap();
    assert!(found.group(region).is_none() && found.pending_split().is_none() && found.groups().len() == 5);
}
