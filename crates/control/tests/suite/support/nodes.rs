//! Nodes with their agents, the network between them, their control logs and folders, in one thread
//! under one clock. Instances are simulated in a few lines: they open, report the ends of their
//! logs, and their primaries request admissions.

use std::collections::BTreeMap;
use std::sync::Arc;

use zerohop_base::time::Time;
use zerohop_control::agent::{
    Agent, AgentEffect, AgentEvent, AgentSettings, ControlRole, EndReason, GroupRequest, LogEndQuery,
    LogNotice,
};
use zerohop_control::command::{ControlCommand, LogEnd, LogReport, ManagerId, ManagerInfo};
use zerohop_control::manager::LeadSettings;
use zerohop_placement::{Address, ClusterMap, GroupState, NodeState};
use zerohop_wire::ids::{Incarnation, InstanceId, KeyspaceId, LogIndex, NodeId, PartitionEpoch, PartitionId};
use zerohop_wire::messages::ClusterId;

use super::disk::Disk;
use super::node_check::NodeChecker;
use super::random::Random;

/// The parameters of a run.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) managers: usize,
    pub(crate) others: usize,
    /// Lost messages, per mille.
    pub(crate) loss: u64,
    pub(crate) repeats: u64,
    pub(crate) late: u64,
    pub(crate) delay_max: u64,
    pub(crate) log_entries_max: usize,
}

pub(crate) enum SimulatedNodeEvent {
    Tick {
        at: usize,
        life: u64,
    },
    Message {
        to: Address,
        bytes: Vec<u8>,
    },
    Synced {
        at: usize,
        life: u64,
        number: u64,
    },
    Opened {
        at: usize,
        life: u64,
    },
    LogEnds {
        at: usize,
        life: u64,
        expected: Vec<LogEndQuery>,
    },
    /// Primaries repeat their requests.
    RepeatRequests {
        at: usize,
        life: u64,
    },
    Start {
        at: usize,
    },
    /// An event of the caller, which handles it.
    Other(u64),
}

/// A machine: the contents of its disks, and its process.
pub(crate) struct Machine {
    pub(crate) address: Address,
    pub(crate) agent: Option<Agent>,
    pub(crate) life: u64,
    started: u64,
    pub(crate) control: Disk,
    /// Its manager number, if it is a manager; a new number after the loss of its disk.
    pub(crate) manager: Option<ManagerId>,
    /// Whether it has had a control log since its disk was made.
    has_log: bool,
    is_bootstrap_member: bool,
    /// The node number in its folder.
    pub(crate) number: Option<NodeId>,
    first_instance: InstanceId,
    pub(crate) incarnation: Incarnation,
    /// The map that its instances have.
    pub(crate) map: Arc<ClusterMap>,
    intact: bool,
    closed: bool,
    pub(crate) waiting: BTreeMap<u64, u64>,
    /// Notices in its log.
    pub(crate) log_notices: Vec<LogNotice>,
}

pub(crate) struct Nodes {
    pub(crate) now: u64,
    order: u64,
    event_queue: BTreeMap<(u64, u64, u64), SimulatedNodeEvent>,
    pub(crate) machines: Vec<Machine>,
    bootstrap_members: Vec<ManagerInfo>,
    /// The addresses of managers, as all shells know them.
    pub(crate) moved: Vec<ManagerInfo>,
    pub(crate) network_cuts: BTreeMap<(usize, usize), u64>,
    pub(crate) setting: Setting,
    pub(crate) faults_end: u64,
    network: Random,
    schedule: Random,
    pub(crate) faults: Random,
    pub(crate) checker: NodeChecker,
    pub(crate) digest: u64,
    tokens: u64,
}

fn address(at: usize, port: usize) -> Address {
    Address::new(&format!("node-{at}:{}", 7400 + port)).expect("is an address")
}

