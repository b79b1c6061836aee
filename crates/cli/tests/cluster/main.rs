//! Three real processes on loopback that start together, under load; some are killed with SIGKILL, or paused.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "a test, which runs processes"
)]

mod nodes;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use zerohop_client::{Client, Options};

use self::nodes::Cluster;

/// How long anything here may take before the test fails: far longer than it does, also on a loaded machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Clients under whose load the node is killed.
const WORKERS: u64 = 8;

/// From the kill to the first write of a key whose primary was killed; the goal is 2 s, this is a test on a loaded machine.
const FAILOVER_MAX: Duration = Duration::from_secs(10);

async fn connect(endpoints: &[String]) -> Client {
    let endpoints: Vec<&str> = endpoints.iter().map(String::as_str).collect();
    let options = Options { deadline: PATIENCE, ..Options::default() };
    Client::connect_with(&endpoints, options).await.unwrap()
}

/// Writes numbered values to its keys until it is told to stop; the last acknowledged of each, and the longest that one took.
async fn work(client: Client, worker: u64, stop: Arc<AtomicBool>) -> (Vec<(String, u64)>, Duration) {
    let keyspace = client.keyspace("default").await.unwrap();
    let mut written: Vec<(String, u64)> = (0..16).map(|key| (format!("w{worker}-k{key}"), 0)).collect();
    let (mut longest, mut number) = (Duration::ZERO, 0);
    while !stop.load(Ordering::Relaxed) {
        number += 1;
        for (key, last) in &mut written {
            let began = Instant::now();
            keyspace.insert(key.as_str(), number.to_string().as_bytes()).await.unwrap();
            longest = longest.max(began.elapsed());
            *last = number;
        }
    }
    (written, longest)
}

async fn check(client: &Client, written: &[(String, u64)]) {
    let keyspace = client.keyspace("default").await.unwrap();
    for (key, last) in written {
        let found = keyspace.lookup_bytes(key.as_str()).await.unwrap();
        let found: Option<u64> = found.map(|bytes| String::from_utf8_lossy(&bytes).parse().unwrap());
        assert_eq!(found, Some(*last), "{key}");
    }
}

#[tokio::test]
async fn every_acknowledged_write_survives_the_kill_of_a_node_which_then_comes_back_and_follows() {
    let folder = tempfile::tempdir().unwrap();
    let began = Instant::now();
    let mut cluster = Cluster::start(folder.path(), 3);
    eprintln!("three nodes serve after {:?}", began.elapsed());
    let stop = Arc::new(AtomicBool::new(false));
    let mut workers = JoinSet::new();
    for worker in 0..WORKERS {
        let client = connect(&cluster.endpoints()).await;
        workers.spawn(work(client, worker, Arc::clone(&stop)));
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    cluster.kill(0);
    tokio::time::sleep(Duration::from_secs(4)).await;
    stop.store(true, Ordering::Relaxed);
    let (mut written, mut longest) = (Vec::new(), Duration::ZERO);
    while let Some(done) = workers.join_next().await {
        let (keys, gap) = done.unwrap();
        written.extend(keys);
        longest = longest.max(gap);
    }
    let numbers: u64 = written.iter().map(|(_, last)| last).sum();
    eprintln!("{numbers} writes acknowledged; the longest took {longest:?}");
    assert!(written.iter().all(|(_, last)| *last > 0));
    assert!(longest < FAILOVER_MAX, "{longest:?}");
    let client = connect(&cluster.endpoints()).await;
    check(&client, &written).await;

    // It comes back under its number, and follows; so that another one can go.
    cluster.start_again(0);
    cluster.wait_until_whole();
    cluster.kill(1);
    let client = connect(&cluster.endpoints()).await;
    check(&client, &written).await;
    cluster.start_again(1);
    cluster.wait_until_whole();
    cluster.stop_in_order();
}

/// Inserts a value under every key, through nodes that answer.
async fn store_all(client: &Client, keys: &[String], value: &str) {
    let keyspace = client.keyspace("default").await.unwrap();
    for key in keys {
        keyspace.insert(key.as_str(), value.as_bytes()).await.unwrap();
    }
}

#[tokio::test]
async fn a_node_that_was_paused_answers_nothing_that_is_over_when_it_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = Cluster::start(folder.path(), 3);
    // Enough keys that every node is the primary of some.
    let keys: Vec<String> = (0..24).map(|key| format!("paused-{key}")).collect();
    for node in 0..3 {
        let (before, after) = (format!("before {node}"), format!("after {node}"));
        // Has connections to all nodes, and the map as it is before the pause.
        let old = connect(&cluster.endpoints()).await;
        store_all(&old, &keys, &before).await;
        cluster.pause(node, true);
        let others: Vec<String> = cluster
            .endpoints()
            .into_iter()
            .enumerate()
            .filter(|(at, _)| *at != node)
            .map(|(_, one)| one)
            .collect();
        let began = Instant::now();
        let new = connect(&others).await;
        store_all(&new, &keys, &after).await;
        eprintln!("others took over after {:?}", began.elapsed());
        // What it is asked now waits at the paused node, where that was the primary.
        let keyspace = Arc::new(old.keyspace("default").await.unwrap());
        let mut looks = JoinSet::new();
        for key in keys.clone() {
            let keyspace = Arc::clone(&keyspace);
            looks.spawn(async move { keyspace.lookup_bytes(key.as_str()).await.unwrap() });
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        cluster.pause(node, false);
        while let Some(found) = looks.join_next().await {
            assert_eq!(found.unwrap().as_deref(), Some(after.as_bytes()));
        }
        cluster.wait_until_whole();
    }
    cluster.stop_in_order();
}
