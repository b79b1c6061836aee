//! Zerohop's own frames, as a client sends them: routed by the cluster map. Each write has the
//! session of its connection and a sequence number of its partition.
//!
//! Every connection is a client with a session. No answer is processed before the end of a turn, so
//! the lowest unanswered number in each partition is the first of the turn.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::rc::Rc;

use zerohop_placement::ClusterMap;
use zerohop_placement::map::DEFAULT_KEYSPACE;
use zerohop_wire::ids::{
    KeyspaceId, MapEpoch, PartitionEpoch, PartitionId, RequestId, Sequence, SessionId, Timestamp,
};
use zerohop_wire::limits::{VERSION_MAX, VERSION_MIN};
use zerohop_wire::messages::{
    ClusterId, Condition, Expiry, Hello, Insert, MapGet, Outcome, Query, RecordRead, RecordWrite, Remove,
    SessionOpen, Stamp, WriteChange,
};
use zerohop_wire::{DecodeResult, Decoder, Encoder, Envelope, Failure as Refusal, Features, Message};

use super::{Answer, AnswerContent, Op, Protocol, Request, connect};
use crate::failure::Failure;
use crate::limits::ANSWER_WAIT;
use crate::workload::Records;

/// Bits of a request id for the slot in the turn; the turn's number is above them.
const SLOT_BITS: u32 = 16;

/// The instance and partition of every record.
pub struct Routing {
    keyspace: KeyspaceId,
    /// Instances that own partitions. Each has its own list of records.
    instances: Vec<SocketAddr>,
    /// By partition: index of its instance.
    owners: Vec<usize>,
    /// By record: its partition.
    partitions: Vec<PartitionId>,
    /// By partition.
    epochs: Vec<PartitionEpoch>,
}

impl Routing {
    /// Asks the manager for the map, and routes all records by it.
    ///
    /// # Errors It does not answer, or has no such keyspace.
    pub fn fetch(manager: SocketAddr, keyspace: &str, records: &Records) -> Result<Routing, Failure> {
        let map = map_of(manager)?;
        Routing::by(&map, keyspace, records)
    }

    /// The number of instances that own partitions.
    pub fn instances(&self) -> usize {
        self.instances.len()
    }

    /// These records, grouped by instance, in their order.
    pub fn split(&self, order: &[u32]) -> Vec<Vec<u32>> {
        let mut lists = vec![Vec::new(); self.instances.len()];
        for &index in order {
            lists[self.owners[self.partitions[index as usize].get() as usize]].push(index);
        }
        lists
    }

    fn by(map: &ClusterMap, name: &str, records: &Records) -> Result<Routing, Failure> {
        let missing = || Failure::Protocol(format!("its map has no keyspace {name}"));
        let (keyspace, found) = map.keyspace_named(name).ok_or_else(missing)?;
        let (mut instances, mut owners) = (Vec::new(), Vec::new());
        for (_, group) in found.groups() {
            let address = map.instance(group.primary).and_then(|instance| instance.addr.parse().ok());
            let address =
                address.ok_or_else(|| Failure::Protocol("an instance without an IP address".into()))?;
            owners.push(instances.iter().position(|known| *known == address).unwrap_or(instances.len()));
            if owners.last() == Some(&instances.len()) {
                instances.push(address);
            }
        }
        Ok(Routing {
            keyspace,
            instances,
            owners,
            partitions: (0..records.count()).map(|index| found.partition(records.key(index))).collect(),
            epochs: found.groups().map(|(_, group)| group.epoch).collect(),
        })
    }
}

/// The map of a manager.
///
/// # Errors It does not answer.
pub fn map_of(manager: SocketAddr) -> Result<ClusterMap, Failure> {
    fetched(&mut BlockingConnection::hello(manager)?)
}

/// Whether a node serves: an instance of its map has answered a lookup.
///
/// # Errors It has not.
pub fn is_ready(manager: SocketAddr) -> Result<(), Failure> {
    let map = map_of(manager)?;
    let key = b"first key";
    let route = map.route(DEFAULT_KEYSPACE, key).map_err(|error| Failure::Protocol(error.to_string()))?;
    let instance =
        route.addr.parse().map_err(|_| Failure::Protocol(format!("no IP address: {}", route.addr)))?;
    let envelope = Envelope {
        keyspace: DEFAULT_KEYSPACE,
        partition: route.partition,
        partition_epoch: route.epoch,
        ..Envelope::default()
    };
    let read = Message::Read { seen: Timestamp::ZERO, read: RecordRead { key, query: Query::Lookup } };
    BlockingConnection::hello(instance)?.query_about(envelope, &read, |message| match message {
        Message::Answer(Ok(_) | Err(Refusal::NotFound)) => Some(()),
        _ => None,
    })
}

