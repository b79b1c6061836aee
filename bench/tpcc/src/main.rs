//! TPC-C (revision 5.11) on zerohop beside PostgreSQL: `cargo xtask bench tpcc`.
//!
//! ```text
//!   main ── for each mode, round and system: run ── servers of zerohop, or of PostgreSQL
//!     │       ├ loader ── population ─ rows ──▶ zerohop: codec, keys; postgresql: INSERT
//!     │       ├ terminals ── inputs ──▶ database: one transaction after the other; moving: regions meanwhile
//!     │       └ full scan ──▶ tables ──▶ conditions
//!     └ report, picture
//! ```
//!
//! Tables, population, inputs, terminals and conditions follow the specification and are the same for both; only `zerohop` and `postgresql` know how
//! the rows are stored. Not by its rules are: no think and keying times (clause 5.2.5), a short run without a checkpoint interval (clause 5.5), and
//! deliveries that the terminal waits for (clause 2.7.2). The figures compare systems on one machine, and are no result of TPC-C.

mod codec;
mod conditions;
mod database;
mod inputs;
mod keys;
mod limits;
mod loader;
mod modes;
mod moving;
mod picture;
mod population;
mod postgresql;
mod random;
mod report;
mod rows;
mod rules;
mod run;
mod tables;
mod terminals;
mod zerohop;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use bench_common::Machine;
use bench_common::driver::{data_folder, json, own_program, print, print_error};
use bench_common::failure::Failure;
use bench_common::process;
use bench_common::report::{Summary, write};
use bench_common::rounds::Outcome;
use bench_common::servers::{self, Place};
use clap::Parser;

use modes::{Mode, System};
use population::Scale;
use report::{Report, RunReport, Setting};
use terminals::Orders;

