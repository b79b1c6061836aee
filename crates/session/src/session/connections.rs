//! The cache of connections. The session opens a connection when it has something to send, and opens a lost one again after a pause. If there are
//! too many, it closes the least recently used ones.

use std::sync::Arc;

use zerohop_wire::auth::Caller;
use zerohop_wire::messages::{Hello, HelloAck, Message, Ping};
use zerohop_wire::{BrokenStream, Decoder, Encoder, Envelope, Failure, Features};

use super::Session;
use crate::connection::{Connection, ConnectionId, ConnectionPhase};
use crate::effect::{ConnectionLoss, SessionEffect};
use crate::error::{AttemptFailure, SessionError};
use crate::in_flight_frame::{Cargo, Flight, request_id};
use crate::slots::Handle;
use crate::timers::Subject;
use zerohop_base::time::Time;

impl<T> Session<T> {
    /// The shell reports that it has opened this connection.
    pub fn connected(&mut self, now: Time, id: ConnectionId) {
        let Some(index) = self.live(id) else { return };
        let due = now.after_us(self.settings.connect_us);
        self.connection_mut(index).phase = ConnectionPhase::Greeting { due };
        self.timers.arm(Subject::Connection(index), due);
        let features = match self.settings.compress_from_bytes {
            Some(_) => Features(Features::COALESCED.0 | Features::READ_LOCKS.0 | Features::LZ4.0),
            None => Features(Features::COALESCED.0 | Features::READ_LOCKS.0),
        };
        let name = self.settings.name.clone();
        let mut hello = Hello {
            version_min: zerohop_wire::limits::VERSION_MIN,
            version_max: zerohop_wire::limits::VERSION_MAX,
            features,
            cluster: self.cluster,
            map_epoch: self.map.epoch(),
            proof_method: 0,
            nonce: [0; 32],
            name: &name,
        };
        let credential = self.settings.credential.as_mut();
        let caller =
            credential.map(|one| one.add_proof_offer(&mut hello).expect("the name was cut to its bound"));
        self.connection_mut(index).caller = caller;
        self.send_own_request(now, index, &Message::Hello(hello), Cargo::Hello);
    }

    /// The shell reports that it could not open this connection, or that the connection has ended.
    pub fn disconnected(&mut self, now: Time, id: ConnectionId, lost: ConnectionLoss) {
        let Some(index) = self.live(id) else { return };
        if let Some(fault) = lost.fault {
            return self.refused(now, index, Failure::AuthFailed { fault });
        }
        let address = Arc::clone(&self.connection_mut(index).address);
        self.lose(now, index, AttemptFailure::ConnectionLost { address, kind: lost.kind }, false);
    }

    /// Whether the server at this address has completed the greeting, so that requests can be sent at once.
    pub(super) fn is_ready_at(&self, address: &str) -> bool {
        let index = self.by_address.get(address).map(|index| *index as usize);
        let found = index.and_then(|index| self.connections[index].as_ref());
        found.is_some_and(|one| one.is_ready() && !one.draining)
    }

    /// The position of a connection to this address, which the session opens if there is none. `None`: the session has the maximum number of
    /// connections, and the caller must wait until another is closed.
    pub(super) fn connection_to(&mut self, now: Time, address: &str) -> Option<u32> {
        if let Some(index) = self.by_address.get(address).copied() {
            let draining = self.connection_mut(index).draining;
            return (!draining).then_some(index);
        }
        if !self.free_connection_slot(now) {
            return None;
        }
        let address: Arc<str> = address.into();
        let connection = Connection::new(Arc::clone(&address), now);
        let index = match self.free_connections.pop() {
            Some(index) => {
                self.connections[index as usize] = Some(connection);
                index
            }
            None => {
                self.connections.push(Some(connection));
                // The limit is `connections_max`.
                (self.connections.len() - 1) as u32
            }
        };
        self.by_address.insert(address, index);
        self.open(now, index);
        Some(index)
    }

    /// Sends a request of the session itself on a connection, ahead of the operations in its queue.
    pub(super) fn send_own_request(
        &mut self,
        now: Time,
        index: u32,
        message: &Message<'_>,
        cargo: Cargo,
    ) -> Handle {
        let flight = self.launch(now, index, cargo);
        let envelope = Envelope { request: request_id(flight, 0), ..Envelope::default() };
        self.write(index, &envelope, message).expect("the session's own requests keep every bound");
        self.mark_dirty(index);
        flight
    }

