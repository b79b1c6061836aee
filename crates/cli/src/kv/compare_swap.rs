//! `zerohop kv cas`.

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
#[command(
    override_usage = "zerohop kv cas [OPTIONS] <--expect <VALUE> | --expect-file <FILE> | --expect-absent> <KEY> <VALUE | --file <FILE> | --remove>"
)]
pub(crate) struct CompareSwapArguments {
    #[command(flatten)]
    pub(super) key: KeyArgument,
    #[command(flatten)]
    expected: SwapExpectation,
    #[command(flatten)]
    new: SwapValue,
    #[command(flatten)]
    condition: ConditionArguments,
    #[command(flatten)]
    pub(super) place: KvPlace,
}

#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
struct SwapExpectation {
    /// The value that the record must have; `-` reads it from standard input.
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    expect: Option<OsString>,
    /// Reads the expected value from a file.
    #[arg(long, value_name = "FILE")]
    expect_file: Option<PathBuf>,
    /// Requires that the record does not exist.
    #[arg(long)]
    expect_absent: bool,
}

#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
struct SwapValue {
    /// The new value; `-` reads it from standard input.
    #[arg(value_name = "VALUE", allow_hyphen_values = true)]
    value: Option<OsString>,
    /// Reads the new value from a file.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Removes the record instead.
    #[arg(long)]
    remove: bool,
}

#[derive(Serialize)]
struct SwapOutput<'a> {
    #[serde(flatten)]
    key: JsonKey<'a>,
    done: bool,
    version: String,
}

pub(super) async fn run(arguments: CompareSwapArguments) -> Result<CommandEnding, CommandError> {
    let (place, key) = (arguments.place, arguments.key.into_bytes());
    let is_stdin = |text: &Option<OsString>| text.as_ref().is_some_and(|text| text == "-");
    if is_stdin(&arguments.expected.expect) && is_stdin(&arguments.new.value) {
        let what = "standard input has one value: give the other as an argument or a file";
        return Err(CommandError::Usage(what.to_owned()));
    }
    let expected = read(arguments.expected.expect, arguments.expected.expect_file)?;
    let new = read(arguments.new.value, arguments.new.file)?;
    let keyspace = place.open().await?;
    interrupt::note_sent(output::WRITE);
    let swap = keyspace.compare_swap(&key, expected.as_deref(), new.as_deref());
    match swap.condition(arguments.condition.into()).await {
        Ok(version) => {
            output::note_done(output::WRITE);
            if place.json {
                output::json(&SwapOutput { key: JsonKey(&key), done: true, version: version.to_string() })?;
            }
            Ok(CommandEnding::Done)
        }
        Err(error) => refusal::print_refusal(&place, &key, error),
    }
}

/// `None`: there must be no record.
fn read(text: Option<OsString>, path: Option<PathBuf>) -> Result<Option<Vec<u8>>, CommandError> {
    match (text, path) {
        (Some(text), _) => argument(text).map(Some),
        (None, Some(path)) => file(&path).map(Some),
        (None, None) => Ok(None),
    }
}
