//! `zerohop log tail`.

use clap::Args;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use zerohop_layer_log::{LogError, LogRecord};
use zerohop_log_client::LogClient;

use super::place::{LogPlace, log_name, partitions};
use super::read::{PartitionReader, StartArguments};
use super::record::print_records;
use super::refusal::{CommandUse, print_refusal};
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::quantity;
use crate::common::runtime::StopSignals;

/// The bytes of batches of a page.
const PAGE_BYTES: usize = 1 << 20;
/// How long a request waits for a record. The reader then asks again.
const WAIT_MS: u64 = 30_000;
/// Pages that wait to be printed.
const PAGES_AHEAD: usize = 4;

#[derive(Args, Debug)]
pub(crate) struct LogTailArguments {
    /// The log.
    #[arg(value_name = "NAME", value_parser = log_name)]
    pub(super) name: String,
    /// The partition [default: all].
    #[arg(long, value_name = "NUMBER")]
    partition: Option<u32>,
    #[command(flatten)]
    start: StartArguments,
    /// Ends after so many records [default: no limit].
    #[arg(long, value_name = "RECORDS", value_parser = quantity::parse_whole)]
    limit: Option<u64>,
    #[command(flatten)]
    pub(super) place: LogPlace,
}

/// Records of a partition, or why its reader has ended.
type TailPage = (u32, Result<Vec<(u64, LogRecord)>, LogError>);

pub(super) async fn run(arguments: LogTailArguments) -> Result<CommandEnding, CommandError> {
    let LogTailArguments { name, partition, start, limit, place } = arguments;
    let mut signals = StopSignals::new()?;
    let log = match place.open(&name).await? {
        Ok(log) => log,
        Err(refusal) => return refusal.print(place.json, &name),
    };
    start.check(&log, partition)?;
    let numbers = match partitions(&log, partition) {
        Ok(numbers) => numbers,
        Err(refusal) => return refusal.print(place.json, &name),
    };
    let (sender, mut pages) = mpsc::channel(PAGES_AHEAD);
    let mut readers = JoinSet::new();
    for partition in numbers {
        let offset = match start.offset(&log, partition).await {
            Ok(Some(offset)) => Ok(offset),
            Ok(None) => log.bounds(partition).await.map(|bounds| bounds.next),
            Err(error) => Err(error),
        };
        match offset {
            Ok(offset) => readers.spawn(follow(log.clone(), partition, offset, sender.clone())),
            Err(error) => return print_refusal(place.json, &name, CommandUse::Read, error),
        };
    }
    let mut left = limit.unwrap_or(u64::MAX);
    while left > 0 {
        let page: Option<TailPage> = tokio::select! {
            page = pages.recv() => page,
            () = signals.received() => break,
        };
        let Some((partition, records)) = page else { break };
        let mut records = match records {
            Ok(records) => records,
            Err(error) => return print_refusal(place.json, &name, CommandUse::Read, error),
        };
        records.truncate(usize::try_from(left).unwrap_or(usize::MAX));
        left -= records.len() as u64;
        print_records(&place, partition, &records)?;
    }
    Ok(CommandEnding::Done)
}

/// Reads a partition for ever.
async fn follow(log: LogClient, partition: u32, offset: u64, pages: mpsc::Sender<TailPage>) {
    let mut reader = PartitionReader { log: &log, partition, offset, bytes: 0 };
    loop {
        let page = reader.next(PAGE_BYTES, log.now().saturating_add(WAIT_MS)).await;
        let is_end = page.is_err();
        if page.as_ref().is_ok_and(Vec::is_empty) {
            continue;
        }
        if pages.send((partition, page)).await.is_err() || is_end {
            return;
        }
    }
}
