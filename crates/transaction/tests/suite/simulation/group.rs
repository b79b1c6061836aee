//! A simulated partition: a log of which the committed part survives, a primary that may be
//! replaced at any moment, and deposed primaries that do not know it yet.

use std::collections::BTreeMap;

use bytes::Bytes;
use zerohop_base::time::Time;
use zerohop_transaction::{
    Durability, EvaluatedPart, Install, KeyspaceRange, Message, ParticipantState, PartitionHost, Refusal,
    SessionKnowledge, StageId, Ticket, TransactionEffect, TransactionEntry, TransactionId, TransactionItem,
    TransactionMessage, TransactionOutcome, Transactions,
};
use zerohop_wire::ids::{LogIndex, PartitionEpoch, Sequence, SessionId, Timestamp};

use super::store::{RecordOp, RecordValue, VersionStore};

/// An entry of the log.
#[derive(Clone, Debug)]
pub enum LogRecord {
    /// The epoch marker of a new primary.
    EpochMarker,
    /// An entry of a transaction; for an outcome, with the lowest sequence that its client waits
    /// for.
    Of(TransactionEntry, u64),
    /// A write of one record.
    Local { session: SessionId, sequence: u64, lock_key: u64, op: RecordOp, at: Timestamp },
    /// These sessions are forgotten.
    Evict(Vec<SessionId>),
}

/// Outcomes of one session.
#[derive(Clone, Debug, Default)]
pub struct SessionOutcomes {
    pub lowest: u64,
    pub outcomes: BTreeMap<u64, TransactionOutcome>,
    /// The time at which this primary, or a replay of the log, added the last outcome.
    used: Time,
}

/// The session table.
#[derive(Clone, Debug, Default)]
pub struct Sessions {
    pub by_id: BTreeMap<SessionId, SessionOutcomes>,
    /// Sessions issued before this time are forgotten, unless they are in the table.
    session_mark: Timestamp,
}

impl Sessions {
    fn evict(&mut self, ids: &[SessionId]) {
        ids.iter().for_each(|id| drop(self.by_id.remove(id)));
        self.session_mark =
            ids.iter().map(|id| id.issued.next()).max().max(Some(self.session_mark)).unwrap_or_default();
    }

    pub fn is_expired(&self, id: SessionId) -> bool {
        id.issued < self.session_mark && !self.by_id.contains_key(&id)
    }
}

/// A caller that waits for an answer.
#[derive(Clone, Debug)]
pub enum WaitingCaller {
    /// A transaction.
    Transaction { client: usize, call: u64 },
    /// A read of one lock key, now or as it was.
    Read { client: usize, call: u64, lock_key: u64, at: Option<Timestamp> },
    /// A write of one record.
    Local { client: usize, call: u64, session: SessionId, sequence: u64, lock_key: u64, op: RecordOp },
}

/// An answer to a client.
#[derive(Clone, Debug)]
pub enum ClientAnswer {
    Outcome(TransactionOutcome),
    Value(Timestamp, RecordValue),
    Confirmed(bool),
    Written(Timestamp),
    Staged,
    /// Its session is forgotten, so the outcome is unknown.
    SessionExpired,
}

/// An output of a primary.
#[derive(Clone, Debug)]
pub enum PrimaryOutput {
    Message(Message),
    Client { client: usize, call: u64, answer: ClientAnswer },
    Loss(TransactionId),
}

/// The partition's records, as the state machine sees them.
pub struct SimulatedRecords {
    pub hash_range: KeyspaceRange,
    pub store: VersionStore,
    pub sessions: Sessions,
    pub clock: Timestamp,
    /// The physical time here, which differs from that of others.
    pub wall: Timestamp,
}

pub fn owns(hash_range: KeyspaceRange) -> impl Fn(u64) -> bool + Copy {
    move |lock_key| hash_range.first <= lock_key && lock_key <= hash_range.last
}

