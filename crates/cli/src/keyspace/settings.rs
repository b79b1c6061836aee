//! Settings of a keyspace, as arguments and as output.

use clap::Args;
use serde::Serialize;
use zerohop_placement::Durability;
use zerohop_wire::admin::KeyspaceStatus;
use zerohop_wire::words::{by_number, counted};

use super::KeyspacePlace;
use crate::common::ending::CommandError;
use crate::output;

/// What may be changed later too.
#[derive(Args, Clone, Debug)]
pub(super) struct ChangeableSettings {
    /// Total number of copies.
    #[arg(long, value_name = "COPIES")]
    pub(super) replicas: Option<u32>,
    /// Number of copies that must have a write before it is acknowledged.
    #[arg(long, value_name = "COPIES")]
    pub(super) min_in_sync: Option<u32>,
    /// When a write counts as stored in a copy: memory, interval (as in interval:50ms) or sync.
    #[arg(long, value_name = "WHEN", value_parser = durability)]
    pub(super) durability: Option<String>,
}

/// The JSON of a keyspace; the first five fields are a contract.
#[derive(Debug, Serialize)]
pub(crate) struct ShownKeyspace {
    name: String,
    replicas: u32,
    min_in_sync: u32,
    durability: String,
    partitions: u32,
    id: u32,
    hash: String,
    chunk_bytes: u32,
    /// The state of its partitions, in a status.
    #[serde(skip_serializing_if = "Option::is_none")]
    standing: Option<KeyspaceHealth>,
    /// It is being dropped.
    closing: bool,
}

/// The state of the partitions of a keyspace.
#[derive(Clone, Copy, Debug, Serialize)]
struct KeyspaceHealth {
    /// Partitions with fewer copies in sync than must have a write.
    short: u32,
    /// Partitions with fewer copies than configured.
    rebuilding: u32,
    /// Partitions that are not served until a node that is down returns.
    lost: u32,
}

impl ShownKeyspace {
    /// The keyspace with the state of its partitions.
    pub(crate) fn in_status(status: KeyspaceStatus) -> Self {
        let KeyspaceStatus { short, rebuilding, lost, .. } = status;
        Self { standing: Some(KeyspaceHealth { short, rebuilding, lost }), ..Self::from(status) }
    }

    /// Its warnings, in a cluster of this many nodes.
    pub(crate) fn warnings(&self, nodes: usize) -> Vec<String> {
        let Self { name, replicas, standing, .. } = self;
        let mut warnings = Vec::new();
        if self.closing {
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
        let Some(KeyspaceHealth { short, lost, .. }) = standing else { return warnings };
        if *lost > 0 {
            warnings.push(format!(
                "keyspace {name}: {} {} lost: no node serves {} before nodes that are down return; `zerohop recover` lists {}",
                counted(*lost, "partition"),
                by_number(*lost, "is", "are"),
                by_number(*lost, "it", "them"),
                by_number(*lost, "it", "them")
            ));
        }
        if *short > *lost {
            warnings.push(format!(
                "keyspace {name}: {} {} no writes, as too few copies are in sync",
                counted(short - lost, "partition"),
                by_number(short - lost, "accepts", "accept")
            ));
        }
        warnings
    }
}

impl From<KeyspaceStatus> for ShownKeyspace {
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
            closing,
            ..
        } = status;
        ShownKeyspace {
            name,
            replicas,
            min_in_sync,
            durability,
            partitions,
            id,
            hash,
            chunk_bytes,
            standing: None,
            closing,
        }
    }
}

impl std::fmt::Display for ShownKeyspace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ShownKeyspace { name, replicas, min_in_sync, durability, partitions, hash, .. } = self;
        write!(
            f,
            "{name}: {durability}, {} by {hash}, {} ({min_in_sync} in sync){}",
            counted(*partitions, "partition"),
            counted(*replicas, "copy"),
            if self.closing { ", being dropped" } else { "" }
        )
    }
}

/// Prints keyspaces: one, or a list.
pub(super) fn print_one(place: &KeyspacePlace, status: KeyspaceStatus) -> Result<(), CommandError> {
    let shown = ShownKeyspace::from(status);
    if place.json { output::json(&shown) } else { output::result(&shown.to_string()) }
}

/// Validates the text and returns it. For clap.
fn durability(text: &str) -> Result<String, String> {
    text.parse::<Durability>().map(|_| text.to_owned()).map_err(|error| error.to_string())
}
