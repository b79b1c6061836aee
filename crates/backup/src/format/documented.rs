//! `docs/formats/backup.md` states the bytes of a backup.

#[path = "../../../engine/src/documented/tables.rs"]
mod tables;

use tables::{Document, check, each, field, open};

use super::manifest::{Keyspace, Manifest, Part};
use super::part::{BODY_BYTES_MAX, FRAME_BYTES, HEADER_BYTES, PartEntry, PartHeader};
use super::{checksum, put_counted};

const DOCUMENT: &str = include_str!("../../../../docs/formats/backup.md");
const NUMBERS: [u64; 4] =
    [0x0102_0304_0506_0708, 0x1112_1314_1516_1718, 0x2122_2324_2526_2728, 0x3132_3334_3536_3738];

#[test]
fn backups_are_as_documented() {
    check(DOCUMENT, |document| {
        manifest(document);
        header(document);
        entries(document);
    });
}

fn texts(texts: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    texts.iter().for_each(|text| put_counted(text.as_bytes(), &mut bytes));
    bytes
}

fn manifest(document: &mut Document<'_>) {
    let keyspace = Keyspace {
        name: "name".to_owned(),
        id: 0x0102_0304,
        partitions: 0x1112_1314,
        hash: "hash".to_owned(),
        replicas: 0x2122_2324,
        min_in_sync: 0x3132_3334,
        durability: "durability".to_owned(),
        chunk_bytes: 0x4142_4344,
        separators: Vec::new(),
    };
    let part = Part {
        keyspace: 0,
        partition: 0x5152_5354,
        length: NUMBERS[0],
        checksum: 0x6162_6364,
        records: NUMBERS[1],
        kept: NUMBERS[2],
    };
    let manifest = Manifest {
        id: *b"id of the backup",
        base: *b"that before this",
        base_folder: "../monday".to_owned(),
        at: NUMBERS[3],
        at_ms: 0x4142_4344_4546_4748,
        keyspaces: vec![keyspace; 2],
        parts: vec![part; 3],
    };
    let bytes = manifest.encode();
    let body = &bytes[16..];
    let fields = [
        field("`ZHBM`", b"ZHBM"),
        field("version, 1", 1u32.to_le_bytes()),
        field("length of the body", (body.len() as u32).to_le_bytes()),
        field("checksum of the body", checksum(body).to_le_bytes()),
        open("body", body),
    ];
    document.layout("manifest.zhb / offset", &[], &bytes, &fields);
    // The table has one keyspace and one part.
    let mut one = manifest.clone();
    one.keyspaces.truncate(1);
    one.parts.truncate(1);
    one.keyspaces[0].separators = vec![b"m0".to_vec()];
    let fields = [
        field("id, drawn when it was taken", manifest.id),
        field("id of the backup that it goes on from", manifest.base),
        field("folder of that backup", texts(&["../monday"])),
        field("time of the snapshot", manifest.at.to_le_bytes()),
        field("the same in ms since 1970", manifest.at_ms.to_le_bytes()),
        field("number of keyspaces", 1u32.to_le_bytes()),
        field("each: name, hash, durability", texts(&["name", "hash", "durability"])),
        each(
            5,
            "id, partitions, copies, copies that must hold a write, bytes of a blob's chunk",
            [0x0102_0304u32, 0x1112_1314, 0x2122_2324, 0x3132_3334, 0x4142_4344]
                .map(u32::to_le_bytes)
                .concat(),
        ),
        open("in version 2, number of its separators", 1u32.to_le_bytes()),
        field("in version 2, each separator", texts(&["m0"])),
        open("number of parts", 1u32.to_le_bytes()),
        each(
            3,
            "each: keyspace (from 0), partition, checksum of the file",
            [0u32, 0x5152_5354, 0x6162_6364].map(u32::to_le_bytes).concat(),
        ),
        each(
            3,
            "bytes of the file, records and blobs, those of them that are kept",
            NUMBERS[..3].iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<_>>(),
        ),
    ];
    document.layout("manifest.zhb / field", &[], &one.encode()[16..], &fields);
}

