//! Changes of groups, step by step.

mod late_requests;
mod primary_reports;
mod recoveries;
mod settings;

use std::collections::BTreeSet;

use zerohop_placement::{
    Address, Durability, GroupState, KeyspaceConfig, NodeState, PartitionCount, ReplicaGroup,
};
use zerohop_wire::ids::{Incarnation, InstanceId, KeyspaceId, LogIndex, NodeId, PartitionEpoch, PartitionId};

use super::*;
use crate::command::{
    GroupStep, JoinNode, KeyspaceDrained, LogEnd, LogIndexReport, LogReport, RecoverySource, Regroup,
    RegroupOrigin, RequestId,
};
use crate::limits::APPLIED_MAX;

const KEYSPACE: KeyspaceId = KeyspaceId(1);
const PARTITION: PartitionId = PartitionId(0);

/// A cluster of nodes with one instance each and one partition: node 1 has instance 0, and so on.
struct StateBench {
    state: ControlState,
    number: u64,
}

impl StateBench {
    fn new(nodes: u32, durability: Durability) -> StateBench {
        let mut bench = StateBench { state: ControlState::new(Vec::new()), number: 0 };
        for node in 0..nodes {
            bench.done(ControlCommand::Join(join(None, 0, 1, node, true)));
        }
        let config = KeyspaceConfig {
            partitions: PartitionCount::new(1).unwrap(),
            durability,
            ..KeyspaceConfig::new("k".parse().unwrap(), 5)
        };
        bench.done(ControlCommand::CreateKeyspace(config));
        bench
    }

    fn apply_command(&mut self, command: ControlCommand) -> AppliedCommand {
        self.number += 1;
        let id = RequestId { origin: 1, number: self.number };
        let applied = self.state.apply(&CommandRequest { id, after: self.state.applied_count(), command });
        // A snapshot always has the complete state.
        assert_eq!(ControlState::decode(&self.state.encode()).unwrap(), self.state);
        applied
    }

    fn done(&mut self, command: ControlCommand) -> AppliedCommand {
        let applied = self.apply_command(command);
        assert!(applied.outcome.result.is_ok(), "{:?}", applied.outcome);
        applied
    }

    fn refused(&mut self, command: ControlCommand) -> CommandRefusal {
        self.apply_command(command).outcome.result.unwrap_err()
    }

    fn group(&self) -> ReplicaGroup {
        self.state.map().keyspace(KEYSPACE).unwrap().group(PARTITION).unwrap().to_group()
    }

    fn step(&self, by: RegroupOrigin, step: GroupStep) -> ControlCommand {
        let epoch = self.group().epoch;
        ControlCommand::Regroup(Regroup { keyspace: KEYSPACE, partition: PARTITION, epoch, by, step })
    }

    /// The step as the primary requests it.
    fn primary(&self, step: GroupStep) -> ControlCommand {
        let primary = self.group().primary;
        let incarnation = self.state.map().instance(primary).unwrap().incarnation;
        self.step(RegroupOrigin::Instance(primary, incarnation), step)
    }

    fn node_of(&self, instance: InstanceId) -> (NodeId, Incarnation) {
        let found = self.state.map().instance(instance).unwrap();
        (found.node, found.incarnation)
    }

    fn set(&mut self, instance: InstanceId, state: NodeState) -> AppliedCommand {
        let (node, incarnation) = self.node_of(instance);
        self.done(ControlCommand::SetNodeState { node, incarnation, state })
    }

    fn restart(&mut self, instance: InstanceId, intact: bool) -> AppliedCommand {
        self.restart_after(instance, intact, false)
    }

    /// Restarts after the process before was shut down cleanly, or not.
    fn restart_after(&mut self, instance: InstanceId, intact: bool, closed: bool) -> AppliedCommand {
        let (node, old) = self.node_of(instance);
        let join = join(Some(node), old.get(), old.get() + 1, node.get() - 1, intact);
        self.done(ControlCommand::Join(JoinNode { closed, ..join }))
    }

    fn report_log(&mut self, instance: InstanceId, index: u64, intact: bool) -> AppliedCommand {
        let (node, incarnation) = self.node_of(instance);
        let log = LogReport {
            keyspace: KEYSPACE,
            partition: PARTITION,
            epoch: self.group().epoch,
            instance,
            end: LogEnd { epoch: 1, index: LogIndex(index) },
            intact,
        };
        self.done(ControlCommand::ReportLogs(LogIndexReport { node, incarnation, logs: vec![log] }))
    }
}

