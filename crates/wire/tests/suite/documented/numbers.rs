//! The tables of `docs/protocols/wire.md` without offsets: the numbers of kinds and shapes, and the writes of blobs.
//!
//! A test makes a document of one of these tables, in the form that the comparison expects.

use zerohop_wire::blob::BlobStamp;
use zerohop_wire::ids::{InstanceId, Timestamp};
use zerohop_wire::messages::*;
use zerohop_wire::{Elements, FrameKind};

use super::tables::{Document, Field, check, field, open};
use super::{DOCUMENT, NUMBERS, STAMP, VERSION, body, n4, n8, zero};

/// The rows of the first table of a section that has this head.
fn rows(section: &str, head: &str) -> Vec<Vec<&'static str>> {
    let lines = DOCUMENT.lines().skip_while(|line| *line != section).skip_while(|line| *line != head).skip(2);
    let rows = lines.take_while(|line| line.starts_with('|'));
    let rows: Vec<Vec<&str>> =
        rows.map(|line| line.trim_matches('|').split('|').map(str::trim).collect()).collect();
    assert!(!rows.is_empty(), "{section} has no table {head}");
    rows
}

/// A document of one table.
fn table(head: &str, rows: impl Iterator<Item = String>) -> String {
    let columns = head.matches('|').count() - 1;
    let lines =
        ["# Table".to_owned(), String::new(), head.to_owned(), format!("|{}", " --- |".repeat(columns))];
    lines.into_iter().chain(rows).collect::<Vec<_>>().join("\n")
}

#[test]
fn kinds_have_the_documented_numbers() {
    let rows = rows("## Kinds", "| kind | name | answered by |");
    let numbers: Vec<u16> = rows.iter().map(|row| number_of(row[0])).collect();
    assert!(numbers.is_sorted(), "the rows are in the order of their numbers");
    let text =
        table("| kind | name |", rows.iter().map(|row| format!("| {} | {} |", number_of(row[0]), row[1])));
    let known: Vec<(u64, String)> =
        FrameKind::ALL.iter().map(|kind| (kind.number().into(), kind.to_string())).collect();
    let known: Vec<(u64, &str)> = known.iter().map(|(number, name)| (*number, name.as_str())).collect();
    check(&text, |document| document.numbers("Table / kind", &known));
}

fn number_of(cell: &str) -> u16 {
    let digits = cell.strip_prefix("0x").expect("a kind is in hexadecimal digits");
    u16::from_str_radix(digits, 16).expect("a kind is a number")
}

#[test]
fn outcomes_have_the_documented_shapes() {
    // Detail and number of an answer come before its payload, with lengths that the table of answers has.
    let rows = rows("### answer", "| shape | name | detail | number | payload |");
    let rows = rows.iter().map(|row| {
        let [shape, name, detail, number, payload] = row[..] else { panic!("a row has other columns") };
        format!("| {shape} | {name} | {detail} (4), {number} (8), {payload} |")
    });
    let known: Vec<(u64, String)> =
        Shape::ALL.iter().map(|shape| (shape.number().into(), shape.to_string())).collect();
    let known: Vec<(u64, &str)> = known.iter().map(|(number, name)| (*number, name.as_str())).collect();
    check(&table("| kind | name | fields |", rows), |document| {
        document.numbers("Table / kind", &known);
        records(document);
        blob_or_range(document);
    });
}

/// Compares the row of an outcome's shape.
fn outcome(document: &mut Document<'_>, shape: Shape, outcome: Outcome<'_>, fields: &[Field]) {
    let bytes = body(FrameKind::Answer, &Message::Answer(Ok(outcome)));
    assert_eq!(bytes[2], shape.number());
    let bytes = [&bytes[4..8], &bytes[16..]].concat();
    document.listed("Table / kind", shape.number().into(), &bytes, fields);
}

fn records(document: &mut Document<'_>) {
    let (version, number) = (VERSION, NUMBERS[0]);
    let done = [field("0", [0; 4]), n8("see the kinds", number), open("none", b"")];
    outcome(document, Shape::Done, Outcome::Done { version, number }, &done);
    let counter = [field("0", [0; 4]), n8("its value, signed", number), open("none", b"")];
    outcome(document, Shape::Counter, Outcome::Counter { version, value: number as i64 }, &counter);
    let value = [field("0", [0; 4]), n8("bytes in the whole record", number), open("the bytes", b"payload")];
    outcome(document, Shape::Value, Outcome::Value { version, length: number, bytes: b"payload" }, &value);
    let values: [&[u8]; 2] = [b"one", b"three"];
    let list = [
        n4("values in this page", 2),
        n8("values in the whole list", number),
        n8("index of the first in the list, from 0", NUMBERS[1]),
        open("the values", b"\x03\0\0\0one\x05\0\0\0three"),
    ];
    let values = Elements::from_slice(&values);
    let answer = Outcome::List { version, length: number, first: NUMBERS[1], values };
    outcome(document, Shape::List, answer, &list);
    let info = [
        field("0", [0; 4]),
        n8("bytes, or values, in it", number),
        n8("when it expires in ms since 1970, 0 for never", NUMBERS[1]),
    ];
    let expires_at_ms = Some(NUMBERS[1]);
    let answer = Outcome::Info { version, record: RecordType::Bytes, length: number, expires_at_ms };
    outcome(document, Shape::Info, answer, &info);
}

