//! Coalesced frames: which requests share a frame, and that each is answered, redirected and
//! retried separately.

use zerohop_session::{Coalescing, Collect, Reply, SessionRequest};
use zerohop_wire::ids::{InstanceId, PartitionId};
use zerohop_wire::messages::{Insert, Query, RecordOperation, RecordRead, Wait, WaitUntil};
use zerohop_wire::{Failure, FrameKind};

use crate::support::server::ServerRecord;
use crate::support::*;

const TOGETHER: Coalescing = Coalescing::Within(Collect { delay_us: 0, bytes: 1 << 20 });

/// A world whose session is open and has a connection to every instance.
fn ready(instances: u32) -> SessionWorld {
    let mut world = world(instances);
    world.cluster.features = FEATURES;
    for partition in 0..server::PARTITIONS {
        world.submit(append(&keys_of(&world, partition, 1)[0].clone(), "first"));
    }
    world.run_until_idle();
    world.sent = Some(Vec::new());
    world
}

/// One key of each partition.
fn a_key_each(world: &SessionWorld) -> Vec<String> {
    (0..server::PARTITIONS).map(|partition| keys_of(world, partition, 1)[0].clone()).collect()
}

fn append_each(world: &mut SessionWorld, value: &str, collecting: Coalescing) -> Vec<usize> {
    let keys = a_key_each(world);
    keys.iter().map(|key| world.submit(append(key, value).collecting(collecting))).collect()
}

fn assert_done(world: &SessionWorld, tokens: &[usize], value: &str) {
    for token in tokens {
        assert!(matches!(world.result(*token), Ok(Reply::Done { .. })), "{:?}", world.result(*token));
    }
    for key in a_key_each(world) {
        assert_eq!(world.cluster.count(&key, value), 1, "{key}");
    }
}

#[test]
fn operations_for_one_instance_share_a_frame() {
    let mut world = ready(1);
    let tokens = append_each(&mut world, "together", TOGETHER);
    world.run_until_idle();
    assert_done(&world, &tokens, "together");
    assert_eq!(kinds(&world), [(FrameKind::Gather, "i0:7401".to_owned())]);
    let stamps = stamps(&world);
    assert_eq!(stamps.len(), server::PARTITIONS as usize);
    assert!(stamps.iter().all(|stamp| stamp.sequence.0 == 2), "each partition numbers by itself: {stamps:?}");
}

#[test]
fn each_instance_gets_one_frame_with_its_operations() {
    let mut world = ready(2);
    let tokens = append_each(&mut world, "together", TOGETHER);
    world.run_until_idle();
    assert_done(&world, &tokens, "together");
    assert_eq!(count(&world, FrameKind::Gather), 2);
    assert_eq!(kinds(&world).len(), 2);
}

#[test]
fn operations_of_one_turn_share_a_frame_without_batch_delay() {
    let mut world = ready(1);
    let tokens = append_each(&mut world, "now", Coalescing::Never);
    world.run_until_idle();
    assert_done(&world, &tokens, "now");
    assert_eq!(kinds(&world), [(FrameKind::Gather, "i0:7401".to_owned())]);
}

#[test]
fn single_operation_or_batch_is_not_coalesced() {
    let mut world = ready(1);
    let keys = keys_of(&world, 3, 5);
    world.submit(append(&keys[0], "alone"));
    world.run_until_idle();
    for key in &keys {
        world.submit(insert(key, b"value").collecting(TOGETHER));
    }
    world.run_until_idle();
    let kinds: Vec<FrameKind> = kinds(&world).into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(kinds, [FrameKind::Append, FrameKind::Batch]);
}

#[test]
fn operations_on_one_partition_form_one_batch_in_frame() {
    let mut world = ready(1);
    let keys: Vec<String> = (0..3).flat_map(|partition| keys_of(&world, partition, 4)).collect();
    let mut tokens = Vec::new();
    for key in &keys {
        tokens.push(world.submit(write(key, change(key)).collecting(TOGETHER)));
    }
    for key in &keys {
        tokens.push(world.submit(lookup(key).collecting(TOGETHER)));
    }
    world.run_until_idle();
    for token in tokens {
        assert!(world.result(token).is_ok(), "{:?}", world.result(token));
    }
    assert_eq!(kinds(&world), [(FrameKind::Gather, "i0:7401".to_owned())]);
    assert_eq!(stamps(&world).len(), 3);
}

fn change(value: &str) -> zerohop_wire::messages::WriteChange<'_> {
    zerohop_wire::messages::WriteChange::Insert(Insert {
        value: value.as_bytes(),
        expiry: zerohop_wire::messages::Expiry::Never,
    })
}

