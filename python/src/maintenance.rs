//! A thread beside blocking callers. Their runtime runs only while one of them waits, so that renewals of leases would stop whenever the program
//! computes. The thread runs it for a moment every few seconds.

use std::sync::{Arc, Weak, mpsc};
use std::time::Duration;

use tokio::runtime::Runtime;

/// Less than the interval of any renewal.
const EVERY: Duration = Duration::from_secs(2);

/// Enough for the replies of a round of renewals; later ones are read at the next time.
const RUN: Duration = Duration::from_millis(20);

/// The thread. It ends when this is dropped.
pub(crate) struct RenewalThread {
    _end: mpsc::Sender<()>,
}

impl RenewalThread {
    /// Starts the thread, if the system permits it.
    pub(crate) fn start(runtime: &Arc<Runtime>) -> Self {
        let (end, ended) = mpsc::channel();
        let runtime = Arc::downgrade(runtime);
        let thread = std::thread::Builder::new().name("zerohop-maintenance".to_owned());
        let _ = thread.spawn(move || keep_up(&runtime, &ended));
        Self { _end: end }
    }
}

fn keep_up(runtime: &Weak<Runtime>, ended: &mpsc::Receiver<()>) {
    while ended.recv_timeout(EVERY) == Err(mpsc::RecvTimeoutError::Timeout) {
        let Some(runtime) = runtime.upgrade() else { return };
        runtime.block_on(async { tokio::time::sleep(RUN).await });
    }
}

/// A value that only the process that made it may drop: in a fork, locks of other threads may stay locked for ever.
pub(crate) struct OwnedByProcess<T> {
    opener: u32,
    value: Option<T>,
}

impl<T> OwnedByProcess<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { opener: std::process::id(), value: Some(value) }
    }

    pub(crate) fn get(&self) -> Option<&T> {
        self.value.as_ref()
    }
}

impl<T> Drop for OwnedByProcess<T> {
    fn drop(&mut self) {
        if self.opener != std::process::id() {
            std::mem::forget(self.value.take());
        }
    }
}
