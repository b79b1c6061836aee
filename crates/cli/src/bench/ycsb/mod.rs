//! `zerohop bench ycsb`: the core workloads of YCSB.
//!
//! ```text
//!   load ── inserts ──> run ── operations of the mix, on records by Zipf's law ──> remove, in every case
//! ```
//!
//! One thread drives all clients. The driver is `zerohop-ycsb`.

mod report;

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tokio::task::JoinSet;
use zerohop_client::{KeyOrder, Keyspace};
use zerohop_system::clock::{HybridClock, Stopwatch};
use zerohop_wire::plurals::counted;
use zerohop_ycsb::{YcsbFailure, YcsbOperation, YcsbPart, YcsbRun, YcsbWorkload, operate_all};

use self::report::YcsbReport;
use super::histogram::Histogram;
use super::limits::{
    CLIENTS_MAX, DEPTH_MAX, OPERATIONS_MAX, PROGRESS_EVERY, YCSB_RECORDS_MAX, YCSB_VALUE_BYTES_MIN,
};
use super::phase::PhaseFailure;
use super::progress_bar;
use super::report::OperationReport;
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::runtime::StopSignals;
use crate::common::target::ClusterTarget;
use crate::output::{self, StatusLine};

#[derive(Args, Debug)]
pub(crate) struct YcsbBenchArguments {
    /// The workload.
    #[arg(value_name = "WORKLOAD", ignore_case = true)]
    workload: YcsbWorkload,
    /// Number of records that are loaded before the run.
    #[arg(long, value_name = "COUNT", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=YCSB_RECORDS_MAX))]
    records: u64,
    /// Number of operations of the run, by all clients together.
    #[arg(long, value_name = "COUNT", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=OPERATIONS_MAX))]
    ops: u64,
    /// Number of clients. Each has its own connection to each instance.
    #[arg(long, value_name = "COUNT", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=CLIENTS_MAX))]
    clients: u32,
    /// Number of operations that each client has in flight.
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=DEPTH_MAX))]
    depth: u32,
    /// Length of the values in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(YCSB_VALUE_BYTES_MIN..=16_777_216))]
    value_bytes: u32,
    /// The keyspace.
    #[arg(short, long, value_name = "NAME", default_value = "default")]
    pub(super) keyspace: String,
    #[command(flatten)]
    target: ClusterTarget,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

/// The latencies by operation, as in [`YcsbOperation::ALL`].
type YcsbLatencies = [Histogram; 5];

/// The clients of a run.
struct YcsbClients {
    keyspaces: Vec<Keyspace>,
    depth: u32,
    run: Arc<YcsbRun>,
    signals: StopSignals,
}

pub(super) async fn run(arguments: YcsbBenchArguments) -> Result<CommandEnding, CommandError> {
    let YcsbBenchArguments { workload, records, ops, clients, depth, value_bytes, .. } = arguments;
    let mut keyspaces = Vec::new();
    for _ in 0..clients {
        let client = arguments.target.connect().await?;
        keyspaces.push(client.keyspace(&arguments.keyspace).await?);
    }
    let Some(config) = keyspaces.first().map(Keyspace::config) else { return Err(CommandError::Unexpected) };
    let name = &arguments.keyspace;
    if workload.scans() && config.order != KeyOrder::Ordered {
        return Err(CommandError::Refused(format!(
            "workload E scans ranges, and the keyspace {name} is hashed: name an ordered one with --keyspace; \
             `zerohop keyspace create ycsb --ordered` creates it"
        )));
    }
    let seed = HybridClock::default().tick().0 ^ (u64::from(std::process::id()) << 40);
    let mut report = YcsbReport {
        ok: false,
        workload,
        clients,
        depth,
        records,
        value_bytes,
        keyspace: name.clone(),
        durability: config.durability.to_string(),
        load: None,
        ops_per_second: 0.0,
        operations: Vec::new(),
        wrong: None,
    };
    let run = Arc::new(YcsbRun::new(records, value_bytes as usize, seed));
    let mut clients = YcsbClients { keyspaces, depth, run, signals: StopSignals::new()? };
    let measured = clients.measure(workload, (records, ops), &mut report).await;
    // Runs after success and failure alike. No operation is in flight by now that could create a record again.
    let begun = clients.run.records().begun();
    let removed = clients.part(YcsbPart::Remove, begun).await;
    let left = clients.run.left();
    let tag = clients.run.records().tag();
    let remains = format!(
        "{} of this run could not be removed: their keys in {name} begin with {tag}",
        if removed.is_ok() { counted(left, "record") } else { "records".to_owned() }
    );
    let removed = match removed {
        Ok(_) if left == 0 => Ok(()),
        // The first error is shown, and this beside it.
        _ if measured.is_err() => {
            output::problem(&format!("zerohop: {remains}"));
            Ok(())
        }
        Ok(_) => Err(PhaseFailure::Failed(CommandError::Partly(remains))),
        Err(PhaseFailure::Failed(error)) => {
            Err(PhaseFailure::Failed(CommandError::Partly(format!("{remains}; {error}"))))
        }
        Err(wrong) => Err(wrong),
    };
    let ending = match measured.and_then(|ending| removed.map(|()| ending)) {
        Ok(CommandEnding::Done) => CommandEnding::Done,
        Ok(other) => return Ok(other),
        Err(PhaseFailure::Failed(error)) => return Err(error),
        Err(PhaseFailure::Wrong(what)) => {
            report.wrong = Some(what);
            CommandEnding::No
        }
    };
    report.ok = ending == CommandEnding::Done;
    match arguments.json {
        true => output::json(&report)?,
        false => output::result(&report.to_string())?,
    }
    Ok(ending)
}