fn join(node: Option<NodeId>, replaces: u64, incarnation: u64, domain: u32, intact: bool) -> JoinNode {
    let address = |port: u32| Address::new(&format!("n{domain}:{port}")).unwrap();
    JoinNode {
        node,
        replaces: Incarnation(replaces),
        incarnation: Incarnation(incarnation),
        manager: address(7400),
        instances: vec![address(7401)],
        domain,
        capacity: 1,
        intact,
        closed: false,
    }
}

const INTERVAL: Durability = Durability::Interval { ms: 100 };

#[test]
fn failover_chooses_in_sync_replica_never_follower() {
    let mut bench = StateBench::new(3, INTERVAL);
    let before = bench.group();
    assert_eq!((before.in_sync.len(), before.followers.len()), (1, 1));
    bench.set(before.primary, NodeState::Down);
    let after = bench.group();
    assert_eq!((after.primary, after.epoch), (before.in_sync[0], before.epoch.next()));
    assert_eq!(after.followers, [before.followers[0], before.primary]);
    // No other replica is in sync: the group stays as it is, and waits.
    bench.set(after.primary, NodeState::Down);
    assert_eq!(bench.group(), after);
    assert_eq!(
        bench.refused(bench.step(RegroupOrigin::Control, GroupStep::Promote(before.followers[0]))),
        CommandRefusal::NotInSync
    );
    // The verdict was a mistake: the same process continues.
    bench.set(after.primary, NodeState::Up);
    assert_eq!(bench.group().primary, after.primary);
}

#[test]
fn second_change_of_the_same_epoch_is_refused() {
    let mut bench = StateBench::new(3, INTERVAL);
    let group = bench.group();
    let exclude = bench.primary(GroupStep::Exclude(group.in_sync[0]));
    let promote = bench.step(RegroupOrigin::Control, GroupStep::Promote(group.in_sync[0]));
    bench.done(exclude);
    let now = bench.group().epoch;
    assert_eq!(bench.refused(promote), CommandRefusal::StaleEpoch { now });
}

#[test]
fn only_primary_proposes_admissions_and_only_leader_the_rest() {
    let mut bench = StateBench::new(3, INTERVAL);
    let group = bench.group();
    let (follower, in_sync) = (group.followers[0], group.in_sync[0]);
    assert_eq!(bench.refused(bench.primary(GroupStep::Admit(follower))), CommandRefusal::NotNeeded);
    assert_eq!(
        bench.refused(bench.step(RegroupOrigin::Control, GroupStep::Admit(follower))),
        CommandRefusal::NotPrimary
    );
    let (_, incarnation) = bench.node_of(in_sync);
    let other = RegroupOrigin::Instance(in_sync, incarnation);
    assert_eq!(bench.refused(bench.step(other, GroupStep::Exclude(in_sync))), CommandRefusal::NotPrimary);
    let old = RegroupOrigin::Instance(group.primary, Incarnation(99));
    assert_eq!(bench.refused(bench.step(old, GroupStep::Exclude(in_sync))), CommandRefusal::StaleIncarnation);
    assert_eq!(bench.refused(bench.primary(GroupStep::Promote(in_sync))), CommandRefusal::NotControl);
    // Below `min_in_sync` any follower that has caught up may be admitted.
    bench.done(bench.primary(GroupStep::Exclude(in_sync)));
    bench.done(bench.primary(GroupStep::Admit(follower)));
    assert_eq!(bench.group().in_sync, [follower]);
    assert_eq!(
        bench.refused(bench.step(RegroupOrigin::Control, GroupStep::Leave(follower))),
        CommandRefusal::TooFewInSync
    );
}

#[test]
fn unchanged_group_gets_a_higher_epoch_on_primary_request() {
    let mut bench = StateBench::new(4, Durability::Sync);
    let before = bench.group();
    let (keep, admit) =
        (bench.primary(GroupStep::RaiseEpoch), bench.primary(GroupStep::Exclude(before.in_sync[0])));
    assert_eq!(
        bench.refused(bench.step(RegroupOrigin::Control, GroupStep::RaiseEpoch)),
        CommandRefusal::NotPrimary
    );
    bench.done(keep.clone());
    assert_eq!(bench.group(), ReplicaGroup { epoch: before.epoch.next(), ..before });
    for late in [keep, admit] {
        assert!(matches!(bench.refused(late), CommandRefusal::StaleEpoch { .. }));
    }
}

