//! The life of the node: turns of its instances, starts and ends of its process, its keyspaces.

use zerohop_base::random::Random;
use zerohop_base::time::Time;
use zerohop_engine::disk::simulated::{SimulatedDisk, SimulatedFaults};
use zerohop_placement::{Durability, MapDelta};
use zerohop_session::Reply;
use zerohop_shard::Identity;
use zerohop_wire::Message;
use zerohop_wire::ids::{Incarnation, InstanceId, KeyspaceId};
use zerohop_wire::messages::{Outcome, Query, RecordRead};

use super::{NodeWorld, NodeWorldEvent, RunPhase};
use crate::history::{ClientCall, KeyspaceHistory, OperationEnd as CallEnd, Outage};
use crate::limits::{CLOCK_RATE_MAX, CLOCK_RATE_MIN, CLOCK_RATE_TRUE};
use crate::network::LinkEnd;
use crate::node::{CLUSTER, SlotTurn};
use crate::streams::Draw;
use crate::workload::draw::KEYS;
use crate::workload::operation::{RecordAction, RecordCall};

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeEnding {
    /// Power loss.
    Power,
    /// It is killed; its issued writes reach the disk.
    Killed,
    /// It shuts down cleanly.
    Stopped,
}

/// Acknowledged writes survive the end of a process with and without power loss; the disk decides
/// only which other writes do.
pub(super) fn new_disk(random: &mut Random) -> SimulatedDisk {
    SimulatedDisk::new(random.next_u64())
}

/// The code of [`zerohop_wire::Failure::SessionExpired`].
const SESSION_EXPIRED: u16 = 305;

impl NodeWorld {
    pub(super) fn schedule_slot(&mut self, slot: usize, at: Time) {
        let found = &mut self.slots[slot];
        let at = at.max(found.busy_until).max(self.node.paused_until);
        if found.instance.is_some() && found.turn_at.is_none_or(|turn_at| turn_at > at) {
            found.turn_at = Some(at);
            self.event_queue.at(at, NodeWorldEvent::RunNode(slot));
        }
    }

    pub(super) fn run_slot(&mut self, slot: usize) {
        let now = self.now();
        let found = &mut self.slots[slot];
        if found.turn_at != Some(now) {
            return;
        }
        found.turn_at = None;
        if now < self.node.paused_until || now < found.busy_until {
            return self.schedule_slot(slot, now);
        }
        let come = found.pieces();
        if let Some((_, operations)) = found.power_cut_at_requests.take_if(|(pieces, _)| come >= *pieces) {
            found.disk.cut_power_after(operations);
        }
        let before_us = found.disk.elapsed_us();
        let turned = found.run_turn(self.clock.show(now));
        let took_us = found.disk.elapsed_us() - before_us;
        self.perform_turn(slot, turned, took_us);
        if self.slots[slot].disk.is_power_off() {
            self.end_process(NodeEnding::Power);
        }
    }

    /// Carries out the effects of a turn, which took so many microseconds.
    fn perform_turn(&mut self, slot: usize, turned: SlotTurn, took_us: u64) {
        let done = self.now().after_us(took_us + 1);
        self.slots[slot].busy_until = done;
        for (link, bytes) in turned.sent {
            self.trace.record(done, format_args!("i{slot} sends {} bytes on {link}", bytes.len()));
            self.network.send(done, link, LinkEnd::Opener, &bytes);
        }
        for link in turned.closed {
            self.trace.record(done, format_args!("i{slot} closes {link}"));
            self.network.close(done, link, LinkEnd::Node);
        }
        let Some(instance) = &self.slots[slot].instance else { return };
        let next = match turned.has_more {
            true => done,
            false => self.clock.when_elapsed(instance.next_tick_ms()).max(done),
        };
        self.schedule_slot(slot, next);
    }

