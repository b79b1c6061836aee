//! Properties of maps and their changes.

use proptest::prelude::*;
use zerohop_wire::ids::{Incarnation, InstanceId, KeyspaceId, MapEpoch, NodeId, PartitionEpoch, PartitionId};

use super::testing::{history, node, steps};
use super::*;
use crate::hash::{HashKind, key_slot};
use crate::keyspace::ConfigError;
use crate::keyspace::KeyspaceConfig;
use crate::limits::MAP_BYTES_MAX;
use crate::partitions::PartitionCount;
use crate::regions::{RegionFault, RegionTable};
use crate::separators::Separators;

fn one_node(instances: u16) -> ClusterMap {
    ClusterMap::of_one_node(node(1, 10, instances), 42).unwrap()
}

fn next(map: &ClusterMap, changes: Vec<MapChange>) -> Result<ClusterMap, MapError> {
    map.apply(&MapDelta { from: map.epoch(), to: map.epoch().next(), changes })
}

fn config(name: &str, partitions: u32) -> KeyspaceConfig {
    let partitions = PartitionCount::new(partitions).unwrap();
    KeyspaceConfig { partitions, ..KeyspaceConfig::new(name.parse().unwrap(), 1).fitted_to(1) }
}

fn create(id: u32, name: &str, map: &ClusterMap) -> MapChange {
    let config = config(name, 4);
    let groups = ReplicaGroup::spread(&config, &map.node(NodeId(1)).unwrap().to_node());
    MapChange::CreateKeyspace { id: KeyspaceId(id), config, groups: groups.into() }
}

fn set_group(partition: u32, group: ReplicaGroup) -> MapChange {
    MapChange::SetGroup { keyspace: DEFAULT_KEYSPACE, partition: PartitionId(partition), group }
}

/// A map with an ordered keyspace of the regions below b, from b and from m.
fn with_regions() -> (ClusterMap, KeyspaceId) {
    let map = ClusterMap::of_one_node(node(1, 1, 2), 1).unwrap();
    let id = KeyspaceId(7);
    let separators = Separators::new(["b", "m"]).unwrap();
    let config = KeyspaceConfig::new("ordered".parse().unwrap(), 1).fitted_to(1).divided_at(separators);
    let groups = (0..3).map(|_| ReplicaGroup::of_one(PartitionEpoch(4), InstanceId(1))).collect();
    (next(&map, vec![MapChange::CreateKeyspace { id, config, groups }]).unwrap(), id)
}

fn split_region(keyspace: KeyspaceId, region: u32, separator: &str) -> MapChange {
    let separator = separator.as_bytes().into();
    MapChange::SplitRegion { keyspace, region: PartitionId(region), separator, share: 128 }
}

#[test]
fn split_region_is_replaced_by_children_on_its_members() {
    let (map, id) = with_regions();
    let map = next(&map, vec![split_region(id, 1, "f"), split_region(id, 4, "h")]).unwrap();
    let keyspace = map.keyspace(id).unwrap();
    let numbers: Vec<u32> = keyspace.division().partitions().map(PartitionId::get).collect();
    assert_eq!(numbers, [0, 3, 5, 6, 2]);
    for (key, region) in [("a", 0), ("b", 3), ("ez", 3), ("f", 5), ("h", 6), ("lz", 6), ("m", 2)] {
        let partition = keyspace.partition(key.as_bytes());
        assert_eq!(partition, PartitionId(region), "{key}");
        let (begin, end) = keyspace.division().bounds(partition).unwrap();
        assert!(begin <= key.as_bytes() && end.is_none_or(|end| key.as_bytes() < end), "{key}");
        let points = keyspace.division().points(partition).unwrap();
        assert_eq!(keyspace.division().partition_at(*points.start()), partition);
        assert_eq!(keyspace.division().partition_at(*points.end()), partition);
    }
    let epochs: Vec<u64> = keyspace.groups().map(|(_, group)| group.epoch.get()).collect();
    assert_eq!(epochs, [4, 5, 6, 6, 4]);
    assert_eq!(keyspace.group(PartitionId(1)), None);
    let children = |region| keyspace.division().descendants(PartitionId(region));
    assert_eq!(children(1), [PartitionId(3), PartitionId(5), PartitionId(6)]);
    assert_eq!(children(4), [PartitionId(5), PartitionId(6)]);
    assert_eq!((children(3), children(9)), (vec![], vec![]));
    assert_eq!(keyspace.generation(PartitionId(5)), 2);
    assert_eq!(ClusterMap::decode(&map.encode()).unwrap(), map);
    assert_eq!(map.encode().len(), map.encoded_bytes());
}

