//! The clients' transactions: what they begin, how they use the answers, and what they abandon.
//!
//! ```text
//!   Commit, ReadMany ──────────────────────> one request ──> history
//!   ReadFirst ──> reads, with rests between ──> transaction that depends on them
//!                   └─ each a transaction of one read
//! ```

use std::collections::BTreeMap;

use zerohop_base::time::Time;
use zerohop_session::{CompositeItem, ReadCounts, Reply, SessionError, SessionRequest};
use zerohop_wire::ids::{KeyspaceId, Timestamp};
use zerohop_wire::messages::{
    Append, Condition, Expiry, Increment, Insert, NumberType, Operator, Query, RecordOperation, RecordRead,
    RecordWrite, ReturnedNumber, Transform, WriteChange,
};
use zerohop_wire::{AbortReason, Elements, Failure};

use super::answer_recorder::AnswerRecorder;
use super::{ClusterEvent, ClusterPhase, SimulatedCluster};
use crate::check::cycles::{CheckedAction, TransactionFate};
use crate::streams::Draw;
use crate::transacted::{TransactionFailure, TransactionRecord};
use crate::workload::blobs::number_of;
use crate::workload::tokens::{FILLER, token};
use crate::workload::transactional::{ClassedKey, ClientOperationPlan, KeyClass, PlanDraws, TransactionStep};

const MS: u64 = 1_000;

/// Operations of a session with tokens from here on are steps of transactions.
pub(super) const OPERATION_TOKENS_FROM: usize = 1 << 40;

/// One in so many actions of a client is one of these.
const ACTIONS_PER_OPERATION: u64 = 4;

/// So many in a hundred of these use a blob.
const BLOBS_OF_100: u64 = 25;
/// Draws from `BLOBS_OF_100` up to this value open a snapshot.
const SNAPSHOTS_UPTO: u64 = 29;

/// The transactions of all clients that have not ended.
#[derive(Debug)]
pub(super) struct ClientTransactions {
    pub(super) draws: PlanDraws,
    open: BTreeMap<usize, RunningTransaction>,
    next: usize,
    pub(super) opened: AccountsState,
}

/// Whether the accounts have been created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AccountsState {
    No,
    Requested,
    Yes,
}

/// A transaction in progress.
#[derive(Debug)]
struct RunningTransaction {
    client: usize,
    operation: ClientOperationPlan,
    /// Index in the history of its current request.
    at: usize,
    /// The time limit of each of its requests.
    limit_us: u64,
    /// What it has read so far.
    got: Vec<(ClassedKey, ReadResult)>,
    /// It has read everything and commits.
    is_committing: bool,
    is_opening: bool,
    /// It is a contender of another transaction, and its client starts nothing after it.
    is_rival: bool,
    /// A copy of one of its frames may take effect later.
    may_have_late_copy: bool,
}

/// The result of a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ReadResult {
    Absent,
    List(Timestamp, Vec<u64>),
    Value(Timestamp, u64),
    Number(Timestamp, i64),
}

impl ReadResult {
    pub(super) fn version(&self) -> Timestamp {
        match self {
            ReadResult::Absent => Timestamp::ZERO,
            ReadResult::List(version, _) | ReadResult::Value(version, _) | ReadResult::Number(version, _) => {
                *version
            }
        }
    }
}

impl ClientTransactions {
    pub(super) fn new(draws: PlanDraws) -> Self {
        Self { draws, open: BTreeMap::new(), next: 0, opened: AccountsState::No }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.open.is_empty()
    }

    /// A copy of a frame of this client may take effect later, whatever the client receives as
    /// answer.
    pub(super) fn haunt(&mut self, client: usize) {
        self.open
            .values_mut()
            .filter(|open| open.client == client)
            .for_each(|open| open.may_have_late_copy = true);
    }
}

impl SimulatedCluster {
    /// The two keyspaces, once both have existed.
    pub(super) fn transactional(&self) -> Option<[KeyspaceId; 2]> {
        self.watch.transactional_ids()
    }

