//! Agreement on a log of commands: the raft crate's core, with our own storage, randomness and messages.
//!
//! The core draws its election timeouts from the thread's random numbers. After each step, before any code
//! reads them, they are replaced by values from our stream, so that a seed replays.

use std::collections::VecDeque;

use raft::eraftpb::{Entry, EntryType, HardState, Message, MessageType, Snapshot};
use raft::{Config, ProgressState, RawNode, SnapshotStatus, StateRole};

use crate::command::{Entry as Requests, ManagerId};
use crate::limits::{
    BOOTSTRAP_ELECTION_TICKS, ELECTION_TICKS, HEARTBEAT_TICKS, LOG_BYTES_MAX, LOG_TRAIL_ENTRIES,
    MESSAGE_ENTRIES_BYTES_MAX, MESSAGES_IN_FLIGHT_MAX, SNAPSHOT_TIME_OUT_TICKS, STUCK_TICKS,
    UNCOMMITTED_BYTES_MAX,
};
use crate::planted::{self, Bug};
use crate::state::ControlState;
use zerohop_base::random::SplitMix64;

#[cfg(test)]
mod documented;
mod log;
mod membership;
mod message;
mod reads;
mod record;

pub use record::LogError;

use log::RaftLog;
use membership::{Membership, conf_change, membership};
use reads::Reads;
use record::{PersistedLog, RecordWriter};

/// The outputs of consensus, in order.
#[derive(Debug)]
pub(crate) enum ConsensusOutput {
    /// See [`crate::manager::ManagerEffect::Persist`].
    Persist { number: u64, bytes: Vec<u8>, replace: bool },
    /// See [`crate::manager::ManagerEffect::Send`].
    Send { to: ManagerId, bytes: Vec<u8> },
    /// A command is decided.
    Committed(Vec<u8>),
    /// A snapshot from the leader has replaced the state.
    Restored(Vec<u8>),
}

/// Messages that wait until the state that they depend on is durable.
#[derive(Debug)]
struct DelayedMessages {
    /// The number of the persist effect.
    number: u64,
    /// The number of the core's ready.
    ready: u64,
    /// The index up to which a snapshot replaced the log; zero if none did.
    restored: u64,
    messages: Vec<Message>,
}

/// See the module.
pub(crate) struct Consensus {
    core: RawNode<RaftLog>,
    id: ManagerId,
    stream: SplitMix64,
    timeout: usize,
    /// The term and role for which the timeout was drawn.
    drawn_for: (u64, StateRole),
    ticks: u64,
    /// The numbers of the last persist effect, and of the last durable one.
    persists: u64,
    durable: u64,
    /// The tick at which all persist effects were last durable.
    durable_at: u64,
    delayed_messages: VecDeque<DelayedMessages>,
    /// The managers to which a snapshot was sent, and the ticks.
    snapshots: Vec<(u64, u64)>,
    reads: Reads,
    /// A snapshot is due, however short the log is.
    compact_now: bool,
    log_entries_max: usize,
    outputs: Vec<ConsensusOutput>,
}

/// The term at the bootstrap of a control group. An elected leader has a higher term.
const BOOTSTRAP_TERM: u64 = 1;

/// The log of a bootstrap member: every bootstrap member starts with the same members and the same state.
pub(crate) fn first_log(id: ManagerId, members: &[ManagerId], state: Vec<u8>) -> Vec<u8> {
    let mut snapshot = Snapshot::default();
    let meta = snapshot.mut_metadata();
    (meta.index, meta.term) = (1, BOOTSTRAP_TERM);
    meta.mut_conf_state().set_voters(members.iter().map(|member| member.0).collect());
    snapshot.data = state.into();
    let mut writer = RecordWriter::default();
    writer.header(id);
    writer.snapshot(&snapshot);
    writer.bytes
}

/// The log of a manager that is to be added to a control group: empty.
pub(crate) fn join(id: ManagerId) -> Vec<u8> {
    let mut writer = RecordWriter::default();
    writer.header(id);
    writer.bytes
}

