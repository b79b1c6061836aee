//! Encoded maps survive a round trip, and invalid bytes are refused with a message.

use proptest::prelude::*;
use zerohop_wire::AuthFault;
use zerohop_wire::ids::{Incarnation, InstanceId, KeyspaceId, MapEpoch, NodeId, PartitionEpoch, PartitionId};

use super::*;
use crate::keyspace::{ChangeHistory, ConfigError};
use crate::layout::{CONFIG_BYTES_MIN, HEADER_BYTES, TOKEN_BYTES_FIXED};
use crate::map::testing::{history, node, steps};
use crate::map::{Address, Grant, MapError, Permissions, ReplicaGroup, TokenEntry};
use crate::partitions::PartitionCount;
use crate::separators::{SeparatorError, Separators};

/// One change of each kind, with fields that all have different values.
fn sample() -> MapDelta {
    let config = KeyspaceConfig {
        partitions: PartitionCount::new(2).unwrap(),
        hash: HashKind::Crc16,
        replicas: 4,
        min_in_sync: 3,
        durability: Durability::Interval { ms: 0x0102 },
        chunk_bytes: 0x0001_0000,
        batch_delay_us: 0x0304,
        batch_bytes: 0x0506,
        ..KeyspaceConfig::new("ks".parse().unwrap(), 0x1122_3344_5566_7788)
    };
    let group = |epoch, primary| ReplicaGroup::of_one(PartitionEpoch(epoch), InstanceId(primary));
    let node = Node {
        id: NodeId(0x0a0b_0c0d),
        state: NodeState::Draining,
        incarnation: Incarnation(0x1020_3040_5060_7080),
        manager: Address::new("m:1").unwrap(),
        first_instance: InstanceId(7),
        instances: vec![Address::new("i:2").unwrap(), Address::new("j:3").unwrap()],
    };
    MapDelta {
        from: MapEpoch(5),
        to: MapEpoch(9),
        changes: vec![
            MapChange::PutNode(node),
            MapChange::RemoveNode(NodeId(6)),
            MapChange::CreateKeyspace {
                id: KeyspaceId(2),
                config: config.clone(),
                groups: vec![group(1, 7), group(1, 8)].into(),
            },
            MapChange::AlterKeyspace {
                id: KeyspaceId(3),
                config: KeyspaceConfig { durability: Durability::Sync, ..config },
            },
            MapChange::DropKeyspace(KeyspaceId(4)),
            MapChange::SetGroup {
                keyspace: KeyspaceId(2),
                partition: PartitionId(1),
                group: ReplicaGroup {
                    in_sync: vec![InstanceId(8)],
                    followers: vec![InstanceId(9), InstanceId(10)],
                    ..group(0x0203, 7)
                },
            },
        ],
    }
}

/// Version 1, byte by byte: later programs must be able to read these bytes.
const GOLDEN: &str = "
    5a484d44 0100 0000 0500000000000000 0900000000000000 06000000
    01 0d0c0b0a 8070605040302010 07000000 01 02 03 6d3a31 03 693a32 03 6a3a33
    02 06000000
    03 02000000
       02 6b73 01 04 8877665544332211 04 03 01 02010000 00000100 04030000 06050000
       0100000000000000 00 00 07000000
       0100000000000000 00 00 08000000
    04 03000000
       02 6b73 01 04 8877665544332211 04 03 02 00000000 00000100 04030000 06050000
    05 04000000
    06 02000000 01000000 0302000000000000 01 02 07000000 08000000 09000000 0a000000";