    /// The process starts, under a new epoch of every group.
    pub(super) fn start(&mut self) {
        let Some((down, clean, sound_until)) = self.node.down else { return };
        let now = self.now();
        let is_first = self.node.starts == 0;
        self.node = super::NodeState { starts: self.node.starts + 1, ..super::NodeState::default() };
        let incarnation = Incarnation(self.streams.node.next_u64());
        let wild = self.scenario.node.wild_clock && self.phase == RunPhase::Faults;
        let (by_ms, rate) = match wild && !is_first {
            true => {
                let by_ms = self.streams.node.between(0, 20_000) as i64 - 10_000;
                (by_ms, self.streams.node.between(CLOCK_RATE_MIN, CLOCK_RATE_MAX))
            }
            false => (0, CLOCK_RATE_TRUE),
        };
        self.clock.restart(now, by_ms, rate);
        self.manager.begin(incarnation);
        for slot in 0..self.slots.len() {
            self.repair_disk(slot);
            let identity = Identity { cluster: CLUSTER, instance: InstanceId(slot as u32), incarnation };
            let (history, shown) = (self.manager.history.clone(), self.clock.show(now));
            let is_cut = !is_first && self.cut_power_while_opening(slot);
            let found = &mut self.slots[slot];
            found.busy_until = now;
            let opened = found.open(identity, self.scenario.engine, history, shown);
            if is_cut && found.disk.is_power_off() {
                return self.fail_to_start((down, clean, sound_until));
            }
            if is_cut {
                // The power loss was scheduled for after the opening: it is cancelled.
                found.disk.cut_power_after(u64::MAX);
            }
            if let Err(error) = opened {
                self.record_violation(format!("instance {slot} does not open: {error}"));
            }
            self.schedule_slot(slot, now);
        }
        self.trace.record(now, format_args!("START {incarnation:?}, clock {:?}", self.clock.show(now)));
        self.network.node_is_back(now, |_| true);
        if !is_first {
            self.history.outages.push(Outage { down, up: now, clean, sound_until });
            self.audit();
        }
    }

    /// Draws whether power is lost while an instance opens its disk.
    fn cut_power_while_opening(&mut self, slot: usize) -> bool {
        let plan = &self.scenario.node;
        let cuts = plan.cuts_power && self.phase == RunPhase::Faults && self.streams.node.chance(1, 4);
        if cuts {
            let operations = self.streams.node.below(120);
            self.slots[slot].disk.cut_power_after(operations);
        }
        cuts
    }

    /// Power was lost during the start: the process starts again.
    fn fail_to_start(&mut self, down: (Time, bool, Time)) {
        let now = self.now();
        self.trace.record(now, format_args!("END of the process while it starts, Power"));
        for slot in &mut self.slots {
            slot.die();
            slot.disk.crash();
        }
        self.node.down = Some(down);
        self.coverage.failed_starts += 1;
        self.event_queue.at(now.after_us(1), NodeWorldEvent::Start);
    }

    /// The process ends.
    pub(super) fn end_process(&mut self, how: NodeEnding) {
        if self.node.down.is_some() {
            return;
        }
        self.count();
        let now = self.now();
        let mut is_clean = how == NodeEnding::Stopped && !self.node.has_failed;
        if how == NodeEnding::Stopped && self.slots.iter().any(|slot| slot.is_doomed) {
            // The process cannot shut down cleanly while a power loss is pending.
            return;
        }
        for slot in 0..self.slots.len() {
            if how == NodeEnding::Stopped {
                self.repair_disk(slot);
                let (turned, trouble) = self.slots[slot].stop(self.clock.show(now));
                self.perform_turn(slot, turned, 0);
                if let Some(trouble) = trouble {
                    if !self.node.has_failed {
                        self.record_violation(format!(
                            "instance {slot} does not shut down cleanly: {trouble}"
                        ));
                    }
                    is_clean = false;
                }
            }
            self.slots[slot].die();
            match how {
                NodeEnding::Power => self.slots[slot].disk.crash(),
                NodeEnding::Killed | NodeEnding::Stopped => self.slots[slot].disk.power_off_clean(),
            }
        }
        let sound_until = match (self.node.disk_fault_since, now < self.node.disk_fault_until) {
            (Some(since), true) => since,
            (Some(since), false) if self.node.has_failed => since,
            _ => Time::NEVER,
        };
        self.node.down = Some((now, is_clean, sound_until));
        let silently = how == NodeEnding::Power && self.streams.network.chance(1, 2);
        self.network.lose_node(now, silently, |_| true);
        let down_us = match self.phase {
            RunPhase::Faults => self.streams.node.below(self.scenario.node.down_us + 1),
            _ => 0,
        };
        self.trace.record(now, format_args!("END of the process, {how:?}, for {down_us} us"));
        self.coverage.ended(how == NodeEnding::Stopped);
        self.event_queue.at(now.after_us(down_us + 1), NodeWorldEvent::Start);
    }

    /// Adds the counters of the instances to the coverage, before they are gone.
    pub(super) fn count(&mut self) {
        for slot in &mut self.slots {
            let Some(instance) = &mut slot.instance else { continue };
            let stats = instance.stats();
            let expired = stats.failures.iter().filter(|(code, _)| *code == SESSION_EXPIRED);
            self.coverage.expired += expired.map(|(_, count)| count).sum::<u64>();
            self.coverage.dropped_requests += stats.dropped_requests;
        }
    }

    pub(super) fn repair_disk(&mut self, slot: usize) {
        let disk = &self.slots[slot].disk;
        disk.set_faults(SimulatedFaults::default());
        disk.set_capacity(None);
    }

