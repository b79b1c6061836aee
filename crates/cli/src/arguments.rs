//! The command line.

use std::ffi::{OsStr, OsString};

use clap::builder::Resettable;
use clap::error::{ContextKind, ContextValue};
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::backup::{BackupArguments, RestoreArguments, VerifyArguments};
use crate::bench::BenchCommand;
use crate::blob::BlobCommand;
use crate::common::ending::EXIT_CODES;
use crate::common::quantity::with_negative_numbers;
use crate::common::secret::VARIABLE as SECRET_VARIABLE;
use crate::common::{failure, names};
use crate::demo::DemoArguments;
use crate::doctor::DoctorArguments;
use crate::examples;
use crate::folder::FolderCommand;
use crate::global_options::behind_the_command;
use crate::keyspace::KeyspaceCommand;
use crate::kv::KvCommand;
use crate::log::LogCommand;
use crate::manual_arguments::{CompletionsArguments, ManArguments};
use crate::node::NodeArguments;
use crate::object::ObjectCommand;
use crate::output;
use crate::partition::PartitionCommand;
use crate::queue::QueueCommand;
use crate::recover::RecoverArguments;
use crate::region::RegionCommand;
use crate::s3::S3Arguments;
use crate::secret::SecretCommand;
use crate::status::StatusArguments;
use crate::tls::TlsCommand;
use crate::token::TokenCommand;
use crate::top::TopArguments;
use crate::txn::TxnArguments;
use crate::up::UpArguments;
use crate::watch::WatchArguments;

