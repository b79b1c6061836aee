//! Pops messages of whichever partition has some.
//!
//! 1. A pop looks at a few partitions: those that hints name, and two that are drawn at random.
//! 2. If they have no message, the counts of all partitions are read at once, and each partition that has messages is looked at.
//!
//! Invariant: a pop has no messages only if each partition either had none by its counts, or was looked at. A pop whose consumer
//! waits has looked behind the counts, so that what it has not found changes the version of one of them.

use std::collections::VecDeque;

use zerohop_layer_procedure::{Effect, Procedure, Record, Version, VersionedRecord};

use crate::error::QueueError;
use crate::keys::{self, RecordKey};
use crate::planted::{Bug, is_planted};
use crate::pop::{PopOutcome, PopQueue, PopRequest, PoppedMessage};
use crate::procedure::{QueueEvent, QueueStep};
use crate::records::{ConsumerId, CountsRecord};

/// The partitions of hints that a pop looks at before it reads the counts.
const HINTED_MAX: usize = 2;
/// How long counts are a hint, in milliseconds. Then they are read again, so that no partition waits for the others to be empty.
const HINT_AGE: u64 = 1000;
/// How often leases and delays that have ended are looked for in a partition with ready messages, in milliseconds.
const DUE_INTERVAL: u64 = 200;
/// The highest [`PopRequest::spread`].
const SPREAD_MAX: u32 = 5;

/// What a consumer knows of a partition.
#[derive(Clone, Copy, Debug, Default)]
struct PartitionUse {
    /// The number of its next pop.
    number: u64,
    /// The pop of this number has begun, and has no answer.
    is_open: bool,
    /// When it last looked for leases and delays that have ended.
    looked: u64,
    /// About how many messages it may get there. A hint.
    ready: u64,
    /// The version of the counts that it has read last.
    version: Option<Version>,
}

/// A consumer: what it has popped, and what it knows of the partitions of its queue.
#[derive(Debug)]
pub struct ConsumerState {
    id: ConsumerId,
    partitions: Vec<PartitionUse>,
    /// The partition with which it begins the next round among those that have messages.
    next: u32,
    /// How far from the first message it looks, because others take that.
    spread: u32,
    /// When it has read the counts.
    counted: u64,
    /// A wait has ended, so the counts say more than the hints.
    is_woken: bool,
}

impl ConsumerState {
    /// A consumer of a queue with so many partitions.
    #[must_use]
    pub fn new(id: ConsumerId, partitions: u32) -> Self {
        let partitions = vec![PartitionUse::default(); partitions.max(1) as usize];
        Self { id, partitions, next: 0, spread: 0, counted: 0, is_woken: false }
    }

    /// Its id.
    #[must_use]
    pub const fn id(&self) -> ConsumerId {
        self.id
    }

    /// A hint: the process has pushed messages into a partition.
    pub fn note_pushed(&mut self, partition: u32, messages: u64) {
        if let Some(known) = self.partitions.get_mut(partition as usize) {
            known.ready = known.ready.saturating_add(messages);
        }
    }

    /// The wait for a change of the counts has ended.
    pub const fn note_woken(&mut self) {
        self.is_woken = true;
    }

    fn count(&self) -> u32 {
        self.partitions.len() as u32
    }

    fn known(&self, partition: u32) -> PartitionUse {
        self.partitions.get(partition as usize).copied().unwrap_or_default()
    }

    /// All partitions, in the order of this round.
    fn round(&self) -> impl Iterator<Item = u32> + use<> {
        let (next, count) = (self.next, self.count());
        (0..count).map(move |place| (next + place) % count)
    }

    /// Whether a pop begins with the counts.
    fn begins_with_counts(&self, now: u64) -> bool {
        let has_hints = self.partitions.iter().any(|known| known.ready > 0);
        self.is_woken || (has_hints && now.saturating_sub(self.counted) >= HINT_AGE)
    }

    /// The partitions that a pop looks at first: those in which an earlier pop was not answered, those of hints, and two others.
    fn likely(&self, random: u64) -> VecDeque<u32> {
        let open = self.round().filter(|partition| self.known(*partition).is_open);
        let mut chosen: VecDeque<u32> = open.collect();
        let hinted = self.round().filter(|partition| {
            let known = self.known(*partition);
            known.ready > 0 && !known.is_open
        });
        chosen.extend(hinted.take(HINTED_MAX));
        for drawn in two_of(self.count(), random) {
            if !chosen.contains(&drawn) {
                chosen.push_back(drawn);
            }
        }
        chosen
    }

