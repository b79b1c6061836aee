//! What the manager of every node does in the cluster, whether or not it is a member of the control group: it joins,
//! follows the map and passes it on, asks for what instances and operators want, tells what the control group is owed, and
//! takes part in gossip.
//!
//! ```text
//!   instances ── InstanceAsks, FetchMap, LogEnds, Unreachable, Load ──┐            ┌── Map, MapReplaced, WantLogEnds ──▶
//!   operator ──── Operate ────────────────────────────────────────────┼──▶ Agent ──┼── Answered ──▶
//!   other agents ─ Received ──────────────────────────────────────────┘     │      └── Send ──▶
//!                                                                           ├── Gossip, once joined
//!   disk ──────── Persisted ──────────────────────────────────────────▶     └── Manager, on members ── Persist ──▶
//! ```
//!
//! Pure, like all of this crate: `sim` and `node` do sockets, disks and calls of instances for it, and nothing else. A
//! start goes: [`Agent::open`]; [`Effect::Open`] with a map no older than the start; the shell opens its instances and says
//! [`Event::Opened`]; [`Effect::Joined`]. `docs/protocols/control.md` tells what agents say to each other.

use std::collections::BTreeMap;
use std::sync::Arc;

use zerohop_placement::{Address, ClusterMap, MapHistory};
use zerohop_wire::ids::{Incarnation, InstanceId, MapEpoch, NodeId};
use zerohop_wire::messages::ClusterId;

use crate::Time;
use crate::command::{ManagerId, ManagerInfo};
use crate::gossip::Gossip;
use crate::manager::{self, Manager};
use crate::random::{Stream, mix};

mod asks;
mod effect;
mod event;
mod founding;
mod group;
mod joining;
mod listen;
mod maps;
pub mod message;
mod notice;
mod operator;
mod owed;
mod seat;
mod serve;
mod settings;
mod standing;

pub use effect::{Effect, Ended, LogWanted, Unanswered};
pub use event::{Event, Wish};
pub use notice::Notice;
pub use settings::{Control, OpenError, Settings};
pub use standing::Standing;

use asks::{Asks, Forwarded};
use founding::Founding;
use group::Group;
use joining::{Found, Own, Start};
use listen::Silent;
use maps::{Fetch, Maps};
use message::{Body, Message, News};
use notice::Primaries;
use owed::Owed;
use seat::{Persists, Pieces};
use serve::Peers;
use standing::Watch;

/// Of so many strangers, in milliseconds, one is told that this is another cluster.
const STRANGERS_MS: u64 = 100;
/// Rounds in which something may follow from what was done for the time's sake.
const ROUNDS_MAX: usize = 8;

/// See the module.
pub struct Agent {
    settings: Settings,
    cluster: ClusterId,
    now: Time,
    stream: Stream,
    start: Start,
    /// The mark of the command that dates this start.
    looked_mark: Option<u64>,
    own: Option<Own>,
    /// Its manager, if it is a member of the control group.
    seat: Option<Manager>,
    /// The last one that it had; its log is kept until another takes its place.
    last_seat: Option<ManagerId>,
    /// What persist effects are counted from: those of managers before this one are no concern of its.
    persists: Persists,
    seat_leader: Option<ManagerId>,
    founding: Option<Founding>,
    /// The starts of founders without a log that had been heard from when the first one founded; empty if it has not
    /// founded in this start.
    founded_with: BTreeMap<Address, Incarnation>,
    pieces: Pieces,
    group: Group,
    maps: Maps,
    fetch: Fetch,
    peers: Peers,
    asks: Asks,
    forwarded: Forwarded,
    owed: Owed,
    gossip: Option<Gossip>,
    silent: Silent,
    watch: Watch,
    primaries: Primaries,
    /// Starts that would take the place of a process that answers elsewhere, and since when.
    doubles: BTreeMap<NodeId, (Incarnation, Time)>,
    /// When the list of managers may be proposed again with other addresses.
    next_placing: Time,
    /// Contacts that said that they are of another cluster.
    strangers: BTreeMap<Address, ClusterId>,
    next_stranger: Time,
    effects: Vec<Effect>,
    has_ended: bool,
    counters: Counters,
}

/// What has happened so far, in this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages that were none.
    pub malformed: u64,
    /// Messages of other clusters.
    pub strangers: u64,
    /// Asks of instances that were not taken up, as too many waited.
    pub dropped: u64,
}

