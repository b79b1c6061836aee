//! `zerohop blob put`.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use zerohop_client::Blob;

use super::bytes::Source;
use super::progress::Progress;
use super::{NameArgument, Place, refusal};
use crate::common::ending::{CommandError, Ending};
use crate::common::quantity;
use crate::common::shown::Name;
use crate::output;

/// What is stored by one write. More is filled in.
pub(super) const PUT_AT_ONCE_BYTES: u64 = 16 << 20;

/// Bytes that are read at a time of what is longer.
const READ_BYTES: u64 = 1 << 20;

#[derive(Args, Debug)]
pub(crate) struct PutArguments {
    #[command(flatten)]
    name: NameArgument,
    /// The file; `-` stands for standard input.
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
    /// Replaces the blob, if there is one of this name. Up to 16 MiB, with chunks as they are, whoever reads it finds the old one
    /// or the new one; what is longer is removed first.
    #[arg(long)]
    replace: bool,
    /// Bytes of a chunk, a power of two from 4KiB to 16MiB [default: as the keyspace says, 1MiB unless it was told otherwise].
    #[arg(long, value_name = "BYTES", value_parser = quantity::bytes)]
    chunk: Option<u64>,
    /// What is kept with the blob, any bytes up to 32 KiB.
    #[arg(long, value_name = "TEXT", default_value = "")]
    attributes: String,
    #[command(flatten)]
    place: Place,
}

#[derive(Serialize)]
struct Stored<'a> {
    #[serde(flatten)]
    name: Name<'a>,
    done: bool,
    size: u64,
}

pub(super) async fn run(arguments: PutArguments) -> Result<Ending, CommandError> {
    let PutArguments { name, file, replace, chunk, attributes, place } = arguments;
    let name = name.into_bytes();
    if chunk.is_some_and(|chunk| !chunk.is_power_of_two() || !(1 << 12..=1 << 24).contains(&chunk)) {
        let wrong = "--chunk wants a power of two from 4KiB to 16MiB".to_owned();
        return Err(CommandError::Usage(wrong));
    }
    let mut source = match file.as_os_str() == "-" {
        true => Source::standard_input(),
        false => Source::file(&file)?,
    };
    let keyspace = place.open().await?;
    let chunk = chunk.unwrap_or_else(|| u64::from(keyspace.config().chunk_bytes));
    let bits = chunk.trailing_zeros() as u8;
    let blob = keyspace.blob(name.clone());
    let mut progress = Progress::new("stored");
    let first = source.next(PUT_AT_ONCE_BYTES + 1)?;
    let old = if replace { blob.stat().await? } else { None };
    let is_short = first.len() as u64 <= PUT_AT_ONCE_BYTES;
    if is_short && old.is_some_and(|old| old.chunk_bytes == chunk && old.size <= PUT_AT_ONCE_BYTES) {
        blob.replace(&first, Some(attributes.as_bytes())).await?;
        progress.add(first.len());
    } else {
        if replace {
            blob.delete().await?;
        }
        if let Err(error) = blob.create_with(bits, attributes.as_bytes()).await {
            return refusal::tell(&place, &name, error);
        }
        if is_short {
            blob.write_at(0, &first).await?;
            progress.add(first.len());
        } else {
            fill(&blob, first, &mut source, &mut progress).await?;
        }
    }
    if place.json {
        let size = progress.bytes();
        output::json(&Stored { name: Name(&name), done: true, size })?;
    }
    Ok(Ending::Done)
}

/// Adds these bytes, and all that follow of the source, to a blob: they are seen together.
pub(super) async fn fill(
    blob: &Blob<'_>,
    first: Vec<u8>,
    source: &mut Source,
    progress: &mut Progress,
) -> Result<u64, CommandError> {
    let mut fill = blob.fill().await?;
    let (at, mut bytes) = (fill.position(), first);
    while !bytes.is_empty() {
        fill.push(&bytes).await?;
        progress.add(bytes.len());
        bytes = source.next(READ_BYTES)?;
    }
    fill.publish().await?;
    Ok(at)
}
