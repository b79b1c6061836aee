//! What the programs of benchmarks do alike around their runs.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::failure::Failure;
use crate::reading::Figure;
use crate::rounds::Outcome;

/// This program.
///
/// # Errors
/// What the system answers.
pub fn own_program() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(Failure::while_doing("finding this program"))
}

/// The folder below which servers keep their files: beside `target/release/bench-NAME`.
///
/// # Errors
/// If the program is in no target folder.
pub fn data_folder(program: &Path) -> Result<PathBuf, Failure> {
    let target = program.ancestors().nth(2);
    let target =
        target.ok_or_else(|| Failure::Usage(format!("{} is in no target folder", program.display())))?;
    Ok(target.join("bench-data"))
}

/// As one line of JSON.
///
/// # Errors
/// If it cannot be told so.
pub fn json(what: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(what)
        .map_err(|error| Failure::Protocol(format!("what cannot be told as JSON: {error}")))
}

/// To standard output.
///
/// # Errors
/// What the system answers.
pub fn print(text: &str) -> Result<(), Failure> {
    writeln!(std::io::stdout().lock(), "{text}").map_err(Failure::while_doing("printing"))
}

/// To standard error, and not worth failing for.
pub fn say(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Whether a name is among those that are wanted; all are if none is named.
pub fn is_wanted(wanted: &[String], name: &str) -> bool {
    wanted.is_empty() || wanted.iter().any(|one| one == name)
}

/// What is said when a run has ended: its rates, or everything where nothing is a rate.
pub fn progress(scenario: &str, rounds: usize, outcome: &Outcome) -> String {
    let Outcome { label, round, result } = outcome;
    let what = match result {
        Ok(reading) => {
            let rates = |figure: &&Figure| figure.name.ends_with("K op/s");
            let mut told: Vec<_> = reading.figures.iter().filter(rates).collect();
            if told.is_empty() {
                told = reading.figures.iter().collect();
            }
            let told = told.iter().map(|figure| format!("{} {:.2}", figure.name, figure.value));
            told.collect::<Vec<_>>().join(", ")
        }
        Err(error) => format!("FAILED: {error}"),
    };
    format!("{scenario}, round {}/{rounds}: {label}: {what}", round + 1)
}
