//! What Python gets for a queue. The methods are in [`crate::queue`].

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pyo3::prelude::*;
use tokio::sync::{Mutex, OwnedMutexGuard};
use zerohop_queue_client::{QueueClient, QueueConsumer, QueueProducer};

use crate::core::Core;
use crate::maintenance::OwnedByProcess;

/// Pushes into one queue at the same time. Each of these producers leaves a record in the partitions that it pushes into.
const PRODUCERS: usize = 8;

/// An open queue.
pub(crate) struct OpenQueue {
    pub(crate) name: String,
    pub(crate) queue: QueueClient,
    producers: Vec<Mutex<QueueProducer>>,
    next_producer: AtomicUsize,
    consumers: std::sync::Mutex<Vec<Arc<Mutex<QueueConsumer>>>>,
}

/// A queue. Every operation returns its result, or for an event loop a future of it.
#[pyclass(frozen, module = "zerohop._native")]
pub(crate) struct NativeQueue {
    pub(crate) core: Arc<Core>,
    pub(crate) open: OwnedByProcess<Arc<OpenQueue>>,
}

impl OpenQueue {
    pub(crate) fn new(name: String, queue: QueueClient) -> Self {
        let producers = (0..PRODUCERS).map(|_| Mutex::new(QueueProducer::new(queue.clone()))).collect();
        Self { name, queue, producers, next_producer: AtomicUsize::new(0), consumers: Default::default() }
    }

    /// The next producer.
    pub(crate) fn producer(&self) -> Option<&Mutex<QueueProducer>> {
        let turn = self.next_producer.fetch_add(1, Ordering::Relaxed) % self.producers.len();
        self.producers.get(turn)
    }

    /// A consumer that no other call uses: the first one, so that a pop without an answer is repeated by the next call.
    pub(crate) async fn consumer(&self) -> OwnedMutexGuard<QueueConsumer> {
        if let Some(idle) = self.idle_consumer() {
            return idle;
        }
        let new = Arc::new(Mutex::new(QueueConsumer::new(self.queue.clone())));
        let used = Arc::clone(&new).lock_owned().await;
        self.consumers.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(new);
        used
    }

    fn idle_consumer(&self) -> Option<OwnedMutexGuard<QueueConsumer>> {
        let consumers = self.consumers.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        consumers.iter().find_map(|consumer| Arc::clone(consumer).try_lock_owned().ok())
    }
}

impl NativeQueue {
    pub(crate) fn new(core: Arc<Core>, open: OpenQueue) -> Self {
        Self { core, open: OwnedByProcess::new(Arc::new(open)) }
    }
}
