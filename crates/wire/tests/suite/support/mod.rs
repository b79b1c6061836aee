//! Messages of every kind, made from whatever numbers and bytes proptest draws.

pub(crate) mod admin;
pub(crate) mod changes;
pub(crate) mod failures;
pub(crate) mod hexadecimal;
pub(crate) mod protobuf;

pub(crate) use failures::failures;
use proptest::prelude::*;
use zerohop_wire::blob::BlobStamp;
use zerohop_wire::ids::*;
use zerohop_wire::messages::*;
use zerohop_wire::messages::{Append, CompareSwap, Expire, Extend, Increment, Insert, Remove, SetBit, Trim};
use zerohop_wire::{Elements, Envelope, Features, Message};

/// Raw material for one message.
#[derive(Clone, Debug)]
pub struct Seed {
    pub pick: usize,
    pub sub: u8,
    pub key: Vec<u8>,
    pub value: Vec<u8>,
    pub values: Vec<Vec<u8>>,
    pub n: [u64; 5],
    pub nonce: [u8; 32],
}

/// Kinds of seed that [`with_message`] tells apart.
pub const PICKS: usize = 17;

pub fn seed() -> impl Strategy<Value = Seed> {
    let bytes = |most: usize| prop::collection::vec(any::<u8>(), 0..most);
    let repetitive = (any::<u8>(), 0..5000usize).prop_map(|(byte, length)| vec![byte; length]);
    let number = prop_oneof![any::<u64>(), 0..100u64, Just(u64::MAX)];
    (
        (0..PICKS, any::<u8>(), bytes(40), prop_oneof![2 => bytes(600), 1 => repetitive]),
        prop::collection::vec(bytes(50), 0..12),
        prop::array::uniform5(number),
        prop::array::uniform32(any::<u8>()),
    )
        .prop_map(|((pick, sub, key, value), values, n, nonce)| Seed {
            pick,
            sub,
            key,
            value,
            values,
            n,
            nonce,
        })
}

pub fn envelope(seed: &Seed) -> Envelope {
    let n = &seed.n;
    Envelope {
        request: RequestId(n[0]),
        keyspace: KeyspaceId(n[1] as u32),
        partition: PartitionId(n[2] as u32),
        partition_epoch: PartitionEpoch(n[3]),
        time_out_ms: (n[4] % 86_400_001) as u32,
        read_lock: n[4].is_multiple_of(3),
    }
}

