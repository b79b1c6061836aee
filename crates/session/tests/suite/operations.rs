//! The results of operations: sequence numbers, sessions, deadlines, limits.

use std::collections::BTreeSet;

use zerohop_session::{AttemptFailure, Coalescing, Collect, Reply, SessionError, WaitReason};
use zerohop_wire::blob::BlobStamp;
use zerohop_wire::ids::{SessionId, Timestamp};
use zerohop_wire::messages::{Append, BlobChange, Increment, Query, Take, Wait, WaitUntil, WriteChange};
use zerohop_wire::{DecodeResult, Decoder, Elements, Failure, FrameKind};

use crate::support;
use crate::support::{
    LIMIT_US, NetworkFaultRates, append, append_within, count, insert, keys_of, lookup, read, stamps, world,
    world_with, write,
};

#[test]
fn a_write_opens_a_session_once_and_numbers_per_partition() {
    let mut world = world(1);
    let (one, other) = (keys_of(&world, 1, 1), keys_of(&world, 2, 1));
    for key in [&one[0], &one[0], &other[0], &one[0]] {
        world.submit(append(key, "v"));
    }
    world.run_until_idle();
    assert_eq!((count(&world, FrameKind::SessionOpen), world.cluster.sessions_opened), (1, 1));
    let numbers: Vec<u64> = stamps(&world).iter().map(|stamp| stamp.sequence.0).collect();
    assert_eq!(numbers, [1, 2, 1, 3]);
    assert!(stamps(&world).iter().all(|stamp| stamp.lowest_unanswered.0 == 1));
    world.submit(append(&one[0], "v"));
    world.run_until_idle();
    let last = *stamps(&world).last().unwrap();
    assert_eq!((last.sequence.0, last.lowest_unanswered.0), (4, 4));
    assert!(last.seen > Timestamp(0), "versions of answers are carried along");
}

#[test]
fn write_is_retried_under_its_number_after_reset() {
    let mut world = world(1);
    world.submit(append("k", "first"));
    world.run_until_idle();
    let token = world.submit(append("k", "v"));
    world.run_turn();
    world.reset_all();
    world.run_until_idle();
    assert!(world.result(token).is_ok());
    assert_eq!(world.cluster.count("k", "v"), 1);
    let numbers: Vec<u64> = stamps(&world).iter().map(|stamp| stamp.sequence.0).collect();
    assert_eq!(numbers, [1, 2, 2]);
}

#[test]
fn lost_answer_is_retried_and_write_applied_once() {
    let mut world = world(1);
    world.submit(append("k", "first"));
    world.run_until_idle();
    let token = world.submit(append("k", "v"));
    world.run_turn();
    world.faults = NetworkFaultRates { lose: 1000, ..NetworkFaultRates::default() };
    world.run_ms(10);
    world.faults = NetworkFaultRates::default();
    world.run_until_idle();
    assert_eq!(world.result(token).as_ref().ok(), world.result(token).as_ref().ok());
    assert!(matches!(world.result(token), Ok(Reply::Done { number: 2, .. })), "{:?}", world.result(token));
    assert_eq!((world.cluster.count("k", "v"), stamps(&world).len()), (1, 3));
}

#[test]
fn expired_session_is_replaced_and_unsent_work_retried() {
    let mut world = world(1);
    world.submit(append("k", "first"));
    world.run_until_idle();
    world.cluster.clear_sessions(world.cluster.partition_of("k"));
    let token = world.submit(append("k", "v"));
    world.run_until_idle();
    assert!(world.result(token).is_ok());
    assert_eq!((world.cluster.count("k", "v"), world.cluster.sessions_opened), (1, 2));
    let sessions: Vec<SessionId> = stamps(&world).iter().map(|stamp| stamp.session).collect();
    assert!(sessions[0] == sessions[1] && sessions[1] != sessions[2]);
    assert_eq!(stamps(&world)[2].sequence.0, 1);
}

#[test]
fn write_in_doubt_with_expired_session_is_unknown_and_not_retried() {
    let mut world = world(1);
    world.submit(append("k", "first"));
    world.run_until_idle();
    let token = world.submit(append("k", "v"));
    world.run_turn();
    world.faults = NetworkFaultRates { lose: 1000, ..NetworkFaultRates::default() };
    world.run_ms(10);
    world.faults = NetworkFaultRates::default();
    world.cluster.clear_sessions(world.cluster.partition_of("k"));
    world.run_until_idle();
    let Err(SessionError::Unknown { why }) = world.result(token) else { panic!("{:?}", world.result(token)) };
    assert!(matches!(**why, AttemptFailure::Answered { failure: Failure::SessionExpired { .. } }), "{why:?}");
    assert_eq!(world.cluster.count("k", "v"), 1);
}

#[test]
fn session_is_renewed_before_it_may_expire() {
    let mut world = world(1);
    world.cluster.idle_ms = 1000;
    for _ in 0..4 {
        let token = world.submit(append("k", "v"));
        world.run_until_idle();
        assert!(world.result(token).is_ok());
        world.run_ms(5000);
        world.cluster.clear_sessions(world.cluster.partition_of("k"));
    }
    assert_eq!((world.cluster.sessions_opened, stamps(&world).len()), (4, 4));
}

