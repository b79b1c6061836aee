//! `docs/formats/objects.md` states the bytes of the records and of their keys.

#[path = "../../../../engine/src/documented/tables.rs"]
mod tables;

use tables::{Document, Field, check, each, field, open};

use zerohop_base::bytes::Reader;
use zerohop_layer_procedure::record::LIST_MAX;

use super::*;
use crate::ids::{BodyId, BodyRange, SetId, WHOLE_OBJECT};
use crate::keys;

const DOCUMENT: &str = include_str!("../../../../../docs/formats/objects.md");
const SET: SetId = SetId(*b"set of 16 bytes!");
const SOURCE: SetId = SetId(*b"copied from here");
const NUMBERS: [u64; 4] =
    [0x0102_0304_0506_0708, 0x1112_1314_1516_1718, 0x2122_2324_2526_2728, 0x3132_3334_3536_3738];

#[test]
fn records_of_objects_are_as_documented() {
    check(DOCUMENT, |document| {
        forms(document);
        keys_of_records(document);
        bucket(document);
        object(document);
        upload(document);
        part(document);
        body_set(document);
        body(document);
        lifecycle(document);
    });
}

fn texts(texts: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    texts.iter().for_each(|text| write_bytes(&mut bytes, text.as_bytes()));
    bytes
}

fn forms(document: &mut Document<'_>) {
    assert_eq!(LIST_MAX, 1_048_576, "the document has this number");
    let mut flag = Vec::new();
    write_option(&mut flag, None::<&u8>, |_, _| ());
    document.sentence("A *flag* (1)", &flag, &[field("A *flag*", [0])]);
    let bytes = texts(&["name"]);
    let fields = [field("stands behind its length", 4u32.to_le_bytes())];
    document.sentence("A *text* or a row of *bytes*", &bytes[..4], &fields);
    let mut list = Vec::new();
    write_list(&mut list, &[7u8], |into, element| into.push(*element));
    let fields = [field("the number of its elements", 1u32.to_le_bytes()), open("the elements", [7])];
    document.sentence("A *list* is", &list, &fields);
    let flags: Vec<u8> =
        (0..=u8::MAX).filter(|byte| read_flag(&mut Reader::new(&[*byte])).is_some()).collect();
    assert_eq!(flags, [0, 1], "other flags are refused");
}

fn keys_of_records(document: &mut Document<'_>) {
    const TITLE: &str = "Keys / kind";
    let [due, number, ..] = NUMBERS;
    let id = VersionId(*b"place of version");
    let timer = keys::Timer { due, set: SET, number };
    let set = || field("set", SET.0);
    let of_name = |id: Field| {
        let zero = || field("zero", [0]);
        vec![open("bucket", b"pictures"), zero(), open("name", b"cat.png"), field("second zero", [0]), id]
    };
    let rows = [
        ("bucket", keys::bucket("pictures"), vec![open("name of the bucket", b"pictures")]),
        (
            "body of an upload",
            keys::body(BodyId { set: SET, number }),
            vec![set(), field("number", number.to_be_bytes())],
        ),
        ("manifest", keys::manifest(SET), vec![set()]),
        (
            "current version of an object",
            keys::object("pictures", b"cat.png"),
            of_name(set()).into_iter().take(3).collect(),
        ),
        ("part of an upload", keys::part(SET, 0x0102), vec![set(), field("number", [1, 2])]),
        ("body set", keys::set(SET), vec![set()]),
        (
            "timer, an empty record",
            timer.key(),
            vec![field("due", due.to_be_bytes()), set(), field("number", number.to_be_bytes())],
        ),
        ("upload in progress", keys::upload("pictures", b"cat.png", SET), of_name(set())),
        (
            "older version of an object",
            keys::version("pictures", b"cat.png", id),
            of_name(field("place", id.0)),
        ),
    ];
    let mut known = Vec::new();
    for (words, key, fields) in &rows {
        document.listed(TITLE, key[0].into(), &key[1..], fields);
        known.push((u64::from(key[0]), format!("`{}`", char::from(key[0])), *words));
    }
    let words: Vec<(u64, &str)> = known.iter().map(|(number, _, words)| (*number, *words)).collect();
    document.numbers(TITLE, &words);
    let letters: Vec<(u64, &str)> = known.iter().map(|(number, letter, _)| (*number, &letter[..])).collect();
    document.numbers(TITLE, &letters);
    let name = BodyId { set: SetId([0xab; 16]), number: WHOLE_OBJECT }.blob_name();
    assert_eq!(name, format!("{}-0000000000000001", "ab".repeat(16)));
}

