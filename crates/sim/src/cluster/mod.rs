//! Whole clusters: several nodes, each with an agent and instances on disks of their own, clients,
//! the network between all of them, and their faults, in one thread from one seed.
//!
//! ```text
//!   event_queue ──> Travel      bytes of connections arrive at an instance or at a client
//!          ──> ToInstance  frames of another instance arrive          (peers)
//!          ──> ToAgent     messages of another agent arrive           (peers)
//!          ──> RunSlot     an instance handles what has arrived       (slot, nodes)
//!          ──> RunAgent    time passes for an agent                   (agents)
//!          ──> RunClient, Call                                        (calls)
//!          ──> Fault       crash, partition, pause, full disk ...     (faults)
//!          ──> Operate     keyspaces, drains, removals, splits        (operator)
//!   watch ── every answer that leaves a process, every map decided ──> history, violations
//! ```

mod agents;
mod aimed_crashes;
mod answer_recorder;
mod blobs;
mod breaks;
mod bursts;
mod calls;
mod commits;
mod committed_entries;
mod compares;
mod contenders;
mod control_disk;
mod delayed_event;
mod double_deaths;
mod elections;
mod faults;
mod group_check;
mod hash_ranges;
mod host;
mod instance_turn;
mod interactive;
mod joined_deltas;
mod maps;
mod node_end;
mod nodes;
mod operator;
mod pair_cuts;
mod peers;
mod program_clients;
mod record;
mod record_batches;
mod recovery;
mod redis;
mod redis_turn;
mod region_splits;
mod reported_logs;
mod restarts;
mod running_transaction;
mod scans;
mod scenario;
mod slot;
mod snapshot_task;
mod snapshots;
mod stalls;
mod targeted_faults;
mod torn_batches;
mod traffic;
mod transaction_reads;
mod transactions;
mod watch;
mod watchers;
mod without_epochs;

use std::collections::{BTreeSet, VecDeque};

use zerohop_base::time::Time;
use zerohop_control::command::{ManagerId, ManagerInfo};
use zerohop_engine::disk::crash_point::CrashPoint;
use zerohop_engine::disk::simulated::SimulatedDisk;
use zerohop_wire::ids::KeyspaceId;

use crate::client::ClientLife;
use crate::coverage::Coverage;
use crate::engine_cases;
use crate::event_queue::EventQueue;
use crate::history::RunHistory;
use crate::kinds::FaultKind;
use crate::limits::{
    CLUSTER_CALLS_END_US, CLUSTER_CALLS_US, CLUSTER_EVENTS_MAX, CLUSTER_HEALING_US, CLUSTER_OPERATIONS_MIN,
    QUIET_US, START,
};
use crate::network::{LinkArrival, LinkEnd, LinkId, Network, Opener, PacketInTransit};
use crate::programs::ClientPrograms;
use crate::streams::Streams;
use crate::trace::{LineRetention, Trace};
use crate::workload::draw::{OperationDraws, OperationMix};
use crate::workload::transactional;
use blobs::Blobs;
use commits::Commits;
use compares::Compares;
use delayed_event::DelayedEvent;
use faults::ClusterFault;
use host::{ClusterHost, manager_address};
use operator::Operator;
use peers::Peers;
use program_clients::{ProgramClients, RunPrograms};
use redis::{RedisEvent, RedisWorld};
use scans::Scans;
use scenario::ClusterScenario;
pub use scenario::{Limits, ScenarioDraws, scenario_draws};
use snapshots::Snapshots;
use stalls::Stalls;
use targeted_faults::TargetedFaults;
use transactions::ClientTransactions;
use watch::ClusterWatch;

/// An event of the event_queue.
#[derive(Debug)]
enum ClusterEvent {
    Travel(PacketInTransit),
    ToInstance {
        host: usize,
        slot: usize,
        frames: Vec<u8>,
    },
    ToAgent {
        host: usize,
        bytes: Vec<u8>,
    },
    /// A write to disk that an agent asked for is durable.
    Persisted {
        host: usize,
        life: u32,
        number: u64,
    },
    RunSlot {
        host: usize,
        slot: usize,
    },
    RunAgent {
        host: usize,
        life: u32,
    },
    RunClient(usize),
    Call {
        client: usize,
        life: u32,
    },
    /// Another client uses the keys of a transaction that is in progress.
    Contender {
        client: usize,
        operation: transactional::ClientOperationPlan,
    },
    /// Sends a copy of a frame over a connection of its own.
    Repeat {
        instance_index: usize,
        frame: Vec<u8>,
        /// The sender stays connected until it has the answer.
        waits: bool,
    },
    /// The connection of such a copy, or of an extra reader, ends.
    HangUp(LinkId),
    Fault(ClusterFault),
    /// A client that runs a program dies.
    ClientDies {
        client: usize,
        life: u32,
    },
    /// An event of Redis clients.
    Redis(RedisEvent),
    Operate,
    Start(usize),
    EndFaults,
    /// Clients make no more calls, if they have made enough.
    Quiet,
    /// Checks whether all groups are complete and their members equal.
    CheckGroups,
}

