//! Servers that follow the protocol, over one model of the data.

use std::collections::{BTreeMap, VecDeque};

use zerohop_base::time::Time;
use zerohop_placement::{
    Address, ClusterMap, KeyspaceConfig, MapChange, MapDelta, Node, NodeState, PartitionCount, ReplicaGroup,
};
use zerohop_session::ConnectionId;
use zerohop_transaction::StageId;
use zerohop_transaction::codec::{decode_parts, decode_release};
use zerohop_wire::ids::*;
use zerohop_wire::messages::*;
use zerohop_wire::*;

use super::KEYSPACE;
use super::greetings::Greetings;
use super::random::Random;
use super::replies::{answer_of, encode, encode_read_locked, fail, refuse_greeting};
use zerohop_wire::messages::{Append, Increment, Insert, Remove};

pub const PARTITIONS: u32 = 8;

#[derive(Clone, Debug, PartialEq)]
pub enum ServerRecord {
    Bytes(Vec<u8>),
    List(Vec<Vec<u8>>),
}

/// The outcome of a write, as in the session table.
#[derive(Clone, Debug)]
pub enum RememberedOutcome {
    Done {
        version: Timestamp,
        number: u64,
    },
    Counter {
        version: Timestamp,
        value: i64,
    },
    /// Packed answers.
    Transacted {
        version: Timestamp,
        answers: Vec<u8>,
    },
    Failed(Failure<'static>),
}

#[derive(Clone, Default)]
struct RememberedSession {
    lowest: u64,
    outcomes: BTreeMap<u64, RememberedOutcome>,
}

#[derive(Clone, Default)]
pub struct Partition {
    pub records: BTreeMap<Vec<u8>, (Timestamp, ServerRecord)>,
    sessions: BTreeMap<SessionId, RememberedSession>,
    mark: Timestamp,
    pub staged: BTreeMap<StageId, Vec<u8>>,
}

/// What goes wrong with transactions, and what clients release of them.
#[derive(Debug, Default)]
pub struct CommitFaults {
    /// The reasons for which the next transactions are aborted.
    pub abort: VecDeque<AbortReason>,
    /// After so many more pieces, a full disk refuses one; and the number of released pieces.
    pub refuse_stage: Option<u32>,
    pub released: usize,
}

pub struct FakeCluster {
    pub map: ClusterMap,
    history: Vec<MapDelta>,
    pub partitions: Vec<Partition>,
    /// The epoch of the client's map, as the servers know it, by connection.
    client_epochs: BTreeMap<ConnectionId, MapEpoch>,
    pub down: Vec<String>,
    pub idle_ms: u32,
    /// Rates per mille.
    pub busy: u64,
    pub time_out: u64,
    pub expire: u64,
    pub without_delta: u64,
    /// The rate at which requested read locks are granted, and their time.
    pub read_lock_settings: u64,
    pub read_lock_us: u32,
    /// Whether it claims read locks that it has not granted.
    pub claims_read_locks: bool,
    pub read_locks: BTreeMap<Vec<u8>, Time>,
    /// Writes that were refused because of a read lock.
    pub refused_by_read_lock: u64,
    /// Scripted answers, before all others, and whether the request still takes effect.
    pub script: VecDeque<(bool, Failure<'static>)>,
    pub random: Random,
    pub features: Features,
    pub sessions_opened: u64,
    pub cluster_id: ClusterId,
    pub greetings: Greetings,
    clock: u64,
    pub commits: CommitFaults,
    /// The number of partitions of each transaction.
    pub transacted_parts: Vec<usize>,
}

impl FakeCluster {
    pub fn new(instances: u32, seed: u64) -> Self {
        let nodes: Vec<Node> = (0..instances)
            .map(|at| Node {
                id: NodeId(at + 1),
                state: NodeState::Up,
                incarnation: Incarnation(u64::from(at) + 1),
                manager: Address::new(&format!("m{at}:7400")).unwrap(),
                first_instance: InstanceId(at + 1),
                instances: vec![Address::new(&format!("i{at}:7401")).unwrap()],
            })
            .collect();
        let mut config = KeyspaceConfig::new("default".parse().unwrap(), 7).fitted_to(1);
        config.partitions = PartitionCount::new(PARTITIONS).unwrap();
        let groups = (0..PARTITIONS)
            .map(|at| ReplicaGroup::of_one(PartitionEpoch(1), InstanceId(at % instances + 1)))
            .collect();
        let mut changes: Vec<MapChange> = nodes.into_iter().map(MapChange::PutNode).collect();
        changes.push(MapChange::CreateKeyspace { id: KEYSPACE, config, groups });
        let first = MapDelta { from: MapEpoch(0), to: MapEpoch(1), changes };
        Self {
            map: ClusterMap::default().apply(&first).unwrap(),
            history: vec![first],
            partitions: (0..PARTITIONS).map(|_| Partition::default()).collect(),
            client_epochs: BTreeMap::new(),
            down: Vec::new(),
            idle_ms: 0,
            busy: 0,
            time_out: 0,
            expire: 0,
            without_delta: 0,
            read_lock_settings: 0,
            read_lock_us: 2_000,
            claims_read_locks: false,
            read_locks: BTreeMap::new(),
            refused_by_read_lock: 0,
            script: VecDeque::new(),
            random: Random::new(seed ^ 0xc1),
            features: Features::LZ4,
            sessions_opened: 0,
            cluster_id: ClusterId([9; 16]),
            greetings: Greetings::default(),
            clock: 0,
            commits: CommitFaults::default(),
            transacted_parts: Vec::new(),
        }
    }