fn bucket(document: &mut Document<'_>) {
    let record = BucketRecord {
        created: NUMBERS[0],
        under_removal: true,
        generation: NUMBERS[1],
        settings: vec![("cors".to_owned(), b"rules".to_vec())],
    };
    let fields = [
        field("format: 1", [1]),
        field("time of its creation", NUMBERS[0].to_le_bytes()),
        open("flag: a removal has begun", [1]),
        field("number of removals that have begun", NUMBERS[1].to_le_bytes()),
        field("number of settings", 1u32.to_le_bytes()),
        field("each setting: its name, and its bytes", texts(&["cors", "rules"])),
    ];
    document.layout("Bucket / offset", &[], &record.encode(), &fields);
    let of = |bytes: &[u8]| {
        let settings = vec![("versioning".to_owned(), bytes.to_vec())];
        BucketRecord { settings, ..record.clone() }.versioning()
    };
    assert_eq!((of(b"enabled"), of(b"suspended")), (Some(Versioning::Enabled), Some(Versioning::Suspended)));
    assert_eq!((record.versioning(), Versioning::SETTING), (Some(Versioning::Absent), "versioning"));
}

fn pairs(name: &str, value: &str) -> Pairs {
    vec![(name.to_owned(), value.to_owned())]
}

fn checksum() -> (Checksum, Vec<u8>) {
    let checksum = Checksum { algorithm: 3, composite: true, value: b"sum".to_vec() };
    let mut bytes = Vec::new();
    super::object::write_checksum(&mut bytes, Some(&checksum));
    (checksum, bytes.split_off(1))
}

fn links() -> (VersionLinks, Vec<u8>) {
    let [id, older, newer, null] = NUMBERS.map(|time| VersionId::new(time, (!time).to_le_bytes()));
    let links = VersionLinks { id, is_null: false, older: Some(older), newer: Some(newer), null: Some(null) };
    let mut bytes = Vec::new();
    links.write(&mut bytes);
    (links, bytes)
}

fn object(document: &mut Document<'_>) {
    let (checksum, checksum_bytes) = checksum();
    let (links, links_bytes) = links();
    let record = ObjectRecord {
        set: SET,
        in_parts: true,
        size: NUMBERS[0],
        modified: NUMBERS[1],
        etag: ETag { md5: *b"md5 of the bytes", parts: 0x4142 },
        checksum: Some(checksum),
        attributes: pairs("content-type", "text/plain"),
        tags: pairs("colour", "red"),
        version: Some(links),
    };
    let fields = [
        field("format: 1 without links, 2 with links", [2]),
        field("body set", SET.0),
        open("flag: the set has a manifest", [1]),
        field("number of bytes", NUMBERS[0].to_le_bytes()),
        field("time of the write", NUMBERS[1].to_le_bytes()),
        field("entity tag: MD5 of the bytes, or of the MD5 of all parts", b"md5 of the bytes"),
        field("entity tag: number of parts, 0 without parts", 0x4142u16.to_le_bytes()),
        open("option: a checksum follows", [1]),
        field("the [checksum]", &checksum_bytes),
        open("number of attributes", 1u32.to_le_bytes()),
        field("each attribute", texts(&["content-type", "text/plain"])),
        open("number of tags", 1u32.to_le_bytes()),
        field("each tag", texts(&["colour", "red"])),
        field("in format 2, the [links]", &links_bytes),
    ];
    document.layout("Object / offset", &[], &record.encode(), &fields);
    let bytes = record.encode();
    let earlier = ObjectRecord { version: None, ..record }.encode();
    let without_links = bytes.len() - links_bytes.len();
    assert_eq!((earlier[0], &earlier[1..]), (1, &bytes[1..without_links]), "format 1 has no links");
    let fields = [
        field("algorithm", [3]),
        field("flag: it is the checksum of the checksums of the parts", [1]),
        field("its length", 3u32.to_le_bytes()),
        open("its bytes", b"sum"),
    ];
    document.layout("Checksum / offset", &[], &checksum_bytes, &fields);
    links_of_version(document, &links, &links_bytes);
    let marker = MarkerRecord { modified: NUMBERS[0], links };
    let fields = [
        field("format: 3", [3]),
        field("time of the write", NUMBERS[0].to_le_bytes()),
        field("the [links]", &links_bytes),
    ];
    document.layout("Delete marker / offset", &[], &StoredVersion::Marker(marker).encode(), &fields);
}

