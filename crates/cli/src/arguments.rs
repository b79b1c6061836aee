//! The command line.

use std::ffi::OsStr;

use clap::builder::Resettable;
use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::anywhere::behind_the_command;
use crate::backup::{BackupArguments, RestoreArguments, VerifyArguments};
use crate::bench::BenchCommand;
use crate::blob::BlobCommand;
use crate::common::ending::EXIT_CODES;
use crate::common::names;
use crate::common::quantity::with_negative_numbers;
use crate::common::secret::VARIABLE as SECRET_VARIABLE;
use crate::demo::DemoArguments;
use crate::doctor::DoctorArguments;
use crate::folder::FolderCommand;
use crate::keyspace::KeyspaceCommand;
use crate::kv::KvCommand;
use crate::manual::{CompletionsArguments, ManArguments};
use crate::node::NodeArguments;
use crate::output;
use crate::partition::PartitionCommand;
use crate::recover::RecoverArguments;
use crate::secret::SecretCommand;
use crate::status::StatusArguments;
use crate::tls::TlsCommand;
use crate::token::TokenCommand;
use crate::top::TopArguments;
use crate::txn::TxnArguments;
use crate::up::UpArguments;

/// One storage system for supercomputing and data-analytics jobs.
///
/// Options that most commands have may stand before the command too: --endpoint, --secret-file, --token-file, --tls-ca, --timeout,
/// --keyspace and --json, as in `zerohop --json status`.
#[derive(Debug, Parser)]
#[command(name = "zerohop", version, propagate_version = true)]
pub(crate) struct CliArguments {
    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// Runs a local cluster in the foreground, until Ctrl-C.
    ///
    /// Each node is a process of its own, a `zerohop node`. When one of several ends, the others go on.
    Up(UpArguments),
    /// Runs one node in the foreground, until Ctrl-C; or lists, drains and removes nodes of a cluster.
    Node(Box<NodeArguments>),
    /// Tells which nodes and keyspaces there are, and how they are.
    Status(StatusArguments),
    /// Tells what each node does just now: rates, times, connections, memory; again and again, until Ctrl-C.
    Top(TopArguments),
    /// Looks for what is wrong with this machine or the cluster, and says what to do.
    ///
    /// Disk, limits, files of secrets; and nodes, their clocks, partitions and keyspaces. The exit code is 1 if there is a
    /// problem; warnings are none.
    Doctor(DoctorArguments),
    /// Makes, changes, shows and removes keyspaces.
    #[command(subcommand)]
    Keyspace(KeyspaceCommand),
    /// Tells who holds which partitions, moves and splits them.
    #[command(subcommand)]
    Partition(PartitionCommand),
    /// Tells which partitions nobody serves, and goes on without the nodes that would have to return.
    ///
    /// A partition is lost while everybody who holds all of its acknowledged writes is down. It is served again as soon as
    /// one of them returns. If they never will, --accept-loss has the partition go on with the most complete copy that is
    /// left, or empty if there is none. What only the others had is gone then, even if they return after all.
    Recover(RecoverArguments),
    /// Reads and writes single records.
    #[command(subcommand)]
    Kv(KvCommand),
    /// Does several operations as one transaction.
    ///
    /// They come from standard input, one a line, as `zerohop kv` writes them: insert, remove, lookup, append, extend, incr, transform,
    /// cas; `blob` with create, write, append, truncate, transform, read, stat or rm; and check, which wants a record to have a version,
    /// or not to be there. Keys and values with blanks stand in quotes. What lookups bring is as it was when all the rest was done.
    ///
    /// Others see all that it does or nothing. If a condition, a comparison or a check does not hold, nothing is done. An operation
    /// that its record refuses (a list where bytes are wanted, no number) is left out, and the others are done: the exit code is 1 in
    /// both cases, and the message, or `done` of the JSON, says which.
    Txn(TxnArguments),
    /// Reads and writes large objects, whole or in part.
    #[command(subcommand)]
    Blob(BlobCommand),
    /// Writes keyspaces, as they are at one moment, to a folder, while the cluster serves.
    ///
    /// What is acknowledged before it begins is in it, and every transaction is as a whole or not at all. A folder is a backup
    /// once its manifest is there, which is written last; interrupted, or on a full disk, the folder is left as it was.
    Backup(BackupArguments),
    /// Brings keyspaces of a backup back, into this cluster or another.
    ///
    /// A keyspace that is not there is made as it was. If one of them holds something, nothing is restored, unless --overwrite is given. The
    /// backup is read and checked as a whole first.
    Restore(RestoreArguments),
    /// Reads all that a cluster holds, or checks that a backup is whole.
    ///
    /// Copies of a partition compare themselves all the time (see the operations guide); what this adds is that every record and
    /// blob is read once. The exit code is 1 if something is damaged.
    Verify(VerifyArguments),
    /// Measures how fast a cluster is.
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Changes data folders that no process has open.
    #[command(subcommand)]
    Folder(FolderCommand),
    /// Makes the secret of a cluster.
    #[command(subcommand)]
    Secret(SecretCommand),
    /// Makes a CA and certificates by it, for nodes that speak TLS.
    #[command(subcommand)]
    Tls(TlsCommand),
    /// Makes, lists and revokes tokens: what those may do who do not know the secret.
    #[command(subcommand)]
    Token(TokenCommand),
    /// Shows on a folder's files that nothing acknowledged is lost: stores them in a cluster of its own, kills it
    /// half-way, and checks.
    ///
    /// Every file below DIR is stored under its path, read back and compared by checksum. Then all are stored a second
    /// time, on a disk that forgets what was not synced, and half-way the node is killed with SIGKILL: that is a power
    /// cut. It is started again, the client goes on by itself, and at the end every file must be whole and nothing
    /// else be there.
    Demo(DemoArguments),
    /// Plays clusters and their clients in one thread from a seed, under faults, and checks what clients were told.
    ///
    /// The same code as in production, under a simulated clock, network and disk. A seed that fails is told with the line
    /// that plays it again.
    Sim(zerohop_sim::command::SimArguments),
    /// Prints what a shell reads to complete commands and options.
    ///
    /// For bash: `zerohop completions bash > ~/.local/share/bash-completion/completions/zerohop`.
    Completions(CompletionsArguments),
    /// Prints the manual page, or writes those of all commands.
    Man(ManArguments),
}

