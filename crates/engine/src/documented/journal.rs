//! `journal.md`.

use super::tables::{Document, check, check_comments, field, open};
use crate::PartitionId;
use crate::journal::format::{HEADER_BYTES, JournalHeader, JournalRecord, RECORD_BYTES, decode, encode};
use crate::limits::JOURNAL_INLINE_BYTES_MAX;
use crate::log::entry::{EntryKind, EntryMeta, crc};

const DOCUMENT: &str = include_str!("../../../../docs/formats/journal.md");
const SALT: u32 = 0xA1A2_A3A4;
const PARTITION: PartitionId = PartitionId(0x0102_0304_0506_0708);
const META: EntryMeta = EntryMeta {
    kind: EntryKind::Append,
    flags: 0xF1,
    epoch: 0x1112_1314,
    index: 0x2122_2324_2526_2728,
    timestamp: 0x3132_3334_3536_3738,
};
const KEY: [u8; 0x0102] = [b'k'; 0x0102];
const PAYLOAD: [u8; 0x0304] = [b'p'; 0x0304];

#[test]
fn journals_are_as_documented() {
    check(DOCUMENT, |document| {
        header(document);
        record(document);
        types(document);
    });
    check_comments(DOCUMENT, include_str!("../journal/format.rs"));
}

fn header(document: &mut Document<'_>) {
    let header = JournalHeader::new(0x0102_0304_0506_0708);
    let salt = xxhash_rust::xxh3::xxh3_64(&header.number.to_le_bytes()) as u32;
    let bytes = header.encode();
    let fields = [
        field("`zerohjnl`", b"zerohjnl"),
        field("format version: 4.", 4u32.to_le_bytes()),
        field("salt: the low half of xxh3-64 over the number", salt.to_le_bytes()),
        field("number of the file", header.number.to_le_bytes()),
        field("zero", [0; 4]),
        field("CRC-32C of bytes 0 to 28", crc(&bytes[..28]).to_le_bytes()),
    ];
    document.layout(&format!("Header, {HEADER_BYTES} bytes / offset"), &[], &bytes, &fields);
}

fn bytes_of(record: &JournalRecord<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(SALT, record, &mut bytes);
    bytes
}

fn record(document: &mut Document<'_>) {
    let bytes =
        bytes_of(&JournalRecord::Entry { partition: PARTITION, meta: META, key: &KEY, payload: &PAYLOAD });
    let fields = [
        field("CRC-32C of the record from byte 4 on, xor the salt", (crc(&bytes[4..]) ^ SALT).to_le_bytes()),
        field(&format!("bytes behind these {RECORD_BYTES}"), (0x0102u32 + 0x0304).to_le_bytes()),
        field("partition", PARTITION.0.to_le_bytes()),
        field(
            "log index; of a batch record: bytes of this file that are synced by now; of a seed record: the seed",
            META.index.to_le_bytes(),
        ),
        field("timestamp", META.timestamp.to_le_bytes()),
        field("epoch", META.epoch.to_le_bytes()),
        field("key length", [2, 1, 0]),
        field("entry kind", [3]),
        field("entry flags", [0xF1]),
        field("record type", [1]),
        field("zero", [0; 2]),
        field("payload length", 0x0304u32.to_le_bytes()),
        open("what the type says", [&KEY[..], &PAYLOAD].concat()),
    ];
    let title = format!("Record, {RECORD_BYTES} bytes and key and payload / offset");
    document.layout(&title, &[], &bytes, &fields);
}

/// What stands behind the 48 bytes, and what stands at 16: an index, or what is in its place.
fn types(document: &mut Document<'_>) {
    let title = format!("Record, {RECORD_BYTES} bytes and key and payload / type");
    let (partition, index) = (PARTITION, META.index);
    let records = [
        (1, "entry", JournalRecord::Entry { partition, meta: META, key: &KEY, payload: &PAYLOAD }),
        (
            2,
            "reference",
            JournalRecord::Reference { partition, meta: META, key: &KEY, payload_bytes: 0x0304 },
        ),
        (3, "cut", JournalRecord::Truncated { partition, index }),
        (4, "batch", JournalRecord::Batch { synced_bytes: index }),
        (5, "cut begins", JournalRecord::TruncateStarted { partition, index }),
        (6, "seed", JournalRecord::Seed { partition, seed: index }),
    ];
    for (number, _, record) in &records {
        let bytes = bytes_of(record);
        assert_eq!((bytes[41], &bytes[16..24]), (*number as u8, &index.to_le_bytes()[..]));
        let fields = match number {
            1 => vec![open("key", KEY), open("payload", PAYLOAD)],
            2 => vec![open("key", KEY)],
            _ => vec![open("nothing", [])],
        };
        document.listed(&title, *number, &bytes[RECORD_BYTES..], &fields);
    }
    let is_known = |number: &u8| {
        records.iter().any(|(_, _, record)| {
            let mut bytes = bytes_of(record);
            bytes[41] = *number;
            let sum = crc(&bytes[4..]) ^ SALT;
            bytes[..4].copy_from_slice(&sum.to_le_bytes());
            decode(SALT, &bytes).is_some()
        })
    };
    let known: Vec<u8> = (0..=u8::MAX).filter(is_known).collect();
    assert_eq!(known, [1, 2, 3, 4, 5, 6], "each type that is read is documented");
    document.numbers(&title, &records.map(|(number, name, _)| (number, name)));
    assert_eq!(JOURNAL_INLINE_BYTES_MAX, 64 << 10, "the document has 64 KiB");
}