fn links_of_version(document: &mut Document<'_>, links: &VersionLinks, bytes: &[u8]) {
    let place = |id: Option<VersionId>| id.map_or([0; 16], |id| id.0);
    let fields = [
        field("place: time of the version, big-endian, with all bits inverted", (!NUMBERS[0]).to_be_bytes()),
        open("place: random bytes", (!NUMBERS[0]).to_le_bytes()),
        field("flag: clients name it `null`", [0]),
        open("option: there is an older version", [1]),
        field("place of the next older version", place(links.older)),
        open("option: there is a newer version", [1]),
        field("place of the next newer version", place(links.newer)),
        open("option: of the current version, an older one is named `null`", [1]),
        field("place of the version named `null`", place(links.null)),
    ];
    document.layout("Links / offset", &[], bytes, &fields);
    let mut fewer = Vec::new();
    VersionLinks { older: None, ..*links }.write(&mut fewer);
    assert_eq!((&fewer[..17], &fewer[17..]), (&bytes[..17], &[&[0], &bytes[34..]].concat()[..]));
}

fn upload(document: &mut Document<'_>) {
    let record = UploadRecord {
        initiated: NUMBERS[0],
        is_frozen: true,
        generation: NUMBERS[1],
        checksum_algorithm: 4,
        is_composite: true,
        attributes: pairs("content-type", "text/plain"),
        tags: pairs("colour", "red"),
    };
    let fields = [
        field("format: 1", [1]),
        field("time of its creation", NUMBERS[0].to_le_bytes()),
        open("flag: a completion reads the parts", [1]),
        field("number of changes of that flag", NUMBERS[1].to_le_bytes()),
        field("algorithm of the object's checksum", [4]),
        open("flag: the checksum of the object is that of the checksums of its parts", [1]),
        open("number of attributes", 1u32.to_le_bytes()),
        field("each attribute", texts(&["content-type", "text/plain"])),
        open("number of tags", 1u32.to_le_bytes()),
        field("each tag", texts(&["colour", "red"])),
    ];
    document.layout("Upload / offset", &[], &record.encode(), &fields);
}

fn part(document: &mut Document<'_>) {
    let (checksum, checksum_bytes) = checksum();
    let range =
        BodyRange { body: BodyId { set: SET, number: NUMBERS[3] }, offset: NUMBERS[0], length: NUMBERS[1] };
    let record = PartRecord {
        number: 0x4142,
        size: NUMBERS[0],
        modified: NUMBERS[1],
        etag: ETag { md5: *b"md5 of the bytes", parts: 0 },
        checksum: Some(checksum),
        body: Some(NUMBERS[2]),
        source: Some(SOURCE),
        ranges: vec![range],
    };
    let range = [&SET.0[..], &[NUMBERS[3], NUMBERS[0], NUMBERS[1]].map(u64::to_le_bytes).concat()].concat();
    let fields = [
        field("format: 1", [1]),
        field("number, from 1", 0x4142u16.to_le_bytes()),
        field("number of bytes", NUMBERS[0].to_le_bytes()),
        field("time of the write", NUMBERS[1].to_le_bytes()),
        field("entity tag: MD5 of the bytes", b"md5 of the bytes"),
        field("entity tag: 0", [0; 2]),
        open("option: a checksum follows", [1]),
        field("the [checksum]", &checksum_bytes),
        open("option: the part has a body of its own; a copied part has none", [1]),
        field("number of the body in the set of the upload", NUMBERS[2].to_le_bytes()),
        open("option: the part is copied", [1]),
        field("set of which the part has a reference", SOURCE.0),
        field("number of ranges", 1u32.to_le_bytes()),
        each(
            1,
            "each range: set (16), number of the body (8), first byte (8), number of bytes (8)",
            &range[..],
        ),
    ];
    document.layout("Part / offset", &[], &record.encode(), &fields);
    let bytes = record.encode();
    let manifest = Manifest { parts: vec![record] };
    let fields = [
        field("format: 1", [1]),
        field("number of parts", 1u32.to_le_bytes()),
        field("each part, as its record without the format", &bytes[1..]),
    ];
    document.layout("Manifest / offset", &[], &manifest.encode(), &fields);
}

/// Compares a record of states: its beginning, each state with its fields, and that there are no others.
fn states<R: Record>(document: &mut Document<'_>, heading: &str, states: &[(&str, R, Vec<Field>)]) {
    let layout = states[0].1.encode();
    let fields = [field("format: 1", [1]), field("state", [0]), open("fields of the state", &layout[2..])];
    document.layout(&format!("{heading} / offset"), &[], &layout, &fields);
    let title = format!("{heading} / kind");
    let names: Vec<(u64, &str)> = (0..).zip(states).map(|(number, (name, ..))| (number, *name)).collect();
    document.numbers(&title, &names);
    for ((number, _), (_, record, fields)) in names.iter().zip(states) {
        let bytes = record.encode();
        assert_eq!((bytes[0], u64::from(bytes[1])), (FORMAT, *number));
        document.listed(&title, *number, &bytes[2..], fields);
    }
    let is_known = |state: u8| {
        (0..=9).any(|length| R::decode(&[&[FORMAT, state][..], &vec![0; length]].concat()).is_some())
    };
    let known: Vec<u64> = (0..=u8::MAX).filter(|state| is_known(*state)).map(u64::from).collect();
    assert_eq!(known, names.iter().map(|(number, _)| *number).collect::<Vec<_>>(), "{heading}");
}

