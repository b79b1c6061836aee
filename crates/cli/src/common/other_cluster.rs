//! Whether another process serves the node of a data folder: then the folder is a copy, and the
//! other process keeps serving.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use zerohop_client::{Client, ClientOptions, ClientTls, Secret};
use zerohop_server::{FolderOwner, process_of_original};

use super::admin;
use super::ending::CommandError;
use super::names;
use crate::output;

/// How long a connection may take.
const CONNECT_MAX: Duration = Duration::from_secs(1);

/// How long an answer may take.
const ANSWER_MAX: Duration = Duration::from_secs(3);

/// How long an answer may take before a message names what it waits for.
const NOTICE_AFTER: Duration = Duration::from_secs(1);

/// How long a process that is about to end may still serve.
const EXIT_TIME_OUT: Duration = Duration::from_secs(3);

/// The interval of the checks whether it has ended.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// The credentials with which a process asks a node for its identity.
pub(crate) type Credentials = (Option<Secret>, Option<ClientTls>);

/// Checks several folders at the same time; see [`check`].
///
/// # Errors Another process serves the node of one of them.
pub(crate) async fn check_all(
    owners: impl Iterator<Item = (PathBuf, FolderOwner)>,
    listen: &[SocketAddr],
    credentials: &Credentials,
) -> Result<(), CommandError> {
    let mut checks = JoinSet::new();
    for (folder, owner) in owners {
        let (listen, credentials) = (listen.to_vec(), credentials.clone());
        checks.spawn(async move { check(&folder, &owner, &listen, &credentials).await });
    }
    while let Some(checked) = checks.join_next().await {
        // A task ends early only if it panics.
        checked.unwrap_or(Err(CommandError::Unexpected))?;
    }
    Ok(())
}

/// Asks the address at which the node of a folder listened last. An address of `listen` is skipped:
/// this start will use it.
///
/// # Errors Another process serves the node there.
pub(crate) async fn check(
    folder: &Path,
    owner: &FolderOwner,
    listen: &[SocketAddr],
    credentials: &Credentials,
) -> Result<(), CommandError> {
    // A process whose parent was killed a moment ago is about to end.
    let until = Instant::now() + EXIT_TIME_OUT;
    while let Some(process) = process_of_original(folder) {
        if Instant::now() >= until {
            let node =
                owner.node.map_or_else(|| "this data".to_owned(), |node| format!("node {node} of this data"));
            return Err(is_served(folder, &format!("{node} is served by another process, {process}")));
        }
        sleep(CHECK_INTERVAL).await;
    }
    let (Some(node), Some(at)) = (owner.node, &owner.listened_at) else { return Ok(()) };
    if listen.iter().any(|listen| listen.to_string() == *at) {
        return Ok(());
    }
    loop {
        let mut answer = pin!(serves(at, owner, credentials));
        let is_served = match timeout(NOTICE_AFTER, &mut answer).await {
            Ok(is_served) => is_served,
            Err(_) => {
                output::problem(&format!(
                    "zerohop: waiting for an answer from {at}, for {} s at most: node {node} of this data listened there last, and a \
                     program there accepts connections",
                    ANSWER_MAX.as_secs()
                ));
                answer.await
            }
        };
        if !is_served {
            return Ok(());
        }
        if Instant::now() >= until {
            break;
        }
        sleep(CHECK_INTERVAL).await;
    }
    Err(is_served(folder, &format!("node {node} of this data is served by another process, at {at}")))
}

fn is_served(folder: &Path, what: &str) -> CommandError {
    CommandError::Node(format!(
        "{}: {what}: stop that one to serve the data here. If this is a copy of its folder, `zerohop folder new-cluster {}` makes the \
         copy a cluster of its own",
        names::path(folder),
        match folder.parent().filter(|_| is_of_local_cluster(folder)) {
            Some(parent) => names::path(parent),
            None => names::path(folder),
        }
    ))
}

/// Whether the folder's name is one that `zerohop up` gives to the folders of its nodes.
fn is_of_local_cluster(folder: &Path) -> bool {
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.strip_prefix("node-").is_some_and(|number| number.parse::<u32>().is_ok())
}

/// Whether the node of this owner answers there, and serves.
async fn serves(at: &str, owner: &FolderOwner, (secret, tls): &Credentials) -> bool {
    // In the usual case no process listens, and the connection fails at once.
    if !matches!(timeout(CONNECT_MAX, TcpStream::connect(at)).await, Ok(Ok(_))) {
        return false;
    }
    let options = ClientOptions {
        deadline: ANSWER_MAX,
        connect_deadline: ANSWER_MAX,
        name: "zerohop-cli".to_owned(),
        secret: secret.clone(),
        tls: tls.clone(),
        manager: Some(at.to_owned()),
        ..ClientOptions::default()
    };
    let Ok(client) = Client::connect_with(&[at], options).await else { return false };
    let Ok(status) = admin::status(&client).await else { return false };
    // A node reports only its own process id.
    let has_answered = |id: u32| status.nodes.iter().any(|one| one.id == id && one.pid != 0);
    status.cluster == owner.cluster.0 && owner.node.is_some_and(|node| has_answered(node.get()))
}
