//! Operations that wait at a connection for others, to be sent together.

use crate::coalescing::Collect;
use crate::slots::Handle;
use zerohop_base::time::Time;

#[derive(Debug)]
pub(crate) struct CollectedOperations {
    operations: Vec<Handle>,
    bytes: usize,
    /// The time at which they must be sent.
    due: Time,
    /// The number of bytes from which they are sent earlier.
    bytes_max: usize,
}

impl CollectedOperations {
    pub(crate) fn new() -> Self {
        Self { operations: Vec::new(), bytes: 0, due: Time::NEVER, bytes_max: usize::MAX }
    }

    pub(crate) fn len(&self) -> usize {
        self.operations.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// When they must be sent, if they are not sent earlier.
    pub(crate) fn due(&self) -> Time {
        self.due
    }

    /// Whether they must be sent now.
    pub(crate) fn is_due(&self, now: Time) -> bool {
        !self.operations.is_empty() && (now >= self.due || self.bytes >= self.bytes_max)
    }

    /// Adds an operation of so many bytes. Returns when they must be sent, if that is earlier than before.
    pub(crate) fn push(
        &mut self,
        now: Time,
        operation: Handle,
        bytes: usize,
        collect: Collect,
    ) -> Option<Time> {
        self.operations.push(operation);
        self.bytes += bytes;
        self.bytes_max = self.bytes_max.min(collect.bytes as usize);
        let due = now.after_us(collect.delay_us.into());
        (due < self.due).then(|| {
            self.due = due;
            due
        })
    }

    /// Lets them wait only for room, if their time has passed.
    pub(crate) fn pass_time(&mut self, now: Time) {
        if now >= self.due {
            (self.due, self.bytes_max) = (Time::NEVER, 0);
        }
    }

    /// Removes and returns all operations, and the number of bytes from which they are sent early.
    pub(crate) fn take(&mut self) -> (Vec<Handle>, usize) {
        let collected = std::mem::replace(self, Self::new());
        (collected.operations, collected.bytes_max)
    }

    /// Adds operations again that were due and found no room.
    pub(crate) fn put_back(&mut self, operations: Vec<Handle>) {
        self.operations = operations;
        self.bytes_max = 0;
    }

    pub(crate) fn retain(&mut self, waits: impl Fn(&Handle) -> bool) {
        self.operations.retain(waits);
    }
}
