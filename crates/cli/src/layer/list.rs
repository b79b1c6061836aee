//! Lists the logs or queues of a cluster.

use serde::Serialize;
use zerohop_client::{Client, KeyOrder};

use crate::common::admin;
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::target::ClusterTarget;
use crate::output;

/// A log or queue in a list; serialized, it is the JSON of a line.
pub(crate) trait LayerSummary: Serialize + Sized {
    /// The one in a keyspace; nothing if the keyspace has none, or none that the command may read.
    async fn find(client: &Client, keyspace: &str) -> Result<Option<Self>, CommandError>;

    /// One line.
    fn line(&self) -> String;
}

/// Prints each one of the cluster.
pub(crate) async fn list<L: LayerSummary>(
    target: &ClusterTarget,
    is_json: bool,
) -> Result<CommandEnding, CommandError> {
    let client = target.connect().await?;
    let mut keyspaces = admin::status(&client).await?.keyspaces;
    keyspaces.retain(|keyspace| keyspace.hash == KeyOrder::ORDERED && !keyspace.dropping);
    for keyspace in keyspaces {
        let shown = match L::find(&client, &keyspace.name).await {
            Ok(Some(shown)) => shown,
            Ok(None) => continue,
            // It may have been dropped since the list was read.
            Err(error) => match admin::is_dropped(&client, &keyspace.name).await? {
                true => continue,
                false => return Err(error),
            },
        };
        if is_json {
            output::json(&shown)?;
        } else {
            output::result(&shown.line())?;
        }
    }
    Ok(CommandEnding::Done)
}
