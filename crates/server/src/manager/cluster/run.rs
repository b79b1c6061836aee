//! The agent's loop: it processes one event after the other, and executes the effects in order.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep_until};
use tracing::{info, warn};
use zerohop_base::time::Time;
use zerohop_control::agent::{Agent, AgentEffect, AgentEvent, GroupRequest, LogEndQuery, NoOutcome};
use zerohop_control::command::{CommandOutcome, KeyspaceDrained, LogReport};
use zerohop_placement::{Address, MapError, MapHistory};
use zerohop_replication::GroupChange;
use zerohop_system::clock::{Stopwatch, unix_ms};
use zerohop_system::entropy::random_u64;
use zerohop_wire::ids::{InstanceId, MapEpoch, NodeId};

use super::super::cluster_handle::Input;
use super::super::data_losses::DataLosses;
use super::super::instances::InstanceHandle;
use super::super::shared::ManagerShared;
use super::peers::Peers;
use super::store::{ManagerStore, StoreWrite};
use super::{ClusterPlan, FirstKeyspace, MembershipEnd, OpeningOrder};
use crate::error::ServeError;
use crate::folder::NodeFolder;
use crate::instance::{InstanceMessage, InstanceNotice};
use crate::limits::STATS_WAIT;
use crate::node_files::identity::SavedMember;

/// Maximum age of the map in the member file. The map is only the starting point of a search, and must not delay the control log.
const MAP_SAVED_EVERY_MS: u64 = 1_000;

/// Interval at which the agent gets the time of day while it waits for it.
const CLOCK_EVERY_MS: u64 = 1_000;

/// Interval of the checks whether the first keyspace is due.
const FIRST_EVERY_MS: u64 = 50;

struct Runner {
    shared: Rc<ManagerShared>,
    agent: Agent,
    peers: Peers,
    store: ManagerStore,
    opening: std::sync::mpsc::SyncSender<OpeningOrder>,
    first: Option<FirstKeyspace>,
    first_at_ms: u64,
    first_since_ms: Option<u64>,
    /// When the agent gets the time of day next.
    report_time_ms: u64,
    clock: Stopwatch,
    answers: BTreeMap<u64, oneshot::Sender<Result<CommandOutcome, NoOutcome>>>,
    next_token: u64,
    /// Managers that refuse this one.
    refused: BTreeSet<Address>,
    saved: SavedMember,
    /// The saved state has changes other than the map.
    is_unsaved: bool,
    /// The member file is being written.
    is_saving: bool,
    map_saved_ms: u64,
    /// The ids with which the node has joined, and the epoch of the map.
    joined: Option<(NodeId, InstanceId, MapEpoch)>,
    is_opening: bool,
    /// Whether there were other managers when the losses were last checked.
    has_other_managers: bool,
    is_wait_logged: bool,
    over: Option<MembershipEnd>,
}

/// Runs the agent for as long as it is polled; returns once the node is no longer a member of the cluster, or cannot act as one.
pub(in crate::manager) async fn run(
    shared: &Rc<ManagerShared>,
    plan: ClusterPlan,
    folder: NodeFolder,
    (inputs, mut inputs_in): (mpsc::Sender<Input>, mpsc::Receiver<Input>),
) -> ServeError {
    let ClusterPlan { settings, log_bytes, first, opening, instance_messages: mut words } = plan;
    let saved = SavedMember {
        cluster: settings.cluster,
        node: settings.node,
        contacts: settings.contacts.clone(),
        map: Arc::clone(&settings.map),
    };
    let clock = Stopwatch::start();
    let (agent, good_bytes) = match Agent::open(Time(0), settings) {
        Ok(opened) => opened,
        Err(error) => {
            let reason = format!("the control log in the data folder cannot be used: {error}");
            return ServeError::Cluster { reason };
        }
    };
    let good_bytes = log_bytes.min(good_bytes as u64);
    let store = match ManagerStore::start(folder, good_bytes, inputs) {
        Ok(store) => store,
        Err(error) => return ServeError::Cluster { reason: format!("no thread: {error}") },
    };
    let mut runner = Runner {
        shared: Rc::clone(shared),
        agent,
        peers: Peers::new(shared),
        store,
        opening,
        first,
        first_at_ms: 0,
        first_since_ms: None,
        report_time_ms: 0,
        clock,
        answers: BTreeMap::new(),
        next_token: 0,
        refused: BTreeSet::new(),
        saved,
        is_unsaved: false,
        is_saving: false,
        map_saved_ms: 0,
        joined: None,
        is_opening: false,
        has_other_managers: false,
        is_wait_logged: false,
        over: None,
    };
    runner.handle_event(AgentEvent::Tick);
    loop {
        runner.after_effects();
        if let Some(over) = runner.over.take() {
            return over.into();
        }
        let wake = runner.wake_at();
        tokio::select! {
            biased;
            Some(input) = inputs_in.recv() => runner.handle_input(input),
            Some(word) = words.recv() => runner.handle_instance_message(&word),
            () = sleep_until(wake) => runner.handle_event(AgentEvent::Tick),
        }
    }
}

