//! The figures of a log.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use tokio::time::{Instant, timeout};
use zerohop_client::Client;
use zerohop_log_client::{LogClient, PartitionGroups};
use zerohop_wire::plurals::counted;

use super::partitions::{PartitionsRead, read_partitions};
use super::{ANSWER_MAX, NO_ANSWER};
use crate::common::names;
use crate::common::quantity::format_bytes;

/// The JSON of a log in a status.
#[derive(Debug, Serialize)]
pub(super) struct LogFigures {
    pub(super) log: String,
    #[serde(flatten)]
    pub(super) read: PartitionsRead,
    /// Of the partitions that were read; absent: there are none.
    #[serde(flatten)]
    pub(super) content: Option<LogContent>,
}

/// The records and groups of a log.
#[derive(Debug, Default, Serialize)]
pub(super) struct LogContent {
    pub(super) records: u64,
    pub(super) bytes: u64,
    /// The greatest lag of a group; null: no group has committed an offset.
    pub(super) greatest_lag: Option<u64>,
    /// The groups that have committed an offset.
    pub(super) groups: Vec<GroupLag>,
    /// There are more groups than were read.
    pub(super) partial: bool,
}

/// A group and the records that it has not read, of the partitions where it has committed an offset.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct GroupLag {
    pub(super) group: String,
    pub(super) lag: u64,
}

impl LogContent {
    /// Of partitions; nothing without any.
    fn of(partitions: &[PartitionGroups]) -> Option<Self> {
        let mut all = (!partitions.is_empty()).then(Self::default)?;
        let mut groups: BTreeMap<&str, u64> = BTreeMap::new();
        for PartitionGroups { bounds, offsets, is_partial } in partitions {
            all.records += bounds.next.saturating_sub(bounds.first);
            all.bytes += bounds.bytes;
            all.partial |= is_partial;
            for (group, offset) in offsets {
                // Records that are gone are not read any more.
                *groups.entry(group).or_default() += bounds.next.saturating_sub((*offset).max(bounds.first));
            }
        }
        all.greatest_lag = groups.values().copied().max();
        all.groups =
            groups.into_iter().map(|(group, lag)| GroupLag { group: group.to_owned(), lag }).collect();
        Some(all)
    }
}

impl LogFigures {
    /// Reads a log until a moment.
    pub(super) async fn read(client: &Client, name: String, until: Instant) -> Self {
        let why = match timeout(ANSWER_MAX, LogClient::open(client, &name)).await {
            Ok(Ok(log)) => return Self::read_opened(log, name, until).await,
            Ok(Err(error)) => error.to_string(),
            Err(_) => NO_ANSWER.to_owned(),
        };
        Self { log: name, read: PartitionsRead::none(why), content: None }
    }

    async fn read_opened(log: LogClient, name: String, until: Instant) -> Self {
        let (found, read) = read_partitions(log.options().partitions, until, |partition| {
            let log = log.clone();
            async move { log.partition_groups(partition).await }
        })
        .await;
        Self { log: name, read, content: LogContent::of(&found) }
    }
}

/// The words for the greatest lag of some groups.
pub(crate) fn greatest_lag(groups: usize, group: &str, lag: u64) -> String {
    let lag = counted(lag, "record");
    format!(
        "{}, the greatest lag is {lag} ({})",
        counted(groups as u64, "group"),
        names::text(group.as_bytes())
    )
}

impl fmt::Display for LogFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { log, read, content } = self;
        write!(f, "{log}: {read}")?;
        let Some(LogContent { records, bytes, groups, partial, .. }) = content else { return Ok(()) };
        if !read.is_complete() {
            f.write_str("; ")?;
        }
        write!(f, "{}, {}", counted(*records, "record"), format_bytes(*bytes))?;
        // Of several groups with the same lag, the first one by name.
        if let Some(GroupLag { group, lag }) = groups.iter().rev().max_by_key(|group| group.lag) {
            write!(f, ", {}", greatest_lag(groups.len(), group, *lag))?;
        }
        if *partial { f.write_str(", and more groups that were not read") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use zerohop_layer_log::Bounds;

    use super::*;

    fn partition(next: u64, offsets: &[(&str, u64)]) -> PartitionGroups {
        let bounds = Bounds { first: 1, next, bytes: 10, batches: 1 };
        let offsets = offsets.iter().map(|(group, offset)| ((*group).to_owned(), *offset)).collect();
        PartitionGroups { bounds, offsets, is_partial: false }
    }

    #[test]
    fn lag_of_a_group_is_that_of_all_partitions() {
        let found = [partition(5, &[("a", 5), ("b", 3)]), partition(9, &[("a", 2), ("c", 2)])];
        let read = PartitionsRead { partitions: Some(2), unread: 0, why: None };
        let figures = LogFigures { log: "events".to_owned(), read, content: LogContent::of(&found) };
        assert_eq!(
            figures.to_string(),
            "events: 12 records, 20 B, 3 groups, the greatest lag is 7 records (a)"
        );
        let lags = serde_json::to_value(&figures).unwrap()["groups"].clone();
        let expected = [("a", 7), ("b", 2), ("c", 7)];
        let expected = expected.map(|(group, lag)| serde_json::json!({"group": group, "lag": lag}));
        assert_eq!(lags, serde_json::Value::from(expected.to_vec()));
    }

    #[test]
    fn records_that_are_gone_are_no_lag() {
        let bounds = Bounds { first: 4, next: 6, bytes: 10, batches: 1 };
        let found = PartitionGroups { bounds, offsets: vec![("a".to_owned(), 1)], is_partial: false };
        assert_eq!(LogContent::of(&[found]).unwrap().greatest_lag, Some(2));
    }

    #[test]
    fn log_without_groups_has_no_lag() {
        let read = PartitionsRead { partitions: Some(1), unread: 0, why: None };
        let content = LogContent::of(&[partition(2, &[])]);
        let figures = LogFigures { log: "events".to_owned(), read, content };
        assert_eq!(figures.to_string(), "events: 1 record, 10 B");
        assert_eq!(serde_json::to_value(&figures).unwrap()["greatest_lag"], serde_json::Value::Null);
    }
}
