//! Managers and gossip together: a node fails, and within two seconds its partitions have other
//! primaries; later its copies are replaced.
//! are made again.

mod tokens;

use std::collections::BTreeMap;
use std::sync::Arc;

use zerohop_base::time::Time;
use zerohop_control::command::{
    CommandOutcome, CommandRequest, ControlCommand, GroupStep, JoinNode, ManagerId, ManagerInfo, Regroup,
    RegroupOrigin, RequestId,
};
use zerohop_control::gossip::{Gossip, GossipEffect, GossipSettings, Name};
use zerohop_control::manager::{
    LeadSettings, ManagerEffect, ManagerEvent, ManagerSettings, RaftManager, RequestAnswer,
};
use zerohop_placement::{
    Address, ClusterMap, Grant, GroupState, KeyspaceConfig, NodeState, PartitionCount, Permissions,
    TokenEntry,
};
use zerohop_wire::AuthFault;
use zerohop_wire::ids::{Incarnation, InstanceId, KeyspaceId, NodeId};

const NODES: usize = 5;
const MANAGERS: usize = 3;

enum LedEvent {
    Manager { to: usize, from: ManagerId, bytes: Vec<u8> },
    Gossip { to: usize, bytes: Vec<u8> },
    Persisted { at: usize, number: u64 },
}

/// Node `n` of the map has the index `n - 1`; the first nodes have managers.
struct LedCluster {
    now: u64,
    order: u64,
    event_queue: BTreeMap<(u64, u64), LedEvent>,
    managers: Vec<Option<RaftManager>>,
    gossips: Vec<Option<Gossip>>,
    map: Arc<ClusterMap>,
    answers: BTreeMap<u64, RequestAnswer>,
    requested: u64,
    loss_per_mille: u64,
    random: u64,
    /// The manager whose disk completes no write.
    stuck: Option<usize>,
    /// The manager that appears to run a version without batches.
    of_before: Option<usize>,
}

/// The end of a message of a manager that can read batches: field 16, the number 1.
const READS_BATCHES: [u8; 3] = [0x80, 1, 1];

impl LedCluster {
    fn new(seed: u64, loss_per_mille: u64) -> LedCluster {
        let members: Vec<ManagerInfo> = (0..MANAGERS)
            .map(|at| ManagerInfo { id: ManagerId(at as u64 + 1), addr: address(at, 0) })
            .collect();
        let lead = LeadSettings { replace_after_ms: 3_000, ..LeadSettings::default() };
        let open = |member: &ManagerInfo| {
            let settings = ManagerSettings { leader: lead, ..ManagerSettings::new(seed << 8 | member.id.0) };
            let log = RaftManager::bootstrap(member.id, &members);
            Some(RaftManager::open(Time(0), &log, settings).expect("opens").0)
        };
        let mut cluster = LedCluster {
            now: 0,
            order: 0,
            event_queue: BTreeMap::new(),
            managers: members.iter().map(open).collect(),
            gossips: (0..NODES).map(|_| None).collect(),
            map: Arc::default(),
            answers: BTreeMap::new(),
            requested: 0,
            loss_per_mille,
            random: seed,
            stuck: None,
            of_before: None,
        };
        cluster.run(3_000_000);
        for at in 0..NODES {
            let incarnation = Incarnation(at as u64 + 100);
            let join = JoinNode {
                node: None,
                replaces: Incarnation(0),
                incarnation,
                manager: address(at, 0),
                instances: vec![address(at, 1), address(at, 2)],
                domain: at as u32,
                capacity: 1,
                intact: true,
                closed: false,
            };
            let done = cluster.request_until_decided(ControlCommand::Join(join)).result.expect("joins");
            assert_eq!(done.number, at as u64 + 1);
            let name = Name { node: NodeId(at as u32 + 1), incarnation, since: done.epoch, renewals: 0 };
            let seed = seed << 8 | at as u64 | 1 << 7;
            cluster.gossips[at] = Some(Gossip::new(Time(cluster.now), name, GossipSettings::default(), seed));
        }
        let config = KeyspaceConfig {
            partitions: PartitionCount::new(64).expect("is a power of two"),
            ..KeyspaceConfig::new("papers".parse().expect("is a name"), seed)
        };
        cluster.request_until_decided(ControlCommand::CreateKeyspace(config)).result.expect("is made");
        cluster.run(cluster.now + 2_000_000);
        cluster
    }

