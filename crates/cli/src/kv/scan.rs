//! `zerohop kv scan`.

use std::ffi::OsString;
use std::ops::Bound;
use std::os::unix::ffi::OsStringExt;

use clap::Args;
use serde::Serialize;
use zerohop_client::{Error, KeyOrder, Keyspace, RangeScan, Scan, ScanKey};
use zerohop_wire::limits::SCAN_PAGE_KEYS_MAX;

use super::{KvPlace, refusal};
use crate::common::display::{JsonKey, JsonValue};
use crate::common::ending::{CommandEnding, CommandError, NOT_ORDERED};
use crate::common::names;
use crate::common::quantity;
use crate::output;

#[derive(Args, Debug)]
pub(crate) struct ScanArguments {
    /// The prefix of the keys [default: none, for all keys].
    #[arg(value_name = "PREFIX", allow_hyphen_values = true)]
    prefix: Option<OsString>,
    #[command(flatten)]
    range: RangeArguments,
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

/// What only ordered keyspaces have.
#[derive(Args, Debug)]
struct RangeArguments {
    /// Begins with this key, or the first one above it. Only in ordered keyspaces, as the next three options.
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    from: Option<OsString>,
    /// Ends before this key.
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    to: Option<OsString>,
    /// Prints the highest key first.
    #[arg(long)]
    reverse: bool,
    /// Prints the value of each key too, after a tab. Values are escaped as keys are. A list is printed as its key
    /// alone.
    #[arg(long, conflicts_with = "null")]
    values: bool,
}

/// The keys to print, page by page.
enum KeyPages {
    All(Scan),
    OfRange(RangeScan),
}

/// One line of JSON for each key.
#[derive(Serialize)]
struct ScanKeyOutput<'a> {
    #[serde(flatten)]
    key: JsonKey<'a>,
    #[serde(rename = "type")]
    record: &'static str,
    version: String,
    partition: u32,
    #[serde(flatten)]
    value: Option<JsonValue<'a>>,
}

pub(super) async fn run(arguments: ScanArguments) -> Result<CommandEnding, CommandError> {
    let place = &arguments.place;
    let keyspace = place.open().await?;
    let prefix = arguments.prefix.map(OsString::into_vec).unwrap_or_default();
    let mut left = arguments.limit.unwrap_or(u64::MAX);
    let page_keys = u32::try_from(left).unwrap_or(u32::MAX).min(arguments.page);
    if keyspace.config().order == KeyOrder::Hashed && arguments.range.has_only_values() {
        return Err(CommandError::RefusedAs {
            word: NOT_ORDERED,
            reason: values_need_order(&place.keyspace),
        });
    }
    let mut scan = arguments.range.pages(&keyspace, prefix, left, page_keys);
    let printed = output::NameList::new(arguments.null);
    while left > 0
        && let Some(keys) = scan.next_page().await?
    {
        let mut out = Vec::new();
        for key in keys.iter().take(usize::try_from(left).unwrap_or(usize::MAX)) {
            if place.json {
                out.extend_from_slice(output::json_text(&shown_key(key)).as_bytes());
                out.push(b'\n');
            } else if let Some(value) = &key.value {
                printed.add_with_value(&mut out, &key.key, value);
            } else {
                printed.add(&mut out, &key.key, "");
            }
        }
        output::raw(&[&out])?;
        left = left.saturating_sub(keys.len() as u64);
    }
    Ok(CommandEnding::Done)
}

impl RangeArguments {
    /// Whether values are wanted of keys that nothing but a prefix limits.
    fn has_only_values(&self) -> bool {
        self.values && self.from.is_none() && self.to.is_none() && !self.reverse
    }

    fn pages(self, keyspace: &Keyspace, prefix: Vec<u8>, limit: u64, page_keys: u32) -> KeyPages {
        let RangeArguments { from, to, reverse, values } = self;
        if from.is_none() && to.is_none() && !reverse && !values {
            return KeyPages::All(keyspace.scan(prefix).page_keys(page_keys));
        }
        let from = from.map_or(Bound::Unbounded, |key| Bound::Included(key.into_vec()));
        let to = to.map_or(Bound::Unbounded, |key| Bound::Excluded(key.into_vec()));
        let mut scan =
            keyspace.scan_range::<Vec<u8>>((from, to)).prefix(prefix).limit(limit).page_keys(page_keys);
        if reverse {
            scan = scan.reverse();
        }
        KeyPages::OfRange(if values { scan.values() } else { scan })
    }
}

impl KeyPages {
    async fn next_page(&mut self) -> Result<Option<Vec<ScanKey>>, Error> {
        match self {
            KeyPages::All(scan) => scan.next_page().await,
            KeyPages::OfRange(scan) => scan.next_page().await,
        }
    }
}

/// The refusal of `--values` alone in a keyspace without order.
fn values_need_order(keyspace: &str) -> String {
    format!(
        "a scan with --values needs an ordered keyspace (`zerohop keyspace create --ordered`), and {} is not ordered: scan it without \
         --values, and read values with `zerohop kv lookup`",
        names::quoted(keyspace.as_bytes())
    )
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

fn shown_key(key: &ScanKey) -> ScanKeyOutput<'_> {
    ScanKeyOutput {
        key: JsonKey(&key.key),
        record: refusal::type_name(key.record),
        version: key.version.to_string(),
        partition: key.partition.0,
        value: key.value.as_deref().map(JsonValue),
    }
}
