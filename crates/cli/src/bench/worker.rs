//! Threads that drive clients, one runtime each, with channels for orders and results.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Scope;

use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinSet;
use zerohop_client::{Coalescing, Keyspace};

use super::histogram::Histogram;
use super::kv_phase::KvPhase;
use super::phase::{PhaseFailure, run_client};
use super::shared::BenchShared;
use crate::common::ending::CommandError;
use crate::common::runtime::runtime;
use crate::common::target::ClusterTarget;

/// Properties shared by all clients.
#[derive(Debug)]
pub(super) struct WorkerPlan {
    pub(super) clients: u32,
    /// Tasks of each client.
    pub(super) depth: u32,
    pub(super) keyspace: String,
    pub(super) target: ClusterTarget,
    pub(super) collecting: Coalescing,
}

/// The worker threads.
#[derive(Debug)]
pub(super) struct WorkerThreads {
    orders: Vec<Sender<KvPhase>>,
    answers: Receiver<Result<Histogram, PhaseFailure>>,
}

impl WorkerThreads {
    pub(super) fn start<'scope>(
        scope: &'scope Scope<'scope, '_>,
        plan: &'scope WorkerPlan,
        threads: u32,
        shared: &'scope Arc<BenchShared>,
    ) -> Self {
        // Each worker has at most one result in its channel.
        let (answer, answers) = channel(threads as usize);
        let orders = (0..threads)
            .map(|at| {
                let (order, orders) = channel(1);
                let clients = plan.clients / threads + u32::from(at < plan.clients % threads);
                let answer = answer.clone();
                scope.spawn(move || work(plan, clients, shared, orders, answer));
                order
            })
            .collect();
        WorkerThreads { orders, answers }
    }

    /// Waits until all clients are connected.
    pub(super) async fn connected(&mut self) -> Result<(), PhaseFailure> {
        self.results().await.map(drop)
    }

    /// Sends the order for a phase to all workers.
    pub(super) async fn order(&self, phase: KvPhase) {
        for order in &self.orders {
            // A worker that has ended is noticed when its result is awaited.
            let _ = order.send(phase).await;
        }
    }

    /// Waits for the results of all workers.
    pub(super) async fn results(&mut self) -> Result<Histogram, PhaseFailure> {
        let (mut sum, mut trouble) = (Histogram::new(), None);
        for _ in 0..self.orders.len() {
            match self.answers.recv().await {
                Some(Ok(latencies)) => sum.add(&latencies),
                Some(Err(one)) => _ = trouble.get_or_insert(one),
                None => break,
            }
        }
        trouble.map_or(Ok(sum), Err)
    }
}

/// A worker: reports that it is connected, then carries out the orders in sequence.
fn work(
    plan: &WorkerPlan,
    clients: u32,
    shared: &Arc<BenchShared>,
    mut orders: Receiver<KvPhase>,
    answer: Sender<Result<Histogram, PhaseFailure>>,
) {
    let connected = runtime().and_then(|runtime| {
        let keyspaces = runtime.block_on(connect(plan, clients))?;
        Ok((runtime, keyspaces))
    });
    match connected {
        Err(error) => drop(answer.blocking_send(Err(PhaseFailure::Failed(error)))),
        Ok((runtime, keyspaces)) => runtime.block_on(async {
            // If the sender of the orders is gone, no more orders come.
            drop(answer.send(Ok(Histogram::new())).await);
            while let Some(phase) = orders.recv().await {
                drop(answer.send(run_clients(phase, plan.depth, &keyspaces, shared).await).await);
            }
        }),
    }
}

async fn connect(plan: &WorkerPlan, clients: u32) -> Result<Vec<Keyspace>, CommandError> {
    let mut keyspaces = Vec::new();
    for _ in 0..clients {
        let client = plan.target.connect_with(|options| options.collecting = plan.collecting).await?;
        keyspaces.push(client.keyspace(&plan.keyspace).await?);
    }
    Ok(keyspaces)
}

async fn run_clients(
    phase: KvPhase,
    depth: u32,
    keyspaces: &[Keyspace],
    shared: &Arc<BenchShared>,
) -> Result<Histogram, PhaseFailure> {
    let latencies = Arc::new(Mutex::new(Histogram::new()));
    let mut tasks = JoinSet::new();
    for keyspace in keyspaces {
        for _ in 0..depth {
            tasks.spawn(run_client(phase, keyspace.clone(), Arc::clone(shared), Arc::clone(&latencies)));
        }
    }
    let mut trouble = None;
    while let Some(ended) = tasks.join_next().await {
        match ended {
            Ok(Ok(())) => {}
            Ok(Err(one)) => _ = trouble.get_or_insert(one),
            Err(fault) => std::panic::resume_unwind(fault.into_panic()),
        }
    }
    let latencies = latencies.lock().unwrap_or_else(PoisonError::into_inner).clone();
    trouble.map_or(Ok(latencies), Err)
}
