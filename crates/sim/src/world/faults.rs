//! The faults of the world, and their end.

use zerohop_base::time::Time;
use zerohop_engine::disk::simulated::{DiskOperation as Disk, Latency, SimulatedFaults};
use zerohop_placement::Durability;

use super::nodes::NodeEnding;
use super::{NodeWorld, NodeWorldEvent, RunPhase};
use crate::limits::{KEYSPACES_MAX, TRACES_US};
use crate::streams::Draw;

/// A recurring fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeFault {
    Crash,
    Stop,
    PauseNode,
    /// A disk fails, fills or slows down, and works again some time later.
    DiskFault,
    DiskRestored,
    /// Nothing passes between a client and the node for a while.
    CutOff,
    PauseClient,
    KillClient,
    /// A keyspace is created, changed or dropped.
    Alter,
    /// Each partition of a keyspace becomes two.
    Split,
    SetClock,
    /// Clients make no calls for a while; occurs once.
    Sleep,
}

impl NodeWorld {
    pub(super) fn schedule_faults(&mut self) {
        for fault in [
            NodeFault::Crash,
            NodeFault::Stop,
            NodeFault::PauseNode,
            NodeFault::DiskFault,
            NodeFault::CutOff,
            NodeFault::PauseClient,
            NodeFault::KillClient,
            NodeFault::Alter,
            NodeFault::Split,
            NodeFault::SetClock,
        ] {
            self.schedule_next(fault);
        }
        if self.scenario.client_pause_us > 0 {
            let at = self.now().after_us(self.scenario.faults_us / 2);
            self.event_queue.at(at, NodeWorldEvent::Fault(NodeFault::Sleep));
        }
    }

    fn schedule_next(&mut self, fault: NodeFault) {
        let scenario = &self.scenario;
        let every_us = match fault {
            NodeFault::Crash => scenario.node.crash_every_us,
            NodeFault::Stop => scenario.node.stop_every_us,
            NodeFault::PauseNode => scenario.node.pause_every_us,
            NodeFault::DiskFault => scenario.disk.disk_fault_every_us,
            NodeFault::CutOff => scenario.network.cut_off_every_us,
            NodeFault::PauseClient => scenario.client.pause_every_us,
            NodeFault::KillClient => scenario.client.dies_every_us,
            NodeFault::Alter => scenario.alter_every_us,
            NodeFault::Split => scenario.split_every_us,
            NodeFault::SetClock if scenario.node.wild_clock => 3_000_000,
            NodeFault::SetClock | NodeFault::DiskRestored | NodeFault::Sleep => 0,
        };
        if every_us > 0 {
            let wait_us = self.streams.node.wait(every_us);
            let at = self.now().after_us(wait_us);
            self.event_queue.at(at, NodeWorldEvent::Fault(fault));
        }
    }

