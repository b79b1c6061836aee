//! Zerohop's engine compared with the libraries that it must beat: `cargo xtask bench engine`.
//!
//! ```text
//!   main ── rounds ── child ──▶ bench-engine --run-one NAME   subjects/*.rs, measure.rs    (Rust)
//!     │        │         └────▶ target/bench-peers/NAME       peers/*.cc, peers/common.h   (C++)
//!     │        └ reading ◀──── one line of JSON each
//!     ├ summary ── table
//!     └ scenarios                       targets for zerohop alone: --scenario
//! ```
//!
//! Every run is its own process, pinned to one core, with its own folder. The Rust and the C++ side
//! use the same records and time the same steps. `bench/engine/install` installs the libraries;
//! missing ones are listed.

mod child;
mod crash_safety;
mod failure;
mod limits;
mod measure;
mod outcome;
mod peers;
mod reading;
mod registry;
mod rounds;
mod scenarios;
mod subjects;
mod summary;
mod table;
mod workload;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bench_common::Machine;
use clap::{Parser, ValueEnum};
use serde::Serialize;

use failure::Failure;
use outcome::Outcome;
use peers::{PEERS, PeerBuild};
use registry::REGISTRY;
use rounds::{Contender, Plan};
use scenarios::{Case, Scenario, ScenarioReading, ScenarioSummary};
use subjects::Setup;
use summary::Summary;

/// Measures zerohop's engine beside KyotoCabinet, LMDB, RocksDB, BerkeleyDB and a plain hash map.
#[derive(Parser)]
#[command(name = "bench-engine", bin_name = "cargo xtask bench engine", version)]
struct Arguments {
    /// Records to insert, look up, overwrite and remove; several numbers give several tables [default: 1000000 and
    /// 10000000; a scenario has its own].
    #[arg(long, value_delimiter = ',')]
    records: Vec<u64>,
    /// Partitions over which zerohop spreads the records. Peers are always one database.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 256])]
    partitions: Vec<usize>,
    /// Interleaved rounds [default: 7, and 3 from five million records on; a scenario has its own]
    #[arg(long)]
    rounds: Option<usize>,
    /// Only these subjects. (Only so: lmdb-nometasync, which flushes the disk at every put.)
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Also run a mixed load, half lookups and half overwrites, before the removal.
    #[arg(long)]
    mixed: bool,
    /// Instead of the tables beside the libraries: what only zerohop is held to.
    #[arg(long, value_delimiter = ',', conflicts_with_all = ["only", "mixed"])]
    scenario: Vec<Choice>,
    /// Cores that a subject, with all its threads, may use.
    #[arg(long, value_delimiter = ',', default_values_t = [0])]
    cores: Vec<usize>,
    /// Also write everything measured to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Run one subject in this process and print its line of JSON: what the driver starts.
    #[arg(long, hide = true, value_name = "SUBJECT", requires = "dir")]
    run_one: Option<String>,
    /// Measure one case of a scenario in this process: what the driver starts.
    #[arg(long, hide = true, value_name = "SCENARIO", requires = "dir")]
    run_scenario: Option<String>,
    #[arg(long, hide = true, default_value = "")]
    variant: String,
    #[arg(long, hide = true)]
    dir: Option<PathBuf>,
    #[arg(long, hide = true, default_value_t = 0)]
    seed: u64,
}

/// What `--scenario` takes.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Choice {
    /// Writers on sync partitions: one partition against many.
    Sync,
    /// From files to the first answer.
    Recovery,
    /// A mixed load with compaction and without.
    Compaction,
    /// Appends to the log of an instance: one partition against many.
    Log,
    /// All of them.
    All,
}