/// The contents of a log.
pub(crate) struct LogContents {
    /// The manager that the log belongs to.
    pub(crate) manager: ManagerId,
    /// The state of its snapshot; empty if there is none.
    pub(crate) state: Vec<u8>,
    /// The commands behind the snapshot, decided or not.
    pub(crate) commands: Vec<Vec<u8>>,
}

/// Reads a log without opening it.
pub(crate) fn read_log(bytes: &[u8]) -> Result<LogContents, LogError> {
    let PersistedLog { manager, snapshot, entries, .. } = PersistedLog::read(bytes)?;
    let index = snapshot.get_metadata().index;
    let is_command = |entry: &&Entry| {
        entry.index > index && entry.get_entry_type() == EntryType::EntryNormal && !entry.data.is_empty()
    };
    let commands = entries.iter().filter(is_command).map(|entry| entry.data.to_vec()).collect();
    Ok(LogContents { manager, state: snapshot.data.to_vec(), commands })
}

impl Consensus {
    /// Opens the persisted log. Returns the state of the last snapshot and the number of valid bytes of the
    /// log.
    pub(crate) fn open(
        bytes: &[u8],
        seed: u64,
        log_entries_max: usize,
    ) -> Result<(Consensus, Vec<u8>, usize), LogError> {
        let stored = PersistedLog::read(bytes)?;
        let PersistedLog { manager: id, hard, snapshot, entries, bytes } = stored;
        // A manager must be able to apply everything in its log; it would stop half-way otherwise.
        if let Some(entry) = entries.iter().find(|entry| !is_applicable(entry)) {
            let why = format!("entry {} is no command that this program knows", entry.index);
            return Err(LogError::State(why));
        }
        let state = snapshot.data.to_vec();
        let config = Config {
            id: id.0,
            election_tick: ELECTION_TICKS,
            heartbeat_tick: HEARTBEAT_TICKS,
            applied: snapshot.get_metadata().index,
            max_size_per_msg: MESSAGE_ENTRIES_BYTES_MAX,
            max_inflight_msgs: MESSAGES_IN_FLIGHT_MAX,
            max_uncommitted_size: UNCOMMITTED_BYTES_MAX,
            check_quorum: true,
            pre_vote: true,
            ..Config::default()
        };
        let logger = slog::Logger::root(slog::Discard, slog::o!());
        let core = RawNode::new(&config, RaftLog::new(hard, snapshot, entries), &logger)
            .map_err(|error| LogError::State(error.to_string()))?;
        let mut consensus = Consensus {
            core,
            id,
            stream: SplitMix64::new(seed),
            timeout: ELECTION_TICKS,
            drawn_for: (u64::MAX, StateRole::Follower),
            ticks: 0,
            persists: 0,
            durable: 0,
            durable_at: 0,
            delayed_messages: VecDeque::new(),
            snapshots: Vec::new(),
            reads: Reads::default(),
            compact_now: false,
            log_entries_max,
            outputs: Vec::new(),
        };
        consensus.draw_timeout();
        if consensus.core.raft.prs().is_singleton() && consensus.core.raft.promotable() {
            // No other manager can be leader: there is nothing to wait for.
            let _ = consensus.core.campaign();
        }
        consensus.pump();
        Ok((consensus, state, bytes))
    }

    pub(crate) fn id(&self) -> ManagerId {
        self.id
    }

    pub(crate) fn term(&self) -> u64 {
        self.core.raft.term
    }

    pub(crate) fn is_leader(&self) -> bool {
        self.core.raft.state == StateRole::Leader
    }

    /// Whether this manager leads and knows everything that was decided before its term.
    pub(crate) fn is_ready_leader(&self) -> bool {
        self.is_leader() && self.core.raft.commit_to_current_term()
    }

    pub(crate) fn leader(&self) -> Option<ManagerId> {
        (self.core.raft.leader_id != 0).then_some(ManagerId(self.core.raft.leader_id))
    }

    pub(crate) fn tick(&mut self) {
        self.ticks += 1;
        self.core.tick();
        self.campaign_if_new();
        self.abandon_snapshots();
        self.step_down_if_stuck();
        self.pump();
    }

