//! The faults of nodes, clients and the network, and their end.

use zerohop_base::time::Time;
use zerohop_engine::disk::simulated::{DiskOperation as Disk, Latency, SimulatedFaults};
use zerohop_wire::ids::{KeyspaceId, PartitionId};

use super::aimed_crashes::AimedCrashes;
use super::breaks::InvariantBreaks;
use super::double_deaths::{AnotherDeath, DoubleDeaths};
use super::node_end::NodeEnd;
use super::pair_cuts::PairCuts;
use super::redis::RedisRun;
use super::{ClusterEvent, ClusterPhase, SimulatedCluster};
use crate::kinds::FaultKind;
use crate::streams::Draw;

const MS: u64 = 1_000;
const SECOND: u64 = 1_000_000;

/// Corruption starts so long after a fault window, if the quiet period then still lasts
/// `REPAIRED_US`: logs are read from end to end within it.
const CORRUPTION_AFTER_US: u64 = 2 * SECOND;
const REPAIRED_US: u64 = 4 * SECOND;

/// A fault event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClusterFault {
    /// One of the kinds of this run.
    Any,
    /// The disks of a node work again.
    DiskRestored { host: usize, life: u32 },
    /// A process that was just promoted is killed.
    Restart { host: usize, life: u32 },
    /// Clients are paused for longer than sessions are remembered.
    PauseClients,
    /// Bytes become corrupt on the disk of a node, while nothing else is wrong.
    Corruption,
    /// A process is killed, for example while its messages are delayed.
    Kill { host: usize, life: u32 },
    /// A stalled connection between two nodes goes on.
    StallEnds { number: u64 },
    /// The managers are disturbed during elections.
    ElectionFaults,
    /// Crashes are aimed at points in the work of engines.
    Aim,
    /// The primary of a partition breaks an invariant.
    Break,
    /// A primary is cut off from all but one of its in-sync replicas.
    CutPair,
    /// All members of a group die.
    KillGroup,
    /// A member of a group that recovers dies again.
    DieAgain(AnotherDeath),
    /// A member of a partition is struck.
    StrikePartition { keyspace: KeyspaceId, partition: PartitionId },
}

/// Kinds that strike at random moments of a fault window. The others apply all the time, or are the
/// operator's.
const STRIKES: [FaultKind; 24] = [
    FaultKind::Cuts,
    FaultKind::OneWayCuts,
    FaultKind::ClientCuts,
    FaultKind::PowerLosses,
    FaultKind::Kills,
    FaultKind::Stops,
    FaultKind::Restarts,
    FaultKind::DisksLost,
    FaultKind::DisksFail,
    FaultKind::DisksFull,
    FaultKind::DisksSlow,
    FaultKind::ClockJumps,
    FaultKind::NodePauses,
    FaultKind::ClientPauses,
    FaultKind::ClientDeaths,
    FaultKind::ManagerLosses,
    FaultKind::QuorumLosses,
    FaultKind::TotalRestarts,
    FaultKind::Joins,
    FaultKind::AgentPauses,
    FaultKind::LogsLost,
    FaultKind::Stalls,
    FaultKind::Elections,
    FaultKind::Bursts,
];

impl SimulatedCluster {
    pub(super) fn schedule_faults(&mut self) {
        self.schedule_next();
        for at in (AimedCrashes { world: self }).times() {
            self.event_queue.at(at, ClusterEvent::Fault(ClusterFault::Aim));
        }
        for at in (PairCuts { world: self }).times() {
            self.event_queue.at(at, ClusterEvent::Fault(ClusterFault::CutPair));
        }
        for at in (DoubleDeaths { world: self }).times() {
            self.event_queue.at(at, ClusterEvent::Fault(ClusterFault::KillGroup));
        }
        for at in (InvariantBreaks { world: self }).times() {
            self.event_queue.at(at, ClusterEvent::Fault(ClusterFault::Break));
        }
        if let Some((from, _)) = self.scenario.client_pause {
            self.event_queue.at(from, ClusterEvent::Fault(ClusterFault::PauseClients));
        }
        for quiet in self.scenario.fault_windows.windows(2) {
            let (from, until) = (quiet[0].1.after_us(CORRUPTION_AFTER_US), quiet[1].0);
            if until.since_us(from) >= REPAIRED_US && until > from {
                self.event_queue.at(from, ClusterEvent::Fault(ClusterFault::Corruption));
            }
        }
    }

