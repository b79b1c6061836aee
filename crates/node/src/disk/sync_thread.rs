//! The thread that carries out a disk's begun syncs, one after the other, so that the caller need not wait.

use std::num::NonZero;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::{Builder, JoinHandle};

use rustix::fs::{Advice, fadvise, fdatasync, fsync};
use rustix::io::{Errno, Result, retry_on_intr};

/// Syncs of one disk that are begun and not yet answered. An instance has one for its journal and one for each
/// segment it is about to seal; whoever has more has forgotten to ask.
pub const SYNCS_BEGUN_MAX: usize = 1024;

/// Hints that wait for the next sync; each holds a descriptor. They have a channel of their own, so as never to stand in
/// the way of a sync.
const HINTS_MAX: usize = 64;

/// What the thread is given.
#[derive(Debug)]
enum Job {
    /// Sync a file, then the folders that hold its name.
    Sync { ticket: u64, file: Arc<OwnedFd>, folders: Vec<OwnedFd> },
    /// Close the last descriptor of a removed file: the system then gives back its space, which takes a while.
    Close(OwnedFd),
}

/// The system may drop its copies of a file's first bytes.
#[derive(Debug)]
struct Uncache {
    file: Arc<OwnedFd>,
    bytes: NonZero<u64>,
}

/// A running thread; dropping it waits for what it was given.
#[derive(Debug)]
pub(super) struct SyncThread {
    jobs: Option<SyncSender<Job>>,
    hints: SyncSender<Uncache>,
    done: Receiver<(u64, Result<()>)>,
    thread: Option<JoinHandle<()>>,
}

impl SyncThread {
    pub(super) fn start() -> std::io::Result<Self> {
        // Both channels hold as many as can be begun: no send ever waits.
        let (jobs, jobs_in) = sync_channel::<Job>(SYNCS_BEGUN_MAX);
        let (hints, hints_in) = sync_channel::<Uncache>(HINTS_MAX);
        let (done_out, done) = sync_channel(SYNCS_BEGUN_MAX);
        let thread = Builder::new().name("zerohop-sync".to_owned()).spawn(move || {
            for job in jobs_in {
                match job {
                    Job::Sync { ticket, file, folders } => {
                        let synced = retry_on_intr(|| fdatasync(&*file));
                        let result = folders.iter().fold(synced, |result, folder| {
                            result.and_then(|()| retry_on_intr(|| fsync(folder)))
                        });
                        if done_out.send((ticket, result)).is_err() {
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
        Ok(SyncThread { jobs: Some(jobs), hints, done, thread: Some(thread) })
    }

    /// Hands a sync over. The caller sees to it that no more than [`SYNCS_BEGUN_MAX`] are unanswered.
    pub(super) fn begin(&self, ticket: u64, file: Arc<OwnedFd>, folders: Vec<OwnedFd>) -> Result<()> {
        let Some(jobs) = &self.jobs else { return Err(Errno::PIPE) };
        jobs.try_send(Job::Sync { ticket, file, folders }).map_err(|_| Errno::PIPE)
    }

    /// Has a descriptor closed; it is closed here and now if the thread has too much to do.
    pub(super) fn close(&self, descriptor: OwnedFd) {
        if let Some(jobs) = &self.jobs {
            drop(jobs.try_send(Job::Close(descriptor)));
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

impl Drop for SyncThread {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // It only makes system calls; if it panicked all the same, the panic was reported when it happened.
            drop(thread.join());
        }
    }
}
