//! `zerohop log create`.

use std::time::Duration;

use clap::Args;
use zerohop_layer_log::{CreateLog, LogError, keys};
use zerohop_log_client::{LogClient, OpenError, StorageSettings, new_log};

use super::info::{LogOutput, print_log};
use super::place::{LogPlace, log_name};
use super::refusal::{self, CommandUse, LogRefusal, failed_to_read};
use crate::common::ending::{CommandEnding, CommandError, EXISTS};
use crate::common::{admin, interrupt, quantity};
use crate::keyspace::durability;
use crate::output;

#[derive(Args, Debug)]
pub(crate) struct LogCreateArguments {
    /// The name of the log: 1 to 63 ASCII letters, digits, `.`, `_` and `-`, of which the first is a letter or digit.
    #[arg(value_name = "NAME", value_parser = log_name)]
    pub(super) name: String,
    /// The number of partitions, 1 to 4096. The records of a partition are in one order. Appends to several partitions do
    /// not wait for each other.
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(keys::PARTITIONS_MAX)))]
    partitions: u32,
    /// How long records are kept: `log trim` removes older batches [default: for ever].
    #[arg(long, value_name = "TIME", value_parser = quantity::duration_above_zero)]
    retention: Option<Duration>,
    /// How many bytes each partition keeps at least: `log trim` removes older batches beyond them [default: all].
    #[arg(long, value_name = "BYTES", value_parser = quantity::bytes)]
    retention_bytes: Option<u64>,
    /// Total number of copies, each on another node: 1 to 8 [default: 3, or as many as there are nodes].
    #[arg(long, value_name = "REPLICAS")]
    replicas: Option<u32>,
    /// Number of copies that must have an append before it is acknowledged [default: 2, or 1 if there is one copy].
    #[arg(long, value_name = "REPLICAS")]
    min_in_sync: Option<u32>,
    /// When an append counts as stored in a copy: memory, interval, interval:TIME or sync, as for `keyspace create`
    /// [default: interval, or memory for nodes without a disk].
    #[arg(long, value_name = "WHEN", value_parser = durability)]
    durability: Option<String>,
    #[command(flatten)]
    pub(super) place: LogPlace,
}

pub(super) async fn run(arguments: LogCreateArguments) -> Result<CommandEnding, CommandError> {
    let LogCreateArguments {
        name,
        partitions,
        retention,
        retention_bytes,
        replicas,
        min_in_sync,
        durability,
        place,
    } = arguments;
    let client = place.target.connect().await?;
    let settings = StorageSettings { replicas, min_in_sync, durability };
    let is_made = match admin::create(&client, new_log(name.clone(), partitions, settings)).await {
        Ok(_) => true,
        // It may be one that an interrupted creation has left.
        Err(CommandError::RefusedAs { word: EXISTS, .. }) => false,
        Err(error) => return Err(error),
    };
    let failed = |error: CommandError| if is_made { admin::half_made("log", &name, &error) } else { error };
    let id = zerohop_system::entropy::random_bytes()
        .map_err(|error| CommandError::Node(format!("the system has no random bytes: {error}")))?;
    let retention = retention.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX));
    interrupt::note_sent(output::COMMAND);
    let created =
        LogClient::create(&client, &name, CreateLog { id, partitions, retention, retention_bytes }).await;
    let log = match created {
        Ok(log) => log,
        Err(OpenError::Client(error)) => return Err(failed(error.into())),
        Err(OpenError::Log(LogError::LogExists)) => {
            return LogRefusal::new("exists", "there is a log of this name already").print(place.json, &name);
        }
        Err(OpenError::Log(LogError::NoSuchLog)) => {
            return LogRefusal::new(
                "exists",
                "this name is that of a keyspace which has other data: choose another one",
            )
            .print(place.json, &name);
        }
        Err(OpenError::Log(error)) => return Err(failed(refusal::failed(CommandUse::Write, &error))),
    };
    output::note_done(output::COMMAND);
    let shown = LogOutput::read(&log, name).await.map_err(|error| failed_to_read(&error))?;
    print_log(&place, &shown)?;
    Ok(CommandEnding::Done)
}
