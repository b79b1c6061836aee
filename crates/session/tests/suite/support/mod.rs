//! A world for a session: a simulated clock, a network that loses, repeats, reorders and resets,
//! and servers that share one model of the data, so that a moved partition has its state.

#![allow(unreachable_pub, reason = "a module of tests has no public")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod greetings;
mod holding;
pub mod random;
mod replies;
mod scanning;
pub mod server;
pub mod transact;

use std::collections::BTreeMap;
use std::io::ErrorKind;

use bytes::{Bytes, BytesMut};
use random::Random;
use server::FakeCluster;
use zerohop_base::time::Time;
use zerohop_session::{
    ConnectionId, ConnectionLoss, Reply, Session, SessionEffect, SessionError, SessionRequest,
    SessionSettings,
};
use zerohop_wire::ids::{KeyspaceId, PartitionId};
use zerohop_wire::messages::{
    Append, Condition, Expiry, Insert, Message, Query, RecordOperation, RecordRead, RecordWrite, Stamp,
    WriteChange,
};
use zerohop_wire::{DecodeResult, Decoder, Elements, Features, FrameKind};

pub const KEYSPACE: KeyspaceId = KeyspaceId(1);

/// All features that servers may have; each world selects some.
pub const FEATURES: Features = Features(Features::LZ4.0 | Features::COALESCED.0 | Features::READ_LOCKS.0);

/// Rates per mille.
#[derive(Clone, Copy, Debug, Default)]
pub struct NetworkFaultRates {
    pub lose: u64,
    pub repeat: u64,
    pub reset: u64,
    pub refuse_connection: u64,
    pub damage: u64,
    /// The longest additional delay of a frame in one direction, beyond the usual 50 us; it causes
    /// reordering.
    pub delay_us: u64,
}

#[derive(Debug)]
enum NetworkEvent {
    Connected(ConnectionId),
    Refused(ConnectionId),
    Reset(ConnectionId),
    /// A frame arrives at a server.
    Request(ConnectionId, Vec<u8>),
    /// A frame arrives at the session.
    Answer(ConnectionId, Vec<u8>),
}

/// One frame that a server received.
pub struct ReceivedFrame {
    pub address: String,
    pub bytes: Vec<u8>,
}

pub struct SessionWorld {
    pub now: Time,
    pub session: Session<usize>,
    pub cluster: FakeCluster,
    pub faults: NetworkFaultRates,
    pub random: Random,
    pub results: Vec<Option<Result<Reply, SessionError>>>,
    /// Frames as they were sent, before any fault, if they are recorded.
    pub sent: Option<Vec<ReceivedFrame>>,
    /// The number of send effects so far.
    pub writes: usize,
    /// The server at this address receives everything, and does not answer appends: it cannot
    /// replicate them.
    pub mute: Option<String>,
    /// The server at this address accepts connections and never answers: a stopped process.
    pub still: Option<String>,
    pub connects: Vec<String>,
    events: BTreeMap<(Time, u64), NetworkEvent>,
    event_count: u64,
    open: BTreeMap<ConnectionId, String>,
    input: BTreeMap<ConnectionId, BytesMut>,
}

impl SessionWorld {
    pub fn new(seed: u64, cluster: FakeCluster, change: impl FnOnce(&mut SessionSettings)) -> Self {
        let endpoint = cluster.address(0).parse().unwrap();
        let mut settings = SessionSettings::new(&[endpoint], seed);
        settings.attempt_us = 50_000;
        settings.connect_us = 100_000;
        settings.quiet_us = 100_000;
        change(&mut settings);
        Self {
            now: Time(1_000_000),
            session: Session::new(settings),
            cluster,
            faults: NetworkFaultRates::default(),
            random: Random::new(seed),
            results: Vec::new(),
            sent: None,
            writes: 0,
            mute: None,
            still: None,
            connects: Vec::new(),
            events: BTreeMap::new(),
            event_count: 0,
            open: BTreeMap::new(),
            input: BTreeMap::new(),
        }
    }

    pub fn submit(&mut self, request: SessionRequest) -> usize {
        let token = self.results.len();
        self.results.push(None);
        self.session.submit(self.now, request, token);
        token
    }

    /// Runs until no operation is in flight. Panics if that takes too long.
    pub fn run_until_idle(&mut self) {
        let last = self.now.after_ms(600_000);
        while self.session.outstanding() > 0 {
            assert!(self.step(), "operations are outstanding, and nothing is to happen");
            assert!(self.now < last, "operations outlive every deadline");
        }
        self.run_turn();
    }

    /// Runs all events until this time.
    pub fn run_until(&mut self, until: Time) {
        self.run_turn();
        while self.next_at().is_some_and(|at| at <= until) {
            self.step();
        }
        self.now = self.now.max(until);
        self.run_turn();
    }

