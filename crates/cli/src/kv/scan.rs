//! `zerohop kv scan`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use clap::Args;
use serde::Serialize;
use zerohop_client::ListedKey;
use zerohop_wire::limits::SCAN_PAGE_KEYS_MAX;

use super::{KvPlace, refusal};
use crate::common::display::JsonKey;
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::quantity;
use crate::output;

#[derive(Args, Debug)]
pub(crate) struct ScanArguments {
    /// The prefix of the keys [default: none, for all keys].
    #[arg(value_name = "PREFIX", allow_hyphen_values = true)]
    prefix: Option<OsString>,
    /// The maximum number of keys to print.
    #[arg(long, value_name = "KEYS", value_parser = quantity::parse_whole)]
    limit: Option<u64>,
    /// The number of keys in one request, 1 to 4096.
    #[arg(long, value_name = "KEYS", default_value_t = SCAN_PAGE_KEYS_MAX, value_parser = page)]
    page: u32,
    /// Prints keys unchanged, with a zero byte after each instead of a line feed. Otherwise control characters such as
    /// a newline are printed as escapes (`\n`, `\xNN`). On a terminal, backslashes and bytes that are not UTF-8 are
    /// escaped too.
    #[arg(short = '0', long, conflicts_with = "json")]
    null: bool,
    #[command(flatten)]
    pub(super) place: KvPlace,
}

/// One line of JSON for each key.
#[derive(Serialize)]
struct ShownKey<'a> {
    #[serde(flatten)]
    key: JsonKey<'a>,
    #[serde(rename = "type")]
    record: &'static str,
    version: String,
    partition: u32,
}

pub(super) async fn run(arguments: ScanArguments) -> Result<CommandEnding, CommandError> {
    let place = &arguments.place;
    let keyspace = place.open().await?;
    let prefix = arguments.prefix.map(OsString::into_vec).unwrap_or_default();
    let mut left = arguments.limit.unwrap_or(u64::MAX);
    let page_keys = u32::try_from(left).unwrap_or(u32::MAX).min(arguments.page);
    let mut scan = keyspace.scan(prefix).page_keys(page_keys);
    let printed = output::NameList::new(arguments.null);
    while left > 0
        && let Some(keys) = scan.next_page().await?
    {
        let mut out = Vec::new();
        for key in keys.iter().take(usize::try_from(left).unwrap_or(usize::MAX)) {
            if place.json {
                out.extend_from_slice(output::json_text(&shown_key(key)).as_bytes());
                out.push(b'\n');
            } else {
                printed.add(&mut out, &key.key, "");
            }
        }
        output::raw(&[&out])?;
        left = left.saturating_sub(keys.len() as u64);
    }
    Ok(CommandEnding::Done)
}

/// Parses the number of keys of a page. For clap.
fn page(text: &str) -> Result<u32, String> {
    let keys = quantity::parse_whole(text)?;
    let fits = (1..=u64::from(SCAN_PAGE_KEYS_MAX)).contains(&keys);
    u32::try_from(keys)
        .ok()
        .filter(|_| fits)
        .ok_or_else(|| format!("a page has 1 to {SCAN_PAGE_KEYS_MAX} keys"))
}

fn shown_key(key: &ListedKey) -> ShownKey<'_> {
    ShownKey {
        key: JsonKey(&key.key),
        record: refusal::type_name(key.record),
        version: key.version.to_string(),
        partition: key.partition.0,
    }
}
