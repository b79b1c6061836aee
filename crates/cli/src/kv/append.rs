//! `zerohop kv append`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::condition::ConditionArguments;
use super::{KeyArgument, KvPlace, refusal};
use crate::common::display::JsonKey;
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::interrupt;
use crate::common::value::{argument, file};
use crate::output;

#[derive(Args, Debug)]
#[command(override_usage = "zerohop kv append [OPTIONS] <KEY> <VALUE... | --file <FILE>>")]
pub(crate) struct KvAppendArguments {
    #[command(flatten)]
    pub(super) key: KeyArgument,
    #[command(flatten)]
    values: ListValuesArguments,
    #[command(flatten)]
    condition: ConditionArguments,
    #[command(flatten)]
    pub(super) place: KvPlace,
}

#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
struct ListValuesArguments {
    /// The values, which are appended together; `-` reads one value from standard input.
    #[arg(value_name = "VALUE")]
    values: Vec<OsString>,
    /// Reads one value from a file.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

#[derive(Serialize)]
pub(super) struct LengthOutput<'a> {
    #[serde(flatten)]
    pub(super) key: JsonKey<'a>,
    pub(super) done: bool,
    pub(super) length: u64,
}

pub(super) async fn run(arguments: KvAppendArguments) -> Result<CommandEnding, CommandError> {
    let (place, key) = (arguments.place, arguments.key.into_bytes());
    let ListValuesArguments { values, file: path } = arguments.values;
    let values = match &path {
        Some(path) => vec![file(path)?],
        None => values.into_iter().map(argument).collect::<Result<_, _>>()?,
    };
    let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
    let keyspace = place.open().await?;
    interrupt::note_sent(output::WRITE);
    let length = keyspace.append(&key, &values).condition(arguments.condition.into()).await;
    print_length(&place, &key, length)
}

/// Prints the new length of a record.
pub(super) fn print_length(
    place: &KvPlace,
    key: &[u8],
    length: Result<u64, zerohop_client::Error>,
) -> Result<CommandEnding, CommandError> {
    if length.is_ok() {
        output::note_done(output::WRITE);
    }
    match length {
        Ok(length) if place.json => output::json(&LengthOutput { key: JsonKey(key), done: true, length })?,
        Ok(length) => output::result(&length.to_string())?,
        Err(error) => return refusal::print_refusal(place, key, error),
    }
    Ok(CommandEnding::Done)
}
