//! The clients' interactive transactions: the procedure that `zerohop-client` runs. It reads first,
//! and its commit depends on what it has read.
//!
//! ```text
//!   reads, with rests between, or all in one round ──> writes are buffered, long ones staged ──> commit
//!     └─ each a transaction of one read for the checker     └─ some are read back
//! ```

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use zerohop_base::random::Random;
use zerohop_session::procedures::{ClusterHandle, Error, Keyspace, Record, Transaction, Transform};
use zerohop_wire::ids::Timestamp;

use super::transaction_reads::{ReadResult, intended, read_of, read_result, reply_of};
use crate::cycles::CheckedAction;
use crate::workload::tokens::{FILLER, token};
use crate::workload::transactional::{ClassedKey, KEYSPACES, KeyClass, TransactionStep};

const MS: u64 = 1_000;

/// The longest rest between two reads, in microseconds.
const REST_US: u64 = 30 * MS;

/// One of so many records that were read is read again.
const REPEATED_OF: u64 = 2;

/// One of so many writes is read back.
const READ_BACK_OF: u64 = 2;

/// One of so many long values is staged before the commit.
const STAGED_OF: u64 = 2;

/// Transactions take update locks from this seed on, in one of so many runs.
const FIRST_SEED_WITH_LOCKS: u64 = 60;
const LOCKS_OF_SEEDS: u64 = 4;

/// Whether interactive transactions of a run take update locks.
pub(super) fn takes_update_locks(seed: u64) -> bool {
    seed >= FIRST_SEED_WITH_LOCKS && seed % LOCKS_OF_SEEDS == 1
}

/// Reports of the procedures, in order, each with the number of its transaction.
pub(super) type InteractiveReports = Arc<Mutex<VecDeque<(usize, InteractiveReport)>>>;

/// What an interactive transaction reports.
#[derive(Debug)]
pub(super) enum InteractiveReport {
    /// It reads these keys.
    Reads(Vec<ClassedKey>, ReadKind),
    /// The results of these reads.
    HasRead(Vec<ClassedKey>, Result<Vec<Option<Record>>, Error>),
    /// It commits these writes.
    Commits(Vec<TransactionStep>),
    /// The commit is requested now, or something that it waits for.
    Waits,
    Committed(WrittenActions, Result<Timestamp, Error>),
    /// A repeated read has another result than the first.
    Differs(String),
    /// It does nothing more.
    Ends,
}

/// Whether records are read to be updated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadKind {
    Plain,
    /// The read waits for an update lock, and as every wait it has a grace beyond its limit.
    ForUpdate,
}

/// The writes of an interactive transaction, and what it has read back.
#[derive(Debug, Default)]
pub(super) struct WrittenActions {
    /// In their order.
    pub(super) actions: Vec<CheckedAction>,
    pub(super) has_writes: bool,
    /// The sum of the balances, if all accounts of a bank were read back.
    pub(super) sum: Option<i64>,
    /// A record that cannot have been read.
    pub(super) impossible: Option<String>,
}

/// What an interactive transaction does.
#[derive(Debug)]
struct InteractivePlan {
    reads: Vec<ClassedKey>,
    together: bool,
    writes: Vec<TransactionStep>,
    /// Records that are read alone are, half of them, read for an update.
    locks: bool,
    random: Random,
}

impl InteractivePlan {
    /// Opens the keyspaces that the transaction uses.
    async fn keyspaces(&self, handle: &ClusterHandle) -> Result<BTreeMap<usize, Keyspace>, Error> {
        let keys = self.reads.iter().copied().chain(self.writes.iter().map(|step| step.key()));
        let mut keyspaces = BTreeMap::new();
        for key in keys {
            if let Entry::Vacant(place) = keyspaces.entry(key.keyspace) {
                place.insert(handle.keyspace(KEYSPACES[key.keyspace]).await?);
            }
        }
        Ok(keyspaces)
    }
}

async fn run_interactive(
    handle: ClusterHandle,
    mut plan: InteractivePlan,
    report: impl Fn(InteractiveReport),
) {
    let Ok(keyspaces) = plan.keyspaces(&handle).await else { return report(InteractiveReport::Ends) };
    let transaction = handle.begin();
    let mut first = BTreeMap::new();
    let rounds: Vec<Vec<ClassedKey>> = match plan.together {
        true => vec![plan.reads.clone()],
        false => plan.reads.iter().map(|key| vec![*key]).collect(),
    };
    for keys in rounds {
        let locked = keys.first().filter(|_| !plan.together && plan.locks && plan.random.chance(1, 2));
        let kind = if locked.is_some() { ReadKind::ForUpdate } else { ReadKind::Plain };
        report(InteractiveReport::Reads(keys.clone(), kind));
        let result = match locked {
            Some(key) => read_for_update(&transaction, &keyspaces[&key.keyspace], *key).await,
            None => read_round(&transaction, &keyspaces, &keys).await,
        };
        let is_over = result.is_err();
        first.extend(keys.iter().copied().zip(result.clone().unwrap_or_default()));
        report(InteractiveReport::HasRead(keys, result));
        if is_over {
            return report(InteractiveReport::Ends);
        }
        handle.sleep(Duration::from_micros(plan.random.below(REST_US))).await;
    }
    for (key, record) in first.iter().filter(|_| plan.random.chance(1, REPEATED_OF)) {
        // Neither the network nor the present state has a part in it.
        let again = read_round(&transaction, &keyspaces, &[*key]).await;
        if again.as_ref().is_ok_and(|again| again[0] != *record) {
            report(InteractiveReport::Differs(format!("{key:?}: {record:?}, and then {again:?}")));
        }
    }
    report(InteractiveReport::Commits(plan.writes.clone()));
    let mut written = WrittenActions::default();
    let mut writer = InteractiveWriter { transaction, keyspaces, first, report: &report };
    let result = match writer.write(&mut plan, &mut written).await {
        Ok(()) => {
            report(InteractiveReport::Waits);
            writer.transaction.commit().await.map(|committed| committed.version())
        }
        Err(error) => Err(error),
    };
    report(InteractiveReport::Committed(written, result));
    report(InteractiveReport::Ends);
}