/// A connection to an instance of `zerohop node`.
pub struct Zerohop {
    routing: Rc<Routing>,
    encoder: Encoder,
    decoder: Decoder,
    session: SessionId,
    /// The highest version seen, which every request carries.
    seen: Timestamp,
    /// By partition.
    sequences: Vec<PartitionSequence>,
    turn: u64,
    scratch: Vec<u8>,
}

/// The sequence numbers of a session in one partition.
#[derive(Clone, Copy, Default)]
struct PartitionSequence {
    next: u64,
    /// The first number of the turn in `turn`.
    lowest: u64,
    turn: u64,
}

impl Zerohop {
    /// Connects to the instance with this index and opens a session there.
    ///
    /// # Errors It does not answer.
    pub fn open(routing: &Rc<Routing>, instance: usize) -> Result<(TcpStream, Zerohop), Failure> {
        let mut opened = BlockingConnection::hello(routing.instances[instance])?;
        let session = opened.query(&Message::SessionOpen(SessionOpen), |message| match message {
            Message::SessionOpened(opened) => Some(opened.session),
            _ => None,
        })?;
        Ok((opened.stream, Zerohop::new(Rc::clone(routing), session)))
    }

    fn new(routing: Rc<Routing>, session: SessionId) -> Zerohop {
        let sequences = vec![PartitionSequence { next: 1, lowest: 1, turn: 0 }; routing.epochs.len()];
        let decoder = Decoder::with_version(VERSION_MAX, Features::default());
        let (seen, encoder) = (session.issued, Encoder { version: VERSION_MAX, ..Encoder::default() });
        Zerohop { routing, encoder, decoder, session, seen, sequences, turn: 0, scratch: Vec::new() }
    }

    fn stamp(&mut self, partition: PartitionId) -> Stamp {
        let numbers = &mut self.sequences[partition.get() as usize];
        if numbers.turn != self.turn {
            (numbers.lowest, numbers.turn) = (numbers.next, self.turn);
        }
        let sequence = Sequence(numbers.next);
        numbers.next += 1;
        Stamp {
            session: self.session,
            sequence,
            lowest_unanswered: Sequence(numbers.lowest),
            seen: self.seen,
        }
    }
}

impl Protocol for Zerohop {
    fn begin_turn(&mut self) {
        self.turn += 1;
    }

    fn request(&mut self, request: &Request<'_>, out: &mut Vec<u8>) -> Result<(), Failure> {
        let partition = self.routing.partitions[request.index as usize];
        let envelope = Envelope {
            request: RequestId(self.turn << SLOT_BITS | request.slot as u64),
            keyspace: self.routing.keyspace,
            partition,
            partition_epoch: self.routing.epochs[partition.get() as usize],
            time_out_ms: ANSWER_WAIT.as_millis() as u32,
            read_lock: false,
        };
        let key = request.key.as_slice();
        let write = |stamp, change| Message::Write {
            stamp,
            write: RecordWrite { key, condition: Condition::Always, change },
        };
        let message = match request.op {
            Op::Lookup => Message::Read { seen: self.seen, read: RecordRead { key, query: Query::Lookup } },
            Op::Remove => write(self.stamp(partition), WriteChange::Remove(Remove)),
            Op::Insert => {
                let change = WriteChange::Insert(Insert { value: request.value, expiry: Expiry::Never });
                write(self.stamp(partition), change)
            }
        };
        self.encoder.encode(&envelope, &message, out).map_err(refused)
    }

    fn answer<'b>(&'b mut self, op: Op, bytes: &'b [u8]) -> Result<Answer<'b>, Failure> {
        let (frame, used) = match self.decoder.decode(bytes) {
            DecodeResult::Need(_) => return Ok(Answer::Unfinished),
            DecodeResult::Frame { frame, used } => (frame, used),
            DecodeResult::Refused { failure, .. } => return Err(refused(failure)),
            DecodeResult::Broken(broken) => return Err(Failure::Protocol(broken.to_string())),
        };
        let (turn, slot) = (frame.envelope.request.0 >> SLOT_BITS, frame.envelope.request.0 & 0xFFFF);
        if turn != self.turn {
            return Err(Failure::Protocol("an answer to a request that is not outstanding".into()));
        }
        let content = match frame.message(&mut self.scratch).map_err(refused)? {
            Message::Answer(Ok(Outcome::Done { version, number })) => {
                self.seen = self.seen.max(version);
                if op == Op::Remove && number == 0 { AnswerContent::Absent } else { AnswerContent::Done }
            }
            Message::Answer(Ok(Outcome::Value { version, bytes, .. })) => {
                self.seen = self.seen.max(version);
                AnswerContent::Value(bytes)
            }
            Message::Answer(Err(Refusal::NotFound)) => AnswerContent::Absent,
            Message::Answer(Err(refusal)) => AnswerContent::Other(refusal.to_string()),
            other => AnswerContent::Other(format!("a frame of kind {:?}", other.kind())),
        };
        Ok(Answer::Whole { used, slot: slot as usize, content })
    }
}

