//! Negative answers about objects: a sentence or JSON, with exit code 1.

use serde::Serialize;
use zerohop_objects::ObjectError;

use super::place::{ObjectAddress, ObjectPlace};
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::names;
use crate::output;

#[derive(Serialize)]
struct ObjectRefusal<'a> {
    #[serde(flatten)]
    address: &'a ObjectAddress,
    done: bool,
    reason: &'static str,
}

/// Whether a command that fails may have changed something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommandKind {
    Read,
    Write,
}

/// Prints an error that is a negative answer; returns any other.
pub(super) fn print_refusal(
    place: &ObjectPlace,
    address: &ObjectAddress,
    kind: CommandKind,
    error: ObjectError,
) -> Result<CommandEnding, CommandError> {
    let (reason, text) = match error {
        ObjectError::NoSuchBucket => {
            ("no_bucket", "there is no such bucket: `zerohop object mb` creates one")
        }
        ObjectError::NoSuchObject => ("not_found", "there is no such object"),
        ObjectError::BucketExists => ("exists", "there is a bucket of this name already"),
        ObjectError::BucketNotEmpty => {
            ("not_empty", "the bucket has objects: `zerohop object rm --recursive` removes them")
        }
        ObjectError::PreconditionFailed => ("exists", "there is an object of this name already"),
        error => return Err(failed(kind, &error)),
    };
    if place.json {
        output::json(&ObjectRefusal { address, done: false, reason })?;
    } else {
        output::problem(&format!("zerohop: {}: {text}", names::quoted(address.to_string().as_bytes())));
    }
    Ok(CommandEnding::No)
}

/// The error of a command that was not carried out.
pub(super) fn failed(kind: CommandKind, error: &ObjectError) -> CommandError {
    match error {
        ObjectError::Unavailable(_) if kind == CommandKind::Write => {
            CommandError::InDoubt(format!("{error}; the change may be done: look before you repeat it"))
        }
        ObjectError::Unavailable(why) => CommandError::RefusedAs { word: "unavailable", reason: why.clone() },
        ObjectError::NoRoom => CommandError::RefusedAs {
            word: "no_room",
            reason: "the disk or memory of a node is full: `zerohop doctor` shows which".to_owned(),
        },
        ObjectError::Corrupt(_) => CommandError::RefusedAs { word: "corrupt", reason: error.to_string() },
        ObjectError::Refused(why) => CommandError::refused_by_store(why.clone()),
        other => CommandError::Refused(other.to_string()),
    }
}