fn machine(at: usize, members: &[ManagerInfo]) -> Machine {
    Machine {
        address: address(at, 0),
        agent: None,
        life: 0,
        started: 0,
        control: Disk::default(),
        manager: members.get(at).map(|member| member.id),
        has_log: false,
        is_bootstrap_member: at < members.len(),
        number: None,
        first_instance: InstanceId(0),
        incarnation: Incarnation(0),
        map: Arc::default(),
        intact: true,
        closed: false,
        waiting: BTreeMap::new(),
        log_notices: Vec::new(),
    }
}

pub(crate) const CLUSTER: ClusterId = ClusterId([9; 16]);

impl Nodes {
    pub(crate) fn new(seed: u64, setting: Setting) -> Nodes {
        let root = Random::new(seed);
        let members: Vec<ManagerInfo> = (0..setting.managers)
            .map(|at| ManagerInfo { id: ManagerId(at as u64 + 1), addr: address(at, 0) })
            .collect();
        let machines = (0..setting.managers + setting.others).map(|at| machine(at, &members));
        Nodes {
            now: 0,
            order: 0,
            event_queue: BTreeMap::new(),
            machines: machines.collect(),
            bootstrap_members: members.clone(),
            moved: Vec::new(),
            network_cuts: BTreeMap::new(),
            setting,
            faults_end: u64::MAX,
            network: root.fork(12),
            schedule: root.fork(13),
            faults: root.fork(14),
            checker: NodeChecker::default(),
            digest: seed,
            tokens: 0,
        }
    }

    /// Runs until this time, or until the next event of the caller, which is returned.
    pub(crate) fn run(&mut self, until: u64) -> Option<u64> {
        while self.checker.violations.is_empty() {
            let Some(entry) = self.event_queue.first_entry().filter(|entry| entry.key().0 <= until) else {
                break;
            };
            self.now = entry.key().0;
            match entry.remove() {
                SimulatedNodeEvent::Other(what) => return Some(what),
                event => self.happen(event),
            }
        }
        self.now = until;
        None
    }

    pub(crate) fn at(&mut self, time: u64, event: SimulatedNodeEvent) {
        self.order += 1;
        let draw = self.schedule.below(1 << 20);
        self.event_queue.insert((time, draw, self.order), event);
    }

    fn hash_event(&mut self, word: u64) {
        self.digest = Random::new(self.digest ^ word).next();
    }

    fn happen(&mut self, event: SimulatedNodeEvent) {
        match event {
            SimulatedNodeEvent::Tick { at, life } if self.machines[at].life == life => {
                self.handle_event(at, AgentEvent::Tick);
                self.schedule_tick(at);
            }
            SimulatedNodeEvent::Synced { at, life, number } if self.machines[at].life == life => {
                self.machines[at].control.sync(number);
                self.handle_event(at, AgentEvent::Persisted(number));
            }
            SimulatedNodeEvent::Opened { at, life } if self.machines[at].life == life => {
                let Machine { intact, closed, .. } = self.machines[at];
                self.handle_event(at, AgentEvent::Opened { intact, closed });
            }
            SimulatedNodeEvent::LogEnds { at, life, expected } if self.machines[at].life == life => {
                let end = |one: &LogEndQuery| LogReport {
                    keyspace: one.keyspace,
                    partition: one.partition,
                    epoch: one.epoch,
                    instance: one.instance,
                    end: LogEnd { epoch: 1, index: LogIndex(1 + at as u64) },
                    intact: false,
                };
                self.handle_event(at, AgentEvent::LogEnds(expected.iter().map(end).collect()));
            }
            SimulatedNodeEvent::RepeatRequests { at, life } if self.machines[at].life == life => {
                self.propose_admissions(at);
                self.at(self.now + 150_000, SimulatedNodeEvent::RepeatRequests { at, life });
            }
            SimulatedNodeEvent::Message { to, bytes } => {
                if let Some(at) = self.machines.iter().position(|machine| machine.address == to) {
                    self.handle_event(at, AgentEvent::Received { bytes: &bytes });
                    self.schedule_tick(at);
                }
            }
            SimulatedNodeEvent::Start { at } => self.start(at),
            _ => {}
        }
    }