impl PartitionHost for SimulatedRecords {
    fn propose(&mut self) -> Timestamp {
        self.clock = self.clock.next().max(self.wall);
        self.clock
    }

    fn raise(&mut self, to: Timestamp) {
        self.clock = self.clock.max(to);
    }

    fn is_ahead(&self, timestamp: Timestamp) -> bool {
        timestamp.millis() > self.wall.millis() + 500
    }

    fn version(&self, item: &TransactionItem) -> Timestamp {
        self.store.newest(item.lock_key).0
    }

    fn evaluate(&self, items: &[TransactionItem]) -> Result<EvaluatedPart, Refusal> {
        self.store.evaluate(items, owns(self.hash_range))
    }

    fn install(&mut self, install: &Install) {
        self.store.install(&install.effect, install.timestamp, owns(self.hash_range));
        install.pinned.iter().for_each(|id| {
            self.store.staged.remove(id);
        });
    }

    fn staged(&self, id: &StageId) -> Option<Bytes> {
        self.store.staged.get(id).cloned()
    }

    fn known(&self, id: &TransactionId) -> SessionKnowledge {
        let session = self.sessions.by_id.get(&id.session);
        let is_over = self.sessions.is_expired(id.session)
            || session.is_some_and(|session| {
                id.sequence.0 < session.lowest || session.outcomes.contains_key(&id.sequence.0)
            });
        if is_over { SessionKnowledge::Over } else { SessionKnowledge::Unknown }
    }
}

/// A primary.
pub struct Primary {
    pub instance: usize,
    pub records: SimulatedRecords,
    pub transactions: Transactions,
    /// Entries that are appended and not committed, behind the log.
    pub appended: Vec<LogRecord>,
    /// Pending outputs, each with the log length that must be committed first.
    pending_outputs: Vec<(usize, PrimaryOutput)>,
    pub out: Vec<PrimaryOutput>,
    pub waiting_callers: BTreeMap<Ticket, WaitingCaller>,
    tickets: u64,
    /// The lowest sequences that requests have reported.
    lowest: BTreeMap<TransactionId, u64>,
    /// Sessions that an uncommitted entry evicts.
    evicting: Vec<SessionId>,
}

/// A partition.
pub struct SimulatedPartition {
    pub hash_range: KeyspaceRange,
    pub durability: Durability,
    pub log: Vec<LogRecord>,
    pub primary: Option<Primary>,
    pub deposed: Vec<Primary>,
    pub epoch: u64,
    pub instance: usize,
    pub skew_ms: u64,
    /// Above all timestamps that any primary has assigned or followed.
    pub timestamp_bound: Timestamp,
}

impl SimulatedPartition {
    /// The state after the committed log.
    fn replay(&self, now: Time) -> (ParticipantState, VersionStore, Sessions) {
        let owns = owns(self.hash_range);
        let (mut state, mut store, mut sessions) =
            (ParticipantState::default(), VersionStore::default(), Sessions::default());
        for (number, logged) in self.log.iter().enumerate() {
            let index = LogIndex(number as u64 + 1);
            if let LogRecord::Of(entry, _) = logged {
                if let Some(install) = state.apply(index, entry) {
                    store.install(&install.effect, install.timestamp, owns);
                    install.pinned.iter().for_each(|id| {
                        store.staged.remove(id);
                    });
                }
                record_staged(&mut store, entry);
            }
            if let LogRecord::Local { lock_key, op, at, .. } = logged
                && owns(*lock_key)
            {
                store.change(*lock_key, *op, *at);
            }
            if let LogRecord::Evict(ids) = logged {
                state.evict(ids);
                sessions.evict(ids);
            }
            record_outcome(&mut sessions, logged, now);
        }
        (state, store, sessions)
    }

