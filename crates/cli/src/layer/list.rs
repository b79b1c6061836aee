//! Lists the logs or queues of a cluster.

use std::time::Duration;

use serde::Serialize;
use tokio::time::timeout;
use zerohop_client::{Client, KeyOrder};
use zerohop_wire::admin::KeyspaceStatus;

use super::LayerSurvey;
use super::survey::LayerMetrics;
use crate::common::admin;
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::target::ClusterTarget;
use crate::output;

/// How long a keyspace may take behind one that has not answered, so that a list of many such ones ends.
const ANSWER_MAX: Duration = Duration::from_secs(1);

/// A log or queue in a list; serialized, it is the JSON of a line.
pub(crate) trait LayerSummary: Serialize + Sized {
    /// The one in a keyspace; nothing if the keyspace has none, or none that the command may read.
    async fn find(client: &Client, keyspace: &str) -> Result<Option<Self>, CommandError>;

    /// One line.
    fn line(&self) -> String;
}

/// Prints each one of the cluster. One that does not answer is named, and its error ends the command behind the others.
pub(crate) async fn list<L: LayerSummary>(
    target: &ClusterTarget,
    is_json: bool,
) -> Result<CommandEnding, CommandError> {
    let client = target.connect().await?;
    let mut keyspaces = admin::status(&client).await?.keyspaces;
    keyspaces.retain(|keyspace| keyspace.hash == KeyOrder::ORDERED && !keyspace.dropping);
    let mut failure = None;
    for KeyspaceStatus { name, .. } in keyspaces {
        let limit = if failure.is_some() { ANSWER_MAX } else { Duration::MAX };
        let why = match timeout(limit, L::find(&client, &name)).await {
            Ok(Ok(Some(shown))) if is_json => {
                output::json(&shown)?;
                continue;
            }
            Ok(Ok(Some(shown))) => {
                output::result(&shown.line())?;
                continue;
            }
            Ok(Ok(None)) => continue,
            // It may have been dropped since the list was read.
            Ok(Err(_)) if admin::is_dropped(&client, &name).await? => continue,
            Ok(Err(error)) => {
                let why = error.to_string();
                failure.get_or_insert(error);
                why
            }
            Err(_) => "no answer in time".to_owned(),
        };
        // The others are listed all the same.
        output::problem(&format!("zerohop: keyspace {name} was not read: {why}"));
    }
    failure.map_or(Ok(CommandEnding::Done), Err)
}

/// Prints the figures of all as text for Prometheus. What was not read is named on standard error, and does not make the command fail.
pub(crate) async fn print_metrics(
    target: &ClusterTarget,
    metrics: LayerMetrics,
) -> Result<CommandEnding, CommandError> {
    let client = target.connect().await?;
    let status = admin::status(&client).await?;
    let survey = LayerSurvey::read(&client, &status.keyspaces).await;
    survey.unread_keyspaces.iter().for_each(|one| output::problem(&format!("zerohop: {one}")));
    let text = metrics(survey).map_err(|error| CommandError::Refused(error.to_string()))?;
    output::raw(&[text.as_bytes()])?;
    Ok(CommandEnding::Done)
}