fn golden() -> Vec<u8> {
    let digits: Vec<u32> = GOLDEN.chars().filter_map(|c| c.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect()
}

#[test]
fn golden_bytes_are_written_and_read() {
    assert_eq!(sample().encode(), golden());
    assert_eq!(MapDelta::decode(&golden()).unwrap(), sample());
}

/// Contents that need version 2.
#[test]
fn states_of_groups_and_splits_are_version_2() {
    const GOLDEN_2: &str = "
        5a484d44 0200 0000 0500000000000000 0900000000000000 03000000
        06 02000000 01000000 0302000000000000 01 41 07000000 08000000 09000000
        06 02000000 02000000 0100000000000000 00 80 07000000
        07 02000000";
    let set = |partition, group| MapChange::SetGroup {
        keyspace: KeyspaceId(2),
        partition: PartitionId(partition),
        group,
    };
    let moving = ReplicaGroup {
        in_sync: vec![InstanceId(8)],
        followers: vec![InstanceId(9)],
        state: GroupState::Admitting,
        ..ReplicaGroup::of_one(PartitionEpoch(0x0203), InstanceId(7))
    };
    let lost = ReplicaGroup {
        state: GroupState::Recovering,
        ..ReplicaGroup::of_one(PartitionEpoch(1), InstanceId(7))
    };
    let changes = vec![set(1, moving), set(2, lost), MapChange::SplitKeyspace(KeyspaceId(2))];
    let delta = MapDelta { from: MapEpoch(5), to: MapEpoch(9), changes };
    let digits: Vec<u32> = GOLDEN_2.chars().filter_map(|c| c.to_digit(16)).collect();
    let bytes: Vec<u8> = digits.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect();
    assert_eq!(delta.encode(), bytes);
    assert_eq!(MapDelta::decode(&bytes).unwrap(), delta);
    let mut bytes = bytes;
    bytes[4] = 1;
    assert_eq!(MapDelta::decode(&bytes), Err(DecodeError::VersionNeeded { found: 1 }));
}

#[test]
fn split_count_needs_map_version_3() {
    let split = MapChange::HasSplit { keyspace: KeyspaceId(0x0102), splits: 3 };
    let delta = MapDelta { from: MapEpoch(0), to: MapEpoch(9), changes: vec![split] };
    let mut bytes = delta.encode();
    assert_eq!((bytes[4], &bytes[HEADER_BYTES..]), (3, &[8, 2, 1, 0, 0, 3][..]));
    assert_eq!(MapDelta::decode(&bytes).unwrap(), delta);
    bytes[4] = 2;
    assert_eq!(MapDelta::decode(&bytes), Err(DecodeError::VersionNeeded { found: 2 }));
}

#[test]
fn draining_keyspaces_need_format_version_6() {
    let closed = MapChange::BeginDropKeyspace(KeyspaceId(0x0102));
    let delta = MapDelta { from: MapEpoch(5), to: MapEpoch(9), changes: vec![closed] };
    let mut bytes = delta.encode();
    assert_eq!((bytes[4], &bytes[HEADER_BYTES..]), (6, &[12, 2, 1, 0, 0][..]));
    assert_eq!(MapDelta::decode(&bytes).unwrap(), delta);
    bytes[4] = 5;
    assert_eq!(MapDelta::decode(&bytes), Err(DecodeError::VersionNeeded { found: 5 }));
}

#[test]
fn pending_splits_need_format_version_11() {
    let keyspace = KeyspaceId(0x0102);
    let region = PendingSplit::Region { region: PartitionId(3), separator: (*b"mn").into(), share: 128 };
    let changes = [
        (MapChange::BeginSplit { keyspace, split: PendingSplit::Keyspace }, &[16, 2, 1, 0, 0][..]),
        (MapChange::BeginSplit { keyspace, split: region }, b"\x11\x02\x01\0\0\x03\0\0\0\x80\x01mn"),
        (MapChange::CancelSplit(keyspace), &[18, 2, 1, 0, 0]),
    ];
    for (change, expected) in changes {
        let delta = MapDelta { from: MapEpoch(5), to: MapEpoch(9), changes: vec![change] };
        let mut bytes = delta.encode();
        assert_eq!((bytes[4], &bytes[HEADER_BYTES..]), (11, expected));
        assert_eq!(MapDelta::decode(&bytes).unwrap(), delta);
        bytes[4] = 10;
        assert_eq!(MapDelta::decode(&bytes), Err(DecodeError::VersionNeeded { found: 10 }));
    }
}

#[test]
fn ordered_keyspaces_need_format_version_8() {
    let config = KeyspaceConfig::new("papers".parse().unwrap(), 7).ordered();
    let alter = MapChange::AlterKeyspace { id: KeyspaceId(0x0102), config };
    let delta = MapDelta { from: MapEpoch(5), to: MapEpoch(9), changes: vec![alter] };
    let mut bytes = delta.encode();
    let partitions = HEADER_BYTES + 1 + 4 + 1 + "papers".len();
    assert_eq!((bytes[4], bytes[partitions], bytes[partitions + 1]), (8, 0, 0x80));
    assert_eq!(MapDelta::decode(&bytes).unwrap(), delta);
    bytes[4] = 7;
    assert_eq!(MapDelta::decode(&bytes), Err(DecodeError::VersionNeeded { found: 7 }));
    bytes[4] = 8;
    for (hash, error) in [
        (0x81, DecodeError::Config(ConfigError::OrderedHash { requested: HashKind::Fnv1a })),
        (0x85, DecodeError::Unknown { what: "hash function", number: 5 }),
    ] {
        bytes[partitions + 1] = hash;
        assert_eq!(MapDelta::decode(&bytes), Err(error));
    }
    (bytes[partitions], bytes[partitions + 1]) = (1, 0x80);
    let error = DecodeError::Config(ConfigError::OrderedPartitions { requested: 2, regions: 1 });
    assert_eq!(MapDelta::decode(&bytes), Err(error));
}

/// The history stands before the separators.
#[test]
fn histories_need_format_version_12() {
    let separators = Separators::new([b"b"]).unwrap();
    let config = KeyspaceConfig::new("papers".parse().unwrap(), 7).divided_at(separators);
    let plain = MapChange::AlterKeyspace { id: KeyspaceId(0x0102), config: config.clone() };
    let history = ChangeHistory { ms: 3_600_000, bytes: 1 << 20 };
    let config = KeyspaceConfig { history, ..config };
    let alter = MapChange::AlterKeyspace { id: KeyspaceId(0x0102), config };
    let encoded = |change| MapDelta { from: MapEpoch(5), to: MapEpoch(9), changes: vec![change] }.encode();
    let (plain, mut bytes) = (encoded(plain), encoded(alter.clone()));
    let at = plain.len() - b"\x01\0\0b".len();
    let hash = HEADER_BYTES + 1 + 4 + 1 + "papers".len() + 1;
    assert_eq!((plain[4], plain[hash], bytes[4], bytes[hash]), (9, 0xc0, 12, 0xe0));
    assert_eq!(bytes[at..at + 8], [0x80, 0xee, 0x36, 0, 0, 0, 0x10, 0]);
    assert_eq!(bytes[at + 8..], plain[at..]);
    assert_eq!(MapDelta::decode(&bytes).unwrap().changes, [alter]);
    bytes[4] = 11;
    assert_eq!(MapDelta::decode(&bytes), Err(DecodeError::VersionNeeded { found: 11 }));
    bytes[4] = 12;
    bytes[at + 4..at + 8].fill(0);
    let requested = ChangeHistory { ms: 3_600_000, bytes: 0 };
    let error = DecodeError::Config(ConfigError::History { requested });
    assert_eq!(MapDelta::decode(&bytes), Err(error));
    bytes[at..at + 8].fill(0);
    assert_eq!(MapDelta::decode(&bytes), Err(DecodeError::Reserved));
}

/// A keyspace of three regions, and its alteration, which leaves the separators out.
#[test]
fn separators_need_format_version_9() {
    const GOLDEN_9: &str = "
        5a484d44 0900 0000 0500000000000000 0900000000000000 02000000
        03 02000000
           02 6b73 00 c0 8877665544332211 01 01 02 00000000 00001000 00000000 00000100
           0200 00 62 02 6d00ff
           0100000000000000 00 00 07000000
           0100000000000000 00 00 08000000
           0100000000000000 00 00 07000000
        04 02000000
           02 6b73 00 80 8877665544332211 01 01 00 00000000 00001000 00000000 00000100";
    let separators = Separators::new([&b"b"[..], b"m\0\xff"]).unwrap();
    let config = KeyspaceConfig::new("ks".parse().unwrap(), 0x1122_3344_5566_7788).fitted_to(1);
    let config = KeyspaceConfig { durability: Durability::Sync, ..config };
    let group = |primary| ReplicaGroup::of_one(PartitionEpoch(1), InstanceId(primary));
    let create = MapChange::CreateKeyspace {
        id: KeyspaceId(2),
        config: config.clone().divided_at(separators.clone()),
        groups: vec![group(7), group(8), group(7)].into(),
    };
    let altered = KeyspaceConfig { durability: Durability::Memory, ..config }.ordered();
    let alter = MapChange::AlterKeyspace { id: KeyspaceId(2), config: altered };
    let delta = MapDelta { from: MapEpoch(5), to: MapEpoch(9), changes: vec![create, alter] };
    let digits: Vec<u32> = GOLDEN_9.chars().filter_map(|c| c.to_digit(16)).collect();
    let bytes: Vec<u8> = digits.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect();
    assert_eq!(delta.encode(), bytes);
    assert_eq!(MapDelta::decode(&bytes).unwrap(), delta);
    let with = |at: usize, byte: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = byte;
        MapDelta::decode(&bytes).unwrap_err()
    };
    let hash_at = HEADER_BYTES + 1 + 4 + 1 + "ks".len() + 1;
    let count_at = hash_at + CONFIG_BYTES_MIN - 2;
    let config_error = |error: SeparatorError| DecodeError::Config(error.into());
    assert_eq!(with(4, 8), DecodeError::VersionNeeded { found: 8 });
    assert_eq!(with(hash_at, 0x40), DecodeError::Unknown { what: "hash function", number: 0x40 });
    assert_eq!(with(count_at, 0), DecodeError::Reserved);
    let too_many = DecodeError::TooMany { what: "separators", count: 0x1002, limit: 4095 };
    assert_eq!(with(count_at + 1, 0x10), too_many);
    let (before, separator) = ((*b"n").into(), (*b"m\0\xff").into());
    assert_eq!(with(count_at + 3, b'n'), config_error(SeparatorError::OutOfOrder { before, separator }));
    assert!(matches!(with(count_at + 4, 255), DecodeError::Truncated { .. }));
    // The map keeps the separators when the keyspace is altered.
    let changes = vec![MapChange::PutNode(node(1, 7, 2))];
    let map = ClusterMap::default().apply(&MapDelta { from: MapEpoch(0), to: MapEpoch(5), changes }).unwrap();
    let map = map.apply(&delta).unwrap();
    let config = map.keyspace(KeyspaceId(2)).unwrap().config();
    assert_eq!((&config.separators, config.durability), (&separators, Durability::Memory));
    assert_eq!(map.encode().len(), map.encoded_bytes());
    assert_eq!(ClusterMap::decode(&map.encode()).unwrap(), map);
    let other = config.clone().divided_at(Separators::new(["c"]).unwrap());
    let alter = MapChange::AlterKeyspace { id: KeyspaceId(2), config: other };
    let refused = map.apply(&MapDelta { from: MapEpoch(9), to: MapEpoch(10), changes: vec![alter] });
    assert!(matches!(refused, Err(MapError::Config { error: ConfigError::Fixed { .. }, .. })), "{refused:?}");
    let split = MapChange::SplitKeyspace(KeyspaceId(2));
    let refused = map.apply(&MapDelta { from: MapEpoch(9), to: MapEpoch(10), changes: vec![split] });
    let error = ConfigError::OrderedSplit;
    assert_eq!(refused, Err(MapError::Config { keyspace: KeyspaceId(2), error }));
}

