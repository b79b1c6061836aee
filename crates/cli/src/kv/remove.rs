//! `zerohop kv remove`.

use clap::Args;
use serde::Serialize;

use super::condition::GivenCondition;
use super::{KeyArgument, Place, refusal};
use crate::common::ending::{CommandError, Ending};
use crate::common::shown::Key;
use crate::output;

#[derive(Args, Debug)]
pub(crate) struct RemoveArguments {
    #[command(flatten)]
    key: KeyArgument,
    #[command(flatten)]
    condition: GivenCondition,
    #[command(flatten)]
    pub(super) place: Place,
}

#[derive(Serialize)]
struct Removed<'a> {
    #[serde(flatten)]
    key: Key<'a>,
    done: bool,
}

pub(super) async fn run(arguments: RemoveArguments) -> Result<Ending, CommandError> {
    let (place, key) = (arguments.place, arguments.key.into_bytes());
    let keyspace = place.open().await?;
    match keyspace.remove(&key).condition(arguments.condition.into()).await {
        Ok(true) => {
            if place.json {
                output::json(&Removed { key: Key(&key), done: true })?;
            }
            Ok(Ending::Done)
        }
        Ok(false) => refusal::not_found(&place, &key),
        Err(error) => refusal::tell(&place, &key, error),
    }
}