impl Runner {
    fn now(&self) -> Time {
        Time(self.clock.elapsed().as_micros() as u64)
    }

    fn wake_at(&self) -> Instant {
        let at_us = self.agent.tick_due().0;
        let at_us = match self.first {
            Some(_) => at_us.min(self.first_at_ms * 1_000),
            None => at_us,
        };
        let at_us = match self.agent.needs_clock() {
            true => at_us.min(self.report_time_ms * 1_000),
            false => at_us,
        };
        let at_us = match self.is_map_unsaved() && !self.is_saving {
            true => at_us.min((self.map_saved_ms + MAP_SAVED_EVERY_MS) * 1_000),
            false => at_us,
        };
        let wait_us = at_us.saturating_sub(self.now().0);
        // An hour is as good as never.
        Instant::now() + Duration::from_micros(wait_us.min(3_600_000_000))
    }

    fn handle_event(&mut self, event: AgentEvent<'_>) {
        let effects = self.agent.handle(self.now(), event);
        for effect in effects {
            self.perform_effect(effect);
        }
    }

    fn handle_input(&mut self, input: Input) {
        match input {
            Input::Received(bytes) => self.handle_event(AgentEvent::Received { bytes: &bytes }),
            Input::Persisted(number) => self.handle_event(AgentEvent::Persisted(number)),
            Input::StoreFailed(reason) => self.over = Some(MembershipEnd::Store(reason)),
            Input::Refused { by, reason } => self.is_refused(by, reason),
            Input::StoreWaits(waits) => self.shared.store_waits.set(waits),
            Input::MemberSaved => self.is_saving = false,
            Input::Opened { intact, closed } => {
                if self.joined.is_none() {
                    self.handle_event(AgentEvent::Opened { intact, closed });
                }
                self.is_opening = true;
            }
            Input::LogEnds(logs) => self.handle_event(AgentEvent::LogEnds(logs)),
            Input::Leave => self.handle_event(AgentEvent::Leave),
            // A caller that has stopped waiting does not need the answer.
            Input::Pins { keyspace, answer } => drop(answer.send(self.agent.placement_overrides(keyspace))),
            Input::Undrained { keyspace, answer } => drop(answer.send(self.agent.undrained(keyspace))),
            Input::ClusterState(answer) => drop(answer.send(self.agent.cluster_state(self.now()))),
            Input::Managers(answer) => {
                let managers = self.agent.managers().iter();
                drop(answer.send(managers.map(|one| one.addr.as_str().to_owned()).collect()));
            }
            Input::ManagersOn { nodes, answer } => drop(answer.send(self.agent.managers_on(&nodes))),
            Input::Operate { command, answer } => {
                self.next_token += 1;
                self.answers.insert(self.next_token, answer);
                self.handle_event(AgentEvent::Operate { token: self.next_token, command });
            }
        }
    }

    /// Handles a final refusal. Once all managers that the operator has named, or else those in the folder, have refused this node, waiting is
    /// useless, and the operator must act. This does not apply to a node that has joined or is a member of the control group.
    fn is_refused(&mut self, by: Address, reason: String) {
        if self.joined.is_some() || self.agent.has_joined() || self.agent.manager().is_some() {
            return;
        }
        self.refused.insert(by.clone());
        let settings = self.agent.settings();
        let named = if settings.named.is_empty() { &settings.contacts } else { &settings.named };
        let is_named = named.contains(&by);
        if is_named && named.iter().all(|one| self.refused.contains(one)) {
            self.over = Some(MembershipEnd::Refused { by, reason });
        }
    }

    fn handle_instance_message(&mut self, word: &InstanceMessage) {
        match *word {
            InstanceMessage::ProposeChange { instance, group: place, change } => {
                let change = match change {
                    GroupChange::Admit(member) => GroupRequest::Admit(member.instance),
                    GroupChange::Remove(member) => GroupRequest::Remove(member.instance),
                    GroupChange::RaiseEpoch => GroupRequest::RaiseEpoch,
                };
                self.handle_event(AgentEvent::InstanceProposes {
                    instance,
                    keyspace: place.keyspace,
                    partition: place.partition,
                    epoch: place.epoch,
                    change,
                });
            }
            InstanceMessage::Drained { instance, keyspace, map } => {
                self.handle_event(AgentEvent::Drained(KeyspaceDrained { keyspace, instance, map }));
            }
            InstanceMessage::MapOutdated => self.handle_event(AgentEvent::FetchMap),
        }
    }

