//! Progress of the work: the tasks count, one task draws, and another waits for the time of the
//! kill.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::Notify;
use tokio::time::interval;
use zerohop_system::clock::Stopwatch;
use zerohop_wire::plurals::counted;

use super::limits::PROGRESS_EVERY;
use crate::common::progress::time_left;
use crate::common::quantity::format_time;
use crate::output::StatusLine;

/// The work done so far.
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

    /// Returns once this many files are done. One task may wait at a time.
    pub(super) async fn reached(&self, files: u64) {
        while self.files.load(Ordering::Relaxed) < files {
            self.changed.notified().await;
        }
    }

    /// From now on an acknowledgement may have come after the kill.
    pub(super) fn record_kill(&self) {
        self.is_killed.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_killed(&self) -> bool {
        self.is_killed.load(Ordering::SeqCst)
    }

    /// Runs the work, and shows its progress meanwhile.
    pub(super) async fn watch<T>(&self, label: &str, total_files: usize, work: impl Future<Output = T>) -> T {
        let (line, stopwatch) = (StatusLine::new(), Stopwatch::start());
        let mut ticks = interval(PROGRESS_EVERY);
        let mut work = pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return done,
                _ = ticks.tick() => {
                    let files = self.files.load(Ordering::Relaxed);
                    let megabytes = self.bytes.load(Ordering::Relaxed) / 1_000_000;
                    let left = time_left(files, total_files as u64, stopwatch.elapsed());
                    let left = left.map(|left| format!(", {} left", format_time(left))).unwrap_or_default();
                    line.show(&format!("{label}: {files} of {}, {megabytes} MB{left}", counted(total_files, "file")));
                }
            }
        }
    }
}
