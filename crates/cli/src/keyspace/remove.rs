//! `zerohop keyspace drop`.

use std::io::{BufRead, IsTerminal, stdin};
use std::path::Path;
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use super::KeyspacePlace;
use crate::common::admin;
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::{names, quantity};
use crate::output;

#[derive(Args, Debug)]
pub(crate) struct DropArguments {
    /// The name of the keyspace.
    name: String,
    /// Does not ask for confirmation.
    #[arg(long)]
    yes: bool,
    /// Drops the keyspace without waiting for pending transactions. Acknowledged transactions over this and other
    /// keyspaces may then be undone in the others. Use it if the drop waits for a partition that is not served.
    #[arg(long)]
    at_once: bool,
    /// How long to wait until the drop is complete: 60s, 500ms, 2m; 0s does not wait. The drop continues in any case.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = quantity::duration)]
    wait: Duration,
    #[command(flatten)]
    place: KeyspacePlace,
}

/// The JSON of a keyspace that was dropped.
#[derive(Serialize)]
struct DropOutput<'a> {
    name: &'a str,
    done: bool,
}

pub(super) async fn run(arguments: DropArguments) -> Result<CommandEnding, CommandError> {
    let DropArguments { name, yes, at_once, wait, place } = arguments;
    if !yes && stdin().is_terminal() && !confirm("keyspace", &name)? {
        output::problem("Nothing was dropped.");
        return Ok(CommandEnding::No);
    }
    let client = place.target.connect().await?;
    admin::drop_keyspace(&client, &name, (at_once, wait)).await?;
    output::note_done(output::COMMAND);
    if place.json {
        output::json(&DropOutput { name: &name, done: true })?;
    }
    Ok(CommandEnding::Done)
}

/// Asks for the name: typing it is harder to do by mistake than a `y`.
pub(crate) fn confirm(what: &str, name: &str) -> Result<bool, CommandError> {
    let named = names::text(name.as_bytes());
    confirm_removal(&format!("{what} {named} and all that is in it"), "its name", name)
}

/// The same for another removal: `typed` says which name is to be typed.
pub(crate) fn confirm_removal(what: &str, typed: &str, name: &str) -> Result<bool, CommandError> {
    output::prompt(&format!("This removes {what}. Type {typed} to go on: "));
    let mut answer = String::new();
    stdin()
        .lock()
        .read_line(&mut answer)
        .map_err(|error| CommandError::system("reading", Path::new("standard input"), &error))?;
    Ok(answer.trim() == name)
}