    /// Starts a transaction, blob operation or snapshot of a client, if one is due. Returns whether
    /// it has.
    pub(super) fn begin_operation_if_due(&mut self, client: usize) -> bool {
        let chance = match self.focus(self.now()) {
            Some(focus) if self.transactional().is_some_and(|both| both.contains(&focus)) => {
                ACTIONS_PER_OPERATION - 1
            }
            _ => 1,
        };
        if !self.transacting.draws.random().chance(chance, ACTIONS_PER_OPERATION)
            || self.transactional().is_none()
        {
            return false;
        }
        let (plan, is_opening) = match self.transacting.opened {
            AccountsState::Requested => return false,
            AccountsState::No => (Some(self.transacting.draws.opening()), true),
            // Blobs and snapshots have draws of their own.
            AccountsState::Yes => match self.transacting.draws.random().below(100) {
                0..BLOBS_OF_100 => (None, false),
                BLOBS_OF_100..SNAPSHOTS_UPTO => {
                    self.begin_snapshot(client);
                    (Some(self.transacting.draws.next_operation()), false)
                }
                _ if self.is_about_to_drop() => (Some(self.transacting.draws.wide_operation()), false),
                _ => (Some(self.transacting.draws.next_operation()), false),
            },
        };
        let random = self.transacting.draws.random();
        let is_short = self.scenario.impatient && self.phase == ClusterPhase::Faults && random.chance(1, 4);
        let limit_us = match is_short {
            true => random.between(100, 100 * MS),
            false => random.between(1_500 * MS, 12_000 * MS),
        };
        if is_opening {
            self.transacting.opened = AccountsState::Requested;
        }
        let Some(plan) = plan else {
            let plan = self.transacting.draws.blob();
            self.begin_blob(client, plan, limit_us);
            return true;
        };
        if !is_opening {
            self.draw_rivals(client, &plan);
        }
        self.begin_operation(client, plan, limit_us, (is_opening, false));
        true
    }

    pub(super) fn begin_operation(
        &mut self,
        client: usize,
        plan: ClientOperationPlan,
        limit_us: u64,
        (is_opening, is_rival): (bool, bool),
    ) {
        let number = OPERATION_TOKENS_FROM + self.transacting.next;
        self.transacting.next += 1;
        self.trace.record(self.now(), format_args!("c{client} begins operation #{number}: {plan:?}"));
        let open = RunningTransaction {
            client,
            operation: plan,
            at: 0,
            limit_us,
            got: Vec::new(),
            is_committing: false,
            is_opening,
            is_rival,
            may_have_late_copy: false,
        };
        self.transacting.open.insert(number, open);
        self.send_next_request(number);
    }

    /// Everything is read once more, after all faults have ended.
    pub(super) fn read_all_transactional(&mut self) {
        let Some(both) = self.transactional().filter(|_| self.transacting.opened == AccountsState::Yes)
        else {
            return;
        };
        for class in [KeyClass::List, KeyClass::Register, KeyClass::Account, KeyClass::Cell] {
            // Transactions over both keyspaces are complete in the one that is left.
            let is_there = |key: &ClassedKey| !self.watch.is_dropped(both[key.keyspace]);
            let keys = ClassedKey::all(class).into_iter().filter(is_there).collect();
            self.begin_operation(0, ClientOperationPlan::ReadMany(keys), 8_000 * MS, (false, false));
        }
        self.read_all_blobs();
    }

