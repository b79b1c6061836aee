//! The table of operations that have not ended: their bytes, their timers, and the lists of those that wait for a map or a connection.

use std::collections::BTreeMap;

use zerohop_base::invariant::{BrokenInvariant, check_rules};
use zerohop_placement::Keyspace;
use zerohop_wire::ids::{KeyspaceId, PartitionId, SessionId};

use super::check::SESSION;
use crate::backoff::Jitter;
use crate::error::{AttemptFailure, SessionError};
use crate::limits::{PAUSE_US_MAX, PAUSE_US_MIN, SILENT_US};
use crate::operation::{OpenOperation, OperationState};
use crate::settings::SessionSettings;
use crate::slots::{Handle, Slots};
use crate::timers::{Subject, Timers};
use zerohop_base::time::Time;

/// The open numbers of each session, by partition.
pub(super) type OpenNumbers = BTreeMap<PartitionId, Vec<(SessionId, u64)>>;

/// Number of attempts after which the time-out is no longer doubled.
const DOUBLINGS_MAX: u32 = 6;

/// The operations of a session.
#[derive(Debug)]
pub(super) struct OperationTable<T> {
    open: Slots<OpenOperation<T>>,
    /// The bytes of the operations, and of the composite operations.
    bytes: usize,
    /// Operations that the map does not place.
    unrouted: Vec<Handle>,
    /// Operations for which no connection is available.
    starved: Vec<Handle>,
    /// Maximum number of operations.
    count_max: usize,
    /// Maximum number of their bytes.
    bytes_max: usize,
    /// Time limit of a first attempt.
    attempt_us: u64,
}

impl<T> OperationTable<T> {
    pub(super) fn new(settings: &SessionSettings) -> Self {
        Self {
            open: Slots::new(),
            bytes: 0,
            unrouted: Vec::new(),
            starved: Vec::new(),
            count_max: settings.operations_max,
            bytes_max: settings.operation_bytes_max,
            attempt_us: settings.attempt_us,
        }
    }

    /// Whether there is room for an operation of so many bytes.
    ///
    /// # Errors
    /// The limit that it would exceed.
    pub(super) fn admit(&self, bytes: usize) -> Result<(), SessionError> {
        if self.open.len() >= self.count_max {
            return Err(SessionError::TooManyOperations { limit: self.count_max });
        }
        // A single operation always fits; otherwise a value above a low limit could never be written.
        if self.bytes > 0 && self.bytes + bytes > self.bytes_max {
            return Err(SessionError::TooManyBytes { limit: self.bytes_max });
        }
        Ok(())
    }

    /// Whether there is room for the operations of a composite operation, which may be of any length.
    ///
    /// # Errors
    /// The limit that they would exceed.
    pub(super) fn admit_parts(&self, count: usize) -> Result<(), SessionError> {
        if self.open.len() + count > self.count_max {
            return Err(SessionError::TooManyOperations { limit: self.count_max });
        }
        Ok(())
    }

    /// Counts the bytes of a composite operation, in addition to those of its parts.
    pub(super) fn add_bytes(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    /// No longer counts the bytes of a composite operation.
    pub(super) fn remove_bytes(&mut self, bytes: usize) {
        self.bytes -= bytes;
    }

    /// Adds an operation, with a timer for its deadline.
    pub(super) fn insert(&mut self, operation: OpenOperation<T>, timers: &mut Timers) -> Handle {
        self.bytes += operation.request.bytes();
        let deadline = operation.deadline;
        let handle = self.open.insert(operation);
        timers.arm(Subject::Operation(handle.index), deadline);
        handle
    }

    pub(super) fn remove(&mut self, handle: Handle) -> Option<OpenOperation<T>> {
        let operation = self.open.remove(handle)?;
        self.bytes -= operation.request.bytes();
        Some(operation)
    }

    #[inline]
    pub(super) fn get(&self, handle: Handle) -> Option<&OpenOperation<T>> {
        self.open.get(handle)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, handle: Handle) -> Option<&mut OpenOperation<T>> {
        self.open.get_mut(handle)
    }

    /// The handle of the operation at this position.
    pub(super) fn at(&self, index: u32) -> Option<Handle> {
        self.open.at(index)
    }

    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Handle, &OpenOperation<T>)> {
        self.open.iter()
    }

    /// Whether an operation is in this state.
    pub(super) fn is_in(&self, handle: Handle, state: OperationState) -> bool {
        self.open.get(handle).is_some_and(|operation| operation.state == state)
    }

    /// Whether an operation in a queue of this connection still waits there.
    pub(super) fn waits_at(&self, handle: Handle, connection: u32) -> bool {
        self.is_in(handle, OperationState::Queued { connection })
    }

    /// Whether these operations request read locks.
    pub(super) fn want_read_locks(&self, handles: &[Handle]) -> bool {
        handles.iter().all(|handle| self.open.get(*handle).is_some_and(|one| one.wants_read_lock))
    }

