//! Transactions over partitions of two instances of a node, as single frames.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use zerohop_placement::{ClusterMap, MapDelta};
use zerohop_server::Server;
use zerohop_transaction::codec::encode_parts;
use zerohop_transaction::{
    Access, Durability, ItemBody, Items, RoutingKey, TransactionItem, TransactionPart,
};
use zerohop_wire::ids::{InstanceId, KeyspaceId, MapEpoch, RequestId, Sequence, SessionId, Timestamp};
use zerohop_wire::messages::{
    CompareSwap, Condition, Expiry, Extend, Hello, Increment, Insert, MapGet, Outcome, Query,
    RecordOperation, RecordRead, RecordWrite, SessionOpen, Stamp, Transact, WriteChange,
};
use zerohop_wire::{
    AbortReason, DecodeResult, Decoder, Encoder, Envelope, Failure, Features, GREETING_VERSION, Message, pack,
};

use crate::server::support::{block_on, client, create, fixed_ports, on};
use crate::support::give_up::GIVE_UP_AFTER;

/// A connection to one instance.
struct InstanceConnection {
    stream: TcpStream,
    bytes: Vec<u8>,
    requests: u64,
}

impl InstanceConnection {
    fn to(address: SocketAddr) -> InstanceConnection {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(GIVE_UP_AFTER)).unwrap();
        let mut wire = InstanceConnection { stream, bytes: Vec::new(), requests: 0 };
        let hello = Message::Hello(Hello {
            version_min: zerohop_wire::limits::VERSION_MIN,
            version_max: zerohop_wire::limits::VERSION_MAX,
            features: Features::default(),
            cluster: Default::default(),
            map_epoch: Default::default(),
            proof_method: 0,
            nonce: [0; 32],
            name: "test",
        });
        wire.request(Envelope::default(), &hello, |message| assert!(matches!(message, Message::HelloAck(_))));
        wire
    }

    fn send(&mut self, envelope: Envelope, message: &Message<'_>) -> u64 {
        self.requests += 1;
        let mut bytes = Vec::new();
        let envelope = Envelope { request: RequestId(self.requests), ..envelope };
        Encoder::newest_for(message).encode(&envelope, message, &mut bytes).unwrap();
        self.stream.write_all(&bytes).unwrap();
        self.requests
    }

    /// The next answer, to any request.
    fn next<T>(&mut self, take: impl FnOnce(u64, &Message<'_>) -> T) -> T {
        loop {
            // A greeting has a version of its own.
            let version = self.bytes.get(3).copied().unwrap_or(GREETING_VERSION);
            let decoder = Decoder::with_version(version, Features::default());
            if let DecodeResult::Frame { frame, used } = decoder.decode(&self.bytes) {
                let mut scratch = Vec::new();
                let result = take(frame.envelope.request.0, &frame.message(&mut scratch).unwrap());
                self.bytes.drain(..used);
                return result;
            }
            let mut chunk = [0; 4096];
            let read = self.stream.read(&mut chunk).unwrap();
            assert!(read > 0, "the connection has ended");
            self.bytes.extend_from_slice(&chunk[..read]);
        }
    }

    fn request<T>(
        &mut self,
        envelope: Envelope,
        message: &Message<'_>,
        take: impl FnOnce(&Message<'_>) -> T,
    ) -> T {
        let sent = self.send(envelope, message);
        self.next(|request, message| {
            assert_eq!(request, sent);
            take(message)
        })
    }
}

/// A node's instances, its map, and a session.
pub(crate) struct NodeClient {
    connections: Vec<(InstanceId, InstanceConnection)>,
    map: ClusterMap,
    keyspace: KeyspaceId,
    session: SessionId,
}

impl NodeClient {
    pub(crate) fn of(server: &Server, keyspace: KeyspaceId) -> NodeClient {
        let connections =
            server.instances().iter().map(|(id, address)| (*id, InstanceConnection::to(*address)));
        let mut connections: Vec<_> = connections.collect();
        let get = Message::MapGet(MapGet { since: MapEpoch(0) });
        let map = connections[0].1.request(Envelope::default(), &get, |message| {
            let Message::Map(map) = message else { panic!("no map: {message:?}") };
            ClusterMap::default().apply(&MapDelta::decode(map.encoded).unwrap()).unwrap()
        });
        let open = Message::SessionOpen(SessionOpen);
        let session = connections[0].1.request(Envelope::default(), &open, |message| {
            let Message::SessionOpened(opened) = message else { panic!("no session: {message:?}") };
            opened.session
        });
        NodeClient { connections, map, keyspace, session }
    }

    fn wire(&mut self, instance: InstanceId) -> &mut InstanceConnection {
        &mut self.connections.iter_mut().find(|(id, _)| *id == instance).unwrap().1
    }

    fn envelope(&self, key: &str) -> (InstanceId, Envelope) {
        let route = self.map.route(self.keyspace, key.as_bytes()).unwrap();
        let (partition, partition_epoch) = (route.partition, route.epoch);
        let keyspace = self.keyspace;
        (route.instance, Envelope { keyspace, partition, partition_epoch, ..Envelope::default() })
    }

    /// A key of an instance; each number gives another.
    pub(crate) fn key(&self, instance: InstanceId, number: usize) -> String {
        let mut keys = (0..).map(|n| format!("key-{n}")).filter(|key| self.envelope(key).0 == instance);
        keys.nth(number).unwrap()
    }

    pub(crate) fn parts(
        &self,
        durability: Durability,
        changes: &[(&str, WriteChange<'_>)],
    ) -> Vec<TransactionPart> {
        let config = self.map.keyspace(self.keyspace).unwrap().config().clone();
        let mut parts: Vec<TransactionPart> = Vec::new();
        for (key, change) in changes {
            let write = RecordWrite { key: key.as_bytes(), condition: Condition::Always, change: *change };
            let operation = RecordOperation::Write(write);
            let mut bytes = Vec::new();
            pack(&operation, &mut bytes).unwrap();
            let hash = config.hash.hash(config.seed, key.as_bytes());
            let body = ItemBody::Inline(bytes.into());
            let item = TransactionItem { lock_key: hash, access: Access::of(&operation), seen: None, body };
            let point = u64::from(self.envelope(key).1.partition.0) << (64 - config.partitions.bits());
            let place = RoutingKey { keyspace: self.keyspace, point };
            match parts.iter_mut().find(|part| part.routing_key == place) {
                Some(TransactionPart { items: Items::Inline(items), .. }) => items.push(item),
                _ => parts.push(TransactionPart {
                    routing_key: place,
                    durability,
                    items: Items::Inline(vec![item]),
                }),
            }
        }
        parts.sort_by_key(TransactionPart::order);
        parts
    }

    /// Sends a transaction and does not wait. The key is one of the coordinator's.
    pub(crate) fn transact(
        &mut self,
        sequence: u64,
        coordinator: &str,
        parts: &[TransactionPart],
    ) -> InstanceId {
        self.transact_bytes(sequence, coordinator, &encode_parts(parts))
    }

    /// The same with encoded parts.
    pub(crate) fn transact_bytes(&mut self, sequence: u64, coordinator: &str, parts: &[u8]) -> InstanceId {
        let (instance, envelope) = self.envelope(coordinator);
        let stamp = Stamp {
            session: self.session,
            sequence: Sequence(sequence),
            lowest_unanswered: Sequence(1),
            seen: Timestamp::ZERO,
        };
        self.wire(instance).send(envelope, &Message::Transact(Transact { stamp, parts }));
        instance
    }

    pub(crate) fn outcome(&mut self, of: InstanceId) -> Result<(Timestamp, Vec<String>), Failure<'static>> {
        self.wire(of).next(|_, message| match message {
            Message::Transacted(transacted) => Ok((
                transacted.version,
                transacted.answers.iter().map(|one| format!("{:?}", one.0)).collect(),
            )),
            Message::Answer(Err(failure)) => Err(failure.clone().into_owned()),
            other => panic!("no outcome: {other:?}"),
        })
    }

    pub(crate) fn value(&mut self, key: &str) -> Option<(Timestamp, String)> {
        let (instance, envelope) = self.envelope(key);
        let read = RecordRead { key: key.as_bytes(), query: Query::Lookup };
        let read = Message::Read { seen: Timestamp::ZERO, read };
        self.wire(instance).request(envelope, &read, |message| match message {
            Message::Answer(Ok(Outcome::Value { version, bytes, .. })) => {
                Some((*version, String::from_utf8_lossy(bytes).into_owned()))
            }
            Message::Answer(Err(Failure::NotFound)) => None,
            other => panic!("no value: {other:?}"),
        })
    }
}

pub(crate) fn insert(value: &str) -> WriteChange<'_> {
    WriteChange::Insert(Insert { value: value.as_bytes(), expiry: Expiry::Never })
}

/// The key of the coordinator: its partition is the last in the global order.
pub(crate) fn coordinator<'k>(node: &NodeClient, keys: &[&'k str]) -> &'k str {
    keys.iter().max_by_key(|key| node.envelope(key).1.partition).unwrap()
}

