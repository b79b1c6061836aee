//! A keyspace is split while plain clients of all nodes use it. No acknowledged write is lost, the
//! commands of one client stay in order, and `KEYS` returns each key once. A split by itself leaves
//! no write in doubt, and a refused write is not done.
#![expect(clippy::disallowed_methods, reason = "a test that takes some time")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use zerohop_server::Server;

use crate::redis::nodes::{all, nodes, nodes_of, stop};
use crate::redis::support::{Redis, Reply, bulk, command, make_keyspace, ok, split_keyspace};

const KEYSPACE: &str = "torn";

/// How often the keyspace, first of one partition, is split.
const SPLITS: u32 = 5;

/// The pause between two splits.
const PAUSE: Duration = Duration::from_millis(400);

/// Where no copy moves and all nodes run, the outcome of a write is unknown only after one of the
/// waits for it. The shortest of them is that for a former primary (`DEPOSED_MS`).
const DOUBT_AFTER: Duration = Duration::from_secs(1);

/// Keys of each client, and commands that it sends at once.
const KEYS: usize = 12;
const DEPTH: usize = 24;

/// Keys that exist all the time.
const STAY: usize = 400;

fn connect(address: SocketAddr) -> Redis {
    let mut redis = Redis::connect(address);
    assert_eq!(redis.send_command(&format!("ZH.KEYSPACE {KEYSPACE}")), ok());
    redis
}

/// Whether a command was not executed.
fn is_refused(reply: &Reply) -> bool {
    matches!(reply, Reply::Error(error) if error.starts_with("TRYAGAIN"))
}

/// Whether the outcome of a write is unknown, which is right only `after` so long.
fn is_in_doubt(reply: &Reply, sent: Instant, after: Duration) -> bool {
    let is_so = matches!(reply, Reply::Error(error) if error.contains("outcome unknown"));
    let waited = sent.elapsed();
    assert!(!is_so || waited >= after, "in doubt after {waited:?}");
    is_so
}

/// Acknowledged appends to each key, and those in doubt.
type AppendCounts = BTreeMap<String, (i64, i64)>;

/// Appends to its keys, and writes and reads others, many commands at once.
fn append(address: SocketAddr, client: usize, doubt_after: Duration, ends: &AtomicBool) -> AppendCounts {
    let (mut redis, mut appends) = (connect(address), AppendCounts::new());
    let mut lengths = BTreeMap::<String, i64>::new();
    let mut round = 0;
    while !ends.load(Ordering::Relaxed) {
        round += 1;
        let mut bytes = Vec::new();
        let keys: Vec<usize> = (0..DEPTH).map(|n| (n * 7 + round) % KEYS).collect();
        for (n, key) in keys.iter().enumerate() {
            let (counted, set) = (format!("a{client}:{key}"), format!("s{client}:{key}"));
            let value = format!("{round}-{n}");
            bytes.extend(command(&[b"APPEND", counted.as_bytes(), b"x"]));
            bytes.extend(command(&[b"SET", set.as_bytes(), value.as_bytes()]));
            bytes.extend(command(&[b"GET", set.as_bytes()]));
        }
        let sent = Instant::now();
        redis.stream.write_all(&bytes).unwrap();
        for (n, key) in keys.iter().enumerate() {
            let counted = format!("a{client}:{key}");
            let of_key = appends.entry(counted.clone()).or_default();
            match redis.reply() {
                Reply::Number(length) => {
                    of_key.0 += 1;
                    let before = lengths.insert(counted, length).unwrap_or(0);
                    assert!(length > before, "{key} of client {client} went from {before} to {length}");
                }
                reply if is_refused(&reply) => {}
                reply if is_in_doubt(&reply, sent, doubt_after) => of_key.1 += 1,
                other => panic!("{other:?}"),
            }
            let (set, got) = (redis.reply(), redis.reply());
            assert!(set == ok() || is_refused(&set) || is_in_doubt(&set, sent, doubt_after), "{set:?}");
            if set == ok() && !is_refused(&got) {
                assert_eq!(got, bulk(&format!("{round}-{n}")), "{key} of client {client}");
            }
        }
    }
    appends
}

/// Lists all permanent keys, repeatedly; returns how often they were listed.
fn list(address: SocketAddr, ends: &AtomicBool) -> u32 {
    let (mut redis, mut lists) = (connect(address), 0);
    while !ends.load(Ordering::Relaxed) {
        match redis.send_command("KEYS stay*") {
            Reply::Array(Some(keys)) => {
                let each: BTreeSet<String> = keys.iter().map(|key| format!("{key:?}")).collect();
                assert_eq!((keys.len(), each.len()), (STAY, STAY), "each once");
                lists += 1;
            }
            reply => assert!(is_refused(&reply), "{reply:?}"),
        }
    }
    lists
}

/// Ends the clients when it is dropped.
struct EndOnDrop<'a>(&'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Each node has a copy of each partition, so that no copy moves.
#[test]
fn split_alone_leaves_no_write_in_doubt() {
    split_under_load(nodes_of(1), DOUBT_AFTER);
}

/// After each split, copies move between the instances of a node. A former primary that leaves its
/// group at once does not learn the outcomes of writes in flight.
#[test]
fn writes_acknowledged_during_split_survive_in_order() {
    split_under_load(nodes(), Duration::ZERO);
}

fn split_under_load(nodes: Vec<Server>, doubt_after: Duration) {
    let addresses = all(&nodes);
    let manager = nodes[0].manager_address();
    make_keyspace(manager, KEYSPACE, "memory");
    // All nodes have learned of it.
    for address in &addresses {
        let mut redis = Redis::connect(*address);
        while redis.send_command(&format!("ZH.KEYSPACE {KEYSPACE}")) != ok()
            || redis.send_command("SET begun 1") != ok()
        {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    let mut redis = connect(addresses[0]);
    (0..STAY).for_each(|n| assert_eq!(redis.send_command(&format!("SET stay{n} x")), ok()));
    let ends = AtomicBool::new(false);
    let (appends, lists) = std::thread::scope(|scope| {
        let ends = &ends;
        // The clients end also if a split fails.
        let _end = EndOnDrop(ends);
        let append = |(client, address): (usize, &SocketAddr)| {
            let address = *address;
            scope.spawn(move || append(address, client, doubt_after, ends))
        };
        let clients: Vec<_> = addresses.iter().enumerate().map(append).collect();
        let lists: Vec<_> =
            addresses.iter().step_by(2).map(|at| scope.spawn(move || list(*at, ends))).collect();
        for split in 1..=SPLITS {
            std::thread::sleep(PAUSE);
            split_keyspace(manager, KEYSPACE, 1 << split);
        }
        std::thread::sleep(PAUSE);
        ends.store(true, Ordering::Relaxed);
        let appends: Vec<AppendCounts> = clients.into_iter().map(|client| client.join().unwrap()).collect();
        (appends, lists.into_iter().map(|list| list.join().unwrap()).sum::<u32>())
    });
    assert!(lists > 0);
    let in_doubt: i64 = appends.iter().flatten().map(|(_, (_, perhaps))| perhaps).sum();
    println!("{in_doubt} appends in doubt");
    for (key, (done, perhaps)) in appends.iter().flatten() {
        let Reply::Number(length) = redis.send_command(&format!("STRLEN {key}")) else {
            panic!("no length of {key}")
        };
        assert!(
            *done <= length && length <= done + perhaps,
            "{key}: {length} of {done} and perhaps {perhaps}"
        );
    }
    stop(nodes);
}