#[test]
fn tokens_need_format_version_5() {
    const GOLDEN_5: &str = "
        5a484d44 0500 0000 0500000000000000 0900000000000000 02000000
        0a 8877665544332211 05 726f626f74 02 00000000 01 03000000 06
        0b 0900000000000000";
    let grant = |keyspace, bits| Grant {
        keyspace: KeyspaceId(keyspace),
        permissions: Permissions::from_bits(bits).unwrap(),
    };
    let name: crate::KeyspaceName = "robot".parse().unwrap();
    let put = TokenEntry::new(0x1122_3344_5566_7788, name.clone(), vec![grant(3, 6), grant(0, 1)]).unwrap();
    let changes = vec![MapChange::PutToken(put), MapChange::RemoveToken(9)];
    let delta = MapDelta { from: MapEpoch(5), to: MapEpoch(9), changes };
    let digits: Vec<u32> = GOLDEN_5.chars().filter_map(|c| c.to_digit(16)).collect();
    let bytes: Vec<u8> = digits.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect();
    assert_eq!(delta.encode(), bytes);
    assert_eq!(MapDelta::decode(&bytes).unwrap(), delta);
    let with = |at: usize, byte: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = byte;
        MapDelta::decode(&bytes).unwrap_err()
    };
    let grants_at = HEADER_BYTES + TOKEN_BYTES_FIXED + 5;
    assert_eq!(with(4, 4), DecodeError::VersionNeeded { found: 4 });
    assert_eq!(with(grants_at, 3), DecodeError::Token, "one keyspace twice");
    assert_eq!(with(grants_at, 4), DecodeError::Token, "out of order");
    assert!(matches!(with(grants_at + 4, 0), DecodeError::Unknown { number: 0, .. }));
    assert!(matches!(with(grants_at + 4, 8), DecodeError::Unknown { number: 8, .. }));
    assert!(matches!(with(grants_at - 1, 200), DecodeError::Truncated { .. }));
    // Each name belongs to only one token.
    let put = |id| MapChange::PutToken(TokenEntry::new(id, name.clone(), vec![grant(0, 1)]).unwrap());
    let delta = |changes| MapDelta { from: MapEpoch(0), to: MapEpoch(1), changes };
    let joined = ClusterMap::default().apply(&delta(vec![put(1), put(2)]));
    assert_eq!(joined, Err(MapError::TokenNameInUse { name: name.clone() }));
    let map = ClusterMap::default().apply(&delta(vec![put(1), put(1)])).unwrap();
    assert_eq!((map.tokens().len(), map.token(1).is_ok()), (1, true));
    let gone = ClusterMap::default().apply(&delta(vec![MapChange::RemoveToken(1)]));
    assert_eq!(gone, Err(MapError::UnknownToken { token: 1 }));
}

