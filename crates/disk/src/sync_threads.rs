//! The threads that execute a disk's background syncs, several in parallel, so that the caller need not wait. A sync that the caller waits for is
//! executed next.
//!
//! For two concurrent syncs of one descriptor the system reports an error to only one of them, so such syncs are executed one after the other.

use std::collections::VecDeque;
use std::num::NonZero;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use rustix::fs::{Advice, fadvise, fdatasync, fsync};
use rustix::io::{Errno, Result, pwrite, retry_on_intr};

/// Maximum number of unfinished background syncs of one disk: the next one waits until one of them has ended.
pub(super) const SYNCS_BEGUN_MAX: usize = 1024;

/// Number of syncs in parallel: the device has other data to write while one sync ends. More threads gained nothing.
const THREADS_MAX: usize = 4;

/// Maximum number of hints that wait for the next sync; each has a descriptor. They are stored separately, so that they never delay a sync.
const HINTS_MAX: usize = 64;

/// Maximum number of files to which zeros are written at a time.
pub(super) const ZEROS_BEGUN_MAX: usize = 16;

/// Maximum number of removed files that wait to be closed, in addition to the maximum number of syncs.
const CLOSES_MAX: usize = 64;

/// Number of zero bytes in one system call.
const ZEROS_AT_ONCE: usize = 64 << 10;

/// The jobs of the threads.
#[derive(Debug)]
enum SyncJob {
    /// Sync a file, then the folders with its name; then call the waker.
    Sync { ticket: u64, file: Arc<OwnedFd>, folders: Vec<OwnedFd>, waker: Option<Waker> },
    /// Write zeros after the end of a file, with a separate descriptor: errors of other bytes are reported to their own descriptors.
    Zero { ticket: u64, file: OwnedFd, from: u64, bytes: u64 },
    /// Close the last descriptor of a removed file: the system then frees its space, which takes a while.
    Close(OwnedFd),
}

/// The system may drop its cached copy of a file's first bytes.
#[derive(Debug)]
struct Uncache {
    file: Arc<OwnedFd>,
    bytes: NonZero<u64>,
}

impl SyncJob {
    /// The descriptor on which no other job may be executed at the same time.
    fn descriptor(&self) -> Option<RawFd> {
        match self {
            SyncJob::Sync { file, .. } => Some(file.as_raw_fd()),
            SyncJob::Zero { .. } | SyncJob::Close(_) => None,
        }
    }
}

/// The jobs that wait for the threads.
#[derive(Debug, Default)]
struct SyncQueue {
    jobs: VecDeque<SyncJob>,
    hints: VecDeque<Uncache>,
    /// Descriptors that are being synced.
    under_way: Vec<RawFd>,
    /// No more jobs will arrive.
    is_closed: bool,
}

impl SyncQueue {
    /// The first job that may be executed now.
    fn next_job(&mut self) -> Option<SyncJob> {
        let is_free = |job: &SyncJob| job.descriptor().is_none_or(|one| !self.under_way.contains(&one));
        let at = self.jobs.iter().position(is_free)?;
        let job = self.jobs.remove(at)?;
        self.under_way.extend(job.descriptor());
        Some(job)
    }

    /// Moves a waiting job before the others.
    fn prioritize(&mut self, ticket: u64) {
        let is_it = |job: &SyncJob| match job {
            SyncJob::Sync { ticket: own, .. } | SyncJob::Zero { ticket: own, .. } => *own == ticket,
            SyncJob::Close(_) => false,
        };
        if let Some(job) = self.jobs.iter().position(is_it).and_then(|at| self.jobs.remove(at)) {
            self.jobs.push_front(job);
        }
    }
}

/// The queue, and the condition that wakes the threads.
#[derive(Debug, Default)]
struct SyncShared {
    queue: Mutex<SyncQueue>,
    has_come: Condvar,
}