impl Agent {
    /// Starts. The number is how many of the control log's first bytes are good: the rest, which a crash tore, is to be cut
    /// off before anything is appended; zero where there is no log. Effects that there are already come with the first
    /// event, which is to be [`Event::Tick`], at once.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(now: Time, settings: Settings) -> Result<(Agent, usize), OpenError> {
        if settings.incarnation == Incarnation(0) {
            return Err(OpenError::Settings("the nonce of a start is not zero"));
        }
        let founders = match &settings.control {
            Control::Found { id, founders, .. }
                if !founders.iter().any(|one| one.id == *id && one.addr == settings.manager) =>
            {
                return Err(OpenError::Settings("a founder is one of the founders, at its own address"));
            }
            Control::Found { .. } if settings.node.is_some() || settings.map.epoch() > MapEpoch(0) => {
                return Err(OpenError::Settings(
                    "this node has been in the cluster, and the log of its manager is lost: start it with --join and the address of \
                     another node, instead of the list of hosts",
                ));
            }
            Control::Found { founders, .. } => founders.clone(),
            _ => Vec::new(),
        };
        let mut agent = Agent {
            cluster: settings.cluster,
            now,
            stream: Stream::new(settings.seed),
            start: Start::Nobody,
            looked_mark: None,
            own: None,
            seat: None,
            last_seat: None,
            persists: Persists::default(),
            seat_leader: None,
            founding: None,
            founded_with: BTreeMap::new(),
            pieces: Pieces::default(),
            group: Group::new(&settings.contacts, founders, &settings.moved),
            maps: Maps { history: MapHistory::new(Arc::clone(&settings.map)), ..Maps::default() },
            fetch: Fetch::default(),
            peers: Peers::default(),
            // Apart from the nonces under which managers ask.
            asks: Asks::new(mix(settings.incarnation.get())),
            forwarded: Forwarded::default(),
            owed: Owed::default(),
            gossip: None,
            silent: Silent::default(),
            watch: Watch::new(now),
            primaries: Primaries::default(),
            doubles: BTreeMap::new(),
            next_placing: now,
            strangers: BTreeMap::new(),
            next_stranger: now,
            effects: Vec::new(),
            has_ended: false,
            counters: Counters::default(),
            settings,
        };
        let good = agent.open_control(now)?;
        Ok((agent, good))
    }

    fn open_control(&mut self, now: Time) -> Result<usize, OpenError> {
        match std::mem::replace(&mut self.settings.control, Control::No) {
            Control::No => Ok(0),
            Control::Log(log) => {
                let opened = Manager::open(now, &log, self.manager_settings());
                let (manager, good) = opened.map_err(OpenError::Log)?;
                self.take_seat(manager);
                Ok(good)
            }
            Control::Found { id, founders, places } => {
                self.founding = Some(Founding::new(now, id, founders, places));
                Ok(0)
            }
            Control::New { id } => {
                let log = Manager::join(id);
                let opened = Manager::open(now, &log, self.manager_settings());
                let (manager, _) = opened.map_err(OpenError::Log)?;
                self.effects.push(Effect::Persist { number: 0, bytes: log, replace: true });
                self.take_seat(manager);
                Ok(0)
            }
        }
    }

    fn manager_settings(&mut self) -> manager::Settings {
        let Settings { lead, log_entries_max, .. } = self.settings;
        manager::Settings { lead, log_entries_max, ..manager::Settings::new(self.stream.next_u64()) }
    }

    /// The next event.
    pub fn handle(&mut self, now: Time, event: Event<'_>) -> Vec<Effect> {
        if self.has_ended {
            return Vec::new();
        }
        self.forgive_pause(now);
        self.now = self.now.max(now);
        match event {
            Event::Tick => {}
            Event::Received { bytes } => self.receive(bytes),
            Event::Persisted(number) => self.persisted(number),
            Event::Opened { intact, closed } => self.opened(Found { intact, closed }),
            Event::InstanceAsks { instance, keyspace, partition, epoch, wish } => {
                self.instance_asks((instance, keyspace, partition), epoch, wish);
            }
            Event::Drained(drained) => self.drained(drained),
            Event::FetchMap => self.fetch_soon(),
            Event::LogEnds(logs) => self.log_ends(logs),
            Event::Unreachable { node, incarnation } => self.unreachable(node, incarnation),
            Event::Load { keyspace, partition, load } => self.load(keyspace, partition, load),
            Event::Operate { token, command } => self.operate(token, command),
            Event::Clock { unix_ms } => self.tell_manager(manager::Event::Clock { unix_ms }),
            Event::Leave => self.leave(),
            Event::TransferLeadership(to) => self.tell_manager(manager::Event::TransferLeadership(to)),
        }
        self.pass_time();
        std::mem::take(&mut self.effects)
    }

    /// When [`Event::Tick`] is due, if nothing else happens before.
    pub fn wake_at(&self) -> Time {
        if self.has_ended {
            return Time::NEVER;
        }
        let telling = if self.leads() { self.peers.next } else { Time::NEVER };
        let all = [
            self.seat.as_ref().map_or(Time::NEVER, Manager::wake_at),
            self.founding.as_ref().map_or(Time::NEVER, |founding| founding.next),
            self.fetch.next,
            self.asks.wake_at(),
            self.owed.wake_at(),
            self.listening_wake_at(),
            telling,
        ];
        all.into_iter().min().unwrap_or(Time::NEVER)
    }

    /// Whether it waits for [`Event::Clock`].
    pub fn wants_clock(&self) -> bool {
        self.seat.as_ref().is_some_and(Manager::wants_clock)
    }

    /// The map that it follows: everything in it is decided.
    pub fn map(&self) -> &Arc<ClusterMap> {
        self.maps.history.map()
    }

    /// The map, and how it came about: what clients that fetch it are told.
    pub fn history(&self) -> &MapHistory {
        &self.maps.history
    }

    /// This node's number, once it has one.
    pub fn node(&self) -> Option<NodeId> {
        self.own.map(|own| own.node).or(self.settings.node)
    }

    /// Whether the node has joined in this start.
    pub fn has_joined(&self) -> bool {
        self.start == Start::Joined
    }

    /// Whether an instance is one of this node's.
    pub fn has_instance(&self, instance: InstanceId) -> bool {
        self.own.is_some_and(|own| own.has(instance))
    }

    /// Its part in the control group, if it has one.
    pub fn manager(&self) -> Option<&Manager> {
        self.seat.as_ref()
    }

    /// The control group, as far as is known.
    pub fn managers(&self) -> &[ManagerInfo] {
        &self.group.managers
    }

    /// Who leads the control group, as far as is known.
    pub fn leader(&self) -> Option<ManagerId> {
        self.group.leader
    }

    /// What a start waits for, for people; none once it has joined.
    pub fn waits_for(&self) -> Option<String> {
        if let Some(founding) = &self.founding {
            return Some(founding.waits_for());
        }
        let what = match self.start {
            Start::Nobody => format!("the name of the cluster, from any of its nodes: {}", self.asked()),
            Start::Looking => format!("a leader of the control group: {}", self.asked()),
            Start::Waiting { .. } => "the present map".to_owned(),
            Start::Opening { .. } => "its instances to be opened".to_owned(),
            Start::Joining { .. } => "the control group to take it in".to_owned(),
            Start::Joined => return None,
        };
        Some(what)
    }

    /// Whether a start waits for its own instances.
    pub fn opens_instances(&self) -> bool {
        matches!(self.start, Start::Opening { .. })
    }

    /// What has happened so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// How it was told to be; its part in the control group is taken out of it.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Its number, once the map has it.
    fn own_node(&self) -> Option<NodeId> {
        self.own.map(|own| own.node)
    }

    fn cluster_is_known(&self) -> bool {
        self.cluster != ClusterId::default()
    }

    fn pass_time(&mut self) {
        if self.seat.as_ref().is_some_and(|manager| manager.wake_at() <= self.now) {
            self.tell_manager(manager::Event::Tick);
        }
        for _ in 0..ROUNDS_MAX {
            self.pass_time_founding();
            self.pass_time_listening();
            self.pass_time_starting();
            self.pass_time_owing();
            self.pass_time_placing();
            self.pass_time_asking();
            self.pass_time_fetching();
            self.pass_time_telling();
            if self.has_ended || self.wake_at() > self.now {
                break;
            }
        }
        self.pass_time_watching();
    }

    fn receive(&mut self, bytes: &[u8]) {
        let Ok(Message { cluster, from, body }) = Message::decode(bytes) else {
            self.counters.malformed += 1;
            return;
        };
        if let Body::Gossip(bytes) = &body {
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
            Body::Gossip(_) | Body::OtherCluster => {}
            Body::Raft { from: manager, to, number, piece, pieces, bytes } => {
                self.hear_manager((manager, to), (number, piece, pieces), bytes, &from);
            }
            Body::Ask(request) => self.take_ask(&from, request),
            Body::Answer { id, told, news } => self.take_answer(&from, id, told, &news),
            Body::MapWanted { node, have, piece, only_told } => {
                self.map_wanted(&from, node, have, piece, only_told);
            }
            Body::MapPiece { news, piece, pieces, bytes } => {
                self.take_piece(&from, &news, (piece, pieces), bytes);
            }
            Body::Reports { by, about } => self.take_reports(&from, by, &about),
            Body::Loads(loads) => self.loaded(&loads),
            Body::FounderAsks { incarnation } => self.founder_asks(&from, incarnation),
            Body::FounderIs { incarnation, founded, expects, heard } => {
                self.founder_is(&from, (incarnation, founded, expects), heard);
            }
        }
    }

    /// Whether a message that names another cluster may be heard all the same: whoever does not know yet may ask for the
    /// map, and learns from the answer. All others are told.
    fn is_same_cluster(&mut self, from: &Address, cluster: ClusterId, body: &Body) -> bool {
        let unknown = ClusterId::default();
        if cluster == unknown && matches!(body, Body::MapWanted { .. }) {
            return true;
        }
        if !self.cluster_is_known() && cluster != unknown && matches!(body, Body::MapPiece { .. }) {
            self.cluster = cluster;
            self.effects.push(Effect::Cluster(cluster));
            return true;
        }
        self.counters.strangers += 1;
        if matches!(body, Body::OtherCluster) {
            self.is_told_of_another_cluster(from, cluster);
        } else if self.cluster_is_known() && self.now >= self.next_stranger {
            self.next_stranger = self.now.after_ms(STRANGERS_MS);
            self.send(from, Body::OtherCluster);
        }
        false
    }

    /// If all whom it might ask are of other clusters, it was given the wrong addresses, or the wrong folder.
    fn is_told_of_another_cluster(&mut self, by: &Address, cluster: ClusterId) {
        let me = &self.settings.manager;
        let is_known = self.group.known().any(|known| known == by);
        if !is_known || self.has_joined() || self.seat.is_some() {
            return;
        }
        self.strangers.insert(by.clone(), cluster);
        let is_stranger = |known: &Address| self.strangers.contains_key(known);
        let all = self.group.mark == 0 && self.group.known().filter(|known| *known != me).all(is_stranger);
        let all_named = !self.settings.named.is_empty() && self.settings.named.iter().all(is_stranger);
        if all || all_named {
            self.end(Ended::OtherCluster { by: by.clone(), cluster });
        }
    }

    /// Takes up what is said of the control group.
    fn hear(&mut self, news: &News) {
        let own = self.seat.as_ref().map(Manager::id);
        // Whether this one leads it knows itself: others would only bring back what they heard before it ceased to.
        let is_echo = news.leader.is_some() && news.leader == own && !self.leads();
        let news = if is_echo { &News { leader: None, ..news.clone() } } else { news };
        if self.group.hear(news) {
            self.effects.push(Effect::Managers(self.group.managers.clone()));
            self.managers_changed();
        }
    }

    /// Whom to ask: the leader, if it is known.
    fn ask_whom(&mut self) -> Option<Address> {
        let leader = self.group.leader_at().filter(|leader| **leader != self.settings.manager);
        leader.cloned().or_else(|| self.ask_another())
    }

    fn ask_another(&mut self) -> Option<Address> {
        let map = Arc::clone(self.map());
        self.group.next(&self.settings.manager, &map, &mut self.stream)
    }

    fn send(&mut self, to: &Address, body: Body) {
        let from = Some(self.settings.manager.clone());
        let bytes = Message { cluster: self.cluster, from, body }.encode();
        self.effects.push(Effect::Send { to: to.clone(), bytes, datagram: false });
    }

    /// This process has no place in the cluster.
    fn end(&mut self, why: Ended) {
        if !self.has_ended {
            self.answer_all_operators();
            self.has_ended = true;
            self.effects.push(Effect::Ended(why));
        }
    }
}
