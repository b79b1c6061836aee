//! What the leader does without a request: verdicts become states of nodes, and plans become changes of
//! groups.
//!
//! Every manager stores verdicts and reports, so that a new leader need not wait to receive them again. The
//! leader's own timers (how long a node has been down, how long a move has taken) restart with each new
//! leader.

use std::collections::{BTreeMap, BTreeSet};

use zerohop_placement::{ClusterMap, GroupState, NodeState};
use zerohop_wire::ids::{Incarnation, KeyspaceId, NodeId, PartitionEpoch, PartitionId};

use super::flap_damping::FlapDamping;
use super::lead_settings::LeadSettings;
use crate::command::{ControlCommand, RequestId};
use crate::limits::LOADS_MAX;
use crate::plan::{self, PlanInputs};
use crate::state::ControlState;
use zerohop_base::time::Time;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct LeaderState {
    /// The verdict of gossip about each node.
    verdicts: BTreeMap<NodeId, (Incarnation, bool)>,
    /// Per node: the nodes that reported it as unreachable, and when. Gossip may still consider the node
    /// alive.
    reports: BTreeMap<NodeId, BTreeMap<NodeId, (Incarnation, Time)>>,
    loads: BTreeMap<(KeyspaceId, PartitionId), u32>,
    flap_damping: FlapDamping,
    /// The times since when this manager knows nodes to be down, and groups to admit.
    down_since: BTreeMap<NodeId, Time>,
    admitting_since: BTreeMap<(KeyspaceId, PartitionId), (PartitionEpoch, Time)>,
    /// The times since when this manager knows splits to be pending.
    splitting_since: BTreeMap<KeyspaceId, Time>,
    /// Commands of this manager that are not decided yet.
    in_flight: BTreeSet<RequestId>,
    next_number: u64,
    next_plan: Time,
    idle_plan: Option<IdlePlan>,
}

/// The last plan was empty. Before `until`, when loads are checked again, only a change of the fields below
/// can change that. No node was down and no group was admitting a replica, so that no timer is running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct IdlePlan {
    /// Number of commands applied when the plan was made.
    applied_count: u64,
    is_stable: bool,
    until: Time,
}

impl LeaderState {
    pub(super) fn verdict(&mut self, node: NodeId, incarnation: Incarnation, alive: bool) {
        self.verdicts.insert(node, (incarnation, alive));
    }

    pub(super) fn report(&mut self, now: Time, by: NodeId, about: NodeId, incarnation: Incarnation) {
        self.reports.entry(about).or_default().insert(by, (incarnation, now));
    }

    pub(super) fn load(&mut self, keyspace: KeyspaceId, partition: PartitionId, load: u32) {
        if self.loads.len() < LOADS_MAX || self.loads.contains_key(&(keyspace, partition)) {
            self.loads.insert((keyspace, partition), load);
        }
    }

    pub(super) fn decided(&mut self, id: RequestId) {
        self.in_flight.remove(&id);
    }

    /// Called when leadership has changed, or this manager leads again: its proposals may have been replaced.
    pub(super) fn release(&mut self) {
        self.in_flight.clear();
        self.idle_plan = None;
        self.flap_damping = FlapDamping::default();
        self.down_since.clear();
        self.admitting_since.clear();
        self.splitting_since.clear();
    }

    pub(super) fn name(&mut self, origin: u64) -> RequestId {
        self.next_number += 1;
        let id = RequestId { origin, number: self.next_number };
        self.in_flight.insert(id);
        id
    }

