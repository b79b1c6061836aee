//! The messages between instances.

use zerohop_wire::ids::*;
use zerohop_wire::messages::*;
use zerohop_wire::{Elements, FrameKind, Message};

use super::tables::{Document, field, open};
use super::{NUMBERS, VERSION, body, n4, n8, zero};

/// The table of the fields behind the first 24 bytes.
const TITLE: &str = "Bodies: between instances / message";

/// Compares the tables of the section about them.
pub(super) fn compare(document: &mut Document<'_>) {
    peers(document);
    fields_of_peers(document);
}

fn peers(document: &mut Document<'_>) {
    let member = |instance, incarnation| Member {
        instance: InstanceId(instance),
        incarnation: Incarnation(incarnation),
    };
    let message = |body| {
        let (from, to) = (member(0x0403_0201, NUMBERS[0]), member(0x0807_0605, NUMBERS[1]));
        Message::Peer(PeerMessage { from, to, body })
    };
    let fields = [
        n4("sender: instance", 0x0403_0201),
        n4("addressee: instance", 0x0807_0605),
        n8("sender: incarnation", NUMBERS[0]),
        n8("addressee: incarnation", NUMBERS[1]),
    ];
    let bytes = body(FrameKind::Yield, &message(PeerBody::Yield));
    document.layout("Bodies: between instances / offset", &[], &bytes, &fields);
    let entry = LogEntry {
        name: EntryName { epoch: 0x0c0b_0a09, index: LogIndex(NUMBERS[2]) },
        timestamp: VERSION,
        kind: 1,
        flags: 2,
        key: b"key",
        payload: b"payload",
    };
    let bytes = body(FrameKind::EntryGot, &message(PeerBody::EntryGot(entry)));
    let fields = [
        n8("index", NUMBERS[2]),
        n8("timestamp", VERSION.0),
        n4("epoch", 0x0c0b_0a09),
        field("kind, as the log numbers them", [1]),
        field("flags of the log", [2]),
        zero(2),
        n4("length of the key", 3),
        n4("length of the payload", 7),
        field("key, payload", b"keypayload"),
    ];
    document.layout("Bodies: between instances / offset, second", &[], &bytes[24..], &fields);
}

/// The messages between instances, behind their first 24 bytes.
fn fields_of_peers(document: &mut Document<'_>) {
    let name = EntryName { epoch: 0x0c0b_0a09, index: LogIndex(NUMBERS[0]) };
    let name_bytes = [&NUMBERS[0].to_le_bytes()[..], &0x0c0b_0a09u32.to_le_bytes(), &[0; 4]].concat();
    let name_field = |words: &str| field(words, &name_bytes);
    let entry = LogEntry { name, timestamp: VERSION, kind: 1, flags: 2, key: b"key", payload: b"payload" };
    let entries = [entry];
    let entries = Elements::from_slice(&entries);
    let commit = LogIndex(NUMBERS[1]);
    let bytes = body_of(FrameKind::Replicate, PeerBody::Replicate { preceding: name, commit, entries });
    let fields = [
        name_field("name of the preceding entry"),
        n8("commit index", NUMBERS[1]),
        n4("number of entries", 1),
        zero(4),
        open("the entries in order", &bytes[32..]),
    ];
    document.named(TITLE, "replicate", &bytes, &fields);
    let got = body_of(FrameKind::EntryGot, PeerBody::EntryGot(entry));
    assert_eq!(got, bytes[32..]);
    document.named(TITLE, "entry_got", &got, &[open("one entry", &got)]);
    let [matched, durable, applied] = [NUMBERS[0], NUMBERS[1], NUMBERS[2]].map(LogIndex);
    let ack = |report| body_of(FrameKind::ReplicateAck, PeerBody::ReplicateAck(report));
    let fields = |index: u64, durable: u64, epoch: u32, verdict: u8, applied: u64| {
        [
            n8("index", index),
            n8("durable index", durable),
            n4("epoch", epoch),
            field("verdict", [verdict]),
            zero(3),
            n8("applied index", applied),
        ]
    };
    let reports = [
        (
            FollowerReport::Acknowledged { matched, durable, applied },
            fields(matched.0, durable.0, 0, 1, applied.0),
        ),
        (FollowerReport::Differs { at: name }, fields(name.index.0, 0, name.epoch, 2, 0)),
        (FollowerReport::NeedsState, fields(0, 0, 0, 3, 0)),
        (FollowerReport::DiskFull, fields(0, 0, 0, 4, 0)),
    ];
    for (report, fields) in reports {
        document.named(TITLE, "replicate_ack", &ack(report), &fields);
    }
    let (sent_us, map_epoch, timestamp_bound) = (NUMBERS[0], MapEpoch(NUMBERS[1]), VERSION);
    let lease = |words: [&str; 3]| {
        [n8(words[0], sent_us), n8(words[1], map_epoch.0), n8(words[2], timestamp_bound.0)]
    };
    let bytes = body_of(FrameKind::LeaseQuery, PeerBody::LeaseQuery { sent_us, map_epoch, timestamp_bound });
    let words = ["sent, in us by the sender's clock", "epoch of its map", "timestamp bound that it wants"];
    document.named(TITLE, "lease_query", &bytes, &lease(words));
    let bytes = body_of(FrameKind::LeaseGrant, PeerBody::LeaseGrant { sent_us, map_epoch, timestamp_bound });
    let words = [
        "sent, as in the request",
        "epoch of the granter's map",
        "timestamp bound that the granter has synced",
    ];
    document.named(TITLE, "lease_grant", &bytes, &lease(words));
    for (kind, name, body) in
        [(FrameKind::Yield, "yield", PeerBody::Yield), (FrameKind::Stale, "stale", PeerBody::Stale)]
    {
        document.named(TITLE, name, &body_of(kind, body), &[open("none", b"")]);
    }
    let named = [name_field("name of the entry")];
    document.named(TITLE, "entry_get", &body_of(FrameKind::EntryGet, PeerBody::EntryGet(name)), &named);
    document.named(TITLE, "entry_lost", &body_of(FrameKind::EntryLost, PeerBody::EntryLost(name)), &named);
    ranges_of_peers(document, name);
    states_of_peers(document, name);
    units(document);
    let message = body_of(FrameKind::Transaction, PeerBody::Transaction(b"message"));
    document.named(TITLE, "transaction", &message, &[open("a message", b"message")]);
}

