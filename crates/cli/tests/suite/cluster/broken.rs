//! An invariant of one partition is broken in a running node, by a switch that only builds with debug assertions have. The copy
//! stops, another takes over, and the node goes on with its other partitions.
#![cfg(debug_assertions)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use serde_json::Value;

use crate::cluster::loads::{ClientLoad, check, connect};
use crate::cluster::nodes::{NodeCluster, scrape};
use crate::support::wait_for;

const RULE: &str = "no member has entries that were not sent, or that the primary does not have";

/// Keys of the keyspace with the broken partition, over its two partitions.
const KEYS: u64 = 32;

/// Writes numbered values in a thread until the stop signal. Returns the number of the last round; each of its writes was
/// acknowledged.
fn write_until(endpoints: Vec<String>, stop: Arc<AtomicBool>) -> JoinHandle<u64> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    std::thread::spawn(move || runtime.block_on(write(endpoints, stop)))
}

async fn write(endpoints: Vec<String>, stop: Arc<AtomicBool>) -> u64 {
    let client = connect(&endpoints).await;
    let books = client.keyspace("books").await.unwrap();
    let mut round = 0_u64;
    loop {
        for key in 0..KEYS {
            let value = (round + 1).to_string();
            books.insert(format!("book-{key}").as_str(), value.as_bytes()).await.unwrap();
        }
        round += 1;
        if stop.load(Ordering::Relaxed) {
            return round;
        }
    }
}

/// The primary of each partition of the keyspace.
fn primaries(cluster: &NodeCluster, keyspace: &str) -> Vec<u64> {
    let all = cluster.list(&["partition", "list", keyspace]);
    all.as_array().unwrap().iter().map(|one| one["primary"].as_u64().unwrap()).collect()
}

/// The index of the node with this instance.
fn node_of(cluster: &NodeCluster, instance: u64) -> usize {
    let status = cluster.status();
    let has_it = |node: &Value| {
        node["instances"].as_array().unwrap().iter().any(|one| one["id"].as_u64() == Some(instance))
    };
    let node = status["nodes"].as_array().unwrap().iter().find(|node| has_it(node)).unwrap();
    let manager = node["manager"].as_str().unwrap();
    cluster.endpoints().iter().position(|endpoint| endpoint == manager).unwrap()
}

#[tokio::test]
async fn another_copy_replaces_a_broken_one_and_its_node_goes_on() {
    let folder = crate::support::folder();
    let mut cluster = NodeCluster::start_breakable(folder.path(), 3);
    let created =
        cluster.json(&["keyspace", "create", "books", "--replicas", "3", "--partitions", "2"]).remove(0);
    let keyspace = created["id"].as_u64().unwrap();
    cluster.wait_until_complete();
    let stop = Arc::new(AtomicBool::new(false));
    let writes = write_until(cluster.endpoints(), Arc::clone(&stop));
    let load = ClientLoad::begin(&cluster.endpoints(), 2);
    load.wait_for_progress();

    let before = primaries(&cluster, "books");
    let node = node_of(&cluster, before[0]);
    cluster.break_partition(node, keyspace, 0);
    wait_for("another copy takes over", || primaries(&cluster, "books"), |now| now[0] != before[0]);
    load.wait_for_progress();

    // All of it is named: the partition, and the invariant.
    let endpoint = &cluster.endpoints()[node];
    let metrics = || scrape(endpoint);
    let named = |text: &String| {
        let labels = format!("invariant=\"{RULE}\"");
        let is_named = |line: &str| {
            line.starts_with("zerohop_broken_invariant{")
                && line.contains("keyspace=\"books\"")
                && line.contains("partition=\"0\"")
                && line.contains(&labels)
        };
        text.lines().any(is_named)
    };
    wait_for("the metric names it", metrics, named);
    for other in 0..3 {
        let count = cluster.metric(other, "broken_invariants_total");
        assert_eq!(count, u64::from(other == node), "of node {other}");
    }
    let place = format!("keyspace {keyspace}, partition 0");
    let (code, out, _) = cluster.run(&["doctor", "--json"]);
    assert!(code != 0 && out.contains(RULE) && out.contains(&place), "{out}");
    let log = cluster.log(node);
    let lines: Vec<&str> = log.lines().filter(|line| line.contains(RULE)).collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    let named = [" ERROR ", &format!(" keyspace={keyspace} "), " partition=0"];
    assert!(named.iter().all(|part| lines[0].contains(part)), "{}", lines[0]);

    // The same process still leads other partitions, and writes to them are acknowledged.
    assert!(cluster.is_running(node));
    let own = primaries(&cluster, "default").into_iter().filter(|one| *one == before[0]).count();
    assert!(own > 0, "instance {} leads others", before[0]);
    load.wait_for_progress();
    stop.store(true, Ordering::Relaxed);
    let (rounds, written) = (writes.join().unwrap(), load.end());
    let client = connect(&cluster.endpoints()).await;
    check(&client, &written).await;
    let books = client.keyspace("books").await.unwrap();
    for key in 0..KEYS {
        let found = books.lookup_bytes(format!("book-{key}").as_str()).await.unwrap();
        assert_eq!(found.as_deref(), Some(rounds.to_string().as_bytes()), "book-{key}");
    }
    // After a restart the copy is in sync again.
    cluster.break_nothing(node);
    cluster.stop(node);
    cluster.start_again(node);
    cluster.wait_until_complete();
    assert_eq!(cluster.metric(node, "broken_invariants_total"), 0);
    cluster.stop_in_order();
}