/// One storage system for supercomputing and data-analytics jobs.
///
/// These options may also stand before the command, if the command has them: --endpoint, --secret-file, --token-file,
/// --tls-ca, --tls-cert, --tls-key, --timeout, --keyspace and --json. An example is `zerohop --json status`.
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
    /// Each node is a separate `zerohop node` process. If one ends, the others continue, and it starts again.
    Up(UpArguments),
    /// Runs one node in the foreground, until Ctrl-C. Subcommands list, drain and remove nodes of a cluster.
    Node(Box<NodeArguments>),
    /// Runs a gateway for clients of S3 in the foreground, until Ctrl-C.
    ///
    /// The gateway is a client of the cluster: several may serve the same objects at once. An object appears, is
    /// replaced or removed completely, also if the gateway is killed. The client then repeats its request at another
    /// gateway or after the restart.
    ///
    /// In a cluster with a secret, the users are its tokens, and `zerohop token new NAME --s3` prints their access keys.
    /// In a cluster without a secret, any access key id is accepted, the secret access key is `zerohop`, and the gateway
    /// listens only at loopback addresses.
    S3(S3Arguments),
    /// Shows the nodes and keyspaces of the cluster, and their state.
    ///
    /// Nodes that start together have the numbers of their places in the list of hosts; a node that joins later gets the
    /// next number. A number is not used again. Instances are numbered over all nodes, in the order in which their
    /// nodes joined, so node 2 may have instance 1. Numbers begin with 0, and with 1 for a node alone. Other commands
    /// name an instance as
    /// NODE:INSTANCE.
    Status(StatusArguments),
    /// Shows the current activity of each node, repeatedly, until Ctrl-C: rates, latencies, connections and memory.
    Top(TopArguments),
    /// Looks for problems of this machine or the cluster, and gives advice.
    ///
    /// The checks cover the disk, system limits and files of secrets. They also cover the nodes, their clocks,
    /// partitions and keyspaces. The exit code is 1 if there is a problem. A warning is not a problem.
    Doctor(DoctorArguments),
    /// Creates, changes, shows and drops keyspaces.
    #[command(subcommand)]
    Keyspace(KeyspaceCommand),
    /// Lists the partitions of a keyspace with their copies, and moves and splits them.
    #[command(subcommand)]
    Partition(PartitionCommand),
    /// Lists the regions of an ordered keyspace with their keys, and splits them.
    #[command(subcommand)]
    Region(RegionCommand),
    /// Lists partitions that no node can serve, and continues without the nodes that are missing.
    ///
    /// A partition is lost while all nodes with an in-sync copy of it are down. It is served again as soon as one of
    /// these nodes returns. If they cannot return, --accept-loss continues with the most complete copy that is left, or
    /// with an empty partition. Writes that only the missing nodes had are then lost, even if these nodes return later.
    #[command(visible_alias = "trouble")]
    Recover(RecoverArguments),
    /// Reads and writes single records.
    #[command(subcommand)]
    Kv(KvCommand),
    /// Runs several operations as one transaction.
    ///
    /// The operations come from standard input, one per line, written as for `zerohop kv`: insert, remove, take,
    /// lookup, append, extend, incr, transform and cas. `blob` is followed by create, write, extend, truncate, transform, read,
    /// stat or rm. `check` requires that a record has a version, or does not exist. Keys and values with spaces need
    /// quotes. Lookups read the state at which the transaction commits.
    ///
    /// All operations are done, or none, and other clients see all changes or none. If a condition, a comparison or a
    /// check fails, nothing is done and the exit code is 1. If a record refuses an operation of the wrong type, such as
    /// `append` to bytes or `incr` of text, nothing is done and the exit code is 3.
    Txn(TxnArguments),
    /// Prints the changes of a keyspace as they are committed, until Ctrl-C.
    ///
    /// The keyspace needs a history (`zerohop keyspace alter NAME --history 1h`). A line is `put`, `removed` or `expired`, the key,
    /// and the value if it has at most 64 KiB, with tabs between. Changes of a partition are printed in their order.
    ///
    /// With --cursor, the command continues where it ended, also after failures of nodes, moves and splits. If changes since then are no
    /// longer kept, it says so: remove the cursor, and begin again with --records.
    Watch(WatchArguments),
    /// Reads and writes large objects (blobs), completely or in parts.
    #[command(subcommand)]
    Blob(BlobCommand),
    /// Reads and writes buckets and objects, the same that clients of S3 use.
    ///
    /// No gateway is needed. A running one (`zerohop s3`) removes the bytes of objects that were replaced or removed.
    #[command(subcommand)]
    Object(ObjectCommand),
    /// Appends to logs, and reads, pops and trims them.
    ///
    /// A log has partitions, and a partition has records in the order of their offsets. A record has a value, and may have a key
    /// and headers. Many producers append to a log at once, and readers do not disturb them.
    #[command(subcommand)]
    Log(LogCommand),
    /// Pushes messages into queues, and pops them under leases.
    ///
    /// A message is leased to one consumer at a time, which acknowledges it when it is processed. Else it is delivered again when the
    /// lease ends. Messages of a group are processed in their order. A message that is popped too often becomes a dead letter.
    #[command(subcommand)]
    Queue(QueueCommand),
    /// Writes a consistent backup of keyspaces to a folder, while the cluster serves requests.
    ///
    /// The backup has all writes that were acknowledged before it began, and each transaction completely or not at all.
    /// The manifest is written last, and makes the folder a backup. After an interruption or on a full disk, the folder
    /// is as it was before.
    Backup(BackupArguments),
    /// Restores keyspaces of a backup, into the same cluster or another one.
    ///
    /// The command reads and checks the complete backup first. It creates keyspaces that do not exist, with their old
    /// settings. If a keyspace is not empty, nothing is restored, unless --overwrite is given.
    Restore(RestoreArguments),
    /// Reads and checks all data of a cluster, or checks a backup.
    ///
    /// Without DIR the command reads every record and blob of the cluster once, as a client does. Then the copies of
    /// every partition compare their contents. With DIR it reads every byte of that backup and of those that it
    /// continues, and needs no cluster. The exit code is 1 if data is damaged or a copy differs; that copy is rebuilt
    /// from the others.
    Verify(VerifyArguments),
    /// Measures the performance of a cluster.
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Changes data folders that no process has open.
    #[command(subcommand)]
    Folder(FolderCommand),
    /// Creates the secret of a cluster.
    #[command(subcommand)]
    Secret(SecretCommand),
    /// Creates a CA and certificates for nodes that use TLS.
    #[command(subcommand)]
    Tls(TlsCommand),
    /// Creates, lists and revokes tokens, which give clients limited permissions without the secret.
    #[command(subcommand)]
    Token(TokenCommand),
    /// Demonstrates on the files of a folder that no acknowledged write is lost.
    ///
    /// The demo starts its own cluster. It stores every file below DIR under its path, reads it back and compares
    /// checksums. Then it stores all files again, on a disk that loses unsynced data, and kills the node with SIGKILL
    /// halfway, which simulates a power cut. The node starts again, and the client continues. At the end, every file
    /// must be complete, and there must be no other keys.
    ///
    /// Last, the demo stores the files on three nodes with two copies in sync. It kills one node halfway, starts it
    /// again, adds a fourth node, drains another one, and compares all files once more. The exit code is 1 if data is
    /// lost or wrong. The demo listens on free ports of 127.0.0.1 and needs no other cluster.
    Demo(DemoArguments),
    /// Simulates clusters and clients in one thread from a seed, injects faults, and checks the answers to clients.
    ///
    /// The simulation runs the production code with a simulated clock, network and disk. For a seed that fails, the
    /// command prints the command line that repeats it.
    Sim(zerohop_sim::command::SimArguments),
    /// Prints a completion script for a shell.
    ///
    /// For bash: `zerohop completions bash > ~/.local/share/bash-completion/completions/zerohop`.
    Completions(CompletionsArguments),
    /// Prints the manual page of `zerohop`, or writes the pages of all commands.
    Man(ManArguments),
}

