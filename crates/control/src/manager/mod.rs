//! A manager as a member of the control group: events and a time go in, effects come out.

use std::collections::BTreeMap;
use std::sync::Arc;

use zerohop_placement::{Address, ClusterMap, MapDelta};
use zerohop_wire::ids::{Incarnation, KeyspaceId, NodeId, PartitionId};

use crate::command::{
    CommandOutcome, CommandRequest, ControlCommand, Entry, ManagerId, ManagerInfo, RequestId,
};
use crate::consensus::{self, Consensus, ConsensusOutput, LogContents, LogError};
use crate::limits::{
    COMMAND_BYTES_MAX, LOG_ENTRIES_MAX, MESSAGES_PIECED_MAX, TICK_MS, TICKS_AT_ONCE_MAX, WAITING_MAX,
};
use crate::planted::{self, Bug};
use crate::state::{AppliedCommand, ControlState};
use zerohop_base::time::Time;

mod flap_damping;
mod gather;
mod lead;
mod lead_settings;
mod manager_replacement;

pub use lead_settings::LeadSettings;

use gather::RegroupGather;
use lead::LeaderState;
use manager_replacement::ManagerReplacement;
pub(crate) use manager_replacement::{id_on, managers_needed, node_of};

/// What happens to a manager.
#[derive(Clone, Debug)]
pub enum ManagerEvent<'a> {
    /// Nothing but that time passes.
    Tick,
    /// A message from another manager of the control group.
    Received {
        /// The sender.
        from: ManagerId,
        /// The bytes as they were sent.
        bytes: &'a [u8],
    },
    /// Everything up to the persist effect of this number is durable.
    Persisted(u64),
    /// A request. The manager answers it with [`ManagerEffect::Answer`], once.
    Request {
        /// The number by which the requester recognizes the answer.
        token: u64,
        /// The request.
        request: CommandRequest,
    },
    /// The verdict of gossip: whether a node answers. Reported to every manager, leader or not.
    Verdict {
        /// The node.
        node: NodeId,
        /// The start of the node that is meant.
        incarnation: Incarnation,
        /// Whether it answers.
        alive: bool,
    },
    /// A node reports, for itself or for its clients, that another node does not answer. Sent to the leader,
    /// and repeated as long as the other node does not answer.
    Report {
        /// The node that reports.
        by: NodeId,
        /// The node that does not answer.
        about: NodeId,
        /// The start of that node that is meant.
        incarnation: Incarnation,
    },
    /// The load on the primary of a partition, relative to other partitions: operations in a period that is
    /// the same for all.
    Load {
        /// The keyspace.
        keyspace: KeyspaceId,
        /// The partition in it.
        partition: PartitionId,
        /// The load.
        load: u32,
    },
    /// The wall-clock time in milliseconds since 1970. The clock may be wrong and may go back. Sent at least
    /// every second as long as [`RaftManager::needs_clock`]; only the leader uses it.
    Clock {
        /// Milliseconds since 1970.
        unix_ms: u64,
    },
    /// The operator requests another leader.
    TransferLeadership(ManagerId),
}