    /// The address of a node's manager.
    pub fn address(&self, node: u32) -> String {
        format!("m{node}:7400")
    }

    pub fn listens(&self, address: &str) -> bool {
        let known = self.map.nodes().any(|node| {
            node.manager() == address || node.instances().any(|instance| instance.addr == address)
        });
        known && !self.down.iter().any(|down| down == address)
    }

    pub fn partition_of(&self, key: &str) -> PartitionId {
        self.map.keyspace(KEYSPACE).unwrap().partition(key.as_bytes())
    }

    pub fn record(&self, key: &str) -> Option<ServerRecord> {
        let partition = &self.partitions[self.partition_of(key).get() as usize];
        partition.records.get(key.as_bytes()).map(|(_, record)| record.clone())
    }

    /// How often the list of this key contains a value.
    pub fn count(&self, key: &str, value: &str) -> usize {
        match self.record(key) {
            Some(ServerRecord::List(values)) => {
                values.iter().filter(|found| *found == value.as_bytes()).count()
            }
            _ => 0,
        }
    }

    /// Moves a partition to an instance.
    pub fn move_to(&mut self, partition: PartitionId, instance: InstanceId) {
        let group = self.map.keyspace(KEYSPACE).unwrap().group(partition).unwrap();
        let group = ReplicaGroup::of_one(group.epoch.next(), instance);
        self.change(vec![MapChange::SetGroup { keyspace: KEYSPACE, partition, group }]);
    }

    /// Splits every partition: both children have all records of the parent.
    pub fn split(&mut self) {
        let parents = std::mem::take(&mut self.partitions);
        self.partitions = parents.into_iter().flat_map(|parent| [parent.clone(), parent]).collect();
        self.change(vec![MapChange::SplitKeyspace(KEYSPACE)]);
    }

    pub fn change(&mut self, changes: Vec<MapChange>) {
        let delta = MapDelta { from: self.map.epoch(), to: self.map.epoch().next(), changes };
        self.map = self.map.apply(&delta).unwrap();
        self.history.push(delta);
    }

    /// Makes a partition forget all of its sessions.
    pub fn clear_sessions(&mut self, partition: PartitionId) {
        let partition = &mut self.partitions[partition.get() as usize];
        for (session, _) in std::mem::take(&mut partition.sessions) {
            partition.mark = partition.mark.max(session.issued.next());
        }
    }