#[test]
fn primary_with_corrupt_log_hands_over_to_live_in_sync_replica() {
    let mut bench = StateBench::new(4, Durability::Sync);
    let before = bench.group();
    bench.done(bench.primary(GroupStep::Exclude(before.primary)));
    let after = bench.group();
    assert_eq!((after.primary, after.in_sync.len()), (before.in_sync[0], 0));
    assert!(after.followers.contains(&before.primary));
    assert_eq!(bench.refused(bench.primary(GroupStep::Exclude(after.primary))), CommandRefusal::TooFewInSync);
}

#[test]
fn move_takes_four_changes_and_can_be_cancelled() {
    let mut bench = StateBench::new(4, INTERVAL);
    let group = bench.group();
    let target =
        (0..4).map(InstanceId).find(|one| group.as_group().members().all(|other| other != *one)).unwrap();
    let add = GroupStep::AddFollower { instance: target, target: true };
    bench.done(bench.step(RegroupOrigin::Control, add));
    assert_eq!((bench.group().state, bench.group().followers[0]), (GroupState::Admitting, target));
    bench.done(bench.step(RegroupOrigin::Control, GroupStep::RemoveFollower(target)));
    assert_eq!(ReplicaGroup { epoch: group.epoch, ..bench.group() }, group);
    bench.done(bench.step(RegroupOrigin::Control, add));
    bench.done(bench.primary(GroupStep::Admit(target)));
    assert_eq!(bench.group().state, GroupState::Stable);
    bench.done(bench.step(RegroupOrigin::Control, GroupStep::Promote(target)));
    bench.done(bench.step(RegroupOrigin::Control, GroupStep::Leave(group.primary)));
    let after = bench.group();
    assert_eq!((after.primary, after.in_sync), (target, group.in_sync));
}

#[test]
fn restarted_replica_stays_in_sync_only_if_all_entries_were_synced() {
    for (durability, intact, closed) in [INTERVAL, Durability::Sync, Durability::Memory]
        .into_iter()
        .flat_map(|of| [(of, true, false), (of, true, true), (of, false, false), (of, false, true)])
    {
        let stays = match durability {
            Durability::Sync => intact,
            Durability::Interval { .. } => intact && closed,
            Durability::Memory => false,
        };
        let what = format!("{durability:?}, intact {intact}, closed {closed}");
        let mut bench = StateBench::new(3, durability);
        let before = bench.group();
        bench.restart_after(before.in_sync[0], intact, closed);
        assert_eq!(bench.group().in_sync.contains(&before.in_sync[0]), stays, "{what}");
        let mut bench = StateBench::new(3, durability);
        bench.restart_after(before.primary, intact, closed);
        assert_eq!(bench.group().primary == before.primary, stays, "{what}");
        assert!(stays || bench.group().followers.contains(&before.primary));
    }
}

#[test]
fn clean_shutdown_of_all_loses_nothing() {
    for first in 0..3 {
        let mut bench = StateBench::new(3, INTERVAL);
        let before = bench.group();
        let members: Vec<InstanceId> = before.as_group().members().collect();
        for at in 0..3 {
            let decision = bench.restart_after(members[(first + at) % 3], true, true);
            assert!(decision.possible_losses.is_empty());
        }
        let after = bench.group();
        assert_eq!(ReplicaGroup { epoch: before.epoch, ..after }, before);
    }
}

/// A has everything that B, which died, had acknowledged, or B had removed A from the group first.
#[test]
fn cleanly_stopped_in_sync_replica_replaces_crashed_one() {
    for stopped_returns_first in [true, false] {
        let mut bench = StateBench::new(3, INTERVAL);
        let before = bench.group();
        let (died, stopped) = (before.primary, before.in_sync[0]);
        let back = |bench: &mut StateBench, one| {
            let decision = bench.restart_after(one, true, one == stopped);
            assert!(decision.possible_losses.is_empty());
        };
        let order = if stopped_returns_first { [stopped, died] } else { [died, stopped] };
        order.into_iter().for_each(|one| back(&mut bench, one));
        let after = bench.group();
        assert_eq!((after.primary, after.state), (stopped, GroupState::Stable));
        assert!(after.in_sync.is_empty() && after.followers.contains(&died));
    }
}

