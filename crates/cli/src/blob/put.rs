//! `zerohop blob put`.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use zerohop_client::{Blob, BlobPut, PutOptions};

use super::bytes::ByteSource;
use super::progress::BlobProgress;
use super::{BlobPlace, NameArgument, refusal};
use crate::common::display::Name;
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::interrupt;
use crate::common::quantity;
use crate::common::runtime::StopSignals;
use crate::output;

/// The most bytes of one extension. A longer source is sent as a staged extension.
pub(super) const EXTEND_AT_ONCE_BYTES: u64 = 16 << 20;

/// Bytes of one read of a source that is longer.
const READ_BYTES: u64 = 1 << 20;

#[derive(Args, Debug)]
pub(crate) struct PutArguments {
    #[command(flatten)]
    pub(super) name: NameArgument,
    /// The file to read; - stands for standard input.
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
    /// Replaces a blob of this name, if there is one. Readers find the complete old blob until the new blob is complete, also if
    /// this command is killed. Of several such commands at the same time, the last one to complete its blob wins.
    #[arg(long)]
    replace: bool,
    /// The size of a chunk in bytes: a power of two from 4KiB to 16MiB [default: the keyspace's setting, 1MiB if it has none].
    #[arg(long, value_name = "BYTES", value_parser = quantity::bytes)]
    chunk: Option<u64>,
    /// Attributes that are stored with the blob: any bytes, at most 32 KiB.
    #[arg(long, value_name = "TEXT", default_value = "")]
    attributes: String,
    #[command(flatten)]
    pub(super) place: BlobPlace,
}

#[derive(Serialize)]
struct StoredBlob<'a> {
    #[serde(flatten)]
    name: Name<'a>,
    done: bool,
    size: u64,
}

/// The JSON of a put that a signal has ended.
#[derive(Serialize)]
struct InterruptedPut<'a> {
    #[serde(flatten)]
    name: Name<'a>,
    done: bool,
    reason: &'static str,
    error: &'a str,
}

pub(super) async fn run(arguments: PutArguments) -> Result<CommandEnding, CommandError> {
    let PutArguments { name, file, replace, chunk, attributes, place } = arguments;
    let name = name.into_bytes();
    if chunk.is_some_and(|chunk| !chunk.is_power_of_two() || !(1 << 12..=1 << 24).contains(&chunk)) {
        let wrong = "--chunk wants a power of two from 4KiB to 16MiB".to_owned();
        return Err(CommandError::Usage(wrong));
    }
    let source = match file.as_os_str() == "-" {
        true => ByteSource::standard_input(),
        false => ByteSource::file(&file)?,
    };
    let mut signals = StopSignals::new()?;
    let keyspace = signals.interrupting(place.open()).await?;
    let blob = keyspace.blob(name.clone());
    let chunk_bits = chunk.map(|chunk| chunk.trailing_zeros() as u8);
    let mut put = blob.put(PutOptions { attributes: attributes.into(), chunk_bits, replaces: replace });
    let ended = tokio::select! {
        ended = send(&mut put, source) => Some(ended),
        () = signals.received() => None,
    };
    let size = match ended {
        Some(Ok(size)) => size,
        Some(Err(error)) => {
            // If the removal fails, the blob stays marked as unfinished, which every reader sees.
            // The first error is the one that is reported.
            drop(put.discard().await);
            return match error {
                CommandError::Client(error) => refusal::print_refusal(&place, &name, error),
                error => Err(error),
            };
        }
        None => {
            let removed = tokio::select! {
                removed = put.discard() => removed.is_ok(),
                () = signals.received() => false,
            };
            let rest = match removed {
                true => "what was sent is removed",
                false if replace => {
                    "what was sent could not be removed: no reader finds it; from 20 s on the next long put --replace, or \
                     `zerohop blob rm`, of this name removes it"
                }
                false => {
                    "what was sent could not be removed: it is not a finished blob; `zerohop blob rm` removes it"
                }
            };
            let message = format!("interrupted; {rest}");
            if place.json {
                let shown =
                    InterruptedPut { name: Name(&name), done: false, reason: "interrupted", error: &message };
                output::json(&shown)?;
            }
            output::problem(&format!("zerohop: {message}"));
            return Ok(CommandEnding::Interrupted);
        }
    };
    output::note_done(output::WRITE);
    if place.json {
        output::json(&StoredBlob { name: Name(&name), done: true, size })?;
    }
    Ok(CommandEnding::Done)
}

/// Sends all bytes of a source. Returns their number.
async fn send(put: &mut BlobPut<'_>, source: ByteSource) -> Result<u64, CommandError> {
    let mut progress = BlobProgress::new("stored", source.length());
    let mut pieces = source.pieces(READ_BYTES);
    while let Some(piece) = pieces.recv().await {
        let piece = piece?;
        put.push(&piece).await?;
        progress.add(piece.len());
    }
    Ok(put.publish().await?)
}

/// Extends a blob by `first` and the rest of the source, as one staged extension: readers see all of it
/// or nothing.
pub(super) async fn staged_extension(
    blob: &Blob<'_>,
    first: Vec<u8>,
    source: &mut ByteSource,
    progress: &mut BlobProgress,
) -> Result<u64, CommandError> {
    let mut extension = blob.staged_extension().await?;
    let (at, mut bytes) = (extension.position(), first);
    while !bytes.is_empty() {
        extension.push(&bytes).await?;
        progress.add(bytes.len());
        bytes = source.next(READ_BYTES)?;
    }
    interrupt::note_sent(output::WRITE);
    extension.publish().await?;
    Ok(at)
}
