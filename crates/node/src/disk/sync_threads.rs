//! The threads that carry out a disk's begun syncs, a few at a time, so that the caller need not wait. One that the caller
//! does wait for is carried out next.
//!
//! Of two syncs of one descriptor at a time the system tells an error to one only: so they are carried out one after the other.

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

/// Syncs of one disk that are begun and not yet answered. An instance has one for its journal and one for each
/// segment it is about to seal; whoever has more has forgotten to ask.
pub const SYNCS_BEGUN_MAX: usize = 1024;

/// Syncs that are carried out at a time: the device has others to write while it ends one. More threads gained nothing.
const THREADS_MAX: usize = 4;

/// Hints that wait for the next sync; each holds a descriptor. They are kept apart, so as never to stand in the way of a sync.
const HINTS_MAX: usize = 64;

/// Files that zeros are being written to at a time.
pub(super) const ZEROS_BEGUN_MAX: usize = 16;

/// Removed files that wait to be closed, beside as many syncs as may be begun.
const CLOSES_MAX: usize = 64;

/// Bytes of zeros in one system call.
const ZEROS_AT_ONCE: usize = 64 << 10;

/// What the threads are given.
#[derive(Debug)]
enum SyncJob {
    /// Sync a file, then the folders that hold its name; then wake whoever waits for it.
    Sync { ticket: u64, file: Arc<OwnedFd>, folders: Vec<OwnedFd>, waker: Option<Waker> },
    /// Write zeros behind the end of a file. By a descriptor of its own: what becomes of other bytes is told to theirs.
    Zero { ticket: u64, file: OwnedFd, from: u64, bytes: u64 },
    /// Close the last descriptor of a removed file: the system then gives back its space, which takes a while.
    Close(OwnedFd),
}

/// The system may drop its copies of a file's first bytes.
#[derive(Debug)]
struct Uncache {
    file: Arc<OwnedFd>,
    bytes: NonZero<u64>,
}

impl SyncJob {
    /// The descriptor that no other job may be carried out on at the same time.
    fn descriptor(&self) -> Option<RawFd> {
        match self {
            SyncJob::Sync { file, .. } => Some(file.as_raw_fd()),
            SyncJob::Zero { .. } | SyncJob::Close(_) => None,
        }
    }
}

/// What waits for the threads.
#[derive(Debug, Default)]
struct SyncQueue {
    jobs: VecDeque<SyncJob>,
    hints: VecDeque<Uncache>,
    /// Descriptors that are being synced.
    under_way: Vec<RawFd>,
    /// Nothing more will come.
    is_closed: bool,
}

impl SyncQueue {
    /// The first job that may be carried out now.
    fn take(&mut self) -> Option<SyncJob> {
        let is_free = |job: &SyncJob| job.descriptor().is_none_or(|one| !self.under_way.contains(&one));
        let at = self.jobs.iter().position(is_free)?;
        let job = self.jobs.remove(at)?;
        self.under_way.extend(job.descriptor());
        Some(job)
    }

    /// Has a job that waits carried out before the others.
    fn hurry(&mut self, ticket: u64) {
        let is_it = |job: &SyncJob| match job {
            SyncJob::Sync { ticket: own, .. } | SyncJob::Zero { ticket: own, .. } => *own == ticket,
            SyncJob::Close(_) => false,
        };
        if let Some(job) = self.jobs.iter().position(is_it).and_then(|at| self.jobs.remove(at)) {
            self.jobs.push_front(job);
        }
    }
}

/// The queue, and how the threads are woken.
#[derive(Debug, Default)]
struct SyncShared {
    queue: Mutex<SyncQueue>,
    has_come: Condvar,
}

