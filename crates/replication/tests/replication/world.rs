//! Four instances, a control group, clients, and a network between them that loses, repeats, delays and cuts messages.

mod faults;

use std::collections::{BTreeMap, BTreeSet};

use zerohop_base::random::Random;
use zerohop_engine::Durability;
use zerohop_partition::Token;
use zerohop_replication::{Digest, GroupChange, LogEnd, Member, Role};
use zerohop_wire::Message;
use zerohop_wire::ids::{Incarnation, InstanceId, PartitionEpoch};
use zerohop_wire::messages::Outcome;

use super::check::Checker;
use super::client::SimulatedClient;
use super::control::{ControlBug, ControlModel, Map};
use super::host::{HostOutput, SimulatedHost, key_of, with_frame};
use super::totals::Totals;

/// The most waiting events. Correct members have far fewer in flight.
const QUEUE_MAX: usize = 100_000;
pub const HOSTS: usize = 4;
const CLIENTS: u64 = 4;
const TICK_US: u64 = 5_000;
const CONTROL_US: u64 = 50_000;

/// The parameters of a run.
#[derive(Clone, Copy, Debug)]
pub struct ReplicationScenario {
    pub seed: u64,
    pub faults_us: u64,
    pub control_bug: Option<ControlBug>,
}

#[derive(Debug)]
enum WorldEvent {
    Tick(usize),
    Control,
    Fault,
    ClientPoll,
    Start(usize),
    /// A process is killed, and restarts at once.
    Restart(usize),
    /// These two hear nothing of each other until the network is repaired.
    Cut(usize, usize),
    /// The network is repaired.
    Repair,
    /// A disk has room again.
    Room(usize),
    Frame {
        to: Member,
        bytes: Vec<u8>,
    },
    Request {
        host: usize,
        token: Token,
        bytes: Vec<u8>,
    },
    Answer {
        token: Token,
        bytes: Vec<u8>,
    },
    Refused {
        token: Token,
    },
    MapFor {
        host: usize,
        map: Map,
    },
    RequestMap {
        host: usize,
    },
    MessageRecorded {
        from: Member,
        ends: Vec<(LogEnd, u64)>,
        map_epoch: u64,
    },
    Proposal {
        partition: usize,
        from: Member,
        epoch: PartitionEpoch,
        change: GroupChange,
    },
    AdmissionRequest {
        host: usize,
        partition: usize,
        member: Member,
    },
}

/// The faults of a seed.
#[derive(Clone, Copy, Debug, Default)]
struct Kinds {
    loss: bool,
    repeats: bool,
    delays: bool,
    cuts: bool,
    crashes: bool,
    kills: bool,
    all_at_once: bool,
    pauses: bool,
    rates: bool,
    moves: bool,
    empties: bool,
    /// Bytes of one host's disk change.
    corruption: bool,
    /// Disks are full for a while.
    full: bool,
    /// Syncs fail, and are slow.
    syncs: bool,
}

pub struct ReplicationWorld {
    pub now: u64,
    pub control: ControlModel,
    pub check: Checker,
    pub hosts: Vec<SimulatedHost>,
    pub clients: Vec<SimulatedClient>,
    pub trace: u64,
    pub events: u64,
    queue: BTreeMap<(u64, u64), WorldEvent>,
    next: u64,
    net: Random,
    faults: Random,
    kinds: Kinds,
    is_healed: bool,
    cut: BTreeSet<(usize, usize)>,
    faults_end: u64,
    /// The host whose disk becomes corrupt in this run.
    corrupt_at: Option<usize>,
    partitions: usize,
    pub totals: Totals,
    /// Counters of replicas whose process has ended.
    past: Totals,
}

