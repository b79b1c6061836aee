//! One kind of operation, and one task of it: operations in sequence, each answer checked.

use std::sync::{Arc, Mutex, PoisonError};

use zerohop_client::{Error, Keyspace};
use zerohop_system::clock::Stopwatch;

use super::histogram::Histogram;
use super::kv_phase::KvPhase;
use super::shared::BenchShared;
use crate::common::ending::CommandError;

/// Why a phase ended early.
#[derive(Debug)]
pub(super) enum PhaseFailure {
    /// An operation failed.
    Failed(CommandError),
    /// An answer was wrong.
    Wrong(String),
}

impl From<Error> for PhaseFailure {
    fn from(error: Error) -> Self {
        PhaseFailure::Failed(error.into())
    }
}

/// Takes numbers until none is left. A failure stops the other tasks too.
pub(super) async fn run_client(
    phase: KvPhase,
    keyspace: Keyspace,
    shared: Arc<BenchShared>,
    latencies: Arc<Mutex<Histogram>>,
) -> Result<(), PhaseFailure> {
    let (mut key, mut value) = (Vec::new(), Vec::new());
    while let Some(number) = shared.next_number(phase) {
        // A clean-up covers only the numbers that were inserted, in their order.
        let number = match phase {
            KvPhase::Lookup | KvPhase::Remove => shared.workload.shuffled(number),
            KvPhase::Insert | KvPhase::CleanUp => number,
        };
        shared.workload.key(number, &mut key);
        if phase == KvPhase::Insert {
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
    phase: KvPhase,
    keyspace: &Keyspace,
    shared: &BenchShared,
    number: u64,
    key: &[u8],
    value: &[u8],
) -> Result<(), PhaseFailure> {
    let wrong = |what: &str| Err(PhaseFailure::Wrong(format!("key \"{}\": {what}", key.escape_ascii())));
    match phase {
        KvPhase::Insert => {
            keyspace.insert(key, value).await?;
        }
        KvPhase::Lookup => match keyspace.lookup_bytes(key).await? {
            Some(found) if shared.workload.is_value(number, &found) => {}
            Some(_) => return wrong("another value was found than was inserted"),
            None => return wrong("was inserted and is not there"),
        },
        KvPhase::Remove => {
            if !keyspace.remove(key).await? {
                return wrong("was inserted and was not there to be removed");
            }
        }
        KvPhase::CleanUp => {
            keyspace.remove(key).await?;
        }
    }
    Ok(())
}