    /// Reads every record after a restart, before any client does.
    fn audit(&mut self) {
        let now = self.now();
        let live: Vec<KeyspaceId> =
            self.keyspaces.iter().filter(|one| one.dropped.is_none()).map(|one| one.id).collect();
        for keyspace in live {
            for key in KEYS {
                for act in [RecordAction::Inspect, RecordAction::Lookup] {
                    self.audit_one(now, keyspace, RecordCall::new(key.as_bytes(), act));
                }
            }
        }
    }

    fn audit_one(&mut self, now: Time, keyspace: KeyspaceId, operation: RecordCall) {
        let Some(found) = self.manager.map().keyspace(keyspace) else { return };
        let partition = found.partition(&operation.key);
        let Some(group) = found.group(partition) else { return };
        let (slot, epoch) = (group.primary.0 as usize, group.epoch);
        let shown = self.clock.show(now);
        let query = if operation.act == RecordAction::Inspect { Query::Inspect } else { Query::Lookup };
        let read = RecordRead { key: &operation.key, query };
        let mut end = CallEnd::Open;
        self.slots[slot].audit(shown, (keyspace, partition, epoch), &read, |message| {
            end = match message {
                Message::Answer(Ok(outcome)) => owned(outcome).map_or(CallEnd::Open, CallEnd::Done),
                Message::Answer(Err(failure)) => CallEnd::of(Err(zerohop_session::SessionError::Answer {
                    failure: failure.clone().into_owned(),
                })),
                _ => CallEnd::Open,
            };
        });
        if !end.is_definite() {
            self.record_violation(format!("after a restart, {operation} is answered: {end}"));
            return;
        }
        self.trace.record(now, format_args!("audit {keyspace}/{partition} {operation}: {end}"));
        let clock_ms = self.clock.bounds_ms(now, now);
        self.history.calls.push(ClientCall {
            client: None,
            keyspace,
            partition: self.manager.slice(keyspace, &operation.key).unwrap_or_default(),
            operation,
            invoked: now,
            deadline: now,
            returned: Some(now),
            end,
            clock_ms,
        });
    }

    pub(super) fn create_first_keyspaces(&mut self) {
        let interval = Durability::Interval { ms: self.scenario.interval_ms };
        for durability in [Durability::Sync, interval, Durability::Memory] {
            self.create_keyspace(durability);
        }
    }

    pub(super) fn create_keyspace(&mut self, durability: Durability) {
        let now = self.now();
        let partitions = *self.streams.node.pick(&[1, 2, 4]);
        let delay_us = if self.scenario.batches { *self.streams.node.pick(&[0, 500, 3_000]) } else { 0 };
        let (id, delta) = self.manager.create(partitions, durability, delay_us);
        self.trace.record(now, format_args!("CREATE {id} {durability} of {partitions} partitions"));
        self.keyspaces.push(KeyspaceHistory { id, durability: vec![(now, durability)], dropped: None });
        self.apply_map_delta(&delta);
    }

    /// Passes a change of the map to the instances. Returns whether all of them followed.
    pub(super) fn apply_map_delta(&mut self, delta: &MapDelta) -> bool {
        let now = self.now();
        let mut all = true;
        if self.node.down.is_some() {
            return all;
        }
        for slot in 0..self.slots.len() {
            let before_us = self.slots[slot].disk.elapsed_us();
            let (turned, trouble) = self.slots[slot].apply_map(self.clock.show(now), delta);
            let took_us = self.slots[slot].disk.elapsed_us() - before_us;
            self.perform_turn(slot, turned, took_us);
            if let Some(trouble) = trouble {
                all = false;
                if !self.has_disk_fault() {
                    self.record_violation(format!("instance {slot} does not follow the map: {trouble}"));
                }
            }
        }
        all
    }

    /// Whether disks are failing or full, or have been.
    pub(super) fn has_disk_fault(&self) -> bool {
        self.node.has_failed || self.now() < self.node.disk_fault_until
    }
}

/// The result of such a read, as a client would have received it.
fn owned(outcome: &Outcome<'_>) -> Option<Reply> {
    let bytes = bytes::Bytes::copy_from_slice;
    Some(match *outcome {
        Outcome::Value { version, length, bytes: is } => Reply::Value { version, length, bytes: bytes(is) },
        Outcome::List { version, length, first, values } => {
            Reply::List { version, length, first, values: values.iter().map(bytes).collect() }
        }
        Outcome::Info { version, record, length, expires_at_ms } => {
            Reply::Info { version, record, length, expires_at_ms }
        }
        _ => return None,
    })
}