impl CliArguments {
    /// Parses the command line, and says whether it has `--json`; on a parse error or a request for help the program
    /// ends here.
    pub(crate) fn read() -> (Self, bool) {
        let given = behind_the_command(&command(), std::env::args_os());
        let matches =
            without_empty_variables(command()).try_get_matches_from(&given).unwrap_or_else(|error| {
                // The usage names every option that a variable gives as if it were needed; without variables it does not. The help names
                // the empty variables too.
                let other = if error.use_stderr() { without_variables(command()) } else { command() };
                let other = other.try_get_matches_from(&given).err();
                let other = other.filter(|other| other.kind() == error.kind());
                end(helpful(other.unwrap_or(error)), has_json(&given))
            });
        let is_json = asks_for_json(&matches);
        (Self::from_arg_matches(&matches).unwrap_or_else(|error| end(error, is_json)), is_json)
    }
}

/// Whether the arguments have `--json`, where they cannot be parsed.
fn has_json(given: &[OsString]) -> bool {
    given.iter().take_while(|word| *word != "--").any(|word| word == "--json")
}

/// Whether the command prints JSON.
fn asks_for_json(matches: &ArgMatches) -> bool {
    match matches.subcommand() {
        Some((_, below)) => asks_for_json(below),
        None => matches.try_get_one::<bool>("json").ok().flatten().is_some_and(|is_json| *is_json),
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
fn end(mut error: clap::Error, is_json: bool) -> ! {
    names::escape_arguments(&mut error);
    let text = error.render().to_string();
    if is_json && error.use_stderr() {
        // The usage and tips follow an empty line.
        let lines: Vec<&str> = text.lines().take_while(|line| !line.is_empty()).map(str::trim).collect();
        failure::print_usage(lines.join(" ").trim_start_matches("error: ").to_owned());
    }
    if text == names::screened(&text) {
        error.exit();
    }
    output::problem(text.trim_end());
    std::process::exit(error.exit_code())
}

/// The whole command line.
pub(crate) fn command() -> clap::Command {
    with_negative_numbers(with_epilogue(CliArguments::command(), ""))
}

/// The same command line, without the environment variables that set options.
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

/// Every command's help ends with its examples and the exit codes. `name` is that of the command, without `zerohop`.
fn with_epilogue(command: clap::Command, name: &str) -> clap::Command {
    let lines: String = examples::of(name).iter().map(|line| format!("  {line}\n")).collect();
    let long =
        if lines.is_empty() { EXIT_CODES.to_owned() } else { format!("Examples:\n{lines}\n{EXIT_CODES}") };
    command.after_help(EXIT_CODES).after_long_help(long).mut_subcommands(|below| {
        let name = format!("{name} {}", below.get_name());
        with_epilogue(below, name.trim_start())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    /// No help shows these options, and `surface/commands.txt` has only what the help shows.
    #[test]
    fn hidden_options_are_those_of_the_committed_list() {
        let (mut lines, mut left) =
            (std::collections::BTreeSet::new(), vec![("zerohop".to_owned(), command())]);
        while let Some((name, command)) = left.pop() {
            for option in command.get_arguments().filter(|option| option.is_hide_set()) {
                let about = option.get_help().map(ToString::to_string).unwrap_or_default();
                let long = option.get_long().unwrap_or(option.get_id().as_str());
                lines.insert(format!("{name} --{long}: {about}"));
            }
            left.extend(
                command
                    .get_subcommands()
                    .map(|below| (format!("{name} {}", below.get_name()), below.clone())),
            );
        }
        let lines: Vec<String> = lines.into_iter().collect();
        let committed: Vec<&str> = include_str!("../tests/surface/hidden.txt").lines().collect();
        assert_eq!(lines, committed, "write crates/cli/tests/surface/hidden.txt:\n{}", lines.join("\n"));
    }
}
