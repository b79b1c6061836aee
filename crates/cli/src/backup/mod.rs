//! `zerohop backup`, `zerohop restore` and `zerohop verify`: keyspaces as of one moment, in a
//! folder of files.

mod compared;
mod create;
mod progress;
mod restore;
mod verify;

use zerohop_backup::{BackupError, Target as BackupTarget};
use zerohop_client::Client;
use zerohop_wire::admin::KeyspaceStatus;
use zerohop_wire::plurals::by_number;

use crate::common::ending::CommandError;
use crate::common::{admin, names};

pub(crate) use create::BackupArguments;
pub(crate) use create::run as backup;
pub(crate) use restore::RestoreArguments;
pub(crate) use restore::run as restore;
pub(crate) use verify::VerifyArguments;
pub(crate) use verify::run as verify;

impl From<BackupError> for CommandError {
    fn from(error: BackupError) -> Self {
        match error {
            BackupError::Client(error) => Self::Client(error),
            BackupError::File { operation, path, reason } => Self::System { operation, path, reason },
            other => Self::Refused(other.to_string()),
        }
    }
}

/// The keyspaces of these names, or all keyspaces if there are no names.
async fn keyspaces(client: &Client, names: &[String]) -> Result<Vec<BackupTarget>, CommandError> {
    let all = admin::status(client).await?.keyspaces;
    if let Some(name) = names.iter().find(|name| !all.iter().any(|one| one.name == **name)) {
        return Err(CommandError::Refused(format!(
            "there is no keyspace {}: `zerohop keyspace list` names those that there are",
            names::quoted(name.as_bytes())
        )));
    }
    let mut found = Vec::new();
    for status in all.into_iter().filter(|one| names.is_empty() || names.contains(&one.name)) {
        let keyspace = client.keyspace(&status.name).await?;
        found.push(BackupTarget { keyspace, settings: settings_of(status) });
    }
    Ok(found)
}

fn settings_of(status: KeyspaceStatus) -> zerohop_backup::format::manifest::Keyspace {
    let KeyspaceStatus { id, name, partitions, hash, replicas, min_in_sync, durability, chunk_bytes, .. } =
        status;
    zerohop_backup::format::manifest::Keyspace {
        name,
        id,
        partitions,
        hash,
        replicas,
        min_in_sync,
        durability,
        chunk_bytes,
        separators: Vec::new(),
    }
}

/// So many records and blobs, in words.
fn records_and_blobs(count: u64) -> String {
    format!("{count} {}", by_number(count, "record or blob", "records and blobs"))
}