    /// Starts a new primary with the committed log; optionally its state passes through a
    /// checkpoint.
    pub fn begin(&mut self, now: Time, wall: Timestamp, through_checkpoint: bool) {
        self.log.push(LogRecord::EpochMarker);
        let (mut state, store, sessions) = self.replay(now);
        if through_checkpoint {
            let entries = state.entries();
            let staged: Vec<(LogIndex, TransactionEntry)> = store
                .staged
                .iter()
                .map(|(id, bytes)| (LogIndex(1), TransactionEntry::Stage { id: *id, bytes: bytes.clone() }))
                .collect();
            let all = staged.iter().chain(&entries).map(|(index, entry)| (*index, entry));
            let restored = ParticipantState::restore(LogIndex(self.log.len() as u64), all);
            let mut same = state.clone();
            let _ = same.apply(
                LogIndex(self.log.len() as u64),
                &TransactionEntry::Finish { id: TransactionId::default() },
            );
            assert_eq!(restored, same, "a checkpoint does not bring back what was");
            state = restored;
        }
        let clock = self.timestamp_bound.max(state.newest());
        let records = SimulatedRecords { hash_range: self.hash_range, store, sessions, clock, wall };
        let transactions = Transactions::new(now, (self.hash_range, None), PartitionEpoch(self.epoch), state);
        self.primary = Some(Primary {
            instance: self.instance,
            records,
            transactions,
            appended: Vec::new(),
            pending_outputs: Vec::new(),
            out: Vec::new(),
            waiting_callers: BTreeMap::new(),
            tickets: 0,
            lowest: BTreeMap::new(),
            evicting: Vec::new(),
        });
    }

    /// Deposes the primary. This many of its uncommitted entries survive.
    pub fn depose(&mut self, kept: usize) {
        if let Some(mut primary) = self.primary.take() {
            self.timestamp_bound = self.timestamp_bound.max(primary.records.clock);
            let rest = primary.appended.split_off(kept.min(primary.appended.len()));
            self.log.append(&mut primary.appended);
            // The deposed primary continues without any commit.
            primary.appended = rest;
            primary.out.clear();
            primary.pending_outputs.clear();
            self.deposed.push(primary);
        }
        self.epoch += 1;
    }

    /// Splits the upper half off: both children have the log, with this many uncommitted entries.
    pub fn split(&mut self, (kept, kept_upper): (usize, usize)) -> SimulatedPartition {
        let appended = self.primary.as_ref().map(|primary| primary.appended.clone()).unwrap_or_default();
        let least = kept.min(kept_upper).min(appended.len());
        let rest = &appended[least..kept.max(kept_upper).clamp(least, appended.len())];
        // The protocol does not allow a decision in the log of one child only, with half of its
        // changes.
        let is_decided =
            |logged: &LogRecord| matches!(logged, LogRecord::Of(TransactionEntry::Commit { .. }, _));
        let (kept, kept_upper) =
            if rest.iter().any(is_decided) { (least, least) } else { (kept, kept_upper) };
        let mut log = self.log.clone();
        log.extend(appended.into_iter().take(kept_upper));
        self.depose(kept);
        let KeyspaceRange { keyspace, first, last } = self.hash_range;
        let middle = first + (last - first) / 2;
        self.hash_range = KeyspaceRange { keyspace, first, last: middle };
        SimulatedPartition {
            hash_range: KeyspaceRange { keyspace, first: middle + 1, last },
            durability: self.durability,
            log,
            primary: None,
            deposed: Vec::new(),
            instance: self.instance,
            epoch: self.epoch,
            skew_ms: self.skew_ms,
            timestamp_bound: self.timestamp_bound,
        }
    }

