//! A real node, killed with SIGKILL repeatedly under concurrent load, on the disk that keeps
//! unsynced bytes in memory: each kill is a power cut.
//!
//! ```text
//!   workers: write, wait while the node is down, look at all they wrote, write …
//!   here:    run for a while ──> "down", SIGKILL ──> start (sometimes killed while it recovers) ──> "up" …
//! ```
//!
//! The clients live through all kills, so that requests in flight are sent again under their
//! sequence numbers. After each kill every worker checks its keys. With `sync`, every acknowledged
//! write is there. With `interval`, every write is there that was acknowledged an interval before
//! the kill, plus a margin for a loaded machine, which grows with the recent slowness of its disk.
//! No value is there that was not written, and no increment or append happened twice. Some kills
//! come in the middle of a split.
//!
//! `ZEROHOP_KILLS=500` sets the number of kills, `ZEROHOP_KILL_SEED` the seed of their times.

mod disk_probe;
mod history;
mod node;
mod values;
mod workers;

use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use zerohop_client::{Client, ClientOptions};

use self::disk_probe::{Answers, DiskProbe};
use self::node::KilledNode;
use self::values::random;
use self::workers::{RecordWorker, Rules, Totals, WorkerKind};
use crate::support::GIVE_UP_AFTER;

/// The default number of kills.
const KILLS_DEFAULT: u64 = 40;

/// Kills of one node before it gets new data: a log that is read after each kill must not grow
/// without end.
const KILLS_OF_ONE_MAX: u64 = 100;

/// A keyspace is split just before every n-th kill: from 16 partitions to 32, 64, 128.
const SPLIT_EVERY: u64 = 5;
const SPLITS_MAX: u64 = 6;

/// The interval of the keyspace with interval durability.
const INTERVAL: Duration = Duration::from_millis(50);

/// How much later than the interval a node may sync if its disk is not slow.
const MARGIN: Duration = Duration::from_millis(700);

/// The disk of this test runs syncs in sequence, and up to 128 partitions may each have a new file
/// to be synced, and then the file's folder: this many of the slowest are allowed in addition.
const SLOW_SYNCS: u32 = 64;

/// A node that stalls answers no request meanwhile: this many of its slowest answers are allowed in
/// addition.
const SLOW_ANSWERS: u32 = 4;

/// Writes that are acknowledged between a start and the kill.
const WRITES_MIN: u64 = 20;

/// The workers' knowledge of the node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeAvailability {
    pub(crate) is_up: bool,
    /// The number of starts.
    pub(crate) starts: u64,
    /// The time just before the last kill.
    pub(crate) killed_at: Instant,
    /// How much later than its interval the node may have synced before that kill.
    pub(crate) late: Duration,
    /// The time at which it was known to serve again.
    pub(crate) up_at: Instant,
    pub(crate) is_over: bool,
}

#[test]
fn acknowledged_writes_survive_kills_and_apply_once() {
    let number = |name: &str, default: u64| {
        std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
    };
    let kills = number("ZEROHOP_KILLS", KILLS_DEFAULT);
    let seed = number("ZEROHOP_KILL_SEED", u64::from(std::process::id()));
    eprintln!("{kills} kills, ZEROHOP_KILL_SEED={seed}");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut totals = Totals::default();
    for first in (0..kills).step_by(KILLS_OF_ONE_MAX as usize) {
        let round = run(KILLS_OF_ONE_MAX.min(kills - first), seed.wrapping_add(first));
        totals.add(runtime.block_on(round));
    }
    eprintln!("{totals:?}");
    assert!(
        totals.acknowledged > WRITES_MIN * kills,
        "so little was written that the kills met nothing: {totals:?}"
    );
    assert!(totals.checked > kills, "so little was checked: {totals:?}");
}

