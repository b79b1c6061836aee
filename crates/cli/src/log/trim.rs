//! `zerohop log trim`.

use std::time::Duration;

use clap::Args;
use serde::Serialize;
use zerohop_layer_log::{TrimGoal, TrimOutcome};
use zerohop_log_client::LogClient;
use zerohop_wire::plurals::counted;

use super::place::{LogPlace, log_name, partitions};
use super::refusal::{CommandUse, LogRefusal, print_refusal};
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::{interrupt, quantity};
use crate::output;

#[derive(Args, Debug)]
pub(crate) struct LogTrimArguments {
    /// The log.
    #[arg(value_name = "NAME", value_parser = log_name)]
    pub(super) name: String,
    /// The partition [default: all].
    #[arg(long, value_name = "NUMBER")]
    partition: Option<u32>,
    /// Removes the records below this offset; of a log with several partitions, --partition names one.
    #[arg(long, value_name = "OFFSET", value_parser = quantity::parse_whole, conflicts_with_all = ["older_than", "keep_bytes"])]
    below: Option<u64>,
    /// Removes batches that were appended longer ago than this.
    #[arg(long, value_name = "TIME", value_parser = quantity::duration)]
    older_than: Option<Duration>,
    /// Removes the oldest batches, as long as each partition keeps so many bytes.
    #[arg(long, value_name = "BYTES", value_parser = quantity::bytes)]
    keep_bytes: Option<u64>,
    #[command(flatten)]
    pub(super) place: LogPlace,
}

#[derive(Serialize)]
struct LogTrimOutput {
    partition: u32,
    done: bool,
    first: u64,
    batches: u64,
}

pub(super) async fn run(arguments: LogTrimArguments) -> Result<CommandEnding, CommandError> {
    let LogTrimArguments { name, partition, below, older_than, keep_bytes, place } = arguments;
    let log = match place.open(&name).await? {
        Ok(log) => log,
        Err(refusal) => return refusal.print(place.json, &name),
    };
    if below.is_some() && partition.is_none() && log.options().partitions > 1 {
        return Err(CommandError::Usage(
            "each partition has its own offsets: name one with --partition".to_owned(),
        ));
    }
    let numbers = match partitions(&log, partition) {
        Ok(numbers) => numbers,
        Err(refusal) => return refusal.print(place.json, &name),
    };
    let Some(goal) = goal(&log, below, older_than, keep_bytes) else {
        let text = "the log has no retention: say what to remove with --below, --older-than or --keep-bytes";
        return LogRefusal::new("no_retention", text).print(place.json, &name);
    };
    interrupt::note_sent(output::WRITE);
    let mut batches = 0;
    for partition in numbers {
        let trimmed = match log.trim(partition, goal).await {
            Ok(TrimOutcome { first, batches }) => LogTrimOutput { partition, done: true, first, batches },
            Err(error) => return print_refusal(place.json, &name, CommandUse::Write, error),
        };
        output::note_done(output::WRITE);
        batches += trimmed.batches;
        if place.json {
            output::json(&trimmed)?;
        }
    }
    if !place.json {
        output::result(&format!("{} removed", counted(batches, "batch")))?;
    }
    Ok(CommandEnding::Done)
}

fn goal(
    log: &LogClient,
    below: Option<u64>,
    older_than: Option<Duration>,
    keep_bytes: Option<u64>,
) -> Option<TrimGoal> {
    if let Some(offset) = below {
        return Some(TrimGoal::Below(offset));
    }
    if older_than.is_none() && keep_bytes.is_none() {
        return log.retention();
    }
    let age = older_than.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX));
    Some(TrimGoal::Retention { before: age.map(|age| log.now().saturating_sub(age)), bytes: keep_bytes })
}
