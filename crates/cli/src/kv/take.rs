//! `zerohop kv take`.

use clap::Args;
use zerohop_client::Failure;
use zerohop_wire::limits::{LIST_PAGE_VALUES_MAX, TAKE_BYTES_MAX};

use super::condition::ConditionArguments;
use super::{KeyArgument, KvPlace, record, refusal};
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::interrupt;
use crate::common::names::beginning;
use crate::output;

#[derive(Args, Debug)]
pub(crate) struct TakeArguments {
    #[command(flatten)]
    pub(super) key: KeyArgument,
    #[command(flatten)]
    condition: ConditionArguments,
    #[command(flatten)]
    pub(super) place: KvPlace,
}

pub(super) async fn run(arguments: TakeArguments) -> Result<CommandEnding, CommandError> {
    let (mut place, key) = (arguments.place, arguments.key.into_bytes());
    place.removes_shown = true;
    let keyspace = place.open().await?;
    interrupt::note_sent(output::WRITE);
    match keyspace.take(&key).condition(arguments.condition.into()).await {
        // All of it is here: no further page is read.
        Ok(Some(removed)) => record::show(&place, &keyspace, &key, removed, None).await,
        Ok(None) => refusal::not_found(&place, &key),
        Err(error) => match error.failure() {
            Some(Failure::ValueTooLong { .. } | Failure::TooMany { .. }) => {
                Err(CommandError::RefusedAs { word: "too_large", reason: too_large(&key) })
            }
            _ => refusal::print_refusal(&place, &key, error),
        },
    }
}

fn too_large(key: &[u8]) -> String {
    format!(
        "key {}: the record is too large for `take`: at most {TAKE_BYTES_MAX} bytes, and in a list at most \
         {LIST_PAGE_VALUES_MAX} values with 4 bytes more for each. It is unchanged: look it up, then remove it with --if-version",
        beginning(key)
    )
}
