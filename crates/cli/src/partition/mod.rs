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
    /// Lists the partitions of a keyspace and the instances with copies of them.
    #[command(visible_alias = "ls")]
    List(list::PartitionListArguments),
    /// Moves a partition to another node while it is in use, and waits until that node serves it.
    ///
    /// The new copy catches up and becomes primary. Then the old primary leaves, or the copy in the failure domain of
    /// the new node. A request of a client is redirected once. The partition stays on that node until `partition
    /// release`.
    Move(moving::MoveArguments),
    /// Releases a moved partition, so that the cluster chooses its place again.
    Release(moving::ReleaseArguments),
    /// Splits each partition of a keyspace in two, while it is in use. The same as `keyspace split`.
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
