//! Compares hash functions for the choice of partitions: the time of one hash, and how evenly real
//! keys fill the partitions. Covers every kind and the plain forms of the weak ones. The ZHT papers
//! chose theirs by the same measurements.
//!
//! `cargo run --release -p bench-hashes -- [TREE] [--json]`; pin it (`taskset -c 1`) for steady figures.

mod evenness;
mod keys;
mod report;
mod speed;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use zerohop_placement::hash::{self, HashKind};

/// Speed and evenness of hash functions on real keys.
#[derive(Parser)]
#[command(name = "bench-hashes")]
struct Arguments {
    /// The file tree whose paths are one of the key sets.
    #[arg(default_value = "/usr")]
    tree: PathBuf,
    /// Print one JSON document instead of tables.
    #[arg(long)]
    json: bool,
    /// Interleaved rounds of the speed measurement.
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
}

/// A measured function: a kind as keyspaces use it, or its plain form.
struct Candidate {
    name: &'static str,
    hash: fn(u64, &[u8]) -> u64,
    /// Whether the seed affects the top bits, so that every seed is another trial.
    seeded: bool,
}

const CANDIDATES: [Candidate; 7] = [
    Candidate { name: "xxh3", hash: |seed, key| HashKind::Xxh3.hash(seed, key), seeded: true },
    Candidate { name: "fnv1a", hash: |seed, key| HashKind::Fnv1a.hash(seed, key), seeded: true },
    Candidate { name: "jenkins", hash: |seed, key| HashKind::Jenkins.hash(seed, key), seeded: true },
    Candidate { name: "sdbm", hash: |seed, key| HashKind::Sdbm.hash(seed, key), seeded: true },
    Candidate { name: "crc16", hash: |seed, key| HashKind::Crc16.hash(seed, key), seeded: false },
    Candidate { name: "fnv1a, plain", hash: |_, key| hash::fnv1a(key), seeded: false },
    Candidate { name: "sdbm, plain", hash: |_, key| hash::sdbm(key), seeded: false },
];

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let sets = match keys::all(&arguments.tree) {
        Ok(sets) => sets,
        Err(error) => {
            report::complain(&format!(
                "cannot read the file tree {}: {error}; name another as the argument",
                arguments.tree.display()
            ));
            return ExitCode::FAILURE;
        }
    };
    let speeds = speed::measure(&CANDIDATES, arguments.rounds);
    let spreads = evenness::measure(&CANDIDATES, &sets);
    if arguments.json {
        report::json(&speeds, &spreads);
    } else {
        report::tables(&speeds, &spreads);
    }
    ExitCode::SUCCESS
}
