//! `zerohop secret`: the cluster's secret, in a file of its own.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use zerohop_client::write_new_secret;

use crate::common::ending::{CommandEnding, CommandError};
use crate::common::names;
use crate::common::secret::SecretPlace;
use crate::output;

#[derive(Debug, Subcommand)]
pub(crate) enum SecretCommand {
    /// Makes a file with a new secret, which nobody but you may read. Give it to every node and client with
    /// --secret-file, or ZEROHOP_SECRET_FILE.
    ///
    /// A file that is there is left as it is.
    New(SecretNewArguments),
    /// Prints what is sent as `Authorization: Bearer` to read the metrics and the status of a node over HTTP.
    ///
    /// From it nobody finds the secret, and it opens nothing else.
    Bearer(SecretPlace),
}

#[derive(Args, Debug)]
pub(crate) struct SecretNewArguments {
    /// The file.
    path: PathBuf,
}

pub(crate) fn run(command: &SecretCommand) -> Result<CommandEnding, CommandError> {
    match command {
        SecretCommand::New(SecretNewArguments { path }) => {
            write_new_secret(path).map_err(CommandError::Secret)?;
            output::problem(&format!(
                "A new secret is in {}. Copy it to where nodes and clients run, over a way that nobody overhears.",
                names::path(path)
            ));
        }
        SecretCommand::Bearer(place) => match place.read()? {
            Some(secret) => output::result(&secret.bearer())?,
            None => {
                let what = "no secret is named: say --secret-file PATH, or set ZEROHOP_SECRET_FILE";
                return Err(CommandError::Usage(what.to_owned()));
            }
        },
    }
    Ok(CommandEnding::Done)
}