    fn schedule_tick(&mut self, at: usize) {
        let machine = &self.machines[at];
        let Some(agent) = &machine.agent else { return };
        let wake = agent.tick_due();
        if wake != Time::NEVER {
            let time = (machine.started + wake.0).max(self.now + 1);
            let life = machine.life;
            // One tick for each time is enough; an earlier schedule for a later time does no harm.
            let is_there = self.event_queue.range((time, 0, 0)..(time + 1, 0, 0)).any(
                |(_, event)| matches!(event, SimulatedNodeEvent::Tick { at: other, .. } if *other == at),
            );
            if !is_there {
                self.at(time, SimulatedNodeEvent::Tick { at, life });
            }
        }
    }

    pub(crate) fn start(&mut self, at: usize) {
        if self.machines[at].agent.is_some() {
            return;
        }
        let moved = self.moved.clone();
        let (members, newest) = (self.bootstrap_members.clone(), self.newest());
        let random = self.faults.next() | 1;
        let seed = self.schedule.next();
        let machine = &mut self.machines[at];
        machine.life += 1;
        machine.started = self.now;
        machine.incarnation = Incarnation(random);
        let log = machine.control.crash(&mut self.faults);
        let control = match machine.manager {
            None => ControlRole::No,
            Some(_) if !log.is_empty() => ControlRole::Log(log),
            Some(id) if machine.is_bootstrap_member && !machine.has_log => {
                let places = (0..self.setting.managers + self.setting.others).map(|at| address(at, 0));
                ControlRole::Bootstrap { id, members: members.clone(), addresses: places.collect() }
            }
            Some(id) => ControlRole::New { id },
        };
        let mut settings = AgentSettings::new(seed, CLUSTER, machine.incarnation, machine.address.clone());
        settings.node = machine.number;
        settings.instances = vec![address(at, 1), address(at, 2)];
        settings.domain = at as u32;
        settings.contacts = members.iter().map(|member| member.addr.clone()).collect();
        settings.contacts.extend(moved.iter().map(|one| one.addr.clone()));
        settings.moved = moved;
        settings.control = control;
        settings.leader =
            LeadSettings { replace_after_ms: 3_000, move_max_ms: 5_000, ..LeadSettings::default() };
        settings.silent_ms = 3_000;
        settings.log_entries_max = self.setting.log_entries_max;
        let (agent, good) = match Agent::open(Time(0), settings) {
            Ok(opened) => opened,
            Err(error) => {
                self.checker.violation(format!("node {at} does not start: {error}"));
                return;
            }
        };
        machine.control.truncate(good);
        machine.agent = Some(agent);
        machine.map = Arc::default();
        let life = machine.life;
        self.checker.starts(at, newest);
        self.at(self.now + 1, SimulatedNodeEvent::Tick { at, life });
    }

    /// The newest epoch of all maps that nodes follow.
    fn newest(&self) -> u64 {
        let epochs = self.machines.iter().filter_map(|machine| machine.agent.as_ref());
        epochs.map(|agent| agent.map().epoch().get()).max().unwrap_or(0)
    }

    pub(crate) fn handle_event(&mut self, at: usize, event: AgentEvent<'_>) {
        let machine = &mut self.machines[at];
        let Some(agent) = machine.agent.as_mut() else { return };
        let effects = agent.handle(Time(self.now - machine.started), event);
        let map = Arc::clone(agent.map());
        if let Some(manager) = agent.manager()
            && let Some(term) = manager.leading()
        {
            let id = manager.id();
            self.checker.record_leader(term, id);
        }
        self.checker.has(at, &map);
        self.perform_effects(at, effects);
    }