    pub fn run_ms(&mut self, ms: u64) {
        self.run_until(self.now.after_ms(ms));
    }

    /// The result of an operation that has ended.
    pub fn result(&self, token: usize) -> &Result<Reply, SessionError> {
        self.results[token].as_ref().expect("the operation has ended")
    }

    pub fn run_turn(&mut self) {
        let mut effects = Vec::new();
        self.session.step(self.now, &mut effects);
        for effect in effects {
            self.perform_effect(effect);
        }
    }

    /// Closes every connection, like a network failure.
    pub fn reset_all(&mut self) {
        for id in self.open.keys().copied().collect::<Vec<_>>() {
            self.reset(id);
        }
    }

    fn next_at(&self) -> Option<Time> {
        let event = self.events.first_key_value().map(|((at, _), _)| *at);
        event.into_iter().chain(self.session.next_turn_due()).min()
    }

    pub fn step(&mut self) -> bool {
        self.run_turn();
        let Some(at) = self.next_at() else { return false };
        self.now = self.now.max(at);
        while let Some(entry) = self.events.first_entry()
            && entry.key().0 <= self.now
        {
            let event = entry.remove();
            self.happen(event);
        }
        self.run_turn();
        true
    }

    fn perform_effect(&mut self, effect: SessionEffect<usize>) {
        match effect {
            SessionEffect::Connect { connection, address } => {
                self.connects.push(address.to_string());
                let refused =
                    self.random.chance(self.faults.refuse_connection) || !self.cluster.listens(&address);
                self.open.insert(connection, address.to_string());
                let event = if refused {
                    NetworkEvent::Refused(connection)
                } else {
                    NetworkEvent::Connected(connection)
                };
                self.schedule(100, event);
            }
            SessionEffect::Send { connection, head, tail } => {
                self.writes += 1;
                self.send(connection, &head, &tail);
                self.session.recycle(head);
            }
            SessionEffect::Close { connection } => {
                self.open.remove(&connection);
                self.input.remove(&connection);
            }
            SessionEffect::Complete { token, result } => {
                let place = &mut self.results[token];
                assert!(place.is_none(), "an operation ends once");
                *place = Some(result);
            }
        }
    }

    fn send(&mut self, id: ConnectionId, head: &[u8], tail: &Bytes) {
        let Some(address) = self.open.get(&id).cloned() else {
            panic!("the session sends on a connection that is closed");
        };
        let bytes = [head, tail].concat();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let DecodeResult::Frame { used, .. } = Decoder::with_version(rest[3], FEATURES).decode(rest)
            else {
                panic!("the session sends whole frames");
            };
            let (frame, after) = rest.split_at(used);
            rest = after;
            if let Some(sent) = self.sent.as_mut() {
                sent.push(ReceivedFrame { address: address.clone(), bytes: frame.to_vec() });
            }
            self.travel(frame, |frame| NetworkEvent::Request(id, frame));
            if self.random.chance(self.faults.reset) {
                self.reset(id);
            }
        }
    }

    fn travel(&mut self, frame: &[u8], event: impl Fn(Vec<u8>) -> NetworkEvent) {
        if self.random.chance(self.faults.lose) {
            return;
        }
        let copies = 1 + u64::from(self.random.chance(self.faults.repeat));
        for _ in 0..copies {
            let mut frame = frame.to_vec();
            // Only bodies: a corrupt header closes the connection, as `reset` does.
            if frame.len() > 48 && self.random.chance(self.faults.damage) {
                let at = 48 + self.random.below(frame.len() as u64 - 48) as usize;
                frame[at] ^= 1 << self.random.below(8);
            }
            let delay = 50 + self.random.below(self.faults.delay_us + 1);
            self.schedule(delay, event(frame));
        }
    }

    fn reset(&mut self, id: ConnectionId) {
        self.schedule(20, NetworkEvent::Reset(id));
    }

    fn schedule(&mut self, after_us: u64, event: NetworkEvent) {
        self.event_count += 1;
        self.events.insert((self.now.after_us(after_us), self.event_count), event);
    }

    fn happen(&mut self, event: NetworkEvent) {
        match event {
            NetworkEvent::Connected(id) if self.open.contains_key(&id) => {
                self.session.connected(self.now, id)
            }
            NetworkEvent::Refused(id) if self.open.remove(&id).is_some() => {
                let lost =
                    ConnectionLoss { kind: ErrorKind::ConnectionRefused, fault: None, expired_s: None };
                self.session.disconnected(self.now, id, lost);
            }
            NetworkEvent::Reset(id) if self.open.remove(&id).is_some() => {
                self.input.remove(&id);
                let lost = ConnectionLoss { kind: ErrorKind::ConnectionReset, fault: None, expired_s: None };
                self.session.disconnected(self.now, id, lost);
            }
            // Also over a connection that is closed meanwhile: sent frames may still arrive.
            NetworkEvent::Request(id, frame) => {
                let address = self.open.get(&id).cloned();
                let kind = u16::from_le_bytes([frame[4], frame[5]]);
                let is_mute = address.is_some() && address == self.mute && kind == FrameKind::Append.number();
                if address.is_some() && address == self.still {
                    return;
                }
                for answer in self.cluster.answer_frame(self.now, id, address, &frame) {
                    if is_mute {
                        continue;
                    }
                    self.travel(&answer, |frame| NetworkEvent::Answer(id, frame));
                }
            }
            NetworkEvent::Answer(id, frame) if self.open.contains_key(&id) => {
                let input = self.input.entry(id).or_default();
                input.extend_from_slice(&frame);
                self.session.received(self.now, id, input);
            }
            _ => {}
        }
    }
}

