//! Managers, their network and disks, and clients, in one thread under one clock.

use std::collections::BTreeMap;
use std::sync::Arc;

use zerohop_base::time::Time;
use zerohop_control::command::{CommandRequest, ControlCommand, ManagerId, ManagerInfo, RequestId};
use zerohop_control::manager::{ManagerEffect, ManagerEvent, ManagerSettings, RaftManager, RequestAnswer};
use zerohop_placement::{Address, ClusterMap};

use super::check::Checker;
use super::disk::Disk;
use super::random::Random;
use super::simulated_manager_event::SimulatedManagerEvent;
use super::workload;

mod finish;
mod membership;

use membership::choose_members;

/// The time at which faults end; microseconds. Later everything must be well again.
const FAULTS_END: u64 = 20_000_000;
const QUIET_END: u64 = 32_000_000;
/// The time at which another manager takes the place of the leader, in runs with spares; microseconds.
const LEADER_REPLACED: u64 = 26_000_000;
/// A client asks another manager if it has no answer for this long.
const PATIENCE: u64 = 700_000;
const CLIENTS: u64 = 4;

/// The parameters of a seed.
#[derive(Clone, Debug)]
struct ManagerScenario {
    managers: u64,
    loss: u64,
    repeats: u64,
    delay_max: u64,
    late: u64,
    crashes: u64,
    lost_disks: bool,
    network_cuts: bool,
    pauses: bool,
    clocks: bool,
    transfers: bool,
    /// Managers that are no members at the start. Clients choose other members again and again.
    spares: u64,
    log_entries_max: usize,
}

struct ManagerSlot {
    id: ManagerId,
    addr: Address,
    disk: Disk,
    process: Option<RaftManager>,
    /// The number of its process, so that no event for one process reaches the next.
    life: u64,
    started: u64,
    /// Its clock's microseconds per thousand microseconds of the world.
    rate: u64,
    paused_until: u64,
    map: Arc<ClusterMap>,
    lost_disk: bool,
}

struct CommandClient {
    number: u64,
    applied_count: u64,
    pending: Option<(CommandRequest, u64)>,
    target: usize,
    token: u64,
    turn: u64,
}

pub(crate) struct ManagerWorld {
    seed: u64,
    now: u64,
    order: u64,
    event_queue: BTreeMap<(u64, u64, u64), SimulatedManagerEvent>,
    slots: Vec<ManagerSlot>,
    clients: Vec<CommandClient>,
    /// Ordered pairs of slots between which no message passes, with the end of that time.
    network_cuts: BTreeMap<(usize, usize), u64>,
    scenario: ManagerScenario,
    network: Random,
    schedule: Random,
    faults: Random,
    work: Random,
    pub(crate) checker: Checker,
    pub(crate) digest: u64,
    events: u64,
}

fn address(slot: usize) -> Address {
    Address::new(&format!("manager-{slot}:7400")).expect("is an address")
}

