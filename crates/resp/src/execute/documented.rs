//! The tables of offsets in `docs/protocols/redis.md` state the bytes of units and of long replies.

#[path = "../../../engine/src/documented/tables.rs"]
mod tables;

use tables::{Document, check_comments, check_offsets, field, open};
use zerohop_wire::ids::{SnapshotId, Timestamp};

use super::long_reply::{LongReply, PagedReply, PastPage};
use crate::unit::UnitKind;
use crate::{Protocol, Unit};

const DOCUMENT: &str = include_str!("../../../../docs/protocols/redis.md");
const GET: &[u8] = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n";

#[test]
fn units_and_long_replies_are_as_documented() {
    check_offsets(DOCUMENT, |document| {
        unit(document);
        long_reply(document);
    });
    check_comments(DOCUMENT, include_str!("../unit.rs"));
    check_comments(DOCUMENT, include_str!("long_reply.rs"));
}

fn unit(document: &mut Document<'_>) {
    let unit = Unit {
        kind: UnitKind::Past,
        protocol: Protocol::Resp3,
        wait_until_ms: Some(0x0102_0304_0506_0708),
        watched: b"snapshot's id 16",
        commands: GET,
        parsed: None,
    };
    let mut bytes = Vec::new();
    unit.encode(&mut bytes);
    let kinds = "kind: 0 one command, 1 a transaction, 2 watch, 3 a page of a command on all keys, 4 a page of a long reply";
    let watched = "each key watched: its version (8), 0 if absent; its length (4); its bytes. For a page of a long reply: the id of the snapshot";
    let fields = [
        field("version of this layout: 1", [1]),
        field(kinds, [4]),
        field("version of the client's protocol: 2 or 3", [3]),
        field("0", [0]),
        field("end of its wait, in milliseconds since 1970", 0x0102_0304_0506_0708u64.to_le_bytes()),
        field("W, bytes of the keys watched; 16 for a page of a long reply", 16u32.to_le_bytes()),
        field(watched, unit.watched),
        open("the commands, as RESP arrays, one after the other", GET),
    ];
    document.layout("Units / offset", &[("W", 16)], &bytes, &fields);
    let past = (SnapshotId(u128::from_le_bytes(*b"snapshot's id 16")), Timestamp(0x0102_0304_0506_0708));
    assert_eq!(unit.reads_past(), Some(past));
    let numbers = [UnitKind::One, UnitKind::Transaction, UnitKind::Watch, UnitKind::Page, UnitKind::Past];
    assert_eq!(numbers.map(|kind| kind as u8), [0, 1, 2, 3, 4]);
}

fn long_reply(document: &mut Document<'_>) {
    let (id, at) = (SnapshotId(u128::from_le_bytes(*b"snapshot's id 16")), Timestamp(0x1112_1314_1516_1718));
    let unit = Unit {
        kind: UnitKind::One,
        protocol: Protocol::Resp2,
        wait_until_ms: None,
        watched: &[],
        commands: GET,
        parsed: None,
    };
    let mut bytes = Vec::new();
    PagedReply::of(0x2122_2324..0x2122_2324 + 0x3132).opened(&unit, id, at, &mut bytes);
    let fields = [
        field("0", [0]),
        field("id of the snapshot", b"snapshot's id 16"),
        field("the time at which it is read", at.0.to_le_bytes()),
        field("the first value; 0 for `MGET`", 0x2122_2324u64.to_le_bytes()),
        field("number of values", 0x3132u64.to_le_bytes()),
        open("the unit that got this answer", &bytes[41..]),
    ];
    document.layout("Long replies / offset", &[], &bytes, &fields);
    let read = LongReply::decode(&bytes).expect("it is one");
    assert_eq!((read.id, read.at, read.first, read.count), (id, at, 0x2122_2324, 0x3132));
    let page = [&[0][..], &0x0102_0304u32.to_le_bytes(), b"$1\r\nv\r\n"].concat();
    let fields = [
        field("0", [0]),
        field("number of values", 0x0102_0304u32.to_le_bytes()),
        open("the values, as RESP", b"$1\r\nv\r\n"),
    ];
    document.layout("Long replies / offset, second", &[], &page, &fields);
    let read = PastPage::decode(&page).expect("it is one");
    assert_eq!((read.count, read.values), (0x0102_0304, &b"$1\r\nv\r\n"[..]));
}