    fn perform_effects(&mut self, at: usize, effects: Vec<AgentEffect>) {
        let life = self.machines[at].life;
        for effect in effects {
            match effect {
                AgentEffect::Persist { number, bytes, replace } => {
                    self.hash_event(number ^ bytes.len() as u64);
                    self.machines[at].control.write(number, bytes, replace);
                    self.machines[at].has_log = true;
                    let done = self.now + 20 + self.network.below(800);
                    self.at(done, SimulatedNodeEvent::Synced { at, life, number });
                }
                AgentEffect::Send { to, bytes, .. } => self.transmit(at, &to, bytes),
                AgentEffect::Cluster(_) => {}
                AgentEffect::Open(map) => {
                    self.checker.opens(at, &map);
                    self.machines[at].map = map;
                    let done = self.now + 100 + self.network.below(50_000);
                    self.at(done, SimulatedNodeEvent::Opened { at, life });
                }
                AgentEffect::Map(delta) => match self.machines[at].map.apply(&delta) {
                    Ok(map) => self.machines[at].map = Arc::new(map),
                    Err(error) => self.checker.violation(format!("node {at} receives a gap: {error}")),
                },
                AgentEffect::MapReplaced(map) => {
                    if map.epoch() <= self.machines[at].map.epoch() {
                        self.checker.violation(format!("node {at} goes back to {}", map.epoch()));
                    }
                    self.machines[at].map = map;
                }
                AgentEffect::Joined { node, first_instance, .. } => {
                    let machine = &mut self.machines[at];
                    (machine.number, machine.first_instance) = (Some(node), first_instance);
                    self.at(self.now + 1, SimulatedNodeEvent::RepeatRequests { at, life });
                }
                AgentEffect::Managers(_) => {}
                AgentEffect::Log(notice) => self.machines[at].log_notices.push(notice),
                AgentEffect::RequestLogEnds(expected) => {
                    let done = self.now + self.network.below(5_000);
                    self.at(done, SimulatedNodeEvent::LogEnds { at, life, expected });
                }
                AgentEffect::Answered { token, result } => {
                    self.machines[at].waiting.remove(&token);
                    self.checker.answered(token, &result);
                }
                AgentEffect::WritesMayBeLost { .. } => self.checker.saw("logs chosen in doubt"),
                AgentEffect::Ended(why) => self.ended(at, &why),
            }
        }
    }

    fn ended(&mut self, at: usize, why: &EndReason) {
        self.checker.saw(match why {
            EndReason::AnotherStart { .. } => "another start",
            EndReason::BootstrappedBefore { .. } => "bootstrapped before",
            EndReason::Removed { .. } => "removed",
            EndReason::Refused { .. } | EndReason::OtherCluster { .. } => "refused",
        });
        if matches!(why, EndReason::Refused { .. } | EndReason::OtherCluster { .. }) {
            self.checker.violation(format!("node {at} ends: {why}"));
        }
        self.machines[at].has_log |= matches!(why, EndReason::BootstrappedBefore { .. });
        if matches!(why, EndReason::Removed { .. }) {
            self.machines[at].number = None;
        }
        if let EndReason::BootstrappedBefore { .. } = why {
            self.machines[at].manager = Some(ManagerId(self.faults.next() | 1 << 40));
        }
        self.crash(at, 300_000);
    }

    fn transmit(&mut self, at: usize, to: &Address, bytes: Vec<u8>) {
        self.hash_event(bytes.len() as u64);
        let Some(target) = self.machines.iter().position(|machine| machine.address == *to) else { return };
        if self.network_cuts.get(&(at, target)).is_some_and(|until| *until > self.now) {
            return;
        }
        let faults = self.now < self.faults_end;
        if faults && self.network.chance(self.setting.loss) {
            return;
        }
        let copies = if faults && self.network.chance(self.setting.repeats) { 2 } else { 1 };
        for _ in 0..copies {
            let mut delay = 20 + self.network.below(self.setting.delay_max);
            if faults && self.network.chance(self.setting.late) {
                delay += self.network.below(2_000_000);
            }
            let (to, bytes) = (to.clone(), bytes.clone());
            self.at(self.now + delay, SimulatedNodeEvent::Message { to, bytes });
        }
    }

