//! The operator: creates, drops and splits keyspaces, drains nodes and removes them.

use std::collections::BTreeMap;
use std::sync::Arc;

use zerohop_base::time::Time;
use zerohop_control::agent::{AgentEvent, NoOutcome};
use zerohop_control::command::{CommandOutcome, ControlCommand, ManagerInfo, MovePartition, RegionSplit};
use zerohop_placement::{
    ClusterMap, HashKind, KeyOrder, KeyspaceConfig, KeyspaceName, NodeState, PartitionCount, PendingSplit,
    Separators,
};
use zerohop_shard::LargeRegion;
use zerohop_wire::ids::KeyspaceId;

use super::redis::REDIS_KEYSPACES;
use super::region_splits::RegionSplits;
use super::scenario::PlannedKeyspace;
use super::targeted_faults::{BEFORE_DROP_US, BEFORE_SPLIT_US};
use super::transactions::AccountsState;
use super::watchers;
use super::{ClusterEvent, ClusterPhase, SimulatedCluster};
use crate::kinds::FaultKind;
use crate::streams::Draw;

const MS: u64 = 1_000;

/// An operator removes no node when so many or fewer are left: the highest number of copies of a
/// keyspace.
const NODES_MIN: usize = 3;

/// See the module.
#[derive(Debug)]
pub(super) struct Operator {
    /// Commands without an answer yet, by token.
    pending_commands: BTreeMap<u64, ControlCommand>,
    tokens: u64,
    splits: u32,
    /// A keyspace of transactions that is to be split, and when.
    splitting: Option<(KeyspaceId, Time)>,
    drops: u32,
    /// A keyspace of transactions that is to be dropped, and when.
    dropping: Option<(KeyspaceId, Time)>,
    /// The wanted managers of the control group, until their command is decided.
    managers: Option<Vec<ManagerInfo>>,
    region_splits: RegionSplits,
}

impl Operator {
    /// The size above which regions are split.
    pub(super) fn region_limit(&self) -> Option<u64> {
        self.region_splits.limit()
    }

    pub(super) fn new(region_splits: RegionSplits) -> Operator {
        Operator {
            pending_commands: BTreeMap::new(),
            tokens: 0,
            splits: 0,
            splitting: None,
            drops: 0,
            dropping: None,
            managers: None,
            region_splits,
        }
    }

    /// A manager has lost its log: the control group is to consist of these managers.
    pub(super) fn replace_managers(&mut self, managers: Vec<ManagerInfo>) {
        self.managers = Some(managers);
    }
}

impl SimulatedCluster {
    /// The operator checks the cluster and acts.
    pub(super) fn operate(&mut self) {
        let now = self.now();
        if self.phase >= ClusterPhase::Quiet {
            return;
        }
        self.event_queue.at(now.after_us(400 * MS), ClusterEvent::Operate);
        if self.operator.pending_commands.len() >= 4 {
            return;
        }
        let map = Arc::clone(&self.watch.map);
        let missing = (0..self.scenario.keyspaces.len()).find(|at| {
            let name = self.scenario.keyspace_name(*at);
            map.keyspace_named(&name).is_none() && !self.watch.dropped.contains(&name)
        });
        // Waits for all initial nodes: otherwise most copies would be made again at once.
        let late = self.scenario.nodes.len() - self.scenario.late;
        if let Some(at) = missing
            && map.nodes().len() >= late.min(3)
            && self.operator.pending_commands.is_empty()
        {
            let name = self.scenario.keyspace_name(at);
            let config = config((at, &name), self.scenario.keyspaces[at], self.seed);
            return self.send_control_command(ControlCommand::CreateKeyspace(config));
        }
        if missing.is_none() && self.operate_redis(&map) {
            return;
        }
        if missing.is_none() && self.split_a_region(&map) {
            return;
        }
        if let Some(managers) = self.operator.managers.clone() {
            let command = ControlCommand::SetManagers(managers);
            if self.operator.pending_commands.values().all(|requested| *requested != command) {
                return self.send_control_command(command);
            }
        }
        if let Some((id, at)) = self.operator.splitting
            && now >= at
        {
            self.operator.splitting = None;
            return self.send_control_command(ControlCommand::BeginSplit {
                keyspace: id,
                split: PendingSplit::Keyspace,
            });
        }
        if let Some((id, at)) = self.operator.dropping
            && now >= at
        {
            self.operator.dropping = None;
            self.coverage.commits_seen("keyspaces dropped during transactions", 1);
            self.watch.dropping(id, now);
            return self.send_control_command(ControlCommand::BeginDropKeyspace(id));
        }
        // No node may have received the command.
        let left = map.keyspaces().find(|(id, found)| self.watch.is_dropped(*id) && !found.is_dropping());
        if let Some((id, _)) = left.filter(|_| self.operator.pending_commands.is_empty()) {
            return self.send_control_command(ControlCommand::BeginDropKeyspace(id));
        }
        if self.phase == ClusterPhase::Healed {
            // Nodes that are draining return to service.
            let drained = map.nodes().find(|node| node.state() == NodeState::Draining);
            if let Some(node) = drained {
                let (node, incarnation) = (node.id(), node.incarnation());
                return self.send_control_command(ControlCommand::SetNodeState {
                    node,
                    incarnation,
                    state: NodeState::Up,
                });
            }
        }
        if self.is_in_fault_window(now) {
            self.disturb(&map);
        }
    }

