//! The clients' interactive transactions: the procedure that `zerohop-client` runs. It reads first,
//! and its commit depends on what it has read.
//!
//! ```text
//!   reads, with rests between, or all in one round ──> writes are buffered, long ones staged ──> commit
//!     └─ each a transaction of one read for the checker
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use zerohop_base::random::Random;
use zerohop_session::procedures::{ClusterHandle, Error, Keyspace, ProcedureSettings, Record, Transaction};
use zerohop_session::{Coalescing, Reply};
use zerohop_wire::Failure;
use zerohop_wire::ids::Timestamp;

use super::SimulatedCluster;
use super::answer_recorder::AnswerRecorder;
use super::transacting::{fail_of, intended};
use crate::check::cycles::CheckedAction;
use crate::transacted::TransactionRecord;
use crate::workload::tokens::{FILLER, token};
use crate::workload::transactional::{ClassedKey, KEYSPACES, TransactionStep};

const MS: u64 = 1_000;

/// The longest rest between two reads, in microseconds.
const REST_US: u64 = 30 * MS;

/// One of so many long values is staged before the commit.
const STAGED_OF: u64 = 2;

/// Reports of the procedures, in order, each with the number of its transaction.
pub(super) type Reports = Arc<Mutex<VecDeque<(usize, Report)>>>;

/// What an interactive transaction reports.
#[derive(Debug)]
pub(super) enum Report {
    /// It reads these keys.
    Reads(Vec<ClassedKey>),
    /// The results of these reads.
    HasRead(Vec<ClassedKey>, Result<Vec<Option<Record>>, Error>),
    /// It commits these writes.
    Commits(Vec<TransactionStep>),
    Committed(Vec<TransactionStep>, Result<Timestamp, Error>),
    /// It does nothing more.
    Ends,
}

/// What an interactive transaction does.
#[derive(Debug)]
struct InteractivePlan {
    reads: Vec<ClassedKey>,
    together: bool,
    writes: Vec<TransactionStep>,
    random: Random,
}

impl InteractivePlan {
    /// Opens the keyspaces that the transaction uses.
    async fn keyspaces(&self, handle: &ClusterHandle) -> Result<BTreeMap<usize, Keyspace>, Error> {
        let keys = self.reads.iter().copied().chain(self.writes.iter().map(|step| step.key()));
        let mut keyspaces = BTreeMap::new();
        for key in keys {
            if !keyspaces.contains_key(&key.keyspace) {
                keyspaces.insert(key.keyspace, handle.keyspace(KEYSPACES[key.keyspace]).await?);
            }
        }
        Ok(keyspaces)
    }
}

async fn run_interactive(handle: ClusterHandle, mut plan: InteractivePlan, report: impl Fn(Report)) {
    let Ok(keyspaces) = plan.keyspaces(&handle).await else { return report(Report::Ends) };
    let transaction = handle.begin();
    let rounds: Vec<Vec<ClassedKey>> = match plan.together {
        true => vec![plan.reads.clone()],
        false => plan.reads.iter().map(|key| vec![*key]).collect(),
    };
    for keys in rounds {
        report(Report::Reads(keys.clone()));
        let result = read_round(&transaction, &keyspaces, &keys).await;
        let is_over = result.is_err();
        report(Report::HasRead(keys, result));
        if is_over {
            return report(Report::Ends);
        }
        handle.sleep(Duration::from_micros(plan.random.below(REST_US))).await;
    }
    report(Report::Commits(plan.writes.clone()));
    let result = write_and_commit(transaction, &keyspaces, &mut plan).await;
    report(Report::Committed(plan.writes, result));
    report(Report::Ends);
}

async fn read_round(
    transaction: &Transaction,
    keyspaces: &BTreeMap<usize, Keyspace>,
    keys: &[ClassedKey],
) -> Result<Vec<Option<Record>>, Error> {
    match keys {
        [key] => {
            let bytes = key.bytes();
            Ok(vec![transaction.read(keyspaces[&key.keyspace].lookup(&bytes)).await?])
        }
        keys => {
            let records: Vec<(&Keyspace, Vec<u8>)> =
                keys.iter().map(|key| (&keyspaces[&key.keyspace], key.bytes())).collect();
            transaction.read_many(&records).await
        }
    }
}