/// Calls `check` with the message that the seed stands for.
pub fn with_message(seed: &Seed, check: impl FnOnce(&Message<'_>)) {
    let Seed { pick, sub, key, value, values, n, nonce } = seed;
    let slices: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
    let operations: Vec<RecordOperation<'_>> =
        (0..).zip(&slices).map(|(i, v)| operation(seed, i, v)).collect();
    let answers: Vec<OperationAnswer<'_>> =
        (0..).zip(&slices).map(|(i, v)| answer(seed, i, v, &slices)).collect();
    let item_answers: Vec<ItemAnswer<'_>> = answers.iter().cloned().map(ItemAnswer).collect();
    let keys: Vec<ScannedKey<'_>> = slices.iter().map(|k| scanned(k, n[0])).collect();
    let entries: Vec<LogEntry<'_>> = (0..).zip(&slices).map(|(i, v)| log_entry(seed, i, v)).collect();
    let changes: Vec<CommittedChange<'_>> = slices.iter().map(|slice| changed(n, slice)).collect();
    let epoch = MapEpoch(n[1]);
    let requests: Vec<GatheredRequest<'_>> = slices.iter().map(|body| gathered_request(seed, body)).collect();
    let gathered: Vec<GatheredAnswer<'_>> = slices.iter().map(|body| gathered_answer(n, body)).collect();
    check(&match pick {
        0 => Message::Write { stamp: stamp(n), write: write(seed, *sub, value, &slices) },
        1 => Message::Read { seen: Timestamp(n[0]), read: read(seed, *sub, value) },
        2 => {
            Message::Batch(OperationBatch { stamp: stamp(n), operations: Elements::from_slice(&operations) })
        }
        3 => Message::Answer(answer(seed, *sub, value, &slices)),
        4 => Message::BatchAnswer(Elements::from_slice(&answers)),
        5 => Message::Answer(Ok(Outcome::Page { next: value, keys: Elements::from_slice(&keys) })),
        6 if sub % 16 == 0 => Message::Compare(Compare { from: value }),
        6 if sub % 16 == 4 => Message::Changes(ReadChanges {
            seen: Timestamp(n[0]),
            after: n[1],
            newest: Timestamp(n[3]),
            wait_ms: (n[2] % 30_001) as u32,
            changes_max: (n[3] % 4096) as u32 + 1,
            bytes_max: n[4] as u32,
            values: n[2].is_multiple_of(2),
            from: key.min(value),
            to: value.max(key),
            prefix: key,
        }),
        6 if sub % 16 == 5 => Message::Answer(Ok(Outcome::Changes {
            next: n[1],
            newest: Timestamp(n[2]),
            through: Timestamp(n[0]),
            changes: Elements::from_slice(&changes),
        })),
        6 if sub % 16 == 1 => Message::Chunks(ChunkList {
            seen: Timestamp(n[0]),
            name: if key.is_empty() { b"name" } else { key },
            first: n[2].min(n[3]),
            end: n[2].max(n[3]),
            cursor: value,
            numbers_max: (n[1] % 4096) as u32 + 1,
        }),
        6 if sub % 4 > 1 => Message::Snapshot(snapshot(seed, *sub, value)),
        6 => Message::Scan(scan(seed, *sub, value)),
        7 => Message::Hello(Hello {
            version_min: *sub,
            version_max: n[0] as u8,
            features: Features(n[1]),
            cluster: ClusterId([*sub; 16]),
            map_epoch: epoch,
            proof_method: n[2] as u8,
            nonce: *nonce,
            name: "client of a property test",
        }),
        8 => Message::HelloAck(HelloAck {
            version: *sub,
            instance: InstanceId(n[0] as u32),
            features: Features(n[1]),
            cluster: ClusterId([n[2] as u8; 16]),
            incarnation: Incarnation(n[3]),
            map_epoch: epoch,
            now: Timestamp(n[4]),
            proof: Proof { method: *sub, nonce: *nonce, proof: [n[0] as u8; 32] },
        }),
        9 => match sub % 4 {
            2 => Message::Prove(Prove { proof: *nonce }),
            3 => Message::Proved,
            0 => Message::Ping(Ping { map_epoch: epoch }),
            _ => Message::Pong(Pong { map_epoch: epoch, now: Timestamp(n[0]) }),
        },
        10 => match sub % 2 {
            0 => Message::SessionOpen(SessionOpen),
            _ => Message::SessionOpened(SessionOpened { session: stamp(n).session, idle_ms: n[3] as u32 }),
        },
        11 => Message::MapGet(MapGet { since: epoch }),
        12 => Message::Map(Map { epoch, since: MapEpoch(n[0]), encoded: value }),
        14 => match sub % 3 {
            0 => Message::Transact(Transact { stamp: stamp(n), parts: value }),
            1 => Message::Stage(StageBytes { stamp: stamp(n), piece: value }),
            _ => Message::Transacted(TransactionDone {
                version: Timestamp(n[0]),
                answers: Elements::from_slice(&item_answers),
            }),
        },
        13 => Message::Peer(peer(seed, &entries)),
        16 => match sub % 2 {
            0 => Message::Gather(Elements::from_slice(&requests)),
            _ => Message::Gathered(Elements::from_slice(&gathered)),
        },
        _ => match sub % 2 {
            0 => Message::Admin(Admin { encoded: value }),
            _ => Message::AdminAnswer(Admin { encoded: value }),
        },
    });
}

fn gathered_request<'a>(seed: &Seed, body: &'a [u8]) -> GatheredRequest<'a> {
    let Envelope { keyspace, partition, partition_epoch, read_lock, .. } = envelope(seed);
    GatheredRequest { keyspace, partition, partition_epoch, kind: seed.n[4] as u16, read_lock, body }
}

fn gathered_answer<'a>(n: &[u64; 5], body: &'a [u8]) -> GatheredAnswer<'a> {
    GatheredAnswer { request: RequestId(n[0]), kind: n[1] as u16, read_lock_us: n[2] as u16, body }
}

fn log_entry<'a>(seed: &'a Seed, sub: u8, payload: &'a [u8]) -> LogEntry<'a> {
    let n = &seed.n;
    let name = EntryName { epoch: n[0] as u32, index: LogIndex(n[1].wrapping_add(u64::from(sub))) };
    LogEntry { name, timestamp: Timestamp(n[2]), kind: sub, flags: seed.sub, key: &seed.key, payload }
}

