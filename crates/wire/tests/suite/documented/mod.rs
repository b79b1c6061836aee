//! The tables in `docs/protocols/wire.md` state the bytes of messages.

#[path = "../../../../engine/src/documented/tables.rs"]
mod tables;

mod numbers;
mod peers;

use tables::{Document, Field, check_comments, check_offsets, field, open};
use zerohop_wire::blob::{BlobHeader, BlobStamp, StagedExtensionState, chunk_key, header_key, staged_key};
use zerohop_wire::checksum::crc32c;
use zerohop_wire::contents::Contents;
use zerohop_wire::ids::*;
use zerohop_wire::messages::*;
use zerohop_wire::messages::{Insert, Remove};
use zerohop_wire::{Elements, Encoder, Envelope, Features, FrameKind, MAGIC, Message};

const DOCUMENT: &str = include_str!("../../../../../docs/protocols/wire.md");
const NUMBERS: [u64; 5] = [
    0x0102_0304_0506_0708,
    0x1112_1314_1516_1718,
    0x2122_2324_2526_2728,
    0x3132_3334_3536_3738,
    0x4142_4344_4546_4748,
];
const CLUSTER: ClusterId = ClusterId(*b"cluster of tests");
const SEEN: Timestamp = Timestamp(0x5152_5354_5556_5758);
const VERSION: Timestamp = Timestamp(0x6162_6364_6566_6768);
const STAMP: Stamp = Stamp {
    session: SessionId { issued: Timestamp(0x7172_7374_7576_7778), nonce: 0x8182_8384_8586_8788 },
    sequence: Sequence(0x1121_3141),
    lowest_unanswered: Sequence(0x1121_3140),
    seen: SEEN,
};

#[test]
fn messages_are_as_documented() {
    check_offsets(DOCUMENT, |document| {
        header(document);
        greeting(document);
        cluster(document);
        gathered(document);
        reads(document);
        scans(document);
        writes(document);
        batches(document);
        transacted(document);
        snapshots(document);
        peers::compare(document);
        blobs(document);
        answers(document);
    });
}

#[test]
fn tables_in_comments_are_those_of_the_document() {
    check_comments(DOCUMENT, include_str!("../../../src/header.rs"));
    check_comments(DOCUMENT, include_str!("../../../src/contents.rs"));
    check_comments(DOCUMENT, include_str!("../../../../record/src/blob.rs"));
    check_comments(DOCUMENT, include_str!("../../../../record/src/answer.rs"));
}

/// The body of a message of this kind.
fn body(kind: FrameKind, message: &Message<'_>) -> Vec<u8> {
    let mut body = Vec::new();
    assert_eq!(message.encode_body(&mut body), Ok(kind));
    body
}

/// A field of 8 bytes.
fn n8(words: &str, number: u64) -> Field {
    field(words, number.to_le_bytes())
}

/// A field of 4 bytes.
fn n4(words: &str, number: u32) -> Field {
    field(words, number.to_le_bytes())
}

/// A field of 2 bytes.
fn n2(words: &str, number: u16) -> Field {
    field(words, number.to_le_bytes())
}

/// Bytes that must be zero.
fn zero(bytes: usize) -> Field {
    field("zero", vec![0; bytes])
}

fn header(document: &mut Document<'_>) {
    let envelope = Envelope {
        request: RequestId(NUMBERS[0]),
        keyspace: KeyspaceId(0x0403_0201),
        partition: PartitionId(0x0807_0605),
        partition_epoch: PartitionEpoch(NUMBERS[1]),
        time_out_ms: 0x0123_4567,
        read_lock: true,
    };
    let message = Message::Read { seen: SEEN, read: RecordRead { key: b"key", query: Query::Lookup } };
    let (body, encoder) = (body(FrameKind::Lookup, &message), Encoder::newest_for(&message));
    let mut bytes = Vec::new();
    encoder.encode(&envelope, &message, &mut bytes).expect("it is within its bounds");
    let head = &bytes[..bytes.len() - body.len()];
    let fields = [
        field("magic `FA 5A 48`", MAGIC),
        field("version", [encoder.version]),
        n2("kind", FrameKind::Lookup.number()),
        // A checksum of the body, and a read lock.
        n2("flags", 1 + 4),
        n8("request id", NUMBERS[0]),
        n4("keyspace, 0 for none", 0x0403_0201),
        n4("partition within the keyspace", 0x0807_0605),
        n8("partition epoch", NUMBERS[1]),
        n4("in a request the time-out in ms", 0x0123_4567),
        n4("length of the body", body.len() as u32),
        n4("CRC-32C of the body as it travels", crc32c(&body)),
        n4("CRC-32C of bytes 0 to 43", crc32c(&head[..44])),
    ];
    document.layout("The header / offset", &[], head, &fields);
}

