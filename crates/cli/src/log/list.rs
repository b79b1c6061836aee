//! `zerohop log list`.

use clap::Args;
use zerohop_client::KeyOrder;
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
        let log = match LogClient::open(&client, &keyspace.name).await {
            Ok(log) => log,
            Err(OpenError::Log(LogError::NoSuchLog)) => continue,
            Err(OpenError::Log(error)) => return Err(failed_to_read(&error)),
            Err(OpenError::Client(error)) => return Err(error.into()),
        };
        let shown = LogOutput::read(&log, keyspace.name).await.map_err(|error| failed_to_read(&error))?;
        if place.json {
            output::json(&shown)?;
        } else {
            output::result(&shown.line())?;
        }
    }
    Ok(CommandEnding::Done)
}
