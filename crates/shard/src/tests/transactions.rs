//! Transactions over partitions of several instances, which exchange messages.

mod disk_full;
mod moved_primaries;
mod random;
mod read_locks;
mod readiness;
mod scans;
mod snapshots;
mod splits;
mod staging;
mod update_locks;

use bytes::Bytes;
use zerohop_engine::disk::Disk;
use zerohop_engine::disk::simulated::SimulatedDisk;
use zerohop_placement::{ClusterMap, Durability, MapChange, ReplicaGroup, partition_of};
use zerohop_transaction::codec::encode_parts;
use zerohop_transaction::{
    Access, Durability as PartDurability, ItemBody, Items, RoutingKey, TransactionItem, TransactionPart,
};
use zerohop_wire::ids::{
    InstanceId, KeyspaceId, PartitionEpoch, PartitionId, RequestId, Sequence, SessionId, Timestamp,
};
use zerohop_wire::messages::{
    Condition, Confirm, Expiry, Increment, Insert, NumberType, Operator, PeerMessage, Query, RecordOperation,
    RecordRead, RecordWrite, ReturnedNumber, StageBytes, Stamp, Transact, Transform, WriteChange,
};
use zerohop_wire::{AbortReason, DecodeResult, Decoder, Envelope, Failure, Features, Message, pack};

use super::super::ClockReading;
use super::bench::{InstanceBench, create, first_map, next};
use zerohop_partition::{Program, ProgramResult, Token, Unit, limits::INTENT_WAIT_MS};

const KEYSPACE: u32 = 9;
/// After this time, with no message lost, all completed transactions are forgotten.
const CLEANED_UP_MS: u64 = zerohop_transaction::limits::CLEANUP_QUERY_US / 1_000 + 2_000;
const SESSION: SessionId = SessionId { issued: Timestamp(1_000_000 << 16), nonce: 5 };

/// Instances, and the messages in flight between them.
struct InstanceNetwork {
    benches: Vec<InstanceBench>,
    /// Transaction messages are lost if this returns `true` for sender and receiver.
    loses: Box<dyn FnMut(usize, usize) -> bool>,
}

fn insert(key: &str, value: &'static str) -> (String, WriteChange<'static>) {
    (key.to_owned(), WriteChange::Insert(Insert { value: value.as_bytes(), expiry: Expiry::Never }))
}

fn add(key: &str, delta: i64) -> (String, WriteChange<'static>) {
    (key.to_owned(), WriteChange::Increment(Increment { delta }))
}

impl InstanceNetwork {
    fn new(instances: u16, durability: Durability) -> InstanceNetwork {
        InstanceNetwork::reserving(0, instances, durability)
    }

    /// With this much of every disk kept free.
    fn reserving(disk_reserve_bytes: u64, instances: u16, durability: Durability) -> InstanceNetwork {
        let now = ClockReading { unix_ms: 1_000_000, elapsed_ms: 10_000 };
        let one = |n: u16| {
            let disk = SimulatedDisk::new(u64::from(n));
            InstanceBench::reserving(disk_reserve_bytes, u32::from(n), disk, first_map(instances), now).0
        };
        let mut world =
            InstanceNetwork { benches: (1..=instances).map(one).collect(), loses: Box::new(|_, _| false) };
        let delta = create(world.map(), KEYSPACE, "shared", durability);
        world.benches.iter_mut().for_each(|bench| bench.apply(&delta));
        world
    }

    fn map(&self) -> &ClusterMap {
        self.benches[0].instance.map()
    }

    /// One key of each partition, in the order of partitions.
    fn keys(&self) -> Vec<String> {
        let key = |partition: u32| {
            let mut keys = (0..).map(|n| format!("key-{n}"));
            keys.find(|key| self.partition(key) == PartitionId(partition)).expect("there is one")
        };
        (0..4).map(key).collect()
    }

    fn hash(&self, key: &str) -> u64 {
        let config = self.map().keyspace(KeyspaceId(KEYSPACE)).expect("is there").config().clone();
        config.hash.hash(config.seed, key.as_bytes())
    }

    fn partition(&self, key: &str) -> PartitionId {
        self.map().route(KeyspaceId(KEYSPACE), key.as_bytes()).expect("is there").partition
    }

    fn holder(&self, key: &str) -> usize {
        let route = self.map().route(KeyspaceId(KEYSPACE), key.as_bytes()).expect("is there");
        route.instance.get() as usize - 1
    }