    fn draw(&mut self, bound: u64) -> u64 {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % bound
    }

    fn leader(&self) -> Option<usize> {
        let leads = |one: &Option<RaftManager>| one.as_ref().and_then(RaftManager::leading);
        (0..MANAGERS)
            .filter(|at| leads(&self.managers[*at]).is_some())
            .max_by_key(|at| leads(&self.managers[*at]))
    }

    /// Asks the present leader until the command is decided.
    fn request_until_decided(&mut self, command: ControlCommand) -> CommandOutcome {
        let number = self.requested + 1;
        for _ in 0..100 {
            self.requested += 1;
            let token = self.requested;
            if let Some(at) = self.leader() {
                let id = RequestId { origin: 7, number };
                let after = self.managers[at].as_ref().expect("leads").state().applied_count();
                self.handle_event(
                    at,
                    ManagerEvent::Request {
                        token,
                        request: CommandRequest { id, after, command: command.clone() },
                    },
                );
            }
            self.run(self.now + 100_000);
            if let Some(RequestAnswer::Decided(outcome)) = self.answers.remove(&token) {
                return outcome;
            }
        }
        panic!("{command:?} is not decided");
    }

    fn run(&mut self, until: u64) {
        loop {
            let manager = |one: &Option<RaftManager>| one.as_ref().map_or(u64::MAX, |one| one.tick_due().0);
            let gossip = |one: &Option<Gossip>| one.as_ref().map_or(u64::MAX, |one| one.tick_due().0);
            let (mut due, mut at) = (u64::MAX, 0);
            for (place, wake) in
                self.managers.iter().map(manager).chain(self.gossips.iter().map(gossip)).enumerate()
            {
                if wake < due {
                    (due, at) = (wake, place);
                }
            }
            let item = self.event_queue.first_key_value().map_or(u64::MAX, |((time, _), _)| *time);
            if due.min(item) > until {
                self.now = until;
                return;
            }
            self.now = self.now.max(due.min(item));
            if item <= due {
                let Some((_, item)) = self.event_queue.pop_first() else { return };
                match item {
                    LedEvent::Manager { to, from, bytes } => {
                        self.handle_event(to, ManagerEvent::Received { from, bytes: &bytes })
                    }
                    LedEvent::Persisted { at, number } => {
                        self.handle_event(at, ManagerEvent::Persisted(number))
                    }
                    LedEvent::Gossip { to, bytes } => {
                        let now = Time(self.now);
                        let effects = self.gossips[to].as_mut().map(|one| one.receive(now, &bytes));
                        self.gossiped(to, effects.unwrap_or_default());
                    }
                }
            } else if at < MANAGERS {
                self.handle_event(at, ManagerEvent::Tick);
            } else {
                let at = at - MANAGERS;
                let (now, map) = (Time(self.now), Arc::clone(&self.map));
                let effects = self.gossips[at].as_mut().map(|one| one.tick(now, &map));
                self.gossiped(at, effects.unwrap_or_default());
            }
        }
    }

    fn later(&mut self, most: u64, item: LedEvent) {
        let delay = 100 + self.draw(most);
        self.order += 1;
        self.event_queue.insert((self.now + delay, self.order), item);
    }

    fn is_message_lost(&mut self) -> bool {
        self.draw(1000) < self.loss_per_mille
    }

    fn handle_event(&mut self, at: usize, event: ManagerEvent<'_>) {
        let Some(manager) = self.managers[at].as_mut() else { return };
        let from = manager.id();
        for effect in manager.handle(Time(self.now), event) {
            match effect {
                ManagerEffect::Persist { number, .. } if self.stuck != Some(at) => {
                    self.later(1_000, LedEvent::Persisted { at, number })
                }
                ManagerEffect::Send { to, mut bytes } if !self.is_message_lost() => {
                    if self.of_before == Some(at) {
                        let length = bytes.strip_suffix(&READS_BATCHES).expect("says what it reads").len();
                        bytes.truncate(length);
                    }
                    self.later(2_000, LedEvent::Manager { to: to.0 as usize - 1, from, bytes });
                }
                ManagerEffect::Answer { token, answer } => drop(self.answers.insert(token, answer)),
                ManagerEffect::MapChanged(delta) if delta.from == self.map.epoch() => {
                    self.map = Arc::new(self.map.apply(&delta).expect("follows"));
                }
                _ => {}
            }
        }
    }

