//! Tasks that process groups of items concurrently, until none is left or a task fails.

use std::future::Future;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::task::JoinSet;

use super::limits::{CONCURRENT_GROUPS, GROUP_FILES_MAX};
use crate::common::demo_error::DemoError;

/// The items that are not taken by a task yet.
#[derive(Debug)]
pub(super) struct Groups {
    items: usize,
    group: usize,
    next: AtomicUsize,
    failed: AtomicBool,
}

impl Groups {
    /// Small groups where there are few items, so that every task has some.
    fn new(items: usize) -> Self {
        let group = (items / (CONCURRENT_GROUPS * 8)).clamp(1, GROUP_FILES_MAX);
        Groups { items, group, next: AtomicUsize::new(0), failed: AtomicBool::new(false) }
    }

    pub(super) fn next_group(&self) -> Option<Range<usize>> {
        if self.failed.load(Ordering::Relaxed) {
            return None;
        }
        let first = self.next.fetch_add(self.group, Ordering::Relaxed);
        (first < self.items).then(|| first..self.items.min(first + self.group))
    }
}

/// Runs all tasks to their ends. Errors: the first error of a task.
pub(super) async fn run<T, F>(items: usize, task: impl Fn(Arc<Groups>) -> F) -> Result<Vec<T>, DemoError>
where
    T: Send + 'static,
    F: Future<Output = Result<T, DemoError>> + Send + 'static,
{
    let groups = Arc::new(Groups::new(items));
    let mut tasks = JoinSet::new();
    for _ in 0..CONCURRENT_GROUPS {
        tasks.spawn(task(Arc::clone(&groups)));
    }
    let (mut results, mut failure) = (Vec::new(), None);
    while let Some(ended) = tasks.join_next().await {
        match ended {
            Ok(Ok(result)) => results.push(result),
            Ok(Err(error)) => {
                groups.failed.store(true, Ordering::Relaxed);
                failure.get_or_insert(error);
            }
            Err(fault) => std::panic::resume_unwind(fault.into_panic()),
        }
    }
    failure.map_or(Ok(results), Err)
}
