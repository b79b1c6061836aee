//! A manager as a member of the control group: events and a time go in, effects come out.

use std::collections::BTreeMap;
use std::sync::Arc;

use zerohop_placement::{Address, ClusterMap, MapDelta};
use zerohop_wire::ids::{Incarnation, KeyspaceId, NodeId, PartitionId};

use crate::Time;
use crate::command::{
    CommandOutcome, CommandRequest, ControlCommand, Entry, ManagerId, ManagerInfo, RequestId,
};
use crate::consensus::{self, Consensus, ConsensusOutput, LogContents, LogError};
use crate::limits::{
    COMMAND_BYTES_MAX, LOG_ENTRIES_MAX, MESSAGES_PIECED_MAX, TICK_MS, TICKS_AT_ONCE_MAX, WAITING_MAX,
};
use crate::planted::{self, Bug};
use crate::state::{AppliedCommand, ControlState};

mod flap_damping;
mod gather;
mod lead;
mod manager_replacement;

pub use lead::LeadSettings;

use gather::RegroupGather;
use lead::LeaderState;
use manager_replacement::ManagerReplacement;
pub(crate) use manager_replacement::{id_on, node_of};

/// What happens to a manager.
#[derive(Clone, Debug)]
pub enum ManagerEvent<'a> {
    /// Nothing but that time passes.
    Tick,
    /// A message from another manager of the control group.
    Received {
        /// Whose.
        from: ManagerId,
        /// As it was sent.
        bytes: &'a [u8],
    },
    /// Everything up to the persist effect of this number is durable.
    Persisted(u64),
    /// Somebody asks for something. Answered by [`ManagerEffect::Answer`], once.
    Ask {
        /// By which the asker knows the answer.
        token: u64,
        /// What.
        request: CommandRequest,
    },
    /// What gossip says: whether a node answers. Told to every manager, leader or not.
    Verdict {
        /// The node.
        node: NodeId,
        /// The start of it that is meant.
        incarnation: Incarnation,
        /// Whether it answers.
        alive: bool,
    },
    /// A node says, for itself or for its clients, that another does not answer. Told to the leader, and again as long as
    /// it is so.
    Report {
        /// Who says so.
        by: NodeId,
        /// Of whom.
        about: NodeId,
        /// The start of it that is meant.
        incarnation: Incarnation,
    },
    /// How much is asked of the primary of a partition, beside others: operations in some time, the same for all.
    Load {
        /// The keyspace.
        keyspace: KeyspaceId,
        /// The partition in it.
        partition: PartitionId,
        /// How much.
        load: u32,
    },
    /// What time it is, in milliseconds since 1970: of a clock that may stand wrong, and go back. Told at least every second
    /// as long as [`RaftManager::wants_clock`]; only the leader goes by it.
    Clock {
        /// Milliseconds since 1970.
        unix_ms: u64,
    },
    /// The operator wants another leader.
    TransferLeadership(ManagerId),
}

/// What is to be done. Effects are carried out in the order in which they come.
#[derive(Clone, Debug, PartialEq)]
pub enum ManagerEffect {
    /// The log on disk: these bytes are appended to it, or take the place of all of it. They are to be synced, and then
    /// [`ManagerEvent::Persisted`] says so; in order, of several the last one's number is enough. What rests on them is held
    /// back until then: effects that come now may be carried out at once.
    Persist {
        /// Counts persist effects.
        number: u64,
        /// The bytes.
        bytes: Vec<u8>,
        /// Whether they replace the whole file, all or nothing: written beside it, synced and renamed.
        replace: bool,
    },
    /// To another manager. It may be lost, repeated or late.
    Send {
        /// To whom; [`ControlState::managers`] tells where it listens.
        to: ManagerId,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// The answer to an ask.
    Answer {
        /// Of the ask.
        token: u64,
        /// The answer.
        answer: RequestAnswer,
    },
    /// The map has changed; it is decided, and nothing will take it back.
    MapChanged(Arc<MapDelta>),
    /// The map is another, by way of a snapshot.
    MapReplaced(Arc<ClusterMap>),
    /// The group of a partition goes on with a log of which up to an interval may be missing.
    MayHaveLost {
        /// The keyspace.
        keyspace: KeyspaceId,
        /// The partition in it.
        partition: PartitionId,
    },
}

/// What the asker is told.
#[derive(Clone, Debug, PartialEq)]
pub enum RequestAnswer {
    /// It is decided.
    Decided(CommandOutcome),
    /// This manager does not lead, or has ceased to. Whether the command will be decided is open: ask the leader, under
    /// the same [`RequestId`].
    NotLeader(Option<ManagerId>),
    /// Too much is waiting: ask again later.
    Busy,
}

/// How a manager is to be.
#[derive(Clone, Copy, Debug)]
pub struct ManagerSettings {
    /// Drawn again at every start: of its random numbers, and of its name as an asker.
    pub seed: u64,
    /// Entries in the log after which a snapshot takes their place.
    pub log_entries_max: usize,
    /// What the leader does of its own accord.
    pub lead: LeadSettings,
    /// Whether it does anything of its own accord: tests of agreement alone decide by hand.
    pub leads_alone: bool,
}

impl ManagerSettings {
    /// The defaults.
    pub fn new(seed: u64) -> ManagerSettings {
        ManagerSettings {
            seed,
            log_entries_max: LOG_ENTRIES_MAX,
            lead: LeadSettings::default(),
            leads_alone: true,
        }
    }
}

/// See the module.
pub struct RaftManager {
    consensus: Consensus,
    state: ControlState,
    effects: Vec<ManagerEffect>,
    /// Who waits for which command, as leader.
    waiting: BTreeMap<RequestId, Vec<u64>>,
    /// The term in which they began to wait.
    waiting_term: u64,
    led_term: u64,
    next_tick: Time,
    /// Changes of groups that are asked for and not proposed yet, as leader.
    gather: RegroupGather,
    lead: LeaderState,
    succession: ManagerReplacement,
    /// When others were last heard, whoever led.
    heard: BTreeMap<ManagerId, Time>,
    settings: ManagerSettings,
    counters: ManagerCounters,
}

/// What has happened so far, in this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ManagerCounters {
    /// Commands applied.
    pub applied: u64,
    /// Of these, retries that were answered from memory.
    pub repeated: u64,
    /// Entries of several commands among them.
    pub batches: u64,
    /// Snapshots taken from a leader.
    pub restored: u64,
    /// Times that this manager became leader.
    pub led: u64,
}

