//! Interruption by SIGINT (Ctrl-C), SIGTERM or SIGHUP: the command says whether something may be written, and ends with exit code 130.
//!
//! A thread of its own waits for the signals, since a command may be blocked in a read of its standard input. Commands that clean
//! up after a signal handle it themselves (`crate::common::runtime::StopSignals`) and do not use this.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::process::Signal;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use zerohop_server::is_signal_ignored;

use super::ending::{CODE_INTERRUPTED, CommandError};
use super::failure::{self, FailedObject};
use super::names;
use crate::output;

/// What may be done since it was sent.
static SENT: Mutex<Option<&'static str>> = Mutex::new(None);

fn sent() -> MutexGuard<'static, Option<&'static str>> {
    SENT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes that the command now sends a change: from now on, an interruption leaves open whether it is done. `what` is the subject,
/// as of [`output::note_done`].
pub(crate) fn note_sent(what: &'static str) {
    *sent() = Some(what);
}

/// Notes that the cluster has answered, and nothing of the change is done.
pub(crate) fn note_not_done() {
    *sent() = None;
}

/// What is left of a change that has begun and that a repetition completes.
static BEGUN: OnceLock<String> = OnceLock::new();

/// Notes that the command now begins a change of many steps: from now on, this is what an interruption says of it.
pub(crate) fn note_begun(left: String) {
    let _ = BEGUN.set(left);
}

/// The file that the command copies to.
#[derive(Debug)]
pub(crate) enum CopiedFile {
    /// The command writes no file, or a device or pipe.
    None,
    /// The copy has this temporary name, and is removed by an interruption.
    Temporary(PathBuf),
    /// This file has a part of the copy.
    Incomplete(PathBuf),
    /// This file has the whole copy.
    Complete(PathBuf),
}

/// An interruption keeps it locked: after the message about the file, nothing changes the file.
static COPIED: Mutex<CopiedFile> = Mutex::new(CopiedFile::None);

fn copied() -> MutexGuard<'static, CopiedFile> {
    COPIED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Creates the temporary file of a copy. An interruption removes it.
pub(crate) fn create_copy<T>(
    create: impl FnOnce() -> io::Result<T>,
    path: impl FnOnce(&T) -> &Path,
) -> io::Result<T> {
    let mut copied = copied();
    let file = create()?;
    *copied = CopiedFile::Temporary(path(&file).to_owned());
    Ok(file)
}

/// Notes the file that the command writes from now on, unless it is a temporary one.
pub(crate) fn note_copy(file: CopiedFile) {
    *copied() = file;
}

/// Completes the copy, either before an interruption or not at all.
pub(crate) fn finish_copy(path: &Path, finish: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let mut copied = copied();
    finish()?;
    if !matches!(*copied, CopiedFile::None) {
        *copied = CopiedFile::Complete(path.to_owned());
    }
    Ok(())
}

/// What an interruption leaves of a copy; `None`: nothing.
fn rest_of_copy(copied: &CopiedFile) -> Option<String> {
    match copied {
        CopiedFile::Temporary(path) => {
            let failed =
                std::fs::remove_file(path).err().filter(|error| error.kind() != io::ErrorKind::NotFound)?;
            Some(format!("a part of the copy is left in {}: removing it failed: {failed}", names::path(path)))
        }
        CopiedFile::Incomplete(path) => Some(format!("{} has only a part of the copy", names::path(path))),
        CopiedFile::Complete(path) => Some(match output::has_result() {
            true => format!("{} is complete, but the output may not be", names::path(path)),
            false => format!("{} is complete", names::path(path)),
        }),
        CopiedFile::None => output::has_result().then(|| "the output may not be complete".to_owned()),
    }
}

/// From now on, the signals end the process with a message. Without a thread or descriptors for it they end the process as before.
pub(crate) fn watch(is_json: bool) {
    let is_watched = |signal: Signal| !is_signal_ignored(signal);
    let (interrupt, terminate) = (is_watched(Signal::INT), is_watched(Signal::TERM));
    let hang_up = is_watched(Signal::HUP);
    let builder = std::thread::Builder::new().name("signals".to_owned());
    drop(builder.spawn(move || {
        let Ok(runtime) = Builder::new_current_thread().enable_all().build() else { return };
        let is_stopped = runtime.block_on(async {
            let listen = |kind, is_watched: bool| is_watched.then(|| signal(kind).ok()).flatten();
            let mut interrupt = listen(SignalKind::interrupt(), interrupt);
            let mut terminate = listen(SignalKind::terminate(), terminate);
            let mut hang_up = listen(SignalKind::hangup(), hang_up);
            tokio::select! {
                Some(one) = received(&mut interrupt) => Some(one),
                Some(one) = received(&mut terminate) => Some(one),
                Some(one) = received(&mut hang_up) => Some(one),
                else => None,
            }
        });
        if is_stopped.is_some() {
            end(is_json);
        }
    }));
}

/// The next signal of a stream. `None`: it is not watched.
pub(super) async fn received(stream: &mut Option<tokio::signal::unix::Signal>) -> Option<()> {
    stream.as_mut()?.recv().await
}

/// The error of a command that a signal has ended before it changed anything.
pub(crate) fn before_changes() -> CommandError {
    let rest = output::has_result().then(|| "the output may not be complete".to_owned());
    CommandError::Interrupted { sent: None, is_done: false, rest }
}

/// Ends the process.
fn end(is_json: bool) -> ! {
    let copied = copied();
    let rest = rest_of_copy(&copied);
    let error = match BEGUN.get() {
        Some(left) if !output::is_done() => CommandError::InterruptedPartly(left.clone()),
        _ => CommandError::Interrupted { sent: *sent(), is_done: output::is_done(), rest },
    };
    if is_json {
        failure::print(FailedObject::default(), failure::reason(&error), &error);
    }
    output::last_problem(&format!("zerohop: {error}"));
    std::process::exit(CODE_INTERRUPTED.into())
}
