//! TPC-C (revision 5.11) on zerohop: `cargo xtask bench tpcc`.
//!
//! ```text
//!   main ── zerohop: create, populate ──▶ population ─ rows ─ codec, keys
//!     ├ terminals ── inputs ──▶ zerohop: one transaction of the client after the other
//!     ├ zerohop: read_tables ──▶ tables ──▶ conditions
//!     └ report
//! ```
//!
//! Tables, population, inputs, terminals and conditions follow the specification; only `zerohop` knows how the rows are stored. Not by its rules are:
//! no think and keying times (clause 5.2.5), a short run without a checkpoint interval (clause 5.5), and deliveries that the terminal waits for
//! (clause 2.7.2). The figures compare subjects on one machine, and are no result of TPC-C.

mod codec;
mod conditions;
mod inputs;
mod keys;
mod limits;
mod population;
mod random;
mod report;
mod rows;
mod tables;
mod terminals;
mod zerohop;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use bench_common::Machine;
use bench_common::driver::{data_folder, json, own_program, print, print_error};
use bench_common::failure::Failure;
use bench_common::process;
use bench_common::servers::{Cluster, Place};
use clap::Parser;
use tokio::runtime::Builder;
use tokio::task::LocalSet;

use conditions::AcknowledgedRows;
use inputs::TransactionKind;
use population::Scale;
use report::Report;
use terminals::{Orders, TerminalCounts};
use zerohop::{Database, TransactionError};

/// Runs the transactions of TPC-C on zerohop and checks its consistency conditions.
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
    /// TerminalCounts time.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// Nodes, each with a copy of all data: 1 or 3.
    #[arg(long, default_value_t = 1, value_parser = parse_copies)]
    copies: u16,
    /// When a write counts as stored: memory, interval or sync.
    #[arg(long, default_value = "interval", value_parser = ["memory", "interval", "sync"])]
    durability: String,
    /// The seed of population and inputs.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The cores of the servers [default: the first two].
    #[arg(long, value_delimiter = ',')]
    cores: Vec<usize>,
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
    let machine = Machine::look().map_err(Failure::while_doing("looking at the machine"))?;
    let own_program = own_program()?;
    let data = data_folder(&own_program)?;
    std::fs::create_dir_all(&data).map_err(Failure::io("creating", &data))?;
    let folder = tempfile::Builder::new().prefix("tpcc-").tempdir_in(&data);
    let folder = folder.map_err(Failure::io("creating a folder in", &data))?;
    let cores = match arguments.cores.is_empty() {
        true => process::allowed_cores()?.into_iter().take(2).collect(),
        false => arguments.cores.clone(),
    };
    let place = Place { own_program, cores, dir: folder.path().into() };
    let mut cluster = Cluster::without_keyspaces(&place, arguments.copies)?;
    zerohop::create(&mut cluster, arguments.warehouses, arguments.copies, &arguments.durability)?;
    let orders = Orders {
        scale: Scale {
            warehouses: arguments.warehouses,
            customers: arguments.customers_per_district,
            items: arguments.items,
        },
        terminals: arguments.terminals,
        seconds: arguments.seconds,
        seed: arguments.seed,
        time: milliseconds_since_1970(),
    };
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::while_doing("starting the clients' runtime"))?;
    let (measured, tables) = LocalSet::new().block_on(&runtime, run(&cluster, orders)).map_err(failure)?;
    cluster.end()?;
    let conditions = conditions::check(&tables, expected(orders.scale, &measured).as_ref());
    let report =
        Report::new(machine, (orders, arguments.copies, &arguments.durability), measured, conditions);
    print(&report.text())?;
    if let Some(path) = &arguments.json {
        process::write(path, &json(&report)?)?;
    }
    Ok(if report.is_passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn run(
    cluster: &Cluster,
    orders: Orders,
) -> Result<(TerminalCounts, tables::Tables), TransactionError> {
    // A client for each warehouse: its terminals share the connections.
    let mut databases = Vec::new();
    for _ in 0..orders.scale.warehouses {
        databases.push(Database::connect(&cluster.addresses).await?);
    }
    databases[0].populate(orders.scale, orders.seed, orders.time).await?;
    print_error(&format!("{} s of transactions", orders.seconds));
    let measured = terminals::run(&databases, orders).await;
    print_error("reading all rows for the consistency conditions");
    Ok((measured, databases[0].read_tables().await?))
}

/// The rows that must exist; `None` if the outcome of a transaction is unknown.
fn expected(scale: Scale, measured: &TerminalCounts) -> Option<AcknowledgedRows> {
    if measured.kinds.iter().any(|counts| counts.unknown > 0) {
        return None;
    }
    let mut expected = AcknowledgedRows::of(scale);
    expected.orders += measured.of(TransactionKind::NewOrder).committed;
    expected.payments += measured.of(TransactionKind::Payment).committed;
    for district in &measured.delivered {
        *expected.delivered.entry(*district).or_default() += 1;
    }
    Some(expected)
}

fn failure(error: TransactionError) -> Failure {
    Failure::Protocol(error.to_string())
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
    }
}
