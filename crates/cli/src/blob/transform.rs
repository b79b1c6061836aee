//! `zerohop blob transform`.

use clap::Args;
use serde::Serialize;
use serde_json::Value;
use zerohop_client::{Blob, Error, Number, Transform};

use super::{BlobPlace, NameArgument, refusal};
use crate::common::display::Name;
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::interrupt;
use crate::common::transform::{TransformArguments, TransformTarget};
use crate::output;

#[derive(Args, Debug)]
pub(crate) struct BlobTransformArguments {
    #[command(flatten)]
    pub(super) name: NameArgument,
    #[command(flatten)]
    transform: TransformArguments,
    #[command(flatten)]
    pub(super) place: BlobPlace,
}

#[derive(Serialize)]
struct ChangedNumber<'a> {
    #[serde(flatten)]
    name: Name<'a>,
    done: bool,
    value: Value,
}

impl TransformTarget for Blob<'_> {
    async fn transform<N: Number>(&self, transform: Transform<N>, old: bool) -> Result<N, Error> {
        match old {
            true => self.transform_and_get_old(transform).await,
            false => Blob::transform(self, transform).await,
        }
    }
}

pub(super) async fn run(arguments: BlobTransformArguments) -> Result<CommandEnding, CommandError> {
    let BlobTransformArguments { name, transform, place } = arguments;
    let name = name.into_bytes();
    let keyspace = place.open().await?;
    interrupt::note_sent(output::WRITE);
    let number = transform.run(&keyspace.blob(name.clone())).await?;
    if number.is_ok() {
        output::note_done(output::WRITE);
    }
    match number {
        Ok(shown) if place.json => {
            output::json(&ChangedNumber { name: Name(&name), done: true, value: shown.value })?
        }
        Ok(shown) => output::result(&shown.text)?,
        Err(error) => return refusal::print_refusal(&place, &name, error),
    }
    Ok(CommandEnding::Done)
}
