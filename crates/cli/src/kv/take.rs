//! `zerohop kv take`.

use clap::Args;

use super::condition::GivenCondition;
use super::{KeyArgument, KvPlace, record, refusal};
use crate::common::ending::{CommandEnding, CommandError};

#[derive(Args, Debug)]
pub(crate) struct TakeArguments {
    #[command(flatten)]
    pub(super) key: KeyArgument,
    #[command(flatten)]
    condition: GivenCondition,
    #[command(flatten)]
    pub(super) place: KvPlace,
}

pub(super) async fn run(arguments: TakeArguments) -> Result<CommandEnding, CommandError> {
    let (place, key) = (arguments.place, arguments.key.into_bytes());
    let keyspace = place.open().await?;
    match keyspace.take(&key).condition(arguments.condition.into()).await {
        // All of it is here: no further page is read.
        Ok(Some(taken)) => record::show(&place, &keyspace, &key, taken, None).await,
        Ok(None) => refusal::not_found(&place, &key),
        Err(error) => refusal::print_refusal(&place, &key, error),
    }
}