fn body_set(document: &mut Document<'_>) {
    let [until, references, ..] = NUMBERS;
    let time = |words: &str| field(words, until.to_le_bytes());
    let rows = [
        (
            "pending: the only body is being written",
            SetRecord::Pending { until },
            vec![time("time after which none of its bytes is written")],
        ),
        ("open: the set of an upload in progress", SetRecord::Open, vec![open("none", b"")]),
        (
            "live: objects or copied parts name it",
            SetRecord::Live { references, in_parts: true },
            vec![
                field("number of references", references.to_le_bytes()),
                field("flag: the set has a manifest", [1]),
            ],
        ),
        (
            "dead: nothing names it",
            SetRecord::Dead { in_parts: true, until },
            vec![
                field("flag: the set was an upload", [1]),
                time("time until which readers may read it, 0 until a sweep sets it"),
            ],
        ),
    ];
    states(document, "Body set", &rows);
}

fn body(document: &mut Document<'_>) {
    let until = NUMBERS[0];
    let rows = [
        (
            "pending: the body is being written",
            BodyRecord::Pending { until },
            vec![field("time after which none of its bytes is written", until.to_le_bytes())],
        ),
        (
            "live: the record of a part names it",
            BodyRecord::Live { part: 0x0102 },
            vec![field("number of the part", 0x0102u16.to_le_bytes())],
        ),
        ("dead: nothing names it", BodyRecord::Dead, vec![open("none", b"")]),
    ];
    states(document, "Body of an upload", &rows);
}

fn lifecycle(document: &mut Document<'_>) {
    const KINDS: &str = "Lifecycle rules / kind";
    let filter = RuleFilter {
        form: FilterForm::And,
        prefix: Some("a/".to_owned()),
        tags: pairs("colour", "red"),
        larger_than: Some(NUMBERS[0]),
        smaller_than: Some(NUMBERS[1]),
    };
    let rule = LifecycleRule {
        id: "first".to_owned(),
        is_enabled: true,
        filter,
        expiration: Some(Expiration::Date(NUMBERS[2])),
        noncurrent: Some(NoncurrentExpiration { days: 0x4142_4344, newer: 0x5152_5354 }),
        abort_days: Some(0x6162_6364),
    };
    let number = |number: u32| number.to_le_bytes();
    let fields = [
        field("format: 1", [1]),
        field("number of rules", number(1)),
        open("each rule: its ID", texts(&["first"])),
        open("flag: it is carried out", [1]),
        open("form of its filter: 0 a prefix of the rule, 1 one condition, 2 several", [2]),
        open("option: names begin with a prefix", [1]),
        open("the prefix", texts(&["a/"])),
        open("number of tags that objects have", number(1)),
        field("each tag", texts(&["colour", "red"])),
        open("option: objects have more bytes than", [1]),
        field("this number", NUMBERS[0].to_le_bytes()),
        open("option: objects have fewer bytes than", [1]),
        field("this number", NUMBERS[1].to_le_bytes()),
        field("kind of expiration", [2]),
        field("value of the kind", NUMBERS[2].to_le_bytes()),
        open("option: older versions are removed", [1]),
        field("days after which they are", number(0x4142_4344)),
        field("number of the newest ones that stay", number(0x5152_5354)),
        open("option: uploads are aborted", [1]),
        field("days after which they are", number(0x6162_6364)),
    ];
    let bytes = LifecycleRules { rules: vec![rule.clone()] }.encode();
    document.layout("Lifecycle rules / offset", &[], &bytes, &fields);
    let kinds = [
        (0, "none", None, 0),
        (1, "days", Some(Expiration::Days(7)), 7),
        (2, "date", Some(Expiration::Date(NUMBERS[2])), NUMBERS[2]),
        (3, "markers", Some(Expiration::Markers(true)), 1),
    ];
    let names: Vec<(u64, &str)> = kinds.iter().map(|(kind, name, ..)| (u64::from(*kind), *name)).collect();
    document.numbers(KINDS, &names);
    let (front, back) = bytes.split_at(bytes.len() - 23);
    for (kind, name, expiration, value) in kinds {
        let rules = LifecycleRules { rules: vec![LifecycleRule { expiration, ..rule.clone() }] };
        let expected = [front, &[kind], &u64::to_le_bytes(value), &back[9..]].concat();
        assert_eq!(rules.encode(), expected, "{name}");
    }
    let unknown = [front, &[4], &back[1..]].concat();
    assert_eq!((LifecycleRules::decode(&unknown), LifecycleRules::SETTING), (None, "lifecycle"));
}
