//! `docs/formats/control-log.md` states the bytes of a manager's log.

#[path = "../../../engine/src/documented/tables.rs"]
mod tables;

use raft::eraftpb::{Entry, EntryType, HardState, Snapshot};
use tables::{check, field, open};
use zerohop_wire::checksum::crc32c;

use super::record::{PersistedLog, RecordWriter, entry_type, number_of};
use crate::command::ManagerId;
use crate::limits::MESSAGE_BYTES_MAX;

const DOCUMENT: &str = include_str!("../../../../docs/formats/control-log.md");
const NUMBERS: [u64; 6] = [
    0x0102_0304_0506_0708,
    0x1112_1314_1516_1718,
    0x2122_2324_2526_2728,
    0x3132_3334_3536_3738,
    0x4142_4344_4546_4748,
    0x5152_5354_5556_5758,
];

fn written(write: impl FnOnce(&mut RecordWriter)) -> Vec<u8> {
    let mut writer = RecordWriter::default();
    write(&mut writer);
    writer.bytes
}

fn entry() -> Entry {
    let mut entry = Entry { index: NUMBERS[0], term: NUMBERS[1], ..Entry::default() };
    entry.set_entry_type(EntryType::EntryConfChangeV2);
    entry.context = b"context".to_vec().into();
    entry.data = b"data".to_vec().into();
    entry
}

fn snapshot() -> Snapshot {
    let mut snapshot = Snapshot::default();
    let meta = snapshot.mut_metadata();
    (meta.index, meta.term) = (NUMBERS[0], NUMBERS[1]);
    meta.mut_conf_state().set_voters(vec![NUMBERS[2]]);
    meta.mut_conf_state().set_learners(vec![NUMBERS[3]]);
    snapshot.data = b"the state".to_vec().into();
    snapshot
}

#[test]
fn logs_are_as_documented() {
    const RECORDS: &str = "Records / kind";
    let number = |words: &str, number: u64| field(words, number.to_le_bytes());
    let header = written(|writer| writer.header(ManagerId(NUMBERS[0])));
    let [index, term, voter, learner, commit, vote] = NUMBERS;
    let hard = HardState { term, vote, commit, ..HardState::default() };
    let hard = written(|writer| writer.hard_state(&hard));
    let entry = written(|writer| writer.entry(&entry()));
    let snapshot = written(|writer| writer.snapshot(&snapshot()));
    assert_eq!(MESSAGE_BYTES_MAX, 64 << 20, "the document has 64 MiB");
    check(DOCUMENT, |document| {
        let fields = [
            field("`ZHCL`", b"ZHCL"),
            field("version: 1", 1u16.to_le_bytes()),
            field("zero", [0; 2]),
            number("id of the manager as a member", NUMBERS[0]),
            field("CRC-32C of the 16 bytes before", crc32c(&header[..16]).to_le_bytes()),
        ];
        document.layout("Header, 20 bytes / offset", &[], &header, &fields);
        let body = &entry[9..];
        let fields = [
            field("CRC-32C of all that follows", crc32c(&entry[4..]).to_le_bytes()),
            field("bytes of the body, `n`; at most 64 MiB", (body.len() as u32).to_le_bytes()),
            field("kind", [2]),
            field("body", body),
        ];
        document.layout("Records / offset", &[("n", body.len())], &entry, &fields);

        let fields = [number("term", term), number("vote", vote), number("commit index", commit)];
        document.listed(RECORDS, hard[8].into(), &hard[9..], &fields);
        let fields = [
            number("index", index),
            number("term", term),
            field("kind", [2]),
            field("bytes of the context", 7u32.to_le_bytes()),
            open("context", b"context"),
            open("data", b"data"),
        ];
        document.listed(RECORDS, entry[8].into(), body, &fields);
        let fields = [
            number("index", index),
            number("term", term),
            field("number of voters", 1u32.to_le_bytes()),
            number("voters", voter),
            field("number of learners", 1u32.to_le_bytes()),
            number("learners", learner),
            open("the state", b"the state"),
        ];
        document.listed(RECORDS, snapshot[8].into(), &snapshot[9..], &fields);
        let known = [(hard[8], "hard state"), (entry[8], "entry"), (snapshot[8], "snapshot")];
        document.numbers(RECORDS, &known.map(|(kind, name)| (kind.into(), name)));
    });
    let is_known = |kind: &u8| {
        [&hard, &entry, &snapshot].iter().any(|record| {
            let mut record = (*record).clone();
            record[8] = *kind;
            let sum = crc32c(&record[4..]).to_le_bytes();
            record[..4].copy_from_slice(&sum);
            let snapshot_before =
                [&header[..], &written(|writer| writer.snapshot(&self::snapshot()))].concat();
            PersistedLog::read(&[&snapshot_before[..], &record].concat()).is_ok()
        })
    };
    let known: Vec<u8> = (0..=u8::MAX).filter(is_known).collect();
    assert_eq!(known, [1, 2, 3], "each kind that is read is documented");
    let kinds: Vec<u8> = (0..=u8::MAX).filter_map(entry_type).map(number_of).collect();
    assert_eq!(kinds, [0, 1, 2], "the document has 0 command, 1 and 2 change of membership");
}
