//! The threads of a store: their start, requests to them, and their end.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use zerohop_disk::{FilesDisk, NodeDisk};
use zerohop_engine::{EngineOptions, RecoveryReport};
use zerohop_placement::ClusterMap;
use zerohop_system::clock::{Stopwatch, unix_ms};
use zerohop_system::descriptors::Descriptors;

use super::error::StoreError;
use super::instance::EmbeddedInstance;
use super::limits::{ANSWER_WAIT, BULK_WAIT, END_WAIT, QUEUE_SPACE_WAIT};
use super::mailbox::{MailboxEnd, PutError, WorkerMailbox};
use super::options::StoreOptions;
use super::report::Recovery;
use super::request::{StoreAnswer, StoreOperation, StoreOutcome, StoreRequest};
use super::settings::StoreSettings;
use super::worker;

/// The state that all clones of a store share.
#[derive(Debug)]
pub(super) struct StoreShared {
    pub(super) settings: StoreSettings,
    pub(super) recovery: Recovery,
    pub(super) warning: Option<&'static str>,
    /// One for each instance, in order.
    mailboxes: Vec<Arc<WorkerMailbox<StoreRequest>>>,
    /// The parts that must be closed: the first call of `close` moves them out.
    running: Mutex<Option<RunningStore>>,
}

#[derive(Debug)]
struct RunningStore {
    threads: Vec<JoinHandle<()>>,
    /// Has the lock of the store's folder. Released last.
    folder: FilesDisk,
}

/// A request in flight.
#[derive(Debug)]
pub(super) struct PendingRequest {
    instance: u16,
    answer: Receiver<StoreAnswer>,
}

/// The result of opening an engine, from its worker.
type WorkerOpenResult = Result<(RecoveryReport, Option<&'static str>), StoreError>;

impl StoreShared {
    pub(super) fn open(root: &Path, options: &StoreOptions) -> Result<Self, StoreError> {
        let stopwatch = Stopwatch::start();
        StoreSettings::check_folder(root)?;
        let mut folder = FilesDisk::open(root)?;
        let settings = StoreSettings::load(&mut folder, root, options)?;
        let mut shared = StoreShared {
            settings,
            recovery: Recovery::default(),
            warning: None,
            mailboxes: Vec::new(),
            running: Mutex::new(None),
        };
        let mut threads = Vec::new();
        let mut opening = Vec::new();
        let map = settings.map(options.durability);
        let map = Arc::new(map.map_err(|reason| StoreError::Settings { path: root.to_owned(), reason })?);
        Descriptors::share_among(usize::from(settings.instances));
        for instance in 0..settings.instances {
            let mailbox = Arc::new(WorkerMailbox::new());
            let memory_bytes = options.memory_bytes / u64::from(settings.instances);
            let job = WorkerJob { instance, root: root.to_owned(), map: Arc::clone(&map), memory_bytes };
            let (opened, answer) = sync_channel(1);
            shared.mailboxes.push(mailbox.clone());
            opening.push(answer);
            threads.push(start(job, mailbox, opened)?);
        }
        // If one of them fails, dropping `shared` closes the others.
        shared.running = Mutex::new(Some(RunningStore { threads, folder }));
        for (instance, opened) in (0..).zip(opening) {
            let (report, warning) = opened.recv_timeout(BULK_WAIT).map_err(|error| match error {
                RecvTimeoutError::Timeout => StoreError::NoAnswer { instance, waited: BULK_WAIT },
                RecvTimeoutError::Disconnected => shared.why_ended(instance),
            })??;
            shared.recovery.add(&report);
            shared.warning = shared.warning.or(warning);
        }
        shared.recovery.duration = stopwatch.elapsed();
        Ok(shared)
    }

    /// Sends an operation to an instance and waits for its answer.
    pub(super) fn call(&self, instance: u16, operation: StoreOperation, wait: Duration) -> StoreAnswer {
        self.finish(self.begin(instance, operation)?, wait)
    }

    /// Sends an operation to every instance and waits for all answers.
    pub(super) fn call_all(
        &self,
        operation: impl Fn() -> StoreOperation,
        wait: Duration,
    ) -> Result<Vec<StoreOutcome>, StoreError> {
        let pending = (0..self.settings.instances).map(|instance| self.begin(instance, operation()));
        let pending: Vec<_> = pending.collect();
        // Waits for all of them, even if one has failed.
        let answers: Vec<_> = pending.into_iter().map(|one| self.finish(one?, wait)).collect();
        answers.into_iter().collect()
    }

    pub(super) fn begin(
        &self,
        instance: u16,
        operation: StoreOperation,
    ) -> Result<PendingRequest, StoreError> {
        let (reply, answer) = sync_channel(1);
        let bytes = operation.bytes();
        let mailbox = &self.mailboxes[usize::from(instance)];
        match mailbox.put(StoreRequest { operation, reply }, bytes, QUEUE_SPACE_WAIT) {
            Ok(()) => Ok(PendingRequest { instance, answer }),
            Err(PutError::Full) => Err(StoreError::Busy { instance, waited: QUEUE_SPACE_WAIT }),
            Err(PutError::Ended(end)) => Err(ended(instance, end)),
        }
    }

    pub(super) fn finish(&self, pending: PendingRequest, wait: Duration) -> StoreAnswer {
        let PendingRequest { instance, answer } = pending;
        match answer.recv_timeout(wait) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout) => Err(StoreError::NoAnswer { instance, waited: wait }),
            Err(RecvTimeoutError::Disconnected) => Err(self.why_ended(instance)),
        }
    }

    /// Closes every instance and releases the folder. A second call finds this done.
    pub(super) fn close(&self) -> Result<(), StoreError> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(RunningStore { threads, folder }) = running else { return Ok(()) };
        let closed = self.call_all(|| StoreOperation::Close, BULK_WAIT);
        let mut is_stuck = false;
        for (mailbox, thread) in self.mailboxes.iter().zip(threads) {
            // A thread whose mailbox has ended is at its end too. A thread that hangs is left running, and keeps its instance's lock.
            match mailbox.wait_for_end(Duration::ZERO) {
                Some(_) => drop(thread.join()),
                None => is_stuck = true,
            }
        }
        if !is_stuck {
            drop(folder);
        }
        closed.map(drop)
    }

    /// The reason why an instance accepted a request and gave no answer.
    fn why_ended(&self, instance: u16) -> StoreError {
        match self.mailboxes[usize::from(instance)].wait_for_end(END_WAIT) {
            Some(end) => ended(instance, end),
            None => StoreError::NoAnswer { instance, waited: END_WAIT },
        }
    }
}

