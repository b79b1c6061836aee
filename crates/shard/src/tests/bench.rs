//! An instance on a simulated disk, and its answers.

use std::collections::BTreeMap;
use std::sync::Arc;

use zerohop_engine::EngineOptions;
use zerohop_engine::disk::simulated::SimulatedDisk;
use zerohop_placement::map::DEFAULT_KEYSPACE;
use zerohop_placement::{
    Address, ClusterMap, Durability, KeyspaceConfig, MapChange, MapDelta, MapHistory, Node, NodeState,
    PartitionCount, ReplicaGroup,
};
use zerohop_wire::ids::{
    Incarnation, InstanceId, KeyspaceId, MapEpoch, NodeId, PartitionEpoch, PartitionId, RequestId, Timestamp,
};
use zerohop_wire::messages::{
    ClusterId, Condition, Expiry, Insert, OperationAnswer, Outcome, Query, RecordRead, RecordWrite, Stamp,
    Wait, WaitUntil,
};
use zerohop_wire::{Envelope, Failure, Message, messages};

use super::super::{
    AnswerOrigin, ClockReading, FlushStage, Identity, Instance, InstanceEffect, InstanceEffects,
    InstanceOptions, LargeRegion, OpenReport,
};
use zerohop_partition::Token;
use zerohop_partition::limits::READ_LOCK_MS;

pub(super) const CLUSTER: ClusterId = ClusterId([7; 16]);