    /// Creates the keyspaces of Redis clients; splits, moves and drops them more often than others.
    /// Whether it has sent a command.
    fn operate_redis(&mut self, map: &ClusterMap) -> bool {
        if !self.redis.is_on || !self.operator.pending_commands.is_empty() {
            return false;
        }
        let named = |name: &str| map.keyspace_named(name).map(|(id, _)| id);
        let missing = (0..2).find(|at| {
            let name = REDIS_KEYSPACES[*at];
            named(name).is_none() && !self.watch.dropped.contains(name)
        });
        if let Some(at) = missing {
            if self.scenario.keyspaces.is_empty() || map.nodes().len() < NODES_MIN {
                return false;
            }
            let config = config((16 + at, REDIS_KEYSPACES[at]), self.redis.keyspace(at), self.seed);
            self.send_control_command(ControlCommand::CreateKeyspace(config));
            return true;
        }
        if self.phase != ClusterPhase::Faults || !self.is_in_fault_window(self.now()) {
            return false;
        }
        let (Some(first), second) = (named(REDIS_KEYSPACES[0]), named(REDIS_KEYSPACES[1])) else {
            return false;
        };
        let mut draw = self.streams.node.fork(self.history.redis.calls.len() as u64);
        match draw.below(40) {
            0 if self.scenario.has(FaultKind::Splits) && self.redis.splits < 3 => {
                self.redis.splits += 1;
                let id =
                    second.filter(|id| draw.chance(1, 3) && !self.watch.is_dropped(*id)).unwrap_or(first);
                self.send_control_command(ControlCommand::BeginSplit {
                    keyspace: id,
                    split: PendingSplit::Keyspace,
                });
            }
            1 | 2 if self.scenario.has(FaultKind::Moves) => {
                let partitions: Vec<_> = map
                    .keyspace(first)
                    .into_iter()
                    .flat_map(|found| found.groups())
                    .map(|(id, _)| id)
                    .collect();
                let nodes: Vec<_> = map.nodes().map(|node| node.id()).collect();
                let (partition, to) = (*draw.pick(&partitions), Some(*draw.pick(&nodes)));
                let moved = MovePartition { keyspace: first, partition, to, instance: None };
                self.send_control_command(ControlCommand::Move(moved));
            }
            3 if self.scenario.has(FaultKind::Drops) && !self.redis.is_drop_requested => {
                let Some(id) = second.filter(|_| draw.chance(1, 4)) else { return false };
                self.redis.is_drop_requested = true;
                self.watch.dropping(id, self.now());
                self.send_control_command(match draw.chance(1, 2) {
                    true => ControlCommand::DropKeyspace(id),
                    false => ControlCommand::BeginDropKeyspace(id),
                });
            }
            _ => return false,
        }
        true
    }

    /// Whether a keyspace of transactions is about to be dropped.
    pub(super) fn is_about_to_drop(&self) -> bool {
        self.operator.dropping.is_some()
    }

    /// Moves a scheduled drop forward to this time, if it is later.
    pub(super) fn drop_by(&mut self, soon: Time) {
        if let Some((_, at)) = &mut self.operator.dropping {
            *at = soon.min(*at);
        }
    }