    fn gossiped(&mut self, at: usize, effects: Vec<GossipEffect>) {
        for effect in effects {
            match effect {
                GossipEffect::Send { to, bytes } if !self.is_message_lost() => {
                    self.later(2_000, LedEvent::Gossip { to: to.get() as usize - 1, bytes });
                }
                GossipEffect::Verdict { node, incarnation, alive } if at < MANAGERS => {
                    self.handle_event(at, ManagerEvent::Verdict { node, incarnation, alive });
                }
                _ => {}
            }
        }
    }

    fn kill(&mut self, at: usize) {
        self.gossips[at] = None;
        if at < MANAGERS {
            self.managers[at] = None;
        }
    }

    fn node_of(&self, instance: InstanceId) -> usize {
        self.map.instance(instance).expect("is in the map").node.get() as usize - 1
    }

    fn primaries_on(&self, at: usize) -> usize {
        let groups = self.map.keyspaces().flat_map(|(_, keyspace)| keyspace.groups());
        groups.filter(|(_, group)| self.node_of(group.primary) == at).count()
    }

    /// Every primary requests that its group be kept. Returns the requests with their tokens.
    fn raise_all_epochs(&mut self, leader: usize) -> Vec<(u64, CommandRequest)> {
        let mut requests = Vec::new();
        let after = self.managers[leader].as_ref().expect("leads").state().applied_count();
        for (keyspace, found) in self.map.keyspaces() {
            for (partition, group) in found.groups() {
                let incarnation = self.map.instance(group.primary).expect("is in the map").incarnation;
                let by = RegroupOrigin::Instance(group.primary, incarnation);
                let (epoch, step) = (group.epoch, GroupStep::RaiseEpoch);
                let command = ControlCommand::Regroup(Regroup { keyspace, partition, epoch, by, step });
                self.requested += 1;
                let id = RequestId { origin: 9, number: self.requested };
                requests.push((self.requested, CommandRequest { id, after, command }));
            }
        }
        for (token, request) in requests.clone() {
            self.handle_event(leader, ManagerEvent::Request { token, request });
        }
        requests
    }

    fn epochs_of_groups(&self) -> Vec<u64> {
        let groups = self.map.keyspaces().flat_map(|(_, keyspace)| keyspace.groups());
        groups.map(|(_, group)| group.epoch.get()).collect()
    }

    /// The requests of primaries; in this world a copy is complete at once.
    fn admit(&mut self) {
        let mut requests = Vec::new();
        for (keyspace, found) in self.map.keyspaces() {
            for (partition, group) in found.groups() {
                let few = group.in_sync.len() + 1 < usize::from(found.config().min_in_sync);
                let up = |one: &InstanceId| {
                    self.map.node(NodeId(self.node_of(*one) as u32 + 1)).expect("is in the map").state()
                        != NodeState::Down
                };
                let ready = group.followers.iter().copied().find(up);
                if (few || group.state == GroupState::Admitting)
                    && let Some(ready) = ready
                {
                    let incarnation = self.map.instance(group.primary).expect("is in the map").incarnation;
                    let by = RegroupOrigin::Instance(group.primary, incarnation);
                    requests.push(ControlCommand::Regroup(Regroup {
                        keyspace,
                        partition,
                        epoch: group.epoch,
                        by,
                        step: GroupStep::Admit(ready),
                    }));
                }
            }
        }
        let Some(leader) = self.leader() else { return };
        for command in requests {
            self.requested += 1;
            let after = self.managers[leader].as_ref().expect("leads").state().applied_count();
            let id = RequestId { origin: 8, number: self.requested };
            self.handle_event(
                leader,
                ManagerEvent::Request {
                    token: self.requested,
                    request: CommandRequest { id, after, command },
                },
            );
        }
    }
}

fn address(at: usize, instance: usize) -> Address {
    Address::new(&format!("node-{at}:{}", 7400 + instance)).expect("is an address")
}

