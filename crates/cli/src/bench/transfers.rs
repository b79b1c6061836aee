//! `zerohop bench txn`: transfers between two records, each a transaction, and a check that the sum
//! of all records is unchanged.
//!
//! One thread drives all clients. The kinds compare blind transactions with those that read first,
//! and even access with contention on a few records.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use tokio::task::JoinSet;
use xxhash_rust::xxh3::xxh3_64_with_seed;
use zerohop_client::{Client, Error, Keyspace, Record, Transaction};
use zerohop_system::clock::{HybridClock, Stopwatch};
use zerohop_wire::plurals::counted;

use super::histogram::Histogram;
use super::limits::{ACCOUNTS_MAX, CLIENTS_MAX, TRANSFERS_MAX};
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::runtime::StopSignals;
use crate::common::target::ClusterTarget;
use crate::output;

/// Accounts that are opened, summed or closed in one transaction.
const BATCH_SIZE: u64 = 1000;

#[derive(Args, Debug)]
pub(crate) struct TxnBenchArguments {
    /// Number of clients. Each has its own connection to each instance, and one transaction in flight.
    #[arg(long, value_name = "COUNT", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=CLIENTS_MAX))]
    clients: u32,
    /// Number of transactions of each kind, by all clients together.
    #[arg(long, value_name = "COUNT", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=TRANSFERS_MAX))]
    ops: u64,
    /// Number of records.
    #[arg(long, value_name = "COUNT", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(2..=ACCOUNTS_MAX))]
    accounts: u64,
    /// Skew of the record choice in the contended kinds: the exponent of the Zipf distribution.
    #[arg(long, value_name = "EXPONENT", default_value_t = 0.99)]
    zipf: f64,
    /// The keyspace.
    #[arg(short, long, value_name = "NAME", default_value = "default")]
    pub(super) keyspace: String,
    #[command(flatten)]
    target: ClusterTarget,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct TransferReport {
    /// Whether all sums were correct.
    ok: bool,
    clients: u32,
    accounts: u64,
    zipf: f64,
    keyspace: String,
    durability: String,
    kinds: Vec<TransferKind>,
}

/// One kind of transaction; latencies in microseconds, from the first attempt to the commit.
#[derive(Debug, Serialize)]
struct TransferKind {
    kind: &'static str,
    transactions: u64,
    /// Attempts that were aborted because of a conflict.
    conflicts: u64,
    seconds: f64,
    per_second: f64,
    p50_us: f64,
    p99_us: f64,
    max_us: f64,
}

/// State shared by all clients of a run.
struct TransferRun {
    tag: String,
    seed: u64,
    accounts: u64,
    /// Cumulative distribution of the access to accounts; empty: all are accessed equally.
    demand: Vec<f64>,
    reads: bool,
    next: AtomicU64,
    ops: u64,
    attempts: AtomicU64,
    interrupted: Arc<AtomicBool>,
}

pub(super) async fn run(arguments: TxnBenchArguments) -> Result<CommandEnding, CommandError> {
    let TxnBenchArguments { clients, accounts, zipf, .. } = arguments;
    if !(0.0..=10.0).contains(&zipf) {
        return Err(CommandError::Usage("--zipf is a number from 0 (all alike) to 10".to_owned()));
    }
    let mut connected = Vec::new();
    for _ in 0..clients {
        let client = arguments.target.connect().await?;
        let keyspace = client.keyspace(&arguments.keyspace).await?;
        connected.push((client, keyspace));
    }
    let seed = HybridClock::default().tick().0 ^ (u64::from(std::process::id()) << 40);
    let tag = format!("bench-txn-{seed:016x}-");
    let (client, keyspace) = connected[0].clone();
    let mut report = TransferReport {
        ok: true,
        clients,
        accounts,
        zipf,
        keyspace: arguments.keyspace.clone(),
        durability: keyspace.config().durability.to_string(),
        kinds: Vec::new(),
    };
    let interrupted = Arc::new(AtomicBool::new(false));
    let waiting = Arc::clone(&interrupted);
    let mut signals = StopSignals::new()?;
    let signal = tokio::spawn(async move {
        signals.received().await;
        waiting.store(true, Ordering::Relaxed);
    });
    let played = run_transfers(&arguments, (&tag, seed), &connected, (&mut report, &interrupted)).await;
    // Runs after success and failure alike. No transaction is in flight by now that could create a
    // record again.
    for number in 0..accounts.div_ceil(BATCH_SIZE) {
        let removed =
            each(&client, &keyspace, &tag, (number, accounts), |tx, keyspace, key| tx.remove(keyspace, key));
        removed.await?;
    }
    signal.abort();
    played?;
    if interrupted.load(Ordering::Relaxed) {
        return Ok(CommandEnding::Interrupted);
    }
    match arguments.json {
        true => output::json(&report)?,
        false => output::result(&report.to_string())?,
    }
    Ok(if report.ok { CommandEnding::Done } else { CommandEnding::No })
}

/// Opens the accounts and measures all kinds, until an interruption.
async fn run_transfers(
    arguments: &TxnBenchArguments,
    (tag, seed): (&str, u64),
    connected: &[(Client, Keyspace)],
    (report, interrupted): (&mut TransferReport, &Arc<AtomicBool>),
) -> Result<(), CommandError> {
    let TxnBenchArguments { ops, accounts, zipf, .. } = *arguments;
    let Some((client, keyspace)) = connected.first() else { return Err(CommandError::Unexpected) };
    for number in 0..accounts.div_ceil(BATCH_SIZE) {
        if interrupted.load(Ordering::Relaxed) {
            return Ok(());
        }
        each(client, keyspace, tag, (number, accounts), |tx, keyspace, key| tx.insert(keyspace, key, "0"))
            .await?;
    }
    let uneven = demand(accounts, zipf);
    for (kind, reads, demand) in [
        ("blind", false, Vec::new()),
        ("read first", true, Vec::new()),
        ("blind, zipf", false, uneven.clone()),
        ("read first, zipf", true, uneven),
    ] {
        let run = TransferRun {
            tag: tag.to_owned(),
            seed: seed ^ report.kinds.len() as u64,
            accounts,
            demand,
            reads,
            next: AtomicU64::new(0),
            ops,
            attempts: AtomicU64::new(0),
            interrupted: Arc::clone(interrupted),
        };
        report.kinds.push(measure(kind, run, connected).await?);
        if interrupted.load(Ordering::Relaxed) {
            return Ok(());
        }
        report.ok &= sum(client, keyspace, tag, accounts).await? == 0;
    }
    Ok(())
}

/// Applies the same operation to all accounts of one group.
async fn each(
    client: &Client,
    keyspace: &Keyspace,
    tag: &str,
    (group, accounts): (u64, u64),
    one: impl Fn(&Transaction, &Keyspace, &str) -> Result<(), Error>,
) -> Result<(), Error> {
    let tx = client.begin();
    for number in group * BATCH_SIZE..accounts.min((group + 1) * BATCH_SIZE) {
        one(&tx, keyspace, &format!("{tag}{number}"))?;
    }
    tx.commit().await.map(drop)
}

async fn sum(client: &Client, keyspace: &Keyspace, tag: &str, accounts: u64) -> Result<i64, CommandError> {
    let mut sum = 0;
    for group in 0..accounts.div_ceil(BATCH_SIZE) {
        let numbers = group * BATCH_SIZE..accounts.min((group + 1) * BATCH_SIZE);
        let keys: Vec<(&Keyspace, String)> =
            numbers.map(|number| (keyspace, format!("{tag}{number}"))).collect();
        for record in client.read_many(&keys).await? {
            match record {
                Some(Record::Bytes { bytes, .. }) => sum += amount(&bytes)?,
                _ => return Err(CommandError::Refused("an account of the benchmark is gone".to_owned())),
            }
        }
    }
    Ok(sum)
}

fn amount(bytes: &[u8]) -> Result<i64, CommandError> {
    let number = std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| CommandError::Refused("a record of the benchmark is not a number".to_owned()))
}