    /// Handles a message of another manager. Invalid messages and messages for another manager are dropped:
    /// messages may be lost anyway.
    pub(crate) fn receive(&mut self, from: ManagerId, bytes: &[u8]) {
        let Some((message, reads)) = message::decode(bytes) else { return };
        if message.from != from.0 || message.to != self.id.0 {
            return;
        }
        let members = self.members();
        self.reads.record_capabilities(from, reads, &members);
        if !is_understood(&message) {
            return;
        }
        // The core refuses some messages, usually because they are late.
        let _ = self.core.step(message);
        self.pump();
    }

    pub(crate) fn persisted(&mut self, number: u64) {
        self.durable = self.durable.max(number);
        self.durable_at = self.ticks;
        while self.delayed_messages.front().is_some_and(|delayed| delayed.number <= number) {
            let Some(delayed) = self.delayed_messages.pop_front() else { break };
            self.send_delayed(delayed);
        }
        self.pump();
    }

    /// Proposes a command. Returns whether it is in the leader's log now.
    pub(crate) fn propose(&mut self, command: Vec<u8>) -> bool {
        let is_in_log = self.is_leader() && self.core.propose(Vec::new(), command).is_ok();
        self.pump();
        is_in_log
    }

    pub(crate) fn transfer(&mut self, to: ManagerId) {
        if self.is_leader() {
            self.core.transfer_leader(to.0);
            self.pump();
        }
    }

    /// The voters and learners, as last decided.
    pub(crate) fn members(&self) -> (Vec<ManagerId>, Vec<ManagerId>) {
        let conf = self.core.raft.prs().conf().to_conf_state();
        let ids = |ids: &[u64]| {
            let mut ids: Vec<ManagerId> = ids.iter().copied().map(ManagerId).collect();
            ids.sort_unstable();
            ids
        };
        (ids(conf.get_voters()), ids(conf.get_learners()))
    }

    /// Whether every member can read entries of several requests, as far as is known.
    pub(crate) fn all_read_batches(&self) -> bool {
        self.reads.all_read_batches(self.id, &self.members())
    }

    /// An entry of several requests was decided: no leader proposes one that a member cannot read.
    pub(crate) fn batch_decided(&mut self) {
        let members = self.members();
        self.reads.batch_decided(&members);
    }

    /// Replaces the log by a snapshot, if it has grown enough. To be called when the caller has read and
    /// applied all outputs.
    pub(crate) fn compact_if_due(&mut self, encode: impl FnOnce() -> Vec<u8>) {
        let log = self.core.store();
        let (entries, bytes) = log.beyond_snapshot();
        let bytes_max = LOG_BYTES_MAX.max(log.snapshot.data.len());
        if entries <= self.log_entries_max && bytes <= bytes_max && !self.compact_now {
            return;
        }
        self.compact_now = false;
        let index = self.core.raft.raft_log.applied;
        if index <= log.snapshot.get_metadata().index {
            return;
        }
        let Ok(term) = self.core.raft.raft_log.term(index) else { return };
        let mut snapshot = Snapshot::default();
        let meta = snapshot.mut_metadata();
        (meta.index, meta.term) = (index, term);
        meta.set_conf_state(self.core.raft.prs().conf().to_conf_state());
        snapshot.data = encode().into();
        self.core.mut_store().compact(snapshot, LOG_TRAIL_ENTRIES.min(self.log_entries_max / 2));
        self.replace();
    }

    pub(crate) fn take_outputs(&mut self) -> Vec<ConsensusOutput> {
        std::mem::take(&mut self.outputs)
    }

    /// Carries out everything that the core has ready.
    fn pump(&mut self) {
        self.draw_timeout();
        while self.core.has_ready() {
            let mut ready = self.core.ready();
            self.send(ready.take_messages());
            let restored = !ready.snapshot().is_empty();
            if restored {
                let snapshot = ready.snapshot().clone();
                self.outputs.push(ConsensusOutput::Restored(snapshot.data.to_vec()));
                self.core.mut_store().restore(snapshot);
            }
            let entries = ready.take_entries();
            self.core.mut_store().append(&entries);
            if let Some(hard) = ready.hs() {
                self.core.mut_store().hard = hard.clone();
            }
            if restored {
                self.replace();
            } else if ready.must_sync() {
                self.append(&entries);
            }
            let (number, messages) = (ready.number(), ready.take_persisted_messages());
            let committed = ready.take_committed_entries();
            self.core.advance_append_async(ready);
            let index = if restored { self.core.store().snapshot.get_metadata().index } else { 0 };
            self.delay_until_durable(DelayedMessages {
                number: self.persists,
                ready: number,
                restored: index,
                messages,
            });
            let last = committed.last().map(|entry| entry.index);
            for entry in committed {
                self.commit(entry);
            }
            if let Some(last) = last {
                self.core.advance_apply_to(last);
            }
            self.draw_timeout();
        }
    }