impl YcsbClients {
    /// Loads the records, and does the operations.
    async fn measure(
        &mut self,
        workload: YcsbWorkload,
        (records, ops): (u64, u64),
        report: &mut YcsbReport,
    ) -> Result<CommandEnding, PhaseFailure> {
        let (latencies, took, ending) = self.part(YcsbPart::Load, records).await?;
        let inserts = &latencies[YcsbOperation::Insert as usize];
        report.load = Some(OperationReport::new("load", inserts, took));
        if ending != CommandEnding::Done {
            return Ok(ending);
        }
        let (latencies, took, ending) = self.part(YcsbPart::Run(workload), ops).await?;
        let done: u64 = latencies.iter().map(Histogram::count).sum();
        report.ops_per_second = done as f64 / took.as_secs_f64().max(1e-9);
        for (operation, latencies) in YcsbOperation::ALL.into_iter().zip(&latencies) {
            if latencies.count() > 0 {
                report.operations.push(OperationReport::new(operation.name(), latencies, took));
            }
        }
        Ok(ending)
    }

    /// Does a part of so many operations, with its progress. An interruption ends it early.
    async fn part(
        &mut self,
        part: YcsbPart,
        count: u64,
    ) -> Result<(YcsbLatencies, Duration, CommandEnding), PhaseFailure> {
        self.run.begin();
        let stopwatch = Stopwatch::start();
        let mut tasks = JoinSet::new();
        for keyspace in &self.keyspaces {
            for _ in 0..self.depth {
                tasks.spawn(operate(Arc::clone(&self.run), part, count, keyspace.clone()));
            }
        }
        let line = StatusLine::new();
        let name = match part {
            YcsbPart::Load => "load",
            YcsbPart::Run(_) => "run",
            YcsbPart::Remove => "remove",
        };
        let mut ticks = tokio::time::interval(PROGRESS_EVERY);
        let mut all: YcsbLatencies = std::array::from_fn(|_| Histogram::new());
        let (mut failed, mut ending) = (None, CommandEnding::Done);
        loop {
            tokio::select! {
                ended = tasks.join_next() => match ended {
                    None => break,
                    Some(Ok(Ok(latencies))) => all.iter_mut().zip(&latencies).for_each(|(sum, one)| sum.add(one)),
                    Some(Ok(Err(error))) => _ = failed.get_or_insert(error),
                    Some(Err(fault)) => std::panic::resume_unwind(fault.into_panic()),
                },
                _ = ticks.tick() => line.show(&progress_bar(name, self.run.done(), count.max(1), &stopwatch)),
                // Records are removed in every case.
                () = self.signals.received(), if part != YcsbPart::Remove => {
                    ending = CommandEnding::Interrupted;
                    self.run.stop();
                }
            }
        }
        failed.map_or(Ok((all, stopwatch.elapsed(), ending)), Err)
    }
}

/// One task of a part, with its latencies.
async fn operate(
    run: Arc<YcsbRun>,
    part: YcsbPart,
    count: u64,
    mut keyspace: Keyspace,
) -> Result<YcsbLatencies, PhaseFailure> {
    let mut latencies: YcsbLatencies = std::array::from_fn(|_| Histogram::new());
    let record = |operation: YcsbOperation, took| latencies[operation as usize].record(took);
    match operate_all(&run, part, count, &mut keyspace, record).await {
        Ok(()) => Ok(latencies),
        Err(YcsbFailure::Failed(error)) => Err(error.into()),
        Err(YcsbFailure::Wrong(what)) => Err(PhaseFailure::Wrong(what)),
    }
}
