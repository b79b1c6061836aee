//! The world of one run: a node, clients, the network between them, and their faults, one event
//! after the other.
//!
//! ```text
//!   events ──> Travel    bytes arrive at the node (slot) or at a client
//!          ──> RunNode   an instance handles its arrivals, and answers          (nodes)
//!          ──> RunClient, Call                                               (calls)
//!          ──> Fault     crash, pause, cut off, full disk, alter ...         (faults)
//! ```

mod calls;
mod faults;
mod nodes;

use std::collections::BTreeSet;

use zerohop_base::time::Time;

use crate::client::ClientLife;
use crate::coverage::Coverage;
use crate::event_queue::EventQueue;
use crate::history::{KeyspaceHistory, RunHistory};
use crate::limits::{HEALING_US, QUIET_US, START};
use crate::network::{LinkArrival, LinkEnd, Network, Opener, PacketInTransit};
use crate::node::{Manager, NodeClock, NodeSlot};
use crate::scenario::NodeScenario;
use crate::streams::Streams;
use crate::trace::{LineRetention, Trace};
use crate::workload::draw::{OperationDraws, OperationMix};
use faults::NodeFault;

/// An event of the event queue.
#[derive(Debug)]
enum NodeWorldEvent {
    Travel(PacketInTransit),
    RunNode(usize),
    RunClient(usize),
    /// A client makes its next call, if it is alive.
    Call {
        client: usize,
        life: u32,
    },
    /// Sends a copy of a frame over a connection of its own.
    Repeat {
        instance: usize,
        frame: Vec<u8>,
    },
    Fault(NodeFault),
    /// The node starts again.
    Start,
    /// Faults end.
    EndFaults,
    /// Clients make no more calls.
    Quiet,
}

/// The simulated world.
#[derive(Debug)]
pub(crate) struct NodeWorld {
    pub(crate) trace: Trace,
    pub(crate) history: RunHistory,
    pub(crate) coverage: Coverage,
    /// Violations that no client could observe.
    pub(crate) violations: Vec<String>,
    scenario: NodeScenario,
    event_queue: EventQueue<NodeWorldEvent>,
    network: Network,
    manager: Manager,
    clock: NodeClock,
    slots: Vec<NodeSlot>,
    clients: Vec<ClientLife>,
    draws: OperationDraws,
    streams: Streams,
    /// Keyspaces that clients use, in the order of creation, including dropped ones.
    keyspaces: Vec<KeyspaceHistory>,
    /// Calls of which a copy of a frame may still take effect.
    calls_with_late_copy: BTreeSet<usize>,
    /// Until then clients make no calls and no faults occur.
    asleep_until: Time,
    phase: RunPhase,
    node: NodeState,
}

/// The phases of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum RunPhase {
    Faults,
    Healed,
    /// No more calls; open ones end.
    Quiet,
    /// Every record is read once more.
    Last,
}

/// The state of the node.
#[derive(Debug, Default)]
struct NodeState {
    /// If it is down: since when, whether it shut down cleanly, and the last time at which it was
    /// sound.
    down: Option<(Time, bool, Time)>,
    paused_until: Time,
    starts: u64,
    /// Since when its disks have trouble, or it does not run.
    disk_fault_since: Option<Time>,
    /// When the last trouble and its effects will have ended.
    disk_fault_until: Time,
    /// A disk has failed: this process permanently lacks a part of what it acknowledged.
    has_failed: bool,
}

impl NodeWorld {
    pub(crate) fn new(seed: u64, keep: LineRetention) -> Self {
        let mut streams = Streams::new(seed);
        let scenario = NodeScenario::new(&mut streams.scenario);
        let now = START;
        let event_queue = EventQueue::new(streams.schedule.clone(), now);
        let network = Network::new(streams.network.clone(), scenario.network, scenario.clients);
        let slots =
            (0..scenario.instances).map(|_| NodeSlot::new(nodes::new_disk(&mut streams.disk))).collect();
        let taste = OperationMix {
            has_large_values: scenario.large_values,
            expires: scenario.expires,
            is_hot: scenario.is_hot,
        };
        let draws = OperationDraws::new(streams.workload.clone(), taste);
        let mut world = Self {
            trace: Trace::new(keep),
            history: RunHistory::default(),
            coverage: Coverage::default(),
            violations: Vec::new(),
            event_queue,
            network,
            manager: Manager::new(scenario.instances),
            clock: NodeClock::new(now),
            slots,
            clients: Vec::new(),
            draws,
            streams,
            keyspaces: Vec::new(),
            calls_with_late_copy: BTreeSet::new(),
            asleep_until: Time(0),
            phase: RunPhase::Faults,
            node: NodeState { down: Some((now, true, now)), ..NodeState::default() },
            scenario,
        };
        let text = format!("{:?}", world.scenario);
        world.trace.record(now, format_args!("seed {seed}: {text}"));
        world
    }