    /// The next entries are committed.
    pub fn commit(&mut self, now: Time, count: usize) {
        let Some(primary) = &mut self.primary else { return };
        for _ in 0..count.min(primary.appended.len()) {
            let logged = primary.appended.remove(0);
            self.log.push(logged.clone());
            let index = LogIndex(self.log.len() as u64);
            record_outcome(&mut primary.records.sessions, &logged, now);
            if let LogRecord::Evict(ids) = &logged {
                primary.records.sessions.evict(ids);
                primary.transactions.evict(ids);
                primary.evicting.clear();
            }
            if let LogRecord::Of(entry, _) = &logged {
                record_staged(&mut primary.records.store, entry);
                let mut effects = Vec::new();
                primary.transactions.committed(now, &mut primary.records, index, entry, &mut effects);
                primary.perform_effects(now, effects, self.log.len());
            }
            let committed = self.log.len();
            let (ready, waiting) = std::mem::take(&mut primary.pending_outputs)
                .into_iter()
                .partition(|(at, _)| *at <= committed);
            primary.pending_outputs = waiting;
            primary.out.extend(Vec::<(usize, PrimaryOutput)>::into_iter(ready).map(|(_, out)| out));
        }
    }
}

fn record_staged(store: &mut VersionStore, entry: &TransactionEntry) {
    match entry {
        TransactionEntry::Stage { id, bytes } => {
            store.staged.insert(*id, bytes.clone());
        }
        TransactionEntry::Expire { ids } => ids.iter().for_each(|id| {
            store.staged.remove(id);
        }),
        _ => {}
    }
}

fn record_outcome(sessions: &mut Sessions, logged: &LogRecord, now: Time) {
    let (session, sequence, lowest, outcome) = match logged {
        LogRecord::Of(TransactionEntry::Commit { id, timestamp, results, .. }, lowest) => {
            let outcome = TransactionOutcome::Committed { timestamp: *timestamp, results: results.clone() };
            (id.session, id.sequence, *lowest, outcome)
        }
        LogRecord::Of(TransactionEntry::Abort { id, by, refusal }, lowest) => {
            (id.session, id.sequence, *lowest, TransactionOutcome::Aborted { by: *by, refusal: *refusal })
        }
        LogRecord::Local { session, sequence, at, .. } => {
            let outcome = TransactionOutcome::Committed { timestamp: *at, results: Vec::new() };
            (*session, Sequence(*sequence), 0, outcome)
        }
        _ => return,
    };
    let known = sessions.by_id.entry(session).or_default();
    known.used = now;
    known.lowest = known.lowest.max(lowest);
    known.outcomes.insert(sequence.0, outcome);
    let lowest = known.lowest;
    known.outcomes.retain(|sequence, _| *sequence >= lowest);
}

impl Primary {
    pub fn ticket(&mut self, caller: WaitingCaller) -> Ticket {
        self.tickets += 1;
        self.waiting_callers.insert(Ticket(self.tickets), caller);
        Ticket(self.tickets)
    }

    /// Forgets sessions that were idle for this long.
    pub fn sweep(&mut self, now: Time, idle_us: u64) -> usize {
        if self.evicting.is_empty() {
            let is_idle = |session: &SessionOutcomes| session.used.after_us(idle_us) < now;
            let sessions = self.records.sessions.by_id.iter();
            self.evicting = sessions.filter(|(_, one)| is_idle(one)).map(|(id, _)| *id).collect();
            if !self.evicting.is_empty() {
                self.appended.push(LogRecord::Evict(self.evicting.clone()));
                return self.evicting.len();
            }
        }
        0
    }

    /// Whether no request of a session can be executed any more.
    pub fn is_session_expired(&self, id: SessionId) -> bool {
        self.records.sessions.is_expired(id)
            || self.evicting.iter().any(|one| {
                *one == id || id.issued <= one.issued && !self.records.sessions.by_id.contains_key(&id)
            })
    }

    pub fn record_lowest(&mut self, id: TransactionId, lowest: u64) {
        self.lowest.insert(id, lowest);
    }

