//! Programs and clients with long time limits: requests may take long on a slow machine.

use std::ffi::{OsStr, OsString};

use zerohop_client::{BlockingClient, Client, ClientOptions, Error};

use super::GIVE_UP_AFTER;

/// Adds a time limit that no slow machine reaches to the arguments, if the command has such an
/// option and the arguments do not set it.
pub(crate) fn patient(arguments: &[impl AsRef<OsStr>]) -> Vec<OsString> {
    let mut all: Vec<OsString> = arguments.iter().map(|one| one.as_ref().to_owned()).collect();
    let is_named = all.iter().any(|one| one == "--timeout");
    let word = |at: usize| all.get(at).and_then(|one| one.to_str()).unwrap_or_default();
    let behind = match word(0) {
        "backup" | "recover" | "restore" | "status" | "txn" | "verify" => 1,
        "blob" | "keyspace" | "kv" | "node" | "partition"
            if !word(1).is_empty() && !word(1).starts_with('-') =>
        {
            2
        }
        _ => return all,
    };
    if !is_named {
        all.insert(behind, format!("--timeout={}s", GIVE_UP_AFTER.as_secs()).into());
    }
    all
}

pub(crate) fn options() -> ClientOptions {
    ClientOptions { deadline: GIVE_UP_AFTER, connect_deadline: GIVE_UP_AFTER, ..ClientOptions::default() }
}

pub(crate) async fn client(endpoint: &str) -> Result<Client, Error> {
    Client::connect_with(&[endpoint], options()).await
}

pub(crate) fn blocking_client(endpoint: &str) -> Result<BlockingClient, Error> {
    BlockingClient::connect_with(&[endpoint], options())
}