fn peer<'a>(seed: &'a Seed, entries: &'a [LogEntry<'a>]) -> PeerMessage<'a> {
    let n = &seed.n;
    let member = |n: u64| Member { instance: InstanceId(n as u32), incarnation: Incarnation(n) };
    let name = EntryName { epoch: n[2] as u32, index: LogIndex(n[3]) };
    let entries = Elements::from_slice(entries);
    let (sent_us, map_epoch, timestamp_bound) = (n[2], MapEpoch(n[3]), Timestamp(n[4]));
    let part = n[0] as u32;
    let range = DigestRange {
        as_of: name,
        from: &seed.key,
        to: &seed.value[..seed.value.len().min(9)],
        contents: n[4].is_multiple_of(3),
    };
    let body = match seed.sub % 19 {
        0 => PeerBody::Replicate { preceding: name, commit: LogIndex(n[4]), entries },
        1 => PeerBody::ReplicateAck(FollowerReport::Acknowledged {
            matched: LogIndex(n[3]),
            durable: LogIndex(n[4]),
            applied: LogIndex(n[0]),
        }),
        2 => PeerBody::ReplicateAck(FollowerReport::Differs { at: name }),
        3 if n[0].is_multiple_of(2) => PeerBody::ReplicateAck(FollowerReport::DiskFull),
        3 => PeerBody::ReplicateAck(FollowerReport::NeedsState),
        4 => {
            let holds = StatePart::Log { begins: n[4].is_multiple_of(2), bytes: &seed.value };
            PeerBody::StatePart { as_of: name, attempt: n[3], part, cursor: &seed.key, contents: holds }
        }
        5 | 6 => {
            let holds = match seed.sub % 3 {
                0 => StatePart::History { bytes: &seed.value },
                of => StatePart::State { is_last: of == 1, bytes: &seed.value },
            };
            PeerBody::StatePart { as_of: name, attempt: n[3], part, cursor: &seed.key, contents: holds }
        }
        7 => PeerBody::StateAck { as_of: name, attempt: n[3], parts: part, cursor: &seed.key },
        8 => PeerBody::LeaseQuery { sent_us, map_epoch, timestamp_bound },
        9 => PeerBody::LeaseGrant { sent_us, map_epoch, timestamp_bound },
        10 => {
            if n[4].is_multiple_of(2) {
                PeerBody::Yield
            } else {
                PeerBody::Stale
            }
        }
        11 => {
            if n[4].is_multiple_of(2) {
                PeerBody::EntryGet(name)
            } else {
                PeerBody::EntryLost(name)
            }
        }
        12 => PeerBody::DigestQuery(range),
        13 => PeerBody::DigestReply { range, records: n[4], digest: n[2] },
        14 => PeerBody::DigestDiffers(range),
        15 => PeerBody::UnitQuery(UnitRequest {
            number: n[0],
            behind: n[1],
            total: part_of(seed),
            at: 3,
            piece: &seed.value,
        }),
        16 => {
            let verdict =
                [UnitVerdict::Replied, UnitVerdict::NotRun, UnitVerdict::Waits(n[2])][(n[3] % 3) as usize];
            PeerBody::UnitReply(UnitReport {
                number: n[0],
                verdict,
                total: part_of(seed),
                at: 3,
                piece: &seed.value,
            })
        }
        17 => PeerBody::Transaction(&seed.value),
        _ => PeerBody::EntryGot(log_entry(seed, 0, &seed.value)),
    };
    PeerMessage { from: member(n[0]), to: member(n[1]), body }
}

/// The length of something of which the value is a piece that begins behind three bytes.
fn part_of(seed: &Seed) -> u32 {
    seed.value.len() as u32 + 3 + (seed.n[4] % 100) as u32
}

fn stamp(n: &[u64; 5]) -> Stamp {
    let session = SessionId { issued: Timestamp(n[0]), nonce: n[1] };
    let sequence = if session.is_some() { n[2].max(1) } else { 0 };
    let lowest = sequence.saturating_sub(n[3] % 16_384);
    Stamp {
        session,
        sequence: Sequence(sequence),
        lowest_unanswered: Sequence(lowest),
        seen: Timestamp(n[4]),
    }
}

fn scan<'a>(seed: &'a Seed, sub: u8, cursor: &'a [u8]) -> Scan<'a> {
    let Seed { key, n, .. } = seed;
    let keys_max = (n[1] % 4096) as u32 + 1;
    let range = ScanRange {
        from: &key[..key.len().min(3)],
        to: key,
        reverse: n[2].is_multiple_of(2),
        values: n[2].is_multiple_of(3),
        bytes_max: n[3] as u32,
    };
    Scan { seen: Timestamp(n[0]), cursor, prefix: key, keys_max, blobs: sub % 2 == 1, range }
}

