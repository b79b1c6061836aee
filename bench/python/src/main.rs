//! `cargo xtask bench python`: the Python package and redis-py, each on one connection to a server of its own.
//!
//! What is measured is Python, so Python measures it: `compare.py` beside this file's folder, in the environment that
//! `xtask` has filled with the wheel and redis-py. This program only finds both.
#![allow(
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a benchmark: it starts a program that prints a table"
)]

use std::path::Path;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(reason) => {
            eprintln!("bench python: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// Whether the comparison ended well.
fn run() -> Result<bool, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    // target/release/bench-python and target/python/venv.
    let target = own.parent().and_then(Path::parent).ok_or("this program is in no target folder")?;
    let python = target.join("python").join("venv").join("bin").join("python");
    let script = Path::new("bench").join("python").join("compare.py");
    let status = Command::new(&python)
        .arg(&script)
        .args(std::env::args_os().skip(1))
        .status()
        .map_err(|error| format!("{} cannot be started: {error}", python.display()))?;
    Ok(status.success())
}