    /// Sends the next request of a transaction.
    pub(super) fn send_next_request(&mut self, number: usize) {
        let now = self.now();
        let Some(both) = self.transactional() else { return };
        let Some(open) = self.transacting.open.get_mut(&number) else { return };
        let resting = |key: ClassedKey, seen| item(both, TransactionStep::Read(key), Query::Inspect, seen);
        let plain = |step: TransactionStep| item(both, step, Query::Lookup, None);
        let mut actions = Vec::new();
        let limit_us = open.limit_us;
        let request = match &open.operation {
            ClientOperationPlan::Commit(steps) => {
                actions.extend(steps.iter().filter_map(|step| intended(*step)));
                SessionRequest::transaction(steps.iter().map(|step| plain(*step)).collect(), limit_us).ok()
            }
            ClientOperationPlan::ReadMany(keys) => {
                let items = keys.iter().map(|key| plain(TransactionStep::Read(*key))).collect();
                SessionRequest::read_many(items, limit_us).ok()
            }
            ClientOperationPlan::Single(step) => {
                actions.extend(intended(*step));
                single(both, *step, limit_us)
            }
            ClientOperationPlan::ReadFirst { reads, together: true, .. } if open.got.len() < reads.len() => {
                let items = reads.iter().map(|key| plain(TransactionStep::Read(*key))).collect();
                SessionRequest::read_many(items, limit_us).ok()
            }
            ClientOperationPlan::ReadFirst { reads, .. } if open.got.len() < reads.len() => {
                single(both, TransactionStep::Read(reads[open.got.len()]), limit_us)
            }
            ClientOperationPlan::ReadFirst { writes, .. } => {
                open.is_committing = true;
                let mut left: BTreeMap<ClassedKey, Timestamp> =
                    open.got.iter().map(|(key, got)| (*key, got.version())).collect();
                let mut items = Vec::new();
                for step in writes {
                    // An item that is read and written carries its check in its first write.
                    let mut item = plain(*step);
                    if let Some(version) = left.remove(&step.key()) {
                        item.add_read_dependency(version);
                    }
                    items.push(item);
                }
                items.extend(left.into_iter().map(|(key, version)| resting(key, Some(version))));
                actions.extend(writes.iter().filter_map(|step| intended(*step)));
                SessionRequest::transaction(items, limit_us).ok()
            }
        };
        let client = open.client;
        open.at = self.history.transactions.len();
        let deadline = now.after_us(limit_us);
        self.history.transactions.push(TransactionRecord::begun(client, now, deadline, actions));
        let Some(request) = request else {
            self.transacting.open.remove(&number);
            return self.record_violation("world", format!("operation #{number} cannot be sent"));
        };
        self.clients[client].session.submit(now, request, number);
        let soon = self.streams.schedule.below(20);
        self.schedule_client(client, now.after_us(soon));
    }

    /// A transaction goes on after a rest, if its client is alive.
    pub(super) fn continue_operation(&mut self, client: usize, number: usize) {
        let paused_until = self.clients[client].paused_until;
        if self.now() < paused_until {
            return self.agenda.at(paused_until, ClusterEvent::ContinueOperation { client, number });
        }
        self.send_next_request(number);
    }

    /// A request of a transaction has ended.
    pub(super) fn handle_request_end(&mut self, number: usize, result: Result<Reply, SessionError>) {
        let now = self.now();
        let Some(open) = self.transacting.open.get_mut(&number) else { return };
        let (client, at) = (open.client, open.at);
        let entry = &mut self.history.transactions[at];
        entry.transaction.end = Some(now.0);
        let goes_on = match result {
            Ok(reply) => open.record_answer(entry, &reply),
            Err(SessionError::Answer { failure: Failure::NotFound }) => {
                open.record_answer(entry, &Reply::Many(vec![Err(Failure::NotFound)]))
            }
            Err(error) => {
                fail(entry, &error, open.may_have_late_copy);
                false
            }
        };
        self.coverage.operations += u64::from(entry.transaction.fate == TransactionFate::Committed);
        let text = format_args!("operation #{number} ends as {entry}");
        self.trace.record(now, text);
        if goes_on {
            let rest_us = self.transacting.draws.random().below(30 * MS);
            return self.agenda.at(now.after_us(rest_us), ClusterEvent::ContinueOperation { client, number });
        }
        let (is_opening, is_rival) = (open.is_opening, open.is_rival);
        if is_opening {
            let is_there = entry.transaction.fate == TransactionFate::Committed
                || matches!(&entry.failure, Some(TransactionFailure::Conflict(_)));
            self.transacting.opened = if is_there { AccountsState::Yes } else { AccountsState::No };
        }
        self.transacting.open.remove(&number);
        if !is_rival {
            let life = self.clients[client].life;
            self.call_again(client, life);
        }
    }

    /// A client dies; its transactions may or may not have taken effect.
    pub(super) fn drop_operations(&mut self, client: usize) {
        let transacting = &mut self.transacting;
        let own = transacting.open.iter().filter(|(_, open)| open.client == client);
        let own: Vec<usize> = own.map(|(number, _)| *number).collect();
        for open in own.into_iter().filter_map(|number| transacting.open.remove(&number)) {
            let entry = &mut self.history.transactions[open.at];
            entry.is_left |= entry.transaction.end.is_none();
            if open.is_opening {
                transacting.opened = AccountsState::No;
            }
        }
    }

    /// Adds the counters of a client's reads of several records to the coverage, before they are
    /// gone.
    pub(super) fn count_reads(&mut self, client: usize) {
        let ReadCounts { read_locked: held, unconfirmed: _, confirmed, read_again, transacted } =
            self.clients[client].session.reads();
        self.coverage.commits_seen("reads held", held);
        self.coverage.commits_seen("reads confirmed", confirmed);
        self.coverage.commits_seen("reads read again", read_again);
        self.coverage.commits_seen("reads turned into transactions", transacted);
    }