fn greeting(document: &mut Document<'_>) {
    let features = Features(NUMBERS[0]);
    let hello = Hello {
        version_min: 2,
        version_max: 3,
        features,
        cluster: CLUSTER,
        map_epoch: MapEpoch(NUMBERS[1]),
        proof_method: 1,
        nonce: *b"a nonce of the client, 32 bytes.",
        name: "zerohop cli",
    };
    let fields = [
        field("oldest version the client speaks", [2]),
        field("newest version the client speaks", [3]),
        field("method of the proof that the client knows the cluster's secret", [1]),
        field("length of the name", [11]),
        zero(4),
        n8("features", features.0),
        field("cluster that the client wants", CLUSTER.0),
        n8("epoch of the client's map", NUMBERS[1]),
        zero(8),
        field("nonce for the server's proof", hello.nonce),
        field("name of the client", "zerohop cli"),
    ];
    document.layout("hello / offset", &[], &body(FrameKind::Hello, &Message::Hello(hello)), &fields);
    let proof = Proof {
        method: 1,
        nonce: *b"a nonce of the server, 32 bytes.",
        proof: *b"the proof of server, 32 bytes...",
    };
    let ack = HelloAck {
        version: 2,
        instance: InstanceId(0x0403_0201),
        features,
        cluster: CLUSTER,
        incarnation: Incarnation(NUMBERS[1]),
        map_epoch: MapEpoch(NUMBERS[2]),
        now: Timestamp(NUMBERS[3]),
        proof,
    };
    let fields = [
        field("version chosen", [2]),
        field("method of the proof", [1]),
        zero(2),
        n4("instance that answers", 0x0403_0201),
        n8("features that both have", features.0),
        field("cluster", CLUSTER.0),
        n8("incarnation", NUMBERS[1]),
        n8("epoch of the server's map", NUMBERS[2]),
        n8("the server's time", NUMBERS[3]),
        zero(8),
        field("nonce for the client's proof", proof.nonce),
        field("proof for the client's nonce", proof.proof),
    ];
    document.layout("hello_ack / offset", &[], &body(FrameKind::HelloAck, &Message::HelloAck(ack)), &fields);
}

fn cluster(document: &mut Document<'_>) {
    let pong = Pong { map_epoch: MapEpoch(NUMBERS[0]), now: Timestamp(NUMBERS[1]) };
    let bytes = body(FrameKind::Pong, &Message::Pong(pong));
    let ping = body(FrameKind::Ping, &Message::Ping(Ping { map_epoch: pong.map_epoch }));
    assert_eq!(ping, bytes[..8], "a ping has the first field only");
    let fields =
        [n8("epoch of the sender's map", NUMBERS[0]), n8("only in `pong`: the server's time", NUMBERS[1])];
    document.layout("ping, pong / offset", &[], &bytes, &fields);
    let opened = SessionOpened { session: STAMP.session, idle_ms: 0x0403_0201 };
    let bytes = body(FrameKind::SessionOpened, &Message::SessionOpened(opened));
    let session = [STAMP.session.issued.0, STAMP.session.nonce].map(u64::to_le_bytes).concat();
    let fields = [
        field("session", session),
        n4("minimum time in ms for which a partition remembers the session", 0x0403_0201),
        zero(4),
    ];
    document.layout("session_open, session_opened / offset", &[], &bytes, &fields);
    let map = Map { epoch: MapEpoch(NUMBERS[0]), since: MapEpoch(NUMBERS[1]), encoded: b"changes" };
    let fields = [
        n8("epoch of the map, after the changes", NUMBERS[0]),
        n8("epoch to which the changes apply", NUMBERS[1]),
        zero(8),
        field("map or changes", b"changes"),
    ];
    document.layout("map_get, map / offset", &[], &body(FrameKind::Map, &Message::Map(map)), &fields);
    let since = MapGet { since: MapEpoch(NUMBERS[0]) };
    assert_eq!(body(FrameKind::MapGet, &Message::MapGet(since)), NUMBERS[0].to_le_bytes());
}