/// An action for the shell. The shell carries out effects in the order in which they come.
#[derive(Clone, Debug, PartialEq)]
pub enum ManagerEffect {
    /// The log on disk: these bytes are appended to it, or replace all of it. The shell syncs them and then
    /// sends [`ManagerEvent::Persisted`], in order; of several effects the number of the last one is enough.
    /// The manager holds back what depends on these bytes until then: effects that come now may be carried
    /// out at once.
    Persist {
        /// Counts persist effects.
        number: u64,
        /// The bytes.
        bytes: Vec<u8>,
        /// Whether they replace the whole file atomically: written beside it, synced and renamed.
        replace: bool,
    },
    /// A message to another manager. It may be lost, repeated or late.
    Send {
        /// The receiver; [`ControlState::managers`] has its address.
        to: ManagerId,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// The answer to a request.
    Answer {
        /// The token of the request.
        token: u64,
        /// The answer.
        answer: RequestAnswer,
    },
    /// The map has changed; the change is decided and final.
    MapChanged(Arc<MapDelta>),
    /// A snapshot has replaced the map.
    MapReplaced(Arc<ClusterMap>),
    /// The group of a partition continues with a log that may lack up to one interval of writes.
    WritesMayBeLost {
        /// The keyspace.
        keyspace: KeyspaceId,
        /// The partition in it.
        partition: PartitionId,
    },
}

/// The answer that a requester gets.
#[derive(Clone, Debug, PartialEq)]
pub enum RequestAnswer {
    /// The request is decided.
    Decided(CommandOutcome),
    /// This manager does not lead, or no longer leads. The command may or may not be decided: the requester
    /// must send it to the leader, under the same [`RequestId`].
    NotLeader(Option<ManagerId>),
    /// Too many requests are waiting: the requester must retry later.
    Busy,
}

/// Settings of a manager.
#[derive(Clone, Copy, Debug)]
pub struct ManagerSettings {
    /// Drawn again at every start; seeds the random numbers of the manager and its id as a requester.
    pub seed: u64,
    /// Number of log entries after which a snapshot replaces them.
    pub log_entries_max: usize,
    /// Settings for what the leader does without a request.
    pub leader: LeadSettings,
    /// Whether the leader proposes commands without a request. Tests of agreement alone turn it off and decide manually.
    pub proposes_on_its_own: bool,
}

impl ManagerSettings {
    /// The defaults.
    pub fn new(seed: u64) -> ManagerSettings {
        ManagerSettings {
            seed,
            log_entries_max: LOG_ENTRIES_MAX,
            leader: LeadSettings::default(),
            proposes_on_its_own: true,
        }
    }
}

/// See the module.
pub struct RaftManager {
    consensus: Consensus,
    state: ControlState,
    effects: Vec<ManagerEffect>,
    /// As leader: the requests that wait for each command, by token.
    waiting: BTreeMap<RequestId, Vec<u64>>,
    /// The term in which they started to wait.
    waiting_term: u64,
    leader_term: u64,
    next_tick: Time,
    /// As leader: changes of groups that are requested and not proposed yet.
    pending_regroups: RegroupGather,
    leader: LeaderState,
    replacement: ManagerReplacement,
    /// When each manager was last heard, whichever manager led.
    last_messages: BTreeMap<ManagerId, Time>,
    settings: ManagerSettings,
    counters: ManagerCounters,
}

/// Counters since the start of this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ManagerCounters {
    /// Commands applied.
    pub applied: u64,
    /// Of these, retries that were answered from memory.
    pub repeated: u64,
    /// Entries of several commands among them.
    pub batches: u64,
    /// Snapshots installed from a leader.
    pub restored: u64,
    /// Times that this manager became leader.
    pub elections_won: u64,
}

impl RaftManager {
    /// The log of a bootstrap member of a control group. All bootstrap members get the same list.
    pub fn bootstrap(id: ManagerId, members: &[ManagerInfo]) -> Vec<u8> {
        RaftManager::bootstrap_with(id, members, &[])
    }

    /// The same, where the nodes at these addresses get the numbers of their places, from 1 on. All bootstrap
    /// members get the same places.
    pub fn bootstrap_with(id: ManagerId, members: &[ManagerInfo], addresses: &[Address]) -> Vec<u8> {
        let ids: Vec<ManagerId> = members.iter().map(|member| member.id).collect();
        consensus::first_log(
            id,
            &ids,
            ControlState::new(members.to_vec()).with_expected_nodes(addresses).encode(),
        )
    }

    /// The log of a manager that the control group is to add
    /// ([`crate::command::ControlCommand::SetManagers`]).
    pub fn join(id: ManagerId) -> Vec<u8> {
        consensus::join(id)
    }

    /// The manager that this log belongs to; `None`: the log cannot be read.
    pub fn id_in(log: &[u8]) -> Option<ManagerId> {
        consensus::read_log(log).ok().map(|whole| whole.manager)
    }

    /// Makes the log of a new control group from the log of one surviving manager, after the operator has
    /// declared the other managers gone. The new group starts from everything in this log, committed or not;
    /// what only the others had is lost. The manager gets another id, on this node, so that no message of the
    /// old managers is addressed to it. Returns the log, the state before, and the state from which the group
    /// continues.
    ///
    /// # Errors
    /// If the log is damaged, or the manager is not a member of the control group in it.
    pub fn force_new(log: &[u8], node: NodeId) -> Result<(Vec<u8>, ControlState, ControlState), LogError> {
        let LogContents { manager: id, state, commands } = consensus::read_log(log)?;
        let state_of =
            |bytes: &[u8]| ControlState::decode(bytes).map_err(|error| LogError::State(error.to_string()));
        let mut state = if state.is_empty() { ControlState::new(Vec::new()) } else { state_of(&state)? };
        for command in commands {
            let entry = Entry::decode(&command).map_err(|error| LogError::State(error.to_string()))?;
            state.apply_entry(&entry);
        }
        let own = state.managers().iter().find(|one| one.id == id).cloned();
        let own = own.ok_or_else(|| {
            LogError::State(format!("manager {} is no member of the control group that it knows", id.0))
        })?;
        let known = state.clone();
        let state = state.forced_new(|mark| ManagerInfo { id: id_on(node, mark), addr: own.addr });
        let members = state.managers().iter().map(|one| one.id).collect::<Vec<ManagerId>>();
        let log = consensus::first_log(members[0], &members, state.encode());
        Ok((log, known, state))
    }

