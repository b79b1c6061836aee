//! `zerohop blob get` and `read`.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use zerohop_client::{BlobError, Error};

use super::copy_file::CopyFile;
use super::progress::BlobProgress;
use super::{BlobPlace, NameArgument, refusal};
use crate::common::display::{JsonValue, Name};
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::quantity;
use crate::output;

/// How often a file is written again because the blob was changed meanwhile.
const AGAIN_MAX: u32 = 3;

#[derive(Args, Debug)]
pub(crate) struct GetArguments {
    #[command(flatten)]
    pub(super) name: NameArgument,
    /// The file to write, which only you may read if it is new; - stands for standard output.
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
    #[command(flatten)]
    pub(super) place: BlobPlace,
}

#[derive(Args, Debug)]
pub(crate) struct ReadArguments {
    #[command(flatten)]
    pub(super) name: NameArgument,
    /// The offset of the first byte, in bytes from the beginning of the blob.
    #[arg(long, value_name = "OFFSET", default_value_t = 0, value_parser = quantity::parse_whole)]
    at: u64,
    /// The number of bytes [default: up to the end of the blob].
    #[arg(long, value_name = "BYTES", value_parser = quantity::parse_whole)]
    length: Option<u64>,
    /// Writes the versions that were read to a file, for `blob write --if-versions`. The part has at most 64 MiB.
    #[arg(long, value_name = "FILE")]
    versions_to: Option<PathBuf>,
    #[command(flatten)]
    pub(super) place: BlobPlace,
}

/// The JSON of a part of a blob.
#[derive(Serialize)]
struct ReadPart<'a> {
    #[serde(flatten)]
    name: Name<'a>,
    found: bool,
    /// The offset of the part.
    at: u64,
    /// The length of the part in bytes.
    length: u64,
    #[serde(flatten)]
    value: JsonValue<'a>,
}

/// The JSON of a blob that was written to a file.
#[derive(Serialize)]
struct StoredBlobFile<'a> {
    #[serde(flatten)]
    name: Name<'a>,
    found: bool,
    length: u64,
    file: String,
}

/// The most bytes that are read together with their versions, or printed as JSON.
const VERSIONED_BYTES_MAX: u64 = 64 << 20;

pub(super) async fn run(arguments: GetArguments) -> Result<CommandEnding, CommandError> {
    let GetArguments { name, file, place } = arguments;
    let is_output = file.as_os_str() == "-";
    let (name, file) = (name.into_bytes(), Some(&*file).filter(|_| !is_output));
    if place.json && file.is_none() {
        return show(&place, &name, (0, u64::MAX)).await;
    }
    stream(&place, &name, (0, u64::MAX), file).await
}

pub(super) async fn read(arguments: ReadArguments) -> Result<CommandEnding, CommandError> {
    let ReadArguments { name, at, length, versions_to, place } = arguments;
    let (name, length) = (name.into_bytes(), length.unwrap_or(u64::MAX));
    let Some(path) = versions_to else {
        return match place.json {
            true => show(&place, &name, (at, length)).await,
            false => stream(&place, &name, (at, length), None).await,
        };
    };
    let keyspace = place.open().await?;
    let blob = keyspace.blob(name.clone());
    let Some(info) = blob.stat().await? else { return refusal::not_found(&place, &name) };
    if length.min(info.size.saturating_sub(at)) > VERSIONED_BYTES_MAX {
        let reason = format!("--versions-to is for up to {VERSIONED_BYTES_MAX} bytes: give a --length");
        return Err(CommandError::Refused(reason));
    }
    let (bytes, version) = match blob.read_with_version(at, length).await {
        Ok(read) => read,
        Err(error) => return refusal::print_refusal(&place, &name, error),
    };
    if !place.json && output::is_terminal() && is_binary(&bytes) {
        return Err(no_text());
    }
    let mut file = CopyFile::create(&path)?;
    file.write(version.to_string().as_bytes())?;
    file.finish()?;
    match place.json {
        true => print_part(&name, at, &bytes)?,
        false => output::raw(&[&bytes])?,
    }
    Ok(CommandEnding::Done)
}

