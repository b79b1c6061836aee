//! The `zerohop` program: reads its arguments, calls what they ask for, and prints what came of it.

mod anywhere;
mod arguments;
mod backup;
mod bench;
mod blob;
mod common;
mod demo;
mod doctor;
mod folder;
mod keyspace;
mod kv;
mod local;
mod manual;
mod node;
mod output;
mod partition;
mod recover;
mod secret;
mod sim;
mod status;
mod tls;
mod token;
mod top;
mod txn;
mod up;

use std::process::ExitCode;

use arguments::{Arguments, Command};
use common::ending::{CommandError, Ending, exit_code};
use common::runtime::runtime;
use node::NodeArguments;

fn main() -> ExitCode {
    let outcome = run(Arguments::read().command);
    match &outcome {
        Ok(_) | Err(CommandError::OutputClosed | CommandError::Logged(_)) => {}
        Err(error) => output::problem(&format!("zerohop: {error}")),
    }
    exit_code(&outcome)
}

fn run(command: Command) -> Result<Ending, CommandError> {
    match command {
        Command::Up(arguments) => up::run(&arguments),
        Command::Node(arguments) => match *arguments {
            NodeArguments { command: Some(command), .. } => runtime()?.block_on(node::command(command)),
            arguments => node::run(&arguments),
        },
        Command::Partition(command) => runtime()?.block_on(partition::run(command)),
        Command::Recover(arguments) => runtime()?.block_on(recover::run(arguments)),
        Command::Status(arguments) => runtime()?.block_on(status::run(arguments)),
        Command::Top(arguments) => runtime()?.block_on(top::run(arguments)),
        Command::Doctor(arguments) => runtime()?.block_on(doctor::run(arguments)),
        Command::Keyspace(command) => runtime()?.block_on(keyspace::run(command)),
        Command::Kv(command) => runtime()?.block_on(kv::run(command)),
        Command::Txn(arguments) => runtime()?.block_on(txn::run(arguments)),
        Command::Blob(command) => runtime()?.block_on(blob::run(command)),
        Command::Backup(arguments) => runtime()?.block_on(backup::backup(arguments)),
        Command::Restore(arguments) => runtime()?.block_on(backup::restore(arguments)),
        Command::Verify(arguments) => runtime()?.block_on(backup::verify(arguments)),
        Command::Bench(command) => bench::run(command),
        Command::Folder(command) => folder::run(&command),
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Secret(command) => secret::run(&command),
        Command::Tls(command) => tls::run(&command),
        Command::Token(command) => runtime()?.block_on(token::run(command)),
        Command::Sim(arguments) => sim::run(&arguments),
        Command::Completions(arguments) => manual::completions(&arguments),
        Command::Man(arguments) => manual::man(&arguments),
    }
}
