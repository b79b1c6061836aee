//! A record of a log on the output.

use std::collections::BTreeMap;

use serde::Serialize;
use zerohop_layer_log::LogRecord;

use super::place::LogPlace;
use crate::common::display::{JsonKey, JsonValue};
use crate::common::ending::CommandError;
use crate::output::{self, ContentsList};

/// The JSON of a record. A record without a key or value lacks the field.
#[derive(Serialize)]
struct RecordOutput<'a> {
    partition: u32,
    offset: u64,
    time_ms: u64,
    #[serde(flatten)]
    key: Option<JsonKey<'a>>,
    #[serde(flatten)]
    value: Option<JsonValue<'a>>,
    headers: BTreeMap<&'a str, Option<JsonValue<'a>>>,
}

/// Prints records of a partition: their values, one a line, or JSON.
pub(super) fn print_records<'a>(
    place: &LogPlace,
    partition: u32,
    records: impl IntoIterator<Item = &'a (u64, LogRecord)>,
) -> Result<(), CommandError> {
    let (mut out, list) = (Vec::new(), ContentsList::new());
    for (offset, record) in records {
        if place.json {
            let headers = record.headers.iter();
            let shown = RecordOutput {
                partition,
                offset: *offset,
                time_ms: record.time,
                key: record.key.as_deref().map(JsonKey),
                value: record.value.as_deref().map(JsonValue),
                headers: headers.map(|(name, value)| (&**name, value.as_deref().map(JsonValue))).collect(),
            };
            out.extend_from_slice(output::json_text(&shown).as_bytes());
            out.push(b'\n');
        } else {
            list.add(&mut out, record.value.as_deref().unwrap_or_default());
        }
    }
    output::raw(&[&out])
}
