//! What the leader does of its own accord: verdicts become states of nodes, and plans become changes of groups.
//!
//! Verdicts and reports are kept by every manager, so that a new leader need not wait to hear them again; what it has to
//! time itself (how long a node has been down, how long a move has taken) begins anew with it.

use std::collections::{BTreeMap, BTreeSet};

use zerohop_placement::{ClusterMap, GroupState, NodeState};
use zerohop_wire::ids::{Incarnation, KeyspaceId, NodeId, PartitionEpoch, PartitionId};

use crate::Time;
use crate::command::{Command, RequestId};
use crate::limits::LOADS_MAX;
use crate::plan::{self, PlanSettings, Seen};
use crate::state::State;

/// How soon the leader acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeadSettings {
    /// How long a node must have been down until its copies are made anew elsewhere: longer than a restart takes.
    pub replace_after_ms: u64,
    /// How long the target of a move may take to catch up.
    pub move_max_ms: u64,
    /// Between two plans.
    pub plan_ms: u64,
    /// How long a report that a node does not answer counts.
    pub report_ms: u64,
    /// How much a plan does at once.
    pub plan: PlanSettings,
}

impl Default for LeadSettings {
    fn default() -> LeadSettings {
        LeadSettings {
            replace_after_ms: 30_000,
            move_max_ms: 600_000,
            plan_ms: 100,
            report_ms: 1_000,
            plan: PlanSettings::default(),
        }
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Lead {
    /// What gossip says of each node.
    verdicts: BTreeMap<NodeId, (Incarnation, bool)>,
    /// Who said when that a node does not answer, though gossip may say that it does.
    reports: BTreeMap<NodeId, BTreeMap<NodeId, (Incarnation, Time)>>,
    loads: BTreeMap<(KeyspaceId, PartitionId), u32>,
    /// Since when this manager knows nodes to be down, and groups to admit.
    down_since: BTreeMap<NodeId, Time>,
    admitting_since: BTreeMap<(KeyspaceId, PartitionId), (PartitionEpoch, Time)>,
    /// Own commands that are not decided yet.
    in_flight: BTreeSet<RequestId>,
    next_number: u64,
    next_plan: Time,
}

impl Lead {
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

    /// Another leads, or this one does again: what was proposed may have been replaced.
    pub(super) fn release(&mut self) {
        self.in_flight.clear();
        self.down_since.clear();
        self.admitting_since.clear();
    }

    pub(super) fn name(&mut self, origin: u64) -> RequestId {
        self.next_number += 1;
        let id = RequestId { origin, number: self.next_number };
        self.in_flight.insert(id);
        id
    }

    /// What to propose now.
    pub(super) fn commands(&mut self, now: Time, state: &State, settings: LeadSettings) -> Vec<Command> {
        self.forget_old(now, state.map(), settings);
        if !self.in_flight.is_empty() {
            return Vec::new();
        }
        let verdicts = self.states(state);
        if !verdicts.is_empty() || now < self.next_plan {
            return verdicts;
        }
        self.next_plan = now.after_ms(settings.plan_ms);
        self.note_times(now, state.map());
        let overdue_since = |since: &Time| now.since_us(*since) > settings.move_max_ms * 1000;
        let seen = Seen {
            loads: &self.loads,
            given_up: &|node| {
                self.down_since
                    .get(&node)
                    .is_some_and(|since| now.since_us(*since) > settings.replace_after_ms * 1000)
            },
            overdue: &|keyspace, partition, epoch| {
                self.admitting_since
                    .get(&(keyspace, partition))
                    .is_some_and(|(of, since)| *of == epoch && overdue_since(since))
            },
        };
        plan::plan(state, &seen, settings.plan).into_iter().map(Command::Regroup).collect()
    }

    /// Nodes whose state is not what is said of them.
    fn states(&self, state: &State) -> Vec<Command> {
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
            // One node that cannot reach another says as much about itself: half of the others must agree.
            let unreachable = reported >= 2 && reported * 2 >= up.saturating_sub(1);
            let becomes = match (node.state(), gossip) {
                (NodeState::Up | NodeState::Draining, Some(false)) => NodeState::Down,
                (NodeState::Up | NodeState::Draining, _) if unreachable => NodeState::Down,
                // What the operator wanted of it is not over because it was away.
                (NodeState::Down, Some(true)) if reported == 0 => match state.facts(id).draining {
                    true => NodeState::Draining,
                    false => NodeState::Up,
                },
                _ => continue,
            };
            commands.push(Command::SetNodeState { node: id, incarnation, state: becomes });
        }
        commands
    }

    fn forget_old(&mut self, now: Time, map: &ClusterMap, settings: LeadSettings) {
        for by in self.reports.values_mut() {
            by.retain(|_, (_, at)| now.since_us(*at) <= settings.report_ms * 1000);
        }
        self.reports.retain(|node, by| !by.is_empty() && map.node(*node).is_some());
        if self.verdicts.len() > map.nodes().len() {
            self.verdicts.retain(|node, _| map.node(*node).is_some());
        }
    }

    fn note_times(&mut self, now: Time, map: &ClusterMap) {
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
        self.loads.retain(|(keyspace, _), _| map.keyspace(*keyspace).is_some());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Join, Request};
    use zerohop_placement::Address;

    #[test]
    fn a_node_that_was_being_emptied_when_it_died_is_emptied_on_when_it_returns() {
        let mut state = State::new(Vec::new());
        let mut number = 0;
        let mut done = |state: &mut State, command: Command| {
            number += 1;
            let id = RequestId { origin: 1, number };
            let applied = state.apply(&Request { id, after: state.mark(), command });
            applied.outcome.result.unwrap();
        };
        let incarnation = Incarnation(1);
        for at in 0..2 {
            let address = |port| Address::new(&format!("n{at}:{port}")).unwrap();
            let join = Join {
                node: None,
                replaces: Incarnation(0),
                incarnation,
                manager: address(1),
                instances: vec![address(2)],
                domain: at,
                capacity: 1,
                intact: true,
            };
            done(&mut state, Command::Join(join));
        }
        let node = NodeId(1);
        for becomes in [NodeState::Draining, NodeState::Down] {
            done(&mut state, Command::SetNodeState { node, incarnation, state: becomes });
        }
        let mut lead = Lead::default();
        for one in [1, 2] {
            lead.verdict(NodeId(one), incarnation, true);
        }
        let settings = LeadSettings::default();
        let commands = lead.commands(Time(0), &state, settings);
        let back = Command::SetNodeState { node, incarnation, state: NodeState::Draining };
        assert_eq!(commands, std::slice::from_ref(&back));
        done(&mut state, back);
        assert_eq!(lead.states(&state), []);
        // Until the operator says otherwise.
        done(&mut state, Command::SetNodeState { node, incarnation, state: NodeState::Up });
        done(&mut state, Command::SetNodeState { node, incarnation, state: NodeState::Down });
        let up = Command::SetNodeState { node, incarnation, state: NodeState::Up };
        assert_eq!(lead.states(&state), [up]);
    }
}
