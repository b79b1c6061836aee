//! What the data says no to: told as a sentence or as JSON, with exit code 1.

use serde::Serialize;
use zerohop_client::{AbortReason, BlobTrouble, Error, Failure, Reason};

use super::Place;
use crate::common::ending::{CommandError, Ending};
use crate::common::shown::Name;
use crate::output;

#[derive(Serialize)]
struct No<'a> {
    #[serde(flatten)]
    name: Name<'a>,
    done: bool,
    reason: &'static str,
}

/// Of a blob that has the mark.
const UNFINISHED: &str = "it is not finished: it is being put, or its writer ended before all of it was there; put it again, or \
                          remove it with `zerohop blob rm`";

/// There is no blob of this name.
pub(super) fn not_found(place: &Place, name: &[u8]) -> Result<Ending, CommandError> {
    say(place, name, "not_found", "there is no such blob")
}

/// Tells an error that is a no of the data's; hands on any other.
pub(super) fn tell(place: &Place, name: &[u8], error: Error) -> Result<Ending, CommandError> {
    match error.failure() {
        Some(Failure::NotFound) => not_found(place, name),
        Some(Failure::ConditionFailed { .. }) => {
            say(place, name, "exists", "there is one of this name already: --replace replaces it")
        }
        _ if matches!(error, Error::Blob { why: BlobTrouble::Unfinished, .. }) => {
            say(place, name, "unfinished", UNFINISHED)
        }
        _ if is_changed(&error) => say(
            place,
            name,
            "changed",
            "what was seen of it has changed since: nothing was written; read it again",
        ),
        _ => Err(error.into()),
    }
}

/// Something that was read is another by now.
fn is_changed(error: &Error) -> bool {
    let Error::Operation { reason, .. } = error else { return false };
    matches!(**reason, Reason::Aborted { reason: AbortReason::ReadChanged, .. })
}

fn say(place: &Place, name: &[u8], reason: &'static str, text: &str) -> Result<Ending, CommandError> {
    if place.json {
        output::json(&No { name: Name(name), done: false, reason })?;
    } else {
        output::problem(&format!("zerohop: blob \"{}\": {text}", name.escape_ascii()));
    }
    Ok(Ending::No)
}
