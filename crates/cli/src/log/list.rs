//! `zerohop log list`.

use clap::Args;
use serde::Serialize;
use zerohop_client::Client;
use zerohop_layer_log::LogError;
use zerohop_log_client::{LogClient, OpenError};

use super::info::LogOutput;
use super::place::LogPlace;
use super::refusal::failed_to_read;
use crate::common::ending::{CommandEnding, CommandError};
use crate::layer::{LayerSummary, greatest_lag, list, log_metrics, print_metrics};

#[derive(Args, Debug)]
pub(crate) struct LogListArguments {
    /// Prints the figures of all logs as text for Prometheus. What does not answer within two seconds has no figures.
    #[arg(long, conflicts_with = "json")]
    metrics: bool,
    #[command(flatten)]
    pub(super) place: LogPlace,
}

pub(super) async fn run(arguments: LogListArguments) -> Result<CommandEnding, CommandError> {
    if arguments.metrics {
        return print_metrics(&arguments.place.target, log_metrics).await;
    }
    list::<LogInList>(&arguments.place.target, arguments.place.json).await
}

/// The JSON of a log in a list.
#[derive(Debug, Serialize)]
struct LogInList {
    #[serde(flatten)]
    log: LogOutput,
    /// The greatest lag of a group; null: no group has committed an offset.
    greatest_lag: Option<u64>,
    #[serde(skip)]
    lag_words: Option<String>,
}

impl LogInList {
    async fn read(log: &LogClient, name: String) -> Result<Self, LogError> {
        let shown = LogOutput::read(log, name).await?;
        let groups = log.groups().await?;
        let committed = groups.iter().filter(|(_, summary)| !summary.offsets.is_empty());
        let lags: Vec<_> = committed.map(|(group, summary)| (group, summary.lag())).collect();
        // Of several groups with the same lag, the first one by name.
        let greatest = lags.iter().rev().max_by_key(|(_, lag)| *lag);
        Ok(Self {
            log: shown,
            greatest_lag: greatest.map(|(_, lag)| *lag),
            lag_words: greatest.map(|(group, lag)| greatest_lag(lags.len(), group, *lag)),
        })
    }
}

impl LayerSummary for LogInList {
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
        let lag = self.lag_words.iter().map(|words| format!(", {words}"));
        self.log.line() + &lag.collect::<String>()
    }
}
