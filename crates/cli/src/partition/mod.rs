//! `zerohop partition`: shows where partitions are, and moves them.

mod list;
mod moving;
mod name;

use clap::Subcommand;

pub(crate) use self::name::PartitionName;

use crate::common::ending::{CommandEnding, CommandError};
use crate::keyspace::{self, SplitArguments};

#[derive(Debug, Subcommand)]
pub(crate) enum PartitionCommand {
    /// Tells which instances hold the partitions of a keyspace.
    #[command(visible_alias = "ls")]
    List(list::PartitionListArguments),
    /// Moves a partition to another node, while it is in use, and waits until it serves there.
    ///
    /// The copy there catches up first; then it becomes primary, and the former primary leaves (or the copy that shares the
    /// node's failure domain). Clients see one redirect. The partition stays there until it is released.
    Move(moving::MoveArguments),
    /// Lets a partition that was moved by hand be placed as the cluster finds best again.
    Release(moving::ReleaseArguments),
    /// Cuts each partition of a keyspace in two, while it is in use: another name of `keyspace split`.
    Split(SplitArguments),
}

pub(crate) async fn run(command: PartitionCommand) -> Result<CommandEnding, CommandError> {
    match command {
        PartitionCommand::List(arguments) => list::run(arguments).await,
        PartitionCommand::Move(arguments) => moving::run(arguments).await,
        PartitionCommand::Release(arguments) => moving::release(arguments).await,
        PartitionCommand::Split(arguments) => keyspace::split(arguments).await,
    }
}
