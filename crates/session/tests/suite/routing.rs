//! The targets of requests, and how the session learns about moved partitions.

use bytes::Bytes;
use zerohop_placement::PartitionCount;
use zerohop_session::limits::MAP_REPEAT_US;
use zerohop_session::{Reply, SessionError, SessionRequest};
use zerohop_wire::ids::{InstanceId, MapEpoch, PartitionId};
use zerohop_wire::messages::ClusterId;
use zerohop_wire::{Failure, FrameKind};

use crate::support::server::PARTITIONS;
use crate::support::{
    KEYSPACE, LIMIT_US, append, append_within, count, insert, keys_of, kinds, lookup, stamps, world,
    world_with,
};

/// A partition, with the initial number of partitions.
fn partition_of(partition: u32) -> (PartitionId, PartitionCount) {
    (PartitionId(partition), PartitionCount::new(PARTITIONS).expect("is a power of two"))
}

#[test]
fn first_request_fetches_map_and_next_one_reaches_owner_directly() {
    let mut world = world(3);
    let key = &keys_of(&world, 1, 1)[0];
    let token = world.submit(lookup(key));
    world.run_until_idle();
    assert_eq!(world.result(token), &Err(SessionError::Answer { failure: Failure::NotFound }));
    let expected = [
        (FrameKind::Hello, "m0:7400"),
        (FrameKind::MapGet, "m0:7400"),
        (FrameKind::Hello, "i1:7401"),
        (FrameKind::Lookup, "i1:7401"),
    ];
    assert_eq!(kinds(&world), expected.map(|(kind, address)| (kind, address.to_owned())));
    world.sent = Some(Vec::new());
    world.submit(lookup(key));
    world.run_until_idle();
    assert_eq!(kinds(&world), [(FrameKind::Lookup, "i1:7401".to_owned())]);
}

#[test]
fn redirect_applies_map_delta_and_retries_immediately() {
    let mut world = world(3);
    let key = &keys_of(&world, 0, 1)[0];
    world.submit(lookup(key));
    world.run_until_idle();
    world.cluster.move_to(PartitionId(0), InstanceId(3));
    let (start, sent) = (world.now, kinds(&world).len());
    let token = world.submit(append(key, "v"));
    world.run_until_idle();
    assert!(world.result(token).is_ok());
    // Session, write, redirect, connection and greeting, write.
    assert!(world.now.since_us(start) < 800, "{}", world.now.since_us(start));
    assert_eq!(world.session.map().epoch(), MapEpoch(2));
    assert_eq!(count(&world, FrameKind::MapGet), 1);
    let after: Vec<(FrameKind, String)> = kinds(&world).split_off(sent);
    assert_eq!(after.last(), Some(&(FrameKind::Append, "i2:7401".to_owned())));
    let stamps = stamps(&world);
    assert_eq!(stamps[0].sequence, stamps[1].sequence);
}

#[test]
fn a_redirect_without_changes_has_the_map_fetched() {
    let mut world = world(2);
    let key = &keys_of(&world, 0, 1)[0];
    world.submit(lookup(key));
    world.run_until_idle();
    world.cluster.without_delta = 1000;
    world.cluster.move_to(PartitionId(0), InstanceId(2));
    let token = world.submit(append(key, "v"));
    world.run_until_idle();
    assert!(world.result(token).is_ok());
    assert_eq!(count(&world, FrameKind::MapGet), 2);
}

#[test]
fn redirects_without_end_are_an_error() {
    let mut world = world(2);
    for _ in 0..100 {
        let failure = Failure::WrongOwner { epoch: MapEpoch(1), delta: Vec::new().into() };
        world.cluster.script.push_back((false, failure));
    }
    let token = world.submit(append("k", "v"));
    world.run_until_idle();
    assert!(
        matches!(world.result(token), Err(SessionError::NoOwner { redirects: 17 })),
        "{:?}",
        world.result(token)
    );
    assert_eq!(world.cluster.count("k", "v"), 0);
}

