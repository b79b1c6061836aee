//! Negative answers of blob operations: a sentence or JSON, with exit code 1.

use serde::Serialize;
use zerohop_client::{AbortReason, BlobError, Error, Failure, Reason};

use super::BlobPlace;
use crate::common::display::Name;
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::names::beginning;
use crate::output;

#[derive(Serialize)]
struct BlobRefusal<'a> {
    #[serde(flatten)]
    name: Name<'a>,
    /// Only present if there is no blob.
    #[serde(skip_serializing_if = "Option::is_none")]
    found: Option<bool>,
    done: bool,
    reason: &'static str,
}

/// The reason if the blob is marked as unfinished.
pub(super) const UNFINISHED: &str = "unfinished";

/// The text for such a blob.
const UNFINISHED_TEXT: &str = "it is not finished: it is being put, or its writer ended before all of it was there; put it again, or \
                          remove it with `zerohop blob rm`";

/// The reason if there is no blob.
const NOT_FOUND: &str = "not_found";

/// There is no blob of this name.
pub(super) fn not_found(place: &BlobPlace, name: &[u8]) -> Result<CommandEnding, CommandError> {
    print_reason(place, name, NOT_FOUND, "there is no such blob")
}

/// Prints an error that is a negative answer; returns any other.
pub(super) fn print_refusal(
    place: &BlobPlace,
    name: &[u8],
    error: Error,
) -> Result<CommandEnding, CommandError> {
    match error.failure() {
        Some(Failure::NotFound) => not_found(place, name),
        Some(Failure::ConditionFailed { .. }) => {
            print_reason(place, name, "exists", "there is one of this name already: --replace replaces it")
        }
        _ if matches!(error, Error::Blob { why: BlobError::Unfinished, .. }) => {
            print_reason(place, name, UNFINISHED, UNFINISHED_TEXT)
        }
        _ if is_changed(&error) => print_reason(
            place,
            name,
            "changed",
            "the part that was read has changed since: nothing was written; read it again",
        ),
        _ => Err(error.into()),
    }
}

/// Whether something that was read has changed.
fn is_changed(error: &Error) -> bool {
    let Error::Operation { reason, .. } = error else { return false };
    matches!(**reason, Reason::Aborted { reason: AbortReason::ReadChanged, .. })
}

fn print_reason(
    place: &BlobPlace,
    name: &[u8],
    reason: &'static str,
    text: &str,
) -> Result<CommandEnding, CommandError> {
    if place.json {
        let found = (reason == NOT_FOUND).then_some(false);
        output::json(&BlobRefusal { name: Name(name), found, done: false, reason })?;
    } else {
        output::problem(&format!("zerohop: blob {}: {text}", beginning(name)));
    }
    Ok(CommandEnding::No)
}