fn blob_or_range(document: &mut Document<'_>) {
    let key = ScannedKey { key: b"key", version: VERSION, record: RecordType::Bytes, value: None };
    let keys = [key];
    let key_bytes =
        [&VERSION.0.to_le_bytes()[..], &[3, 0, 0, 0], &[0xFF; 4], &[1, 0, 0, 0, 0, 0, 0, 0], b"key"];
    let page = [
        n4("keys in this page", 1),
        zero_number(),
        n4("cursor length", 4),
        open("cursor", b"next"),
        open("keys", key_bytes.concat()),
    ];
    outcome(document, Shape::Page, Outcome::Page { next: b"next", keys: Elements::from_slice(&keys) }, &page);
    let stamp = BlobStamp { id: NUMBERS[0], generation: NUMBERS[1] };
    let chunk = [
        field("0", [0; 4]),
        n8("id of the blob", stamp.id),
        n8("generation", stamp.generation),
        open("the bytes", b"bytes"),
    ];
    outcome(document, Shape::Chunk, Outcome::Chunk { version: VERSION, stamp, bytes: b"bytes" }, &chunk);
    let differing = [InstanceId(0x0807_0605)];
    let compared = RangeComparison {
        next: b"next",
        records: NUMBERS[0],
        bytes: NUMBERS[1],
        copies: 3,
        differing: Elements::from_slice(&differing),
    };
    let fields = [
        n4("members that have read the range", 3),
        n8("records in it", NUMBERS[0]),
        n4("length of the cursor", 4),
        n4("members that differ", 1),
        n8("bytes of contents", NUMBERS[1]),
        open("cursor", b"next"),
        n4("per member that differs its instance", 0x0807_0605),
    ];
    outcome(document, Shape::Compared, Outcome::Compared(compared), &fields);
    let changes = [CommittedChange {
        key: b"key",
        at: VERSION,
        before: Timestamp(NUMBERS[1]),
        index: NUMBERS[2],
        record: Some(RecordType::Bytes),
        cause: ChangeCause::Expiry,
        value: None,
    }];
    let change_bytes = [
        &VERSION.0.to_le_bytes()[..],
        &NUMBERS[1].to_le_bytes(),
        &NUMBERS[2].to_le_bytes(),
        &[3, 0, 0, 0],
        &[0xFF; 4],
        &[1, 2, 0, 0, 0, 0, 0, 0],
        b"key",
    ];
    let fields = [
        n4("changes in this answer", 1),
        n8("log index to read on from", NUMBERS[0]),
        n8("newest timestamp up to that index", NUMBERS[3]),
        open("the changes", change_bytes.concat()),
    ];
    let changes = Elements::from_slice(&changes);
    let answer =
        Outcome::Changes { next: NUMBERS[0], newest: Timestamp(NUMBERS[3]), through: VERSION, changes };
    outcome(document, Shape::Changes, answer, &fields);
}

/// The number of an answer that has none.
fn zero_number() -> Field {
    field("0", [0; 8])
}

const STAMP_OF_BLOB: BlobStamp = BlobStamp { id: NUMBERS[0], generation: NUMBERS[1] };
const TRANSFORM: Transform = Transform {
    operator: Operator::Max,
    number: NumberType::U32,
    operand: 0x0403_0201,
    offset: 0x0605,
    returns: ReturnedNumber::Nothing,
};

/// A write of each kind with this stamp, which may make what it can make.
fn changes(stamp: BlobStamp, makes: bool) -> Vec<BlobChange<'static>> {
    let (size, attributes) = (NUMBERS[2], b"attributes");
    vec![
        BlobChange::Create { chunk_bits: 20, attributes },
        BlobChange::Grow { stamp, size },
        BlobChange::Truncate { stamp, size },
        BlobChange::Describe { stamp, attributes },
        BlobChange::WriteChunk { stamp, offset: 0x0201, length: 5, bytes: b"bytes", makes },
        BlobChange::TruncateChunk { stamp, keep: 0x0201, creates_absent: makes },
        BlobChange::TransformChunk { stamp, transform: TRANSFORM, makes },
        BlobChange::Settle { stamp },
        BlobChange::DropChunk { stamp },
        BlobChange::StageExtension { stamp, until: size },
        BlobChange::Publish { stamp, size },
    ]
}

