//! The ordered index beside `BTreeMap` and the hash index, in memory alone: loads, reads, overwrites, scans, removals, and
//! bytes a record. Each subject runs in a process of its own; rounds are interleaved.
//!
//! `cargo run --release -p bench-ordered -- --records 1000000 --rounds 5`; pin it (`taskset -c 1`) for steady figures.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line program prints its results")]

mod subjects;
mod work;

use std::process::{Command, ExitCode};

use clap::Parser;
use work::{Measurements, PHASES};

/// Speed and memory of the ordered index beside other maps.
#[derive(Parser)]
#[command(name = "bench-ordered")]
struct Arguments {
    /// Records in each map, with keys of 15 random bytes.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..))]
    records: u32,
    /// Interleaved rounds.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Measure these subjects only.
    #[arg(long, value_delimiter = ',', value_parser = subjects::NAMES)]
    only: Vec<String>,
    /// Measure this subject in this process, and print one JSON document.
    #[arg(long, hide = true, value_parser = subjects::NAMES)]
    child: Option<String>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match &arguments.child {
        Some(name) => child(name, arguments.records),
        None => parent(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-ordered: {error}");
            ExitCode::FAILURE
        }
    }
}

fn child(name: &str, records: u32) -> Result<(), String> {
    let measured = work::measure(name, records as usize).ok_or("no such subject")?;
    println!("{}", serde_json::to_string(&measured).map_err(|error| error.to_string())?);
    Ok(())
}

fn parent(arguments: &Arguments) -> Result<(), String> {
    let is_chosen = |name: &&str| arguments.only.is_empty() || arguments.only.iter().any(|n| n == name);
    let names: Vec<&str> = subjects::NAMES.into_iter().filter(is_chosen).collect();
    let mut measured: Vec<Vec<Measurements>> = names.iter().map(|_| Vec::new()).collect();
    for _ in 0..arguments.rounds {
        for (name, measured) in names.iter().zip(&mut measured) {
            measured.push(run(name, arguments.records)?);
        }
    }
    println!(
        "Nanoseconds of processor time, medians of {} rounds; {} records\n",
        arguments.rounds, arguments.records
    );
    println!("| subject | {} |", PHASES.join(" | "));
    println!("| --- |{}", " ---: |".repeat(PHASES.len()));
    for (name, rounds) in names.iter().zip(&measured) {
        let figures = (0..PHASES.len()).map(|phase| figure(rounds, 0, |one| one.nanoseconds[phase]));
        println!("| {name} | {} |", figures.collect::<Vec<_>>().join(" | "));
    }
    println!(
        "\n| subject | random load: bytes a record | fill | resident | sorted load: bytes a record | fill |"
    );
    println!("| --- | ---: | ---: | ---: | ---: | ---: |");
    for (name, rounds) in names.iter().zip(&measured) {
        let [random, sorted] = [0, 1].map(|load| {
            let bytes = figure(rounds, 1, |one| one.bytes[load]);
            format!("{bytes} | {}", figure(rounds, 3, |one| one.fill[load]))
        });
        let resident = figure(rounds, 1, |one| Some(one.resident));
        println!("| {name} | {random} | {resident} | {sorted} |");
    }
    Ok(())
}

/// The median of the rounds.
fn figure(rounds: &[Measurements], decimals: usize, of: impl Fn(&Measurements) -> Option<f64>) -> String {
    let mut figures: Vec<f64> = rounds.iter().filter_map(of).collect();
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).map_or("-".into(), |figure| format!("{figure:.decimals$}"))
}

fn run(name: &str, records: u32) -> Result<Measurements, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new(program)
        .args(["--child", name, "--records", &records.to_string()])
        .output()
        .map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(format!("{name}: {}", String::from_utf8_lossy(&output.stderr)));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("{name}: {error}"))
}