impl CliArguments {
    /// Reads the command line; one that is wrong, or asks for help, ends the program here.
    pub(crate) fn read() -> Self {
        let given = behind_the_command(&command(), std::env::args_os());
        let matches =
            without_empty_variables(command()).try_get_matches_from(&given).unwrap_or_else(|error| {
                // The usage names every option that a variable gives as if it were needed; without variables it does not. The help names
                // the empty variables too.
                let other = if error.use_stderr() { without_variables(command()) } else { command() };
                let other = other.try_get_matches_from(&given).err();
                end(&helpful(other.filter(|other| other.kind() == error.kind()).unwrap_or(error)))
            });
        Self::from_arg_matches(&matches).unwrap_or_else(|error| end(&error))
    }
}

/// The error without the tip to pass an option of other commands as a value: that is not what the user wants.
fn helpful(mut error: clap::Error) -> clap::Error {
    let is_option = |argument: &str| {
        let name = argument.strip_prefix("--").unwrap_or_default();
        has_option(&command(), name.split('=').next().unwrap_or_default())
    };
    if let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg)
        && is_option(argument)
    {
        error.remove(ContextKind::Suggested);
    }
    error
}

/// Whether the command or a command below it has this long option.
fn has_option(command: &clap::Command, name: &str) -> bool {
    command.get_arguments().any(|arg| arg.get_long() == Some(name))
        || command.get_subcommands().any(|below| has_option(below, name))
}

/// Says what is wrong, or helps, and ends the program. What is repeated of the arguments is escaped if it would rule the terminal.
fn end(error: &clap::Error) -> ! {
    let text = error.render().to_string();
    if text == names::screened(&text) {
        error.exit();
    }
    output::problem(text.trim_end());
    std::process::exit(error.exit_code())
}

/// The whole command line.
pub(crate) fn command() -> clap::Command {
    with_negative_numbers(with_exit_codes(CliArguments::command()))
}

/// The same, in which no variable of the environment gives an option.
fn without_variables(command: clap::Command) -> clap::Command {
    command.mut_args(|arg| arg.env(Resettable::Reset)).mut_subcommands(without_variables)
}

/// The same, in which an empty variable counts as not set. Only an empty [`SECRET_VARIABLE`] has a meaning of its own: no secret.
fn without_empty_variables(command: clap::Command) -> clap::Command {
    let is_empty = |name: &OsStr| std::env::var_os(name).is_some_and(|value| value.is_empty());
    let command = command.mut_args(|arg| match arg.get_env() {
        Some(name) if name != SECRET_VARIABLE && is_empty(name) => arg.env(Resettable::Reset),
        _ => arg,
    });
    command.mut_subcommands(without_empty_variables)
}

/// Every command's help ends with the exit codes.
fn with_exit_codes(command: clap::Command) -> clap::Command {
    command.after_help(EXIT_CODES).mut_subcommands(with_exit_codes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }
}