#[test]
fn next_endpoint_is_tried_when_first_is_down() {
    let mut world = world_with(2, |settings| {
        settings.endpoints = vec!["nowhere:1".into(), "m1:7400".into()];
    });
    let token = world.submit(append("k", "v"));
    world.run_until_idle();
    assert!(world.result(token).is_ok());
    assert!(
        world.connects.starts_with(&["nowhere:1".to_owned(), "m1:7400".to_owned()]),
        "{:?}",
        world.connects
    );
}

#[test]
fn next_endpoint_is_tried_when_first_is_silent() {
    let mut world = world_with(2, |settings| {
        settings.endpoints = vec!["m0:7400".into(), "m1:7400".into()];
        settings.connect_us = 3_000_000;
    });
    world.still = Some("m0:7400".to_owned());
    let key = &keys_of(&world, 1, 1)[0];
    let start = world.now;
    let token = world.submit(append(key, "v"));
    while world.results[token].is_none() {
        world.run_ms(1);
    }
    assert!(world.result(token).is_ok());
    let took_us = world.now.since_us(start);
    assert!(took_us < 250_000 + 5_000, "{took_us}");
    // Control requests go to a manager that answers, though another is first in the map.
    let token = world.submit(SessionRequest::admin(Bytes::from_static(b"status"), LIMIT_US));
    world.run_ms(2);
    assert!(world.result(token).is_ok());
    assert_eq!(world.connects.iter().filter(|address| *address == "m0:7400").count(), 1);
}

#[test]
fn dead_primary_causes_a_map_request() {
    let mut world = world(2);
    let key = &keys_of(&world, 0, 1)[0];
    world.submit(append(key, "first"));
    world.run_until_idle();
    world.cluster.down = vec!["i0:7401".to_owned()];
    world.cluster.move_to(PartitionId(0), InstanceId(2));
    world.reset_all();
    let start = world.now;
    let token = world.submit(append(key, "v"));
    world.run_until_idle();
    assert!(world.result(token).is_ok());
    assert!(world.now.since_us(start) < 100_000, "{}", world.now.since_us(start));
}

/// A failover takes several hundred milliseconds, and so does the pause between two attempts to connect by then.
#[test]
fn new_primary_is_found_soon_after_the_map_names_it() {
    for failover_ms in [300, 508, 700, 1500] {
        let mut world = world(2);
        let key = &keys_of(&world, 0, 1)[0];
        world.submit(append(key, "first"));
        world.run_until_idle();
        world.cluster.down = vec!["i0:7401".to_owned()];
        world.reset_all();
        let token = world.submit(append(key, "v"));
        world.run_ms(failover_ms);
        assert!(world.results[token].is_none());
        world.cluster.move_to(PartitionId(0), InstanceId(2));
        let moved_at = world.now;
        while world.results[token].is_none() {
            world.run_ms(1);
        }
        assert!(world.result(token).is_ok());
        let took_us = world.now.since_us(moved_at);
        assert!(took_us <= MAP_REPEAT_US + 5_000, "{took_us} after a failover of {failover_ms} ms");
    }
}

#[test]
fn map_requests_become_rare_while_nothing_replaces_a_primary() {
    let mut world = world(2);
    let key = &keys_of(&world, 0, 1)[0];
    world.submit(append(key, "first"));
    world.run_until_idle();
    world.cluster.down = vec!["i0:7401".to_owned()];
    world.reset_all();
    let before = count(&world, FrameKind::MapGet);
    let token = world.submit(append_within(key, "v", 60_000_000));
    world.run_ms(10_000);
    let first = count(&world, FrameKind::MapGet) - before;
    world.run_ms(10_000);
    let second = count(&world, FrameKind::MapGet) - before - first;
    assert!(world.results[token].is_none());
    assert!((20..80).contains(&first), "{first} in the first ten seconds");
    assert!((20..60).contains(&second), "{second} in the next ten");
}

#[test]
fn map_requests_end_with_the_operation_that_waited() {
    let mut world = world(2);
    let key = &keys_of(&world, 0, 1)[0];
    world.submit(append(key, "first"));
    world.run_until_idle();
    world.cluster.down = vec!["i0:7401".to_owned()];
    world.reset_all();
    let token = world.submit(append_within(key, "v", 500_000));
    world.run_ms(1_000);
    assert!(world.result(token).is_err());
    let before = count(&world, FrameKind::MapGet);
    world.run_ms(10_000);
    assert!(
        count(&world, FrameKind::MapGet) - before <= 2,
        "the connection, which no operation needs, is given up"
    );
}

