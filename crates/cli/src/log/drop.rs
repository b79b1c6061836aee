//! `zerohop log drop`.

use clap::Args;

use super::place::{LogPlace, log_name};
use crate::common::display::LayerName;
use crate::common::ending::{CommandEnding, CommandError};
use crate::layer::{LayerDropArguments, drop_layer};

#[derive(Args, Debug)]
pub(crate) struct LogDropArguments {
    /// The log.
    #[arg(value_name = "NAME", value_parser = log_name)]
    pub(super) name: String,
    #[command(flatten)]
    drop: LayerDropArguments,
    #[command(flatten)]
    pub(super) place: LogPlace,
}

pub(super) async fn run(arguments: LogDropArguments) -> Result<CommandEnding, CommandError> {
    let LogDropArguments { name, drop, place } = arguments;
    if let Err(refusal) = place.open(&name).await? {
        return refusal.print(place.json, &name);
    }
    let about = LayerName { kind: "log", name: &name };
    drop_layer(about, &drop, &place.target, place.json).await
}
