//! `zerohop blob write` and `append`.

use clap::Args;
use serde::Serialize;

use super::bytes::GivenBytes;
use super::progress::Progress;
use super::{NameArgument, Place, refusal};
use crate::common::ending::{CommandError, Ending};
use crate::common::shown::Name;
use crate::output;

#[derive(Args, Debug)]
pub(crate) struct WriteArguments {
    #[command(flatten)]
    name: NameArgument,
    #[command(flatten)]
    bytes: GivenBytes,
    /// Where, in bytes.
    #[arg(long, value_name = "OFFSET")]
    at: u64,
    /// Writes chunk by chunk what does not lie within one: others may see some of it without the rest.
    #[arg(long)]
    pieces: bool,
    #[command(flatten)]
    place: Place,
}

#[derive(Args, Debug)]
pub(crate) struct AppendArguments {
    #[command(flatten)]
    name: NameArgument,
    #[command(flatten)]
    bytes: GivenBytes,
    #[command(flatten)]
    place: Place,
}

#[derive(Serialize)]
struct Written<'a> {
    #[serde(flatten)]
    name: Name<'a>,
    done: bool,
    at: u64,
    length: u64,
}

/// Bytes appended at a time.
const APPENDED_BYTES: u64 = 1 << 20;

pub(super) async fn run(arguments: WriteArguments) -> Result<Ending, CommandError> {
    let WriteArguments { name, bytes, at, pieces, place } = arguments;
    let (name, mut source) = (name.into_bytes(), bytes.open()?);
    let keyspace = place.open().await?;
    let blob = keyspace.blob(name.clone());
    let Some(info) = blob.stat().await? else { return refusal::not_found(&place, &name) };
    let chunk = info.chunk_bytes;
    let mut progress = Progress::new("written");
    loop {
        let offset = at + progress.bytes();
        // As much as the chunk has; or, where all must go as one, a byte more, which says that it does not.
        let room = chunk - offset % chunk;
        let bytes = source.next(if pieces { room } else { room + 1 })?;
        if bytes.is_empty() {
            break;
        }
        if let Err(error) = blob.write_at(offset, &bytes).await {
            return refusal::tell(&place, &name, error);
        }
        progress.add(bytes.len());
    }
    told(&place, &name, at, progress.bytes())
}

pub(super) async fn append(arguments: AppendArguments) -> Result<Ending, CommandError> {
    let AppendArguments { name, bytes, place } = arguments;
    let (name, mut source) = (name.into_bytes(), bytes.open()?);
    let keyspace = place.open().await?;
    let blob = keyspace.blob(name.clone());
    let mut progress = Progress::new("appended");
    let mut first = None;
    loop {
        let bytes = source.next(APPENDED_BYTES)?;
        if bytes.is_empty() && first.is_some() {
            break;
        }
        match blob.append(&bytes).await {
            Ok(at) => first = first.or(Some(at)),
            Err(error) => return refusal::tell(&place, &name, error),
        }
        progress.add(bytes.len());
    }
    let at = first.unwrap_or(0);
    if !place.json {
        output::result(&at.to_string())?;
    }
    told(&place, &name, at, progress.bytes())
}

fn told(place: &Place, name: &[u8], at: u64, length: u64) -> Result<Ending, CommandError> {
    if place.json {
        output::json(&Written { name: Name(name), done: true, at, length })?;
    }
    Ok(Ending::Done)
}
