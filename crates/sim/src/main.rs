//! Runs seeds: one with its trace, or many, until the first that fails.

use std::io::{Write, stdout};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use zerohop_sim::command::{self, CommandEnd, simulate};
use zerohop_sim::coverage::Coverage;
use zerohop_sim::{LineRetention, RunReport, run, run_twice};

/// A simulated node and its clients, from a seed; or whole clusters.
#[derive(Debug, Parser)]
struct NodeSimArguments {
    /// Runs this seed, and reports its result.
    #[arg(long, conflicts_with = "seeds")]
    seed: Option<u64>,
    /// With --seed: prints every event.
    #[arg(long)]
    events: bool,
    /// Runs these seeds, each twice, until the first that fails; FROM..TO, without TO.
    #[arg(long, value_parser = parse_seeds)]
    seeds: Option<(u64, u64)>,
    /// With --seeds: runs each once, and continues after one that fails.
    #[arg(long)]
    survey: bool,
    #[command(subcommand)]
    clusters: Option<Clusters>,
}

#[derive(Debug, Subcommand)]
enum Clusters {
    /// Clusters: the same as `zerohop sim`.
    Cluster(command::SimArguments),
}

fn parse_seeds(text: &str) -> Result<(u64, u64), String> {
    let both = text.split_once("..").and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
    both.filter(|(from, to)| from < to).ok_or_else(|| format!("{text:?} is not FROM..TO, such as 0..100"))
}

fn main() -> ExitCode {
    let arguments = NodeSimArguments::parse();
    if let Some(Clusters::Cluster(arguments)) = arguments.clusters {
        return match simulate(&arguments, &mut print_text) {
            CommandEnd::Passed => ExitCode::SUCCESS,
            CommandEnd::Failed | CommandEnd::NoScenario => ExitCode::FAILURE,
        };
    }
    let passed = match arguments {
        NodeSimArguments { seed: Some(seed), events, .. } => run_one(seed, events),
        NodeSimArguments { seeds: Some(seeds), survey: true, .. } => survey(seeds),
        NodeSimArguments { seeds, .. } => run_many(seeds.unwrap_or((0, 40))),
    };
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints results. A closed output is no failure.
fn print_text(text: &str) {
    drop(writeln!(stdout(), "{text}"));
}

fn run_one(seed: u64, events: bool) -> bool {
    let played = run(seed, if events { LineRetention::All } else { LineRetention::Tail });
    if events || !played.violations.is_empty() {
        played.lines.iter().for_each(|line| print_text(line));
    }
    print_report(&played)
}

fn run_many((from, to): (u64, u64)) -> bool {
    let mut coverage = Coverage::default();
    for seed in from..to {
        let played = run_twice(seed);
        coverage.add(&played.coverage);
        if !played.violations.is_empty() {
            run(seed, LineRetention::Tail).lines.iter().for_each(|line| print_text(line));
            print_report(&played);
            print_text(&format!("replay it with: cargo run -p zerohop-sim -- --seed {seed} --events"));
            return false;
        }
    }
    print_text(&format!("{} seeds, each twice: {coverage}", to - from));
    let missing = coverage.missing();
    if !missing.is_empty() {
        print_text(&format!("in none of them was there: {}", missing.join(", ")));
    }
    missing.is_empty()
}

/// Runs all, and lists those that fail, one per line.
fn survey((from, to): (u64, u64)) -> bool {
    let mut coverage = Coverage::default();
    let mut failed = 0;
    for seed in from..to {
        let played = run(seed, LineRetention::Nothing);
        coverage.add(&played.coverage);
        if let Some(first) = played.violations.first() {
            failed += 1;
            let text = first.to_string();
            let line: String = text.lines().next().unwrap_or_default().chars().take(200).collect();
            print_text(&format!("seed {seed}: {} violations; {line}", played.violations.len()));
        }
    }
    print_text(&format!("{failed} of {} seeds fail: {coverage}", to - from));
    failed == 0
}

fn print_report(played: &RunReport) -> bool {
    for violation in &played.violations {
        print_text(&violation.to_string());
    }
    let verdict = if played.violations.is_empty() { "passed" } else { "FAILED" };
    print_text(&format!(
        "seed {} {verdict}, digest {:016x}: {}",
        played.seed, played.digest, played.coverage
    ));
    played.violations.is_empty()
}