/// The detail byte of a write, and what is behind its first 16 bytes, without its key.
fn encoded(change: BlobChange<'_>) -> (u8, Vec<u8>) {
    let write =
        RecordWrite { key: b"the key", condition: Condition::Always, change: WriteChange::Blob(change) };
    let bytes = body(change.kind(), &Message::Write { stamp: STAMP, write }).split_off(40);
    let key = bytes.windows(7).position(|window| window == b"the key").expect("a write has its key");
    (bytes[5], [&bytes[16..key], &bytes[key + 7..]].concat())
}

fn fields(change: &BlobChange<'_>) -> Vec<Field> {
    let stamp = || vec![n8("id", STAMP_OF_BLOB.id), n8("generation", STAMP_OF_BLOB.generation)];
    let behind = |fields: Vec<Field>| stamp().into_iter().chain(fields).collect();
    match change {
        BlobChange::Create { .. } => {
            vec![zero(16), n8("bytes of a chunk as a power of two", 20), open("attributes", b"attributes")]
        }
        BlobChange::Grow { size, .. }
        | BlobChange::Truncate { size, .. }
        | BlobChange::Publish { size, .. } => behind(vec![n8("size", *size), open("none", b"")]),
        BlobChange::StageExtension { until, .. } => {
            behind(vec![n8("the end of the chunks that may be written", *until), open("none", b"")])
        }
        BlobChange::Describe { .. } => behind(vec![zero(8), open("attributes", b"attributes")]),
        BlobChange::Settle { .. } | BlobChange::DropChunk { .. } => behind(vec![zero(8), open("none", b"")]),
        BlobChange::WriteChunk { offset, length, .. } => behind(vec![
            n4("offset in the chunk", *offset),
            n4("length", *length),
            open("as many bytes, or none for zeros", b"bytes"),
        ]),
        BlobChange::TruncateChunk { keep, .. } => vec![
            n8("id", STAMP_OF_BLOB.id),
            n8("generation after the cut", STAMP_OF_BLOB.generation),
            n8("bytes that stay", u64::from(*keep)),
            open("none", b""),
        ],
        BlobChange::TransformChunk { transform, .. } => {
            behind(vec![zero(8), open("fields of transform", transform.fields()), open("none", b"")])
        }
    }
}

#[test]
fn writes_of_blobs_are_as_documented() {
    let known = changes(STAMP_OF_BLOB, false);
    let is_of_blob = |kind: &&FrameKind| (0x0220..0x0230).contains(&kind.number());
    let mut kinds: Vec<FrameKind> = known.iter().map(BlobChange::kind).collect();
    kinds.sort_by_key(|kind| kind.number());
    assert!(FrameKind::ALL.iter().filter(is_of_blob).eq(&kinds), "a kind of writes has no comparison");
    let rows = rows("## Bodies: writes", "| kind | detail | fields | payload |");
    let is_named = |name: &str| kinds.iter().any(|kind| kind.to_string() == name);
    let of_blobs = rows.iter().filter(|row| row[0].split(", ").any(is_named));
    let rows: Vec<&Vec<&str>> = of_blobs.collect();
    let names: Vec<&str> = rows.iter().flat_map(|row| row[0].split(", ")).collect();
    assert!(names.len() == kinds.len() && names.iter().all(|name| is_named(name)), "each once: {names:?}");
    for row in &rows {
        row[0].split(", ").for_each(|name| compare_detail(name, row[1]));
    }
    let text =
        table("| kind | fields |", rows.iter().map(|row| format!("| {} | {}; {} |", row[0], row[2], row[3])));
    check(&text, |document| {
        for change in &known {
            let (_, bytes) = encoded(*change);
            document.named("Table / kind", &change.kind().to_string(), &bytes, &fields(change));
        }
    });
}

/// Compares what the detail byte of a write may have with what the document says of it.
fn compare_detail(name: &str, stated: &str) {
    let detail = |stamp, makes| {
        let changes = changes(stamp, makes);
        let change = changes.iter().find(|change| change.kind().to_string() == name).expect("it is known");
        encoded(*change).0
    };
    let own = BlobStamp { id: BlobStamp::OWN, ..STAMP_OF_BLOB };
    let [plain, of_own, making] =
        [detail(STAMP_OF_BLOB, false), detail(own, false), detail(STAMP_OF_BLOB, true)];
    let bits = [(of_own ^ plain, "bit 6: own"), (making ^ plain, "bit 7: ")];
    for (number, (bits, words)) in [6, 7].into_iter().zip(bits) {
        assert!(bits == 0 || bits == 1 << number, "{name} has bits {bits:#x}");
        assert_eq!(bits > 0, stated.contains(words), "the detail of {name} is \"{stated}\"");
    }
    assert_eq!(plain > 0, stated.starts_with("operator"), "the detail of {name} is \"{stated}\"");
    assert_eq!((plain | of_own | making) == 0, stated == "0", "the detail of {name} is \"{stated}\"");
}