fn snapshot<'a>(seed: &'a Seed, sub: u8, value: &'a [u8]) -> SnapshotRequest<'a> {
    let n = &seed.n;
    let (lease_ms, at) = ((n[2] % 300_000) as u32 + 1, Timestamp(n[3]));
    let query = match sub / 4 % 5 {
        0 => SnapshotQuery::Open { lease_ms, age_ms: n[4] % 604_800_000 + 1 },
        1 => SnapshotQuery::Renew { lease_ms },
        2 => SnapshotQuery::Close,
        3 if sub % 4 == 2 => {
            let scan = Scan { blobs: false, ..scan(seed, sub, value) };
            SnapshotQuery::Chunks { at, scan }
        }
        3 => SnapshotQuery::Scan { at, scan: scan(seed, sub, value) },
        _ => {
            let range = Range { start: n[0] as i64, stop: n[1] as i64 };
            let chunk =
                Query::ReadChunk(ReadChunk { offset: n[0] as u32 % 4096, length: n[1] as u32 % 4096 });
            let query = [Query::Lookup, Query::LookupRange(LookupRange { range }), Query::Inspect, chunk]
                [n[2] as usize % 4];
            SnapshotQuery::Read { at, read: RecordRead { key: &seed.key, query } }
        }
    };
    SnapshotRequest {
        seen: Timestamp(n[0]),
        id: SnapshotId(u128::from(n[1]) << 64 | u128::from(n[4])),
        request: query,
    }
}

fn scanned(key: &[u8], n: u64) -> ScannedKey<'_> {
    let record = if key.len().is_multiple_of(2) { RecordType::Bytes } else { RecordType::List };
    let value = n.is_multiple_of(2).then_some(key);
    ScannedKey { key, record, version: Timestamp(n), value }
}

fn operation<'a>(seed: &'a Seed, sub: u8, value: &'a [u8]) -> RecordOperation<'a> {
    match sub % 2 {
        0 => RecordOperation::Read(read(seed, (sub / 2).wrapping_add(seed.sub), value)),
        _ => RecordOperation::Write(write(seed, (sub / 2).wrapping_add(seed.sub), value, &[])),
    }
}

fn range(n: &[u64; 5]) -> Range {
    Range { start: n[1] as i64, stop: n[2] as i64 }
}

fn read<'a>(seed: &'a Seed, sub: u8, value: &'a [u8]) -> RecordRead<'a> {
    let n = &seed.n;
    let query = match sub % 14 {
        10 => Query::ReadChunk(ReadChunk {
            offset: (n[1] % (8 << 20)) as u32,
            length: (n[2] % (8 << 20)) as u32,
        }),
        0 => Query::Lookup,
        1 => Query::LookupRange(LookupRange { range: range(n) }),
        2 => Query::Inspect,
        3 => Query::GetBit(GetBit { offset: n[1] % (1 << 27) }),
        4 => Query::CountBits(CountBits { range: range(n) }),
        5 => Query::Wait(Wait { until: WaitUntil::Equals(value) }),
        6 => Query::Wait(Wait { until: WaitUntil::Differs(value) }),
        7 => Query::Wait(Wait { until: WaitUntil::Absent }),
        8 => Query::Wait(Wait { until: WaitUntil::Present }),
        9 => Query::Confirm(Confirm { version: Timestamp(n[1]) }),
        11 => Query::UpdateLock(UpdateLock::Take(n[1])),
        12 => Query::UpdateLock(UpdateLock::Release(n[1])),
        _ => Query::Wait(Wait { until: WaitUntil::Changed(Timestamp(n[1])) }),
    };
    RecordRead { key: &seed.key, query }
}