    fn delay_until_durable(&mut self, delayed: DelayedMessages) {
        self.delayed_messages.push_back(delayed);
        if planted::is_planted(Bug::VoteNotSynced) {
            // Votes are sent at once, without waiting for the disk.
            let delayed =
                self.delayed_messages.back_mut().map(|delayed| std::mem::take(&mut delayed.messages));
            let is_vote = |message: &Message| message.get_msg_type() == MessageType::MsgRequestVoteResponse;
            let (votes, others) = delayed.unwrap_or_default().into_iter().partition(is_vote);
            if let Some(delayed) = self.delayed_messages.back_mut() {
                delayed.messages = others;
            }
            self.send(votes);
        }
        if self.persisted_all() {
            while let Some(delayed) = self.delayed_messages.pop_front() {
                self.send_delayed(delayed);
            }
        }
    }

    /// The state that these messages depend on is durable.
    fn send_delayed(&mut self, delayed: DelayedMessages) {
        self.core.on_persist_ready(delayed.ready);
        if delayed.restored > 0 {
            self.core.advance_apply_to(delayed.restored);
        }
        self.send(delayed.messages);
    }

    fn persisted_all(&self) -> bool {
        self.durable >= self.persists
    }

    /// The commit index alone is never written: it is written with the next entries. Members change one at a
    /// time only if a manager with a change in its log knows, after a restart too, that the change before it
    /// is committed. Otherwise it campaigns with the votes of older members, and two managers can lead in one
    /// term.
    fn append(&mut self, entries: &[Entry]) {
        let mut writer = RecordWriter::default();
        let hard = self.hard_to_write();
        if hard != self.core.store().hard_written {
            writer.hard_state(&hard);
        }
        self.core.mut_store().hard_written = hard;
        entries.iter().for_each(|entry| writer.entry(entry));
        self.persist(writer, false);
    }

    fn hard_to_write(&self) -> HardState {
        let mut hard = self.core.store().hard.clone();
        if planted::is_planted(Bug::VoteNotSynced) {
            hard.vote = 0;
        }
        if planted::is_planted(Bug::CommitIndexNotWritten) {
            hard.commit = self.core.store().hard_written.commit;
        }
        hard
    }

    fn replace(&mut self) {
        let mut writer = RecordWriter::default();
        writer.header(self.id);
        let hard = self.hard_to_write();
        let log = self.core.store();
        writer.snapshot(&log.snapshot);
        writer.hard_state(&hard);
        log.beyond().for_each(|entry| writer.entry(entry));
        self.core.mut_store().hard_written = hard;
        self.persist(writer, true);
    }

    fn persist(&mut self, writer: RecordWriter, replace: bool) {
        self.persists += 1;
        self.outputs.push(ConsensusOutput::Persist { number: self.persists, bytes: writer.bytes, replace });
    }

    fn commit(&mut self, entry: Entry) {
        match entry.get_entry_type() {
            // A leader's first entry is empty.
            EntryType::EntryNormal if entry.data.is_empty() => {}
            EntryType::EntryNormal => self.outputs.push(ConsensusOutput::Committed(entry.data.to_vec())),
            EntryType::EntryConfChange | EntryType::EntryConfChangeV2 => {
                if let Some(step) = membership(&entry.context) {
                    // If the change is refused, every manager refuses it.
                    let _ = self.core.apply_conf_change(&conf_change(step).0);
                    // A manager refuses a snapshot in which it is not a member: the new member needs a
                    // snapshot from now.
                    self.compact_now |= matches!(step, Membership::Learn(_));
                    self.step_down_if_removed();
                }
            }
        }
    }

