//! `zerohop kv insert`.

use std::time::Duration;

use clap::Args;
use serde::Serialize;
use zerohop_client::Expiry;

use super::condition::ConditionArguments;
use super::{KeyArgument, KvPlace, refusal};
use crate::common::display::JsonKey;
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::interrupt;
use crate::common::quantity;
use crate::common::value::ValueArguments;
use crate::output;

#[derive(Args, Debug)]
#[command(override_usage = "zerohop kv insert [OPTIONS] <KEY> <VALUE | --file <FILE>>")]
pub(crate) struct InsertArguments {
    #[command(flatten)]
    pub(super) key: KeyArgument,
    #[command(flatten)]
    value: ValueArguments,
    /// The record expires after this time: 10s, 500ms, 2h [default: never].
    #[arg(long, value_name = "TIME", value_parser = quantity::time_to_live)]
    ttl: Option<Duration>,
    #[command(flatten)]
    condition: ConditionArguments,
    #[command(flatten)]
    pub(super) place: KvPlace,
}

#[derive(Serialize)]
struct InsertOutput<'a> {
    #[serde(flatten)]
    key: JsonKey<'a>,
    done: bool,
    version: String,
}

pub(super) async fn run(arguments: InsertArguments) -> Result<CommandEnding, CommandError> {
    let (place, key) = (arguments.place, arguments.key.into_bytes());
    let value = arguments.value.read()?;
    let expiry = match arguments.ttl {
        // The server refuses an expiry that is too long, so that the largest value is right for an
        // overflow.
        Some(ttl) => Expiry::AfterMs(u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)),
        None => Expiry::Never,
    };
    let keyspace = place.open().await?;
    interrupt::note_sent(output::WRITE);
    match keyspace.insert_until(&key, &value, expiry).condition(arguments.condition.into()).await {
        Ok(version) => {
            output::note_done(output::WRITE);
            if place.json {
                output::json(&InsertOutput { key: JsonKey(&key), done: true, version: version.to_string() })?;
            }
            Ok(CommandEnding::Done)
        }
        Err(error) => refusal::print_refusal(&place, &key, error),
    }
}