    fn perform_effect(&mut self, effect: AgentEffect) {
        match effect {
            AgentEffect::Persist { number, bytes, replace } => {
                self.store(StoreWrite::Log { number, bytes, replace });
            }
            AgentEffect::Send { to, bytes, datagram: _ } => self.peers.send(to, bytes),
            AgentEffect::Cluster(cluster) => {
                self.saved.cluster = cluster;
                self.shared.cluster.set(cluster);
                self.is_unsaved = true;
            }
            AgentEffect::Open(map) => {
                self.shared.history.replace(MapHistory::new(Arc::clone(&map)));
                let known = self.agent.node().and_then(|node| Some((node, map.node(node)?)));
                match known {
                    Some((node, found)) => {
                        let first_instance = found.to_node().first_instance;
                        self.open(node, first_instance);
                    }
                    // The ids of its instances are not known yet: there is no data to open, and nothing corrupt.
                    None => self.handle_event(AgentEvent::Opened { intact: true, closed: false }),
                }
            }
            AgentEffect::Map(delta) => {
                let pushed = self.shared.history.borrow_mut().push(&delta);
                match pushed {
                    Ok(()) => self.shared.map_changes.changed(Some(delta)),
                    // A complete map that was applied meanwhile already has the change.
                    Err(MapError::NotNewer { .. }) => {}
                    Err(error) => {
                        warn!(%error, "a map delta does not apply; the full map is loaded");
                        self.replace_map();
                    }
                }
            }
            AgentEffect::MapReplaced(_) => {
                self.replace_map();
            }
            AgentEffect::Joined { node, first_instance, epoch } => {
                info!(node = node.0, map_epoch = epoch.0, "joined the cluster");
                self.shared.node.set(node);
                self.saved.node = Some(node);
                self.joined = Some((node, first_instance, epoch));
                self.is_unsaved = true;
            }
            AgentEffect::Managers(managers) => {
                self.has_other_managers = true;
                let own = &self.agent.settings().manager;
                let others = managers.into_iter().map(|one| one.addr).filter(|addr| addr != own);
                self.saved.contacts = others.collect::<Vec<Address>>();
                self.is_unsaved = true;
            }
            AgentEffect::RequestLogEnds(requested) => self.find_log_ends(requested),
            AgentEffect::Answered { token, result } => {
                if let Some(answer) = self.answers.remove(&token) {
                    // A caller that has stopped waiting reads the map.
                    drop(answer.send(result));
                }
            }
            // The state of the control group has the loss: it is read after all effects.
            AgentEffect::WritesMayBeLost { .. } => {}
            AgentEffect::Log(notice) if notice.is_warning() => warn!("{notice}"),
            AgentEffect::Log(notice) => info!("{notice}"),
            AgentEffect::Ended(ended) => self.over = Some(MembershipEnd::Ended(ended)),
        }
    }

    /// Called after all effects of an event.
    fn after_effects(&mut self) {
        if let Some((node, first_instance, epoch)) = self.joined
            && self.agent.map().epoch() >= epoch
        {
            if !self.is_opening {
                self.open(node, first_instance);
            }
            // Clients that connect now find a keyspace to use.
            let is_usable = FirstKeyspace::is_done(self.agent.map());
            if !self.is_wait_logged && is_usable && !self.shared.instances().is_empty() {
                self.is_wait_logged = true;
                drop(self.opening.try_send(OpeningOrder::Joined));
            }
        }
        self.log_wait_reason();
        self.make_first_keyspace();
        self.report_time();
        self.update_losses();
        let now_ms = self.now().0 / 1_000;
        let is_map_due = self.is_map_unsaved() && now_ms >= self.map_saved_ms + MAP_SAVED_EVERY_MS;
        // One write at a time: while the disk is full, further ones would only queue up.
        if !self.is_saving && (self.is_unsaved || is_map_due) {
            (self.is_unsaved, self.is_saving) = (false, true);
            self.map_saved_ms = now_ms;
            self.saved.map = Arc::clone(self.agent.map());
            self.store(StoreWrite::Member(Box::new(self.saved.clone())));
        }
    }