#[test]
fn region_is_not_split_at_a_key_that_does_not_divide_it() {
    let (map, id) = with_regions();
    let refused = |change| match next(&map, vec![change]).unwrap_err() {
        MapError::Region { fault, .. } => fault,
        other => panic!("{other}"),
    };
    for (region, separator) in [(0, "b"), (1, "b"), (1, "m"), (1, "a"), (2, "l"), (0, "")] {
        let separator: Box<[u8]> = separator.as_bytes().into();
        let change =
            MapChange::SplitRegion { keyspace: id, region: PartitionId(region), separator, share: 1 };
        assert!(matches!(refused(change), RegionFault::Outside { .. }), "{region}");
    }
    let long = "c".repeat(257);
    assert!(matches!(refused(split_region(id, 1, &long)), RegionFault::Separator(_)));
    assert_eq!(refused(split_region(DEFAULT_KEYSPACE, 0, "c")), RegionFault::Hashed);
    let unknown = next(&map, vec![split_region(id, 3, "c")]);
    assert!(matches!(unknown, Err(MapError::UnknownPartition { .. })), "{unknown:?}");
    let table = Box::new(RegionTable::default());
    assert_eq!(refused(MapChange::HasRegions { keyspace: id, table }), RegionFault::Table);
}

#[test]
fn a_lone_node_serves_the_default_keyspace_by_redis_slots() {
    let map = one_node(3);
    assert_eq!(map.epoch(), MapEpoch(1));
    let (id, keyspace) = map.keyspace_named("default").unwrap();
    assert_eq!(id, DEFAULT_KEYSPACE);
    assert_eq!((keyspace.config().hash, keyspace.config().partitions.get()), (HashKind::Crc16, 256));
    for key in ["foo", "bar", "{user1000}.following", "{user1000}.followers"] {
        let route = map.route(id, key.as_bytes()).unwrap();
        assert_eq!(route.partition.get(), u32::from(key_slot(key.as_bytes())) * 256 / 16_384, "{key}");
        assert_eq!(route.epoch, PartitionEpoch(1));
        assert_eq!(route.addr, map.instance(route.instance).unwrap().addr);
        assert_eq!(keyspace.group(route.partition).unwrap().primary, route.instance);
    }
}

#[test]
fn partitions_are_dealt_evenly_and_the_seed_turns_the_order() {
    for instances in [1u16, 3, 4, 7] {
        let node = node(1, 10, instances);
        let mut first = std::collections::BTreeSet::new();
        for seed in 0..100 {
            let groups = ReplicaGroup::spread(&KeyspaceConfig::new("k".parse().unwrap(), seed), &node);
            assert_eq!(groups.len(), 256);
            for instance in 0..u32::from(instances) {
                let primaries =
                    groups.iter().filter(|group| group.primary == InstanceId(10 + instance)).count();
                assert!(
                    (256 / usize::from(instances)..=256 / usize::from(instances) + 1).contains(&primaries)
                );
            }
            first.insert(groups[0].primary);
        }
        assert_eq!(first.len(), usize::from(instances), "every instance comes first under some seed");
    }
}

/// ARCHITECTURE.md, "Placement and routing": at most 32 bytes a node in addition to the text of its addresses, and 4 bytes a replica. A partition's
/// epoch and the roles in its group take 16 bytes more, once for all its replicas.
#[test]
fn memory_is_32_bytes_a_node_and_4_bytes_a_replica() {
    const NODES: u32 = 1024;
    const INSTANCES: u32 = 8;
    const PARTITIONS: u32 = 65_536;
    const REPLICAS: u32 = 3;
    let nodes = (0..NODES).map(|id| MapChange::PutNode(node(id, id * INSTANCES, INSTANCES as u16)));
    let groups = (0..PARTITIONS).map(|partition| {
        let member = |n: u32| InstanceId((partition + n * INSTANCES) % (NODES * INSTANCES));
        ReplicaGroup {
            in_sync: vec![member(1)],
            followers: vec![member(2)],
            ..ReplicaGroup::of_one(PartitionEpoch(1), member(0))
        }
    });
    let keyspace = MapChange::CreateKeyspace {
        id: KeyspaceId(1),
        config: config("large", PARTITIONS),
        groups: groups.collect(),
    };
    let map = next(&ClusterMap::default(), nodes.chain([keyspace]).collect()).unwrap();
    let (nodes, addresses, groups) = map.memory_bytes();
    let (nodes, addresses) = (nodes / NODES as usize, addresses / NODES as usize);
    assert!(nodes <= 32, "{nodes} bytes a node, beside {addresses} of addresses");
    assert_eq!((nodes, groups), (28, (PARTITIONS * REPLICAS * 4) as usize));
    // The encoding: 12 bytes a partition and about 150 a node of eight instances.
    let encoded = map.encode();
    assert!(encoded.len() < 950_000, "{} bytes encoded", encoded.len());
    assert_eq!(ClusterMap::decode(&encoded).unwrap(), map);
}

