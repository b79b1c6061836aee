//! A client and its executor: the calling thread, or a side thread.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use pyo3::prelude::*;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use zerohop_client::Client;

use crate::maintenance::RenewalThread;
use crate::problem::Problem;
use crate::side_thread::{SideOutcome, SideThread};

/// How often a waiting thread checks for Ctrl-C.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The outcome of a call. It may have the call's arguments, which must be released while the GIL is held.
pub(crate) trait CompletedCall: Send {
    /// The object that Python gets, or the exception.
    fn object(self: Box<Self>, py: Python<'_>, core: &Arc<Core>) -> PyResult<Py<PyAny>>;
}

impl SideOutcome for Result<Box<dyn CompletedCall>, Problem> {
    fn closed() -> Self {
        Err(Problem::Closed)
    }
}

/// A thread for the calls of an event loop.
type CallThread = SideThread<Result<Box<dyn CompletedCall>, Problem>>;

/// The state of a client, which belongs to one process.
///
/// A forked process must not touch it, not even to drop it: locks of other threads may stay locked
/// for ever, and the sockets and the event queue are those of the parent.
pub(crate) struct Core {
    opener: u32,
    /// `None` after `close`.
    shell: RwLock<Option<Shell>>,
    /// Set once the client is connected.
    client: OnceLock<Client>,
    /// Set once something is to be renewed while no caller waits.
    maintenance: OnceLock<RenewalThread>,
}

#[derive(Clone)]
enum Shell {
    Here(Arc<Runtime>),
    SideThread(Arc<CallThread>),
}

impl Core {
    /// A client with blocking callers.
    pub(crate) fn here() -> Result<Self, Problem> {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(Problem::System)?;
        Ok(Self::with(Shell::Here(Arc::new(runtime))))
    }

    /// A client of an event loop, which creates futures with `create_future`.
    pub(crate) fn side_thread(create_future: Py<PyAny>) -> Result<Self, Problem> {
        Ok(Self::with(Shell::SideThread(Arc::new(
            CallThread::start(create_future).map_err(Problem::System)?,
        ))))
    }

    fn with(shell: Shell) -> Self {
        Self {
            opener: std::process::id(),
            shell: RwLock::new(Some(shell)),
            client: OnceLock::new(),
            maintenance: OnceLock::new(),
        }
    }

    /// Sets the connected client; called once.
    pub(crate) fn connected(&self, client: Client) {
        let _ = self.client.set(client);
    }

    /// The client. Errors: it was closed, or this process is a fork.
    pub(crate) fn client(&self) -> Result<&Client, Problem> {
        self.shell()?;
        self.client.get().ok_or(Problem::Closed)
    }

    /// Checks for a fork, before anything else of a client is touched.
    pub(crate) fn check_process(&self) -> Result<(), Problem> {
        match self.opener == std::process::id() {
            true => Ok(()),
            false => Err(Problem::Forked { opener: self.opener }),
        }
    }

    fn shell(&self) -> Result<Shell, Problem> {
        self.check_process()?;
        let shell = self.shell.read().unwrap_or_else(PoisonError::into_inner);
        shell.clone().ok_or(Problem::Closed)
    }

    /// From now on renewals go on while no caller waits. Without a thread for it they go on during calls only.
    pub(crate) fn keep_up(&self) {
        if let Ok(Shell::Here(runtime)) = self.shell() {
            self.maintenance.get_or_init(|| RenewalThread::start(&runtime));
        }
    }

    /// Runs a call. Returns its result, or for an event loop a future of it.
    pub(crate) fn run_call(
        self: &Arc<Self>,
        py: Python<'_>,
        call: impl Future<Output = impl CompletedCall + 'static> + Send + 'static,
    ) -> PyResult<Py<PyAny>> {
        match self.shell().map_err(|problem| problem.exception(py))? {
            Shell::Here(runtime) => {
                let mut call = pin!(call);
                let outcome = loop {
                    match py.detach(|| runtime.block_on(async { timeout(LOOK_EVERY, call.as_mut()).await })) {
                        Ok(outcome) => break outcome,
                        // A request that was sent continues all the same.
                        Err(_) => py.check_signals()?,
                    }
                };
                Box::new(outcome).object(py, self)
            }
            Shell::SideThread(side_thread) => {
                side_thread.run(py, async move { Ok(Box::new(call.await) as Box<dyn CompletedCall>) })
            }
        }
    }

    /// The descriptor that an event loop must watch, to call [`Core::drain`] when it is readable.
    pub(crate) fn wakes(&self) -> Result<Option<i32>, Problem> {
        match self.shell()? {
            Shell::Here(_) => Ok(None),
            Shell::SideThread(side_thread) => Ok(Some(side_thread.wakes())),
        }
    }

    /// Sets the results of the futures whose operations have ended.
    pub(crate) fn drain(self: &Arc<Self>, py: Python<'_>) -> PyResult<()> {
        match self.shell() {
            Ok(Shell::SideThread(side_thread)) => self.drain_from(py, &side_thread),
            _ => Ok(()),
        }
    }

    fn drain_from(self: &Arc<Self>, py: Python<'_>, side_thread: &CallThread) -> PyResult<()> {
        side_thread.drain(py, |outcome| match outcome {
            Ok(call) => call.object(py, self),
            Err(problem) => Err(problem.exception(py)),
        })
    }

    /// Closes the client. Unfinished operations of an event loop end as closed; those of other
    /// threads continue.
    pub(crate) fn close(self: &Arc<Self>, py: Python<'_>) -> PyResult<()> {
        if self.check_process().is_err() {
            return Ok(());
        }
        let shell = self.shell.write().unwrap_or_else(PoisonError::into_inner).take();
        match shell {
            Some(Shell::SideThread(side_thread)) => {
                py.detach(|| side_thread.stop());
                self.drain_from(py, &side_thread)
            }
            Some(Shell::Here(runtime)) => {
                py.detach(|| end(runtime));
                Ok(())
            }
            None => Ok(()),
        }
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        if self.check_process().is_err() {
            let shell = self.shell.get_mut().unwrap_or_else(PoisonError::into_inner);
            std::mem::forget((shell.take(), self.client.take(), self.maintenance.take()));
            return;
        }
        drop((self.maintenance.take(), self.client.take()));
        if let Some(Shell::Here(runtime)) =
            self.shell.get_mut().unwrap_or_else(PoisonError::into_inner).take()
        {
            end(runtime);
        }
    }
}

/// Ends a runtime, unless another thread runs it. It does not wait for the look-up of a host, which may take the system half a minute.
fn end(runtime: Arc<Runtime>) {
    if let Some(runtime) = Arc::into_inner(runtime) {
        runtime.shutdown_background();
    }
}