/// The primary has removed the replica from the in-sync set, acknowledged more without it, and died: the
/// replica's log is incomplete.
#[test]
fn cleanly_stopped_removed_member_does_not_become_primary() {
    let mut bench = StateBench::new(3, INTERVAL);
    let before = bench.group();
    let (died, stopped, third) = (before.primary, before.in_sync[0], before.followers[0]);
    bench.done(bench.primary(GroupStep::Exclude(stopped)));
    bench.restart_after(stopped, true, true);
    assert_eq!((bench.group().primary, bench.group().in_sync), (died, vec![]));
    bench.restart_after(died, true, false);
    assert_eq!(bench.group().state, GroupState::Recovering);
    bench.report_log(stopped, 9, true);
    bench.report_log(third, 3, true);
    assert_eq!(bench.group().state, GroupState::Recovering);
    let decision = bench.report_log(died, 12, true);
    assert_eq!(decision.possible_losses, [(KEYSPACE, PARTITION)]);
    assert_eq!(bench.group().primary, died);
}

/// The last decisions of the others are lost; one may have removed the replica from the group.
#[test]
fn clean_stop_before_forced_new_cluster_does_not_count() {
    let mut bench = StateBench::new(3, INTERVAL);
    let (first, second) = (bench.group().primary, bench.group().in_sync[0]);
    let addr = Address::new("n0:7400").unwrap();
    bench.state =
        bench.state.forced_new(|_| crate::command::ManagerInfo { id: crate::command::ManagerId(9), addr });
    bench.state = ControlState::decode(&bench.state.encode()).unwrap();
    bench.restart_after(first, true, true);
    assert_eq!((bench.group().primary, bench.group().in_sync), (second, vec![]));
    bench.done(bench.primary(GroupStep::Admit(first)));
    bench.restart_after(first, true, true);
    assert_eq!(bench.group().in_sync, [first], "it is known what became of it since");
}

/// The replica died first and lost its end, restarted, and was then shut down cleanly: the end is still
/// missing.
#[test]
fn clean_stop_does_not_undo_loss_by_an_earlier_crash() {
    let mut bench = StateBench::new(3, INTERVAL);
    let before = bench.group();
    let (first, second) = (before.primary, before.in_sync[0]);
    bench.set(second, NodeState::Down);
    bench.restart_after(first, true, false);
    assert_eq!(bench.group().state, GroupState::Recovering);
    let decision = bench.restart_after(first, true, true);
    assert!(decision.possible_losses.is_empty());
    assert_eq!(bench.group().state, GroupState::Recovering, "the group knows of the death still");
    bench.report_log(first, 4, true);
    let decision = bench.report_log(before.followers[0], 2, true);
    assert_eq!(decision.possible_losses, [(KEYSPACE, PARTITION)]);
}

#[test]
fn highest_log_is_chosen_once_all_members_have_reported() {
    let mut bench = StateBench::new(3, INTERVAL);
    let before = bench.group();
    let (first, second, third) = (before.primary, before.in_sync[0], before.followers[0]);
    bench.set(second, NodeState::Down);
    // The second replica is down and was made a follower; the primary, alone in sync, restarts.
    bench.restart(first, true);
    assert_eq!(bench.group().state, GroupState::Recovering);
    assert_eq!(bench.refused(bench.primary(GroupStep::Exclude(second))), CommandRefusal::Recovering);
    bench.report_log(third, 3, true);
    let decision = bench.report_log(first, 7, true);
    assert_eq!(decision.possible_losses, [(KEYSPACE, PARTITION)]);
    assert_eq!((bench.group().primary, bench.group().state), (first, GroupState::Stable));
}