async fn read_for_update(
    transaction: &Transaction,
    keyspace: &Keyspace,
    key: ClassedKey,
) -> Result<Vec<Option<Record>>, Error> {
    Ok(vec![transaction.read_for_update(keyspace.lookup(&key.bytes())).await?])
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

struct InteractiveWriter<'r, R> {
    transaction: Transaction,
    keyspaces: BTreeMap<usize, Keyspace>,
    /// What was read before the writes.
    first: BTreeMap<ClassedKey, Option<Record>>,
    report: &'r R,
}

impl<R: Fn(InteractiveReport)> InteractiveWriter<'_, R> {
    /// Writes, and reads some of the records back.
    async fn write(&mut self, plan: &mut InteractivePlan, written: &mut WrittenActions) -> Result<(), Error> {
        let mut staged = Vec::new();
        for step in &plan.writes {
            (self.report)(InteractiveReport::Waits);
            if self.write_step(*step, &mut plan.random).await? {
                staged.push(step.key());
            }
            written.has_writes = true;
            written.actions.extend(intended(*step));
            if plan.random.chance(1, READ_BACK_OF) && !staged.contains(&step.key()) {
                self.read_back(step.key(), written).await?;
            }
        }
        let accounts =
            plan.reads.iter().filter(|key| matches!(key.class, KeyClass::Account | KeyClass::Counter));
        let accounts: Vec<ClassedKey> = accounts.copied().collect();
        let mut sum = 0;
        for key in &accounts {
            match self.read_back(*key, written).await? {
                Some(ReadResult::Number(_, balance)) => sum += balance,
                _ => return Ok(()),
            }
        }
        let bank = accounts.first().map(|key| ClassedKey::all(key.class).len());
        written.sum = bank.filter(|bank| *bank == accounts.len()).map(|_| sum);
        Ok(())
    }

    /// Returns whether the write may be staged.
    async fn write_step(&self, step: TransactionStep, random: &mut Random) -> Result<bool, Error> {
        let (key, keyspace) = (step.key().bytes(), &self.keyspaces[&step.key().keyspace]);
        match step {
            TransactionStep::Append(_, value) => {
                self.transaction.write(keyspace.append(&key, &[&token(value)]))?;
            }
            TransactionStep::Put { key: place, value, filler } => {
                let mut bytes = token(value);
                bytes.resize(bytes.len() + filler, FILLER);
                let insert = keyspace.insert(&key, &bytes);
                if filler > 0 && random.chance(1, STAGED_OF) {
                    self.transaction.stage(insert).await?;
                    return Ok(true);
                }
                match self.first.get(&place) {
                    // Only its first write finds what was read.
                    Some(Some(Record::Bytes { bytes: before, length, .. }))
                        if *length == before.len() as u64 && self.transaction.writes()? == 0 =>
                    {
                        self.transaction.write(keyspace.compare_swap(&key, Some(before), Some(&bytes)))?;
                    }
                    _ => self.transaction.write(insert).map(drop)?,
                }
                // A commit that is too large stages it.
                return Ok(filler > 0);
            }
            TransactionStep::Add(place, amount) if place.class == KeyClass::Counter => {
                self.transaction.write(keyspace.transform_silently(&key, Transform::add(amount)))?;
            }
            TransactionStep::Add(_, amount) => {
                self.transaction.write(keyspace.increment(&key, amount)).map(drop)?
            }
            other => unreachable!("interactive transactions write, and do not {other:?}"),
        }
        Ok(false)
    }

    /// Reads a record with the transaction's own writes. A long list cannot be read back.
    async fn read_back(
        &self,
        key: ClassedKey,
        written: &mut WrittenActions,
    ) -> Result<Option<ReadResult>, Error> {
        (self.report)(InteractiveReport::Waits);
        let record = match read_round(&self.transaction, &self.keyspaces, &[key]).await {
            Ok(records) => records.into_iter().next().flatten(),
            Err(Error::NotReadBack { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let answer = reply_of(record.as_ref());
        let Some(got) = read_result(key, &answer) else {
            written.impossible = Some(format!("{key:?} is read back as {answer:?}"));
            return Ok(None);
        };
        written.actions.extend(read_of(key, &got));
        Ok(Some(got))
    }
}

/// The procedure of an interactive transaction.
pub(super) fn interactive(
    handle: ClusterHandle,
    (reads, together, writes): (Vec<ClassedKey>, bool, Vec<TransactionStep>),
    (random, locks): (Random, bool),
    report: impl Fn(InteractiveReport) + Send + Sync + 'static,
) -> impl Future<Output = ()> + Send + 'static {
    run_interactive(handle, InteractivePlan { reads, together, writes, locks, random }, report)
}