impl ManagerWorld {
    pub(crate) fn new(seed: u64) -> ManagerWorld {
        let root = Random::new(seed);
        let mut draw = root.fork(1);
        let scenario = ManagerScenario {
            managers: *draw.pick(&[1, 3, 3, 3, 5]),
            loss: *draw.pick(&[0, 0, 20, 100]),
            repeats: *draw.pick(&[0, 30]),
            delay_max: *draw.pick(&[500, 2_000, 20_000]),
            late: *draw.pick(&[0, 10]),
            crashes: *draw.pick(&[0, 300, 700]),
            lost_disks: draw.chance(400),
            network_cuts: draw.chance(600),
            pauses: draw.chance(300),
            clocks: draw.chance(400),
            transfers: draw.chance(300),
            spares: 0,
            log_entries_max: *draw.pick(&[16, 64, 1024]),
        };
        // A group of one manager does not survive the loss of that manager's disk.
        let spares = if scenario.managers > 1 && root.fork(6).chance(500) { 2 } else { 0 };
        let scenario = ManagerScenario { spares, ..scenario };
        let members: Vec<ManagerInfo> = (0..scenario.managers as usize)
            .map(|slot| ManagerInfo { id: ManagerId(slot as u64 + 1), addr: address(slot) })
            .collect();
        let logs = members.iter().map(|member| (member.id, RaftManager::bootstrap(member.id, &members)));
        let spares = (1..=scenario.spares).map(|spare| ManagerId(100 + spare));
        let logs = logs.chain(spares.map(|id| (id, RaftManager::join(id))));
        let slots = logs.enumerate().map(|(slot, (id, log))| ManagerSlot {
            id,
            addr: address(slot),
            disk: Disk::with(log),
            process: None,
            life: 0,
            started: 0,
            rate: if scenario.clocks { 900 + draw.below(200) } else { 1000 },
            paused_until: 0,
            map: Arc::default(),
            lost_disk: false,
        });
        let slots: Vec<ManagerSlot> = slots.collect();
        let clients = (0..CLIENTS)
            .map(|_| CommandClient {
                number: 0,
                applied_count: 0,
                pending: None,
                target: 0,
                token: 0,
                turn: 0,
            })
            .collect();
        let mut world = ManagerWorld {
            seed,
            now: 0,
            order: 0,
            event_queue: BTreeMap::new(),
            slots,
            clients,
            network_cuts: BTreeMap::new(),
            scenario,
            network: root.fork(2),
            schedule: root.fork(3),
            faults: root.fork(4),
            work: root.fork(5),
            checker: Checker::default(),
            digest: seed,
            events: 0,
        };
        for slot in 0..world.slots.len() {
            world.at(0, SimulatedManagerEvent::Start { slot });
        }
        for client in 0..CLIENTS as usize {
            world.alarm(client, 1000 * client as u64);
        }
        world.at(200_000, SimulatedManagerEvent::Fault);
        world.at(FAULTS_END, SimulatedManagerEvent::Heal);
        if world.scenario.spares > 0 {
            world.at(LEADER_REPLACED, SimulatedManagerEvent::ReplaceLeader);
        }
        world
    }

    /// Runs to the end; the checker has the violations.
    pub(crate) fn run_to_end(mut self) -> ManagerWorld {
        while let Some(((now, ..), event)) = self.event_queue.pop_first() {
            if now > QUIET_END || !self.checker.violations.is_empty() {
                break;
            }
            self.now = now;
            self.happen(event);
        }
        if self.checker.violations.is_empty() {
            self.finish();
        }
        self
    }

    fn at(&mut self, time: u64, event: SimulatedManagerEvent) {
        self.order += 1;
        let draw = self.schedule.below(1 << 20);
        self.event_queue.insert((time, draw, self.order), event);
    }

    fn alarm(&mut self, client: usize, time: u64) {
        self.clients[client].turn += 1;
        let turn = self.clients[client].turn;
        self.at(time, SimulatedManagerEvent::Client { client, turn });
    }

    fn hash_event(&mut self, word: u64) {
        self.digest = Random::new(self.digest ^ word).next();
        self.events += 1;
    }

    fn happen(&mut self, event: SimulatedManagerEvent) {
        match event {
            SimulatedManagerEvent::Tick { slot, life } if self.slots[slot].life == life => {
                self.handle_event(slot, ManagerEvent::Tick);
                let wake = self.tick_due(slot);
                self.at(wake, SimulatedManagerEvent::Tick { slot, life });
            }
            SimulatedManagerEvent::Synced { slot, life, number } if self.slots[slot].life == life => {
                self.slots[slot].disk.sync(number);
                self.handle_event(slot, ManagerEvent::Persisted(number));
            }
            SimulatedManagerEvent::Tick { .. } | SimulatedManagerEvent::Synced { .. } => {}
            SimulatedManagerEvent::Message { to, from, bytes } => {
                if let Some(slot) = self.slots.iter().position(|slot| slot.id == to) {
                    self.handle_event(slot, ManagerEvent::Received { from, bytes: &bytes });
                }
            }
            SimulatedManagerEvent::Start { slot } => self.start(slot),
            SimulatedManagerEvent::Query { slot, client, token, request } => {
                let token = token << 8 | client as u64;
                self.handle_event(slot, ManagerEvent::Request { token, request });
            }
            SimulatedManagerEvent::Answer { client, token, answer } => self.answered(client, token, answer),
            SimulatedManagerEvent::Client { client, turn } if self.clients[client].turn == turn => {
                self.client(client)
            }
            SimulatedManagerEvent::Client { .. } => {}
            SimulatedManagerEvent::Fault => self.fault(),
            SimulatedManagerEvent::Heal => self.end_faults(),
            SimulatedManagerEvent::ReplaceLeader => self.replace_leader(),
        }
    }

