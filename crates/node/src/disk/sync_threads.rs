//! The thread that carries out a disk's begun syncs, one after the other, so that the caller need not wait. One that the
//! caller does wait for is carried out next.

use std::collections::VecDeque;
use std::num::NonZero;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::thread::{Builder, JoinHandle};

use rustix::fs::{Advice, fadvise, fdatasync, fsync};
use rustix::io::{Errno, Result, pwrite, retry_on_intr};

/// Syncs of one disk that are begun and not yet answered. An instance has one for its journal and one for each
/// segment it is about to seal; whoever has more has forgotten to ask.
pub const SYNCS_BEGUN_MAX: usize = 1024;

/// Hints that wait for the next sync; each holds a descriptor. They have a channel of their own, so as never to stand in
/// the way of a sync.
const HINTS_MAX: usize = 64;

/// Files that zeros are being written to at a time.
pub(super) const ZEROS_BEGUN_MAX: usize = 16;

/// Removed files that wait to be closed, beside as many syncs as may be begun.
const CLOSES_MAX: usize = 64;

/// Bytes of zeros in one system call.
const ZEROS_AT_ONCE: usize = 64 << 10;

/// What the thread is given.
#[derive(Debug)]
enum Job {
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

/// What waits for the thread.
#[derive(Debug, Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// Nothing more will come.
    is_closed: bool,
}

/// The queue, and how the thread is woken.
#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    has_come: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        // Nothing is done under the lock that could leave the queue half changed.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next job, waited for; `None` when there will be none.
    fn next(&self) -> Option<Job> {
        let mut queue = self.lock();
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                return Some(job);
            }
            if queue.is_closed {
                return None;
            }
            queue = self.has_come.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A running thread; dropping it waits for what it was given.
#[derive(Debug)]
pub(super) struct SyncThread {
    shared: Arc<Shared>,
    hints: SyncSender<Uncache>,
    done: Receiver<(u64, Result<()>)>,
    thread: Option<JoinHandle<()>>,
}

impl SyncThread {
    pub(super) fn start() -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let jobs = Arc::clone(&shared);
        // It holds as many as can be begun: no send ever waits.
        let (hints, hints_in) = sync_channel::<Uncache>(HINTS_MAX);
        let (done_out, done) = sync_channel(SYNCS_BEGUN_MAX + ZEROS_BEGUN_MAX);
        let thread = Builder::new().name("zerohop-sync".to_owned()).spawn(move || {
            while let Some(job) = jobs.next() {
                match job {
                    Job::Sync { ticket, file, folders, waker } => {
                        let synced = retry_on_intr(|| fdatasync(&*file));
                        let result = folders.iter().fold(synced, |result, folder| {
                            result.and_then(|()| retry_on_intr(|| fsync(folder)))
                        });
                        if done_out.send((ticket, result)).is_err() {
                            break;
                        }
                        if let Some(waker) = waker {
                            waker.wake();
                        }
                    }
                    Job::Zero { ticket, file, from, bytes } => {
                        if done_out.send((ticket, write_zeros(&file, from, bytes))).is_err() {
                            break;
                        }
                    }
                    Job::Close(descriptor) => drop(descriptor),
                }
                // What is not dropped does no harm.
                hints_in.try_iter().for_each(|Uncache { file, bytes }| {
                    fadvise(&*file, 0, Some(bytes), Advice::DontNeed).ok();
                });
            }
        })?;
        Ok(SyncThread { shared, hints, done, thread: Some(thread) })
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
        self.push(Job::Sync { ticket, file, folders, waker }, is_awaited)
    }

    fn push(&self, job: Job, is_first: bool) -> Result<()> {
        if self.thread.as_ref().is_none_or(JoinHandle::is_finished) {
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
        self.push(Job::Zero { ticket, file, from, bytes }, false)
    }

    /// Has a sync that somebody waits for carried out before those that nobody does. Syncs may be carried out in any
    /// order: each covers what was issued before it was begun.
    pub(super) fn hurry(&self, ticket: u64) {
        let is_it = |job: &Job| match job {
            Job::Sync { ticket: own, .. } | Job::Zero { ticket: own, .. } => *own == ticket,
            Job::Close(_) => false,
        };
        let jobs = &mut self.shared.lock().jobs;
        if let Some(job) = jobs.iter().position(is_it).and_then(|at| jobs.remove(at)) {
            jobs.push_front(job);
        }
    }

    /// Has a descriptor closed; it is closed here and now if the thread has too much to do.
    pub(super) fn close(&self, descriptor: OwnedFd) {
        let has_room = self.shared.lock().jobs.len() < SYNCS_BEGUN_MAX + CLOSES_MAX;
        if has_room {
            self.push(Job::Close(descriptor), false).ok();
        }
    }

    /// Waits for the next sync that ends; an error if none ever will.
    pub(super) fn wait_done(&self) -> Result<(u64, Result<()>)> {
        self.done.recv().map_err(|_| Errno::PIPE)
    }

    /// Has the system's copies of a file's first bytes dropped after the next sync, unless there is too much to do.
    pub(super) fn uncache(&self, file: Arc<OwnedFd>, bytes: u64) {
        if let Some(bytes) = NonZero::new(bytes) {
            drop(self.hints.try_send(Uncache { file, bytes }));
        }
    }

    /// The next sync that ended, if one has; an error if none ever will.
    pub(super) fn next_done(&self) -> Result<Option<(u64, Result<()>)>> {
        match self.done.try_recv() {
            Ok(done) => Ok(Some(done)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(Errno::PIPE),
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

impl Drop for SyncThread {
    fn drop(&mut self) {
        self.shared.lock().is_closed = true;
        self.shared.has_come.notify_one();
        if let Some(thread) = self.thread.take() {
            // It only makes system calls; if it panicked all the same, the panic was reported when it happened.
            drop(thread.join());
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::OFlags;

    use super::*;

    #[test]
    fn a_sync_that_somebody_waits_for_is_carried_out_before_those_that_nobody_does() {
        const SYNCS: u64 = 500;
        let folder = tempfile::tempdir().unwrap();
        let thread = SyncThread::start().unwrap();
        for ticket in 0..SYNCS {
            // Each has something to write.
            let path = folder.path().join(ticket.to_string());
            let mode = rustix::fs::Mode::from_raw_mode(0o600);
            let file = rustix::fs::open(&path, OFlags::CREATE | OFlags::WRONLY, mode).unwrap();
            pwrite(&file, &[7; 5_000], 0).unwrap();
            thread.begin(ticket, Arc::new(file), Vec::new(), None).unwrap();
        }
        thread.hurry(SYNCS - 1);
        let done: Vec<u64> = (0..SYNCS).map(|_| thread.wait_done().unwrap().0).collect();
        let at = done.iter().position(|&ticket| ticket == SYNCS - 1).unwrap();
        // A few may have ended before it was known that anybody waits.
        assert!(at + 1 < SYNCS as usize, "it was carried out last");
        assert!(done[..at].is_sorted() && done[at + 1..].is_sorted(), "the others keep their order");
    }
}
