//! One unit, from its bytes to its reply.

#![allow(
    clippy::disallowed_methods,
    reason = "a gateway: deadlines that clients give are by the time of day"
)]

use std::time::{SystemTime, UNIX_EPOCH};

use zerohop_client::{Client, Error, Failure, Keyspace, Transaction};
use zerohop_resp::{Gathered, Scratch, Step, Unit, failure_reply};

use crate::Cluster;
use crate::records::{fetch, write};

/// Executes a unit and appends its reply, whatever comes of it.
pub(crate) async fn execute(cluster: &Cluster, name: &str, unit: &[u8], reply: &mut Vec<u8>) {
    let result = match cluster.keyspace(name).await {
        Ok((client, keyspace)) => run(&client, &keyspace, unit).await,
        Err(error) => Err(error),
    };
    match result {
        Ok(bytes) => reply.extend_from_slice(&bytes),
        Err(error) => {
            if matches!(error.failure(), Some(Failure::UnknownKeyspace { .. })) {
                cluster.forget(name);
            }
            failure_reply(&failure_of(&error), reply);
        }
    }
}

/// What a client of Redis is told: whether it was not done, or nobody knows.
fn failure_of(error: &Error) -> Failure<'static> {
    match error.failure() {
        Some(failure) => failure.clone(),
        None if error.is_unknown() => Failure::TimedOut { version: Default::default() },
        None if error.is_conflict() => Failure::Busy { retry_after_ms: 0 },
        None => Failure::Unavailable { retry_after_ms: 0 },
    }
}

async fn run(client: &Client, keyspace: &Keyspace, unit: &[u8]) -> Result<Vec<u8>, Error> {
    client.transaction(|transaction| attempt(transaction, keyspace, unit)).await
}

/// Executes it over what is there now, and leaves the commit to the caller, or ends the transaction where there is nothing to be
/// committed.
async fn attempt(transaction: Transaction, keyspace: &Keyspace, unit: &[u8]) -> Result<Vec<u8>, Error> {
    let (mut gathered, mut scratch) = (Gathered::default(), Scratch::default());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
    let mut has_read = false;
    loop {
        let mut reply = Vec::new();
        // What the instance has sent; of no version of this protocol if not.
        let Ok(unit) = Unit::decode(unit) else { return Err(Error::Unexpected) };
        let step = gathered.execute(&unit, now_ms, &mut scratch, &mut reply);
        match step {
            Step::Wants(wants) => {
                has_read = true;
                for (key, found) in fetch(&transaction, keyspace, wants).await? {
                    if let Err(failure) = gathered.note(key, found) {
                        failure_reply(&failure, &mut reply);
                        transaction.abort();
                        return Ok(reply);
                    }
                }
            }
            Step::Done(changes) => {
                if changes.is_empty() && !has_read {
                    transaction.abort();
                } else {
                    write(&transaction, keyspace, &changes)?;
                }
                return Ok(reply);
            }
            Step::Failed => {
                transaction.abort();
                return Ok(reply);
            }
        }
    }
}
