//! `zerohop kv incr`.

use clap::Args;
use serde::Serialize;

use super::condition::GivenCondition;
use super::{KeyArgument, Place, refusal};
use crate::common::ending::{CommandError, Ending};
use crate::common::shown::Key;
use crate::output;

#[derive(Args, Debug)]
pub(crate) struct IncrementArguments {
    #[command(flatten)]
    key: KeyArgument,
    /// What to add; may be negative.
    #[arg(default_value_t = 1, allow_negative_numbers = true)]
    delta: i64,
    #[command(flatten)]
    condition: GivenCondition,
    #[command(flatten)]
    pub(super) place: Place,
}

#[derive(Serialize)]
struct Sum<'a> {
    #[serde(flatten)]
    key: Key<'a>,
    done: bool,
    value: i64,
}

pub(super) async fn run(arguments: IncrementArguments) -> Result<Ending, CommandError> {
    let (place, key) = (arguments.place, arguments.key.into_bytes());
    let keyspace = place.open().await?;
    match keyspace.increment(&key, arguments.delta).condition(arguments.condition.into()).await {
        Ok(value) if place.json => output::json(&Sum { key: Key(&key), done: true, value })?,
        Ok(value) => output::result(&value.to_string())?,
        Err(error) => return refusal::tell(&place, &key, error),
    }
    Ok(Ending::Done)
}