impl Choice {
    fn takes(self, scenario: &Scenario) -> bool {
        self == Choice::All || self.to_possible_value().is_some_and(|own| own.get_name() == scenario.name)
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = match (&arguments.run_one, &arguments.run_scenario, &arguments.dir) {
        (Some(subject), _, Some(dir)) => run_one(&arguments, subject, dir),
        (_, Some(scenario), Some(dir)) => run_scenario(&arguments, scenario, dir),
        _ => bench(&arguments),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            print_error(&format!("bench-engine: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn run_one(arguments: &Arguments, subject: &str, dir: &Path) -> Result<ExitCode, Failure> {
    child::die_with_parent()?;
    let run = (registry::find(subject)?.run)(&Setup {
        dir: dir.into(),
        records: first(&arguments.records, "--records")?,
        partitions: first(&arguments.partitions, "--partitions")?,
        seed: arguments.seed,
        mixed: arguments.mixed,
    })?;
    print(&json(&run)?)?;
    Ok(ExitCode::SUCCESS)
}

fn run_scenario(arguments: &Arguments, scenario: &str, dir: &Path) -> Result<ExitCode, Failure> {
    child::die_with_parent()?;
    let reading = (scenarios::find(scenario)?.run)(&Case {
        dir: dir.into(),
        records: first(&arguments.records, "--records")?,
        partitions: first(&arguments.partitions, "--partitions")?,
        variant: arguments.variant.clone(),
        seed: arguments.seed,
    })?;
    print(&json(&reading)?)?;
    Ok(ExitCode::SUCCESS)
}

/// The output of `--json`.
#[derive(Serialize)]
struct Report {
    machine: Machine,
    cores: Vec<usize>,
    missing: Vec<String>,
    tables: Vec<Summary>,
    scenarios: Vec<ScenarioSummary>,
}

fn bench(arguments: &Arguments) -> Result<ExitCode, Failure> {
    check(arguments)?;
    if cfg!(debug_assertions) {
        print_error(
            "bench-engine: a debug build: the figures of subjects in Rust say nothing; use cargo run --release",
        );
    }
    let machine = Machine::look().map_err(Failure::io("looking at", Path::new("/proc")))?;
    let program = std::env::current_exe()
        .map_err(|source| Failure::Io { doing: "finding this program".into(), source })?;
    // The program is target/release/bench-engine.
    let target = program
        .ancestors()
        .nth(2)
        .ok_or_else(|| Failure::Usage(format!("{} is in no target folder", program.display())))?;

    let mut report = Report {
        machine,
        cores: arguments.cores.clone(),
        missing: Vec::new(),
        tables: Vec::new(),
        scenarios: Vec::new(),
    };
    if arguments.scenario.is_empty() {
        beside_libraries(arguments, &program, target, &mut report)?;
    } else {
        run_scenarios(arguments, &program, target, &mut report)?;
    }
    print(&format!("{}, subjects on cores {:?}", report.machine, report.cores))?;
    if let Some(path) = &arguments.json {
        write_file(path, &json(&report)?)?;
    }
    let failed = report.tables.iter().any(|summary| !summary.failures.is_empty())
        || report.scenarios.iter().any(|summary| !summary.failures.is_empty());
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The tables: zerohop and the others, operation by operation.
fn beside_libraries(
    arguments: &Arguments,
    program: &Path,
    target: &Path,
    report: &mut Report,
) -> Result<(), Failure> {
    let (contenders, missing) = contenders(arguments, program, &target.join("bench-peers"))?;
    let records = if arguments.records.is_empty() { &limits::RECORDS[..] } else { &arguments.records };
    for &records in records {
        let usual = if records < limits::RECORDS_LARGE { limits::ROUNDS_SMALL } else { limits::ROUNDS_LARGE };
        let plan = plan(arguments, records, usual, target);
        let outcomes = plan.run(&contenders, |outcome: &Outcome| {
            print_error(&progress(&plan, outcome, |run| {
                let rate = |phase: &reading::Phase| format!("{} {:.0} K/s", phase.name, phase.rate() / 1e3);
                run.phases.iter().map(rate).collect()
            }))
        })?;
        let summary = Summary::of(records, plan.rounds, outcomes);
        let mut text = String::new();
        // Writing into a string does not fail.
        let _ = table::write(&mut text, &summary);
        print(&text)?;
        report.tables.push(summary);
    }
    report.missing = missing;
    for missing in &report.missing {
        print(&format!("missing: {missing}"))?;
    }
    print(table::NOTES)
}

/// The scenarios, one after the other.
fn run_scenarios(
    arguments: &Arguments,
    program: &Path,
    target: &Path,
    report: &mut Report,
) -> Result<(), Failure> {
    for scenario in scenarios::REGISTRY {
        if !arguments.scenario.iter().any(|choice| choice.takes(scenario)) {
            continue;
        }
        let records = arguments.records.first().copied().unwrap_or(scenario.records);
        let plan = plan(arguments, records, scenario.rounds, target);
        let contenders: Vec<Contender> = arguments
            .partitions
            .iter()
            .flat_map(|&count| scenario.variants.iter().map(move |variant| (count, variant)))
            .map(|(count, variant)| Contender::scenario(scenario, count, variant, program))
            .collect();
        let outcomes = plan.run(&contenders, |outcome: &Outcome<ScenarioReading>| {
            print_error(&progress(&plan, outcome, |reading| {
                let figures = reading.figures.iter();
                figures.map(|figure| format!("{} {:.2}", figure.name, figure.value)).collect()
            }))
        })?;
        let summary = ScenarioSummary::of(scenario, records, plan.rounds, &arguments.partitions, outcomes);
        let mut text = String::new();
        // Writing into a string does not fail.
        let _ = scenarios::write(&mut text, &summary);
        print(&text)?;
        report.scenarios.push(summary);
    }
    Ok(())
}

fn plan(arguments: &Arguments, records: u64, rounds: usize, target: &Path) -> Plan {
    Plan {
        records,
        rounds: arguments.rounds.unwrap_or(rounds),
        cores: arguments.cores.clone(),
        mixed: arguments.mixed,
        data: target.join("bench-data"),
    }
}

fn check(arguments: &Arguments) -> Result<(), Failure> {
    let usage = |what: String| Err(Failure::Usage(what));
    if let Some(records) =
        arguments.records.iter().find(|records| !(1..limits::RECORDS_MAX).contains(records))
    {
        return usage(format!("--records {records}: from 1 to {}", limits::RECORDS_MAX - 1));
    }
    if let Some(rounds) = arguments.rounds.filter(|rounds| !(1..=limits::ROUNDS_MAX).contains(rounds)) {
        return usage(format!("--rounds {rounds}: from 1 to {}", limits::ROUNDS_MAX));
    }
    let allowed = child::allowed_cores()?;
    if let Some(core) = arguments.cores.iter().find(|core| !allowed.contains(core)) {
        return usage(format!("--cores {core}: this process may use {allowed:?}"));
    }
    let known = |name: &str| {
        REGISTRY.iter().any(|entry| entry.name == name) || PEERS.iter().any(|peer| peer.name == name)
    };
    if let Some(name) = arguments.only.iter().find(|name| !known(name)) {
        let names: Vec<&str> =
            REGISTRY.iter().map(|entry| entry.name).chain(PEERS.iter().map(|peer| peer.name)).collect();
        return usage(format!("--only {name}: there are {}", names.join(", ")));
    }
    Ok(())
}

/// The contenders in the order of the table, and the missing libraries.
fn contenders(
    arguments: &Arguments,
    program: &Path,
    peer_programs: &Path,
) -> Result<(Vec<Contender>, Vec<String>), Failure> {
    let requested = |name: &str, by_default: bool| {
        if arguments.only.is_empty() { by_default } else { arguments.only.iter().any(|only| only == name) }
    };
    let (mut contenders, mut missing) = (Vec::new(), Vec::new());
    for entry in REGISTRY.iter().filter(|entry| requested(entry.name, true)) {
        if entry.partitioned {
            let each = arguments.partitions.iter();
            contenders.extend(each.map(|&count| Contender::subject(entry.name, Some(count), program)));
        } else {
            contenders.push(Contender::subject(entry.name, None, program));
        }
    }
    for peer in PEERS.iter().filter(|peer| requested(peer.name, !peer.flushes)) {
        match peer.build(peer_programs)? {
            PeerBuild::Program(built) => contenders.push(Contender::peer(peer, built)),
            PeerBuild::Missing(why) => missing.push(format!("{}: {why}", peer.name)),
        }
    }
    Ok((contenders, missing))
}

fn progress<R>(plan: &Plan, outcome: &Outcome<R>, figures: impl Fn(&R) -> Vec<String>) -> String {
    let Outcome { label, round, result, .. } = outcome;
    let what = match result {
        Ok(read) => figures(read).join(", "),
        Err(error) => format!("FAILED: {error}"),
    };
    format!("{} records, round {}/{}: {label}: {what}", plan.records, round + 1, plan.rounds)
}

fn first<T: Copy>(values: &[T], name: &str) -> Result<T, Failure> {
    values.first().copied().ok_or_else(|| Failure::Usage(format!("{name} is empty")))
}

fn json(what: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(what).map_err(|error| Failure::Store(format!("cannot be written as JSON: {error}")))
}

#[expect(clippy::disallowed_methods, reason = "a report for the user, no file of a store")]
fn write_file(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(Failure::io("writing", path))
}

fn print(text: &str) -> Result<(), Failure> {
    writeln!(std::io::stdout().lock(), "{text}")
        .map_err(|source| Failure::Io { doing: "printing".into(), source })
}

/// Prints to standard error; a failure is ignored.
fn print_error(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}
