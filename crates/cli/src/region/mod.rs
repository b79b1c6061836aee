//! `zerohop region`: shows the regions of an ordered keyspace, and splits them.

mod list;
mod split;

use clap::Subcommand;

use crate::common::ending::{CommandEnding, CommandError};

#[derive(Debug, Subcommand)]
pub(crate) enum RegionCommand {
    /// Lists the regions of an ordered keyspace in the order of their keys, with the instances that have copies of them.
    #[command(visible_alias = "ls")]
    List(list::RegionListArguments),
    /// Splits the regions that have these keys, while the keyspace is in use: each key becomes the lowest one of a region.
    ///
    /// Both parts stay on the nodes of their region, and `partition move` moves them apart. A key at which a region begins
    /// already changes nothing, so a split may be repeated.
    Split(split::RegionSplitArguments),
}

pub(crate) async fn run(command: RegionCommand) -> Result<CommandEnding, CommandError> {
    match command {
        RegionCommand::List(arguments) => list::run(arguments).await,
        RegionCommand::Split(arguments) => split::run(arguments).await,
    }
}