impl ReplicationWorld {
    pub fn new(scenario: ReplicationScenario) -> ReplicationWorld {
        let random = Random::new(scenario.seed);
        let mut draw = random.fork(1);
        let is_corrupting = scenario.seed % 5 == 3;
        let partitions = if scenario.seed % 5 == 4 { 16 } else { 2 };
        // Another member must have the data that becomes corrupt: everything acknowledged is on two disks.
        let is_sync = draw.chance(1, 2) | is_corrupting;
        let mut on = || draw.chance(1, 2);
        // Most lease faults need a cut network.
        let cuts = !scenario.seed.is_multiple_of(4);
        let kinds = Kinds {
            loss: on(),
            repeats: on(),
            delays: on(),
            cuts,
            crashes: on(),
            kills: on(),
            all_at_once: on(),
            pauses: on(),
            rates: on(),
            moves: on(),
            empties: on() && !is_corrupting,
            corruption: is_corrupting,
            full: on() && scenario.seed.is_multiple_of(3),
            syncs: on() && scenario.seed.is_multiple_of(3) && !is_corrupting,
        };
        let durability = if is_sync { Durability::Sync } else { Durability::Interval { ms: 100 } };
        let mut control = ControlModel::new(is_sync, partitions);
        control.bug = scenario.control_bug;
        let hosts = (0..HOSTS).map(|n| {
            let me = Member { instance: InstanceId(n as u32), incarnation: Incarnation(0) };
            let mut host =
                SimulatedHost::new(me, scenario.seed ^ (n as u64 + 1) << 32, durability, partitions);
            host.is_short_of_memory = is_corrupting;
            if kinds.rates {
                host.rate_ppm = draw.below(60_000) as i64 - 30_000;
                host.offset_ms = draw.below(400) as i64 - 200;
            }
            host
        });
        let hosts = hosts.collect();
        let map = control.map.clone();
        let clients = (1..=CLIENTS).map(|n| SimulatedClient::new(n, random.fork(100 + n), map.clone()));
        let mut world = ReplicationWorld {
            now: 0,
            control,
            check: Checker::default(),
            hosts,
            clients: clients.collect(),
            trace: 0,
            events: 0,
            queue: BTreeMap::new(),
            next: 0,
            net: random.fork(2),
            faults: random.fork(3),
            kinds,
            is_healed: false,
            cut: BTreeSet::new(),
            faults_end: scenario.faults_us,
            corrupt_at: None,
            partitions,
            totals: Totals::default(),
            past: Totals::default(),
        };
        for host in 0..HOSTS {
            world.at(1, WorldEvent::Start(host));
            world.at(2 + host as u64 * 1_000, WorldEvent::Tick(host));
        }
        world.at(10, WorldEvent::Control);
        world.at(20_000, WorldEvent::ClientPoll);
        world.at(500_000, WorldEvent::Fault);
        world
    }

    fn at(&mut self, after: u64, event: WorldEvent) {
        self.next += 1;
        self.queue.insert((self.now + after, self.next), event);
    }

    /// Sends an event. The control group counts as host 4; clients have no faults of their own.
    fn send(&mut self, from: usize, to: usize, event: impl Fn() -> WorldEvent) {
        let is_cut = self.cut.contains(&(from, to));
        let Kinds { loss, repeats, delays, .. } = self.kinds;
        let lost = loss && !self.is_healed && self.net.chance(1, 25);
        if is_cut || lost {
            return;
        }
        let copies = if repeats && !self.is_healed && self.net.chance(1, 20) { 2 } else { 1 };
        for _ in 0..copies {
            let mut delay = 50 + self.net.below(500);
            if delays && !self.is_healed && self.net.chance(1, 30) {
                let most = if self.net.chance(1, 10) { 1_500_000 } else { 60_000 };
                delay += self.net.below(most);
            }
            self.at(delay, event());
        }
    }

    /// Plays until this time, or until a check fails.
    pub fn run_until(&mut self, end: u64, mut stop: impl FnMut(&ReplicationWorld) -> bool) {
        while let Some((&(at, _), _)) = self.queue.first_key_value()
            && at <= end
            && self.check.violations.is_empty()
        {
            let Some(((at, _), event)) = self.queue.pop_first() else { break };
            self.now = at;
            self.events += 1;
            self.note(&event);
            self.run_to_end(event);
            if self.queue.len() > QUEUE_MAX {
                self.check.violations.push(format!("it runs away: {} events wait", self.queue.len()));
            }
            if self.events.is_multiple_of(256) && stop(self) {
                break;
            }
        }
    }