fn gathered(document: &mut Document<'_>) {
    let lookup = Message::Read { seen: SEEN, read: RecordRead { key: b"key", query: Query::Lookup } };
    let read = body(FrameKind::Lookup, &lookup);
    let request = GatheredRequest {
        keyspace: KeyspaceId(0x0403_0201),
        partition: PartitionId(0x0807_0605),
        partition_epoch: PartitionEpoch(NUMBERS[0]),
        kind: FrameKind::Lookup.number(),
        read_lock: true,
        body: &read,
    };
    let requests = [request];
    let bytes = body(FrameKind::Gather, &Message::Gather(Elements::from_slice(&requests)));
    let fields = [
        n4("keyspace", 0x0403_0201),
        n4("partition", 0x0807_0605),
        n8("partition epoch", NUMBERS[0]),
        n2("kind: 01xx or 02xx", FrameKind::Lookup.number()),
        n2("flags: 1 asks for a [read lock]", 1),
        n4("length of what follows", read.len() as u32),
        field("the body, as in a frame of its own", &read),
    ];
    document.layout("gather, gathered / offset", &[], &bytes, &fields);
    let outcome = Outcome::Done { version: VERSION, number: 7 };
    let answer = body(FrameKind::Answer, &Message::Answer(Ok(outcome)));
    let answers = [GatheredAnswer {
        request: RequestId(NUMBERS[0]),
        kind: FrameKind::Answer.number(),
        read_lock_us: 0x0201,
        body: &answer,
    }];
    let bytes = body(FrameKind::Gathered, &Message::Gathered(Elements::from_slice(&answers)));
    let fields = [
        n8("request id", NUMBERS[0]),
        n2("kind: `answer`, `batch_answer` or `transacted`", FrameKind::Answer.number()),
        n2("length of the [read lock](#read-locks) in us", 0x0201),
        n4("length of what follows", answer.len() as u32),
        field("the body, as in a frame of its own", &answer),
    ];
    document.layout("gather, gathered / offset, second", &[], &bytes, &fields);
}

fn reads(document: &mut Document<'_>) {
    let wait = Query::Wait(Wait { until: WaitUntil::Differs(b"payload") });
    let read = Message::Read { seen: SEEN, read: RecordRead { key: b"key", query: wait } };
    let bytes = body(FrameKind::Wait, &read);
    let (seen, bytes) = bytes.split_at(8);
    assert_eq!(seen, SEEN.0.to_le_bytes());
    let fields = [
        n4("key length", 3),
        field("detail: the condition of `wait`, the kind of `update_lock`, else 0", [1]),
        zero(3),
        // The version.
        field("fields of the kind", [0; 8]),
        field("key", b"key"),
        field("payload", b"payload"),
    ];
    document.layout("Bodies: reads / offset", &[], bytes, &fields);
    let id = SnapshotId(u128::from_le_bytes(*b"snapshot's id 16"));
    let close = SnapshotRequest { seen: SEEN, id, request: SnapshotQuery::Close };
    let fields = [n8("seen", SEEN.0), field("id of the snapshot", b"snapshot's id 16")];
    document.layout(
        "open_snapshot, renew_snapshot, close_snapshot, read_at, scan_at / offset",
        &[],
        &body(FrameKind::CloseSnapshot, &Message::Snapshot(close)),
        &fields,
    );
}