    /// Splits a region of an ordered keyspace now and then.
    fn split_a_region(&mut self, map: &ClusterMap) -> bool {
        if self.phase != ClusterPhase::Faults {
            return false;
        }
        let Some(split) = self.operator.region_splits.draw(map) else { return false };
        self.request_split(split);
        true
    }

    /// An instance requests a split of a region because of its size.
    pub(super) fn split_large_region(&mut self, large: &LargeRegion) {
        if self.phase != ClusterPhase::Faults || !self.operator.region_splits.admit() {
            return;
        }
        self.coverage.blob("large regions split");
        let LargeRegion { keyspace, region, separator, share, .. } = large.clone();
        self.request_split(RegionSplit { keyspace, region, separator: separator.into(), share });
    }

    fn request_split(&mut self, split: RegionSplit) {
        self.coverage.fault(FaultKind::Splits);
        self.begin_scans_over_split(split.keyspace);
        // Before the registers have their first values, no snapshot is checked.
        let has_values = self.transacting.opened == AccountsState::Yes;
        if has_values && self.transactional().is_some_and(|both| both.contains(&split.keyspace)) {
            self.begin_snapshots_over_split();
        }
        let RegionSplit { keyspace, region, separator, share } = split;
        let split = PendingSplit::Region { region, separator, share };
        self.send_control_command(ControlCommand::BeginSplit { keyspace, split });
    }

    /// Sends a random command.
    fn disturb(&mut self, map: &ClusterMap) {
        let which = self.streams.node.below(14);
        let nodes: Vec<_> = map.nodes().collect();
        if nodes.is_empty() {
            return;
        }
        let node = *self.streams.node.pick(&nodes);
        let set =
            |state| ControlCommand::SetNodeState { node: node.id(), incarnation: node.incarnation(), state };
        let up = nodes.iter().filter(|node| node.state() == NodeState::Up).count();
        match which {
            0 | 1 if self.scenario.has(FaultKind::Drains) && node.state() == NodeState::Up && up > 3 => {
                self.coverage.fault(FaultKind::Drains);
                self.send_control_command(set(NodeState::Draining));
            }
            2 if node.state() == NodeState::Draining => self.send_control_command(set(NodeState::Up)),
            3 | 4 if self.scenario.has(FaultKind::Removals) => self.remove_a_node(map),
            5 if self.scenario.has(FaultKind::Splits) && self.operator.splits < 2 => {
                let can_split =
                    |found: &zerohop_placement::Keyspace| found.config().order == KeyOrder::Hashed;
                let keyspaces: Vec<_> =
                    map.keyspaces().filter(|(_, found)| can_split(found)).map(|(id, _)| id).collect();
                if keyspaces.is_empty() {
                    return;
                }
                let id = *self.streams.node.pick(&keyspaces);
                self.operator.splits += 1;
                self.coverage.fault(FaultKind::Splits);
                self.begin_scans_over_split(id);
                if self.transactional().is_some_and(|both| both.contains(&id)) {
                    self.target_split(id);
                    self.begin_snapshots_over_split();
                    self.operator.splitting = Some((id, self.now().after_us(BEFORE_SPLIT_US)));
                } else {
                    self.send_control_command(ControlCommand::BeginSplit {
                        keyspace: id,
                        split: PendingSplit::Keyspace,
                    });
                }
            }
            7 | 8 if self.scenario.has(FaultKind::Moves) => {
                let places = map
                    .keyspaces()
                    .flat_map(|(id, keyspace)| keyspace.groups().map(move |(partition, _)| (id, partition)));
                let places: Vec<_> = places.collect();
                if places.is_empty() {
                    return;
                }
                let (keyspace, partition) = *self.streams.node.pick(&places);
                let to = (!self.streams.node.chance(1, 4)).then_some(node.id());
                self.coverage.fault(FaultKind::Moves);
                self.send_control_command(ControlCommand::Move(MovePartition {
                    keyspace,
                    partition,
                    to,
                    instance: None,
                }));
            }
            6 if self.scenario.has(FaultKind::Drops) && self.operator.drops == 1 => {
                // During transactions over this keyspace and another.
                let both = self.transactional().filter(|_| self.transacting.opened == AccountsState::Yes);
                if let Some([left, id]) = both {
                    self.operator.drops += 1;
                    self.coverage.fault(FaultKind::Drops);
                    self.target_drop([left, id]);
                    self.operator.dropping = Some((id, self.now().after_us(BEFORE_DROP_US)));
                }
            }
            6 if self.scenario.has(FaultKind::Drops) && self.operator.drops < 1 => {
                if let Some((id, _)) = map.keyspace_named("keyspace-2") {
                    self.operator.drops += 1;
                    self.coverage.fault(FaultKind::Drops);
                    self.watch.dropping(id, self.now());
                    // No transaction is over this keyspace and another, so it may also be dropped
                    // without draining.
                    let is_at_once = self.seed % 2 == 1;
                    self.send_control_command(match is_at_once {
                        true => ControlCommand::DropKeyspace(id),
                        false => ControlCommand::BeginDropKeyspace(id),
                    });
                }
            }
            _ => {}
        }
    }