    fn schedule_next(&mut self) {
        let now = self.now();
        let wait_us = self.streams.node.wait(self.scenario.fault_every_us);
        let mut at = now.after_us(wait_us);
        if !self.scenario.is_in_fault_window(at) {
            let Some(window) = self.scenario.next_fault_window(now) else { return };
            at = window.after_us(wait_us).max(at);
        }
        self.event_queue.at(at, ClusterEvent::Fault(ClusterFault::Any));
    }

    pub(super) fn inject(&mut self, fault: ClusterFault) {
        if self.phase != ClusterPhase::Faults {
            return;
        }
        let now = self.now();
        match fault {
            ClusterFault::Any => {
                self.schedule_next();
                if self.is_in_fault_window(now) {
                    // Drawn whether it may strike or not, so that removing one fault shifts no
                    // other.
                    let drawn = self.scenario.drawn;
                    let kinds: Vec<FaultKind> = STRIKES.into_iter().filter(|kind| drawn.has(*kind)).collect();
                    if kinds.is_empty() {
                        return;
                    }
                    let kind = *self.streams.node.pick(&kinds);
                    let strikes = !is_rare(kind) || self.streams.node.chance(1, 4);
                    let mut draw = self.streams.node.fork(self.history.calls.len() as u64);
                    if strikes && self.scenario.has(kind) {
                        std::mem::swap(&mut self.streams.node, &mut draw);
                        self.strike(kind);
                        std::mem::swap(&mut self.streams.node, &mut draw);
                    }
                }
            }
            ClusterFault::DiskRestored { host, life }
                if self.hosts[host].life == life && self.hosts[host].is_up =>
            {
                self.trace.record(now, format_args!("DISKS of n{host} are well"));
                self.hosts[host].repair_disks();
                for slot in 0..self.hosts[host].slots.len() {
                    self.hosts[host].slots[slot].disk.set_latency(Latency::default());
                }
            }
            ClusterFault::PauseClients => {
                let until = self.scenario.client_pause.map_or(now, |(_, until)| until);
                self.coverage.fault(FaultKind::Sleeps);
                (0..self.clients.len()).for_each(|client| self.pause_client(client, until));
            }
            ClusterFault::Corruption => self.corruption(),
            ClusterFault::Break => {
                if let Some((host, at)) = (InvariantBreaks { world: self }).break_invariant() {
                    let life = self.hosts[host].life;
                    self.event_queue.at(at, ClusterEvent::Fault(ClusterFault::Kill { host, life }));
                }
            }
            ClusterFault::CutPair => PairCuts { world: self }.cut(),
            ClusterFault::KillGroup => DoubleDeaths { world: self }.kill_group(),
            ClusterFault::DieAgain(death) => DoubleDeaths { world: self }.die_again(death),
            ClusterFault::Aim => AimedCrashes { world: self }.aim(),
            ClusterFault::StallEnds { number } => self.end_stall(number),
            ClusterFault::ElectionFaults => self.disturb_election(),
            ClusterFault::StrikePartition { keyspace, partition } => {
                self.strike_partition(keyspace, partition)
            }
            ClusterFault::Restart { host, life } | ClusterFault::Kill { host, life }
                if self.hosts[host].life == life && self.hosts[host].is_up =>
            {
                let is_new = matches!(fault, ClusterFault::Restart { .. });
                self.coverage.fault(if is_new { FaultKind::Restarts } else { FaultKind::Kills });
                self.end_process(host, NodeEnd::Killed);
            }
            _ => {}
        }
    }