async fn run(kills: u64, seed: u64) -> Totals {
    let folder = crate::support::folder();
    let probe = DiskProbe::start(folder.path());
    let mut node = KilledNode::start(folder.path()).await;
    let client = connect(&node).await;
    node.create_keyspace("careful", "sync");
    node.create_keyspace("quick", &format!("interval:{}ms", INTERVAL.as_millis()));
    let now = Instant::now();
    let (availability, receiver) = watch::channel(NodeAvailability {
        is_up: true,
        starts: 1,
        killed_at: now,
        late: MARGIN,
        up_at: now,
        is_over: false,
    });
    let answers = Answers::default();
    let (checked, mut reports) = mpsc::channel(256);
    let mut workers = JoinSet::new();
    for (name, rules) in [("careful", Rules::All), ("quick", Rules::Before(INTERVAL))] {
        let keyspace = client.keyspace(name).await.unwrap();
        for (kind, count) in [(WorkerKind::Insert, 10), (WorkerKind::Count, 3), (WorkerKind::Append, 3)] {
            for id in 0..count {
                let (of, availability, checked) =
                    ((keyspace.clone(), rules), receiver.clone(), checked.clone());
                workers.spawn(
                    RecordWorker::new(of, kind, id, seed, availability, checked, answers.clone()).run(),
                );
            }
        }
    }
    let many = workers.len();
    for kill in 0..kills {
        let draw = random(seed, kill);
        // Some kills come in the middle of a split.
        let splits = kill % SPLIT_EVERY == 1 && kill < SPLIT_EVERY * SPLITS_MAX;
        let split =
            splits.then(|| node.split_keyspace(["careful", "quick"][(kill / SPLIT_EVERY % 2) as usize]));
        // Most kills come at once, when much is not synced; some come so late that some writes must
        // be synced.
        let run_ms = if draw.is_multiple_of(8) { 900 + draw / 8 % 400 } else { draw / 8 % 80 };
        let before = answers.count();
        wait_or_fail(&mut workers, Duration::from_millis(run_ms)).await;
        // A slow machine has hardly done anything by then.
        let began = Instant::now();
        while answers.count() <= before + WRITES_MIN {
            assert!(began.elapsed() < GIVE_UP_AFTER, "hardly anything is written");
            wait_or_fail(&mut workers, Duration::from_millis(1)).await;
        }
        // From here to the kill nothing else runs on this thread, so that requests in flight stay
        // in flight.
        let late = MARGIN + SLOW_SYNCS * probe.slowest() + SLOW_ANSWERS * answers.slowest();
        answers.killed();
        availability.send_modify(|availability| {
            (availability.is_up, availability.killed_at, availability.late) = (false, Instant::now(), late)
        });
        node.kill();
        drop(split);
        if (draw / 1024).is_multiple_of(5) {
            // A kill during recovery changes nothing.
            node.spawn();
            wait_or_fail(&mut workers, Duration::from_millis(draw / 8192 % 120)).await;
            node.kill();
        }
        node.spawn();
        node.ready().await;
        availability.send_modify(|availability| {
            (availability.is_up, availability.up_at, availability.starts) =
                (true, Instant::now(), availability.starts + 1);
        });
        for _ in 0..many {
            tokio::select! {
                report = tokio::time::timeout(GIVE_UP_AFTER, reports.recv()) => report.expect("a worker hangs").unwrap(),
                Some(ended) = workers.join_next() => panic!("a worker ended: {:?}", ended.map(drop)),
            }
        }
    }
    availability.send_modify(|availability| availability.is_over = true);
    let mut totals = Totals::default();
    while let Some(ended) = workers.join_next().await {
        totals.add(ended.unwrap());
    }
    values::check_all_keys(&client, &["careful", "quick"]).await;
    node.stop_in_order();
    totals
}

async fn connect(node: &KilledNode) -> Client {
    let options = ClientOptions {
        deadline: GIVE_UP_AFTER,
        connect_deadline: GIVE_UP_AFTER,
        ..ClientOptions::default()
    };
    Client::connect_with(&[&node.endpoint()], options).await.unwrap()
}

/// Waits, and fails at once if a worker fails.
async fn wait_or_fail(workers: &mut JoinSet<Totals>, time: Duration) {
    tokio::select! {
        () = tokio::time::sleep(time) => {}
        Some(ended) = workers.join_next() => panic!("a worker ended: {:?}", ended.map(drop)),
    }
}