    /// Removes a dead or drained node permanently, unless too few would remain: with fewer nodes
    /// than `min_in_sync` copies, writes are correctly refused.
    fn remove_a_node(&mut self, map: &ClusterMap) {
        if map.nodes().len() <= NODES_MIN {
            return;
        }
        let empty = map.nodes().find(|node| {
            node.state() != NodeState::Up
                && node.instances().all(|one| map.partitions_of(one.id).next().is_none())
        });
        if let Some(node) = empty {
            return self.send_control_command(ControlCommand::RemoveNode(node.id()));
        }
        // One node dies permanently; its copies are first made again elsewhere.
        let spare = self.hosts.iter().filter(|host| host.is_up && host.manager.is_none()).map(|host| host.at);
        let spare: Vec<usize> = spare.collect();
        let is_first = self.hosts.iter().all(|host| !host.stays_down);
        if spare.is_empty() || !is_first {
            return;
        }
        let host = *self.streams.node.pick(&spare);
        if self.is_safe_without(host) {
            self.coverage.fault(FaultKind::Removals);
            self.hosts[host].stays_down = true;
            self.end_process(host, super::node_end::NodeEnd::Power);
        }
    }

    fn send_control_command(&mut self, command: ControlCommand) {
        let now = self.now();
        let Some(at) = self.any_up() else { return };
        if now < self.hosts[at].agent_paused_until() {
            return;
        }
        self.operator.tokens += 1;
        let token = self.operator.tokens;
        self.trace.record(now, format_args!("operator asks n{at} for {command:?}"));
        self.operator.pending_commands.insert(token, command.clone());
        self.handle_agent_event(at, AgentEvent::Operate { token, command });
    }

    pub(super) fn deliver_to_operator(&mut self, token: u64, result: Result<CommandOutcome, NoOutcome>) {
        let now = self.now();
        let Some(command) = self.operator.pending_commands.remove(&token) else { return };
        self.trace.record(now, format_args!("operator receives the result of {command:?}: {result:?}"));
        if matches!(&command, ControlCommand::SetManagers(requested) if self.operator.managers.as_ref() == Some(requested))
            && result.as_ref().is_ok_and(|outcome| outcome.result.is_ok())
        {
            self.operator.managers = None;
        }
        if matches!(command, ControlCommand::BeginSplit { .. }) && result.is_err() {
            self.coverage.splits_refused += 1;
        }
    }

    /// A process has ended: it answers no command.
    pub(super) fn operator_loses(&mut self) {
        self.operator.pending_commands.clear();
    }
}

fn config((at, name): (usize, &str), kept: PlannedKeyspace, seed: u64) -> KeyspaceConfig {
    let name = KeyspaceName::new(name).expect("is a name");
    let config = KeyspaceConfig {
        partitions: PartitionCount::new(kept.partitions).expect("is a power of two"),
        hash: HashKind::Xxh3,
        durability: kept.durability,
        replicas: kept.replicas,
        min_in_sync: kept.min_in_sync,
        batch_bytes: 4 << 10,
        history: watchers::history(seed, at),
        ..KeyspaceConfig::new(name, (seed << 8).wrapping_add(at as u64).wrapping_mul(7919))
    };
    match kept.separators {
        Some(keys) => config.divided_at(Separators::new(keys).expect("they ascend")),
        None => config,
    }
}