    fn parts(&self, level: PartDurability, changes: &[(String, WriteChange<'_>)]) -> Vec<TransactionPart> {
        let mut parts: Vec<TransactionPart> = Vec::new();
        for (key, change) in changes {
            let operation = RecordOperation::Write(RecordWrite {
                key: key.as_bytes(),
                condition: Condition::Always,
                change: *change,
            });
            self.add_item(&mut parts, level, key, &operation, None);
        }
        parts.sort_by_key(TransactionPart::order);
        parts
    }

    fn add_item(
        &self,
        parts: &mut Vec<TransactionPart>,
        durability: PartDurability,
        key: &str,
        operation: &RecordOperation<'_>,
        seen: Option<Timestamp>,
    ) {
        let mut bytes = Vec::new();
        pack(operation, &mut bytes).expect("fits");
        let hash = self.hash(key);
        let body = ItemBody::Inline(Bytes::from(bytes));
        let item = TransactionItem { lock_key: hash, access: Access::of(operation), seen, body };
        let bits = self.map().keyspace(KeyspaceId(KEYSPACE)).expect("is there").config().partitions.bits();
        let point = u64::from(self.partition(key).0) << (64 - bits);
        let place = RoutingKey { keyspace: KeyspaceId(KEYSPACE), point };
        match parts.iter_mut().find(|part| part.routing_key == place) {
            Some(TransactionPart { items: Items::Inline(items), .. }) => items.push(item),
            _ => parts.push(TransactionPart {
                routing_key: place,
                durability,
                items: Items::Inline(vec![item]),
            }),
        }
    }

    /// Sends a transaction to the coordinator's primary. Returns the instance and the request number.
    fn transact(&mut self, sequence: u64, parts: &[TransactionPart]) -> (usize, u64) {
        let encoded = encode_parts(parts);
        let coordinator = parts.last().expect("has one").routing_key;
        let found = self.map().keyspace(KeyspaceId(KEYSPACE)).expect("is there");
        let partition = partition_of(coordinator.point, found.config().partitions);
        let group = found.group(partition).expect("is there");
        let (instance, epoch) = (group.primary.get() as usize - 1, group.epoch);
        let stamp = Stamp {
            session: SESSION,
            sequence: Sequence(sequence),
            lowest_unanswered: Sequence(1),
            seen: Timestamp::ZERO,
        };
        let keyspace = KeyspaceId(KEYSPACE);
        let envelope = Envelope { keyspace, partition, partition_epoch: epoch, ..Envelope::default() };
        let message = Message::Transact(Transact { stamp, parts: &encoded });
        let number = self.benches[instance].send_request(envelope, &message);
        (instance, number)
    }

    fn answer(&mut self, (instance, number): (usize, u64)) -> Option<Result<String, Failure<'static>>> {
        self.benches[instance].answer(number)
    }

    /// Time passes, batches end, and messages arrive.
    fn run_batches(&mut self, ms: u64) {
        let decoder = Decoder::with_version(zerohop_wire::GREETING_VERSION, Features::default());
        for _ in 0..ms.div_ceil(5) {
            for at in 0..self.benches.len() {
                let bench = &mut self.benches[at];
                bench.now.unix_ms += 5;
                bench.now.elapsed_ms += 5;
                bench.end_unflushed();
                bench.instance.maintain(bench.now);
                for timestamp_bound in std::mem::take(&mut bench.sent.timestamp_bounds) {
                    bench.instance.timestamp_bound_synced(timestamp_bound);
                }
                for bytes in std::mem::take(&mut bench.sent.to_peers) {
                    let DecodeResult::Frame { frame, .. } = decoder.decode(&bytes) else {
                        panic!("no frame")
                    };
                    let mut scratch = Vec::new();
                    let message = frame.message(&mut scratch).expect("was encoded so");
                    let Message::Peer(PeerMessage { to, .. }) = &message else { panic!("not to a peer") };
                    let to = to.instance.get() as usize - 1;
                    if message.kind() == zerohop_wire::FrameKind::Transaction && (self.loses)(at, to) {
                        continue;
                    }
                    let Some(other) = self.benches.get_mut(to) else { continue };
                    let token = Token { connection: 9, request: RequestId(0) };
                    other.instance.request(other.now, token, &frame.envelope, &message, &mut other.sent);
                    other.end_unflushed();
                }
            }
        }
    }

    fn value(&mut self, key: &str) -> Option<Result<String, Failure<'static>>> {
        let at = self.read(key);
        self.run_batches(50);
        self.answer(at)
    }

