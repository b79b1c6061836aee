//! `segment.md`.

use super::tables::{Document, check, check_comments, each, field, open};
use crate::PartitionId;
use crate::limits::{KEY_BYTES_MAX, PAYLOAD_BYTES_MAX};
use crate::log::chunk_head::{CHUNK_HEAD_BYTES, ChunkHead};
use crate::log::entry::{
    EntryBase, EntryKind, EntryMeta, FLAG_CHUNK, FLAG_JOINED, FLAG_LIST, FLAG_TRAILER, HEAD_BYTES, crc,
    encode,
};
use crate::log::header::{Footer, HEADER_BYTES, SegmentHeader, TRAILER_BYTES, encode_trailer, salt_of};
use crate::log::scan::Mark;
use crate::overflow::chains::TrimPoint;
use crate::store::units_of;

const DOCUMENT: &str = include_str!("../../../../docs/formats/segment.md");

const HEADER: SegmentHeader = SegmentHeader {
    partition: PartitionId(0x1011_1213_1415_1617),
    base: EntryBase {
        salt: 0x2021_2223,
        epoch: 0x3031_3233,
        index: 0x4041_4243_4445_4647,
        timestamp: 0x5051_5253_5455_5657,
    },
    covers_through: 0x6061_6263_6465_6667,
    covers_epoch: 0x7071_7273,
    generation: 0x8081_8283,
    compacted_at: 0x9091_9293_9495_9697,
    index_seed: 0xA0A1_A2A3_A4A5_A6A7,
};

#[test]
fn segments_are_as_documented() {
    check(DOCUMENT, |document| {
        header(document);
        entry(document);
        kinds(document);
        chunk(document);
        mark(document);
        footer(document);
    });
    check_comments(DOCUMENT, include_str!("../log/header.rs"));
    check_comments(DOCUMENT, include_str!("../log/entry.rs"));
    check_comments(DOCUMENT, include_str!("../log/chunk_head.rs"));
}

fn header(document: &mut Document<'_>) {
    let bytes = HEADER.encode();
    let summed = [&bytes[16..24], &bytes[24..32], &bytes[40..44], &bytes[44..48]].concat();
    let salt = salt_of(HEADER.partition, HEADER.base.index, HEADER.base.epoch, HEADER.generation);
    assert_eq!(salt, xxhash_rust::xxh3::xxh3_64(&summed) as u32);
    let fields = [
        field("`zerohseg`", b"zerohseg"),
        field("format version: 3.", 3u32.to_le_bytes()),
        field(
            "salt: the low half of xxh3-64 over partition (8), first index (8), generation (4), epoch (4)",
            HEADER.base.salt.to_le_bytes(),
        ),
        field("partition", HEADER.partition.0.to_le_bytes()),
        field("first log index", HEADER.base.index.to_le_bytes()),
        field("last log index", HEADER.covers_through.to_le_bytes()),
        field("generation", HEADER.generation.to_le_bytes()),
        field("epoch that entries count from", HEADER.base.epoch.to_le_bytes()),
        field("timestamp that entries count from", HEADER.base.timestamp.to_le_bytes()),
        field("commit index at which compaction judged", HEADER.compacted_at.to_le_bytes()),
        field("seed", HEADER.index_seed.to_le_bytes()),
        field("epoch of the last log index", HEADER.covers_epoch.to_le_bytes()),
        field("CRC-32C of bytes 0 to 76", crc(&bytes[..76]).to_le_bytes()),
    ];
    document.layout(&format!("Header, {HEADER_BYTES} bytes / offset"), &[], &bytes, &fields);
}

fn entry(document: &mut Document<'_>) {
    let (key, payload) = ([b'k'; 0x0102], [b'p'; 0x0304]);
    let meta = EntryMeta {
        kind: EntryKind::Append,
        flags: 0xF1,
        epoch: HEADER.base.epoch + 0xE5,
        index: HEADER.base.index + 0x0B0C_0D0E,
        timestamp: HEADER.base.timestamp + 0x1112_1314_1516,
    };
    let mut bytes = Vec::new();
    encode(&HEADER.base, &meta, &key, &payload, &mut bytes);
    let summed = [&bytes[4..28], &key].concat();
    assert_eq!(PAYLOAD_BYTES_MAX, (16 << 20) + (64 << 10));
    let flags = [(FLAG_LIST, "the record is a list"), (FLAG_TRAILER, "the payload ends with a trailer of")];
    let [list, trailer] = flags.map(|(flag, words)| format!("bit {} {words}", flag.trailing_zeros()));
    let fields = [
        field("CRC-32C of bytes 4 to 28 and the key, xor the salt", {
            (crc(&summed) ^ HEADER.base.salt).to_le_bytes()
        }),
        field("CRC-32C of the payload", crc(&payload).to_le_bytes()),
        field("payload length, at most 16 MiB + 64 KiB", 0x0304u32.to_le_bytes()),
        field(&format!("key length, at most {} KiB", KEY_BYTES_MAX >> 10), [2, 1, 0]),
        field("kind", [3]),
        field("log index, less the file's first", 0x0B0C_0D0Eu32.to_le_bytes()),
        field(&format!("flags: {list}; {trailer}"), [0xF1]),
        field("epoch, less the file's", [0xE5]),
        field("timestamp, less the file's", [0x16, 0x15, 0x14, 0x13, 0x12, 0x11]),
        open("key, then payload", [&key[..], &payload].concat()),
    ];
    document.layout(&format!("Entry, {HEAD_BYTES} bytes and key and payload / offset"), &[], &bytes, &fields);
    assert_eq!((FLAG_JOINED, FLAG_CHUNK), (1 << 2, 1 << 3), "the document has bits 2 and 3");
}