    /// Runs the simulation to its end.
    pub(crate) fn run(&mut self) {
        self.set_up();
        let healed = START.after_us(self.scenario.faults_us + self.scenario.client_pause_us);
        self.event_queue.at(healed, NodeWorldEvent::EndFaults);
        self.event_queue.at(healed.after_us(HEALING_US + QUIET_US), NodeWorldEvent::Quiet);
        while !self.is_over()
            && let Some(event) = self.event_queue.next()
        {
            self.happen(event);
            self.enqueue_in_flight();
        }
        self.count();
        self.history.clocks_were_set = self.scenario.node.wild_clock;
        self.history.ended = self.event_queue.now();
        self.history.keyspaces = self.keyspaces.clone();
        self.coverage.events = self.trace.count();
    }

    fn now(&self) -> Time {
        self.event_queue.now()
    }

    fn set_up(&mut self) {
        self.start();
        self.create_first_keyspaces();
        for client in 0..self.scenario.clients {
            self.begin_client(client, 0);
        }
        self.schedule_faults();
        self.enqueue_in_flight();
    }

    fn happen(&mut self, event: NodeWorldEvent) {
        match event {
            NodeWorldEvent::Travel(thing) => self.arrive(thing),
            NodeWorldEvent::RunNode(slot) => self.run_slot(slot),
            NodeWorldEvent::RunClient(client) => self.run_client(client),
            NodeWorldEvent::Call { client, life } => self.call(client, life),
            NodeWorldEvent::Repeat { instance, frame } => self.repeat(instance, &frame),
            NodeWorldEvent::Fault(fault) => self.inject(fault),
            NodeWorldEvent::Start => self.start(),
            NodeWorldEvent::EndFaults => self.end_faults(),
            NodeWorldEvent::Quiet => self.phase = RunPhase::Quiet,
        }
        if self.phase == RunPhase::Quiet && self.clients.iter().all(|client| client.calls.is_empty()) {
            self.phase = RunPhase::Last;
            self.read_everything();
        }
    }

    fn is_over(&self) -> bool {
        self.phase == RunPhase::Last && self.clients.iter().all(|client| client.calls.is_empty())
    }

    fn enqueue_in_flight(&mut self) {
        for thing in self.network.take_in_transit() {
            self.event_queue.at(thing.at, NodeWorldEvent::Travel(thing));
        }
    }

    fn arrive(&mut self, thing: PacketInTransit) {
        if !self.network.arrives(&thing) {
            return;
        }
        let now = self.now();
        let PacketInTransit { link, to, what, .. } = thing;
        match &what {
            LinkArrival::Bytes(bytes) => {
                self.trace.record(now, format_args!("{link} to {to:?}: {} bytes", bytes.len()));
                self.trace.bytes(bytes);
            }
            other => self.trace.record(now, format_args!("{link} to {to:?}: {other:?}")),
        }
        match (to, self.network.opener(link)) {
            (LinkEnd::Node, _) => {
                let slot = self.network.instance(link);
                if let Some(found) = self.slots.get_mut(slot) {
                    found.arrive(link, what);
                    let soon = self.streams.schedule.below(self.scenario.arrival_delay_us_max);
                    self.schedule_slot(slot, now.after_us(soon));
                }
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

    /// Records a violation that no client can observe.
    fn record_violation(&mut self, what: String) {
        let now = self.now();
        self.trace.record(now, format_args!("TROUBLE {what}"));
        self.violations.push(what);
    }
}