#[test]
fn expiring_tokens_need_format_version_7() {
    const GOLDEN_7: &str = "
        5a484d44 0700 0000 0500000000000000 0900000000000000 02000000
        0d 8877665544332211 0807060504030201 00 05 726f626f74 01 00000000 01
        0d 8877665544332211 0807060504030201 01 05 726f626f74 01 00000000 01";
    let grant = Grant { keyspace: KeyspaceId(0), permissions: Permissions::from_bits(1).unwrap() };
    let token = TokenEntry::new(0x1122_3344_5566_7788, "robot".parse().unwrap(), vec![grant]).unwrap();
    let token = token.until(0x0102_0304_0506_0708);
    let changes = vec![MapChange::PutToken(token.clone()), MapChange::PutToken(token.clone().expired())];
    let delta = MapDelta { from: MapEpoch(5), to: MapEpoch(9), changes };
    let digits: Vec<u32> = GOLDEN_7.chars().filter_map(|c| c.to_digit(16)).collect();
    let bytes: Vec<u8> = digits.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect();
    assert_eq!(delta.encode(), bytes);
    assert_eq!(MapDelta::decode(&bytes).unwrap(), delta);
    let with = |at: usize, byte: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = byte;
        MapDelta::decode(&bytes).unwrap_err()
    };
    assert_eq!(with(4, 5), DecodeError::VersionNeeded { found: 5 });
    let passed_at = HEADER_BYTES + 1 + 8 + 8;
    assert_eq!(with(passed_at, 2), DecodeError::Unknown { what: "state of a token", number: 2 });
    // The same holds for complete maps, and an expired token differs from an unknown one.
    let put =
        |token| MapDelta { from: MapEpoch(0), to: MapEpoch(1), changes: vec![MapChange::PutToken(token)] };
    let map = ClusterMap::default().apply(&put(token.clone())).unwrap();
    assert!(map.token(token.id).is_ok());
    let map = ClusterMap::default().apply(&put(token.clone().expired())).unwrap();
    assert_eq!(map.encode().len(), map.encoded_bytes());
    assert_eq!(ClusterMap::decode(&map.encode()).unwrap(), map);
    assert_eq!(map.token(token.id), Err(AuthFault::TokenExpired));
    assert_eq!(map.token(1), Err(AuthFault::Token));
}