fn kinds(document: &mut Document<'_>) {
    let title = format!("Entry, {HEAD_BYTES} bytes and key and payload / kind");
    let known: Vec<(u64, &str)> = (0..=u8::MAX)
        .filter_map(|number| {
            let name = match EntryKind::from_u8(number)? {
                EntryKind::Put => "put",
                EntryKind::Remove => "remove",
                EntryKind::Append => "append",
                EntryKind::Trim => "trim",
                EntryKind::Mark => "mark of an upper layer",
                EntryKind::Synced => "synced mark",
                EntryKind::Footer => "footer",
            };
            Some((u64::from(number), name))
        })
        .collect();
    document.numbers(&title, &known);
    let trim = TrimPoint { part: 0x0102_0304_0506_0708, skip: 0x1112_1314_1516_1718 };
    let fields = [
        field("log index of the first part that stays", trim.part.to_le_bytes()),
        field("units (values or bytes) of it that are gone", trim.skip.to_le_bytes()),
    ];
    document.listed(&title, 4, &trim.encode(), &fields);
    // Upper layers write lists; the engine reads how many values they have.
    let list = [&0x0506_0708u32.to_le_bytes()[..], b"values"].concat();
    for (number, kind) in [(1, EntryKind::Put), (3, EntryKind::Append)] {
        let count = units_of(kind, FLAG_LIST, &list);
        let fields = [field("of a list: number of values", count.to_le_bytes()), open("values", b"values")];
        document.listed(&title, number, &list, &fields);
    }
}

fn chunk(document: &mut Document<'_>) {
    let head = ChunkHead { offset: 0x0102_0304, length: 0x1112_1314, stamp: *b"sixteen byte tag" };
    let bytes = [&head.encode()[..], b"contents"].concat();
    assert_eq!(CHUNK_HEAD_BYTES + 8, bytes.len());
    let fields = [
        field("where in the chunk it begins", head.offset.to_le_bytes()),
        field("how many bytes of the chunk it covers", head.length.to_le_bytes()),
        field("stamp of an upper layer", head.stamp),
        open("the bytes, as many as it covers", b"contents"),
    ];
    document.layout("Chunks / offset", &[], &bytes, &fields);
}

fn mark(document: &mut Document<'_>) {
    let mark = Mark { synced: 0x0102_0304_0506_0708, commit: 0x1112_1314_1516_1718 };
    let fields = [
        field("log index up to which everything survives", mark.synced.to_le_bytes()),
        field("commit index by now", mark.commit.to_le_bytes()),
        field("a copy of the file's header", HEADER.encode()),
    ];
    document.layout("Synced mark / offset", &[], &mark.encode(&HEADER), &fields);
}

fn footer(document: &mut Document<'_>) {
    let footer = Footer {
        last_index: 0x0102_0304_0506_0708,
        last_epoch: 0x1112_1314,
        removal_bytes: 0x2122_2324,
        judged_at: 0x3132_3334_3536_3738,
        samples: vec![(0x4142_4344, 0x5152_5354), (0x6162_6364, 0x7172_7374)],
    };
    let samples = [0x4142_4344u32, 0x5152_5354, 0x6162_6364, 0x7172_7374].map(u32::to_le_bytes);
    let bytes = footer.encode(&HEADER);
    let fields = [
        field("log index of the last entry", footer.last_index.to_le_bytes()),
        field("epoch of that entry", footer.last_epoch.to_le_bytes()),
        field("bytes of removals and trims", footer.removal_bytes.to_le_bytes()),
        field("number of samples", 2u32.to_le_bytes()),
        field("a copy of the file's header", HEADER.encode()),
        field("if compaction wrote the file: the commit index", footer.judged_at.to_le_bytes()),
        each(2, "sample: log index less the first (4), offset (4)", samples.concat()),
    ];
    document.layout("Footer and trailer / offset", &[], &bytes, &fields);
    let trailer = encode_trailer(HEADER.base.salt, 0x0102_0304, 0x1112_1314);
    let fields = [
        field("offset of the footer entry", 0x0102_0304u32.to_le_bytes()),
        field("its length", 0x1112_1314u32.to_le_bytes()),
        field("`zhft`", b"zhft"),
        field("CRC-32C of the twelve bytes before, xor the salt", {
            (crc(&trailer[..12]) ^ HEADER.base.salt).to_le_bytes()
        }),
    ];
    document.sentence(&format!("Trailer, the last {TRAILER_BYTES} bytes:"), &trailer, &fields);
}
