//! `docs/formats/logs.md` states the bytes of a log's keys and records.

#[path = "../../../engine/src/documented/tables.rs"]
mod tables;

use tables::{Document, Field, check, check_comments, each, field, open};
use zerohop_layer_procedure::Record;

use crate::batch::{Batch, BatchLimits, LogRecord, ProducerId, ProducerStamp};
use crate::keys;
use crate::records::{
    CursorRecord, GroupMember, GroupRecord, HeartbeatRecord, LogOptions, MemberId, OffsetRecord, PopRecord,
    ProducerBatch, ProducerRecord, ReaderId, StoredBatch, TailRecord, TrimRecord,
};

const DOCUMENT: &str = include_str!("../../../../docs/formats/logs.md");
const NUMBERS: [u64; 4] =
    [0x0102_0304_0506_0708, 0x1112_1314_1516_1718, 0x2122_2324_2526_2728, 0x3132_3334_3536_3738];

#[test]
fn keys_and_records_are_as_documented() {
    check(DOCUMENT, |document| {
        keys_of_all_kinds(document);
        ends(document);
        batch(document);
        producer_and_options(document);
        group(document);
        pops(document);
    });
    check_comments(DOCUMENT, include_str!("batch.rs"));
}

fn format() -> Field {
    field("format, 1", [1])
}

fn number(words: &str, number: u64) -> Field {
    field(words, number.to_le_bytes())
}

fn keys_of_all_kinds(document: &mut Document<'_>) {
    const PARTITION: u32 = 0x0102_0304;
    let (producer, reader, member) = (ProducerId([7; 16]), ReaderId([8; 16]), MemberId([9; 16]));
    let of_group = || vec![open("name of the group", "name")];
    let of_cursor = || vec![open("name of the cursor", "name")];
    let with_id = |mut fields: Vec<Field>, words: &str, id: [u8; 16]| {
        fields.extend([field("zero", [0]), field(words, id)]);
        fields
    };
    let all = [
        (0, "the tail", keys::tail(PARTITION), Vec::new()),
        (1, "a batch", keys::batch(PARTITION, NUMBERS[0]), {
            vec![field("offset of its last record", NUMBERS[0].to_be_bytes())]
        }),
        (2, "a producer", keys::producer(PARTITION, producer), {
            vec![field("id of the producer", producer.0)]
        }),
        (3, "trimmed", keys::trim(PARTITION), Vec::new()),
        (4, "committed", keys::group_offset(PARTITION, "name"), of_group()),
        (5, "a cursor", keys::cursor(PARTITION, "name"), of_cursor()),
        (6, "the last pop", keys::pop(PARTITION, "name", reader), {
            with_id(of_cursor(), "id of the reader", reader.0)
        }),
        (16, "the options", keys::options(), Vec::new()),
        (17, "a group", keys::group("name"), of_group()),
        (18, "the heartbeat", keys::heartbeat("name", member), {
            with_id(of_group(), "id of the member", member.0)
        }),
    ];
    let numbers: Vec<(u64, &str)> = all.iter().map(|(kind, words, ..)| (*kind, *words)).collect();
    document.numbers("Keys / kind", &numbers);
    for (kind, _, key, mut fields) in all {
        let partition = if kind < 16 { PARTITION } else { 0 };
        let front = [field("partition", partition.to_be_bytes()), field("kind", [kind as u8])];
        fields.splice(0..0, front);
        document.listed("Keys / kind", kind, &key, &fields);
    }
}

fn ends(document: &mut Document<'_>) {
    let [next, highest, bytes, batches] = NUMBERS;
    let fields = [
        format(),
        number("offset of the next record", next),
        number("highest time of all records so far", highest),
        number("bytes of all batches so far", bytes),
        number("number of batches so far", batches),
    ];
    let tail = TailRecord { next, highest, bytes, batches };
    document.layout("Tail / offset", &[], &tail.encode(), &fields);
    let fields = [
        format(),
        number("first offset that stays", next),
        number("bytes of the batches that are removed", bytes),
        number("number of the batches that are removed", batches),
    ];
    document.layout("Trim / offset", &[], &TrimRecord { first: next, bytes, batches }.encode(), &fields);
}

