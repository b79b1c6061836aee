//! `zerohop log alter`.

use std::time::Duration;

use clap::Args;
use zerohop_layer_log::{AlterLog, keys};

use super::info::{LogOutput, print_log};
use super::place::{LogPlace, log_name};
use super::refusal::{CommandUse, failed_to_read, print_refusal};
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::{admin, interrupt, quantity};
use crate::output;

/// The word for a retention that keeps everything.
const ALL: &str = "all";

#[derive(Args, Debug)]
pub(crate) struct LogAlterArguments {
    /// The log.
    #[arg(value_name = "NAME", value_parser = log_name)]
    pub(super) name: String,
    /// The number of partitions, which only rises. Records stay where they are; new records of a key may go to another
    /// partition than old ones.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=i64::from(keys::PARTITIONS_MAX)))]
    partitions: Option<u32>,
    /// How long records are kept; `all`: for ever.
    #[arg(long, value_name = "TIME|all", value_parser = age)]
    retention: Option<RetentionLimit<Duration>>,
    /// How many bytes each partition keeps at least; `all`: all of them.
    #[arg(long, value_name = "BYTES|all", value_parser = bytes)]
    retention_bytes: Option<RetentionLimit<u64>>,
    #[command(flatten)]
    pub(super) place: LogPlace,
}

/// A limit of the retention, or that everything is kept.
#[derive(Clone, Copy, Debug)]
enum RetentionLimit<T> {
    All,
    UpTo(T),
}

impl<T> RetentionLimit<T> {
    fn limit(self) -> Option<T> {
        match self {
            Self::All => None,
            Self::UpTo(limit) => Some(limit),
        }
    }
}

fn age(text: &str) -> Result<RetentionLimit<Duration>, String> {
    if text == ALL {
        Ok(RetentionLimit::All)
    } else {
        quantity::duration_above_zero(text).map(RetentionLimit::UpTo)
    }
}

fn bytes(text: &str) -> Result<RetentionLimit<u64>, String> {
    if text == ALL { Ok(RetentionLimit::All) } else { quantity::bytes(text).map(RetentionLimit::UpTo) }
}

pub(super) async fn run(arguments: LogAlterArguments) -> Result<CommandEnding, CommandError> {
    let LogAlterArguments { name, partitions, retention, retention_bytes, place } = arguments;
    if partitions.is_none() && retention.is_none() && retention_bytes.is_none() {
        return Err(CommandError::Usage(
            "say what to change: --partitions, --retention or --retention-bytes".to_owned(),
        ));
    }
    let mut log = match place.open(&name).await? {
        Ok(log) => log,
        Err(refusal) => return refusal.print(place.json, &name),
    };
    if let Some(partitions) = partitions.filter(|count| *count > log.options().partitions) {
        let client = place.target.connect().await?;
        interrupt::note_sent(output::COMMAND);
        // A command that is interrupted here has made regions without partitions, which the next one uses.
        for key in log.missing_separators(partitions) {
            admin::split_region(&client, &name, &key).await?;
        }
    }
    let milliseconds = |age: Duration| u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
    let alter = AlterLog {
        partitions,
        retention: retention.map(|age| age.limit().map(milliseconds)),
        retention_bytes: retention_bytes.map(RetentionLimit::limit),
    };
    interrupt::note_sent(output::COMMAND);
    if let Err(error) = log.alter(alter).await {
        return print_refusal(place.json, &name, CommandUse::Write, error);
    }
    output::note_done(output::COMMAND);
    let shown = LogOutput::read(&log, name).await.map_err(|error| failed_to_read(&error))?;
    print_log(&place, &shown)?;
    Ok(CommandEnding::Done)
}
