//! The monitoring workload of the Týr thesis (chapter 9): events are appended for their sources and
//! added to the aggregates above them. It runs on zerohop by transforms and by closures, and on
//! Ceph RADOS under locks: `cargo xtask bench monitor`.
//!
//! ```text
//!   main ── rounds ── process ──▶ bench-monitor --run SCENARIO --contender LABEL
//!     │                             ├ bench-monitor --launch ──▶ server
//!     │                             │        (zerohop node; ceph-mon, ceph-osd, redis-server)
//!     │                             └ zerohop, readers: Rust clients of one thread;
//!     │                               rados: one thread per client
//!     └ report ◀──── one line of JSON each: figures by name
//! ```
//!
//! Servers and clients share the cores of `--cores`, by default two. At the end of every run all
//! aggregates and the number of events of all sources are compared with the acknowledged ones.
//! `bench/monitor/install` installs the peers; a missing one is listed.

mod figures;
mod layout;
mod librados;
mod limits;
mod locks;
mod rados;
mod readers;
mod scenarios;
mod zerohop;

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
use bench_common::workload::Draws;
use clap::Parser;
use serde::Serialize;

use scenarios::{REGISTRY, Scenario, Work};

/// Measures events that are appended and aggregated, on zerohop and on Ceph RADOS under locks.
#[derive(Parser)]
#[command(name = "bench-monitor", bin_name = "cargo xtask bench monitor", version)]
struct Arguments {
    /// Only these scenarios: one, three, readers.
    #[arg(long, value_delimiter = ',')]
    scenario: Vec<String>,
    /// Only contenders whose names begin with one of these.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Interleaved rounds.
    #[arg(long, default_value_t = limits::ROUNDS)]
    rounds: usize,
    /// Measured time of each figure in each round.
    #[arg(long, default_value_t = limits::SECONDS)]
    seconds: f64,
    /// Clients, each with one event or read under way.
    #[arg(long, default_value_t = limits::CLIENTS)]
    clients: usize,
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
    /// Measured time of each figure.
    seconds: f64,
    clients: usize,
    /// The round: it draws other events in each, the same for all contenders.
    seed: u64,
}

impl Orders {
    /// The random draws of a client in one phase.
    fn draws(&self, client: usize, phase: u64) -> Draws {
        Draws::new(self.seed ^ (client as u64) << 32 ^ phase << 60)
    }
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
        print_error(&format!("bench-monitor: {error}"));
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
    let Arguments { seconds, clients, seed, .. } = *arguments;
    let orders = Orders { seconds, clients, seed };
    let reading = match scenarios::find(scenario, label)? {
        Work::Zerohop { nodes, how } => zerohop::run(&place, nodes, how, &orders),
        Work::Rados => rados::run(&place, &orders),
        Work::Readers { percent } => readers::run(&place, percent, &orders),
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
    clients: usize,
    missing: Vec<String>,
    scenarios: Vec<Summary>,
}

fn bench(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let cores = check(arguments)?;
    if cfg!(debug_assertions) {
        print_error("bench-monitor: a debug build: the figures say nothing; use cargo run --release");
    }
    let program = own_program()?;
    let Arguments { seconds, rounds, nice, clients, .. } = *arguments;
    let listed: Vec<String> = cores.iter().map(ToString::to_string).collect();
    let machine = Machine::look().map_err(Failure::while_doing("looking at the machine"))?;
    let mut report =
        Report { machine, cores, nice, seconds, clients, missing: Vec::new(), scenarios: Vec::new() };
    for scenario in REGISTRY.iter().filter(|scenario| is_selected(&arguments.scenario, scenario.name)) {
        let contenders = contenders(arguments, scenario, &program, &mut report.missing);
        let passed = [
            ("--cores", listed.join(",")),
            ("--nice", nice.to_string()),
            ("--seconds", seconds.to_string()),
            ("--clients", clients.to_string()),
        ];
        let plan = Plan {
            program: program.clone(),
            rounds,
            arguments: passed.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect(),
            limit: limits::RUN_BASE + Duration::from_secs_f64(seconds * limits::RUN_FACTOR),
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
        "{NOTES}\n{}; servers and clients on cores {} at nice {nice}, {clients} clients, {seconds} s for each figure and round",
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
Medians over rounds with [least-greatest]; ratios are taken within each round before their median. K op/s are events; the
servers' CPU is that of all of them for each event, locks too.
";

fn check(arguments: &Arguments) -> Result<Vec<usize>, Failure> {
    let usage = |what: String| Err(Failure::Usage(what));
    let Arguments { rounds, seconds, clients, .. } = *arguments;
    if !(1..=limits::ROUNDS_MAX).contains(&rounds) {
        return usage(format!("--rounds {rounds}: from 1 to {}", limits::ROUNDS_MAX));
    }
    if !(seconds > 0.0 && seconds <= limits::SECONDS_MAX) {
        return usage(format!("--seconds {seconds}: more than 0, up to {}", limits::SECONDS_MAX));
    }
    if !(limits::CLIENTS_MIN..=limits::CLIENTS_MAX).contains(&clients) {
        let (least, most) = (limits::CLIENTS_MIN, limits::CLIENTS_MAX);
        return usage(format!("--clients {clients}: from {least} to {most}"));
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
            Work::Rados => bench_common::ceph::installed().and_then(|()| locks::installed().map(drop)),
            _ => servers::zerohop(own_program).map(drop),
        };
        match program {
            Ok(()) => found.push(contender.label),
            Err(why) => missing.push(format!("{}, {}: {why}", scenario.name, contender.label)),
        }
    }
    found
}