    /// Opens the log as it is on disk. Returns also the number of valid bytes: the shell must truncate the
    /// rest, which a crash tore, before anything is appended.
    ///
    /// # Errors
    /// If the log is damaged: this manager has lost its promises and must start again under another id.
    pub fn open(now: Time, log: &[u8], settings: ManagerSettings) -> Result<(RaftManager, usize), LogError> {
        let (consensus, state, bytes) = Consensus::open(log, settings.seed, settings.log_entries_max)?;
        let state = match &state[..] {
            [] => ControlState::new(Vec::new()),
            state => ControlState::decode(state).map_err(|error| LogError::State(error.to_string()))?,
        };
        let mut manager = RaftManager {
            consensus,
            state,
            effects: Vec::new(),
            waiting: BTreeMap::new(),
            waiting_term: 0,
            leader_term: 0,
            next_tick: now.after_ms(TICK_MS),
            pending_regroups: RegroupGather::default(),
            leader: LeaderState::default(),
            replacement: ManagerReplacement::default(),
            last_messages: BTreeMap::new(),
            settings,
            counters: ManagerCounters::default(),
        };
        manager.follow();
        // Map changes that the replay of the log produces are not reported.
        manager
            .effects
            .retain(|effect| matches!(effect, ManagerEffect::Persist { .. } | ManagerEffect::Send { .. }));
        Ok((manager, bytes))
    }

    /// Handles the next event.
    pub fn handle(&mut self, now: Time, event: ManagerEvent<'_>) -> Vec<ManagerEffect> {
        match event {
            ManagerEvent::Tick => {}
            ManagerEvent::Received { from, bytes } => {
                self.replacement.record_message(from, now);
                if self.last_messages.contains_key(&from) || self.last_messages.len() < MESSAGES_PIECED_MAX {
                    self.last_messages.insert(from, now);
                }
                self.consensus.receive(from, bytes);
            }
            ManagerEvent::Persisted(number) => self.consensus.persisted(number),
            ManagerEvent::Request { token, request } => self.handle_request(now, token, request),
            ManagerEvent::Verdict { node, incarnation, alive } => {
                self.leader.verdict(node, incarnation, alive)
            }
            ManagerEvent::Report { by, about, incarnation } => {
                self.leader.report(now, by, about, incarnation)
            }
            ManagerEvent::Load { keyspace, partition, load } => self.leader.load(keyspace, partition, load),
            ManagerEvent::Clock { unix_ms } => self.expire(now, unix_ms),
            ManagerEvent::TransferLeadership(to) => self.consensus.transfer(to),
        }
        self.follow();
        self.tick(now);
        self.decide(now);
        self.propose_pending_regroups(now);
        std::mem::take(&mut self.effects)
    }

    /// Takes the effects that exist already, after [`RaftManager::open`].
    pub fn take_effects(&mut self) -> Vec<ManagerEffect> {
        std::mem::take(&mut self.effects)
    }

    /// When [`ManagerEvent::Tick`] is due, if nothing else happens before.
    pub fn tick_due(&self) -> Time {
        self.next_tick.min(self.pending_regroups.due())
    }

    /// Whether the manager needs [`ManagerEvent::Clock`]: it leads, and a token is to expire.
    pub fn needs_clock(&self) -> bool {
        self.consensus.is_leader() && self.state.has_expiring()
    }

    /// The id of this manager.
    pub fn id(&self) -> ManagerId {
        self.consensus.id()
    }

    /// The leader, as far as known.
    pub fn leader(&self) -> Option<ManagerId> {
        self.consensus.leader()
    }

    /// The term in which this manager leads, if it leads.
    pub fn leading(&self) -> Option<u64> {
        self.consensus.is_leader().then(|| self.consensus.term())
    }

