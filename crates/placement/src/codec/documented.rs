//! `docs/formats/cluster-map.md` states the bytes of maps and deltas.

#[path = "../../../engine/src/documented/tables.rs"]
mod tables;

use tables::{Document, Field, check, field, open};
use zerohop_wire::ids::{Incarnation, InstanceId, KeyspaceId, NodeId, PartitionEpoch, PartitionId};

use super::*;
use crate::keyspace::ChangeHistory;
use crate::layout::{CONFIG_BYTES_MIN, HEADER_BYTES, RING_BYTES};
use crate::map::{Address, Grant, Groups, Permissions, ReplicaGroup, Ring, Table, TokenEntry};
use crate::partitions::PartitionCount;
use crate::regions::{LiveRegion, RetiredRegion};
use crate::separators::Separators;

const DOCUMENT: &str = include_str!("../../../../docs/formats/cluster-map.md");
const A: u32 = 0x0102_0304;
const B: u32 = 0x1112_1314;
const C: u32 = 0x2122_2324;
const LONG: u64 = 0x3132_3334_3536_3738;
const EXPIRES_MS: u64 = 0x4142_4344_4546_4748;

#[test]
fn maps_are_as_documented() {
    check(DOCUMENT, |document| {
        header(document);
        node(document);
        token(document);
        configuration(document);
        group(document);
        placed(document);
        regions(document);
        changes(document);
        runs(document);
    });
}

fn written(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(&mut bytes);
    bytes
}

/// Region 4, and region 2, which was split.
fn regions_of() -> RegionTable {
    let live = vec![LiveRegion { number: 4, generation: 3, first: 0 }];
    let retired = vec![RetiredRegion { number: 2, first: 0, last: LONG }];
    RegionTable::new(live, retired, 5).unwrap()
}

fn region_bytes() -> Vec<u8> {
    [&4u32.to_le_bytes()[..], &[3], &[0; 8]].concat()
}

fn retired_bytes() -> Vec<u8> {
    [&2u32.to_le_bytes()[..], &[0; 8], &LONG.to_le_bytes()].concat()
}

fn regions(document: &mut Document<'_>) {
    let fields = [
        field("number", 4u32.to_le_bytes()),
        field("splits that led to it, modulo 256", [3]),
        field("first point", [0; 8]),
    ];
    document.layout("Regions / offset", &[], &region_bytes(), &fields);
    let fields = [
        field("number", 2u32.to_le_bytes()),
        field("first point", [0; 8]),
        field("last point", LONG.to_le_bytes()),
    ];
    document.layout("Regions / offset, second", &[], &retired_bytes(), &fields);
}

fn region_split_of() -> PendingSplit {
    PendingSplit::Region { region: PartitionId(B), separator: (*b"m").into(), share: 128 }
}

/// The bytes of a change behind its kind.
fn fields_of(change: &MapChange) -> Vec<u8> {
    written(|bytes| write_change(bytes, change))[1..].to_vec()
}

fn text(text: &str) -> Vec<u8> {
    written(|bytes| write_text(bytes, text))
}

