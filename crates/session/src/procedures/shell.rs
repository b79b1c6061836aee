//! What a procedure needs from the program around it. A procedure is an `async fn` that awaits only the results of
//! requests and of the shell's timers. The compiler makes a state machine of it, which opens no socket, reads no clock
//! and draws no random number itself. The client executes procedures on its runtime, the simulator on its own clock.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use tokio::sync::oneshot;
use zerohop_base::time::Time;
use zerohop_wire::Failure;

use crate::{Reply, SessionError, SessionRequest};

/// The result of a request.
pub type RequestResult = Result<Reply, SessionError>;

/// Receives the result of one request. A procedure that has ended has dropped its receiver; the result is then discarded.
pub type ReplySender = oneshot::Sender<RequestResult>;

/// The result of a request that was sent. A dropped sender counts as [`SessionError::Closed`].
pub type PendingReply = oneshot::Receiver<RequestResult>;

/// Receives the results of a batch, in the order of its requests.
pub type BatchSender = oneshot::Sender<Vec<RequestResult>>;

/// A future that is owned by the shell or that the shell has created.
pub type BoxFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The program around the procedures: a session with its connections, a clock, timers, random numbers and background tasks.
pub trait ProcedureShell: fmt::Debug + Send + Sync {
    /// Sends a request through the session.
    fn submit(&self, request: SessionRequest, reply: ReplySender);

    /// Sends several requests in the same round, so that requests to one server share a frame.
    fn submit_all(&self, requests: Vec<(SessionRequest, ReplySender)>);

    /// Sends several requests; their results arrive together. A request that could not be encoded gets its failure as result.
    fn submit_batch(&self, requests: Vec<Result<SessionRequest, Failure<'static>>>, results: BatchSender);

    /// The present time.
    fn now(&self) -> Time;

    /// A future that is ready after this time.
    fn sleep(&self, time: Duration) -> BoxFuture;

    /// Runs a task in the background until it ends or until the returned guard is dropped.
    fn spawn(&self, task: BoxFuture) -> BackgroundTask;

    /// A random number.
    fn random(&self) -> u64;
}

/// A task in the background. It is stopped when this value is dropped.
pub struct BackgroundTask(Option<Box<dyn FnOnce() + Send + Sync>>);

impl BackgroundTask {
    /// A task that `stop` ends.
    #[must_use]
    pub fn stopped_by(stop: impl FnOnce() + Send + Sync + 'static) -> Self {
        Self(Some(Box::new(stop)))
    }
}

impl fmt::Debug for BackgroundTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BackgroundTask")
    }
}

impl Drop for BackgroundTask {
    fn drop(&mut self) {
        if let Some(stop) = self.0.take() {
            stop();
        }
    }
}