    fn strike(&mut self, kind: FaultKind) {
        let now = self.now();
        let Some(host) = self.aim() else { return };
        let until = |us| now.after_us(us);
        match kind {
            FaultKind::Cuts | FaultKind::OneWayCuts => {
                self.partition_nodes(host, kind == FaultKind::OneWayCuts)
            }
            FaultKind::ClientCuts => {
                let client = self.any_client();
                let until = until(self.streams.network.below(self.scenario.network_cut_us + 1));
                self.trace.record(now, format_args!("CUT OFF c{client} from n{host} until {}", until.0));
                self.network.cut_off_from(client, self.hosts[host].instance_range.clone(), until);
            }
            FaultKind::PowerLosses => {
                // In the middle of an instance's next disk operations, or at once.
                if self.streams.node.chance(1, 2) {
                    let slot = self.streams.node.below(self.hosts[host].slots.len() as u64) as usize;
                    let operations = self.streams.node.below(40);
                    self.trace.record(now, format_args!("DOOM of n{host}/{slot}"));
                    self.hosts[host].is_doomed = true;
                    self.hosts[host].slots[slot].disk.cut_power_after(operations);
                } else {
                    self.end_process(host, NodeEnd::Power);
                }
            }
            FaultKind::Kills => self.end_process(host, NodeEnd::Killed),
            FaultKind::Stops if self.redis.is_on => RedisRun { world: self }.begin_leave(host),
            FaultKind::Stops => self.end_process(host, NodeEnd::Stopped),
            FaultKind::DisksLost => return self.lose_disks(host),
            FaultKind::DisksFail | FaultKind::DisksFull | FaultKind::DisksSlow => {
                self.begin_disk_fault(host, kind)
            }
            FaultKind::ClockJumps => {
                let by_ms = self.clock_jump_ms();
                self.hosts[host].clock.set(now, by_ms);
                self.trace.record(now, format_args!("CLOCK of n{host} set by {by_ms} ms"));
            }
            FaultKind::NodePauses => {
                let until = until(self.streams.node.below(self.scenario.pause_us + 1));
                self.trace.record(now, format_args!("PAUSE of n{host} until {}", until.0));
                self.hosts[host].paused_until = self.hosts[host].paused_until.max(until);
                self.watch.paused(host, now, until);
            }
            FaultKind::AgentPauses => {
                let longest = *self.streams.node.pick(&[SECOND, 4 * SECOND, 8 * SECOND]);
                let until = until(self.streams.node.between(500 * MS, longest));
                self.trace.record(now, format_args!("PAUSE of the agent of n{host} until {}", until.0));
                let one = &mut self.hosts[host];
                one.agent_paused_until = one.agent_paused_until.max(until);
            }
            FaultKind::LogsLost => return self.lose_log(),
            FaultKind::Stalls => self.stall(host),
            FaultKind::Elections => return self.begin_election_faults(),
            FaultKind::Bursts => return self.begin_burst(),
            FaultKind::ClientPauses => {
                let client = self.any_client();
                let until = until(self.streams.client.below(self.scenario.pause_us + 1));
                self.pause_client(client, until);
            }
            FaultKind::ClientDeaths => {
                let client = self.any_client();
                self.kill_client(client);
            }
            FaultKind::ManagerLosses => {
                let Some(leader) = self.leader() else { return };
                self.end_process(leader, NodeEnd::Killed);
            }
            FaultKind::QuorumLosses => {
                let managers: Vec<usize> = (0..self.scenario.managers).collect();
                for at in &managers[..managers.len() / 2 + 1] {
                    self.end_process(*at, NodeEnd::Power);
                }
            }
            FaultKind::TotalRestarts => {
                let power = self.streams.node.chance(1, 2);
                for at in 0..self.hosts.len() {
                    self.end_process(at, if power { NodeEnd::Power } else { NodeEnd::Killed });
                }
            }
            FaultKind::Joins => {
                let new = (0..self.hosts.len()).find(|at| self.hosts[*at].life == 0);
                let Some(new) = new else { return };
                self.event_queue.at(now, ClusterEvent::Start(new));
            }
            // `watch` draws restarts after a promotion.
            _ => return,
        }
        self.coverage.fault(kind);
    }