    fn local(&self, slot: usize) -> Time {
        let slot = &self.slots[slot];
        Time((self.now - slot.started) * slot.rate / 1000)
    }

    fn tick_due(&self, slot: usize) -> u64 {
        let one = &self.slots[slot];
        let wake = one.process.as_ref().map_or(Time(0), RaftManager::tick_due);
        (one.started + wake.0 * 1000 / one.rate).max(one.paused_until).max(self.now) + 1
    }

    fn start(&mut self, at: usize) {
        if self.slots[at].process.is_some() {
            return;
        }
        let seed = self.seed ^ (self.slots[at].life << 32) ^ at as u64;
        let log_entries_max = self.scenario.log_entries_max;
        let slot = &mut self.slots[at];
        slot.life += 1;
        slot.started = self.now;
        let log = slot.disk.crash(&mut self.faults);
        let (mut manager, good) = match RaftManager::open(
            Time(0),
            &log,
            ManagerSettings { log_entries_max, proposes_on_its_own: false, ..ManagerSettings::new(seed) },
        ) {
            Ok(opened) => opened,
            Err(error) => {
                self.checker.violations.push(format!("manager {at} does not start: {error}"));
                return;
            }
        };
        slot.disk.truncate(good);
        slot.map = Arc::clone(manager.map());
        let effects = manager.take_effects();
        slot.process = Some(manager);
        let map = Arc::clone(&slot.map);
        if map.epoch().get() > 0 {
            self.checker.has(&map);
        }
        let life = self.slots[at].life;
        let wake = self.tick_due(at);
        self.at(wake, SimulatedManagerEvent::Tick { slot: at, life });
        self.perform_effects(at, effects);
    }

    fn handle_event(&mut self, at: usize, event: ManagerEvent<'_>) {
        if self.slots[at].paused_until > self.now {
            // Events for a paused process wait, or are lost where that is equivalent.
            let (life, until) = (self.slots[at].life, self.slots[at].paused_until);
            match event {
                ManagerEvent::Persisted(number) => {
                    self.at(until, SimulatedManagerEvent::Synced { slot: at, life, number })
                }
                ManagerEvent::Received { from, bytes } => {
                    let (to, bytes) = (self.slots[at].id, bytes.to_vec());
                    self.at(until, SimulatedManagerEvent::Message { to, from, bytes });
                }
                _ => {}
            }
            return;
        }
        let now = self.local(at);
        let Some(manager) = self.slots[at].process.as_mut() else { return };
        let effects = manager.handle(now, event);
        if let Some(term) = manager.leading() {
            let id = manager.id();
            self.checker.record_leader(term, id);
        }
        let faults = self.now < FAULTS_END;
        let persists = effects.iter().any(|effect| matches!(effect, ManagerEffect::Persist { .. }));
        self.perform_effects(at, effects);
        // Some crashes happen just when a write is issued.
        if faults && persists && self.faults.chance(self.scenario.crashes / 100) {
            let down = 1 + self.faults.below(100_000);
            self.crash(at, down);
        } else if faults && persists {
            self.maybe_stop_remover(at);
        }
    }

