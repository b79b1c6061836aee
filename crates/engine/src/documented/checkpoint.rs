//! `checkpoint.md`.

use super::tables::{Document, Field, check, check_comments, field, open};
use crate::PartitionId;
use crate::checkpoint::{
    Block, ChainPiece, CheckpointHeader, HEADER_BYTES, SegmentRow, decode_block, encode_block,
};
use crate::index::location::Location;
use crate::log::entry::crc;
use crate::overflow::part::ChainPart;

const DOCUMENT: &str = include_str!("../../../../docs/formats/checkpoint.md");
const SALT: u32 = 0xA1A2_A3A4;
const TITLE: &str = "Blocks / type";
const NUMBERS: [u64; 8] = [
    0x0102_0304_0506_0708,
    0x1112_1314_1516_1718,
    0x2122_2324_2526_2728,
    0x3132_3334_3536_3738,
    0x4142_4344_4546_4748,
    0x5152_5354_5556_5758,
    0x6162_6364_6566_6768,
    0x7172_7374_7576_7778,
];

#[test]
fn checkpoints_are_as_documented() {
    check(DOCUMENT, |document| {
        header(document);
        blocks(document);
        records_of_parts(document);
        types(document);
    });
    check_comments(DOCUMENT, include_str!("../checkpoint/mod.rs"));
}

fn header(document: &mut Document<'_>) {
    let header = CheckpointHeader {
        partition: PartitionId(NUMBERS[0]),
        commit: NUMBERS[1],
        epoch: 0x8182_8384,
        index_seed: NUMBERS[2],
    };
    let bytes = header.encode();
    let summed = [&bytes[16..32], &[0xFF; 4], &bytes[32..36]].concat();
    let salt = xxhash_rust::xxh3::xxh3_64(&summed) as u32;
    let fields = [
        field("`zerohckp`", b"zerohckp"),
        field("format version: 2.", 2u32.to_le_bytes()),
        field(
            "salt: the low half of xxh3-64 over partition (8), commit index (8), 0xFFFFFFFF (4), epoch (4)",
            salt.to_le_bytes(),
        ),
        field("partition", NUMBERS[0].to_le_bytes()),
        field("commit index", NUMBERS[1].to_le_bytes()),
        field("epoch of that entry", header.epoch.to_le_bytes()),
        field("zero", [0; 4]),
        field("seed", NUMBERS[2].to_le_bytes()),
        field("zero", [0; 12]),
        field("CRC-32C of bytes 0 to 60", crc(&bytes[..60]).to_le_bytes()),
    ];
    document.layout(&format!("Header, {HEADER_BYTES} bytes / offset"), &[], &bytes, &fields);
}

/// A block's contents, and its type.
fn contents(block: &Block<'_>) -> (u32, Vec<u8>) {
    let mut bytes = Vec::new();
    encode_block(SALT, block, &mut bytes);
    let number = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
    (number, bytes[12..].to_vec())
}

fn compare(document: &mut Document<'_>, number: u32, block: &Block<'_>, fields: &[Field]) {
    let (written, bytes) = contents(block);
    assert_eq!(written, number, "{block:?}");
    document.listed(TITLE, u64::from(number), &bytes, fields);
}

fn blocks(document: &mut Document<'_>) {
    let fields = [
        field("12 bytes each: fragment", 0x0102_0304u32.to_le_bytes()),
        field("location", NUMBERS[1].to_le_bytes()),
    ];
    compare(document, 1, &Block::Entries(vec![(0x0102_0304, NUMBERS[1])]), &fields);
    compare(document, 3, &Block::Extra(b"opaque"), &[open("opaque", b"opaque")]);
    let row = SegmentRow {
        slot: 0x8182_8384,
        generation: 0x9192_9394,
        first_index: NUMBERS[0],
        last_index: NUMBERS[1],
        dead_bytes: NUMBERS[2],
        removal_bytes: NUMBERS[3],
        file_bytes: NUMBERS[4],
        resume_at: NUMBERS[5],
    };
    let fields = [
        field("56 bytes each: slot", row.slot.to_le_bytes()),
        field("generation", row.generation.to_le_bytes()),
        field("first index", row.first_index.to_le_bytes()),
        field("last index", row.last_index.to_le_bytes()),
        field("dead bytes", row.dead_bytes.to_le_bytes()),
        field("bytes of removals", row.removal_bytes.to_le_bytes()),
        field("bytes of the file", row.file_bytes.to_le_bytes()),
        field("offset behind which entries that are not in here may stand", row.resume_at.to_le_bytes()),
    ];
    compare(document, 4, &Block::Segments(vec![row]), &fields);
    let [entries, chains, file_bytes, applied, ..] = NUMBERS;
    let fields = [
        field("number of entries", entries.to_le_bytes()),
        field("number of blocks of types 2 and 7", chains.to_le_bytes()),
        field("bytes of the file before this block", file_bytes.to_le_bytes()),
        field("commit index when the last page", applied.to_le_bytes()),
    ];
    compare(document, 5, &Block::End { entries, chains, file_bytes, applied }, &fields);
    let fields = [
        field("slot", 0x0102_0304u32.to_le_bytes()),
        field("8 bytes each: log index less the first", 0x1112_1314u32.to_le_bytes()),
        field("offset", 0x2122_2324u32.to_le_bytes()),
    ];
    let samples = vec![(0x1112_1314, 0x2122_2324)];
    compare(document, 6, &Block::Samples { slot: 0x0102_0304, samples }, &fields);

    let mut bytes = Vec::new();
    encode_block(SALT, &Block::Extra(&[7; 0x0102]), &mut bytes);
    let fields = [
        field("CRC-32C of the rest of the block, xor the salt", (crc(&bytes[4..]) ^ SALT).to_le_bytes()),
        field("type", 3u32.to_le_bytes()),
        field("bytes of contents", 0x0102u32.to_le_bytes()),
        open("contents", [7; 0x0102]),
    ];
    document.sentence("CRC-32C of the rest of the block", &bytes, &fields);
}

