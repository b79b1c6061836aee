//! Functions that the benchmark drivers share.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::failure::Failure;
use crate::reading::Figure;
use crate::rounds::Outcome;

/// The path of this program.
///
/// # Errors Those of the system.
pub fn own_program() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(Failure::while_doing("finding this program"))
}

/// The folder for the servers' files: beside `target/release/bench-NAME`.
///
/// # Errors The program is in no target folder.
pub fn data_folder(program: &Path) -> Result<PathBuf, Failure> {
    let target = program.ancestors().nth(2);
    let target =
        target.ok_or_else(|| Failure::Usage(format!("{} is in no target folder", program.display())))?;
    Ok(target.join("bench-data"))
}

/// Serializes a value as one line of JSON.
///
/// # Errors The value cannot be represented as JSON.
pub fn json(what: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(what)
        .map_err(|error| Failure::Protocol(format!("what cannot be written as JSON: {error}")))
}

/// Prints to standard output.
///
/// # Errors Those of the system.
pub fn print(text: &str) -> Result<(), Failure> {
    writeln!(std::io::stdout().lock(), "{text}").map_err(Failure::while_doing("printing"))
}

/// Prints to standard error; a failure is ignored.
pub fn print_error(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Whether a name is requested; all are if none is named.
pub fn is_selected(requested: &[String], name: &str) -> bool {
    requested.is_empty() || requested.iter().any(|one| one == name)
}

/// The progress line of a finished run: its rates, or all figures if none is a rate.
pub fn progress(scenario: &str, rounds: usize, outcome: &Outcome) -> String {
    let Outcome { label, round, result } = outcome;
    let what = match result {
        Ok(reading) => {
            let rates = |figure: &&Figure| figure.name.ends_with("K op/s");
            let mut shown: Vec<_> = reading.figures.iter().filter(rates).collect();
            if shown.is_empty() {
                shown = reading.figures.iter().collect();
            }
            let shown = shown.iter().map(|figure| format!("{} {:.2}", figure.name, figure.value));
            shown.collect::<Vec<_>>().join(", ")
        }
        Err(error) => format!("FAILED: {error}"),
    };
    format!("{scenario}, round {}/{rounds}: {label}: {what}", round + 1)
}