fn write<'a>(seed: &'a Seed, sub: u8, value: &'a [u8], values: &'a [&'a [u8]]) -> RecordWrite<'a> {
    let n = &seed.n;
    let ms = n[3] >> 16;
    let expiry = match n[4] % 4 {
        0 => Expiry::Never,
        1 => Expiry::AfterMs(ms),
        2 => Expiry::AtMs(ms),
        _ => Expiry::Unchanged,
    };
    let some = |bit: u64, value: &'a [u8]| (n[4] & bit != 0).then_some(value);
    let change = match sub % 14 {
        10.. => WriteChange::Blob(blob_change(seed, value)),
        0 => WriteChange::Insert(Insert { value, expiry }),
        1 => WriteChange::Remove(Remove),
        2 => WriteChange::Append(Append { values: Elements::from_slice(values) }),
        3 => WriteChange::Extend(Extend { bytes: value }),
        4 => WriteChange::CompareSwap(CompareSwap { expected: some(1, &seed.key), new: some(2, value) }),
        5 => WriteChange::Increment(Increment { delta: n[1] as i64 }),
        6 => WriteChange::SetBit(SetBit { offset: n[1] % (1 << 27), on: n[2] % 2 == 1 }),
        7 => WriteChange::Expire(Expire { expiry }),
        8 => WriteChange::Transform(transform(n)),
        _ => WriteChange::Trim(Trim { keep: range(n) }),
    };
    let condition = match seed.sub % 4 {
        0 => Condition::Always,
        1 => Condition::IfAbsent,
        2 => Condition::IfPresent,
        _ => Condition::IfVersion(Timestamp(n[0])),
    };
    RecordWrite { key: &seed.key, condition, change }
}

fn blob_change<'a>(seed: &Seed, value: &'a [u8]) -> BlobChange<'a> {
    let n = &seed.n;
    // Now and then of the blob that the same transaction makes.
    let id = if n[3].is_multiple_of(5) { BlobStamp::OWN } else { n[0].min(BlobStamp::OWN - 1) };
    let (stamp, makes) = (BlobStamp { id, generation: n[1] }, n[3] % 2 == 1);
    let offset = (n[2] % (8 << 20)) as u32;
    match n[4] % 11 {
        7 => BlobChange::Settle { stamp },
        0 => BlobChange::Create { chunk_bits: 12 + (n[1] % 13) as u8, attributes: value },
        1 => BlobChange::Grow { stamp, size: n[2] },
        2 => BlobChange::Truncate { stamp, size: n[2] },
        3 => BlobChange::Describe { stamp, attributes: value },
        4 => {
            let length = if value.is_empty() { 1 + (n[3] % 5000) as u32 } else { value.len() as u32 };
            BlobChange::WriteChunk { stamp, offset, length, bytes: value, makes }
        }
        5 => BlobChange::TruncateChunk { stamp, keep: offset, creates_absent: makes },
        8 => BlobChange::DropChunk { stamp },
        9 => BlobChange::StageExtension { stamp, until: n[2] },
        10 => BlobChange::Publish { stamp, size: n[2] },
        _ => BlobChange::TransformChunk { stamp, transform: transform(n), makes },
    }
}

fn transform(n: &[u64; 5]) -> Transform {
    let number = NumberType::ALL[n[2] as usize % NumberType::ALL.len()];
    let operators = if number.is_float() { &Operator::ALL[..4] } else { Operator::ALL };
    Transform {
        operator: operators[n[3] as usize % operators.len()],
        number,
        operand: n[0] >> (64 - 8 * number.bytes()),
        offset: n[1] % (1 << 23),
        returns: ReturnedNumber::ALL[n[4] as usize % ReturnedNumber::ALL.len()],
    }
}

fn changed<'a>(n: &[u64], bytes: &'a [u8]) -> CommittedChange<'a> {
    let record = [None, Some(RecordType::Bytes), Some(RecordType::List)][n[2] as usize % 3];
    CommittedChange {
        key: bytes,
        at: Timestamp(n[0]),
        before: Timestamp(n[1]),
        index: n[3],
        record,
        cause: ChangeCause::ALL[n[4] as usize % ChangeCause::ALL.len()],
        value: record.map(|_| bytes),
    }
}

const DIFFERING: [InstanceId; 2] = [InstanceId(1), InstanceId(u32::MAX)];

fn answer<'a>(seed: &'a Seed, sub: u8, value: &'a [u8], values: &'a [&'a [u8]]) -> OperationAnswer<'a> {
    let n = &seed.n;
    let version = Timestamp(n[0]);
    let failures = failures(n, value);
    match sub % 8 {
        7 => Ok(Outcome::Compared(RangeComparison {
            next: value,
            records: n[1],
            bytes: n[2],
            copies: n[3] as u32 % 4 + 2,
            differing: Elements::from_slice(&DIFFERING[..n[4] as usize % 3]),
        })),
        6 => Ok(Outcome::Chunk { version, stamp: BlobStamp { id: n[1], generation: n[2] }, bytes: value }),
        0 => Ok(Outcome::Done { version, number: n[1] }),
        1 => Ok(Outcome::Counter { version, value: n[1] as i64 }),
        2 => Ok(Outcome::Value { version, length: n[1], bytes: value }),
        3 => Ok(Outcome::List { version, length: n[1], first: n[2], values: Elements::from_slice(values) }),
        4 => Ok(Outcome::Info {
            version,
            record: if n[1].is_multiple_of(2) { RecordType::Bytes } else { RecordType::List },
            length: n[2],
            expires_at_ms: Some(n[3]).filter(|ms| *ms != 0),
        }),
        _ => Err(failures[n[4] as usize % failures.len()].clone()),
    }
}