    /// The commands to propose now.
    pub(super) fn commands(
        &mut self,
        now: Time,
        state: &ControlState,
        settings: LeadSettings,
    ) -> Vec<ControlCommand> {
        self.drop_old_loads(now, state.map(), settings);
        self.flap_damping.record_state_changes(now, state.map(), settings);
        if !self.in_flight.is_empty() {
            return Vec::new();
        }
        let verdicts = self.states(now, state);
        if !verdicts.is_empty() || now < self.next_plan {
            return verdicts;
        }
        self.next_plan = now.after_ms(settings.plan_ms);
        let (mark, is_stable) = (state.applied_count(), self.flap_damping.is_stable(now, settings));
        let is_as_before =
            |last: IdlePlan| last.applied_count == mark && last.is_stable == is_stable && now < last.until;
        if self.idle_plan.is_some_and(is_as_before) {
            return Vec::new();
        }
        self.record_times(now, state.map());
        self.flap_damping.record_needed(state.map());
        let overdue_since = |since: &Time| now.since_us(*since) > settings.move_max_ms * 1000;
        let seen = PlanInputs {
            loads: &self.loads,
            long_down_nodes: &|node| {
                self.down_since
                    .get(&node)
                    .is_some_and(|since| now.since_us(*since) > settings.replace_after_ms * 1000)
            },
            overdue: &|keyspace, partition, epoch| {
                self.admitting_since
                    .get(&(keyspace, partition))
                    .is_some_and(|(of, since)| *of == epoch && overdue_since(since))
            },
            is_stable,
        };
        let planned = plan::plan(state, &seen, settings.plan);
        let no_time_runs =
            self.down_since.is_empty() && self.admitting_since.is_empty() && self.splitting_since.is_empty();
        let is_late = |since: &Time| now.since_us(*since) > settings.split_max_ms * 1000;
        let late: Vec<ControlCommand> = self
            .splitting_since
            .iter()
            .filter(|(_, since)| is_late(since))
            .map(|(keyspace, _)| ControlCommand::CancelSplit(*keyspace))
            .collect();
        let group_count = state.map().keyspaces().map(|(_, found)| found.groups().len() as u64).sum();
        let until = now.after_ms(settings.idle_plan_after_ms(group_count));
        self.idle_plan = (planned.is_empty() && no_time_runs).then_some(IdlePlan {
            applied_count: mark,
            is_stable,
            until,
        });
        late.into_iter().chain(planned.into_iter().map(ControlCommand::Regroup)).collect()
    }

    /// Commands for the nodes whose state in the map differs from the verdicts and reports.
    fn states(&self, now: Time, state: &ControlState) -> Vec<ControlCommand> {
        let map = state.map();
        let up = map.nodes().filter(|node| node.state() != NodeState::Down).count();
        let mut commands = Vec::new();
        for node in map.nodes() {
            let (id, incarnation) = (node.id(), node.incarnation());
            let gossip = self.verdicts.get(&id).filter(|(of, _)| *of == incarnation).map(|(_, alive)| *alive);
            let reported = self
                .reports
                .get(&id)
                .map_or(0, |by| by.iter().filter(|(_, (of, _))| *of == incarnation).count());
            // A node that cannot reach another may itself be the cause: half of the other nodes must agree.
            let unreachable = reported >= 2 && reported * 2 >= up.saturating_sub(1);
            let becomes = match (node.state(), gossip) {
                (NodeState::Up | NodeState::Draining, Some(false)) => NodeState::Down,
                (NodeState::Up | NodeState::Draining, _) if unreachable => NodeState::Down,
                // A node that the operator is draining continues to drain after it was down.
                (NodeState::Down, Some(true)) if reported == 0 && self.flap_damping.may_return(now, id) => {
                    match state.facts(id).draining {
                        true => NodeState::Draining,
                        false => NodeState::Up,
                    }
                }
                _ => continue,
            };
            commands.push(ControlCommand::SetNodeState { node: id, incarnation, state: becomes });
        }
        commands
    }

    fn drop_old_loads(&mut self, now: Time, map: &ClusterMap, settings: LeadSettings) {
        for by in self.reports.values_mut() {
            by.retain(|_, (_, at)| now.since_us(*at) <= settings.report_ms * 1000);
        }
        self.reports.retain(|node, by| !by.is_empty() && map.node(*node).is_some());
        if self.verdicts.len() > map.nodes().len() {
            self.verdicts.retain(|node, _| map.node(*node).is_some());
        }
    }