/// The simulated cluster.
#[derive(Debug)]
pub(crate) struct SimulatedCluster {
    pub(crate) trace: Trace,
    pub(crate) history: RunHistory,
    pub(crate) coverage: Coverage,
    /// Violations that no client could observe, by checker.
    pub(crate) violations: Vec<(&'static str, String)>,
    seed: u64,
    scenario: ClusterScenario,
    event_queue: EventQueue<ClusterEvent>,
    network: Network,
    peers: Peers,
    stalls: Stalls,
    targeted_faults: TargetedFaults,
    hosts: Vec<ClusterHost>,
    bootstrap_members: Vec<ManagerInfo>,
    clients: Vec<ClientLife>,
    draws: OperationDraws,
    transacting: ClientTransactions,
    commits: Commits,
    blobs: Blobs,
    snapshots: Snapshots,
    compares: Compares,
    scans: Scans,
    pub(crate) programs: RunPrograms,
    redis: RedisWorld,
    streams: Streams,
    operator: Operator,
    watch: ClusterWatch,
    /// Calls of which a copy of a frame may still take effect.
    calls_with_late_copy: BTreeSet<usize>,
    /// Events for agents, queued until all effects of the current event are carried out; each with
    /// the life of the node that it concerns.
    pending: VecDeque<(usize, u32, DelayedEvent)>,
    /// The keyspace that clients use most, and until when: a fault has struck one of its nodes.
    focus: Option<(KeyspaceId, Time)>,
    phase: ClusterPhase,
    /// The highest index that a member of each group had applied at the last look.
    applied_before: group_check::AppliedIndexes,
}

/// The phases of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ClusterPhase {
    Faults,
    Healed,
    /// No more calls; open ones end.
    Quiet,
    /// Every record is read once more.
    Last,
    /// Until `due` all groups become complete, their members equal, and versions for snapshots are
    /// released.
    CompletingGroups {
        due: Time,
    },
    Over,
}

impl SimulatedCluster {
    pub(crate) fn new(seed: u64, keep: LineRetention, limits: Limits) -> Self {
        Self::build(seed, keep, limits, RunPrograms::default())
    }

    /// A cluster whose clients run programs.
    pub(crate) fn with_programs(seed: u64, keep: LineRetention, programs: Box<dyn ClientPrograms>) -> Self {
        Self::build(seed, keep, Limits::default(), RunPrograms::new(Some(programs)))
    }

    fn build(seed: u64, keep: LineRetention, limits: Limits, programs: RunPrograms) -> Self {
        let mut streams = scenario::streams(seed);
        let mut scenario = ClusterScenario::new(&mut streams.scenario, limits);
        programs.adapt(&mut scenario, &streams);
        let region_splits = programs.region_splits(&streams);
        let now = START;
        // Nodes have clients of their own for Redis commands over several partitions.
        let clients = scenario.clients + scenario.nodes.len();
        let network = Network::new(streams.network.clone(), scenario.network, clients);
        let peers = Peers::new(streams.network.fork(1), scenario.peers);
        let mut place = 0;
        let hosts = scenario.nodes.iter().enumerate().map(|(at, count)| {
            let count = *count as usize;
            let mut disk = || SimulatedDisk::new(streams.disk.next_u64());
            let disks = (0..count).map(|_| (disk(), disk())).collect();
            place += count;
            let mut host = ClusterHost::new(at, disks, place - count..place, now);
            host.domain = at as u32 / scenario.rack;
            host.clock.set_step(scenario.peers.clock_step_ms);
            host.manager = (at < scenario.managers).then_some(ManagerId(at as u64 + 1));
            host
        });
        let hosts: Vec<ClusterHost> = hosts.collect();
        let members = (0..scenario.managers)
            .map(|at| ManagerInfo { id: ManagerId(at as u64 + 1), addr: manager_address(at) })
            .collect();
        let taste = OperationMix {
            has_large_values: scenario.large_values,
            expires: scenario.expires,
            is_hot: scenario.is_hot,
        };
        let plan_draws = transactional::PlanDraws::new(
            streams.workload.fork(1),
            scenario.large_values,
            scenario.traits.truncates_in_steps,
        );
        let mut world = Self {
            trace: Trace::new(keep),
            history: RunHistory::default(),
            coverage: Coverage::default(),
            violations: Vec::new(),
            seed,
            event_queue: EventQueue::new(streams.schedule.clone(), now),
            network,
            peers,
            stalls: Stalls::default(),
            targeted_faults: TargetedFaults::default(),
            hosts,
            bootstrap_members: members,
            clients: Vec::new(),
            draws: OperationDraws::new(streams.workload.clone(), taste),
            transacting: ClientTransactions::new(plan_draws),
            commits: Commits::default(),
            blobs: Blobs::default(),
            snapshots: Snapshots::new(streams.workload.fork(2)),
            compares: Compares::new(streams.workload.fork(3)),
            scans: Scans::new(streams.workload.fork(4)),
            redis: RedisWorld::new(scenario::redis_random(&streams), &scenario),
            operator: Operator::new(
                region_splits.unwrap_or_else(|| scenario::region_splits_of(&streams, &scenario, limits)),
            ),
            streams,
            watch: ClusterWatch::default(),
            calls_with_late_copy: BTreeSet::new(),
            pending: VecDeque::new(),
            programs,
            focus: None,
            phase: ClusterPhase::Faults,
            applied_before: group_check::AppliedIndexes::new(),
            scenario,
        };
        let text = format!("{:?}", world.scenario);
        world.trace.record(now, format_args!("cluster, seed {seed}: {text}"));
        world
    }