pub const LIMIT_US: u64 = 10_000_000;

pub fn write(key: &str, change: WriteChange<'_>) -> SessionRequest {
    let operation =
        RecordOperation::Write(RecordWrite { key: key.as_bytes(), condition: Condition::Always, change });
    SessionRequest::record(KEYSPACE, &operation, LIMIT_US).unwrap()
}

pub fn read(key: &str, query: Query<'_>) -> SessionRequest {
    let operation = RecordOperation::Read(RecordRead { key: key.as_bytes(), query });
    SessionRequest::record(KEYSPACE, &operation, LIMIT_US).unwrap()
}

pub fn append(key: &str, value: &str) -> SessionRequest {
    append_within(key, value, LIMIT_US)
}

pub fn append_within(key: &str, value: &str, limit_us: u64) -> SessionRequest {
    let values = [value.as_bytes()];
    let change = WriteChange::Append(Append { values: Elements::from_slice(&values) });
    let operation =
        RecordOperation::Write(RecordWrite { key: key.as_bytes(), condition: Condition::Always, change });
    SessionRequest::record(KEYSPACE, &operation, limit_us).unwrap()
}

pub fn lookup(key: &str) -> SessionRequest {
    read(key, Query::Lookup)
}

pub fn world(instances: u32) -> SessionWorld {
    world_with(instances, |_| {})
}

pub fn world_with(instances: u32, change: impl FnOnce(&mut SessionSettings)) -> SessionWorld {
    let mut world = SessionWorld::new(1, FakeCluster::new(instances, 1), change);
    world.sent = Some(Vec::new());
    world
}

/// Keys of one partition.
pub fn keys_of(world: &SessionWorld, partition: u32, count: usize) -> Vec<String> {
    let keys = (0..).map(|at| format!("key-{at}"));
    keys.filter(|key| world.cluster.partition_of(key) == PartitionId(partition)).take(count).collect()
}

pub fn insert(key: &str, value: &[u8]) -> SessionRequest {
    write(key, WriteChange::Insert(Insert { value, expiry: Expiry::Never }))
}

/// The kinds of the frames sent so far, with their targets.
pub fn kinds(world: &SessionWorld) -> Vec<(FrameKind, String)> {
    let frames = world.sent.as_ref().unwrap();
    let kind = |bytes: &[u8]| match Decoder::with_version(bytes[3], FEATURES).decode(bytes) {
        DecodeResult::Frame { frame, .. } => frame.kind,
        other => panic!("{other:?}"),
    };
    frames.iter().map(|frame| (kind(&frame.bytes), frame.address.clone())).collect()
}

pub fn count(world: &SessionWorld, kind: FrameKind) -> usize {
    kinds(world).iter().filter(|(found, _)| *found == kind).count()
}

/// The write identities of the writes sent so far.
pub fn stamps(world: &SessionWorld) -> Vec<Stamp> {
    let frames = world.sent.as_ref().unwrap();
    let stamp = |message: Message<'_>| match message {
        Message::Write { stamp, .. } => Some(stamp),
        Message::Batch(batch) => Some(batch.stamp),
        Message::Transact(transact) => Some(transact.stamp),
        _ => None,
    };
    let of_frame = |bytes: &[u8]| match Decoder::with_version(bytes[3], FEATURES).decode(bytes) {
        DecodeResult::Frame { frame, .. } => match frame.message(&mut Vec::new()).unwrap() {
            Message::Gather(requests) => {
                requests.iter().filter_map(|request| stamp(request.message().unwrap())).collect()
            }
            message => Vec::from_iter(stamp(message)),
        },
        _ => Vec::new(),
    };
    frames.iter().flat_map(|frame| of_frame(&frame.bytes)).collect()
}