    /// Begins a pop of a partition, or repeats it.
    fn begin(&mut self, now: u64, partition: u32, request: &ConsumeRequest) -> PopRequest {
        let (consumer, spread) = (self.id, self.spread);
        let mut first = PartitionUse::default();
        let known = self.partitions.get_mut(partition as usize).unwrap_or(&mut first);
        let is_repeat = std::mem::replace(&mut known.is_open, true);
        if !is_repeat {
            known.number += 1;
        }
        let looks_at_due = now.saturating_sub(known.looked) >= DUE_INTERVAL;
        if looks_at_due {
            known.looked = now;
        }
        let ConsumeRequest { messages, bytes, lease, tries, random, .. } = *request;
        PopRequest {
            partition,
            consumer,
            number: known.number,
            is_repeat,
            messages,
            bytes,
            lease,
            tries,
            looks_at_due,
            spread,
            random,
        }
    }

    /// Ends a pop of a partition.
    fn end(&mut self, partition: u32, outcome: &PopOutcome, request: &ConsumeRequest) {
        let popped = outcome.messages.len() as u64;
        if let Some(known) = self.partitions.get_mut(partition as usize) {
            known.is_open = false;
            // A pop that has got all that it asked for may have left some.
            let is_full = popped >= u64::from(request.messages.max(1));
            known.ready = if is_full { known.ready.saturating_sub(popped).max(1) } else { 0 };
        }
        if popped > 0 {
            self.next = (partition + 1) % self.count();
        }
        self.spread = match outcome.is_contended {
            true => (self.spread + 1).min(SPREAD_MAX),
            false => self.spread.saturating_sub(u32::from(request.random.is_multiple_of(8))),
        };
    }

    /// Takes the counts of all partitions. Result: those that have messages, of which those come first whose counts have changed.
    fn take_counts(
        &mut self,
        now: u64,
        values: &[Option<VersionedRecord>],
    ) -> Result<VecDeque<u32>, QueueError> {
        let (mut changed, mut others) = (VecDeque::new(), VecDeque::new());
        (self.counted, self.is_woken) = (now, false);
        if values.len() != self.partitions.len() {
            return Err(QueueError::Unavailable("the driver has not read all counts".to_owned()));
        }
        for partition in self.round() {
            let place = partition as usize;
            let (Some(value), Some(known)) = (&values[place], self.partitions.get_mut(place)) else {
                return Err(QueueError::NoSuchQueue);
            };
            let counts = CountsRecord::decode(&value.value)
                .ok_or_else(|| QueueError::Corrupt(keys::counts(partition)))?;
            known.ready = counts.depth();
            let is_changed = known.version.replace(value.version) != Some(value.version);
            if counts.depth() > 0 {
                let list = if is_changed { &mut changed } else { &mut others };
                list.push_back(partition);
            }
        }
        changed.append(&mut others);
        Ok(changed)
    }
}

/// Two of so many partitions, or the only one.
fn two_of(partitions: u32, random: u64) -> impl Iterator<Item = u32> {
    let first = (random % u64::from(partitions)) as u32;
    let distance = (partitions > 1).then(|| 1 + ((random >> 32) % u64::from(partitions - 1)) as u32);
    let second = distance.map(|distance| (first + distance) % partitions);
    [first].into_iter().chain(second)
}

/// A pop of any partition.
#[derive(Clone, Copy, Debug)]
pub struct ConsumeRequest {
    /// The most messages, all of one partition.
    pub messages: u32,
    /// The most bytes of messages; one message may have more.
    pub bytes: u64,
    /// How long the lease lasts, in milliseconds.
    pub lease: u64,
    /// How often a message is leased before it becomes a dead letter; 0: without limit.
    pub tries: u32,
    /// The consumer waits for a change of the counts if there is no message.
    pub waits: bool,
    /// A random number.
    pub random: u64,
}

/// What a consumer has got.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConsumeOutcome {
    /// The partition of the messages.
    pub partition: u32,
    /// The messages.
    pub messages: Vec<PoppedMessage>,
    /// If there was none: when a lease or a delay ends next, in milliseconds since 1970.
    pub next_due: Option<u64>,
    /// Other consumers took messages that this pop had found.
    pub is_contended: bool,
    /// If there was none: the counts of all partitions. Before the version of one of them has changed, and the next lease or delay has
    /// ended, there is nothing to pop.
    pub counts: Vec<(RecordKey, Version)>,
}

enum ConsumeState {
    Idle,
    InPartition(u32, Box<PopQueue>),
    Counting,
}

/// Pops messages of the first partition in which it finds some. After an error it may be repeated with the same consumer.
pub struct ConsumeQueue<'c> {
    consumer: &'c mut ConsumerState,
    request: ConsumeRequest,
    /// The partitions to look at.
    plan: VecDeque<u32>,
    /// Those that it has looked at before it has read the counts.
    looked: Vec<u32>,
    is_counted: bool,
    outcome: ConsumeOutcome,
    state: ConsumeState,
}

impl<'c> ConsumeQueue<'c> {
    /// The pop of a consumer.
    #[must_use]
    pub fn new(consumer: &'c mut ConsumerState, request: ConsumeRequest) -> Self {
        Self {
            consumer,
            request,
            plan: VecDeque::new(),
            looked: Vec::new(),
            is_counted: false,
            outcome: ConsumeOutcome::default(),
            state: ConsumeState::Idle,
        }
    }