    /// The answers of the servers to a frame that arrives at `address`.
    pub fn answer_frame(
        &mut self,
        now: Time,
        id: ConnectionId,
        address: Option<String>,
        bytes: &[u8],
    ) -> Vec<Vec<u8>> {
        match Decoder::with_version(bytes[3], super::FEATURES).decode(bytes) {
            DecodeResult::Frame { frame, .. } => {
                let mut scratch = Vec::new();
                let message = frame.message(&mut scratch).expect("the session keeps to the protocol");
                let Message::Gather(requests) = message else {
                    return Vec::from_iter(self.answer(
                        now,
                        id,
                        address.as_deref(),
                        &frame.envelope,
                        message,
                    ));
                };
                assert!(self.features.has(Features::COALESCED), "no coalesced frame without the feature");
                let mut answers = Vec::new();
                for (request, place) in requests.iter().zip(1..) {
                    let message = request.message().expect("the session keeps to the protocol");
                    let envelope = request.envelope(&frame.envelope, place);
                    answers.extend(self.answer(now, id, address.as_deref(), &envelope, message));
                }
                self.coalesce(answers)
            }
            DecodeResult::Refused { envelope, failure, .. } => vec![fail(&envelope, failure)],
            other => panic!("the session sends frames, not {other:?}"),
        }
    }

    /// Coalesces some answers, in any order.
    fn coalesce(&mut self, mut frames: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
        let mut sent = Vec::new();
        while !frames.is_empty() {
            let mut packed = Vec::new();
            for _ in 0..1 + self.random.below(2 * frames.len() as u64) {
                if frames.is_empty() {
                    break;
                }
                let frame = frames.swap_remove(self.random.below(frames.len() as u64) as usize);
                let DecodeResult::Frame { frame, .. } =
                    Decoder::with_version(frame[3], super::FEATURES).decode(&frame)
                else {
                    panic!("an answer is a frame")
                };
                let mut body = Vec::new();
                let kind = frame.message(&mut Vec::new()).unwrap().encode_body(&mut body).unwrap().number();
                let read_lock_us = frame.envelope.read_lock_us() as u16;
                let answer =
                    GatheredAnswer { request: frame.envelope.request, kind, read_lock_us, body: &body };
                zerohop_wire::pack(&answer, &mut packed).unwrap();
            }
            let message = Message::Gathered(Elements::all(&packed).unwrap());
            sent.push(encode(&Envelope::default(), &message));
        }
        sent
    }

    fn answer(
        &mut self,
        now: Time,
        id: ConnectionId,
        address: Option<&str>,
        envelope: &Envelope,
        message: Message<'_>,
    ) -> Option<Vec<u8>> {
        let ours = self.map.epoch();
        Some(match message {
            Message::Hello(hello) => {
                self.client_epochs.insert(id, hello.map_epoch);
                let ack = HelloAck {
                    features: hello.features.common(self.features),
                    cluster: self.cluster_id,
                    map_epoch: ours,
                    ..HelloAck::default()
                };
                match self.greetings.answer(id, &hello, ack) {
                    Ok(ack) => encode(envelope, &Message::HelloAck(ack)),
                    Err(failure) => refuse_greeting(envelope, failure),
                }
            }
            Message::Prove(prove) => match self.greetings.prove(id, &prove) {
                Ok(()) => encode(envelope, &Message::Proved),
                Err(Some(failure)) => encode(envelope, &Message::Answer(Err(failure))),
                Err(None) => panic!("a proof without a challenge"),
            },
            other if self.greetings.lacks_proof(id) => {
                panic!("before it is proved, the session asks {other:?}")
            }
            Message::Ping(_) => encode(envelope, &Message::Pong(Pong { map_epoch: ours, now: Timestamp(0) })),
            Message::SessionOpen(_) => {
                self.sessions_opened += 1;
                let session = SessionId { issued: self.tick(now), nonce: self.random.next() };
                encode(envelope, &Message::SessionOpened(SessionOpened { session, idle_ms: self.idle_ms }))
            }
            Message::MapGet(MapGet { since }) => {
                let encoded = self.delta(since);
                self.client_epochs.insert(id, ours);
                encode(envelope, &Message::Map(Map { epoch: ours, since, encoded: &encoded }))
            }
            Message::Admin(Admin { encoded }) => encode(envelope, &Message::AdminAnswer(Admin { encoded })),
            Message::Read { .. }
            | Message::Write { .. }
            | Message::Batch(_)
            | Message::Scan(_)
            | Message::Transact(_)
            | Message::Stage(_) => {
                return self.serve(now, id, address, envelope, message);
            }
            other => panic!("the session asks {other:?}"),
        })
    }

