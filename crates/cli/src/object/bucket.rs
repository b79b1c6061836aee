//! `zerohop object mb` and `rb`.

use clap::Args;
use serde::Serialize;

use super::place::{self, ObjectAddress, ObjectPlace};
use super::refusal::{CommandKind, print_refusal};
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::interrupt;
use crate::output;

#[derive(Args, Debug)]
pub(crate) struct BucketArguments {
    /// The name of the bucket: 3 to 63 lower-case letters, digits, dots and hyphens.
    #[arg(value_name = "BUCKET", value_parser = place::bucket)]
    bucket: ObjectAddress,
    #[command(flatten)]
    pub(super) place: ObjectPlace,
}

#[derive(Serialize)]
struct BucketOutput<'a> {
    #[serde(flatten)]
    address: &'a ObjectAddress,
    done: bool,
}

pub(super) async fn create(arguments: BucketArguments) -> Result<CommandEnding, CommandError> {
    let BucketArguments { bucket, place } = arguments;
    let objects = place.open_or_create().await?;
    interrupt::note_sent(output::WRITE);
    let created = objects.create_bucket(bucket.bucket.clone()).await;
    print(&place, &bucket, created.map(drop))
}

pub(super) async fn remove(arguments: BucketArguments) -> Result<CommandEnding, CommandError> {
    let BucketArguments { bucket, place } = arguments;
    let objects = place.open().await?;
    interrupt::note_sent(output::WRITE);
    let removed = objects.delete_bucket(bucket.bucket.clone()).await;
    print(&place, &bucket, removed)
}

fn print(
    place: &ObjectPlace,
    address: &ObjectAddress,
    result: Result<(), zerohop_objects::ObjectError>,
) -> Result<CommandEnding, CommandError> {
    if let Err(error) = result {
        return print_refusal(place, address, CommandKind::Write, error);
    }
    output::note_done(output::WRITE);
    if place.json {
        output::json(&BucketOutput { address, done: true })?;
    }
    Ok(CommandEnding::Done)
}