    /// Whether this manager has received a message of another one within a time.
    pub fn has_message_within(&self, id: ManagerId, now: Time, within_ms: u64) -> bool {
        self.last_messages.get(&id).is_some_and(|at| now.since_us(*at) < within_ms.saturating_mul(1_000))
    }

    /// Whether a leader is known, and has a vote in the configuration that this manager knows.
    pub(crate) fn has_leader(&self) -> bool {
        self.leader().is_some_and(|leader| self.members().0.contains(&leader))
    }

    /// Whether this manager is a voter or a learner in the configuration that it knows.
    pub(crate) fn is_member(&self) -> bool {
        let (voters, learners) = self.members();
        voters.iter().chain(&learners).any(|one| *one == self.id())
    }

    /// The voters and the learners.
    pub fn members(&self) -> (Vec<ManagerId>, Vec<ManagerId>) {
        self.consensus.members()
    }

    /// The decided state, as far as this manager knows it.
    pub fn state(&self) -> &ControlState {
        &self.state
    }

    /// The map in it.
    pub fn map(&self) -> &Arc<ClusterMap> {
        self.state.map()
    }

    /// The counters since the start.
    pub fn counters(&self) -> ManagerCounters {
        self.counters
    }

    fn handle_request(&mut self, now: Time, token: u64, request: CommandRequest) {
        let mut answer = |answer| self.effects.push(ManagerEffect::Answer { token, answer });
        if !self.consensus.is_leader() {
            return answer(RequestAnswer::NotLeader(self.consensus.leader()));
        }
        let bytes = request.encode();
        if self.waiting.len() >= WAITING_MAX || bytes.len() > COMMAND_BYTES_MAX {
            return answer(RequestAnswer::Busy);
        }
        if planted::is_planted(Bug::AcknowledgesBeforeCommit) {
            let outcome = self.state.clone().apply(&request).outcome;
            answer(RequestAnswer::Decided(outcome));
            self.consensus.propose(bytes);
            return;
        }
        if self.waiting_term != self.consensus.term() {
            self.release();
        }
        // A retry of a pending request waits for the first; a command that is in the log twice takes effect
        // once.
        if let Some(tokens) = self.waiting.get_mut(&request.id) {
            tokens.push(token);
        } else if let Some(regroup) = gather::regroup_of(&request)
            && self.consensus.all_read_batches()
            && !planted::is_planted(Bug::UndecidedMapSent)
        {
            let is_awaited = gather::is_awaited(&self.state, regroup);
            self.waiting.insert(request.id, vec![token]);
            self.pending_regroups.add(now, request, bytes.len(), is_awaited);
        } else if self.consensus.propose(bytes) {
            self.waiting.insert(request.id, vec![token]);
            if planted::is_planted(Bug::UndecidedMapSent) {
                let delta = self.state.clone().apply(&request).delta;
                self.effects.extend(delta.map(ManagerEffect::MapChanged));
            }
        } else {
            self.effects.push(ManagerEffect::Answer { token, answer: RequestAnswer::Busy });
        }
    }

    fn tick(&mut self, now: Time) {
        let mut ticks = 0;
        while self.next_tick <= now && ticks < TICKS_AT_ONCE_MAX {
            self.next_tick = self.next_tick.after_ms(TICK_MS);
            ticks += 1;
            self.consensus.tick();
            self.follow();
            let requested: Vec<ManagerId> = self.state.managers().iter().map(|manager| manager.id).collect();
            self.consensus.reconcile(&requested);
            self.follow();
        }
        if self.next_tick <= now {
            // After a long pause: more ticks would only start more elections.
            self.next_tick = now.after_ms(TICK_MS);
        }
    }

    /// Proposes the commands of the leader's own plans.
    fn decide(&mut self, now: Time) {
        if !self.settings.proposes_on_its_own || !self.consensus.is_ready_leader() {
            return;
        }
        let mut commands = self.leader.commands(now, &self.state, self.settings.leader);
        let after_ms = self.settings.leader.manager_after_ms;
        if after_ms < u64::MAX && commands.is_empty() {
            let (voters, _) = self.consensus.members();
            let (me, state) = (self.consensus.id(), &self.state);
            commands.extend(self.replacement.command(now, me, state, &voters, after_ms));
        }
        self.propose(now, commands);
        self.follow();
    }

