//! How far the work has come, counted by those who do it and drawn by one who waits.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};

use super::limits::PROGRESS_EVERY;
use crate::output::StatusLine;

/// What was done so far.
#[derive(Debug, Default)]
pub(super) struct Progress {
    files: AtomicU64,
    bytes: AtomicU64,
}

impl Progress {
    pub(super) fn add(&self, files: u64, bytes: u64) {
        self.files.fetch_add(files, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Does the work in a thread beside this one, and shows meanwhile how far it has come.
    pub(super) fn watch<T: Send>(
        &self,
        label: &str,
        total_files: usize,
        work: impl FnOnce() -> T + Send,
    ) -> T {
        let line = StatusLine::new();
        std::thread::scope(|scope| {
            let (done, is_done) = sync_channel::<()>(1);
            let worker = scope.spawn(move || {
                // Dropped when the work ends, however it ends.
                let _done = done;
                work()
            });
            while is_done.recv_timeout(PROGRESS_EVERY) == Err(RecvTimeoutError::Timeout) {
                let files = self.files.load(Ordering::Relaxed);
                let megabytes = self.bytes.load(Ordering::Relaxed) / 1_000_000;
                line.show(&format!("{label}: {files} of {total_files} files, {megabytes} MB"));
            }
            match worker.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }
}
