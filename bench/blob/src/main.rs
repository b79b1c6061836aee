//! Blobs of a zerohop node, compared with the machine itself and with Ceph RADOS: `cargo xtask
//! bench blob`.
//!
//! ```text
//!   main ── rounds ── process ──▶ bench-blob --run SCENARIO --contender LABEL
//!     │                             ├ servers, ceph, peers ──▶ bench-blob --launch ──▶ server
//!     │                             │        (zerohop node; ceph-osd; iperf3)
//!     │                             └ load: Rust clients of one thread; or rados bench, iperf3, fio
//!     └ report ◀──── one line of JSON each: figures by name
//! ```
//!
//! Servers and load share the cores of `--cores`, by default two. `bench/blob/install` installs the
//! peers; a missing one is listed.

mod ceph;
mod limits;
mod load;
mod peers;
mod scenarios;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use bench_common::Machine;
use bench_common::driver::{self, is_selected, json, own_program, print, print_error};
use bench_common::failure::Failure;
use bench_common::process;
use bench_common::report::{self, Summary};
use bench_common::rounds::{Outcome, Plan};
use bench_common::servers::{self, Place};
use clap::Parser;
use serde::Serialize;

use scenarios::{REGISTRY, Scenario, Work};

/// Measures blobs of a zerohop node beside iperf3, fio and Ceph RADOS.
#[derive(Parser)]
#[command(name = "bench-blob", bin_name = "cargo xtask bench blob", version)]
struct Arguments {
    /// Only these scenarios: bulk, rados, chunk, chunks.
    #[arg(long, value_delimiter = ',')]
    scenario: Vec<String>,
    /// Only contenders whose names begin with one of these.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Interleaved rounds.
    #[arg(long, default_value_t = limits::ROUNDS)]
    rounds: usize,
    /// Measured time of each operation in each round; the peers take whole seconds.
    #[arg(long, default_value_t = limits::SECONDS)]
    seconds: f64,
    /// The cores that servers and load share [default: the first two].
    #[arg(long, value_delimiter = ',')]
    cores: Vec<usize>,
    /// Give servers and load precedence over what else runs on their cores, down to -20; below 0 only for root.
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    nice: i32,
    /// Also write everything measured to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Become another program on these cores, that ends with its parent: what a run starts.
    #[arg(long, hide = true, requires = "parent")]
    launch: bool,
    #[arg(hide = true, last = true)]
    command: Vec<String>,
    /// Run one contender in this process and print its line of JSON: what the driver starts.
    #[arg(long, hide = true, value_name = "SCENARIO", requires_all = ["contender", "parent", "dir"])]
    run: Option<String>,
    #[arg(long, hide = true)]
    contender: Option<String>,
    #[arg(long, hide = true)]
    parent: Option<u32>,
    #[arg(long, hide = true)]
    dir: Option<PathBuf>,
    #[arg(long, hide = true, default_value_t = 0)]
    seed: u64,
}

/// The options of a run.
struct Orders {
    /// Measured time of each operation.
    seconds: f64,
    /// The round: it draws other offsets in each, the same for all contenders.
    seed: u64,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = match &arguments {
        Arguments { launch: true, parent: Some(parent), cores, command, .. } => {
            process::launch(*parent, cores, command).map(|()| ExitCode::SUCCESS)
        }
        Arguments {
            run: Some(scenario),
            contender: Some(label),
            parent: Some(parent),
            dir: Some(dir),
            ..
        } => run(&arguments, (scenario, label), *parent, dir),
        _ => bench(&arguments),
    };
    result.unwrap_or_else(|error| {
        print_error(&format!("bench-blob: {error}"));
        ExitCode::FAILURE
    })
}

fn run(
    arguments: &Arguments,
    (scenario, label): (&str, &str),
    parent: u32,
    dir: &Path,
) -> Result<ExitCode, Failure> {
    process::die_with(parent)?;
    process::pin(&arguments.cores)?;
    process::take_precedence(arguments.nice)?;
    let place = Place { own_program: own_program()?, cores: arguments.cores.clone(), dir: dir.into() };
    let orders = Orders { seconds: arguments.seconds, seed: arguments.seed };
    let reading = match scenarios::find(scenario, label)? {
        Work::Bulk => load::bulk(&place, &orders),
        Work::Iperf => peers::loopback(&place, &orders),
        Work::Fio => peers::disk(&place, &orders),
        Work::Objects { in_memory } => load::objects(&place, in_memory, &orders),
        Work::Rados { in_memory } => ceph::run(&place, in_memory, &orders),
        Work::OneChunk { nodes } => load::one_chunk(&place, nodes, &orders),
        Work::Key => load::key(&place, &orders),
        Work::ManyChunks => load::many_chunks(&place, &orders),
    }?;
    print(&json(&reading)?)?;
    Ok(ExitCode::SUCCESS)
}