#[test]
fn only_matching_delta_or_newer_complete_map_is_applied() {
    let map = next(&one_node(1), vec![]).unwrap();
    assert_eq!(map.epoch(), MapEpoch(2));
    let delta = |from, to| map.apply(&MapDelta { from: MapEpoch(from), to: MapEpoch(to), changes: vec![] });
    assert_eq!(delta(2, 3).unwrap().epoch(), MapEpoch(3));
    assert_eq!(delta(2, 9).unwrap().epoch(), MapEpoch(9));
    assert_eq!(delta(1, 3), Err(MapError::WrongBase { map: MapEpoch(2), delta: MapEpoch(1) }));
    assert_eq!(delta(3, 4), Err(MapError::WrongBase { map: MapEpoch(2), delta: MapEpoch(3) }));
    assert_eq!(delta(2, 2), Err(MapError::NotNewer { map: MapEpoch(2), to: MapEpoch(2) }));
    assert_eq!(delta(1, 2), Err(MapError::NotNewer { map: MapEpoch(2), to: MapEpoch(2) }));
    assert_eq!(delta(5, 4), Err(MapError::NotNewer { map: MapEpoch(5), to: MapEpoch(4) }));
    // A complete map replaces any older one, and an old one replaces nothing.
    let newer = MapDelta { to: MapEpoch(7), ..one_node(2).to_delta() };
    assert_eq!(map.apply(&newer).unwrap().node(NodeId(1)).unwrap().instances().count(), 2);
    assert_eq!(
        map.apply(&one_node(2).to_delta()),
        Err(MapError::NotNewer { map: MapEpoch(2), to: MapEpoch(1) })
    );
}

#[test]
fn every_group_change_raises_its_epoch() {
    let map = one_node(2);
    let group = |epoch| ReplicaGroup::of_one(PartitionEpoch(epoch), InstanceId(11));
    let raised = next(&map, vec![set_group(5, group(7))]).unwrap();
    assert_eq!(
        raised.keyspace(DEFAULT_KEYSPACE).unwrap().group(PartitionId(5)).unwrap(),
        group(7).as_group()
    );
    for epoch in [0, 6, 7] {
        let (keyspace, partition) = (DEFAULT_KEYSPACE, PartitionId(5));
        let (old, new) = (PartitionEpoch(7), PartitionEpoch(epoch));
        assert_eq!(
            next(&raised, vec![set_group(5, group(epoch))]),
            Err(MapError::EpochNotRaised { keyspace, partition, old, new })
        );
    }
    assert_eq!(
        next(&map, vec![set_group(256, group(2))]),
        Err(MapError::UnknownPartition { keyspace: DEFAULT_KEYSPACE, partition: PartitionId(256) })
    );
}

#[test]
fn groups_name_only_instances_of_the_map() {
    let map = one_node(2);
    let (keyspace, instance) = (DEFAULT_KEYSPACE, InstanceId(12));
    assert_eq!(
        next(&map, vec![set_group(5, ReplicaGroup::of_one(PartitionEpoch(2), instance))]),
        Err(MapError::UnknownInstance { keyspace, partition: PartitionId(5), instance })
    );
    let unknown = |changes| matches!(next(&map, changes), Err(MapError::UnknownInstance { .. }));
    assert!(unknown(vec![MapChange::RemoveNode(NodeId(1))]));
    assert!(
        unknown(vec![MapChange::PutNode(node(1, 10, 1))]),
        "an instance that holds partitions was taken away"
    );
    assert!(unknown(vec![MapChange::PutNode(node(1, 20, 2))]), "the instances have other ids");
    // With the keyspace removed, the node may be removed, in either order.
    for changes in [
        vec![MapChange::DropKeyspace(keyspace), MapChange::RemoveNode(NodeId(1))],
        vec![MapChange::RemoveNode(NodeId(1)), MapChange::DropKeyspace(keyspace)],
    ] {
        assert_eq!(next(&map, changes).unwrap().nodes().len(), 0);
    }
}

