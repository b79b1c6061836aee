//! The layer of queues over the store of a cluster.

use std::convert::Infallible;

use zerohop_layer_driver::{Layer, RecordStore, StoreError};
use zerohop_layer_queue::QueueError;

/// The layer of queues.
pub(crate) enum Queues {}

impl Layer for Queues {
    type Error = QueueError;
    type Own = Infallible;

    fn failed(error: StoreError) -> QueueError {
        failed(error)
    }

    async fn carry_out(_: &RecordStore, never: Infallible) -> Result<(), StoreError> {
        match never {}
    }
}

pub(crate) fn failed(error: StoreError) -> QueueError {
    match error {
        error if error.is_dropped() => QueueError::NoSuchQueue,
        StoreError::Corrupt(key) => QueueError::Corrupt(key),
        StoreError::NoRoom => QueueError::NoRoom,
        StoreError::Refused(why) => QueueError::Refused(why),
        StoreError::Unavailable(why) => QueueError::Unavailable(why),
    }
}