/// Prints a part of a blob as JSON.
async fn show(
    place: &BlobPlace,
    name: &[u8],
    (offset, length): (u64, u64),
) -> Result<CommandEnding, CommandError> {
    let keyspace = place.open().await?;
    let blob = keyspace.blob(name.to_vec());
    let mut pieces = match blob.read_at(offset, length).await {
        Ok(pieces) => pieces,
        Err(error) => return refusal::print_refusal(place, name, error),
    };
    let mut bytes = Vec::new();
    loop {
        match pieces.next_piece().await {
            Ok(Some(piece)) => bytes.extend_from_slice(&piece),
            Ok(None) => break,
            Err(error) => return refusal::print_refusal(place, name, error),
        }
        if bytes.len() as u64 > VERSIONED_BYTES_MAX {
            let reason = format!(
                "--json prints up to {VERSIONED_BYTES_MAX} bytes: read parts with `zerohop blob read --at OFFSET --length BYTES`, or name a \
                 file for `zerohop blob get`"
            );
            return Err(CommandError::Refused(reason));
        }
    }
    print_part(name, offset, &bytes)?;
    Ok(CommandEnding::Done)
}

fn print_part(name: &[u8], at: u64, bytes: &[u8]) -> Result<(), CommandError> {
    let (name, length) = (Name(name), bytes.len() as u64);
    output::json(&ReadPart { name, found: true, at, length, value: JsonValue(bytes) })
}

async fn stream(
    place: &BlobPlace,
    name: &[u8],
    (offset, length): (u64, u64),
    file: Option<&Path>,
) -> Result<CommandEnding, CommandError> {
    let keyspace = place.open().await?;
    let blob = keyspace.blob(name.to_vec());
    let mut progress = BlobProgress::new("read", None);
    let mut again = 0;
    let is_terminal = output::is_terminal();
    'again: loop {
        let mut pieces = match blob.read_at(offset, length).await {
            Ok(pieces) => pieces,
            Err(error) => return refusal::print_refusal(place, name, error),
        };
        if progress.is_shown()
            && let Some(info) = blob.stat().await?
        {
            progress.set_total(length.min(info.size.saturating_sub(offset)));
        }
        // The file is created only now, so that a missing blob leaves an existing file unchanged.
        let before = progress.bytes();
        let mut out = file.map(CopyFile::create).transpose()?;
        loop {
            let piece = match pieces.next_piece().await {
                Ok(Some(piece)) => piece,
                Ok(None) => {
                    out.map_or(Ok(()), CopyFile::finish)?;
                    if let (true, Some(path)) = (place.json, file) {
                        let (name, file) = (Name(name), path.display().to_string());
                        output::json(&StoredBlobFile {
                            name,
                            found: true,
                            length: progress.bytes() - before,
                            file,
                        })?;
                    }
                    return Ok(CommandEnding::Done);
                }
                Err(Error::Blob { why: BlobError::ChangedMeanwhile, .. })
                    if again < AGAIN_MAX && out.as_ref().is_some_and(CopyFile::can_restart) =>
                {
                    again += 1;
                    continue 'again;
                }
                Err(error) => return refusal::print_refusal(place, name, error),
            };
            match &mut out {
                Some(file) => file.write(&piece)?,
                None if is_terminal && is_binary(&piece) => {
                    return Err(no_text());
                }
                None => output::raw(&[&piece])?,
            }
            progress.add(piece.len());
        }
    }
}

/// The error for binary contents on a terminal.
pub(crate) fn no_text() -> CommandError {
    let why = "these bytes are no text, and would upset the terminal: name a file for them, or write `| cat` behind the command";
    CommandError::Refused(why.to_owned())
}

/// Whether the bytes have anything but text and line ends, which could control a terminal. A
/// character that the end of the bytes truncates is allowed.
pub(crate) fn is_binary(bytes: &[u8]) -> bool {
    let of_text = |one: char| !one.is_control() || matches!(one, '\n' | '\t' | '\r' | '\x0c');
    bytes.utf8_chunks().any(|chunk| !chunk.valid().chars().all(of_text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_distinguished_from_terminal_control_bytes() {
        for text in ["", "lines\n\tand größe\r\n\x0c"] {
            assert!(!is_binary(text.as_bytes()), "{text:?}");
        }
        assert!(!is_binary("größe".as_bytes().split_at(3).0), "a sign is cut");
        for bytes in [&b"\0"[..], b"\x1b[2J", b"a\x7f", b"\xff\xff\x07", "\u{9b}".as_bytes()] {
            assert!(is_binary(bytes), "{bytes:?}");
        }
    }
}