fn header(document: &mut Document<'_>) {
    let change = MapChange::BeginDropKeyspace(KeyspaceId(A));
    let delta = MapDelta { from: MapEpoch(LONG), to: MapEpoch(LONG + 1), changes: vec![change.clone()] };
    let versions = format!(
        "version: {VERSION_HISTORY} if a configuration has a history; else {VERSION_PENDING_SPLITS} if there is a change of kind {BEGIN_SPLIT_KEYSPACE}, {BEGIN_SPLIT_REGION} or {CANCEL_SPLIT}; else {VERSION_REGIONS} if there is one of kind {SPLIT_REGION} or {HAS_REGIONS}; else {VERSION_SEPARATORS} if a configuration has separators; else {VERSION_ORDERED} if one has an ordered keyspace; else {VERSION_EXPIRY} if there is a change of kind \
         {PUT_EXPIRING}; else {VERSION_DROPPING} if there is one of kind \
         {BEGIN_DROP_KEYSPACE}; else {VERSION_TOKENS} if there is one of kind \
         {PUT_TOKEN} or {REMOVE_TOKEN}; else {VERSION_PLACED} if there is one of kind {CREATE_PLACED}; else {VERSION_HAS_SPLIT} if \
         there is one of kind {HAS_SPLIT}; else {VERSION_GROUP_STATES} if a group has a state other than 0 or a keyspace is split; \
         else {VERSION}"
    );
    let fields = [
        field("`ZHMD`", b"ZHMD"),
        field(&versions, VERSION_DROPPING.to_le_bytes()),
        field(
            &format!(
                "form: {} changes are listed; {} long runs of groups are one change",
                group_runs::FORM_LISTED,
                group_runs::FORM_RUNS
            ),
            [group_runs::FORM_LISTED],
        ),
        field("zero", [0]),
        field("epoch from which the changes lead; 0: a whole map", LONG.to_le_bytes()),
        field("epoch to which they lead", (LONG + 1).to_le_bytes()),
        field(&format!("number of changes, at most {CHANGES_MAX}"), 1u32.to_le_bytes()),
        open("the changes", written(|bytes| write_change(bytes, &change))),
    ];
    document.layout(&format!("Header, {HEADER_BYTES} bytes / offset"), &[], &delta.encode(), &fields);
}

fn node_of() -> Node {
    Node {
        id: NodeId(A),
        state: NodeState::Draining,
        incarnation: Incarnation(LONG),
        manager: Address::new("manager:1").unwrap(),
        first_instance: InstanceId(B),
        instances: vec![Address::new("instance:2").unwrap(), Address::new("instance:3").unwrap()],
    }
}

fn node(document: &mut Document<'_>) {
    let instances = [text("instance:2"), text("instance:3")].concat();
    let fields = [
        field("node id", A.to_le_bytes()),
        field("incarnation", LONG.to_le_bytes()),
        field("id of its first instance", B.to_le_bytes()),
        field("state: 0 up, 1 draining, 2 down", [1]),
        field("instances `n`, 1 to 255", [2]),
        field("address of the manager, a text", text("manager:1")),
        field("`n` texts: addresses of the instances", instances),
    ];
    document.layout("Node / offset", &[], &fields_of(&MapChange::PutNode(node_of())), &fields);
    let named = STATES.map(|(number, state)| (number, format!("{state:?}").to_lowercase()));
    assert_eq!(named, [(0, "up".to_owned()), (1, "draining".to_owned()), (2, "down".to_owned())]);
}

fn token_of() -> TokenEntry {
    let grant = |keyspace, bits| Grant {
        keyspace: KeyspaceId(keyspace),
        permissions: Permissions::from_bits(bits).unwrap(),
    };
    TokenEntry::new(LONG, "robot".parse().unwrap(), vec![grant(A, 6), grant(B, 1)]).unwrap()
}

fn token(document: &mut Document<'_>) {
    let fields = [
        field("number", LONG.to_le_bytes()),
        field("name, a text", text("robot")),
        field("grants `g`, 1 to 64", [2]),
        field(
            "`g` times: keyspace id (4), 0 for all that there are and will be; permissions (1): bit 0 read",
            grants_of(),
        ),
    ];
    let letters = [("s", "robot".len()), ("g", 2)];
    document.layout("Token / offset", &letters, &fields_of(&MapChange::PutToken(token_of())), &fields);
    let fields = [
        field("number", LONG.to_le_bytes()),
        field("when it expires, in ms since 1970", EXPIRES_MS.to_le_bytes()),
        field("0: it is good; 1: it has expired", [1]),
        field("name, as above", text("robot")),
        field("grants `g`, as above", [2]),
        field("as above", grants_of()),
    ];
    document.layout("Token / offset, second", &letters, &fields_of(&expired_token()), &fields);
}

/// A token that has expired.
fn expired_token() -> MapChange {
    MapChange::PutToken(token_of().until(EXPIRES_MS).expired())
}

fn grants_of() -> Vec<u8> {
    [&A.to_le_bytes()[..], &[6], &B.to_le_bytes(), &[1]].concat()
}

fn config_of() -> KeyspaceConfig {
    KeyspaceConfig {
        partitions: PartitionCount::new(1 << 9).unwrap(),
        hash: HashKind::Crc16,
        replicas: 8,
        min_in_sync: 7,
        durability: Durability::Interval { ms: A },
        chunk_bytes: 0x0001_0000,
        batch_delay_us: B,
        batch_bytes: C,
        ..KeyspaceConfig::new("papers".parse().unwrap(), LONG)
    }
}

