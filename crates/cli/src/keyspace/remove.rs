//! `zerohop keyspace drop`.

use std::io::{BufRead, IsTerminal, Write, stderr, stdin};
use std::path::Path;

use clap::Args;

use super::Place;
use super::settings::print_one;
use crate::common::admin;
use crate::common::ending::{CommandError, Ending};
use crate::output;

#[derive(Args, Debug)]
pub(crate) struct DropArguments {
    /// Its name.
    name: String,
    /// Does not ask.
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    place: Place,
}

pub(super) async fn run(arguments: DropArguments) -> Result<Ending, CommandError> {
    let DropArguments { name, yes, place } = arguments;
    if !yes && stdin().is_terminal() && !confirm(&name)? {
        output::problem("Nothing was dropped.");
        return Ok(Ending::No);
    }
    let client = place.target.connect().await?;
    let dropped = admin::drop_keyspace(&client, &name).await?;
    if place.json {
        print_one(&place, dropped)?;
    }
    Ok(Ending::Done)
}

/// A name typed anew is harder to give by mistake than a `y`.
fn confirm(name: &str) -> Result<bool, CommandError> {
    let prompt = format!("This removes keyspace {name} and all that is in it. Type its name to go on: ");
    drop(stderr().write_all(prompt.as_bytes()));
    let mut answer = String::new();
    stdin()
        .lock()
        .read_line(&mut answer)
        .map_err(|error| CommandError::system("reading", Path::new("standard input"), &error))?;
    Ok(answer.trim() == name)
}
