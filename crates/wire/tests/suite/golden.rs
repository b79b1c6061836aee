//! The bytes of every message, pinned: what is in `tests/golden/` was once sent, and must be read the same for ever.
//!
//! To add a vector, add it to the lists below and run with `ZEROHOP_GOLDEN=write`; existing files are never changed by
//! that. A file that no longer matches means that old programs and new ones would misunderstand each other: give the
//! message a new kind, or the protocol a new version.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::support::hexadecimal::hex;
use crate::support::{admin, changes, failures};
use zerohop_wire::admin::{AdminAnswer, AdminRequest};
use zerohop_wire::blob::BlobStamp;
use zerohop_wire::ids::*;
use zerohop_wire::messages::*;
use zerohop_wire::messages::{
    Append, CompareSwap, Expire, Extend, Increment, Insert, Remove, SetBit, Take, Trim,
};
use zerohop_wire::{
    AbortReason, AuthFault, BadRequestReason, DecodeResult, Decoder, Elements, Encoder, Envelope, ErrorCode,
    Failure, Features, FrameKind, Message,
};

pub(crate) const FEATURES: Features = Features(Features::LZ4.0 | Features::COALESCED.0);
const NUMBERS: [u64; 5] = [0x0001_9f3c_7a2b_0003, 70_000, 65_536, 2, 5];
pub(crate) const SEEN: Timestamp = Timestamp(0x0001_9f3c_7a2b_0001);
const VERSION: Timestamp = Timestamp(0x0001_9f3c_7a2b_0002);
const BLOB: BlobStamp = BlobStamp { id: 0x0001_9f3c_7a2b_0009, generation: 3 };
const STAMP: Stamp = Stamp {
    session: SessionId { issued: Timestamp(0x0001_9f3c_0000_0007), nonce: 0x1122_3344_5566_7788 },
    sequence: Sequence(42),
    lowest_unanswered: Sequence(40),
    seen: SEEN,
};
pub(crate) const FOR_PARTITION: Envelope = Envelope {
    request: RequestId(0x0102_0304_0506_0708),
    keyspace: KeyspaceId(3),
    partition: PartitionId(17),
    partition_epoch: PartitionEpoch(5),
    time_out_ms: 1500,
    read_lock: false,
};
pub(crate) const FOR_CONNECTION: Envelope = Envelope {
    request: RequestId(1),
    keyspace: KeyspaceId::NONE,
    partition: PartitionId(0),
    partition_epoch: PartitionEpoch(0),
    time_out_ms: 0,
    read_lock: false,
};

