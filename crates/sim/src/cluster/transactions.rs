//! The clients' transactions: what they begin, how they use the answers, and what they abandon.
//!
//! ```text
//!   Commit, ReadMany ──────────────────────> one request ──> history
//!   ReadFirst ──> the procedure of interactive transactions (interactive.rs)
//! ```

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use zerohop_base::time::Time;
use zerohop_session::procedures::ProcedureSettings;
use zerohop_session::{CompositeItem, ReadCounts, Reply, SessionError, SessionRequest};
use zerohop_wire::ids::KeyspaceId;
use zerohop_wire::messages::{
    Append, Condition, Expiry, Increment, Insert, NumberType, Operator, Query, RecordOperation, RecordRead,
    RecordWrite, ReturnedNumber, Transform, WriteChange,
};
use zerohop_wire::{Elements, Failure};

use super::blobs::PlainBlobRun;
use super::interactive::{InteractiveReport, InteractiveReports, interactive, takes_update_locks};
use super::running_transaction::{RunningTransaction, fail};
use super::transaction_reads::intended;
use super::{ClusterPhase, SimulatedCluster};
use crate::cycles::TransactionFate;
use crate::streams::Draw;
use crate::transaction_results::{TransactionFailure, TransactionRecord};
use crate::workload::tokens::{FILLER, token};
use crate::workload::transactional::{ClassedKey, ClientOperationPlan, KeyClass, PlanDraws, TransactionStep};

const MS: u64 = 1_000;

/// Operations of a session with tokens from here on are steps of transactions.
pub(super) const OPERATION_TOKENS_FROM: usize = 1 << 40;

/// One in so many actions of a client is one of these.
const ACTIONS_PER_OPERATION: u64 = 4;

/// So many in a hundred of these use a blob.
const BLOBS_OF_100: u64 = 22;
/// One in so many of these is about the plain blob.
const PLAIN_BLOBS_OF: u64 = 4;
/// Draws from `BLOBS_OF_100` up to this value open a snapshot.
const SNAPSHOTS_UPTO: u64 = 26;

/// The transactions of all clients that have not ended.
#[derive(Debug)]
pub(super) struct ClientTransactions {
    pub(super) draws: PlanDraws,
    open: BTreeMap<usize, RunningTransaction>,
    next: usize,
    pub(super) opened: AccountsState,
    reports: InteractiveReports,
}

/// Whether the accounts have been created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AccountsState {
    No,
    Requested,
    Yes,
}

impl ClientTransactions {
    pub(super) fn new(draws: PlanDraws) -> Self {
        Self {
            draws,
            open: BTreeMap::new(),
            next: 0,
            opened: AccountsState::No,
            reports: InteractiveReports::default(),
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.open.is_empty()
    }

    /// A copy of a frame of this client may take effect later, whatever the client receives as
    /// answer.
    pub(super) fn mark_may_repeat(&mut self, client: usize) {
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
            if plan.value.is_multiple_of(PLAIN_BLOBS_OF) {
                PlainBlobRun { world: self }.begin(client, limit_us);
            } else {
                self.begin_blob(client, plan, limit_us);
            }
            return true;
        };
        if !is_opening {
            self.draw_contenders(client, &plan);
        }
        self.begin_operation(client, plan, limit_us, (is_opening, false));
        true
    }

    pub(super) fn begin_operation(
        &mut self,
        client: usize,
        plan: ClientOperationPlan,
        limit_us: u64,
        (is_opening, is_contender): (bool, bool),
    ) {
        let number = OPERATION_TOKENS_FROM + self.transacting.next;
        self.transacting.next += 1;
        self.trace.record(self.now(), format_args!("c{client} begins operation #{number}: {plan:?}"));
        let open = RunningTransaction {
            client,
            operation: plan,
            entries: Vec::new(),
            limit_us,
            got: Vec::new(),
            is_opening,
            is_contender,
            may_have_late_copy: false,
        };
        self.transacting.open.insert(number, open);
        self.send_request(number);
    }

    /// Everything is read once more, after all faults have ended.
    pub(super) fn read_all_transactional(&mut self) {
        let Some(both) = self.transactional().filter(|_| self.transacting.opened == AccountsState::Yes)
        else {
            return;
        };
        for class in [KeyClass::List, KeyClass::Register, KeyClass::Account, KeyClass::Counter] {
            // Transactions over both keyspaces are complete in the one that is left.
            let is_there = |key: &ClassedKey| !self.watch.is_dropped(both[key.keyspace]);
            let keys = ClassedKey::all(class).into_iter().filter(is_there).collect();
            self.begin_operation(0, ClientOperationPlan::ReadMany(keys), 8_000 * MS, (false, false));
        }
        self.read_all_blobs();
        PlainBlobRun { world: self }.read_last();
    }

    /// Sends the request of a transaction, or starts its procedure.
    fn send_request(&mut self, number: usize) {
        let now = self.now();
        let Some(both) = self.transactional() else { return };
        let Some(open) = self.transacting.open.get_mut(&number) else { return };
        let plain = |step: TransactionStep| item(both, step);
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
            ClientOperationPlan::ReadFirst { reads, together, writes } => {
                let plan = (reads.clone(), *together, writes.clone());
                let client = open.client;
                return self.start_interactive(number, (client, limit_us), plan);
            }
        };
        let client = open.client;
        open.entries = vec![self.history.transactions.len()];
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

