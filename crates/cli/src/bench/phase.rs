//! One kind of operation, and one lane of it: an operation after the other, each answer checked.

use std::sync::{Arc, Mutex, PoisonError};

use zerohop_client::{Error, Keyspace};
use zerohop_node::clock::Stopwatch;

use super::histogram::Histogram;
use super::shared::Shared;
use crate::common::ending::CommandError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Insert,
    Lookup,
    Remove,
    /// Removes what may be there, after something went wrong.
    CleanUp,
}

/// Why a phase ended early.
#[derive(Debug)]
pub(super) enum Trouble {
    /// An operation failed.
    Failed(CommandError),
    /// An answer was wrong.
    Wrong(String),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Trouble::Failed(error.into())
    }
}

impl Phase {
    pub(super) fn name(self) -> &'static str {
        match self {
            Phase::Insert => "insert",
            Phase::Lookup => "lookup",
            Phase::Remove => "remove",
            Phase::CleanUp => "clean up",
        }
    }
}

/// Takes numbers until there are none. On trouble the other lanes stop too.
pub(super) async fn lane(
    phase: Phase,
    keyspace: Keyspace,
    shared: Arc<Shared>,
    latencies: Arc<Mutex<Histogram>>,
) -> Result<(), Trouble> {
    let (mut key, mut value) = (Vec::new(), Vec::new());
    while let Some(number) = shared.take(phase) {
        // A clean-up meets only the numbers that were inserted, in their order.
        let number = match phase {
            Phase::Lookup | Phase::Remove => shared.workload.shuffled(number),
            Phase::Insert | Phase::CleanUp => number,
        };
        shared.workload.key(number, &mut key);
        if phase == Phase::Insert {
            shared.workload.value(number, &mut value);
        }
        let stopwatch = Stopwatch::start();
        let done = operate(phase, &keyspace, &shared, number, &key, &value).await;
        let took = stopwatch.elapsed();
        if let Err(trouble) = done {
            shared.stop();
            return Err(trouble);
        }
        latencies.lock().unwrap_or_else(PoisonError::into_inner).record(took);
        shared.count_one();
    }
    Ok(())
}

async fn operate(
    phase: Phase,
    keyspace: &Keyspace,
    shared: &Shared,
    number: u64,
    key: &[u8],
    value: &[u8],
) -> Result<(), Trouble> {
    let wrong = |what: &str| Err(Trouble::Wrong(format!("key \"{}\": {what}", key.escape_ascii())));
    match phase {
        Phase::Insert => {
            keyspace.insert(key, value).await?;
        }
        Phase::Lookup => match keyspace.lookup_bytes(key).await? {
            Some(found) if shared.workload.is_value(number, &found) => {}
            Some(_) => return wrong("another value was found than was inserted"),
            None => return wrong("was inserted and is not there"),
        },
        Phase::Remove => {
            if !keyspace.remove(key).await? {
                return wrong("was inserted and was not there to be removed");
            }
        }
        Phase::CleanUp => {
            keyspace.remove(key).await?;
        }
    }
    Ok(())
}