    fn read(&mut self, key: &str) -> (usize, u64) {
        let holder = self.holder(key);
        (holder, self.benches[holder].get(KEYSPACE, key))
    }

    fn value_is(&mut self, key: &str, value: &str) {
        assert_eq!(self.value(key), Some(Ok(value.to_owned())), "of {key}");
    }

    /// The same after all instances have crashed.
    fn crash(self) -> InstanceNetwork {
        let map = ClusterMap::clone(self.map());
        let crash = |(n, bench): (usize, InstanceBench)| {
            let InstanceBench { disk, instance, now, .. } = bench;
            drop(instance);
            disk.crash();
            InstanceBench::of(n as u32 + 1, disk, map.clone(), now).0
        };
        InstanceNetwork {
            benches: self.benches.into_iter().enumerate().map(crash).collect(),
            loses: self.loses,
        }
    }
}

#[test]
fn transaction_over_two_instances_applies_at_one_version() {
    for (durability, expected) in [
        (Durability::Interval { ms: 100 }, PartDurability::Interval),
        (Durability::Sync, PartDurability::Sync),
        (Durability::Memory, PartDurability::Memory),
    ] {
        let mut world = InstanceNetwork::new(2, durability);
        let keys = world.keys();
        let parts = world.parts(expected, &[insert(&keys[0], "a"), insert(&keys[3], "b"), add(&keys[1], 5)]);
        assert!(parts.len() == 3 && world.holder(&keys[0]) != world.holder(&keys[3]));
        let request = world.transact(1, &parts);
        world.run_batches(100);
        let answered = world.answer(request).expect("is answered").expect("is done");
        assert!(answered.starts_with("transacted 3"), "{answered}");
        world.value_is(&keys[0], "a");
        world.value_is(&keys[3], "b");
        world.value_is(&keys[1], "5");
        // The same request again gets the same answer, and nothing is done twice.
        let again = world.transact(1, &parts);
        world.run_batches(100);
        assert_eq!(world.answer(again), Some(Ok(answered)));
        world.value_is(&keys[1], "5");
        // All is finished and forgotten, so no partition needs a tick any more.
        world.run_batches(CLEANED_UP_MS);
        assert!(world.benches.iter().all(|bench| bench.instance.transactions_are_idle()));
    }
}

#[test]
fn conflicting_transactions_queue_and_all_commit() {
    let mut world = InstanceNetwork::new(2, Durability::Sync);
    let keys = world.keys();
    let mut requests = Vec::new();
    for sequence in 1..=20 {
        let mut changes: Vec<_> = keys.iter().map(|key| add(key, 1)).collect();
        changes.rotate_left(sequence as usize % 4);
        changes.truncate(3);
        let parts = world.parts(PartDurability::Sync, &changes);
        requests.push(world.transact(sequence, &parts));
    }
    let writes: Vec<_> = keys.iter().map(|key| world.holder(key)).collect();
    for (holder, key) in writes.iter().zip(&keys) {
        let envelope = world.benches[*holder].envelope(KEYSPACE, key);
        let write = RecordWrite {
            key: key.as_bytes(),
            condition: Condition::Always,
            change: WriteChange::Increment(Increment { delta: 100 }),
        };
        world.benches[*holder].send_request(envelope, &Message::Write { stamp: Stamp::default(), write });
    }
    world.run_batches(6_000);
    for one in requests {
        let answered = world.answer(one).expect("is answered").expect("is done");
        assert!(answered.starts_with("transacted 3"), "{answered}");
    }
    keys.iter().for_each(|key| world.value_is(key, "115"));
}