    /// Some nodes receive nothing from the others, or cannot send to them, or both.
    fn partition_nodes(&mut self, alone: usize, one_way: bool) {
        let now = self.now();
        let until = now.after_us(
            self.streams.node.between(self.scenario.network_cut_us / 4, self.scenario.network_cut_us),
        );
        let count = self.hosts.len();
        let side: Vec<bool> = match self.streams.node.below(4) {
            0 | 1 => (0..count).map(|at| at == alone).collect(),
            2 => (0..count).map(|_| self.streams.node.chance(1, 2)).collect(),
            _ => return self.partition_pairs(until, one_way),
        };
        let outward = self.streams.node.chance(1, 2);
        self.trace.record(now, format_args!("CUT {side:?}, one way: {one_way}, until {}", until.0));
        for from in 0..count {
            for to in 0..count {
                if side[from] != side[to] && (!one_way || side[from] == outward) {
                    self.cut_between(from, to, until);
                }
            }
        }
    }

    /// Some pairs of nodes cannot communicate: a node that most others cannot reach may still reach
    /// a node that all can.
    fn partition_pairs(&mut self, until: Time, one_way: bool) {
        let now = self.now();
        let out_of = *self.streams.node.pick(&[2, 3]);
        self.trace
            .record(now, format_args!("CUT of pairs, 1 in {out_of}, one way: {one_way}, until {}", until.0));
        for from in 0..self.hosts.len() {
            for to in 0..from {
                let (there, back) =
                    (self.streams.node.chance(1, out_of), self.streams.node.chance(1, out_of));
                if there {
                    self.cut_between(from, to, until);
                }
                if if one_way { back } else { there } {
                    self.cut_between(to, from, until);
                }
            }
        }
    }

    /// The target of the next fault: any node, or one with a primary that clients will use.
    fn aim(&mut self) -> Option<usize> {
        let map = std::sync::Arc::clone(&self.watch.map);
        let primaries: Vec<_> = map
            .keyspaces()
            .flat_map(|(id, keyspace)| keyspace.groups().map(move |(_, group)| (id, group.primary)))
            .collect();
        if primaries.is_empty() || self.streams.node.chance(1, 3) {
            return self.any_up();
        }
        let (keyspace, primary) = *self.streams.node.pick(&primaries);
        let (host, _) = self.host_of(primary).filter(|(at, _)| self.hosts[*at].is_up)?;
        self.focus = Some((keyspace, self.now().after_us(3 * SECOND)));
        Some(host)
    }

    /// A manager loses its log, if all managers of a group of several run: with another one
    /// permanently gone, the group could decide nothing.
    fn lose_log(&mut self) {
        let managers: Vec<usize> =
            (0..self.hosts.len()).filter(|at| self.hosts[*at].manager.is_some()).collect();
        let is_well = |at: &usize| {
            let host = &self.hosts[*at];
            host.is_up
                && !host.is_doomed
                && host.agent.as_ref().is_some_and(|agent| agent.manager().is_some())
        };
        if self.watch.has_lost_log || managers.len() < 3 || !managers.iter().all(is_well) {
            return;
        }
        let at = *self.streams.node.pick(&managers);
        self.watch.has_lost_log = true;
        self.coverage.fault(FaultKind::LogsLost);
        self.end_process(at, NodeEnd::Power);
        self.trace.record(self.now(), format_args!("LOG of the manager of n{at} is lost"));
        self.hosts[at].control = super::control_disk::ControlDisk::default();
        self.hosts[at].has_lost_log = true;
    }