    /// Expires the tokens whose time is over by this clock. A second proposal before the first is decided is
    /// refused.
    fn expire(&mut self, now: Time, unix_ms: u64) {
        if self.settings.proposes_on_its_own && self.consensus.is_ready_leader() {
            self.propose(now, self.state.expiries(unix_ms));
        }
    }

    fn propose(&mut self, now: Time, commands: Vec<ControlCommand>) {
        for command in commands {
            // Its own nonce as a requester; the low bit separates it from the seed of the random numbers.
            let id = self.leader.name(self.settings.seed | 1);
            let request = CommandRequest { id, after: self.state.applied_count(), command };
            let bytes = request.encode();
            if gather::regroup_of(&request).is_some() {
                self.pending_regroups.add_planned(now, request, bytes.len());
            } else if !self.consensus.propose(bytes) {
                self.leader.decided(id);
            }
        }
    }

    /// Proposes the changes of groups that have waited for each other long enough.
    fn propose_pending_regroups(&mut self, now: Time) {
        if self.pending_regroups.due() > now {
            return;
        }
        for entry in self.pending_regroups.take_due(now, self.consensus.all_read_batches()) {
            if self.consensus.propose(entry.encode()) {
                continue;
            }
            for CommandRequest { id, .. } in entry.requests() {
                self.leader.decided(*id);
                for token in self.waiting.remove(id).unwrap_or_default() {
                    self.effects.push(ManagerEffect::Answer { token, answer: RequestAnswer::Busy });
                }
            }
        }
        self.follow();
    }

    /// Carries out the outputs of consensus.
    fn follow(&mut self) {
        loop {
            let outputs = self.consensus.take_outputs();
            if outputs.is_empty() {
                break;
            }
            for output in outputs {
                self.handle_output(output);
            }
            let state = &self.state;
            self.consensus.compact_if_due(|| state.encode());
        }
        if self.consensus.is_leader() && self.leader_term != self.consensus.term() {
            self.leader_term = self.consensus.term();
            self.counters.elections_won += 1;
        }
        if self.waiting_term != self.consensus.term() || !self.consensus.is_leader() {
            self.release();
        }
    }

    fn handle_output(&mut self, output: ConsensusOutput) {
        match output {
            ConsensusOutput::Persist { number, bytes, replace } => {
                self.effects.push(ManagerEffect::Persist { number, bytes, replace });
            }
            ConsensusOutput::Send { to, bytes } => self.effects.push(ManagerEffect::Send { to, bytes }),
            ConsensusOutput::Committed(command) => self.apply(&command),
            ConsensusOutput::Restored(state) => {
                self.counters.restored += 1;
                // Consensus accepts only snapshots that decode.
                self.state = ControlState::decode(&state).expect("a leader's snapshot is a state");
                self.effects.push(ManagerEffect::MapReplaced(Arc::clone(self.state.map())));
            }
        }
    }

    fn apply(&mut self, command: &[u8]) {
        // Consensus accepts only valid entries into the log.
        let entry = Entry::decode(command).expect("the log holds commands");
        if matches!(entry, Entry::Batch(_)) {
            self.counters.batches += 1;
            self.consensus.batch_decided();
        }
        for (request, applied) in entry.requests().iter().zip(self.state.apply_entry(&entry)) {
            self.report_result(request.id, applied);
        }
    }

    /// Reports the result of a request that was decided.
    fn report_result(&mut self, id: RequestId, applied: AppliedCommand) {
        self.leader.decided(id);
        self.counters.applied += 1;
        self.counters.repeated += u64::from(applied.repeated);
        if let Some(delta) = applied.delta {
            self.effects.push(ManagerEffect::MapChanged(delta));
        }
        for (keyspace, partition) in applied.possible_losses {
            self.effects.push(ManagerEffect::WritesMayBeLost { keyspace, partition });
        }
        for token in self.waiting.remove(&id).unwrap_or_default() {
            let answer = RequestAnswer::Decided(applied.outcome.clone());
            self.effects.push(ManagerEffect::Answer { token, answer });
        }
    }

    /// Requests that waited in another term get `NotLeader`: their commands may have been replaced.
    fn release(&mut self) {
        self.waiting_term = self.consensus.term();
        self.pending_regroups.clear();
        self.leader.release();
        self.replacement.release();
        let leader = self.consensus.leader();
        for tokens in std::mem::take(&mut self.waiting).into_values() {
            for token in tokens {
                self.effects.push(ManagerEffect::Answer { token, answer: RequestAnswer::NotLeader(leader) });
            }
        }
    }
}
