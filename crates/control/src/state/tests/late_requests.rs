//! Requests of a primary that are decided after its node was declared down.

use super::*;

#[test]
fn replica_admitted_by_a_primary_that_is_down_replaces_it() {
    let mut bench = StateBench::new(3, Durability::Sync);
    let before = bench.group();
    let ([in_sync], [follower]) = (&before.in_sync[..], &before.followers[..]) else { panic!("{before:?}") };
    bench.done(bench.primary(GroupStep::Exclude(*in_sync)));
    bench.set(before.primary, NodeState::Down);
    assert_eq!(bench.group().primary, before.primary, "no other replica has everything");
    let epoch = bench.group().epoch;
    bench.done(bench.primary(GroupStep::Admit(*follower)));
    let after = bench.group();
    assert_eq!((after.primary, &after.in_sync[..], after.epoch), (*follower, &[][..], epoch.next()));
    let followers: BTreeSet<InstanceId> = after.followers.iter().copied().collect();
    assert_eq!(followers, BTreeSet::from([*in_sync, before.primary]));
    // The new primary continues alone, and admits the other replica.
    bench.done(bench.primary(GroupStep::Admit(*in_sync)));
    assert_eq!(bench.group().in_sync, [*in_sync]);
}

#[test]
fn other_late_requests_of_a_primary_change_nothing_else() {
    let mut bench = StateBench::new(3, Durability::Sync);
    let before = bench.group();
    bench.done(bench.primary(GroupStep::Exclude(before.in_sync[0])));
    bench.set(before.primary, NodeState::Down);
    let alone = bench.group();
    bench.done(bench.primary(GroupStep::RaiseEpoch));
    assert_eq!(bench.group(), ReplicaGroup { epoch: alone.epoch.next(), ..alone });
}