async fn measure(
    kind: &'static str,
    run: TransferRun,
    clients: &[(Client, Keyspace)],
) -> Result<TransferKind, CommandError> {
    let run = Arc::new(run);
    let stopwatch = Stopwatch::start();
    let mut tasks = JoinSet::new();
    for (client, keyspace) in clients {
        tasks.spawn(run_client(Arc::clone(&run), client.clone(), keyspace.clone()));
    }
    let (mut latencies, mut failed) = (Histogram::new(), None);
    // All tasks end before the records are removed, even if one of them has failed.
    while let Some(ended) = tasks.join_next().await {
        match ended {
            Ok(Ok(one)) => latencies.add(&one),
            Ok(Err(error)) => {
                run.next.store(run.ops, Ordering::Relaxed);
                failed.get_or_insert(error);
            }
            Err(fault) => std::panic::resume_unwind(fault.into_panic()),
        }
    }
    if let Some(error) = failed {
        return Err(error);
    }
    let seconds = stopwatch.elapsed().max(Duration::from_nanos(1)).as_secs_f64();
    Ok(TransferKind {
        kind,
        transactions: latencies.count(),
        conflicts: run.attempts.load(Ordering::Relaxed).saturating_sub(latencies.count()),
        seconds,
        per_second: latencies.count() as f64 / seconds,
        p50_us: latencies.percentile_us(0.5),
        p99_us: latencies.percentile_us(0.99),
        max_us: latencies.max_us(),
    })
}

