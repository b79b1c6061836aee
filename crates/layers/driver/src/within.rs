//! Decisions of layers as parts of an open transaction.

use std::collections::BTreeSet;

use zerohop_client::{Timestamp, Transaction};
use zerohop_layer_procedure::{Attempt, AttemptStep, Decide};

use crate::error::StoreError;
use crate::run::Layer;
use crate::store::RecordStore;

/// Decides within a transaction: what the decision reads and writes becomes a part of the transaction, which the caller commits.
///
/// # Errors
/// Those of the decision, after which the transaction has none of its writes, and those of the store.
pub async fn decide_within<L: Layer, D: Decide<L::Error>>(
    store: &RecordStore,
    transaction: &Transaction,
    decide: D,
) -> Result<D::Output, L::Error> {
    let failed = |error: StoreError| L::failed(error);
    let mut attempt = Attempt::new(decide);
    let mut read = BTreeSet::new();
    let (output, writes) = loop {
        match attempt.advance(store.now()) {
            AttemptStep::Read(keys) => {
                let values = store.read_in(transaction, &keys).await.map_err(failed)?;
                if !attempt.supply(values) {
                    return Err(failed(StoreError::Unavailable(
                        "the store has not read all keys".to_owned(),
                    )));
                }
                read.extend(keys);
            }
            AttemptStep::Decided(output, writes) => break (output?, writes),
        }
    };
    // What was read is a condition of the transaction already.
    for (key, version) in attempt.conditions().filter(|(key, _)| !read.contains(key)) {
        let version = version.map(|version| Timestamp(version.0));
        transaction
            .require(store.records(), &key, version)
            .map_err(|error| failed(StoreError::from(error)))?;
    }
    let (writes, additions) = writes.into_parts();
    store.write_in(transaction, &writes, &additions).map_err(|error| failed(StoreError::from(error)))?;
    Ok(output)
}