#[test]
fn numbers_cover_every_variant_and_never_collide() {
    for kind in HashKind::ALL {
        assert_eq!(HASHES.iter().filter(|(_, known)| *known == kind).count(), 1);
    }
    for state in NodeState::ALL {
        assert_eq!(STATES.iter().filter(|(_, known)| *known == state).count(), 1);
    }
    for (at, (number, _)) in HASHES.iter().enumerate() {
        assert_eq!(usize::from(*number), at);
    }
}

#[test]
fn bytes_cut_anywhere_are_refused() {
    let whole = golden();
    for length in 0..whole.len() {
        let error = MapDelta::decode(&whole[..length]).unwrap_err();
        assert!(matches!(error, DecodeError::Truncated { .. }), "{length}: {error}");
    }
    let longer = [&whole[..], &[0]].concat();
    assert_eq!(MapDelta::decode(&longer), Err(DecodeError::Trailing { bytes: 1 }));
}

/// The sample with one byte changed.
fn with_byte(at: usize, value: u8) -> Result<MapDelta, DecodeError> {
    let mut bytes = golden();
    bytes[at] = value;
    MapDelta::decode(&bytes)
}

#[test]
fn each_decode_fault_has_its_own_error() {
    assert_eq!(with_byte(0, b'X'), Err(DecodeError::Magic));
    assert_eq!(with_byte(4, 13), Err(DecodeError::Version { found: 13 }));
    assert_eq!(with_byte(4, 2), Err(DecodeError::VersionNeeded { found: 2 }));
    assert_eq!(with_byte(6, 2), Err(DecodeError::Unknown { what: "form of a delta", number: 2 }));
    assert_eq!(with_byte(7, 1), Err(DecodeError::Reserved));
    assert_eq!(with_byte(28, 19), Err(DecodeError::Unknown { what: "kind of change", number: 19 }));
    assert_eq!(with_byte(45, 3), Err(DecodeError::Unknown { what: "state of a node", number: 3 }));
    assert_eq!(with_byte(48, 0xff), Err(DecodeError::Text { at: 48 }));
    assert_eq!(with_byte(49, b';'), Err(DecodeError::Address(crate::map::AddressError::Port)));
    assert_eq!(with_byte(70, b'/').unwrap_err().to_string().matches("'/'").count(), 1);
    assert_eq!(with_byte(73, 5), Err(DecodeError::Unknown { what: "hash function", number: 5 }));
    for bits in [17, 31, 32, 255] {
        assert!(matches!(with_byte(72, bits), Err(DecodeError::Partitions(_))), "{bits}");
    }
    assert!(matches!(with_byte(82, 0), Err(DecodeError::Config(_))));
    assert_eq!(with_byte(84, 3), Err(DecodeError::Unknown { what: "durability", number: 3 }));
    // The interval is valid only for `interval`.
    assert_eq!(with_byte(84, 0), Err(DecodeError::Reserved));
    let fault = crate::map::GroupFault::TooMany { members: 16 + 1 };
    assert_eq!(with_byte(109, 16), Err(DecodeError::Group { partition: PartitionId(0), fault }));
}

