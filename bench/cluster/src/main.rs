//! A zerohop cluster of three nodes compared with etcd, and its behaviour when nodes fail: `cargo
//! xtask bench cluster`.
//!
//! ```text
//!   main ── rounds ── process ──▶ bench-cluster --run SCENARIO --contender LABEL
//!     │                             ├ servers ──▶ bench-cluster --launch ──▶ server
//!     │                             │        (zerohop node, three times; or etcd)
//!     │                             └ work ── load: 32 connections of one thread;
//!     │                                       clients: 32 Rust clients; faults
//!     └ report ◀──── one line of JSON each: figures by name
//! ```
//!
//! Three servers and the load share the cores of `--cores`, by default two, as the scheduler
//! decides: with fewer cores than processes, any fixed division would favour one of them.
//! `bench/cluster/install` installs etcd; without it the benchmark lists it as missing.

mod etcd;
mod limits;
mod scenarios;
mod servers;
mod work;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use bench_common::Machine;
use bench_common::driver::{self, is_selected, json, own_program, print, print_error};
use bench_common::failure::Failure;
use bench_common::process;
use bench_common::report::{self, Summary};
use bench_common::rounds::{Outcome, Plan};
use clap::Parser;
use serde::Serialize;

use scenarios::{REGISTRY, Scenario};
use servers::Place;
use work::{Orders, Work};

/// Measures a zerohop cluster of three nodes beside etcd, and what it does when nodes fail.
#[derive(Parser)]
#[command(name = "bench-cluster", bin_name = "cargo xtask bench cluster", version)]
struct Arguments {
    /// Only these scenarios: etcd, failover, rolling, move, start, txn.
    #[arg(long, value_delimiter = ',')]
    scenario: Vec<String>,
    /// Only contenders whose names begin with one of these.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Interleaved rounds.
    #[arg(long, default_value_t = limits::ROUNDS)]
    rounds: usize,
    /// Measured time of each operation in each round; under load, before a node is killed and behind it.
    #[arg(long, default_value_t = limits::SECONDS)]
    seconds: f64,
    /// Records in the store.
    #[arg(long, default_value_t = limits::RECORDS)]
    records: u32,
    /// How often around all nodes are restarted, of `rolling`.
    #[arg(long, default_value_t = limits::TURNS)]
    turns: usize,
    /// Size of the partition that is moved, of `move`, in MiB.
    #[arg(long, default_value_t = limits::MEBIBYTES)]
    mebibytes: u32,
    /// Bytes of each of its records.
    #[arg(long, default_value_t = limits::VALUE_BYTES)]
    value_bytes: u32,
    /// Operations a second while it is moved.
    #[arg(long, default_value_t = limits::RATE)]
    rate: u32,
    /// The cores that servers and load share [default: the first two].
    #[arg(long, value_delimiter = ',')]
    cores: Vec<usize>,
    /// Give servers and load precedence over what else runs on their cores, down to -20; below 0 only for root. On a
    /// machine with other work it takes the cores from that.
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
        print_error(&format!("bench-cluster: {error}"));
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
    let Arguments { records, seconds, turns, mebibytes, value_bytes, rate, seed, .. } = *arguments;
    let orders = Orders { records, seconds, turns, mebibytes, value_bytes, rate, seed };
    let reading = work::run(scenarios::find(scenario, label)?, place, &orders)?;
    print(&json(&reading)?)?;
    Ok(ExitCode::SUCCESS)
}

/// The output of `--json`.
#[derive(Serialize)]
struct Report {
    machine: Machine,
    cores: Vec<usize>,
    nice: i32,
    records: u32,
    seconds: f64,
    turns: usize,
    mebibytes: u32,
    value_bytes: u32,
    rate: u32,
    missing: Vec<String>,
    scenarios: Vec<Summary>,
}