/// Calls `check` with the name of each vector, what it shows, and what it says.
fn for_each_vector(check: &mut dyn FnMut(&str, &str, &Message<'_>)) {
    connection(check);
    admins(check);
    reads(check);
    writes(check);
    batches(check);
    gathered(check);
    transactions(check);
    outcomes(check);
    peers(check);
    errors(check);
}

type Check<'c> = &'c mut dyn FnMut(&str, &str, &Message<'_>);

fn connection(check: Check<'_>) {
    let cluster = ClusterId(*b"cluster of tests");
    let hello = Hello {
        version_min: 2,
        version_max: 3,
        features: Features::LZ4,
        cluster,
        map_epoch: MapEpoch(9),
        proof_method: 0,
        nonce: [0; 32],
        name: "zerohop cli",
    };
    check("hello", "a client that speaks versions 2 and 3 and LZ4", &Message::Hello(hello));
    let ack = HelloAck {
        version: 2,
        instance: InstanceId(6),
        features: Features::LZ4,
        cluster,
        incarnation: Incarnation(0xfeed_beef),
        map_epoch: MapEpoch(11),
        now: VERSION,
        proof: Proof { method: 1, nonce: [0xaa; 32], proof: [0xbb; 32] },
    };
    check("hello_ack", "version 2 is chosen; nonce all aa, proof all bb", &Message::HelloAck(ack));
    check("prove", "proof all cc", &Message::Prove(Prove { proof: [0xcc; 32] }));
    check("proved", "no body", &Message::Proved);
    check("ping", "map epoch 9", &Message::Ping(Ping { map_epoch: MapEpoch(9) }));
    let pong = Pong { map_epoch: MapEpoch(11), now: VERSION };
    check("pong", "map epoch 11", &Message::Pong(pong));
    check("session_open", "no body", &Message::SessionOpen(SessionOpen));
    let opened = SessionOpened { session: STAMP.session, idle_ms: 600_000 };
    check("session_opened", "remembered for 10 minutes", &Message::SessionOpened(opened));
    check("map_get", "what changed since epoch 9", &Message::MapGet(MapGet { since: MapEpoch(9) }));
    let map = Map { epoch: MapEpoch(11), since: MapEpoch(9), encoded: b"delta" };
    check("map", "changes from epoch 9 to 11", &Message::Map(map));
    check("admin", "an opaque body", &Message::Admin(Admin { encoded: b"request" }));
    check("admin_answer", "an opaque body", &Message::AdminAnswer(Admin { encoded: b"answer" }));
}

/// Their bodies have a specification of their own.
fn admins(check: Check<'_>) {
    for (name, comment, query) in admin::questions() {
        let encoded = &AdminRequest::of(query).to_bytes()[..];
        check(&format!("admin_{name}"), comment, &Message::Admin(Admin { encoded }));
    }
    for (name, comment, answer) in admin::answers() {
        let encoded = &AdminAnswer { map_epoch: 11, ..AdminAnswer::of(answer) }.to_bytes()[..];
        check(&format!("admin_answer_{name}"), comment, &Message::AdminAnswer(Admin { encoded }));
    }
}

fn reads(check: Check<'_>) {
    let mut read = |name: &str, comment: &str, query: Query<'_>| {
        check(name, comment, &Message::Read { seen: SEEN, read: RecordRead { key: b"key", query } });
    };
    let range = Range { start: -10, stop: i64::MAX };
    read("lookup", "key", Query::Lookup);
    read("lookup_range", "the last ten", Query::LookupRange(LookupRange { range }));
    read("inspect", "key", Query::Inspect);
    read("read_chunk", "bytes 8 to 4104", Query::ReadChunk(ReadChunk { offset: 8, length: 4096 }));
    read("get_bit", "bit 12", Query::GetBit(GetBit { offset: 12 }));
    read("count_bits", "the last ten bytes", Query::CountBits(CountBits { range }));
    read("wait", "until the value is 'ready'", Query::Wait(Wait { until: WaitUntil::Equals(b"ready") }));
    let until = WaitUntil::Differs(b"ready");
    read("wait_differs", "until it is not 'ready'", Query::Wait(Wait { until }));
    read("wait_absent", "until there is no record", Query::Wait(Wait { until: WaitUntil::Absent }));
    read("wait_present", "until there is one", Query::Wait(Wait { until: WaitUntil::Present }));
    read(
        "wait_changed",
        "until the version is another",
        Query::Wait(Wait { until: WaitUntil::Changed(VERSION) }),
    );
    read("update_lock", "take lock 7", Query::UpdateLock(UpdateLock::Take(7)));
    read("update_lock_release", "release lock 7", Query::UpdateLock(UpdateLock::Release(7)));
    read("confirm", "whether the version is the same", Query::Confirm(Confirm { version: VERSION }));
    let scan = Scan {
        seen: SEEN,
        cursor: b"from here",
        prefix: b"user/",
        keys_max: 1000,
        blobs: false,
        range: ScanRange::default(),
    };
    check("scan", "keys under user/, 1000 at most", &Message::Scan(scan));
    let range = ScanRange { from: b"user/a", to: b"user/n", reverse: true, values: true, bytes_max: 65_536 };
    check(
        "scan_range",
        "from user/n, which is left out, down to user/a, with values",
        &Message::Scan(Scan { range, ..scan }),
    );
    let scan = Scan { cursor: b"user/ned", blobs: true, ..scan };
    check("scan_blobs", "names under user/ behind user/ned", &Message::Scan(scan));
    let (first, end) = (4096, 1 << 24);
    let list = ChunkList { seen: SEEN, name: b"film", first, end, cursor: b"from here", numbers_max: 1000 };
    check("list_chunks", "chunks of film, 1000 at most", &Message::Chunks(list));
    check("read_changes", "behind index 4711, with values", &Message::Changes(changes::request(SEEN)));
    check("compare", "the range from a cursor on", &Message::Compare(Compare { from: b"from here" }));
    let mut snapshot = |name: &str, comment: &str, query: SnapshotQuery<'_>| {
        let id = SnapshotId(0x0011_2233_4455_6677_8899_AABB_CCDD_EEFF);
        check(name, comment, &Message::Snapshot(SnapshotRequest { seen: SEEN, id, request: query }));
    };
    let (lease_ms, age_ms) = (30_000, 300_000);
    snapshot("open_snapshot", "for 30 s, and 300 s at most", SnapshotQuery::Open { lease_ms, age_ms });
    snapshot("renew_snapshot", "for 30 s", SnapshotQuery::Renew { lease_ms });
    snapshot("close_snapshot", "nothing more", SnapshotQuery::Close);
    let query = Query::ReadChunk(ReadChunk { offset: 8, length: 4096 });
    snapshot(
        "read_at",
        "bytes 8 to 4104",
        SnapshotQuery::Read { at: VERSION, read: RecordRead { key: b"key", query } },
    );
    snapshot("scan_at", "names under user/ behind user/ned", SnapshotQuery::Scan { at: VERSION, scan });
    let scan = Scan { prefix: b"film", blobs: false, ..scan };
    snapshot("scan_at_chunks", "chunks of film behind a cursor", SnapshotQuery::Chunks { at: VERSION, scan });
}