#[test]
fn restarted_node_is_refused_in_groups_not_decided_again() {
    let map = one_node(2);
    let restarted = Node { incarnation: Incarnation(99), ..node(1, 10, 2) };
    let regroup = |partition| {
        let mut group =
            map.keyspace(DEFAULT_KEYSPACE).unwrap().group(PartitionId(partition)).unwrap().to_group();
        group.epoch = group.epoch.next();
        set_group(partition, group)
    };
    let mut changes = vec![MapChange::PutNode(restarted)];
    changes.extend((0..255).map(regroup));
    let stale = next(&map, changes.clone()).unwrap_err();
    assert!(matches!(stale, MapError::StaleMember { partition: PartitionId(255), .. }), "{stale}");
    changes.push(regroup(255));
    let after = next(&map, changes).unwrap();
    assert_eq!(after.instance(InstanceId(10)).unwrap().incarnation, Incarnation(99));
    // A change without a restart needs no new groups.
    next(
        &after,
        vec![MapChange::PutNode(Node { state: NodeState::Down, ..after.node(NodeId(1)).unwrap().to_node() })],
    )
    .unwrap();
}

#[test]
fn keyspaces_are_created_altered_and_dropped_by_the_rules() {
    let map = one_node(2);
    let (two, unknown) = (KeyspaceId(2), KeyspaceId(3));
    let with = next(&map, vec![create(2, "two", &map)]).unwrap();
    assert_eq!(with.keyspace_named("two").unwrap().0, two);
    let refused = |changes| next(&with, changes).unwrap_err();
    for in_use in [0, 1, 2] {
        assert_eq!(
            refused(vec![create(in_use, "x", &map)]),
            MapError::KeyspaceIdInUse { keyspace: KeyspaceId(in_use) }
        );
    }
    assert_eq!(
        refused(vec![create(3, "two", &map)]),
        MapError::NameInUse { name: "two".parse().unwrap(), keyspace: two }
    );
    let few = MapChange::CreateKeyspace { id: unknown, config: config("x", 4), groups: Groups::default() };
    assert_eq!(refused(vec![few]), MapError::GroupCount { keyspace: unknown, groups: 0, partitions: 4 });
    assert_eq!(
        refused(vec![MapChange::DropKeyspace(unknown)]),
        MapError::UnknownKeyspace { keyspace: unknown }
    );
    let alter = |config| vec![MapChange::AlterKeyspace { id: two, config }];
    assert_eq!(
        refused(alter(config("two", 8))),
        MapError::Config { keyspace: two, error: ConfigError::Fixed { setting: "partitions" } }
    );
    let synced = KeyspaceConfig { durability: crate::Durability::Sync, ..config("two", 4) };
    let altered = next(&with, alter(synced.clone())).unwrap();
    assert_eq!(altered.keyspace(two).unwrap().config(), &synced);
    assert_eq!(
        refused(vec![MapChange::BeginDropKeyspace(unknown)]),
        MapError::UnknownKeyspace { keyspace: unknown }
    );
    let dropping = next(&altered, vec![MapChange::BeginDropKeyspace(two)]).unwrap();
    assert!(dropping.keyspace(two).unwrap().is_dropping() && !altered.keyspace(two).unwrap().is_dropping());
    assert!(dropping.keyspace(two).unwrap().is_dropping() && dropping.route(two, b"key").is_ok());
    let dropped = next(&dropping, vec![MapChange::DropKeyspace(two)]).unwrap();
    let error = dropped.route(two, b"key").unwrap_err();
    assert_eq!(error, RouteError { keyspace: two, epoch: dropped.epoch() });
    assert!(error.to_string().contains("fetch a newer map"));
}

