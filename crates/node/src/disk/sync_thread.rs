//! The thread that carries out a disk's begun syncs, one after the other, so that the caller need not wait.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::{Builder, JoinHandle};

use rustix::fs::fdatasync;
use rustix::io::{Errno, Result, retry_on_intr};

/// Syncs of one disk that are begun and not yet answered. An instance has one for its journal and one for each
/// segment it is about to seal; whoever has more has forgotten to ask.
pub const SYNCS_BEGUN_MAX: usize = 1024;

/// A running thread; dropping it waits for what it was given.
#[derive(Debug)]
pub(super) struct SyncThread {
    jobs: Option<SyncSender<(u64, Arc<OwnedFd>)>>,
    done: Receiver<(u64, Result<()>)>,
    thread: Option<JoinHandle<()>>,
}

impl SyncThread {
    pub(super) fn start() -> std::io::Result<Self> {
        // Both channels hold as many as can be begun: no send ever waits.
        let (jobs, jobs_in) = sync_channel::<(u64, Arc<OwnedFd>)>(SYNCS_BEGUN_MAX);
        let (done_out, done) = sync_channel(SYNCS_BEGUN_MAX);
        let thread = Builder::new().name("zerohop-sync".to_owned()).spawn(move || {
            for (ticket, descriptor) in jobs_in {
                let result = retry_on_intr(|| fdatasync(&*descriptor));
                if done_out.send((ticket, result)).is_err() {
                    break;
                }
            }
        })?;
        Ok(SyncThread { jobs: Some(jobs), done, thread: Some(thread) })
    }

    /// Hands a sync over. The caller sees to it that no more than [`SYNCS_BEGUN_MAX`] are unanswered.
    pub(super) fn begin(&self, ticket: u64, descriptor: Arc<OwnedFd>) -> Result<()> {
        let Some(jobs) = &self.jobs else { return Err(Errno::PIPE) };
        jobs.try_send((ticket, descriptor)).map_err(|_| Errno::PIPE)
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