fn header(document: &mut Document<'_>) {
    let header = PartHeader { backup: *b"id of the backup", keyspace: 0x0102_0304, partition: 0x1112_1314 };
    let bytes = [&header.encode()[..], b"entries"].concat();
    assert_eq!(HEADER_BYTES + 7, bytes.len());
    let fields = [
        field("`ZHBP`", b"ZHBP"),
        field("version, 1", 1u32.to_le_bytes()),
        field("id of the backup", header.backup),
        field("keyspace, from 0", header.keyspace.to_le_bytes()),
        field("partition", header.partition.to_le_bytes()),
        field("checksum of the 32 bytes before", checksum(&bytes[..32]).to_le_bytes()),
        open("entries", b"entries"),
    ];
    document.layout("A part / offset", &[], &bytes, &fields);
}

fn bytes_of(entry: &PartEntry<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    entry.encode(&mut bytes);
    bytes
}

fn entries(document: &mut Document<'_>) {
    const TITLE: &str = "A part / kind";
    let bytes = bytes_of(&PartEntry::Chunk { number: NUMBERS[0], version: NUMBERS[1], bytes: &[7; 0x0102] });
    let body = &bytes[FRAME_BYTES..];
    assert_eq!(BODY_BYTES_MAX, 17 << 20, "the document has 17 MiB");
    let fields = [
        field("length of its body", (body.len() as u32).to_le_bytes()),
        field("the checksum of the body", checksum(body).to_le_bytes()),
        field("the body, which begins with its kind", [5]),
    ];
    document.sentence("An entry is the length of its body", &bytes[..FRAME_BYTES + 1], &fields);
    let [version, deadline, length, number] = NUMBERS;
    let (key, value, id, size) = (&b"key"[..], &b"contents"[..], number, length);
    let kinds = [
        (1, "bytes", PartEntry::Bytes { version, deadline, key, value }),
        (2, "list", PartEntry::List { version, deadline, length, key }),
        (3, "values", PartEntry::Values(vec![key])),
        (4, "blob", PartEntry::Blob { version, id, size, chunk_bits: 20, name: key, attributes: value }),
        (5, "chunk", PartEntry::Chunk { number, version, bytes: value }),
        (6, "kept", PartEntry::Kept { version, deadline, length, key }),
        (7, "kept chunk", PartEntry::KeptChunk { number, version }),
        (8, "end", PartEntry::End { entries: number }),
    ];
    let of = |words: &str, number: u64| field(words, number.to_le_bytes());
    for (kind, _, entry) in &kinds {
        let body = &bytes_of(entry)[FRAME_BYTES..];
        assert_eq!(
            (u64::from(body[0]), PartEntry::decode(body, checksum(body)).as_ref()),
            (*kind, Ok(entry))
        );
        let key_length = field("length of the key", 3u32.to_le_bytes());
        let fields = match kind {
            1 => vec![
                of("version", version),
                of("deadline in ms since 1970", deadline),
                key_length,
                open("key", key),
                open("value", value),
            ],
            2 => vec![
                of("version", version),
                of("deadline", deadline),
                of("number of values", length),
                open("key", key),
            ],
            3 => vec![field("each its length", 3u32.to_le_bytes()), open("bytes", key)],
            4 => vec![
                of("version of the header", version),
                of("id", id),
                of("size", size),
                field("bytes of a chunk as a power of two", [20]),
                field("length of the name", 3u32.to_le_bytes()),
                open("name", key),
                open("attributes", value),
            ],
            5 => vec![of("number", number), of("version", version), open("bytes", value)],
            6 => vec![
                of("version", version),
                of("deadline", deadline),
                of("bytes or values", length),
                open("key", key),
            ],
            7 => vec![of("number", number), of("version", version)],
            _ => vec![of("entries before this one", number)],
        };
        document.listed(TITLE, *kind, &body[1..], &fields);
    }
    document.numbers(TITLE, &kinds.map(|(kind, name, _)| (kind, name)));
    let unknown = |kind: &u8| {
        let body = [*kind; 1];
        PartEntry::decode(&body, checksum(&body)).is_err_and(|error| error.0.contains("of a kind"))
    };
    let known: Vec<u8> = (0..=u8::MAX).filter(|kind| !unknown(kind)).collect();
    assert_eq!(known, [1, 2, 3, 4, 5, 6, 7, 8], "each kind that is read is documented");
}