#[test]
fn split_is_pending_until_it_is_done_or_cancelled() {
    let begin = || vec![MapChange::BeginSplit { keyspace: DEFAULT_KEYSPACE, split: PendingSplit::Keyspace }];
    let pending = |map: &ClusterMap| map.keyspace(DEFAULT_KEYSPACE).unwrap().pending_split().cloned();
    let cancel = || vec![MapChange::CancelSplit(DEFAULT_KEYSPACE)];
    let begun = next(&one_node(2), begin()).unwrap();
    assert_eq!(pending(&begun), Some(PendingSplit::Keyspace));
    assert_eq!(ClusterMap::decode(&begun.encode()).unwrap(), begun);
    let busy = Err(MapError::SplitNotPossible { keyspace: DEFAULT_KEYSPACE });
    assert_eq!(next(&begun, begin()), busy, "one at a time");
    let none = Err(MapError::NoPendingSplit { keyspace: DEFAULT_KEYSPACE });
    assert_eq!(next(&one_node(2), cancel()), none);
    let dropping = next(&begun, vec![MapChange::BeginDropKeyspace(DEFAULT_KEYSPACE)]).unwrap();
    assert_eq!((pending(&dropping), next(&dropping, begin())), (None, busy), "it is dropped instead");
    for end in [cancel(), vec![MapChange::SplitKeyspace(DEFAULT_KEYSPACE)]] {
        assert_eq!(pending(&next(&begun, end).unwrap()), None);
    }
    let region = PendingSplit::Region { region: PartitionId(0), separator: b"m"[..].into(), share: 128 };
    let wrong = vec![MapChange::BeginSplit { keyspace: DEFAULT_KEYSPACE, split: region }];
    let fault = RegionFault::Hashed;
    let refused = Err(MapError::Region { keyspace: DEFAULT_KEYSPACE, region: PartitionId(0), fault });
    assert_eq!(next(&one_node(2), wrong), refused);
}

#[test]
fn pending_split_of_region_is_that_of_its_region() {
    let (map, keyspace) = with_regions();
    let split = |separator: &[u8]| PendingSplit::Region {
        region: PartitionId(0),
        separator: separator.into(),
        share: 128,
    };
    let begun = next(&map, vec![MapChange::BeginSplit { keyspace, split: split(b"a") }]).unwrap();
    assert_eq!(ClusterMap::decode(&begun.encode()).unwrap(), begun);
    let pending = |map: &ClusterMap| map.keyspace(keyspace).unwrap().pending_split().cloned();
    let found = pending(&begun).unwrap();
    assert!(found.covers(PartitionId(0)) && !found.covers(PartitionId(1)));
    let done = next(&begun, vec![found.into_change(keyspace)]).unwrap();
    assert_eq!(pending(&done), None);
    assert_eq!(done.keyspace(keyspace).unwrap().group(PartitionId(0)), None);
    let outside = vec![MapChange::BeginSplit { keyspace, split: split(b"") }];
    assert!(matches!(next(&map, outside), Err(MapError::Region { .. })));
}

#[test]
fn complete_map_has_split_count_of_each_keyspace() {
    let split = || vec![MapChange::SplitKeyspace(DEFAULT_KEYSPACE)];
    let twice = next(&next(&one_node(2), split()).unwrap(), split()).unwrap();
    let again = ClusterMap::decode(&twice.encode()).unwrap();
    assert_eq!(again, twice);
    assert_eq!(again.keyspace(DEFAULT_KEYSPACE).unwrap().splits(), 2);
    let has_split = |splits| vec![MapChange::HasSplit { keyspace: DEFAULT_KEYSPACE, splits }];
    let refused = Err(MapError::Splits { keyspace: DEFAULT_KEYSPACE, splits: 1 });
    assert_eq!(next(&one_node(2), has_split(1)), refused, "it is not new");
    for splits in [0, 9] {
        let mut whole = one_node(2).to_delta();
        whole.changes.extend(has_split(splits));
        let refused = Err(MapError::Splits { keyspace: DEFAULT_KEYSPACE, splits });
        assert_eq!(ClusterMap::default().apply(&whole), refused, "256 partitions have 8 bits");
    }
}

