//! Settings of a keyspace, as arguments and as output.

use std::time::Duration;

use clap::Args;
use serde::Serialize;
use zerohop_placement::limits::{HISTORY_KEPT_MS_MAX, INTERVAL_MS_MAX};
use zerohop_placement::{Durability, KeyOrder};
use zerohop_wire::admin::{KeyspaceHistory, KeyspaceStatus};
use zerohop_wire::plurals::{by_number, counted};

use super::KeyspacePlace;
use super::separators::{SeparatorOutput, divided_at};
use crate::common::ending::CommandError;
use crate::common::quantity::{self, format_bytes, format_time};
use crate::output;

/// What may be changed later too.
#[derive(Args, Clone, Debug)]
pub(super) struct ChangeableSettings {
    /// Total number of copies, each on another node: 1 to 8. Without this option, `create` uses 3, or as many as there
    /// are nodes, and `alter` leaves the number as it is.
    #[arg(long, value_name = "REPLICAS")]
    pub(super) replicas: Option<u32>,
    /// Number of copies that must have a write before it is acknowledged, at most --replicas. Without this option,
    /// `create` uses 2, or 1 if there is one copy, and `alter` leaves the number as it is.
    #[arg(long, value_name = "REPLICAS")]
    pub(super) min_in_sync: Option<u32>,
    /// When a write counts as stored in a copy. memory: at once. A restarted copy is empty. sync: when it is on the
    /// disk. interval: at once. It is on the disk at most 100 ms later. interval:TIME sets that time, as in
    /// interval:50ms, from 1ms to 60s. The units are ms, s and m. Without this option, `create` uses interval, or
    /// memory for nodes without a disk. `alter` leaves the durability as it is.
    #[arg(long, value_name = "WHEN", value_parser = durability)]
    pub(super) durability: Option<String>,
    /// How long changes are kept for `zerohop watch`, as in 1h, up to 7 days; 0s: they are not kept. Each copy keeps them in memory.
    /// Without this option, `create` keeps none, and `alter` leaves the time as it is.
    #[arg(long, value_name = "TIME", value_parser = history_ms)]
    pub(super) history: Option<u32>,
    /// The memory of these changes in each copy of a partition, from 256KiB to 1GiB. The oldest changes go first [default: 4MiB].
    #[arg(long, value_name = "BYTES", value_parser = quantity::bytes_u32)]
    pub(super) history_bytes: Option<u32>,
}

/// The JSON of a keyspace; the first five fields are a contract.
#[derive(Debug, Serialize)]
pub(crate) struct KeyspaceOutput {
    name: String,
    replicas: u32,
    min_in_sync: u32,
    durability: String,
    partitions: u32,
    id: u32,
    /// `ordered` or `hashed`.
    order: &'static str,
    /// The function that places the keys, if the keyspace is hashed.
    hash: Option<String>,
    /// The keys at which its partitions begin, after the first one, if the keyspace is ordered. A status leaves out very many.
    separators: Option<Vec<SeparatorOutput>>,
    chunk_bytes: u32,
    #[serde(flatten)]
    history: HistoryOutput,
    /// The state of its partitions, in a status.
    #[serde(skip_serializing_if = "Option::is_none")]
    health: Option<KeyspaceHealth>,
    /// Records, each counted once, and bytes of the logs of all copies, in a status.
    #[serde(skip_serializing_if = "Option::is_none")]
    records: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    log_bytes: Option<u64>,
    /// It is being dropped.
    dropping: bool,
}

/// How long changes are kept for readers that watch the keyspace, 0 if none are, and the memory of those of a copy of a partition.
#[derive(Clone, Copy, Debug, Serialize)]
struct HistoryOutput {
    history_ms: u32,
    history_bytes: u32,
}

/// The state of the partitions of a keyspace.
#[derive(Clone, Copy, Debug, Serialize)]
struct KeyspaceHealth {
    /// Partitions with fewer copies in sync than must have a write.
    below_min_in_sync: u32,
    /// Partitions with fewer copies than configured.
    rebuilding: u32,
    /// Partitions that are not served until a node that is down returns.
    lost: u32,
}

impl KeyspaceOutput {
    /// The keyspace with the state of its partitions.
    pub(crate) fn in_status(status: KeyspaceStatus) -> Self {
        let KeyspaceStatus { below_min_in_sync, rebuilding, lost, records, log_bytes, .. } = status;
        Self {
            health: Some(KeyspaceHealth { below_min_in_sync, rebuilding, lost }),
            records: Some(records),
            log_bytes: Some(log_bytes),
            ..Self::from(status)
        }
    }

