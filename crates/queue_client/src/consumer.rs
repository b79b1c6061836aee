//! A consumer that pops messages under leases.

use std::time::Duration;

use zerohop_layer_procedure::Procedure;
use zerohop_layer_queue::{
    ConsumeOutcome, ConsumeQueue, ConsumeRequest, ConsumerId, ConsumerState, MessageRecord, PoppedMessage,
    QueueEffect, QueueError, QueueEvent, QueueStep,
};

use crate::client::QueueClient;
use crate::lease_token::LeaseToken;
use crate::retry::Attempts;

/// The most bytes of the messages of a pop.
const BYTES_MAX: u64 = 4 << 20;
/// How often a consumer sweeps a partition, in milliseconds.
const SWEEP_INTERVAL: u64 = 60_000;
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
    state: ConsumerState,
    swept: u64,
    /// Learns whether a pop may have leased messages.
    note: Option<fn(bool)>,
}

/// A pop that notes when it leases messages.
struct NotedPop<'c> {
    pop: ConsumeQueue<'c>,
    note: Option<fn(bool)>,
}

impl Procedure<QueueError> for NotedPop<'_> {
    type Output = ConsumeOutcome;

    fn step(&mut self, now: u64, event: QueueEvent) -> QueueStep<ConsumeOutcome> {
        let step = self.pop.step(now, event);
        if let (QueueStep::Effect(QueueEffect::Transact { .. }), Some(note)) = (&step, self.note) {
            note(true);
        }
        step
    }
}

impl QueueConsumer {
    /// A consumer with a random id.
    #[must_use]
    pub fn new(queue: QueueClient) -> Self {
        let state = ConsumerState::new(ConsumerId(queue.random()), queue.options().partitions);
        let swept = queue.now();
        Self { queue, state, swept, note: None }
    }

    /// The consumer, which calls `note` with true before it leases messages, and with false when it has learned that none are leased.
    #[must_use]
    pub fn noting(self, note: fn(bool)) -> Self {
        Self { note: Some(note), ..self }
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
        loop {
            self.queue.take_pushed(|partition, pushed| self.state.note_pushed(partition, pushed));
            let request = ConsumeRequest {
                messages,
                bytes: BYTES_MAX,
                lease,
                tries: self.queue.options().tries,
                waits: self.queue.now() < wait_until,
                random: self.random(),
            };
            let outcome = self.consume(request, patience).await?;
            if !outcome.messages.is_empty() {
                return Ok(self.leased(outcome.partition, outcome.messages));
            }
            if outcome.is_contended {
                tokio::time::sleep(PAUSE).await;
                continue;
            }
            // A pop that has begun behind the end of the wait has not looked behind the counts.
            if !request.waits {
                return Ok(Vec::new());
            }
            let until = outcome.next_due.unwrap_or(wait_until).min(wait_until);
            self.queue.wait_any(outcome.counts, until).await?;
            self.state.note_woken();
        }
    }

    /// Looks for messages. While the cluster does not answer, it is repeated for `patience`.
    async fn consume(
        &mut self,
        request: ConsumeRequest,
        patience: Duration,
    ) -> Result<ConsumeOutcome, QueueError> {
        let patience = u64::try_from(patience.as_millis()).unwrap_or(u64::MAX);
        let mut attempts = Attempts::new(self.queue.now().saturating_add(patience));
        loop {
            let pop = NotedPop { pop: ConsumeQueue::new(&mut self.state, request), note: self.note };
            match self.queue.run(pop).await {
                Ok(outcome) => {
                    if let (true, Some(note)) = (outcome.messages.is_empty(), self.note) {
                        note(false);
                    }
                    return Ok(outcome);
                }
                Err(error) => attempts.repeat_after(error, &self.queue.store).await?,
            }
        }
    }

    fn random(&self) -> u64 {
        u64::from_le_bytes(self.queue.random()[..8].try_into().unwrap_or_default())
    }

    fn leased(&self, partition: u32, messages: Vec<PoppedMessage>) -> Vec<LeasedMessage> {
        let (queue, consumer) = (self.queue.tag(), self.state.id());
        let leased = |PoppedMessage { receipt, message }| LeasedMessage {
            lease: LeaseToken { queue, partition, consumer, receipt },
            message,
        };
        messages.into_iter().map(leased).collect()
    }

    async fn sweep_at_times(&mut self) {
        let now = self.queue.now();
        if now.saturating_sub(self.swept) >= SWEEP_INTERVAL {
            self.swept = now;
            let partition = self.random() % u64::from(self.queue.options().partitions.max(1));
            // A sweep that fails leaves its work to the next one.
            drop(self.queue.sweep(partition as u32).await);
        }
    }
}
