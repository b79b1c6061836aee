//! The handle through which procedures reach the cluster.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;
use zerohop_base::time::Time;
use zerohop_wire::Failure;
use zerohop_wire::admin::AdminAnswer;
use zerohop_wire::ids::MapEpoch;

use super::error::Error;
use super::limits::BlobLimits;
use super::shell::{BackgroundTask, BoxFuture, PendingReply, ProcedureShell, ReplySender, RequestResult};
use super::unfinished_truncations::UnfinishedTruncations;
use crate::planted::{Bug, is_planted};
use crate::{Coalescing, Reply, SessionError, SessionRequest};

/// The settings of all procedures of a handle.
#[derive(Clone, Copy, Debug)]
pub struct ProcedureSettings {
    /// Time limit of each operation; an operation may set its own.
    pub deadline: Duration,
    /// Whether operations wait a short time for others, so that they share a frame.
    pub collecting: Coalescing,
    /// From where on blob operations take several requests.
    pub blobs: BlobLimits,
}

impl ProcedureSettings {
    /// Settings with this deadline and the default of everything else.
    #[must_use]
    pub fn new(deadline: Duration) -> Self {
        Self { deadline, collecting: Coalescing::AsKeyspace, blobs: BlobLimits::default() }
    }
}

/// A handle to a cluster, for procedures. Clones share the shell.
#[derive(Clone, Debug)]
pub struct ClusterHandle {
    shared: Arc<HandleShared>,
    /// The end of the call that uses this clone: nothing inside the call gets more time.
    call_end: Option<Time>,
}

#[derive(Debug)]
struct HandleShared {
    shell: Box<dyn ProcedureShell>,
    settings: ProcedureSettings,
    /// The newest epoch of the map that a manager has reported. Changes that this client has requested are in the map of that epoch.
    newest: AtomicU64,
    /// Truncations of blobs that a call of this client began and a later one completes.
    truncations: UnfinishedTruncations,
}

impl ClusterHandle {
    /// A handle whose requests, timers and tasks `shell` executes.
    #[must_use]
    pub fn new(shell: Box<dyn ProcedureShell>, settings: ProcedureSettings) -> Self {
        let (newest, truncations) = (AtomicU64::new(0), UnfinishedTruncations::default());
        Self { shared: Arc::new(HandleShared { shell, settings, newest, truncations }), call_end: None }
    }

    /// Sends a control request to a manager. Request and reply are encoded as Protocol Buffers.
    pub async fn admin(&self, encoded: Bytes) -> Result<Bytes, Error> {
        self.admin_within(encoded, self.limit_us()).await
    }

    pub(super) async fn admin_within(&self, encoded: Bytes, limit_us: u64) -> Result<Bytes, Error> {
        match self.send_request(SessionRequest::admin(encoded, limit_us)).await? {
            Reply::Admin(encoded) => {
                let epoch = AdminAnswer::from_bytes(&encoded).map_or(0, |answer| answer.map_epoch);
                self.shared.newest.fetch_max(epoch, Ordering::AcqRel);
                Ok(encoded)
            }
            _ => Err(Error::Unexpected),
        }
    }

    /// The newest epoch of the map that a manager has reported to this handle.
    pub(super) fn newest_epoch(&self) -> MapEpoch {
        MapEpoch(self.shared.newest.load(Ordering::Acquire))
    }

    /// The settings of the procedures.
    #[must_use]
    pub fn settings(&self) -> &ProcedureSettings {
        &self.shared.settings
    }

    /// The time limit in microseconds of a request that is sent now: what is left of the call, at most the deadline of the settings. A call whose
    /// time is over gets one microsecond, with which the session refuses the request.
    pub(super) fn limit_us(&self) -> u64 {
        let deadline = micros(self.shared.settings.deadline);
        if is_planted(Bug::CallDeadlineRestarts) {
            return deadline;
        }
        self.call_end.map_or(deadline, |end| end.since_us(self.now()).clamp(1, deadline.max(1)))
    }

    /// A clone for one call that sends several requests, with their retries and cleanups: the deadline of the settings bounds all of them together.
    /// A call inside a call ends with the outer one.
    pub(super) fn in_call(&self) -> Self {
        let end = || self.now().after_us(micros(self.shared.settings.deadline));
        Self { shared: Arc::clone(&self.shared), call_end: Some(self.call_end.unwrap_or_else(end)) }
    }

    /// Whether something that takes this long ends before the call.
    pub(super) fn has_time_for(&self, time: Duration) -> bool {
        self.call_end.is_none_or(|end| self.now().after_us(micros(time)) < end)
    }

    /// A clone that belongs to no call, for what outlives the call.
    pub(super) fn outside_calls(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), call_end: None }
    }

    /// Sends a request without waiting for its result.
    pub fn submit(&self, request: SessionRequest) -> PendingReply {
        let (reply, result) = oneshot::channel();
        self.shared.shell.submit(request, reply);
        result
    }

    pub(super) fn blob_limits(&self) -> &BlobLimits {
        &self.shared.settings.blobs
    }

    pub(super) fn unfinished_truncations(&self) -> &UnfinishedTruncations {
        &self.shared.truncations
    }

    pub(super) fn submit_all(&self, requests: Vec<(SessionRequest, ReplySender)>) {
        self.shared.shell.submit_all(requests);
    }

    /// Submits several operations; the caller receives all results together. An operation that is not a valid request gets its failure as result.
    pub(super) async fn submit_batch(
        &self,
        requests: Vec<Result<SessionRequest, Failure<'static>>>,
    ) -> Vec<RequestResult> {
        let count = requests.len();
        if count == 0 {
            return Vec::new();
        }
        let (sender, results) = oneshot::channel();
        self.shared.shell.submit_batch(requests, sender);
        // The shell has ended and has dropped the sender.
        results.await.unwrap_or_else(|_| (0..count).map(|_| Err(SessionError::Closed)).collect())
    }

    /// Sends a request and waits for its result.
    ///
    /// # Errors
    /// The session's, without a key.
    pub async fn send_request(&self, request: SessionRequest) -> Result<Reply, Error> {
        self.submit(request).await.unwrap_or(Err(SessionError::Closed)).map_err(Error::general)
    }

    /// The time of the shell's clock, which has any beginning.
    #[must_use]
    pub fn now(&self) -> Time {
        self.shared.shell.now()
    }

    /// Waits for this time.
    pub fn sleep(&self, time: Duration) -> BoxFuture {
        self.shared.shell.sleep(time)
    }

    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> BackgroundTask {
        self.shared.shell.spawn(Box::pin(task))
    }

    /// A random number.
    #[must_use]
    pub fn random(&self) -> u64 {
        self.shared.shell.random()
    }
}

pub(super) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::procedures::scripted_shell::{Script, handle};

    #[test]
    fn deadline_of_call_bounds_all_requests_inside_it() {
        let script = Arc::new(Script::default());
        let own = handle(&script);
        assert_eq!(own.limit_us(), 1_000_000);
        let call = own.in_call();
        script.now.store(600_000, Ordering::Relaxed);
        assert_eq!((own.limit_us(), call.limit_us()), (1_000_000, 400_000));
        // A call inside the call gets no more time, and what outlives it has a time of its own.
        assert_eq!((call.in_call().limit_us(), call.outside_calls().limit_us()), (400_000, 1_000_000));
        script.now.store(2_000_000, Ordering::Relaxed);
        assert_eq!((call.limit_us(), call.outside_calls().in_call().limit_us()), (1, 1_000_000));
    }
}
