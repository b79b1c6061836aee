//! `zerohop kv append`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::condition::GivenCondition;
use super::{KeyArgument, Place, refusal};
use crate::common::ending::{CommandError, Ending};
use crate::common::shown::Key;
use crate::common::value::{argument, file};
use crate::output;

#[derive(Args, Debug)]
#[command(override_usage = "zerohop kv append [OPTIONS] <KEY> <VALUE... | --file <FILE>>")]
pub(crate) struct AppendArguments {
    #[command(flatten)]
    key: KeyArgument,
    #[command(flatten)]
    values: GivenValues,
    #[command(flatten)]
    condition: GivenCondition,
    #[command(flatten)]
    pub(super) place: Place,
}

#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
struct GivenValues {
    /// The values, added together; `-` stands for one read from standard input.
    #[arg(value_name = "VALUE")]
    values: Vec<OsString>,
    /// Reads one value from a file.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

#[derive(Serialize)]
pub(super) struct Grown<'a> {
    #[serde(flatten)]
    pub(super) key: Key<'a>,
    pub(super) done: bool,
    pub(super) length: u64,
}

pub(super) async fn run(arguments: AppendArguments) -> Result<Ending, CommandError> {
    let (place, key) = (arguments.place, arguments.key.into_bytes());
    let GivenValues { values, file: path } = arguments.values;
    let values = match &path {
        Some(path) => vec![file(path)?],
        None => values.into_iter().map(argument).collect::<Result<_, _>>()?,
    };
    let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
    let keyspace = place.open().await?;
    let length = keyspace.append(&key, &values).condition(arguments.condition.into()).await;
    grown(&place, &key, length)
}

/// Tells the length that a record has now.
pub(super) fn grown(
    place: &Place,
    key: &[u8],
    length: Result<u64, zerohop_client::Error>,
) -> Result<Ending, CommandError> {
    match length {
        Ok(length) if place.json => output::json(&Grown { key: Key(key), done: true, length })?,
        Ok(length) => output::result(&length.to_string())?,
        Err(error) => return refusal::tell(place, key, error),
    }
    Ok(Ending::Done)
}
