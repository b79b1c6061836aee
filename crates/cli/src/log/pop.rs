//! `zerohop log pop`.

use std::time::Duration;

use clap::Args;
use zerohop_layer_log::keys;
use zerohop_log_client::LogPopper;

use super::place::{LogPlace, log_name, partitions};
use super::record::print_records;
use super::refusal::{CommandUse, LogRefusal, print_refusal};
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::{interrupt, quantity};
use crate::output;

#[derive(Args, Debug)]
pub(crate) struct LogPopArguments {
    /// The log.
    #[arg(value_name = "NAME", value_parser = log_name)]
    pub(super) name: String,
    /// The name of the cursor, which begins at the first record.
    #[arg(long, value_name = "CURSOR", default_value = "default", value_parser = cursor)]
    cursor: String,
    /// The partition [default: the first one that has a record].
    #[arg(long, value_name = "NUMBER")]
    partition: Option<u32>,
    /// The highest number of records, all of one partition.
    #[arg(long, value_name = "RECORDS", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    /// How long to wait for a record.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = quantity::duration)]
    wait: Duration,
    #[command(flatten)]
    pub(super) place: LogPlace,
}

fn cursor(text: &str) -> Result<String, String> {
    keys::check_name(text).map(str::to_owned).map_err(|error| error.to_string())
}

pub(super) async fn run(arguments: LogPopArguments) -> Result<CommandEnding, CommandError> {
    let LogPopArguments { name, cursor, partition, limit, wait, place } = arguments;
    let log = match place.open(&name).await? {
        Ok(log) => log,
        Err(refusal) => return refusal.print(place.json, &name),
    };
    let numbers: Vec<u32> = match partitions(&log, partition) {
        Ok(numbers) => numbers.collect(),
        Err(refusal) => return refusal.print(place.json, &name),
    };
    let wait_until = log.now().saturating_add(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
    let mut popper = LogPopper::new(log, cursor);
    interrupt::note_sent(output::WRITE);
    match popper.pop_any(&numbers, limit, wait_until, place.target.timeout()).await {
        Ok(Some((partition, popped))) => {
            output::note_done(output::WRITE);
            print_records(&place, partition, &popped.records)?;
            // The records are printed, so this pop is not repeated. A failure leaves a short record.
            drop(popper.forget(partition).await);
            Ok(CommandEnding::Done)
        }
        Ok(None) => {
            let text = "there is no record that this cursor has not popped";
            LogRefusal::new("no_record", text).print(place.json, &name)
        }
        Err(error) => print_refusal(place.json, &name, CommandUse::Write, error),
    }
}
