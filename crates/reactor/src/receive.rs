//! Receiving: from bytes to requests, for one connection's turn.

use std::io::ErrorKind;

use zerohop_tls::{fault_of, refused_client};
use zerohop_wire::auth::Access;
use zerohop_wire::{BadRequestReason, BrokenStream, DecodeResult, Envelope, Failure, Frame, MAGIC, Message};

use super::connection::{Connection, ConnectionStage, ReceiveBuffer, Refusal};
use super::counters::CloseReason;
use super::driver::{ConnectionId, Driver};
use super::limits::{
    LARGE_BUFFER_STEP_BYTES, MEMORY_FULL_RETRY_MS, RECEIVE_BYTES, RECEIVE_STEP_BYTES, SMALL_FRAME_BYTES_MAX,
};
use super::request_token::RequestToken;
use super::service::{
    FOREIGN_LACKS_DESCRIPTORS, FOREIGN_MEMORY_FULL, FOREIGN_REFUSED, FOREIGN_TLS, FOREIGN_UNKNOWN,
    ForeignResult, Service,
};
use super::waiting::WaitingLoad;
use super::{Reactor, replies};

impl<D: Driver, S: Service> Reactor<D, S> {
    /// One connection's turn: the bytes left from before, then one read.
    pub(super) fn serve(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        if !connection.is_closing() && connection.has_frame() {
            let mut received = std::mem::take(&mut connection.received);
            received.at += self.process_bytes(id, received.unread());
            self.put_back(id, received);
        } else if connection.has_more && connection.stage == ConnectionStage::Foreign && !self.batch_is_full()
        {
            self.resume_foreign(id);
        }
        let is_blocked = self.connections.is_blocked(id);
        let Some(connection) = self.connections.get(id) else { return };
        let is_closing = connection.is_closing();
        let may_read = is_closing || !(connection.has_frame() || is_blocked);
        if connection.readable && connection.ended_ms.is_none() && may_read && connection.doomed.is_none() {
            if connection.need > SMALL_FRAME_BYTES_MAX && !is_closing {
                self.read_large(id);
            } else {
                self.read_small(id);
            }
        }
        let fits = self.connections.recount(id);
        let is_of_token = |connection: &&Connection| matches!(connection.access, Access::Token(_));
        if !fits && self.connections.get(id).filter(is_of_token).is_some() {
            return self.close(id, CloseReason::Flooded);
        }
        if let Some(connection) = self.connections.get(id)
            && connection.is_finished()
        {
            let why =
                if let ConnectionStage::Closing(why) = connection.stage { why } else { CloseReason::Peer };
            self.close(id, why);
        }
    }

    /// Reads into the shared buffer, after the buffered part of an incomplete frame; buffers what is left afterwards.
    fn read_small(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get(id) else { return };
        let mut shared = std::mem::take(&mut self.shared);
        shared.clear();
        shared.extend_from_slice(connection.received.unread());
        let buffered = shared.len();
        if self.read(id, &mut shared) > 0 {
            let used = self.process_bytes(id, &shared);
            if let Some(connection) = self.connections.get_mut(id) {
                let mut buffer = connection.received.empty();
                if used == shared.len() {
                    self.connections.buffers.give(buffer);
                } else {
                    if buffer.capacity() == 0 {
                        buffer = self.connections.buffers.take();
                    }
                    buffer.extend_from_slice(&shared[used..]);
                    if let Some(connection) = self.connections.get_mut(id) {
                        // Another frame has begun, if the incomplete one is now processed.
                        if used > 0 || buffered == 0 {
                            connection.frame_since_ms = self.now.elapsed_ms;
                        }
                        connection.received = ReceiveBuffer { bytes: buffer, at: 0 };
                    }
                }
            }
        }
        self.shared = shared;
    }

