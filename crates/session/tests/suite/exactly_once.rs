//! Under every fault, by seed: an acknowledged operation took effect exactly once, one with an
//! unknown outcome at most once, and a refused one not at all.

#![expect(clippy::unwrap_used, reason = "a test; the lint spares only functions marked as such")]

use proptest::prelude::*;
use zerohop_base::time::Time;
use zerohop_session::{Coalescing, Collect, Reply, SessionError};
use zerohop_wire::ids::{InstanceId, PartitionId};
use zerohop_wire::messages::{Increment, WriteChange};

use crate::support;
use crate::support::random::Random;
use crate::support::server::{FakeCluster, ServerRecord};
use crate::support::{NetworkFaultRates, SessionWorld, append_within, lookup, write};

const INSTANCES: u32 = 3;
const KEYS: u64 = 12;
/// The number of partitions at which splits end.
const PARTITIONS_MAX: usize = 64;

enum WriteQuestion {
    Append { key: String, value: String },
    Increment { key: String },
    Lookup,
}

#[derive(Debug, Default)]
struct OutcomeCounts {
    done: usize,
    unknown: usize,
    failed: usize,
}

/// Runs one world to its end and checks every operation.
fn run_world(
    seed: u64,
    operations: u64,
    faults: NetworkFaultRates,
    adjust: impl FnOnce(&mut FakeCluster),
) -> OutcomeCounts {
    let mut cluster = FakeCluster::new(INSTANCES, seed);
    adjust(&mut cluster);
    if !seed.is_multiple_of(3) {
        cluster.features = support::FEATURES;
    }
    let mut world = SessionWorld::new(seed, cluster, |settings| settings.window_frames = 16);
    world.faults = faults;
    let mut draw = Random::new(seed ^ 0xd);
    let mut questions = Vec::new();
    for number in 0..operations {
        let key = draw.below(KEYS);
        let limit_us = if draw.chance(100) { 20_000 } else { 4_000_000 };
        let (what, request) = match draw.below(10) {
            0..6 => {
                let (key, value) = (format!("list-{key}"), format!("v{number}"));
                let request = append_within(&key, &value, limit_us);
                (WriteQuestion::Append { key, value }, request)
            }
            6..8 => {
                let key = format!("counter-{key}");
                let request = write(&key, WriteChange::Increment(Increment { delta: 1 }));
                (WriteQuestion::Increment { key }, request)
            }
            _ => (WriteQuestion::Lookup, lookup(&format!("list-{key}"))),
        };
        let collecting = match draw.below(3) {
            0 => Coalescing::Never,
            1 => Coalescing::AsKeyspace,
            _ => Coalescing::Within(Collect { delay_us: draw.below(2000) as u32, bytes: 500 }),
        };
        world.submit(request.collecting(collecting));
        questions.push(what);
        if draw.chance(300) {
            world.run_until(Time(world.now.0 + draw.below(3000)));
        }
        if draw.chance(20) {
            let to = InstanceId(1 + draw.below(u64::from(INSTANCES)) as u32);
            world.cluster.move_to(PartitionId(draw.below(8) as u32), to);
        }
        if draw.chance(10) && world.cluster.partitions.len() < PARTITIONS_MAX {
            world.cluster.split();
        }
        if draw.chance(5) {
            world.reset_all();
        }
    }
    world.run_until_idle();
    // Delivers all messages that are still in flight.
    world.run_ms(60_000);
    check(&world, &questions, seed)
}

fn check(world: &SessionWorld, questions: &[WriteQuestion], seed: u64) -> OutcomeCounts {
    let mut tally = OutcomeCounts::default();
    let mut counters = std::collections::BTreeMap::<&str, (i64, i64)>::new();
    for (token, what) in questions.iter().enumerate() {
        let result = world.result(token);
        match result {
            Ok(_) => tally.done += 1,
            Err(SessionError::Unknown { .. }) => tally.unknown += 1,
            Err(_) => tally.failed += 1,
        }
        let range = match result {
            Ok(_) => 1..=1,
            Err(SessionError::Unknown { .. }) => 0..=1,
            // The refusal of one copy of a frame says nothing about another copy; real connections
            // do not repeat frames.
            Err(_) => 0..=usize::from(world.faults.repeat > 0),
        };
        match what {
            WriteQuestion::Append { key, value } => {
                let times = world.cluster.count(key, value);
                assert!(
                    range.contains(&times),
                    "seed {seed}: {value} is there {times} times after {result:?}"
                );
            }
            WriteQuestion::Increment { key } => {
                let (least, most) = counters.entry(key).or_default();
                *least += *range.start() as i64;
                *most += *range.end() as i64;
            }
            WriteQuestion::Lookup => {
                assert!(!matches!(result, Err(SessionError::Unknown { .. })), "seed {seed}: {result:?}")
            }
        }
    }
    for (key, (least, most)) in counters {
        let value: i64 = match world.cluster.record(key) {
            Some(ServerRecord::Bytes(text)) => String::from_utf8(text).unwrap().parse().unwrap(),
            None => 0,
            other => panic!("a counter is bytes, not {other:?}"),
        };
        assert!((least..=most).contains(&value), "seed {seed}: {key} is {value}, not {least} to {most}");
    }
    tally
}