fn records_of_parts(document: &mut Document<'_>) {
    let part = ChainPart { index: NUMBERS[3], entry_bytes: 0x8182_8384, units: 0x9192_9394 };
    let chain = ChainPiece {
        fragment: 0xA1A2_A3A4,
        is_list: true,
        skipped: NUMBERS[0],
        trimmed_by: NUMBERS[1],
        applied: NUMBERS[2],
        key: b"key",
        parts: vec![part],
        offsets: None,
    };
    let fields = [
        field("fragment", chain.fragment.to_le_bytes()),
        field("bit 0 list", 1u32.to_le_bytes()),
        field("units trimmed off the first part", chain.skipped.to_le_bytes()),
        field("log index of the trim", chain.trimmed_by.to_le_bytes()),
        field("log index last applied", chain.applied.to_le_bytes()),
        field("key length", 3u32.to_le_bytes()),
        field("number of parts", 1u32.to_le_bytes()),
        open("key", b"key"),
        field("parts of 16 bytes: log index", part.index.to_le_bytes()),
        field("bytes of the entry", part.entry_bytes.to_le_bytes()),
        field("units", part.units.to_le_bytes()),
    ];
    compare(document, 2, &Block::Chain(chain.clone()), &fields);
    // The row of type 7 lists a part alone: what comes before is that of type 2.
    let (_, before) = contents(&Block::Chain(ChainPiece { parts: Vec::new(), ..chain.clone() }));
    let chunk = ChainPiece { offsets: Some(vec![0xB1B2_B3B4]), ..chain };
    let (number, bytes) = contents(&Block::Chain(chunk));
    assert_eq!((number, &bytes[..36], &bytes[40..43]), (7, &before[..36], &before[40..43]));
    let fields = [
        field("as type 2, with parts of 20 bytes: log index", part.index.to_le_bytes()),
        field("bytes of the entry", part.entry_bytes.to_le_bytes()),
        field("bytes of the chunk that it covers", part.units.to_le_bytes()),
        field("where in the chunk it begins", 0xB1B2_B3B4u32.to_le_bytes()),
    ];
    document.listed(TITLE, 7, &bytes[before.len()..], &fields);
}

fn types(document: &mut Document<'_>) {
    let names = [
        "",
        "entries",
        "a record of several parts",
        "an upper layer's state",
        "segments",
        "end",
        "samples",
        "a chunk of several parts",
    ];
    let is_known = |number: &u32| {
        [0usize, 4, 32, 40].iter().any(|contents| {
            let mut bytes = vec![0; 12 + contents];
            bytes[4..8].copy_from_slice(&number.to_le_bytes());
            bytes[8..12].copy_from_slice(&(*contents as u32).to_le_bytes());
            let sum = crc(&bytes[4..]) ^ SALT;
            bytes[..4].copy_from_slice(&sum.to_le_bytes());
            decode_block(SALT, &bytes).is_some()
        })
    };
    let known: Vec<u32> = (0..1000).filter(is_known).collect();
    let named = known.iter().map(|number| (u64::from(*number), names.get(*number as usize).copied()));
    document.numbers(TITLE, &named.map(|(number, name)| (number, name.unwrap_or(""))).collect::<Vec<_>>());
    // What the document says of locations.
    let (slot, offset) = ((1 << 20) - 1, (1 << 27) - 1);
    let all = Location::entry(slot, offset, (8 + 7) << 20).0;
    assert_eq!(all, u64::from(offset) | u64::from(slot) << 27 | (20 << 3 | 7) << 54);
}