    fn perform_effects(&mut self, at: usize, effects: Vec<ManagerEffect>) {
        for effect in effects {
            match effect {
                ManagerEffect::Persist { number, bytes, replace } => {
                    self.hash_event(number ^ bytes.len() as u64);
                    self.slots[at].disk.write(number, bytes, replace);
                    let life = self.slots[at].life;
                    let late = if self.faults.chance(20) { 20_000 } else { 500 };
                    let done = self.now + 20 + self.network.below(late);
                    self.at(done, SimulatedManagerEvent::Synced { slot: at, life, number });
                }
                ManagerEffect::Send { to, bytes } => self.send(at, to, bytes),
                ManagerEffect::Answer { token, answer } => {
                    let (client, token) = ((token & 0xff) as usize, token >> 8);
                    let delay = 1 + self.network.below(self.scenario.delay_max);
                    if !self.is_lost() {
                        self.at(self.now + delay, SimulatedManagerEvent::Answer { client, token, answer });
                    }
                }
                ManagerEffect::MapChanged(delta) => {
                    let before = Arc::clone(&self.slots[at].map);
                    match before.apply(&delta) {
                        Ok(after) => {
                            self.hash_event(after.epoch().get());
                            self.checker.changed(&before, &delta, &after);
                            self.slots[at].map = Arc::new(after);
                        }
                        Err(error) => {
                            self.checker.violations.push(format!("a delta cannot be applied: {error}"))
                        }
                    }
                }
                ManagerEffect::MapReplaced(after) => {
                    self.checker.saw("snapshots taken");
                    if after.epoch().get() > 0 {
                        self.checker.has(&after);
                    }
                    if after.epoch() < self.slots[at].map.epoch() {
                        self.checker.violations.push("a snapshot took a map back".to_owned());
                    }
                    self.slots[at].map = after;
                }
                ManagerEffect::WritesMayBeLost { .. } => self.checker.saw("logs chosen in doubt"),
            }
        }
    }

    /// Whether the network loses the next message.
    fn is_lost(&mut self) -> bool {
        self.now < FAULTS_END && self.network.chance(self.scenario.loss)
    }

    fn send(&mut self, at: usize, to: ManagerId, bytes: Vec<u8>) {
        self.hash_event(to.0 ^ (bytes.len() as u64) << 20);
        let from = self.slots[at].id;
        let Some(target) = self.slots.iter().position(|slot| slot.id == to) else { return };
        if self.network_cuts.get(&(at, target)).is_some_and(|until| *until > self.now) {
            return;
        }
        if self.is_lost() {
            return;
        }
        let faults = self.now < FAULTS_END;
        let copies = if faults && self.network.chance(self.scenario.repeats) { 2 } else { 1 };
        for _ in 0..copies {
            let mut delay = 20 + self.network.below(self.scenario.delay_max);
            if faults && self.network.chance(self.scenario.late) {
                delay += self.network.below(1_000_000);
            }
            let bytes = bytes.clone();
            self.at(self.now + delay, SimulatedManagerEvent::Message { to, from, bytes });
        }
    }

    fn fault(&mut self) {
        let at = self.faults.below(self.slots.len() as u64) as usize;
        let next = self.now + self.faults.below(600_000);
        if next < FAULTS_END {
            self.at(next, SimulatedManagerEvent::Fault);
        }
        let scenario = self.scenario.clone();
        match self.faults.below(5) {
            0 if self.faults.chance(scenario.crashes) => {
                let down = if self.faults.chance(500) { 5_000 } else { 2_000_000 };
                let down = 1 + self.faults.below(down);
                self.crash(at, down);
            }
            1 if scenario.lost_disks
                && self.slots.len() > 1
                && !self.slots.iter().any(|one| one.lost_disk) =>
            {
                self.checker.saw("disks lost");
                self.crash(at, 500_000);
                let id = ManagerId(self.faults.next() | 1 << 40);
                let slot = &mut self.slots[at];
                (slot.id, slot.disk, slot.lost_disk) = (id, Disk::with(RaftManager::join(id)), true);
                slot.map = Arc::default();
            }
            2 if scenario.network_cuts => {
                self.checker.saw("cuts");
                let until = self.now + self.faults.below(3_000_000);
                let one_way = self.faults.chance(300);
                for other in 0..self.slots.len() {
                    if other != at && self.faults.chance(700) {
                        self.network_cuts.insert((at, other), until);
                        if !one_way {
                            self.network_cuts.insert((other, at), until);
                        }
                    }
                }
            }
            3 if scenario.pauses => {
                self.checker.saw("pauses");
                self.slots[at].paused_until = self.now + self.faults.below(2_000_000);
            }
            4 if scenario.transfers => {
                let to = self.slots[at].id;
                for slot in 0..self.slots.len() {
                    self.handle_event(slot, ManagerEvent::TransferLeadership(to));
                }
            }
            _ => {}
        }
    }

