//! `zerohop secret`: the cluster's secret, in a file of its own.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::Serialize;
use zerohop_client::write_new_secret;

use crate::common::ending::{CommandEnding, CommandError};
use crate::common::names;
use crate::common::secret::SecretPlace;
use crate::output;

#[derive(Debug, Subcommand)]
pub(crate) enum SecretCommand {
    /// Creates a file with a new secret, which only its owner can read.
    ///
    /// Give the file to every node and client with --secret-file or ZEROHOP_SECRET_FILE. An existing file is not
    /// changed.
    New(SecretNewArguments),
    /// Prints the bearer token for reading the metrics and the status of a node over HTTP.
    ///
    /// An HTTP client sends it in the header `Authorization: Bearer`. The secret cannot be derived from it, and it
    /// gives no other access.
    Bearer(SecretBearerArguments),
}

#[derive(Args, Debug)]
pub(crate) struct SecretNewArguments {
    /// The file.
    path: PathBuf,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct SecretBearerArguments {
    #[command(flatten)]
    place: SecretPlace,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

/// The JSON of a new secret.
#[derive(Serialize)]
struct SecretNewOutput {
    file: String,
}

/// The JSON of the bearer token.
#[derive(Serialize)]
struct BearerOutput {
    bearer: String,
}

pub(crate) fn run(command: &SecretCommand) -> Result<CommandEnding, CommandError> {
    match command {
        SecretCommand::New(SecretNewArguments { path, json }) => {
            if path.symlink_metadata().is_ok() {
                return Err(CommandError::Refused(format!(
                    "{} exists already, and is not changed: name another file, or use this one if it has the secret",
                    names::path(path)
                )));
            }
            write_new_secret(path).map_err(CommandError::Secret)?;
            output::note_done(output::COMMAND);
            if *json {
                output::json(&SecretNewOutput { file: path.display().to_string() })?;
                return Ok(CommandEnding::Done);
            }
            output::problem(&format!(
                "A new secret is in {}. Copy it over a secure channel to the machines of all nodes and clients.",
                names::path(path)
            ));
        }
        SecretCommand::Bearer(SecretBearerArguments { place, json }) => match place.read()? {
            Some(secret) if *json => output::json(&BearerOutput { bearer: secret.bearer() })?,
            Some(secret) => output::result(&secret.bearer())?,
            None => {
                let what = "no secret is named: say --secret-file PATH, or set ZEROHOP_SECRET_FILE";
                return Err(CommandError::Usage(what.to_owned()));
            }
        },
    }
    Ok(CommandEnding::Done)
}
