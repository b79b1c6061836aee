//! `zerohop blob write` and `extend`.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use zerohop_client::BlobReadVersion;

use super::bytes::{ByteSource, BytesArguments};
use super::progress::BlobProgress;
use super::put::{EXTEND_AT_ONCE_BYTES, staged_extension};
use super::{BlobPlace, NameArgument, refusal};
use crate::common::display::Name;
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::interrupt;
use crate::common::{names, quantity};
use crate::output;

#[derive(Args, Debug)]
pub(crate) struct WriteArguments {
    #[command(flatten)]
    pub(super) name: NameArgument,
    #[command(flatten)]
    bytes: BytesArguments,
    /// The offset of the first byte, in bytes from the beginning of the blob.
    #[arg(long, value_name = "OFFSET", value_parser = quantity::parse_whole)]
    at: u64,
    /// Writes any number of bytes, in pieces of 4 MiB. Readers may find some pieces without the others.
    #[arg(long)]
    pieces: bool,
    /// Writes only if the part that `blob read --versions-to` has read has not changed since.
    #[arg(long, value_name = "FILE", conflicts_with = "pieces")]
    if_versions: Option<PathBuf>,
    #[command(flatten)]
    pub(super) place: BlobPlace,
}

#[derive(Args, Debug)]
pub(crate) struct BlobExtendArguments {
    #[command(flatten)]
    pub(super) name: NameArgument,
    #[command(flatten)]
    bytes: BytesArguments,
    #[command(flatten)]
    pub(super) place: BlobPlace,
}

#[derive(Serialize)]
struct WrittenRange<'a> {
    #[serde(flatten)]
    name: Name<'a>,
    done: bool,
    at: u64,
    length: u64,
}

/// The most bytes of one write.
const WRITTEN_BYTES: u64 = 64 << 20;

/// The largest file of versions: more than a read of the most bytes writes.
const VERSIONS_TEXT_BYTES_MAX: u64 = 4 << 20;

/// Bytes of one write where others may see the pieces separately.
const PIECE_BYTES: u64 = 4 << 20;

pub(super) async fn run(arguments: WriteArguments) -> Result<CommandEnding, CommandError> {
    let WriteArguments { name, bytes, at, pieces, if_versions, place } = arguments;
    let version = if_versions.as_deref().map(read_version_of).transpose()?;
    let (name, mut source) = (name.into_bytes(), bytes.open()?);
    let keyspace = place.open().await?;
    let blob = keyspace.blob(name.clone());
    let mut progress = BlobProgress::new("written", source.length());
    loop {
        let offset = at.saturating_add(progress.bytes());
        // Where all bytes must be one write, one byte too many is read, so that the write is
        // refused.
        let bytes = source.next(if pieces { PIECE_BYTES } else { WRITTEN_BYTES + 1 })?;
        // A conditional write is always a single write.
        if (bytes.is_empty() || version.is_some()) && progress.bytes() > 0 {
            break;
        }
        interrupt::note_sent(output::WRITE);
        let written = match &version {
            Some(version) => blob.write_at_if(version, offset, &bytes).await,
            None => blob.write_at(offset, &bytes).await,
        };
        if let Err(error) = written {
            return refusal::print_refusal(&place, &name, error);
        }
        if bytes.is_empty() {
            break;
        }
        progress.add(bytes.len());
    }
    print_written(&place, &name, at, progress.bytes())
}

/// The versions that a read has written to a file.
fn read_version_of(path: &Path) -> Result<BlobReadVersion, CommandError> {
    let text = ByteSource::file(path)?.next(VERSIONS_TEXT_BYTES_MAX)?;
    let version = std::str::from_utf8(&text).ok().and_then(BlobReadVersion::parse);
    version.ok_or_else(|| {
        CommandError::Usage(format!("{} is not what `blob read --versions-to` writes", names::path(path)))
    })
}

pub(super) async fn extend(arguments: BlobExtendArguments) -> Result<CommandEnding, CommandError> {
    let BlobExtendArguments { name, bytes, place } = arguments;
    let (name, mut source) = (name.into_bytes(), bytes.open()?);
    let keyspace = place.open().await?;
    let blob = keyspace.blob(name.clone());
    let mut progress = BlobProgress::new("added", source.length());
    let first = source.next(EXTEND_AT_ONCE_BYTES + 1)?;
    let length = first.len();
    let at = if length as u64 > EXTEND_AT_ONCE_BYTES {
        match staged_extension(&blob, first, &mut source, &mut progress).await {
            Ok(at) => at,
            Err(CommandError::Client(error)) => return refusal::print_refusal(&place, &name, error),
            Err(error) => return Err(error),
        }
    } else {
        interrupt::note_sent(output::WRITE);
        match blob.extend(&first).await {
            Ok(at) => {
                progress.add(length);
                at
            }
            Err(error) => return refusal::print_refusal(&place, &name, error),
        }
    };
    output::note_done(output::WRITE);
    if !place.json {
        output::result(&at.to_string())?;
    }
    print_written(&place, &name, at, progress.bytes())
}

fn print_written(
    place: &BlobPlace,
    name: &[u8],
    at: u64,
    length: u64,
) -> Result<CommandEnding, CommandError> {
    output::note_done(output::WRITE);
    if place.json {
        output::json(&WrittenRange { name: Name(name), done: true, at, length })?;
    }
    Ok(CommandEnding::Done)
}
