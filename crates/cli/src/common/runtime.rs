//! Where the asynchronous parts of a command run.

use std::path::Path;

use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::ending::CommandError;

/// A runtime on this thread alone: a command has nothing to do beside waiting.
pub(crate) fn runtime() -> Result<Runtime, CommandError> {
    let built = Builder::new_current_thread().enable_all().build();
    built.map_err(|error| CommandError::system("starting the event loop", Path::new("zerohop"), &error))
}

/// Ctrl-C and the polite request to end, which `kill` sends.
pub(crate) struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
}

impl StopSignals {
    /// Takes them over; from now on they end nothing by themselves.
    pub(crate) fn new() -> Result<Self, CommandError> {
        let take = |kind| {
            signal(kind)
                .map_err(|error| CommandError::system("listening to signals", Path::new("zerohop"), &error))
        };
        Ok(StopSignals {
            interrupt: take(SignalKind::interrupt())?,
            terminate: take(SignalKind::terminate())?,
        })
    }

    /// Returns once one of them has come.
    pub(crate) async fn come(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
