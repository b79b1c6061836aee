//! `zerohop object cp`.

use clap::Args;
use serde::Serialize;
use zerohop_objects::{Conditions, ETagMatch, ObjectError};

use super::place::{self, ObjectAddress, ObjectPlace};
use super::refusal::{CommandKind, print_refusal};
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::interrupt;
use crate::output;

#[derive(Args, Debug)]
pub(crate) struct ObjectCopyArguments {
    /// The object to copy, as BUCKET/NAME.
    #[arg(value_name = "SOURCE", value_parser = place::object)]
    source: ObjectAddress,
    /// The copy, as BUCKET/NAME.
    #[arg(value_name = "TARGET", value_parser = place::object)]
    target: ObjectAddress,
    /// Copies only if there is no object with the name of the copy.
    #[arg(long)]
    if_absent: bool,
    #[command(flatten)]
    pub(super) place: ObjectPlace,
}

#[derive(Serialize)]
struct CopyOutput<'a> {
    #[serde(flatten)]
    address: &'a ObjectAddress,
    done: bool,
    size: u64,
}

/// The conditions of a put or copy that must not replace an object.
pub(super) fn conditions(if_absent: bool) -> Conditions {
    Conditions { if_match: None, if_none_match: if_absent.then_some(ETagMatch::Any) }
}

pub(super) async fn run(arguments: ObjectCopyArguments) -> Result<CommandEnding, CommandError> {
    let ObjectCopyArguments { source, target, if_absent, place } = arguments;
    let objects = place.open().await?;
    interrupt::note_sent(output::WRITE);
    let copied = objects.copy(source.object(), target.object(), conditions(if_absent)).await;
    let object = match copied {
        Ok(object) => object,
        Err(error) => {
            let address = if error == ObjectError::NoSuchObject { &source } else { &target };
            return print_refusal(&place, address, CommandKind::Write, error);
        }
    };
    output::note_done(output::WRITE);
    if place.json {
        output::json(&CopyOutput { address: &target, done: true, size: object.size })?;
    }
    Ok(CommandEnding::Done)
}