    /// Starts the procedure of an interactive transaction.
    fn start_interactive(
        &mut self,
        number: usize,
        (client, limit_us): (usize, u64),
        plan: (Vec<ClassedKey>, bool, Vec<TransactionStep>),
    ) {
        let random = (self.transacting.draws.random().fork(number as u64), takes_update_locks(self.seed));
        let reports = Arc::clone(&self.transacting.reports);
        let report = move |what| {
            reports.lock().unwrap_or_else(PoisonError::into_inner).push_back((number, what));
        };
        let procedures = &mut self.clients[client].procedures;
        let deadline = Duration::from_micros(limit_us);
        let handle = procedures.handle(ProcedureSettings::new(deadline));
        procedures.start(interactive(handle, plan, random, report));
        let soon = self.streams.schedule.below(20);
        self.schedule_client(client, self.now().after_us(soon));
    }

    /// Adds what the interactive transactions have reported in this turn of a client to the history.
    pub(super) fn handle_interactive_reports(&mut self) {
        loop {
            let report = self.transacting.reports.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let Some((number, report)) = report else { return };
            let now = self.now();
            let Some(open) = self.transacting.open.get_mut(&number) else { continue };
            let (client, is_contender) = (open.client, open.is_contender);
            let is_over = matches!(report, InteractiveReport::Ends);
            for place in open.record_report(now, &mut self.history.transactions, report) {
                let entry = &self.history.transactions[place];
                self.coverage.operations += u64::from(entry.transaction.fate == TransactionFate::Committed);
                self.trace.record(now, format_args!("operation #{number} ends as {entry}"));
            }
            if is_over {
                self.transacting.open.remove(&number);
                if !is_contender {
                    let life = self.clients[client].life;
                    self.call_again(client, life);
                }
            }
        }
    }

    /// A request of a transaction has ended.
    pub(super) fn handle_request_end(&mut self, number: usize, result: Result<Reply, SessionError>) {
        let now = self.now();
        let Some(open) = self.transacting.open.get_mut(&number) else { return };
        let client = open.client;
        let Some(at) = open.entries.pop() else { return };
        let entry = &mut self.history.transactions[at];
        entry.transaction.end = Some(now.0);
        match result {
            Ok(reply) => open.record_answer(entry, &reply),
            Err(SessionError::Answer { failure: Failure::NotFound }) => {
                open.record_answer(entry, &Reply::Many(vec![Err(Failure::NotFound)]))
            }
            Err(error) => fail(entry, &error, open.may_have_late_copy),
        }
        self.coverage.operations += u64::from(entry.transaction.fate == TransactionFate::Committed);
        let text = format_args!("operation #{number} ends as {entry}");
        self.trace.record(now, text);
        let (is_opening, is_contender) = (open.is_opening, open.is_contender);
        if is_opening {
            let is_there = entry.transaction.fate == TransactionFate::Committed
                || matches!(&entry.failure, Some(TransactionFailure::Conflict(_)));
            self.transacting.opened = if is_there { AccountsState::Yes } else { AccountsState::No };
        }
        self.transacting.open.remove(&number);
        if !is_contender {
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
            for place in open.entries {
                let entry = &mut self.history.transactions[place];
                entry.is_left |= entry.transaction.end.is_none();
            }
            if open.is_opening {
                transacting.opened = AccountsState::No;
            }
        }
    }

    /// Adds the counters of a client's reads of several records to the coverage, before they are
    /// gone.
    pub(super) fn count_reads(&mut self, client: usize) {
        let ReadCounts { read_locked, unconfirmed: _, confirmed, read_again, transacted } =
            self.clients[client].session.reads();
        self.coverage.commits_seen("reads locked", read_locked);
        self.coverage.commits_seen("reads confirmed", confirmed);
        self.coverage.commits_seen("reads read again", read_again);
        self.coverage.commits_seen("reads turned into transactions", transacted);
    }

    /// A client is paused until then and handles no deadline.
    pub(super) fn pause_operations(&mut self, client: usize, until: Time) {
        for open in self.transacting.open.values().filter(|open| open.client == client) {
            for place in &open.entries {
                let entry = &mut self.history.transactions[*place];
                entry.deadline = entry.deadline.max(until);
            }
        }
    }
}

fn single(both: [KeyspaceId; 2], step: TransactionStep, limit_us: u64) -> Option<SessionRequest> {
    let keyspace = both[step.key().keyspace];
    with_operation(step, |operation| SessionRequest::record(keyspace, operation, limit_us).ok())
}

fn item(both: [KeyspaceId; 2], step: TransactionStep) -> CompositeItem {
    let keyspace = both[step.key().keyspace];
    with_operation(step, |operation| CompositeItem::new(keyspace, operation, None).expect("is within bounds"))
}

fn with_operation<R>(step: TransactionStep, then: impl FnOnce(&RecordOperation<'_>) -> R) -> R {
    let key = &step.key().bytes()[..];
    let write = |condition, change| RecordOperation::Write(RecordWrite { key, condition, change });
    let insert = |value| WriteChange::Insert(Insert { value, expiry: Expiry::Never });
    match step {
        TransactionStep::Read(_) => then(&RecordOperation::Read(RecordRead { key, query: Query::Lookup })),
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
                KeyClass::Counter => vec![0; 8],
                _ => token(value),
            };
            then(&write(Condition::IfAbsent, insert(&bytes)))
        }
        TransactionStep::Add(key, delta) if key.class == KeyClass::Counter => {
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