    pub(super) fn inject(&mut self, fault: NodeFault) {
        if self.phase != RunPhase::Faults {
            return;
        }
        let now = self.now();
        if now < self.asleep_until && fault != NodeFault::DiskRestored {
            let wait_us = self.streams.node.below(1_000_000);
            return self.event_queue.at(self.asleep_until.after_us(wait_us), NodeWorldEvent::Fault(fault));
        }
        self.schedule_next(fault);
        let is_up = self.node.down.is_none();
        match fault {
            NodeFault::Crash if is_up => self.crash(),
            NodeFault::Stop if is_up => self.end_process(NodeEnding::Stopped),
            NodeFault::PauseNode if is_up => {
                let until = now.after_us(self.streams.node.below(self.scenario.node.pause_us + 1));
                self.trace.record(now, format_args!("PAUSE of the node until {}", until.0));
                self.node.paused_until = self.node.paused_until.max(until);
                self.record_fault_until(until);
                self.coverage.pauses += 1;
            }
            NodeFault::DiskFault if is_up => self.begin_disk_fault(),
            NodeFault::DiskRestored => {
                self.trace.record(now, format_args!("DISKS are well"));
                (0..self.slots.len()).for_each(|slot| self.repair_disk(slot));
            }
            NodeFault::CutOff => {
                let client = self.any_client();
                let until = now.after_us(self.streams.network.below(self.scenario.network.cut_off_us + 1));
                self.trace.record(now, format_args!("CUT OFF c{client} until {}", until.0));
                self.network.cut_off(client, until);
            }
            NodeFault::PauseClient => {
                let client = self.any_client();
                let until = now.after_us(self.streams.client.below(self.scenario.client.pause_us + 1));
                self.pause_client(client, until);
            }
            NodeFault::Sleep => {
                self.asleep_until = now.after_us(self.scenario.client_pause_us);
                self.coverage.client_pauses_long += 1;
                (0..self.clients.len()).for_each(|client| self.pause_client(client, self.asleep_until));
            }
            NodeFault::KillClient => {
                let client = self.any_client();
                self.kill_client(client);
            }
            NodeFault::Alter if self.slots.iter().all(|slot| !slot.is_doomed) => self.alter(),
            // Also while the node is down: the next start then finds the state from before the
            // split.
            NodeFault::Split if self.slots.iter().all(|slot| !slot.is_doomed) => self.split(),
            NodeFault::SetClock if is_up => {
                let by_ms = self.streams.node.between(0, 4_000) as i64 - 2_000;
                self.clock.set(now, by_ms);
                self.trace.record(now, format_args!("CLOCK set by {by_ms} ms"));
            }
            _ => {}
        }
    }

    /// All faults end, and an operator's cleanup removes their traces.
    pub(super) fn end_faults(&mut self) {
        let now = self.now();
        self.trace.record(now, format_args!("HEAL"));
        self.phase = RunPhase::Healed;
        self.network.end_faults(now);
        self.node.paused_until = Time(0);
        for client in 0..self.clients.len() {
            self.clients[client].paused_until = Time(0);
            self.schedule_client(client, now);
        }
        for slot in 0..self.slots.len() {
            self.repair_disk(slot);
            self.slots[slot].disk.set_latency(Latency::default());
        }
        if self.slots.iter().any(|slot| slot.is_doomed) {
            self.end_process(NodeEnding::Power);
        }
        if self.node.has_failed {
            // A partition whose disk has failed accepts no writes until it is opened again.
            self.end_process(NodeEnding::Killed);
        }
        (0..self.slots.len()).for_each(|slot| self.schedule_slot(slot, now));
        self.start();
        self.history.healed = Some(now);
    }

    fn pause_client(&mut self, client: usize, until: Time) {
        let now = self.now();
        self.trace.record(now, format_args!("PAUSE of c{client} until {}", until.0));
        self.clients[client].paused_until = until;
        for call in &self.clients[client].calls {
            // A paused client handles no deadline.
            let call = &mut self.history.calls[*call];
            call.deadline = call.deadline.max(until);
        }
    }

    fn crash(&mut self) {
        if self.scenario.node.cuts_power
            && self.streams.node.chance(3, 4)
            && !self.slots.iter().any(|slot| slot.is_doomed)
        {
            let slot = self.streams.node.below(self.slots.len() as u64) as usize;
            let now = self.now();
            self.trace.record(now, format_args!("DOOM of i{slot}"));
            self.slots[slot].is_doomed = true;
            // At any time; or, where it matters most, between the appends of the next requests and
            // their flush.
            if self.streams.node.chance(1, 3) {
                self.slots[slot].disk.cut_power_after(self.streams.node.below(60));
            } else {
                let (pieces, operations) = (self.streams.node.between(1, 3), self.streams.node.below(3));
                self.slots[slot].power_cut_at_requests = Some((pieces as usize, operations));
            }
            return;
        }
        let how = if self.streams.node.chance(1, 3) { NodeEnding::Killed } else { NodeEnding::Power };
        self.end_process(how);
    }