#[test]
fn read_waits_for_pending_intents() {
    let mut world = InstanceNetwork::new(2, Durability::Sync);
    let keys = world.keys();
    let other = keys.iter().find(|key| world.holder(key) != world.holder(&keys[3])).expect("is one").clone();
    // The participant's answers are lost: it is prepared, and does not learn of the decision.
    world.loses = Box::new(|from, _| from == 0);
    let participant = 0;
    assert_eq!((world.holder(&keys[3]), world.holder(&other)), (1, participant));
    let parts = world.parts(PartDurability::Sync, &[insert(&other, "new"), insert(&keys[3], "new")]);
    let request = world.transact(1, &parts);
    world.run_batches(100);
    assert_eq!(world.answer(request), None);
    let read = world.read(&other);
    let envelope = world.benches[participant].envelope(KEYSPACE, &other);
    let query = Query::Confirm(Confirm { version: Timestamp::ZERO });
    let confirmed = world.benches[participant].read_at(envelope, &other, query);
    let put = world.benches[participant].put(KEYSPACE, &other, "later");
    assert_eq!(world.run(&other), Err(Failure::Busy { retry_after_ms: 10 }), "a unit comes again");
    world.run_batches(50);
    assert_eq!(world.answer(read), None, "an intent stands");
    assert_eq!(world.answer((participant, put)), None, "an intent stands");
    assert_eq!(world.answer((participant, confirmed)), Some(Ok("done 0".to_owned())), "it does not wait");
    world.loses = Box::new(|_, _| false);
    world.run_batches(600);
    assert!(world.answer(request).expect("is answered").expect("is done").starts_with("transacted 2"));
    assert_eq!(world.answer(read), Some(Ok("new".to_owned())));
    assert_eq!(world.answer((participant, put)), Some(Ok("done".to_owned())));
    world.value_is(&other, "later");
    assert!(world.run(&other).is_ok());
    world.run_batches(10);
    world.value_is(&other, "of a unit");
    world.value_is(&keys[3], "new");
}

#[test]
fn changed_read_version_aborts_the_transaction() {
    let mut world = InstanceNetwork::new(2, Durability::Sync);
    let keys = world.keys();
    for key in &keys {
        let holder = world.holder(key);
        world.benches[holder].store(KEYSPACE, key, "old");
    }
    let mut parts = world.parts(PartDurability::Sync, &[insert(&keys[0], "new")]);
    let read = RecordOperation::Read(RecordRead { key: keys[3].as_bytes(), query: Query::Lookup });
    world.add_item(&mut parts, PartDurability::Sync, &keys[3], &read, Some(Timestamp(7)));
    parts.sort_by_key(TransactionPart::order);
    let request = world.transact(1, &parts);
    world.run_batches(100);
    let failure = world.answer(request).expect("is answered").expect_err("has changed");
    assert_eq!(failure, Failure::Aborted { reason: AbortReason::ReadChanged, part: 1, item: 0 });
    world.value_is(&keys[0], "old");
    let again = world.transact(1, &parts);
    world.run_batches(100);
    assert_eq!(world.answer(again), Some(Err(failure)));
    // A condition that does not hold, at a participant.
    let write = RecordWrite {
        key: keys[0].as_bytes(),
        condition: Condition::IfAbsent,
        change: WriteChange::Insert(Insert { value: b"new", expiry: Expiry::Never }),
    };
    let mut parts = world.parts(PartDurability::Sync, &[insert(&keys[3], "new")]);
    world.add_item(&mut parts, PartDurability::Sync, &keys[0], &RecordOperation::Write(write), None);
    parts.sort_by_key(TransactionPart::order);
    let request = world.transact(2, &parts);
    world.run_batches(100);
    let expected = Failure::Aborted { reason: AbortReason::ConditionFailed, part: 0, item: 0 };
    assert_eq!(world.answer(request), Some(Err(expected)));
    world.value_is(&keys[3], "old");
}

#[test]
fn prepared_participant_learns_decision_after_restart() {
    for checkpoints in [false, true] {
        let mut world = InstanceNetwork::new(2, Durability::Sync);
        let keys = world.keys();
        let other = keys[0].clone();
        assert_eq!((world.holder(&other), world.holder(&keys[3])), (0, 1));
        let parts = world.parts(PartDurability::Sync, &[add(&other, 7), add(&keys[3], 7)]);
        // The participant is prepared, and its messages are lost.
        world.loses = Box::new(|from, _| from == 0);
        let request = world.transact(1, &parts);
        world.run_batches(50);
        assert_eq!(world.answer(request), None);
        if checkpoints {
            world.checkpoint();
        }
        let mut world = world.crash();
        let read = world.read(&other);
        world.loses = Box::new(|from, _| from == 0);
        world.run_batches(100);
        assert_eq!(world.answer(read), None, "what is prepared stands after a restart");
        world.loses = Box::new(|_, _| false);
        // The coordinator does not know the transaction any more; its client retries.
        let request = world.transact(1, &parts);
        world.run_batches(2_000);
        let answered = world.answer(request).expect("is answered");
        if let Ok(answered) = &answered {
            assert!(answered.starts_with("transacted 2"), "{answered}");
        }
        let expected = if answered.is_ok() { Ok("7".to_owned()) } else { Err(Failure::NotFound) };
        assert!(world.answer(read).is_some());
        assert_eq!(world.value(&other), Some(expected.clone()));
        assert_eq!(world.value(&keys[3]), Some(expected));
    }
}

