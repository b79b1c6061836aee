//! The agent of a node: the node's part in the cluster, whether or not it is a member of the control group.
//! The agent joins the node to the cluster, follows the map and passes it on. It proposes what instances and
//! operators request, sends the reports that the control group needs, and takes part in gossip.
//!
//! ```text
//!   instances ─ InstanceProposes, FetchMap, LogEnds, ─┐
//!               Unreachable, Load                     │            ┌── Map, MapReplaced, RequestLogEnds ──▶
//!   operator ── Operate ──────────────────────────────┼──▶ Agent ──┼── Answered ──▶
//!   other agents ─ Received ──────────────────────────┘     │      └── Send ──▶
//!                                                           ├── Gossip, once joined
//!   disk ────── Persisted ────────────────────────────▶     └── Manager, on members ── Persist ──▶
//! ```
//!
//! The agent is pure, like all of this crate: the shells in `sim` and `server` provide sockets, disks and calls
//! of instances, and nothing else. The steps of a start: [`Agent::open`]; [`AgentEffect::Open`] with a map no
//! older than the start; the shell opens its instances and sends [`AgentEvent::Opened`];
//! [`AgentEffect::Joined`]. `docs/protocols/control.md` defines the messages between agents.

use std::collections::BTreeMap;
use std::sync::Arc;

use zerohop_placement::{Address, ClusterMap, MapHistory};
use zerohop_wire::ids::{Incarnation, InstanceId, MapEpoch, NodeId};
use zerohop_wire::messages::ClusterId;

use crate::command::{ManagerId, ManagerInfo};
use crate::gossip::Gossip;
use crate::manager::{self, RaftManager};
use zerohop_base::random::{SplitMix64, mix64};
use zerohop_base::time::Time;

mod bootstrap;
mod cluster_status;
mod control_group;
mod effect;
mod event;
mod failure_detector;
mod joining;
mod map_updates;
mod maps;
mod membership;
pub mod message;
mod notice;
mod operator;
mod own_node;
mod proposals;
mod reports;
mod settings;
mod status_watch;

pub use cluster_status::ClusterStatus;
pub use effect::{AgentEffect, EndReason, LogEndQuery, NoOutcome};
pub use event::{AgentEvent, GroupRequest};
pub use notice::LogNotice;
pub use settings::{AgentSettings, ControlRole, OpenError};

use bootstrap::Bootstrap;
use control_group::ControlGroupView;
use failure_detector::SilentNodes;
use joining::{DiskState, StartPhase};
use map_updates::Peers;
use maps::{MapFetch, Maps};
use membership::{PersistCounter, Pieces};
use message::{AgentBody, ControlGroupNews, Message};
use notice::Primaries;
use own_node::OwnNode;
use proposals::{ForwardedProposals, Proposals};
use reports::LogReports;
use status_watch::StatusWatch;

/// Least time in milliseconds between two `OtherCluster` messages to nodes of other clusters.
const OTHER_CLUSTER_PAUSE_MS: u64 = 100;
/// Limit on the rounds in which timed work may lead to further work.
const ROUNDS_MAX: usize = 8;

/// See the module.
pub struct Agent {
    settings: AgentSettings,
    cluster: ClusterId,
    now: Time,
    stream: SplitMix64,
    start: StartPhase,
    /// The mark of the command that dates this start.
    start_applied_count: Option<u64>,
    own: Option<OwnNode>,
    /// The manager of this node, if it is a member of the control group.
    manager: Option<RaftManager>,
    /// The last manager of this node; its log is kept until another manager replaces it.
    last_manager: Option<ManagerId>,
    /// The base of the counting of persist effects: those of earlier managers do not concern this one.
    persists: PersistCounter,
    manager_leader: Option<ManagerId>,
    bootstrap: Option<Bootstrap>,
    /// The starts of bootstrap members without a log that the first member had heard from when it
    /// bootstrapped. Empty if this node has not bootstrapped in this start.
    bootstrapped_with: BTreeMap<Address, Incarnation>,
    pieces: Pieces,
    group: ControlGroupView,
    maps: Maps,
    fetch: MapFetch,
    peers: Peers,
    proposals: Proposals,
    forwarded: ForwardedProposals,
    log_reports: LogReports,
    gossip: Option<Gossip>,
    silent: SilentNodes,
    watch: StatusWatch,
    primaries: Primaries,
    /// Starts that would replace a process that answers at another address, and since when.
    duplicate_starts: BTreeMap<NodeId, (Incarnation, Time)>,
    /// When the list of managers may be proposed again with other addresses.
    next_placing: Time,
    /// Contacts that belong to another cluster, as they reported.
    other_cluster_contacts: BTreeMap<Address, ClusterId>,
    next_other_cluster_message: Time,
    effects: Vec<AgentEffect>,
    has_ended: bool,
    counters: AgentCounters,
}

