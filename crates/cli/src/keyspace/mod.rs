//! `zerohop keyspace`: creates, changes, shows and removes keyspaces.

mod alter;
mod create;
mod remove;
mod separators;
mod settings;
mod show;
mod split;

use clap::{Args, Subcommand};

pub(crate) use self::remove::{confirm, confirm_removal};
pub(crate) use self::separators::{divided_at, read_keys};
pub(crate) use self::settings::{KeyspaceOutput, durability};
pub(crate) use self::show::find;
pub(crate) use self::split::{SplitArguments, run as split};

use crate::common::ending::{CommandEnding, CommandError};
use crate::common::target::ClusterTarget;

#[derive(Debug, Subcommand)]
pub(crate) enum KeyspaceCommand {
    /// Creates a keyspace.
    Create(create::CreateArguments),
    /// Changes the durability or the number of copies of a keyspace, while it is in use.
    Alter(alter::AlterArguments),
    /// Splits each partition of a keyspace in two, while it is in use.
    Split(split::SplitArguments),
    /// Shows one keyspace.
    Show(show::ShowArguments),
    /// Lists all keyspaces.
    #[command(visible_alias = "ls")]
    List(show::KeyspaceListArguments),
    /// Drops a keyspace with all its data.
    ///
    /// On a terminal the command asks for confirmation, unless --yes is given.
    Drop(remove::DropArguments),
}

/// Which cluster, and how the answer is printed.
#[derive(Args, Debug)]
pub(crate) struct KeyspacePlace {
    #[command(flatten)]
    target: ClusterTarget,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(command: KeyspaceCommand) -> Result<CommandEnding, CommandError> {
    match command {
        KeyspaceCommand::Create(arguments) => create::run(arguments).await,
        KeyspaceCommand::Alter(arguments) => alter::run(arguments).await,
        KeyspaceCommand::Split(arguments) => split::run(arguments).await,
        KeyspaceCommand::Show(arguments) => show::run(arguments).await,
        KeyspaceCommand::List(arguments) => show::run_list(arguments).await,
        KeyspaceCommand::Drop(arguments) => remove::run(arguments).await,
    }
}
