//! For tests: a shell whose answers a script gives, at a time that the test sets.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use zerohop_base::time::Time;
use zerohop_placement::{KeyspaceConfig, PartitionCount};
use zerohop_wire::Failure;
use zerohop_wire::ids::KeyspaceId;

use super::cluster_handle::{ClusterHandle, ProcedureSettings};
use super::keyspace::Keyspace;
use super::shell::{BackgroundTask, BatchSender, BoxFuture, ProcedureShell, ReplySender, RequestResult};
use crate::{FoundKeyspace, SessionRequest};

/// The answers of single requests and of batches, in order.
#[derive(Debug, Default)]
pub(super) struct Script {
    pub(super) now: AtomicU64,
    pub(super) single: Mutex<VecDeque<RequestResult>>,
    pub(super) batches: Mutex<VecDeque<Vec<RequestResult>>>,
}

#[derive(Debug)]
struct ScriptedShell(Arc<Script>);

impl ProcedureShell for ScriptedShell {
    fn submit(&self, _: SessionRequest, reply: ReplySender) {
        let answer = self.0.single.lock().unwrap().pop_front().expect("the script has an answer");
        drop(reply.send(answer));
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
    let settings = ProcedureSettings::new(Duration::from_secs(1));
    ClusterHandle::new(Box::new(ScriptedShell(Arc::clone(script))), settings)
}

/// A keyspace of one partition.
pub(super) fn keyspace(handle: &ClusterHandle) -> Keyspace {
    let mut config = KeyspaceConfig::new("k".parse().unwrap(), 7).fitted_to(1);
    config.partitions = PartitionCount::new(1).unwrap();
    Keyspace::new(handle.clone(), FoundKeyspace { id: KeyspaceId(1), config })
}

/// The output of a procedure that waits for nothing but the script.
pub(super) fn run<T>(procedure: impl Future<Output = T>) -> T {
    match pin!(procedure).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it waits for something else than the script"),
    }
}
