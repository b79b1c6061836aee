//! Connections: which frames they carry, in how many writes, and when.

use zerohop_session::{Coalescing, Collect, Reply, SessionError};
use zerohop_wire::{Failure, Features, FrameKind};

use crate::support::server::{FakeCluster, PARTITIONS};
use crate::support::{
    KEYSPACE, NetworkFaultRates, SessionWorld, append, count, insert, keys_of, lookup, world, world_with,
};

#[test]
fn operations_of_one_turn_take_one_socket_write() {
    let mut world = world(1);
    world.submit(lookup("warm"));
    world.run_until_idle();
    let before = world.writes;
    for at in 0..100 {
        world.submit(lookup(&format!("key-{at}")));
    }
    world.run_until_idle();
    assert_eq!(world.writes - before, 1);
    assert_eq!(count(&world, FrameKind::Lookup), 101);
}

#[test]
fn collected_operations_are_batched_per_partition() {
    let mut world = world(1);
    world.submit(append("warm", "v"));
    world.run_until_idle();
    let (one, other) = (keys_of(&world, 1, 3), keys_of(&world, 2, 1));
    let collecting = Coalescing::Within(Collect { delay_us: 1000, bytes: 1 << 20 });
    let (start, writes) = (world.now, world.writes);
    let mut tokens = vec![world.submit(append(&one[0], "v").collecting(collecting))];
    world.run_until(start.after_us(500));
    tokens.push(world.submit(append(&other[0], "v").collecting(collecting)));
    tokens.push(world.submit(lookup(&one[0]).collecting(collecting)));
    tokens.push(world.submit(append(&one[1], "v").collecting(collecting)));
    world.run_until(start.after_us(999));
    assert_eq!(world.writes, writes);
    world.run_until_idle();
    assert_eq!(world.writes, writes + 1);
    assert_eq!(world.now.since_us(start), 1100);
    assert!(tokens.iter().all(|token| world.result(*token).is_ok()));
    assert!(
        matches!(world.result(tokens[2]), Ok(Reply::List { length: 1, .. })),
        "order is kept in a partition"
    );
    assert_eq!((count(&world, FrameKind::Batch), count(&world, FrameKind::Append)), (1, 2));
}

#[test]
fn large_collected_batch_is_sent_early() {
    let mut world = world(1);
    world.submit(append("warm", "v"));
    world.run_until_idle();
    let collecting = Coalescing::Within(Collect { delay_us: 1_000_000, bytes: 1000 });
    let start = world.now;
    for _ in 0..20 {
        world.submit(append("k", &"v".repeat(40)).collecting(collecting));
    }
    world.run_until_idle();
    assert!(world.now.since_us(start) < 1000);
    assert_eq!(count(&world, FrameKind::Batch), 1);
}

#[test]
fn request_can_skip_batch_delay_of_keyspace() {
    let mut cluster = FakeCluster::new(1, 1);
    let mut config = cluster.map.keyspace(KEYSPACE).unwrap().config().clone();
    config.batch_delay_us = 2000;
    cluster.change(vec![zerohop_placement::MapChange::AlterKeyspace { id: KEYSPACE, config }]);
    let mut world = SessionWorld::new(1, cluster, |_| {});
    world.submit(lookup("warm"));
    world.run_until_idle();
    let start = world.now;
    world.submit(lookup("k").collecting(Coalescing::Never));
    world.run_until_idle();
    assert_eq!(world.now.since_us(start), 100);
    world.submit(lookup("k"));
    world.run_until_idle();
    assert_eq!(world.now.since_us(start), 2200);
}

#[test]
fn attempts_to_connect_are_spaced_out() {
    let mut world = world(1);
    world.submit(lookup("warm"));
    world.run_until_idle();
    world.cluster.down = vec!["i0:7401".to_owned()];
    world.reset_all();
    let before = world.connects.len();
    world.submit(lookup("k"));
    world.run_until_idle();
    let attempts = world.connects.len() - before;
    assert!((8..60).contains(&attempts), "{attempts} attempts in ten seconds");
}

#[test]
fn silent_connection_is_pinged_then_closed() {
    let mut world = world_with(1, |settings| settings.attempt_us = 60_000_000);
    world.submit(lookup("k"));
    world.run_until_idle();
    let connects = world.connects.len();
    world.faults = NetworkFaultRates { lose: 1000, ..NetworkFaultRates::default() };
    let token = world.submit(lookup("k"));
    world.run_ms(150);
    assert_eq!((count(&world, FrameKind::Ping), world.connects.len()), (1, connects));
    world.faults = NetworkFaultRates::default();
    world.run_until_idle();
    assert_eq!(world.result(token), &Err(SessionError::Answer { failure: Failure::NotFound }));
    assert_eq!(world.connects.len(), connects + 1);
}

#[test]
fn no_more_frames_are_in_flight_than_the_window_has() {
    let mut world = world_with(1, |settings| settings.window_frames = 4);
    world.submit(lookup("warm"));
    world.run_until_idle();
    let before = count(&world, FrameKind::Lookup);
    let tokens: Vec<usize> = (0..50).map(|_| world.submit(lookup("k"))).collect();
    world.run_turn();
    assert_eq!(count(&world, FrameKind::Lookup) - before, 4);
    world.run_until_idle();
    assert!(tokens.iter().all(|token| world.results[*token].is_some()));
    assert_eq!(count(&world, FrameKind::Lookup) - before, 50);
}

#[test]
fn least_recently_used_connection_is_closed() {
    let mut world = world_with(PARTITIONS, |settings| settings.connections_max = 3);
    for round in 0..3 {
        for partition in 0..PARTITIONS {
            let key = &keys_of(&world, partition, 1)[0];
            let token = world.submit(append(key, &round.to_string()));
            world.run_until_idle();
            assert!(world.result(token).is_ok());
        }
    }
    // All at once: each waits for a connection, and all are sent.
    let keys: Vec<String> = (0..PARTITIONS).map(|at| keys_of(&world, at, 1)[0].clone()).collect();
    let tokens: Vec<usize> = keys.iter().map(|key| world.submit(append(key, "all"))).collect();
    world.run_until_idle();
    assert!(tokens.iter().all(|token| world.result(*token).is_ok()));
}

#[test]
fn large_values_are_sent_without_copy() {
    let mut world = world_with(1, |settings| settings.body_checksum = false);
    let value: Vec<u8> = (0..100_000u32).map(|at| at as u8).collect();
    let written = world.submit(insert("k", &value));
    world.run_until_idle();
    assert!(world.result(written).is_ok());
    let found = world.submit(lookup("k"));
    world.run_until_idle();
    assert!(matches!(world.result(found), Ok(Reply::Value { bytes, .. }) if bytes[..] == value));
}

#[test]
fn bodies_are_compressed_if_both_sides_can() {
    for (features, shorter) in [(Features::LZ4, true), (Features(0), false)] {
        let mut cluster = FakeCluster::new(1, 1);
        cluster.features = features;
        let mut world = SessionWorld::new(1, cluster, |settings| settings.compress_from_bytes = Some(1024));
        world.sent = Some(Vec::new());
        let token = world.submit(insert("k", &[7; 10_000]));
        world.run_until_idle();
        assert!(world.result(token).is_ok());
        let longest = world.sent.as_ref().unwrap().iter().map(|frame| frame.bytes.len()).max();
        assert_eq!(longest < Some(2000), shorter, "{longest:?}");
    }
}
