//! Settings of a keyspace, as they are given and as they are shown.

use clap::Args;
use serde::Serialize;
use zerohop_placement::Durability;
use zerohop_wire::admin::KeyspaceStatus;

use super::Place;
use crate::common::ending::CommandError;
use crate::output;

/// What may be changed later too.
#[derive(Args, Clone, Debug)]
pub(super) struct Changeable {
    /// Copies in all.
    #[arg(long, value_name = "COPIES")]
    pub(super) replicas: Option<u32>,
    /// Copies that must hold a write before it is acknowledged.
    #[arg(long, value_name = "COPIES")]
    pub(super) min_in_sync: Option<u32>,
    /// When a copy counts as holding a write: memory, interval (as in interval:50ms) or sync.
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
}

impl From<KeyspaceStatus> for ShownKeyspace {
    fn from(status: KeyspaceStatus) -> Self {
        let KeyspaceStatus { id, name, partitions, hash, replicas, min_in_sync, durability, chunk_bytes } =
            status;
        ShownKeyspace { name, replicas, min_in_sync, durability, partitions, id, hash, chunk_bytes }
    }
}

impl std::fmt::Display for ShownKeyspace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ShownKeyspace { name, replicas, min_in_sync, durability, partitions, hash, .. } = self;
        let copies = if *replicas == 1 { "copy" } else { "copies" };
        write!(
            f,
            "{name}: {durability}, {partitions} partitions by {hash}, {replicas} {copies} ({min_in_sync} in sync)"
        )
    }
}

/// Prints keyspaces: one, or a list of them.
pub(super) fn print_one(place: &Place, status: KeyspaceStatus) -> Result<(), CommandError> {
    let shown = ShownKeyspace::from(status);
    if place.json { output::json(&shown) } else { output::result(&shown.to_string()) }
}

/// For clap: the text itself, once it is known to be right.
fn durability(text: &str) -> Result<String, String> {
    text.parse::<Durability>().map(|_| text.to_owned()).map_err(|error| error.to_string())
}
