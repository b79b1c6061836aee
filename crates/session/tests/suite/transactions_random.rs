//! Under every fault, by seed: a transaction takes effect once, as a whole, or not at all, and
//! values that are read together were true at one moment.

#![expect(clippy::unwrap_used, reason = "a test; the lint spares only functions marked as such")]

use proptest::prelude::*;
use zerohop_base::time::Time;
use zerohop_session::{CompositeItem, Reply, SessionError, SessionRequest};
use zerohop_wire::ids::{InstanceId, PartitionId};
use zerohop_wire::messages::{
    Append, Condition, Increment, Query, RecordOperation, RecordRead, RecordWrite, WriteChange,
};
use zerohop_wire::{AbortReason, Elements};

use crate::support::random::Random;
use crate::support::server::{FakeCluster, ServerRecord};
use crate::support::{FEATURES, KEYSPACE, NetworkFaultRates, SessionWorld};

const INSTANCES: u32 = 3;
const ACCOUNTS: u64 = 6;
const PARTITIONS_MAX: usize = 32;

enum TransferQuestion {
    /// Moves money between two accounts and appends its number to two lists.
    Transfer { number: String, lists: [String; 2] },
    /// Reads all accounts.
    Sum,
}

fn account(number: u64) -> String {
    format!("account-{number}")
}

fn add(key: &str, delta: i64) -> CompositeItem {
    let change = WriteChange::Increment(Increment { delta });
    let write = RecordWrite { key: key.as_bytes(), condition: Condition::Always, change };
    CompositeItem::new(KEYSPACE, &RecordOperation::Write(write), None).unwrap()
}

fn write_item(key: &str, value: &str) -> CompositeItem {
    let values = [value.as_bytes()];
    let change = WriteChange::Append(Append { values: Elements::from_slice(&values) });
    let write = RecordWrite { key: key.as_bytes(), condition: Condition::Always, change };
    CompositeItem::new(KEYSPACE, &RecordOperation::Write(write), None).unwrap()
}

fn read_item(key: &str) -> CompositeItem {
    CompositeItem::new(
        KEYSPACE,
        &RecordOperation::Read(RecordRead { key: key.as_bytes(), query: Query::Lookup }),
        None,
    )
    .unwrap()
}

fn transfer(draw: &mut Random, number: u64) -> (TransferQuestion, Vec<CompositeItem>) {
    let (from, to) = (draw.below(ACCOUNTS), draw.below(ACCOUNTS));
    let amount = 1 + draw.below(9) as i64;
    let lists = [format!("list-{}", draw.below(4)), format!("other-{}", draw.below(4))];
    let number = format!("t{number}");
    let items = vec![
        add(&account(from), -amount),
        write_item(&lists[0], &number),
        add(&account(to), amount),
        write_item(&lists[1], &number),
    ];
    (TransferQuestion::Transfer { number, lists }, items)
}