fn writes(check: Check<'_>) {
    let mut write = |name: &str, comment: &str, condition: Condition, change: WriteChange<'_>| {
        let write = RecordWrite { key: b"key", condition, change };
        check(name, comment, &Message::Write { stamp: STAMP, write });
    };
    let (always, value): (_, &[u8]) = (Condition::Always, b"value");
    let insert = |expiry| WriteChange::Insert(Insert { value, expiry });
    write("insert", "key = value, never expires", always, insert(Expiry::Never));
    write("insert_if_absent", "expires after 5 s", Condition::IfAbsent, insert(Expiry::AfterMs(5000)));
    let at = Expiry::AtMs(1_800_000_000_000);
    write("insert_if_present", "expires in 2027", Condition::IfPresent, insert(at));
    write("insert_if_version", "keeps its expiry", Condition::IfVersion(VERSION), insert(Expiry::Unchanged));
    write("remove", "key", always, WriteChange::Remove(Remove));
    write("take", "key", always, WriteChange::Take(Take));
    let values: [&[u8]; 3] = [b"one", b"", b"three"];
    write(
        "append",
        "one, the empty value, three",
        always,
        WriteChange::Append(Append { values: Elements::from_slice(&values) }),
    );
    write("extend", "adds 'value'", always, WriteChange::Extend(Extend { bytes: value }));
    let swap = |expected, new| WriteChange::CompareSwap(CompareSwap { expected, new });
    write("compare_swap", "'old' by 'value'", always, swap(Some(b"old"), Some(value)));
    write("compare_swap_absent", "nothing by 'value'", always, swap(None, Some(value)));
    write("compare_swap_remove", "'old' by nothing", always, swap(Some(b"old"), None));
    write("increment", "by -2", always, WriteChange::Increment(Increment { delta: -2 }));
    write("set_bit", "bit 12 on", always, WriteChange::SetBit(SetBit { offset: 12, on: true }));
    write("expire", "after 5 s", always, WriteChange::Expire(Expire { expiry: Expiry::AfterMs(5000) }));
    let keep = Range { start: 2, stop: -1 };
    write("trim", "drops the first two and the last", always, WriteChange::Trim(Trim { keep }));
    let transform = Transform {
        operator: Operator::Add,
        number: NumberType::F32,
        operand: Number::bits(1.5_f32),
        offset: 12,
        returns: ReturnedNumber::New,
    };
    write(
        "transform",
        "adds 1.5 to the f32 at byte 12 and asks for the sum",
        always,
        WriteChange::Transform(transform),
    );
    blobs(&mut |name, comment, change| write(name, comment, Condition::Always, WriteChange::Blob(change)));
    let change = insert(Expiry::Never);
    let write = RecordWrite { key: b"key", condition: always, change };
    let stamp = Stamp::default();
    check("insert_without_session", "an all-zero stamp", &Message::Write { stamp, write });
}

