//! What transactions cost the instances that hold their partitions, without sockets: to be run under a profiler that counts.
//!
//! ```text
//! transact write|txn INSTANCES COPIES KEYS COUNT CLIENTS
//! valgrind --tool=callgrind --toggle-collect='*measured*' target/release/examples/transact txn 1 1 2 2000
//! ```
//!
//! So many clients (8 by default), each with a session of its own, send requests at once. Then batches end and messages
//! are delivered until all are answered, and a millisecond has passed. `write` is the same number of single writes, as
//! one request each.

use std::io::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use zerohop_engine::EngineOptions;
use zerohop_engine::disk::simulated::SimulatedDisk;
use zerohop_partition::Token;
use zerohop_placement::{
    Address, ClusterMap, Durability, KeyspaceConfig, MapChange, MapDelta, MapHistory, Node, NodeState,
    PartitionCount, ReplicaGroup, partition_of,
};
use zerohop_shard::{
    AnswerOrigin, ClockReading, Identity, Instance, InstanceEffect, InstanceEffects, InstanceOptions,
};
use zerohop_transaction::codec::encode_parts;
use zerohop_transaction::{
    Access, Durability as PartDurability, ItemBody, Items, RoutingKey as Point, TransactionItem,
    TransactionPart,
};
use zerohop_wire::ids::{
    Incarnation, InstanceId, KeyspaceId, NodeId, PartitionEpoch, RequestId, Sequence, SessionId, Timestamp,
};
use zerohop_wire::messages::{
    ClusterId, Condition, Expiry, Insert, Member, PeerMessage, RecordOperation, RecordWrite, Stamp, Transact,
    WriteChange,
};
use zerohop_wire::{DecodeResult, Decoder, Encoder, Envelope, Features, Message, pack};

const KEYSPACE: KeyspaceId = KeyspaceId(9);
const PARTITIONS: u32 = 256;
const RECORDS: u64 = 10_000;

/// What came out of an instance.
#[derive(Default)]
struct OutputFrames {
    answered: u64,
    wrong: u64,
    frames: Vec<(usize, Vec<u8>)>,
    encoder: Encoder,
    timestamp_bounds: Vec<Timestamp>,
}

impl InstanceEffects for OutputFrames {
    fn push(&mut self, effect: InstanceEffect<'_>) {
        match effect {
            InstanceEffect::Answer { to, place, message } => self.answer(to, place, message),
            InstanceEffect::Send { to, envelope, message } => self.send(to, envelope, message),
            InstanceEffect::SyncTimestampBound(timestamp_bound) => {
                self.timestamp_bounds.push(timestamp_bound)
            }
            InstanceEffect::Reply { .. }
            | InstanceEffect::Dropped { .. }
            | InstanceEffect::ProposeChange { .. }
            | InstanceEffect::FetchMap
            | InstanceEffect::InvariantBroken { .. }
            | InstanceEffect::Drained { .. }
            | InstanceEffect::SplitRegion(_)
            | InstanceEffect::Flush(_) => {}
        }
    }
}

impl OutputFrames {
    fn answer(&mut self, _to: Token, _place: AnswerOrigin, message: &Message<'_>) {
        self.answered += 1;
        if !matches!(message, Message::Transacted(_) | Message::Answer(Ok(_))) {
            self.wrong += 1;
        }
    }

    fn send(&mut self, to: Member, envelope: &Envelope, message: &Message<'_>) {
        // A connection's buffer is there already.
        let mut frame = Vec::with_capacity(1 << 10);
        self.encoder.encode(envelope, message, &mut frame).expect("fits");
        self.frames.push((to.instance.get() as usize - 1, frame));
    }
}

struct TransactBench {
    instances: Vec<Instance<SimulatedDisk>>,
    sent: Vec<OutputFrames>,
    now: ClockReading,
    /// Frames between instances, and bytes of them.
    frames: (u64, u64),
    /// Times that messages were delivered one after the other.
    rounds: u64,
}