/// A keyspace of 512 partitions on a ring of 3 with 5 exceptions, changed manually.
fn placed() -> Vec<u8> {
    let config = KeyspaceConfig {
        partitions: PartitionCount::new(512).unwrap(),
        ..KeyspaceConfig::new("p".parse().unwrap(), 1)
    };
    let ring = crate::map::Ring { first: InstanceId(10), count: 5, step: 2, first_position: 3, splits: 1 };
    let groups = crate::map::Groups::in_ring(ring, 512, 1, 1).unwrap();
    let nodes = [node(1, 10, 2), node(2, 12, 3)].map(MapChange::PutNode);
    let create = MapChange::CreateKeyspace { id: KeyspaceId(7), config, groups };
    let changes = nodes.into_iter().chain([create]).collect();
    let map = ClusterMap::default().apply(&MapDelta { from: MapEpoch(0), to: MapEpoch(1), changes }).unwrap();
    let set = |partition| MapChange::SetGroup {
        keyspace: KeyspaceId(7),
        partition: PartitionId(partition),
        group: ReplicaGroup::of_one(PartitionEpoch(5), InstanceId(12)),
    };
    let changes = vec![set(511), set(4)];
    let map = map.apply(&MapDelta { from: MapEpoch(1), to: MapEpoch(2), changes }).unwrap();
    let keyspace = map.keyspace(KeyspaceId(7)).unwrap();
    let ids = |partition| -> Vec<u32> {
        keyspace.group(PartitionId(partition)).unwrap().members().map(|member| member.get()).collect()
    };
    assert_eq!((ids(0), ids(1), ids(4)), (vec![11, 13, 10], vec![11, 13, 10], vec![12]));
    assert_eq!((ids(300), ids(510)), (vec![10, 12, 14], vec![14, 11, 13]));
    let bytes = map.encode();
    assert_eq!(bytes.len(), map.encoded_bytes());
    assert_eq!(ClusterMap::decode(&bytes).unwrap(), map);
    bytes
}

