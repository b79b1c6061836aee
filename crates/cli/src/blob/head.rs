//! `zerohop blob truncate`, `stat` and `rm`.

use clap::Args;
use serde::Serialize;

use super::{BlobPlace, NameArgument, refusal};
use crate::common::display::{Attributes, Name};
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::interrupt;
use crate::common::{names, quantity};
use crate::output;

#[derive(Args, Debug)]
pub(crate) struct TruncateArguments {
    #[command(flatten)]
    pub(super) name: NameArgument,
    /// The new size in bytes.
    #[arg(value_parser = quantity::parse_whole, allow_negative_numbers = true)]
    size: u64,
    #[command(flatten)]
    pub(super) place: BlobPlace,
}

#[derive(Args, Debug)]
pub(crate) struct StatArguments {
    #[command(flatten)]
    pub(super) name: NameArgument,
    /// Replaces the attributes of the blob, at most 32 KiB, and then prints the blob's facts.
    #[arg(long, value_name = "TEXT")]
    set_attributes: Option<String>,
    #[command(flatten)]
    pub(super) place: BlobPlace,
}

#[derive(Args, Debug)]
pub(crate) struct BlobRemoveArguments {
    #[command(flatten)]
    pub(super) name: NameArgument,
    #[command(flatten)]
    pub(super) place: BlobPlace,
}

#[derive(Serialize)]
struct Info<'a> {
    #[serde(flatten)]
    name: Name<'a>,
    found: bool,
    finished: bool,
    size: u64,
    chunk_bytes: u64,
    id: String,
    created_ms: u64,
    generation: u64,
    version: String,
    #[serde(flatten)]
    attributes: Attributes<'a>,
    /// Why the answer is negative.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
}

#[derive(Serialize)]
struct BlobDone<'a> {
    #[serde(flatten)]
    name: Name<'a>,
    done: bool,
}

pub(super) async fn truncate(arguments: TruncateArguments) -> Result<CommandEnding, CommandError> {
    let (place, name) = (arguments.place, arguments.name.into_bytes());
    let keyspace = place.open().await?;
    interrupt::note_sent(output::WRITE);
    match keyspace.blob(name.clone()).truncate(arguments.size).await {
        Ok(()) => done(&place, &name),
        Err(error) => refusal::print_refusal(&place, &name, error),
    }
}

pub(super) async fn stat(arguments: StatArguments) -> Result<CommandEnding, CommandError> {
    let (place, name) = (arguments.place, arguments.name.into_bytes());
    let keyspace = place.open().await?;
    let blob = keyspace.blob(name.clone());
    if arguments.set_attributes.is_some() {
        interrupt::note_sent(output::WRITE);
    }
    if let Some(attributes) = &arguments.set_attributes
        && let Err(error) = blob.set_attributes(attributes.as_bytes()).await
    {
        return refusal::print_refusal(&place, &name, error);
    }
    if arguments.set_attributes.is_some() {
        output::note_done(output::WRITE);
    }
    let Some(info) = blob.stat().await? else { return refusal::not_found(&place, &name) };
    let shown = Info {
        name: Name(&name),
        found: true,
        finished: info.finished,
        size: info.size,
        chunk_bytes: info.chunk_bytes,
        id: info.id.to_string(),
        created_ms: info.id.millis(),
        generation: info.generation,
        version: info.version.to_string(),
        attributes: Attributes(&info.attributes),
        reason: (!info.finished).then_some(refusal::UNFINISHED),
    };
    if place.json {
        output::json(&shown)?;
    } else {
        let attributes = names::text(&info.attributes);
        let unfinished =
            if info.finished { "" } else { "not finished: it is being put, or its writer ended\n" };
        output::result(&format!(
            "{unfinished}size {}\nchunks of {}\nid {}\ngeneration {}\nversion {}\nattributes {attributes}",
            shown.size, shown.chunk_bytes, shown.id, shown.generation, shown.version
        ))?;
    }
    // Such a blob does not exist yet for other commands.
    Ok(if info.finished { CommandEnding::Done } else { CommandEnding::No })
}

pub(super) async fn remove(arguments: BlobRemoveArguments) -> Result<CommandEnding, CommandError> {
    let (place, name) = (arguments.place, arguments.name.into_bytes());
    let keyspace = place.open().await?;
    interrupt::note_sent(output::WRITE);
    match keyspace.blob(name.clone()).delete().await? {
        true => done(&place, &name),
        false => refusal::not_found(&place, &name),
    }
}

fn done(place: &BlobPlace, name: &[u8]) -> Result<CommandEnding, CommandError> {
    output::note_done(output::WRITE);
    if place.json {
        output::json(&BlobDone { name: Name(name), done: true })?;
    }
    Ok(CommandEnding::Done)
}
