//! The core workloads of YCSB on zerohop beside Redis, etcd and PostgreSQL: `cargo xtask bench ycsb`.
//!
//! ```text
//!   main ── for each durability, round and system: run ── a server in an empty folder
//!     │       └ workloads ── load, then A B C F D; another server: load, then E
//!     │           └ zerohop-ycsb, the driver of all ──▶ stores: zerohop; redis: resp; etcd: grpc, protobuf; postgresql
//!     └ modes: a scenario for each durability and workload; report
//! ```
//!
//! Operations, records and checks are the same code for all systems; only the stores differ. A record is one value: an update writes it completely,
//! while YCSB updates one of ten fields.

mod etcd;
mod grpc;
mod limits;
mod modes;
mod postgresql;
mod protobuf;
mod redis;
mod report;
mod resp;
mod run;
mod workloads;
mod zerohop;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bench_common::Machine;
use bench_common::driver::{data_folder, json, own_program, print, print_error, progress};
use bench_common::failure::Failure;
use bench_common::process;
use bench_common::report::{Summary, write};
use bench_common::rounds::Outcome;
use bench_common::servers::{self, Place};
use clap::Parser;
use zerohop_ycsb::YcsbWorkload;

use modes::{Mode, System, WORKLOADS};
use report::{Report, YcsbSetting};
use workloads::Orders;

/// What installs the peers.
pub(crate) const INSTALL: &str = "bench/ycsb/install";

/// Runs the core workloads of YCSB on zerohop, Redis, etcd and PostgreSQL in turn, and checks every answer.
#[derive(Parser)]
#[command(name = "bench-ycsb", bin_name = "cargo xtask bench ycsb", version)]
struct Arguments {
    /// Records that are loaded before the workloads.
    #[arg(long, default_value_t = 50_000, value_parser = clap::value_parser!(u64).range(1..=limits::RECORDS_MAX))]
    records: u64,
    /// Length of the values in bytes.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(limits::VALUE_BYTES_MIN..=limits::VALUE_BYTES_MAX))]
    value_bytes: u32,
    /// Measured time of each workload.
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Clients. One thread drives all of them.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::CONNECTIONS_MAX)))]
    clients: u32,
    /// Operations that each client has under way. Those of zerohop's client share its connection; each one of the other systems has a connection of
    /// its own.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::CONNECTIONS_MAX)))]
    depth: u32,
    /// The workloads.
    #[arg(long, value_delimiter = ',', ignore_case = true, default_value = "a,b,c,d,e,f")]
    workloads: Vec<YcsbWorkload>,
    /// The systems that run in turn.
    #[arg(long, value_delimiter = ',', default_value = "zerohop,redis,etcd,postgresql")]
    systems: Vec<System>,
    /// When a write counts as stored.
    #[arg(long, value_delimiter = ',', default_value = "interval,sync")]
    modes: Vec<Mode>,
    /// Interleaved rounds of all systems.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=limits::ROUNDS_MAX))]
    rounds: u64,
    /// The cores of the servers [default: the first half].
    #[arg(long, value_delimiter = ',')]
    cores: Vec<usize>,
    /// The cores of the clients [default: the others].
    #[arg(long, value_delimiter = ',')]
    client_cores: Vec<usize>,
    /// Also write everything measured to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Become another program on these cores, that ends with its parent: what a run starts.
    #[arg(long, hide = true, requires = "parent")]
    launch: bool,
    #[arg(hide = true, last = true)]
    command: Vec<String>,
    #[arg(long, hide = true)]
    parent: Option<u32>,
}

/// The outcomes of each workload, by its place in [`WORKLOADS`].
type Outcomes = BTreeMap<usize, Vec<Outcome>>;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = match &arguments {
        Arguments { launch: true, parent: Some(parent), cores, command, .. } => {
            process::launch(*parent, cores, command).map(|()| ExitCode::SUCCESS)
        }
        _ => bench(&arguments),
    };
    result.unwrap_or_else(|error| {
        print_error(&format!("bench-ycsb: {error}"));
        ExitCode::FAILURE
    })
}

