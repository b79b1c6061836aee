//! A consumer that pops messages under leases.

use std::collections::BTreeMap;
use std::time::Duration;

use zerohop_layer_queue::{
    ConsumerId, MessageRecord, PopOutcome, PopQueue, PopRequest, PoppedMessage, QueueError,
};

use crate::client::QueueClient;
use crate::lease_token::LeaseToken;
use crate::retry;

/// The most bytes of the messages of a pop.
const BYTES_MAX: u64 = 4 << 20;
/// How often leases and delays that have ended are looked for in a partition with ready messages, in milliseconds.
const DUE_INTERVAL: u64 = 200;
/// How often a consumer sweeps a partition, in milliseconds.
const SWEEP_INTERVAL: u64 = 60_000;
/// The highest [`PopRequest::spread`].
const SPREAD_MAX: u32 = 5;
/// The pause while other consumers take all messages that this one has found.
const PAUSE: Duration = Duration::from_millis(2);

/// A message that was popped, with its lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeasedMessage {
    /// Its lease.
    pub lease: LeaseToken,
    /// The message.
    pub message: MessageRecord,
}

/// Pops messages: each is leased to one consumer at a time. A pop whose answer is lost is repeated under its number, and gets
/// the same messages.
#[derive(Debug)]
pub struct QueueConsumer {
    queue: QueueClient,
    id: ConsumerId,
    next_partition: u32,
    partitions: BTreeMap<u32, PartitionUse>,
    /// How far from the first message this consumer looks, because others take that.
    spread: u32,
    swept: u64,
}

/// What a consumer knows of a partition.
#[derive(Clone, Copy, Debug, Default)]
struct PartitionUse {
    /// The number of its next pop.
    number: u64,
    /// The pop of this number has begun, and has no answer.
    is_open: bool,
    /// When it last looked for leases and delays that have ended.
    looked: u64,
}

impl QueueConsumer {
    /// A consumer with a random id.
    #[must_use]
    pub fn new(queue: QueueClient) -> Self {
        let random = queue.random();
        let next_partition = u32::from(random[0]) % queue.options().partitions.max(1);
        let swept = queue.now();
        Self { queue, id: ConsumerId(random), next_partition, partitions: BTreeMap::new(), spread: 0, swept }
    }

    /// The queue.
    #[must_use]
    pub const fn queue(&self) -> &QueueClient {
        &self.queue
    }

    /// Pops at most `messages` of one partition, and leases them for `lease` milliseconds. If there is none, it waits for one
    /// until `wait_until`, in milliseconds since 1970, and returns nothing after that. While the cluster does not answer, a pop is
    /// repeated for `patience`. After an error, the next call gets the messages that this one may have leased.
    ///
    /// # Errors
    /// [`QueueError::BadLease`], [`QueueError::TooManyLeased`], and those of the store.
    pub async fn pop(
        &mut self,
        messages: u32,
        lease: u64,
        wait_until: u64,
        patience: Duration,
    ) -> Result<Vec<LeasedMessage>, QueueError> {
        self.sweep_at_times().await;
        let mut counts = None;
        loop {
            let (mut next_due, mut is_contended) = (None, false);
            for _ in 0..self.queue.options().partitions.max(1) {
                let partition = self.next_partition;
                self.next_partition = (partition + 1) % self.queue.options().partitions.max(1);
                let outcome = self.pop_partition(partition, messages, lease, patience).await?;
                if !outcome.messages.is_empty() {
                    return Ok(self.leased(partition, outcome.messages));
                }
                is_contended |= outcome.is_contended;
                next_due = next_due.into_iter().chain(outcome.next_due).min();
            }
            if is_contended {
                tokio::time::sleep(PAUSE).await;
                continue;
            }
            if self.queue.now() >= wait_until {
                return Ok(Vec::new());
            }
            match counts.take() {
                // What is pushed behind this ends the wait, so all partitions are looked through once more.
                None => counts = Some(self.queue.counts().await?),
                Some(counts) => {
                    let until = next_due.unwrap_or(wait_until).min(wait_until);
                    self.queue.wait_any(counts, until).await?;
                }
            }
        }
    }

    async fn pop_partition(
        &mut self,
        partition: u32,
        messages: u32,
        lease: u64,
        patience: Duration,
    ) -> Result<PopOutcome, QueueError> {
        let now = self.queue.now();
        let random = u64::from_le_bytes(self.queue.random()[..8].try_into().unwrap_or_default());
        let state = self.partitions.entry(partition).or_default();
        if !state.is_open {
            state.number += 1;
        }
        let looks_at_due = now.saturating_sub(state.looked) >= DUE_INTERVAL;
        if looks_at_due {
            state.looked = now;
        }
        let is_open = std::mem::replace(&mut state.is_open, true);
        let request = PopRequest {
            partition,
            consumer: self.id,
            number: state.number,
            is_repeat: is_open,
            messages,
            bytes: BYTES_MAX,
            lease,
            tries: self.queue.options().tries,
            looks_at_due,
            spread: self.spread,
            random,
        };
        let until = now.saturating_add(u64::try_from(patience.as_millis()).unwrap_or(u64::MAX));
        let attempt = |is_repeat: bool| {
            PopQueue::new(PopRequest { is_repeat: is_repeat || request.is_repeat, ..request.clone() })
        };
        let outcome = retry::run(&self.queue.store, until, attempt).await?;
        if let Some(state) = self.partitions.get_mut(&partition) {
            state.is_open = false;
        }
        self.spread = match outcome.is_contended {
            true => (self.spread + 1).min(SPREAD_MAX),
            false => self.spread.saturating_sub(u32::from(random % 8 == 0)),
        };
        Ok(outcome)
    }

    fn leased(&self, partition: u32, messages: Vec<PoppedMessage>) -> Vec<LeasedMessage> {
        let leased = |PoppedMessage { receipt, message }| LeasedMessage {
            lease: LeaseToken { queue: self.queue.tag(), partition, consumer: self.id, receipt },
            message,
        };
        messages.into_iter().map(leased).collect()
    }

    async fn sweep_at_times(&mut self) {
        let now = self.queue.now();
        if now.saturating_sub(self.swept) >= SWEEP_INTERVAL {
            self.swept = now;
            // A sweep that fails leaves its work to the next one.
            drop(self.queue.sweep(self.next_partition).await);
        }
    }
}