/// Runs one world to its end. Returns the errors found, and the number of operations that
/// succeeded.
fn run_world(
    seed: u64,
    operations: u64,
    faults: NetworkFaultRates,
    adjust: impl FnOnce(&mut FakeCluster),
) -> Result<usize, String> {
    let mut cluster = FakeCluster::new(INSTANCES, seed);
    adjust(&mut cluster);
    let mut world = SessionWorld::new(seed, cluster, |settings| settings.window_frames = 16);
    // The accounts exist before any fault: reads of absent records always become transactions.
    let opened: Vec<CompositeItem> = (0..ACCOUNTS).map(|at| add(&account(at), 0)).collect();
    world.submit(SessionRequest::transaction(opened, 4_000_000).unwrap());
    world.run_until_idle();
    world.faults = faults;
    let mut draw = Random::new(seed ^ 0x7a);
    let mut questions = Vec::new();
    for number in 0..operations {
        let limit_us = if draw.chance(100) { 20_000 } else { 4_000_000 };
        let (what, request) = if draw.chance(600) {
            let (what, items) = transfer(&mut draw, number);
            (what, SessionRequest::transaction(items, limit_us))
        } else {
            let items = (0..ACCOUNTS).map(|at| read_item(&account(at))).collect();
            (TransferQuestion::Sum, SessionRequest::read_many(items, limit_us))
        };
        world.submit(request.unwrap());
        questions.push(what);
        if draw.chance(700) {
            world.run_until(Time(world.now.0 + draw.below(600)));
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
    world.run_ms(60_000);
    check(&world, &questions)
}

fn check(world: &SessionWorld, questions: &[TransferQuestion]) -> Result<usize, String> {
    let mut done = 0;
    let results = world.results.iter().skip(1).flatten();
    for (what, result) in questions.iter().zip(results) {
        done += usize::from(result.is_ok());
        match what {
            TransferQuestion::Transfer { number, lists } => {
                let times = lists.each_ref().map(|list| world.cluster.count(list, number));
                let least = usize::from(result.is_ok());
                // The refusal of one copy of a frame says nothing about another copy; real
                // connections do not repeat frames.
                let in_doubt = matches!(result, Err(SessionError::Unknown { .. })) || world.faults.repeat > 0;
                let most = usize::from(result.is_ok() || in_doubt);
                if times[0] != times[1] || !(least..=most).contains(&times[0]) {
                    return Err(format!("{number} was done {times:?} times, after {result:?}"));
                }
                if let Ok(Reply::Transacted { answers, .. }) = result {
                    let kinds = answers.iter().map(|one| matches!(one, Ok(Reply::Counter { .. })));
                    if kinds.collect::<Vec<_>>() != [true, false, true, false] {
                        return Err(format!("{number} was answered out of order: {answers:?}"));
                    }
                }
            }
            TransferQuestion::Sum => match result {
                Ok(Reply::Many(answers)) => {
                    let value = |one: &Result<Reply, _>| match one {
                        Ok(Reply::Value { bytes, .. }) => {
                            String::from_utf8(bytes.to_vec()).unwrap().parse::<i64>().unwrap()
                        }
                        other => panic!("{other:?}"),
                    };
                    let sum: i64 = answers.iter().map(value).sum();
                    if sum != 0 {
                        return Err(format!("all accounts together hold {sum}"));
                    }
                }
                Err(SessionError::Unknown { .. }) => return Err("a read leaves doubt".to_owned()),
                _ => {}
            },
        }
    }
    let balances = (0..ACCOUNTS).map(|at| match world.cluster.record(&account(at)) {
        Some(ServerRecord::Bytes(text)) => String::from_utf8(text).unwrap().parse::<i64>().unwrap(),
        other => panic!("an account is bytes, not {other:?}"),
    });
    match balances.sum::<i64>() {
        0 => Ok(done),
        sum => Err(format!("in the end all accounts together hold {sum}")),
    }
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
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn transactions_are_atomic_and_applied_once(
        seed: u64,
        mut faults in faults(),
        (busy, time_out, without_delta) in (prop_oneof![Just(0), 0..100u64], 0..50u64, 0..1000u64),
        read_lock_settings in prop_oneof![Just(0), 0..1000u64, Just(1000)],
    ) {
        // Writes to locked records are answered as busy.
        if busy > 0 || read_lock_settings > 0 {
            faults.repeat = 0;
        }
        let played = run_world(seed, 60, faults, |cluster| {
            (cluster.busy, cluster.time_out, cluster.without_delta) = (busy, time_out, without_delta);
            (cluster.features, cluster.read_lock_settings) = (FEATURES, read_lock_settings);
        });
        prop_assert!(played.is_ok(), "{:?}", played);
    }

    #[test]
    fn expired_sessions_repeat_no_transaction(seed: u64, faults in faults(), expire in 0..60u64) {
        let played = run_world(seed, 60, NetworkFaultRates { repeat: 0, ..faults }, |cluster| cluster.expire = expire);
        prop_assert!(played.is_ok(), "{:?}", played);
    }
}

const QUIET: NetworkFaultRates =
    NetworkFaultRates { lose: 5, repeat: 0, reset: 2, refuse_connection: 0, damage: 0, delay_us: 300 };

#[test]
fn most_are_done_for_all_the_faults() {
    let mut done = 0;
    for seed in 0..10 {
        let adjust = |cluster: &mut FakeCluster| {
            cluster.commits.abort = vec![AbortReason::StagedGone, AbortReason::Misplaced].into();
        };
        done += run_world(seed, 100, QUIET, adjust).unwrap();
    }
    assert!(done > 850, "{done} of 1000");
}

/// A slow network: some answers arrive after their read lock has expired.
const SLOW: NetworkFaultRates = NetworkFaultRates { delay_us: 3_000, ..QUIET };

fn enable_read_locks(cluster: &mut FakeCluster) {
    (cluster.features, cluster.read_lock_settings) = (FEATURES, 900);
}

#[test]
fn read_locked_reads_are_consistent_despite_late_answers() {
    let done: usize = (0..40).map(|seed| run_world(seed, 100, SLOW, enable_read_locks).unwrap()).sum();
    assert!(done > 3_000, "{done} of 4000");
}

#[cfg(debug_assertions)]
#[test]
fn planted_bugs_are_found() {
    use zerohop_session::planted::{Bug, plant};
    for bug in Bug::OF_TRANSACTIONS {
        let (faults, adjust): (NetworkFaultRates, fn(&mut FakeCluster)) = match bug {
            Bug::ExpiredReadLockUsed => (SLOW, enable_read_locks),
            _ => (QUIET, |_| {}),
        };
        plant(Some(bug));
        let is_found = (0..40).any(|seed| run_world(seed, 100, faults, adjust).is_err());
        plant(None);
        assert!(is_found, "{bug:?} is not found");
    }
    assert!((0..40).all(|seed| run_world(seed, 100, QUIET, |_| {}).is_ok()));
    assert!((0..40).all(|seed| run_world(seed, 100, SLOW, enable_read_locks).is_ok()));
}
