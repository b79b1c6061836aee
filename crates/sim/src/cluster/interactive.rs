//! The clients' interactive transactions: the procedure that `zerohop-client` runs. It reads first,
//! and its commit depends on what it has read.
//!
//! ```text
//!   reads, with rests between, or all in one round ──> writes are buffered, long ones staged ──> commit
//!     └─ each a transaction of one read for the checker
//! ```

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use zerohop_base::random::Random;
use zerohop_session::procedures::{ClusterHandle, Error, Keyspace, Record, Transaction};
use zerohop_wire::ids::Timestamp;

use crate::workload::tokens::{FILLER, token};
use crate::workload::transactional::{ClassedKey, KEYSPACES, TransactionStep};

const MS: u64 = 1_000;

/// The longest rest between two reads, in microseconds.
const REST_US: u64 = 30 * MS;

/// One of so many long values is staged before the commit.
const STAGED_OF: u64 = 2;

/// InteractiveReports of the procedures, in order, each with the number of its transaction.
pub(super) type InteractiveReports = Arc<Mutex<VecDeque<(usize, InteractiveReport)>>>;

/// What an interactive transaction reports.
#[derive(Debug)]
pub(super) enum InteractiveReport {
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
    let rounds: Vec<Vec<ClassedKey>> = match plan.together {
        true => vec![plan.reads.clone()],
        false => plan.reads.iter().map(|key| vec![*key]).collect(),
    };
    for keys in rounds {
        report(InteractiveReport::Reads(keys.clone()));
        let result = read_round(&transaction, &keyspaces, &keys).await;
        let is_over = result.is_err();
        report(InteractiveReport::HasRead(keys, result));
        if is_over {
            return report(InteractiveReport::Ends);
        }
        handle.sleep(Duration::from_micros(plan.random.below(REST_US))).await;
    }
    report(InteractiveReport::Commits(plan.writes.clone()));
    let result = write_and_commit(transaction, &keyspaces, &mut plan).await;
    report(InteractiveReport::Committed(plan.writes, result));
    report(InteractiveReport::Ends);
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
                if filler > 0 && plan.random.chance(1, STAGED_OF) {
                    transaction.stage(insert).await?;
                } else {
                    transaction.write(insert)?;
                }
            }
            other => unreachable!("interactive transactions append and replace, not {other:?}"),
        }
    }
    transaction.commit().await.map(|committed| committed.version())
}

/// The procedure of an interactive transaction.
pub(super) fn interactive(
    handle: ClusterHandle,
    (reads, together, writes): (Vec<ClassedKey>, bool, Vec<TransactionStep>),
    random: Random,
    report: impl Fn(InteractiveReport) + Send + 'static,
) -> impl Future<Output = ()> + Send + 'static {
    run_interactive(handle, InteractivePlan { reads, together, writes, random }, report)
}