/// Runs the transactions of TPC-C on zerohop and PostgreSQL in turn, and checks the consistency conditions after each run.
#[derive(Parser)]
#[command(name = "bench-tpcc", bin_name = "cargo xtask bench tpcc", version)]
struct Arguments {
    /// Warehouses, each with ten districts.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::WAREHOUSES_MAX)))]
    warehouses: u32,
    /// Customers, and initial orders, of each district. Fewer than 3000 make a short run.
    #[arg(long, default_value_t = 3000, value_parser = clap::value_parser!(u32).range(10..=3000))]
    customers_per_district: u32,
    /// Items, and stock rows of each warehouse. Fewer than 100000 make a short run.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(20..=100_000))]
    items: u32,
    /// Terminals of each warehouse.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    terminals: u32,
    /// Measured time of each run.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// Interleaved rounds of all systems.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=limits::ROUNDS_MAX))]
    rounds: u64,
    /// The systems that run in turn. `zerohop-moving` has a node more, and splits and moves regions of CUSTOMER in the second third of the time.
    #[arg(long, value_delimiter = ',', default_value = "zerohop,zerohop-moving,postgresql")]
    systems: Vec<System>,
    /// Copies of zerohop's keyspaces: 1 or 3 [default: 3 with interval, then 1 with sync].
    #[arg(long, value_parser = parse_copies)]
    copies: Option<u16>,
    /// When a write of zerohop counts as stored: memory, interval or sync.
    #[arg(long, value_parser = ["memory", "interval", "sync"])]
    durability: Option<String>,
    /// The seed of population and inputs in the first round; the next one is that of the second.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The cores of the servers [default: the first two].
    #[arg(long, value_delimiter = ',')]
    cores: Vec<usize>,
    /// Also write everything measured to this file, and pictures beside it.
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

fn parse_copies(text: &str) -> Result<u16, String> {
    match text {
        "1" => Ok(1),
        "3" => Ok(3),
        _ => Err("1 or 3".to_owned()),
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = match &arguments {
        Arguments { launch: true, parent: Some(parent), cores, command, .. } => {
            process::launch(*parent, cores, command).map(|()| ExitCode::SUCCESS)
        }
        _ => bench(&arguments),
    };
    result.unwrap_or_else(|error| {
        print_error(&format!("bench-tpcc: {error}"));
        ExitCode::FAILURE
    })
}

fn bench(arguments: &Arguments) -> Result<ExitCode, Failure> {
    if cfg!(debug_assertions) {
        print_error("bench-tpcc: a debug build: the figures say nothing; use cargo run --release");
    }
    let own_program = own_program()?;
    let cores = match arguments.cores.is_empty() {
        true => process::allowed_cores()?.into_iter().take(2).collect(),
        false => arguments.cores.clone(),
    };
    let mut report = Report {
        machine: Machine::look().map_err(Failure::while_doing("looking at the machine"))?,
        setting: arguments.setting(cores),
        missing: Vec::new(),
        scenarios: Vec::new(),
        pictures: Vec::new(),
        runs: Vec::new(),
    };
    let systems = installed(&arguments.systems, &own_program, &mut report.missing);
    for mode in modes::selected(arguments.copies, arguments.durability.as_deref()) {
        measure(mode, &systems, &own_program, &mut report)?;
    }
    for missing in &report.missing {
        print(&format!("missing: {missing}"))?;
    }
    print(&report.notes())?;
    if let Some(path) = &arguments.json {
        report.write_pictures(path)?;
        process::write(path, &json(&report)?)?;
    }
    let is_failed = report.scenarios.iter().any(|summary| !summary.failures.is_empty());
    Ok(if is_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The requested systems whose programs are there; the others are added to `missing`.
fn installed(requested: &[System], own_program: &Path, missing: &mut Vec<String>) -> Vec<System> {
    let is_there = |system: &System| {
        let program = match system {
            System::Zerohop | System::ZerohopMoving => servers::zerohop(own_program),
            System::Postgresql => postgresql::programs(),
        };
        program.map_err(|why| missing.push(format!("{}: {why}", system.label()))).is_ok()
    };
    System::ALL.into_iter().filter(|system| requested.contains(system)).filter(is_there).collect()
}

/// Runs all rounds of a mode, prints its table, and adds it to the report.
fn measure(mode: Mode, systems: &[System], own_program: &Path, report: &mut Report) -> Result<(), Failure> {
    let data = data_folder(own_program)?;
    std::fs::create_dir_all(&data).map_err(Failure::io("creating", &data))?;
    let rounds = report.setting.rounds;
    let (mut outcomes, mut problems) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        for system in systems {
            let folder = tempfile::Builder::new().prefix("tpcc-").tempdir_in(&data);
            let folder = folder.map_err(Failure::io("creating a folder in", &data))?;
            let cores = report.setting.cores.clone();
            let place = Place { own_program: own_program.into(), cores, dir: folder.path().into() };
            let orders = report.setting.orders(round);
            let measured = run::run(*system, mode, &place, orders);
            let result = measured.map(|measured| {
                let run = RunReport::new((mode, *system, round), orders, measured);
                print_error(&run.progress());
                problems.extend(run.problems());
                let figures = run.figures.clone();
                report.runs.push(run);
                figures
            });
            if let Err(error) = &result {
                print_error(&format!(
                    "{}, round {}: {}: FAILED: {error}",
                    mode.name,
                    round + 1,
                    system.label()
                ));
            }
            outcomes.push(Outcome { label: system.label(), round: round as usize, result });
        }
    }
    let mut summary =
        Summary::of((mode.name, mode.about), &modes::targets(systems), rounds as usize, outcomes);
    summary.failures.extend(problems);
    let mut text = String::new();
    // Writing into a string does not fail.
    let _ = write(&mut text, &summary);
    print(&text)?;
    report.scenarios.push(summary);
    Ok(())
}

impl Arguments {
    fn setting(&self, cores: Vec<usize>) -> Setting {
        Setting {
            warehouses: self.warehouses,
            customers_per_district: self.customers_per_district,
            items: self.items,
            terminals: self.terminals,
            seconds: self.seconds,
            rounds: self.rounds,
            seed: self.seed,
            cores,
        }
    }
}

impl Setting {
    fn orders(&self, round: u64) -> Orders {
        Orders {
            scale: Scale {
                warehouses: self.warehouses,
                customers: self.customers_per_district,
                items: self.items,
            },
            terminals: self.terminals,
            seconds: self.seconds,
            seed: self.seed + round,
            time: milliseconds_since_1970(),
        }
    }
}

impl Report {
    /// Writes a picture of each mode beside this file, under its name with that of the mode.
    fn write_pictures(&mut self, beside: &Path) -> Result<(), Failure> {
        for mode in modes::MODES {
            let Some(picture) = report::picture(mode, self.setting.seconds, &self.runs) else { continue };
            let stem = beside.file_stem().unwrap_or_default().to_string_lossy();
            let name = format!("{stem}-{}.svg", mode.name);
            process::write(&beside.with_file_name(&name), &picture.svg())?;
            self.pictures.push(name);
        }
        Ok(())
    }

    /// How to read the tables.
    fn notes(&self) -> String {
        let Setting { warehouses, customers_per_district, items, terminals, seconds, cores, .. } =
            &self.setting;
        format!(
            "\nMedians over rounds with [least-greatest]; ratios are taken within each round before their median. After each run all rows were read and \
             the consistency conditions 1 to 14 checked: violations are listed as failures.\n\
             {warehouses} warehouses with {terminals} terminals each, {customers_per_district} customers per district, {items} items; {seconds} s without \
             think time: not a result of TPC-C by its rules; servers on cores {cores:?}\n{}",
            self.machine
        )
    }
}

#[expect(clippy::disallowed_methods, reason = "the dates of orders and payments are dates")]
fn milliseconds_since_1970() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn command_line_is_consistent() {
        Arguments::command().debug_assert();
        assert!(Arguments::try_parse_from(["bench-tpcc", "--copies", "2"]).is_err());
        assert!(Arguments::try_parse_from(["bench-tpcc", "--systems", "zerohop,oracle"]).is_err());
        let all = Arguments::try_parse_from(["bench-tpcc"]).unwrap();
        assert_eq!(all.systems, System::ALL);
    }
}
