//! Regions of an ordered keyspace split under load, on request and by their size, also while nodes are killed and come back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

use crate::cluster::loads::{ClientLoad, check_in, connect};
use crate::cluster::nodes::NodeCluster;
use crate::support::wait_for;

/// Splits the region of a key there. A region that recovers is split later.
fn split(cluster: &NodeCluster, key: &str) {
    let ended = || {
        let (code, out, error) = cluster.run(&["region", "split", "events", "--at", key]);
        if code == 0 { Ok(()) } else { Err(format!("{code} {out} {error}")) }
    };
    drop(wait_for(&format!("a region begins at {key}"), ended, Result::is_ok));
}

#[tokio::test]
async fn regions_split_under_load_and_a_kill_keep_acknowledged_writes() {
    let folder = crate::support::folder();
    let mut cluster = NodeCluster::start(folder.path(), 3);
    let (code, _, error) = cluster.run(&["keyspace", "create", "events", "--ordered"]);
    assert_eq!(code, 0, "{error}");
    let load = ClientLoad::begin_in("events", &cluster.endpoints(), 4);
    load.wait_for_progress();
    for key in ["w1-k1", "w2", "w2-k3\\x00"] {
        split(&cluster, key);
    }
    cluster.kill(0);
    for key in ["w0-k5", "w3-k15"] {
        split(&cluster, key);
    }
    load.wait_for_progress();
    cluster.start_again(0);
    split(&cluster, "w1-k12");
    cluster.wait_until_complete();
    load.wait_for_progress();
    let written = load.end();
    let client = connect(&cluster.endpoints()).await;
    check_in("events", &client, &written).await;
    let events = client.keyspace("events").await.unwrap();
    let (mut scan, mut keys) = (events.scan_range::<&str>(..).page_keys(7), Vec::new());
    while let Some(page) = scan.next_page().await.unwrap() {
        keys.extend(page.into_iter().map(|one| String::from_utf8(one.key.to_vec()).unwrap()));
    }
    let mut expected: Vec<String> = written.into_iter().map(|(key, _)| key).collect();
    expected.sort_unstable();
    assert_eq!(keys, expected);
    assert_eq!(cluster.list(&["region", "list", "events"]).as_array().unwrap().len(), 7);
}

const WRITERS: u32 = 3;
const VALUE_BYTES: usize = 8 << 10;

/// Writes long values under its keys, which are in no order, until the stop signal. Returns those that are acknowledged.
async fn write_values(endpoints: Vec<String>, writer: u32, stop: Arc<AtomicBool>) -> Vec<String> {
    let client = connect(&endpoints).await;
    let events = client.keyspace("events").await.unwrap();
    let mut written = Vec::new();
    for number in (writer..).step_by(WRITERS as usize) {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let key = format!("{:05}", number * 7_919 % 100_000);
        let value = [key.as_bytes(), &[b'v'; VALUE_BYTES]].concat();
        events.insert(key.as_str(), value.as_slice()).await.unwrap();
        written.push(key);
    }
    written
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn regions_split_by_size_through_kills_keep_acknowledged_writes() {
    let folder = crate::support::folder();
    let mut cluster = NodeCluster::start_with_region_size(folder.path(), 3, "1MiB");
    let (code, _, error) = cluster.run(&["keyspace", "create", "events", "--ordered"]);
    assert_eq!(code, 0, "{error}");
    let stop = Arc::new(AtomicBool::new(false));
    let (endpoints, signal) = (cluster.endpoints(), Arc::clone(&stop));
    let writers = std::thread::spawn(move || {
        runtime().block_on(async {
            let mut writers = JoinSet::new();
            for writer in 0..WRITERS {
                writers.spawn(write_values(endpoints.clone(), writer, Arc::clone(&signal)));
            }
            writers.join_all().await.concat()
        })
    });
    let regions =
        |cluster: &NodeCluster| cluster.list(&["region", "list", "events"]).as_array().unwrap().len();
    for node in [0, 1, 2] {
        let (before, what) = (regions(&cluster), format!("regions are split before node {node} is killed"));
        wait_for(&what, || regions(&cluster), |count| *count > before);
        cluster.kill(node);
        let (before, what) = (regions(&cluster), format!("regions are split without node {node}"));
        wait_for(&what, || regions(&cluster), |count| *count > before);
        cluster.start_again(node);
        cluster.wait_until_complete();
    }
    stop.store(true, Ordering::Relaxed);
    let mut written = writers.join().unwrap();
    written.sort_unstable();
    let found = runtime().block_on(async {
        let client = connect(&cluster.endpoints()).await;
        let events = client.keyspace("events").await.unwrap();
        let (mut scan, mut found) = (events.scan_range::<&str>(..).values(), Vec::new());
        while let Some(page) = scan.next_page().await.unwrap() {
            for listed in page {
                let value = listed.value.unwrap();
                assert!(value.len() == listed.key.len() + VALUE_BYTES && value.starts_with(&listed.key));
                found.push(String::from_utf8(listed.key.to_vec()).unwrap());
            }
        }
        found
    });
    assert_eq!(found, written);
}