    /// Its warnings, in a cluster of this many nodes.
    pub(crate) fn warnings(&self, nodes: usize) -> Vec<String> {
        let Self { name, replicas, health, .. } = self;
        let mut warnings = Vec::new();
        if self.dropping {
            warnings.push(format!(
                "keyspace {name} is being dropped: `zerohop keyspace drop {name}` waits for it, and says what it waits for"
            ));
        }
        if *replicas as usize > nodes {
            warnings.push(format!(
                "keyspace {name} asks for {replicas} copies of everything, and the cluster has {}: start more, or `zerohop keyspace alter {name} \
                 --replicas {nodes}`",
                counted(nodes, "node")
            ));
        }
        let Some(KeyspaceHealth { below_min_in_sync, lost, .. }) = health else { return warnings };
        if *lost > 0 {
            warnings.push(format!(
                "keyspace {name}: {} {} lost: no node serves {} before nodes that are down return; `zerohop recover` lists {}",
                counted(*lost, "partition"),
                by_number(*lost, "is", "are"),
                by_number(*lost, "it", "them"),
                by_number(*lost, "it", "them")
            ));
        }
        if *below_min_in_sync > *lost {
            warnings.push(format!(
                "keyspace {name}: {} {} no writes, as too few copies are in sync",
                counted(below_min_in_sync - lost, "partition"),
                by_number(below_min_in_sync - lost, "accepts", "accept")
            ));
        }
        warnings
    }
}

impl From<KeyspaceStatus> for KeyspaceOutput {
    fn from(status: KeyspaceStatus) -> Self {
        let KeyspaceStatus {
            id,
            name,
            partitions,
            hash,
            replicas,
            min_in_sync,
            durability,
            chunk_bytes,
            dropping,
            separators,
            history,
            ..
        } = status;
        let KeyspaceHistory { ms, bytes } = history.unwrap_or_default();
        let is_ordered = hash == KeyOrder::ORDERED;
        let is_named = is_ordered && separators.len() as u32 + 1 == partitions;
        KeyspaceOutput {
            name,
            replicas,
            min_in_sync,
            durability,
            partitions,
            id,
            order: if is_ordered { KeyOrder::ORDERED } else { KeyOrder::HASHED },
            hash: Some(hash).filter(|_| !is_ordered),
            separators: is_named.then(|| separators.into_iter().map(SeparatorOutput).collect()),
            chunk_bytes,
            history: HistoryOutput { history_ms: ms, history_bytes: bytes },
            health: None,
            records: None,
            log_bytes: None,
            dropping,
        }
    }
}

impl std::fmt::Display for KeyspaceOutput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let KeyspaceOutput { name, replicas, min_in_sync, durability, partitions, hash, separators, .. } =
            self;
        let placement = match (hash, separators.as_deref()) {
            (Some(hash), _) => format!("by {hash}"),
            (None, None | Some([])) => "in byte order".to_owned(),
            (None, Some(separators)) => format!("in byte order {}", divided_at(separators)),
        };
        write!(
            f,
            "{name}: {durability}, {} {placement}, {} ({min_in_sync} in sync){}",
            counted(*partitions, "partition"),
            counted(*replicas, "copy"),
            if self.dropping { ", being dropped" } else { "" }
        )?;
        let HistoryOutput { history_ms, history_bytes } = self.history;
        if history_ms > 0 {
            let kept = Duration::from_millis(history_ms.into());
            write!(
                f,
                ", history of {} and {} a partition",
                format_time(kept),
                format_bytes(history_bytes.into())
            )?;
        }
        match (self.records, self.log_bytes) {
            (Some(records), Some(bytes)) => {
                write!(f, ", {}, logs {}", counted(records, "record"), format_bytes(bytes))
            }
            _ => Ok(()),
        }
    }
}

/// Prints keyspaces: one, or a list.
pub(super) fn print_one(place: &KeyspacePlace, status: KeyspaceStatus) -> Result<(), CommandError> {
    let shown = KeyspaceOutput::from(status);
    if place.json { output::json(&shown) } else { output::result(&shown.to_string()) }
}

/// The time for which changes are kept, in milliseconds. For clap.
fn history_ms(text: &str) -> Result<u32, String> {
    let time = quantity::duration(text)?;
    match u32::try_from(time.as_millis()) {
        Ok(ms) if ms <= HISTORY_KEPT_MS_MAX => Ok(ms),
        _ => Err("changes are kept in memory, for at most 7 days: use a shorter time".to_owned()),
    }
}

/// Validates the text, and returns it in the form that nodes of all versions know. For clap.
pub(crate) fn durability(text: &str) -> Result<String, String> {
    match text.parse::<Durability>().map_err(|error| error.to_string())? {
        Durability::Interval { ms } if !(1..=INTERVAL_MS_MAX).contains(&ms) => Err(format!(
            "an interval is from 1ms to {}s: use a shorter one, or memory, or sync",
            INTERVAL_MS_MAX / 1000
        )),
        durability => Ok(durability.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_have_units_and_a_limit() {
        for (text, read) in [
            ("interval:60s", "interval:60000ms"),
            ("interval:1m", "interval:60000ms"),
            ("interval:2s", "interval:2000ms"),
            ("interval:50ms", "interval:50ms"),
            ("interval", "interval:100ms"),
            ("sync", "sync"),
        ] {
            assert_eq!(durability(text).as_deref(), Ok(read), "{text}");
        }
        for bad in ["interval:0ms", "interval:61s", "interval:2m", "interval:60001ms"] {
            assert!(durability(bad).unwrap_err().contains("from 1ms to 60s"), "{bad}");
        }
        for bad in ["interval:60", "interval:1h", "often", "interval:-1s", "interval:99999999999s"] {
            let message = durability(bad).unwrap_err();
            assert!(message.contains("ms, s or m") && message.contains("interval:60s"), "{bad}: {message}");
        }
    }
}
