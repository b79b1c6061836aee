//! `zerohop region split`.

use std::ffi::OsString;

use clap::Args;
use serde::Serialize;

use crate::common::display::JsonKey;
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::target::ClusterTarget;
use crate::common::{admin, names};
use crate::keyspace::read_keys;
use crate::output;

#[derive(Args, Debug)]
pub(crate) struct RegionSplitArguments {
    /// The ordered keyspace.
    keyspace: String,
    /// The keys at which regions begin, with commas between them, or the option several times. `\\`, `\,`, `\n`, `\t` and
    /// `\xNN` stand for a byte.
    #[arg(long = "at", value_name = "KEY,…", required = true)]
    at: Vec<OsString>,
    #[command(flatten)]
    target: ClusterTarget,
    /// Prints JSON: one line for each key.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct RegionSplitOutput<'a> {
    keyspace: &'a str,
    at: JsonKey<'a>,
    /// The number of regions of the keyspace after the split.
    regions: u32,
}

pub(super) async fn run(arguments: RegionSplitArguments) -> Result<CommandEnding, CommandError> {
    let RegionSplitArguments { keyspace, at, target, json } = arguments;
    let keys = read_keys("--at", at)?;
    let client = target.connect().await?;
    for key in &keys {
        let after = admin::split_region(&client, &keyspace, key).await?;
        let regions = after.partitions;
        match json {
            true => output::json(&RegionSplitOutput { keyspace: &keyspace, at: JsonKey(key), regions })?,
            false => output::result(&format!(
                "a region of {keyspace} begins at {}; the keyspace has {regions} regions",
                names::quoted(key)
            ))?,
        }
    }
    Ok(CommandEnding::Done)
}
