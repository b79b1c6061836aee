//! `zerohop object put`.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use zerohop_object_client::{ClusterStore, ObjectWriter, PutSettings};
use zerohop_objects::{ObjectError, Pairs};

use super::copy::conditions;
use super::place::{self, ObjectAddress, ObjectPlace};
use super::refusal::{CommandKind, print_refusal};
use crate::blob::bytes::ByteSource;
use crate::blob::progress::BlobProgress;
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::interrupt;
use crate::output;

/// The most bytes of the names and values of all metadata, as in S3.
const METADATA_BYTES_MAX: usize = 2 << 10;

/// Bytes of one read of the source.
const READ_BYTES: u64 = 1 << 20;

#[derive(Args, Debug)]
pub(crate) struct ObjectPutArguments {
    /// The object.
    #[arg(value_name = "BUCKET/NAME", value_parser = place::object)]
    object: ObjectAddress,
    /// The file to read; - stands for standard input.
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
    /// Stores the object only if there is none of this name.
    #[arg(long)]
    if_absent: bool,
    /// The media type that clients of S3 get.
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,
    /// Metadata of the user, as NAME=VALUE. May be given several times.
    #[arg(long, value_name = "NAME=VALUE", value_parser = metadata)]
    metadata: Vec<(String, String)>,
    #[command(flatten)]
    pub(super) place: ObjectPlace,
}

#[derive(Serialize)]
struct PutOutput<'a> {
    #[serde(flatten)]
    address: &'a ObjectAddress,
    done: bool,
    size: u64,
    etag: String,
}

/// Reads a pair of metadata. Names are those of headers, in lower case.
fn metadata(text: &str) -> Result<(String, String), String> {
    let wrong = || {
        "metadata is NAME=VALUE: a name of letters, digits and hyphens, and a value of printable ASCII"
            .to_owned()
    };
    let (name, value) = text.split_once('=').ok_or_else(wrong)?;
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let is_value = value.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
    if is_name && is_value { Ok((name.to_ascii_lowercase(), value.to_owned())) } else { Err(wrong()) }
}

pub(super) async fn run(arguments: ObjectPutArguments) -> Result<CommandEnding, CommandError> {
    let ObjectPutArguments { object, file, if_absent, content_type, metadata, place } = arguments;
    let source = match file.as_os_str() == "-" {
        true => ByteSource::standard_input(),
        false => ByteSource::file(&file)?,
    };
    if metadata.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>() > METADATA_BYTES_MAX {
        return Err(CommandError::Usage("the metadata of an object has 2 KiB at most".to_owned()));
    }
    let content_type = content_type.map(|content_type| ("content-type".to_owned(), content_type));
    let metadata = metadata.into_iter().map(|(name, value)| (format!("x-amz-meta-{name}"), value));
    let attributes: Pairs = content_type.into_iter().chain(metadata).collect();
    let objects = place.open().await?;
    let (bucket, name) = object.object();
    let mut writer = match objects.put(bucket, name).await {
        Ok(writer) => writer,
        Err(error) => return print_refusal(&place, &object, CommandKind::Write, error),
    };
    let stored = match send(&mut writer, source).await? {
        Ok(()) => {
            interrupt::note_sent(output::WRITE);
            let conditions = conditions(if_absent);
            writer.publish(PutSettings { attributes, conditions, ..PutSettings::default() }).await
        }
        // Nothing of it appears: the sweep of a gateway removes its bytes.
        Err(error) => Err(error),
    };
    let stored = match stored {
        Ok(stored) => stored,
        Err(error) => return print_refusal(&place, &object, CommandKind::Write, error),
    };
    output::note_done(output::WRITE);
    if place.json {
        let etag = stored.etag.to_string();
        output::json(&PutOutput { address: &object, done: true, size: stored.size, etag })?;
    }
    Ok(CommandEnding::Done)
}

/// Sends all bytes of a source.
async fn send(
    writer: &mut ObjectWriter<ClusterStore>,
    source: ByteSource,
) -> Result<Result<(), ObjectError>, CommandError> {
    let mut progress = BlobProgress::new("stored", source.length());
    let mut pieces = source.pieces(READ_BYTES);
    while let Some(piece) = pieces.recv().await {
        let piece = piece?;
        if let Err(error) = writer.write(&piece).await {
            return Ok(Err(error));
        }
        progress.add(piece.len());
    }
    Ok(Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_a_name_and_a_value() {
        assert_eq!(metadata("Run=a=b c"), Ok(("run".to_owned(), "a=b c".to_owned())));
        for text in ["run", "=a", "a b=c", "a=b\nc", "größe=1"] {
            assert!(metadata(text).is_err(), "{text:?}");
        }
    }
}
