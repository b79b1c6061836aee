//! `zerohop log read`.

use std::time::Duration;

use clap::Args;
use zerohop_layer_log::{LogError, LogRecord, ReadRequest};
use zerohop_log_client::LogClient;

use super::place::{LogPlace, log_name, partitions};
use super::record::print_records;
use super::refusal::{CommandUse, print_refusal};
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::quantity;

/// The bytes of batches of a page.
const PAGE_BYTES: usize = 1 << 20;

#[derive(Args, Debug)]
pub(crate) struct LogReadArguments {
    /// The log.
    #[arg(value_name = "NAME", value_parser = log_name)]
    pub(super) name: String,
    /// The partition [default: all].
    #[arg(long, value_name = "NUMBER")]
    partition: Option<u32>,
    #[command(flatten)]
    start: StartArguments,
    /// The highest number of records to print [default: no limit].
    #[arg(long, value_name = "RECORDS", value_parser = quantity::parse_whole)]
    limit: Option<u64>,
    /// Ends behind the batch with which the bytes of all batches reach this [default: no limit].
    #[arg(long, value_name = "BYTES", value_parser = quantity::bytes)]
    bytes: Option<u64>,
    #[command(flatten)]
    pub(super) place: LogPlace,
}

/// Where a reader begins.
#[derive(Args, Clone, Copy, Debug)]
#[group(multiple = false)]
pub(super) struct StartArguments {
    /// Begins at this offset; of a log with several partitions, --partition names one.
    #[arg(long, value_name = "OFFSET", value_parser = quantity::parse_whole)]
    from: Option<u64>,
    /// Begins at the first record whose time is not before this one: a time ago as in 10m, or milliseconds since 1970 as in
    /// 1790000000000ms.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    time: Option<Moment>,
}

/// A moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    /// So long ago.
    Ago(Duration),
    /// In milliseconds since 1970.
    At(u64),
}

/// A longer time ago is before 1990, so it is a moment since 1970.
const AGO_MAX: Duration = Duration::from_secs(36 * 365 * 86_400);

fn moment(text: &str) -> Result<Moment, String> {
    let time = quantity::duration(text)?;
    Ok(match time < AGO_MAX {
        true => Moment::Ago(time),
        false => Moment::At(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
    })
}

impl StartArguments {
    /// An offset is one of a single partition.
    pub(super) fn check(self, log: &LogClient, partition: Option<u32>) -> Result<(), CommandError> {
        if self.from.is_some() && partition.is_none() && log.options().partitions > 1 {
            let text = "each partition has its own offsets: name one with --partition, or begin at a --time";
            return Err(CommandError::Usage(text.to_owned()));
        }
        Ok(())
    }

    /// The first offset to read of a partition; nothing without an option.
    pub(super) async fn offset(self, log: &LogClient, partition: u32) -> Result<Option<u64>, LogError> {
        let time = match (self.from, self.time) {
            (Some(from), _) => return Ok(Some(from)),
            (None, Some(Moment::At(time))) => time,
            (None, Some(Moment::Ago(ago))) => {
                log.now().saturating_sub(u64::try_from(ago.as_millis()).unwrap_or(u64::MAX))
            }
            (None, None) => return Ok(None),
        };
        match log.find_time(partition, time).await? {
            Some(offset) => Ok(Some(offset)),
            // All records are older.
            None => Ok(Some(log.bounds(partition).await?.next)),
        }
    }
}

/// Reads the records of a partition up to an offset.
pub(super) struct PartitionReader<'a> {
    pub(super) log: &'a LogClient,
    pub(super) partition: u32,
    /// The next offset.
    pub(super) offset: u64,
    /// The bytes of batches that were read.
    pub(super) bytes: u64,
}

impl PartitionReader<'_> {
    /// The records of the next page.
    pub(super) async fn next(
        &mut self,
        bytes: usize,
        wait_until: u64,
    ) -> Result<Vec<(u64, LogRecord)>, LogError> {
        let Self { partition, offset, .. } = *self;
        let page = self.log.read(ReadRequest { partition, offset, bytes, wait_until }).await?;
        let records = page.batches.iter().flat_map(|batch| batch.records_from(offset)).collect();
        if let Some(last) = page.batches.last() {
            self.offset = last.last() + 1;
        }
        self.bytes += page.batches.iter().map(|batch| batch.batch.bytes().len() as u64).sum::<u64>();
        Ok(records)
    }
}

pub(super) async fn run(arguments: LogReadArguments) -> Result<CommandEnding, CommandError> {
    let LogReadArguments { name, partition, start, limit, bytes, place } = arguments;
    let log = match place.open(&name).await? {
        Ok(log) => log,
        Err(refusal) => return refusal.print(place.json, &name),
    };
    start.check(&log, partition)?;
    let numbers = match partitions(&log, partition) {
        Ok(numbers) => numbers,
        Err(refusal) => return refusal.print(place.json, &name),
    };
    let (mut left, mut bytes_left) = (limit.unwrap_or(u64::MAX), bytes.unwrap_or(u64::MAX));
    for partition in numbers {
        if let Err(error) = read(&log, &place, (partition, start), (&mut left, &mut bytes_left)).await? {
            return print_refusal(place.json, &name, CommandUse::Read, error);
        }
    }
    Ok(CommandEnding::Done)
}

/// Prints a partition up to its present end.
async fn read(
    log: &LogClient,
    place: &LogPlace,
    (partition, start): (u32, StartArguments),
    (left, bytes_left): (&mut u64, &mut u64),
) -> Result<Result<(), LogError>, CommandError> {
    let (bounds, offset) = match (log.bounds(partition).await, start.offset(log, partition).await) {
        (Ok(bounds), Ok(offset)) => (bounds, offset),
        (Err(error), _) | (_, Err(error)) => return Ok(Err(error)),
    };
    let offset = offset.unwrap_or(bounds.first);
    let mut reader = PartitionReader { log, partition, offset, bytes: 0 };
    // An offset above the end is out of range.
    let mut is_first = true;
    while (std::mem::take(&mut is_first) || reader.offset < bounds.next) && *left > 0 && *bytes_left > 0 {
        let page_bytes = usize::try_from(*bytes_left).unwrap_or(PAGE_BYTES).min(PAGE_BYTES);
        let before = reader.bytes;
        let mut records = match reader.next(page_bytes, 0).await {
            Ok(records) => records,
            Err(error) => return Ok(Err(error)),
        };
        *bytes_left = bytes_left.saturating_sub(reader.bytes - before);
        records.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
        *left -= records.len() as u64;
        print_records(place, partition, &records)?;
    }
    Ok(Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_ages_or_times_since_1970() {
        assert_eq!(moment("10m"), Ok(Moment::Ago(Duration::from_secs(600))));
        assert_eq!(moment("1790000000000ms"), Ok(Moment::At(1_790_000_000_000)));
        assert_eq!(moment("1790000000"), Ok(Moment::At(1_790_000_000_000)));
        assert!(moment("soon").is_err());
    }
}
