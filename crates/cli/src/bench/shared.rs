//! State shared by all tasks of a phase: the numbers that are left, and the progress.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::kv_phase::KvPhase;
use super::workload::Workload;

#[derive(Debug)]
pub(super) struct BenchShared {
    pub(super) workload: Workload,
    next: AtomicU64,
    end: AtomicU64,
    done: AtomicU64,
    /// Numbers whose keys may have been written.
    inserted: AtomicU64,
    stopped: AtomicBool,
}

impl BenchShared {
    pub(super) fn new(workload: Workload) -> Self {
        BenchShared {
            workload,
            next: AtomicU64::new(0),
            end: AtomicU64::new(0),
            done: AtomicU64::new(0),
            inserted: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
        }
    }

    /// Prepares a phase; no task may run meanwhile.
    pub(super) fn begin(&self, phase: KvPhase) {
        if phase == KvPhase::CleanUp {
            self.end.store(self.inserted.load(Ordering::Relaxed), Ordering::Relaxed);
        } else {
            self.end.store(self.workload.ops(), Ordering::Relaxed);
        }
        self.next.store(0, Ordering::Relaxed);
        self.done.store(0, Ordering::Relaxed);
        self.stopped.store(false, Ordering::Relaxed);
    }

    /// The next number of the phase, if one is left.
    pub(super) fn next_number(&self, phase: KvPhase) -> Option<u64> {
        if self.stopped.load(Ordering::Relaxed) {
            return None;
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        if number >= self.end.load(Ordering::Relaxed) {
            return None;
        }
        if phase == KvPhase::Insert {
            self.inserted.fetch_max(number + 1, Ordering::Relaxed);
        }
        Some(number)
    }

    pub(super) fn count_one(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Ends the phase early; operations in flight are finished.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }
}