#[test]
fn a_refusal_is_final_but_leaves_the_doubt_of_an_earlier_attempt() {
    let mut world = world(1);
    world.cluster.script.push_back((false, Failure::DiskFull));
    let refused = world.submit(append("k", "a"));
    world.run_until_idle();
    assert_eq!(world.result(refused), &Err(SessionError::Answer { failure: Failure::DiskFull }));
    world.cluster.script.push_back((true, Failure::TimedOut { version: Timestamp(0) }));
    world.cluster.script.push_back((false, Failure::DiskFull));
    let unknown = world.submit(append("k", "b"));
    world.run_until_idle();
    assert!(
        matches!(world.result(unknown), Err(SessionError::Unknown { .. })),
        "{:?}",
        world.result(unknown)
    );
    assert_eq!(world.cluster.count("k", "b"), 1);
}

#[test]
fn refusal_that_the_operation_declares_ends_the_doubt_of_an_earlier_attempt() {
    let too_long = Failure::ValueTooLong { length: 1 << 20, limit: 1 << 16 };
    let too_many = Failure::TooMany { count: 5000, limit: 4096 };
    let stale = Failure::StaleBlob { known: BlobStamp { id: 7, generation: 2 } };
    let cut = WriteChange::Blob(BlobChange::Truncate { stamp: BlobStamp { id: 7, generation: 1 }, size: 0 });
    let take = WriteChange::Take(Take);
    let values = [&b"v"[..]];
    let append = WriteChange::Append(Append { values: Elements::from_slice(&values) });
    for (change, failure, is_final) in [
        (take, &too_long, true),
        (take, &too_many, true),
        (append, &too_long, true),
        (cut, &stale, true),
        (cut, &Failure::NeedHeader, true),
        // No evaluation of it has this result: the frame was refused, before anything was looked up.
        (append, &too_many, false),
        (take, &Failure::DiskFull, false),
    ] {
        let mut world = world(1);
        world.cluster.script.push_back((false, Failure::TimedOut { version: Timestamp(0) }));
        world.cluster.script.push_back((false, failure.clone()));
        let token = world.submit(write("k", change));
        world.run_until_idle();
        let result = world.result(token);
        let answer = Err(SessionError::Answer { failure: failure.clone() });
        assert_eq!(*result == answer, is_final, "{change:?}: {result:?}");
        assert_eq!(matches!(result, Err(SessionError::Unknown { .. })), !is_final, "{change:?}: {result:?}");
    }
}

#[test]
fn busy_waits_as_long_as_the_server_requests() {
    let mut world = world(1);
    world.submit(lookup("k"));
    world.run_until_idle();
    world.cluster.script.push_back((false, Failure::Busy { retry_after_ms: 40 }));
    let start = world.now;
    let token = world.submit(lookup("k"));
    world.run_until_idle();
    assert_eq!(world.result(token), &Err(SessionError::Answer { failure: Failure::NotFound }));
    assert!((20_000..41_000).contains(&world.now.since_us(start)));
}

#[test]
fn deadline_error_names_wait_reason_and_last_failure() {
    let mut world = world(1);
    world.cluster.down = vec!["m0:7400".to_owned()];
    let token = world.submit(lookup("k"));
    world.run_until_idle();
    let Err(
        error
        @ SessionError::Deadline { waiting: WaitReason::Map, last: Some(_), waited_us, unreached: None },
    ) = world.result(token)
    else {
        panic!("{:?}", world.result(token));
    };
    assert_eq!(*waited_us, LIMIT_US);
    let text = error.to_string();
    assert!(
        text.contains("10000 ms") && text.contains("cluster's map") && text.contains("m0:7400"),
        "{text}"
    );

    world.cluster.down = vec!["i0:7401".to_owned()];
    let token = world.submit(append("k", "v"));
    world.run_until_idle();
    let text = world.result(token).as_ref().unwrap_err().to_string();
    assert!(text.contains("a connection to i0:7401") && text.contains("connection refused"), "{text}");
    let partition = world.cluster.partition_of("k");
    let beginning = format!("partition {partition} of keyspace \"");
    assert!(
        text.starts_with(&beginning) && text.contains("\" has no reachable primary (the map of epoch "),
        "{text}"
    );
    assert!(text.contains("node 1 at i0:7401") && text.contains("`zerohop status`"), "{text}");

    // A primary that answers is reachable, also where it does nothing.
    world.cluster.down = Vec::new();
    world.cluster.busy = 1000;
    let token = world.submit(lookup("k"));
    world.run_until_idle();
    let text = world.result(token).as_ref().unwrap_err().to_string();
    assert!(text.contains("not done after") && !text.contains("reachable"), "{text}");
}

