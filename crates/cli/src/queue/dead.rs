//! `zerohop queue dead`.

use std::ops::Range;

use clap::Args;
use serde::Serialize;
use zerohop_layer_queue::{DeadLetter, QueueError, keys::RecordKey};
use zerohop_queue_client::QueueClient;

use super::message::MessageOutput;
use super::place::{QueuePlace, queue_name};
use super::refusal::print_refusal;
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::refusal::CommandUse;
use crate::output::{self, ContentsList};

/// The dead letters that are read at once, with their messages.
const PAGE_LETTERS: usize = 32;

#[derive(Args, Debug)]
pub(crate) struct QueueDeadArguments {
    /// The queue.
    #[arg(value_name = "NAME", value_parser = queue_name)]
    pub(super) name: String,
    /// The highest number of dead letters.
    #[arg(long, value_name = "MESSAGES", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
    #[command(flatten)]
    pub(super) place: QueuePlace,
}

/// The JSON of a dead letter.
#[derive(Serialize)]
struct DeadOutput<'a> {
    #[serde(flatten)]
    message: MessageOutput<'a>,
    /// When it became a dead letter.
    died_ms: u64,
}

/// Reads dead letters in pages, one partition after the other.
pub(super) struct DeadLetters<'a> {
    queue: &'a QueueClient,
    partitions: Range<u32>,
    from: Option<RecordKey>,
    /// How many are still to be read; nothing: all.
    left: Option<u64>,
}

impl<'a> DeadLetters<'a> {
    pub(super) const fn new(queue: &'a QueueClient, partitions: Range<u32>, limit: Option<u64>) -> Self {
        Self { queue, partitions, from: None, left: limit }
    }

    /// The next page and its partition; nothing at the end, or at the limit.
    pub(super) async fn next_page(&mut self) -> Result<Option<(u32, Vec<DeadLetter>)>, QueueError> {
        while !self.partitions.is_empty() && self.left != Some(0) {
            let partition = self.partitions.start;
            let left = self.left.and_then(|left| usize::try_from(left).ok());
            let letters = left.unwrap_or(usize::MAX).min(PAGE_LETTERS);
            let page = self.queue.dead(partition, self.from.take(), letters).await?;
            self.from = page.next;
            if self.from.is_none() {
                self.partitions.start += 1;
            }
            if !page.letters.is_empty() {
                self.left = self.left.map(|left| left.saturating_sub(page.letters.len() as u64));
                return Ok(Some((partition, page.letters)));
            }
        }
        Ok(None)
    }

    /// Whether the limit has left some in the partition that was read last.
    pub(super) const fn has_more(&self) -> bool {
        self.from.is_some()
    }
}

pub(super) async fn run(arguments: QueueDeadArguments) -> Result<CommandEnding, CommandError> {
    let QueueDeadArguments { name, limit, place } = arguments;
    let queue = match place.open(&name).await? {
        Ok(queue) => queue,
        Err(refusal) => return refusal.print(place.json, &name),
    };
    let mut letters = DeadLetters::new(&queue, 0..queue.options().partitions, Some(limit));
    let list = ContentsList::new();
    loop {
        let (partition, page) = match letters.next_page().await {
            Ok(Some(page)) => page,
            Ok(None) => return Ok(CommandEnding::Done),
            Err(error) => return print_refusal(place.json, &name, CommandUse::Read, error),
        };
        if place.json {
            output::json_lines(page.iter().map(|letter| DeadOutput {
                message: MessageOutput::new(partition, letter.id, letter.tries, &letter.message),
                died_ms: letter.died,
            }))?;
        } else {
            let mut out = Vec::new();
            page.iter().for_each(|letter| list.add(&mut out, &letter.message.value));
            output::raw(&[&out])?;
        }
    }
}
