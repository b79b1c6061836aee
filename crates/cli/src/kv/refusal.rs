//! A negative answer: an answer, not an error.

use serde::Serialize;
use zerohop_client::{Error, Failure, RecordType, Timestamp};

use super::KvPlace;
use crate::common::display::{JsonKey, JsonValue};
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::names::beginning;
use crate::output;

/// The JSON of a negative answer.
#[derive(Serialize)]
struct KvRefusal<'a> {
    #[serde(flatten)]
    key: JsonKey<'a>,
    /// Only present if there is no record.
    #[serde(skip_serializing_if = "Option::is_none")]
    found: Option<bool>,
    done: bool,
    /// `not_found`, `condition_failed`, `compare_failed` or `timed_out`.
    reason: &'static str,
    /// The version of the record, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    /// The type of the record, if the server has sent it.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    record: Option<&'static str>,
    /// The value that a comparison found.
    #[serde(flatten)]
    actual: Option<JsonValue<'a>>,
}

/// Prints a negative answer; any other error is returned.
pub(super) fn print_refusal(
    place: &KvPlace,
    key: &[u8],
    error: Error,
) -> Result<CommandEnding, CommandError> {
    let no = |reason, version: Timestamp, record: Option<RecordType>| KvRefusal {
        found: (version == Timestamp::ZERO).then_some(false),
        version: (version != Timestamp::ZERO).then(|| version.to_string()),
        record: record.map(type_name),
        ..KvRefusal::of(key, reason)
    };
    let no = match error.failure() {
        Some(Failure::NotFound) => no("not_found", Timestamp::ZERO, None),
        Some(Failure::ConditionFailed { version, found }) => no("condition_failed", *version, *found),
        Some(Failure::CompareFailed { version, seen }) => {
            KvRefusal { actual: seen.as_deref().map(JsonValue), ..no("compare_failed", *version, None) }
        }
        Some(Failure::TimedOut { version }) => no("timed_out", *version, None),
        _ => return Err(error.into()),
    };
    match place.json {
        true => output::json(&no)?,
        false => output::problem(&format!("zerohop: {error}")),
    }
    Ok(CommandEnding::No)
}

/// There is no record.
pub(super) fn not_found(place: &KvPlace, key: &[u8]) -> Result<CommandEnding, CommandError> {
    match place.json {
        true => output::json(&KvRefusal { found: Some(false), ..KvRefusal::of(key, "not_found") })?,
        false => output::problem(&format!("zerohop: key {}: there is no record of this key", beginning(key))),
    }
    Ok(CommandEnding::No)
}

impl<'a> KvRefusal<'a> {
    fn of(key: &'a [u8], reason: &'static str) -> Self {
        KvRefusal {
            key: JsonKey(key),
            found: None,
            done: false,
            reason,
            version: None,
            record: None,
            actual: None,
        }
    }
}

/// The name of a record type.
pub(crate) fn type_name(record: RecordType) -> &'static str {
    match record {
        RecordType::Bytes => "bytes",
        RecordType::List => "list",
        RecordType::Chunk => "chunk",
    }
}