    fn serve(
        &mut self,
        now: Time,
        id: ConnectionId,
        address: Option<&str>,
        envelope: &Envelope,
        message: Message<'_>,
    ) -> Option<Vec<u8>> {
        let keyspace = self.map.keyspace(envelope.keyspace).expect("the tests use one keyspace");
        let group = keyspace.group(envelope.partition).unwrap();
        let owner = self.map.instance(group.primary).unwrap().addr;
        if address.is_some_and(|address| address != owner) || group.epoch != envelope.partition_epoch {
            return Some(self.wrong_owner(id, envelope));
        }
        if let Some((carried_out, failure)) = self.script.pop_front() {
            if carried_out {
                self.evaluate(now, envelope, message);
            }
            return Some(fail(envelope, failure));
        }
        if self.random.chance(self.expire) {
            self.clear_sessions(envelope.partition);
        }
        if self.random.chance(self.busy) {
            let retry_after_ms = self.random.below(5) as u32;
            return Some(fail(envelope, Failure::Busy { retry_after_ms }));
        }
        if self.random.chance(self.time_out) {
            if self.random.chance(500) {
                self.evaluate(now, envelope, message);
            }
            return Some(fail(envelope, Failure::TimedOut { version: Timestamp(0) }));
        }
        self.evaluate(now, envelope, message)
    }

