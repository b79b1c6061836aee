//! `zerohop queue drop`.

use std::io::{IsTerminal, stdin};
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use super::place::{QueuePlace, queue_name};
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::{admin, quantity};
use crate::keyspace::confirm;
use crate::output;

#[derive(Args, Debug)]
pub(crate) struct QueueDropArguments {
    /// The queue.
    #[arg(value_name = "NAME", value_parser = queue_name)]
    name: String,
    /// Does not ask for confirmation.
    #[arg(long)]
    yes: bool,
    /// How long to wait until the drop is complete: 60s, 500ms, 2m; 0s does not wait. The drop continues in any case.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = quantity::duration)]
    wait: Duration,
    #[command(flatten)]
    pub(super) place: QueuePlace,
}

#[derive(Serialize)]
struct QueueDropOutput<'a> {
    queue: &'a str,
    done: bool,
}

pub(super) async fn run(arguments: QueueDropArguments) -> Result<CommandEnding, CommandError> {
    let QueueDropArguments { name, yes, wait, place } = arguments;
    if let Err(refusal) = place.open(&name).await? {
        return refusal.print(place.json, &name);
    }
    if !yes && stdin().is_terminal() && !confirm("queue", &name)? {
        output::problem("Nothing was dropped.");
        return Ok(CommandEnding::No);
    }
    let client = place.target.connect().await?;
    admin::drop_keyspace(&client, &name, (false, wait)).await?;
    output::note_done(output::COMMAND);
    if place.json {
        output::json(&QueueDropOutput { queue: &name, done: true })?;
    }
    Ok(CommandEnding::Done)
}
