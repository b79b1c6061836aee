//! Prints a record: exactly what is stored, or as JSON.

use bytes::Bytes;
use serde::Serialize;
use zerohop_client::{Keyspace, Range, Record};

use super::KvPlace;
use crate::common::display::{JsonKey, JsonValue};
use crate::common::ending::{CommandEnding, CommandError};
use crate::output;

/// The JSON of a bytes record.
#[derive(Serialize)]
struct BytesRecordOutput<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    #[serde(flatten)]
    value: JsonValue<'a>,
}

/// The JSON fields before the contents.
#[derive(Serialize)]
struct Head<'a> {
    #[serde(flatten)]
    key: JsonKey<'a>,
    found: bool,
    #[serde(rename = "type")]
    record: &'static str,
    version: String,
    /// The length of the whole record, in bytes or values.
    length: u64,
    /// The position of the first printed value of a list.
    #[serde(skip_serializing_if = "Option::is_none")]
    first: Option<u64>,
}

#[derive(Serialize)]
struct AbsentRecord<'a> {
    #[serde(flatten)]
    key: JsonKey<'a>,
    found: bool,
}

/// Prints a record, or the requested part of it. For a long list `record` is the first page: the
/// other pages are fetched while it is printed, and show the list as of then.
pub(super) async fn show(
    place: &KvPlace,
    keyspace: &Keyspace,
    key: &[u8],
    record: Record,
    range: Option<Range>,
) -> Result<CommandEnding, CommandError> {
    if place.removes_shown {
        output::note_done(output::WRITE);
    }
    match record {
        Record::Bytes { version, length, bytes } if place.json => {
            let head = Head {
                key: JsonKey(key),
                found: true,
                record: "bytes",
                version: version.to_string(),
                length,
                first: None,
            };
            output::json(&BytesRecordOutput { head, value: JsonValue(&bytes) })?;
        }
        Record::Bytes { bytes, .. } => {
            let needs_line_feed = output::is_terminal() && !bytes.ends_with(b"\n");
            output::raw(&[&bytes, if needs_line_feed { b"\n" } else { b"" }])?;
        }
        Record::List { version, length, first, values } => {
            let head = Head {
                key: JsonKey(key),
                found: true,
                record: "list",
                version: version.to_string(),
                length,
                first: Some(first),
            };
            let stop = range.unwrap_or(Range::ALL).clip(length).end;
            show_list(place, keyspace, &head, values, first, stop).await?;
        }
    }
    Ok(CommandEnding::Done)
}

/// Prints that there is no record, which was the awaited state.
pub(super) fn show_absent(place: &KvPlace, key: &[u8]) -> Result<CommandEnding, CommandError> {
    if place.json {
        output::json(&AbsentRecord { key: JsonKey(key), found: false })?;
    }
    Ok(CommandEnding::Done)
}

/// Prints a list page by page: only the memory of the node limits its length.
async fn show_list(
    place: &KvPlace,
    keyspace: &Keyspace,
    head: &Head<'_>,
    mut values: Vec<Bytes>,
    mut first: u64,
    stop: u64,
) -> Result<(), CommandError> {
    if place.json {
        let head = output::json_text(head);
        output::raw(&[head.trim_end_matches('}').as_bytes(), b",\"values\":["])?;
    }
    let mut is_first = true;
    while !values.is_empty() {
        print_values(place.json, &values, &mut is_first)?;
        first += values.len() as u64;
        if first >= stop {
            break;
        }
        let range = Range { start: position_of(first), stop: position_of(stop) };
        values = match keyspace.lookup_range(head.key.0, range).await? {
            // If values were removed from its head meanwhile, the page would have other values than
            // requested.
            Some(Record::List { values, first: found, .. }) if found == first => values,
            _ => Vec::new(),
        };
    }
    if place.json { output::raw(&[b"]}\n"]) } else { Ok(()) }
}

fn print_values(is_json: bool, values: &[Bytes], is_first: &mut bool) -> Result<(), CommandError> {
    let mut out = Vec::with_capacity(values.iter().map(|value| value.len() + 16).sum());
    for value in values {
        if is_json {
            out.extend_from_slice(if std::mem::take(is_first) { b"" } else { b"," });
            out.extend_from_slice(output::json_text(&JsonValue(value)).as_bytes());
        } else {
            out.extend_from_slice(value);
            out.push(b'\n');
        }
    }
    output::raw(&[&out])
}

fn position_of(at: u64) -> i64 {
    i64::try_from(at).unwrap_or(i64::MAX)
}
