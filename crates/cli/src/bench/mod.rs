//! `zerohop bench`: how fast a cluster is, from here.
//!
//! ```text
//!   main ──phase──> worker threads, each with its share of clients ──tasks──> one operation at a time each
//!     │                                                                          │
//!     └── progress, report <── latencies of a phase, or the first thing that went wrong
//! ```

mod blobs;
mod histogram;
mod kv_phase;
mod limits;
mod phase;
mod report;
mod shared;
mod transfers;
mod worker;
mod workload;
mod ycsb;

use std::pin::pin;
use std::sync::Arc;

use clap::{Args, Subcommand};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use zerohop_client::{Coalescing, Collect};
use zerohop_system::clock::{HybridClock, Stopwatch};
use zerohop_wire::ids::KeyspaceId;

use self::kv_phase::KvPhase;
use self::limits::{
    CLIENTS_MAX, COLLECT_BYTES, DEPTH_MAX, KEY_BYTES_MIN, OPERATIONS_MAX, PROGRESS_EVERY, THREADS_MAX,
};
use self::phase::PhaseFailure;
use self::report::{KvBenchReport, OperationReport};
use self::shared::BenchShared;
use self::worker::{WorkerPlan, WorkerThreads};
use self::workload::Workload;
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::quantity;
use crate::common::runtime::{StopSignals, runtime};
use crate::common::target::ClusterTarget;
use crate::output::{self, StatusLine};

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Inserts, looks up and removes records, and checks every answer.
    ///
    /// The keys belong to this run alone. The command removes them at the end, also after Ctrl-C.
    Kv(KvBenchArguments),
    /// Transfers amounts between two records in transactions.
    ///
    /// The kinds of transactions are: without reads and with reads, with uniformly chosen records and with a few contended
    /// records. The sum of all records must not change. The keys belong to this run alone. The command removes them at
    /// the end, also after Ctrl-C.
    Txn(transfers::TxnBenchArguments),
    /// Runs a core workload of YCSB, A to F, and checks every answer.
    ///
    /// The command loads records, does the operations of the workload, and removes the records at the end, also after Ctrl-C. The
    /// keys belong to this run alone. An update writes the complete value.
    Ycsb(ycsb::YcsbBenchArguments),
    /// Writes blobs, overwrites and reads parts of them, reads complete blobs, and checks every byte.
    ///
    /// The blobs belong to this run alone. The command removes them at the end, also after Ctrl-C.
    Blob(blobs::BlobBenchArguments),
}

#[derive(Args, Debug)]
pub(crate) struct KvBenchArguments {
    /// Number of clients. Each has its own connection to each instance.
    #[arg(long, value_name = "COUNT", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=CLIENTS_MAX))]
    clients: u32,
    /// Number of operations that each client has in flight.
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=DEPTH_MAX))]
    depth: u32,
    /// Number of inserts by all clients together, and number of lookups and of removes.
    #[arg(long, value_name = "COUNT", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=OPERATIONS_MAX))]
    ops: u64,
    /// Length of the keys in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 15, value_parser = clap::value_parser!(u32).range(KEY_BYTES_MIN..=65_536))]
    key_bytes: u32,
    /// Length of the values in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 132, value_parser = clap::value_parser!(u32).range(0..=16_777_216))]
    value_bytes: u32,
    /// The keyspace.
    #[arg(short, long, value_name = "NAME", default_value = "default")]
    keyspace: String,
    /// Maximum time that an operation waits for others to share a frame; 0s sends at once [default: the setting of the
    /// keyspace].
    #[arg(long, value_name = "TIME", value_parser = quantity::duration)]
    max_delay: Option<std::time::Duration>,
    /// Number of threads that run the clients [default: half of the cores].
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=i64::from(THREADS_MAX)))]
    threads: Option<u32>,
    #[command(flatten)]
    target: ClusterTarget,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(command: BenchCommand) -> Result<CommandEnding, CommandError> {
    allow_many_connections();
    let keyspace = match &command {
        BenchCommand::Kv(arguments) => arguments.keyspace.clone(),
        BenchCommand::Txn(arguments) => arguments.keyspace.clone(),
        BenchCommand::Blob(arguments) => arguments.keyspace.clone(),
        BenchCommand::Ycsb(arguments) => arguments.keyspace.clone(),
    };
    let name = |id| (id != KeyspaceId::NONE).then_some(&*keyspace);
    done(command).map_err(|error| error.naming(name))
}

