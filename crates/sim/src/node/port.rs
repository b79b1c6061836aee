//! The node's end of one connection: bytes to requests, answers to bytes, as in the reactor.

use std::collections::BTreeSet;

use zerohop_wire::ids::{PartitionEpoch, RequestId};
use zerohop_wire::messages::{Hello, HelloAck, OperationAnswer};
use zerohop_wire::{
    AnswerGathering, BadRequestReason, DecodeResult, Decoder, Encoder, Envelope, Failure, Features,
    FrameKind, Message, choose_version,
};

use crate::history::is_outcome;

/// The features that simulated nodes offer to clients.
pub(crate) const FEATURES: Features =
    Features(Features::LZ4.0 | Features::COALESCED.0 | Features::READ_LOCKS.0);

/// One connection.
#[derive(Debug)]
pub(crate) struct Port {
    decoder: Decoder,
    encoder: Encoder,
    is_greeted: bool,
    /// It accepts no more requests; queued answers are still sent.
    pub(crate) is_closing: bool,
    input: Vec<u8>,
    out: Vec<u8>,
    accepts_coalesced: bool,
    is_coalescing: AnswerGathering,
    in_flight: BTreeSet<RequestId>,
    /// Requests that wait for a change of a record: for these, a time-out tells the record's state.
    waits: BTreeSet<RequestId>,
    /// Requests that write one record.
    writes: BTreeSet<RequestId>,
}

impl Port {
    pub(crate) fn new() -> Self {
        Self {
            decoder: Decoder::before_hello(),
            encoder: Encoder::default(),
            is_greeted: false,
            is_closing: false,
            input: Vec::new(),
            out: Vec::new(),
            accepts_coalesced: false,
            is_coalescing: AnswerGathering::default(),
            in_flight: BTreeSet::new(),
            waits: BTreeSet::new(),
            writes: BTreeSet::new(),
        }
    }

    /// Bytes have arrived.
    pub(crate) fn receive(&mut self, bytes: &[u8]) {
        if !self.is_closing {
            self.input.extend_from_slice(bytes);
        }
    }

    /// Removes the next whole frame from the received bytes; none if there is none.
    pub(crate) fn next_frame(&mut self) -> Option<Vec<u8>> {
        if self.is_closing {
            return None;
        }
        match self.decoder.decode(&self.input) {
            DecodeResult::Need(_) => None,
            DecodeResult::Frame { used, .. } | DecodeResult::Refused { used, .. } => {
                let rest = self.input.split_off(used);
                Some(std::mem::replace(&mut self.input, rest))
            }
            DecodeResult::Broken(broken) => {
                if let Some((envelope, failure)) = broken.last_answer() {
                    self.fail(&envelope, failure);
                }
                self.is_closing = true;
                None
            }
        }
    }