fn map(instances: u16, copies: usize) -> ClusterMap {
    let address = |port: u16| Address::new(&format!("127.0.0.1:{port}")).expect("is an address");
    let node = Node {
        id: NodeId(1),
        state: NodeState::Up,
        incarnation: Incarnation(11),
        manager: address(7400),
        first_instance: InstanceId(1),
        instances: (0..instances).map(|n| address(7401 + n)).collect(),
    };
    let config = KeyspaceConfig {
        durability: Durability::Interval { ms: 100 },
        partitions: PartitionCount::new(PARTITIONS).expect("is a power of two"),
        ..KeyspaceConfig::new("measured".parse().expect("is a name"), 3)
    };
    let config = config.fitted_to(1);
    let member = |n: u32| InstanceId(n % u32::from(instances) + 1);
    let group = |n: u32| ReplicaGroup {
        in_sync: (1..copies as u32).map(|other| member(n + other)).collect(),
        ..ReplicaGroup::of_one(PartitionEpoch(1), member(n))
    };
    let groups: Vec<ReplicaGroup> = (0..PARTITIONS).map(group).collect();
    let map = ClusterMap::of_one_node(node, 5).expect("is a map");
    let changes = vec![MapChange::CreateKeyspace { id: KEYSPACE, config, groups: groups.into() }];
    map.apply(&MapDelta { from: map.epoch(), to: map.epoch().next(), changes }).expect("follows")
}

impl TransactBench {
    fn new(instances: u16, copies: usize) -> TransactBench {
        let map = Arc::new(map(instances, copies));
        let now = ClockReading { unix_ms: 1_000_000, elapsed_ms: 10_000 };
        let open = |n: u32| {
            let identity = Identity {
                cluster: ClusterId([7; 16]),
                instance: InstanceId(n),
                incarnation: Incarnation(11),
            };
            let engine = EngineOptions { disk_reserve_bytes: 0, ..EngineOptions::default() };
            let (disk, history) = (SimulatedDisk::new(u64::from(n)), MapHistory::new(map.clone()));
            Instance::open(disk, InstanceOptions { identity, engine }, history, now).expect("opens").0
        };
        let instances: Vec<_> = (1..=u32::from(instances)).map(open).collect();
        let sent = instances.iter().map(|_| OutputFrames::default()).collect();
        TransactBench { instances, sent, now, frames: (0, 0), rounds: 0 }
    }

    fn pass_ms(&mut self, ms: u64) {
        self.now.unix_ms += ms;
        self.now.elapsed_ms += ms;
    }

    /// Batches end, and what is said arrives, until nothing more is said.
    fn settle(&mut self) {
        let decoder = Decoder::with_version(zerohop_wire::GREETING_VERSION, Features::default());
        loop {
            let mut sent_frames = Vec::new();
            for (instance, sent) in self.instances.iter_mut().zip(&mut self.sent) {
                instance.end_of_batch(self.now, sent);
                for timestamp_bound in std::mem::take(&mut sent.timestamp_bounds) {
                    instance.timestamp_bound_synced(timestamp_bound);
                }
                sent_frames.append(&mut sent.frames);
            }
            if sent_frames.is_empty() {
                return;
            }
            self.rounds += 1;
            for (to, bytes) in sent_frames {
                self.frames.0 += 1;
                self.frames.1 += bytes.len() as u64;
                let DecodeResult::Frame { frame, .. } = decoder.decode(&bytes) else { panic!("no frame") };
                let mut scratch = Vec::new();
                let message = frame.message(&mut scratch).expect("was encoded so");
                assert!(matches!(&message, Message::Peer(PeerMessage { .. })), "is to a peer");
                let token = Token { connection: 9, request: RequestId(0) };
                let (instance, sent) = (&mut self.instances[to], &mut self.sent[to]);
                instance.request(self.now, token, &frame.envelope, &message, sent);
            }
        }
    }

    fn answered(&self) -> (u64, u64) {
        self.sent.iter().fold((0, 0), |sum, one| (sum.0 + one.answered, sum.1 + one.wrong))
    }
}

/// A request as a frame has it: receiver and contents.
struct RequestFrame {
    to: usize,
    envelope: Envelope,
    key: String,
    stamp: Stamp,
    parts: Option<Bytes>,
}

/// Numbers that look drawn, and are the same each time.
fn drawn(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *seed >> 33
}

const VALUE: [u8; 132] = [b'v'; 132];

