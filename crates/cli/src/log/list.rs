//! `zerohop log list`.

use clap::Args;
use zerohop_client::Client;
use zerohop_layer_log::LogError;
use zerohop_log_client::{LogClient, OpenError};

use super::info::LogOutput;
use super::place::LogPlace;
use super::refusal::failed_to_read;
use crate::common::ending::{CommandEnding, CommandError};
use crate::layer::{LayerSummary, list};

#[derive(Args, Debug)]
pub(crate) struct LogListArguments {
    #[command(flatten)]
    pub(super) place: LogPlace,
}

pub(super) async fn run(arguments: LogListArguments) -> Result<CommandEnding, CommandError> {
    list::<LogOutput>(&arguments.place.target, arguments.place.json).await
}

impl LayerSummary for LogOutput {
    async fn find(client: &Client, keyspace: &str) -> Result<Option<Self>, CommandError> {
        let log = match LogClient::open(client, keyspace).await {
            Ok(log) => log,
            // The list has what the command may read.
            Err(OpenError::Log(LogError::NoSuchLog | LogError::Refused(_))) => return Ok(None),
            Err(OpenError::Log(error)) => return Err(failed_to_read(&error)),
            Err(OpenError::Client(error)) => return Err(error.into()),
        };
        let shown = Self::read(&log, keyspace.to_owned()).await;
        shown.map(Some).map_err(|error| failed_to_read(&error))
    }

    fn line(&self) -> String {
        Self::line(self)
    }
}