impl SyncShared {
    fn lock(&self) -> MutexGuard<'_, SyncQueue> {
        // Nothing is done under the lock that could leave the queue half changed.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next job, waited for; `None` when there will be none.
    fn next(&self) -> Option<SyncJob> {
        let mut queue = self.lock();
        loop {
            if let Some(job) = queue.take() {
                return Some(job);
            }
            // Jobs that wait for another on their descriptor are left to the thread that has that.
            if queue.is_closed {
                return None;
            }
            queue = self.has_come.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// What one thread does, until there will be no more or nobody wants the answers: the disk is gone.
    fn work(&self, done: &SyncSender<(u64, Result<()>)>) {
        while let Some(job) = self.next() {
            match job {
                SyncJob::Sync { ticket, file, folders, waker } => {
                    let synced = retry_on_intr(|| fdatasync(&*file));
                    let result = folders
                        .iter()
                        .fold(synced, |result, folder| result.and_then(|()| retry_on_intr(|| fsync(folder))));
                    // Before the next sync of the file may begin, whose answer must not come before this one.
                    if done.send((ticket, result)).is_err() {
                        return;
                    }
                    let descriptor = file.as_raw_fd();
                    let mut queue = self.lock();
                    queue.under_way.retain(|one| *one != descriptor);
                    let has_more = !queue.jobs.is_empty();
                    drop(queue);
                    if has_more {
                        // One of them may have waited for this descriptor, and this thread takes another first.
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
            // What is not dropped does no harm.
            for Uncache { file, bytes } in hints {
                fadvise(&*file, 0, Some(bytes), Advice::DontNeed).ok();
            }
        }
    }
}

/// Between two looks whether a thread has died that was to send an answer: they only make system calls, so none should.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Running threads; dropping it waits for what they were given.
#[derive(Debug)]
pub(super) struct SyncThreads {
    shared: Arc<SyncShared>,
    done: Receiver<(u64, Result<()>)>,
    threads: Vec<JoinHandle<()>>,
}

impl SyncThreads {
    pub(super) fn start() -> std::io::Result<Self> {
        // It holds as many as can be begun: no send ever waits.
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

    /// Hands a sync over. The caller sees to it that no more than [`SYNCS_BEGUN_MAX`] are unanswered. With a waker it goes before
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

    /// Has a sync that somebody waits for carried out before those that nobody does. Syncs may be carried out in any
    /// order: each covers what was issued before it was begun.
    pub(super) fn hurry(&self, ticket: u64) {
        self.shared.lock().hurry(ticket);
    }

    /// Has a descriptor closed; it is closed here and now if the threads have too much to do.
    pub(super) fn close(&self, descriptor: OwnedFd) {
        let has_room = self.shared.lock().jobs.len() < SYNCS_BEGUN_MAX + CLOSES_MAX;
        if has_room {
            self.push(SyncJob::Close(descriptor), false).ok();
        }
    }

    /// Waits for the next sync that ends; an error if none ever will.
    pub(super) fn wait_done(&self) -> Result<(u64, Result<()>)> {
        loop {
            match self.done.recv_timeout(LOOK_AGAIN) {
                Ok(done) => return Ok(done),
                Err(RecvTimeoutError::Timeout) if !self.has_died() => {}
                Err(_) => return Err(Errno::PIPE),
            }
        }
    }

    /// Has the system's copies of a file's first bytes dropped after the next sync, unless there is too much to do.
    pub(super) fn uncache(&self, file: Arc<OwnedFd>, bytes: u64) {
        let Some(bytes) = NonZero::new(bytes) else { return };
        let hints = &mut self.shared.lock().hints;
        if hints.len() < HINTS_MAX {
            hints.push_back(Uncache { file, bytes });
        }
    }

    /// The next sync that ended, if one has; an error if none ever will.
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
        // Should one have panicked, that was reported when it happened.
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
    fn a_sync_that_somebody_waits_for_is_carried_out_before_those_that_nobody_does() {
        let jobs = (0..500).map(|ticket| sync(ticket, &opened())).collect();
        let mut queue = SyncQueue { jobs, ..SyncQueue::default() };
        queue.hurry(400);
        queue.hurry(999);
        let mut next = || ticket(queue.take());
        assert_eq!([next(), next(), next()], [Some(400), Some(0), Some(1)]);
    }

    #[test]
    fn two_syncs_of_one_descriptor_are_carried_out_one_after_the_other() {
        let (one, other) = (opened(), opened());
        let jobs = [sync(1, &one), sync(2, &one), sync(3, &other)];
        let mut queue = SyncQueue { jobs: jobs.into(), ..SyncQueue::default() };
        let mut next = |ended: &Arc<OwnedFd>| {
            queue.under_way.retain(|under_way| ended.as_raw_fd() != *under_way);
            ticket(queue.take())
        };
        let never = opened();
        assert_eq!([next(&never), next(&never), next(&never)], [Some(1), Some(3), None]);
        assert_eq!(next(&one), Some(2));
    }

    #[test]
    fn all_syncs_of_one_file_end_whoever_carries_them_out() {
        let file = Arc::new(tempfile::tempfile().unwrap().into());
        let threads = SyncThreads::start().unwrap();
        (0..200).for_each(|ticket| threads.begin(ticket, Arc::clone(&file), Vec::new(), None).unwrap());
        let done: Vec<u64> = (0..200).map(|_| threads.wait_done().unwrap().0).collect();
        assert!(done.is_sorted(), "in the order in which they were begun");
    }
}