#[test]
fn order_of_return_after_common_power_loss_does_not_matter() {
    for dies_first in [true, false] {
        let mut bench = StateBench::new(3, INTERVAL);
        let before = bench.group();
        let (first, second, third) = (before.primary, before.in_sync[0], before.followers[0]);
        if dies_first {
            bench.set(first, NodeState::Down);
        }
        bench.restart(first, true);
        assert_eq!(
            (bench.group().primary, bench.group().in_sync),
            (second, vec![]),
            "it was not heard of yet"
        );
        bench.restart(second, true);
        assert_eq!((bench.group().state, bench.group().primary), (GroupState::Recovering, second));
        bench.report_log(second, 5, true);
        bench.report_log(third, 2, true);
        assert_eq!(bench.group().state, GroupState::Recovering, "a running instance has not reported");
        bench.report_log(first, 100, true);
        assert_eq!(bench.group().primary, first);
    }
}

#[test]
fn operator_may_give_up_copies_of_lost_nodes() {
    let mut bench = StateBench::new(3, INTERVAL);
    let before = bench.group();
    let recover = ControlCommand::Recover { keyspace: KEYSPACE, partition: PARTITION, damaged: None };
    assert_eq!(bench.refused(recover.clone()), CommandRefusal::NothingToRecover);
    bench.set(before.primary, NodeState::Down);
    let alone = bench.group().primary;
    bench.set(alone, NodeState::Down);
    bench.done(recover);
    assert_eq!(bench.group().state, GroupState::Recovering);
    let decision = bench.report_log(before.followers[0], 3, true);
    assert_eq!(decision.possible_losses.len(), 1);
    assert_eq!((bench.group().primary, bench.group().state), (before.followers[0], GroupState::Stable));
}

#[test]
fn operator_may_choose_damaged_or_other_copy() {
    for (keep, durability) in [RecoverySource::Damaged, RecoverySource::Follower]
        .into_iter()
        .flat_map(|keep| [INTERVAL, Durability::Sync].map(|of| (keep, of)))
    {
        let mut bench = StateBench::new(3, durability);
        let before = bench.group();
        let recover =
            ControlCommand::Recover { keyspace: KEYSPACE, partition: PARTITION, damaged: Some(keep) };
        assert_eq!(bench.refused(recover.clone()), CommandRefusal::NothingToRecover, "another has all of it");
        bench.done(bench.primary(GroupStep::Exclude(before.in_sync[0])));
        assert!(bench.group().in_sync.is_empty());
        let unsaid = ControlCommand::Recover { keyspace: KEYSPACE, partition: PARTITION, damaged: None };
        assert_eq!(bench.refused(unsaid), CommandRefusal::NothingToRecover, "no member is missing");
        bench.done(recover);
        let recovering = bench.group();
        assert_eq!((recovering.state, recovering.primary), (GroupState::Recovering, before.primary));
        let restored = ControlState::decode(&bench.state.encode()).expect("is a state");
        assert_eq!(restored.recoveries(), bench.state.recoveries());
        for follower in &recovering.followers {
            bench.report_log(*follower, 3, true);
            assert_eq!(bench.group().state, GroupState::Recovering, "the damaged instance has not reported");
        }
        let decision = bench.report_log(before.primary, 0, false);
        let after = bench.group();
        assert_eq!((after.state, decision.possible_losses.len()), (GroupState::Stable, 1));
        assert_eq!(after.primary == before.primary, keep == RecoverySource::Damaged, "{after:?}");
        assert!(bench.state.recoveries().is_empty());
    }
}

#[test]
fn group_without_members_restarts_empty_on_operator_command() {
    let mut bench = StateBench::new(5, INTERVAL);
    let before = bench.group();
    let members: Vec<InstanceId> = before.as_group().members().collect();
    for member in &members {
        bench.set(*member, NodeState::Down);
    }
    let lost = bench.group();
    let decision =
        bench.done(ControlCommand::Recover { keyspace: KEYSPACE, partition: PARTITION, damaged: None });
    assert_eq!(decision.possible_losses.len(), 1);
    let after = bench.group();
    assert!(!members.contains(&after.primary) && after.epoch > lost.epoch);
    assert_eq!((after.state, after.as_group().members().count()), (GroupState::Stable, 1));
    // A replica that returns is in no group, and changes nothing.
    bench.restart(members[0], true);
    assert_eq!(bench.group(), after);
    // Without any node there is no place to start.
    let mut bench = StateBench::new(2, INTERVAL);
    for member in bench.group().as_group().members().collect::<Vec<_>>() {
        bench.set(member, NodeState::Down);
    }
    let recover = ControlCommand::Recover { keyspace: KEYSPACE, partition: PARTITION, damaged: None };
    assert_eq!(bench.refused(recover), CommandRefusal::NoNodes);
}