    fn send(&mut self, messages: Vec<Message>) {
        for message in messages {
            if message.get_msg_type() == MessageType::MsgSnapshot {
                self.snapshots.push((message.to, self.ticks));
            }
            if let Some(bytes) = message::encode(&message) {
                self.outputs.push(ConsensusOutput::Send { to: ManagerId(message.to), bytes });
            }
        }
    }

    /// The core waits without limit for the answer to a snapshot: a manager that has not answered after a
    /// while gets another snapshot.
    fn abandon_snapshots(&mut self) {
        let ticks = self.ticks;
        let (lost, waiting) =
            self.snapshots.iter().copied().partition(|(_, sent)| ticks - sent > SNAPSHOT_TIME_OUT_TICKS);
        self.snapshots = waiting;
        let lost: Vec<(u64, u64)> = lost;
        for (to, _) in lost {
            let waits = self.core.raft.prs().get(to).is_some_and(|one| one.state == ProgressState::Snapshot);
            if waits {
                self.core.report_snapshot(to, SnapshotStatus::Failure);
            }
        }
    }

    /// A leader whose disk accepts no writes, because it is full to the last byte, still sends heartbeats,
    /// but decides nothing. What it may not apply before it is on its own disk waits, and so do all
    /// requesters. It transfers leadership to the manager that is furthest ahead; the transfer needs no disk.
    fn step_down_if_stuck(&mut self) {
        if self.durable >= self.persists {
            self.durable_at = self.ticks;
        }
        let stuck = self.ticks - self.durable_at;
        if !self.is_leader() || stuck == 0 || !stuck.is_multiple_of(STUCK_TICKS) {
            return;
        }
        let raft = &self.core.raft;
        let voters = raft.prs().conf().to_conf_state().voters;
        let others = raft.prs().iter().filter(|(id, _)| **id != self.id.0 && voters.contains(id));
        let mut others: Vec<(u64, u64)> = others.map(|(id, one)| (one.matched, *id)).collect();
        others.sort_unstable();
        let furthest = others.last().map_or(0, |(matched, _)| *matched);
        others.retain(|(matched, _)| *matched == furthest);
        // One of them may be gone: the candidates take turns.
        let turn = (stuck / STUCK_TICKS) as usize;
        if let Some((_, heir)) = others.get(turn % others.len().max(1)).copied() {
            self.transfer(ManagerId(heir));
        }
    }

    /// In a group that was bootstrapped just now no leader has ever sent a message, so there is none to wait
    /// for. The first member campaigns again and again until most of the others have started.
    fn campaign_if_new(&mut self) {
        let raft = &self.core.raft;
        let is_bootstrapping = raft.hard_state().term <= BOOTSTRAP_TERM && raft.leader_id == 0;
        let is_first = raft.prs().conf().voters().ids().iter().min() == Some(self.id.0);
        if is_bootstrapping && is_first && self.ticks.is_multiple_of(BOOTSTRAP_ELECTION_TICKS) {
            // The core refuses only managers that are not voters; this one is a voter.
            let _ = self.core.campaign();
        }
    }

    /// Draws another timeout for another term or role; the core's own timeout is always replaced.
    fn draw_timeout(&mut self) {
        let now = (self.core.raft.term, self.core.raft.state);
        if now != self.drawn_for {
            self.drawn_for = now;
            self.timeout = self.stream.between(ELECTION_TICKS as u64, 2 * ELECTION_TICKS as u64) as usize;
        }
        self.core.raft.set_randomized_election_timeout(self.timeout);
    }
}

/// Whether this program can apply everything in a message. A newer program may know commands that this one
/// does not, and a manager with an entry that it cannot apply can never continue.
fn is_understood(message: &Message) -> bool {
    let snapshot = &message.get_snapshot().data;
    message.get_entries().iter().all(is_applicable)
        && (message.get_msg_type() != MessageType::MsgSnapshot || ControlState::decode(snapshot).is_ok())
}

/// Whether the entry holds a readable command, or no command.
fn is_applicable(entry: &Entry) -> bool {
    let holds_command = entry.get_entry_type() == EntryType::EntryNormal && !entry.data.is_empty();
    !holds_command || Requests::decode(&entry.data).is_ok()
}