fn prepare(
    map: &ClusterMap,
    (keys, is_txn): (usize, bool),
    (number, clients): (u64, u64),
    seed: &mut u64,
) -> RequestFrame {
    let found = map.keyspace(KEYSPACE).expect("is there");
    let config = found.config();
    let mut drawn_keys: Vec<String> = Vec::new();
    while drawn_keys.len() < keys {
        let key = format!("key-{:011}", drawn(seed) % RECORDS);
        if !drawn_keys.contains(&key) {
            drawn_keys.push(key);
        }
    }
    let mut parts: Vec<TransactionPart> = Vec::new();
    for key in &drawn_keys {
        let change = WriteChange::Insert(Insert { value: &VALUE, expiry: Expiry::Never });
        let operation =
            RecordOperation::Write(RecordWrite { key: key.as_bytes(), condition: Condition::Always, change });
        let mut bytes = Vec::new();
        pack(&operation, &mut bytes).expect("fits");
        let hash = config.hash.hash(config.seed, key.as_bytes());
        let body = ItemBody::Inline(Bytes::from(bytes));
        let item = TransactionItem { lock_key: hash, access: Access::of(&operation), seen: None, body };
        let partition = partition_of(hash, config.partitions);
        let point = u64::from(partition.0) << (64 - config.partitions.bits());
        let place = Point { keyspace: KEYSPACE, point };
        match parts.iter_mut().find(|part| part.routing_key == place) {
            Some(TransactionPart { items: Items::Inline(items), .. }) => items.push(item),
            _ => parts.push(TransactionPart {
                routing_key: place,
                durability: PartDurability::Interval,
                items: Items::Inline(vec![item]),
            }),
        }
    }
    parts.sort_by_key(TransactionPart::order);
    let partition = partition_of(parts.last().expect("has one").routing_key.point, config.partitions);
    let group = found.group(partition).expect("is there");
    let sequence = Sequence(number / clients + 1);
    let session = SessionId { issued: Timestamp(1_000_000 << 16), nonce: 5 + number % clients };
    let stamp = Stamp { session, sequence, lowest_unanswered: sequence, seen: Timestamp::ZERO };
    let envelope =
        Envelope { keyspace: KEYSPACE, partition, partition_epoch: group.epoch, ..Envelope::default() };
    let key = drawn_keys.pop().expect("has one");
    let parts = is_txn.then(|| Bytes::from(encode_parts(&parts)));
    RequestFrame { to: group.primary.get() as usize - 1, envelope, key, stamp, parts }
}

/// What is counted.
#[inline(never)]
fn measured(world: &mut TransactBench, requests: &[RequestFrame], clients: usize) {
    play(world, requests, clients);
}

#[inline(never)]
fn play(world: &mut TransactBench, requests: &[RequestFrame], clients: usize) {
    for (number, requests) in requests.chunks(clients).enumerate() {
        for RequestFrame { to, envelope, key, stamp, parts } in requests {
            let change = WriteChange::Insert(Insert { value: &VALUE, expiry: Expiry::Never });
            let write = RecordWrite { key: key.as_bytes(), condition: Condition::Always, change };
            let message = match parts {
                Some(parts) => Message::Transact(Transact { stamp: *stamp, parts }),
                None => Message::Write { stamp: Stamp::default(), write },
            };
            let token = Token { connection: 1, request: RequestId(number as u64) };
            world.instances[*to].request(world.now, token, envelope, &message, &mut world.sent[*to]);
        }
        world.settle();
        world.pass_ms(1);
        for instance in &mut world.instances {
            instance.maintain(world.now);
        }
    }
}

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, otherwise: u64| {
        arguments.get(at).map_or(otherwise, |text| text.parse().expect("is a number"))
    };
    let is_txn = arguments.first().is_none_or(|kind| kind == "txn");
    let (instances, copies) = (number(1, 1) as u16, number(2, 1) as usize);
    let (keys, count, clients) = (number(3, 2) as usize, number(4, 2_000), number(5, 8).max(1));
    let mut world = TransactBench::new(instances, copies);
    // Leases are asked for, and granted.
    for _ in 0..400 {
        world.pass_ms(5);
        world.settle();
    }
    let map = world.instances[0].map().clone();
    let (mut seed, warm) = (1, RECORDS.min(count));
    let all: Vec<RequestFrame> = (0..warm + count)
        .map(|number| {
            let keys = if is_txn { keys } else { 1 };
            prepare(&map, (keys, is_txn), (number, clients), &mut seed)
        })
        .collect();
    let (first, then) = all.split_at(warm as usize);
    play(&mut world, first, clients as usize);
    let (frames, rounds, answered) = (world.frames, world.rounds, world.answered().0);
    measured(&mut world, then, clients as usize);
    let (all, wrong) = world.answered();
    let per = |many: u64| many as f64 / count as f64;
    writeln!(
        std::io::stdout(),
        "{count} requests: {} answered, {wrong} wrong; each {:.2} frames of {:.0} bytes; {:.2} rounds a batch",
        all - answered,
        per(world.frames.0 - frames.0),
        per(world.frames.1 - frames.1),
        per(world.rounds - rounds) * clients as f64,
    )
}