fn blobs(write: &mut dyn FnMut(&str, &str, BlobChange<'_>)) {
    let stamp = BLOB;
    let attributes: &[u8] = b"colour=blue";
    write("create_blob", "with chunks of 1 MiB", BlobChange::Create { chunk_bits: 20, attributes });
    write("grow_blob", "to 5,000,000 bytes", BlobChange::Grow { stamp, size: 5_000_000 });
    write("truncate_blob", "at 70,000 bytes", BlobChange::Truncate { stamp, size: 70_000 });
    write("settle_blob", "generation 3", BlobChange::Settle { stamp });
    write("describe_blob", "colour=blue", BlobChange::Describe { stamp, attributes });
    let (offset, bytes): (_, &[u8]) = (4096, b"value");
    let bytes_at = BlobChange::WriteChunk { stamp, offset, length: 5, bytes, makes: true };
    write("write_chunk", "'value' at 4096, into a new chunk", bytes_at);
    let zeros = BlobChange::WriteChunk { stamp, offset, length: 100, bytes: b"", makes: false };
    write("write_chunk_zeros", "100 zeros at 4096", zeros);
    let own = BlobStamp { id: BlobStamp::OWN, generation: 0 };
    write(
        "grow_blob_own",
        "of the transaction's own blob, to 5 bytes",
        BlobChange::Grow { stamp: own, size: 5 },
    );
    let own_bytes = BlobChange::WriteChunk { stamp: own, offset: 0, length: 5, bytes, makes: true };
    write("write_chunk_own", "'value' into the transaction's own blob", own_bytes);
    write(
        "truncate_chunk",
        "keeps 100 bytes",
        BlobChange::TruncateChunk { stamp, keep: 100, creates_absent: false },
    );
    write("drop_chunk", "generation 3", BlobChange::DropChunk { stamp });
    write("stage_extension", "up to 70,000 bytes", BlobChange::StageExtension { stamp, until: 70_000 });
    write("publish_blob", "70,000 bytes", BlobChange::Publish { stamp, size: 70_000 });
    let transform = Transform {
        operator: Operator::Max,
        number: NumberType::U64,
        operand: 9,
        offset: 16,
        returns: ReturnedNumber::Old,
    };
    let max = BlobChange::TransformChunk { stamp, transform, makes: true };
    write("transform_chunk", "the u64 at byte 16 is at least 9", max);
}

fn batches(check: Check<'_>) {
    let insert = WriteChange::Insert(Insert { value: b"value", expiry: Expiry::Never });
    let operations = [
        RecordOperation::Write(RecordWrite { key: b"a", condition: Condition::Always, change: insert }),
        RecordOperation::Read(RecordRead { key: b"b", query: Query::Lookup }),
        RecordOperation::Write(RecordWrite {
            key: b"c",
            condition: Condition::Always,
            change: WriteChange::Remove(Remove),
        }),
    ];
    let batch = OperationBatch { stamp: STAMP, operations: Elements::from_slice(&operations) };
    check("batch", "insert (42), lookup, remove (43)", &Message::Batch(batch));
    let answers: [OperationAnswer<'_>; 3] = [
        Ok(Outcome::Done { version: VERSION, number: 0 }),
        Ok(Outcome::Value { version: VERSION, length: 5, bytes: b"value" }),
        Err(zerohop_wire::Failure::NotFound),
    ];
    check("batch_answer", "done, a value, not found", &Message::BatchAnswer(Elements::from_slice(&answers)));
}

fn gathered(check: Check<'_>) {
    let lookup = Message::Read { seen: SEEN, read: RecordRead { key: b"a", query: Query::Lookup } };
    let insert = WriteChange::Insert(Insert { value: b"value", expiry: Expiry::Never });
    let write = RecordWrite { key: b"b", condition: Condition::Always, change: insert };
    let insert = Message::Write { stamp: STAMP, write };
    let bodies = [&lookup, &insert].map(|message| {
        let mut body = Vec::new();
        (message.encode_body(&mut body).expect("within bounds").number(), body)
    });
    let request = |partition, at: usize| GatheredRequest {
        keyspace: KeyspaceId(3),
        partition: PartitionId(partition),
        partition_epoch: PartitionEpoch(5),
        kind: bodies[at].0,
        read_lock: false,
        body: &bodies[at].1,
    };
    let requests = [request(17, 0), request(200, 1)];
    let gather = Message::Gather(Elements::from_slice(&requests));
    check("gather", "lookup in partition 17, insert (42) in 200", &gather);
    let locked = [GatheredRequest { read_lock: true, ..request(17, 0) }, request(200, 0)];
    let gather = Message::Gather(Elements::from_slice(&locked));
    check("gather_read_lock", "lookup in partition 17, to be read-locked, and in 200", &gather);
    let answers: [OperationAnswer<'_>; 2] =
        [Ok(Outcome::Value { version: VERSION, length: 5, bytes: b"value" }), Err(Failure::NotFound)];
    let bodies = answers.map(|answer| {
        let mut body = Vec::new();
        (Message::Answer(answer).encode_body(&mut body).expect("within bounds").number(), body)
    });
    let answer = |request, at: usize| GatheredAnswer {
        request: RequestId(request),
        kind: bodies[at].0,
        read_lock_us: 0,
        body: &bodies[at].1,
    };
    let answers = [answer(9, 0), answer(8, 1)];
    check(
        "gathered",
        "a value to request 9, not found to 8",
        &Message::Gathered(Elements::from_slice(&answers)),
    );
    let locked = [GatheredAnswer { read_lock_us: 2_000, ..answer(9, 0) }, answer(8, 1)];
    let gathered = Message::Gathered(Elements::from_slice(&locked));
    check("gathered_read_locked", "a value to request 9, read-locked for 2 ms, not found to 8", &gathered);
}

fn transactions(check: Check<'_>) {
    check("transact", "opaque parts", &Message::Transact(Transact { stamp: STAMP, parts: b"parts" }));
    check("stage", "a piece", &Message::Stage(StageBytes { stamp: STAMP, piece: b"piece" }));
    let answers = [
        ItemAnswer(Ok(Outcome::Value { version: VERSION, length: 5, bytes: b"value" })),
        ItemAnswer(Ok(Outcome::Done { version: Timestamp::MAX, number: 0 })),
        ItemAnswer(Err(Failure::NotFound)),
    ];
    let transacted = TransactionDone { version: VERSION, answers: Elements::from_slice(&answers) };
    check("transacted", "a value, done, not found", &Message::Transacted(transacted));
}

fn peers(check: Check<'_>) {
    let member = |instance, incarnation| Member {
        instance: InstanceId(instance),
        incarnation: Incarnation(incarnation),
    };
    let mut peer = |name: &str, comment: &str, body: PeerBody<'_>| {
        let (from, to) = (member(6, 0xfeed), member(7, 0xbeef));
        check(name, comment, &Message::Peer(PeerMessage { from, to, body }));
    };
    let name = |epoch, index| EntryName { epoch, index: LogIndex(index) };
    let entry = LogEntry {
        name: name(5, 101),
        timestamp: VERSION,
        kind: 1,
        flags: 2,
        key: b"key",
        payload: b"value and trailer",
    };
    let mark = LogEntry { name: name(5, 102), kind: 5, flags: 0, key: b"", payload: b"\x10", ..entry };
    let entries = [entry, mark];
    let entries = Elements::from_slice(&entries);
    let preceding = name(4, 100);
    let commit = LogIndex(99);
    peer("replicate", "entries 101, 102 behind (4, 100)", PeerBody::Replicate { preceding, commit, entries });
    let holds = FollowerReport::Acknowledged {
        matched: LogIndex(102),
        durable: LogIndex(100),
        applied: LogIndex(99),
    };
    peer("replicate_ack", "holds 102, 100 of them durably", PeerBody::ReplicateAck(holds));
    let differs = FollowerReport::Differs { at: name(3, 90) };
    peer("replicate_ack_differs", "go on behind (3, 90)", PeerBody::ReplicateAck(differs));
    peer("replicate_ack_needs_state", "send the state", PeerBody::ReplicateAck(FollowerReport::NeedsState));
    peer("replicate_ack_no_room", "its disk is full", PeerBody::ReplicateAck(FollowerReport::DiskFull));
    let as_of = name(5, 102);
    let attempt = 7_654_321;
    let part = |part, holds| PeerBody::StatePart { as_of, attempt, part, cursor: b"next", contents: holds };
    peer("state_part_begins", "part 0", part(0, StatePart::Log { begins: true, bytes: b"header, entries" }));
    peer("state_part_log", "part 1", part(1, StatePart::Log { begins: false, bytes: b"more entries" }));
    peer("state_part_state", "part 2", part(2, StatePart::State { is_last: false, bytes: b"some" }));
    peer("state_part_history", "part 2", part(2, StatePart::History { bytes: b"changes" }));
    peer("state_part_last", "part 3, the last", part(3, StatePart::State { is_last: true, bytes: b"state" }));
    peer(
        "state_ack",
        "parts 0 and 1 are held",
        PeerBody::StateAck { as_of, attempt, parts: 2, cursor: b"next" },
    );
    let (sent_us, map_epoch, timestamp_bound) = (1_234_567, MapEpoch(11), VERSION);
    peer("lease_query", "sent at 1.234567 s", PeerBody::LeaseQuery { sent_us, map_epoch, timestamp_bound });
    peer(
        "lease_grant",
        "for what was sent at 1.234567 s",
        PeerBody::LeaseGrant { sent_us, map_epoch, timestamp_bound },
    );
    peer("yield", "no fields", PeerBody::Yield);
    peer("stale", "no fields", PeerBody::Stale);
    peer("entry_get", "entry (5, 101)", PeerBody::EntryGet(name(5, 101)));
    peer("entry_got", "entry (5, 101)", PeerBody::EntryGot(entry));
    peer("entry_lost", "entry (5, 101)", PeerBody::EntryLost(name(5, 101)));
    let range = DigestRange { as_of: name(5, 102), from: b"here", to: b"up to", contents: false };
    peer("digest_query", "keys between two cursors as of (5, 102)", PeerBody::DigestQuery(range));
    let whole = DigestRange { contents: true, ..range };
    peer("digest_query_contents", "the same, and what the records hold", PeerBody::DigestQuery(whole));
    peer(
        "digest_reply",
        "7 records",
        PeerBody::DigestReply { range, records: 7, digest: 0x0123_4567_89AB_CDEF },
    );
    peer("digest_differs", "of the same range", PeerBody::DigestDiffers(range));
    let query = UnitRequest { number: 9, behind: 8, total: 10, at: 4, piece: b"a unit" };
    peer("unit_query", "the last 6 bytes of unit 9, behind 8", PeerBody::UnitQuery(query));
    let report = UnitReport { number: 9, verdict: UnitVerdict::Replied, total: 5, at: 0, piece: b"+OK\r\n" };
    peer("unit_reply", "the reply of unit 9", PeerBody::UnitReply(report));
    let empty = UnitReport { total: 0, piece: b"", ..report };
    let verdict = UnitVerdict::NotRun;
    peer("unit_reply_not_run", "unit 9 was not run", PeerBody::UnitReply(UnitReport { verdict, ..empty }));
    peer("transaction", "an opaque message", PeerBody::Transaction(b"message"));
    let verdict = UnitVerdict::Waits(1_700_000_000_123);
    peer("unit_reply_waits", "unit 9 waits", PeerBody::UnitReply(UnitReport { verdict, ..empty }));
}

fn outcomes(check: Check<'_>) {
    let mut outcome = |name: &str, comment: &str, outcome: Outcome<'_>| {
        check(&format!("answer_{name}"), comment, &Message::Answer(Ok(outcome)));
    };
    let version = VERSION;
    let chunk = Outcome::Chunk { version, stamp: BLOB, bytes: b"value" };
    outcome("chunk", "5 bytes, and zeros behind them", chunk);
    outcome("done", "number 7", Outcome::Done { version, number: 7 });
    outcome("counter", "value -7", Outcome::Counter { version, value: -7 });
    outcome("value", "5 bytes of 100", Outcome::Value { version, length: 100, bytes: b"value" });
    let values: [&[u8]; 2] = [b"one", b"two"];
    let values = Elements::from_slice(&values);
    outcome("list", "values 8 and 9 of 10", Outcome::List { version, length: 10, first: 8, values });
    let record = RecordType::List;
    let at = Some(1_800_000_000_000);
    outcome("info", "a list that expires", Outcome::Info { version, record, length: 10, expires_at_ms: at });
    let keys = [
        ScannedKey { key: b"a", record: RecordType::Bytes, version, value: Some(b"first") },
        ScannedKey { key: b"bc", record: RecordType::List, version, value: None },
    ];
    let keys = Elements::from_slice(&keys);
    outcome("page", "two keys, one with its value, and more to come", Outcome::Page { next: b"go on", keys });
    let differing = [InstanceId(70_001)];
    let differing = Elements::from_slice(&differing);
    let compared = RangeComparison { next: b"go on", records: 7, bytes: 4096, copies: 3, differing };
    outcome("compared", "7 records of 4,096 bytes, another in one of 3 copies", Outcome::Compared(compared));
    let changes = changes::page(version);
    outcome("changes", "a value stored, and another that has expired", changes::answer(version, &changes));
}