/// The body of a message behind its first 24 bytes.
fn body_of(kind: FrameKind, fields: PeerBody<'_>) -> Vec<u8> {
    let member = Member { instance: InstanceId(1), incarnation: Incarnation(2) };
    let message = Message::Peer(PeerMessage { from: member, to: member, body: fields });
    body(kind, &message).split_off(24)
}

fn ranges_of_peers(document: &mut Document<'_>, as_of: EntryName) {
    let range = DigestRange { as_of, from: b"here", to: b"up to", contents: true };
    let bytes = body_of(FrameKind::DigestQuery, PeerBody::DigestQuery(range));
    let fields = [
        n8("a range: index", as_of.index.0),
        n4("epoch", as_of.epoch),
        field("1 if contents are digested too, else 0", [1]),
        zero(3),
        n4("length of the first cursor", 4),
        n4("length of the second cursor", 5),
        open("both cursors", b"hereup to"),
    ];
    document.named(TITLE, "digest_query", &bytes, &fields);
    let differs = body_of(FrameKind::DigestDiffers, PeerBody::DigestDiffers(range));
    document.named(TITLE, "digest_differs", &differs, &fields);
    let reply = PeerBody::DigestReply { range, records: NUMBERS[3], digest: NUMBERS[4] };
    let fields = [
        field("the range up to its lengths", &bytes[..24]),
        n8("records", NUMBERS[3]),
        n8("digest", NUMBERS[4]),
        open("both cursors", b"hereup to"),
    ];
    document.named(TITLE, "digest_reply", &body_of(FrameKind::DigestReply, reply), &fields);
}

fn states_of_peers(document: &mut Document<'_>, as_of: EntryName) {
    let name = [&as_of.index.0.to_le_bytes()[..], &as_of.epoch.to_le_bytes(), &[0; 4]].concat();
    let bytes = b"bytes";
    let parts = [
        (1, StatePart::Log { begins: true, bytes }),
        (2, StatePart::State { is_last: false, bytes }),
        (3, StatePart::State { is_last: true, bytes }),
        (4, StatePart::Log { begins: false, bytes }),
        (5, StatePart::History { bytes }),
    ];
    for (number, contents) in parts {
        let part =
            PeerBody::StatePart { as_of, attempt: NUMBERS[2], part: 0x0807_0605, cursor: b"next", contents };
        let fields = [
            field("name of the entry that it is as of", &name),
            n8("attempt", NUMBERS[2]),
            n4("number of the part from 0", 0x0807_0605),
            field("contents", [number]),
            zero(3),
            n4("cursor length", 4),
            zero(4),
            open("cursor", b"next"),
            open("bytes", bytes),
        ];
        document.named(TITLE, "state_part", &body_of(FrameKind::StatePart, part), &fields);
    }
    let ack = PeerBody::StateAck { as_of, attempt: NUMBERS[2], parts: 0x0807_0605, cursor: b"next" };
    let fields = [
        field("name of the entry that it is as of", &name),
        n8("attempt", NUMBERS[2]),
        n4("parts received", 0x0807_0605),
        n4("cursor length", 4),
        open("the cursor of the last of them", b"next"),
    ];
    document.named(TITLE, "state_ack", &body_of(FrameKind::StateAck, ack), &fields);
}

fn units(document: &mut Document<'_>) {
    let [number, behind, ..] = NUMBERS;
    let query = UnitRequest { number, behind, total: 0x0807_0605, at: 0x0403_0201, piece: b"piece" };
    let fields = [
        n8("number", number),
        n8("number of the unit behind which it must run, or 0", behind),
        n4("length of the whole unit", 0x0807_0605),
        n4("where this piece begins", 0x0403_0201),
        open("the piece", b"piece"),
    ];
    document.named(TITLE, "unit_query", &body_of(FrameKind::UnitQuery, PeerBody::UnitQuery(query)), &fields);
    let verdicts =
        [(1, 0, UnitVerdict::Replied), (2, 0, UnitVerdict::NotRun), (3, behind, UnitVerdict::Waits(behind))];
    for (verdict_number, until_ms, verdict) in verdicts {
        let report = UnitReport { number, verdict, total: 0x0807_0605, at: 0x0403_0201, piece: b"piece" };
        let fields = [
            n8("number", number),
            n8("end of its wait in ms since 1970, else zero", until_ms),
            n4("length of the whole reply", 0x0807_0605),
            n4("where this piece begins", 0x0403_0201),
            field("verdict", [verdict_number]),
            zero(7),
            open("the piece", b"piece"),
        ];
        let bytes = body_of(FrameKind::UnitReply, PeerBody::UnitReply(report));
        document.named(TITLE, "unit_reply", &bytes, &fields);
    }
}