    fn record_times(&mut self, now: Time, map: &ClusterMap) {
        let is_down = |node: &NodeId| map.node(*node).is_some_and(|node| node.state() == NodeState::Down);
        self.down_since.retain(|node, _| is_down(node));
        for node in map.nodes().filter(|node| node.state() == NodeState::Down) {
            self.down_since.entry(node.id()).or_insert(now);
        }
        let mut admitting = BTreeMap::new();
        for (keyspace, found) in map.keyspaces() {
            for (partition, group) in found.groups().filter(|(_, group)| group.state == GroupState::Admitting)
            {
                let place = (keyspace, partition);
                let since = self.admitting_since.get(&place).filter(|(epoch, _)| *epoch == group.epoch);
                admitting.insert(place, since.copied().unwrap_or((group.epoch, now)));
            }
        }
        self.admitting_since = admitting;
        let splitting = map.keyspaces().filter(|(_, found)| found.pending_split().is_some());
        self.splitting_since =
            splitting.map(|(id, _)| (id, self.splitting_since.get(&id).copied().unwrap_or(now))).collect();
        self.loads.retain(|(keyspace, _), _| map.keyspace(*keyspace).is_some());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{CommandRequest, GroupStep, JoinNode, Regroup, RegroupOrigin};
    use zerohop_placement::{Address, KeyspaceConfig, PartitionCount, PendingSplit};
    use zerohop_wire::ids::InstanceId;

    /// A state, and how to change it.
    struct LeadBench {
        state: ControlState,
        number: u64,
    }

    const INCARNATION: Incarnation = Incarnation(1);

    impl LeadBench {
        fn new(nodes: u32) -> LeadBench {
            let mut bench = LeadBench { state: ControlState::new(Vec::new()), number: 0 };
            for at in 0..nodes {
                let address = |port| Address::new(&format!("n{at}:{port}")).unwrap();
                bench.done(ControlCommand::Join(JoinNode {
                    node: None,
                    replaces: Incarnation(0),
                    incarnation: INCARNATION,
                    manager: address(1),
                    instances: vec![address(2)],
                    domain: at,
                    capacity: 1,
                    intact: true,
                    closed: false,
                }));
            }
            bench
        }

        fn keyspace(&mut self, partitions: u32) {
            let partitions = PartitionCount::new(partitions).unwrap();
            let name = "papers".parse().unwrap();
            let config =
                KeyspaceConfig { partitions, replicas: 3, min_in_sync: 3, ..KeyspaceConfig::new(name, 5) };
            self.done(ControlCommand::CreateKeyspace(config));
        }

        fn done(&mut self, command: ControlCommand) {
            self.number += 1;
            let id = RequestId { origin: 1, number: self.number };
            let applied =
                self.state.apply(&CommandRequest { id, after: self.state.applied_count(), command });
            applied.outcome.result.unwrap();
        }

        fn set(&mut self, node: u32, state: NodeState) {
            self.done(ControlCommand::SetNodeState { node: NodeId(node), incarnation: INCARNATION, state });
        }

        fn is_up(&self, node: u32) -> bool {
            self.state.map().node(NodeId(node)).unwrap().state() == NodeState::Up
        }

        fn primaries_on(&self, node: u32) -> usize {
            let map = self.state.map();
            let groups = map.keyspaces().flat_map(|(_, keyspace)| keyspace.groups());
            groups.filter(|(_, group)| map.instance(group.primary).unwrap().node == NodeId(node)).count()
        }

        /// Runs a leader for `ms`: its commands are applied, and primaries admit the replicas that they
        /// should.
        fn run(&mut self, lead: &mut LeaderState, now: &mut Time, ms: u64) {
            for _ in 0..ms / 50 {
                *now = now.after_ms(50);
                for command in lead.commands(*now, &self.state, LeadSettings::default()) {
                    self.done(command);
                }
                let mut admissions = Vec::new();
                for (keyspace, found) in self.state.map().keyspaces() {
                    for (partition, group) in found.groups() {
                        let is_up = |one: &InstanceId| {
                            let map = self.state.map();
                            map.node(map.instance(*one).unwrap().node).unwrap().state() == NodeState::Up
                        };
                        if group.in_sync.len() < 2
                            && let Some(ready) = group.followers.iter().copied().find(is_up)
                        {
                            let by = RegroupOrigin::Instance(group.primary, INCARNATION);
                            let (epoch, step) = (group.epoch, GroupStep::Admit(ready));
                            admissions.push(Regroup { keyspace, partition, epoch, by, step });
                        }
                    }
                }
                for one in admissions {
                    self.done(ControlCommand::Regroup(one));
                }
            }
        }
    }

    /// Three nodes that answer and share the primaries of a keyspace, under a leader that has led for long.
    fn three_even_nodes() -> (LeadBench, LeaderState, Time) {
        let (mut bench, mut lead, mut now) = (LeadBench::new(3), LeaderState::default(), Time(0));
        bench.keyspace(16);
        for node in 1..=3 {
            lead.verdict(NodeId(node), INCARNATION, true);
        }
        bench.run(&mut lead, &mut now, 20_000);
        assert!([1, 2, 3].iter().all(|node| bench.primaries_on(*node) >= 5));
        (bench, lead, now)
    }

    #[test]
    fn idle_leader_plans_again_after_a_change_and_after_a_second() {
        let (mut bench, mut lead, mut now) = three_even_nodes();
        let settings = LeadSettings::default();
        let plans = |lead: &mut LeaderState, bench: &LeadBench, now: Time| {
            assert_eq!(lead.commands(now, &bench.state, settings), []);
            lead.idle_plan.expect("nothing is to be done").until == now.after_ms(settings.idle_plan_ms)
        };
        now = now.after_ms(2_000);
        assert!(plans(&mut lead, &bench, now));
        for _ in 0..9 {
            now = now.after_ms(100);
            assert!(!plans(&mut lead, &bench, now), "nothing has changed");
        }
        now = now.after_ms(100);
        assert!(plans(&mut lead, &bench, now), "loads may have");
        // After a command has changed the map, the next plan is made, and it finds a running timer.
        lead.verdict(NodeId(3), INCARNATION, false);
        bench.set(3, NodeState::Down);
        now = now.after_ms(100);
        drop(lead.commands(now, &bench.state, settings));
        assert_eq!(lead.idle_plan, None);
        // As long as a node is down.
        let (mut bench, mut lead, mut now) = three_even_nodes();
        lead.verdict(NodeId(3), INCARNATION, false);
        bench.run(&mut lead, &mut now, 5_000);
        assert_eq!((bench.is_up(3), lead.idle_plan), (false, None));
        // A new leader has no history.
        lead.verdict(NodeId(3), INCARNATION, true);
        bench.run(&mut lead, &mut now, 20_000);
        assert!(lead.idle_plan.is_some());
        lead.release();
        assert_eq!(lead.idle_plan, None);
    }

    #[test]
    fn split_whose_primaries_are_not_ready_in_time_is_cancelled() {
        let (mut bench, mut lead, mut now) = three_even_nodes();
        let settings = LeadSettings::default();
        let keyspace = KeyspaceId(1);
        let is_pending =
            |bench: &LeadBench| bench.state.map().keyspace(keyspace).unwrap().pending_split().is_some();
        bench.done(ControlCommand::BeginSplit { keyspace, split: PendingSplit::Keyspace });
        bench.run(&mut lead, &mut now, settings.split_max_ms - 1_000);
        assert!(is_pending(&bench));
        bench.run(&mut lead, &mut now, 2_000);
        assert!(!is_pending(&bench));
        // The time of the next split begins with it.
        bench.done(ControlCommand::BeginSplit { keyspace, split: PendingSplit::Keyspace });
        bench.run(&mut lead, &mut now, settings.split_max_ms - 1_000);
        assert!(is_pending(&bench));
    }

    #[test]
    fn flapping_node_gets_primaries_only_once_it_is_stable() {
        let (mut bench, mut lead, mut now) = three_even_nodes();
        lead.verdict(NodeId(3), INCARNATION, false);
        bench.run(&mut lead, &mut now, 200);
        lead.verdict(NodeId(3), INCARNATION, true);
        bench.run(&mut lead, &mut now, 4_500);
        assert!(bench.is_up(3));
        assert_eq!(bench.primaries_on(3), 0);
        // The same for a leader that has not seen the node come back.
        lead.release();
        bench.run(&mut lead, &mut now, 4_500);
        assert_eq!(bench.primaries_on(3), 0);
        bench.run(&mut lead, &mut now, 1_500);
        assert!(bench.primaries_on(3) >= 5);
    }

    #[test]
    fn flap_damping_delay_grows_with_each_flap_and_resets() {
        let (mut bench, mut lead, mut now) = three_even_nodes();
        let mut flap = |lead: &mut LeaderState, now: &mut Time| {
            lead.verdict(NodeId(3), INCARNATION, false);
            bench.run(lead, now, 100);
            assert!(!bench.is_up(3));
            lead.verdict(NodeId(3), INCARNATION, true);
            let from = *now;
            while !bench.is_up(3) {
                bench.run(lead, now, 50);
            }
            let back_ms = now.since_us(from) / 1_000;
            bench.run(lead, now, 1_000);
            back_ms
        };
        for (least, most) in
            [(0, 200), (350, 600), (850, 1_100), (1_850, 2_100), (3_850, 4_100), (3_850, 4_100)]
        {
            let back_ms = flap(&mut lead, &mut now);
            assert!((least..=most).contains(&back_ms), "after {back_ms} ms, not {least} to {most}");
        }
        assert!(flap(&mut lead, &mut now.after_ms(10_000)) <= 200, "that was long ago");
    }

    #[test]
    fn only_possible_server_of_a_partition_is_not_damped() {
        let (mut bench, mut lead, mut now) = three_even_nodes();
        for _ in 0..3 {
            for alive in [false, true] {
                lead.verdict(NodeId(3), INCARNATION, alive);
                bench.run(&mut lead, &mut now, 2_500);
            }
        }
        // The other nodes go down, one after the other, so that node 3 has all primaries; then node 3 goes
        // down too.
        for gone in [1, 2] {
            lead.verdict(NodeId(gone), INCARNATION, false);
            bench.run(&mut lead, &mut now, 1_000);
        }
        assert_eq!(bench.primaries_on(3), 16);
        lead.verdict(NodeId(3), INCARNATION, false);
        bench.run(&mut lead, &mut now, 200);
        assert!(!bench.is_up(3));
        lead.verdict(NodeId(3), INCARNATION, true);
        bench.run(&mut lead, &mut now, 100);
        assert!(bench.is_up(3));
    }

    #[test]
    fn draining_node_continues_to_drain_after_restart() {
        let mut bench = LeadBench::new(2);
        let incarnation = INCARNATION;
        let node = NodeId(1);
        for becomes in [NodeState::Draining, NodeState::Down] {
            bench.set(1, becomes);
        }
        let mut lead = LeaderState::default();
        for one in [1, 2] {
            lead.verdict(NodeId(one), incarnation, true);
        }
        let settings = LeadSettings::default();
        let commands = lead.commands(Time(0), &bench.state, settings);
        let back = ControlCommand::SetNodeState { node, incarnation, state: NodeState::Draining };
        assert_eq!(commands, std::slice::from_ref(&back));
        bench.done(back);
        assert_eq!(lead.states(Time(0), &bench.state), []);
        // Until the operator sets the node to `Up` again.
        bench.set(1, NodeState::Up);
        bench.set(1, NodeState::Down);
        let up = ControlCommand::SetNodeState { node, incarnation, state: NodeState::Up };
        assert_eq!(lead.states(Time(0), &bench.state), [up]);
    }
}