#[test]
fn failover_takes_under_two_seconds_even_if_leader_dies_too() {
    let mut longest = 0;
    for (seed, loss) in [(1, 0), (2, 0), (3, 50), (4, 50), (5, 100), (6, 100), (7, 0), (8, 100)] {
        let mut cluster = LedCluster::new(seed, loss);
        let leader = cluster.leader().expect("there is a leader");
        let victim = if seed % 2 == 0 { leader } else { NODES - 1 };
        assert!(cluster.primaries_on(victim) > 0);
        let epoch = cluster.map.epoch();
        cluster.run(cluster.now + 3_000_000);
        assert_eq!(cluster.map.epoch(), epoch, "seed {seed}: nothing changes while nothing happens");
        let died = cluster.now;
        cluster.kill(victim);
        while cluster.primaries_on(victim) > 0 {
            cluster.run(cluster.now + 10_000);
            assert!(
                cluster.now - died < 2_000_000,
                "seed {seed}, {loss} per mille lost, leader {}",
                victim == leader
            );
        }
        longest = longest.max(cluster.now - died);
    }
    assert!(longest > 100_000, "noticed after {longest} us, before anything could be noticed");
}

#[test]
fn leader_with_full_disk_steps_down() {
    for seed in 21..25 {
        let mut cluster = LedCluster::new(seed, 0);
        let leader = cluster.leader().expect("there is a leader");
        cluster.stuck = Some(leader);
        let began = cluster.now;
        let config = KeyspaceConfig::new("letters".parse().expect("is a name"), seed);
        cluster.request_until_decided(ControlCommand::CreateKeyspace(config)).result.expect("is made");
        assert_ne!(cluster.leader(), Some(leader), "seed {seed}");
        assert!(cluster.now - began < 3_000_000, "seed {seed}: after {} us", cluster.now - began);
    }
}

#[test]
fn copies_of_a_dead_node_are_rebuilt_after_a_delay() {
    let mut cluster = LedCluster::new(11, 20);
    cluster.kill(4);
    for _ in 0..200 {
        cluster.run(cluster.now + 100_000);
        cluster.admit();
    }
    assert_eq!(cluster.map.node(NodeId(5)).expect("stays in the map").state(), NodeState::Down);
    for (_, keyspace) in cluster.map.keyspaces() {
        for (partition, group) in keyspace.groups() {
            let members: Vec<usize> = group.members().map(|member| cluster.node_of(member)).collect();
            assert_eq!(members.len(), 3, "{partition}: {group:?}");
            assert!(!members.contains(&4), "{partition}: {group:?}");
        }
    }
    cluster
        .request_until_decided(ControlCommand::RemoveNode(NodeId(5)))
        .result
        .expect("holds nothing any more");
}

#[test]
fn simultaneous_regroups_become_one_map_change_if_supported() {
    let mut cluster = LedCluster::new(31, 0);
    let leader = cluster.leader().expect("there is a leader");
    // The first request is proposed at once, and the others as one batch.
    for (of_before, changes) in [(None, 2), (Some((leader + 1) % MANAGERS), 64), (None, 2)] {
        cluster.of_before = of_before;
        cluster.run(cluster.now + 1_000_000);
        let (epoch, groups) = (cluster.map.epoch().get(), cluster.epochs_of_groups());
        let requests = cluster.raise_all_epochs(leader);
        cluster.run(cluster.now + 1_000_000);
        assert_eq!(cluster.map.epoch().get() - epoch, changes, "{of_before:?}");
        let raised: Vec<u64> = groups.iter().map(|epoch| epoch + 1).collect();
        assert_eq!(cluster.epochs_of_groups(), raised);
        for (token, _) in requests {
            assert!(
                matches!(&cluster.answers[&token], RequestAnswer::Decided(outcome) if outcome.result.is_ok())
            );
        }
    }
}

