//! Repeats what the cluster does not answer.

use std::time::Duration;

use zerohop_layer_driver::RecordStore;
use zerohop_layer_queue::{QueueError, QueueProcedure};

use crate::layer::Queues;

/// The pause before a procedure is repeated.
const PAUSE: Duration = Duration::from_millis(50);

/// The attempts of a procedure, which is repeated until a moment while the cluster does not answer.
#[derive(Debug)]
pub(crate) struct Attempts {
    until: u64,
    /// The error of an attempt that may have been done.
    doubt: Option<QueueError>,
}

impl Attempts {
    /// Attempts until `until`, in milliseconds since 1970.
    pub(crate) const fn new(until: u64) -> Self {
        Self { until, doubt: None }
    }

    /// Waits before the next attempt. Of several errors, the one that leaves a doubt is returned.
    ///
    /// # Errors
    /// There is no further attempt.
    pub(crate) async fn repeat_after(
        &mut self,
        error: QueueError,
        store: &RecordStore,
    ) -> Result<(), QueueError> {
        if let QueueError::Unavailable(_) = error {
            self.doubt = Some(error.clone());
        }
        match error {
            QueueError::Unavailable(_) | QueueError::Busy if store.now() < self.until => {
                tokio::time::sleep(PAUSE).await;
                Ok(())
            }
            // The store refused this attempt, and an earlier one may be done.
            QueueError::Unavailable(_) | QueueError::Busy | QueueError::NoRoom | QueueError::Refused(_) => {
                Err(self.doubt.take().unwrap_or(error))
            }
            error => Err(error),
        }
    }
}

/// Runs a procedure, and repeats it until `until`, in milliseconds since 1970, while the cluster does not answer. `procedure` gets
/// whether an attempt may have been done.
pub(crate) async fn run<P: QueueProcedure>(
    store: &RecordStore,
    until: u64,
    mut procedure: impl FnMut(bool) -> P,
) -> Result<P::Output, QueueError> {
    let mut attempts = Attempts::new(until);
    loop {
        match zerohop_layer_driver::run::<Queues, _>(store, procedure(attempts.doubt.is_some())).await {
            Ok(output) => return Ok(output),
            Err(error) => attempts.repeat_after(error, store).await?,
        }
    }
}