    /// A client is paused until then and handles no deadline.
    pub(super) fn pause_operations(&mut self, client: usize, until: Time) {
        for open in self.transacting.open.values().filter(|open| open.client == client) {
            let entry = &mut self.history.transactions[open.at];
            entry.deadline = entry.deadline.max(until);
        }
    }
}

impl RunningTransaction {
    /// Records an answer. Returns whether there is more to do.
    fn record_answer(&mut self, entry: &mut TransactionRecord, reply: &Reply) -> bool {
        let mut told = AnswerRecorder { entry, bank: (0, 0) };
        let one = |reply: &Reply| [Ok(reply.clone())];
        match (&self.operation, reply) {
            (ClientOperationPlan::Commit(steps), Reply::Transacted { version, answers }) => {
                told.transacted(*version, steps, answers);
            }
            (ClientOperationPlan::ReadMany(keys), Reply::Many(answers)) => {
                told.committed();
                told.reads(keys.iter().copied(), answers);
            }
            (ClientOperationPlan::Single(step), _) => {
                told.committed();
                match (step.is_read(), reply) {
                    (true, Reply::Many(answers)) => drop(told.reads([step.key()], answers)),
                    (true, reply) => drop(told.reads([step.key()], &one(reply))),
                    (false, Reply::Done { version, .. }) => told.version(*version),
                    (false, other) => told.record_impossible(other),
                }
            }
            (ClientOperationPlan::ReadFirst { writes, .. }, Reply::Transacted { version, .. })
                if self.is_committing =>
            {
                told.committed();
                told.rested(&self.got);
                if !writes.is_empty() {
                    told.version(*version);
                }
            }
            (ClientOperationPlan::ReadFirst { reads, together, .. }, reply) if !self.is_committing => {
                told.committed();
                let now: Vec<ClassedKey> =
                    if *together { reads.clone() } else { reads[self.got.len()..][..1].to_vec() };
                let got = match reply {
                    Reply::Many(answers) => told.reads(now, answers),
                    reply => told.reads(now, &one(reply)),
                };
                self.got.extend(got);
                return self.entry_is_well(entry);
            }
            (_, other) => told.record_impossible(other),
        }
        false
    }

    fn entry_is_well(&self, entry: &TransactionRecord) -> bool {
        entry.failure.is_none()
    }
}

/// A write as the checker sees it, before its version is known.
pub(super) fn intended(step: TransactionStep) -> Option<CheckedAction> {
    match step {
        TransactionStep::Append(key, value) => Some(CheckedAction::Append { key: key.id(), value }),
        TransactionStep::Put { key, value, .. } => {
            Some(CheckedAction::Write { key: key.id(), value, version: None })
        }
        TransactionStep::Make { key, value } if key.class == KeyClass::Register => {
            Some(CheckedAction::Write { key: key.id(), value, version: None })
        }
        _ => None,
    }
}

/// A read as the checker sees it. An absent register is one that was never written.
pub(super) fn read_of(key: ClassedKey, got: &ReadResult) -> Option<CheckedAction> {
    let key_id = key.id();
    match (key.class, got) {
        (KeyClass::List, ReadResult::List(_, values)) => {
            Some(CheckedAction::Read { key: key_id, values: values.clone() })
        }
        (KeyClass::List, _) => Some(CheckedAction::Read { key: key_id, values: Vec::new() }),
        (KeyClass::Register, ReadResult::Value(version, value)) => {
            Some(CheckedAction::Look { key: key_id, value: *value, version: version.0 })
        }
        (KeyClass::Register, _) => Some(CheckedAction::Look { key: key_id, value: 0, version: 0 }),
        _ => None,
    }
}

