//! Repeats what the cluster does not answer.

use std::time::Duration;

use zerohop_layer_driver::RecordStore;
use zerohop_layer_queue::{QueueError, QueueProcedure};

use crate::layer::Queues;

/// The pause before a procedure is repeated.
const PAUSE: Duration = Duration::from_millis(50);

/// Runs a procedure, and repeats it until `until`, in milliseconds since 1970, while the cluster does not answer. `procedure` gets
/// whether an attempt may have been done. Of several errors, one that leaves a doubt is returned.
pub(crate) async fn run<P: QueueProcedure>(
    store: &RecordStore,
    until: u64,
    mut procedure: impl FnMut(bool) -> P,
) -> Result<P::Output, QueueError> {
    let mut doubt = None;
    loop {
        let error = match zerohop_layer_driver::run::<Queues, _>(store, procedure(doubt.is_some())).await {
            Ok(output) => return Ok(output),
            Err(error) => error,
        };
        if let QueueError::Unavailable(_) = error {
            doubt = Some(error.clone());
        }
        match error {
            QueueError::Unavailable(_) | QueueError::Busy if store.now() < until => {
                tokio::time::sleep(PAUSE).await;
            }
            // The store refused this attempt, and an earlier one may be done.
            QueueError::Unavailable(_) | QueueError::Busy | QueueError::NoRoom | QueueError::Refused(_) => {
                return Err(doubt.unwrap_or(error));
            }
            error => return Err(error),
        }
    }
}