fn scans(document: &mut Document<'_>) {
    let bounds =
        ScanRange { from: b"lower", to: b"upper one", reverse: true, values: true, bytes_max: 0x0403_0201 };
    let scan = Scan {
        seen: SEEN,
        cursor: b"the cursor",
        prefix: b"prefix",
        keys_max: 0x0102,
        blobs: false,
        range: bounds,
    };
    let fields = [
        n8("seen", SEEN.0),
        n4("cursor length", 10),
        n4("prefix length", 6),
        n4("keys at most", 0x0102),
        n4("bytes of keys and values at most", 0x0403_0201),
        n4("length of the lower bound", 5),
        n4("length of the upper bound", 9),
        open("1: from the highest key down, else 0", [1]),
        open("1: with the values of bytes records, else 0", [1]),
        zero(6),
        field("cursor: from the page before", b"the cursor"),
        field("lower bound: only keys at or above it", b"lower"),
        field("upper bound: only keys below it", b"upper one"),
        field("prefix: only keys that begin so", b"prefix"),
    ];
    document.layout("scan / offset", &[], &body(FrameKind::Scan, &Message::Scan(scan)), &fields);
    let list = ChunkList {
        seen: SEEN,
        name: b"film",
        first: NUMBERS[0],
        end: NUMBERS[1],
        cursor: b"the cursor",
        numbers_max: 0x0102,
    };
    let fields = [
        n8("seen", SEEN.0),
        n8("first number", NUMBERS[0]),
        n8("number behind the last", NUMBERS[1]),
        n4("cursor length", 10),
        n4("chunks at most", 0x0102),
        field("cursor: from the page before", b"the cursor"),
        field("name: that in the keys of the chunks", b"film"),
    ];
    document.layout(
        "list_chunks / offset",
        &[],
        &body(FrameKind::ListChunks, &Message::Chunks(list)),
        &fields,
    );
    let changes = ReadChanges {
        seen: SEEN,
        after: NUMBERS[0],
        newest: Timestamp(NUMBERS[1]),
        wait_ms: 0x0102,
        changes_max: 0x0304,
        bytes_max: 0x0506_0708,
        values: true,
        from: b"from",
        to: b"upper",
        prefix: b"",
    };
    let fields = [
        n8("seen", SEEN.0),
        n8("after: log index that the answer before gave", NUMBERS[0]),
        n8("newest: timestamp that the answer before gave", NUMBERS[1]),
        n4("wait in ms", 0x0102),
        n4("changes at most", 0x0304),
        n4("bytes of keys and values at most", 0x0506_0708),
        n4("length of the lower bound", 4),
        n4("length of the upper bound", 5),
        n4("length of the prefix", 0),
        field("1 if values are requested", [1]),
        zero(7),
        field("lower bound: only keys at or above it", b"from"),
        field("upper bound: only keys below it", b"upper"),
        field("prefix", b""),
    ];
    let bytes = body(FrameKind::ReadChanges, &Message::Changes(changes));
    document.layout("read_changes / offset", &[], &bytes, &fields);
    let compare = Message::Compare(Compare { from: b"the cursor" });
    let fields = [n4("cursor length", 10), zero(4), field("cursor at which the range begins", b"the cursor")];
    document.layout("compare / offset", &[], &body(FrameKind::Compare, &compare), &fields);
}

fn insert() -> RecordWrite<'static> {
    let change =
        WriteChange::Insert(Insert { value: b"payload", expiry: Expiry::AtMs(0x0000_4344_4546_4748) });
    RecordWrite { key: b"key", condition: Condition::IfVersion(VERSION), change }
}

fn stamp_bytes() -> Vec<u8> {
    let Stamp { session, sequence, lowest_unanswered, seen } = STAMP;
    [session.issued.0, session.nonce, sequence.0, lowest_unanswered.0, seen.0].map(u64::to_le_bytes).concat()
}

fn writes(document: &mut Document<'_>) {
    let bytes = body(FrameKind::Insert, &Message::Write { stamp: STAMP, write: insert() });
    let (stamp, bytes) = bytes.split_at(40);
    let fields = [
        field("session", &stamp_bytes()[..16]),
        n8("sequence: the number of this write", STAMP.sequence.0),
        n8("lowest sequence that the session has no answer to", STAMP.lowest_unanswered.0),
        n8("seen: the highest timestamp that the session has seen", SEEN.0),
    ];
    document.layout("Common fields / offset", &[], stamp, &fields);
    let fields = [
        n4("key length", 3),
        open("condition", [3]),
        field("detail", [2]),
        zero(2),
        n8("version of the condition", VERSION.0),
        n8("fields of the kind", 0x0000_4344_4546_4748),
        field("key", b"key"),
        field("payload", b"payload"),
    ];
    document.layout("Bodies: writes / offset", &[], bytes, &fields);
}

