//! Shared parts of the reactor's tests: a driver that simulates the system in memory, and a service with predictable answers. Nothing here is
//! random or reads a clock; the same calls give the same run.

mod echo;
mod world;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use zerohop_wire::ids::*;
use zerohop_wire::messages::*;
use zerohop_wire::{DecodeResult, Decoder, Encoder, Envelope, Failure, Features, Message};

pub(super) use self::echo::{AnswerTime, FakeEcho, FakeEchoNotice};
pub(super) use self::world::{FakeDriver, FakeNetwork};
use super::*;
use zerohop_wire::messages::Insert;

/// A reactor over a simulated network, with helpers for tests.
pub(super) struct ReactorBench {
    pub(super) reactor: Reactor<FakeDriver, FakeEcho>,
    pub(super) mailbox: ReactorMailbox<FakeEchoNotice>,
    pub(super) world: Rc<RefCell<FakeNetwork>>,
}

impl ReactorBench {
    pub(super) fn new(when: AnswerTime, limits: Limits) -> Self {
        let (driver, world) = FakeDriver::new();
        let (reactor, mailbox) = Reactor::new(driver, FakeEcho::new(when), limits);
        ReactorBench { reactor, mailbox, world }
    }

    /// Runs the reactor until it has no more work at the present time; `false` if it has stopped.
    pub(super) fn run_until_idle(&mut self) -> bool {
        for _ in 0..100_000 {
            let busy = !self.world.borrow().events.is_empty()
                || self.reactor.time_out() == Some(Duration::ZERO)
                || self.reactor.driver.is_woken.0.load(Ordering::SeqCst);
            if !busy {
                return true;
            }
            if !self.reactor.turn().unwrap() {
                return false;
            }
        }
        panic!("the reactor never comes to rest");
    }

    /// Advances the time, runs the reactor, and lets every peer read its bytes.
    pub(super) fn advance_ms(&mut self, ms: u64) {
        let until_ms = self.world.borrow().now_ms + ms;
        loop {
            self.run_until_idle();
            while self.read_all() > 0 {
                self.run_until_idle();
            }
            let now_ms = self.world.borrow().now_ms;
            let next = self.reactor.time_out().map_or(until_ms, |wait| now_ms + wait.as_millis() as u64);
            self.world.borrow_mut().now_ms = next.clamp(now_ms, until_ms);
            if next > until_ms || now_ms == until_ms {
                return;
            }
        }
    }

    /// Lets every peer read its bytes; returns the number of bytes.
    pub(super) fn read_all(&mut self) -> usize {
        let mut world = self.world.borrow_mut();
        (0..world.peers.len()).map(|peer| world.peer_read(peer, usize::MAX)).sum()
    }

    /// Connects and sends `Hello`.
    pub(super) fn connect_with_hello(&mut self) -> usize {
        let peer = self.world.borrow_mut().connect();
        self.world.borrow_mut().send(peer, &hello());
        self.run_until_idle();
        peer
    }

    pub(super) fn send(&mut self, peer: usize, bytes: &[u8]) {
        self.world.borrow_mut().send(peer, bytes);
    }

    /// The frames that a peer has received since the last call.
    pub(super) fn answers(&mut self, peer: usize) -> Vec<(u64, ReceivedAnswer)> {
        self.run_until_idle();
        loop {
            let count = self.world.borrow_mut().peer_read(peer, usize::MAX);
            if count == 0 {
                break;
            }
            self.run_until_idle();
        }
        let bytes = std::mem::take(&mut self.world.borrow_mut().peers[peer].bytes_read);
        frames(&bytes)
    }

    pub(super) fn is_closed(&self, peer: usize) -> bool {
        self.world.borrow().peers[peer].server_closed
    }

    pub(super) fn counters(&self) -> &ReactorCounters {
        &self.reactor.connections.counters
    }
}

/// The parts of an answer that tests check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ReceivedAnswer {
    Ack,
    Pong,
    Value(Vec<u8>),
    Done(u64),
    Failed(Failure<'static>),
}

/// Splits bytes into frames; no bytes may be left over.
pub(super) fn frames(mut bytes: &[u8]) -> Vec<(u64, ReceivedAnswer)> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let DecodeResult::Frame { frame, used } = Decoder::with_version(bytes[3], FEATURES).decode(bytes)
        else {
            panic!("the server sent what is no frame: {bytes:02x?}");
        };
        match frame.message(&mut Vec::new()).unwrap() {
            Message::Gathered(answers) => {
                all.extend(answers.iter().map(|one| (one.request.0, frame_of(one.message().unwrap()))));
            }
            message => all.push((frame.envelope.request.0, frame_of(message))),
        }
        bytes = &bytes[used..];
    }
    all
}

fn frame_of(message: Message<'_>) -> ReceivedAnswer {
    match message {
        Message::HelloAck(_) => ReceivedAnswer::Ack,
        Message::Pong(_) => ReceivedAnswer::Pong,
        Message::Answer(Ok(Outcome::Value { bytes, .. } | Outcome::Chunk { bytes, .. })) => {
            ReceivedAnswer::Value(bytes.to_vec())
        }
        Message::Answer(Ok(Outcome::Done { number, .. })) => ReceivedAnswer::Done(number),
        Message::Answer(Err(failure)) => ReceivedAnswer::Failed(failure.into_owned()),
        other => panic!("{other:?}"),
    }
}

pub(super) fn encoded(request: u64, message: &Message<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    Encoder::newest_for(message).encode(&envelope(request), message, &mut out).unwrap();
    out
}

/// The same, as a frame of this version.
pub(super) fn encoded_as(version: u8, request: u64, message: &Message<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    Encoder { version, ..Encoder::default() }.encode(&envelope(request), message, &mut out).unwrap();
    out
}

pub(super) fn envelope(request: u64) -> Envelope {
    let (keyspace, partition) = (KeyspaceId(3), PartitionId(4));
    Envelope { request: RequestId(request), keyspace, partition, ..Envelope::default() }
}

pub(super) fn hello() -> Vec<u8> {
    encoded(1, &Message::Hello(hello_message()))
}

pub(super) fn hello_message() -> Hello<'static> {
    Hello {
        version_min: zerohop_wire::limits::VERSION_MIN,
        version_max: zerohop_wire::limits::VERSION_MAX,
        features: Features(0),
        cluster: ClusterId::default(),
        map_epoch: MapEpoch(0),
        proof_method: 0,
        nonce: [0; 32],
        name: "test",
    }
}

pub(super) fn peer_message() -> Message<'static> {
    let member = |instance| Member { instance: InstanceId(instance), incarnation: Incarnation(1) };
    Message::Peer(PeerMessage { from: member(1), to: member(7), body: PeerBody::Yield })
}

pub(super) fn lookup(request: u64, key: &[u8]) -> Vec<u8> {
    encoded(request, &Message::Read { seen: Timestamp::ZERO, read: RecordRead { key, query: Query::Lookup } })
}

pub(super) fn insert(request: u64, value: &[u8]) -> Vec<u8> {
    let change = WriteChange::Insert(Insert { value, expiry: Expiry::Never });
    let write = RecordWrite { key: b"k", condition: Condition::Always, change };
    encoded(request, &Message::Write { stamp: Stamp::default(), write })
}
