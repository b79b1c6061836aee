//! `log.md`.

use super::tables::{Document, check, check_comments, each, field, open};
use crate::PartitionId;
use crate::log::entry::{EntryKind, crc};
use crate::log::header::{TRAILER_BYTES, encode_trailer};
use crate::log::shared::format::{
    FIRST_ENTRY_AT, HEAD_BYTES, HEADER_BYTES, HeadBase, LogId, LogPartition, LogStream, SharedHead,
    SharedHeader, SharedKind, head_sum,
};
use crate::log::shared::local::{Creation, LogFooter, LogMark, MarkRow, RunRow, StreamEnd, VoidRange};

const DOCUMENT: &str = include_str!("../../../../docs/formats/log.md");

const HEADER: SharedHeader = SharedHeader {
    number: 0x1011_1213_1415_1617,
    log: LogId(*b"sixteen byte id!"),
    timestamp: 0x2021_2223_2425_2627,
    before: 0x0031_3233_3435_3637,
    stream: LogStream::Cold,
};

#[test]
fn logs_are_as_documented() {
    check(DOCUMENT, |document| {
        streams(document);
        header(document);
        entry(document);
        kinds(document);
        creations(document);
        mark(document);
        footer(document);
        void_entries(document);
    });
    check_comments(DOCUMENT, include_str!("../log/shared/format.rs"));
    assert_eq!(FIRST_ENTRY_AT, 4096, "the document has it");
}

fn streams(document: &mut Document<'_>) {
    let numbers = LogStream::ON_DISK.map(|stream| u64::from(stream as u8));
    document
        .numbers("Log files / stream", &[(numbers[0], "small"), (numbers[1], "large"), (numbers[2], "cold")]);
}

fn header(document: &mut Document<'_>) {
    let bytes = HEADER.encode();
    let summed = [&HEADER.log.0[..], &HEADER.number.to_le_bytes()].concat();
    let salt = xxhash_rust::xxh3::xxh3_64(&summed) as u32;
    assert_eq!(SharedHeader::decode(&bytes), Ok(HEADER));
    let fields = [
        field("`zerohlog`", b"zerohlog"),
        field("format version: 1", 1u32.to_le_bytes()),
        field("salt: the low half of xxh3-64 over log id (16), number (8)", salt.to_le_bytes()),
        field("number of the segment, as in its name", HEADER.number.to_le_bytes()),
        field("id of the log", HEADER.log.0),
        field("timestamp that entries count from", HEADER.timestamp.to_le_bytes()),
        field("number of the segment before it in its stream", HEADER.before.to_le_bytes()),
        field("stream", [2]),
        field("zero", [0; 3]),
        field("CRC-32C of bytes 0 to 60", crc(&bytes[..60]).to_le_bytes()),
    ];
    document.layout(&format!("Header, {HEADER_BYTES} bytes / offset"), &[], &bytes, &fields);
}

