//! The node's end of one connection: bytes to requests, answers to bytes, as the reactor does it.

use std::collections::BTreeSet;

use zerohop_wire::ids::{PartitionEpoch, RequestId};
use zerohop_wire::messages::{Hello, HelloAck};
use zerohop_wire::{Decoded, Decoder, Encoder, Envelope, Failure, Features, Message, What, choose_version};

/// One connection.
#[derive(Debug)]
pub(crate) struct Port {
    decoder: Decoder,
    encoder: Encoder,
    is_greeted: bool,
    /// Nothing is taken any more; what is to be sent still is.
    pub(crate) is_closing: bool,
    input: Vec<u8>,
    pub(crate) out: Vec<u8>,
    in_flight: BTreeSet<RequestId>,
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
            in_flight: BTreeSet::new(),
        }
    }

    /// Bytes have come.
    pub(crate) fn receive(&mut self, bytes: &[u8]) {
        if !self.is_closing {
            self.input.extend_from_slice(bytes);
        }
    }

    /// Takes the next whole frame out of what has come; nothing if there is none.
    pub(crate) fn next_frame(&mut self) -> Option<Vec<u8>> {
        if self.is_closing {
            return None;
        }
        match self.decoder.decode(&self.input) {
            Decoded::Need(_) => None,
            Decoded::Frame { used, .. } | Decoded::Refused { used, .. } => {
                let rest = self.input.split_off(used);
                Some(std::mem::replace(&mut self.input, rest))
            }
            Decoded::Broken(broken) => {
                if let Some((envelope, failure)) = broken.last_answer() {
                    self.fail(&envelope, failure);
                }
                self.is_closing = true;
                None
            }
        }
    }

    /// What to do with a frame: hand it on, or answer it right here.
    pub(crate) fn take<'f>(&mut self, frame: &'f [u8], scratch: &'f mut Vec<u8>) -> Option<Taken<'f>> {
        match self.decoder.decode(frame) {
            Decoded::Frame { frame, .. } => match (frame.message(scratch), self.is_greeted) {
                (Err(failure), _) => self.refuse(&frame.envelope, failure),
                (Ok(Message::Hello(hello)), false) => {
                    return Some(Taken::Hello(frame.envelope, hello));
                }
                (Ok(_), false) => self.refuse(&frame.envelope, What::HelloExpected.into()),
                (Ok(message), true) if message.kind().is_answer() || matches!(message, Message::Hello(_)) => {
                    self.refuse(&frame.envelope, What::Unexpected.into());
                }
                (Ok(message), true) => {
                    // A client that uses an id twice gets two answers under it; the simulated ones do not.
                    self.in_flight.insert(frame.envelope.request);
                    return Some(Taken::Request(frame.envelope, message));
                }
            },
            Decoded::Refused { envelope, is_answer: false, failure, .. } => self.refuse(&envelope, failure),
            _ => {}
        }
        None
    }

    /// Answers `Hello`; from here on the connection speaks the version chosen.
    pub(crate) fn greet(
        &mut self,
        of: &Envelope,
        hello: &Hello<'_>,
        ack: Result<HelloAck, Failure<'static>>,
    ) {
        let chosen = choose_version(hello.version_min, hello.version_max);
        match chosen.and_then(|version| Ok((version, ack?))) {
            Ok((version, mut ack)) => {
                (ack.version, ack.features) = (version, Features::LZ4.common(hello.features));
                self.send(&Envelope { time_out_ms: 0, ..*of }, &Message::HelloAck(ack));
                self.is_greeted = true;
                self.decoder = Decoder::agreed(version, ack.features);
                self.encoder = Encoder { version, ..Encoder::default() };
            }
            Err(failure) => {
                self.fail(of, failure);
                self.is_closing = true;
            }
        }
    }

    /// Answers a request.
    ///
    /// # Panics
    /// If it was answered before: that is a bug of whoever answers.
    pub(crate) fn answer(&mut self, envelope: &Envelope, message: &Message<'_>) {
        self.settle(envelope.request);
        self.send(envelope, message);
    }

    /// Lets a request go without an answer.
    ///
    /// # Panics
    /// As [`Port::answer`].
    pub(crate) fn settle(&mut self, request: RequestId) {
        assert!(self.in_flight.remove(&request), "request {request} was answered twice");
    }

    /// Answers a frame that never became a request. Before the greeting that is the end.
    fn refuse(&mut self, of: &Envelope, failure: Failure<'static>) {
        self.fail(of, failure);
        self.is_closing |= !self.is_greeted;
    }

    fn fail(&mut self, of: &Envelope, failure: Failure<'static>) {
        let envelope = Envelope { partition_epoch: PartitionEpoch(0), time_out_ms: 0, ..*of };
        self.send(&envelope, &Message::Answer(Err(failure)));
    }

    fn send(&mut self, envelope: &Envelope, message: &Message<'_>) {
        if let Err(failure) = self.encoder.encode(envelope, message, &mut self.out) {
            let told = self.encoder.encode(envelope, &Message::Answer(Err(failure)), &mut self.out);
            assert!(told.is_ok(), "an error without a payload always fits a frame");
        }
    }
}

/// A frame that must be handed on.
#[derive(Debug)]
pub(crate) enum Taken<'f> {
    Hello(Envelope, Hello<'f>),
    Request(Envelope, Message<'f>),
}
