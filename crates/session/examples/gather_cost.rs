//! What a batch over many partitions costs a session, and a server in frames. The session talks to a server in memory,
//! which decodes its frames and answers each request from memory. To be counted, as time says little:
//!
//! ```text
//! cargo build --release -p zerohop-session --example gather_cost
//! valgrind --tool=callgrind target/release/examples/gather_cost gather 100 40 get      (or: plain, 1000 4, set)
//! callgrind_annotate --inclusive=yes callgrind.out.*      client_submits, client_turns, client_receives; server_takes
//! ```

#![allow(clippy::print_stdout, reason = "a program that prints figures")]

use std::hint::black_box;

use bytes::BytesMut;
use zerohop_base::time::Time;
use zerohop_placement::{
    Address, KeyspaceConfig, MapChange, MapDelta, Node, NodeState, PartitionCount, ReplicaGroup,
};
use zerohop_session::{
    Coalescing, Collect, ConnectionId, Session, SessionEffect, SessionRequest, SessionSettings,
};
use zerohop_wire::ids::{
    Incarnation, InstanceId, KeyspaceId, MapEpoch, NodeId, PartitionEpoch, SessionId, Timestamp,
};
use zerohop_wire::limits::VERSION_MAX;
use zerohop_wire::messages::{
    ClusterId, Condition, Expiry, HelloAck, Insert, Map, OperationAnswer, Outcome, Query, RecordOperation,
    RecordRead, RecordWrite, SessionOpened, WriteChange,
};
use zerohop_wire::{AnswerGathering, DecodeResult, Decoder, Elements, Encoder, Envelope, Features, Message};

type Failure = Box<dyn std::error::Error>;

const KEYSPACE: KeyspaceId = KeyspaceId(1);
const PARTITIONS: u32 = 256;
const VALUE: [u8; 132] = [7; 132];
const USAGE: &str = "gather_cost plain|gather KEYS ROUNDS get|set";

/// A server of one instance, without records.
struct GatherServer {
    features: Features,
    map: Vec<u8>,
    decoder: Decoder,
    encoder: Encoder,
    gathers: bool,
    gathering: AnswerGathering,
    input: Vec<u8>,
    out: Vec<u8>,
    frames: u64,
}

impl GatherServer {
    /// Takes all that has come, and answers it.
    #[inline(never)]
    fn server_takes(&mut self) -> Result<(), Failure> {
        let mut input = std::mem::take(&mut self.input);
        let mut rest = &input[..];
        while let DecodeResult::Frame { frame, used } = self.decoder.decode(rest) {
            self.frames += 1;
            match frame.message(&mut Vec::new())? {
                Message::Gather(requests) => {
                    for (request, place) in requests.iter().zip(1..) {
                        self.answer(&request.envelope(&frame.envelope, place), request.message()?)?;
                    }
                }
                message => self.answer(&frame.envelope, message)?,
            }
            rest = &rest[used..];
        }
        self.gathering.close(&self.encoder, &mut self.out);
        input.clear();
        self.input = input;
        Ok(())
    }

    fn answer(&mut self, envelope: &Envelope, message: Message<'_>) -> Result<(), Failure> {
        match message {
            Message::Hello(hello) => {
                let features = hello.features.common(self.features);
                let (cluster, map_epoch) = (ClusterId([9; 16]), MapEpoch(1));
                let ack =
                    HelloAck { version: VERSION_MAX, features, cluster, map_epoch, ..HelloAck::default() };
                self.say(envelope, &Message::HelloAck(ack))?;
                self.encoder.version = VERSION_MAX;
                (self.decoder, self.gathers) =
                    (Decoder::with_version(VERSION_MAX, features), features.has(Features::COALESCED));
                Ok(())
            }
            Message::MapGet(_) => {
                let encoded = self.map.clone();
                let map = Map { epoch: MapEpoch(1), since: MapEpoch(0), encoded: &encoded };
                self.say(envelope, &Message::Map(map))
            }
            Message::SessionOpen(_) => {
                let session = SessionId { issued: Timestamp(1), nonce: 5 };
                self.say(envelope, &Message::SessionOpened(SessionOpened { session, idle_ms: 0 }))
            }
            Message::Read { read, .. } => {
                self.say(envelope, &Message::Answer(answer(&RecordOperation::Read(black_box(read)))))
            }
            Message::Write { write, .. } => {
                self.say(envelope, &Message::Answer(answer(&RecordOperation::Write(black_box(write)))))
            }
            Message::Batch(batch) => {
                let (mut packed, mut count) = (Vec::new(), 0);
                for (_, operation) in batch.numbered() {
                    zerohop_wire::pack(&answer(&operation), &mut packed)?;
                    count += 1;
                }
                self.say(envelope, &Message::BatchAnswer(Elements::packed(count, &packed)?))
            }
            other => Err(format!("the session asks {other:?}").into()),
        }
    }

    fn say(&mut self, to: &Envelope, message: &Message<'_>) -> Result<(), Failure> {
        let Self { encoder, gathering, out, .. } = self;
        let to = Envelope { time_out_ms: 0, ..*to };
        if self.gathers {
            gathering.add(encoder, &to, message, out)?;
        } else {
            encoder.encode(&to, message, out)?;
        }
        Ok(())
    }
}