#[test]
fn servers_that_do_not_run_are_tried_in_rounds_with_pauses() {
    let mut world = world(3);
    world.submit(lookup("k"));
    world.run_until_idle();
    let servers: BTreeSet<String> =
        (0..3).flat_map(|n| [format!("m{n}:7400"), format!("i{n}:7401")]).collect();
    world.cluster.down = servers.iter().cloned().collect();
    world.reset_all();
    let before = world.connects.len();
    let token = world.submit(append("k", "v"));
    world.run_until_idle();
    assert!(world.result(token).is_err());
    let connects = &world.connects[before..];
    // Ten seconds in rounds of six servers, with pauses of 50 to 100 ms between them.
    assert!((60..1_500).contains(&connects.len()), "{} connections", connects.len());
    let tried: BTreeSet<String> = connects.iter().cloned().collect();
    assert!(tried.is_subset(&servers) && tried.len() >= 4, "{tried:?}");
    // The first one that runs again is found within a pause.
    world.cluster.down = Vec::new();
    let token = world.submit(append("k", "v"));
    world.run_until_idle();
    assert!(world.result(token).is_ok(), "{:?}", world.result(token));
}

#[test]
fn writes_beyond_the_session_window_wait_for_their_partition() {
    let mut world = world_with(1, |settings| settings.window_frames = 1 << 20);
    let collecting = Coalescing::Within(Collect { delay_us: 0, bytes: 1 << 20 });
    let tokens: Vec<usize> = (0..20_000)
        .map(|_| {
            world.submit(write("k", WriteChange::Increment(Increment { delta: 1 })).collecting(collecting))
        })
        .collect();
    world.run_until_idle();
    assert!(tokens.iter().all(|token| world.result(*token).is_ok()));
    assert!(stamps(&world).iter().all(|stamp| stamp.sequence.0 - stamp.lowest_unanswered.0 <= 16_384));
    assert!(matches!(world.result(tokens[19_999]), Ok(Reply::Counter { value: 20_000, .. })));
}

#[test]
fn more_operations_than_allowed_are_refused_at_once() {
    let mut world =
        world_with(1, |settings| (settings.operations_max, settings.operation_bytes_max) = (2, 1000));
    let large = world.submit(insert("k", &[7; 3000]));
    let bytes = world.submit(lookup("k"));
    world.run_turn();
    assert_eq!(world.result(bytes), &Err(SessionError::TooManyBytes { limit: 1000 }));
    world.run_until_idle();
    assert!(world.result(large).is_ok());
    world.submit(lookup("k"));
    world.submit(lookup("k"));
    let third = world.submit(lookup("k"));
    world.run_turn();
    assert_eq!(world.result(third), &Err(SessionError::TooManyOperations { limit: 2 }));
}

#[test]
fn wait_carries_its_time_out_and_is_not_retried() {
    let mut world = world(1);
    world.faults.delay_us = 0;
    world.submit(lookup("k"));
    world.run_until_idle();
    world.cluster.script.push_back((false, Failure::TimedOut { version: Timestamp(5) }));
    let token = world.submit(read("k", Query::Wait(Wait { until: WaitUntil::Present })));
    world.run_until_idle();
    let failure = Failure::TimedOut { version: Timestamp(5) };
    assert_eq!(world.result(token), &Err(SessionError::Answer { failure }));
    let frames = world.sent.as_ref().unwrap();
    let DecodeResult::Frame { frame, .. } =
        Decoder::with_version(zerohop_wire::limits::VERSION_MAX, support::FEATURES)
            .decode(&frames.last().unwrap().bytes)
    else {
        panic!()
    };
    assert_eq!((frame.kind, frame.envelope.time_out_ms), (FrameKind::Wait, 10_000));
}

#[test]
fn expired_unsent_operations_do_not_block_later_ones() {
    let mut world = world(1);
    world.cluster.down = vec!["i0:7401".to_owned()];
    let last = append_within("k", "v", 1000);
    for _ in 0..20_000 {
        world.submit(last.clone());
        world.run_until(world.now.after_us(500));
    }
    world.run_until_idle();
    assert!(world.results.iter().all(|result| matches!(result, Some(Err(SessionError::Deadline { .. })))));
    world.cluster.down.clear();
    let token = world.submit(append("k", "v"));
    world.run_until_idle();
    assert!(world.result(token).is_ok());
    assert_eq!(world.cluster.count("k", "v"), 1);
}

#[test]
fn shutdown_ends_all_operations_immediately() {
    let mut world = world(1);
    world.submit(lookup("warm"));
    world.run_until_idle();
    let (read, write) = (world.submit(lookup("k")), world.submit(append("k", "v")));
    world.run_turn();
    world.session.shut_down(world.now);
    let late = world.submit(lookup("k"));
    world.run_turn();
    assert_eq!(world.result(read), &Err(SessionError::Closed));
    // It waited for a session, so that it was never sent.
    assert_eq!(world.result(write), &Err(SessionError::Closed));
    assert_eq!(world.result(late), &Err(SessionError::Closed));
    assert_eq!(world.session.outstanding(), 0);
}