impl RaftManager {
    /// The log of a founder of a control group. All founders get the same list.
    pub fn found(id: ManagerId, founders: &[ManagerInfo]) -> Vec<u8> {
        RaftManager::found_with(id, founders, &[])
    }

    /// The same, where the nodes at these addresses get the numbers of their places, from 1 on. All founders get the same places.
    pub fn found_with(id: ManagerId, founders: &[ManagerInfo], places: &[Address]) -> Vec<u8> {
        let ids: Vec<ManagerId> = founders.iter().map(|founder| founder.id).collect();
        consensus::found(id, &ids, ControlState::new(founders.to_vec()).with_places(places).encode())
    }

    /// The log of a manager that the control group is to take in ([`crate::command::ControlCommand::SetManagers`]).
    pub fn join(id: ManagerId) -> Vec<u8> {
        consensus::join(id)
    }

    /// Whose log this is; `None`: it cannot be read.
    pub fn id_in(log: &[u8]) -> Option<ManagerId> {
        consensus::whole(log).ok().map(|whole| whole.manager)
    }

    /// The log of a control group that one of its managers founds again on the operator's word that the others are gone, with
    /// what it knows itself, be it decided or not: what only the others knew is not known any more. It has another id, on this
    /// node, so that nothing which the others still say is meant for it. Gives the log, what it knew, and the state from which it
    /// goes on.
    ///
    /// # Errors
    /// If its log is damaged, or it is no member of the control group that it knows.
    pub fn found_again(log: &[u8], node: NodeId) -> Result<(Vec<u8>, ControlState, ControlState), LogError> {
        let LogContents { manager: id, state, commands } = consensus::whole(log)?;
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
        let state = state.founded_again(|mark| ManagerInfo { id: id_on(node, mark), addr: own.addr });
        let founder = state.managers().iter().map(|one| one.id).collect::<Vec<ManagerId>>();
        let log = consensus::found(founder[0], &founder, state.encode());
        Ok((log, known, state))
    }