#[test]
fn transaction_over_two_instances_runs_once_and_survives_restart() {
    let folder = tempfile::tempdir().unwrap();
    let listen = fixed_ports();
    let server = Server::start(on(folder.path(), listen)).unwrap();
    let keyspace = block_on(async { create(&client(&server).await, "accounts", Some("sync")).await });
    let keyspace = KeyspaceId(keyspace.id);
    let mut node = NodeClient::of(&server, keyspace);
    let (one, other) = (node.key(InstanceId(1), 0), node.key(InstanceId(2), 0));
    let last = coordinator(&node, &[&one, &other]);
    let parts = node.parts(
        Durability::Sync,
        &[(&one, insert("a")), (&other, insert("b")), (&one, WriteChange::Extend(Extend { bytes: b"c" }))],
    );
    let instance = node.transact(1, last, &parts);
    let outcome = node.outcome(instance).unwrap();
    assert_eq!(outcome.1.len(), 3);
    assert_eq!(node.value(&one), Some((outcome.0, "ac".to_owned())));
    assert_eq!(node.value(&other), Some((outcome.0, "b".to_owned())));
    // The same transaction again, under its sequence number.
    let instance = node.transact(1, last, &parts);
    assert_eq!(node.outcome(instance), Ok(outcome.clone()));
    // Many transactions that conflict, with single writes in between: each is executed once.
    let counters = [node.key(InstanceId(1), 1), node.key(InstanceId(2), 1), node.key(InstanceId(2), 2)];
    let mut instances = Vec::new();
    for sequence in 2..40 {
        let add = WriteChange::Increment(Increment { delta: 1 });
        let changes = [0, 1].map(|n| (counters[(sequence + n) % 3].as_str(), add));
        let parts = node.parts(Durability::Sync, &changes);
        let last = coordinator(&node, &changes.map(|(key, _)| key));
        instances.push(node.transact(sequence as u64, last, &parts));
    }
    for instance in instances {
        let outcome = node.outcome(instance).unwrap();
        assert_eq!(outcome.1.len(), 2);
    }
    let counts: u64 = counters.iter().map(|key| node.value(key).unwrap().1.parse::<u64>().unwrap()).sum();
    assert_eq!(counts, 2 * 38);
    // A transaction that fails has no effect.
    let swap = WriteChange::CompareSwap(CompareSwap { expected: Some(b"no"), new: None });
    let parts = node.parts(Durability::Sync, &[(&one, insert("x")), (&other, swap)]);
    let instance = node.transact(40, last, &parts);
    let failure = node.outcome(instance).unwrap_err();
    assert!(matches!(failure, Failure::Aborted { reason: AbortReason::ConditionFailed, .. }), "{failure:?}");
    assert_eq!(node.value(&one), Some((outcome.0, "ac".to_owned())));
    // The node stops when one is just decided and the participant may not have learned of it.
    let parts_of_last = node.parts(Durability::Sync, &[(&one, insert("last")), (&other, insert("last"))]);
    let instance_of_last = node.transact(41, last, &parts_of_last);
    let last_outcome = node.outcome(instance_of_last).unwrap();
    drop(node.connections.drain(..));
    server.stop().unwrap();
    let server = Server::start(on(folder.path(), listen)).unwrap();
    let session = node.session;
    let mut node = NodeClient { session, ..NodeClient::of(&server, keyspace) };
    assert_eq!(node.value(&one), Some((last_outcome.0, "last".to_owned())));
    assert_eq!(node.value(&other), Some((last_outcome.0, "last".to_owned())));
    let instance_of_last = node.transact(41, last, &parts_of_last);
    assert_eq!(node.outcome(instance_of_last), Ok(last_outcome));
    let instance = node.transact(40, last, &parts);
    assert_eq!(node.outcome(instance), Err(failure));
    server.stop().unwrap();
}
