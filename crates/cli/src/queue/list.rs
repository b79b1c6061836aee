//! `zerohop queue list`.

use clap::Args;
use zerohop_client::{Client, KeyOrder};
use zerohop_layer_queue::QueueError;
use zerohop_queue_client::{OpenError, QueueClient};

use super::place::QueuePlace;
use super::refusal::failed_to_read;
use super::stats::QueueOutput;
use crate::common::admin;
use crate::common::ending::{CommandEnding, CommandError};
use crate::output;

#[derive(Args, Debug)]
pub(crate) struct QueueListArguments {
    #[command(flatten)]
    pub(super) place: QueuePlace,
}

pub(super) async fn run(arguments: QueueListArguments) -> Result<CommandEnding, CommandError> {
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

/// The queue in a keyspace; nothing if it has none.
async fn read(client: &Client, name: &str) -> Result<Option<QueueOutput>, CommandError> {
    let queue = match QueueClient::open(client, name).await {
        Ok(queue) => queue,
        // The list has what the command may read.
        Err(OpenError::Queue(QueueError::NoSuchQueue | QueueError::Refused(_))) => return Ok(None),
        Err(OpenError::Queue(error)) => return Err(failed_to_read(&error)),
        Err(OpenError::Client(error)) => return Err(error.into()),
    };
    let shown = QueueOutput::read(&queue, name.to_owned()).await;
    shown.map(Some).map_err(|error| failed_to_read(&error))
}