/// The leader's manager dies at any moment while a batch is replicated. Each request, when
/// repeated, takes effect once.
#[test]
fn leader_death_during_a_batch_keeps_it_atomic() {
    let mut seen = [0, 0];
    for moment in 0..24 {
        let mut cluster = LedCluster::new(40 + moment, 0);
        let leader = cluster.leader().expect("there is a leader");
        let (epoch, before) = (cluster.map.epoch().get(), cluster.epochs_of_groups());
        let requests = cluster.raise_all_epochs(leader);
        cluster.run(cluster.now + 18_000 + moment * 250);
        cluster.managers[leader] = None;
        cluster.run(cluster.now + 3_000_000);
        let after = cluster.epochs_of_groups();
        let raised = before.iter().zip(&after).filter(|(old, new)| *new == &(*old + 1)).count();
        assert!([1, before.len()].contains(&raised), "moment {moment}: {raised} of {}", before.len());
        seen[usize::from(raised > 1)] += 1;
        let heir = cluster.leader().expect("there is a leader");
        for (token, request) in &requests {
            let request = request.clone();
            cluster.handle_event(heir, ManagerEvent::Request { token: *token, request });
        }
        cluster.run(cluster.now + 1_000_000);
        for (token, _) in requests {
            assert!(
                matches!(&cluster.answers[&token], RequestAnswer::Decided(outcome) if outcome.result.is_ok())
            );
        }
        let once: Vec<u64> = before.iter().map(|epoch| epoch + 1).collect();
        assert_eq!(cluster.epochs_of_groups(), once, "moment {moment}");
        assert!(cluster.map.epoch().get() - epoch <= 3, "moment {moment}");
    }
    assert!(seen.iter().all(|count| *count > 0), "it died always before, or always after: {seen:?}");
}

/// A log with a batch is read at a start, and by a manager that forms a new cluster from it.
#[test]
fn log_with_a_batch_is_reopened() {
    let member = ManagerInfo { id: ManagerId(1), addr: address(0, 0) };
    let mut log = RaftManager::bootstrap(member.id, std::slice::from_ref(&member));
    let settings = ManagerSettings { proposes_on_its_own: false, ..ManagerSettings::new(3) };
    let (mut manager, _) = RaftManager::open(Time(0), &log, settings).expect("opens");
    let mut now = Time(1_000_000);
    let mut give = |event: Option<ManagerEvent<'_>>| {
        if let Some(ManagerEvent::Tick) = event {
            now = now.after_ms(1_000);
        }
        let mut effects = match event {
            Some(event) => manager.handle(now, event),
            None => manager.take_effects(),
        };
        while !effects.is_empty() {
            for effect in std::mem::take(&mut effects) {
                if let ManagerEffect::Persist { number, bytes, replace } = effect {
                    if replace {
                        log.clear();
                    }
                    log.extend(bytes);
                    effects.extend(manager.handle(now, ManagerEvent::Persisted(number)));
                }
            }
        }
        Arc::clone(manager.map())
    };
    give(None);
    let query = |number, command| {
        let id = RequestId { origin: 7, number };
        Some(ManagerEvent::Request { token: number, request: CommandRequest { id, after: 0, command } })
    };
    let join = JoinNode {
        node: None,
        replaces: Incarnation(0),
        incarnation: Incarnation(1),
        manager: address(0, 0),
        instances: vec![address(0, 1)],
        domain: 0,
        capacity: 1,
        intact: true,
        closed: false,
    };
    give(query(1, ControlCommand::Join(join)));
    let config = KeyspaceConfig::new("papers".parse().expect("is a name"), 7);
    let map = give(query(2, ControlCommand::CreateKeyspace(config.fitted_to(1))));
    for (number, (keyspace, found)) in (3..).zip(map.keyspaces()) {
        for (partition, group) in found.groups() {
            let number = number + u64::from(partition.get());
            let (epoch, by) = (group.epoch, RegroupOrigin::Instance(group.primary, Incarnation(1)));
            let step = GroupStep::RaiseEpoch;
            give(query(number, ControlCommand::Regroup(Regroup { keyspace, partition, epoch, by, step })));
        }
    }
    let last = give(Some(ManagerEvent::Tick));
    let groups = last.keyspaces().flat_map(|(_, keyspace)| keyspace.groups()).count();
    assert_eq!(last.epoch().get() - map.epoch().get(), 2, "{groups} groups");
    assert!(groups > 2 && manager.counters().batches == 1);
    let (mut again, good) = RaftManager::open(Time(0), &log, settings).expect("opens");
    assert_eq!(good, log.len());
    // It leads, and the entries of its log are committed once they are on its disk.
    for effect in again.take_effects() {
        if let ManagerEffect::Persist { number, .. } = effect {
            again.handle(Time(0), ManagerEvent::Persisted(number));
        }
    }
    assert!(*again.map() == last, "epoch {}", again.map().epoch());
    let (_, known, _) = RaftManager::force_new(&log, NodeId(1)).expect("is forced");
    assert!(*known.map() == last, "epoch {}", known.map().epoch());
}
