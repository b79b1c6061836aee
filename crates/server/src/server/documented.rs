//! `docs/formats/node-folder.md` states the bytes of the files in a node's folder.

#[path = "../../../engine/src/documented/tables.rs"]
mod tables;

use std::sync::Arc;

use tables::{Document, check, field, open};
use zerohop_placement::Address;
use zerohop_wire::checksum::crc32c;
use zerohop_wire::ids::{Incarnation, KeyspaceId, NodeId, Timestamp};
use zerohop_wire::messages::ClusterId;

use super::LocalCluster;
use crate::node_files::clean_shutdown::encode as closed_bytes;
use crate::node_files::identity::{CONTACTS_MAX, SavedMember};
use crate::node_files::incarnation_log::LifeRecord;
use crate::node_files::persisted::SavedNode;

const DOCUMENT: &str = include_str!("../../../../docs/formats/node-folder.md");

#[test]
fn files_of_a_node_are_as_documented() {
    check(DOCUMENT, |document| {
        state(document);
        losses(document);
        member(document);
        life(document);
        closed(document);
        cluster(document);
    });
}

/// The checksum of all before it.
fn sum_of(bytes: &[u8]) -> [u8; 4] {
    crc32c(&bytes[..bytes.len() - 4]).to_le_bytes()
}

fn texts(texts: &[&str]) -> Vec<u8> {
    texts.iter().flat_map(|text| [&[text.len() as u8], text.as_bytes()].concat()).collect()
}

fn state(document: &mut Document<'_>) {
    let saved = SavedNode {
        cluster: ClusterId(*b"sixteen bytes id"),
        next_keyspace: KeyspaceId(7),
        ..crate::node_files::persisted::tests::sample()
    };
    let (bytes, map) = (saved.encode(), saved.map.encode());
    let fields = [
        field("`zerohnod`", b"zerohnod"),
        field("version: 1", 1u32.to_le_bytes()),
        // The sample's map has a node 1.
        open("node id", 1u32.to_le_bytes()),
        field("cluster id", b"sixteen bytes id"),
        field("id of the keyspace that is created next", 7u32.to_le_bytes()),
        field("bytes of the map, `m`", (map.len() as u32).to_le_bytes()),
        field("a whole map", &map),
        field("CRC-32C of bytes 0 to 40 + `m`", sum_of(&bytes)),
    ];
    document.layout("`state` / offset", &[("m", map.len())], &bytes, &fields);
}

fn losses(document: &mut Document<'_>) {
    let bytes = crate::node_files::losses::tests::losses().encode();
    let entry = |keyspace: u32, epoch: u64| [&keyspace.to_le_bytes()[..], &epoch.to_le_bytes()].concat();
    let fields = [
        field("`zerohopx`", b"zerohopx"),
        field("version: 1", 1u32.to_le_bytes()),
        field("number of keyspaces, `k`", 2u32.to_le_bytes()),
        field(
            "for each keyspace: its id (4), the first map epoch of the start that recorded it (8)",
            [entry(6, 0x0102_0304_0506_0708), entry(7, 9)].concat(),
        ),
        field("CRC-32C of bytes 0 to 16 + 12 `k`", sum_of(&bytes)),
    ];
    document.layout("`losses` / offset", &[("k", 2)], &bytes, &fields);
}

fn member(document: &mut Document<'_>) {
    let contacts = ["manager-1:7400", "manager-2:7400"];
    let saved = SavedMember {
        cluster: ClusterId(*b"sixteen bytes id"),
        node: Some(NodeId(0x0102_0304)),
        contacts: contacts.map(|contact| Address::new(contact).unwrap()).to_vec(),
        map: Arc::clone(&crate::node_files::persisted::tests::sample().map),
    };
    let (bytes, map) = (saved.encode(), saved.map.encode());
    let fields = [
        field("`zerohopm`", b"zerohopm"),
        field("version: 1", 1u32.to_le_bytes()),
        field("node id; 0: it has not joined yet", 0x0102_0304u32.to_le_bytes()),
        field("cluster id", b"sixteen bytes id"),
        field(&format!("number of contacts, `c`, at most {CONTACTS_MAX}"), 2u32.to_le_bytes()),
        field("bytes of the map, `m`", (map.len() as u32).to_le_bytes()),
        field("`c` addresses of managers: length (1), `host:port`", texts(&contacts)),
        field("a whole map", &map),
        field("CRC-32C of all before", sum_of(&bytes)),
    ];
    document.layout("`member` / offset", &[("m", map.len())], &bytes, &fields);
}

fn life(document: &mut Document<'_>) {
    let starts = [0x0102_0304_0506_0708, 0x1112_1314_1516_1718, 0x2122_2324_2526_2728];
    let timestamp_bound = 0x3132_3334_3536_3738u64;
    let life =
        LifeRecord { timestamp_bound: Timestamp(timestamp_bound), starts: starts.map(Incarnation).to_vec() };
    let bytes = life.encode();
    let fields = [
        field("`zerohopl`", b"zerohopl"),
        field("version: 1", 1u32.to_le_bytes()),
        field("number of starts, `n`, at most 64", 3u32.to_le_bytes()),
        field("the timestamp bound", timestamp_bound.to_le_bytes()),
        field("the incarnations of the last starts, oldest first", starts.map(u64::to_le_bytes).concat()),
        field("CRC-32C of bytes 0 to 24 + 8 `n`", sum_of(&bytes)),
    ];
    document.layout("`life` / offset", &[("n", 3)], &bytes, &fields);
}

fn closed(document: &mut Document<'_>) {
    let incarnation = 0x0102_0304_0506_0708u64;
    let bytes = closed_bytes(Incarnation(incarnation));
    let fields = [
        field("`zerohopc`", b"zerohopc"),
        field("version: 1", 1u32.to_le_bytes()),
        field("the incarnation of the start that has ended so", incarnation.to_le_bytes()),
        field("CRC-32C of bytes 0 to 20", sum_of(&bytes)),
    ];
    document.layout("`closed` / offset", &[], &bytes, &fields);
}

fn cluster(document: &mut Document<'_>) {
    let addresses = ["127.0.0.1:7400", "[::1]:7400"];
    let bootstrap_addresses = addresses.map(|address| address.parse().unwrap()).to_vec();
    let cluster = LocalCluster { name: *b"sixteen bytes id", bootstrap_addresses, is_bootstrapped: false };
    let bytes = cluster.encode();
    let state = "0: the cluster is not bootstrapped yet; 1: all of its nodes have served together";
    let fields = [
        field("`zerohopu`", b"zerohopu"),
        field("version: 1", 1u32.to_le_bytes()),
        field(state, 0u32.to_le_bytes()),
        field("the name of the cluster", b"sixteen bytes id"),
        field("number of nodes, `n`, 1 to 64", 2u32.to_le_bytes()),
        field(
            "`n` addresses, where the managers of the nodes listened when the cluster was bootstrapped: length (1), `host:port`",
            texts(&addresses),
        ),
        field("CRC-32C of all before", sum_of(&bytes)),
    ];
    document.layout("The folder of a local cluster: `cluster` / offset", &[], &bytes, &fields);
    let bootstrapped = LocalCluster { is_bootstrapped: true, ..cluster }.encode();
    assert_eq!((&bytes[..12], &bootstrapped[12..16]), (&bootstrapped[..12], &[1, 0, 0, 0][..]));
}
