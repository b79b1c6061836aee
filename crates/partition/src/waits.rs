//! Requests that wait for a record to reach a state. They are queued here and never block a thread.

use std::collections::BTreeMap;

use zerohop_wire::ids::Timestamp;
use zerohop_wire::messages::{OperationAnswer, WaitUntil};
use zerohop_wire::{Elements, Failure};

use crate::batch::Collector;
use crate::event::Token;
use crate::limits::{BUSY_RETRY_MS, WAIT_BYTES_MAX, WAITS_MAX};
use crate::reply::packed;
use crate::timers::Timers;
use crate::update_locks::UpdateLockTable;

/// Memory of one wait beside its key and value.
const WAIT_BYTES: usize = 200;

/// The awaited state, owning its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WaitCondition {
    Equals(Box<[u8]>),
    Differs(Box<[u8]>),
    Absent,
    Present,
    Changed(Timestamp),
    /// No earlier client has the update lock; the number of the lock.
    UpdateLock(u64),
}

/// The receiver of a wait's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitTarget {
    One(Token),
    /// An item of an open batch: the batch's number and the item's place.
    Item(u32, u32),
}

/// A waiting request.
#[derive(Debug)]
pub(crate) struct Wait {
    pub(crate) key: Box<[u8]>,
    pub(crate) awaited: WaitCondition,
    pub(crate) requester: WaitTarget,
    pub(crate) connection: u64,
    deadline_ms: u64,
}

/// All waiting requests of a partition, and the batches that some of them belong to.
#[derive(Debug, Default)]
pub(crate) struct WaitTable {
    waiting_requests: BTreeMap<u32, Wait>,
    next: u32,
    by_key: BTreeMap<Box<[u8]>, Vec<u32>>,
    pub(crate) update_locks: UpdateLockTable,
    timers: Timers,
    batches: BTreeMap<u32, Collector>,
    next_batch: u32,
    /// Answers to items of the batch that is being evaluated, woken by its own writes.
    early: Vec<(u32, Vec<u8>)>,
    bytes: usize,
}

impl WaitCondition {
    pub(crate) fn of(until: &WaitUntil<'_>) -> WaitCondition {
        match until {
            WaitUntil::Equals(value) => WaitCondition::Equals((*value).into()),
            WaitUntil::Differs(value) => WaitCondition::Differs((*value).into()),
            WaitUntil::Absent => WaitCondition::Absent,
            WaitUntil::Present => WaitCondition::Present,
            WaitUntil::Changed(version) => WaitCondition::Changed(*version),
        }
    }

    /// The state of the record that is awaited; `None`: its update lock is.
    pub(crate) fn until(&self) -> Option<WaitUntil<'_>> {
        Some(match self {
            WaitCondition::Equals(value) => WaitUntil::Equals(value),
            WaitCondition::Differs(value) => WaitUntil::Differs(value),
            WaitCondition::Absent => WaitUntil::Absent,
            WaitCondition::Present => WaitUntil::Present,
            WaitCondition::Changed(version) => WaitUntil::Changed(*version),
            WaitCondition::UpdateLock(_) => return None,
        })
    }

    fn bytes(&self) -> usize {
        match self {
            WaitCondition::Equals(value) | WaitCondition::Differs(value) => value.len(),
            _ => 0,
        }
    }
}

impl Wait {
    fn bytes(&self) -> usize {
        WAIT_BYTES + 2 * self.key.len() + self.awaited.bytes()
    }
}

