//! Partitions, clients and the network between them, under one clock and from one seed.

use std::collections::{BTreeMap, VecDeque};

use zerohop_base::time::Time;
use zerohop_transaction::{Durability, KeyspaceRange, Message, TransactionMessage};
use zerohop_wire::ids::{KeyspaceId, Timestamp};

use super::client::{ClientRequest, ClientsHistory, Map, TransactionClient};
use super::group::{ClientAnswer, Primary, PrimaryOutput, SimulatedPartition, owns};
use super::random::Random;
use super::serve::serve;

/// The kinds of faults and their rates, per mille.
#[derive(Clone, Debug)]
pub struct FaultRates {
    pub message_loss: u64,
    pub repeated: u64,
    pub late: u64,
    pub stale_map: u64,
    /// The mean times between failovers, splits and vanishing clients.
    pub failover_ms: u64,
    pub split_ms: u64,
    pub vanish_ms: u64,
    /// Sessions that are idle for this long are forgotten; 0: never.
    pub idle_us: u64,
    /// The time after which clients retry.
    pub again_us: u64,
}

#[derive(Clone, Debug)]
enum SimulationEvent {
    /// A message between partitions, as bytes.
    Deliver {
        group: usize,
        instance: usize,
        bytes: Vec<u8>,
    },
    Request {
        group: usize,
        instance: usize,
        client: usize,
        process: usize,
        call: u64,
        point: u64,
        request: ClientRequest,
    },
    Answer {
        client: usize,
        process: usize,
        call: u64,
        answer: ClientAnswer,
    },
    Commit {
        group: usize,
        epoch: u64,
    },
    Tick {
        group: usize,
    },
    Again {
        client: usize,
    },
    Next {
        client: usize,
    },
    Failover {
        group: usize,
    },
    Promote {
        group: usize,
    },
    Split {
        group: usize,
    },
    /// Clients learn of a split.
    Known {
        first: u64,
    },
    Vanish {
        client: usize,
    },
    EndFaults,
}

pub struct TransactionWorld {
    pub groups: Vec<SimulatedPartition>,
    clients: Vec<TransactionClient>,
    pub seen: ClientsHistory,
    map: Map,
    pub faults: FaultRates,
    is_healed: bool,
    calls_each: u32,
    now: u64,
    events: BTreeMap<(u64, u64), SimulationEvent>,
    numbers: u64,
    random: Random,
    pub trace: Option<VecDeque<String>>,
    pub instances: usize,
}

/// Faults end at this time.
const FAULTS_US: u64 = 8_000_000;
/// A `Drop` message is repeated this often, within this time.
const DROPS_AGAIN: u64 = 3;
const DROPS_AGAIN_US: u64 = 600_000;
/// By this time everything must have ended.
const END_US: u64 = 200_000_000;

impl TransactionWorld {
    pub fn new(seed: u64, traced: bool) -> TransactionWorld {
        let mut random = Random::new(seed);
        let count = 2 + random.below(3) as usize;
        let is_memory = random.chance(300);
        let is_quiet = random.chance(150);
        let mut some = |most: u64| if is_quiet || random.chance(400) { 0 } else { random.below(most) };
        let faults = FaultRates {
            message_loss: some(100),
            repeated: some(150),
            late: some(150),
            stale_map: some(200),
            failover_ms: some(3000),
            split_ms: some(3000),
            vanish_ms: some(3000),
            idle_us: some(20) * 100_000,
            again_us: 100_000 + some(20) * 100_000,
        };
        let durabilities: Vec<Durability> = (0..count)
            .map(|group| if is_memory && group + 1 == count { Durability::Memory } else { Durability::Sync })
            .collect();
        let groups = durabilities
            .iter()
            .enumerate()
            .map(|(group, durability)| {
                let keyspace = KeyspaceId(if *durability == Durability::Memory { 9 } else { 1 });
                let first = (group as u64) << 60;
                SimulatedPartition {
                    hash_range: KeyspaceRange { keyspace, first, last: first | ((1 << 60) - 1) },
                    durability: *durability,
                    log: Vec::new(),
                    primary: None,
                    deposed: Vec::new(),
                    epoch: 1,
                    instance: group,
                    skew_ms: random.below(100),
                    timestamp_bound: Timestamp::ZERO,
                }
            })
            .collect();
        let mut seen = ClientsHistory::default();
        let clients = (0..2 + random.below(5)).map(|_| TransactionClient::new(&mut seen)).collect();
        let mut world = TransactionWorld {
            groups,
            clients,
            seen,
            map: Map { firsts: (0..count as u64).map(|group| group << 60).collect(), durabilities },
            faults,
            is_healed: false,
            calls_each: 30,
            now: 0,
            events: BTreeMap::new(),
            numbers: 0,
            random,
            trace: traced.then(VecDeque::new),
            instances: count,
        };
        for group in 0..count {
            world.begin_primary(group);
            world.after(50_000, SimulationEvent::Tick { group });
            world.plan_failover(group);
            world.plan_split(group);
        }
        for client in 0..world.clients.len() {
            world.after(client as u64 * 100, SimulationEvent::Next { client });
            world.after(300_000, SimulationEvent::Again { client });
            world.plan_vanish(client);
        }
        world.after(FAULTS_US, SimulationEvent::EndFaults);
        world
    }