    fn begin(&mut self, now: u64) -> QueueStep<ConsumeOutcome> {
        if self.consumer.begins_with_counts(now) {
            return self.read_counts();
        }
        self.plan = self.consumer.likely(self.request.random);
        self.look_further(now)
    }

    fn read_counts(&mut self) -> QueueStep<ConsumeOutcome> {
        self.is_counted = true;
        self.state = ConsumeState::Counting;
        QueueStep::Effect(Effect::Read((0..self.consumer.count()).map(keys::counts).collect()))
    }

    fn take_counts(&mut self, now: u64, values: &[Option<VersionedRecord>]) -> QueueStep<ConsumeOutcome> {
        self.plan = match self.consumer.take_counts(now, values) {
            Ok(plan) => plan,
            Err(error) => return QueueStep::fail(error),
        };
        let versions = values.iter().flatten().map(|value| value.version);
        self.outcome.counts = (0..self.consumer.count()).map(keys::counts).zip(versions).collect();
        // What a consumer waits for must be behind the counts.
        if !self.request.waits || is_planted(Bug::LookedBeforeCounts) {
            let looked = std::mem::take(&mut self.looked);
            self.plan.retain(|partition| !looked.contains(partition));
        }
        if is_planted(Bug::OnlyDrawnLookedAt) {
            self.plan.clear();
        }
        // A pop without an answer may have what the counts do not show.
        let open = self.consumer.round().filter(|partition| self.consumer.known(*partition).is_open);
        let open: Vec<u32> = open.filter(|partition| !self.plan.contains(partition)).collect();
        open.into_iter().for_each(|partition| self.plan.push_front(partition));
        self.look_further(now)
    }

    fn look_further(&mut self, now: u64) -> QueueStep<ConsumeOutcome> {
        let Some(partition) = self.plan.pop_front() else {
            if !self.is_counted {
                return self.read_counts();
            }
            return QueueStep::Done(Ok(std::mem::take(&mut self.outcome)));
        };
        if !self.is_counted {
            self.looked.push(partition);
        }
        let pop = PopQueue::new(self.consumer.begin(now, partition, &self.request));
        self.look(now, partition, Box::new(pop), QueueEvent::Start)
    }

    fn look(
        &mut self,
        now: u64,
        partition: u32,
        mut pop: Box<PopQueue>,
        event: QueueEvent,
    ) -> QueueStep<ConsumeOutcome> {
        let popped = match pop.step(now, event) {
            QueueStep::Effect(effect) => {
                self.state = ConsumeState::InPartition(partition, pop);
                return QueueStep::Effect(effect);
            }
            QueueStep::Done(Err(error)) => return QueueStep::fail(error),
            QueueStep::Done(Ok(popped)) => popped,
        };
        self.consumer.end(partition, &popped, &self.request);
        let PopOutcome { messages, next_due, is_contended } = popped;
        self.outcome.is_contended |= is_contended;
        if !messages.is_empty() {
            let is_contended = self.outcome.is_contended;
            let outcome = ConsumeOutcome { partition, messages, is_contended, ..ConsumeOutcome::default() };
            return QueueStep::Done(Ok(outcome));
        }
        self.outcome.next_due = self.outcome.next_due.into_iter().chain(next_due).min();
        self.look_further(now)
    }
}

impl Procedure<QueueError> for ConsumeQueue<'_> {
    type Output = ConsumeOutcome;

    fn step(&mut self, now: u64, event: QueueEvent) -> QueueStep<ConsumeOutcome> {
        match (std::mem::replace(&mut self.state, ConsumeState::Idle), event) {
            (ConsumeState::Idle, QueueEvent::Start) => self.begin(now),
            (ConsumeState::InPartition(partition, pop), event) => self.look(now, partition, pop, event),
            (ConsumeState::Counting, QueueEvent::Values(values)) => self.take_counts(now, &values),
            (_, event) => QueueStep::unexpected(&event),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_partitions_are_drawn_and_differ() {
        assert_eq!(two_of(1, 7).collect::<Vec<_>>(), [0]);
        for random in (0..64).map(|seed: u64| seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)) {
            let drawn: Vec<u32> = two_of(16, random).collect();
            assert!(
                drawn.len() == 2 && drawn[0] != drawn[1] && drawn.iter().all(|one| *one < 16),
                "{drawn:?}"
            );
        }
    }

    #[test]
    fn partitions_of_hints_take_turns() {
        let mut consumer = ConsumerState::new(ConsumerId([1; 16]), 16);
        for partition in [3, 7, 9] {
            consumer.note_pushed(partition, 5);
        }
        let first = |consumer: &ConsumerState| consumer.likely(0).iter().copied().take(2).collect::<Vec<_>>();
        assert_eq!(first(&consumer), [3, 7]);
        consumer.next = 4;
        assert_eq!(first(&consumer), [7, 9]);
        consumer.next = 8;
        assert_eq!(first(&consumer), [9, 3]);
    }
}
