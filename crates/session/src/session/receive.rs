//! What connections report: that they are open, that they have ended, and received bytes. The session splits the bytes into frames, matches answers
//! to the frames in flight, and acts on them.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use zerohop_wire::auth::Caller;
use zerohop_wire::ids::RequestId;
use zerohop_wire::limits::{VERSION_MAX, VERSION_MIN};
use zerohop_wire::messages::{
    Hello, HelloAck, Map, Message, OperationAnswer, SessionOpened, TransactionDone,
};
use zerohop_wire::{Advice, BrokenStream, DecodeResult, Encoder, Failure, Features, HEADER_BYTES};

use super::Session;
use super::answers::{AnswerMeaning, FailureReaction, version_in};
use super::composite::AnsweredFrame;
use crate::connection::{ConnectionId, ConnectionPhase};
use crate::effect::ConnectionLoss;
use crate::error::{AttemptFailure, SessionError};
use crate::in_flight_frame::{FrameContents, InFlightFrame};
use crate::limits::SHARE_BYTES_MIN;
use crate::reply::{Reply, owned};
use crate::slots::Handle;
use zerohop_base::time::Time;

/// Offset of the body length in a frame header.
const LENGTH_AT: usize = 36;

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
            version_min: VERSION_MIN,
            version_max: VERSION_MAX,
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
        self.connections.existing(index).protocol.caller = caller;
        self.connections.send_own(now, index, &Message::Hello(hello), FrameContents::Hello, &mut self.timers);
    }

    /// The shell reports that it could not open this connection, or that the connection has ended.
    pub fn disconnected(&mut self, now: Time, id: ConnectionId, lost: ConnectionLoss) {
        let Some(index) = self.connections.live(id) else { return };
        if let Some(fault) = lost.fault {
            return self.refused(now, index, Failure::AuthFailed { fault }, lost.expired_s);
        }
        let address = self.connections.address(index);
        self.lose(now, index, AttemptFailure::ConnectionLost { address, kind: lost.kind }, false);
    }

    /// Removes all complete frames from the front of `input`. Returns how many bytes `input` must have in total before the next frame is complete.
    pub fn received(&mut self, now: Time, id: ConnectionId, input: &mut BytesMut) -> usize {
        if let Some(index) = self.connections.live(id) {
            self.connections.existing(index).unanswered.record_bytes(now);
        }
        loop {
            let Some(index) = self.connections.live(id) else {
                input.clear();
                return HEADER_BYTES;
            };
            let large = frame_bytes(input).filter(|bytes| (SHARE_BYTES_MIN..=input.len()).contains(bytes));
            let step = match large {
                Some(bytes) => {
                    let whole = input.split_to(bytes).freeze();
                    let step = self.handle_frame(now, index, &whole, Some(&whole));
                    self.buffers.frames.add(whole);
                    step
                }
                None => {
                    let step = self.handle_frame(now, index, input, None);
                    if let ReceiveStep::Used(bytes) = step {
                        input.advance(bytes);
                    }
                    step
                }
            };
            match step {
                ReceiveStep::Used(_) => {}
                ReceiveStep::Need(bytes) => {
                    self.buffers.frames.make_room(bytes, input);
                    return bytes;
                }
            }
        }
    }

    fn handle_frame(&mut self, now: Time, index: u32, bytes: &[u8], whole: Option<&Bytes>) -> ReceiveStep {
        let decoder = self.connections.existing(index).protocol.decoder;
        match decoder.decode(bytes) {
            DecodeResult::Need(bytes) => ReceiveStep::Need(bytes),
            DecodeResult::Frame { frame, used } => {
                let mut scratch = std::mem::take(&mut self.buffers.scratch);
                match frame.message(&mut scratch) {
                    Ok(message) => {
                        let read_lock_us = self.capped_read_lock(index, frame.envelope.read_lock_us());
                        let request = frame.envelope.request;
                        self.answered(now, index, (request, read_lock_us), message, whole);
                    }
                    Err(_) => self.refused_frame(now, index, frame.envelope.request),
                }
                self.buffers.scratch = scratch;
                ReceiveStep::Used(used)
            }
            DecodeResult::Refused { envelope, used, .. } => {
                self.refused_frame(now, index, envelope.request);
                ReceiveStep::Used(used)
            }
            DecodeResult::Broken(broken) => {
                self.broken(now, index, broken);
                ReceiveStep::Used(0)
            }
        }
    }

    /// Handles a frame. If its request is no longer in flight, the frame is a late answer.
    fn answered(
        &mut self,
        now: Time,
        index: u32,
        (request, read_lock_us): (RequestId, u32),
        message: Message<'_>,
        whole: Option<&Bytes>,
    ) {
        if let Message::Gathered(answers) = message {
            for answer in answers.iter() {
                match answer.message() {
                    Ok(message) => {
                        let read_lock_us = self.capped_read_lock(index, answer.read_lock_us.into());
                        self.answered(now, index, (answer.request, read_lock_us), message, whole);
                    }
                    Err(_) => self.damaged(now, index, answer.request),
                }
            }
            return;
        }
        let Some((handle, in_flight)) = self.connections.take_request_frame(index, request) else { return };
        let frame = AnsweredFrame { sent: in_flight.sent, read_lock_us };
        match (in_flight.contents, message) {
            (FrameContents::One(operation), Message::Answer(answer)) => {
                self.connections.existing(index).failures = 0;
                self.handle_answer(now, handle, operation, frame, answer, whole);
            }
            (FrameContents::Batch(operations), Message::BatchAnswer(answers)) => {
                self.connections.existing(index).failures = 0;
                let mut answers = answers.iter();
                for operation in operations {
                    match answers.next() {
                        Some(answer) => self.handle_answer(now, handle, operation, frame, answer, whole),
                        None => self.operation_lost(now, handle, operation, &AttemptFailure::Damaged),
                    }
                }
            }
            (
                contents @ (FrameContents::Batch(_) | FrameContents::Coalesced(_)),
                Message::Answer(Err(failure)),
            ) => {
                if let Failure::WrongOwner { epoch, delta } = &failure {
                    self.map_moved(now, *epoch, delta);
                }
                let failure = match failure {
                    // The changes were already applied above, so they are not copied for every operation.
                    Failure::WrongOwner { epoch, .. } => {
                        Failure::WrongOwner { epoch, delta: Cow::Borrowed(&[]) }
                    }
                    other => other.into_owned(),
                };
                for operation in contents.into_operations() {
                    self.handle_answer(now, handle, operation, frame, Err(failure.clone()), None);
                }
            }
            (FrameContents::One(operation), Message::Transacted(transacted)) => {
                self.connections.existing(index).failures = 0;
                self.transacted(now, handle, operation, frame, &transacted, whole);
            }
            (FrameContents::One(operation), Message::AdminAnswer(admin)) => {
                let reply = Reply::Admin(owned(admin.encoded, whole));
                self.finish(now, operation, Ok(reply), Some(frame));
            }
            (contents, message) => {
                self.own_answered(now, index, handle, InFlightFrame { contents, ..in_flight }, message)
            }
        }
    }

    /// The duration of a read lock according to the server; 0 if the server has not agreed to such locks.
    fn capped_read_lock(&self, index: u32, read_lock_us: u32) -> u32 {
        if self.connections.supports_read_locks(index) { read_lock_us } else { 0 }
    }

    /// Handles an answer to a request of the session itself, or an answer that does not fit its request.
    fn own_answered(
        &mut self,
        now: Time,
        index: u32,
        handle: Handle,
        in_flight: InFlightFrame,
        message: Message<'_>,
    ) {
        match (in_flight.contents, message) {
            (FrameContents::Hello, Message::HelloAck(ack)) => self.handle_hello_ack(now, index, &ack),
            (FrameContents::Prove, Message::Proved) => self.proved(now, index),
            (FrameContents::Hello | FrameContents::Prove, Message::Answer(Err(failure))) => {
                self.refused(now, index, failure.into_owned(), None)
            }
            (FrameContents::Map, Message::Map(map)) => self.map_arrived(now, in_flight.sent, &map),
            (FrameContents::Map, Message::Answer(Err(failure))) => {
                self.map_request_refused(now, index, failure.into_owned());
            }
            (FrameContents::SessionOpen, Message::SessionOpened(opened)) => {
                self.session_opened(now, in_flight.sent, &opened);
            }
            (FrameContents::SessionOpen, Message::Answer(Err(failure))) => {
                let for_ever = failure.advice() == Advice::ReportToUser;
                let error = for_ever.then(|| SessionError::Answer { failure: failure.into_owned() });
                self.opening_refused(now, error);
            }
            (FrameContents::Ping, _) => {}
            (contents, _) => self.redo(now, handle, contents),
        }
    }

    /// Processes an operation's answer to the frame `in_flight`.
    fn handle_answer(
        &mut self,
        now: Time,
        in_flight: Handle,
        handle: Handle,
        frame: AnsweredFrame,
        answer: OperationAnswer<'_>,
        whole: Option<&Bytes>,
    ) {
        let Some(operation) = self.operations.get(handle) else { return };
        self.seen = self.seen.max(version_in(&answer));
        match operation.meaning_of(in_flight, answer, whole) {
            AnswerMeaning::Outcome(result) => self.finish(now, handle, result, Some(frame)),
            AnswerMeaning::Mismatched => self.repeat(now, in_flight, handle),
            AnswerMeaning::Late => {}
            AnswerMeaning::Failed(failure) => self.handle_failure(now, handle, failure),
        }
    }

    /// Processes the answer that a transaction was done, to the frame `in_flight`.
    fn transacted(
        &mut self,
        now: Time,
        in_flight: Handle,
        handle: Handle,
        frame: AnsweredFrame,
        transacted: &TransactionDone<'_>,
        whole: Option<&Bytes>,
    ) {
        let Some(operation) = self.operations.get(handle) else { return };
        match operation.meaning_of_transaction(transacted, whole) {
            AnswerMeaning::Outcome(result) => {
                self.seen = self.seen.max(transacted.version);
                self.finish(now, handle, result, Some(frame));
            }
            _ => self.repeat(now, in_flight, handle),
        }
    }

    /// Reacts to an error that is not the operation's outcome.
    fn handle_failure(&mut self, now: Time, handle: Handle, failure: Failure<'static>) {
        let Some(operation) = self.operations.get_mut(handle) else { return };
        match operation.react_to(&failure) {
            FailureReaction::Redirect => {
                if let Failure::WrongOwner { epoch, delta } = &failure {
                    self.map_moved(now, *epoch, delta);
                }
                self.redirect(now, handle);
            }
            FailureReaction::RenewSession => self.session_expired(now, handle, failure),
            FailureReaction::Retry { rest_us } => {
                if matches!(failure, Failure::Unavailable { .. }) {
                    // Another server may know a primary that can execute it.
                    self.request_map_soon(now);
                }
                self.operations.record_failure(handle, AttemptFailure::Answered { failure });
                self.pause(now, handle, rest_us);
            }
            FailureReaction::End => self.end(now, handle, failure),
        }
    }

    /// Ends an operation with this answer.
    fn end(&mut self, now: Time, handle: Handle, failure: Failure<'static>) {
        let Some(operation) = self.operations.get(handle) else { return };
        let error = operation.error_of(failure);
        self.finish(now, handle, Err(error), None);
    }

    /// The partition has forgotten the session. An operation that it cannot have executed is sent again in a new session.
    fn session_expired(&mut self, now: Time, handle: Handle, failure: Failure<'static>) {
        let Some(operation) = self.operations.get_mut(handle) else { return };
        let Some((session, place)) = operation.forgotten() else { return self.end(now, handle, failure) };
        let may_continue = operation.leave_session(&failure);
        self.numbering.forget(session, place);
        match may_continue {
            true => self.dispatch(now, handle),
            false => self.end(now, handle, failure),
        }
    }

    /// Handles the server's reply to the greeting, which includes the check of the server's proof.
    fn handle_hello_ack(&mut self, now: Time, index: u32, ack: &HelloAck) {
        let cluster = self.cluster;
        let connection = self.connections.existing(index);
        if !(VERSION_MIN..=VERSION_MAX).contains(&ack.version) {
            let failure = Failure::UnsupportedVersion { min: ack.version, max: ack.version };
            return self.refused(now, index, failure, None);
        }
        let prove = match Caller::check_if_any(connection.protocol.caller.take(), ack) {
            Ok(prove) => prove,
            Err(failure) => return self.refused(now, index, failure, None),
        };
        if cluster != Default::default() && ack.cluster != cluster {
            let address = Arc::clone(&connection.address);
            return self.lose(now, index, AttemptFailure::OtherCluster { address }, true);
        }
        connection.protocol.agree(ack);
        match prove {
            Some(prove) => {
                connection.protocol.proving = Some(Box::new(*ack));
                self.connections.send_own(
                    now,
                    index,
                    &Message::Prove(prove),
                    FrameContents::Prove,
                    &mut self.timers,
                );
            }
            None => self.ready(now, index, ack),
        }
    }

    /// The server has accepted the client's proof.
    fn proved(&mut self, now: Time, index: u32) {
        if let Some(ack) = self.connections.existing(index).protocol.proving.take() {
            self.ready(now, index, &ack);
        }
    }

    fn ready(&mut self, now: Time, index: u32, ack: &HelloAck) {
        self.cluster = ack.cluster;
        let compress_from_bytes =
            self.settings.compress_from_bytes.filter(|_| ack.features.has(Features::LZ4));
        let body_checksum = self.settings.body_checksum;
        let connection = self.connections.existing(index);
        connection.protocol.encoder = Encoder { version: ack.version, body_checksum, compress_from_bytes };
        connection.phase = ConnectionPhase::Ready;
        let is_for_map = std::mem::take(&mut connection.for_map);
        self.mapping.server_reached();
        if is_for_map {
            self.mapping.fetch_now(now);
        }
        if ack.map_epoch > self.mapping.epoch() {
            self.request_map_soon(now);
        }
        self.connections.mark_dirty(index);
        self.connections.arm(index, &mut self.timers);
    }

    /// The server refuses this client, or failed authentication: operations that wait for it end.
    fn refused(&mut self, now: Time, index: u32, failure: Failure<'static>, expired_s: Option<u64>) {
        let address = self.connections.address(index);
        for handle in self.take_waiting(index) {
            let (address, failure) = (Arc::clone(&address), failure.clone());
            let refused = SessionError::Refused { address, failure: failure.clone(), expired_s };
            let trouble = || AttemptFailure::Answered { failure: failure.clone() };
            self.end_unanswered(now, handle, |_| refused, trouble);
        }
        if self.mapping.is_refused_everywhere(&failure, self.settings.endpoints.len()) {
            self.refuse_unrouted(now, (&address, expired_s), &failure);
        }
        self.lose(now, index, AttemptFailure::Answered { failure }, true);
    }

    fn broken(&mut self, now: Time, index: u32, broken: BrokenStream) {
        let address = self.connections.address(index);
        self.lose(now, index, AttemptFailure::Broken { address, broken }, true);
    }

    /// Handles a `Map` message that answers a request sent at `sent`.
    fn map_arrived(&mut self, now: Time, sent: Time, map: &Map<'_>) {
        self.mapping.end_request();
        if !map.encoded.is_empty() && !self.apply(map.encoded) && self.mapping.epoch() < map.epoch {
            self.mapping.request_complete_map();
            return self.map_request_failed(now, AttemptFailure::Damaged);
        }
        self.mapping.record_answer(now, sent);
        self.dispatch_waiting(now);
        self.repeat_map_request(now);
    }

    /// Handles a server that accepts this client but refuses to return the map. If the session need not ask again, operations that wait for a map
    /// end, whether or not it has an older one.
    fn map_request_refused(&mut self, now: Time, index: u32, failure: Failure<'static>) {
        let address = self.connections.address(index);
        self.map_request_failed(now, AttemptFailure::Answered { failure: failure.clone() });
        if self.mapping.is_request_hopeless(&failure, self.settings.endpoints.len()) {
            self.refuse_unrouted(now, (&address, None), &failure);
        }
    }

    fn session_opened(&mut self, now: Time, requested_at: Time, opened: &SessionOpened) {
        self.numbering.accept(requested_at, opened);
        let awaiting = self.numbering.end_opening();
        self.dispatch_all(now, awaiting);
    }

    /// The server does not open a session; `Some` if the refusal is final.
    fn opening_refused(&mut self, now: Time, error: Option<SessionError>) {
        for handle in self.numbering.end_opening() {
            match &error {
                Some(error) => {
                    self.end_unanswered(now, handle, |_| error.clone(), || AttemptFailure::Overdue)
                }
                None => self.pause(now, handle, 0),
            }
        }
    }

    /// Handles a frame that cannot be decoded. If it names no request, it has answers to several requests, and the session cannot tell to which.
    fn refused_frame(&mut self, now: Time, index: u32, request: RequestId) {
        match request {
            RequestId(0) => self.lose(now, index, AttemptFailure::Damaged, true),
            request => self.damaged(now, index, request),
        }
    }

    /// The answer to this request cannot be decoded: the session repeats the request.
    fn damaged(&mut self, now: Time, index: u32, request: RequestId) {
        if let Some((handle, in_flight)) = self.connections.take_request_frame(index, request) {
            self.redo(now, handle, in_flight.contents);
        }
    }

    /// Repeats the contents of a frame that was not answered properly.
    fn redo(&mut self, now: Time, handle: Handle, contents: FrameContents) {
        match contents {
            FrameContents::Map => self.map_request_failed(now, AttemptFailure::Damaged),
            FrameContents::SessionOpen => self.opening_refused(now, None),
            // Its connection stays in the greeting until that is overdue.
            FrameContents::Hello | FrameContents::Prove | FrameContents::Ping => {}
            FrameContents::One(operation) => self.repeat(now, handle, operation),
            contents @ (FrameContents::Batch(_) | FrameContents::Coalesced(_)) => {
                for operation in contents.into_operations() {
                    self.repeat(now, handle, operation);
                }
            }
        }
    }

    /// Sends an operation again after a pause: the session must not loop on a server that cannot answer properly.
    fn repeat(&mut self, now: Time, in_flight: Handle, operation: Handle) {
        let Some(found) = self.operations.get_mut(operation) else { return };
        if !found.is_in_frame(in_flight) {
            return;
        }
        if found.is_admin() {
            return self.retry(now, operation, AttemptFailure::Damaged);
        }
        found.may_be_executed |= found.changes();
        found.last = Some(Box::new(AttemptFailure::Damaged));
        self.pause(now, operation, 0);
    }
}

enum ReceiveStep {
    /// A frame of this many bytes was consumed.
    Used(usize),
    /// The frame is incomplete until this many bytes are available.
    Need(usize),
}

/// Length of the frame that begins here, according to its unverified header.
fn frame_bytes(input: &[u8]) -> Option<usize> {
    let length = input.get(LENGTH_AT..LENGTH_AT + 4)?;
    Some(HEADER_BYTES + u32::from_le_bytes(length.try_into().ok()?) as usize)
}