impl Drop for StoreShared {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            // No caller is left to report to; if standard error fails too, nothing more can be done.
            drop(writeln!(std::io::stderr(), "zerohop: closing a store failed: {error}"));
        }
    }
}

/// The parameters of a worker thread.
struct WorkerJob {
    instance: u16,
    root: PathBuf,
    map: Arc<ClusterMap>,
    memory_bytes: u64,
}

impl WorkerJob {
    fn open(&self) -> Result<(EmbeddedInstance<NodeDisk>, RecoveryReport, Option<&'static str>), StoreError> {
        let WorkerJob { instance, root, map, memory_bytes } = self;
        let disk = NodeDisk::open(&root.join(format!("instance-{instance:02}")))?;
        let warning = disk.warning();
        let options = EngineOptions { memory_bytes: *memory_bytes, ..EngineOptions::default() };
        let (instance, report) = EmbeddedInstance::open(disk, options, map, *instance, unix_ms())?;
        Ok((instance, report, warning))
    }
}

/// Starts the thread of an instance, which first opens its engine and reports the result.
fn start(
    job: WorkerJob,
    mailbox: Arc<WorkerMailbox<StoreRequest>>,
    opened: SyncSender<WorkerOpenResult>,
) -> Result<JoinHandle<()>, StoreError> {
    let thread = Builder::new().name(format!("zerohop-{:02}", job.instance)).spawn(move || {
        // Ends the mailbox if opening panics: then no caller waits for this thread.
        let guard = EndsMailbox(mailbox.clone());
        match job.open() {
            Ok((instance, report, warning)) => {
                drop(opened.try_send(Ok((report, warning))));
                worker::serve(instance, &mailbox);
            }
            Err(error) => {
                mailbox.end(MailboxEnd::Closed);
                drop(opened.try_send(Err(error)));
            }
        }
        drop(guard);
    });
    thread.map_err(|error| StoreError::System { operation: "starting a thread", reason: error.to_string() })
}

struct EndsMailbox(Arc<WorkerMailbox<StoreRequest>>);

impl Drop for EndsMailbox {
    fn drop(&mut self) {
        self.0.end(MailboxEnd::Fault("a fault of the program while its data was opened".to_owned()));
    }
}

fn ended(instance: u16, end: MailboxEnd) -> StoreError {
    match end {
        MailboxEnd::Closed => StoreError::Closed,
        MailboxEnd::Fault(reason) => StoreError::Ended { instance, reason },
    }
}

// A sleeping worker checks its mailbox at a shorter interval than its callers' time limit.
const _: () = assert!(super::limits::MAINTENANCE_INTERVAL_IDLE.as_millis() < ANSWER_WAIT.as_millis());