    /// Mixes an event into the trace of the run.
    fn note(&mut self, event: &WorldEvent) {
        let (sort, bytes): (u64, &[u8]) = match event {
            WorldEvent::Frame { bytes, .. } => (1, bytes),
            WorldEvent::Request { bytes, .. } => (2, bytes),
            WorldEvent::Answer { bytes, .. } => (3, bytes),
            WorldEvent::Proposal { .. } => (4, &[]),
            WorldEvent::MapFor { .. } => (5, &[]),
            _ => (6, &[]),
        };
        for word in
            bytes.chunks(8).map(|c| c.iter().fold(0, |w, b| w << 8 | u64::from(*b))).chain([sort, self.now])
        {
            self.trace = (self.trace ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(23);
        }
    }

    fn run_to_end(&mut self, event: WorldEvent) {
        let now = self.now;
        let mut out = Vec::new();
        match event {
            WorldEvent::Tick(host) => {
                self.at(TICK_US, WorldEvent::Tick(host));
                if now >= self.hosts[host].paused_until_us {
                    self.hosts[host].tick(now, &mut out);
                    self.carry_out(host, out);
                    if self.hosts[host].has_failed && self.hosts[host].live.is_some() {
                        // The state of its disk is unknown. The process ends, and its next start reads what the disk has.
                        self.stop(host, true);
                        self.past.disk_failures += 1;
                        self.at(50_000, WorldEvent::Start(host));
                    }
                    if self.events.is_multiple_of(3) {
                        self.send_to_control(host);
                    }
                }
            }
            WorldEvent::Start(host) => {
                if self.hosts[host].live.is_none() {
                    self.hosts[host].start(now);
                    self.send_to_control(host);
                }
            }
            WorldEvent::Cut(one, other) => {
                if !self.is_healed && !self.cut.is_empty() {
                    self.cut.extend([(one, other), (other, one)]);
                }
            }
            WorldEvent::Repair => self.cut.clear(),
            WorldEvent::Room(host) => self.hosts[host].disk.set_capacity(None),
            WorldEvent::Restart(host) => {
                if !self.is_healed && self.hosts[host].live.is_some() {
                    self.stop(host, false);
                    self.at(10_000, WorldEvent::Start(host));
                }
            }
            WorldEvent::Frame { to, bytes } => {
                let host = to.instance.0 as usize;
                if self.put_off(host, || WorldEvent::Frame { to, bytes: bytes.clone() }) {
                    return;
                }
                self.hosts[host].take_frame(now, &bytes, &mut out);
                self.carry_out(host, out);
            }
            WorldEvent::Request { host, token, bytes } => {
                if self.put_off(host, || WorldEvent::Request { host, token, bytes: bytes.clone() }) {
                    return;
                }
                if self.hosts[host].live.is_some() {
                    self.hosts[host].take_request(now, token, &bytes, &mut out);
                    self.carry_out(host, out);
                }
            }
            WorldEvent::MapFor { host, map } => {
                if self.put_off(host, || WorldEvent::MapFor { host, map: map.clone() }) {
                    return;
                }
                self.hosts[host].apply_map(now, &map, &mut out);
                self.carry_out(host, out);
            }
            WorldEvent::AdmissionRequest { host, partition, member } => {
                self.hosts[host].request_admission(now, partition, member, &mut out);
            }
            WorldEvent::RequestMap { host } => self.send_map(host),
            WorldEvent::MessageRecorded { from, ends, map_epoch } => {
                self.control.record_message(now, from, ends);
                if map_epoch < self.control.map.epoch {
                    self.send_map(from.instance.0 as usize);
                }
            }
            WorldEvent::Proposal { partition, from, epoch, change } => {
                self.control.handle_proposal(partition, from, epoch, change);
            }
            WorldEvent::Answer { token, bytes } => {
                let client = &mut self.clients[token.connection as usize - 1];
                let check = &mut self.check;
                with_frame(&bytes, |_, message| {
                    let Message::Answer(answer) = message else { panic!("{message:?}") };
                    client.take(now, token, answer, check);
                });
            }
            WorldEvent::Refused { token } => self.clients[token.connection as usize - 1].refused(now, token),
            WorldEvent::ClientPoll => {
                self.at(1_000, WorldEvent::ClientPoll);
                for client in 0..self.clients.len() {
                    let polled = self.clients[client].poll(now, &self.control.map, &mut self.check);
                    if let Some((to, token, bytes)) = polled {
                        let host = to.0 as usize;
                        self.send(5, host, || WorldEvent::Request { host, token, bytes: bytes.clone() });
                    }
                }
            }
            WorldEvent::Control => {
                self.at(CONTROL_US, WorldEvent::Control);
                self.run_control();
            }
            WorldEvent::Fault => {
                if now < self.faults_end {
                    let after = 80_000 + self.faults.below(600_000);
                    self.at(after, WorldEvent::Fault);
                    self.fault();
                }
            }
        }
    }

    /// Keeps an event for a paused process until the process continues.
    fn put_off(&mut self, host: usize, event: impl FnOnce() -> WorldEvent) -> bool {
        let until = self.hosts[host].paused_until_us;
        let is_paused = self.now < until && self.hosts[host].live.is_some();
        if is_paused {
            let after = until - self.now + 1;
            self.at(after, event());
        }
        is_paused
    }

    fn send_map(&mut self, host: usize) {
        let map = self.control.map.clone();
        self.send(4, host, || WorldEvent::MapFor { host, map: map.clone() });
    }

    fn send_to_control(&mut self, host: usize) {
        let Some(live) = &self.hosts[host].live else { return };
        let (from, map_epoch, ends) = (self.hosts[host].me, live.map.epoch, self.hosts[host].log_ends());
        self.send(host, 4, || WorldEvent::MessageRecorded { from, ends: ends.clone(), map_epoch });
    }

    fn run_control(&mut self) {
        let epoch = self.control.map.epoch;
        for partition in 0..self.partitions {
            if let Some(member) = self.control.look(self.now, partition) {
                let host = self.control.map.groups[partition].primary.instance.0 as usize;
                self.send(4, host, || WorldEvent::AdmissionRequest { host, partition, member });
            }
        }
        for (partition, is_all_gone) in std::mem::take(&mut self.control.losses) {
            self.check.may_lose(partition, self.now, is_all_gone);
        }
        if self.control.map.epoch > epoch {
            (0..HOSTS).for_each(|host| self.send_map(host));
        }
    }

    fn carry_out(&mut self, host: usize, out: Vec<HostOutput>) {
        let me = self.hosts[host].me;
        for one in out {
            match one {
                HostOutput::Peer(to, bytes) => {
                    let target = to.instance.0 as usize;
                    self.send(host, target, || WorldEvent::Frame { to, bytes: bytes.clone() });
                }
                HostOutput::Answer(token, partition, (epoch, has_copies), bytes) => {
                    let is_write = with_frame(&bytes, |_, message| {
                        matches!(message, Message::Answer(Ok(Outcome::Done { .. } | Outcome::Counter { .. })))
                    });
                    if is_write && !has_copies {
                        let text =
                            format!("{partition}: a write is acknowledged in {epoch}, with too few copies");
                        self.check.violations.push(text);
                    }
                    let tells = with_frame(&bytes, |_, message| match message {
                        Message::Answer(Err(failure)) => failure.code() >= 1 && is_outcome(failure),
                        _ => true,
                    });
                    if tells {
                        self.check.answered(partition, epoch, me.instance.0, self.now);
                    }
                    self.send(host, 5, || WorldEvent::Answer { token, bytes: bytes.clone() });
                }
                HostOutput::WrongOwner(token) => self.send(host, 5, || WorldEvent::Refused { token }),
                HostOutput::Propose(partition, epoch, change) => {
                    self.send(host, 4, || WorldEvent::Proposal { partition, from: me, epoch, change });
                }
                HostOutput::Differs(partition, who) => {
                    self.check.violations.push(format!("I6: {who:?} differs from the others in {partition}"));
                }
                HostOutput::FetchMap => self.send(host, 4, || WorldEvent::RequestMap { host }),
            }
        }
    }

    fn stop(&mut self, host: usize, power_goes: bool) {
        if let Some(live) = self.hosts[host].live.take() {
            for (_, replica) in live.replicas.iter() {
                let counts = replica.counts();
                self.past.repaired += counts.repaired;
                self.past.audits += counts.audits;
                self.past.corruption_found += counts.corruption_found;
                self.past.truncations += counts.truncations;
                self.past.states += counts.snapshots_installed;
                self.past.lease_expiries += counts.lease_expiries;
                self.past.queued_requests += counts.queued_requests;
                self.past.promotions += counts.promotions;
            }
            drop(live);
        }
        self.past.crashes += 1;
        if power_goes {
            self.hosts[host].disk.crash()
        } else {
            self.hosts[host].disk.power_off_clean()
        }
        if (self.kinds.rates || self.kinds.all_at_once) && self.faults.chance(1, 2) {
            // The clock was set while the process was down.
            self.hosts[host].offset_ms = self.faults.below(6_000) as i64 - 4_000;
        }
    }

    /// Whether every group is complete, and all its members have equal contents.
    pub fn is_converged(&mut self) -> bool {
        for partition in 0..self.partitions {
            let group = self.control.map.groups[partition].clone();
            let members: Vec<Member> = std::iter::once(group.primary).chain(group.others()).collect();
            if members.len() != 3 || group.in_sync.is_empty() {
                return false;
            }
            let mut digests: Vec<Digest> = Vec::new();
            for member in members {
                let host = &mut self.hosts[member.instance.0 as usize];
                let Some(live) = host.live.as_mut().filter(|_| host.me == member) else { return false };
                let Some(replica) = live.replicas.get(key_of(partition)) else { return false };
                if replica.role() == Role::Removed || replica.view().epoch != group.epoch {
                    return false;
                }
                // Corrupt entries are being repaired.
                let Ok(digest) = replica.digest(&mut live.engine) else { return false };
                digests.push(digest);
            }
            if digests.iter().any(|digest| digest.index != digests[0].index) {
                return false;
            }
            if digests.iter().any(|digest| *digest != digests[0]) {
                self.check.violations.push(format!("I6: {partition}: {digests:?}"));
                return true;
            }
        }
        true
    }

    pub fn sum(&mut self) -> Totals {
        for host in 0..HOSTS {
            let crashes = self.past.crashes;
            if self.hosts[host].live.is_some() {
                self.stop(host, false);
            }
            self.past.crashes = crashes;
        }
        let counts = &self.control.counts;
        self.totals = Totals {
            operations: self.check.operations,
            admissions: counts.admissions,
            removals: counts.removals,
            keeps: counts.keeps,
            readmissions: counts.readmissions,
            restarts_of_all: counts.restarts_of_all,
            moves: counts.moves,
            ..self.past
        };
        self.totals
    }
}

/// Whether a failure says something about a record.
fn is_outcome(failure: &zerohop_wire::Failure<'_>) -> bool {
    use zerohop_wire::Failure;
    !matches!(
        failure,
        Failure::Unavailable { .. }
            | Failure::Busy { .. }
            | Failure::ClockAhead { .. }
            | Failure::SessionExpired { .. }
            | Failure::DataCorrupt
            | Failure::DiskFull
            | Failure::DiskFailed
            // No wait is used here, so this means that a write may or may not have happened.
            | Failure::TimedOut { .. }
    )
}
