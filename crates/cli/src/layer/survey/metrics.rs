//! The figures of queues and logs as text for Prometheus.

use std::fmt;

use zerohop_monitoring::{Family, MetricsCollector, MetricsEncoder, encode_metrics};

use super::LayerSurvey;
use super::log::{LogContent, LogFigures};
use super::queue::{QueueFigures, QueueMessages};

/// The text of the metrics of a survey.
pub(crate) type LayerMetrics = fn(LayerSurvey) -> Result<String, fmt::Error>;

/// A figure of queues: name, help, and the function that reads it.
type QueueFigure = (&'static str, &'static str, fn(&QueueMessages) -> u64);

/// A figure of logs.
type LogFigure = (&'static str, &'static str, fn(&LogContent) -> u64);

const QUEUE_GAUGES: [QueueFigure; 3] = [
    ("queue_depth", "Messages without dead letters", |messages| messages.depth),
    ("queue_leases", "Messages that consumers have leased", |messages| messages.leased),
    ("queue_delayed", "Messages that are not ready yet", |messages| messages.delayed),
];

const LOG_GAUGES: [LogFigure; 2] = [
    ("log_records", "Records of a log", |content| content.records),
    ("log_records_bytes", "Bytes of the batches of a log", |content| content.bytes),
];

#[derive(Debug)]
struct QueueMetrics(LayerSurvey);

#[derive(Debug)]
struct LogMetrics(LayerSurvey);

/// The metrics of queues.
///
/// # Errors
/// Those of a writer; a string never fails.
pub(crate) fn queue_metrics(survey: LayerSurvey) -> Result<String, fmt::Error> {
    encode_metrics(QueueMetrics(survey))
}

/// The metrics of logs.
///
/// # Errors
/// Those of a writer; a string never fails.
pub(crate) fn log_metrics(survey: LayerSurvey) -> Result<String, fmt::Error> {
    encode_metrics(LogMetrics(survey))
}

impl MetricsCollector for QueueMetrics {
    fn encode(&self, mut encoder: MetricsEncoder<'_>) -> fmt::Result {
        let Self(LayerSurvey { queues, unread_keyspaces, .. }) = self;
        let help = "1 if all partitions of the queue were read; otherwise its figures are too low, or absent";
        let mut family = Family::gauge(&mut encoder, "queue_complete", help)?;
        for QueueFigures { queue, read, .. } in queues {
            family.gauge_of(&vec![("queue", queue)], u64::from(read.is_complete()))?;
        }
        let figures = || {
            queues
                .iter()
                .filter_map(|queue| Some((vec![("queue", queue.queue.as_str())], queue.messages.as_ref()?)))
        };
        for (name, help, read) in QUEUE_GAUGES {
            let mut family = Family::gauge(&mut encoder, name, help)?;
            for (labels, messages) in figures() {
                family.gauge_of(&labels, read(messages))?;
            }
        }
        let help = "Age of the oldest message that is ready, leased or delayed; 0 without one";
        let mut family = Family::gauge(&mut encoder, "queue_oldest_seconds", help)?;
        for (labels, messages) in figures() {
            family.value_of(&labels, messages.oldest_ms.unwrap_or_default() as f64 / 1e3)?;
        }
        let help = "Messages that were pushed, dead letters that were pushed again included";
        let mut family = Family::counter(&mut encoder, "queue_pushed", help)?;
        // With a partition less, a counter would fall.
        let complete = || queues.iter().filter(|queue| queue.read.is_complete());
        for QueueFigures { queue, messages, .. } in complete() {
            if let Some(messages) = messages {
                family.counter_of(&vec![("queue", queue)], messages.pushed)?;
            }
        }
        let help = "Messages that were acknowledged";
        let mut family = Family::counter(&mut encoder, "queue_finished", help)?;
        for QueueFigures { queue, messages, .. } in complete() {
            if let Some(messages) = messages {
                family.counter_of(&vec![("queue", queue)], messages.finished)?;
            }
        }
        let help = "Ordered keyspaces that may have a queue, and were not read";
        let unread = unread_keyspaces.len() as u64;
        Family::gauge(&mut encoder, "queue_unread_keyspaces", help)?.gauge_of(&Vec::new(), unread)
    }
}

impl MetricsCollector for LogMetrics {
    fn encode(&self, mut encoder: MetricsEncoder<'_>) -> fmt::Result {
        let Self(LayerSurvey { logs, unread_keyspaces, .. }) = self;
        let help = "1 if all partitions of the log were read; otherwise its figures are too low, or absent";
        let mut family = Family::gauge(&mut encoder, "log_complete", help)?;
        for LogFigures { log, read, .. } in logs {
            family.gauge_of(&vec![("log", log)], u64::from(read.is_complete()))?;
        }
        let figures = || logs.iter().filter_map(|log| Some((log.log.as_str(), log.content.as_ref()?)));
        for (name, help, read) in LOG_GAUGES {
            let mut family = Family::gauge(&mut encoder, name, help)?;
            for (log, content) in figures() {
                family.gauge_of(&vec![("log", log)], read(content))?;
            }
        }
        let help = "Records that a group has not read, of the partitions where it has committed an offset";
        let mut family = Family::gauge(&mut encoder, "log_group_lag", help)?;
        for (log, content) in figures() {
            for one in &content.groups {
                family.gauge_of(&vec![("log", log), ("group", &one.group)], one.lag)?;
            }
        }
        let help = "Ordered keyspaces that may have a log, and were not read";
        let unread = unread_keyspaces.len() as u64;
        Family::gauge(&mut encoder, "log_unread_keyspaces", help)?.gauge_of(&Vec::new(), unread)
    }
}