    /// Updates the losses from the control group's state.
    fn update_losses(&mut self) {
        let all = self.agent.losses();
        let node = self.agent.node();
        let is_as_before = {
            let known = self.shared.losses.borrow();
            Arc::ptr_eq(&known.all, &all) && known.node == node && !self.has_other_managers
        };
        if is_as_before || (all.is_empty() && self.shared.losses.borrow().all.is_empty()) {
            return;
        }
        self.has_other_managers = false;
        let managers = self.agent.managers().iter().map(|one| one.addr.as_str().to_owned()).collect();
        let losses = DataLosses { all, node, managers };
        let lines = losses.lines(self.agent.map());
        let before = self.shared.losses.replace(losses).lines(self.agent.map());
        if lines.len() > before.len() {
            // The status has the rest: the partitions of a keyspace arrive one after the other.
            warn!(
                "data may be missing after nodes restarted: `zerohop status` lists the keyspaces and amounts"
            );
        }
    }

    fn report_time(&mut self) {
        let now_ms = self.now().0 / 1_000;
        if now_ms >= self.report_time_ms && self.agent.needs_clock() {
            self.report_time_ms = now_ms + CLOCK_EVERY_MS;
            self.handle_event(AgentEvent::Clock { unix_ms: unix_ms() });
        }
    }

    fn log_wait_reason(&self) {
        let waits = match self.joined {
            Some(_) if self.is_wait_logged => None,
            Some(_) if self.shared.instances().is_empty() => None,
            Some(_) => Some("the keyspace `default`, which the first nodes of the cluster make".to_owned()),
            None if self.agent.opens_instances() => None,
            None => self.agent.waits_for(),
        };
        if *self.shared.waits.borrow() != waits {
            self.shared.waits.replace(waits);
        }
    }

    fn store(&mut self, write: StoreWrite) {
        if let Err(reason) = self.store.write(write) {
            self.over = Some(MembershipEnd::Store(reason));
        }
    }

    /// Has the instances started with the current map.
    fn open(&mut self, node: NodeId, first_instance: InstanceId) {
        self.is_opening = true;
        let map = Arc::clone(self.agent.map());
        let (cluster, first_instance) = (self.saved.cluster, first_instance.0);
        drop(self.opening.try_send(OpeningOrder::Instances { cluster, node, first_instance, map }));
    }

    fn replace_map(&self) {
        self.shared.history.replace(MapHistory::new(Arc::clone(self.agent.map())));
        self.shared.map_changes.changed(None);
    }

    fn is_map_unsaved(&self) -> bool {
        self.saved.map.epoch() != self.agent.map().epoch()
    }

    fn make_first_keyspace(&mut self) {
        let Some(first) = self.first else { return };
        let now_ms = self.now().0 / 1_000;
        if now_ms < self.first_at_ms {
            return;
        }
        self.first_at_ms = now_ms + FIRST_EVERY_MS;
        let map = Arc::clone(self.agent.map());
        if FirstKeyspace::is_done(&map) {
            self.first = None;
            return;
        }
        if map.epoch() == MapEpoch(0) || self.joined.is_none() {
            return;
        }
        let since_ms = now_ms - *self.first_since_ms.get_or_insert(now_ms);
        let Ok(seed) = random_u64() else { return };
        if let Some(command) = first.command(&map, since_ms, seed, self.shared.about.in_memory) {
            // The request repeats until the map has the keyspace: if two nodes create it, the second is refused.
            self.first_at_ms = now_ms + 1_000;
            self.next_token += 1;
            self.handle_event(AgentEvent::Operate { token: self.next_token, command });
        }
    }

    /// Requests the ends of logs from the instances.
    fn find_log_ends(&self, requested: Vec<LogEndQuery>) {
        let shared = Rc::clone(&self.shared);
        spawn_local(async move {
            let mut logs = Vec::new();
            for handle in shared.instances() {
                let of_it: Vec<LogEndQuery> =
                    requested.iter().filter(|one| one.instance == handle.id).copied().collect();
                if !of_it.is_empty() {
                    logs.extend(log_ends(handle, of_it).await);
                }
            }
            if let Some(cluster) = shared.cluster_handle()
                && !logs.is_empty()
            {
                // If there is no room, the request is repeated.
                drop(cluster.inputs.try_send(Input::LogEnds(logs)));
            }
        });
    }
}

async fn log_ends(handle: &InstanceHandle, requested: Vec<LogEndQuery>) -> Vec<LogReport> {
    let (requester, answer) = oneshot::channel();
    let due = Instant::now() + STATS_WAIT;
    if !handle.leave(InstanceNotice::LogEnds { logs: requested, reply_to: requester }, due).await {
        return Vec::new();
    }
    match tokio::time::timeout_at(due, answer).await {
        Ok(Ok(logs)) => logs,
        _ => Vec::new(),
    }
}