    /// Registers a frame that is about to be written.
    pub(super) fn launch(&mut self, now: Time, index: u32, cargo: Cargo) -> Handle {
        let quiet_us = self.settings.quiet_us;
        let connection = self.connection_mut(index);
        if connection.frames_in_flight == 0 {
            connection.quiet_since = now;
            connection.pinged = false;
        }
        connection.frames_in_flight += 1;
        let due = connection.due(quiet_us);
        self.timers.arm(Subject::Connection(index), due);
        self.frames_in_flight.insert(Flight { connection: index, sent: now, cargo, overdue: false })
    }

    /// Removes a frame from the frames in flight: it was answered, or lost with its connection.
    pub(super) fn land(&mut self, handle: Handle) -> Option<Flight> {
        let flight = self.frames_in_flight.remove(handle)?;
        let index = flight.connection;
        let connection = self.connection_mut(index);
        connection.frames_in_flight -= 1;
        connection.overdue -= u32::from(flight.overdue);
        if !connection.queue.is_empty() || !connection.collected.is_empty() || connection.draining {
            self.mark_dirty(index);
        }
        Some(flight)
    }

    /// Records that no operation waits for this frame's answer any more. The session closes a connection with many such frames, because its server
    /// does not answer, or not in time. Such frames must not count forever.
    pub(super) fn mark_overdue(&mut self, now: Time, handle: Handle) {
        let window = self.settings.window_frames;
        let Some(flight) = self.frames_in_flight.get_mut(handle) else { return };
        if std::mem::replace(&mut flight.overdue, true) {
            return;
        }
        let index = flight.connection;
        let connection = self.connection_mut(index);
        connection.overdue += 1;
        if connection.overdue > window / 2 {
            let address = Arc::clone(&connection.address);
            self.lose(now, index, AttemptFailure::Silent { address }, true);
        }
    }

    pub(super) fn connection_is_due(&mut self, now: Time, index: u32) {
        let quiet_us = self.settings.quiet_us;
        let Some(connection) = self.connections[index as usize].as_mut() else { return };
        let silent = AttemptFailure::Silent { address: Arc::clone(&connection.address) };
        match connection.phase {
            ConnectionPhase::Connecting { due } | ConnectionPhase::Greeting { due } if now >= due => {
                self.lose(now, index, silent, true);
            }
            ConnectionPhase::Resting { until } if now >= until => self.open_again(now, index),
            ConnectionPhase::Ready => {
                if now >= connection.collect_due {
                    // From now on they only wait for room; their time has passed.
                    (connection.collect_due, connection.collect_bytes) = (Time::NEVER, 0);
                }
                let quiet =
                    connection.frames_in_flight > 0 && now >= connection.quiet_since.after_us(quiet_us);
                if connection.due(quiet_us) <= now && quiet && connection.pinged {
                    self.lose(now, index, silent, true);
                } else if quiet && !connection.pinged {
                    connection.pinged = true;
                    let map_epoch = self.map.epoch();
                    self.send_own_request(now, index, &Message::Ping(Ping { map_epoch }), Cargo::Ping);
                }
                self.mark_dirty(index);
            }
            _ => {}
        }
        self.arm_connection(index);
    }

    pub(super) fn arm_connection(&mut self, index: u32) {
        if let Some(connection) = self.connections[index as usize].as_ref() {
            let due = connection.due(self.settings.quiet_us);
            self.timers.arm(Subject::Connection(index), due);
        }
    }

    /// Handles the server's reply to the greeting, which includes the check of the server's proof.
    pub(super) fn handle_hello_ack(&mut self, now: Time, index: u32, ack: &HelloAck) {
        let cluster = self.cluster;
        let connection = self.connection_mut(index);
        let prove = match Caller::check_if_any(connection.caller.take(), ack) {
            Ok(prove) => prove,
            Err(failure) => return self.refused(now, index, failure),
        };
        if cluster != Default::default() && ack.cluster != cluster {
            let address = Arc::clone(&connection.address);
            return self.lose(now, index, AttemptFailure::OtherCluster { address }, true);
        }
        connection.encoder = Encoder { version: ack.version, ..Encoder::default() };
        connection.decoder = Decoder::with_version(ack.version, ack.features);
        connection.accepts_coalesced = ack.features.has(Features::COALESCED);
        connection.supports_read_locks = ack.features.has(Features::READ_LOCKS);
        match prove {
            Some(prove) => {
                connection.proving = Some(Box::new(*ack));
                self.send_own_request(now, index, &Message::Prove(prove), Cargo::Prove);
            }
            None => self.ready(now, index, ack),
        }
    }

    /// The server has accepted the client's proof.
    pub(super) fn proved(&mut self, now: Time, index: u32) {
        if let Some(ack) = self.connection_mut(index).proving.take() {
            self.ready(now, index, &ack);
        }
    }

