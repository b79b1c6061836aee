//! `zerohop blob put`.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::bytes::Source;
use super::progress::Progress;
use super::{NameArgument, Place, refusal};
use crate::common::ending::{CommandError, Ending};
use crate::common::quantity;
use crate::common::shown::Name;
use crate::output;

#[derive(Args, Debug)]
pub(crate) struct PutArguments {
    #[command(flatten)]
    name: NameArgument,
    /// The file; `-` stands for standard input.
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
    /// Removes the blob first, if there is one of this name.
    #[arg(long)]
    replace: bool,
    /// Bytes of a chunk, a power of two from 4KiB to 16MiB.
    #[arg(long, value_name = "BYTES", default_value = "1MiB", value_parser = quantity::bytes)]
    chunk: u64,
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
    if !chunk.is_power_of_two() || !(1 << 12..=1 << 24).contains(&chunk) {
        let wrong = "--chunk wants a power of two from 4KiB to 16MiB".to_owned();
        return Err(CommandError::Usage(wrong));
    }
    let mut source = match file.as_os_str() == "-" {
        true => Source::standard_input(),
        false => Source::file(&file)?,
    };
    let keyspace = place.open().await?;
    let blob = keyspace.blob(name.clone());
    if replace {
        blob.delete().await?;
    }
    if let Err(error) = blob.create_with(chunk.trailing_zeros() as u8, attributes.as_bytes()).await {
        return refusal::tell(&place, &name, error);
    }
    let mut progress = Progress::new("stored");
    loop {
        let bytes = source.next(chunk)?;
        if bytes.is_empty() {
            break;
        }
        blob.write_at(progress.bytes(), &bytes).await?;
        progress.add(bytes.len());
    }
    if place.json {
        let size = progress.bytes();
        output::json(&Stored { name: Name(&name), done: true, size })?;
    }
    Ok(Ending::Done)
}
