//! Interruption by SIGINT (Ctrl-C) or SIGTERM: the command says whether something may be written, and ends with exit code 130.
//!
//! A thread of its own waits for the signals, since a command may be blocked in a read of its standard input. Commands that clean
//! up after a signal handle it themselves (`crate::common::runtime::StopSignals`) and do not use this.

use std::sync::OnceLock;

use rustix::process::Signal;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

use super::ending::{CODE_INTERRUPTED, CommandError};
use super::failure::{self, FailedObject};
use crate::output;

/// What may be done since it was sent.
static SENT: OnceLock<&'static str> = OnceLock::new();

/// Notes that the command now sends a change: from now on, an interruption leaves open whether it is done. `what` is the subject,
/// as of [`output::note_done`].
pub(crate) fn note_sent(what: &'static str) {
    // A command has one subject, so that a second call has the same.
    let _ = SENT.set(what);
}

/// From now on, the signals end the process with a message. Without a thread or descriptors for it they end the process as before.
pub(crate) fn watch(is_json: bool) {
    let is_watched = |signal: Signal| !is_ignored(signal);
    let (interrupt, terminate) = (is_watched(Signal::INT), is_watched(Signal::TERM));
    let builder = std::thread::Builder::new().name("signals".to_owned());
    drop(builder.spawn(move || {
        let Ok(runtime) = Builder::new_current_thread().enable_all().build() else { return };
        let is_stopped = runtime.block_on(async {
            let listen = |kind, is_watched: bool| is_watched.then(|| signal(kind).ok()).flatten();
            let mut interrupt = listen(SignalKind::interrupt(), interrupt)?;
            let mut terminate = listen(SignalKind::terminate(), terminate)?;
            tokio::select! {
                one = interrupt.recv() => one,
                one = terminate.recv() => one,
            }
        });
        if is_stopped.is_some() {
            end(is_json);
        }
    }));
}

/// Ends the process.
fn end(is_json: bool) -> ! {
    let error = CommandError::Interrupted { sent: SENT.get().copied(), is_done: output::is_done() };
    if is_json {
        failure::print(FailedObject::default(), failure::reason(&error), &error);
    }
    output::problem(&format!("zerohop: {error}"));
    std::process::exit(CODE_INTERRUPTED.into())
}

/// Whether the process was started with the signal ignored, as a job in the background of a script.
fn is_ignored(signal: Signal) -> bool {
    #[expect(clippy::disallowed_methods, reason = "a file of the system, about this process")]
    let status = std::fs::read("/proc/self/status").unwrap_or_default();
    let text = String::from_utf8_lossy(&status);
    let mask = text.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (signal.as_raw() - 1) & 1 == 1
}