    /// Corrupts bytes on a disk of a node, if all its contents are in sync elsewhere too and
    /// nothing else is wrong. In the quiet period that follows the corruption is found and
    /// repaired.
    fn corruption(&mut self) {
        let is_well = |host: &super::host::ClusterHost| {
            host.life == 0 || host.is_removed || host.is_up && !host.is_doomed && !host.stays_down
        };
        if !self.scenario.has(FaultKind::DisksCorrupt)
            || self.watch.has_lost_disks
            || !self.hosts.iter().all(is_well)
        {
            return;
        }
        let Some(host) = self.any_up() else { return };
        if !self.is_safe_without(host) {
            return;
        }
        let now = self.now();
        let slot = self.streams.node.below(self.hosts[host].slots.len() as u64) as usize;
        let count = self.streams.node.between(1, 3) as usize;
        let disk = &self.hosts[host].slots[slot].disk;
        let mut corrupt = disk.corrupt_random(count);
        // A folder whose own metadata is corrupt is refused, and an operator would empty it: that
        // case is covered by lost disks.
        corrupt.retain(|corruption| {
            let is_log = corruption.path.ends_with(".seg");
            // Inverting the same bits again restores them.
            is_log || disk.corrupt_at(&corruption.path, corruption.offset, corruption.mask).is_err()
        });
        if corrupt.is_empty() {
            return;
        }
        self.trace.record(now, format_args!("DISK of n{host}/{slot} becomes corrupt: {corrupt:?}"));
        // The replica with an unreadable log may have been the only one with the last acknowledged
        // writes. A repair is in memory at first and on disk only after its segment is rewritten. A
        // restart may therefore find the corruption at any later time.
        self.watch.record_disk_fault(host, now);
        self.watch.lost_disks.insert(host, Time::NEVER);
        self.watch.has_lost_disks = true;
        self.hosts[host].has_failed = true;
        self.coverage.fault(FaultKind::DisksCorrupt);
    }

    /// A node loses its disks, if all their contents are in sync elsewhere too: data that was only
    /// there would be lost permanently, as documented.
    fn lose_disks(&mut self, host: usize) {
        if self.watch.has_lost_disks || !self.is_safe_without(host) {
            return;
        }
        self.watch.has_lost_disks = true;
        self.coverage.fault(FaultKind::DisksLost);
        self.end_process(host, NodeEnd::DisksLost);
    }

    /// Whether every partition that this node has in sync is in sync on another running node too,
    /// in its current incarnation.
    pub(super) fn is_safe_without(&self, host: usize) -> bool {
        let map = &self.watch.map;
        let Some(first) = self.hosts[host].folder.first_instance else { return true };
        let own = |instance: zerohop_wire::ids::InstanceId| {
            (first.0..first.0 + self.hosts[host].slots.len() as u32).contains(&instance.0)
        };
        let is_well = |instance| {
            let known = map.instance(instance);
            self.host_of(instance).is_some_and(|(at, _)| {
                let other = &self.hosts[at];
                other.is_up
                    && !other.is_doomed
                    && !self.targeted_faults.broken.contains(&(at, other.life))
                    && known.is_some_and(|known| known.incarnation == other.incarnation)
            })
        };
        map.keyspaces().flat_map(|(_, keyspace)| keyspace.groups()).all(|(_, group)| {
            let holders = || std::iter::once(group.primary).chain(group.in_sync.iter().copied());
            !holders().any(own) || holders().any(|one| !own(one) && is_well(one))
        })
    }

    fn begin_disk_fault(&mut self, host: usize, kind: FaultKind) {
        let now = self.now();
        let slot = self.streams.node.below(self.hosts[host].slots.len() as u64) as usize;
        let until = now.after_us(self.streams.node.below(3_000 * MS));
        let disk = self.hosts[host].slots[slot].disk.clone();
        match kind {
            FaultKind::DisksFail => {
                let which =
                    *self.streams.node.pick(&[Disk::Append, Disk::Sync, Disk::SyncBegin, Disk::ReadAt]);
                let out_of = *self.streams.node.pick(&[2, 20, 200]);
                disk.set_faults(SimulatedFaults::default().failing(which, 1, out_of));
                self.hosts[host].has_failed = true;
                self.targeted_faults.failed_disks.insert(host);
                self.trace
                    .record(now, format_args!("DISK of n{host}/{slot} fails at {which:?}, 1 in {out_of}"));
            }
            FaultKind::DisksFull => disk.set_capacity(*self.streams.node.pick(&[10_000, 40_000])),
            _ => disk.set_faults(SimulatedFaults::default().stalling(1, 20, 30_000)),
        }
        self.watch.record_disk_fault(host, now);
        self.trace.record(now, format_args!("DISK of n{host}/{slot}: {kind} until {}", until.0));
        let life = self.hosts[host].life;
        self.event_queue.at(until, ClusterEvent::Fault(ClusterFault::DiskRestored { host, life }));
    }