fn done(command: BenchCommand) -> Result<CommandEnding, CommandError> {
    let arguments = match command {
        BenchCommand::Kv(arguments) => arguments,
        BenchCommand::Txn(arguments) => return runtime()?.block_on(transfers::run(arguments)),
        BenchCommand::Blob(arguments) => return runtime()?.block_on(blobs::run(arguments)),
        BenchCommand::Ycsb(arguments) => return runtime()?.block_on(ycsb::run(arguments)),
    };
    let runtime = runtime()?;
    let keyspace = runtime.block_on(arguments.target.keyspace(&arguments.keyspace))?;
    let threads = arguments.threads.unwrap_or_else(half_of_the_cores).min(arguments.clients);
    let KvBenchArguments { clients, depth, ops, key_bytes, value_bytes, .. } = arguments;
    let seed = HybridClock::default().tick().0 ^ (u64::from(std::process::id()) << 40);
    let shared =
        Arc::new(BenchShared::new(Workload::new(ops, key_bytes as usize, value_bytes as usize, seed)));
    let plan = WorkerPlan {
        clients,
        depth,
        keyspace: arguments.keyspace.clone(),
        target: arguments.target.clone(),
        collecting: arguments.max_delay.map_or(Coalescing::AsKeyspace, collecting),
    };
    let mut report = KvBenchReport {
        ok: false,
        clients,
        depth,
        threads,
        ops,
        key_bytes,
        value_bytes,
        keyspace: arguments.keyspace,
        durability: keyspace.config().durability.to_string(),
        phases: Vec::new(),
        wrong: None,
    };
    let outcome = std::thread::scope(|scope| {
        // A worker ends when its channel of orders closes: the crew, which this closure drops, owns
        // it.
        let mut crew = WorkerThreads::start(scope, &plan, threads, &shared);
        runtime.block_on(conduct(&mut crew, &shared, &mut report.phases))
    });
    let ending = match outcome {
        Ok(CommandEnding::Done) => CommandEnding::Done,
        Ok(other) => return Ok(other),
        Err(PhaseFailure::Failed(error)) => return Err(error),
        Err(PhaseFailure::Wrong(what)) => {
            report.wrong = Some(what);
            CommandEnding::No
        }
    };
    report.ok = ending == CommandEnding::Done;
    if arguments.json {
        output::json(&report)?
    } else {
        output::result(&report.to_string())?
    }
    Ok(ending)
}

/// Orders the phases one after another. In every case the last phase removes what the first has
/// written.
async fn conduct(
    crew: &mut WorkerThreads,
    shared: &BenchShared,
    reports: &mut Vec<OperationReport>,
) -> Result<CommandEnding, PhaseFailure> {
    let mut signals = StopSignals::new().map_err(PhaseFailure::Failed)?;
    crew.connected().await?;
    let mut ending = Ok(CommandEnding::Done);
    for phase in [KvPhase::Insert, KvPhase::Lookup] {
        ending = run_phase(crew, shared, phase, reports, &mut signals).await;
        if !matches!(ending, Ok(CommandEnding::Done)) {
            break;
        }
    }
    let last = if matches!(ending, Ok(CommandEnding::Done)) { KvPhase::Remove } else { KvPhase::CleanUp };
    let removed = run_phase(crew, shared, last, reports, &mut signals).await;
    if matches!(ending, Ok(CommandEnding::Done)) { removed } else { ending }
}

async fn run_phase(
    crew: &mut WorkerThreads,
    shared: &BenchShared,
    phase: KvPhase,
    reports: &mut Vec<OperationReport>,
    signals: &mut StopSignals,
) -> Result<CommandEnding, PhaseFailure> {
    let line = StatusLine::new();
    let mut ending = CommandEnding::Done;
    shared.begin(phase);
    let stopwatch = Stopwatch::start();
    crew.order(phase).await;
    let mut ticks = tokio::time::interval(PROGRESS_EVERY);
    let mut results = pin!(crew.results());
    let latencies = loop {
        tokio::select! {
            result = &mut results => break result?,
            _ = ticks.tick() => line.show(&progress(phase, shared, &stopwatch)),
            () = signals.received() => {
                ending = CommandEnding::Interrupted;
                shared.stop();
            }
        }
    };
    reports.push(OperationReport::new(phase.name(), &latencies, stopwatch.elapsed()));
    Ok(ending)
}

/// Characters of the progress bar.
const BAR: u64 = 30;

fn progress(phase: KvPhase, shared: &BenchShared, stopwatch: &Stopwatch) -> String {
    progress_bar(phase.name(), shared.done(), shared.workload.ops(), stopwatch)
}

/// `total` is not 0.
fn progress_bar(name: &str, done: u64, total: u64, stopwatch: &Stopwatch) -> String {
    let filled = (BAR * done / total).min(BAR) as usize;
    let rate = done as f64 / stopwatch.elapsed().as_secs_f64().max(1e-3);
    format!("{name:<8} [{:<30}] {done} of {total}, {rate:.0}/s", "=".repeat(filled))
}

fn collecting(delay: std::time::Duration) -> Coalescing {
    let delay_us = u32::try_from(delay.as_micros()).unwrap_or(u32::MAX);
    Coalescing::Within(Collect { delay_us, bytes: COLLECT_BYTES })
}

/// Raises the limit of open files to the highest that this user may have. If that fails, the error
/// of a connection says so.
fn allow_many_connections() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// The other half of the cores is for the cluster if it runs on the same machine.
fn half_of_the_cores() -> u32 {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    u32::try_from(cores / 2).unwrap_or(THREADS_MAX).clamp(1, THREADS_MAX)
}