fn batches(document: &mut Document<'_>) {
    let operations = [RecordOperation::Write(insert())];
    let batch = OperationBatch { stamp: STAMP, operations: Elements::from_slice(&operations) };
    let bytes = body(FrameKind::Batch, &Message::Batch(batch));
    let fields =
        [field("write identity", stamp_bytes()), n4("count", 1), zero(4), field("items", &bytes[48..])];
    document.layout("batch / offset", &[], &bytes, &fields);
    let write = body(FrameKind::Insert, &Message::Write { stamp: STAMP, write: insert() });
    let operation = &write[40..];
    let fields = [
        n2("kind", FrameKind::Insert.number()),
        zero(2),
        n4("length of what follows", operation.len() as u32),
        field("the operation, without write identity or seen", operation),
    ];
    document.layout("batch / offset, second", &[], &bytes[48..], &fields);
}

fn transacted(document: &mut Document<'_>) {
    let answers = [ItemAnswer(Ok(Outcome::Done { version: Timestamp::MAX, number: 7 }))];
    let done = TransactionDone { version: VERSION, answers: Elements::from_slice(&answers) };
    let bytes = body(FrameKind::Transacted, &Message::Transacted(done));
    let fields = [
        n8("version of everything that the transaction has changed", VERSION.0),
        n4("number of answers", 1),
        zero(4),
        open("the answers to its items in their order", &bytes[16..]),
    ];
    document.layout("Bodies: transactions / offset", &[], &bytes, &fields);
    let answer = body(FrameKind::Answer, &Message::Answer(answers[0].0.clone()));
    let expected = [&(answer.len() as u32).to_le_bytes()[..], &[0; 4], &answer].concat();
    assert_eq!(bytes[16..], expected, "each as in `batch_answer`");
    let stage = Message::Stage(StageBytes { stamp: STAMP, piece: b"piece" });
    assert_eq!(body(FrameKind::Stage, &stage), [&stamp_bytes()[..], b"piece"].concat());
}

/// The requests of snapshots, behind their first 24 bytes.
fn snapshots(document: &mut Document<'_>) {
    const TITLE: &str = "open_snapshot, renew_snapshot, close_snapshot, read_at, scan_at / kind";
    let at = Timestamp(NUMBERS[3]);
    let read = RecordRead { key: b"key", query: Query::Lookup };
    let scan = Scan {
        seen: SEEN,
        cursor: b"",
        prefix: b"film",
        keys_max: 1,
        blobs: false,
        range: ScanRange::default(),
    };
    let body_of = |kind, request| {
        let id = SnapshotId(u128::from_le_bytes(*b"snapshot's id 16"));
        let message = Message::Snapshot(SnapshotRequest { seen: SEEN, id, request });
        body(kind, &message).split_off(24)
    };
    let open_query = SnapshotQuery::Open { lease_ms: 0x0201, age_ms: 0x0403_0201 };
    let fields = [n4("lease in ms", 0x0201), zero(4), n8("longest age in ms", 0x0403_0201)];
    document.named(TITLE, "open_snapshot", &body_of(FrameKind::OpenSnapshot, open_query), &fields);
    let renew = SnapshotQuery::Renew { lease_ms: 0x0201 };
    document.named(TITLE, "renew_snapshot", &body_of(FrameKind::RenewSnapshot, renew), &fields[..2]);
    let close = body_of(FrameKind::CloseSnapshot, SnapshotQuery::Close);
    document.named(TITLE, "close_snapshot", &close, &[open("none", b"")]);
    let bytes = body_of(FrameKind::ReadAt, SnapshotQuery::Read { at, read });
    let fields = [n8("time", at.0), open("one item of a batch", &bytes[8..])];
    document.named(TITLE, "read_at", &bytes, &fields);
    let bytes = body_of(FrameKind::ScanAt, SnapshotQuery::Chunks { at, scan });
    let fields = [
        n8("time", at.0),
        field("0 for keys, 1 for names of blobs, 2 for chunks of a blob", [2]),
        zero(7),
        open("the body of a scan", body(FrameKind::Scan, &Message::Scan(scan))),
    ];
    document.named(TITLE, "scan_at", &bytes, &fields);
}

