//! The `zerohop` program: reads its arguments, calls what they ask for, and prints what came of it.

mod arguments;
mod demo;
mod output;

use std::process::ExitCode;

use arguments::{Arguments, Command};
use clap::Parser;

/// The command was carried out and what it checked is not as it should be: data is lost or wrong.
const EXIT_LOST: u8 = 1;
/// The command could not be carried out. (2 says, as clap has it, that the command line was wrong.)
const EXIT_FAILED: u8 = 3;

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Demo(arguments) => demo::run(&arguments),
        Command::DemoChild(arguments) => demo::run_child(&arguments),
    };
    match outcome {
        Ok(demo::Verdict::Whole) => ExitCode::SUCCESS,
        Ok(demo::Verdict::Lost) => ExitCode::from(EXIT_LOST),
        Err(error) => {
            output::problem(&format!("zerohop: {error}"));
            ExitCode::from(EXIT_FAILED)
        }
    }
}