    fn trace(&mut self, what: impl FnOnce() -> String) {
        let now = self.now;
        if let Some(trace) = &mut self.trace {
            trace.push_back(format!("{now:>10} {}", what()));
        }
    }

    fn after(&mut self, us: u64, event: SimulationEvent) {
        self.numbers += 1;
        self.events.insert((self.now + us, self.numbers), event);
    }

    fn wall(&self, group: usize) -> Timestamp {
        Timestamp::from_millis(1_000_000 + self.now / 1000 + self.groups[group].skew_ms)
    }

    fn chance(&mut self, parts: u64) -> bool {
        !self.is_healed && self.random.chance(parts)
    }

    fn plan_failover(&mut self, group: usize) {
        if self.faults.failover_ms > 0 {
            let us = self.random.below(2000 * self.faults.failover_ms);
            self.after(us, SimulationEvent::Failover { group });
        }
    }

    fn plan_split(&mut self, group: usize) {
        if self.faults.split_ms > 0 {
            let us = self.random.below(2000 * self.faults.split_ms);
            self.after(us, SimulationEvent::Split { group });
        }
    }

    fn plan_vanish(&mut self, client: usize) {
        if self.faults.vanish_ms > 0 {
            let us = self.random.below(2000 * self.faults.vanish_ms);
            self.after(us, SimulationEvent::Vanish { client });
        }
    }

    fn begin_primary(&mut self, group: usize) {
        let (now, wall) = (Time(self.now), self.wall(group));
        let through_checkpoint = self.random.chance(300);
        self.groups[group].begin(now, wall, through_checkpoint);
    }

    /// Runs until everything has ended, or the time is over.
    pub fn run_to_end(&mut self) {
        while let Some(((at, _), event)) = self.events.pop_first() {
            self.now = at;
            if at > END_US || self.is_healed && self.has_ended() {
                break;
            }
            self.happen(event);
        }
    }

    /// Whether all clients are done, and nothing is left of their transactions.
    pub fn has_ended(&self) -> bool {
        self.clients.iter().all(|client| client.is_free() && client.done >= self.calls_each)
            && self.groups.iter().all(|group| {
                group
                    .primary
                    .as_ref()
                    .is_some_and(|one| one.transactions.is_idle() && one.appended.is_empty())
            })
    }

    fn happen(&mut self, event: SimulationEvent) {
        match event {
            SimulationEvent::Deliver { group, instance, bytes } => {
                let message = Message::decode(&bytes).unwrap();
                self.trace(|| format!("to {group}/{instance}: {} {:?}", message.id, message.what));
                let prefers_old = self.random.chance(200);
                self.with(group, instance, prefers_old, |primary, now, log| {
                    let mut effects = Vec::new();
                    primary.transactions.message(now, &mut primary.records, message, &mut effects);
                    primary.perform_effects(now, effects, log);
                });
            }
            SimulationEvent::Request { group, instance, client, process, call, point, request: query } => {
                if self.clients[client].process == process || self.random.chance(500) {
                    self.trace(|| format!("asks {group}/{instance}: client {client} call {call} {query:?}"));
                    self.with(group, instance, false, |primary, now, log| {
                        if owns(primary.records.hash_range)(point) {
                            serve(primary, now, log, (client, call), query);
                        }
                    });
                }
            }
            SimulationEvent::Answer { client, process, call, answer } => {
                if self.clients[client].process == process {
                    self.trace(|| format!("client {client} call {call}: answer {answer:?}"));
                    self.numbers += 1;
                    let now = self.numbers;
                    if matches!(answer, ClientAnswer::SessionExpired) {
                        self.seen.count("clients whose session is forgotten");
                        return self.begin_again(client);
                    }
                    self.clients[client].handle_answer(&mut self.seen, &self.map, (call, answer), now);
                    self.send_requests(client);
                    if self.clients[client].is_free() {
                        let us = self.random.below(20_000);
                        self.after(us, SimulationEvent::Next { client });
                    }
                }
            }
            SimulationEvent::Commit { group, epoch } => {
                if self.groups[group].epoch == epoch {
                    let count = 1 + self.random.below(4) as usize;
                    self.groups[group].commit(Time(self.now), count);
                    self.deliver_outputs(group);
                }
            }
            SimulationEvent::Tick { group } => {
                self.after(50_000, SimulationEvent::Tick { group });
                self.tick(group);
            }
            SimulationEvent::Again { client } => {
                self.after(self.faults.again_us, SimulationEvent::Again { client });
                self.send_again(client);
            }
            SimulationEvent::Next { client } => self.next_call(client),
            SimulationEvent::Failover { group } => self.fail_over(group),
            SimulationEvent::Promote { group } => {
                if self.groups[group].primary.is_none() {
                    self.begin_primary(group);
                    let epoch = self.groups[group].epoch;
                    self.trace(|| format!("{group} has a primary of epoch {epoch}"));
                }
            }
            SimulationEvent::Split { group } => self.split(group),
            SimulationEvent::Known { first } => {
                self.map.firsts.insert(first);
            }
            SimulationEvent::Vanish { client } => {
                if !self.is_healed && self.clients[client].done + 5 < self.calls_each {
                    self.seen.count("clients vanished");
                    self.plan_vanish(client);
                    self.begin_again(client);
                }
            }
            SimulationEvent::EndFaults => {
                self.is_healed = true;
                self.groups.iter_mut().for_each(|group| group.deposed.clear());
            }
        }
    }

