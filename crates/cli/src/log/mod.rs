//! `zerohop log`: logs of records, which producers append to and readers read or pop.
//!
//! A negative answer (no such log, an offset out of range, nothing to pop) is printed on standard error or as JSON, and the exit
//! code is 1: see [`refusal`].

mod alter;
mod append;
mod commit;
mod create;
mod drop;
mod groups;
mod info;
mod list;
mod place;
mod pop;
mod read;
mod record;
mod refusal;
mod tail;
mod trim;

use clap::Subcommand;

use self::place::LogPlace;
use crate::common::display::LayerName;
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::failure::FailedObject;
use crate::common::outage;

#[derive(Debug, Subcommand)]
pub(crate) enum LogCommand {
    /// Creates a log.
    ///
    /// The log is an ordered keyspace of its own, with a partition for each partition of the log.
    Create(create::LogCreateArguments),
    /// Lists the logs of the cluster.
    #[command(visible_alias = "ls")]
    List(list::LogListArguments),
    /// Changes the options of a log: gives it more partitions, or another retention.
    ///
    /// Programs that have opened the log before go on with its old options until they open it again.
    Alter(alter::LogAlterArguments),
    /// Shows the options of a log, and the first and next offset of each partition.
    #[command(alias = "show")]
    Info(info::LogInfoArguments),
    /// Appends records: the arguments, or the lines of standard input.
    ///
    /// Lines that are there together are appended as one batch. Each batch is in the log once, also if an answer is lost and
    /// the command repeats the append.
    Append(append::LogAppendArguments),
    /// Prints the records that the log has.
    ///
    /// The records of a partition are in the order of their offsets. Partitions follow each other.
    Read(read::LogReadArguments),
    /// Prints records as they are appended, until Ctrl-C.
    Tail(tail::LogTailArguments),
    /// Takes the next records of a cursor that readers share, and prints them.
    ///
    /// Of several readers of a cursor, one gets each record. The records stay in the log, for other cursors and readers. If
    /// there is no record, the exit code is 1.
    Pop(pop::LogPopArguments),
    /// Shows the groups of a log: members, committed offsets, and the records that they have not read.
    Groups(groups::LogGroupsArguments),
    /// Sets what a group without members reads next.
    ///
    /// So a group reads records again, or skips some. All partitions are set, or none.
    Commit(commit::LogCommitArguments),
    /// Removes records from the beginning of a log.
    ///
    /// Without options, the command removes what the retention of the log does not keep. Producers do this too, about twice a
    /// minute in each partition that they append to.
    Trim(trim::LogTrimArguments),
    /// Drops a log with all its records.
    ///
    /// On a terminal the command asks for confirmation, unless --yes is given.
    Drop(drop::LogDropArguments),
}

impl LogCommand {
    fn place(&self) -> &LogPlace {
        match self {
            Self::Create(arguments) => &arguments.place,
            Self::Alter(arguments) => &arguments.place,
            Self::List(arguments) => &arguments.place,
            Self::Info(arguments) => &arguments.place,
            Self::Append(arguments) => &arguments.place,
            Self::Read(arguments) => &arguments.place,
            Self::Tail(arguments) => &arguments.place,
            Self::Pop(arguments) => &arguments.place,
            Self::Groups(arguments) => &arguments.place,
            Self::Commit(arguments) => &arguments.place,
            Self::Trim(arguments) => &arguments.place,
            Self::Drop(arguments) => &arguments.place,
        }
    }

    /// The log that the command is about.
    fn name(&self) -> Option<&str> {
        match self {
            Self::Create(arguments) => Some(&arguments.name),
            Self::Alter(arguments) => Some(&arguments.name),
            Self::List(_) => None,
            Self::Info(arguments) => Some(&arguments.name),
            Self::Append(arguments) => Some(&arguments.name),
            Self::Read(arguments) => Some(&arguments.name),
            Self::Tail(arguments) => Some(&arguments.name),
            Self::Pop(arguments) => Some(&arguments.name),
            Self::Groups(arguments) => Some(&arguments.name),
            Self::Commit(arguments) => Some(&arguments.name),
            Self::Trim(arguments) => Some(&arguments.name),
            Self::Drop(arguments) => Some(&arguments.name),
        }
    }

    /// Whether the command handles signals itself.
    pub(crate) fn handles_signals(&self) -> bool {
        matches!(self, Self::Tail(_))
    }
}

pub(crate) async fn run(command: LogCommand) -> Result<CommandEnding, CommandError> {
    let (place, name) = (command.place().clone(), command.name().map(str::to_owned));
    let ending = done(command).await;
    let layer = name.as_deref().map(|name| LayerName { kind: "log", name });
    let about = FailedObject { layer, ..FailedObject::default() };
    outage::reported_about(about, &place.target, place.json, ending).await
}

async fn done(command: LogCommand) -> Result<CommandEnding, CommandError> {
    match command {
        LogCommand::Create(arguments) => create::run(arguments).await,
        LogCommand::Alter(arguments) => alter::run(arguments).await,
        LogCommand::List(arguments) => list::run(arguments).await,
        LogCommand::Info(arguments) => info::run(arguments).await,
        LogCommand::Append(arguments) => append::run(arguments).await,
        LogCommand::Read(arguments) => read::run(arguments).await,
        LogCommand::Tail(arguments) => tail::run(arguments).await,
        LogCommand::Pop(arguments) => pop::run(arguments).await,
        LogCommand::Groups(arguments) => groups::run(arguments).await,
        LogCommand::Commit(arguments) => commit::run(arguments).await,
        LogCommand::Trim(arguments) => trim::run(arguments).await,
        LogCommand::Drop(arguments) => drop::run(arguments).await,
    }
}