/// The former primary is alive, and cut off from the control group, which has promoted another: it
/// does not answer, or answers that it cannot serve.
#[test]
fn silent_primary_causes_map_requests() {
    // Longer than the time in which the test expects the answer, so that only a new map helps.
    let mut world = world_with(3, |settings| settings.attempt_us = 5_000_000);
    let key = &keys_of(&world, 0, 1)[0];
    world.submit(append(key, "first"));
    world.run_until_idle();
    world.mute = Some("i0:7401".to_owned());
    let start = world.now;
    let token = world.submit(append(key, "v"));
    world.run_ms(600);
    world.cluster.move_to(PartitionId(0), InstanceId(2));
    world.run_until_idle();
    assert!(world.result(token).is_ok());
    let took_us = world.now.since_us(start);
    assert!(took_us < 600_000 + 2 * 250_000 + 10_000, "{took_us}");
    assert_eq!(world.cluster.count(key, "v"), 1, "once, though it was sent to both");
}

#[test]
fn unable_primary_causes_a_map_request() {
    let mut world = world(2);
    let key = &keys_of(&world, 0, 1)[0];
    world.submit(append(key, "first"));
    world.run_until_idle();
    // Map requests are not sent in quick succession.
    world.run_ms(100);
    world.cluster.script.push_back((false, Failure::Unavailable { retry_after_ms: 20 }));
    let token = world.submit(append(key, "v"));
    world.run_until_idle();
    assert!(world.result(token).is_ok());
    assert_eq!(count(&world, FrameKind::MapGet), 2);
}

#[test]
fn keyspace_lookup_by_name_uses_newest_map() {
    let mut world = world(1);
    let found = world.submit(SessionRequest::keyspace("default", MapEpoch(0), LIMIT_US));
    let missing = world.submit(SessionRequest::keyspace("absent", MapEpoch(0), LIMIT_US));
    world.run_until_idle();
    let Ok(Reply::Keyspace(found)) = world.result(found) else { panic!() };
    assert_eq!((found.id, found.config.name.as_str()), (KEYSPACE, "default"));
    let absent = Err(SessionError::NoKeyspace { name: "absent".into(), epoch: MapEpoch(1) });
    assert_eq!(world.result(missing), &absent);
    // A keyspace that is created later is found without a notification.
    let mut config = world.cluster.map.keyspace(KEYSPACE).unwrap().config().clone();
    config.name = "absent".parse().unwrap();
    let groups =
        (0..PARTITIONS).map(|_| zerohop_placement::ReplicaGroup::of_one(1.into(), InstanceId(1))).collect();
    world.cluster.change(vec![zerohop_placement::MapChange::CreateKeyspace { id: 7.into(), config, groups }]);
    let found = world.submit(SessionRequest::keyspace("absent", MapEpoch(0), LIMIT_US));
    world.run_until_idle();
    assert!(world.result(found).is_ok());
    // A dropped keyspace is found in the session's map, unless its caller knows of a newer map.
    world.cluster.change(vec![zerohop_placement::MapChange::DropKeyspace(7.into())]);
    for (least, is_found) in [(MapEpoch(2), true), (MapEpoch(3), false)] {
        let found = world.submit(SessionRequest::keyspace("absent", least, LIMIT_US));
        world.run_until_idle();
        assert_eq!(world.result(found).is_ok(), is_found);
    }
    // A request for a future map waits for it until the deadline.
    let early = world.submit(SessionRequest::keyspace("default", MapEpoch(4), LIMIT_US));
    world.run_ms(LIMIT_US / 1000 + 1);
    assert!(matches!(world.result(early), Err(SessionError::Deadline { .. })), "{:?}", world.result(early));
}

