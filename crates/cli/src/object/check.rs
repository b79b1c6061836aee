//! `zerohop object check`.

use clap::Args;
use serde::Serialize;
use zerohop_object_client::check::CheckReport;
use zerohop_wire::plurals::counted;

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
            "{}, {} and {} of {}, {} in progress; {}, {unused_bodies} of them unused",
            counted(*buckets, "bucket"),
            counted(*objects, "object"),
            counted(*versions, "older version"),
            format_bytes(*bytes),
            counted(*uploads, "upload"),
            counted(*bodies, "body"),
        )];
        lines.extend(faults.iter().map(|fault| format!("FAULT: {fault}")));
        lines.push(if intact { "intact".to_owned() } else { counted(faults.len() as u64, "fault") });
        output::result(&lines.join("\n"))?;
    }
    Ok(if intact { CommandEnding::Done } else { CommandEnding::No })
}