fn entry(document: &mut Document<'_>) {
    let (key, payload) = ([b'k'; 0x0102], [b'p'; 0x0304]);
    let base = HeadBase { salt: 0xA1A2_A3A4, timestamp: 1 << 60 };
    let head = SharedHead {
        kind: SharedKind::Replicated(EntryKind::Append),
        flags: 0xF1,
        partition: LogPartition(0x3132_3334),
        epoch: 0x4142_4344,
        index: 0x5152_5354_5556,
        timestamp: base.timestamp + 0x6162_6364_6566,
        back: 0x7172_7374,
        key_bytes: key.len(),
        payload_bytes: payload.len(),
        payload_crc: crc(&payload),
        is_kept: true,
    };
    let mut bytes = [&head.encode_unsummed(&base)[..], &key, &payload].concat();
    let summed = [&bytes[4..40], &key].concat();
    let sum = crc(&summed) ^ base.salt;
    assert_eq!(head_sum(&base, [&bytes[4..HEAD_BYTES], &key]), sum);
    bytes[..4].copy_from_slice(&sum.to_le_bytes());
    assert_eq!(SharedHead::decode(&base, &bytes), Some(head));
    let shape = 0x0102u32 | 3 << 18 | 0xF1 << 24;
    let fields = [
        field("CRC-32C of bytes 4 to 40 and the key, xor the salt", sum.to_le_bytes()),
        field("CRC-32C of the payload", crc(&payload).to_le_bytes()),
        field("payload length (25 bits); bit 31: kept for a snapshot", (0x0304u32 | 1 << 31).to_le_bytes()),
        field("key length (18 bits), kind (6 bits), flags (8 bits", shape.to_le_bytes()),
        field("log partition, from 1", head.partition.0.to_le_bytes()),
        field("epoch", head.epoch.to_le_bytes()),
        field("log index, from 1", &head.index.to_le_bytes()[..6]),
        field("timestamp, less the segment's", [0x66, 0x65, 0x64, 0x63, 0x62, 0x61]),
        field("bytes back to the entry of the same log partition", head.back.to_le_bytes()),
        open("key, then payload", [&key[..], &payload].concat()),
    ];
    document.layout(&format!("Entry, {HEAD_BYTES} bytes and key and payload / offset"), &[], &bytes, &fields);
}

fn kinds(document: &mut Document<'_>) {
    let title = format!("Entry, {HEAD_BYTES} bytes and key and payload / kind");
    let known: Vec<(u64, &str)> = (0..1 << 6)
        .filter_map(|number| {
            let name = match SharedKind::from_number(number)? {
                SharedKind::Replicated(EntryKind::Put) => "put",
                SharedKind::Replicated(EntryKind::Remove) => "remove",
                SharedKind::Replicated(EntryKind::Append) => "append",
                SharedKind::Replicated(EntryKind::Trim) => "trim",
                SharedKind::Replicated(_) => "mark of an upper layer",
                SharedKind::Creations => "creations, local",
                SharedKind::Mark => "mark, local",
                SharedKind::Footer => "footer, local",
                SharedKind::Pad => "pad, local",
                SharedKind::Voids => "voids, local",
            };
            Some((u64::from(number), name))
        })
        .collect();
    document.numbers(&title, &known);
}

fn creations(document: &mut Document<'_>) {
    let creation = Creation {
        number: LogPartition(0x5152_5354),
        partition: PartitionId(0x1112_1314_1516_1718),
        seed: 0x2122_2324_2526_2728,
        continues: Some((LogPartition(0x3132_3334), 0x4142_4344_4546)),
        is_incoming: true,
        is_dropped: true,
    };
    let bytes = Creation::encode_all(&[creation]);
    assert_eq!(Creation::decode_all(&bytes), Some(vec![creation]));
    let fields = [
        field("number", creation.number.0.to_le_bytes()),
        field("flags: bit 0 incoming", 3u32.to_le_bytes()),
        field("partition", creation.partition.0.to_le_bytes()),
        field("seed of the partition's index hash", creation.seed.to_le_bytes()),
        field("number of the log partition that it continues", 0x3132_3334u32.to_le_bytes()),
        field("zero", [0; 4]),
        field("index through which it continues", 0x4142_4344_4546u64.to_le_bytes()),
    ];
    document.layout("Creations / offset", &[], &bytes, &fields);
}

