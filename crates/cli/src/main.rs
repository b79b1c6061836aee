//! The `zerohop` program: parses its arguments, runs the command, and prints its result.

mod arguments;
mod backup;
mod bench;
mod blob;
mod common;
mod complete_names;
mod demo;
mod doctor;
mod examples;
mod folder;
mod global_options;
mod keyspace;
mod kv;
mod layer;
mod local;
mod log;
mod manual;
mod manual_arguments;
mod node;
mod object;
mod partition;
mod queue;
mod recover;
mod region;
mod s3;
mod secret;
mod sim;
mod status;
mod tls;
mod token;
mod top;
mod txn;
mod up;
mod watch;

use std::process::ExitCode;

use arguments::{CliArguments, CliCommand};
use common::ending::{CommandEnding, CommandError, exit_code};
use common::failure::{self, FailedObject};
use common::interrupt;
pub(crate) use common::output;
use common::runtime::runtime;
use node::NodeArguments;

fn main() -> ExitCode {
    let (CliArguments { command }, is_json) = CliArguments::read();
    if is_watched(&command) {
        interrupt::watch(is_json);
    }
    let outcome = run(command);
    if let Err(error) = &outcome
        && is_json
        && !matches!(error, CommandError::OutputClosed)
    {
        failure::print(FailedObject::default(), failure::reason(error), error);
    }
    match &outcome {
        Ok(_) | Err(CommandError::OutputClosed | CommandError::Logged(_)) => {}
        Err(error) => output::problem(&format!("zerohop: {error}")),
    }
    exit_code(&outcome)
}

/// Whether the command leaves it to this function to handle signals.
fn is_watched(command: &CliCommand) -> bool {
    match command {
        CliCommand::Blob(command) => !command.handles_signals(),
        CliCommand::Log(command) => !command.handles_signals(),
        CliCommand::Node(arguments) => arguments.command.is_some(),
        CliCommand::Status(arguments) => !arguments.handles_signals(),
        CliCommand::Watch(arguments) => !arguments.handles_signals(),
        CliCommand::Kv(_)
        | CliCommand::Txn(_)
        | CliCommand::Keyspace(_)
        | CliCommand::Partition(_)
        | CliCommand::Region(_)
        | CliCommand::Object(_)
        | CliCommand::Queue(_)
        | CliCommand::Recover(_)
        | CliCommand::Restore(_)
        | CliCommand::Verify(_)
        | CliCommand::Doctor(_)
        | CliCommand::Sim(_)
        | CliCommand::Token(_) => true,
        _ => false,
    }
}

fn run(command: CliCommand) -> Result<CommandEnding, CommandError> {
    match command {
        CliCommand::Up(arguments) => up::run(&arguments),
        CliCommand::S3(arguments) => s3::run(&arguments),
        CliCommand::Node(arguments) => match *arguments {
            NodeArguments { command: Some(command), .. } => runtime()?.block_on(node::command(command)),
            arguments => node::run(&arguments),
        },
        CliCommand::Partition(command) => runtime()?.block_on(partition::run(command)),
        CliCommand::Region(command) => runtime()?.block_on(region::run(command)),
        CliCommand::Recover(arguments) => runtime()?.block_on(recover::run(arguments)),
        CliCommand::Status(arguments) => runtime()?.block_on(status::run(arguments)),
        CliCommand::Top(arguments) => runtime()?.block_on(top::run(arguments)),
        CliCommand::Doctor(arguments) => runtime()?.block_on(doctor::run(arguments)),
        CliCommand::Keyspace(command) => runtime()?.block_on(keyspace::run(command)),
        CliCommand::Kv(command) => runtime()?.block_on(kv::run(command)),
        CliCommand::Txn(arguments) => runtime()?.block_on(txn::run(arguments)),
        CliCommand::Watch(arguments) => runtime()?.block_on(watch::run(arguments)),
        CliCommand::Object(command) => runtime()?.block_on(object::run(command)),
        CliCommand::Log(command) => runtime()?.block_on(log::run(command)),
        CliCommand::Queue(command) => runtime()?.block_on(queue::run(command)),
        CliCommand::Blob(command) => runtime()?.block_on(blob::run(command)),
        CliCommand::Backup(arguments) => runtime()?.block_on(backup::backup(arguments)),
        CliCommand::Restore(arguments) => runtime()?.block_on(backup::restore(arguments)),
        CliCommand::Verify(arguments) => runtime()?.block_on(backup::verify(arguments)),
        CliCommand::Bench(command) => bench::run(command),
        CliCommand::Folder(command) => folder::run(&command),
        CliCommand::Demo(arguments) => demo::run(&arguments),
        CliCommand::Secret(command) => secret::run(&command),
        CliCommand::Tls(command) => tls::run(&command),
        CliCommand::Token(command) => runtime()?.block_on(token::run(command)),
        CliCommand::Sim(arguments) => sim::run(&arguments),
        CliCommand::Completions(arguments) => manual::completions(&arguments),
        CliCommand::Man(arguments) => manual::man(&arguments),
    }
}
