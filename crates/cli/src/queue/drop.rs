//! `zerohop queue drop`.

use clap::Args;

use super::place::{QueuePlace, queue_name};
use crate::common::display::LayerName;
use crate::common::ending::{CommandEnding, CommandError};
use crate::layer::{LayerDropArguments, drop_layer};

#[derive(Args, Debug)]
pub(crate) struct QueueDropArguments {
    /// The queue.
    #[arg(value_name = "NAME", value_parser = queue_name)]
    pub(super) name: String,
    #[command(flatten)]
    drop: LayerDropArguments,
    #[command(flatten)]
    pub(super) place: QueuePlace,
}

pub(super) async fn run(arguments: QueueDropArguments) -> Result<CommandEnding, CommandError> {
    let QueueDropArguments { name, drop, place } = arguments;
    if let Err(refusal) = place.open(&name).await? {
        return refusal.print(place.json, &name);
    }
    let about = LayerName { kind: "queue", name: &name };
    drop_layer(about, &drop, &place.target, place.json).await
}