    /// The client continues with a new session, and never learns the outcome of its present task.
    fn begin_again(&mut self, client: usize) {
        let done = self.clients[client].done;
        self.clients[client] = TransactionClient::new(&mut self.seen);
        self.clients[client].done = done;
        self.after(1000, SimulationEvent::Next { client });
    }

    fn next_call(&mut self, client: usize) {
        if self.clients[client].is_free() && self.clients[client].done < self.calls_each {
            self.numbers += 1;
            let group = self.random.below(self.map.durabilities.len() as u64) as usize;
            let when = (self.numbers, self.wall(group));
            self.clients[client].begin(&mut self.seen, &self.map, &mut self.random, when);
            self.send_requests(client);
        }
    }

    /// Sends the requests of the client.
    fn send_requests(&mut self, client: usize) {
        let unsent = std::mem::take(&mut self.clients[client].unsent);
        unsent.into_iter().for_each(|call| self.send_request(client, call));
    }

    /// Repeats all requests without an answer.
    fn send_again(&mut self, client: usize) {
        let calls: Vec<u64> =
            self.clients[client].pending.keys().copied().filter(|call| *call != 0).collect();
        calls.into_iter().for_each(|call| self.send_request(client, call));
    }

    fn send_request(&mut self, client: usize, call: u64) {
        let process = self.clients[client].process;
        let Some((point, query)) = self.clients[client].pending.get(&call).cloned() else { return };
        let Some(group) = self.groups.iter().position(|one| owns(one.hash_range)(point)) else { return };
        let instance = self.instance_of(group);
        self.transmit(SimulationEvent::Request {
            group,
            instance,
            client,
            process,
            call,
            point,
            request: query,
        });
    }

    fn instance_of(&mut self, group: usize) -> usize {
        let present = self.groups[group].instance;
        if self.chance(self.faults.stale_map) {
            let old = self.random.below(self.groups[group].deposed.len() as u64 + 1) as usize;
            return self.groups[group].deposed.get(old).map_or(present, |one| one.instance);
        }
        present
    }

    fn transmit(&mut self, event: SimulationEvent) {
        let copies = if self.chance(self.faults.message_loss) {
            0
        } else {
            1 + u64::from(self.chance(self.faults.repeated))
        };
        for _ in 0..copies {
            let mut us = 100 + self.random.below(3000);
            if self.chance(self.faults.late) {
                let is_very_late = self.random.chance(200);
                us += self.random.below(if is_very_late { 7_000_000 } else { 600_000 });
            }
            self.after(us, event.clone());
        }
    }

    fn tick(&mut self, group: usize) {
        let (now, wall) = (Time(self.now), self.wall(group));
        let one = &mut self.groups[group];
        let log = one.log.len();
        if let Some(primary) = &mut one.primary
            && self.faults.idle_us > 0
            && !self.is_healed
        {
            self.seen.add("sessions forgotten", primary.sweep(now, self.faults.idle_us) as u64);
        }
        for primary in one.primary.iter_mut().chain(&mut one.deposed) {
            primary.records.wall = wall;
            let mut effects = Vec::new();
            primary.transactions.tick(now, &mut primary.records, &mut effects);
            primary.perform_effects(now, effects, log);
        }
        self.deliver_outputs(group);
    }

    /// Runs `act` at the primary of an instance, or at a deposed primary there.
    fn with(
        &mut self,
        group: usize,
        instance: usize,
        prefers_old: bool,
        act: impl FnOnce(&mut Primary, Time, usize),
    ) {
        let now = Time(self.now);
        let wall = self.wall(group);
        let one = &mut self.groups[group];
        let log = one.log.len();
        let present = one.primary.as_mut().filter(|primary| primary.instance == instance);
        let old = one.deposed.iter_mut().rev().find(|primary| primary.instance == instance);
        let chosen = if prefers_old { old.or(present) } else { present.or(old) };
        if let Some(primary) = chosen {
            primary.records.wall = wall;
            act(primary, now, log);
        }
        self.deliver_outputs(group);
    }

