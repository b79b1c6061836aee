//! The cache of connections. The session opens a connection when it has something to send, and opens a lost one again after a pause. If there are
//! too many, it closes the least recently used ones.

use std::sync::Arc;

use zerohop_wire::auth::Caller;
use zerohop_wire::messages::{Hello, HelloAck, Message, Ping};
use zerohop_wire::{BrokenStream, Decoder, Encoder, Failure, Features};

use super::Session;
use super::connection_table::ConnectionRoom;
use crate::connection::{ConnectionId, ConnectionPhase};
use crate::effect::{ConnectionLoss, SessionEffect};
use crate::error::{AttemptFailure, SessionError};
use crate::in_flight_frame::Cargo;
use crate::slots::Handle;
use zerohop_base::time::Time;

impl<T> Session<T> {
    /// The shell reports that it has opened this connection.
    pub fn connected(&mut self, now: Time, id: ConnectionId) {
        let Some(index) = self.connections.live(id) else { return };
        self.connections.greet(now, index, &mut self.timers);
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
            map_epoch: self.mapping.epoch(),
            proof_method: 0,
            nonce: [0; 32],
            name: &name,
        };
        let credential = self.settings.credential.as_mut();
        let caller =
            credential.map(|one| one.add_proof_offer(&mut hello).expect("the name was cut to its bound"));
        self.connections.existing(index).caller = caller;
        self.connections.send_own(now, index, &Message::Hello(hello), Cargo::Hello, &mut self.timers);
    }

    /// The shell reports that it could not open this connection, or that the connection has ended.
    pub fn disconnected(&mut self, now: Time, id: ConnectionId, lost: ConnectionLoss) {
        let Some(index) = self.connections.live(id) else { return };
        if let Some(fault) = lost.fault {
            return self.refused(now, index, Failure::AuthFailed { fault });
        }
        let address = self.connections.address(index);
        self.lose(now, index, AttemptFailure::ConnectionLost { address, kind: lost.kind }, false);
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
                    let map_epoch = self.mapping.epoch();
                    self.connections.send_own(
                        now,
                        index,
                        &Message::Ping(Ping { map_epoch }),
                        Cargo::Ping,
                        &mut self.timers,
                    );
                }
                self.connections.mark_dirty(index);
            }
            _ => {}
        }
        self.connections.arm(index, &mut self.timers);
    }

    /// Handles the server's reply to the greeting, which includes the check of the server's proof.
    pub(super) fn handle_hello_ack(&mut self, now: Time, index: u32, ack: &HelloAck) {
        let cluster = self.cluster;
        let connection = self.connections.existing(index);
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
                self.connections.send_own(now, index, &Message::Prove(prove), Cargo::Prove, &mut self.timers);
            }
            None => self.ready(now, index, ack),
        }
    }

    /// The server has accepted the client's proof.
    pub(super) fn proved(&mut self, now: Time, index: u32) {
        if let Some(ack) = self.connections.existing(index).proving.take() {
            self.ready(now, index, &ack);
        }
    }

    fn ready(&mut self, now: Time, index: u32, ack: &HelloAck) {
        self.cluster = ack.cluster;
        let compress_from_bytes =
            self.settings.compress_from_bytes.filter(|_| ack.features.has(Features::LZ4));
        let body_checksum = self.settings.body_checksum;
        let connection = self.connections.existing(index);
        connection.encoder = Encoder { version: ack.version, body_checksum, compress_from_bytes };
        connection.phase = ConnectionPhase::Ready;
        if std::mem::take(&mut connection.for_map) {
            self.mapping.hurry(now);
        }
        if ack.map_epoch > self.mapping.epoch() {
            self.request_map_soon(now);
        }
        self.connections.mark_dirty(index);
        self.connections.arm(index, &mut self.timers);
    }

    /// The server refuses this client, or failed authentication: operations that wait for it end.
    pub(super) fn refused(&mut self, now: Time, index: u32, failure: Failure<'static>) {
        let address = self.connections.address(index);
        for handle in self.take_waiting(index) {
            let refused = SessionError::Refused { address: Arc::clone(&address), failure: failure.clone() };
            let trouble = || AttemptFailure::Answered { failure: failure.clone() };
            self.end_unanswered(now, handle, |_| refused, trouble);
        }
        if self.mapping.is_refused_everywhere(&failure, self.settings.endpoints.len()) {
            self.refuse_unrouted(now, &address, &failure);
        }
        self.lose(now, index, AttemptFailure::Answered { failure }, true);
    }

    pub(super) fn broken(&mut self, now: Time, index: u32, broken: BrokenStream) {
        let address = self.connections.address(index);
        self.lose(now, index, AttemptFailure::Broken { address, broken }, true);
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
        let Some(lost) = connections.lay_down(now, index, &trouble, pause_us, timers) else { return };

        // The primary may have moved because its node has failed.
        self.request_map_soon(now);
        if lost.was_for_map {
            self.mapping.hurry(now);
        }
        self.mapping.last = Some(trouble.clone());
        self.land_all(now, index, &trouble);
        if !lost.was_ready {
            self.reroute_admin(now, index, &trouble);
        }
    }

    fn land_all(&mut self, now: Time, index: u32, trouble: &AttemptFailure) {
        for handle in self.connections.frames_on(index) {
            let Some(flight) = self.connections.land(handle) else { continue };
            match flight.cargo {
                Cargo::Hello | Cargo::Prove | Cargo::Ping => {}
                Cargo::Map => self.map_request_failed(now, trouble.clone()),
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
    fn open_again(&mut self, now: Time, index: u32) {
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
