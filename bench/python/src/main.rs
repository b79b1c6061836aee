//! `cargo xtask bench python`: the Python package and redis-py, each on one connection to its own
//! server. Also an array that the Python package and the Rust client write and read in turns.
//!
//! Python is measured by Python: `compare.py`, in the folder above this file, runs in the
//! environment that `xtask` has filled with the wheel and redis-py. This program finds both, and is
//! the array's Rust client.
#![allow(
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a benchmark: it starts a program that prints a table"
)]

mod array;

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use bench_common::Machine;
use serde_json::{Value, json};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = match &words[..] {
        [word, endpoint, bytes] if word == "array" => match bytes.parse() {
            Ok(bytes) => array::run(endpoint, bytes).map(|()| true),
            Err(error) => Err(format!("{bytes}: {error}")),
        },
        words => run(words),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(reason) => {
            eprintln!("bench python: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// Whether the comparison succeeded.
fn run(words: &[String]) -> Result<bool, String> {
    let machine = Machine::look().map_err(|error| error.to_string())?;
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    // target/release/bench-python and target/python/venv.
    let target = own.parent().and_then(Path::parent).ok_or("this program is in no target folder")?;
    let python = target.join("python").join("venv").join("bin").join("python");
    let script = Path::new("bench").join("python").join("compare.py");
    let status = Command::new(&python)
        .arg(&script)
        .arg("--rust")
        .arg(&own)
        .args(words)
        .status()
        .map_err(|error| format!("{} cannot be started: {error}", python.display()))?;
    let json = words.iter().position(|word| word == "--json").and_then(|at| words.get(at + 1));
    if let Some(path) = json.filter(|_| status.success()) {
        add_machine(Path::new(path), &machine)?;
    }
    Ok(status.success())
}

/// Adds the machine to the report that `compare.py` has written.
fn add_machine(path: &Path, machine: &Machine) -> Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = fs::read_to_string(path).map_err(|error| failed(&error))?;
    let mut report: Value = serde_json::from_str(&text).map_err(|error| failed(&error))?;
    report["machine"] = json!(machine);
    fs::write(path, report.to_string()).map_err(|error| failed(&error))
}