#[test]
fn decision_survives_coordinator_restart() {
    for checkpoints in [false, true] {
        let mut world = InstanceNetwork::new(2, Durability::Sync);
        let keys = world.keys();
        let parts = world.parts(PartDurability::Sync, &[add(&keys[0], 7), add(&keys[3], 7)]);
        let request = world.transact(1, &parts);
        // Decided and answered in the second round; no participant has been notified.
        while world.benches[1].sent.answers.is_empty() {
            world.run_batches(5);
        }
        world.loses = Box::new(|from, _| from == 1);
        let answered = world.answer(request).expect("is there").expect("is done");
        if checkpoints {
            world.checkpoint();
        }
        let mut world = world.crash();
        world.loses = Box::new(|_, _| false);
        world.run_batches(2_000);
        world.value_is(&keys[0], "7");
        world.value_is(&keys[3], "7");
        let again = world.transact(1, &parts);
        world.run_batches(100);
        assert_eq!(world.answer(again), Some(Ok(answered)));
        world.value_is(&keys[0], "7");
    }
}

#[test]
fn started_transaction_continues_when_its_keyspace_is_altered() {
    let mut world = InstanceNetwork::new(2, Durability::Sync);
    let keys = world.keys();
    let participant = world.holder(&keys[0]);
    assert_ne!(participant, world.holder(&keys[3]));
    let parts = world.parts(PartDurability::Sync, &[add(&keys[0], 7), add(&keys[3], 7)]);
    world.loses = Box::new(move |from, _| from == participant);
    let request = world.transact(1, &parts);
    world.run_batches(50);
    assert_eq!(world.answer(request), None);
    let id = KeyspaceId(KEYSPACE);
    let mut config = world.map().keyspace(id).expect("is there").config().clone();
    config.durability = Durability::Interval { ms: 100 };
    let delta = next(world.map(), vec![MapChange::AlterKeyspace { id, config }]);
    world.benches.iter_mut().for_each(|bench| bench.apply(&delta));
    // Its client retries by the map under which it was planned, and another transaction starts by that map.
    let again = world.transact(1, &parts);
    let other = world.transact(2, &parts);
    world.run_batches(50);
    assert_eq!(world.answer(again), None, "it goes on");
    let failure = world.answer(other).expect("is answered").expect_err("is of another durability");
    assert!(matches!(failure, Failure::Aborted { reason: AbortReason::Misplaced, .. }), "{failure:?}");
    world.loses = Box::new(|_, _| false);
    world.run_batches(1_000);
    assert!(world.answer(again).expect("is answered").expect("is done").starts_with("transacted 2"));
    world.value_is(&keys[0], "7");
    world.value_is(&keys[3], "7");
}

#[test]
fn concurrent_transforms_are_all_applied() {
    let mut world = InstanceNetwork::new(2, Durability::Sync);
    let keys = world.keys();
    let transform = |key: &str| {
        let transform = Transform {
            operator: Operator::Add,
            number: NumberType::U64,
            operand: 1,
            offset: 0,
            returns: ReturnedNumber::Nothing,
        };
        (key.to_owned(), WriteChange::Transform(transform))
    };
    let mut requests = Vec::new();
    for sequence in 1..=9 {
        let parts = world
            .parts(PartDurability::Sync, &[transform(&keys[0]), add(&keys[1 + sequence as usize % 3], 1)]);
        requests.push(world.transact(sequence, &parts));
    }
    world.run_batches(4_000);
    for one in requests {
        let answered = world.answer(one).expect("is answered").expect("is done");
        assert!(answered.starts_with("transacted 2"), "{answered}");
    }
    let text = String::from_utf8_lossy(&9u64.to_le_bytes()).into_owned();
    world.value_is(&keys[0], &text);
}

/// An atomic batch that writes one record, whatever the result.
struct OneRecordUnit<'k>(&'k str);

impl Program for OneRecordUnit<'_> {
    fn run<D: Disk>(
        &mut self,
        unit: &mut Unit<'_, D>,
        reply: &mut Vec<u8>,
    ) -> Result<bool, Failure<'static>> {
        // As in a protocol that turns failures into text.
        let put = unit.put(self.0.as_bytes(), b"of a unit", Expiry::Never);
        reply.extend_from_slice(format!("{put:?}").as_bytes());
        Ok(true)
    }
}