fn mark(document: &mut Document<'_>) {
    let ends = [0x1112_1314, 0x2122_2324, 0x3132_3334]
        .map(|offset| StreamEnd { segment: u64::from(offset) << 24, offset });
    let row = MarkRow {
        number: LogPartition(0x4142_4344),
        epoch: 0x5152_5354,
        durable: 0x6162_6364_6566,
        commit: 0x7172_7374_7576,
        covered: 0x0182_8384_8586,
    };
    let other = MarkRow { number: LogPartition(9), ..row };
    let mark = LogMark { header: HEADER, ends, checkpoint: 0x9192_9394_9596_9798, rows: vec![row, other] };
    let bytes = mark.encode();
    let rows = &bytes[108..];
    let written = ends.map(|end| [&end.segment.to_le_bytes()[..], &end.offset.to_le_bytes()].concat());
    let fields = [
        field("a copy of the header of this segment", HEADER.encode()),
        each(
            3,
            "the durable ends of the streams small, large, cold: segment (8), offset (4)",
            written.concat(),
        ),
        field("number of the newest checkpoint file", mark.checkpoint.to_le_bytes()),
        each(2, "a row of a log partition that has changed since the mark before", rows),
    ];
    document.layout("Mark / offset", &[], &bytes, &fields);
    let fields = [
        field("number of the log partition", row.number.0.to_le_bytes()),
        field("epoch of its last entry", row.epoch.to_le_bytes()),
        field("index of its last entry that survives a crash", &row.durable.to_le_bytes()[..6]),
        field("commit index by now", &row.commit.to_le_bytes()[..6]),
        field("covered index", &row.covered.to_le_bytes()[..6]),
        field("zero", [0; 2]),
    ];
    document.layout("Mark / offset, second", &[], &rows[..rows.len() / 2], &fields);
    assert_eq!(LogMark::decode(&bytes), Some(mark));
}

fn footer(document: &mut Document<'_>) {
    let run = RunRow {
        number: LogPartition(0x0102_0304),
        partition: PartitionId(0x1112_1314_1516_1718),
        seed: 0x2122_2324_2526_2728,
        first: 0x3132_3334_3536,
        last: 0x4142_4344_4546,
        last_at: 0x5152_5354,
        bytes: 0x6162_6364,
    };
    let footer = LogFooter { header: HEADER, runs: vec![run, RunRow { number: LogPartition(8), ..run }] };
    let bytes = footer.encode();
    let rows = &bytes[HEADER_BYTES..];
    assert_eq!(LogFooter::bytes_of(2), HEAD_BYTES + bytes.len() + TRAILER_BYTES);
    let fields =
        [field("a copy of the header of this segment", HEADER.encode()), each(2, "a row of a run", rows)];
    document.layout("Footer and trailer / offset", &[], &bytes, &fields);
    let fields = [
        field("number of the log partition", run.number.0.to_le_bytes()),
        field("partition", run.partition.0.to_le_bytes()),
        field("seed of the partition's index hash", run.seed.to_le_bytes()),
        field("index of the first entry", &run.first.to_le_bytes()[..6]),
        field("index of the last entry", &run.last.to_le_bytes()[..6]),
        field("offset of the last entry", run.last_at.to_le_bytes()),
        field("bytes of the entries", run.bytes.to_le_bytes()),
    ];
    document.layout("Footer and trailer / offset, second", &[], &rows[..rows.len() / 2], &fields);
    assert_eq!(LogFooter::decode(&bytes), Some(footer));
    let trailer = encode_trailer(0xA1A2_A3A4, 0x0102_0304, 0x1112_1314);
    let fields = [
        field("offset of the footer entry", 0x0102_0304u32.to_le_bytes()),
        field("its length", 0x1112_1314u32.to_le_bytes()),
        field("`zhft`", b"zhft"),
        field("CRC-32C of the twelve bytes before, xor the salt", {
            (crc(&trailer[..12]) ^ 0xA1A2_A3A4).to_le_bytes()
        }),
    ];
    document.sentence(&format!("Trailer, the last {TRAILER_BYTES} bytes:"), &trailer, &fields);
}

fn void_entries(document: &mut Document<'_>) {
    let row = VoidRange { segment: 0x0102_0304_0506_0708, from: 0x1112_1314, until: 0x2122_2324 };
    let bytes = VoidRange::encode_all(&[row]);
    assert_eq!(VoidRange::decode_all(&bytes), Some(vec![row]));
    let fields = [
        field("number of the segment", row.segment.to_le_bytes()),
        field("first offset", row.from.to_le_bytes()),
        field("offset behind the last one", row.until.to_le_bytes()),
    ];
    document.layout("Voids / offset", &[], &bytes, &fields);
}
