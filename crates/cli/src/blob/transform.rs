//! `zerohop blob transform`.

use clap::Args;
use serde::Serialize;
use serde_json::Value;
use zerohop_client::{Blob, Error, Number, Transform};

use super::{NameArgument, Place, refusal};
use crate::common::ending::{CommandError, Ending};
use crate::common::shown::Name;
use crate::common::transform::{GivenTransform, Numbered};
use crate::output;

#[derive(Args, Debug)]
pub(crate) struct TransformArguments {
    #[command(flatten)]
    name: NameArgument,
    #[command(flatten)]
    transform: GivenTransform,
    #[command(flatten)]
    pub(super) place: Place,
}

#[derive(Serialize)]
struct Changed<'a> {
    #[serde(flatten)]
    name: Name<'a>,
    done: bool,
    value: Value,
}

impl Numbered for Blob<'_> {
    async fn transform<N: Number>(&self, transform: Transform<N>, old: bool) -> Result<N, Error> {
        match old {
            true => self.transform_and_get_old(transform).await,
            false => Blob::transform(self, transform).await,
        }
    }
}

pub(super) async fn run(arguments: TransformArguments) -> Result<Ending, CommandError> {
    let TransformArguments { name, transform, place } = arguments;
    let name = name.into_bytes();
    let keyspace = place.open().await?;
    match transform.run(&keyspace.blob(name.clone())).await? {
        Ok(shown) if place.json => {
            output::json(&Changed { name: Name(&name), done: true, value: shown.value })?
        }
        Ok(shown) => output::result(&shown.text)?,
        Err(error) => return refusal::tell(&place, &name, error),
    }
    Ok(Ending::Done)
}
