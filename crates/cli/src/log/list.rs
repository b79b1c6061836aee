//! `zerohop log list`.

use clap::Args;
use zerohop_client::{Client, KeyOrder};
use zerohop_layer_log::LogError;
use zerohop_log_client::{LogClient, OpenError};

use super::info::LogOutput;
use super::place::LogPlace;
use super::refusal::failed_to_read;
use crate::common::admin;
use crate::common::ending::{CommandEnding, CommandError};
use crate::output;

#[derive(Args, Debug)]
pub(crate) struct LogListArguments {
    #[command(flatten)]
    pub(super) place: LogPlace,
}

pub(super) async fn run(arguments: LogListArguments) -> Result<CommandEnding, CommandError> {
    let place = arguments.place;
    let client = place.target.connect().await?;
    let mut keyspaces = admin::status(&client).await?.keyspaces;
    keyspaces.retain(|keyspace| keyspace.hash == KeyOrder::ORDERED && !keyspace.dropping);
    for keyspace in keyspaces {
        let shown = match read(&client, &keyspace.name).await {
            Ok(Some(shown)) => shown,
            Ok(None) => continue,
            // It may have been dropped since the list was read.
            Err(error) => match admin::is_dropped(&client, &keyspace.name).await? {
                true => continue,
                false => return Err(error),
            },
        };
        if place.json {
            output::json(&shown)?;
        } else {
            output::result(&shown.line())?;
        }
    }
    Ok(CommandEnding::Done)
}

/// The log in a keyspace; nothing if it has none.
async fn read(client: &Client, name: &str) -> Result<Option<LogOutput>, CommandError> {
    let log = match LogClient::open(client, name).await {
        Ok(log) => log,
        // The list has what the command may read.
        Err(OpenError::Log(LogError::NoSuchLog | LogError::Refused(_))) => return Ok(None),
        Err(OpenError::Log(error)) => return Err(failed_to_read(&error)),
        Err(OpenError::Client(error)) => return Err(error.into()),
    };
    let shown = LogOutput::read(&log, name.to_owned()).await;
    shown.map(Some).map_err(|error| failed_to_read(&error))
}
