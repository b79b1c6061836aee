//! `zerohop keyspace alter`.

use clap::Args;
use zerohop_wire::admin::KeyspaceSettings;

use super::KeyspacePlace;
use super::settings::{ChangeableSettings, print_one};
use crate::common::admin;
use crate::common::ending::{CommandEnding, CommandError};
use crate::output;

#[derive(Args, Debug)]
pub(crate) struct AlterArguments {
    /// The name of the keyspace.
    name: String,
    #[command(flatten)]
    changeable: ChangeableSettings,
    #[command(flatten)]
    place: KeyspacePlace,
}

pub(super) async fn run(arguments: AlterArguments) -> Result<CommandEnding, CommandError> {
    let AlterArguments { name, changeable, place } = arguments;
    let ChangeableSettings { replicas, min_in_sync, durability, history, history_bytes } = changeable;
    let settings = KeyspaceSettings {
        name,
        replicas,
        min_in_sync,
        durability,
        history_ms: history,
        history_bytes,
        ..KeyspaceSettings::default()
    };
    if settings == (KeyspaceSettings { name: settings.name.clone(), ..KeyspaceSettings::default() }) {
        let what =
            "nothing to change: give --durability, --replicas, --min-in-sync, --history or --history-bytes";
        return Err(CommandError::Usage(what.to_owned()));
    }
    let client = place.target.connect().await?;
    let altered = admin::alter(&client, settings).await?;
    output::note_done(output::COMMAND);
    print_one(&place, altered)?;
    Ok(CommandEnding::Done)
}
