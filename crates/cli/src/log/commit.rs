//! `zerohop log commit`.

use clap::Args;
use serde::Serialize;
use zerohop_layer_log::{CommitOffsets, LogError, keys};
use zerohop_log_client::LogClient;
use zerohop_wire::plurals::counted;

use super::place::{LogPlace, log_name, partitions};
use super::refusal::{CommandUse, LogRefusal, failed_to_read, print_refusal};
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::{interrupt, quantity};
use crate::output;

#[derive(Args, Debug)]
pub(crate) struct LogCommitArguments {
    /// The log.
    #[arg(value_name = "NAME", value_parser = log_name)]
    pub(super) name: String,
    /// The group, which is created if it does not exist.
    #[arg(value_name = "GROUP", value_parser = group)]
    group: String,
    /// The partition [default: all].
    #[arg(long, value_name = "NUMBER")]
    partition: Option<u32>,
    /// The offset of the record to read next, `first` or `next`; of a log with several partitions, an offset needs
    /// --partition.
    #[arg(long, value_name = "OFFSET", value_parser = Position::parse)]
    to: Position,
    #[command(flatten)]
    pub(super) place: LogPlace,
}

/// Where a group is to read next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    /// The first record that the partition has.
    First,
    /// The next record that is appended.
    Next,
    Offset(u64),
}

impl Position {
    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "first" => Ok(Self::First),
            "next" => Ok(Self::Next),
            _ => match quantity::parse_whole(text) {
                Ok(offset) => Ok(Self::Offset(offset)),
                Err(error) => Err(format!("`first`, `next` or an offset: {error}")),
            },
        }
    }

    /// The offset in a partition.
    async fn offset(self, log: &LogClient, partition: u32) -> Result<u64, LogError> {
        let bounds = log.bounds(partition).await?;
        match self {
            Self::First => Ok(bounds.first),
            Self::Next => Ok(bounds.next),
            Self::Offset(offset) if (bounds.first..=bounds.next).contains(&offset) => Ok(offset),
            Self::Offset(_) => Err(LogError::OutOfRange { first: bounds.first, next: bounds.next }),
        }
    }
}

fn group(text: &str) -> Result<String, String> {
    keys::check_name(text).map(str::to_owned).map_err(|error| error.to_string())
}

#[derive(Serialize)]
struct LogCommitOutput<'a> {
    group: &'a str,
    partition: u32,
    done: bool,
    offset: u64,
}

pub(super) async fn run(arguments: LogCommitArguments) -> Result<CommandEnding, CommandError> {
    let LogCommitArguments { name, group, partition, to, place } = arguments;
    let log = match place.open(&name).await? {
        Ok(log) => log,
        Err(refusal) => return refusal.print(place.json, &name),
    };
    if matches!(to, Position::Offset(_)) && partition.is_none() && log.options().partitions > 1 {
        return Err(CommandError::Usage(
            "each partition has its own offsets: name one with --partition".to_owned(),
        ));
    }
    let numbers = match partitions(&log, partition) {
        Ok(numbers) => numbers,
        Err(refusal) => return refusal.print(place.json, &name),
    };
    let mut offsets = Vec::new();
    for partition in numbers {
        match to.offset(&log, partition).await {
            Ok(offset) => offsets.push((partition, offset)),
            Err(error) => match LogRefusal::of(error) {
                Ok(refusal) => return refusal.print(place.json, &name),
                Err(error) => return Err(failed_to_read(&error)),
            },
        }
    }
    interrupt::note_sent(output::WRITE);
    let commit = CommitOffsets { group: group.clone(), owner: None, offsets: offsets.clone() };
    if let Err(error) = log.commit(commit).await {
        return print_refusal(place.json, &name, CommandUse::Write, error);
    }
    output::note_done(output::WRITE);
    if place.json {
        for &(partition, offset) in &offsets {
            output::json(&LogCommitOutput { group: &group, partition, done: true, offset })?;
        }
    } else {
        let count = counted(offsets.len() as u64, "partition");
        output::result(&format!("offsets of {count} committed"))?;
    }
    Ok(CommandEnding::Done)
}