/// The output of `--json`.
#[derive(Serialize)]
struct Report {
    machine: Machine,
    cores: Vec<usize>,
    nice: i32,
    seconds: f64,
    missing: Vec<String>,
    scenarios: Vec<Summary>,
}

fn bench(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let cores = check(arguments)?;
    if cfg!(debug_assertions) {
        print_error("bench-blob: a debug build: the figures say nothing; use cargo run --release");
    }
    let program = own_program()?;
    let Arguments { seconds, rounds, nice, .. } = *arguments;
    let listed: Vec<String> = cores.iter().map(ToString::to_string).collect();
    let machine = Machine::look().map_err(Failure::while_doing("looking at the machine"))?;
    let mut report = Report { machine, cores, nice, seconds, missing: Vec::new(), scenarios: Vec::new() };
    for scenario in REGISTRY.iter().filter(|scenario| is_selected(&arguments.scenario, scenario.name)) {
        let contenders = contenders(arguments, scenario, &program, &mut report.missing);
        let passed =
            [("--cores", listed.join(",")), ("--nice", nice.to_string()), ("--seconds", seconds.to_string())];
        let plan = Plan {
            program: program.clone(),
            rounds,
            arguments: passed.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect(),
            limit: limits::RUN_BASE + Duration::from_secs_f64(seconds.max(1.0) * limits::RUN_FACTOR),
            data: driver::data_folder(&program)?,
        };
        let progress = |outcome: &Outcome| print_error(&driver::progress(scenario.name, rounds, outcome));
        let outcomes = plan.run(scenario.name, &contenders, progress)?;
        let summary = Summary::of((scenario.name, scenario.about), &(scenario.targets)(), rounds, outcomes);
        let mut text = String::new();
        // Writing into a string does not fail.
        let _ = report::write(&mut text, &summary);
        print(&text)?;
        report.scenarios.push(summary);
    }
    for missing in &report.missing {
        print(&format!("missing: {missing}"))?;
    }
    print(&format!(
        "{NOTES}\n{}; servers and load on cores {} at nice {nice}, {seconds} s for each operation and round",
        report.machine,
        listed.join(" and ")
    ))?;
    if let Some(path) = &arguments.json {
        process::write(path, &json(&report)?)?;
    }
    let failed = report.scenarios.iter().any(|summary| !summary.failures.is_empty());
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// How to read the tables; printed once, below all of them.
const NOTES: &str = "\
Medians over rounds with [least-greatest]; ratios are taken within each round before their median. MB are of 10^6 bytes.
";

fn check(arguments: &Arguments) -> Result<Vec<usize>, Failure> {
    let usage = |what: String| Err(Failure::Usage(what));
    let Arguments { rounds, seconds, .. } = *arguments;
    if !(1..=limits::ROUNDS_MAX).contains(&rounds) {
        return usage(format!("--rounds {rounds}: from 1 to {}", limits::ROUNDS_MAX));
    }
    if !(seconds > 0.0 && seconds <= limits::SECONDS_MAX) {
        return usage(format!("--seconds {seconds}: more than 0, up to {}", limits::SECONDS_MAX));
    }
    if !(-20..20).contains(&arguments.nice) {
        return usage(format!("--nice {}: from -20 to 19", arguments.nice));
    }
    let allowed = process::allowed_cores()?;
    if let Some(core) = arguments.cores.iter().find(|core| !allowed.contains(core)) {
        return usage(format!("core {core}: this process may use {allowed:?}"));
    }
    let names = || REGISTRY.iter().map(|scenario| scenario.name);
    if let Some(name) = arguments.scenario.iter().find(|name| !names().any(|known| known == **name)) {
        return usage(format!("--scenario {name}: there are {}", names().collect::<Vec<_>>().join(", ")));
    }
    let default = || allowed.iter().copied().take(2).collect();
    Ok(if arguments.cores.is_empty() { default() } else { arguments.cores.clone() })
}

/// The requested contenders whose programs are installed; the others are added to `missing`.
fn contenders(
    arguments: &Arguments,
    scenario: &Scenario,
    own_program: &Path,
    missing: &mut Vec<String>,
) -> Vec<&'static str> {
    let mut found = Vec::new();
    for contender in scenario.contenders {
        let begins = |only: &String| contender.label.starts_with(only.as_str());
        if !arguments.only.is_empty() && !arguments.only.iter().any(begins) {
            continue;
        }
        let program = match contender.work {
            Work::Iperf => peers::iperf3().map(drop),
            Work::Fio => peers::fio().map(drop),
            Work::Rados { .. } => bench_common::ceph::installed(),
            _ => servers::zerohop(own_program).map(drop),
        };
        match program {
            Ok(()) => found.push(contender.label),
            Err(why) => missing.push(format!("{}, {}: {why}", scenario.name, contender.label)),
        }
    }
    found
}