    fn evaluate(&mut self, now: Time, envelope: &Envelope, message: Message<'_>) -> Option<Vec<u8>> {
        let at = envelope.partition;
        if self.changes_locked_record(now, &message) {
            self.refused_by_read_lock += 1;
            return Some(fail(envelope, Failure::Busy { retry_after_ms: 1 }));
        }
        let read_lock_us = self.grant_read_lock(now, envelope, &message);
        Some(match message {
            Message::Read { read, .. } => self.read(envelope, at, read, |answer| {
                encode_read_locked(envelope, read_lock_us, &Message::Answer(answer))
            }),
            Message::Write { stamp, write } => {
                let kept = self.write(now, at, stamp.session, stamp.sequence, stamp, &write)?;
                encode(envelope, &Message::Answer(answer_of(&kept)))
            }
            Message::Batch(batch) => {
                let mut packed = Vec::new();
                let mut count = 0;
                for (sequence, operation) in batch.numbered() {
                    match operation {
                        RecordOperation::Read(read) => {
                            self.read(envelope, at, read, |answer| {
                                zerohop_wire::pack(&answer, &mut packed).unwrap()
                            });
                        }
                        RecordOperation::Write(write) => {
                            let kept =
                                self.write(now, at, batch.stamp.session, sequence, batch.stamp, &write)?;
                            zerohop_wire::pack(&answer_of(&kept), &mut packed).unwrap();
                        }
                    }
                    count += 1;
                }
                let answers = Message::BatchAnswer(Elements::packed(count, &packed).unwrap());
                encode_read_locked(envelope, read_lock_us, &answers)
            }
            Message::Scan(scan) => self.scan(envelope, at, &scan),
            Message::Stage(StageBytes { stamp, piece }) => {
                if self.commits.refuse_stage.take_if(|skip| *skip == 0).is_some() {
                    return Some(encode(envelope, &Message::Answer(Err(Failure::DiskFull))));
                }
                self.commits.refuse_stage = self.commits.refuse_stage.map(|skip| skip - 1);
                let kept = self.once(now, at, stamp, |cluster, version| {
                    if let Some(pieces) = decode_release(piece).expect("is one or the other") {
                        let (staged, session) =
                            (&mut cluster.partitions[at.get() as usize].staged, stamp.session);
                        let is_there = |sequence| staged.remove(&StageId { session, sequence }).is_some();
                        cluster.commits.released +=
                            pieces.into_iter().map(is_there).filter(|is_there| *is_there).count();
                        return RememberedOutcome::Done { version, number: 0 };
                    }
                    let id = StageId { session: stamp.session, sequence: stamp.sequence };
                    cluster.partitions[at.get() as usize].staged.insert(id, piece.to_vec());
                    RememberedOutcome::Done { version, number: 0 }
                })?;
                encode(envelope, &Message::Answer(answer_of(&kept)))
            }
            Message::Transact(Transact { stamp, parts }) => {
                let parts = decode_parts(parts).expect("the session sends parts");
                let kept = self.once(now, at, stamp, |cluster, version| cluster.transact(&parts, version))?;
                match &kept {
                    RememberedOutcome::Transacted { version, answers } => {
                        let answers = Elements::all(answers).unwrap();
                        let version = *version;
                        encode(envelope, &Message::Transacted(TransactionDone { version, answers }))
                    }
                    other => encode(envelope, &Message::Answer(answer_of(other))),
                }
            }
            _ => unreachable!("only operations are served"),
        })
    }