fn faults() -> impl Strategy<Value = NetworkFaultRates> {
    let some = |most: u64| prop_oneof![Just(0), 0..most];
    (some(100), some(100), some(30), some(300), some(50), prop_oneof![Just(0), 0..100u64, 0..80_000u64])
        .prop_map(|(lose, repeat, reset, refuse_connection, damage, delay_us)| NetworkFaultRates {
            lose,
            repeat,
            reset,
            refuse_connection,
            damage,
            delay_us,
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn acknowledged_writes_are_applied_once_and_others_at_most_once(
        seed: u64,
        mut faults in faults(),
        (busy, time_out, without_delta) in (prop_oneof![Just(0), 0..100u64], 0..50u64, 0..1000u64),
    ) {
        if busy > 0 {
            // `Busy` says that the frame was not processed; with repeated frames another copy could
            // be.
            faults.repeat = 0;
        }
        run_world(seed, 150, faults, |cluster| {
            (cluster.busy, cluster.time_out, cluster.without_delta) = (busy, time_out, without_delta);
        });
    }

    /// A network that repeats frames can let a partition process a write and then forget its
    /// session before the copy arrives. Real connections do not repeat frames, so this test
    /// excludes repeats.
    #[test]
    fn expired_session_repeats_no_write(seed: u64, faults in faults(), expire in 0..60u64, idle_ms in 0..100u32) {
        run_world(seed, 150, NetworkFaultRates { repeat: 0, ..faults }, |cluster| {
            (cluster.expire, cluster.idle_ms) = (expire, idle_ms);
        });
    }
}

#[test]
fn operations_succeed_without_faults() {
    for seed in 0..20 {
        let tally = run_world(seed, 300, NetworkFaultRates::default(), |_| {});
        // Resets and moves are a part of every world; operations with a limit of 20 ms may fail
        // because of them.
        assert!(tally.done >= 285 && tally.failed + tally.unknown <= 15, "seed {seed}: {tally:?}");
    }
}

#[test]
fn most_operations_outlive_the_faults() {
    let faults =
        NetworkFaultRates { lose: 20, repeat: 0, reset: 5, refuse_connection: 50, damage: 10, delay_us: 500 };
    let mut all = OutcomeCounts::default();
    for seed in 0..20 {
        let tally = run_world(seed, 300, faults, |cluster| cluster.busy = 20);
        all.done += tally.done;
        all.unknown += tally.unknown;
        all.failed += tally.failed;
    }
    assert!(all.done > 5200, "{all:?}");
    assert!(all.unknown > 0, "the faults leave no doubt: they are too weak to show anything: {all:?}");
}

#[test]
fn same_seed_replays_identically() {
    let run = || {
        let mut world = SessionWorld::new(5, FakeCluster::new(INSTANCES, 5), |_| {});
        world.faults =
            NetworkFaultRates { lose: 50, reset: 10, delay_us: 900, ..NetworkFaultRates::default() };
        world.sent = Some(Vec::new());
        for number in 0..200 {
            world.submit(append_within("list", &number.to_string(), 4_000_000));
            world.run_until(Time(world.now.0 + 300));
        }
        world.run_until_idle();
        let replies: Vec<Option<Reply>> = world.results.iter().map(|one| one.clone().unwrap().ok()).collect();
        let sent: Vec<Vec<u8>> = world.sent.unwrap().into_iter().map(|frame| frame.bytes).collect();
        (replies, sent)
    };
    assert_eq!(run(), run());
}