    fn ready(&mut self, now: Time, index: u32, ack: &HelloAck) {
        self.cluster = ack.cluster;
        let compress_from_bytes =
            self.settings.compress_from_bytes.filter(|_| ack.features.has(Features::LZ4));
        let body_checksum = self.settings.body_checksum;
        let connection = self.connection_mut(index);
        connection.encoder = Encoder { version: ack.version, body_checksum, compress_from_bytes };
        connection.phase = ConnectionPhase::Ready;
        if std::mem::take(&mut connection.for_map) {
            self.mapping.next_at = now;
        }
        if ack.map_epoch > self.map.epoch() {
            self.request_map_soon(now);
        }
        self.mark_dirty(index);
        self.arm_connection(index);
    }

    /// The server refuses this client, or failed authentication: operations that wait for it end.
    pub(super) fn refused(&mut self, now: Time, index: u32, failure: Failure<'static>) {
        let address = Arc::clone(&self.connection_mut(index).address);
        for handle in self.take_waiting(index) {
            let refused = SessionError::Refused { address: Arc::clone(&address), failure: failure.clone() };
            let trouble = || AttemptFailure::Answered { failure: failure.clone() };
            self.end_unanswered(now, handle, |_| refused, trouble);
        }
        self.map_refused(now, &address, &failure);
        self.lose(now, index, AttemptFailure::Answered { failure }, true);
    }

    pub(super) fn broken(&mut self, now: Time, index: u32, broken: BrokenStream) {
        let address = Arc::clone(&self.connection_mut(index).address);
        self.lose(now, index, AttemptFailure::Broken { address, broken }, true);
    }

    /// Abandons a connection: the session sends the operations in flight again, to the same server after a pause, or to the server that the map
    /// names.
    pub(super) fn lose(&mut self, now: Time, index: u32, trouble: AttemptFailure, close: bool) {
        if close {
            self.close(index);
        }
        let Session { settings, jitter, .. } = self;
        let (least, most) = (settings.backoff_us_min, settings.backoff_us_max);
        let Some(connection) = self.connections[index as usize].as_mut() else { return };
        let was_ready = connection.phase == ConnectionPhase::Ready;
        connection.failures = connection.failures.saturating_add(1);
        let until = now.after_us(jitter.pause_us(connection.failures, least, most));
        connection.phase = ConnectionPhase::Resting { until };
        connection.decoder = Decoder::before_hello();
        connection.encoder = Encoder::default();
        connection.out.clear();
        connection.open = None;
        (connection.caller, connection.proving) = (None, None);
        connection.last = Some(trouble.clone());
        let was_for_map = std::mem::take(&mut connection.for_map);
        self.timers.arm(Subject::Connection(index), until);

        // The primary may have moved because its node has failed.
        self.request_map_soon(now);
        if was_for_map {
            self.mapping.next_at = now;
        }
        self.mapping.last = Some(trouble.clone());
        self.land_all(now, index, &trouble);
        if !was_ready {
            self.reroute_admin(now, index, &trouble);
        }
    }