    fn begin_disk_fault(&mut self) {
        let (now, plan) = (self.now(), self.scenario.disk);
        let slot = self.streams.node.below(self.slots.len() as u64) as usize;
        let until = now.after_us(self.streams.node.below(plan.disk_fault_us + 1));
        let mut faults = SimulatedFaults::default();
        if plan.fails && self.streams.node.chance(1, 2) {
            let which = *self.streams.node.pick(&[
                Disk::Append,
                Disk::Sync,
                Disk::SyncBegin,
                Disk::SyncDone,
                Disk::ReadAt,
                Disk::Open,
                Disk::SyncDir,
            ]);
            let out_of = *self.streams.node.pick(&[2, 20, 200]);
            faults = faults.failing(which, 1, out_of);
            self.node.has_failed = true;
            self.trace.record(now, format_args!("DISK of i{slot} fails at {which:?}, 1 in {out_of}"));
        }
        if plan.slow {
            faults = faults.stalling(1, 20, 20_000);
        }
        let disk = &self.slots[slot].disk;
        disk.set_faults(faults);
        if plan.fills_disk && self.streams.node.chance(1, 2) {
            disk.set_capacity(20_000);
        }
        self.trace.record(now, format_args!("DISK of i{slot} is in trouble until {}", until.0));
        self.record_fault_until(until);
        self.coverage.disk_faults += 1;
        self.event_queue.at(until, NodeWorldEvent::Fault(NodeFault::DiskRestored));
    }

    /// `interval` promises nothing from now until then, and until the effects are gone.
    fn record_fault_until(&mut self, until: Time) {
        let now = self.now();
        if now >= self.node.disk_fault_until && !self.node.has_failed {
            self.node.disk_fault_since = None;
        }
        self.node.disk_fault_since.get_or_insert(now);
        let interval_us = u64::from(self.scenario.interval_ms) * 1000;
        self.node.disk_fault_until = self.node.disk_fault_until.max(until.after_us(interval_us + TRACES_US));
    }

    fn alter(&mut self) {
        let now = self.now();
        let interval = Durability::Interval { ms: self.scenario.interval_ms };
        let extra: Vec<usize> =
            (3..self.keyspaces.len()).filter(|at| self.keyspaces[*at].dropped.is_none()).collect();
        match self.streams.node.below(4) {
            0 if self.keyspaces.len() < KEYSPACES_MAX => {
                let durability = *self.streams.node.pick(&[Durability::Sync, interval, Durability::Memory]);
                self.create_keyspace(durability);
            }
            1 if !extra.is_empty() => {
                let at = *self.streams.node.pick(&extra);
                let id = self.keyspaces[at].id;
                self.keyspaces[at].dropped = Some(now);
                self.trace.record(now, format_args!("DROP {id}"));
                let delta = self.manager.drop_keyspace(id);
                self.apply_map_delta(&delta);
            }
            // The second of the first three keyspaces alternates between `interval` and `sync`.
            _ => {
                let id = self.keyspaces[1].id;
                let durability = match self.keyspaces[1].durability_at(now) {
                    Durability::Sync => interval,
                    _ => Durability::Sync,
                };
                self.trace.record(now, format_args!("ALTER {id} to {durability}"));
                let Some(delta) = self.manager.alter(id, durability) else { return };
                let followed = self.apply_map_delta(&delta);
                // If an instance could not follow the change, nothing is promised.
                let promised = if followed { durability } else { Durability::Memory };
                self.keyspaces[1].durability.push((now, promised));
                self.coverage.alterations += 1;
            }
        }
    }

    fn split(&mut self) {
        let now = self.now();
        let there: Vec<usize> =
            (0..self.keyspaces.len()).filter(|at| self.keyspaces[*at].dropped.is_none()).collect();
        let id = self.keyspaces[*self.streams.node.pick(&there)].id;
        let Some(delta) = self.manager.split(id) else { return };
        self.trace.record(now, format_args!("SPLIT {id}"));
        self.apply_map_delta(&delta);
        self.coverage.splits += 1;
    }

    fn any_client(&mut self) -> usize {
        self.streams.client.below(self.clients.len() as u64) as usize
    }
}