async fn write_and_commit(
    transaction: Transaction,
    keyspaces: &BTreeMap<usize, Keyspace>,
    plan: &mut InteractivePlan,
) -> Result<Timestamp, Error> {
    for step in &plan.writes {
        let (key, keyspace) = (step.key().bytes(), &keyspaces[&step.key().keyspace]);
        match *step {
            TransactionStep::Append(_, value) => {
                transaction.write(keyspace.append(&key, &[&token(value)]))?;
            }
            TransactionStep::Put { value, filler, .. } => {
                let mut bytes = token(value);
                bytes.resize(bytes.len() + filler, FILLER);
                let insert = keyspace.insert(&key, &bytes);
                match filler > 0 && plan.random.chance(1, STAGED_OF) {
                    true => drop(transaction.stage(insert).await?),
                    false => drop(transaction.write(insert)?),
                }
            }
            other => unreachable!("interactive transactions append and replace, not {other:?}"),
        }
    }
    transaction.commit().await.map(|committed| committed.version())
}

impl SimulatedCluster {
    /// Starts an interactive transaction.
    pub(super) fn start_interactive(
        &mut self,
        number: usize,
        (client, limit_us): (usize, u64),
        (reads, together, writes): (Vec<ClassedKey>, bool, Vec<TransactionStep>),
    ) {
        let random = self.transacting.draws.random().fork(number as u64);
        let reports = Arc::clone(&self.transacting.reports);
        let report = move |what| {
            reports.lock().unwrap_or_else(PoisonError::into_inner).push_back((number, what));
        };
        let procedures = &mut self.clients[client].procedures;
        let deadline = Duration::from_micros(limit_us);
        let handle = procedures.handle(ProcedureSettings { deadline, collecting: Coalescing::AsKeyspace });
        let plan = InteractivePlan { reads, together, writes, random };
        procedures.start(run_interactive(handle, plan, report));
        let soon = self.streams.schedule.below(20);
        self.schedule_client(client, self.now().after_us(soon));
    }

    /// Adds what the interactive transactions have reported in this turn of a client to the history.
    pub(super) fn handle_interactive_reports(&mut self) {
        loop {
            let report = self.transacting.reports.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let Some((number, report)) = report else { return };
            self.handle_interactive_report(number, report);
        }
    }

    fn handle_interactive_report(&mut self, number: usize, report: Report) {
        let now = self.now();
        let Some(open) = self.transacting.open.get_mut(&number) else { return };
        let history = &mut self.history.transactions;
        let mut begin = |actions: Vec<CheckedAction>| {
            let deadline = now.after_us(open.limit_us);
            history.push(TransactionRecord::begun(open.client, now, deadline, actions));
            history.len() - 1
        };
        match report {
            Report::Reads(keys) => open.entries = keys.iter().map(|_| begin(Vec::new())).collect(),
            Report::Commits(writes) => {
                open.entries = vec![begin(writes.iter().filter_map(|step| intended(*step)).collect())];
            }
            Report::HasRead(keys, result) => {
                for (at, (key, place)) in keys.into_iter().zip(std::mem::take(&mut open.entries)).enumerate()
                {
                    let entry = &mut history[place];
                    entry.transaction.end = Some(now.0);
                    match &result {
                        Ok(records) => {
                            let mut recorder = AnswerRecorder { entry, bank: (0, 0) };
                            recorder.committed();
                            let answer = reply_of(records.get(at).and_then(Option::as_ref));
                            open.got.extend(recorder.reads([key], &[answer]));
                        }
                        Err(error) => fail_of(entry, error, open.may_have_late_copy),
                    }
                    self.trace.record(now, format_args!("deed #{number} ends as {entry}"));
                    self.coverage.operations += u64::from(result.is_ok());
                }
            }
            Report::Committed(writes, result) => {
                for place in std::mem::take(&mut open.entries) {
                    let entry = &mut history[place];
                    entry.transaction.end = Some(now.0);
                    match &result {
                        Ok(version) => {
                            let mut recorder = AnswerRecorder { entry, bank: (0, 0) };
                            recorder.committed();
                            recorder.rested(&open.got);
                            if !writes.is_empty() {
                                recorder.version(*version);
                            }
                        }
                        Err(error) => fail_of(entry, error, open.may_have_late_copy),
                    }
                    self.trace.record(now, format_args!("deed #{number} ends as {entry}"));
                    self.coverage.operations += u64::from(result.is_ok());
                }
            }
            Report::Ends => {
                let is_rival = open.is_rival;
                let client = open.client;
                self.transacting.open.remove(&number);
                if !is_rival {
                    let life = self.clients[client].life;
                    self.call_again(client, life);
                }
            }
        }
    }
}

/// The reply that has this record.
fn reply_of(record: Option<&Record>) -> Result<Reply, Failure<'static>> {
    match record.cloned() {
        Some(Record::Bytes { version, length, bytes }) => Ok(Reply::Value { version, length, bytes }),
        Some(Record::List { version, length, first, values }) => {
            Ok(Reply::List { version, length, first, values })
        }
        None => Err(Failure::NotFound),
    }
}
