//! How far the work has come: counted by those who do it, drawn by one who waits, and the sign for the kill.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use zerohop_wire::words::counted;

use tokio::sync::Notify;
use tokio::time::interval;

use super::limits::PROGRESS_EVERY;
use crate::output::StatusLine;

/// What was done so far.
#[derive(Debug, Default)]
pub(super) struct DemoProgress {
    files: AtomicU64,
    bytes: AtomicU64,
    changed: Notify,
    is_killed: AtomicBool,
}

impl DemoProgress {
    pub(super) fn add(&self, files: u64, bytes: u64) {
        self.files.fetch_add(files, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.changed.notify_one();
    }

    /// Returns once so many files are done. One may wait at a time.
    pub(super) async fn reached(&self, files: u64) {
        while self.files.load(Ordering::Relaxed) < files {
            self.changed.notified().await;
        }
    }

    /// From now on what is acknowledged may have been acknowledged after the kill.
    pub(super) fn note_kill(&self) {
        self.is_killed.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_killed(&self) -> bool {
        self.is_killed.load(Ordering::SeqCst)
    }

    /// Does the work, and shows meanwhile how far it has come.
    pub(super) async fn watch<T>(&self, label: &str, total_files: usize, work: impl Future<Output = T>) -> T {
        let line = StatusLine::new();
        let mut ticks = interval(PROGRESS_EVERY);
        let mut work = pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return done,
                _ = ticks.tick() => {
                    let files = self.files.load(Ordering::Relaxed);
                    let megabytes = self.bytes.load(Ordering::Relaxed) / 1_000_000;
                    line.show(&format!("{label}: {files} of {}, {megabytes} MB", counted(total_files, "file")));
                }
            }
        }
    }
}
