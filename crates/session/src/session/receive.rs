//! Received bytes: the session splits them into frames, and matches answers to the frames in flight.

use std::borrow::Cow;

use bytes::{Buf, Bytes, BytesMut};
use zerohop_wire::ids::RequestId;
use zerohop_wire::messages::Message;
use zerohop_wire::{Advice, DecodeResult, Failure, HEADER_BYTES};

use super::Session;
use super::composite::AnsweredFrame;
use crate::connection::ConnectionId;
use crate::error::{AttemptFailure, SessionError};
use crate::in_flight_frame::{Cargo, Flight};
use crate::limits::SHARE_BYTES_MIN;
use crate::reply::{Reply, owned};
use crate::slots::Handle;
use zerohop_base::time::Time;

/// Offset of the body length in a frame header.
const LENGTH_AT: usize = 36;

impl<T> Session<T> {
    /// Removes all complete frames from the front of `input`. Returns how many bytes `input` must have in total before the next frame is complete.
    pub fn received(&mut self, now: Time, id: ConnectionId, input: &mut BytesMut) -> usize {
        if let Some(index) = self.connections.live(id) {
            let connection = self.connections.existing(index);
            connection.quiet_since = now;
            connection.pinged = false;
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
        let decoder = self.connections.existing(index).decoder;
        match decoder.decode(bytes) {
            DecodeResult::Need(bytes) => ReceiveStep::Need(bytes),
            DecodeResult::Frame { frame, used } => {
                let mut scratch = std::mem::take(&mut self.buffers.scratch);
                match frame.message(&mut scratch) {
                    Ok(message) => {
                        let read_lock_us = self.believed(index, frame.envelope.read_lock_us());
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
                        let read_lock_us = self.believed(index, answer.read_lock_us.into());
                        self.answered(now, index, (answer.request, read_lock_us), message, whole);
                    }
                    Err(_) => self.damaged(now, index, answer.request),
                }
            }
            return;
        }
        let Some((handle, flight)) = self.connections.land_request(index, request) else { return };
        let frame = AnsweredFrame { sent: flight.sent, read_lock_us };
        match (flight.cargo, message) {
            (Cargo::One(operation), Message::Answer(answer)) => {
                self.connections.existing(index).failures = 0;
                self.handle_answer(now, handle, operation, frame, answer, whole);
            }
            (Cargo::Batch(operations), Message::BatchAnswer(answers)) => {
                self.connections.existing(index).failures = 0;
                let mut answers = answers.iter();
                for operation in operations {
                    match answers.next() {
                        Some(answer) => self.handle_answer(now, handle, operation, frame, answer, whole),
                        None => self.operation_lost(now, handle, operation, &AttemptFailure::Damaged),
                    }
                }
            }
            (cargo @ (Cargo::Batch(_) | Cargo::Coalesced(_)), Message::Answer(Err(failure))) => {
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
                for operation in cargo.into_operations() {
                    self.handle_answer(now, handle, operation, frame, Err(failure.clone()), None);
                }
            }
            (Cargo::One(operation), Message::Transacted(transacted)) => {
                self.connections.existing(index).failures = 0;
                self.transacted(now, handle, operation, frame, &transacted, whole);
            }
            (Cargo::One(operation), Message::AdminAnswer(admin)) => {
                let reply = Reply::Admin(owned(admin.encoded, whole));
                self.finish(now, operation, Ok(reply), Some(frame));
            }
            (cargo, message) => self.own_answered(now, index, handle, Flight { cargo, ..flight }, message),
        }
    }

    /// The duration of a read lock according to the server; 0 if the server has not agreed to such locks.
    fn believed(&self, index: u32, held_us: u32) -> u32 {
        if self.connections.supports_read_locks(index) { held_us } else { 0 }
    }

    /// Handles an answer to a request of the session itself, or an answer that does not fit its request.
    fn own_answered(&mut self, now: Time, index: u32, handle: Handle, flight: Flight, message: Message<'_>) {
        match (flight.cargo, message) {
            (Cargo::Hello, Message::HelloAck(ack)) => self.handle_hello_ack(now, index, &ack),
            (Cargo::Prove, Message::Proved) => self.proved(now, index),
            (Cargo::Hello | Cargo::Prove, Message::Answer(Err(failure))) => {
                self.refused(now, index, failure.into_owned())
            }
            (Cargo::Map, Message::Map(map)) => self.map_arrived(now, flight.sent, &map),
            (Cargo::Map, Message::Answer(Err(failure))) => {
                self.map_request_refused(now, index, failure.into_owned());
            }
            (Cargo::SessionOpen, Message::SessionOpened(opened)) => {
                self.session_opened(now, flight.sent, &opened);
            }
            (Cargo::SessionOpen, Message::Answer(Err(failure))) => {
                let for_ever = failure.advice() == Advice::ReportToUser;
                let error = for_ever.then(|| SessionError::Answer { failure: failure.into_owned() });
                self.opening_refused(now, error);
            }
            (Cargo::Ping, _) => {}
            (cargo, _) => self.redo(now, handle, cargo),
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
        if let Some((handle, flight)) = self.connections.land_request(index, request) {
            self.redo(now, handle, flight.cargo);
        }
    }

    /// Repeats the contents of a frame that was not answered properly.
    fn redo(&mut self, now: Time, handle: Handle, cargo: Cargo) {
        match cargo {
            Cargo::Map => self.map_request_failed(now, AttemptFailure::Damaged),
            Cargo::SessionOpen => self.opening_refused(now, None),
            // Its connection stays in the greeting until that is overdue.
            Cargo::Hello | Cargo::Prove | Cargo::Ping => {}
            Cargo::One(operation) => self.repeat(now, handle, operation),
            cargo @ (Cargo::Batch(_) | Cargo::Coalesced(_)) => {
                for operation in cargo.into_operations() {
                    self.repeat(now, handle, operation);
                }
            }
        }
    }

    /// Sends an operation again after a pause: the session must not loop on a server that cannot answer properly.
    pub(super) fn repeat(&mut self, now: Time, flight: Handle, operation: Handle) {
        let Some(found) = self.operations.get_mut(operation) else { return };
        if !found.flies_in(flight) {
            return;
        }
        if found.is_admin() {
            return self.again(now, operation, AttemptFailure::Damaged);
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
