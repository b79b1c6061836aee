//! Control requests to a manager.

use zerohop_client::Client;
use zerohop_wire::admin::{
    AdminAnswer, AdminRequest, Answer, Ask, KeyspaceDrop, KeyspaceSettings, KeyspaceStatus, Status, StatusGet,
};

use super::ending::CommandError;

/// How the cluster is.
pub(crate) async fn status(client: &Client) -> Result<Status, CommandError> {
    match ask(client, Ask::Status(StatusGet {})).await? {
        Answer::Status(status) => Ok(status),
        _ => Err(CommandError::Unexpected),
    }
}

/// Makes a keyspace.
pub(crate) async fn create(
    client: &Client,
    settings: KeyspaceSettings,
) -> Result<KeyspaceStatus, CommandError> {
    keyspace(ask(client, Ask::CreateKeyspace(settings)).await?)
}

/// Changes a keyspace.
pub(crate) async fn alter(
    client: &Client,
    settings: KeyspaceSettings,
) -> Result<KeyspaceStatus, CommandError> {
    keyspace(ask(client, Ask::AlterKeyspace(settings)).await?)
}

/// Removes a keyspace, and says what it was.
pub(crate) async fn drop_keyspace(client: &Client, name: &str) -> Result<KeyspaceStatus, CommandError> {
    keyspace(ask(client, Ask::DropKeyspace(KeyspaceDrop { name: name.to_owned() })).await?)
}

async fn ask(client: &Client, ask: Ask) -> Result<Answer, CommandError> {
    let answer = client.admin(AdminRequest::of(ask).to_bytes().into()).await?;
    match AdminAnswer::from_bytes(&answer).map_err(|_| CommandError::Unexpected)?.answer {
        Some(Answer::Refused(refused)) => Err(CommandError::Refused(refused.reason)),
        Some(answer) => Ok(answer),
        None => Err(CommandError::Unexpected),
    }
}

fn keyspace(answer: Answer) -> Result<KeyspaceStatus, CommandError> {
    match answer {
        Answer::Keyspace(keyspace) => Ok(keyspace),
        _ => Err(CommandError::Unexpected),
    }
}
