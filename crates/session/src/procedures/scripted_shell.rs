//! For tests: a shell whose answers a script gives, at a time that the test sets.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use zerohop_base::time::Time;
use zerohop_placement::{Division, KeyspaceConfig, PartitionCount};
use zerohop_wire::Failure;
use zerohop_wire::ids::KeyspaceId;

use super::cluster_handle::{ClusterHandle, ProcedureSettings};
use super::keyspace::Keyspace;
use super::limits::BlobLimits;
use super::shell::{BackgroundTask, BatchSender, BoxFuture, ProcedureShell, ReplySender, RequestResult};
use crate::{KeyspaceLookup, SessionError, SessionRequest, WaitReason};

/// The answers of single requests and of batches, in order.
#[derive(Debug, Default)]
pub(super) struct Script {
    pub(super) now: AtomicU64,
    /// How long each single request takes. One with less time ends without an answer of the script.
    pub(super) request_us: AtomicU64,
    /// The number of single requests.
    pub(super) requests: AtomicU64,
    /// The answer once `single` is empty.
    pub(super) otherwise: Mutex<Option<RequestResult>>,
    pub(super) single: Mutex<VecDeque<RequestResult>>,
    pub(super) batches: Mutex<VecDeque<Vec<RequestResult>>>,
}

#[derive(Debug)]
struct ScriptedShell(Arc<Script>);

impl ProcedureShell for ScriptedShell {
    fn submit(&self, request: SessionRequest, reply: ReplySender) {
        let Script { now, request_us, requests, single, otherwise, .. } = &*self.0;
        let takes_us = request_us.load(Ordering::Relaxed);
        requests.fetch_add(1, Ordering::Relaxed);
        now.fetch_add(takes_us.min(request.limit_us), Ordering::Relaxed);
        if takes_us > request.limit_us {
            let (waited_us, waiting) = (request.limit_us, WaitReason::Map);
            drop(reply.send(Err(SessionError::Deadline { waited_us, waiting, last: None, unreached: None })));
            return;
        }
        let answer = single.lock().unwrap().pop_front().or_else(|| otherwise.lock().unwrap().clone());
        drop(reply.send(answer.expect("the script has an answer")));
    }

    fn submit_all(&self, requests: Vec<(SessionRequest, ReplySender)>) {
        requests.into_iter().for_each(|(request, reply)| self.submit(request, reply));
    }

    fn submit_batch(&self, _: Vec<Result<SessionRequest, Failure<'static>>>, results: BatchSender) {
        let answers = self.0.batches.lock().unwrap().pop_front().expect("the script has answers");
        drop(results.send(answers));
    }

    fn now(&self) -> Time {
        Time(self.0.now.load(Ordering::Relaxed))
    }

    fn sleep(&self, time: Duration) -> BoxFuture {
        self.0.now.fetch_add(time.as_micros() as u64, Ordering::Relaxed);
        Box::pin(std::future::ready(()))
    }

    fn spawn(&self, _: BoxFuture) -> BackgroundTask {
        BackgroundTask::stopped_by(|| ())
    }

    fn random(&self) -> u64 {
        7
    }
}

/// A handle whose requests the script answers; its deadline is one second.
pub(super) fn handle(script: &Arc<Script>) -> ClusterHandle {
    handle_with(script, BlobLimits::default())
}

/// Same as [`handle`], with these limits of blobs.
pub(super) fn handle_with(script: &Arc<Script>, blobs: BlobLimits) -> ClusterHandle {
    let settings = ProcedureSettings { blobs, ..ProcedureSettings::new(Duration::from_secs(1)) };
    ClusterHandle::new(Box::new(ScriptedShell(Arc::clone(script))), settings)
}

/// A keyspace of one partition.
pub(super) fn keyspace(handle: &ClusterHandle) -> Keyspace {
    let mut config = KeyspaceConfig::new("k".parse().unwrap(), 7).fitted_to(1);
    config.partitions = PartitionCount::new(1).unwrap();
    let division = Division::new(&config);
    Keyspace::new(handle.clone(), KeyspaceLookup { id: KeyspaceId(1), config, division })
}

/// The output of a procedure that waits for nothing but the script.
pub(super) fn run<T>(procedure: impl Future<Output = T>) -> T {
    match pin!(procedure).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it waits for something else than the script"),
    }
}