    /// The process dies, and starts again after a while.
    pub(crate) fn crash(&mut self, at: usize, down: u64) {
        let machine = &mut self.machines[at];
        if machine.agent.take().is_some() {
            machine.life += 1;
            machine.intact = self.faults.chance(500);
            machine.closed = machine.intact && self.faults.chance(300);
            for token in std::mem::take(&mut self.machines[at].waiting).into_keys() {
                self.checker.drop_request(token);
            }
            self.at(self.now + down, SimulatedNodeEvent::Start { at });
        }
    }

    /// Its disks are lost: another node starts in its place, with another manager, or with one that
    /// would bootstrap the group.
    pub(crate) fn lose_disks(&mut self, at: usize) {
        let id = ManagerId(self.faults.next() | 1 << 40);
        let machine = &mut self.machines[at];
        if machine.is_bootstrap_member && self.setting.managers > 1 && id.0.is_multiple_of(2) {
            machine.has_log = false;
            (machine.control, machine.number) = (Disk::default(), None);
            return;
        }
        machine.control = Disk::default();
        machine.number = None;
        machine.manager = machine.manager.map(|_| id);
    }

    /// Adds a machine with a copy of a machine's folder; returns its index.
    pub(crate) fn copy(&mut self, of: usize) -> usize {
        let at = self.machines.len();
        let number = self.machines[of].number;
        self.machines.push(Machine { number, ..machine(at, &[]) });
        at
    }

    pub(crate) fn operate(&mut self, at: usize, command: ControlCommand) -> u64 {
        self.tokens += 1;
        let token = self.tokens;
        self.checker.record_request(token);
        self.machines[at].waiting.insert(token, self.now);
        if self.machines[at].agent.is_none() {
            self.machines[at].waiting.remove(&token);
            self.checker.drop_request(token);
        }
        self.handle_event(at, AgentEvent::Operate { token, command });
        self.schedule_tick(at);
        token
    }

    pub(crate) fn managers(&self) -> Vec<ManagerInfo> {
        let info =
            |machine: &Machine| machine.manager.map(|id| ManagerInfo { id, addr: machine.address.clone() });
        self.machines.iter().filter_map(info).collect()
    }

    pub(crate) fn leader(&self) -> Option<usize> {
        let term = |machine: &Machine| machine.agent.as_ref()?.manager()?.leading();
        (0..self.machines.len())
            .filter(|at| term(&self.machines[*at]).is_some())
            .max_by_key(|at| term(&self.machines[*at]))
    }

    /// Requests admissions; in this world a copy is complete at once.
    fn propose_admissions(&mut self, at: usize) {
        let machine = &self.machines[at];
        let map = Arc::clone(&machine.map);
        let up = |one: InstanceId| {
            let node = map.instance(one).and_then(|one| map.node(one.node));
            node.is_some_and(|node| node.state() != NodeState::Down)
        };
        let mut requests: Vec<(InstanceId, KeyspaceId, PartitionId, PartitionEpoch, GroupRequest)> =
            Vec::new();
        let own = (0..2).map(|n| InstanceId(machine.first_instance.get() + n));
        for instance in own {
            for (keyspace, partition, group) in map.partitions_of(instance) {
                if group.primary != instance || group.state == GroupState::Recovering {
                    continue;
                }
                let config = map.keyspace(keyspace).expect("is in the map").config();
                let few = group.in_sync.len() + 1 < usize::from(config.min_in_sync);
                let ready = group.followers.iter().copied().find(|one| up(*one));
                let down = group.in_sync.iter().copied().find(|one| !up(*one));
                let request = match (ready, down) {
                    (Some(ready), _) if few || group.state == GroupState::Admitting => {
                        GroupRequest::Admit(ready)
                    }
                    (_, Some(down)) => GroupRequest::Remove(down),
                    _ => continue,
                };
                requests.push((instance, keyspace, partition, group.epoch, request));
            }
        }
        for (instance, keyspace, partition, epoch, request) in requests {
            self.handle_event(
                at,
                AgentEvent::InstanceProposes { instance, keyspace, partition, epoch, change: request },
            );
        }
        self.schedule_tick(at);
    }
}
