//! A zerohop node compared with redis, memcached and a bare epoll store: `cargo xtask bench kv`.
//!
//! ```text
//!   main ── rounds ── process ──▶ bench-kv --run SCENARIO --contender LABEL          client's core
//!     │                             ├ subjects ──▶ bench-kv --launch ──▶ the server  server's core
//!     │                             └ work ── generator ── protocol (zerohop, RESP, memcached)
//!     └ report ◀──── one line of JSON each: figures by name
//! ```
//!
//! Every run has its own server and load, each pinned to its core. `bench/kv/install` installs
//! redis and memcached; a missing one is listed. The bare store (`bare/`) is the practical limit:
//! the same frames and a hash map.

mod bare;
mod limits;
mod memcached;
mod scenarios;
mod subjects;
mod work;

use std::net::SocketAddr;
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

use scenarios::{Contender, REGISTRY, Scenario};
use subjects::Place;
use work::Orders;

/// Measures a zerohop node beside redis, memcached and a bare epoll store.
#[derive(Parser)]
#[command(name = "bench-kv", bin_name = "cargo xtask bench kv", version)]
struct Arguments {
    /// Only these scenarios: loop-1, loop-8, loop-32, deep, sync, interval, partitions, batching, idle.
    #[arg(long, value_delimiter = ',')]
    scenario: Vec<String>,
    /// Only contenders whose names begin with one of these.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Interleaved rounds.
    #[arg(long, default_value_t = limits::ROUNDS)]
    rounds: usize,
    /// Measured time of each operation in each round.
    #[arg(long, default_value_t = limits::SECONDS)]
    seconds: f64,
    /// Records in the store.
    #[arg(long, default_value_t = limits::RECORDS)]
    records: u32,
    /// The core of the servers.
    #[arg(long, default_value_t = 0)]
    server_core: usize,
    /// The core of the load [default: 1, or the server's if there is no other].
    #[arg(long)]
    client_core: Option<usize>,
    /// Give server and load precedence over what else runs on their cores, down to -20; below 0 only for root. On a
    /// machine with other work it takes the cores from that.
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    nice: i32,
    /// Also write everything measured to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Serve as the bare store: what a run starts.
    #[arg(long, hide = true, value_name = "ADDRESS")]
    bare: Option<SocketAddr>,
    /// Become another program on a core, that ends with its parent: what a run starts.
    #[arg(long, hide = true, requires = "parent")]
    launch: bool,
    #[arg(long, hide = true, value_delimiter = ',')]
    cores: Vec<usize>,
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
        Arguments { bare: Some(address), .. } => bare::serve(*address).map(|()| ExitCode::SUCCESS),
        Arguments { launch: true, parent: Some(parent), cores, command, .. } => {
            process::launch(*parent, cores, command).map(|()| ExitCode::SUCCESS)
        }
        Arguments {
            run: Some(scenario),
            contender: Some(label),
            parent: Some(parent),
            dir: Some(dir),
            ..
        } => run(&arguments, scenario, label, *parent, dir),
        _ => bench(&arguments),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            print_error(&format!("bench-kv: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn run(
    arguments: &Arguments,
    scenario: &str,
    label: &str,
    parent: u32,
    dir: &Path,
) -> Result<ExitCode, Failure> {
    process::die_with(parent)?;
    let client_core = arguments.client_core.unwrap_or(arguments.server_core);
    process::pin(&[client_core])?;
    process::take_precedence(arguments.nice)?;
    let place = Place { own_program: own_program()?, core: arguments.server_core, dir: dir.into() };
    let Arguments { records, seconds, seed, .. } = *arguments;
    let contender = scenarios::find(scenario, label)?;
    let reading = work::run(contender.subject, contender.work, &Orders { place, records, seconds, seed })?;
    print(&json(&reading)?)?;
    Ok(ExitCode::SUCCESS)
}

/// The output of `--json`.
#[derive(Serialize)]
struct Report {
    machine: Machine,
    server_core: usize,
    client_core: usize,
    nice: i32,
    records: u32,
    seconds: f64,
    missing: Vec<String>,
    scenarios: Vec<Summary>,
}

fn bench(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let client_core = check(arguments)?;
    if cfg!(debug_assertions) {
        print_error("bench-kv: a debug build: the figures say nothing; use cargo run --release");
    }
    let program = own_program()?;
    let plan = Plan {
        rounds: arguments.rounds,
        arguments: [
            ("--server-core", arguments.server_core.to_string()),
            ("--client-core", client_core.to_string()),
            ("--nice", arguments.nice.to_string()),
            ("--records", arguments.records.to_string()),
            ("--seconds", arguments.seconds.to_string()),
        ]
        .into_iter()
        .flat_map(|(name, value)| [name.to_owned(), value])
        .collect(),
        limit: limits::RUN_BASE + Duration::from_secs_f64(arguments.seconds * limits::RUN_FACTOR),
        data: driver::data_folder(&program)?,
        program: program.clone(),
    };
    let mut report = Report {
        machine: Machine::look().map_err(Failure::while_doing("looking at the machine"))?,
        server_core: arguments.server_core,
        client_core,
        nice: arguments.nice,
        records: arguments.records,
        seconds: arguments.seconds,
        missing: Vec::new(),
        scenarios: Vec::new(),
    };
    for scenario in REGISTRY.iter().filter(|scenario| is_selected(&arguments.scenario, scenario.name)) {
        let contenders = contenders(arguments, scenario, &program, &mut report.missing);
        let progress =
            |outcome: &Outcome| print_error(&driver::progress(scenario.name, plan.rounds, outcome));
        let outcomes = plan.run(scenario.name, &contenders, progress)?;
        let about = (scenario.name, scenario.about);
        let summary = Summary::of(about, &(scenario.targets)(), plan.rounds, outcomes);
        let mut text = String::new();
        // Writing into a string does not fail.
        let _ = report::write(&mut text, &summary);
        print(&text)?;
        report.scenarios.push(summary);
    }
    for missing in &report.missing {
        print(&format!("missing: {missing}"))?;
    }
    print(NOTES)?;
    let Report { machine, server_core, nice, records, seconds, .. } = &report;
    print(&format!(
        "{machine}; server on core {server_core}, client on core {client_core}, both at nice {nice}, {records} records of 15 + 132 bytes, \
         {seconds} s for each operation and round"
    ))?;
    if let Some(path) = &arguments.json {
        process::write(path, &json(&report)?)?;
    }
    let failed = report.scenarios.iter().any(|summary| !summary.failures.is_empty());
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// How to read the tables; printed once, below all of them.
const NOTES: &str = "\
Medians over rounds with [least-greatest]; ratios are taken within each round before their median. A latency runs from
the write that sends a request to the read that returns its answer. Server CPU is that of all its threads while the
operations ran, system time included; \"kept waiting\" is time in which it could have run and something else had its
core. Where the client's core is busy all the time, the client and not the server sets the rate.
";

fn check(arguments: &Arguments) -> Result<usize, Failure> {
    let usage = |what: String| Err(Failure::Usage(what));
    let Arguments { rounds, seconds, records, server_core, .. } = *arguments;
    if !(1..=limits::ROUNDS_MAX).contains(&rounds) {
        return usage(format!("--rounds {rounds}: from 1 to {}", limits::ROUNDS_MAX));
    }
    if !(seconds > 0.0 && seconds <= limits::SECONDS_MAX) {
        return usage(format!("--seconds {seconds}: more than 0, up to {}", limits::SECONDS_MAX));
    }
    if !(1..=limits::RECORDS_MAX).contains(&records) {
        return usage(format!("--records {records}: from 1 to {}", limits::RECORDS_MAX));
    }
    if !(-20..20).contains(&arguments.nice) {
        return usage(format!("--nice {}: from -20 to 19", arguments.nice));
    }
    let allowed = process::allowed_cores()?;
    let client_core = arguments.client_core.unwrap_or(if allowed.contains(&1) { 1 } else { server_core });
    if let Some(core) = [server_core, client_core].iter().find(|core| !allowed.contains(core)) {
        return usage(format!("core {core}: this process may use {allowed:?}"));
    }
    let names = || REGISTRY.iter().map(|scenario| scenario.name);
    if let Some(name) = arguments.scenario.iter().find(|name| !names().any(|known| known == **name)) {
        return usage(format!("--scenario {name}: there are {}", names().collect::<Vec<_>>().join(", ")));
    }
    Ok(client_core)
}

/// The requested contenders whose programs are installed; the others are added to `missing`.
fn contenders(
    arguments: &Arguments,
    scenario: &Scenario,
    own_program: &Path,
    missing: &mut Vec<String>,
) -> Vec<&'static str> {
    let requested = |contender: &&Contender| {
        arguments.only.is_empty()
            || arguments.only.iter().any(|only| contender.label.starts_with(only.as_str()))
    };
    let is_there = |contender: &&Contender| match contender.subject.program(own_program) {
        Ok(_) => true,
        Err(why) => {
            missing.push(format!("{}, {}: {why}", scenario.name, contender.label));
            false
        }
    };
    scenario.contenders.iter().filter(requested).filter(is_there).map(|contender| contender.label).collect()
}