fn batch(document: &mut Document<'_>) {
    let header = |name: &str, value: Option<Vec<u8>>| (name.to_owned(), value);
    let record = LogRecord {
        time: 1000,
        key: Some(b"key".to_vec()),
        value: Some(vec![0xaa; 300]),
        headers: vec![header("first", Some(vec![1])), header("last", None)],
    };
    let later = LogRecord { time: 1300, ..record.clone() };
    let stamp = ProducerStamp { id: ProducerId([7; 16]), epoch: 0x0203, sequence: 0x1415_1617 };
    let batch = Batch::new(&[record, later], Some(stamp), &BatchLimits::default()).unwrap();
    let bytes = batch.bytes();
    let records = &bytes[46..];
    let fields = [
        field("CRC-32C of what follows", crc_fast::crc32_iscsi(&bytes[4..]).to_le_bytes()),
        field("number of records", 2u32.to_le_bytes()),
        number("base time", 1000),
        number("highest time of a record", 1300),
        field("id of the producer", stamp.id.0),
        field("epoch", stamp.epoch.to_le_bytes()),
        field("sequence number of the first record", stamp.sequence.to_le_bytes()),
        open("records", records),
    ];
    document.layout("Batch of a producer / offset", &[], bytes, &fields);
    let value = [&[0xad, 0x02][..], &[0xaa; 300]].concat();
    let fields = [
        open("time above the base time", [0xac, 0x02]),
        open("key, optional", b"\x04key"),
        open("value, optional", value),
        open("number of headers", [2]),
        open("length of the name", b"\x05first\x02\x01\x04last\x00"),
    ];
    document.layout("Batch of a producer / part", &[], &records[records.len() / 2..], &fields);
    let parts = ["time above", "key", "value", "number of headers", "headers"];
    let parts: Vec<(u64, &str)> = (1..).zip(parts).collect();
    document.numbers("Batch of a producer / part", &parts);
    let [base, highest, appended, _] = NUMBERS;
    let stored = StoredBatch { base, highest, appended, batch: batch.clone() };
    let fields = [
        format(),
        number("offset of the first record", base),
        number("highest time of all records of the partition", highest),
        number("when the batch was appended", appended),
        open("the batch as its producer made it", bytes),
    ];
    document.layout("Batch / offset", &[], &stored.encode(), &fields);
}

fn producer_and_options(document: &mut Document<'_>) {
    let sent = ProducerBatch { sequence: 0x0102_0304, count: 0x1112_1314, base: NUMBERS[2] };
    let record = ProducerRecord { epoch: 0x0203, used: NUMBERS[1], batches: vec![sent; 2] };
    let bytes = record.encode();
    let fields = [
        format(),
        field("highest epoch", record.epoch.to_le_bytes()),
        number("when it last appended", record.used),
        field("number of batches", 2u32.to_le_bytes()),
        each(2, "its newest batches", &bytes[15..]),
    ];
    document.layout("Producer / offset", &[], &bytes, &fields);
    let fields = [
        field("sequence number of its first record", sent.sequence.to_le_bytes()),
        field("number of records", sent.count.to_le_bytes()),
        number("offset of its first record", sent.base),
    ];
    document.sentence("A batch that was appended:", &bytes[31..], &fields);
    let [created, age, kept, _] = NUMBERS;
    let options = LogOptions {
        id: [9; 16],
        created,
        partitions: 0x4142_4344,
        retention: Some(age),
        retention_bytes: Some(kept),
    };
    let fields = [
        format(),
        field("random bytes", options.id),
        number("when it was created", created),
        field("number of partitions", options.partitions.to_le_bytes()),
        open("by age", [1]),
        number("the age in ms", age),
        open("by size", [1]),
        number("the bytes that a partition keeps", kept),
    ];
    document.layout("Options / offset", &[], &options.encode(), &fields);
}

fn group(document: &mut Document<'_>) {
    let [generation, until, offset, committed] = NUMBERS;
    let member = GroupMember { id: MemberId([6; 16]), first: 0x0102_0304, count: 0x1112_1314 };
    let group = GroupRecord { generation, partitions: 0x2122_2324, members: vec![member; 3] };
    let bytes = group.encode();
    let fields = [
        format(),
        number("generation", generation),
        field("number of partitions that are assigned", group.partitions.to_le_bytes()),
        field("number of members", 3u32.to_le_bytes()),
        each(3, "members, by ascending id", &bytes[17..]),
    ];
    document.layout("Group / offset", &[], &bytes, &fields);
    let fields = [
        field("id", member.id.0),
        field("first partition", member.first.to_le_bytes()),
        field("number of partitions", member.count.to_le_bytes()),
    ];
    document.sentence("A member:", &bytes[bytes.len() - 24..], &fields);
    let fields = [format(), number("until when the member counts as alive", until)];
    document.layout("Group / offset, second", &[], &HeartbeatRecord { until }.encode(), &fields);
    let fields = [
        format(),
        number("offset of the next record to read", offset),
        number("generation of the member", generation),
        number("when it was committed", committed),
    ];
    let record = OffsetRecord { offset, generation, committed };
    document.layout("Offset of a group / offset", &[], &record.encode(), &fields);
}

fn pops(document: &mut Document<'_>) {
    let [offset, pop, first, used] = NUMBERS;
    let fields = [format(), number("offset of the next record to pop", offset)];
    document.layout("Cursor / offset", &[], &CursorRecord { offset }.encode(), &fields);
    let record = PopRecord { number: pop, first, count: 0x4142_4344, used };
    let fields = [
        format(),
        number("number of the pop", pop),
        number("first offset", first),
        field("number of records", record.count.to_le_bytes()),
        number("when it was", used),
    ];
    document.layout("Pop of a reader / offset", &[], &record.encode(), &fields);
}