#[test]
fn a_scan_pages_through_a_partition() {
    let mut world = world(1);
    let keys = keys_of(&world, 3, 5);
    for key in &keys {
        world.submit(insert(key, b"v"));
    }
    world.run_until_idle();
    let (mut cursor, mut found) = (Bytes::new(), Vec::new());
    loop {
        let prefix = Bytes::from_static(b"key-");
        let token =
            world.submit(SessionRequest::scan(KEYSPACE, partition_of(3), cursor, prefix, 2, LIMIT_US));
        world.run_until_idle();
        let Ok(Reply::Page { next, keys }) = world.result(token) else { panic!("{:?}", world.result(token)) };
        found.extend(keys.iter().map(|key| String::from_utf8(key.key.to_vec()).unwrap()));
        assert!(keys.iter().all(|key| key.partition == PartitionId(3)));
        cursor = next.clone();
        if cursor.is_empty() {
            break;
        }
    }
    found.sort();
    let mut expected = keys;
    expected.sort();
    assert_eq!(found, expected);
    let token = world.submit(SessionRequest::scan(
        KEYSPACE,
        partition_of(99),
        Bytes::new(),
        Bytes::new(),
        2,
        LIMIT_US,
    ));
    world.run_until_idle();
    assert!(matches!(world.result(token), Err(SessionError::Answer { failure: Failure::BadRequest { .. } })));
}

#[test]
fn write_during_split_keeps_its_sequence_number() {
    let mut world = world(3);
    let key = &keys_of(&world, 3, 1)[0];
    let first = world.submit(append(key, "before"));
    world.run_until_idle();
    assert!(world.result(first).is_ok());
    world.cluster.split();
    let token = world.submit(append(key, "after"));
    world.run_until_idle();
    assert!(world.result(token).is_ok());
    assert_eq!((world.cluster.count(key, "before"), world.cluster.count(key, "after")), (1, 1));
    let stamps = stamps(&world);
    assert_eq!(stamps.len(), 3, "redirected once");
    assert_eq!(stamps[1].sequence, stamps[2].sequence);
    assert!(stamps[0].sequence < stamps[1].sequence, "numbers go on in the child");
}

#[test]
fn scan_with_outdated_partition_count_fails_with_new_count() {
    let mut world = world(3);
    world.submit(lookup("k"));
    world.run_until_idle();
    world.cluster.split();
    world.submit(append("k", "v"));
    world.run_until_idle();
    let scan = SessionRequest::scan(KEYSPACE, partition_of(3), Bytes::new(), Bytes::new(), 2, LIMIT_US);
    let token = world.submit(scan);
    world.run_until_idle();
    let is_split = |result: &Result<Reply, SessionError>| match result {
        Err(SessionError::Split { keyspace, division }) => {
            (*keyspace, division.count().get()) == (KEYSPACE, 2 * PARTITIONS)
        }
        _ => false,
    };
    assert!(is_split(world.result(token)), "{:?}", world.result(token));
    let token = world.submit(SessionRequest::compare(
        KEYSPACE,
        partition_of(3),
        Bytes::from_static(b"from here"),
        LIMIT_US,
    ));
    world.run_until_idle();
    assert!(is_split(world.result(token)), "{:?}", world.result(token));
}

#[test]
fn control_requests_go_to_a_manager_and_are_not_repeated_in_doubt() {
    let mut world = world(1);
    let token = world.submit(SessionRequest::admin(Bytes::from_static(b"status"), LIMIT_US));
    world.run_until_idle();
    assert_eq!(world.result(token), &Ok(Reply::Admin(Bytes::from_static(b"status"))));
    assert_eq!(kinds(&world).last(), Some(&(FrameKind::Admin, "m0:7400".to_owned())));
    let token = world.submit(SessionRequest::admin(Bytes::from_static(b"create"), LIMIT_US));
    world.run_turn();
    world.reset_all();
    world.run_until_idle();
    assert!(matches!(world.result(token), Err(SessionError::Unknown { .. })), "{:?}", world.result(token));
    assert_eq!(count(&world, FrameKind::Admin), 2);
}

#[test]
fn a_server_of_another_cluster_is_not_talked_to() {
    let mut world = world(2);
    world.submit(lookup(&keys_of(&world, 0, 1)[0]));
    world.run_until_idle();
    world.cluster.cluster_id = ClusterId([1; 16]);
    let token = world.submit(append(&keys_of(&world, 1, 1)[0], "v"));
    world.run_until_idle();
    let text = world.result(token).as_ref().unwrap_err().to_string();
    assert!(text.contains("belongs to another cluster"), "{text}");
}