#[test]
fn split_halves_each_partition_without_moves() {
    let raised = ReplicaGroup::of_one(PartitionEpoch(7), InstanceId(11));
    let map = next(&one_node(2), vec![set_group(5, raised)]).unwrap();
    let before = map.keyspace(DEFAULT_KEYSPACE).unwrap();
    let after = next(&map, vec![MapChange::SplitKeyspace(DEFAULT_KEYSPACE)]).unwrap();
    let keyspace = after.keyspace(DEFAULT_KEYSPACE).unwrap();
    assert_eq!(keyspace.config().partitions.get(), 2 * before.config().partitions.get());
    for (partition, group) in keyspace.groups() {
        let parent = before.group(PartitionId(partition.get() / 2)).unwrap();
        assert_eq!(group.epoch, PartitionEpoch(8), "above the highest of any parent");
        assert!(group.members().eq(parent.members()));
    }
    assert_eq!((before.splits(), keyspace.splits()), (0, 1));
    for key in [&b"a"[..], b"b", b"another"] {
        let (old, new) =
            (map.route(DEFAULT_KEYSPACE, key).unwrap(), after.route(DEFAULT_KEYSPACE, key).unwrap());
        assert_eq!(
            (old.partition.get(), old.instance, old.addr),
            (new.partition.get() / 2, new.instance, new.addr)
        );
    }
    // From 256 to 16384, the slots of `crc16`, and no further.
    let mut map = after;
    for _ in 0..5 {
        map = next(&map, vec![MapChange::SplitKeyspace(DEFAULT_KEYSPACE)]).unwrap();
    }
    assert!(matches!(
        next(&map, vec![MapChange::SplitKeyspace(DEFAULT_KEYSPACE)]),
        Err(MapError::Config { .. })
    ));
}

#[test]
fn keyspaces_share_ring_order_and_store_changes_as_exceptions() {
    const PARTITIONS: u32 = 1 << 16;
    let ring = |turn| Ring { first: InstanceId(0), count: 1000, step: 7, first_position: turn, splits: 0 };
    let nodes = (0..500).map(|id| MapChange::PutNode(node(id, id * 2, 2)));
    let keyspaces = (1..=20).map(|id| MapChange::CreateKeyspace {
        id: KeyspaceId(id),
        config: config(&format!("k{id}"), PARTITIONS),
        groups: Groups::in_ring(ring(id), PARTITIONS, 1, 1).unwrap(),
    });
    let map = next(&ClusterMap::default(), nodes.chain(keyspaces).collect()).unwrap();
    assert_eq!(map.memory_bytes().2, (1000 + 16) * 4, "for 1.3 million partitions");
    let group = map.keyspace(KeyspaceId(3)).unwrap().group(PartitionId(PARTITIONS / 2)).unwrap();
    let ids: Vec<u32> = group.members().map(InstanceId::get).collect();
    assert_eq!(ids, [(503 * 7) % 1000, (504 * 7) % 1000, (505 * 7) % 1000]);
    let moved = ReplicaGroup { epoch: PartitionEpoch(2), ..group.to_group() };
    let set =
        MapChange::SetGroup { keyspace: KeyspaceId(3), partition: PartitionId(9), group: moved.clone() };
    let after = next(&map, vec![set]).unwrap();
    assert_eq!(after.keyspace(KeyspaceId(3)).unwrap().group(PartitionId(9)), Some(moved.as_group()));
    assert_eq!(after.encode().len(), map.encode().len() + 4 + 22);
    let decoded = ClusterMap::decode(&after.encode()).unwrap();
    assert_eq!(decoded, after);
    assert!(decoded.memory_bytes().2 < 5_000, "decoded, it shares the order too");
}

#[test]
fn map_too_large_for_a_frame_is_refused() {
    let mut map = one_node(1);
    let node = node(1, 10, 1);
    let refused = (2..100).find_map(|id| {
        let config = config(&format!("large-{id}"), 65_536);
        let groups = ReplicaGroup::spread(&config, &node);
        match next(
            &map,
            vec![MapChange::CreateKeyspace { id: KeyspaceId(id), config, groups: groups.into() }],
        ) {
            Ok(larger) => {
                map = larger;
                None
            }
            Err(error) => Some(error),
        }
    });
    assert!(matches!(refused, Some(MapError::TooLarge { bytes }) if bytes > MAP_BYTES_MAX), "{refused:?}");
    assert!(map.encode().len() <= MAP_BYTES_MAX);
}

#[test]
fn next_map_shares_unchanged_parts() {
    let map = one_node(2);
    let after = next(&map, vec![create(2, "two", &map)]).unwrap();
    assert!(std::sync::Arc::ptr_eq(&map.nodes, &after.nodes));
    assert!(std::sync::Arc::ptr_eq(&map.keyspaces[&DEFAULT_KEYSPACE], &after.keyspaces[&DEFAULT_KEYSPACE]));
}

