//! Dispatch of operations: the map gives the primary of the operation's partition, and the operation joins a queue there.
//!
//! The session opens a connection when it has something to send, and opens a lost one again after a pause. The operations in flight on a lost
//! connection are dispatched again.

use std::sync::Arc;

use zerohop_placement::{ClusterMap, Division};
use zerohop_wire::Failure;
use zerohop_wire::ids::{KeyspaceId, MapEpoch, PartitionEpoch, PartitionId};
use zerohop_wire::messages::{Message, Ping};

use super::Session;
use super::connection_table::{ConnectionRoom, ConnectionVisit};
use super::mapping::MapPlace;
use super::transmit::Transmitter;
use crate::coalescing::Collect;
use crate::connection::ConnectionPhase;
use crate::effect::SessionEffect;
use crate::error::{AttemptFailure, SessionError};
use crate::in_flight_frame::FrameContents;
use crate::limits::REDIRECTS_MAX;
use crate::operation::OperationState;
use crate::planted::{Bug, is_planted};
use crate::reply::{KeyspaceLookup, Reply};
use crate::request_kind::RequestKind;
use crate::slots::Handle;
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
    /// In several partitions of this division.
    Split(Division),
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
                self.operations.await_connection(handle);
            }
            Destination::Split(division) => {
                let Some(keyspace) = self.operations.get(handle).map(|operation| operation.keyspace()) else {
                    return;
                };
                self.finish(now, handle, Err(SessionError::Split { keyspace, division }), None);
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
        let mut waiting = self.operations.take_unrouted();
        for index in self.connections.indexes() {
            waiting.extend(self.take_waiting(index));
        }
        self.dispatch_all(now, waiting);
    }

    /// Sends an operation again, at once or after a pause, depending on its history.
    pub(super) fn retry(&mut self, now: Time, handle: Handle, trouble: AttemptFailure) {
        let Some(operation) = self.operations.get_mut(handle) else { return };
        operation.may_be_executed |= operation.changes();
        operation.last = Some(Box::new(trouble));
        if is_planted(Bug::RetryGetsNewNumber)
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
        self.operations.pause(now, handle, us, &mut self.jitter, &mut self.timers);
    }

    /// Handles an answer that names another primary. The map already includes the changes in the answer.
    pub(super) fn redirect(&mut self, now: Time, handle: Handle) {
        let Some(operation) = self.operations.get(handle) else { return };
        if self.mapping.has_newer_group(operation) {
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
        let Some(operation) = self.operations.get(handle) else { return Destination::Nowhere };
        let (partition, epoch, primary, collect) = match self.mapping.place(operation) {
            MapPlace::Group { keyspace, partition, group } => {
                (partition, group.epoch, group.primary, operation.collect_in(keyspace))
            }
            MapPlace::Manager => {
                let is_ready = |address: &str| self.connections.is_ready_at(address);
                let manager: Option<Arc<str>> = match &self.settings.manager {
                    Some(manager) => Some(manager.as_str().into()),
                    None => self.mapping.manager(operation.pauses, is_ready).map(Into::into),
                };
                let Some(manager) = manager else { return Destination::Nowhere };
                let Some(connection) = self.connection_to(now, &manager) else {
                    return Destination::NoFreeConnection;
                };
                let epoch = PartitionEpoch(0);
                return Destination::At { connection, partition: None, epoch, collect: None };
            }
            MapPlace::Nowhere => return Destination::Nowhere,
            MapPlace::MissingKeyspace(keyspace) => return self.missing(now, handle, keyspace),
            MapPlace::Never(failure) => return Destination::Never(failure),
            MapPlace::Split(division) => return Destination::Split(division.clone()),
        };
        let connection = match self.connections.serving(primary) {
            Some(connection) => connection,
            None => {
                let map = Arc::clone(self.mapping.map());
                let instance = map.instance(primary).expect("groups name instances of the map");
                let Some(connection) = self.connection_to(now, instance.addr) else {
                    return Destination::NoFreeConnection;
                };
                self.connections.record_serving(primary, connection);
                connection
            }
        };
        Destination::At { connection, partition: Some(partition), epoch, collect }
    }

    fn enqueue(&mut self, now: Time, index: u32, handle: Handle, collect: Option<Collect>) {
        let bytes = match self.operations.get(handle).map(|operation| &operation.request) {
            Some(RequestKind::Record { item, .. }) => item.len(),
            _ => 0,
        };
        let length = self.connections.enqueue(now, index, (handle, bytes), collect, &mut self.timers);
        if self.operations.is_overgrown(length) {
            let operations = &self.operations;
            self.connections.retain_waiting(index, |handle| operations.waits_at(*handle, index));
        }
    }

    /// The opening failed: the writes that wait request a session again, each from its own server.
    pub(super) fn opening_failed(&mut self, now: Time) {
        let awaiting = self.numbering.end_opening();
        self.dispatch_all(now, awaiting);
    }

    pub(super) fn opening_is_due(&mut self, now: Time) {
        if let Some(in_flight) = self.numbering.overdue_opening(now, &mut self.timers) {
            self.mark_overdue(now, in_flight);
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
        if self.mapping.epoch() < *least {
            return self.await_map(now, handle);
        }
        match self.mapping.map().keyspace_named(name).filter(|(_, found)| !found.is_dropping()) {
            Some((id, keyspace)) => {
                let (config, division) = (keyspace.config().clone(), keyspace.division().clone());
                let found = KeyspaceLookup { id, config, division };
                self.finish(now, handle, Ok(Reply::Keyspace(Box::new(found))), None);
            }
            None if self.map_is_newer_than(handle) => {
                let error = SessionError::NoKeyspace { name: name.clone(), epoch: self.mapping.epoch() };
                self.finish(now, handle, Err(error), None);
            }
            None => self.await_map(now, handle),
        }
    }

    fn await_map(&mut self, now: Time, handle: Handle) {
        self.operations.await_map(handle);
        self.request_map_soon(now);
    }

    /// Whether the map was requested after the operation was submitted: then an object that is not in the map does not exist.
    fn map_is_newer_than(&self, handle: Handle) -> bool {
        self.mapping.is_newer_than(self.operations.get(handle).map(|operation| operation.submitted))
    }

    /// Has the session request the map at the end of this turn, or soon.
    pub(super) fn request_map_soon(&mut self, now: Time) {
        self.mapping.request_soon(now, &mut self.timers);
    }

    /// Has the session request the map again after a while, if operations wait for a server that cannot be reached.
    pub(super) fn repeat_map_request(&mut self, now: Time) {
        match self.connections.is_server_awaited() {
            true => self.mapping.repeat_later(now, &mut self.jitter, &mut self.timers),
            false => self.mapping.end_repeats(),
        }
    }

    pub(super) fn send_map_request(&mut self, now: Time) {
        if self.mapping.is_repeat_due(now, &mut self.timers) && self.connections.is_server_awaited() {
            self.request_map_soon(now);
        }
        if let Some(in_flight) = self.mapping.overdue_request(now) {
            self.mark_overdue(now, in_flight);
            self.map_request_failed(now, AttemptFailure::Overdue);
        }
        if !self.mapping.is_request_due(now, &mut self.timers) {
            return;
        }
        let Session { settings, mapping, connections, timers, .. } = self;
        match connections.ready(mapping.turn()) {
            Some(index) => {
                let request = Message::MapGet(mapping.next_request());
                let in_flight = connections.send_own(now, index, &request, FrameContents::Map, timers);
                mapping.record_request(now, in_flight, settings.attempt_us, timers);
            }
            None => {
                let is_known = |address: &str| connections.at_address(address).is_some();
                if let Some(address) = mapping.next_server(now, settings, is_known, timers)
                    && let Some(index) = self.connection_to(now, &address)
                {
                    self.connections.existing(index).for_map = true;
                }
            }
        }
    }

    pub(super) fn map_request_failed(&mut self, now: Time, trouble: AttemptFailure) {
        self.mapping.record_failure(now, trouble, &mut self.jitter);
        self.request_map_soon(now);
    }

    /// Ends all operations that wait for a map. `expired_s`: see [`SessionError::Refused`].
    pub(super) fn refuse_unrouted(
        &mut self,
        now: Time,
        (address, expired_s): (&Arc<str>, Option<u64>),
        failure: &Failure<'static>,
    ) {
        for handle in self.operations.take_unrouted() {
            let (address, failure) = (Arc::clone(address), failure.clone());
            let refused = SessionError::Refused { address, failure: failure.clone(), expired_s };
            self.end_unanswered(
                now,
                handle,
                |_| refused,
                || AttemptFailure::Answered { failure: failure.clone() },
            );
        }
    }

    /// Handles the changes in a redirect, which lead to a map of this epoch.
    pub(super) fn map_moved(&mut self, now: Time, epoch: MapEpoch, delta: &[u8]) {
        if epoch <= self.mapping.epoch() {
            return;
        }
        match !delta.is_empty() && self.apply(delta) {
            true => self.dispatch_waiting(now),
            false => self.request_map_soon(now),
        }
    }

    /// Applies encoded changes. Returns whether they led to a newer map.
    pub(super) fn apply(&mut self, encoded: &[u8]) -> bool {
        let Some(before) = self.mapping.apply(encoded) else { return false };
        self.follow_splits(&before);
        // Addresses may have changed: they are looked up again as operations need them.
        self.connections.forget_instances();
        true
    }

    /// Handles the splits between the map `before` and the current one: operations and sequence numbers continue in the child partitions.
    fn follow_splits(&mut self, before: &ClusterMap) {
        for (keyspace, found) in self.mapping.map().keyspaces() {
            let Some(old) = before.keyspace(keyspace) else { continue };
            if found.division() == old.division() {
                continue;
            }
            let open = self.operations.reassign(keyspace, found);
            // They wait for room in the window of their new partition.
            for handle in self.numbering.split(keyspace, (old.division(), found.division()), &open) {
                self.operations.leave_window(handle);
            }
        }
    }

    /// Sends the operations of a connection that can be sent now.
    pub(super) fn transmit(&mut self, now: Time, index: u32) {
        match self.connections.visit(index) {
            ConnectionVisit::Gone => {}
            ConnectionVisit::Drained => self.drop_connection(now, index),
            ConnectionVisit::Open => {
                let transmitter = Transmitter {
                    now,
                    index,
                    seen: self.seen,
                    attempt_us: self.settings.attempt_us,
                    operations: &mut self.operations,
                    connections: &mut self.connections,
                    numbering: &mut self.numbering,
                    timers: &mut self.timers,
                    effects: &mut self.effects,
                    packed: &mut self.buffers.packed,
                    refused: Vec::new(),
                };
                for (handle, failure) in transmitter.transmit() {
                    let error = SessionError::Answer { failure: failure.clone() };
                    self.end_unanswered(now, handle, |_| error, || AttemptFailure::Answered { failure });
                }
            }
        }
    }

    /// The position of a connection to this address, which the session opens if there is none. `None`: the session has the maximum number of
    /// connections, and the caller must wait until another is closed.
    pub(super) fn connection_to(&mut self, now: Time, address: &str) -> Option<u32> {
        if let Some(index) = self.connections.at_address(address) {
            let draining = self.connections.existing(index).draining;
            return (!draining).then_some(index);
        }
        match self.connections.make_room() {
            ConnectionRoom::Free => {}
            ConnectionRoom::AfterDrop(idle) => {
                self.drop_connection(now, idle);
                // A starved operation may have used the place.
                if !self.connections.has_room() {
                    return None;
                }
            }
            ConnectionRoom::Full => return None,
        }
        let index = self.connections.add(now, address);
        self.open(now, index);
        Some(index)
    }

    /// Records that no operation waits for this frame's answer any more. The session closes a connection with many such frames, because its server
    /// does not answer, or not in time. Such frames must not count forever.
    pub(super) fn mark_overdue(&mut self, now: Time, handle: Handle) {
        if let Some(index) = self.connections.mark_overdue(handle) {
            let address = self.connections.address(index);
            self.lose(now, index, AttemptFailure::Silent { address }, true);
        }
    }

    pub(super) fn connection_is_due(&mut self, now: Time, index: u32) {
        let quiet_us = self.settings.quiet_us;
        let Some(connection) = self.connections.get_mut(index) else { return };
        let silent = AttemptFailure::Silent { address: Arc::clone(&connection.address) };
        match connection.phase {
            ConnectionPhase::Connecting { due } | ConnectionPhase::Greeting { due } if now >= due => {
                self.lose(now, index, silent, true);
            }
            ConnectionPhase::BackingOff { until } if now >= until => self.reopen(now, index),
            ConnectionPhase::Ready => {
                connection.collected.pass_time(now);
                let quiet = connection.unanswered.is_quiet(now, quiet_us);
                if connection.due(quiet_us) <= now && quiet && connection.unanswered.is_probed() {
                    self.lose(now, index, silent, true);
                } else if quiet && !connection.unanswered.is_probed() {
                    connection.unanswered.record_ping();
                    let map_epoch = self.mapping.epoch();
                    self.connections.send_own(
                        now,
                        index,
                        &Message::Ping(Ping { map_epoch }),
                        FrameContents::Ping,
                        &mut self.timers,
                    );
                }
                self.connections.mark_dirty(index);
            }
            _ => {}
        }
        self.connections.arm(index, &mut self.timers);
    }

    /// Abandons a connection: the session sends the operations in flight again, to the same server after a pause, or to the server that the map
    /// names.
    pub(super) fn lose(&mut self, now: Time, index: u32, trouble: AttemptFailure, close: bool) {
        if close {
            self.close(index);
        }
        let Session { settings, jitter, timers, connections, .. } = self;
        let (least, most) = (settings.backoff_us_min, settings.backoff_us_max);
        let pause_us = |failures| jitter.pause_us(failures, least, most);
        let Some(lost) = connections.begin_pause(now, index, &trouble, pause_us, timers) else { return };

        if lost.was_for_map {
            self.mapping.server_unreached(now, least, &mut self.jitter);
        }
        // The primary may have moved because its node has failed.
        self.request_map_soon(now);
        self.mapping.last = Some(trouble.clone());
        self.land_all(now, index, &trouble);
        if !lost.was_ready {
            self.reroute_admin(now, index, &trouble);
        }
    }

    fn land_all(&mut self, now: Time, index: u32, trouble: &AttemptFailure) {
        for handle in self.connections.frames_on(index) {
            let Some(in_flight) = self.connections.take_frame(handle) else { continue };
            match in_flight.contents {
                FrameContents::Hello | FrameContents::Prove | FrameContents::Ping => {}
                FrameContents::Map => self.map_request_failed(now, trouble.clone()),
                FrameContents::SessionOpen => self.opening_failed(now),
                FrameContents::One(operation) => self.operation_lost(now, handle, operation, trouble),
                contents @ (FrameContents::Batch(_) | FrameContents::Coalesced(_)) => {
                    for operation in contents.into_operations() {
                        self.operation_lost(now, handle, operation, trouble);
                    }
                }
            }
        }
    }

    /// Handles an operation of a frame that was lost, or whose answer was lost.
    pub(super) fn operation_lost(
        &mut self,
        now: Time,
        in_flight: Handle,
        operation: Handle,
        trouble: &AttemptFailure,
    ) {
        if self.operations.get(operation).is_some_and(|found| found.is_in_frame(in_flight)) {
            self.retry(now, operation, trouble.clone());
        }
    }

    /// A control request that has not been sent can go to any other manager.
    fn reroute_admin(&mut self, now: Time, index: u32, trouble: &AttemptFailure) {
        let Some(connection) = self.connections.get(index) else { return };
        let admin = |handle: &Handle| {
            self.operations.waits_at(*handle, index)
                && self.operations.get(*handle).is_some_and(|found| found.is_admin())
        };
        let waiting: Vec<Handle> = connection.queue.iter().copied().filter(admin).collect();
        // The queue still names them; their state makes readers of the queue skip them.
        for handle in waiting {
            self.operations.record_failure(handle, trouble.clone());
            self.pause(now, handle, 0);
        }
    }

    /// Opens the connection again if it is still needed, otherwise removes it.
    fn reopen(&mut self, now: Time, index: u32) {
        let waiting = self.take_waiting(index);
        let connection = self.connections.existing(index);
        if waiting.is_empty() && !connection.for_map {
            return self.drop_connection(now, index);
        }
        connection.queue.extend(waiting);
        self.open(now, index);
    }

    fn open(&mut self, now: Time, index: u32) {
        let (connection, address) = self.connections.open(now, index, &mut self.timers);
        self.effects.push(SessionEffect::Connect { connection, address });
    }

    /// Has the shell close the connection, if it is open.
    fn close(&mut self, index: u32) {
        if let Some(connection) = self.connections.close(index) {
            self.effects.push(SessionEffect::Close { connection });
        }
    }

    /// Closes and removes a connection; operations that waited for it are dispatched again.
    pub(super) fn drop_connection(&mut self, now: Time, index: u32) {
        if self.connections.get(index).is_none() {
            return;
        }
        self.close(index);
        let address = self.connections.address(index);
        self.land_all(now, index, &AttemptFailure::Silent { address });
        let waiting = self.take_waiting(index);
        self.connections.remove(index);
        self.dispatch_all(now, waiting);
        // The first of them uses the free place; the others make sure that another connection becomes free.
        let starved = self.operations.take_starved();
        self.dispatch_all(now, starved);
    }

    /// Removes and returns all operations that wait at a connection, except those that have moved elsewhere since.
    pub(super) fn take_waiting(&mut self, index: u32) -> Vec<Handle> {
        let mut waiting = self.connections.existing(index).take_waiting();
        waiting.retain(|handle| self.operations.waits_at(*handle, index));
        waiting
    }
}
