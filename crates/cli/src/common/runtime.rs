//! Where the asynchronous parts of a command run.

use std::future::pending;
use std::io::Read;
use std::path::Path;

use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use super::ending::CommandError;

/// A runtime on this thread alone: a command has nothing to do beside waiting.
pub(crate) fn runtime() -> Result<Runtime, CommandError> {
    let built = Builder::new_current_thread().enable_all().build();
    built.map_err(|error| CommandError::system("starting the event loop", Path::new("zerohop"), &error))
}

/// Ctrl-C, the polite request to end that `kill` sends, and the end of the terminal.
pub(crate) struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
    /// Ends with standard input, if that counts as a signal.
    input: Option<oneshot::Receiver<()>>,
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
            hang_up: take(SignalKind::hangup())?,
            input: None,
        })
    }

    /// The end of standard input counts as one of them, once.
    pub(crate) fn end_with_input(&mut self) {
        let (end, ended) = oneshot::channel();
        #[expect(clippy::disallowed_methods, reason = "standard input has no other way to be waited for")]
        std::thread::spawn(move || {
            // An error is its end too.
            let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
            drop(end);
        });
        self.input = Some(ended);
    }

    /// A key counts as one of them, and so does the end of standard input.
    pub(crate) fn end_with_key(&mut self, key: u8) {
        let (end, ended) = oneshot::channel();
        #[expect(clippy::disallowed_methods, reason = "standard input has no other way to be waited for")]
        std::thread::spawn(move || {
            let is_other = |byte: &std::io::Result<u8>| byte.as_ref().is_ok_and(|byte| *byte != key);
            std::io::stdin().lock().bytes().take_while(is_other).for_each(drop);
            drop(end);
        });
        self.input = Some(ended);
    }

    /// Returns once one of them has come.
    pub(crate) async fn come(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hang_up.recv() => {}
            () = end(&mut self.input) => {}
        }
    }
}

/// Once, if there is an input to end.
async fn end(input: &mut Option<oneshot::Receiver<()>>) {
    match input {
        // An error says that the sender is gone: that is the end.
        Some(ended) => drop(ended.await),
        None => pending().await,
    }
    *input = None;
}