    fn land_all(&mut self, now: Time, index: u32, trouble: &AttemptFailure) {
        let aboard = |(handle, flight): (Handle, &Flight)| (flight.connection == index).then_some(handle);
        let lost: Vec<Handle> = self.frames_in_flight.iter().filter_map(aboard).collect();
        for handle in lost {
            let Some(flight) = self.land(handle) else { continue };
            match flight.cargo {
                Cargo::Hello | Cargo::Prove | Cargo::Ping => {}
                Cargo::Map => self.map_question_failed(now, trouble.clone()),
                Cargo::SessionOpen => self.opening_failed(now),
                Cargo::One(operation) => self.operation_lost(now, handle, operation, trouble),
                cargo @ (Cargo::Batch(_) | Cargo::Coalesced(_)) => {
                    for operation in cargo.into_operations() {
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
        flight: Handle,
        operation: Handle,
        trouble: &AttemptFailure,
    ) {
        if self.operations.get(operation).is_some_and(|found| found.flies_in(flight)) {
            self.again(now, operation, trouble.clone());
        }
    }

    /// A control request that has not been sent can go to any other manager.
    fn reroute_admin(&mut self, now: Time, index: u32, trouble: &AttemptFailure) {
        let Some(connection) = self.connections[index as usize].as_ref() else { return };
        let admin = |handle: &Handle| {
            self.waits_at(*handle, index)
                && self.operations.get(*handle).is_some_and(|found| found.is_admin())
        };
        let waiting: Vec<Handle> = connection.queue.iter().copied().filter(admin).collect();
        // The queue still names them; their state makes readers of the queue skip them.
        for handle in waiting {
            if let Some(operation) = self.operations.get_mut(handle) {
                operation.last = Some(Box::new(trouble.clone()));
            }
            self.pause(now, handle, 0);
        }
    }

    /// Opens the connection again if it is still needed, otherwise removes it.
    fn open_again(&mut self, now: Time, index: u32) {
        let waiting = self.take_waiting(index);
        let connection = self.connection_mut(index);
        if waiting.is_empty() && !connection.for_map {
            return self.drop_connection(now, index);
        }
        connection.queue.extend(waiting);
        self.open(now, index);
    }

    fn open(&mut self, now: Time, index: u32) {
        self.serial = self.serial.wrapping_add(1);
        let (serial, due) = (self.serial, now.after_us(self.settings.connect_us));
        let connection = self.connection_mut(index);
        connection.serial = serial;
        connection.phase = ConnectionPhase::Connecting { due };
        let address = Arc::clone(&connection.address);
        self.timers.arm(Subject::Connection(index), due);
        self.effects.push(SessionEffect::Connect { connection: ConnectionId { index, serial }, address });
    }

    /// Has the shell close the connection, if it is open.
    fn close(&mut self, index: u32) {
        let connection = self.connection_mut(index);
        if !matches!(connection.phase, ConnectionPhase::Resting { .. }) {
            let id = ConnectionId { index, serial: connection.serial };
            // Output for this opening must not be sent in the next one.
            connection.out.clear();
            connection.open = None;
            self.effects.push(SessionEffect::Close { connection: id });
        }
    }

    /// Closes and removes a connection; operations that waited for it are dispatched again.
    pub(super) fn drop_connection(&mut self, now: Time, index: u32) {
        if self.connections[index as usize].is_none() {
            return;
        }
        self.close(index);
        let address = Arc::clone(&self.connection_mut(index).address);
        self.land_all(now, index, &AttemptFailure::Silent { address: Arc::clone(&address) });
        let waiting = self.take_waiting(index);
        self.connections[index as usize] = None;
        self.free_connections.push(index);
        self.by_address.remove(&address);
        self.by_instance.retain(|_, place| *place != index);
        self.dispatch_all(now, waiting);
        // The first of them uses the free place; the others make sure that another connection becomes free.
        let starved = std::mem::take(&mut self.starved);
        self.dispatch_all(now, starved);
    }

    /// Returns whether there is room for one more connection. If necessary, the session closes the connection that has been idle for longest. If
    /// all are in use, it drains the least recently used one.
    fn free_connection_slot(&mut self, now: Time) -> bool {
        if self.by_address.len() < self.settings.connections_max {
            return true;
        }
        if self.connections.iter().flatten().any(|connection| connection.draining) {
            return false;
        }
        let found =
            self.connections.iter().zip(0u32..).filter_map(|(found, index)| Some((found.as_ref()?, index)));
        let oldest = found
            .filter(|(connection, _)| !connection.for_map)
            .min_by_key(|(one, index)| {
                (!one.is_idle(), one.phase != ConnectionPhase::Ready, one.used, *index)
            })
            .map(|(connection, index)| (connection.is_idle(), index));
        match oldest {
            Some((true, index)) => {
                self.drop_connection(now, index);
                // Unless a starved operation has used the place.
                self.by_address.len() < self.settings.connections_max
            }
            Some((false, index)) => {
                self.connection_mut(index).draining = true;
                // Later operations find it only by its address, where they wait.
                self.by_instance.retain(|_, place| *place != index);
                false
            }
            None => false,
        }
    }

    /// Removes and returns all operations that wait at a connection, except those that have moved elsewhere since.
    pub(super) fn take_waiting(&mut self, index: u32) -> Vec<Handle> {
        let mut waiting = self.connection_mut(index).take_waiting();
        waiting.retain(|handle| self.waits_at(*handle, index));
        waiting
    }

    pub(super) fn mark_dirty(&mut self, index: u32) {
        let Some(connection) = self.connections[index as usize].as_mut() else { return };
        if !std::mem::replace(&mut connection.dirty, true) {
            self.dirty.push(index);
        }
    }

    /// The position of a connection with this id that is open or being opened.
    pub(super) fn live(&self, id: ConnectionId) -> Option<u32> {
        let connection = self.connections.get(id.index as usize)?.as_ref()?;
        let open = !matches!(connection.phase, ConnectionPhase::Resting { .. });
        (open && connection.serial == id.serial).then_some(id.index)
    }

    pub(super) fn connection_mut(&mut self, index: u32) -> &mut Connection {
        self.connections[index as usize].as_mut().expect("only connections that are there are named")
    }
}