#[test]
fn retry_gets_first_outcome_and_expired_retry_is_refused() {
    let mut bench = StateBench::new(3, INTERVAL);
    let command = bench.primary(GroupStep::Exclude(bench.group().in_sync[0]));
    let id = RequestId { origin: 9, number: 1 };
    let request = CommandRequest { id, after: bench.state.applied_count(), command };
    let first = bench.state.apply(&request);
    let again = bench.state.apply(&request);
    assert_eq!((again.outcome, again.repeated, again.delta), (first.outcome, true, None));
    for number in 0..crate::limits::REQUESTS_REMEMBERED_MAX as u64 {
        let id = RequestId { origin: 10, number };
        let command = ControlCommand::DropKeyspace(KeyspaceId(77));
        bench.state.apply(&CommandRequest { id, after: bench.state.applied_count(), command });
    }
    assert_eq!(bench.state.apply(&request).outcome.result, Err(CommandRefusal::TooOld));
}

#[test]
fn node_start_with_stale_incarnation_is_refused() {
    let mut bench = StateBench::new(3, INTERVAL);
    let node = Some(NodeId(1));
    bench.done(ControlCommand::Join(join(node, 1, 2, 0, true)));
    assert_eq!(
        bench.refused(ControlCommand::Join(join(node, 1, 3, 0, true))),
        CommandRefusal::StaleIncarnation
    );
    let old =
        ControlCommand::SetNodeState { node: NodeId(1), incarnation: Incarnation(1), state: NodeState::Down };
    assert_eq!(bench.refused(old), CommandRefusal::StaleIncarnation);
    assert_eq!(bench.group().epoch.max(PartitionEpoch(1)), bench.group().epoch);
}

#[test]
fn many_partitions_on_equal_nodes_use_an_even_ring() {
    let mut bench = StateBench::new(7, INTERVAL);
    let config = KeyspaceConfig {
        partitions: PartitionCount::new(1 << 16).unwrap(),
        ..KeyspaceConfig::new("large".parse().unwrap(), 9)
    };
    let before = bench.state.map().encode().len();
    bench.done(ControlCommand::CreateKeyspace(config));
    let map = bench.state.map();
    assert!(map.encode().len() < before + 100, "the map is compact");
    let mut copies = [0; 7];
    for (_, group) in map.keyspace(KeyspaceId(2)).unwrap().groups() {
        let members: std::collections::BTreeSet<u32> = group.members().map(|member| member.get()).collect();
        assert_eq!((members.len(), group.in_sync.len(), group.followers.len()), (3, 1, 1));
        // One instance and one domain for each node.
        members.iter().for_each(|member| copies[*member as usize] += 1);
    }
    let (least, most) = (copies.iter().min().unwrap(), copies.iter().max().unwrap());
    assert!(most - least <= 1, "{copies:?}");
}

#[test]
fn node_with_manager_leaves_only_after_its_replacement() {
    let mut bench = StateBench::new(3, Durability::Sync);
    let spare = bench.done(ControlCommand::Join(join(None, 0, 1, 3, true))).outcome.result.unwrap().number;
    let manager_of = |id, domain: u32| ManagerInfo {
        id: crate::command::ManagerId(id),
        addr: Address::new(&format!("n{domain}:7400")).unwrap(),
    };
    bench.done(ControlCommand::SetManagers(vec![manager_of(1, 3)]));
    let remove = ControlCommand::RemoveNode(NodeId(spare as u32));
    assert_eq!(bench.refused(remove.clone()), CommandRefusal::InControlGroup);
    bench.done(ControlCommand::SetManagers(vec![manager_of(2, 0)]));
    bench.done(remove);
}

#[test]
fn removal_of_node_with_replicas_explains_how_to_drain() {
    let mut bench = StateBench::new(3, Durability::Sync);
    let primary = bench.group().primary;
    let (node, _) = bench.node_of(primary);
    for (state, advice) in [(NodeState::Up, "drain it first"), (NodeState::Down, "`zerohop recover`")] {
        bench.set(primary, state);
        let refused = bench.refused(ControlCommand::RemoveNode(node));
        assert!(matches!(&refused, CommandRefusal::Map(why) if why.contains(advice)), "{refused:?}");
    }
}
