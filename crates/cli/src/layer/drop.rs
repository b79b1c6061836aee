//! Drops a log or queue with its keyspace.

use std::io::{IsTerminal, stdin};
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use crate::common::display::LayerName;
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::target::ClusterTarget;
use crate::common::{admin, quantity};
use crate::keyspace::confirm;
use crate::output;

#[derive(Args, Debug)]
pub(crate) struct LayerDropArguments {
    /// Does not ask for confirmation.
    #[arg(long)]
    yes: bool,
    /// How long to wait until the drop is complete: 60s, 500ms, 2m; 0s does not wait. The drop continues in any case.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = quantity::duration)]
    wait: Duration,
}

#[derive(Serialize)]
struct LayerDropOutput<'a> {
    #[serde(flatten)]
    about: LayerName<'a>,
    done: bool,
}

/// Drops a log or queue, which the caller has seen.
pub(crate) async fn drop_layer(
    about: LayerName<'_>,
    arguments: &LayerDropArguments,
    target: &ClusterTarget,
    is_json: bool,
) -> Result<CommandEnding, CommandError> {
    let LayerDropArguments { yes, wait } = *arguments;
    if !yes && stdin().is_terminal() && !confirm(about.kind, about.name)? {
        output::problem("Nothing was dropped.");
        return Ok(CommandEnding::No);
    }
    let client = target.connect().await?;
    admin::drop_keyspace(&client, about.name, (false, wait)).await?;
    output::note_done(output::COMMAND);
    if is_json {
        output::json(&LayerDropOutput { about, done: true })?;
    }
    Ok(CommandEnding::Done)
}