fn answer(operation: &RecordOperation<'_>) -> OperationAnswer<'static> {
    let version = Timestamp(1 << 20);
    Ok(match operation {
        RecordOperation::Read(_) => Outcome::Value { version, length: VALUE.len() as u64, bytes: &VALUE },
        RecordOperation::Write(_) => Outcome::Done { version, number: 0 },
    })
}

#[inline(never)]
fn client_submits(session: &mut Session<()>, now: Time, requests: Vec<SessionRequest>) {
    requests.into_iter().for_each(|request| session.submit(now, request, ()));
}

#[inline(never)]
fn client_turns(session: &mut Session<()>, now: Time, effects: &mut Vec<SessionEffect<()>>) {
    session.step(now, effects);
}

#[inline(never)]
fn client_receives(session: &mut Session<()>, now: Time, id: ConnectionId, input: &mut BytesMut) {
    session.received(now, id, input);
}

/// Does these, and says how many bytes went both ways.
fn play(
    session: &mut Session<()>,
    server: &mut GatherServer,
    now: &mut Time,
    requests: Vec<SessionRequest>,
) -> Result<usize, Failure> {
    let (mut effects, mut input, mut bytes) = (Vec::new(), BytesMut::new(), 0);
    client_submits(session, *now, requests);
    while session.outstanding() > 0 {
        now.0 += 10;
        client_turns(session, *now, &mut effects);
        let mut sender = None;
        for effect in effects.drain(..) {
            match effect {
                SessionEffect::Connect { connection, .. } => {
                    (server.decoder, server.gathers) = (Decoder::before_hello(), false);
                    session.connected(*now, connection);
                }
                SessionEffect::Send { connection, head, tail } => {
                    server.input.extend_from_slice(&head);
                    server.input.extend_from_slice(&tail);
                    session.recycle(head);
                    sender = Some(connection);
                }
                SessionEffect::Complete { result, .. } => drop(result?),
                SessionEffect::Close { .. } => {}
            }
        }
        if let Some(id) = sender {
            bytes += server.input.len();
            server.server_takes()?;
            bytes += server.out.len();
            input.extend_from_slice(&server.out);
            server.out.clear();
            client_receives(session, *now, id, &mut input);
        }
    }
    client_turns(session, *now, &mut effects);
    Ok(bytes)
}

fn map() -> Result<Vec<u8>, Failure> {
    let address = Address::new("server:7401")?;
    let node = Node {
        id: NodeId(1),
        state: NodeState::Up,
        incarnation: Incarnation(1),
        manager: address.clone(),
        first_instance: InstanceId(1),
        instances: vec![address],
    };
    let mut config = KeyspaceConfig::new("default".parse()?, 7).fitted_to(1);
    config.partitions = PartitionCount::new(PARTITIONS)?;
    let groups = (0..PARTITIONS).map(|_| ReplicaGroup::of_one(PartitionEpoch(1), InstanceId(1))).collect();
    let changes = vec![MapChange::PutNode(node), MapChange::CreateKeyspace { id: KEYSPACE, config, groups }];
    Ok(MapDelta { from: MapEpoch(0), to: MapEpoch(1), changes }.encode())
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [way, size, rounds, what] = &arguments[..] else { return Err(USAGE.into()) };
    let (size, rounds): (usize, usize) = (size.parse()?, rounds.parse()?);
    let mut server = GatherServer {
        features: if way == "gather" { Features::COALESCED } else { Features::default() },
        map: map()?,
        decoder: Decoder::before_hello(),
        encoder: Encoder::default(),
        gathers: false,
        gathering: AnswerGathering::default(),
        input: Vec::new(),
        out: Vec::new(),
        frames: 0,
    };
    let mut session = Session::new(SessionSettings::new(&[Address::new("server:7401")?], 3));
    let mut now = Time(1_000_000);
    let keys: Vec<String> = (0..size).map(|number| format!("key-{number:011}")).collect();
    let requests = || -> Result<Vec<SessionRequest>, Failure> {
        let request = |key: &String| {
            let key = key.as_bytes();
            let change = WriteChange::Insert(Insert { value: &VALUE, expiry: Expiry::Never });
            let operation = match what.as_str() {
                "set" => RecordOperation::Write(RecordWrite { key, condition: Condition::Always, change }),
                _ => RecordOperation::Read(RecordRead { key, query: Query::Lookup }),
            };
            let together = Coalescing::Within(Collect { delay_us: 0, bytes: 1 << 24 });
            Ok(SessionRequest::record(KEYSPACE, &operation, 10_000_000)?.collecting(together))
        };
        keys.iter().map(request).collect()
    };
    play(&mut session, &mut server, &mut now, requests()?)?;
    let (frames, mut bytes) = (server.frames, 0);
    for _ in 0..rounds {
        bytes += play(&mut session, &mut server, &mut now, requests()?)?;
    }
    let frames = (server.frames - frames) as f64 / rounds as f64;
    println!("{way} {what} {size}: {frames} frames a round, {} bytes a key", bytes / (rounds * size));
    Ok(())
}