fn errors(check: Check<'_>) {
    let mut report = BTreeSet::new();
    for failure in failures::failures(&NUMBERS, b"seen") {
        let failure = match failure {
            // The one that the vector was made with, however many there are now.
            Failure::BadRequest { .. } => Failure::from(BadRequestReason::HalfSession),
            Failure::AuthFailed { .. } => Failure::AuthFailed { fault: AuthFault::Proof },
            Failure::Aborted { .. } => {
                Failure::Aborted { reason: AbortReason::ReadChanged, part: 1, item: 2 }
            }
            other => other,
        };
        let known = ErrorCode::from_number(failure.code());
        let code = known.map_or("Other", ErrorCode::text);
        let again = if report.insert(code) { "" } else { "_absent" };
        let comment = failure.to_string();
        check(&format!("error_{}{again}", snake(code)), &comment, &Message::Answer(Err(failure)));
    }
    for code in ErrorCode::ALL {
        assert!(report.contains(code.text()), "no golden vector for the error {code}");
    }
}

#[test]
fn every_message_has_exactly_its_golden_bytes() {
    let (mut names, mut kinds) = (BTreeSet::new(), BTreeSet::new());
    for_each_vector(&mut |name, comment, message| {
        let envelope = if message.kind().is_for_partition()
            || message.kind().is_between_instances()
            || message.kind() >= FrameKind::Answer
        {
            &FOR_PARTITION
        } else {
            &FOR_CONNECTION
        };
        let mut bytes = Vec::new();
        Encoder::newest_for(message).encode(envelope, message, &mut bytes).unwrap();
        let golden = golden_bytes(name, comment, &bytes);
        assert_eq!(hex(&bytes), hex(&golden), "{name} is encoded otherwise than its golden vector");
        assert_says(name, &golden, envelope, message);
        assert!(names.insert(name.to_string()), "two vectors are called {name}");
        kinds.insert(message.kind());
    });
    for kind in FrameKind::ALL {
        assert!(kinds.contains(kind), "no golden vector for messages of kind {kind}");
    }
    names.insert("lookup_traced".into());
    names.insert("insert_lz4".into());
    names.insert("insert_unchecked".into());
    for file in std::fs::read_dir(folder()).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        assert!(names.contains(name), "tests/golden/{name}.hex is of no vector");
    }
}