    /// Runs the simulation to its end.
    pub(crate) fn run(&mut self) {
        #[cfg(debug_assertions)]
        zerohop_replication::message_limit::set_message_entries(self.scenario.peers.message_entries);
        self.set_up();
        while self.phase != ClusterPhase::Over
            && let Some(event) = self.event_queue.next()
        {
            self.happen(event);
            self.enqueue_in_flight();
            if self.trace.count() > CLUSTER_EVENTS_MAX {
                self.record_violation("progress", "a loop without end: too many events".to_owned());
                break;
            }
        }
        self.finish();
    }

    fn now(&self) -> Time {
        self.event_queue.now()
    }

    fn set_up(&mut self) {
        let late = self.scenario.nodes.len() - self.scenario.late;
        for host in 0..late {
            let soon = self.streams.node.below(200_000);
            self.event_queue.at(START.after_us(soon), ClusterEvent::Start(host));
        }
        self.event_queue.at(START.after_us(1_000_000), ClusterEvent::Operate);
        for client in 0..self.scenario.clients {
            self.begin_client(client, 0);
        }
        redis::RedisRun { world: self }.set_up();
        self.schedule_faults();
        self.event_queue.at(self.scenario.faults_end, ClusterEvent::EndFaults);
        self.event_queue
            .at(self.scenario.faults_end.after_us(CLUSTER_HEALING_US + QUIET_US), ClusterEvent::Quiet);
        self.enqueue_in_flight();
    }

    fn happen(&mut self, event: ClusterEvent) {
        match event {
            ClusterEvent::Travel(thing) => self.arrive(thing),
            ClusterEvent::ToInstance { host, slot, frames } => self.receive_frames(host, slot, frames),
            ClusterEvent::ToAgent { host, bytes } => self.deliver_to_agent(host, bytes),
            ClusterEvent::Persisted { host, life, number } => self.agent_persisted(host, life, number),
            ClusterEvent::RunSlot { host, slot } => self.run_slot(host, slot),
            ClusterEvent::RunAgent { host, life } => self.run_agent(host, life),
            ClusterEvent::RunClient(client) => self.run_client(client),
            ClusterEvent::Call { client, life } => self.call(client, life),
            ClusterEvent::Contender { client, operation: plan } => self.start_contender(client, plan),
            ClusterEvent::Repeat { instance_index: place, frame, waits } => self.repeat(place, &frame, waits),
            ClusterEvent::HangUp(link) => self.network.close(self.event_queue.now(), link, LinkEnd::Opener),
            ClusterEvent::Fault(fault) => self.inject(fault),
            ClusterEvent::ClientDies { client, life } => {
                ProgramClients { world: self }.die(client, life);
            }
            ClusterEvent::Redis(event) => redis::RedisRun { world: self }.happen(event),
            ClusterEvent::Operate => self.operate(),
            ClusterEvent::Start(host) => self.start(host),
            ClusterEvent::EndFaults => self.end_faults(),
            ClusterEvent::Quiet => self.grow_quiet(),
            ClusterEvent::CheckGroups => self.check_groups(),
        }
        self.deliver_agent_events();
        let is_late = self.now() >= self.scenario.faults_end.after_us(CLUSTER_CALLS_END_US);
        let is_idle = |world: &Self| {
            let are_idle = world.clients.iter().all(|client| client.calls.is_empty());
            is_late
                || are_idle
                    && world.transacting.is_idle()
                    && world.blobs.is_idle()
                    && world.redis.is_idle()
                    && world.programs.is_idle()
        };
        match self.phase {
            ClusterPhase::Quiet if is_idle(self) => {
                self.phase = ClusterPhase::Last;
                ProgramClients { world: self }.conclude();
                self.read_everything();
                redis::RedisRun { world: self }.read_everything();
            }
            ClusterPhase::Last if is_idle(self) => {
                self.phase = ClusterPhase::CompletingGroups { due: self.complete_groups_due() };
                self.check_groups();
            }
            _ => {}
        }
    }