fn configuration(document: &mut Document<'_>) {
    let fields = [
        field("name, a text: 1 to 63", text("papers")),
        field("partitions, as a power of two", [9]),
        field("bits 0 to 4: hash: 0 `xxh3`, 1 `fnv1a`, 2 `jenkins`, 3 `sdbm`, 4 `crc16`; bit 7", [4]),
        field("seed", LONG.to_le_bytes()),
        field("replicas, 1 to 8", [8]),
        field("min-in-sync, 1 to replicas", [7]),
        field(&format!("durability: {MEMORY} memory, {INTERVAL} interval, {SYNC} sync"), [INTERVAL]),
        field("interval in ms", A.to_le_bytes()),
        field("bytes of a chunk", 0x0001_0000u32.to_le_bytes()),
        field("longest delay of a batch in us", B.to_le_bytes()),
        field("bytes of a full batch", C.to_le_bytes()),
    ];
    let bytes = written(|bytes| write_config(bytes, &config_of()));
    document.layout("Configuration / offset", &[("s", "papers".len())], &bytes, &fields);
    let xxh3 = KeyspaceConfig { hash: HashKind::Xxh3, ..config_of() };
    let ordered = written(|bytes| write_config(bytes, &xxh3.clone().ordered()));
    assert_eq!(ordered[text("papers").len()..][..2], [0, 1 << 7], "partitions, and the bit of the order");
    let separators = Separators::new(["m", "n0"]).unwrap();
    let divided = written(|bytes| write_config(bytes, &xxh3.divided_at(separators)));
    assert_eq!(divided[text("papers").len()..][..2], [0, 1 << 7 | 1 << 6], "the bit of the separators too");
    let fields = [
        field("separators, `k`, 1 to 4095", 2u16.to_le_bytes()),
        open("`k` times: length of the separator less 1 (1), and its bytes", *b"\0m\x01n0"),
    ];
    document.layout("Separators / offset", &[], &divided[ordered.len()..], &fields);
    let history = ChangeHistory { ms: A, bytes: B };
    let watched = written(|bytes| write_config(bytes, &KeyspaceConfig { history, ..config_of() }));
    assert_eq!(watched[text("papers").len() + 1], 4 | 1 << 5, "the bit of the history");
    let fields = [
        field("ms for which changes are kept", A.to_le_bytes()),
        field("bytes of the changes that a copy of a partition keeps", B.to_le_bytes()),
    ];
    document.layout("History / offset", &[], &watched[bytes.len()..], &fields);
    let names = HASHES.map(|(number, hash)| format!("{number} {hash:?}").to_lowercase());
    assert_eq!(names, ["0 xxh3", "1 fnv1a", "2 jenkins", "3 sdbm", "4 crc16"]);
}

fn group_of(epoch: u64) -> ReplicaGroup {
    ReplicaGroup {
        epoch: PartitionEpoch(epoch),
        primary: InstanceId(A),
        in_sync: vec![InstanceId(B)],
        followers: vec![InstanceId(C), InstanceId(C + 1)],
        state: GroupState::Recovering,
    }
}

fn group(document: &mut Document<'_>) {
    let fields = [
        field("epoch of the partition", LONG.to_le_bytes()),
        field("in-sync replicas beside the primary, `i`", [1]),
        field(&format!("bits 0 to {}: followers, `f`", GROUP_STATE_SHIFT - 1), [2 | 2 << GROUP_STATE_SHIFT]),
        field("instance id of the primary", A.to_le_bytes()),
        field("instance ids of the in-sync replicas", B.to_le_bytes()),
        field("instance ids of the followers", [C, C + 1].map(u32::to_le_bytes).concat()),
    ];
    let bytes = written(|bytes| write_group(bytes, group_of(LONG).as_group()));
    document.layout("Group / offset", &[("i", 1), ("f", 2)], &bytes, &fields);
    assert_eq!(
        GROUP_STATES.map(|(number, _)| number),
        [0, 1, 2],
        "the document has settled, admitted, recovering"
    );
}