async fn run_client(
    run: Arc<TransferRun>,
    client: Client,
    keyspace: Keyspace,
) -> Result<Histogram, CommandError> {
    let mut latencies = Histogram::new();
    loop {
        let number = run.next.fetch_add(1, Ordering::Relaxed);
        if number >= run.ops || run.interrupted.load(Ordering::Relaxed) {
            return Ok(latencies);
        }
        let [from, to] = run.two(number).map(|account| format!("{}{account}", run.tag));
        let (run, keyspace, from, to) = (&*run, &keyspace, &*from, &*to);
        let stopwatch = Stopwatch::start();
        let work = |tx: Transaction| async move {
            run.attempts.fetch_add(1, Ordering::Relaxed);
            for (account, amount) in [(from, -1), (to, 1)] {
                if run.reads {
                    let balance = tx.get(keyspace, account).await?.unwrap_or_default();
                    let balance: i64 =
                        std::str::from_utf8(&balance).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
                    tx.insert(keyspace, account, &(balance + amount).to_string())?;
                } else {
                    tx.write(keyspace.increment(account, amount))?;
                }
            }
            Ok(())
        };
        client.transaction(work).await?;
        latencies.record(stopwatch.elapsed());
    }
}

impl TransferRun {
    /// Two different accounts.
    fn two(&self, number: u64) -> [u64; 2] {
        let from = self.draw(2 * number);
        let to = self.draw(2 * number + 1);
        [from, if to == from { (to + 1) % self.accounts } else { to }]
    }

    fn draw(&self, number: u64) -> u64 {
        let drawn = xxh3_64_with_seed(&number.to_le_bytes(), self.seed);
        match self.demand.last() {
            None => drawn % self.accounts,
            Some(all) => {
                let at = drawn as f64 / u64::MAX as f64 * all;
                (self.demand.partition_point(|upto| *upto < at) as u64).min(self.accounts - 1)
            }
        }
    }
}

/// The cumulative weights of the accounts; account n has the weight 1 / n^exponent.
fn demand(accounts: u64, exponent: f64) -> Vec<f64> {
    let mut sum = 0.0;
    let one = |number: u64| {
        sum += (number as f64).powf(-exponent);
        sum
    };
    (1..=accounts).map(one).collect()
}

impl fmt::Display for TransferReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TransferReport { clients, accounts, zipf, keyspace, durability, .. } = self;
        writeln!(
            f,
            "{}, one thread; transfers between two of {accounts} records, contended ones by Zipf's law with exponent {zipf}; keyspace \
             {keyspace} ({durability})\n",
            counted(*clients, "client")
        )?;
        writeln!(
            f,
            "{:<18} {:>12} {:>10} {:>8} {:>10} {:>10} {:>10} {:>10}",
            "", "transactions", "conflicts", "seconds", "per second", "p50 us", "p99 us", "max us"
        )?;
        for kind in &self.kinds {
            writeln!(
                f,
                "{:<18} {:>12} {:>10} {:>8.2} {:>10.0} {:>10.1} {:>10.1} {:>10.1}",
                kind.kind,
                kind.transactions,
                kind.conflicts,
                kind.seconds,
                kind.per_second,
                kind.p50_us,
                kind.p99_us,
                kind.max_us
            )?;
        }
        match self.ok {
            true => write!(f, "\nNothing was lost, and no key is left behind."),
            false => write!(
                f,
                "\nWRONG: the sum of all records has changed. Please report this with the lines above."
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uneven_demand_prefers_first_accounts_and_draws_two_different() {
        let run = TransferRun {
            tag: String::new(),
            seed: 7,
            accounts: 100,
            demand: demand(100, 0.99),
            reads: false,
            next: AtomicU64::new(0),
            ops: 0,
            attempts: AtomicU64::new(0),
            interrupted: Arc::default(),
        };
        let mut drawn = [0; 100];
        for number in 0..10_000 {
            let two = run.two(number);
            assert_ne!(two[0], two[1]);
            two.iter().for_each(|account| drawn[*account as usize] += 1);
        }
        assert!(drawn[0] > 2 * drawn[2] && drawn[2] > 5 * drawn[90], "{drawn:?}");
    }
}
