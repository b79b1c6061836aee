//! `zerohop keyspace alter`.

use clap::Args;
use zerohop_wire::admin::KeyspaceSettings;

use super::Place;
use super::settings::{Changeable, print_one};
use crate::common::admin;
use crate::common::ending::{CommandError, Ending};

#[derive(Args, Debug)]
pub(crate) struct AlterArguments {
    /// Its name.
    name: String,
    #[command(flatten)]
    changeable: Changeable,
    #[command(flatten)]
    place: Place,
}

pub(super) async fn run(arguments: AlterArguments) -> Result<Ending, CommandError> {
    let AlterArguments { name, changeable, place } = arguments;
    let Changeable { replicas, min_in_sync, durability } = changeable;
    if replicas.is_none() && min_in_sync.is_none() && durability.is_none() {
        let what = "nothing to change: give --durability, --replicas or --min-in-sync";
        return Err(CommandError::Usage(what.to_owned()));
    }
    let settings =
        KeyspaceSettings { name, replicas, min_in_sync, durability, ..KeyspaceSettings::default() };
    let client = place.target.connect().await?;
    print_one(&place, admin::alter(&client, settings).await?)?;
    Ok(Ending::Done)
}
