//! `zerohop keyspace split`.

use clap::Args;
use zerohop_wire::admin::KeyspaceSettings;

use super::KeyspacePlace;
use super::settings::print_one;
use super::show::find;
use crate::common::admin;
use crate::common::ending::{CommandEnding, CommandError};
use crate::output;

#[derive(Args, Debug)]
pub(crate) struct SplitArguments {
    /// The name of the keyspace.
    name: String,
    #[command(flatten)]
    place: KeyspacePlace,
}

pub(crate) async fn run(arguments: SplitArguments) -> Result<CommandEnding, CommandError> {
    let SplitArguments { name, place } = arguments;
    let client = place.target.connect().await?;
    let keyspace = find(&client, &name).await?;
    // The request names the final number of partitions, so that a repeated request splits only
    // once.
    let partitions = Some(keyspace.partitions.saturating_mul(2));
    let settings = KeyspaceSettings { name, partitions, ..KeyspaceSettings::default() };
    let altered = admin::alter(&client, settings).await?;
    output::note_done(output::COMMAND);
    print_one(&place, altered)?;
    Ok(CommandEnding::Done)
}