impl WaitTable {
    /// Whether nothing depends on the changes of records: no request waits, and no client has an update lock.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting_requests.is_empty() && self.update_locks.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting_requests.len()
    }

    /// Queues a request.
    ///
    /// # Errors
    /// `Busy` at the limits.
    pub(crate) fn enqueue(
        &mut self,
        key: &[u8],
        awaited: WaitCondition,
        (requester, connection): (WaitTarget, u64),
        deadline_ms: u64,
    ) -> Result<(), Failure<'static>> {
        if self.waiting_requests.len() >= WAITS_MAX
            || self.bytes + WAIT_BYTES + 2 * key.len() + awaited.bytes() > WAIT_BYTES_MAX
        {
            return Err(Failure::Busy { retry_after_ms: BUSY_RETRY_MS });
        }
        let wait = Wait { key: key.into(), awaited, requester, connection, deadline_ms };
        while self.waiting_requests.contains_key(&self.next) {
            self.next = self.next.wrapping_add(1);
        }
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        self.bytes += wait.bytes();
        self.timers.insert(deadline_ms, number);
        match self.by_key.get_mut(key) {
            Some(numbers) => numbers.push(number),
            None => drop(self.by_key.insert(key.into(), vec![number])),
        }
        self.waiting_requests.insert(number, wait);
        Ok(())
    }

    /// Whether any request waits for this key, or a client has its update lock.
    pub(crate) fn has(&self, key: &[u8]) -> bool {
        !self.by_key.is_empty() && self.by_key.contains_key(key) || self.update_locks.has(key)
    }

    /// The requests that wait for a key, in the order of arrival.
    pub(crate) fn of(&self, key: &[u8]) -> Vec<u32> {
        self.by_key.get(key).cloned().unwrap_or_default()
    }

    pub(crate) fn get(&self, number: u32) -> Option<&Wait> {
        self.waiting_requests.get(&number)
    }

    /// Removes and returns a request.
    pub(crate) fn take(&mut self, number: u32) -> Option<Wait> {
        let wait = self.waiting_requests.remove(&number)?;
        self.bytes -= wait.bytes();
        self.timers.remove(wait.deadline_ms, number);
        if let Some(numbers) = self.by_key.get_mut(&wait.key) {
            numbers.retain(|n| *n != number);
            if numbers.is_empty() {
                self.by_key.remove(&wait.key);
            }
        }
        Some(wait)
    }

    /// When the next time-out is due, of a request or of an update lock.
    pub(crate) fn first_deadline(&self) -> Option<u64> {
        self.timers.first().into_iter().chain(self.update_locks.first_end()).min()
    }

    /// Removes and returns a request whose time-out has passed.
    pub(crate) fn take_overdue(&mut self, now_ms: u64) -> Option<Wait> {
        let number = self.timers.pop_due(now_ms)?;
        self.take(number)
    }

    /// Forgets the waits of a connection.
    pub(crate) fn disconnect(&mut self, connection: u64) {
        let gone = self.waiting_requests.iter().filter(|(_, wait)| wait.connection == connection);
        for number in gone.map(|(number, _)| *number).collect::<Vec<_>>() {
            if let Some(Wait { requester: WaitTarget::Item(batch, _), .. }) = self.take(number) {
                self.batches.remove(&batch);
            }
        }
    }

    /// The number that the next open batch will have.
    pub(crate) fn batch_number(&mut self) -> u32 {
        while self.batches.contains_key(&self.next_batch) {
            self.next_batch = self.next_batch.wrapping_add(1);
        }
        self.next_batch
    }

    /// Keeps a batch whose items wait, under [`WaitTable::batch_number`].
    pub(crate) fn open_batch(&mut self, collector: Collector) {
        self.batches.insert(self.next_batch, collector);
        self.next_batch = self.next_batch.wrapping_add(1);
    }

    /// Adds the answer of an item. Returns the batch if it was the last one.
    pub(crate) fn add_to_batch(
        &mut self,
        batch: u32,
        place: u32,
        answer: &OperationAnswer<'_>,
    ) -> Option<Collector> {
        let Some(collector) = self.batches.get_mut(&batch) else {
            self.early.push((place, packed(answer)));
            return None;
        };
        collector.put(place, 0, answer);
        if collector.is_open() { None } else { self.batches.remove(&batch) }
    }

    /// Adds the early answers to their batch, which has been evaluated now.
    pub(crate) fn add_early_answers(&mut self, collector: &mut Collector) {
        for (place, packed) in self.early.drain(..) {
            if let Some(answer) =
                Elements::<OperationAnswer<'_>>::packed(1, &packed).ok().and_then(|one| one.iter().next())
            {
                collector.put(place, 0, &answer);
            }
        }
    }
}
