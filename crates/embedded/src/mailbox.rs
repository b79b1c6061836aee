//! A worker's queue: limited in number and bytes, and emptied at once, so that a worker gets all requests that arrived while it was busy as one
//! batch.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::limits::{WAITING_BYTES_MAX, WAITING_REQUESTS_MAX};

/// The queue. One thread receives, any number of threads send.
#[derive(Debug)]
pub(super) struct WorkerMailbox<T> {
    state: Mutex<MailboxState<T>>,
    /// Notified when an item was added, or the queue has ended.
    arrived: Condvar,
    /// Notified when items were removed, or the queue has ended.
    space_available: Condvar,
}

#[derive(Debug)]
struct MailboxState<T> {
    waiting: Vec<T>,
    bytes: usize,
    end: Option<MailboxEnd>,
}

/// The reason why a mailbox has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MailboxEnd {
    /// Its worker closed in order.
    Closed,
    /// Its worker has failed.
    Fault(String),
}

/// The reason why an item was not added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PutError {
    /// The queue did not have room in time.
    Full,
    /// The queue has ended.
    Ended(MailboxEnd),
}

impl<T> WorkerMailbox<T> {
    pub(super) fn new() -> Self {
        let state = MailboxState { waiting: Vec::new(), bytes: 0, end: None };
        WorkerMailbox { state: Mutex::new(state), arrived: Condvar::new(), space_available: Condvar::new() }
    }

    /// Adds an item with this number of bytes; waits for room if necessary.
    pub(super) fn put(&self, item: T, bytes: usize, wait: Duration) -> Result<(), PutError> {
        let state = self.lock();
        let waited = self
            .space_available
            .wait_timeout_while(state, wait, |state| state.end.is_none() && !state.has_room(bytes));
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if let Some(end) = &state.end {
            return Err(PutError::Ended(end.clone()));
        }
        if !state.has_room(bytes) {
            return Err(PutError::Full);
        }
        state.waiting.push(item);
        state.bytes += bytes;
        drop(state);
        self.arrived.notify_one();
        Ok(())
    }

    /// Removes all items; waits for an item if there is none.
    pub(super) fn take_all(&self, into: &mut impl Extend<T>, wait: Duration) {
        let mut state = self.lock();
        if !wait.is_zero() {
            let waited = self.arrived.wait_timeout_while(state, wait, |state| state.waiting.is_empty());
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        if state.waiting.is_empty() {
            return;
        }
        into.extend(state.waiting.drain(..));
        state.bytes = 0;
        drop(state);
        self.space_available.notify_all();
    }

    /// Ends the queue: senders that wait for room get the reason, and waiting items are dropped. The first reason stays.
    pub(super) fn end(&self, end: MailboxEnd) {
        let mut state = self.lock();
        state.end.get_or_insert(end);
        let dropped = std::mem::take(&mut state.waiting);
        drop(state);
        self.space_available.notify_all();
        drop(dropped);
    }

    /// The reason why it has ended; waits for the end for a limited time.
    pub(super) fn wait_for_end(&self, wait: Duration) -> Option<MailboxEnd> {
        let waited = self.space_available.wait_timeout_while(self.lock(), wait, |state| state.end.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.end.clone()
    }

    /// No code under the lock can leave an inconsistent state, so a poisoned lock is still usable.
    fn lock(&self) -> MutexGuard<'_, MailboxState<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> MailboxState<T> {
    fn has_room(&self, bytes: usize) -> bool {
        self.waiting.is_empty()
            || self.waiting.len() < WAITING_REQUESTS_MAX && self.bytes + bytes <= WAITING_BYTES_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(20);
    const LONG: Duration = Duration::from_secs(30);

    #[test]
    fn worker_receives_all_queued_items_in_order() {
        let mailbox = WorkerMailbox::new();
        (0..3).for_each(|n| mailbox.put(n, 1, SHORT).unwrap());
        let mut received = Vec::new();
        mailbox.take_all(&mut received, LONG);
        mailbox.take_all(&mut received, Duration::ZERO);
        assert_eq!(received, [0, 1, 2]);
    }

    #[test]
    fn mailbox_is_bounded_by_item_count_and_bytes() {
        let mailbox = WorkerMailbox::new();
        (0..WAITING_REQUESTS_MAX).for_each(|n| mailbox.put(n, 1, SHORT).unwrap());
        assert_eq!(mailbox.put(0, 1, SHORT), Err(PutError::Full));
        let mailbox = WorkerMailbox::new();
        mailbox.put(0, 2 * WAITING_BYTES_MAX, SHORT).unwrap();
        assert_eq!(mailbox.put(0, 1, SHORT), Err(PutError::Full), "one that is too large waits alone");
        mailbox.take_all(&mut Vec::new(), SHORT);
        mailbox.put(0, WAITING_BYTES_MAX, SHORT).unwrap();
    }

    #[test]
    fn waiting_sender_continues_when_worker_empties_mailbox() {
        let mailbox = WorkerMailbox::new();
        mailbox.put(0, WAITING_BYTES_MAX, SHORT).unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| mailbox.put(1, 1, LONG));
            let mut received = Vec::new();
            while received.len() < 2 {
                mailbox.take_all(&mut received, SHORT);
            }
            assert_eq!(waiting.join().unwrap(), Ok(()));
        });
    }

    #[test]
    fn closed_mailbox_refuses_waiting_and_later_senders() {
        let mailbox = WorkerMailbox::new();
        mailbox.put(0, WAITING_BYTES_MAX, SHORT).unwrap();
        let fault = MailboxEnd::Fault("a fault".to_owned());
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| mailbox.put(1, 1, LONG));
            mailbox.end(fault.clone());
            assert_eq!(waiting.join().unwrap(), Err(PutError::Ended(fault.clone())));
        });
        mailbox.end(MailboxEnd::Closed);
        assert_eq!(mailbox.put(1, 1, LONG), Err(PutError::Ended(fault.clone())));
        assert_eq!(mailbox.wait_for_end(LONG), Some(fault));
    }
}