    /// `log` is the length of the committed log.
    pub fn perform_effects(&mut self, now: Time, effects: Vec<TransactionEffect>, log: usize) {
        for effect in effects {
            match effect {
                TransactionEffect::Append { entry, .. } => {
                    // The entry is encoded and decoded, as in a log.
                    let entry = TransactionEntry::decode(&entry.encode()).unwrap();
                    let lowest = match &entry {
                        TransactionEntry::Commit { id, .. } | TransactionEntry::Abort { id, .. } => {
                            self.lowest.remove(id).unwrap_or_default()
                        }
                        _ => 0,
                    };
                    self.appended.push(LogRecord::Of(entry, lowest));
                }
                TransactionEffect::Send(message) => {
                    let rests_on_nothing = matches!(
                        message.what,
                        TransactionMessage::Prepare { .. }
                            | TransactionMessage::Release { .. }
                            | TransactionMessage::Commit { .. }
                            | TransactionMessage::Query { .. }
                    );
                    let at = if rests_on_nothing { 0 } else { log + self.appended.len() };
                    self.queue_output(at, log, PrimaryOutput::Message(message));
                }
                TransactionEffect::Answer { ticket, outcome } => {
                    if let Some(WaitingCaller::Transaction { client, call }) =
                        self.waiting_callers.remove(&ticket)
                    {
                        self.queue_output(
                            0,
                            log,
                            PrimaryOutput::Client { client, call, answer: ClientAnswer::Outcome(outcome) },
                        );
                    }
                }
                TransactionEffect::Read(ticket) => self.read_now(ticket, log),
                TransactionEffect::Write(ticket) => {
                    self.write_now(ticket, log);
                    let mut more = Vec::new();
                    self.transactions.leave(now, &mut self.records, ticket, &mut more);
                    self.perform_effects(now, more, log);
                }
                TransactionEffect::Loss { id, .. } => self.out.push(PrimaryOutput::Loss(id)),
            }
        }
    }

    pub fn queue_output(&mut self, at: usize, log: usize, out: PrimaryOutput) {
        if at <= log {
            self.out.push(out);
        } else {
            self.pending_outputs.push((at, out));
        }
    }

    /// Sends an answer once all appended entries are committed.
    pub fn answer(&mut self, (client, call): (usize, u64), answer: ClientAnswer, log: usize) {
        self.queue_output(log + self.appended.len(), log, PrimaryOutput::Client { client, call, answer });
    }

    pub fn read_now(&mut self, ticket: Ticket, log: usize) {
        let Some(WaitingCaller::Read { client, call, lock_key, at }) = self.waiting_callers.remove(&ticket)
        else {
            return;
        };
        let (version, value) = match at {
            Some(at) => self.records.store.below(lock_key, at),
            None => self.records.store.newest(lock_key),
        };
        self.answer((client, call), ClientAnswer::Value(version, value), log);
    }

    pub fn write_now(&mut self, ticket: Ticket, log: usize) {
        let Some(WaitingCaller::Local { client, call, session, sequence, lock_key, op }) =
            self.waiting_callers.remove(&ticket)
        else {
            return;
        };
        // The request may have been repeated while it waited.
        let is_mine = |logged: &&LogRecord| matches!(logged, LogRecord::Local { session: one, sequence: number, .. } if *one == session && *number == sequence);
        let appended = self.appended.iter().find(is_mine).cloned();
        let known = self.records.sessions.by_id.get(&session);
        if appended.is_none() && known.is_some_and(|known| sequence < known.lowest) {
            return;
        }
        let done = known.and_then(|known| known.outcomes.get(&sequence)).cloned();
        if appended.is_none() && done.is_none() && self.is_session_expired(session) {
            return self.answer((client, call), ClientAnswer::SessionExpired, log);
        }
        let at = match (appended, done) {
            (Some(LogRecord::Local { at, .. }), _)
            | (_, Some(TransactionOutcome::Committed { timestamp: at, .. })) => at,
            _ => {
                let at = self.records.propose();
                self.records.store.change(lock_key, op, at);
                self.appended.push(LogRecord::Local { session, sequence, lock_key, op, at });
                at
            }
        };
        self.answer((client, call), ClientAnswer::Written(at), log);
    }
}