/// Groups by a ring of which one is an exception, and the bytes of that group.
fn create_placed() -> (MapChange, Vec<u8>) {
    let ring = Ring {
        first: InstanceId(A),
        count: 0x0506_0708,
        step: 0x0501_0203,
        first_position: 0x0401_0203,
        splits: 5,
    };
    let members = Members::Ring(ring, [].into());
    let placed = GroupShape {
        partitions: 1 << 9,
        epoch: PartitionEpoch(LONG),
        in_sync: 3,
        followers: 4,
        members,
        changed: vec![0x0000_0102],
    };
    let exception = group_of(LONG + 1);
    let bytes = written(|bytes| write_group(bytes, exception.as_group()));
    let groups = Groups::of_table(Table::placed(placed, &[exception]));
    (MapChange::CreateKeyspace { id: KeyspaceId(A), config: config_of(), groups }, bytes)
}

fn placed(document: &mut Document<'_>) {
    let (create, exception) = create_placed();
    let bytes = fields_of(&create);
    let bytes = &bytes[4 + CONFIG_BYTES_MIN + "papers".len()..];
    let (from, to) = (8 + 1 + 1 + 1, 8 + 1 + 1 + 1 + RING_BYTES);
    let fields = [
        field("epoch", LONG.to_le_bytes()),
        field("in-sync replicas beside the primary, `i`", [3]),
        field("followers, `f`", [4]),
        field(&format!("how members are encoded: {ROWS} in rows, {RING} by a ring"), [RING]),
        open("members", &bytes[from..to]),
        open("exceptions, `x`", 1u32.to_le_bytes()),
        open(
            "`x` times: partition (4), ascending; group",
            [&0x0102u32.to_le_bytes()[..], &exception].concat(),
        ),
    ];
    document.layout("Placed groups / offset", &[], bytes, &fields);
    let fields = [
        field("instance id of the ring's first, `a`", A.to_le_bytes()),
        field("instances `n`", 0x0506_0708u32.to_le_bytes()),
        field("step `s`", 0x0501_0203u32.to_le_bytes()),
        field("turn `t`", 0x0401_0203u32.to_le_bytes()),
        field("splits `d` since the groups were placed", [5]),
    ];
    document.layout("Placed groups / offset, second", &[], &bytes[from..to], &fields);
}

