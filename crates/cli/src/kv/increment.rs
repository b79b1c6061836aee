//! `zerohop kv incr`.

use clap::Args;
use serde::Serialize;

use super::condition::ConditionArguments;
use super::{KeyArgument, KvPlace, refusal};
use crate::common::display::JsonKey;
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::interrupt;
use crate::output;

#[derive(Args, Debug)]
pub(crate) struct IncrementArguments {
    #[command(flatten)]
    pub(super) key: KeyArgument,
    /// The number to add; may be negative.
    #[arg(default_value_t = 1, allow_negative_numbers = true)]
    delta: i64,
    #[command(flatten)]
    condition: ConditionArguments,
    #[command(flatten)]
    pub(super) place: KvPlace,
}

#[derive(Serialize)]
struct Sum<'a> {
    #[serde(flatten)]
    key: JsonKey<'a>,
    done: bool,
    value: i64,
}

pub(super) async fn run(arguments: IncrementArguments) -> Result<CommandEnding, CommandError> {
    let (place, key) = (arguments.place, arguments.key.into_bytes());
    let keyspace = place.open().await?;
    interrupt::note_sent(output::WRITE);
    let sum = keyspace.increment(&key, arguments.delta).condition(arguments.condition.into()).await;
    if sum.is_ok() {
        output::note_done(output::WRITE);
    }
    match sum {
        Ok(value) if place.json => output::json(&Sum { key: JsonKey(&key), done: true, value })?,
        Ok(value) => output::result(&value.to_string())?,
        Err(error) => return refusal::print_refusal(&place, &key, error),
    }
    Ok(CommandEnding::Done)
}