    pub fn read<R>(
        &mut self,
        _envelope: &Envelope,
        at: PartitionId,
        read: RecordRead<'_>,
        tell: impl FnOnce(OperationAnswer<'_>) -> R,
    ) -> R {
        let found = self.partitions[at.get() as usize].records.get(read.key);
        if let Query::Confirm(Confirm { version: seen }) = read.query {
            let version = found.map_or(Timestamp::ZERO, |(version, _)| *version);
            return tell(Ok(Outcome::Done { version, number: u64::from(version == seen) }));
        }
        match found {
            None => tell(Err(Failure::NotFound)),
            Some((version, ServerRecord::Bytes(bytes))) => {
                tell(Ok(Outcome::Value { version: *version, length: bytes.len() as u64, bytes }))
            }
            Some((version, ServerRecord::List(values))) => {
                let values: Vec<&[u8]> = values.iter().map(|value| &value[..]).collect();
                let (version, length, values) =
                    (*version, values.len() as u64, Elements::from_slice(&values[..]));
                tell(Ok(Outcome::List { version, length, first: 0, values }))
            }
        }
    }

    /// `None`: the request is dropped, as its number is below the lowest unanswered one.
    fn write(
        &mut self,
        now: Time,
        at: PartitionId,
        session: SessionId,
        sequence: Sequence,
        stamp: Stamp,
        write: &RecordWrite<'_>,
    ) -> Option<RememberedOutcome> {
        let stamp = Stamp { session, sequence, ..stamp };
        self.once(now, at, stamp, |cluster, version| {
            apply(&mut cluster.partitions[at.get() as usize].records, version, write)
        })
    }

    /// Runs `work` unless the write is done already. `None`: dropped, its number is too low.
    fn once(
        &mut self,
        now: Time,
        at: PartitionId,
        stamp: Stamp,
        work: impl FnOnce(&mut Self, Timestamp) -> RememberedOutcome,
    ) -> Option<RememberedOutcome> {
        let Stamp { session, sequence, .. } = stamp;
        assert!(session.is_some(), "every write of a session is numbered");
        let version = self.tick(now);
        assert!(stamp.seen < version, "the session cannot have seen the future");
        let partition = &mut self.partitions[at.get() as usize];
        if !partition.sessions.contains_key(&session) && session.issued < partition.mark {
            return Some(RememberedOutcome::Failed(Failure::SessionExpired { mark: partition.mark }));
        }
        let remembered = partition.sessions.entry(session).or_default();
        remembered.lowest = remembered.lowest.max(stamp.lowest_unanswered.0);
        let lowest = remembered.lowest;
        remembered.outcomes = remembered.outcomes.split_off(&lowest);
        if sequence.0 < lowest {
            return None;
        }
        if let Some(kept) = remembered.outcomes.get(&sequence.0) {
            return Some(kept.clone());
        }
        let kept = work(self, version);
        let partition = &mut self.partitions[at.get() as usize];
        let remembered = partition.sessions.entry(session).or_default();
        remembered.outcomes.insert(sequence.0, kept.clone());
        Some(kept)
    }

    fn wrong_owner(&mut self, id: ConnectionId, envelope: &Envelope) -> Vec<u8> {
        let epoch = self.map.epoch();
        let since = self.client_epochs.insert(id, epoch).unwrap_or_default();
        let delta = match self.random.chance(self.without_delta) {
            true => Vec::new(),
            false => self.delta(since),
        };
        fail(envelope, Failure::WrongOwner { epoch, delta: delta.into() })
    }

    fn delta(&self, since: MapEpoch) -> Vec<u8> {
        if since == self.map.epoch() {
            return Vec::new();
        }
        let mut after = self.history.iter().filter(|delta| delta.from >= since);
        let first = after.next().unwrap().clone();
        after.fold(first, |joined, next| joined.join(next).unwrap()).encode()
    }

    fn tick(&mut self, now: Time) -> Timestamp {
        let physical = Timestamp::from_millis(1_700_000_000_000 + now.0 / 1000).0;
        self.clock = physical.max(self.clock + 1);
        Timestamp(self.clock)
    }
}

pub fn apply(
    records: &mut BTreeMap<Vec<u8>, (Timestamp, ServerRecord)>,
    version: Timestamp,
    write: &RecordWrite<'_>,
) -> RememberedOutcome {
    let found = records.get(write.key).cloned();
    if write.condition == Condition::IfAbsent
        && let Some((version, _)) = found
    {
        let found = Some(RecordType::Bytes);
        return RememberedOutcome::Failed(Failure::ConditionFailed { version, found });
    }
    let (record, kept) = match write.change {
        WriteChange::Insert(Insert { value, .. }) => {
            (ServerRecord::Bytes(value.to_vec()), RememberedOutcome::Done { version, number: 0 })
        }
        WriteChange::Append(Append { values }) => {
            let mut list = match found {
                None => Vec::new(),
                Some((_, ServerRecord::List(list))) => list,
                Some(_) => return RememberedOutcome::Failed(Failure::WrongType { found: RecordType::Bytes }),
            };
            list.extend(values.iter().map(<[u8]>::to_vec));
            let number = list.len() as u64;
            (ServerRecord::List(list), RememberedOutcome::Done { version, number })
        }
        WriteChange::Increment(Increment { delta }) => {
            let old: i64 = match found {
                None => 0,
                Some((_, ServerRecord::Bytes(text))) => String::from_utf8(text).unwrap().parse().unwrap(),
                Some(_) => return RememberedOutcome::Failed(Failure::WrongType { found: RecordType::List }),
            };
            let value = old + delta;
            (
                ServerRecord::Bytes(value.to_string().into_bytes()),
                RememberedOutcome::Counter { version, value },
            )
        }
        WriteChange::Remove(Remove) => {
            let number = u64::from(records.remove(write.key).is_some());
            return RememberedOutcome::Done { version, number };
        }
        _ => return RememberedOutcome::Failed(BadRequestReason::ItemKind.into()),
    };
    records.insert(write.key.to_vec(), (version, record));
    kept
}
