//! `zerohop keyspace create`.

use std::ffi::OsString;

use clap::Args;
use zerohop_placement::{HashKind, KeyOrder};
use zerohop_wire::admin::KeyspaceSettings;

use super::KeyspacePlace;
use super::separators::read_keys;
use super::settings::{ChangeableSettings, print_one};
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::{admin, quantity};
use crate::output;

#[derive(Args, Debug)]
pub(crate) struct CreateArguments {
    /// The name of the keyspace: 1 to 63 ASCII letters, digits, `.`, `_` and `-`, of which the first is a letter or
    /// digit.
    name: String,
    /// Number of partitions, a power of two up to 65536. `keyspace split` can double it later [default: 256].
    #[arg(long, value_name = "COUNT")]
    partitions: Option<u32>,
    /// The hash function of keys: xxh3, fnv1a, jenkins, sdbm or crc16 (Redis slots). It cannot be changed later
    /// [default: xxh3].
    #[arg(long, value_name = "NAME", value_parser = hash)]
    hash: Option<String>,
    /// Keeps the keys in byte order, for scans of ranges (`kv scan --from`). An ordered keyspace begins with one partition
    /// unless --split-at is given. The order cannot be changed later.
    #[arg(long, conflicts_with_all = ["hash", "partitions"])]
    ordered: bool,
    /// Divides an ordered keyspace at these keys. Each key is the lowest key of a partition. A comma, a backslash and bytes that are no text are written as `\,`, `\\` and `\xNN`.
    /// The option may be given several times. `region split` adds keys later.
    #[arg(long, value_name = "KEY,...", requires = "ordered", allow_hyphen_values = true)]
    split_at: Vec<OsString>,
    /// The size of blob chunks, a power of two from 4KiB to 8MiB. It cannot be changed later [default: 1MiB].
    #[arg(long, value_name = "BYTES", value_parser = quantity::bytes_u32)]
    chunk_size: Option<u32>,
    #[command(flatten)]
    changeable: ChangeableSettings,
    #[command(flatten)]
    place: KeyspacePlace,
}

pub(super) async fn run(arguments: CreateArguments) -> Result<CommandEnding, CommandError> {
    let CreateArguments { name, partitions, hash, ordered, split_at, chunk_size, changeable, place } =
        arguments;
    let split_at = if split_at.is_empty() { Vec::new() } else { read_keys("--split-at", split_at)? };
    // A node that does not know separators refuses the number.
    let regions = (!split_at.is_empty()).then(|| split_at.len() as u32 + 1);
    let settings = KeyspaceSettings {
        name,
        partitions: regions.or(partitions),
        hash: if ordered { Some(KeyOrder::ORDERED.to_owned()) } else { hash },
        replicas: changeable.replicas,
        min_in_sync: changeable.min_in_sync,
        durability: changeable.durability,
        chunk_bytes: chunk_size,
        split_at,
        history_ms: changeable.history,
        history_bytes: changeable.history_bytes,
    };
    let client = place.target.connect().await?;
    let created = admin::create(&client, settings).await?;
    output::note_done(output::COMMAND);
    print_one(&place, created)?;
    Ok(CommandEnding::Done)
}

/// Validates the text and returns it. For clap.
fn hash(text: &str) -> Result<String, String> {
    text.parse::<HashKind>().map(|_| text.to_owned()).map_err(|error| error.to_string())
}