/// The result of a read by the answer; `None` if no such result can exist.
pub(super) fn got(key: ClassedKey, answer: &Result<Reply, Failure<'static>>) -> Option<ReadResult> {
    match (key.class, answer) {
        (_, Err(Failure::NotFound)) => Some(ReadResult::Absent),
        (KeyClass::List, Ok(Reply::List { version, length, values, .. })) => {
            let numbers: Option<Vec<u64>> = values.iter().map(|value| number_of(value)).collect();
            Some(ReadResult::List(*version, numbers.filter(|values| values.len() as u64 == *length)?))
        }
        (KeyClass::Register, Ok(Reply::Value { version, bytes, .. })) => {
            let (first, rest) = bytes.split_at_checked(token(0).len())?;
            let is_whole = rest.iter().all(|byte| *byte == FILLER);
            Some(ReadResult::Value(*version, number_of(first).filter(|_| is_whole)?))
        }
        (KeyClass::Account, Ok(Reply::Value { version, bytes, .. })) => {
            let number = std::str::from_utf8(bytes).ok()?.parse().ok()?;
            Some(ReadResult::Number(*version, number))
        }
        (KeyClass::Cell, Ok(Reply::Value { version, bytes, .. })) => {
            let number = i64::from_le_bytes(bytes.as_ref().try_into().ok()?);
            Some(ReadResult::Number(*version, number))
        }
        _ => None,
    }
}

/// The fate of a request that failed, or whose outcome is unknown.
pub(super) fn fail(entry: &mut TransactionRecord, error: &SessionError, is_haunted: bool) {
    let is_logged = matches!(error, SessionError::Aborted { reason, .. }
        if !matches!(reason, AbortReason::Misplaced | AbortReason::Overloaded | AbortReason::Malformed));
    entry.transaction.fate = match error {
        SessionError::Unknown { .. } => TransactionFate::Unknown,
        // A copy of it may still take effect; a transaction that its log has aborted does not start
        // again.
        _ if is_haunted && !is_logged => TransactionFate::Unknown,
        _ => TransactionFate::Aborted,
    };
    let text = error.to_string();
    entry.failure = Some(match error {
        SessionError::Aborted { reason: AbortReason::ReadChanged | AbortReason::ConditionFailed, .. } => {
            TransactionFailure::Conflict(text)
        }
        SessionError::Answer {
            failure:
                Failure::NotFound
                | Failure::StaleBlob { .. }
                | Failure::NeedHeader
                | Failure::ConditionFailed { .. }
                | Failure::SnapshotExpired,
        } => TransactionFailure::Conflict(text),
        _ => TransactionFailure::Other(text),
    });
}

fn single(both: [KeyspaceId; 2], step: TransactionStep, limit_us: u64) -> Option<SessionRequest> {
    let keyspace = both[step.key().keyspace];
    with_operation(step, Query::Lookup, |operation| {
        SessionRequest::record(keyspace, operation, limit_us).ok()
    })
}

fn item(
    both: [KeyspaceId; 2],
    step: TransactionStep,
    query: Query<'_>,
    seen: Option<Timestamp>,
) -> CompositeItem {
    let keyspace = both[step.key().keyspace];
    with_operation(step, query, |operation| {
        CompositeItem::new(keyspace, operation, seen).expect("is within bounds")
    })
}

fn with_operation<R>(
    step: TransactionStep,
    query: Query<'_>,
    then: impl FnOnce(&RecordOperation<'_>) -> R,
) -> R {
    let key = &step.key().bytes()[..];
    let write = |condition, change| RecordOperation::Write(RecordWrite { key, condition, change });
    let insert = |value| WriteChange::Insert(Insert { value, expiry: Expiry::Never });
    match step {
        TransactionStep::Read(_) => then(&RecordOperation::Read(RecordRead { key, query })),
        TransactionStep::Append(_, value) => {
            let value = token(value);
            let values = [&value[..]];
            then(&write(
                Condition::Always,
                WriteChange::Append(Append { values: Elements::from_slice(&values) }),
            ))
        }
        TransactionStep::Put { value, filler, .. } => {
            let mut bytes = token(value);
            bytes.resize(bytes.len() + filler, FILLER);
            then(&write(Condition::Always, insert(&bytes)))
        }
        TransactionStep::Make { key, value } => {
            let bytes = match key.class {
                KeyClass::Account => b"0".to_vec(),
                KeyClass::Cell => vec![0; 8],
                _ => token(value),
            };
            then(&write(Condition::IfAbsent, insert(&bytes)))
        }
        TransactionStep::Add(key, delta) if key.class == KeyClass::Cell => {
            let transform = Transform {
                operator: Operator::Add,
                number: NumberType::I64,
                operand: delta as u64,
                offset: 0,
                returns: ReturnedNumber::Nothing,
            };
            then(&write(Condition::Always, WriteChange::Transform(transform)))
        }
        TransactionStep::Add(_, delta) => {
            then(&write(Condition::Always, WriteChange::Increment(Increment { delta })))
        }
    }
}