#[test]
fn control_requests_of_every_kind_have_golden_bytes_and_are_read_back() {
    const SPECIFICATION: &str = include_str!("../../../../docs/protocols/admin.proto");
    let one_of = |name: &str| -> BTreeSet<String> {
        let (_, behind) = SPECIFICATION.split_once(&format!("oneof {name} {{\n")).unwrap();
        let (fields, _) = behind.split_once("  }\n").unwrap();
        fields.lines().map(|line| line.split_whitespace().nth(1).unwrap().to_owned()).collect()
    };
    let (questions, answers) = (admin::questions(), admin::answers());
    for field in one_of("request") {
        assert!(questions.iter().any(|(name, ..)| *name == field), "no golden vector asks for {field}");
    }
    for field in one_of("answer") {
        assert!(answers.iter().any(|(name, ..)| *name == field), "no golden vector answers {field}");
    }
    for query in questions.into_iter().map(|(.., query)| AdminRequest::of(query)) {
        assert_eq!(AdminRequest::from_bytes(&query.to_bytes()), Ok(query));
    }
    for answer in
        answers.into_iter().map(|(.., answer)| AdminAnswer { map_epoch: 11, ..AdminAnswer::of(answer) })
    {
        assert_eq!(AdminAnswer::from_bytes(&answer.to_bytes()), Ok(answer));
    }
}