/// A connection after its greeting, with blocking calls.
struct BlockingConnection {
    stream: TcpStream,
    decoder: Decoder,
    request: u64,
}

impl BlockingConnection {
    fn hello(address: SocketAddr) -> Result<BlockingConnection, Failure> {
        let stream = connect(address)?;
        let mut opened = BlockingConnection { stream, decoder: Decoder::before_hello(), request: 0 };
        let hello = Hello {
            version_min: VERSION_MIN,
            version_max: VERSION_MAX,
            features: Features::default(),
            cluster: ClusterId::default(),
            map_epoch: MapEpoch(0),
            proof_method: 0,
            nonce: [0; 32],
            name: "bench-kv",
        };
        opened.query(&Message::Hello(hello), |message| match message {
            Message::HelloAck(_) => Some(()),
            _ => None,
        })?;
        opened.decoder = Decoder::with_version(VERSION_MAX, Features::default());
        Ok(opened)
    }

    /// Sends one request and waits for its answer.
    fn query<R>(
        &mut self,
        message: &Message<'_>,
        read: impl FnOnce(Message<'_>) -> Option<R>,
    ) -> Result<R, Failure> {
        self.query_about(Envelope::default(), message, read)
    }

    /// The same, for a partition.
    fn query_about<R>(
        &mut self,
        mut envelope: Envelope,
        message: &Message<'_>,
        read: impl FnOnce(Message<'_>) -> Option<R>,
    ) -> Result<R, Failure> {
        self.request += 1;
        envelope.request = RequestId(self.request);
        let mut bytes = Vec::new();
        Encoder::newest_for(message).encode(&envelope, message, &mut bytes).map_err(refused)?;
        let asking = || Failure::while_doing(format!("asking for {:?}", message.kind()));
        self.stream.write_all(&bytes).map_err(asking())?;

        bytes.clear();
        loop {
            let need = match self.decoder.decode(&bytes) {
                DecodeResult::Need(need) => need,
                DecodeResult::Frame { frame, .. } => {
                    let mut scratch = Vec::new();
                    let answer = frame.message(&mut scratch).map_err(refused)?;
                    let other = match &answer {
                        Message::Answer(Err(refusal)) => refusal.to_string(),
                        other => format!("a frame of kind {:?}", other.kind()),
                    };
                    return read(answer).ok_or(Failure::Protocol(other));
                }
                DecodeResult::Refused { failure, .. } => return Err(refused(failure)),
                DecodeResult::Broken(broken) => return Err(Failure::Protocol(broken.to_string())),
            };
            let have = bytes.len();
            bytes.resize(need, 0);
            self.stream.read_exact(&mut bytes[have..]).map_err(asking())?;
        }
    }
}

fn fetched(manager: &mut BlockingConnection) -> Result<ClusterMap, Failure> {
    let map = manager.query(&Message::MapGet(MapGet { since: MapEpoch(0) }), |message| match message {
        Message::Map(map) => Some(ClusterMap::decode(map.encoded)),
        _ => None,
    })?;
    map.map_err(|error| Failure::Protocol(format!("a map that cannot be read: {error}")))
}

fn refused(refusal: Refusal<'_>) -> Failure {
    Failure::Protocol(refusal.to_string())
}

#[cfg(test)]
mod tests {
    use super::super::testing::reads;
    use super::*;
    use crate::maps::map_of_one;

    const SESSION: SessionId = SessionId { issued: Timestamp(7), nonce: 9 };

    fn fresh(records: &Records) -> Zerohop {
        let map = map_of_one("127.0.0.1:7400").unwrap();
        let mut zerohop = Zerohop::new(Rc::new(Routing::by(&map, "default", records).unwrap()), SESSION);
        zerohop.begin_turn();
        zerohop
    }

    /// Sends one request and returns it as a server would decode it.
    fn sent(zerohop: &mut Zerohop, records: &Records, op: Op, index: u32) -> (Envelope, Stamp) {
        let (key, value) = (records.key(index), records.value(index, 0));
        let mut out = Vec::new();
        zerohop.request(&Request { op, index, key, value, slot: 5 }, &mut out).unwrap();
        let DecodeResult::Frame { frame, used } =
            Decoder::with_version(VERSION_MAX, Features::default()).decode(&out)
        else {
            panic!("no frame")
        };
        assert_eq!(used, out.len());
        let mut scratch = Vec::new();
        let stamp = match frame.message(&mut scratch).unwrap() {
            Message::Write { stamp, write } => {
                let change = match op {
                    Op::Insert => WriteChange::Insert(Insert { value, expiry: Expiry::Never }),
                    _ => WriteChange::Remove(Remove),
                };
                assert_eq!(write, RecordWrite { key, condition: Condition::Always, change });
                stamp
            }
            Message::Read { seen, read } => {
                assert_eq!((op, read), (Op::Lookup, RecordRead { key, query: Query::Lookup }));
                Stamp { seen, ..Stamp::default() }
            }
            other => panic!("{other:?}"),
        };
        (frame.envelope, stamp)
    }

    #[test]
    fn requests_are_routed_by_the_map() {
        let records = Records::new(100, 1);
        let map = map_of_one("127.0.0.1:7400").unwrap();
        let mut zerohop = fresh(&records);
        for (index, op) in (0..100).zip([Op::Insert, Op::Lookup, Op::Remove].into_iter().cycle()) {
            let (envelope, _) = sent(&mut zerohop, &records, op, index);
            let route = map.route(envelope.keyspace, records.key(index)).unwrap();
            assert_eq!((envelope.partition, envelope.partition_epoch), (route.partition, route.epoch));
            assert_eq!(envelope.request, RequestId(1 << 16 | 5));
        }
    }

    #[test]
    fn writes_are_numbered_by_partition_with_lowest_unanswered() {
        let records = Records::new(2, 1);
        let mut zerohop = fresh(&records);
        let numbers = |stamp: Stamp| (stamp.sequence.0, stamp.lowest_unanswered.0);
        let next = |zerohop: &mut Zerohop, op, index| numbers(sent(zerohop, &records, op, index).1);
        assert_eq!(next(&mut zerohop, Op::Insert, 0), (1, 1));
        assert_eq!(next(&mut zerohop, Op::Remove, 0), (2, 1));
        // Another partition has its own numbers; reads use none.
        assert_eq!(next(&mut zerohop, Op::Insert, 1), (1, 1));
        next(&mut zerohop, Op::Lookup, 0);
        zerohop.begin_turn();
        assert_eq!(next(&mut zerohop, Op::Insert, 0), (3, 3));
        assert_eq!(next(&mut zerohop, Op::Insert, 0), (4, 3));
    }

    fn answered(answer: zerohop_wire::messages::OperationAnswer<'_>) -> Vec<u8> {
        let envelope = Envelope { request: RequestId(1 << 16), ..Envelope::default() };
        let mut out = Vec::new();
        Encoder { version: VERSION_MAX, ..Encoder::default() }
            .encode(&envelope, &Message::Answer(answer), &mut out)
            .unwrap();
        out
    }

    #[test]
    fn answer_kinds_are_distinguished_and_versions_stored() {
        let records = Records::new(1, 1);
        let done = |number| answered(Ok(Outcome::Done { version: Timestamp(50), number }));
        reads(|| fresh(&records), Op::Insert, &done(0), AnswerContent::Done);
        reads(|| fresh(&records), Op::Remove, &done(1), AnswerContent::Done);
        reads(|| fresh(&records), Op::Remove, &done(0), AnswerContent::Absent);
        let value = answered(Ok(Outcome::Value { version: Timestamp(3), length: 2, bytes: b"ab" }));
        reads(|| fresh(&records), Op::Lookup, &value, AnswerContent::Value(b"ab"));
        reads(|| fresh(&records), Op::Lookup, &answered(Err(Refusal::NotFound)), AnswerContent::Absent);

        let mut zerohop = fresh(&records);
        zerohop.answer(Op::Insert, &done(0)).unwrap();
        assert_eq!(sent(&mut zerohop, &records, Op::Lookup, 0).1.seen, Timestamp(50));
        // The turn is over: a further answer would be a second one.
        zerohop.begin_turn();
        assert!(zerohop.answer(Op::Insert, &done(0)).is_err());
    }
}