/// Deltas from one map to another, joined, give the same map as each of them in turn. Receivers with other maps refuse them, among them
/// one that has part of the changes from an earlier answer.
fn check_joined(
    (maps, deltas): &(Vec<ClusterMap>, Vec<MapDelta>),
    from: prop::sample::Index,
    to: prop::sample::Index,
) -> Result<(), TestCaseError> {
    let (a, b) = (from.index(maps.len()), to.index(maps.len()));
    let (from, to) = (a.min(b), a.max(b));
    if from < to {
        let mut joined = deltas[from].clone();
        for delta in &deltas[from + 1..to] {
            joined = joined.join(delta).unwrap();
        }
        let applied = maps[from].apply(&joined);
        prop_assert_eq!(applied.as_ref(), Ok(&maps[to]));
        // A receiver with another map gets an error, and keeps its map.
        for (at, map) in maps.iter().enumerate().filter(|(at, _)| *at != from) {
            prop_assert!(map.apply(&joined).is_err(), "map {} took the delta from {}", at, from);
        }
        prop_assert!(joined.join(&deltas[from]).is_err());
    }
    Ok(())
}

#[cfg(debug_assertions)]
#[test]
fn mutants_of_deltas_are_found() {
    use proptest::test_runner::{Config, TestRunner};

    use crate::planted::{Bug, plant};

    for bug in Bug::ALL {
        let config = Config { failure_persistence: None, max_shrink_iters: 0, ..Config::with_cases(2_000) };
        let sequence = (steps(), any::<prop::sample::Index>(), any::<prop::sample::Index>());
        let found = TestRunner::new(config).run(&sequence, |(steps, from, to)| {
            let history = history(&steps);
            plant(Some(bug));
            let checked = check_joined(&history, from, to);
            plant(None);
            checked
        });
        assert!(found.is_err(), "{bug:?} is not found");
    }
}

proptest! {
    #[test]
    fn joined_deltas_give_the_same_map_as_single_ones(steps in steps(), from: prop::sample::Index, to: prop::sample::Index) {
        check_joined(&history(&steps), from, to)?;
    }

    #[test]
    fn every_key_routes_to_the_primary_of_its_partition(steps in steps(), key in prop::collection::vec(any::<u8>(), 0..40)) {
        let (maps, _) = history(&steps);
        for map in &maps {
            for (id, keyspace) in map.keyspaces() {
                let route = map.route(id, &key).unwrap();
                let group = keyspace.group(route.partition).unwrap();
                prop_assert_eq!((route.epoch, route.instance), (group.epoch, group.primary));
                let instance = map.instance(route.instance).unwrap();
                prop_assert_eq!(route.addr, instance.addr);
                prop_assert!(map.node(instance.node).unwrap().instances().any(|other| other == instance));
            }
        }
    }
}

#[test]
fn group_is_unavailable_when_required_logs_are_down() {
    let node = |id: u32, state| Node {
        id: NodeId(id),
        state,
        incarnation: Incarnation(1),
        manager: Address::new(&format!("n{id}:1")).unwrap(),
        first_instance: InstanceId(id),
        instances: vec![Address::new(&format!("n{id}:2")).unwrap()],
    };
    let states = [NodeState::Down, NodeState::Up, NodeState::Draining];
    let put = |(id, state)| MapChange::PutNode(node(id, state));
    let changes = (1..).zip(states).map(put).collect();
    let delta = MapDelta { from: MapEpoch(0), to: MapEpoch(1), changes };
    let map = ClusterMap::default().apply(&delta).unwrap();
    let group = |primary: u32, in_sync: &[u32], followers: &[u32], state| ReplicaGroup {
        in_sync: in_sync.iter().copied().map(InstanceId).collect(),
        followers: followers.iter().copied().map(InstanceId).collect(),
        state,
        ..ReplicaGroup::of_one(PartitionEpoch(1), InstanceId(primary))
    };
    let (settled, recovering) = (GroupState::Stable, GroupState::Recovering);
    for (expected, group) in [
        (false, group(2, &[1], &[], settled)),
        (false, group(1, &[3], &[], settled)),
        (true, group(1, &[], &[2, 3], settled)),
        (true, group(9, &[], &[2], settled)),
        (true, group(2, &[1], &[3], recovering)),
        (false, group(2, &[3], &[1], recovering)),
    ] {
        assert_eq!(map.is_unavailable(group.as_group()), expected, "{group:?}");
    }
}
