//! `zerohop kv remove`.

use clap::Args;
use serde::Serialize;

use super::condition::ConditionArguments;
use super::{KeyArgument, KvPlace, refusal};
use crate::common::display::JsonKey;
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::interrupt;
use crate::output;

#[derive(Args, Debug)]
pub(crate) struct KvRemoveArguments {
    #[command(flatten)]
    pub(super) key: KeyArgument,
    #[command(flatten)]
    condition: ConditionArguments,
    #[command(flatten)]
    pub(super) place: KvPlace,
}

#[derive(Serialize)]
struct RemoveOutput<'a> {
    #[serde(flatten)]
    key: JsonKey<'a>,
    done: bool,
}

pub(super) async fn run(arguments: KvRemoveArguments) -> Result<CommandEnding, CommandError> {
    let (place, key) = (arguments.place, arguments.key.into_bytes());
    let keyspace = place.open().await?;
    interrupt::note_sent(output::WRITE);
    match keyspace.remove(&key).condition(arguments.condition.into()).await {
        Ok(true) => {
            output::note_done(output::WRITE);
            if place.json {
                output::json(&RemoveOutput { key: JsonKey(&key), done: true })?;
            }
            Ok(CommandEnding::Done)
        }
        Ok(false) => refusal::not_found(&place, &key),
        Err(error) => refusal::print_refusal(&place, &key, error),
    }
}