    fn grow_quiet(&mut self) {
        let count = self.coverage.operations;
        if count < CLUSTER_OPERATIONS_MIN && !self.programs.is_on() {
            let later = self.now().after_us(500_000);
            if later < self.scenario.faults_end.after_us(CLUSTER_CALLS_US) {
                return self.event_queue.at(later, ClusterEvent::Quiet);
            }
            let keyspaces = self.watch.live(self.now()).count();
            self.record_violation(
                "progress",
                format!("only {count} operations were done, on {keyspaces} keyspaces"),
            );
        }
        self.phase = ClusterPhase::Quiet;
        self.programs.stop();
        self.snapshots.end_all();
    }

    fn enqueue_in_flight(&mut self) {
        for thing in self.network.take_in_transit() {
            self.event_queue.at(thing.at, ClusterEvent::Travel(thing));
        }
        redis::RedisRun { world: self }.enqueue_in_flight();
    }

    fn arrive(&mut self, thing: PacketInTransit) {
        if !self.network.arrives(&thing) {
            return;
        }
        let now = self.now();
        let PacketInTransit { link, to, what, .. } = thing;
        match &what {
            LinkArrival::Bytes(bytes) => {
                self.trace.record_frequent(
                    now,
                    format_args!("{link} to {to:?}: {} bytes", bytes.len()),
                    link.0,
                );
                self.trace.bytes(bytes);
            }
            other => self.trace.record_frequent(now, format_args!("{link} to {to:?}: {other:?}"), link.0),
        }
        match (to, self.network.opener(link)) {
            (LinkEnd::Node, _) => {
                let Some((host, slot)) = self.locate_instance(self.network.instance(link)) else { return };
                self.hosts[host].slots[slot].arrive(link, what);
                self.schedule_slot_soon(host, slot);
            }
            (LinkEnd::Opener, Some(Opener::Client { client, life, connection }))
                if self.clients[client].life == life =>
            {
                self.clients[client].arrive(link, connection, what);
                let soon = self.streams.schedule.below(30);
                self.schedule_client(client, now.after_us(soon));
            }
            _ => {}
        }
    }

    /// The node and the slot of an instance, by its place among all.
    fn locate_instance(&self, place: usize) -> Option<(usize, usize)> {
        let host = self.hosts.iter().find(|host| host.instance_range.contains(&place))?;
        Some((host.at, place - host.instance_range.start))
    }

    /// Records a violation that no client can observe.
    fn record_violation(&mut self, checker: &'static str, what: String) {
        let now = self.now();
        self.trace.record(now, format_args!("TROUBLE {checker}: {what}"));
        self.violations.push((checker, what));
    }

    fn finish(&mut self) {
        for host in 0..self.hosts.len() {
            self.count(host);
            for slot in &self.hosts[host].slots {
                for point in CrashPoint::ALL {
                    self.coverage.blobs_seen(engine_cases::reached(point), slot.disk.times_reached(point));
                }
            }
        }
        (0..self.clients.len()).for_each(|client| self.count_reads(client));
        if !self.history.redis.calls.is_empty() {
            self.coverage.fault(FaultKind::RedisClients);
        }
        for kind in [
            FaultKind::Loss,
            FaultKind::Repeats,
            FaultKind::Reordering,
            FaultKind::Delays,
            FaultKind::BrokenConnections,
            FaultKind::RepeatedRequests,
            FaultKind::ClockRates,
        ] {
            // These are present during the whole run.
            if self.scenario.has(kind) && self.scenario.fault_windows.len() > 1 {
                self.coverage.fault(kind);
            }
        }
        if self.scenario.peers.clock_step_ms > 1 {
            self.coverage.blob("clocks that advance in steps");
        }
        self.history.is_cluster = true;
        self.history.clocks_were_set = self.scenario.has(FaultKind::ClockJumps);
        self.history.ended = self.event_queue.now();
        self.watch.add_to_history(&mut self.history);
        self.place_blob_writes();
        self.coverage.events = self.trace.count();
        self.coverage.simulated_us = self.event_queue.now().since_us(START);
        self.coverage.short_runs = u64::from(self.coverage.operations < CLUSTER_OPERATIONS_MIN);
    }
}
