//! `zerohop kv transform`.

use clap::Args;
use serde::Serialize;
use serde_json::Value;
use zerohop_client::{Condition, Error, Keyspace, Number, Transform};

use super::condition::GivenCondition;
use super::{KeyArgument, Place, refusal};
use crate::common::ending::{CommandError, Ending};
use crate::common::shown::Key;
use crate::common::transform::{GivenTransform, Numbered};
use crate::output;

#[derive(Args, Debug)]
pub(crate) struct TransformArguments {
    #[command(flatten)]
    key: KeyArgument,
    #[command(flatten)]
    transform: GivenTransform,
    #[command(flatten)]
    condition: GivenCondition,
    #[command(flatten)]
    pub(super) place: Place,
}

#[derive(Serialize)]
struct Changed<'a> {
    #[serde(flatten)]
    key: Key<'a>,
    done: bool,
    value: Value,
}

struct Record<'a> {
    keyspace: Keyspace,
    key: &'a [u8],
    condition: Condition,
}

impl Numbered for Record<'_> {
    async fn transform<N: Number>(&self, transform: Transform<N>, old: bool) -> Result<N, Error> {
        let operation = match old {
            true => self.keyspace.transform_and_get_old(self.key, transform),
            false => self.keyspace.transform(self.key, transform),
        };
        operation.condition(self.condition).await
    }
}

pub(super) async fn run(arguments: TransformArguments) -> Result<Ending, CommandError> {
    let TransformArguments { key, transform, condition, place } = arguments;
    let key = key.into_bytes();
    let record = Record { keyspace: place.open().await?, key: &key, condition: condition.into() };
    match transform.run(&record).await? {
        Ok(shown) if place.json => output::json(&Changed { key: Key(&key), done: true, value: shown.value })?,
        Ok(shown) => output::result(&shown.text)?,
        Err(error) => return refusal::tell(&place, &key, error),
    }
    Ok(Ending::Done)
}