#[test]
fn golden_bytes_with_other_flags_are_still_read() {
    // What a compressor makes of a body may change; that it is read may not.
    let value = [b'z'; 2000];
    let insert = WriteChange::Insert(Insert { value: &value, expiry: Expiry::Never });
    let write = RecordWrite { key: b"key", condition: Condition::Always, change: insert };
    let message = Message::Write { stamp: STAMP, write };
    let lz4 = Encoder { compress_from_bytes: Some(0), ..Encoder::newest_for(&message) };
    let unchecked = Encoder { body_checksum: false, ..Encoder::newest_for(&message) };
    for (name, encoder) in [("insert_lz4", lz4), ("insert_unchecked", unchecked)] {
        let mut bytes = Vec::new();
        encoder.encode(&FOR_PARTITION, &message, &mut bytes).unwrap();
        let golden = golden_bytes(name, "2000 times 'z', with other flags", &bytes);
        assert_says(name, &golden, &FOR_PARTITION, &message);
    }
}

pub(crate) fn assert_says(name: &str, bytes: &[u8], envelope: &Envelope, message: &Message<'_>) {
    let decoder = Decoder::with_version(Encoder::newest_for(message).version, FEATURES);
    let DecodeResult::Frame { frame, used } = decoder.decode(bytes) else {
        panic!("{name}: {:?}", decoder.decode(bytes));
    };
    assert_eq!((used, &frame.envelope), (bytes.len(), envelope), "{name}");
    assert_eq!(frame.message(&mut Vec::new()).as_ref(), Ok(message), "{name}");
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// The bytes in the file of this name: hexadecimal lines, after one that begins with `#` and says what they are.
pub(crate) fn golden_bytes(name: &str, comment: &str, encoded: &[u8]) -> Vec<u8> {
    let path = folder().join(format!("{name}.hex"));
    if !path.exists() && std::env::var("ZEROHOP_GOLDEN").is_ok_and(|mode| mode == "write") {
        #[expect(clippy::disallowed_methods, reason = "a test writes its own data")]
        std::fs::write(&path, format!("# {name}: {comment}\n{}", hex(encoded)))
            .expect("the folder can be written");
    }
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("no golden vector {}: {error}", path.display()));
    let (comment, digits) = text.split_once('\n').expect("a comment and digits");
    assert!(comment.starts_with("# "), "{name} does not begin with a comment");
    digits.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).expect("hexadecimal digits")).collect()
}

fn snake(name: &str) -> String {
    let mut text = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !text.is_empty() {
            text.push('_');
        }
        text.extend(letter.to_lowercase());
    }
    text
}
