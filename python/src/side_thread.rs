//! A thread beside an event loop: it carries out operations, and wakes the loop with a byte when
//! some have ended.
//!
//! The thread never acquires the GIL: it puts outcomes into a queue. The loop is woken by a
//! descriptor that it watches, and passes them to its futures. One byte wakes it, however many
//! operations have ended.

use std::future::Future;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use pyo3::prelude::*;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// The outcome of an operation, as the thread passes it on.
pub(crate) trait SideOutcome: Send + 'static {
    /// The outcome of an operation that the end of the thread has interrupted.
    fn closed() -> Self;
}

/// The thread, and its queue of outcomes.
pub(crate) struct SideThread<T: SideOutcome> {
    handle: Handle,
    ending: Mutex<Option<(oneshot::Sender<()>, JoinHandle<()>)>>,
    ended: Arc<CompletionQueue<T>>,
    wakes: UnixStream,
    create_future: Py<PyAny>,
}

/// Operations that have ended. The number is bounded by the session's limit of open operations, as
/// each is in the queue once.
struct CompletionQueue<T> {
    queue: Mutex<Vec<(Py<PyAny>, T)>>,
    wake: UnixStream,
}

/// A future without a result yet.
struct Promise<T: SideOutcome> {
    future: Option<Py<PyAny>>,
    ended: Arc<CompletionQueue<T>>,
}

impl<T: SideOutcome> SideThread<T> {
    /// Starts the thread.
    pub(crate) fn start(create_future: Py<PyAny>) -> io::Result<Self> {
        let (wake, wakes) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        wakes.set_nonblocking(true)?;
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel();
        let thread = std::thread::Builder::new().name("zerohop".to_owned()).spawn(move || {
            // A receive error means that the sender is gone: the thread ends too.
            let _ = runtime.block_on(ended);
        })?;
        let ending = Mutex::new(Some((end, thread)));
        let ended = Arc::new(CompletionQueue { queue: Mutex::default(), wake });
        Ok(Self { handle, ending, ended, wakes, create_future })
    }

    /// Starts an operation, and returns a future of its result.
    pub(crate) fn run(
        &self,
        py: Python<'_>,
        call: impl Future<Output = T> + Send + 'static,
    ) -> PyResult<Py<PyAny>> {
        let future = self.create_future.call0(py)?;
        let promise = Promise { future: Some(future.clone_ref(py)), ended: Arc::clone(&self.ended) };
        self.handle.spawn(async move { promise.keep(call.await) });
        Ok(future)
    }

    /// The descriptor that becomes readable when operations have ended.
    pub(crate) fn wakes(&self) -> i32 {
        self.wakes.as_raw_fd()
    }

    /// Sets the results of futures whose operations have ended, as `object` makes them of the outcomes. Must be called by the loop's
    /// thread.
    pub(crate) fn drain(&self, py: Python<'_>, object: impl Fn(T) -> PyResult<Py<PyAny>>) -> PyResult<()> {
        // Bytes are read first: an operation that ends afterwards sends another one.
        let mut bytes = [0; 64];
        while matches!((&self.wakes).read(&mut bytes), Ok(count) if count == bytes.len()) {}
        let ended = std::mem::take(&mut *self.ended.lock());
        for (future, outcome) in ended {
            let future = future.bind(py);
            // The future was cancelled, or its caller no longer waits.
            if future.call_method0("done")?.is_truthy()? {
                continue;
            }
            match object(outcome) {
                Ok(object) => future.call_method1("set_result", (object,))?,
                Err(error) => future.call_method1("set_exception", (error,))?,
            };
        }
        Ok(())
    }

    /// Ends the thread. Unfinished operations end as closed.
    pub(crate) fn stop(&self) {
        let ending = self.ending.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((end, thread)) = ending {
            let _ = end.send(());
            // It ends at once: it blocks on nothing and does not need the GIL.
            let _ = thread.join();
        }
    }
}

impl<T> CompletionQueue<T> {
    fn lock(&self) -> MutexGuard<'_, Vec<(Py<PyAny>, T)>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, future: Py<PyAny>, outcome: T) {
        let mut queue = self.lock();
        queue.push((future, outcome));
        let is_first = queue.len() == 1;
        drop(queue);
        if is_first {
            // If the pipe is full, earlier bytes wake the loop.
            let _ = (&self.wake).write(&[1]);
        }
    }
}

impl<T: SideOutcome> Promise<T> {
    fn keep(mut self, outcome: T) {
        if let Some(future) = self.future.take() {
            self.ended.push(future, outcome);
        }
    }
}

impl<T: SideOutcome> Drop for Promise<T> {
    fn drop(&mut self) {
        if let Some(future) = self.future.take() {
            self.ended.push(future, T::closed());
        }
    }
}