impl InstanceNetwork {
    fn run(&mut self, key: &str) -> Result<ProgramResult, Failure<'static>> {
        let (holder, partition) = (self.holder(key), self.partition(key));
        let InstanceBench { instance, now, sent, .. } = &mut self.benches[holder];
        let to = Token { connection: 7, request: RequestId(1 << 40) };
        let mut reply = Vec::new();
        instance.run(*now, to, (KeyspaceId(KEYSPACE), partition), (&mut OneRecordUnit(key), &mut reply), sent)
    }

    /// All open partitions get a checkpoint, which is written.
    fn checkpoint(&mut self) {
        for bench in &mut self.benches {
            bench.instance.checkpoint_all();
            for _ in 0..100 {
                bench.now.elapsed_ms += 2;
                bench.instance.maintain(bench.now);
            }
        }
    }

    fn split(&mut self) {
        let delta = next(self.map(), vec![MapChange::SplitKeyspace(KeyspaceId(KEYSPACE))]);
        self.benches.iter_mut().for_each(|bench| bench.apply(&delta));
    }

    fn partitions(&self) -> u32 {
        self.map().keyspace(KeyspaceId(KEYSPACE)).expect("is there").config().partitions.get()
    }

    fn set_group(&mut self, partition: PartitionId, group: ReplicaGroup) {
        let changes = vec![MapChange::SetGroup { keyspace: KeyspaceId(KEYSPACE), partition, group }];
        let delta = next(self.map(), changes);
        self.benches.iter_mut().for_each(|bench| bench.apply(&delta));
    }
}

#[test]
fn coordinator_and_participants_may_fail_over_at_any_moment_with_three_copies() {
    // The milliseconds until a group changes its primary, and the group.
    for (after_ms, fails) in (0..60).step_by(5).flat_map(|ms| [(ms, 0u32), (ms, 3)]) {
        let mut world = InstanceNetwork::new(3, Durability::Sync);
        let keys = world.keys();
        let group = |epoch, primary: u32| {
            let in_sync = (1..=3).filter(|one| *one != primary).map(InstanceId).collect();
            ReplicaGroup { in_sync, ..ReplicaGroup::of_one(PartitionEpoch(epoch), InstanceId(primary)) }
        };
        let mut primaries = [0; 4];
        for partition in [0, 3] {
            let primary = world.holder(&keys[partition as usize]) as u32 + 1;
            primaries[partition as usize] = primary;
            world.set_group(PartitionId(partition), group(2, primary));
        }
        world.run_batches(1_500);
        let parts = world.parts(PartDurability::Sync, &[add(&keys[0], 7), add(&keys[3], 7)]);
        let request = world.transact(1, &parts);
        world.run_batches(after_ms);
        let next = primaries[fails as usize] % 3 + 1;
        world.set_group(PartitionId(fails), group(3, next));
        world.run_batches(3_000);
        let first = world.answer(request);
        let again = world.transact(1, &parts);
        world.run_batches(3_000);
        let answered = world.answer(again).expect("is answered");
        if let Some(first @ (Ok(_) | Err(Failure::Aborted { .. }))) = first {
            assert_eq!(first, answered, "one outcome for all requests");
        }
        let expected = match answered {
            Ok(answered) => {
                assert!(answered.starts_with("transacted 2"), "{answered}");
                Ok("7".to_owned())
            }
            // The participant has queried the new coordinator, which did not know the transaction.
            Err(failure) => {
                assert!(
                    matches!(failure, Failure::Aborted { reason: AbortReason::Unknown, .. }),
                    "{failure:?}"
                );
                Err(Failure::NotFound)
            }
        };
        assert_eq!(world.value(&keys[0]), Some(expected.clone()));
        assert_eq!(world.value(&keys[3]), Some(expected));
    }
}

#[cfg(debug_assertions)]
#[test]
fn planted_bugs_are_seen() {
    use zerohop_partition::planted::{Bug, plant};
    let seen_by: [(Bug, fn()); 4] = [
        (Bug::UpdateLockIgnoresIntents, update_locks::next_holder_reads_what_a_prepared_transaction_writes),
        (Bug::ReadLockIgnored, read_locks::write_waits_for_read_lock_expiry),
        (Bug::TransactionAppliedTwice, transaction_over_two_instances_applies_at_one_version),
        (Bug::IntentsIgnored, read_waits_for_pending_intents),
    ];
    for (bug, test) in seen_by {
        plant(Some(bug));
        let seen = std::panic::catch_unwind(test);
        plant(None);
        assert!(seen.is_err(), "{bug:?} is not seen");
    }
}
