//! The runtime of the asynchronous parts of a command.

use std::future::pending;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use zerohop_server::is_signal_ignored;

use super::ending::CommandError;
use super::interrupt;

/// Pairs of descriptors that an event loop and the first connections need.
const SPARE_PAIRS: usize = 5;

/// A runtime on this thread alone: a command does nothing while it waits.
pub(crate) fn runtime() -> Result<Runtime, CommandError> {
    // The library panics, instead of returning an error, if the descriptors end while it starts.
    let spare: std::io::Result<Vec<_>> = (0..SPARE_PAIRS).map(|_| UnixStream::pair()).collect();
    let built = spare.map(drop).and_then(|()| Builder::new_current_thread().enable_all().build());
    built
        .and_then(report_file_size_limits)
        .map_err(|error| CommandError::system("starting the event loop", Path::new("zerohop"), &error))
}

/// Under a limit of file sizes, which batch systems set, the system ends a process at a write. With a handler for the signal, the write fails
/// instead, as on a full disk.
fn report_file_size_limits(runtime: Runtime) -> std::io::Result<Runtime> {
    let entered = runtime.enter();
    // The handler stays when the stream of its signals is dropped.
    drop(signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?);
    drop(entered);
    Ok(runtime)
}

/// Stop signals within this time of the first are one.
const SAME_OCCASION: Duration = Duration::from_secs(1);

/// The stop signals: SIGINT (Ctrl-C), SIGTERM and SIGHUP.
pub(crate) struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
    /// `None`: the process was started with it ignored, as by `nohup`.
    hang_up: Option<Signal>,
    /// Ends with standard input, if that counts as a signal.
    input: Option<oneshot::Receiver<()>>,
}

impl StopSignals {
    /// Installs handlers; from now on these signals do not end the process by themselves.
    pub(crate) fn new() -> Result<Self, CommandError> {
        let take = |kind| {
            signal(kind)
                .map_err(|error| CommandError::system("listening to signals", Path::new("zerohop"), &error))
        };
        let watches_hang_up = !is_signal_ignored(rustix::process::Signal::HUP);
        Ok(StopSignals {
            interrupt: take(SignalKind::interrupt())?,
            terminate: take(SignalKind::terminate())?,
            hang_up: watches_hang_up.then(|| take(SignalKind::hangup())).transpose()?,
            input: None,
        })
    }

    /// Makes the end of standard input count as a stop signal, once.
    pub(crate) fn end_with_input(&mut self) {
        let (end, ended) = oneshot::channel();
        #[expect(clippy::disallowed_methods, reason = "standard input has no other way to be waited for")]
        std::thread::spawn(move || {
            // A read error counts as the end too.
            let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
            drop(end);
        });
        self.input = Some(ended);
    }

    /// Makes a key press count as a stop signal, and the end of standard input too.
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

    /// Returns once another stop signal has come than those of the same occasion as the last: the end of a terminal is several,
    /// and a program such as `timeout` signals the process and its group.
    pub(crate) async fn come_again(&mut self) {
        let occasion = tokio::time::sleep(SAME_OCCASION);
        tokio::pin!(occasion);
        while !occasion.is_elapsed() {
            tokio::select! {
                () = &mut occasion => {}
                () = self.received() => {}
            }
        }
        self.received().await;
    }

    /// The result of work that changes nothing, unless a stop signal comes before it.
    pub(crate) async fn interrupting<T>(
        &mut self,
        work: impl Future<Output = Result<T, CommandError>>,
    ) -> Result<T, CommandError> {
        tokio::select! {
            done = work => done,
            () = self.received() => Err(interrupt::before_changes()),
        }
    }

    /// Whether the end of standard input, or a key, still counts as a stop signal.
    pub(crate) fn awaits_input(&self) -> bool {
        self.input.is_some()
    }

    /// Returns once a stop signal has come.
    pub(crate) async fn received(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            Some(()) = interrupt::received(&mut self.hang_up) => {}
            () = end(&mut self.input) => {}
        }
    }
}

/// Waits for the end of standard input, once, if it is watched.
async fn end(input: &mut Option<oneshot::Receiver<()>>) {
    match input {
        // An error says that the sender is gone, which counts as the end.
        Some(ended) => drop(ended.await),
        None => pending().await,
    }
    *input = None;
}