fn blobs(document: &mut Document<'_>) {
    let bytes = chunk_key(b"film", NUMBERS[0]).expect("the name is short");
    let fields = [
        field("FF, `zhb`", b"\xFFzhb"),
        field("name, 1 to 4,096 bytes", b"film"),
        field("number of the chunk, big-endian; of the header 0", NUMBERS[0].to_be_bytes()),
        field("0: a chunk, 1: the header; 2: a piece staged for a transaction", [0]),
    ];
    document.layout("Blobs / offset", &[], &bytes, &fields);
    assert_eq!(header_key(b"film").expect("the name is short"), b"\xFFzhbfilm\0\0\0\0\0\0\0\0\x01");
    assert_eq!(staged_key(STAMP.session, STAMP.sequence).last(), Some(&2));
    let header = BlobHeader {
        chunk_bits: 20,
        stamp: BlobStamp { id: NUMBERS[0], generation: NUMBERS[1] },
        size: NUMBERS[2],
        pending_truncation_end: NUMBERS[3],
        staged_extension: StagedExtensionState::CutOff,
        attributes: b"attributes",
    };
    let mut bytes = Vec::new();
    header.encode(&mut bytes);
    let staged = "1: a staged extension is in progress; 2: a truncation of one is in progress; else 0";
    let fields = [
        field("format, 1", [1]),
        field("bytes of a chunk, as a power of two", [20]),
        field(staged, [2]),
        zero(5),
        n8("id: the timestamp of its creation", NUMBERS[0]),
        n8("generation: the number of truncations and staged extensions", NUMBERS[1]),
        n8("size in bytes", NUMBERS[2]),
        n8("end of the bytes that a truncation has not reached yet", NUMBERS[3]),
        field("attributes, at most 32,768 bytes, opaque", b"attributes"),
    ];
    document.layout("Blobs / offset, second", &[], &bytes, &fields);
    let contents = Contents { name: b"a place", stamp: BlobStamp { id: NUMBERS[0], generation: NUMBERS[1] } };
    let mut bytes = Vec::new();
    contents.encode(&mut bytes);
    bytes.extend_from_slice(b"of the owner");
    let fields = [
        field("00 `\"zerohop contents\"` 00", b"\0zerohop contents\0"),
        n8("id in the stamps of the chunks", NUMBERS[0]),
        n8("generation of the chunks while that of the header is 0", NUMBERS[1]),
        n2("N, bytes of the name", 7),
        field("the name in the keys of the chunks", b"a place"),
        field("the attributes of the blob's owner", b"of the owner"),
    ];
    document.layout("Contents under another name / offset", &[("N", 7)], &bytes, &fields);
}

fn answers(document: &mut Document<'_>) {
    let values: [&[u8]; 3] = [b"one", b"two", b"three"];
    let values = Elements::from_slice(&values);
    let list = Outcome::List { version: VERSION, length: NUMBERS[0], first: NUMBERS[1], values };
    let bytes = body(FrameKind::Answer, &Message::Answer(Ok(list)));
    let fields = [
        n2("error code, 0 for success", 0),
        field("shape of the outcome, 0 for an error", [Shape::List.number()]),
        field("type of the record: 0 none or unknown, 1 bytes, 2 list, 3 chunk", [RecordType::List.number()]),
        n4("detail", 3),
        n8("version of the record", VERSION.0),
        n8("number", NUMBERS[0]),
        open("payload", &bytes[24..]),
    ];
    document.layout("answer / offset", &[], &bytes, &fields);
    let removal =
        RecordWrite { key: b"key", condition: Condition::Always, change: WriteChange::Remove(Remove) };
    let bytes = body(FrameKind::Remove, &Message::Write { stamp: STAMP, write: removal });
    assert_eq!(bytes.len(), 40 + 16 + 3, "a kind without fields and payload has none");
}