impl SyncShared {
    fn lock(&self) -> MutexGuard<'_, SyncQueue> {
        // No code under the lock can leave the queue inconsistent.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next job, after a wait if necessary; `None` if there will be none.
    fn next(&self) -> Option<SyncJob> {
        let mut queue = self.lock();
        loop {
            if let Some(job) = queue.next_job() {
                return Some(job);
            }
            // Jobs that wait for another job on their descriptor are left to the thread of that job.
            if queue.is_closed {
                return None;
            }
            queue = self.has_come.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The work of one thread, until no more jobs will arrive or the receiver of the answers is gone, because the disk is dropped.
    fn work(&self, done: &SyncSender<(u64, Result<()>)>) {
        while let Some(job) = self.next() {
            match job {
                SyncJob::Sync { ticket, file, folders, waker } => {
                    let synced = retry_on_intr(|| fdatasync(&*file));
                    let result = folders
                        .iter()
                        .fold(synced, |result, folder| result.and_then(|()| retry_on_intr(|| fsync(folder))));
                    // The answer is sent before the next sync of the file may start, whose answer must not come first.
                    if done.send((ticket, result)).is_err() {
                        return;
                    }
                    let descriptor = file.as_raw_fd();
                    let mut queue = self.lock();
                    queue.under_way.retain(|one| *one != descriptor);
                    let has_more = !queue.jobs.is_empty();
                    drop(queue);
                    if has_more {
                        // A job may have waited for this descriptor, and this thread takes another one first.
                        self.has_come.notify_one();
                    }
                    if let Some(waker) = waker {
                        waker.wake();
                    }
                }
                SyncJob::Zero { ticket, file, from, bytes } => {
                    if done.send((ticket, write_zeros(&file, from, bytes))).is_err() {
                        return;
                    }
                }
                SyncJob::Close(descriptor) => drop(descriptor),
            }
            let hints = std::mem::take(&mut self.lock().hints);
            // A failure to drop the cache does no harm.
            for Uncache { file, bytes } in hints {
                fadvise(&*file, 0, Some(bytes), Advice::DontNeed).ok();
            }
        }
    }
}

/// Interval of the checks whether a thread has died that should send an answer: threads only make system calls, so none should die.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The running threads; dropping this waits for their jobs.
#[derive(Debug)]
pub(super) struct SyncThreads {
    shared: Arc<SyncShared>,
    done: Receiver<(u64, Result<()>)>,
    threads: Vec<JoinHandle<()>>,
}

impl SyncThreads {
    pub(super) fn start() -> std::io::Result<Self> {
        // The channel has room for all answers of pending jobs: no send ever blocks.
        let (done_in, done) = sync_channel(SYNCS_BEGUN_MAX + ZEROS_BEGUN_MAX);
        let mut all = SyncThreads { shared: Arc::default(), done, threads: Vec::new() };
        for _ in 0..THREADS_MAX {
            let (shared, done) = (Arc::clone(&all.shared), done_in.clone());
            all.threads
                .push(Builder::new().name("zerohop-sync".to_owned()).spawn(move || shared.work(&done))?);
        }
        Ok(all)
    }

    fn has_died(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished)
    }

    /// Passes a sync to the threads. The caller makes sure that no more than [`SYNCS_BEGUN_MAX`] are unfinished. A sync with a waker comes before
    /// all others.
    pub(super) fn begin(
        &self,
        ticket: u64,
        file: Arc<OwnedFd>,
        folders: Vec<OwnedFd>,
        waker: Option<Waker>,
    ) -> Result<()> {
        let is_awaited = waker.is_some();
        self.push(SyncJob::Sync { ticket, file, folders, waker }, is_awaited)
    }

    fn push(&self, job: SyncJob, is_first: bool) -> Result<()> {
        if self.has_died() {
            return Err(Errno::PIPE);
        }
        let mut queue = self.shared.lock();
        if is_first {
            queue.jobs.push_front(job);
        } else {
            queue.jobs.push_back(job);
        }
        drop(queue);
        self.shared.has_come.notify_one();
        Ok(())
    }

    /// Has zeros written and synced.
    pub(super) fn zero(&self, ticket: u64, file: OwnedFd, from: u64, bytes: u64) -> Result<()> {
        self.push(SyncJob::Zero { ticket, file, from, bytes }, false)
    }

    /// Moves a sync that a caller waits for before the others. Syncs may be executed in any order: each covers the writes that were issued before
    /// it began.
    pub(super) fn prioritize(&self, ticket: u64) {
        self.shared.lock().prioritize(ticket);
    }

    /// Has a descriptor closed by a thread, or closes it at once if the threads have too many jobs.
    pub(super) fn close(&self, descriptor: OwnedFd) {
        let has_room = self.shared.lock().jobs.len() < SYNCS_BEGUN_MAX + CLOSES_MAX;
        if has_room {
            self.push(SyncJob::Close(descriptor), false).ok();
        }
    }

    /// Waits for the next sync to end; an error if none will end.
    pub(super) fn wait_done(&self) -> Result<(u64, Result<()>)> {
        loop {
            match self.done.recv_timeout(CHECK_INTERVAL) {
                Ok(done) => return Ok(done),
                Err(RecvTimeoutError::Timeout) if !self.has_died() => {}
                Err(_) => return Err(Errno::PIPE),
            }
        }
    }

    /// Has the system's cached copy of a file's first bytes dropped after the next sync, unless too many such hints are waiting.
    pub(super) fn uncache(&self, file: Arc<OwnedFd>, bytes: u64) {
        let Some(bytes) = NonZero::new(bytes) else { return };
        let hints = &mut self.shared.lock().hints;
        if hints.len() < HINTS_MAX {
            hints.push_back(Uncache { file, bytes });
        }
    }

    /// The next sync that has ended, if there is one; an error if none will end.
    pub(super) fn next_done(&self) -> Result<Option<(u64, Result<()>)>> {
        match self.done.try_recv() {
            Ok(done) => Ok(Some(done)),
            Err(TryRecvError::Empty) if !self.has_died() => Ok(None),
            Err(_) => Err(Errno::PIPE),
        }
    }
}

fn write_zeros(file: &OwnedFd, from: u64, bytes: u64) -> Result<()> {
    let zeros = [0; ZEROS_AT_ONCE];
    let mut at = from;
    while at < from + bytes {
        let piece = zeros.len().min((from + bytes - at) as usize);
        at += retry_on_intr(|| pwrite(file, &zeros[..piece], at))? as u64;
    }
    retry_on_intr(|| fdatasync(file))
}

impl Drop for SyncThreads {
    fn drop(&mut self) {
        self.shared.lock().is_closed = true;
        self.shared.has_come.notify_all();
        // A panic of a thread was reported when it happened.
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::OFlags;

    use super::*;

    fn opened() -> Arc<OwnedFd> {
        Arc::new(rustix::fs::open(".", OFlags::RDONLY, rustix::fs::Mode::empty()).unwrap())
    }

    fn sync(ticket: u64, file: &Arc<OwnedFd>) -> SyncJob {
        SyncJob::Sync { ticket, file: Arc::clone(file), folders: Vec::new(), waker: None }
    }

    fn ticket(job: Option<SyncJob>) -> Option<u64> {
        match job? {
            SyncJob::Sync { ticket, .. } | SyncJob::Zero { ticket, .. } => Some(ticket),
            SyncJob::Close(_) => None,
        }
    }

    #[test]
    fn awaited_sync_runs_before_unawaited_ones() {
        let jobs = (0..500).map(|ticket| sync(ticket, &opened())).collect();
        let mut queue = SyncQueue { jobs, ..SyncQueue::default() };
        queue.prioritize(400);
        queue.prioritize(999);
        let mut next = || ticket(queue.next_job());
        assert_eq!([next(), next(), next()], [Some(400), Some(0), Some(1)]);
    }

    #[test]
    fn syncs_of_one_descriptor_run_one_after_another() {
        let (one, other) = (opened(), opened());
        let jobs = [sync(1, &one), sync(2, &one), sync(3, &other)];
        let mut queue = SyncQueue { jobs: jobs.into(), ..SyncQueue::default() };
        let mut next = |ended: &Arc<OwnedFd>| {
            queue.under_way.retain(|under_way| ended.as_raw_fd() != *under_way);
            ticket(queue.next_job())
        };
        let never = opened();
        assert_eq!([next(&never), next(&never), next(&never)], [Some(1), Some(3), None]);
        assert_eq!(next(&one), Some(2));
    }

    #[test]
    fn syncs_of_one_file_end_in_order_on_any_thread() {
        let file = Arc::new(tempfile::tempfile().unwrap().into());
        let threads = SyncThreads::start().unwrap();
        (0..200).for_each(|ticket| threads.begin(ticket, Arc::clone(&file), Vec::new(), None).unwrap());
        let done: Vec<u64> = (0..200).map(|_| threads.wait_done().unwrap().0).collect();
        assert!(done.is_sorted(), "in the order in which they were begun");
    }
}