    /// Reads into the connection's own buffer, which grows in steps up to the length of the incomplete frame.
    fn read_large(&mut self, id: ConnectionId) {
        let large_frames_bytes_max = self.connections.limits.large_frames_bytes_max;
        let Some(connection) = self.connections.get_mut(id) else { return };
        let (need, large_before) = (connection.need, connection.large_bytes);
        let is_foreign = connection.stage == ConnectionStage::Foreign;
        if is_foreign && connection.is_unproven() {
            // Unauthenticated connections get no large buffers.
            self.connections.queue_bytes(id, FOREIGN_UNKNOWN, self.now.elapsed_ms);
            return self.connections.close_gently(id, CloseReason::NotProved, self.now.elapsed_ms);
        }
        let mut received = std::mem::take(&mut connection.received);
        received.compact();
        let buffered = received.bytes.len();
        if large_before == 0 && !is_foreign {
            // A reused buffer needs no additional memory, however much of the frame arrives. A much longer buffer would also receive what follows
            // the frame, which must be moved then.
            let room = large_frames_bytes_max.saturating_sub(self.connections.large_total);
            let most = room.min(need + 2 * LARGE_BUFFER_STEP_BYTES);
            self.connections.buffers.move_to_large(&mut received.bytes, need..=most);
        }
        if received.bytes.capacity() == buffered || large_before == 0 {
            // Only the service knows the length of a command of another protocol: `need` is only a lower bound.
            let left = match is_foreign {
                true => usize::MAX,
                false => need.next_multiple_of(LARGE_BUFFER_STEP_BYTES) - buffered,
            };
            let step = left.min(buffered.max(RECEIVE_BYTES)).min(RECEIVE_STEP_BYTES);
            let will_hold = received.bytes.capacity().max(buffered + step);
            let more = WaitingLoad { bytes: will_hold - large_before, waits: 0 };
            if self.connections.large_total - large_before + will_hold > large_frames_bytes_max
                || !self.connections.may_add_load(id, more)
            {
                if is_foreign {
                    self.connections.buffers.give(received.empty());
                    self.connections.queue_bytes(id, FOREIGN_MEMORY_FULL, self.now.elapsed_ms);
                    return self.connections.close_gently(id, CloseReason::Foreign, self.now.elapsed_ms);
                }
                return self.skip_frame(id, received, need);
            }
            received.bytes.reserve_exact(step);
            let holds = received.bytes.capacity();
            self.connections.large_total = self.connections.large_total - large_before + holds;
            if let Some(connection) = self.connections.get_mut(id) {
                connection.large_bytes = holds;
            }
        }
        if self.read(id, &mut received.bytes) > 0 && received.bytes.len() >= need {
            received.at += self.process_bytes(id, received.unread());
        }
        self.put_back(id, received);
    }