    fn crash(&mut self, at: usize, down: u64) {
        if self.slots[at].process.take().is_some() {
            self.checker.saw("crashes");
            self.slots[at].life += 1;
            self.at(self.now + down, SimulatedManagerEvent::Start { slot: at });
        }
    }

    fn end_faults(&mut self) {
        self.network_cuts.clear();
        for at in 0..self.slots.len() {
            self.slots[at].paused_until = 0;
            self.at(self.now + 1, SimulatedManagerEvent::Start { slot: at });
        }
    }

    fn client(&mut self, at: usize) {
        let client = &mut self.clients[at];
        match &mut client.pending {
            Some((_, patience)) if *patience > self.now => {
                let next = *patience;
                self.alarm(at, next);
                return;
            }
            Some((_, patience)) => {
                *patience = self.now + PATIENCE;
                client.target = self.work.below(self.slots.len() as u64) as usize;
            }
            None => {
                if self.now > FAULTS_END + 5_000_000 {
                    return;
                }
                let from = self.work.below(self.slots.len() as u64) as usize;
                client.number += 1;
                let number = client.number << 8 | at as u64;
                let Some(manager) = self.slots[from].process.as_ref() else {
                    client.number -= 1;
                    self.alarm(at, self.now + 10_000);
                    return;
                };
                let lost = self.slots.iter().find(|slot| slot.lost_disk).map(|slot| slot.id);
                let count = self.scenario.managers as usize;
                let command = match lost {
                    Some(_) if self.work.chance(300) => {
                        choose_members(&self.slots[..count], count, &mut self.work)
                    }
                    None if self.scenario.spares > 0 && self.work.chance(60) => {
                        self.checker.saw("members chosen");
                        choose_members(&self.slots, count, &mut self.work)
                    }
                    _ => workload::draw(manager.state(), number, &mut self.work),
                };
                self.checker.record_command(&command);
                let id = RequestId { origin: at as u64 + 1, number: client.number };
                let request = CommandRequest { id, after: client.applied_count, command };
                client.pending = Some((request, self.now + PATIENCE));
            }
        }
        self.send_command(at);
        self.alarm(at, self.now + PATIENCE);
    }

    fn send_command(&mut self, at: usize) {
        let client = &mut self.clients[at];
        let Some((request, _)) = &client.pending else { return };
        client.token += 1;
        let (slot, token, request) = (client.target, client.token, request.clone());
        let delay = 1 + self.network.below(self.scenario.delay_max);
        if !self.is_lost() {
            let query = SimulatedManagerEvent::Query { slot, client: at, token, request: request.clone() };
            self.at(self.now + delay, query);
        }
        if self.network.chance(self.scenario.repeats) {
            self.at(self.now + 10 * delay, SimulatedManagerEvent::Query { slot, client: at, token, request });
        }
    }

    fn answered(&mut self, at: usize, token: u64, answer: RequestAnswer) {
        let Some((request, _)) = self.clients[at].pending.clone() else { return };
        match answer {
            RequestAnswer::Decided(outcome) if self.clients[at].token == token => {
                self.checker.decided(&request, &outcome);
                if matches!(request.command, ControlCommand::SetManagers(_)) && outcome.result.is_ok() {
                    self.checker.saw("managers set");
                }
                let client = &mut self.clients[at];
                client.applied_count = client.applied_count.max(outcome.applied_count);
                client.pending = None;
                let wait = 5_000 + self.work.below(150_000);
                self.alarm(at, self.now + wait);
            }
            RequestAnswer::NotLeader(leader) if self.clients[at].token == token => {
                let known = leader.and_then(|leader| self.slots.iter().position(|slot| slot.id == leader));
                self.clients[at].target = known.unwrap_or(self.work.below(self.slots.len() as u64) as usize);
                if known.is_some() {
                    self.send_command(at);
                }
            }
            _ => {}
        }
    }

    pub(crate) fn events(&self) -> u64 {
        self.events
    }
}
