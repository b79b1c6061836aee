//! `zerohop object check`.

use clap::Args;
use serde::Serialize;
use zerohop_object_client::check::CheckReport;

use super::place::ObjectPlace;
use super::refusal::{CommandKind, failed};
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::quantity::format_bytes;
use crate::output;

#[derive(Args, Debug)]
pub(crate) struct ObjectCheckArguments {
    #[command(flatten)]
    pub(super) place: ObjectPlace,
}

#[derive(Serialize)]
struct CheckOutput<'a> {
    intact: bool,
    buckets: u64,
    objects: u64,
    versions: u64,
    bytes: u64,
    uploads: u64,
    bodies: u64,
    unused_bodies: u64,
    faults: &'a [String],
}

pub(super) async fn run(arguments: ObjectCheckArguments) -> Result<CommandEnding, CommandError> {
    let place = arguments.place;
    let objects = place.open().await?;
    let report = objects.store().check().await.map_err(|error| failed(CommandKind::Read, &error))?;
    let CheckReport { buckets, objects, versions, bytes, uploads, bodies, unused_bodies, faults } = &report;
    let intact = faults.is_empty();
    if place.json {
        output::json(&CheckOutput {
            intact,
            buckets: *buckets,
            objects: *objects,
            versions: *versions,
            bytes: *bytes,
            uploads: *uploads,
            bodies: *bodies,
            unused_bodies: *unused_bodies,
            faults,
        })?;
    } else {
        let mut lines = vec![format!(
            "{buckets} buckets, {objects} objects and {versions} older versions of {}, {uploads} uploads in progress; {bodies} bodies, {unused_bodies} of them unused",
            format_bytes(*bytes)
        )];
        lines.extend(faults.iter().map(|fault| format!("FAULT: {fault}")));
        lines.push(if intact { "intact".to_owned() } else { format!("{} faults", faults.len()) });
        output::result(&lines.join("\n"))?;
    }
    Ok(if intact { CommandEnding::Done } else { CommandEnding::No })
}
