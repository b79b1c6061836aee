//! `zerohop log info`.

use std::time::Duration;

use clap::Args;
use serde::Serialize;
use zerohop_layer_log::{Bounds, LogError};
use zerohop_log_client::LogClient;
use zerohop_wire::plurals::counted;

use super::place::{LogPlace, log_name};
use super::refusal::failed_to_read;
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::quantity::{format_bytes, format_time};
use crate::output;

#[derive(Args, Debug)]
pub(crate) struct LogInfoArguments {
    /// The log.
    #[arg(value_name = "NAME", value_parser = log_name)]
    pub(super) name: String,
    #[command(flatten)]
    pub(super) place: LogPlace,
}

/// The JSON of a log.
#[derive(Debug, Serialize)]
pub(super) struct LogOutput {
    log: String,
    created_ms: u64,
    retention_ms: Option<u64>,
    retention_bytes: Option<u64>,
    /// Records and bytes of all partitions.
    records: u64,
    bytes: u64,
    partitions: Vec<LogPartitionOutput>,
}

#[derive(Debug, Serialize)]
struct LogPartitionOutput {
    partition: u32,
    /// The offset of the first record.
    first: u64,
    /// The offset of the next record that is appended.
    next: u64,
    bytes: u64,
    batches: u64,
}

impl LogOutput {
    /// Reads the extent of all partitions.
    pub(super) async fn read(log: &LogClient, name: String) -> Result<Self, LogError> {
        let options = *log.options();
        let mut partitions = Vec::new();
        for partition in 0..options.partitions {
            let Bounds { first, next, bytes, batches } = log.bounds(partition).await?;
            partitions.push(LogPartitionOutput { partition, first, next, bytes, batches });
        }
        Ok(Self {
            log: name,
            created_ms: options.created,
            retention_ms: options.retention,
            retention_bytes: options.retention_bytes,
            records: partitions.iter().map(|one| one.next - one.first).sum(),
            bytes: partitions.iter().map(|one| one.bytes).sum(),
            partitions,
        })
    }

    /// One line.
    pub(super) fn line(&self) -> String {
        let mut line = format!(
            "{}: {}, {}, {}",
            self.log,
            counted(self.partitions.len() as u64, "partition"),
            counted(self.records, "record"),
            format_bytes(self.bytes)
        );
        if let Some(age) = self.retention_ms {
            line += &format!(", keeps {}", format_time(Duration::from_millis(age)));
        }
        if let Some(bytes) = self.retention_bytes {
            line += &format!(", keeps {} a partition", format_bytes(bytes));
        }
        line
    }
}

pub(super) async fn run(arguments: LogInfoArguments) -> Result<CommandEnding, CommandError> {
    let LogInfoArguments { name, place } = arguments;
    let log = match place.open(&name).await? {
        Ok(log) => log,
        Err(refusal) => return refusal.print(place.json, &name),
    };
    let shown = LogOutput::read(&log, name).await.map_err(|error| failed_to_read(&error))?;
    print_log(&place, &shown)?;
    Ok(CommandEnding::Done)
}

/// Prints a log with its partitions.
pub(super) fn print_log(place: &LogPlace, shown: &LogOutput) -> Result<(), CommandError> {
    if place.json {
        return output::json(shown);
    }
    let mut lines = vec![shown.line()];
    lines.extend(shown.partitions.iter().map(|one| {
        format!(
            "  partition {}: first offset {}, next offset {}, {} in {}",
            one.partition,
            one.first,
            one.next,
            format_bytes(one.bytes),
            counted(one.batches, "batch")
        )
    }));
    output::result(&lines.join("\n"))
}