    /// Sends the outputs of primaries, and commits their appended entries after a while.
    fn deliver_outputs(&mut self, group: usize) {
        let one = &mut self.groups[group];
        let epoch = one.epoch;
        let mut outs: Vec<PrimaryOutput> = Vec::new();
        for primary in &mut one.deposed {
            // Without leases it may not answer clients; messages to participants are no answers.
            let says = |out: &PrimaryOutput| matches!(out, PrimaryOutput::Message(message) if message.what.kind() <= 3 || message.what.kind() == 11);
            outs.extend(std::mem::take(&mut primary.out).into_iter().filter(says));
        }
        let mut is_behind = false;
        if let Some(primary) = &mut one.primary {
            outs.append(&mut primary.out);
            is_behind = !primary.appended.is_empty();
        }
        if is_behind {
            let is_slow = self.random.chance(100);
            let us = 200 + self.random.below(if is_slow { 60_000 } else { 3000 });
            self.after(us, SimulationEvent::Commit { group, epoch });
        }
        for out in outs {
            match out {
                PrimaryOutput::Message(message) => {
                    let group = self.groups.iter().position(|one| one.hash_range.has(message.to)).unwrap();
                    self.seen.count(NAMES[usize::from(message.what.kind()) - 1]);
                    let instance = self.instance_of(group);
                    let bytes = message.encode();
                    let event = SimulationEvent::Deliver { group, instance, bytes };
                    // `Drop` messages are rare, so that they are repeated in a changed state.
                    if matches!(message.what, TransactionMessage::Drop { .. })
                        && self.chance(2 * self.faults.repeated)
                    {
                        for _ in 0..DROPS_AGAIN {
                            let us = self.random.below(DROPS_AGAIN_US);
                            self.after(us, event.clone());
                        }
                    }
                    self.transmit(event);
                }
                PrimaryOutput::Client { client, call, answer } => {
                    // If the client is gone, the answer is ignored.
                    let process = self.clients[client].process;
                    self.transmit(SimulationEvent::Answer { client, process, call, answer });
                }
                PrimaryOutput::Loss(id) => {
                    self.seen.wrong.push(format!("{id}: a decided transaction is lost"))
                }
            }
        }
    }

    /// The map splits a partition.
    fn split(&mut self, group: usize) {
        let hash_range = self.groups[group].hash_range;
        // Each child must have at least one of the group's four records.
        if self.is_healed || hash_range.last - hash_range.first < 1 << 58 {
            return;
        }
        self.plan_split(group);
        self.seen.count("splits");
        let quiet = self.groups[group].primary.as_ref().map(|one| one.transactions.state().is_quiet());
        if quiet == Some(false) {
            self.seen.count("splits of what is prepared or untold");
        }
        let kept = (self.random.below(8) as usize, self.random.below(8) as usize);
        let upper = self.groups[group].split(kept);
        self.trace(|| format!("{group} is split; {kept:?} entries kept at most"));
        let (first, new) = (upper.hash_range.first, self.groups.len());
        self.groups.push(upper);
        self.after(50_000, SimulationEvent::Tick { group: new });
        self.plan_failover(new);
        self.plan_split(new);
        for child in [group, new] {
            let us = self.random.below(100_000);
            self.after(us, SimulationEvent::Promote { group: child });
        }
        let us = self.random.below(200_000);
        self.after(us, SimulationEvent::Known { first });
    }

    fn fail_over(&mut self, group: usize) {
        if self.is_healed {
            return;
        }
        self.plan_failover(group);
        if self.groups[group].primary.is_none() {
            return;
        }
        self.seen.count("failovers");
        let kept = self.random.below(8) as usize;
        let moves = self.random.chance(600);
        if moves {
            self.groups[group].instance = self.instances;
            self.instances += 1;
        }
        self.groups[group].depose(kept);
        if self.groups[group].deposed.len() > 2 {
            self.groups[group].deposed.remove(0);
        }
        self.trace(|| format!("{group} has no primary; {kept} entries kept at most"));
        let is_long = self.random.chance(300);
        let us = self.random.below(if is_long { 3_000_000 } else { 300_000 });
        self.after(us, SimulationEvent::Promote { group });
    }
}

/// The names of messages, by kind.
pub const NAMES: [&str; 11] = [
    "Prepare",
    "Release",
    "Commit",
    "Drop",
    "Prepared",
    "Busy",
    "Refused",
    "Released",
    "Applied",
    "NotPrepared",
    "Ask",
];
