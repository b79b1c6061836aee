//! `round.md`.

use super::tables::{Document, check, check_comments, each, field};
use crate::PartitionId;
use crate::log::entry::crc;
use crate::log::shared::format::{HEADER_BYTES, LogId, LogPartition};
use crate::log::shared::local::{Creation, MarkRow, StreamEnd, VoidRange};
use crate::log::shared::round::{
    ROUND_TRAILER_BYTES, RoundDirectory, RoundHeader, SectionRow, decode_round_trailer, encode_round_trailer,
};
use crate::log::shared::streams::LogPlace;

const DOCUMENT: &str = include_str!("../../../../docs/formats/round.md");

#[test]
fn rounds_are_as_documented() {
    check(DOCUMENT, |document| {
        header(document);
        directory(document);
        trailer(document);
    });
    check_comments(DOCUMENT, include_str!("../log/shared/round.rs"));
}

fn header(document: &mut Document<'_>) {
    let header = RoundHeader { number: 0x1011_1213_1415_1617, log: LogId(*b"sixteen byte id!") };
    let bytes = header.encode();
    let summed = [&header.log.0[..], &header.number.to_le_bytes()].concat();
    let salt = !(xxhash_rust::xxh3::xxh3_64(&summed) as u32);
    assert_eq!(RoundHeader::decode(&bytes), Ok(header));
    let fields = [
        field("`zerohrnd`", b"zerohrnd"),
        field("format version", 1u32.to_le_bytes()),
        field("salt", salt.to_le_bytes()),
        field("number of the round", header.number.to_le_bytes()),
        field("id of the log", header.log.0),
        field("zero", [0; 20]),
        field("CRC-32C of bytes 0 to 60", crc(&bytes[..60]).to_le_bytes()),
    ];
    document.layout(&format!("Header, {HEADER_BYTES} bytes / offset"), &[], &bytes, &fields);
}

fn directory(document: &mut Document<'_>) {
    let ends = [0x1112_1314, 0x2122_2324, 0x3132_3334]
        .map(|offset| StreamEnd { segment: u64::from(offset) << 24, offset });
    let creation = Creation {
        number: LogPartition(0x5152_5354),
        partition: PartitionId(7),
        seed: 8,
        continues: None,
        is_incoming: false,
        is_dropped: false,
    };
    let mark = MarkRow { number: creation.number, epoch: 1, durable: 5, commit: 4, covered: 3 };
    let void = VoidRange { segment: 6, from: 7, until: 8 };
    let section = SectionRow {
        number: LogPartition(0x0102_0304),
        epoch: 0x1112_1314,
        commit: 0x2122_2324_2526,
        round: 0x3132_3334_3536_3738,
        offset: 0x4142_4344_4546_4748,
        bytes: 0x5152_5354_5556_5758,
        crc: 0x6162_6364,
        cold: LogPlace { segment: 0x0172_7374_7576_7778, offset: 0x8182_8384 },
    };
    let directory = RoundDirectory {
        ends,
        tail: [0x9192, 0x9394, 0x9596],
        next_segment: 0x00B1_B2B3_B4B5_B6B7,
        next_number: 0xA1A2_A3A4,
        creations: vec![creation],
        marks: vec![mark; 2],
        voids: vec![void; 3],
        sections: vec![section; 4],
    };
    let bytes = directory.encode();
    let rows = &bytes[bytes.len() - 4 * 58..];
    assert_eq!(RoundDirectory::decode(&bytes).as_ref(), Some(&directory));
    let ends = ends.map(|end| [&end.segment.to_le_bytes()[..], &end.offset.to_le_bytes()].concat());
    let mut marks = Vec::new();
    directory.marks.iter().for_each(|row| row.encode(&mut marks));
    let fields = [
        each(3, "the durable ends of the streams small, large, cold: segment (8), offset (4)", ends.concat()),
        each(3, "the tail of the streams small, large, cold", directory.tail.map(u64::to_le_bytes).concat()),
        field("a number above those of all segments", directory.next_segment.to_le_bytes()),
        field("a number above those of all log partitions", directory.next_number.to_le_bytes()),
        field("number of creations", 1u32.to_le_bytes()),
        field("number of rows of marks", 2u32.to_le_bytes()),
        field("number of voids", 3u32.to_le_bytes()),
        field("number of sections", 4u32.to_le_bytes()),
        each(1, "creations", Creation::encode_all(&directory.creations)),
        each(2, "rows of a mark", marks),
        each(3, "voids", VoidRange::encode_all(&directory.voids)),
        each(4, "sections", rows),
    ];
    document.layout("Directory / offset", &[], &bytes, &fields);
    let fields = [
        field("number of the log partition", section.number.0.to_le_bytes()),
        field("epoch of the entry", section.epoch.to_le_bytes()),
        field("commit index", &section.commit.to_le_bytes()[..6]),
        field("number of the round", section.round.to_le_bytes()),
        field("offset in that file", section.offset.to_le_bytes()),
        field("length", section.bytes.to_le_bytes()),
        field("CRC-32C of the section", section.crc.to_le_bytes()),
        field("end of the cold stream", section.cold.segment.to_le_bytes()),
        field("its offset", section.cold.offset.to_le_bytes()),
        field("zero", [0; 4]),
    ];
    document.layout("Directory / offset, second", &[], &rows[..58], &fields);
}

fn trailer(document: &mut Document<'_>) {
    let trailer = encode_round_trailer(0xA1A2_A3A4, 0x0102_0304_0506_0708, b"directory");
    let known = decode_round_trailer(0xA1A2_A3A4, &trailer);
    assert_eq!(known, Some((0x0102_0304_0506_0708, 9, crc(b"directory"))));
    let fields = [
        field("offset of the directory", 0x0102_0304_0506_0708u64.to_le_bytes()),
        field("its length", 9u32.to_le_bytes()),
        field("its CRC-32C", crc(b"directory").to_le_bytes()),
        field("`zhrt`", b"zhrt"),
        field("CRC-32C of the twenty bytes before", (crc(&trailer[..20]) ^ 0xA1A2_A3A4).to_le_bytes()),
    ];
    document.sentence(&format!("Trailer, the last {ROUND_TRAILER_BYTES} bytes:"), &trailer, &fields);
}
