//! Dispatch of operations: the map gives the primary of the operation's partition, and the operation joins a queue there.

use zerohop_placement::{Keyspace, NodeState, PartitionCount};
use zerohop_wire::ids::{KeyspaceId, PartitionEpoch, PartitionId};
use zerohop_wire::messages::{Message, SessionOpen, SessionOpened};
use zerohop_wire::{Failure, What};

use super::Session;
use crate::error::{AttemptFailure, SessionError};
use crate::in_flight_frame::Cargo;
use crate::limits::{PAUSE_US_MAX, PAUSE_US_MIN, REDIRECTS_MAX};
use crate::operation::OperationState;
use crate::planted::{Bug, is_planted};
use crate::reply::{FoundKeyspace, Reply};
use crate::request::{Coalescing, Collect, RequestKind, SnapshotTarget};
use crate::slots::Handle;
use crate::timers::Subject;
use zerohop_base::time::Time;

/// The destination of an operation according to the map.
enum Destination {
    /// The position of a connection, and the values that were looked up on the way.
    At { connection: u32, partition: Option<PartitionId>, epoch: PartitionEpoch, collect: Option<Collect> },
    /// Not in this map.
    Nowhere,
    /// At an instance without a connection, and the session has no room for another.
    NoFreeConnection,
    /// No map can have it.
    Never(Failure<'static>),
    /// In several partitions; the keyspace has this many.
    Split(PartitionCount),
}

impl<T> Session<T> {
    /// Puts an operation where it belongs according to the current map.
    pub(super) fn dispatch(&mut self, now: Time, handle: Handle) {
        let Some(operation) = self.operations.get(handle) else { return };
        if matches!(operation.request, RequestKind::Keyspace { .. }) {
            return self.send_lookup(now, handle);
        }
        match self.destination(now, handle) {
            Destination::At { connection, partition, epoch, collect } => {
                let Some(operation) = self.operations.get_mut(handle) else { return };
                operation.state = OperationState::Queued { connection };
                operation.partition = partition;
                operation.epoch = epoch;
                self.enqueue(now, connection, handle, collect);
            }
            Destination::Nowhere => self.await_map(now, handle),
            Destination::NoFreeConnection => {
                let Some(operation) = self.operations.get_mut(handle) else { return };
                operation.state = OperationState::Starved;
                self.starved.push(handle);
                if self.is_overgrown(self.starved.len()) {
                    let operations = &self.operations;
                    self.starved.retain(|handle| operations.get(*handle).is_some());
                }
            }
            Destination::Split(partitions) => {
                self.finish(now, handle, Err(SessionError::Split { partitions }), None);
            }
            Destination::Never(failure) => {
                self.end_unanswered(
                    now,
                    handle,
                    |_| SessionError::Answer { failure: failure.clone() },
                    || AttemptFailure::Answered { failure: failure.clone() },
                );
            }
        }
    }

    pub(super) fn dispatch_all(&mut self, now: Time, handles: Vec<Handle>) {
        for handle in handles {
            self.dispatch(now, handle);
        }
    }

    /// Dispatches all unsent operations again, because the map has changed.
    pub(super) fn dispatch_waiting(&mut self, now: Time) {
        let mut waiting = std::mem::take(&mut self.unrouted);
        waiting.retain(|handle| {
            self.operations.get(*handle).is_some_and(|operation| operation.state == OperationState::Unrouted)
        });
        for index in self.connections.indexes() {
            waiting.extend(self.take_waiting(index));
        }
        self.dispatch_all(now, waiting);
    }

    /// Sends an operation again, at once or after a pause, depending on its history.
    pub(super) fn again(&mut self, now: Time, handle: Handle, trouble: AttemptFailure) {
        let Some(operation) = self.operations.get_mut(handle) else { return };
        operation.may_be_executed |= operation.changes();
        operation.last = Some(Box::new(trouble));
        if is_planted(Bug::RetriesAgain)
            && let (Some(stamp), Some(partition)) = (operation.stamp.take(), operation.partition)
        {
            self.numbering.close((operation.keyspace(), partition), stamp, None);
        }
        let Some(operation) = self.operations.get_mut(handle) else { return };
        if operation.is_admin() {
            // A control request has no sequence number, so a server could not detect that it was already done.
            return self.end_unanswered(now, handle, |_| SessionError::Closed, || AttemptFailure::Overdue);
        }
        self.dispatch(now, handle);
    }

    /// Delays an operation by about `us`, and by more with each delay in a row.
    pub(super) fn pause(&mut self, now: Time, handle: Handle, us: u64) {
        let Some(operation) = self.operations.get_mut(handle) else { return };
        operation.pauses += 1;
        let least = us.clamp(PAUSE_US_MIN, PAUSE_US_MAX);
        let until = now.after_us(self.jitter.pause_us(operation.pauses, least, PAUSE_US_MAX));
        operation.state = OperationState::Resting { until };
        self.timers.arm(Subject::Operation(handle.index), until);
    }

