//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::bench::BenchCommand;
use crate::common::ending::EXIT_CODES;
use crate::keyspace::KeyspaceCommand;
use crate::kv::KvCommand;
use crate::status::StatusArguments;

/// One storage system for supercomputing and data-analytics jobs.
#[derive(Debug, Parser)]
#[command(name = "zerohop", version, after_help = EXIT_CODES, propagate_version = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Tells which nodes and keyspaces there are, and how they are.
    #[command(after_help = EXIT_CODES)]
    Status(StatusArguments),
    /// Makes, changes, shows and removes keyspaces.
    #[command(subcommand, after_help = EXIT_CODES)]
    Keyspace(KeyspaceCommand),
    /// Reads and writes single records.
    #[command(subcommand, after_help = EXIT_CODES)]
    Kv(KvCommand),
    /// Measures how fast a cluster is.
    #[command(subcommand, after_help = EXIT_CODES)]
    Bench(BenchCommand),
    /// Stores a folder's files, kills itself half-way through doing it again, recovers, and checks that nothing
    /// acknowledged is lost.
    ///
    /// Every file below DIR is stored under its path, read back and compared by checksum. Then a child process does
    /// it again on a disk that forgets what was not synced, and is killed with SIGKILL half-way: that is a power cut.
    /// What it left is recovered, and every file that it had acknowledged must be whole.
    #[command(after_help = EXIT_CODES)]
    Demo(DemoArguments),
    /// What `demo` runs and kills.
    #[command(name = "demo-child", hide = true)]
    DemoChild(DemoChildArguments),
}

#[derive(Args, Debug)]
pub(crate) struct DemoArguments {
    /// The folder whose files are stored. Folders called `target` or `.git` are skipped, links are not followed
    /// [default: the sources of zerohop, or the current folder if they are not there].
    pub(crate) dir: Option<PathBuf>,
    /// Where the data goes, and stays: a folder that is new or empty [default: a temporary folder, removed at the
    /// end if all is well].
    #[arg(long, value_name = "PATH")]
    pub(crate) data: Option<PathBuf>,
    /// Prints the report as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Leaves the temporary folder where it is and says where.
    #[arg(long)]
    pub(crate) keep: bool,
    /// Kills the child once it has acknowledged so many files, rather than half of them.
    #[arg(long, value_name = "FILES", hide = true)]
    pub(crate) kill_after: Option<u64>,
}

#[derive(Args, Debug)]
pub(crate) struct DemoChildArguments {
    /// The folder whose files are stored.
    pub(crate) dir: PathBuf,
    /// The folder of the demo's data, which is not stored itself.
    pub(crate) work: PathBuf,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Arguments::command().debug_assert();
    }
}
