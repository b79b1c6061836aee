//! `zerohop kv transform`.

use clap::Args;
use serde::Serialize;
use serde_json::Value;
use zerohop_client::{Condition, Error, Keyspace, Number, Transform};

use super::condition::ConditionArguments;
use super::{KeyArgument, KvPlace, refusal};
use crate::common::display::JsonKey;
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::interrupt;
use crate::common::transform::{TransformArguments, TransformTarget};
use crate::output;

#[derive(Args, Debug)]
pub(crate) struct KvTransformArguments {
    #[command(flatten)]
    pub(super) key: KeyArgument,
    #[command(flatten)]
    transform: TransformArguments,
    #[command(flatten)]
    condition: ConditionArguments,
    #[command(flatten)]
    pub(super) place: KvPlace,
}

#[derive(Serialize)]
struct TransformOutput<'a> {
    #[serde(flatten)]
    key: JsonKey<'a>,
    done: bool,
    value: Value,
}

struct TransformedRecord<'a> {
    keyspace: Keyspace,
    key: &'a [u8],
    condition: Condition,
}

impl TransformTarget for TransformedRecord<'_> {
    async fn transform<N: Number>(&self, transform: Transform<N>, old: bool) -> Result<N, Error> {
        let operation = match old {
            true => self.keyspace.transform_and_get_old(self.key, transform),
            false => self.keyspace.transform(self.key, transform),
        };
        operation.condition(self.condition).await
    }
}

pub(super) async fn run(arguments: KvTransformArguments) -> Result<CommandEnding, CommandError> {
    let KvTransformArguments { key, transform, condition, place } = arguments;
    let key = key.into_bytes();
    let record = TransformedRecord { keyspace: place.open().await?, key: &key, condition: condition.into() };
    interrupt::note_sent(output::WRITE);
    let number = transform.run(&record).await?;
    if number.is_ok() {
        output::note_done(output::WRITE);
    }
    match number {
        Ok(shown) if place.json => {
            output::json(&TransformOutput { key: JsonKey(&key), done: true, value: shown.value })?
        }
        Ok(shown) => output::result(&shown.text)?,
        Err(error) => return refusal::print_refusal(&place, &key, error),
    }
    Ok(CommandEnding::Done)
}
