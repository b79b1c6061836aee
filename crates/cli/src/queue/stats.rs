//! `zerohop queue stats`.

use std::time::Duration;

use clap::Args;
use serde::Serialize;
use zerohop_layer_queue::{PartitionStatistics, QueueError, QueueOptions};
use zerohop_queue_client::QueueClient;
use zerohop_wire::plurals::counted;

use super::dead::DeadLetters;
use super::place::{QueuePlace, queue_name};
use super::refusal::print_refusal;
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::quantity::format_time;
use crate::common::refusal::CommandUse;
use crate::output;

/// The most dead letters of a partition that are counted.
const DEAD_MAX: u64 = 1000;

#[derive(Args, Debug)]
pub(crate) struct QueueStatsArguments {
    /// The queue.
    #[arg(value_name = "NAME", value_parser = queue_name)]
    pub(super) name: String,
    #[command(flatten)]
    pub(super) place: QueuePlace,
}

/// The JSON of a queue.
#[derive(Debug, Serialize)]
pub(super) struct QueueOutput {
    queue: String,
    created_ms: u64,
    lease_ms: u64,
    tries: u32,
    names_ms: u64,
    #[serde(flatten)]
    total: MessageCounts,
    partitions: Vec<QueuePartitionOutput>,
}

#[derive(Debug, Serialize)]
struct QueuePartitionOutput {
    partition: u32,
    #[serde(flatten)]
    counts: MessageCounts,
}

/// The messages of a partition, or of all.
#[derive(Debug, Default, Serialize)]
struct MessageCounts {
    /// All messages but dead letters.
    depth: u64,
    leased: u64,
    delayed: u64,
    /// The age of the oldest message that is ready, leased or delayed.
    oldest_ms: Option<u64>,
    dead: u64,
    /// There are more leased, delayed or dead messages than were counted.
    partial: bool,
    /// All messages that were ever pushed, dead letters that were pushed again included.
    pushed: u64,
    /// All messages that were ever acknowledged.
    finished: u64,
}

impl MessageCounts {
    async fn read(queue: &QueueClient, partition: u32) -> Result<Self, QueueError> {
        let statistics = queue.statistics(partition).await?;
        let PartitionStatistics { depth, leased, delayed, is_partial, oldest, pushed, finished } = statistics;
        let (mut letters, mut dead) = (DeadLetters::new(queue, partition..partition + 1, Some(DEAD_MAX)), 0);
        while let Some((_, page)) = letters.next_page().await? {
            dead += page.len() as u64;
        }
        let now = queue.now();
        Ok(Self {
            depth,
            leased,
            delayed,
            oldest_ms: oldest.map(|oldest| now.saturating_sub(oldest)),
            dead,
            partial: is_partial || letters.has_more(),
            pushed,
            finished,
        })
    }

    fn add(&mut self, other: &Self) {
        self.depth += other.depth;
        self.leased += other.leased;
        self.delayed += other.delayed;
        self.oldest_ms = self.oldest_ms.max(other.oldest_ms);
        self.dead += other.dead;
        self.partial |= other.partial;
        self.pushed += other.pushed;
        self.finished += other.finished;
    }

    fn text(&self) -> String {
        let Self { depth, leased, delayed, dead, .. } = self;
        let messages = counted(*depth, "message");
        let letters = counted(*dead, "dead letter");
        let mut text = format!("{messages}, {leased} leased, {delayed} delayed, {letters}");
        if let Some(age) = self.oldest_ms {
            text += &format!(", the oldest message is {} old", format_time(Duration::from_millis(age)));
        }
        if self.partial {
            text += ", and more that were not counted";
        }
        text
    }
}

impl QueueOutput {
    /// Counts the messages of all partitions.
    pub(super) async fn read(queue: &QueueClient, name: String) -> Result<Self, QueueError> {
        let QueueOptions { id: _, created, partitions: count, lease, tries, names } = *queue.options();
        let (mut total, mut partitions) = (MessageCounts::default(), Vec::new());
        for partition in 0..count {
            let counts = MessageCounts::read(queue, partition).await?;
            total.add(&counts);
            partitions.push(QueuePartitionOutput { partition, counts });
        }
        Ok(Self {
            queue: name,
            created_ms: created,
            lease_ms: lease,
            tries,
            names_ms: names,
            total,
            partitions,
        })
    }

    /// One line.
    pub(super) fn line(&self) -> String {
        let partitions = counted(self.partitions.len() as u64, "partition");
        format!("{}: {partitions}, {}", self.queue, self.total.text())
    }

    fn options(&self) -> String {
        let lease = format_time(Duration::from_millis(self.lease_ms));
        let tries = match self.tries {
            0 => "without limit".to_owned(),
            tries => tries.to_string(),
        };
        match self.names_ms {
            0 => format!("  lease {lease}, tries {tries}, names do not count"),
            names => {
                format!("  lease {lease}, tries {tries}, names {}", format_time(Duration::from_millis(names)))
            }
        }
    }
}

pub(super) async fn run(arguments: QueueStatsArguments) -> Result<CommandEnding, CommandError> {
    let QueueStatsArguments { name, place } = arguments;
    let queue = match place.open(&name).await? {
        Ok(queue) => queue,
        Err(refusal) => return refusal.print(place.json, &name),
    };
    match QueueOutput::read(&queue, name.clone()).await {
        Ok(shown) => print_queue(&place, &shown)?,
        Err(error) => return print_refusal(place.json, &name, CommandUse::Read, error),
    }
    Ok(CommandEnding::Done)
}

/// Prints a queue with its partitions.
pub(super) fn print_queue(place: &QueuePlace, shown: &QueueOutput) -> Result<(), CommandError> {
    if place.json {
        return output::json(shown);
    }
    let mut lines = vec![shown.line(), shown.options()];
    let partition =
        |one: &QueuePartitionOutput| format!("  partition {}: {}", one.partition, one.counts.text());
    lines.extend(shown.partitions.iter().map(partition));
    output::result(&lines.join("\n"))
}