fn bench(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let cores = check(arguments)?;
    if cfg!(debug_assertions) {
        print_error("bench-cluster: a debug build: the figures say nothing; use cargo run --release");
    }
    let program = own_program()?;
    let Arguments { records, seconds, turns, rounds, nice, mebibytes, value_bytes, rate, .. } = *arguments;
    let listed: Vec<String> = cores.iter().map(ToString::to_string).collect();
    let restarts = limits::RESTART * (turns * limits::NODES) as u32;
    let mut report = Report {
        machine: Machine::look().map_err(Failure::while_doing("looking at the machine"))?,
        cores,
        nice,
        records,
        seconds,
        turns,
        mebibytes,
        value_bytes,
        rate,
        missing: Vec::new(),
        scenarios: Vec::new(),
    };
    for scenario in REGISTRY.iter().filter(|scenario| is_selected(&arguments.scenario, scenario.name)) {
        let contenders = contenders(arguments, scenario, &program, &mut report.missing);
        let is_rolling = scenario.contenders.iter().any(|contender| contender.work == Work::Rolling);
        let plan = Plan {
            program: program.clone(),
            rounds,
            arguments: [
                ("--cores", listed.join(",")),
                ("--nice", nice.to_string()),
                ("--records", records.to_string()),
                ("--seconds", seconds.to_string()),
                ("--turns", turns.to_string()),
                ("--mebibytes", mebibytes.to_string()),
                ("--value-bytes", value_bytes.to_string()),
                ("--rate", rate.to_string()),
            ]
            .into_iter()
            .flat_map(|(name, value)| [name.to_owned(), value])
            .collect(),
            limit: limits::RUN_BASE
                + Duration::from_secs_f64(seconds * limits::RUN_FACTOR)
                + if is_rolling { restarts } else { Duration::ZERO },
            data: driver::data_folder(&program)?,
        };
        let progress = |outcome: &Outcome| print_error(&driver::progress(scenario.name, rounds, outcome));
        let outcomes = plan.run(scenario.name, &contenders, progress)?;
        let about = (scenario.name, scenario.about);
        let summary = Summary::of(about, &(scenario.targets)(), rounds, outcomes);
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
        "{NOTES}\n{}; three servers and the load on cores {} at nice {nice}, {records} records, {seconds} s for each operation and round",
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
Medians over rounds with [least-greatest]; ratios are taken within each round before their median. The servers' CPU is that
of all three, system time included; \"kept waiting\" is time in which their threads could have run and others had the cores.
";

fn check(arguments: &Arguments) -> Result<Vec<usize>, Failure> {
    let usage = |what: String| Err(Failure::Usage(what));
    let Arguments { rounds, seconds, records, turns, mebibytes, value_bytes, rate, .. } = *arguments;
    if !(1..=limits::ROUNDS_MAX).contains(&rounds) {
        return usage(format!("--rounds {rounds}: from 1 to {}", limits::ROUNDS_MAX));
    }
    if !(seconds > 0.0 && seconds <= limits::SECONDS_MAX) {
        return usage(format!("--seconds {seconds}: more than 0, up to {}", limits::SECONDS_MAX));
    }
    if !(limits::RECORDS_MIN..=limits::RECORDS_MAX).contains(&records) {
        return usage(format!(
            "--records {records}: from {} to {}",
            limits::RECORDS_MIN,
            limits::RECORDS_MAX
        ));
    }
    if !(1..=limits::TURNS_MAX).contains(&turns) {
        return usage(format!("--turns {turns}: from 1 to {}", limits::TURNS_MAX));
    }
    let most = [
        ("--mebibytes", mebibytes, limits::MEBIBYTES_MAX),
        ("--value-bytes", value_bytes, limits::VALUE_BYTES_MAX),
        ("--rate", rate, limits::RATE_MAX),
    ];
    if let Some((name, given, most)) = most.into_iter().find(|(_, given, most)| !(1..=*most).contains(given))
    {
        return usage(format!("{name} {given}: from 1 to {most}"));
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
            Work::LoadEtcd { .. } | Work::TransactEtcd => servers::etcd(),
            _ => servers::zerohop(own_program),
        };
        match program {
            Ok(_) => found.push(contender.label),
            Err(why) => missing.push(format!("{}, {}: {why}", scenario.name, contender.label)),
        }
    }
    found
}
