//! `zerohop region list`: the keys and the instances of each region.

use clap::Args;
use serde::Serialize;
use zerohop_client::Client;
use zerohop_wire::admin::PartitionStatus;

use crate::common::display::JsonKey;
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::replica_names::Places;
use crate::common::target::ClusterTarget;
use crate::common::{admin, names, view};
use crate::keyspace::find;
use crate::output;

/// The heading of the table.
const HEADING: &str = "region\tfrom\tto\tepoch\tprimary (NODE:INSTANCE)\tin sync\tfollowing\tstate";

/// How often the regions are requested again because a split came between two requests.
const ATTEMPTS_MAX: u32 = 5;

#[derive(Args, Debug)]
pub(crate) struct RegionListArguments {
    /// The ordered keyspace.
    keyspace: String,
    #[command(flatten)]
    target: ClusterTarget,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct RegionOutput<'a> {
    /// Its number. A region that is split out of it has another one.
    region: u32,
    /// Its lowest key; absent in the first region.
    from: Option<JsonKey<'a>>,
    /// The lowest key of the next region; absent in the last region.
    to: Option<JsonKey<'a>>,
    epoch: u64,
    primary: u32,
    in_sync: &'a [u32],
    followers: &'a [u32],
    state: &'a str,
    lost: bool,
}

pub(super) async fn run(arguments: RegionListArguments) -> Result<CommandEnding, CommandError> {
    let client = arguments.target.connect().await?;
    let (separators, regions) = regions(&client, &arguments.keyspace).await?;
    let status = admin::status(&client).await?;
    view::print_problems(&status, arguments.json)?;
    let bounds = |at: usize| {
        let from = at.checked_sub(1).map(|before| &separators[before][..]);
        (from, separators.get(at).map(|to| &to[..]))
    };
    if arguments.json {
        let line = |(at, one): (usize, &PartitionStatus)| {
            let (from, to) = bounds(at);
            output::json_text(&RegionOutput {
                region: one.partition,
                from: from.map(JsonKey),
                to: to.map(JsonKey),
                epoch: one.epoch,
                primary: one.primary,
                in_sync: &one.in_sync,
                followers: &one.followers,
                state: &one.state,
                lost: one.lost,
            })
        };
        output::result(&regions.iter().enumerate().map(line).collect::<Vec<_>>().join("\n"))?;
        return Ok(CommandEnding::Done);
    }
    let places = Places::of(&status);
    let line = |(at, one): (usize, &PartitionStatus)| {
        let (from, to) = bounds(at);
        let key = |key: Option<&[u8]>| key.map_or_else(|| "-".to_owned(), names::quoted);
        let state = if one.lost { "LOST" } else { &one.state };
        let (primary, in_sync) = (places.name(one.primary), places.names(&one.in_sync));
        let (from, to, followers) = (key(from), key(to), places.names(&one.followers));
        format!("{}\t{from}\t{to}\t{}\t{primary}\t{in_sync}\t{followers}\t{state}", one.partition, one.epoch)
    };
    output::result(HEADING)?;
    output::result(&regions.iter().enumerate().map(line).collect::<Vec<_>>().join("\n"))?;
    Ok(CommandEnding::Done)
}

/// The separators of a keyspace, and its regions in the order of their keys. They are of two answers, and of one division.
async fn regions(
    client: &Client,
    keyspace: &str,
) -> Result<(Vec<Vec<u8>>, Vec<PartitionStatus>), CommandError> {
    for _ in 0..ATTEMPTS_MAX {
        let found = find(client, keyspace).await?;
        if found.hash != zerohop_client::KeyOrder::ORDERED {
            return Err(CommandError::Refused(format!(
                "keyspace {keyspace} is hashed and has no regions: `zerohop partition list {keyspace}` lists its partitions"
            )));
        }
        let (regions, _) = admin::partitions(client, keyspace).await?;
        if found.separators.len() + 1 == regions.len() {
            return Ok((found.separators, regions));
        }
    }
    Err(CommandError::Refused(format!("the regions of keyspace {keyspace} are being split: list them again")))
}
