//! The interface through which a service answers.

use std::io;
use std::net::SocketAddr;

use zerohop_wire::auth::Access;
use zerohop_wire::ids::PartitionEpoch;
use zerohop_wire::messages::Hello;
use zerohop_wire::{Envelope, Failure, Features, Message};

use super::FEATURES;
use super::connection::{Connection, ConnectionStage};
use super::connections::Connections;
use super::counters::{CloseReason, ReactorCounters};
use super::driver::{ClockSample, ConnectionId, Driver};
use super::request_token::RequestToken;
use super::waiting::WaitingLoad;

/// Accepts the answers of a service. The reactor writes them at the end of the batch, with one system call for each connection.
pub struct Replies<'r> {
    pub(super) connections: &'r mut Connections,
    pub(super) driver: &'r mut dyn Driver,
    pub(super) now: ClockSample,
}

impl Replies<'_> {
    /// Answers a request. `epoch` is the epoch of the group that answers, or zero. The answer is dropped if the connection is closed, and replaced
    /// by a failure if it is too long to send.
    pub fn answer(&mut self, token: RequestToken, epoch: PartitionEpoch, message: &Message<'_>) {
        self.answer_read_locked(token, (epoch, 0), message);
    }

    /// Same as [`Self::answer`], for a read with a read lock of this many microseconds.
    pub fn answer_read_locked(
        &mut self,
        token: RequestToken,
        (epoch, read_lock_us): (PartitionEpoch, u32),
        message: &Message<'_>,
    ) {
        if !self.remove_in_flight(token) {
            return;
        }
        self.connections.counters.answers += 1;
        let envelope = Envelope {
            request: token.request,
            keyspace: token.keyspace,
            partition: token.partition,
            partition_epoch: epoch,
            time_out_ms: read_lock_us,
            read_lock: false,
        };
        self.connections.queue(self.driver, token.connection, &envelope, message, self.now.elapsed_ms);
    }

    /// Answers a request with a failure.
    pub fn fail(&mut self, token: RequestToken, epoch: PartitionEpoch, failure: Failure<'_>) {
        self.answer(token, epoch, &Message::Answer(Err(failure)));
    }

    /// Whether the socket of a connection has not accepted all its answers yet.
    #[must_use]
    pub fn has_unsent(&self, id: ConnectionId) -> bool {
        self.connections.get(id).is_some_and(|connection| connection.unsent() > 0)
    }

    /// Drops a request without an answer, because the client has it already.
    pub fn drop_request(&mut self, token: RequestToken) {
        if self.remove_in_flight(token) {
            self.connections.counters.dropped_requests += 1;
            // The connection has room for another request now.
            self.connections.mark_dirty(token.connection);
        }
    }

    /// Removes a request from those in flight; `false` if its connection is closed.
    fn remove_in_flight(&mut self, token: RequestToken) -> bool {
        let Some(connection) = self.connections.get_mut(token.connection) else {
            self.connections.counters.answers_dropped += 1;
            return false;
        };
        assert!(connection.in_flight > 0, "a request was answered twice");
        connection.in_flight -= 1;
        if connection.end_wait(token.request) {
            // The reactor looks at the connection at the end of the batch.
            self.connections.mark_dirty(token.connection);
        }
        true
    }

    /// Sends bytes to a connection of another protocol, and says whether its earlier requests will have more replies. The service then again
    /// receives what the connection has sent and will send.
    pub fn resume(&mut self, id: ConnectionId, bytes: &[u8], holds: bool, waits: bool) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        if !holds && std::mem::replace(&mut connection.is_paused, false) {
            connection.need = 0;
        }
        connection.in_flight = u32::from(waits);
        if bytes.is_empty() {
            self.connections.mark_dirty(id);
        } else {
            self.connections.queue_bytes(id, bytes, self.now.elapsed_ms);
        }
    }

    /// Whether the service has more to send to a connection that speaks another protocol, for the requests so far. The
    /// connection is then passed to the service again, also without more bytes, once little is left to send.
    pub fn set_has_more(&mut self, id: ConnectionId, has_more: bool) {
        if let Some(connection) = self.connections.get_mut(id)
            && std::mem::replace(&mut connection.has_more, has_more) != has_more
        {
            self.connections.mark_dirty(id);
        }
    }

    /// Whether so many bytes may be kept for a connection, in place of those kept until now; if so, they are counted.
    pub fn may_buffer(&mut self, id: ConnectionId, bytes: usize) -> bool {
        let kept = self.connections.get(id).map_or(0, |connection| connection.service_bytes);
        let more = WaitingLoad { bytes: bytes.saturating_sub(kept), waits: 0 };
        let has_room = more.bytes == 0 || self.connections.may_add_load(id, more);
        if has_room {
            self.set_buffered(id, bytes);
        }
        has_room
    }

    /// Records that this many bytes are buffered for a connection.
    pub fn set_buffered(&mut self, id: ConnectionId, bytes: usize) {
        if let Some(connection) = self.connections.get_mut(id)
            && std::mem::replace(&mut connection.service_bytes, bytes) != bytes
        {
            self.connections.recount(id);
        }
    }

    /// Returns whether a request may wait for a record with this many bytes, and if so, counts it until it is answered.
    pub fn may_wait(&mut self, token: RequestToken, bytes: usize, waits: usize) -> bool {
        let id = token.connection;
        let has_room = self.connections.may_add_load(id, WaitingLoad { bytes, waits });
        if has_room && let Some(connection) = self.connections.get_mut(id) {
            connection.begin_wait(token.request, WaitingLoad { bytes, waits });
            self.connections.recount(id);
        }
        has_room
    }

    /// Closes the connections of tokens that are no longer valid, with all their pending requests. Connections of another protocol first get the
    /// reply of `over` for the token.
    pub fn end_tokens(&mut self, over: impl Fn(u64) -> Option<&'static [u8]>) {
        let last = |connection: &Connection| match connection.access {
            Access::Token(id) if !connection.is_closing() => over(id),
            _ => None,
        };
        let all = self.connections.iter().filter_map(|(id, connection)| {
            Some((id, connection.stage == ConnectionStage::Foreign, last(connection)?))
        });
        let all: Vec<(ConnectionId, bool, &[u8])> = all.collect();
        for (id, is_foreign, last) in all {
            if is_foreign {
                self.connections.queue_bytes(id, last, self.now.elapsed_ms);
            }
            self.connections.close_gently(id, CloseReason::Revoked, self.now.elapsed_ms);
        }
    }

    /// Closes a connection of another protocol, once these bytes and those before them are sent.
    pub fn close(&mut self, id: ConnectionId, bytes: &[u8]) {
        self.connections.queue_bytes(id, bytes, self.now.elapsed_ms);
        self.connections.close_gently(id, CloseReason::Foreign, self.now.elapsed_ms);
    }

    /// Starts to connect to another instance, and sends it a greeting. The reactor calls [`super::Service::peer_connected`] when the instance has answered,
    /// and [`super::Service::closed`] when the connection has ended, also if it was never answered.
    ///
    /// # Errors
    /// Those of the system; there is no connection then.
    pub fn connect(&mut self, address: SocketAddr, hello: &Hello<'_>) -> io::Result<ConnectionId> {
        let mut hello = Hello { features: Features(hello.features.0 | FEATURES.0), ..*hello };
        let caller = match &mut self.connections.proofs {
            Some(proofs) => Some(proofs.credential.add_proof_offer(&mut hello).map_err(io::Error::other)?),
            None => None,
        };
        let id = self.connections.next_id();
        self.driver.connect(id, address)?;
        self.connections.counters.connected += 1;
        self.connections.open(id, Connection { caller, ..Connection::calling(self.now.elapsed_ms) });
        let hello = Message::Hello(hello);
        self.connections.queue(self.driver, id, &Envelope::default(), &hello, self.now.elapsed_ms);
        Ok(id)
    }

    /// Sends a message that is not an answer to an instance that has completed the greeting. Unless it is large, it is collected with others and
    /// written at the end of the batch.
    pub fn send(&mut self, id: ConnectionId, envelope: &Envelope, message: &Message<'_>) {
        self.connections.queue(self.driver, id, envelope, message, self.now.elapsed_ms);
    }

    /// Same as [`Self::send`], for encoded frames.
    pub fn send_frames(&mut self, id: ConnectionId, frames: &[u8]) {
        self.connections.queue_bytes(id, frames, self.now.elapsed_ms);
    }

    /// Closes a connection that this side has opened, at the end of the batch.
    pub fn hang_up(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(id) {
            connection.doomed.get_or_insert(CloseReason::NoAnswer);
            self.connections.mark_dirty(id);
        }
    }

    /// Number of bytes that wait to be sent on a connection.
    #[must_use]
    pub fn unsent_bytes(&self, id: ConnectionId) -> usize {
        self.connections.get(id).map_or(0, Connection::unsent)
    }

    /// Whether the request's connection is closed, so that its answer is not needed.
    #[must_use]
    pub fn is_closed(&self, token: RequestToken) -> bool {
        self.connections.get(token.connection).is_none()
    }

    /// The address of a connection's peer, if it is known.
    #[must_use]
    pub fn peer(&self, id: ConnectionId) -> Option<SocketAddr> {
        self.driver.peer(id)
    }

    /// The counters of the reactor.
    #[must_use]
    pub fn counters(&self) -> &ReactorCounters {
        &self.connections.counters
    }

    /// The permissions of a connection.
    #[must_use]
    #[inline]
    pub fn access(&self, id: ConnectionId) -> Access {
        self.connections.get(id).map_or(Access::All, |connection| connection.access)
    }

    /// The access of a token that a client of another protocol has sent, if the token was made with the cluster's secret.
    #[must_use]
    pub fn token_access(&self, text: &[u8]) -> Option<Access> {
        self.connections.proofs.as_ref()?.guard.token_access(text)
    }

    /// Records that a client of another protocol has sent a valid token.
    pub fn set_authenticated(&mut self, id: ConnectionId, access: Access) {
        self.connections.set_access(id, access);
        self.connections.set_authenticated(id);
    }

    /// Whether the cluster has a secret, so that clients must authenticate themselves.
    #[must_use]
    pub fn requires_proofs(&self) -> bool {
        self.connections.proofs.is_some()
    }

    /// Number of open connections.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.connections.open
    }
}