    /// Handles an answer that names another primary. The map already includes the changes in the answer.
    pub(super) fn redirect(&mut self, now: Time, handle: Handle) {
        let Some(operation) = self.operations.get(handle) else { return };
        let epoch = operation.epoch;
        let (keyspace, partition) = (operation.keyspace(), operation.partition);
        let newer = self.map.keyspace(keyspace).zip(partition).is_some_and(|(keyspace, partition)| {
            keyspace.group(partition).is_some_and(|group| group.epoch > epoch)
        });
        if newer {
            // Epochs rise: servers that report a newer one do not lead in circles, however often the group changes.
            return self.dispatch(now, handle);
        }
        let Some(operation) = self.operations.get_mut(handle) else { return };
        operation.redirects += 1;
        let redirects = operation.redirects;
        if redirects > REDIRECTS_MAX {
            return self.end_unanswered(
                now,
                handle,
                |_| SessionError::NoOwner { redirects },
                || AttemptFailure::Overdue,
            );
        }
        self.pause(now, handle, 0);
    }

    fn destination(&mut self, now: Time, handle: Handle) -> Destination {
        let map = std::sync::Arc::clone(&self.map);
        let Some(operation) = self.operations.get(handle) else { return Destination::Nowhere };
        let (keyspace, partition) = match &operation.request {
            ask @ (RequestKind::Record { keyspace, .. }
            | RequestKind::Point { keyspace, .. }
            | RequestKind::Snapshot { keyspace, to: SnapshotTarget::Key, .. }) => {
                match map.keyspace(*keyspace) {
                    Some(found) => match operation.partition.or_else(|| ask.partition_in(found)) {
                        Some(partition) => (found, partition),
                        None => return Destination::Nowhere,
                    },
                    None => return self.missing(now, handle, *keyspace),
                }
            }
            RequestKind::Scan { keyspace, slice: (partition, of), .. }
            | RequestKind::Compare { keyspace, slice: (partition, of), .. }
            | RequestKind::Snapshot { keyspace, to: SnapshotTarget::Slice((partition, of)), .. } => {
                match map.keyspace(*keyspace) {
                    Some(found) if found.config().partitions > *of => {
                        return Destination::Split(found.config().partitions);
                    }
                    // The caller has a newer map.
                    Some(found) if found.config().partitions < *of => return Destination::Nowhere,
                    Some(found) => (found, *partition),
                    None => return self.missing(now, handle, *keyspace),
                }
            }
            RequestKind::Admin { .. } => {
                if let Some(manager) = self.settings.manager.clone() {
                    let Some(connection) = self.connection_to(now, manager.as_str()) else {
                        return Destination::NoFreeConnection;
                    };
                    let epoch = PartitionEpoch(0);
                    return Destination::At { connection, partition: None, epoch, collect: None };
                }
                let managers = || {
                    let up = map.nodes().filter(|node| node.state() != NodeState::Down);
                    up.map(|node| node.manager())
                };
                // The first choice is a server that answers, if there is one; after a failure or a lost connection, the next one.
                let known = match operation.pauses {
                    0 => managers().find(|address| self.connections.is_ready_at(address)),
                    _ => None,
                };
                let turn = operation.pauses as usize % managers().count().max(1);
                let Some(manager) = known.or_else(|| managers().nth(turn)) else {
                    return Destination::Nowhere;
                };
                let Some(connection) = self.connection_to(now, manager) else {
                    return Destination::NoFreeConnection;
                };
                let epoch = PartitionEpoch(0);
                return Destination::At { connection, partition: None, epoch, collect: None };
            }
            RequestKind::Keyspace { .. } | RequestKind::Together(_) => return Destination::Nowhere,
        };
        let Some(group) = keyspace.group(partition) else {
            return Destination::Never(What::NoSuchPartition.into());
        };
        let collect = self.collects(handle, keyspace);
        let connection = match self.connections.serving(group.primary) {
            Some(connection) => connection,
            None => {
                let instance = map.instance(group.primary).expect("groups name instances of the map");
                let Some(connection) = self.connection_to(now, instance.addr) else {
                    return Destination::NoFreeConnection;
                };
                self.connections.record_serving(group.primary, connection);
                connection
            }
        };
        Destination::At { connection, partition: Some(partition), epoch: group.epoch, collect }
    }

    /// Whether an operation may wait for others. An operation that was sent before has waited enough.
    fn collects(&self, handle: Handle, keyspace: &Keyspace) -> Option<Collect> {
        let operation = self.operations.get(handle)?;
        let RequestKind::Record { item, wait: false, .. } = &operation.request else { return None };
        if operation.attempts > 0 {
            return None;
        }
        let collect = match operation.collecting {
            Coalescing::Never => return None,
            Coalescing::Within(collect) => collect,
            Coalescing::AsKeyspace => {
                let config = keyspace.config();
                let (delay_us, bytes) = (config.batch_delay_us, config.batch_bytes);
                if delay_us == 0 {
                    return None;
                }
                Collect { delay_us, bytes }
            }
        };
        (item.len() < collect.bytes as usize).then_some(collect)
    }