    /// Whether a queue of this length consists mostly of outdated entries. Operations that end while they wait stay in queues, which are not
    /// emptied as long as a server is unreachable.
    pub(super) fn is_overgrown(&self, length: usize) -> bool {
        const SLACK: usize = 1024;
        length > 2 * self.open.len() + SLACK
    }

    /// Lets an operation wait for a map.
    pub(super) fn await_map(&mut self, handle: Handle) {
        let Some(operation) = self.open.get_mut(handle) else { return };
        operation.state = OperationState::Unrouted;
        self.unrouted.push(handle);
        if self.is_overgrown(self.unrouted.len()) {
            self.unrouted.retain(|handle| self.open.get(*handle).is_some());
        }
    }

    /// Lets an operation wait for a connection.
    pub(super) fn await_connection(&mut self, handle: Handle) {
        let Some(operation) = self.open.get_mut(handle) else { return };
        operation.state = OperationState::NoFreeConnection;
        self.starved.push(handle);
        if self.is_overgrown(self.starved.len()) {
            self.starved.retain(|handle| self.open.get(*handle).is_some());
        }
    }

    /// Lets writes that waited for room in a window wait for the map, because their partition has been split.
    pub(super) fn leave_window(&mut self, handle: Handle) {
        let Some(operation) = self.open.get_mut(handle) else { return };
        if operation.state == OperationState::WindowFull {
            operation.state = OperationState::Unrouted;
            self.unrouted.push(handle);
        }
    }

    /// Removes and returns the operations that wait for a map.
    pub(super) fn take_unrouted(&mut self) -> Vec<Handle> {
        let mut waiting = std::mem::take(&mut self.unrouted);
        waiting.retain(|handle| self.is_in(*handle, OperationState::Unrouted));
        waiting
    }

    /// Removes and returns the operations that wait for a connection.
    pub(super) fn take_starved(&mut self) -> Vec<Handle> {
        std::mem::take(&mut self.starved)
    }

    /// Delays an operation by about `us`, and by more with each delay in a row.
    pub(super) fn pause(
        &mut self,
        now: Time,
        handle: Handle,
        us: u64,
        jitter: &mut Jitter,
        timers: &mut Timers,
    ) {
        let Some(operation) = self.open.get_mut(handle) else { return };
        operation.pauses += 1;
        let least = us.clamp(PAUSE_US_MIN, PAUSE_US_MAX);
        let until = now.after_us(jitter.pause_us(operation.pauses, least, PAUSE_US_MAX));
        operation.state = OperationState::BackingOff { until };
        timers.arm(Subject::Operation(handle.index), until);
    }

    /// Records that an operation is in this frame.
    pub(super) fn record_sent(&mut self, now: Time, handle: Handle, in_flight: Handle, timers: &mut Timers) {
        let Some(operation) = self.open.get_mut(handle) else { return };
        let (due, look) = match operation.is_wait() || operation.is_admin() {
            // The server may take long; the connection shows whether the server is alive.
            true => (Time::NEVER, Time::NEVER),
            false => {
                let attempt_us = self.attempt_us << operation.attempts.min(DOUBLINGS_MAX);
                (now.after_us(attempt_us), now.after_us(SILENT_US))
            }
        };
        operation.attempts = operation.attempts.saturating_add(1);
        operation.state = OperationState::InFlight { in_flight, due, look };
        timers.arm(Subject::Operation(handle.index), due.min(look));
    }

    /// Records why the latest attempt of an operation failed.
    pub(super) fn record_failure(&mut self, handle: Handle, failure: AttemptFailure) {
        if let Some(operation) = self.open.get_mut(handle) {
            operation.last = Some(Box::new(failure));
        }
    }

    /// Recomputes the partition of every operation on a record, after a split of its keyspace. Returns the open numbers of each partition.
    pub(super) fn reassign(&mut self, keyspace: KeyspaceId, found: &Keyspace) -> OpenNumbers {
        let mut open = OpenNumbers::new();
        for operation in self.open.iter_mut() {
            if operation.keyspace() != keyspace || operation.partition.is_none() {
                continue;
            }
            let Some(partition) = operation.request.partition_in(found) else { continue };
            operation.partition = Some(partition);
            if let Some(stamp) = operation.stamp {
                open.entry(partition).or_default().push((stamp.session, stamp.sequence.0));
            }
        }
        open
    }

    /// Whether no bytes are counted.
    pub(super) fn counts_no_bytes(&self) -> bool {
        self.bytes == 0
    }

    /// Checks all operations. `composite_bytes` are the bytes of the composite operations.
    ///
    /// # Errors
    /// The broken invariant.
    pub(super) fn check_all(&self, composite_bytes: usize, timers: &Timers) -> Result<(), BrokenInvariant> {
        let bytes: usize = self.open.iter().map(|(_, operation)| operation.request.bytes()).sum();
        let has_timer =
            self.open.iter().all(|(handle, operation)| timers.of_operation(handle.index) <= operation.due());
        check_rules(
            SESSION,
            [
                (self.bytes == bytes + composite_bytes, "the bytes of the operations are counted"),
                (has_timer, "each operation has a timer that fires when it is due"),
            ],
        )
    }
}
