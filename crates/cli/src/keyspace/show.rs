//! `zerohop keyspace show` and `zerohop keyspace list`.

use clap::Args;
use zerohop_client::Client;
use zerohop_wire::admin::KeyspaceStatus;

use super::KeyspacePlace;
use super::settings::{KeyspaceOutput, print_one};
use crate::common::ending::{CommandEnding, CommandError, NO_KEYSPACE};
use crate::common::view::{self, AgedRow};
use crate::common::{admin, names};
use crate::output;

#[derive(Args, Debug)]
pub(crate) struct ShowArguments {
    /// The name of the keyspace.
    name: String,
    #[command(flatten)]
    place: KeyspacePlace,
}

#[derive(Args, Debug)]
pub(crate) struct KeyspaceListArguments {
    #[command(flatten)]
    place: KeyspacePlace,
}

pub(super) async fn run(arguments: ShowArguments) -> Result<CommandEnding, CommandError> {
    let ShowArguments { name, place } = arguments;
    let keyspace = find(&place.target.connect().await?, &name).await?;
    print_one(&place, keyspace).map(|()| CommandEnding::Done)
}

/// The keyspace of this name.
pub(crate) async fn find(client: &Client, name: &str) -> Result<KeyspaceStatus, CommandError> {
    let status = admin::status(client).await?;
    status.keyspaces.into_iter().find(|keyspace| keyspace.name == name).ok_or_else(|| {
        let reason = format!(
            "there is no keyspace {}: `zerohop keyspace list` names those that there are",
            names::quoted(name.as_bytes())
        );
        CommandError::RefusedAs { word: NO_KEYSPACE, reason }
    })
}

pub(super) async fn run_list(arguments: KeyspaceListArguments) -> Result<CommandEnding, CommandError> {
    let place = arguments.place;
    let mut status = admin::status(&place.target.connect().await?).await?;
    view::print_age_without_quorum(&status);
    let keyspaces: Vec<KeyspaceOutput> =
        std::mem::take(&mut status.keyspaces).into_iter().map(Into::into).collect();
    if place.json {
        output::json_lines(keyspaces.into_iter().map(|keyspace| AgedRow::new(keyspace, &status)))?;
    } else {
        keyspaces.iter().try_for_each(|keyspace| output::result(&keyspace.to_string()))?;
    }
    Ok(CommandEnding::Done)
}