#[test]
fn placed_groups_encode_in_few_bytes_for_any_count() {
    let bytes = placed();
    assert_eq!(bytes[4], 4);
    let (ring, exceptions) = (1 + 4 * 4 + 1, 4 + 2 * (4 + 14));
    let tail = &bytes[bytes.len() - (8 + 2 + ring + exceptions)..];
    let golden = [
        &[1, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 10, 0, 0, 0, 5, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 1, 2, 0, 0, 0][..],
        &[4, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 12, 0, 0, 0],
        &[255, 1, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 12, 0, 0, 0],
    ];
    assert_eq!(tail, golden.concat());
}

#[test]
fn invalid_placed_groups_are_refused() {
    let bytes = placed();
    let at = bytes.len() - 68;
    let with = |place: usize, value: u8| {
        let mut bytes = bytes.clone();
        bytes[at + place] = value;
        MapDelta::decode(&bytes)
    };
    let refused = |place, value| matches!(with(place, value), Err(DecodeError::Placed { .. }));
    assert!(refused(15, 2) && refused(15, 0), "groups of three need a ring of three");
    assert!(refused(19, 5) && refused(19, 0), "a step has no divisor in common with the instances");
    assert!(refused(23, 5), "partition 0 stands within the ring");
    assert!(refused(27, 10), "512 partitions have 9 bits");
    assert!(refused(0, 6), "exceptions are no older than the rest");
    assert!(refused(51, 2), "exceptions are in order, of partitions that there are");
    assert_eq!(with(10, 2), Err(DecodeError::Unknown { what: "way to tell members", number: 2 }));
    assert_eq!(with(29, 2), Err(DecodeError::TooMany { what: "exceptions", count: 514, limit: 256 }));
    // A count of more instances than the map has would cause a large allocation for few bytes.
    let mut large = bytes.clone();
    large[at + 15 + 2] = 1;
    assert!(
        matches!(ClusterMap::decode(&large), Err(DecodeError::Map(error)) if matches!(*error, MapError::RingTooLarge { .. }))
    );
}

