//! `zerohop recover acknowledge`: the operator knows of missing data, and the cluster no longer reports it.

use clap::Args;
use serde::Serialize;
use zerohop_wire::plurals::counted;

use crate::common::ending::{CommandEnding, CommandError, NO_KEYSPACE};
use crate::common::target::ClusterTarget;
use crate::common::{admin, names, view};
use crate::output;

#[derive(Args, Debug)]
pub(crate) struct AcknowledgeArguments {
    /// The keyspace [default: all].
    keyspace: Option<String>,
    #[command(flatten)]
    target: ClusterTarget,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

/// The JSON.
#[derive(Serialize)]
struct AcknowledgeOutput<'a> {
    keyspace: Option<&'a str>,
    /// The number of partitions with missing data.
    partitions: u64,
}

pub(super) async fn run(arguments: AcknowledgeArguments) -> Result<CommandEnding, CommandError> {
    let AcknowledgeArguments { keyspace, target, json } = arguments;
    if keyspace.as_deref() == Some("") {
        // A script with an empty variable does not mean all keyspaces.
        return Err(CommandError::Refused("there is no keyspace \"\": name none for all of them".to_owned()));
    }
    let client = target.connect().await?;
    let status = admin::status(&client).await?;
    view::print_problems(&status, json)?;
    if !view::has_quorum(&status) {
        return Err(CommandError::Refused(super::NO_QUORUM.to_owned()));
    }
    if let Some(name) = &keyspace
        && !status.keyspaces.iter().any(|one| one.name == *name)
    {
        let reason = format!(
            "there is no keyspace {}: nothing is reported missing there; `zerohop keyspace list` names those that there are",
            names::quoted(name.as_bytes())
        );
        return Err(CommandError::RefusedAs { word: NO_KEYSPACE, reason });
    }
    // Data that goes missing later is reported again.
    let partitions = admin::acknowledge_losses(&client, keyspace.as_deref(), status.map_epoch).await?;
    output::note_done(output::COMMAND);
    if json {
        output::json(&AcknowledgeOutput { keyspace: keyspace.as_deref(), partitions })?;
        return Ok(CommandEnding::Done);
    }
    let of = match &keyspace {
        Some(keyspace) => format!("keyspace {}", names::text(keyspace.as_bytes())),
        None if partitions == 0 => "any keyspace".to_owned(),
        None => "all keyspaces".to_owned(),
    };
    output::result(&match partitions {
        0 => format!("Nothing is reported missing in {of}."),
        count => {
            format!("The missing data of {} in {of} is no longer reported.", counted(count, "partition"))
        }
    })?;
    Ok(CommandEnding::Done)
}