    /// Handles a frame: returns requests to pass on, or answers it here.
    pub(crate) fn handle_frame<'f>(
        &mut self,
        frame: &'f [u8],
        scratch: &'f mut Vec<u8>,
    ) -> Option<PortFrame<'f>> {
        match self.decoder.decode(frame) {
            DecodeResult::Frame { frame, .. } => match (frame.message(scratch), self.is_greeted) {
                (Err(failure), _) => self.refuse(&frame.envelope, failure),
                (Ok(Message::Hello(hello)), false) => {
                    return Some(PortFrame::Hello(frame.envelope, hello));
                }
                (Ok(_), false) => self.refuse(&frame.envelope, BadRequestReason::HelloExpected.into()),
                (Ok(message), true) if message.kind().is_answer() || matches!(message, Message::Hello(_)) => {
                    self.refuse(&frame.envelope, BadRequestReason::Unexpected.into());
                }
                (Ok(Message::Gather(requests)), true) => {
                    let mut received = Vec::new();
                    for (request, place) in requests.iter().zip(1..) {
                        let envelope = request.envelope(&frame.envelope, place);
                        match request.message() {
                            Ok(message) => received.push(self.accept_request(envelope, message)),
                            Err(failure) => self.refuse(&envelope, failure),
                        }
                    }
                    return Some(PortFrame::Requests(received));
                }
                (Ok(message), true) => {
                    return Some(PortFrame::Requests(vec![self.accept_request(frame.envelope, message)]));
                }
            },
            DecodeResult::Refused { envelope, is_answer: false, failure, .. } => {
                self.refuse(&envelope, failure)
            }
            _ => {}
        }
        None
    }

    fn accept_request<'f>(&mut self, envelope: Envelope, message: Message<'f>) -> (Envelope, Message<'f>) {
        // A client that uses an id twice gets two answers under it; the simulated ones do not.
        self.in_flight.insert(envelope.request);
        if message.kind() == FrameKind::Wait {
            self.waits.insert(envelope.request);
        }
        if matches!(message, Message::Write { .. }) {
            self.writes.insert(envelope.request);
        }
        (envelope, message)
    }

    /// Removes and returns the bytes to send.
    pub(crate) fn take_output(&mut self) -> Vec<u8> {
        self.is_coalescing.close(&self.encoder, &mut self.out);
        std::mem::take(&mut self.out)
    }

    /// Answers `Hello`; from here on the connection uses the chosen version.
    pub(crate) fn handle_hello(
        &mut self,
        of: &Envelope,
        hello: &Hello<'_>,
        ack: Result<HelloAck, Failure<'static>>,
    ) {
        let chosen = choose_version(hello.version_min, hello.version_max);
        match chosen.and_then(|version| Ok((version, ack?))) {
            Ok((version, mut ack)) => {
                (ack.version, ack.features) = (version, FEATURES.common(hello.features));
                self.send(&Envelope { time_out_ms: 0, ..*of }, &Message::HelloAck(ack));
                self.is_greeted = true;
                self.decoder = Decoder::with_version(version, ack.features);
                self.encoder = Encoder { version, ..Encoder::default() };
                self.accepts_coalesced = ack.features.has(Features::COALESCED);
            }
            Err(failure) => {
                self.fail(of, failure);
                self.is_closing = true;
            }
        }
    }

    /// Whether an answer tells the state of a record, and is neither a refusal before evaluation
    /// nor a doubtful outcome. `TimedOut` is doubtful for a write: the sender does not know its
    /// outcome.
    pub(crate) fn shows_record_state(&self, request: RequestId, message: &Message<'_>) -> bool {
        let says = |answer: &OperationAnswer<'_>| match answer {
            Err(Failure::TimedOut { .. }) => self.waits.contains(&request),
            Err(failure) => is_outcome(failure),
            Ok(_) => true,
        };
        match message {
            Message::Answer(answer) => says(answer),
            Message::BatchAnswer(answers) => answers.iter().any(|answer| says(&answer)),
            _ => false,
        }
    }

    /// Whether an answer acknowledges a write.
    pub(crate) fn acknowledges(&self, request: RequestId, message: &Message<'_>) -> bool {
        matches!(message, Message::Answer(Ok(_))) && self.writes.contains(&request)
    }

    /// Answers a request.
    ///
    /// # Panics
    /// If it was answered before: that is a bug of the sender.
    pub(crate) fn answer(&mut self, envelope: &Envelope, message: &Message<'_>) {
        self.remove_request(envelope.request);
        self.send(envelope, message);
    }

    /// Releases a request without an answer.
    ///
    /// # Panics
    /// As [`Port::answer`].
    pub(crate) fn remove_request(&mut self, request: RequestId) {
        assert!(self.in_flight.remove(&request), "request {request} was answered twice");
        self.waits.remove(&request);
        self.writes.remove(&request);
    }

    /// Answers a frame that is no valid request. Before the greeting this ends the connection.
    fn refuse(&mut self, of: &Envelope, failure: Failure<'static>) {
        self.fail(of, failure);
        self.is_closing |= !self.is_greeted;
    }

    fn fail(&mut self, of: &Envelope, failure: Failure<'static>) {
        let envelope =
            Envelope { partition_epoch: PartitionEpoch(0), time_out_ms: 0, read_lock: false, ..*of };
        self.send(&envelope, &Message::Answer(Err(failure)));
    }

    fn send(&mut self, envelope: &Envelope, message: &Message<'_>) {
        let Port { encoder, is_coalescing: gathering, accepts_coalesced: gathers, out, .. } = self;
        let is_answer =
            matches!(message, Message::Answer(_) | Message::BatchAnswer(_) | Message::Transacted(_));
        let sent = match *gathers && is_answer {
            true => gathering.add(encoder, envelope, message, out).map(|tail| tail.pieces().concat()),
            false => {
                gathering.close(encoder, out);
                encoder.encode(envelope, message, out).map(|()| Vec::new())
            }
        };
        match sent {
            Ok(payload) => out.extend_from_slice(&payload),
            Err(failure) => {
                gathering.close(encoder, out);
                let encoded = encoder.encode(envelope, &Message::Answer(Err(failure)), out);
                assert!(encoded.is_ok(), "an error without a payload always fits a frame");
            }
        }
    }
}

/// A frame to pass on.
#[derive(Debug)]
pub(crate) enum PortFrame<'f> {
    Hello(Envelope, Hello<'f>),
    /// All requests of one frame.
    Requests(Vec<(Envelope, Message<'f>)>),
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerohop_wire::ids::Timestamp;
    use zerohop_wire::messages::{Query, RecordRead, Wait, WaitUntil};

    /// Whether the answer of a request tells a record's state when it is released or times out, as
    /// `TimedOut`.
    fn shows_state_at_time_out(request: &Message<'_>) -> bool {
        let mut port = Port { is_greeted: true, ..Port::new() };
        let envelope = Envelope { request: RequestId(7), ..Envelope::default() };
        let mut frame = Vec::new();
        Encoder::default().encode(&envelope, request, &mut frame).expect("fits");
        port.decoder = Decoder::with_version(zerohop_wire::GREETING_VERSION, Features::default());
        assert!(matches!(port.handle_frame(&frame, &mut Vec::new()), Some(PortFrame::Requests(..))));
        let answer = Message::Answer(Err(Failure::TimedOut { version: Timestamp::ZERO }));
        port.shows_record_state(RequestId(7), &answer)
    }

    #[test]
    fn only_time_out_of_wait_shows_record_state() {
        let seen = Timestamp::ZERO;
        let read = |query| Message::Read { seen, read: RecordRead { key: b"key", query } };
        assert!(shows_state_at_time_out(&read(Query::Wait(Wait { until: WaitUntil::Present }))));
        assert!(
            !shows_state_at_time_out(&read(Query::Lookup)),
            "no check was made, or its result is in doubt"
        );
    }
}