#[test]
fn excessive_counts_are_refused_before_allocation() {
    let mut bytes = golden();
    bytes[24..28].copy_from_slice(&u32::MAX.to_le_bytes());
    let (count, limit) = (u32::MAX as usize, CHANGES_MAX);
    assert_eq!(MapDelta::decode(&bytes), Err(DecodeError::TooMany { what: "changes", count, limit }));
    bytes[24..28].copy_from_slice(&(CHANGES_MAX as u32).to_le_bytes());
    assert_eq!(MapDelta::decode(&bytes), Err(DecodeError::Truncated { at: bytes.len() }));
    // The bytes claim 65536 partitions and have two groups.
    let mut bytes = golden();
    (bytes[72], bytes[73]) = (16, 0);
    assert_eq!(MapDelta::decode(&bytes), Err(DecodeError::Truncated { at: bytes.len() }));
    let bytes = vec![0; crate::limits::MAP_BYTES_MAX + 1];
    assert_eq!(MapDelta::decode(&bytes), Err(DecodeError::TooLong { bytes: bytes.len() }));
}

#[test]
fn decoded_map_that_breaks_a_rule_is_refused_with_that_rule() {
    let map = ClusterMap::of_one_node(node(1, 10, 2), 5).unwrap();
    let mut delta = map.to_delta();
    delta.changes.remove(0);
    let Err(DecodeError::Map(error)) = ClusterMap::decode(&delta.encode()) else {
        panic!("a map without nodes")
    };
    assert!(matches!(*error, MapError::UnknownInstance { .. }), "{error}");
    let partial = MapDelta { from: MapEpoch(1), ..map.to_delta() };
    let wrong = MapError::WrongBase { map: MapEpoch(0), delta: MapEpoch(1) };
    assert_eq!(
        ClusterMap::decode(&MapDelta { to: MapEpoch(2), ..partial }.encode()),
        Err(DecodeError::Map(Box::new(wrong)))
    );
}

proptest! {
    #[test]
    fn maps_and_deltas_roundtrip(steps in steps()) {
        let (maps, deltas) = history(&steps);
        for map in &maps {
            let bytes = map.encode();
            prop_assert_eq!(bytes.len(), map.encoded_bytes());
            prop_assert_eq!(&ClusterMap::decode(&bytes).unwrap(), map);
        }
        for delta in &deltas {
            prop_assert_eq!(&MapDelta::decode(&delta.encode()).unwrap(), delta);
        }
    }

    #[test]
    fn random_bytes_never_panic(tail in prop::collection::vec(any::<u8>(), 0..400), header: bool) {
        let bytes = if header { [&golden()[..28], &tail[..]].concat() } else { tail };
        if let Ok(delta) = MapDelta::decode(&bytes) {
            prop_assert_eq!(delta.encode(), bytes);
        }
    }

    /// Decodes the bytes of a real map with some changes, and builds a map from them; accepted bytes have only one encoding.
    #[test]
    fn changed_bytes_never_panic_and_have_one_encoding(
        steps in steps(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        length: prop::sample::Index,
        cut: bool,
    ) {
        let (maps, deltas) = history(&steps);
        let originals = maps.iter().map(ClusterMap::encode).chain(deltas.iter().map(MapDelta::encode));
        for mut bytes in originals {
            for (at, value) in &edits {
                let at = at.index(bytes.len());
                bytes[at] = *value;
            }
            if cut {
                bytes.truncate(length.index(bytes.len()));
            }
            if let Ok(delta) = MapDelta::decode(&bytes) {
                prop_assert_eq!(delta.encode(), bytes);
                for map in [&maps[0], &maps[maps.len() - 1]] {
                    if let Ok(next) = map.apply(&delta) {
                        prop_assert_eq!(&ClusterMap::decode(&next.encode()).unwrap(), &next);
                    }
                }
            }
        }
    }
}
