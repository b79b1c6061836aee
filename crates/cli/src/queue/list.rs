//! `zerohop queue list`.

use clap::Args;
use zerohop_client::Client;
use zerohop_layer_queue::QueueError;
use zerohop_queue_client::{OpenError, QueueClient};

use super::place::QueuePlace;
use super::refusal::failed_to_read;
use super::stats::QueueOutput;
use crate::common::ending::{CommandEnding, CommandError};
use crate::layer::{LayerSummary, list, print_metrics, queue_metrics};

#[derive(Args, Debug)]
pub(crate) struct QueueListArguments {
    /// Prints the figures of all queues as text for Prometheus. What does not answer within two seconds has no figures.
    #[arg(long, conflicts_with = "json")]
    metrics: bool,
    #[command(flatten)]
    pub(super) place: QueuePlace,
}

pub(super) async fn run(arguments: QueueListArguments) -> Result<CommandEnding, CommandError> {
    if arguments.metrics {
        return print_metrics(&arguments.place.target, queue_metrics).await;
    }
    list::<QueueOutput>(&arguments.place.target, arguments.place.json).await
}

impl LayerSummary for QueueOutput {
    async fn find(client: &Client, keyspace: &str) -> Result<Option<Self>, CommandError> {
        let queue = match QueueClient::open(client, keyspace).await {
            Ok(queue) => queue,
            // The list has what the command may read.
            Err(OpenError::Queue(QueueError::NoSuchQueue | QueueError::Refused(_))) => return Ok(None),
            Err(OpenError::Queue(error)) => return Err(failed_to_read(&error)),
            Err(OpenError::Client(error)) => return Err(error.into()),
        };
        let shown = Self::read(&queue, keyspace.to_owned()).await;
        shown.map(Some).map_err(|error| failed_to_read(&error))
    }

    fn line(&self) -> String {
        Self::line(self)
    }
}
