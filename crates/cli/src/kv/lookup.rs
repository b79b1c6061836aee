//! `zerohop kv lookup`.

use std::time::Duration;

use clap::Args;
use serde::Serialize;
use zerohop_client::{Info, Range};
use zerohop_system::clock::HybridClock;
use zerohop_wire::plurals::counted;

use super::{KeyArgument, KvPlace, record, refusal};
use crate::common::display::JsonKey;
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::quantity;
use crate::output;

#[derive(Args, Debug)]
pub(crate) struct LookupArguments {
    #[command(flatten)]
    pub(super) key: KeyArgument,
    /// Prints only a part: values of a list, or bytes. Positions count from 0: 10..20 (without position 20), 10.. or
    /// ..20; -5.. is the last five.
    #[arg(long, value_name = "FROM..TO", value_parser = range, allow_hyphen_values = true)]
    range: Option<Range>,
    /// Prints the type, length, version and expiry of the record, not its contents.
    #[arg(long, conflicts_with = "range")]
    info: bool,
    #[command(flatten)]
    pub(super) place: KvPlace,
}

#[derive(Serialize)]
struct RecordInfoOutput<'a> {
    #[serde(flatten)]
    key: JsonKey<'a>,
    found: bool,
    #[serde(rename = "type")]
    record: &'static str,
    version: String,
    length: u64,
    expires_at_ms: Option<u64>,
}

pub(super) async fn run(arguments: LookupArguments) -> Result<CommandEnding, CommandError> {
    let (place, key) = (arguments.place, arguments.key.into_bytes());
    let keyspace = place.open().await?;
    if arguments.info {
        return match keyspace.inspect(&key).await? {
            Some(info) => show_info(&place, &key, &info),
            None => refusal::not_found(&place, &key),
        };
    }
    let found = match arguments.range {
        Some(range) => keyspace.lookup_range(&key, range).await?,
        None => keyspace.lookup(&key).await?,
    };
    match found {
        Some(found) => record::show(&place, &keyspace, &key, found, arguments.range).await,
        None => refusal::not_found(&place, &key),
    }
}

fn show_info(place: &KvPlace, key: &[u8], info: &Info) -> Result<CommandEnding, CommandError> {
    let record = refusal::type_name(info.record);
    let version = info.version.to_string();
    if place.json {
        let (length, expires_at_ms) = (info.length, info.expires_at_ms);
        output::json(&RecordInfoOutput {
            key: JsonKey(key),
            found: true,
            record,
            version,
            length,
            expires_at_ms,
        })?;
    } else {
        let length = match record {
            "bytes" => counted(info.length, "byte"),
            list => format!("{list} of {}", counted(info.length, "value")),
        };
        let expiry = info
            .expires_at_ms
            .map_or_else(String::new, |at| expiry(at, HybridClock::default().tick().millis()));
        output::result(&format!("{length}, version {version}{expiry}"))?;
    }
    Ok(CommandEnding::Done)
}

/// The time until a record expires, by this machine's clock; both arguments are in milliseconds
/// since 1970.
fn expiry(at: u64, now: u64) -> String {
    match at.checked_sub(now) {
        Some(left) => format!(", expires in {}", quantity::format_time(Duration::from_millis(left))),
        None => ", expires now".to_owned(),
    }
}

/// Parses a range. For clap.
fn range(text: &str) -> Result<Range, String> {
    let bound = |text: &str, open: i64| if text.is_empty() { Some(open) } else { text.parse().ok() };
    text.split_once("..")
        .and_then(|(from, to)| Some(Range { start: bound(from, 0)?, stop: bound(to, i64::MAX)? }))
        .ok_or_else(|| "write a range as in 10..20, 10.., ..20, -5..".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expiry_is_printed_relative_to_now() {
        assert_eq!(expiry(1_795_647_940_092, 1_795_647_930_290), ", expires in 9.8 s");
        assert_eq!(expiry(1, 2), ", expires now");
    }

    #[test]
    fn ranges_are_read_with_open_ends() {
        assert_eq!(range("10..20"), Ok(Range { start: 10, stop: 20 }));
        assert_eq!(range(".."), Ok(Range::ALL));
        assert_eq!(range("-5.."), Ok(Range { start: -5, stop: i64::MAX }));
        assert_eq!(range("..-1"), Ok(Range { start: 0, stop: -1 }));
        for bad in ["", "5", "a..b", "1...2", "1..2..3"] {
            assert!(range(bad).is_err(), "{bad}");
        }
    }
}
