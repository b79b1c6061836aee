//! `zerohop object get` and `stat`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use zerohop_objects::ObjectLocation;

use super::place::{self, ObjectAddress, ObjectPlace};
use super::refusal::{CommandKind, failed, print_refusal};
use crate::blob::copy_file::CopyFile;
use crate::blob::get::{is_binary, no_text};
use crate::blob::progress::BlobProgress;
use crate::common::ending::{CommandEnding, CommandError};
use crate::output;

#[derive(Args, Debug)]
pub(crate) struct ObjectGetArguments {
    /// The object.
    #[arg(value_name = "BUCKET/NAME", value_parser = place::object)]
    object: ObjectAddress,
    /// The file to write, which only you may read if it is new; - stands for standard output.
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
    #[command(flatten)]
    pub(super) place: ObjectPlace,
}

#[derive(Args, Debug)]
pub(crate) struct ObjectStatArguments {
    /// The object.
    #[arg(value_name = "BUCKET/NAME", value_parser = place::object)]
    object: ObjectAddress,
    #[command(flatten)]
    pub(super) place: ObjectPlace,
}

#[derive(Serialize)]
struct GetOutput<'a> {
    #[serde(flatten)]
    address: &'a ObjectAddress,
    found: bool,
    size: u64,
    file: String,
}

#[derive(Serialize)]
struct StatOutput<'a> {
    #[serde(flatten)]
    address: &'a ObjectAddress,
    found: bool,
    size: u64,
    modified_ms: u64,
    etag: String,
    parts: usize,
    attributes: BTreeMap<&'a str, &'a str>,
    tags: BTreeMap<&'a str, &'a str>,
}

pub(super) async fn run(arguments: ObjectGetArguments) -> Result<CommandEnding, CommandError> {
    let ObjectGetArguments { object, file, place } = arguments;
    let file = Some(file).filter(|file| file.as_os_str() != "-");
    if place.json && file.is_none() {
        return Err(CommandError::Usage("--json needs a FILE for the bytes of the object".to_owned()));
    }
    let objects = place.open().await?;
    let (bucket, name) = object.object();
    let found = match objects.find(bucket, name).await {
        Ok(found) => found,
        Err(error) => return print_refusal(&place, &object, CommandKind::Read, error),
    };
    let size = found.object.size;
    let mut reader = objects.read(&found, 0, size);
    let mut progress = BlobProgress::new("read", Some(size));
    let mut out = file.as_deref().map(CopyFile::create).transpose()?;
    let is_terminal = output::is_terminal();
    while let Some(piece) = reader.next_piece().await.map_err(|error| failed(CommandKind::Read, &error))? {
        match &mut out {
            Some(file) => file.write(&piece)?,
            None if is_terminal && is_binary(&piece) => return Err(no_text()),
            None => output::raw(&[&piece])?,
        }
        progress.add(piece.len());
    }
    out.map_or(Ok(()), CopyFile::finish)?;
    if let (true, Some(file)) = (place.json, file) {
        output::json(&GetOutput { address: &object, found: true, size, file: file.display().to_string() })?;
    }
    Ok(CommandEnding::Done)
}

pub(super) async fn stat(arguments: ObjectStatArguments) -> Result<CommandEnding, CommandError> {
    let ObjectStatArguments { object: address, place } = arguments;
    let objects = place.open().await?;
    let (bucket, name) = address.object();
    let ObjectLocation { object, manifest, .. } = match objects.find(bucket, name).await {
        Ok(found) => found,
        Err(error) => return print_refusal(&place, &address, CommandKind::Read, error),
    };
    if place.json {
        output::json(&StatOutput {
            address: &address,
            found: true,
            size: object.size,
            modified_ms: object.modified,
            etag: object.etag.to_string(),
            parts: manifest.map_or(0, |manifest| manifest.parts.len()),
            attributes: map_of(&object.attributes),
            tags: map_of(&object.tags),
        })?;
        return Ok(CommandEnding::Done);
    }
    let mut lines = vec![
        format!("size: {} bytes", object.size),
        format!("modified: {}", super::list::utc(object.modified)),
        format!("entity tag: {}", object.etag),
    ];
    lines.extend(manifest.map(|manifest| format!("parts: {}", manifest.parts.len())));
    lines.extend(object.attributes.iter().map(|(name, value)| format!("{name}: {value}")));
    lines.extend(object.tags.iter().map(|(name, value)| format!("tag {name}: {value}")));
    output::result(&lines.join("\n"))?;
    Ok(CommandEnding::Done)
}

fn map_of(pairs: &[(String, String)]) -> BTreeMap<&str, &str> {
    pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}
