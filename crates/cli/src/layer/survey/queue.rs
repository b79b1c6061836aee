//! The figures of a queue.

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use tokio::time::{Instant, timeout};
use zerohop_client::Client;
use zerohop_layer_queue::PartitionStatistics;
use zerohop_queue_client::QueueClient;
use zerohop_wire::plurals::counted;

use super::partitions::{PartitionsRead, read_partitions};
use super::{ANSWER_MAX, NO_ANSWER};
use crate::common::quantity::format_time;

/// The JSON of a queue in a status.
#[derive(Debug, Serialize)]
pub(super) struct QueueFigures {
    pub(super) queue: String,
    #[serde(flatten)]
    pub(super) read: PartitionsRead,
    /// Of the partitions that were read; absent: there are none.
    #[serde(flatten)]
    pub(super) messages: Option<QueueMessages>,
}

/// The messages of a queue.
#[derive(Debug, Default, Serialize)]
pub(super) struct QueueMessages {
    /// All messages but dead letters.
    pub(super) depth: u64,
    pub(super) leased: u64,
    pub(super) delayed: u64,
    /// The age of the oldest message that is ready, leased or delayed.
    pub(super) oldest_ms: Option<u64>,
    /// There are more leased or delayed messages than were counted.
    pub(super) partial: bool,
    /// All messages that were ever pushed, dead letters that were pushed again included.
    pub(super) pushed: u64,
    /// All messages that were ever acknowledged.
    pub(super) finished: u64,
}

impl QueueMessages {
    /// Of partitions; nothing without any.
    fn of(partitions: &[PartitionStatistics], now: u64) -> Option<Self> {
        let mut all = (!partitions.is_empty()).then(Self::default)?;
        for PartitionStatistics { depth, leased, delayed, is_partial, oldest, pushed, finished } in partitions
        {
            all.depth += depth;
            all.leased += leased;
            all.delayed += delayed;
            all.oldest_ms = all.oldest_ms.max(oldest.map(|oldest| now.saturating_sub(oldest)));
            all.partial |= is_partial;
            all.pushed += pushed;
            all.finished += finished;
        }
        Some(all)
    }
}

impl QueueFigures {
    /// Reads a queue until a moment.
    pub(super) async fn read(client: &Client, name: String, until: Instant) -> Self {
        let why = match timeout(ANSWER_MAX, QueueClient::open(client, &name)).await {
            Ok(Ok(queue)) => return Self::read_opened(queue, name, until).await,
            Ok(Err(error)) => error.to_string(),
            Err(_) => NO_ANSWER.to_owned(),
        };
        Self { queue: name, read: PartitionsRead::none(why), messages: None }
    }

    async fn read_opened(queue: QueueClient, name: String, until: Instant) -> Self {
        let (found, read) = read_partitions(queue.options().partitions, until, |partition| {
            let queue = queue.clone();
            async move { queue.brief_statistics(partition).await }
        })
        .await;
        Self { queue: name, read, messages: QueueMessages::of(&found, queue.now()) }
    }
}

impl fmt::Display for QueueFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { queue, read, messages } = self;
        write!(f, "{queue}: {read}")?;
        let Some(QueueMessages { depth, leased, delayed, oldest_ms, partial, .. }) = messages else {
            return Ok(());
        };
        if !read.is_complete() {
            f.write_str("; ")?;
        }
        write!(f, "{}, {leased} leased, {delayed} delayed", counted(*depth, "message"))?;
        if let Some(age) = oldest_ms {
            write!(f, ", the oldest message is {} old", format_time(Duration::from_millis(*age)))?;
        }
        if *partial { f.write_str(", and more that were not counted") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(unread: u32, found: &[PartitionStatistics]) -> QueueFigures {
        let why = (unread > 0).then(|| NO_ANSWER.to_owned());
        let read = PartitionsRead { partitions: Some(3), unread, why };
        QueueFigures { queue: "jobs".to_owned(), read, messages: QueueMessages::of(found, 10_000) }
    }

    #[test]
    fn figures_of_partitions_are_added_and_missing_ones_are_no_zeros() {
        let one = PartitionStatistics { depth: 3, leased: 1, oldest: Some(4000), ..Default::default() };
        let other = PartitionStatistics { depth: 2, delayed: 2, oldest: Some(8000), ..Default::default() };
        let empty = PartitionStatistics::default();
        let text = figures(0, &[one, other, empty]).to_string();
        assert_eq!(text, "jobs: 5 messages, 1 leased, 2 delayed, the oldest message is 6 s old");
        assert_eq!(figures(0, &[empty; 3]).to_string(), "jobs: 0 messages, 0 leased, 0 delayed");
        let text = figures(1, &[empty, one]).to_string();
        let missing = "1 of 3 partitions has not been read: no answer in time";
        assert_eq!(
            text,
            format!("jobs: {missing}; 3 messages, 1 leased, 0 delayed, the oldest message is 6 s old")
        );
        let none = figures(3, &[]);
        assert_eq!(none.to_string(), "jobs: 3 of 3 partitions have not been read: no answer in time");
        let json = serde_json::to_value(&none).unwrap();
        assert_eq!((&json["unread"], json.get("depth")), (&serde_json::json!(3), None));
    }
}