    /// Starts from the log as it is on disk; its first so many bytes are good, and the rest, which a crash tore, is to be
    /// cut off before anything is appended.
    ///
    /// # Errors
    /// If the log is damaged: this manager has lost what it had promised, and must start again under another id.
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
            led_term: 0,
            next_tick: now.after_ms(TICK_MS),
            gather: RegroupGather::default(),
            lead: LeaderState::default(),
            succession: ManagerReplacement::default(),
            heard: BTreeMap::new(),
            settings,
            counters: ManagerCounters::default(),
        };
        manager.follow();
        // How the map came to be what it is at the start concerns nobody.
        manager
            .effects
            .retain(|effect| matches!(effect, ManagerEffect::Persist { .. } | ManagerEffect::Send { .. }));
        Ok((manager, bytes))
    }

    /// The next event.
    pub fn handle(&mut self, now: Time, event: ManagerEvent<'_>) -> Vec<ManagerEffect> {
        match event {
            ManagerEvent::Tick => {}
            ManagerEvent::Received { from, bytes } => {
                self.succession.heard(from, now);
                if self.heard.contains_key(&from) || self.heard.len() < MESSAGES_PIECED_MAX {
                    self.heard.insert(from, now);
                }
                self.consensus.receive(from, bytes);
            }
            ManagerEvent::Persisted(number) => self.consensus.persisted(number),
            ManagerEvent::Ask { token, request } => self.ask(now, token, request),
            ManagerEvent::Verdict { node, incarnation, alive } => self.lead.verdict(node, incarnation, alive),
            ManagerEvent::Report { by, about, incarnation } => self.lead.report(now, by, about, incarnation),
            ManagerEvent::Load { keyspace, partition, load } => self.lead.load(keyspace, partition, load),
            ManagerEvent::Clock { unix_ms } => self.expire(now, unix_ms),
            ManagerEvent::TransferLeadership(to) => self.consensus.transfer(to),
        }
        self.follow();
        self.pass_time(now);
        self.decide(now);
        self.propose_gathered(now);
        std::mem::take(&mut self.effects)
    }

    /// Effects that there are already, after [`RaftManager::open`].
    pub fn take_effects(&mut self) -> Vec<ManagerEffect> {
        std::mem::take(&mut self.effects)
    }

    /// When [`ManagerEvent::Tick`] is due, if nothing else happens before.
    pub fn wake_at(&self) -> Time {
        self.next_tick.min(self.gather.due())
    }

    /// Whether it waits for [`ManagerEvent::Clock`]: it leads, and something is to expire.
    pub fn wants_clock(&self) -> bool {
        self.consensus.is_leader() && self.state.has_expiring()
    }

    /// Who this is.
    pub fn id(&self) -> ManagerId {
        self.consensus.id()
    }

    /// Who leads, as far as is known.
    pub fn leader(&self) -> Option<ManagerId> {
        self.consensus.leader()
    }

    /// Whether this one leads, and in which term.
    pub fn leading(&self) -> Option<u64> {
        self.consensus.is_leader().then(|| self.consensus.term())
    }

    /// Whether another manager has said something to this one within a time.
    pub fn has_heard(&self, id: ManagerId, now: Time, within_ms: u64) -> bool {
        self.heard.get(&id).is_some_and(|at| now.since_us(*at) < within_ms.saturating_mul(1_000))
    }

    /// Those that vote, and those that only learn.
    pub fn members(&self) -> (Vec<ManagerId>, Vec<ManagerId>) {
        self.consensus.members()
    }

    /// What has been decided, as far as this manager knows.
    pub fn state(&self) -> &ControlState {
        &self.state
    }

    /// The map in it.
    pub fn map(&self) -> &Arc<ClusterMap> {
        self.state.map()
    }

    /// What has happened so far.
    pub fn counters(&self) -> ManagerCounters {
        self.counters
    }

    fn ask(&mut self, now: Time, token: u64, request: CommandRequest) {
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
        // A retry of what is under way waits for the first; what is decided twice in the log is done once.
        if let Some(tokens) = self.waiting.get_mut(&request.id) {
            tokens.push(token);
        } else if let Some(regroup) = gather::regroup_of(&request)
            && self.consensus.all_read_batches()
            && !planted::is_planted(Bug::HandsOutUndecided)
        {
            let is_awaited = gather::is_awaited(&self.state, regroup);
            self.waiting.insert(request.id, vec![token]);
            self.gather.add(now, request, bytes.len(), is_awaited);
        } else if self.consensus.propose(bytes) {
            self.waiting.insert(request.id, vec![token]);
            if planted::is_planted(Bug::HandsOutUndecided) {
                let delta = self.state.clone().apply(&request).delta;
                self.effects.extend(delta.map(ManagerEffect::MapChanged));
            }
        } else {
            self.effects.push(ManagerEffect::Answer { token, answer: RequestAnswer::Busy });
        }
    }

    fn pass_time(&mut self, now: Time) {
        let mut ticks = 0;
        while self.next_tick <= now && ticks < TICKS_AT_ONCE_MAX {
            self.next_tick = self.next_tick.after_ms(TICK_MS);
            ticks += 1;
            self.consensus.tick();
            self.follow();
            let wanted: Vec<ManagerId> = self.state.managers().iter().map(|manager| manager.id).collect();
            self.consensus.reconcile(&wanted);
            self.follow();
        }
        if self.next_tick <= now {
            // After a long pause: more ticks would only begin more elections.
            self.next_tick = now.after_ms(TICK_MS);
        }
    }

    /// Proposes what the leader finds to be done.
    fn decide(&mut self, now: Time) {
        if !self.settings.leads_alone || !self.consensus.leads() {
            return;
        }
        let mut commands = self.lead.commands(now, &self.state, self.settings.lead);
        let after_ms = self.settings.lead.manager_after_ms;
        if after_ms < u64::MAX && commands.is_empty() {
            let (voters, _) = self.consensus.members();
            let (me, state) = (self.consensus.id(), &self.state);
            commands.extend(self.succession.command(now, me, state, &voters, after_ms));
        }
        self.propose(now, commands);
        self.follow();
    }

    /// Has the tokens expire whose time is over by this clock. Said again before it is decided, it is refused.
    fn expire(&mut self, now: Time, unix_ms: u64) {
        if self.settings.leads_alone && self.consensus.leads() {
            self.propose(now, self.state.expiries(unix_ms));
        }
    }

    fn propose(&mut self, now: Time, commands: Vec<ControlCommand>) {
        for command in commands {
            // Its own nonce as an asker; the low bit keeps it apart from the stream's seed.
            let id = self.lead.name(self.settings.seed | 1);
            let request = CommandRequest { id, after: self.state.mark(), command };
            let bytes = request.encode();
            if gather::regroup_of(&request).is_some() {
                self.gather.add_planned(now, request, bytes.len());
            } else if !self.consensus.propose(bytes) {
                self.lead.decided(id);
            }
        }
    }

    /// Proposes the changes of groups that have waited for each other long enough.
    fn propose_gathered(&mut self, now: Time) {
        if self.gather.due() > now {
            return;
        }
        for entry in self.gather.take_due(now, self.consensus.all_read_batches()) {
            if self.consensus.propose(entry.encode()) {
                continue;
            }
            for CommandRequest { id, .. } in entry.requests() {
                self.lead.decided(*id);
                for token in self.waiting.remove(id).unwrap_or_default() {
                    self.effects.push(ManagerEffect::Answer { token, answer: RequestAnswer::Busy });
                }
            }
        }
        self.follow();
    }

    /// Does what consensus wants done.
    fn follow(&mut self) {
        loop {
            let outputs = self.consensus.take_outputs();
            if outputs.is_empty() {
                break;
            }
            for output in outputs {
                self.carry_out(output);
            }
            let state = &self.state;
            self.consensus.compact_if_due(|| state.encode());
        }
        if self.consensus.is_leader() && self.led_term != self.consensus.term() {
            self.led_term = self.consensus.term();
            self.counters.led += 1;
        }
        if self.waiting_term != self.consensus.term() || !self.consensus.is_leader() {
            self.release();
        }
    }

    fn carry_out(&mut self, output: ConsensusOutput) {
        match output {
            ConsensusOutput::Persist { number, bytes, replace } => {
                self.effects.push(ManagerEffect::Persist { number, bytes, replace });
            }
            ConsensusOutput::Send { to, bytes } => self.effects.push(ManagerEffect::Send { to, bytes }),
            ConsensusOutput::Committed(command) => self.apply(&command),
            ConsensusOutput::Restored(state) => {
                self.counters.restored += 1;
                // Consensus takes no other.
                self.state = ControlState::decode(&state).expect("a leader's snapshot is a state");
                self.effects.push(ManagerEffect::MapReplaced(Arc::clone(self.state.map())));
            }
        }
    }

    fn apply(&mut self, command: &[u8]) {
        // Consensus takes nothing else into the log.
        let entry = Entry::decode(command).expect("the log holds commands");
        if matches!(entry, Entry::Batch(_)) {
            self.counters.batches += 1;
            self.consensus.batch_decided();
        }
        for (request, applied) in entry.requests().iter().zip(self.state.apply_entry(&entry)) {
            self.tell(request.id, applied);
        }
    }

    /// Tells what a request that was decided has done.
    fn tell(&mut self, id: RequestId, applied: AppliedCommand) {
        self.lead.decided(id);
        self.counters.applied += 1;
        self.counters.repeated += u64::from(applied.repeated);
        if let Some(delta) = applied.delta {
            self.effects.push(ManagerEffect::MapChanged(delta));
        }
        for (keyspace, partition) in applied.may_have_lost {
            self.effects.push(ManagerEffect::MayHaveLost { keyspace, partition });
        }
        for token in self.waiting.remove(&id).unwrap_or_default() {
            let answer = RequestAnswer::Decided(applied.outcome.clone());
            self.effects.push(ManagerEffect::Answer { token, answer });
        }
    }

    /// Whoever waited in another term is told to ask the leader: what they asked for may have been replaced.
    fn release(&mut self) {
        self.waiting_term = self.consensus.term();
        self.gather.clear();
        self.lead.release();
        self.succession.release();
        let leader = self.consensus.leader();
        for tokens in std::mem::take(&mut self.waiting).into_values() {
            for token in tokens {
                self.effects.push(ManagerEffect::Answer { token, answer: RequestAnswer::NotLeader(leader) });
            }
        }
    }
}