#[test]
fn long_operation_gets_its_own_frame() {
    let mut world = ready(1);
    let keys = a_key_each(&world);
    let long = vec![7; 40_000];
    let tokens: Vec<usize> = (0..8)
        .map(|at| match at {
            3 => world.submit(insert("long", &long)),
            _ => world.submit(append(&keys[at], "short")),
        })
        .collect();
    world.run_until_idle();
    for token in tokens {
        assert!(world.result(token).is_ok(), "{:?}", world.result(token));
    }
    assert_eq!(world.cluster.record("long"), Some(ServerRecord::Bytes(long)));
    let kinds: Vec<FrameKind> = kinds(&world).into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(kinds, [FrameKind::Gather, FrameKind::Insert, FrameKind::Gather]);
}

#[test]
fn wait_gets_its_own_frame() {
    let mut world = ready(1);
    let keys = a_key_each(&world);
    let query = Query::Wait(Wait { until: WaitUntil::Present });
    let operation = RecordOperation::Read(RecordRead { key: keys[1].as_bytes(), query });
    world.submit(lookup(&keys[0]));
    world.submit(SessionRequest::record(KEYSPACE, &operation, 5_000).unwrap());
    world.submit(lookup(&keys[2]));
    world.submit(lookup(&keys[3]));
    world.run_until_idle();
    let sent: Vec<FrameKind> = kinds(&world).into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(sent, [FrameKind::Gather, FrameKind::Wait, FrameKind::Gather]);
}

#[test]
fn server_without_support_gets_no_coalesced_frames() {
    let mut world = world(1);
    let tokens = append_each(&mut world, "plain", TOGETHER);
    world.run_until_idle();
    assert_done(&world, &tokens, "plain");
    assert_eq!((count(&world, FrameKind::Gather), count(&world, FrameKind::Append)), (0, 8));
}

#[test]
fn redirected_request_leaves_others_of_its_frame() {
    let mut world = ready(2);
    // One of the first instance's partitions has moved to the second; the session has an older map.
    world.cluster.move_to(PartitionId(2), InstanceId(2));
    let tokens = append_each(&mut world, "moved", TOGETHER);
    world.run_until_idle();
    assert_done(&world, &tokens, "moved");
    let kinds: Vec<FrameKind> = kinds(&world).into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(kinds, [FrameKind::Gather, FrameKind::Gather, FrameKind::Append]);
    let of_moved: Vec<_> = stamps(&world).into_iter().map(|stamp| stamp.sequence.0).collect();
    assert_eq!(of_moved, [2; 9], "it keeps its number");
}

#[test]
fn failed_request_of_frame_is_retried_alone_under_its_number() {
    let mut world = ready(1);
    world.cluster.script.push_back((false, Failure::Busy { retry_after_ms: 1 }));
    // The second request takes effect, though its answer is a time-out.
    world.cluster.script.push_back((true, Failure::TimedOut { version: Default::default() }));
    let tokens = append_each(&mut world, "again", TOGETHER);
    world.run_until_idle();
    assert_done(&world, &tokens, "again");
    assert_eq!(stamps(&world).len(), 10);
    assert!(stamps(&world).iter().all(|stamp| stamp.sequence.0 == 2));
}

#[test]
fn lost_connection_resends_its_frame_once() {
    let mut world = ready(1);
    let tokens = append_each(&mut world, "lost", TOGETHER);
    world.run_turn();
    world.reset_all();
    world.run_until_idle();
    assert_done(&world, &tokens, "lost");
}

#[test]
fn refused_frame_is_resent_and_applied_once() {
    let mut world = ready(1);
    world.faults.damage = 1000;
    let tokens = append_each(&mut world, "damaged", TOGETHER);
    world.run_turn();
    world.faults.damage = 0;
    world.run_until_idle();
    assert_done(&world, &tokens, "damaged");
}

#[test]
fn corrupt_answer_frame_closes_connection_and_repeats_no_write() {
    let mut world = ready(1);
    let connects = world.connects.len();
    let tokens = append_each(&mut world, "answers", TOGETHER);
    world.run_turn();
    world.faults.damage = 1000;
    // The frame arrives, and its answers are corrupted in the network.
    world.run_until(world.now.after_us(60));
    world.faults.damage = 0;
    world.run_until_idle();
    assert_done(&world, &tokens, "answers");
    assert_eq!(world.connects.len(), connects + 1);
}

#[test]
fn answers_in_a_shared_frame_reach_their_requests() {
    let mut world = ready(1);
    let names: Vec<String> = (0..50).map(|number| format!("name-{number}")).collect();
    for name in &names {
        world.submit(insert(name, name.as_bytes()));
    }
    world.run_until_idle();
    let tokens: Vec<usize> = names.iter().map(|name| world.submit(lookup(name))).collect();
    world.run_until_idle();
    for (token, name) in tokens.into_iter().zip(&names) {
        match world.result(token) {
            Ok(Reply::Value { bytes, .. }) => assert_eq!(bytes, name.as_bytes()),
            other => panic!("{name}: {other:?}"),
        }
    }
}