/// The outputs of an instance.
#[derive(Default)]
pub(super) struct BenchOutput {
    /// Answers about records: the value, or a word for another outcome.
    pub(super) answers: BTreeMap<u64, (AnswerOrigin, Result<String, Failure<'static>>)>,
    /// The versions in some of these answers.
    pub(super) versions: BTreeMap<u64, Timestamp>,
    pub(super) maps: Vec<(u64, u64, Vec<u8>)>,
    pub(super) sessions: Vec<zerohop_wire::ids::SessionId>,
    pub(super) dropped_requests: Vec<u64>,
    pub(super) to_peers: Vec<Vec<u8>>,
    pub(super) timestamp_bounds: Vec<Timestamp>,
    pub(super) proposals: Vec<(AnswerOrigin, zerohop_replication::GroupChange)>,
    pub(super) drained: Vec<(KeyspaceId, MapEpoch)>,
    pub(super) large_regions: Vec<LargeRegion>,
    /// Stages of flushes, each with the number of answers before it.
    pub(super) flushes: Vec<(FlushStage, usize)>,
    pub(super) broken: Vec<(PartitionId, &'static str)>,
}

impl InstanceEffects for BenchOutput {
    fn push(&mut self, effect: InstanceEffect<'_>) {
        match effect {
            InstanceEffect::Answer { to, place, message } => self.answer(to, place, message),
            InstanceEffect::Reply { to, bytes } => self.reply(to, bytes),
            InstanceEffect::Dropped { to } => self.dropped_requests.push(to.request.0),
            InstanceEffect::Send { to, envelope, message } => self.send(to, envelope, message),
            InstanceEffect::ProposeChange { place, change } => self.proposals.push((place, change)),
            InstanceEffect::SyncTimestampBound(timestamp_bound) => {
                self.timestamp_bounds.push(timestamp_bound)
            }
            InstanceEffect::Drained { keyspace, map } => self.drained.push((keyspace, map)),
            InstanceEffect::SplitRegion(large) => self.large_regions.push(large.clone()),
            InstanceEffect::InvariantBroken { partition, broken, .. } => {
                self.broken.push((partition, broken.rule))
            }
            InstanceEffect::Flush(stage) => self.flushes.push((stage, self.answers.len())),
            InstanceEffect::FetchMap => {}
        }
    }
}

impl BenchOutput {
    fn answer(&mut self, to: Token, place: AnswerOrigin, message: &Message<'_>) {
        if let Message::Answer(Ok(Outcome::Done { version, .. })) = message {
            self.versions.insert(to.request.0, *version);
        }
        let answer = match message {
            Message::Answer(answer) => answer_text(answer),
            Message::Transacted(transacted) => {
                let mut answers = String::new();
                transacted.answers.iter().for_each(|one| answers += &format!(" {:?}", one.0));
                Ok(format!("transacted {} at {}{answers}", transacted.answers.len(), transacted.version))
            }
            Message::Map(map) => {
                self.maps.push((map.epoch.0, map.since.0, map.encoded.to_vec()));
                Ok("map".to_owned())
            }
            Message::SessionOpened(opened) => {
                self.sessions.push(opened.session);
                Ok("session".to_owned())
            }
            Message::Pong(pong) => Ok(format!("pong {}", pong.map_epoch)),
            other => panic!("not expected: {other:?}"),
        };
        let before = self.answers.insert(to.request.0, (place, answer));
        assert!(before.is_none(), "{to:?} is answered once");
    }

    fn reply(&mut self, to: Token, bytes: &[u8]) {
        let place = AnswerOrigin::default();
        let text = Ok(String::from_utf8_lossy(bytes).into_owned());
        assert!(self.answers.insert(to.request.0, (place, text)).is_none(), "{to:?} is answered once");
    }

    fn send(&mut self, _to: messages::Member, envelope: &Envelope, message: &Message<'_>) {
        let mut frame = Vec::new();
        zerohop_wire::Encoder::default().encode(envelope, message, &mut frame).expect("fits");
        self.to_peers.push(frame);
    }
}

fn answer_text(answer: &OperationAnswer<'_>) -> Result<String, Failure<'static>> {
    match answer {
        Ok(Outcome::Value { bytes, .. }) => Ok(String::from_utf8_lossy(bytes).into_owned()),
        Ok(Outcome::Done { version: Timestamp::ZERO, number: 0 }) => Ok("done 0".to_owned()),
        Ok(Outcome::Done { .. }) => Ok("done".to_owned()),
        Ok(other) => Ok(format!("{other:?}")),
        Err(failure) => Err(failure.clone().into_owned()),
    }
}

pub(super) struct InstanceBench {
    pub(super) disk: SimulatedDisk,
    pub(super) instance: Instance<SimulatedDisk>,
    pub(super) sent: BenchOutput,
    pub(super) now: ClockReading,
    next: u64,
}

pub(super) fn node(instances: u16) -> Node {
    let address = |port: u16| Address::new(&format!("127.0.0.1:{port}")).expect("is an address");
    Node {
        id: NodeId(1),
        state: NodeState::Up,
        incarnation: Incarnation(11),
        manager: address(7400),
        first_instance: InstanceId(1),
        instances: (0..instances).map(|n| address(7401 + n)).collect(),
    }
}

pub(super) fn first_map(instances: u16) -> ClusterMap {
    ClusterMap::of_one_node(node(instances), 5).expect("is a map")
}

pub(super) fn options() -> InstanceOptions {
    InstanceOptions {
        identity: Identity { cluster: CLUSTER, instance: InstanceId(1), incarnation: Incarnation(11) },
        engine: EngineOptions { disk_reserve_bytes: 0, ..EngineOptions::default() },
    }
}

/// A delta that creates a keyspace of four partitions.
pub(super) fn create(map: &ClusterMap, id: u32, name: &str, durability: Durability) -> MapDelta {
    create_of(map, (id, name), durability, 4)
}

/// The same with another number of partitions.
pub(super) fn create_of(
    map: &ClusterMap,
    (id, name): (u32, &str),
    durability: Durability,
    partitions: u32,
) -> MapDelta {
    let config = KeyspaceConfig {
        durability,
        partitions: PartitionCount::new(partitions).expect("is a power of two"),
        ..KeyspaceConfig::new(name.parse().expect("is a name"), 3)
    };
    let config = config.fitted_to(1);
    let node = map.nodes().next().expect("has a node").to_node();
    let groups = ReplicaGroup::spread(&config, &node);
    next(map, vec![MapChange::CreateKeyspace { id: KeyspaceId(id), config, groups: groups.into() }])
}

pub(super) fn next(map: &ClusterMap, changes: Vec<MapChange>) -> MapDelta {
    MapDelta { from: map.epoch(), to: map.epoch().next(), changes }
}

impl InstanceBench {
    pub(super) fn new() -> InstanceBench {
        InstanceBench::on(
            SimulatedDisk::new(1),
            first_map(1),
            ClockReading { unix_ms: 1_000_000, elapsed_ms: 0 },
        )
        .0
    }

    pub(super) fn on(disk: SimulatedDisk, map: ClusterMap, now: ClockReading) -> (InstanceBench, OpenReport) {
        InstanceBench::of(1, disk, map, now)
    }

    /// Another instance than the first.
    pub(super) fn of(
        instance: u32,
        disk: SimulatedDisk,
        map: ClusterMap,
        now: ClockReading,
    ) -> (InstanceBench, OpenReport) {
        InstanceBench::reserving(0, instance, disk, map, now)
    }

    /// The same, with this much of the disk kept free.
    pub(super) fn reserving(
        disk_reserve_bytes: u64,
        instance: u32,
        disk: SimulatedDisk,
        map: ClusterMap,
        now: ClockReading,
    ) -> (InstanceBench, OpenReport) {
        let history = MapHistory::new(Arc::new(map));
        let identity = Identity { instance: InstanceId(instance), ..options().identity };
        let engine = EngineOptions { disk_reserve_bytes, ..options().engine };
        let options = InstanceOptions { identity, engine };
        let (instance, opened) = Instance::open(disk.clone(), options, history, now).expect("opens");
        // From then on records can be changed that the previous process has read-locked.
        let now =
            ClockReading { unix_ms: now.unix_ms + READ_LOCK_MS, elapsed_ms: now.elapsed_ms + READ_LOCK_MS };
        (InstanceBench { disk, instance, sent: BenchOutput::default(), now, next: 0 }, opened)
    }

    /// The same after a crash, with the map that it had.
    pub(super) fn crash(self) -> (InstanceBench, OpenReport) {
        let InstanceBench { disk, instance, now, .. } = self;
        let map = ClusterMap::clone(instance.map());
        drop(instance);
        disk.crash();
        InstanceBench::on(disk, map, now)
    }

    pub(super) fn apply(&mut self, delta: &MapDelta) {
        self.instance.apply_map(self.now, delta, &mut self.sent).expect("follows");
    }

    /// Passes a request in; its answer arrives at once or at the end of the batch.
    pub(super) fn send_request(&mut self, envelope: Envelope, message: &Message<'_>) -> u64 {
        self.next += 1;
        let to = Token { connection: 1, request: RequestId(self.next) };
        let envelope = Envelope { request: to.request, ..envelope };
        self.instance.request(self.now, to, &envelope, message, &mut self.sent);
        self.next
    }

    /// Ends the batch. Its flush goes on.
    pub(super) fn end_unflushed(&mut self) {
        self.instance.end_of_batch(self.now, &mut self.sent);
    }

    /// Ends the batch, and waits for its flushes.
    pub(super) fn end(&mut self) {
        self.instance.local().end_of_batch(self.now, &mut self.sent);
    }

    pub(super) fn answer(&mut self, request: u64) -> Option<Result<String, Failure<'static>>> {
        self.sent.answers.remove(&request).map(|(_, answer)| answer)
    }

    /// The envelope that a client would send, by the map of the instance.
    pub(super) fn envelope(&self, keyspace: u32, key: &str) -> Envelope {
        let keyspace = KeyspaceId(keyspace);
        let map = self.instance.map();
        let route = map.route(keyspace, key.as_bytes());
        let (partition, epoch) = match route {
            Ok(route) => (route.partition, route.epoch),
            Err(_) => (PartitionId(0), PartitionEpoch(1)),
        };
        Envelope { keyspace, partition, partition_epoch: epoch, ..Envelope::default() }
    }

    pub(super) fn put(&mut self, keyspace: u32, key: &str, value: &str) -> u64 {
        self.put_with(keyspace, key, value, Expiry::Never)
    }

    pub(super) fn put_with(&mut self, keyspace: u32, key: &str, value: &str, expiry: Expiry) -> u64 {
        let change = messages::WriteChange::Insert(Insert { value: value.as_bytes(), expiry });
        let write = RecordWrite { key: key.as_bytes(), condition: Condition::Always, change };
        let envelope = self.envelope(keyspace, key);
        self.send_request(envelope, &Message::Write { stamp: Stamp::default(), write })
    }

    pub(super) fn get(&mut self, keyspace: u32, key: &str) -> u64 {
        let envelope = self.envelope(keyspace, key);
        self.read_at(envelope, key, Query::Lookup)
    }

    pub(super) fn wait(&mut self, keyspace: u32, key: &str, time_out_ms: u32) -> u64 {
        let envelope = Envelope { time_out_ms, ..self.envelope(keyspace, key) };
        self.read_at(envelope, key, Query::Wait(Wait { until: WaitUntil::Present }))
    }

    pub(super) fn read_at(&mut self, envelope: Envelope, key: &str, query: Query<'_>) -> u64 {
        let read = RecordRead { key: key.as_bytes(), query };
        self.send_request(envelope, &Message::Read { seen: Timestamp::ZERO, read })
    }

    /// Writes a record, ends the batch, and expects success.
    pub(super) fn store(&mut self, keyspace: u32, key: &str, value: &str) {
        let request = self.put(keyspace, key, value);
        self.end();
        assert_eq!(self.answer(request), Some(Ok("done".to_owned())));
    }

    pub(super) fn value(&mut self, keyspace: u32, key: &str) -> Result<String, Failure<'static>> {
        let request = self.get(keyspace, key);
        self.end();
        self.answer(request).expect("is answered")
    }

    pub(super) fn advance_ms(&mut self, ms: u64) {
        self.now.unix_ms += ms;
        self.now.elapsed_ms += ms;
        self.end();
        self.instance.maintain(self.now);
    }
}

/// The keyspace that exists from the start.
pub(super) const DEFAULT: u32 = DEFAULT_KEYSPACE.0;