fn bench(arguments: &Arguments) -> Result<ExitCode, Failure> {
    if cfg!(debug_assertions) {
        print_error("bench-ycsb: a debug build: the figures say nothing; use cargo run --release");
    }
    let own_program = own_program()?;
    let setting = arguments.setting(&process::allowed_cores()?)?;
    process::pin(&setting.client_cores)?;
    let mut report = Report {
        machine: Machine::look().map_err(Failure::while_doing("looking at the machine"))?,
        setting,
        missing: Vec::new(),
        scenarios: Vec::new(),
    };
    let systems = installed(&arguments.systems, &own_program, &mut report.missing);
    for mode in Mode::ALL.into_iter().filter(|mode| arguments.modes.contains(mode)) {
        measure(mode, &systems, &arguments.workloads, &own_program, &mut report)?;
    }
    for missing in &report.missing {
        print(&format!("missing: {missing}"))?;
    }
    print(&report.notes())?;
    if let Some(path) = &arguments.json {
        process::write(path, &json(&report)?)?;
    }
    let is_failed = report.scenarios.iter().any(|summary| !summary.failures.is_empty());
    Ok(if is_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The requested systems whose programs are there; the others are added to `missing`.
fn installed(requested: &[System], own_program: &Path, missing: &mut Vec<String>) -> Vec<System> {
    let is_there = |system: &System| {
        let program = match system {
            System::Zerohop => servers::zerohop(own_program),
            System::Redis => process::installed("redis-server", INSTALL),
            System::Etcd => process::installed("etcd", INSTALL),
            System::Postgresql => postgresql::programs(),
        };
        program.map_err(|why| missing.push(format!("{}: {why}", system.label()))).is_ok()
    };
    System::ALL.into_iter().filter(|system| requested.contains(system)).filter(is_there).collect()
}

/// Runs all rounds of a mode, prints the table of each workload, and adds them to the report.
fn measure(
    mode: Mode,
    systems: &[System],
    requested: &[YcsbWorkload],
    own_program: &Path,
    report: &mut Report,
) -> Result<(), Failure> {
    let data = data_folder(own_program)?;
    std::fs::create_dir_all(&data).map_err(Failure::io("creating", &data))?;
    let rounds = report.setting.rounds;
    let mut outcomes = Outcomes::new();
    for round in 0..rounds {
        for system in systems {
            let workloads = system.workloads(mode, requested);
            if workloads.is_empty() {
                continue;
            }
            let folder = tempfile::Builder::new().prefix("ycsb-").tempdir_in(&data);
            let folder = folder.map_err(Failure::io("creating a folder in", &data))?;
            let cores = report.setting.cores.clone();
            let place = Place { own_program: own_program.into(), cores, dir: folder.path().into() };
            for (workload, result) in
                run::run(*system, mode, &place, &workloads, report.setting.orders(round))
            {
                let outcome = Outcome { label: system.label(), round: round as usize, result };
                print_error(&progress(mode.scenario(workload).0, rounds as usize, &outcome));
                let at = WORKLOADS.iter().position(|one| *one == workload).unwrap_or_default();
                outcomes.entry(at).or_default().push(outcome);
            }
        }
    }
    for (at, outcomes) in outcomes {
        let targets = modes::targets(mode, WORKLOADS[at], systems);
        let summary = Summary::of(mode.scenario(WORKLOADS[at]), &targets, rounds as usize, outcomes);
        let mut text = String::new();
        // Writing into a string does not fail.
        let _ = write(&mut text, &summary);
        print(&text)?;
        report.scenarios.push(summary);
    }
    Ok(())
}

impl Arguments {
    /// The setting on a machine with these cores.
    fn setting(&self, allowed: &[usize]) -> Result<YcsbSetting, Failure> {
        let operations = u64::from(self.clients) * u64::from(self.depth);
        let most = limits::CONNECTIONS_MAX;
        if operations > u64::from(most) {
            return Err(Failure::Usage(format!("{operations} operations under way: up to {most}")));
        }
        let (first, others) = allowed.split_at(allowed.len().div_ceil(2));
        let cores = if self.cores.is_empty() { first } else { &self.cores };
        let others = if others.is_empty() { first } else { others };
        let client_cores = if self.client_cores.is_empty() { others } else { &self.client_cores };
        Ok(YcsbSetting {
            records: self.records,
            value_bytes: self.value_bytes,
            seconds: self.seconds,
            clients: self.clients,
            depth: self.depth,
            rounds: self.rounds,
            cores: cores.to_vec(),
            client_cores: client_cores.to_vec(),
        })
    }
}

impl YcsbSetting {
    fn orders(&self, round: u64) -> Orders {
        Orders {
            records: self.records,
            value_bytes: self.value_bytes,
            clients: self.clients,
            depth: self.depth,
            seconds: self.seconds,
            seed: round + 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn command_line_is_consistent() {
        Arguments::command().debug_assert();
        assert!(Arguments::try_parse_from(["bench-ycsb", "--modes", "memory"]).is_err());
        assert!(Arguments::try_parse_from(["bench-ycsb", "--workloads", "A,g"]).is_err());
        let all = Arguments::try_parse_from(["bench-ycsb"]).unwrap();
        assert_eq!(
            (all.workloads.len(), &all.systems[..], &all.modes[..]),
            (6, &System::ALL[..], &Mode::ALL[..])
        );
    }

    #[test]
    fn servers_and_clients_share_no_core_where_there_are_two() {
        let setting = |words: &[&str], allowed: &[usize]| {
            let words = ["bench-ycsb"].iter().chain(words);
            Arguments::try_parse_from(words).unwrap().setting(allowed)
        };
        for (allowed, cores, client_cores) in
            [(&[3][..], &[3][..], &[3][..]), (&[0, 1], &[0], &[1]), (&[0, 1, 2], &[0, 1], &[2])]
        {
            let setting = setting(&[], allowed).unwrap();
            assert_eq!((&setting.cores[..], &setting.client_cores[..]), (cores, client_cores));
        }
        assert_eq!(setting(&["--cores", "5"], &[0, 1]).unwrap().cores, [5]);
        assert!(setting(&["--clients", "100", "--depth", "11"], &[0]).is_err());
    }
}
