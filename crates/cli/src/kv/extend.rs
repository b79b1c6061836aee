//! `zerohop kv extend`.

use clap::Args;

use super::append::print_length;
use super::condition::ConditionArguments;
use super::{KeyArgument, KvPlace};
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::interrupt;
use crate::common::value::ValueArguments;
use crate::output;

#[derive(Args, Debug)]
#[command(override_usage = "zerohop kv extend [OPTIONS] <KEY> <VALUE | --file <FILE>>")]
pub(crate) struct ExtendArguments {
    #[command(flatten)]
    pub(super) key: KeyArgument,
    #[command(flatten)]
    value: ValueArguments,
    #[command(flatten)]
    condition: ConditionArguments,
    #[command(flatten)]
    pub(super) place: KvPlace,
}

pub(super) async fn run(arguments: ExtendArguments) -> Result<CommandEnding, CommandError> {
    let (place, key) = (arguments.place, arguments.key.into_bytes());
    let bytes = arguments.value.read()?;
    let keyspace = place.open().await?;
    interrupt::note_sent(output::WRITE);
    let length = keyspace.extend(&key, &bytes).condition(arguments.condition.into()).await;
    print_length(&place, &key, length)
}