    /// A primary was promoted: some such processes are killed soon after.
    pub(super) fn draw_restart(&mut self, host: usize) {
        let (chance, after_us) = (self.streams.node.chance(1, 6), self.streams.node.below(600 * MS));
        if chance && self.scenario.has(FaultKind::Restarts) && self.phase == ClusterPhase::Faults {
            let at = self.now().after_us(after_us);
            let life = self.hosts[host].life;
            self.event_queue.at(at, ClusterEvent::Fault(ClusterFault::Restart { host, life }));
        }
    }

    /// A keyspace was split: sometimes a node loses power during its next disk operations, in which
    /// it splits its partitions.
    pub(super) fn draw_split_fault(&mut self) {
        AimedCrashes { world: self }.keyspace_split();
        let chance = self.streams.node.chance(1, 2) && self.scenario.has(FaultKind::PowerLosses);
        if !chance || self.phase != ClusterPhase::Faults {
            return;
        }
        let Some(host) = self.any_up() else { return };
        let slot = self.streams.node.below(self.hosts[host].slots.len() as u64) as usize;
        let operations = self.streams.node.below(60);
        self.trace.record(self.now(), format_args!("DOOM of n{host}/{slot}"));
        self.coverage.fault(FaultKind::PowerLosses);
        self.hosts[host].is_doomed = true;
        self.hosts[host].slots[slot].disk.cut_power_after(operations);
    }

    /// All faults end, and an operator's cleanup removes their traces.
    pub(super) fn end_faults(&mut self) {
        let now = self.now();
        self.trace.record(now, format_args!("HEAL"));
        self.phase = ClusterPhase::Healed;
        self.network.end_faults(now);
        self.peers.end_faults();
        self.redis.end_faults(now);
        self.end_all_stalls();
        AimedCrashes { world: self }.end();
        for client in 0..self.clients.len() {
            self.clients[client].paused_until = Time(0);
            self.schedule_client(client, now);
        }
        for at in 0..self.hosts.len() {
            let has_broken = self.targeted_faults.broken.contains(&(at, self.hosts[at].life));
            self.hosts[at].paused_until = Time(0);
            self.hosts[at].agent_paused_until = Time(0);
            self.hosts[at].repair_disks();
            self.hosts[at].clock.set_right(now);
            for slot in 0..self.hosts[at].slots.len() {
                self.hosts[at].slots[slot].disk.set_latency(Latency::default());
            }
            if self.hosts[at].is_doomed {
                self.end_process(at, NodeEnd::Power);
            } else if self.hosts[at].has_failed || has_broken {
                // A partition whose disk has failed accepts no writes until it is opened again, and one with a broken
                // invariant serves nothing.
                self.end_process(at, NodeEnd::Killed);
            }
            for slot in 0..self.hosts[at].slots.len() {
                self.schedule_slot(at, slot, now);
            }
            if self.hosts[at].life > 0 {
                self.start(at);
                self.handle_agent_event(at, zerohop_control::agent::AgentEvent::Tick);
            }
        }
        self.event_queue.at(now, ClusterEvent::Operate);
        self.history.healed = Some(now);
    }

    /// Nothing passes from one node to another until then.
    pub(super) fn cut_between(&mut self, from: usize, to: usize, until: Time) {
        self.peers.cut(from, to, until);
        self.redis.cut(from, to, until);
    }

    fn any_client(&mut self) -> usize {
        self.streams.client.below(self.scenario.clients as u64) as usize
    }
}

fn is_rare(kind: FaultKind) -> bool {
    matches!(
        kind,
        FaultKind::TotalRestarts | FaultKind::QuorumLosses | FaultKind::DisksLost | FaultKind::LogsLost
    )
}