    fn enqueue(&mut self, now: Time, index: u32, handle: Handle, collect: Option<Collect>) {
        let bytes = match self.operations.get(handle).map(|operation| &operation.request) {
            Some(RequestKind::Record { item, .. }) => item.len(),
            _ => 0,
        };
        let Some(connection) = self.connections.get_mut(index) else { return };
        connection.used = now;
        let connection_len = connection.queue.len() + connection.collected.len();
        match collect {
            None => connection.queue.push_back(handle),
            Some(collect) => {
                connection.collected.push(handle);
                connection.collected_bytes += bytes;
                connection.collect_bytes = connection.collect_bytes.min(collect.bytes as usize);
                let due = now.after_us(collect.delay_us.into());
                if due < connection.collect_due {
                    connection.collect_due = due;
                    self.timers.arm(Subject::Connection(index), due);
                }
            }
        }
        if self.is_overgrown(connection_len) {
            let operations = &self.operations;
            let waits = |handle: &Handle| {
                let state = operations.get(*handle).map(|operation| operation.state);
                state == Some(OperationState::Queued { connection: index })
            };
            if let Some(connection) = self.connections.get_mut(index) {
                connection.queue.retain(waits);
                connection.collected.retain(waits);
            }
        }
        self.connections.mark_dirty(index);
    }

    /// Whether a queue of this length consists mostly of outdated entries. Operations that end while they wait stay in queues, which are not
    /// emptied as long as a server is unreachable.
    pub(super) fn is_overgrown(&self, length: usize) -> bool {
        const SLACK: usize = 1024;
        length > 2 * self.operations.len() + SLACK
    }

    /// Opens a session at the server of this connection, if the client is not opening one already.
    pub(super) fn open_session(&mut self, now: Time, index: u32) {
        if !self.numbering.is_opening() {
            let flight = self.connections.send_own(
                now,
                index,
                &Message::SessionOpen(SessionOpen),
                Cargo::SessionOpen,
                &mut self.timers,
            );
            self.numbering.record_opening(flight, now.after_us(self.settings.attempt_us), &mut self.timers);
        }
    }

    pub(super) fn session_opened(&mut self, now: Time, asked: Time, opened: &SessionOpened) {
        self.numbering.accept(asked, opened);
        let awaiting = self.numbering.end_opening();
        self.dispatch_all(now, awaiting);
    }

    /// The opening failed: the writes that wait request a session again, each from its own server.
    pub(super) fn opening_failed(&mut self, now: Time) {
        let awaiting = self.numbering.end_opening();
        self.dispatch_all(now, awaiting);
    }

    /// The server does not open a session; `Some` if the refusal is final.
    pub(super) fn opening_refused(&mut self, now: Time, error: Option<SessionError>) {
        for handle in self.numbering.end_opening() {
            match &error {
                Some(error) => {
                    self.end_unanswered(now, handle, |_| error.clone(), || AttemptFailure::Overdue)
                }
                None => self.pause(now, handle, 0),
            }
        }
    }

    pub(super) fn opening_is_due(&mut self, now: Time) {
        if let Some(flight) = self.numbering.overdue_opening(now, &mut self.timers) {
            self.mark_overdue(now, flight);
            self.opening_failed(now);
        }
    }

    fn missing(&mut self, now: Time, handle: Handle, keyspace: KeyspaceId) -> Destination {
        match self.map_is_newer_than(handle) {
            true => Destination::Never(Failure::UnknownKeyspace { keyspace }),
            false => {
                self.request_map_soon(now);
                Destination::Nowhere
            }
        }
    }

    fn send_lookup(&mut self, now: Time, handle: Handle) {
        let Some(operation) = self.operations.get(handle) else { return };
        let RequestKind::Keyspace { name, least } = &operation.request else { return };
        if self.map.epoch() < *least {
            return self.await_map(now, handle);
        }
        match self.map.keyspace_named(name).filter(|(_, found)| !found.is_dropping()) {
            Some((id, keyspace)) => {
                let found = FoundKeyspace { id, config: keyspace.config().clone() };
                self.finish(now, handle, Ok(Reply::Keyspace(Box::new(found))), None);
            }
            None if self.map_is_newer_than(handle) => {
                let error = SessionError::NoKeyspace { name: name.clone(), epoch: self.map.epoch() };
                self.finish(now, handle, Err(error), None);
            }
            None => self.await_map(now, handle),
        }
    }

    fn await_map(&mut self, now: Time, handle: Handle) {
        if let Some(operation) = self.operations.get_mut(handle) {
            operation.state = OperationState::Unrouted;
            self.unrouted.push(handle);
            if self.is_overgrown(self.unrouted.len()) {
                let operations = &self.operations;
                self.unrouted.retain(|handle| operations.get(*handle).is_some());
            }
            self.request_map_soon(now);
        }
    }

    /// Whether the map was requested after the operation was submitted: then an object that is not in the map does not exist.
    fn map_is_newer_than(&self, handle: Handle) -> bool {
        let submitted = self.operations.get(handle).map(|operation| operation.submitted);
        self.mapping.answered_question >= submitted
    }
}
