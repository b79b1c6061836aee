//! What is wrong with a cluster that did not serve an operation: a manager is asked, and the answer is added to the error.

use std::time::Duration;

use tokio::time::timeout;
use zerohop_client::{Error, Failure, Reason};
use zerohop_wire::admin::Status;

use super::admin;
use super::ending::{CommandEnding, CommandError};
use super::failure::{self, FailedObject};
use super::target::ClusterTarget;
use super::view;

/// How long to wait for a manager's answer, beyond the time-out of the operation.
const STATUS_MAX: Duration = Duration::from_secs(2);

/// The ending of a command on no single record: an error is explained, and printed as JSON if that was requested.
pub(crate) async fn reported(
    target: &ClusterTarget,
    is_json: bool,
    ending: Result<CommandEnding, CommandError>,
) -> Result<CommandEnding, CommandError> {
    reported_about(FailedObject::default(), target, is_json, ending).await
}

/// The same for a command about one object.
pub(crate) async fn reported_about(
    about: FailedObject<'_>,
    target: &ClusterTarget,
    is_json: bool,
    ending: Result<CommandEnding, CommandError>,
) -> Result<CommandEnding, CommandError> {
    let error = match ending {
        Err(error) => named(target, explained(target, error).await).await,
        ending => return ending,
    };
    if is_json {
        failure::print(about, failure::reason(&error), &error);
    }
    Err(error)
}

/// The error with the name of the keyspace in which a token lacks a permission.
async fn named(target: &ClusterTarget, error: CommandError) -> CommandError {
    let Some(keyspace) = error.forbidden_in() else { return error };
    let keyspaces = timeout(STATUS_MAX, status(target)).await.ok().flatten().unwrap_or_default().keyspaces;
    let found = keyspaces.iter().find(|one| one.id == keyspace.0);
    error.naming(|_| found.map(|one| one.name.as_str()))
}

/// What a manager says about the cluster.
async fn status(target: &ClusterTarget) -> Option<Status> {
    let client = target.connect().await.ok()?;
    admin::status(&client).await.ok()
}

/// The error with what a manager says about the cluster, if the cluster is why the operation was not done.
pub(crate) async fn explained(target: &ClusterTarget, error: CommandError) -> CommandError {
    match &error {
        CommandError::Client(client) | CommandError::Blob(client) => {
            let why = unserved_reason(target, client).await;
            explain(error, why)
        }
        _ => error,
    }
}

/// The error with this explanation.
pub(crate) fn explain(error: CommandError, why: Option<String>) -> CommandError {
    match why {
        Some(why) => CommandError::Unserved { error: Box::new(error), why },
        None => error,
    }
}

/// What a manager says about the cluster, if the cluster is why the operation was not done.
pub(crate) async fn unserved_reason(target: &ClusterTarget, error: &Error) -> Option<String> {
    if !is_unserved(error) {
        return None;
    }
    reason_in(&timeout(STATUS_MAX, status(target)).await.ok()??)
}

/// Whether the error may result from the state of the cluster.
fn is_unserved(error: &Error) -> bool {
    let Error::Operation { reason, .. } = error else { return false };
    match &**reason {
        Reason::Deadline { .. }
        | Reason::Unknown { .. }
        | Reason::NoOwner { .. }
        | Reason::Unstaged { .. } => true,
        Reason::Unread { .. } => true,
        Reason::Answer { failure } => {
            matches!(failure, Failure::Unavailable { .. } | Failure::TooFewInSync { .. })
        }
        _ => false,
    }
}

/// What is wrong according to a status; `None`: nothing.
fn reason_in(status: &Status) -> Option<String> {
    let view = status.view.as_ref()?;
    if !view::has_quorum(status) {
        return Some(format!(
            "The control group has no quorum ({} of {} managers answer), so that no node takes over: `zerohop status` and \
             `zerohop doctor` say which nodes are missing",
            view.answering, view.managers
        ));
    }
    let silent: Vec<String> = view.silent.iter().map(u32::to_string).collect();
    match (silent.is_empty(), view.no_primary) {
        (false, _) => Some(format!(
            "Node {} does not answer, and {} partitions have no primary: see `zerohop status` and `zerohop doctor`",
            silent.join(", "),
            view.no_primary
        )),
        (true, 0) => None,
        (true, none) => {
            Some(format!("Partitions without a primary: {none}; see `zerohop status` and `zerohop doctor`"))
        }
    }
}