    /// Refuses a large frame because memory is used up, and skips its bytes.
    fn skip_frame(&mut self, id: ConnectionId, mut received: ReceiveBuffer, need: usize) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        let envelope = connection.decoder.envelope(received.unread());
        connection.bytes_to_skip = need - received.len();
        connection.need = 0;
        self.connections.release_large(id);
        self.connections.buffers.give(received.empty());
        if let Some(envelope) = envelope {
            let failure = Failure::Busy { retry_after_ms: MEMORY_FULL_RETRY_MS };
            self.refuse(id, &envelope, failure);
        }
    }

    /// Reads once, up to the spare capacity of `into`, and updates the state of the connection. Returns the number of bytes; zero also if there was
    /// nothing to read or the connection is closed.
    fn read(&mut self, id: ConnectionId, into: &mut Vec<u8>) -> usize {
        let room = into.capacity() - into.len();
        self.connections.counters.reads += 1;
        let result = self.driver.read(id, into);
        self.refresh_now();
        let now_ms = self.now.elapsed_ms;
        let Some(connection) = self.connections.get_mut(id) else { return 0 };
        match result {
            Ok(0) => {
                connection.ended_ms = Some(now_ms);
                connection.readable = false;
                0
            }
            Ok(bytes) => {
                connection.last_ms = now_ms;
                connection.readable = bytes == room || connection.read_closed;
                self.connections.counters.bytes_in += bytes as u64;
                bytes
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                connection.readable = false;
                0
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => 0,
            Err(error) => {
                if let Some(fault) = fault_of(&error)
                    && connection.stage == ConnectionStage::Calling
                {
                    self.batch.touched = true;
                    let mut replies = replies(&mut self.connections, &mut self.driver, self.now);
                    self.service.peer_connected(
                        id,
                        Err(Failure::AuthFailed { fault }),
                        self.now,
                        &mut replies,
                    );
                }
                self.close(
                    id,
                    match error.kind() {
                        _ if refused_client(&error).is_some() => CloseReason::NotProved,
                        // The bytes are invalid TLS, or not TLS at all.
                        ErrorKind::InvalidData => CloseReason::Misbehaved,
                        _ => CloseReason::Broken,
                    },
                );
                0
            }
        }
    }

    /// Puts back the buffer of a connection whose frames were processed, if the connection still exists and needs it.
    fn put_back(&mut self, id: ConnectionId, mut received: ReceiveBuffer) {
        let now_ms = self.now.elapsed_ms;
        let done = received.len() == 0;
        if received.at > 0 || done {
            self.connections.release_large(id);
        }
        if received.at > 0 && received.bytes.capacity() > RECEIVE_BYTES {
            // The large frame is processed; the rest is the start of another.
            let rest = received.unread().to_vec();
            self.connections.buffers.give(received.empty());
            received = ReceiveBuffer { bytes: rest, at: 0 };
            if let Some(connection) = self.connections.get_mut(id) {
                connection.frame_since_ms = now_ms;
            }
        } else if received.at > 0
            && let Some(connection) = self.connections.get_mut(id)
        {
            connection.frame_since_ms = now_ms;
        }
        let keeps = |stage| !matches!(stage, ConnectionStage::Closing(_));
        match self.connections.get_mut(id) {
            Some(connection) if !done && keeps(connection.stage) => connection.received = received,
            _ => self.connections.buffers.give(received.empty()),
        }
    }

    /// Processes all complete frames, as far as the connection may continue. Returns how many bytes of `bytes` were processed.
    fn process_bytes(&mut self, id: ConnectionId, bytes: &[u8]) -> usize {
        let mut at = 0;
        loop {
            let must_wait = self.batch_is_full() || self.connections.is_blocked(id);
            let Some(connection) = self.connections.get_mut(id) else { return bytes.len() };
            if connection.is_closing() || connection.doomed.is_some() {
                return bytes.len();
            }
            let passed = connection.bytes_to_skip.min(bytes.len() - at);
            connection.bytes_to_skip -= passed;
            at += passed;
            let rest = &bytes[at..];
            match (connection.stage, rest.first()) {
                (_, None) => {
                    connection.need = 0;
                    return at;
                }
                (ConnectionStage::Fresh, Some(first)) => {
                    let is_foreign = *first != MAGIC[0];
                    connection.stage =
                        if is_foreign { ConnectionStage::Foreign } else { ConnectionStage::Greeting };
                    if is_foreign && self.driver.lacks_required_tls(id) {
                        self.connections.queue_bytes(id, FOREIGN_TLS, self.now.elapsed_ms);
                        self.connections.close_gently(id, CloseReason::NotProved, self.now.elapsed_ms);
                        return bytes.len();
                    }
                    if is_foreign && self.connections.proofs.is_none() {
                        self.connections.set_authenticated(id);
                    }
                    continue;
                }
                (_, Some(_)) => {}
            }
            if must_wait {
                connection.need = 0;
                return at;
            }
            if connection.stage == ConnectionStage::Foreign {
                return at + self.process_foreign(id, rest);
            }
            let decoder = connection.decoder;
            match decoder.decode(rest) {
                DecodeResult::Need(need) => {
                    connection.need = need;
                    return at;
                }
                DecodeResult::Frame { frame, used } => {
                    self.batch.bytes += used;
                    at += used;
                    self.handle_frame(id, &frame);
                }
                DecodeResult::Refused { envelope, is_answer, failure, used } => {
                    self.batch.bytes += used;
                    at += used;
                    if !is_answer {
                        self.refuse(id, &envelope, failure);
                    }
                }
                DecodeResult::Broken(broken) => {
                    self.end_broken(id, broken);
                    return bytes.len();
                }
            }
        }
    }

    fn handle_frame(&mut self, id: ConnectionId, frame: &Frame<'_>) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        let (stage, envelope) = (connection.stage, frame.envelope);
        self.batch.frames += 1;
        if self.expanded.capacity() > RECEIVE_BYTES {
            self.expanded = Vec::new();
        }
        // The buffer is moved out, so that a message can borrow from it while the rest of the reactor is in use.
        let mut expanded = std::mem::take(&mut self.expanded);
        let (is_ours, is_peer) = (connection.is_ours, connection.is_peer);
        match frame.message(&mut expanded) {
            // A message of another instance on a connection that this side has opened.
            Ok(message)
                if is_ours && stage == ConnectionStage::Talking && message.kind().is_between_instances() =>
            {
                self.handle_instance_message(id, &envelope, message);
            }
            _ if is_ours && stage == ConnectionStage::Talking => self.handle_error_reply(id),
            Ok(message) if is_ours => self.handle_greeting(id, &message),
            Err(_) if is_ours => self.close(id, CloseReason::NoAnswer),
            Err(failure) => self.refuse(id, &envelope, failure),
            Ok(Message::Hello(hello)) if stage == ConnectionStage::Greeting => {
                self.handle_hello(id, &envelope, &hello)
            }
            Ok(_) if stage == ConnectionStage::Greeting => {
                self.refuse(id, &envelope, BadRequestReason::HelloExpected.into())
            }
            Ok(Message::Prove(prove)) if stage == ConnectionStage::Proving => {
                self.handle_proof(id, &envelope, &prove)
            }
            Ok(_) if stage == ConnectionStage::Proving => {
                self.refuse(id, &envelope, BadRequestReason::ProofExpected.into())
            }
            Ok(Message::Prove(_)) => self.refuse(id, &envelope, BadRequestReason::Unexpected.into()),
            Ok(Message::Hello(_)) => self.refuse(id, &envelope, BadRequestReason::Unexpected.into()),
            Ok(message) if message.kind().is_answer() => {
                self.refuse(id, &envelope, BadRequestReason::Unexpected.into());
            }
            Ok(message) if message.kind().is_between_instances() => {
                if !is_peer {
                    self.expanded = expanded;
                    return self.refuse(id, &envelope, BadRequestReason::Unexpected.into());
                }
                self.handle_instance_message(id, &envelope, message);
            }
            Ok(Message::Gather(requests)) => {
                for (request, place) in requests.iter().zip(1..) {
                    let envelope = request.envelope(&envelope, place);
                    match request.message() {
                        Ok(message) => self.handle_request(id, &envelope, message),
                        Err(failure) => self.refuse(id, &envelope, failure),
                    }
                }
            }
            Ok(message) => self.handle_request(id, &envelope, message),
        }
        self.expanded = expanded;
    }

    fn handle_request(&mut self, id: ConnectionId, envelope: &Envelope, message: Message<'_>) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        connection.in_flight += 1;
        self.batch.requests += 1;
        self.batch.touched = true;
        self.connections.counters.requests += 1;
        let Envelope { request, keyspace, partition, .. } = *envelope;
        let token = RequestToken { connection: id, request, keyspace, partition };
        let mut replies = replies(&mut self.connections, &mut self.driver, self.now);
        self.service.request(token, envelope, message, self.now, &mut replies);
    }

    fn handle_instance_message(&mut self, id: ConnectionId, envelope: &Envelope, message: Message<'_>) {
        self.batch.requests += 1;
        self.batch.touched = true;
        self.connections.counters.peer_messages += 1;
        let mut replies = replies(&mut self.connections, &mut self.driver, self.now);
        self.service.peer(id, envelope, message, self.now, &mut replies);
    }

    /// Handles an error reply to a message between instances. Such messages have no answers, and an error that occurred once would repeat forever.
    fn handle_error_reply(&mut self, id: ConnectionId) {
        self.close(id, CloseReason::Misbehaved);
    }

    fn process_foreign(&mut self, id: ConnectionId, bytes: &[u8]) -> usize {
        if let Some(refusal) = self.connections.get(id).and_then(|connection| connection.refused) {
            let line = match refusal {
                Refusal::AllInUse => FOREIGN_REFUSED,
                Refusal::NoDescriptors => FOREIGN_LACKS_DESCRIPTORS,
            };
            self.connections.queue_bytes(id, line, self.now.elapsed_ms);
            self.connections.close_gently(id, CloseReason::TooMany, self.now.elapsed_ms);
            return bytes.len();
        }
        let mut out = self.connections.buffers.take();
        let mut replies = replies(&mut self.connections, &mut self.driver, self.now);
        self.batch.frames += 1;
        let result = self.service.foreign(id, bytes, self.now, &mut replies, &mut out);
        self.batch.touched = true;
        if !out.is_empty() {
            self.connections.queue_all(id, &mut out, self.now.elapsed_ms);
        }
        self.connections.buffers.give(out);
        let is_unproven = self.connections.get(id).is_some_and(Connection::is_unproven);
        match result {
            ForeignResult::Used { used, .. } if is_unproven && self.is_too_much(id, used, bytes.len()) => {
                self.connections.queue_bytes(id, FOREIGN_UNKNOWN, self.now.elapsed_ms);
                self.connections.close_gently(id, CloseReason::NotProved, self.now.elapsed_ms);
                bytes.len()
            }
            ForeignResult::Used { used, need, pauses: holds, waits } => {
                self.batch.bytes += used;
                if let Some(connection) = self.connections.get_mut(id) {
                    connection.need = need;
                    connection.is_paused = holds;
                    connection.in_flight = u32::from(waits);
                }
                used
            }
            ForeignResult::Close => {
                let why = if is_unproven { CloseReason::NotProved } else { CloseReason::Foreign };
                self.connections.close_gently(id, why, self.now.elapsed_ms);
                bytes.len()
            }
        }
    }

    /// There is room for more of what a connection of another protocol has asked for.
    fn resume_foreign(&mut self, id: ConnectionId) {
        if self.connections.is_blocked(id) {
            return;
        }
        // With the beginning of what comes next, if there is any: it is handed over again.
        let Some(connection) = self.connections.get_mut(id) else { return };
        connection.has_more = false;
        let mut received = std::mem::take(&mut connection.received);
        received.at += self.process_foreign(id, received.unread());
        self.put_back(id, received);
    }

    /// Whether an unproven connection has sent more bytes than it may: this many were accepted, and the others wait.
    fn is_too_much(&mut self, id: ConnectionId, used: usize, bytes: usize) -> bool {
        let most = self.connections.limits.unproven_bytes_max;
        let Some(connection) = self.connections.get_mut(id) else { return false };
        connection.unproven_bytes += used;
        connection.unproven_bytes + (bytes - used) > most
    }

    /// Answers a frame that never became a request. Before the greeting the connection ends.
    fn refuse(&mut self, id: ConnectionId, of: &Envelope, failure: Failure<'_>) {
        let is_stage = |connection: &Connection| {
            matches!(connection.stage, ConnectionStage::Greeting | ConnectionStage::Proving)
        };
        let is_greeting = self.connections.get(id).is_some_and(is_stage);
        if is_greeting {
            return self.refuse_and_end(id, of, failure, CloseReason::Misbehaved);
        }
        self.connections.queue_failure(&mut self.driver, id, of, failure, self.now.elapsed_ms);
        // The frame costs as much of the batch as a request.
        self.batch.requests += 1;
    }

    pub(super) fn refuse_and_end(
        &mut self,
        id: ConnectionId,
        of: &Envelope,
        failure: Failure<'_>,
        why: CloseReason,
    ) {
        self.connections.queue_failure(&mut self.driver, id, of, failure, self.now.elapsed_ms);
        self.connections.close_gently(id, why, self.now.elapsed_ms);
    }

    /// Ends a connection whose next frame cannot be found.
    fn end_broken(&mut self, id: ConnectionId, broken: BrokenStream) {
        match broken.last_answer() {
            Some((envelope, failure)) => self.refuse_and_end(id, &envelope, failure, CloseReason::Misbehaved),
            None => self.connections.close_gently(id, CloseReason::Misbehaved, self.now.elapsed_ms),
        }
    }
}
