//! The layer of logs over the store of a cluster.

use zerohop_layer_driver::{Layer, RecordStore, StoreError};
use zerohop_layer_log::{LogError, TailWait};

/// The layer of logs.
pub(crate) enum Logs {}

impl Layer for Logs {
    type Error = LogError;
    type Own = TailWait;

    fn failed(error: StoreError) -> LogError {
        failed(error)
    }

    async fn carry_out(store: &RecordStore, wait: TailWait) -> Result<(), StoreError> {
        store.wait_changed(&wait.key, wait.seen, wait.until).await
    }
}

pub(crate) fn failed(error: StoreError) -> LogError {
    match error {
        error if error.is_dropped() => LogError::NoSuchLog,
        StoreError::Corrupt(key) => LogError::Corrupt(key),
        StoreError::NoRoom => LogError::NoRoom,
        StoreError::Refused(why) => LogError::Refused(why),
        StoreError::Unavailable(why) => LogError::Unavailable(why),
    }
}
