//! The command line.

use clap::builder::Resettable;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::anywhere::behind_the_command;
use crate::backup::{BackupArguments, RestoreArguments, VerifyArguments};
use crate::bench::BenchCommand;
use crate::blob::BlobCommand;
use crate::common::ending::EXIT_CODES;
use crate::common::names;
use crate::common::quantity::with_negative_numbers;
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
    /// Parses the command line; on a parse error or a request for help the program ends here.
    pub(crate) fn read() -> Self {
        let given = behind_the_command(&command(), std::env::args_os());
        let matches = command().try_get_matches_from(&given).unwrap_or_else(|error| {
            // Clap's usage line lists every option that an environment variable sets as if it were
            // required. Parse without variables to get the plain usage.
            let bare = without_variables(command()).try_get_matches_from(&given).err();
            end(&bare.filter(|bare| bare.kind() == error.kind() && error.use_stderr()).unwrap_or(error))
        });
        Self::from_arg_matches(&matches).unwrap_or_else(|error| end(&error))
    }
}

/// Prints the error or the help text, and ends the program. Repeated arguments are escaped if they
/// would control the terminal.
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

/// The same command line, without the environment variables that set options.
fn without_variables(command: clap::Command) -> clap::Command {
    command.mut_args(|arg| arg.env(Resettable::Reset)).mut_subcommands(without_variables)
}

/// Appends the exit codes to the help of every command.
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
