//! `zerohop folder`: data folders that no process has open.

use std::fmt::Write;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::Serialize;
use zerohop_server::new_cluster;
use zerohop_wire::messages::ClusterId;

use crate::common::ending::{CommandEnding, CommandError};
use crate::common::names;
use crate::output;

#[derive(Debug, Subcommand)]
pub(crate) enum FolderCommand {
    /// Turns a copy of a data folder into a separate cluster, so that it can run beside the original.
    ///
    /// The nodes of the copy get a new cluster id. Nothing else changes, and the original stays as it is. Stop the
    /// cluster before you copy its folder, and run this command before you start the copy.
    NewCluster(NewClusterArguments),
}

#[derive(Args, Debug)]
pub(crate) struct NewClusterArguments {
    /// The folder of `zerohop up --data`, or of one `zerohop node --data`.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The new cluster id, 32 hexadecimal digits. If the folders of a copy are on several machines, use the same id for
    /// all of them [default: random].
    #[arg(long, value_name = "ID", value_parser = id)]
    id: Option<ClusterId>,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

/// The JSON.
#[derive(Serialize)]
struct NewClusterOutput {
    cluster: String,
    folders: usize,
}

pub(crate) fn run(command: &FolderCommand) -> Result<CommandEnding, CommandError> {
    let FolderCommand::NewCluster(NewClusterArguments { folder, id, json }) = command;
    let (folders, cluster) =
        new_cluster(folder, *id).map_err(|error| CommandError::Refused(error.to_string()))?;
    output::note_done(output::COMMAND);
    let cluster = cluster.0.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    });
    if *json {
        output::json(&NewClusterOutput { cluster, folders })?;
        return Ok(CommandEnding::Done);
    }
    let nodes = if folders == 1 { "The node in" } else { "All nodes in" };
    let verb = if folders == 1 { "is" } else { "are" };
    output::result(&format!("{nodes} {} {verb} of the new cluster {cluster} now.", names::path(folder)))?;
    Ok(CommandEnding::Done)
}

/// Parses a cluster id. For clap.
fn id(text: &str) -> Result<ClusterId, String> {
    let wrong = || "write 32 hexadecimal digits, not all of them 0".to_owned();
    if text.len() != 32 || !text.bytes().all(|one| one.is_ascii_hexdigit()) {
        return Err(wrong());
    }
    let id = u128::from_str_radix(text, 16).map_err(|_| wrong())?;
    if id == 0 { Err(wrong()) } else { Ok(ClusterId(id.to_be_bytes())) }
}