/// Counters since the start of this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AgentCounters {
    /// Messages that could not be decoded.
    pub malformed: u64,
    /// Messages of other clusters.
    pub other_cluster_messages: u64,
    /// Requests of instances that were dropped because too many waited.
    pub dropped: u64,
}

impl Agent {
    /// Starts an agent. The returned number is the count of valid bytes of the control log, zero without a
    /// log. The shell must truncate the rest, which a crash tore, before anything is appended. Effects that
    /// exist already come with the first event, which must be [`AgentEvent::Tick`], at once.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(now: Time, settings: AgentSettings) -> Result<(Agent, usize), OpenError> {
        if settings.incarnation == Incarnation(0) {
            return Err(OpenError::Settings("the nonce of a start is not zero"));
        }
        let members = match &settings.control {
            ControlRole::Bootstrap { id, members, .. }
                if !members.iter().any(|one| one.id == *id && one.addr == settings.manager) =>
            {
                return Err(OpenError::Settings(
                    "a bootstrap node is one of the bootstrap members, at its own address",
                ));
            }
            ControlRole::Bootstrap { .. }
                if settings.node.is_some() || settings.map.epoch() > MapEpoch(0) =>
            {
                return Err(OpenError::Settings(
                    "this node has been in the cluster, and the log of its manager is lost: start it with --join and the address of \
                     another node, instead of the list of hosts",
                ));
            }
            ControlRole::Bootstrap { members, .. } => members.clone(),
            _ => Vec::new(),
        };
        let mut agent = Agent {
            cluster: settings.cluster,
            now,
            stream: SplitMix64::new(settings.seed),
            start: StartPhase::ClusterUnknown,
            start_applied_count: None,
            own: None,
            manager: None,
            last_manager: None,
            persists: PersistCounter::default(),
            manager_leader: None,
            bootstrap: None,
            bootstrapped_with: BTreeMap::new(),
            pieces: Pieces::default(),
            group: ControlGroupView::new(&settings.contacts, members, &settings.moved),
            maps: Maps { history: MapHistory::new(Arc::clone(&settings.map)), ..Maps::default() },
            fetch: MapFetch::default(),
            peers: Peers::default(),
            // Separate from the nonces under which managers send requests.
            proposals: Proposals::new(mix64(settings.incarnation.get())),
            forwarded: ForwardedProposals::default(),
            log_reports: LogReports::default(),
            gossip: None,
            silent: SilentNodes::default(),
            watch: StatusWatch::new(now),
            primaries: Primaries::default(),
            duplicate_starts: BTreeMap::new(),
            next_placing: now,
            other_cluster_contacts: BTreeMap::new(),
            next_other_cluster_message: now,
            effects: Vec::new(),
            has_ended: false,
            counters: AgentCounters::default(),
            settings,
        };
        let good = agent.open_control(now)?;
        Ok((agent, good))
    }

    fn open_control(&mut self, now: Time) -> Result<usize, OpenError> {
        match std::mem::replace(&mut self.settings.control, ControlRole::No) {
            ControlRole::No => Ok(0),
            ControlRole::Log(log) => {
                let opened = RaftManager::open(now, &log, self.manager_settings());
                let (manager, good) = opened.map_err(OpenError::Log)?;
                self.install_manager(manager);
                Ok(good)
            }
            ControlRole::Bootstrap { id, members, addresses } => {
                self.bootstrap = Some(Bootstrap::new(now, id, members, addresses));
                Ok(0)
            }
            ControlRole::New { id } => {
                let log = RaftManager::join(id);
                let opened = RaftManager::open(now, &log, self.manager_settings());
                let (manager, _) = opened.map_err(OpenError::Log)?;
                self.effects.push(AgentEffect::Persist { number: 0, bytes: log, replace: true });
                self.install_manager(manager);
                Ok(0)
            }
        }
    }

    fn manager_settings(&mut self) -> manager::ManagerSettings {
        let AgentSettings { leader: lead, log_entries_max, .. } = self.settings;
        manager::ManagerSettings {
            leader: lead,
            log_entries_max,
            ..manager::ManagerSettings::new(self.stream.next_u64())
        }
    }

    /// Handles the next event.
    pub fn handle(&mut self, now: Time, event: AgentEvent<'_>) -> Vec<AgentEffect> {
        if self.has_ended {
            return Vec::new();
        }
        self.ignore_pause(now);
        self.now = self.now.max(now);
        match event {
            AgentEvent::Tick => {}
            AgentEvent::Received { bytes } => self.receive(bytes),
            AgentEvent::Persisted(number) => self.persisted(number),
            AgentEvent::Opened { intact, closed } => self.opened(DiskState { intact, closed }),
            AgentEvent::InstanceProposes { instance, keyspace, partition, epoch, change } => {
                self.handle_instance_proposal((instance, keyspace, partition), epoch, change);
            }
            AgentEvent::Drained(drained) => self.drained(drained),
            AgentEvent::FetchMap => self.fetch_soon(),
            AgentEvent::LogEnds(logs) => self.log_ends(logs),
            AgentEvent::Unreachable { node, incarnation } => self.unreachable(node, incarnation),
            AgentEvent::Load { keyspace, partition, load } => self.load(keyspace, partition, load),
            AgentEvent::Operate { token, command } => self.operate(token, command),
            AgentEvent::Clock { unix_ms } => self.notify_manager(manager::ManagerEvent::Clock { unix_ms }),
            AgentEvent::Leave => self.leave(),
            AgentEvent::TransferLeadership(to) => {
                self.notify_manager(manager::ManagerEvent::TransferLeadership(to))
            }
        }
        self.tick();
        std::mem::take(&mut self.effects)
    }

    /// When [`AgentEvent::Tick`] is due, if nothing else happens before.
    pub fn tick_due(&self) -> Time {
        if self.has_ended {
            return Time::NEVER;
        }
        let next_message = if self.is_leader() { self.peers.next } else { Time::NEVER };
        let all = [
            self.manager.as_ref().map_or(Time::NEVER, RaftManager::tick_due),
            self.bootstrap.as_ref().map_or(Time::NEVER, |bootstrap| bootstrap.next),
            self.fetch.next,
            self.proposals.next_due(),
            self.log_reports.next_due(),
            self.failure_detector_due(),
            next_message,
        ];
        all.into_iter().min().unwrap_or(Time::NEVER)
    }

    /// Whether the agent needs [`AgentEvent::Clock`].
    pub fn needs_clock(&self) -> bool {
        self.manager.as_ref().is_some_and(RaftManager::needs_clock)
    }

    /// The map that the agent follows: everything in it is decided.
    pub fn map(&self) -> &Arc<ClusterMap> {
        self.maps.history.map()
    }

    /// The map and its recent changes, for clients that fetch the map.
    pub fn history(&self) -> &MapHistory {
        &self.maps.history
    }

    /// This node's number, once it has one.
    pub fn node(&self) -> Option<NodeId> {
        self.own.map(|own| own.node).or(self.settings.node)
    }

    /// Whether the node has joined in this start.
    pub fn has_joined(&self) -> bool {
        self.start == StartPhase::Joined
    }

    /// Whether an instance is one of this node's.
    pub fn has_instance(&self, instance: InstanceId) -> bool {
        self.own.is_some_and(|own| own.has(instance))
    }

    /// The manager of this node, if it has one.
    pub fn manager(&self) -> Option<&RaftManager> {
        self.manager.as_ref()
    }

    /// The control group, as far as known.
    pub fn managers(&self) -> &[ManagerInfo] {
        &self.group.managers
    }

    /// The leader of the control group, as far as known.
    pub fn leader(&self) -> Option<ManagerId> {
        self.group.leader
    }

    /// What a start waits for, for people; none once it has joined.
    pub fn waits_for(&self) -> Option<String> {
        if let Some(bootstrap) = &self.bootstrap {
            return Some(bootstrap.waits_for());
        }
        let what = match self.start {
            StartPhase::ClusterUnknown => {
                format!("the name of the cluster, from any of its nodes: {}", self.contacts_text())
            }
            StartPhase::Synchronizing => format!("a leader of the control group: {}", self.contacts_text()),
            StartPhase::Waiting { .. } => "the present map".to_owned(),
            StartPhase::Opening { .. } => "its instances to be opened".to_owned(),
            StartPhase::Joining { .. } => "the control group to take it in".to_owned(),
            StartPhase::Joined => return None,
        };
        Some(what)
    }

    /// Whether a start waits for its own instances.
    pub fn opens_instances(&self) -> bool {
        matches!(self.start, StartPhase::Opening { .. })
    }

    /// The counters since the start.
    pub fn counters(&self) -> AgentCounters {
        self.counters
    }

    /// The settings of the agent, without its control role, which `open` takes out.
    pub fn settings(&self) -> &AgentSettings {
        &self.settings
    }

    /// The node's number, once the map has it.
    fn own_node(&self) -> Option<NodeId> {
        self.own.map(|own| own.node)
    }

    fn cluster_is_known(&self) -> bool {
        self.cluster != ClusterId::default()
    }

    fn tick(&mut self) {
        if self.manager.as_ref().is_some_and(|manager| manager.tick_due() <= self.now) {
            self.notify_manager(manager::ManagerEvent::Tick);
        }
        for _ in 0..ROUNDS_MAX {
            self.tick_bootstrap();
            self.tick_failure_detector();
            self.tick_start();
            self.tick_reports();
            self.tick_addresses();
            self.tick_proposals();
            self.tick_fetch();
            self.tick_map_updates();
            if self.has_ended || self.tick_due() > self.now {
                break;
            }
        }
        self.tick_cluster_state();
    }

    fn receive(&mut self, bytes: &[u8]) {
        let Ok(Message { cluster, from, body }) = Message::decode(bytes) else {
            self.counters.malformed += 1;
            return;
        };
        if let AgentBody::Gossip(bytes) = &body {
            if cluster == self.cluster {
                self.listen_to(bytes);
            }
            return;
        }
        let Some(from) = from.filter(|from| *from != self.settings.manager) else {
            self.counters.malformed += 1;
            return;
        };
        if cluster != self.cluster && !self.is_same_cluster(&from, cluster, &body) {
            return;
        }
        match body {
            AgentBody::Gossip(_) | AgentBody::OtherCluster => {}
            AgentBody::Raft { from: manager, to, number, piece, pieces, bytes } => {
                self.handle_manager_message((manager, to), (number, piece, pieces), bytes, &from);
            }
            AgentBody::Propose(request) => self.handle_proposal(&from, request),
            AgentBody::Answer { id, answer, news } => self.handle_answer(&from, id, answer, &news),
            AgentBody::MapRequest { node, have, piece, is_confirmation } => {
                self.handle_map_request(&from, node, have, piece, is_confirmation);
            }
            AgentBody::MapPiece { news, piece, pieces, bytes } => {
                self.handle_map_piece(&from, &news, (piece, pieces), bytes);
            }
            AgentBody::Reports { by, about } => self.handle_node_reports(&from, by, &about),
            AgentBody::Loads(loads) => self.loaded(&loads),
            AgentBody::BootstrapRequest { incarnation } => self.handle_bootstrap_request(&from, incarnation),
            AgentBody::BootstrapState { incarnation, is_bootstrapped, expects, known_starts: starts } => {
                self.handle_bootstrap_state(&from, (incarnation, is_bootstrapped, expects), starts);
            }
        }
    }

    /// Whether a message may be handled although it names another cluster. A node that does not know its
    /// cluster yet may request the map, and learns the cluster from the answer. The agent answers all other
    /// senders that this is another cluster.
    fn is_same_cluster(&mut self, from: &Address, cluster: ClusterId, body: &AgentBody) -> bool {
        let unknown = ClusterId::default();
        if cluster == unknown && matches!(body, AgentBody::MapRequest { .. }) {
            return true;
        }
        if !self.cluster_is_known() && cluster != unknown && matches!(body, AgentBody::MapPiece { .. }) {
            self.cluster = cluster;
            self.effects.push(AgentEffect::Cluster(cluster));
            return true;
        }
        self.counters.other_cluster_messages += 1;
        if matches!(body, AgentBody::OtherCluster) {
            self.check_other_cluster(from, cluster);
        } else if self.cluster_is_known() && self.now >= self.next_other_cluster_message {
            self.next_other_cluster_message = self.now.after_ms(OTHER_CLUSTER_PAUSE_MS);
            self.send(from, AgentBody::OtherCluster);
        }
        false
    }

    /// If all addresses that this node might contact belong to other clusters, it was given the wrong
    /// addresses, or the wrong folder.
    fn check_other_cluster(&mut self, by: &Address, cluster: ClusterId) {
        let me = &self.settings.manager;
        let is_known = self.group.known().any(|known| known == by);
        if !is_known || self.has_joined() || self.manager.is_some() {
            return;
        }
        self.other_cluster_contacts.insert(by.clone(), cluster);
        let is_foreign = |known: &Address| self.other_cluster_contacts.contains_key(known);
        let all =
            self.group.applied_count == 0 && self.group.known().filter(|known| *known != me).all(is_foreign);
        let all_named = !self.settings.named.is_empty() && self.settings.named.iter().all(is_foreign);
        if all || all_named {
            self.end(EndReason::OtherCluster { by: by.clone(), cluster });
        }
    }

    /// Takes up news of the control group.
    fn apply_news(&mut self, news: &ControlGroupNews) {
        let own = self.manager.as_ref().map(RaftManager::id);
        // The agent itself knows whether its manager leads: news from others may be an echo of the time
        // before it lost leadership.
        let is_echo = news.leader.is_some() && news.leader == own && !self.is_leader();
        let news = if is_echo { &ControlGroupNews { leader: None, ..news.clone() } } else { news };
        if self.group.apply_news(news) {
            self.effects.push(AgentEffect::Managers(self.group.managers.clone()));
            self.managers_changed();
        }
    }

    /// The address for requests: the leader, if it is known.
    fn proposal_target(&mut self) -> Option<Address> {
        let leader = self.group.leader_at().filter(|leader| **leader != self.settings.manager);
        leader.cloned().or_else(|| self.another_target())
    }

    fn another_target(&mut self) -> Option<Address> {
        let map = Arc::clone(self.map());
        self.group.next(&self.settings.manager, &map, &mut self.stream)
    }

    fn send(&mut self, to: &Address, body: AgentBody) {
        let from = Some(self.settings.manager.clone());
        let bytes = Message { cluster: self.cluster, from, body }.encode();
        self.effects.push(AgentEffect::Send { to: to.clone(), bytes, datagram: false });
    }

    /// This process has no place in the cluster.
    fn end(&mut self, why: EndReason) {
        if !self.has_ended {
            self.answer_all_operators();
            self.has_ended = true;
            self.effects.push(AgentEffect::Ended(why));
        }
    }
}