fn changes(document: &mut Document<'_>) {
    const TITLE: &str = "Changes / kind";
    let keyspace = KeyspaceId(A);
    let config = written(|bytes| write_config(bytes, &config_of()));
    let group = written(|bytes| write_group(bytes, group_of(LONG).as_group()));
    let (create_placed, _) = create_placed();
    let placed = fields_of(&create_placed)[4 + config.len()..].to_vec();
    let id = || field("keyspace id", A.to_le_bytes());
    let create =
        MapChange::CreateKeyspace { id: keyspace, config: config_of(), groups: vec![group_of(LONG)].into() };
    let set = MapChange::SetGroup { keyspace, partition: PartitionId(B), group: group_of(LONG) };
    let node = open("node", fields_of(&MapChange::PutNode(node_of())));
    let token = open("token", fields_of(&MapChange::PutToken(token_of())));
    let config = || open("configuration", &config);
    let all: Vec<(&str, MapChange, Vec<Field>)> = vec![
        ("put node", MapChange::PutNode(node_of()), vec![node]),
        ("remove node", MapChange::RemoveNode(NodeId(B)), vec![field("node id", B.to_le_bytes())]),
        ("create keyspace", create, vec![id(), config(), open("one group for every partition", &group)]),
        (
            "alter keyspace",
            MapChange::AlterKeyspace { id: keyspace, config: config_of() },
            vec![id(), config()],
        ),
        ("drop keyspace", MapChange::DropKeyspace(keyspace), vec![id()]),
        ("set group", set, vec![id(), field("partition", B.to_le_bytes()), open("group", &group)]),
        ("split keyspace (version 2)", MapChange::SplitKeyspace(keyspace), vec![id()]),
        (
            "has split (version 3)",
            MapChange::HasSplit { keyspace, splits: 7 },
            vec![id(), field("splits", [7])],
        ),
        (
            "create keyspace, placed (version 4)",
            create_placed,
            vec![id(), config(), open("placed groups", placed)],
        ),
        ("put token (version 5)", MapChange::PutToken(token_of()), vec![token]),
        (
            "remove token (version 5)",
            MapChange::RemoveToken(LONG),
            vec![field("token's number", LONG.to_le_bytes())],
        ),
        ("close keyspace (version 6)", MapChange::BeginDropKeyspace(keyspace), vec![id()]),
        (
            "put token that expires (version 7)",
            expired_token(),
            vec![open("token that expires", fields_of(&expired_token()))],
        ),
        (
            "split region (version 10)",
            region_split_of().into_change(keyspace),
            vec![
                id(),
                field("region", B.to_le_bytes()),
                field("share", [128]),
                field("length of the separator less 1, `s`", [0]),
                open("separator", b"m"),
            ],
        ),
        (
            "has regions (version 10)",
            MapChange::HasRegions { keyspace, table: Box::new(regions_of()) },
            vec![
                id(),
                field("next number", 5u32.to_le_bytes()),
                field("regions, `n`", 1u32.to_le_bytes()),
                field("retired regions, `r`", 1u32.to_le_bytes()),
                open("`n` regions", region_bytes()),
                open("`r` retired regions", retired_bytes()),
            ],
        ),
        (
            "begin split of keyspace (version 11)",
            MapChange::BeginSplit { keyspace, split: PendingSplit::Keyspace },
            vec![id()],
        ),
        (
            "begin split of region (version 11)",
            MapChange::BeginSplit { keyspace, split: region_split_of() },
            vec![
                id(),
                field("region", B.to_le_bytes()),
                field("share", [128]),
                field("length of the separator less 1, `s`", [0]),
                open("separator", b"m"),
            ],
        ),
        ("cancel split (version 11)", MapChange::CancelSplit(keyspace), vec![id()]),
    ];
    let mut known = Vec::new();
    for (name, change, fields) in &all {
        let bytes = written(|bytes| write_change(bytes, change));
        document.listed(TITLE, u64::from(bytes[0]), &bytes[1..], fields);
        known.push((u64::from(bytes[0]), *name));
    }
    document.numbers(TITLE, &known);
    let header = MapDelta { from: MapEpoch(1), to: MapEpoch(2), changes: Vec::new() }.encode();
    let is_known = |kind: &u8| {
        let mut bytes = [&header[..], &[*kind; 5]].concat();
        bytes[24] = 1;
        !matches!(MapDelta::decode(&bytes), Err(DecodeError::Unknown { what: "kind of change", .. }))
    };
    let read: Vec<u64> = (0..=u8::MAX).filter(is_known).map(u64::from).collect();
    assert_eq!(
        read,
        known.iter().map(|(kind, _)| *kind).collect::<Vec<_>>(),
        "each kind that is read is documented"
    );
}

fn runs(document: &mut Document<'_>) {
    let group = |partition: u32| MapChange::SetGroup {
        keyspace: KeyspaceId(A),
        partition: PartitionId(B + 2 * partition),
        group: ReplicaGroup { epoch: PartitionEpoch(200 - u64::from(partition)), ..group_of(1) },
    };
    let count = group_runs::RUN_GROUPS_MIN as u32;
    let bytes =
        MapDelta { from: MapEpoch(1), to: MapEpoch(2), changes: (0..count).map(group).collect() }.encode();
    let roles = written(|bytes| write_roles(bytes, group_of(1).as_group()));
    let first = [&[0xa8, 0xcc, 0x90, 0x91, 0x02, 0x90, 0x03, 0][..], &roles].concat();
    let rest = [2, 1, 0].repeat(count as usize - 1);
    let fields = [
        field(&format!("{}: the kind", group_runs::SET_GROUPS), [group_runs::SET_GROUPS]),
        field("keyspace id", A.to_le_bytes()),
        field(&format!("groups, `n`, at least {}", group_runs::RUN_GROUPS_MIN), count.to_le_bytes()),
        open("`n` groups", [first, rest].concat()),
    ];
    document.layout("Runs of groups / offset", &[], &bytes[HEADER_BYTES..], &fields);
}
