//! Three real processes on loopback that start together, under load; some are killed with SIGKILL,
//! or paused.

mod blobs;
mod broken;
mod closed;
mod corrupt;
mod cross_partition;
mod differing;
mod drops;
mod floods;
mod full_disk;
mod loads;
mod long_replies;
mod managers;
mod mixed_transactions;
mod moves;
pub(crate) mod nodes;
mod planned_stops;
mod quorum;
mod recovery;
pub(crate) mod redis;
mod region_splits;
mod rolling;
mod staging;
mod transactional_blobs;
mod transactions;
mod unknown_outcomes;
mod watches;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use zerohop_client::Client;

use self::loads::{ClientLoad, check, connect};
pub(crate) use self::nodes::NodeCluster;
use self::redis::Redis;

/// Clients under whose load the node is killed.
const WORKERS: u64 = 8;

#[tokio::test]
async fn acknowledged_writes_survive_node_kill_and_node_rejoins() {
    let folder = crate::support::folder();
    let began = Instant::now();
    let mut cluster = NodeCluster::start(folder.path(), 3);
    eprintln!("three nodes serve after {:?}", began.elapsed());
    let load = ClientLoad::begin(&cluster.endpoints(), WORKERS);
    load.wait_for_progress();
    cluster.kill(0);
    load.wait_for_progress();
    let written = load.end();
    let client = connect(&cluster.endpoints()).await;
    check(&client, &written).await;

    // It comes back under its number, and follows, so that another node can be killed.
    cluster.start_again(0);
    cluster.wait_until_complete();
    cluster.kill(1);
    let client = connect(&cluster.endpoints()).await;
    check(&client, &written).await;
    cluster.start_again(1);
    cluster.wait_until_complete();
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
async fn resumed_node_answers_no_expired_requests() {
    let folder = crate::support::folder();
    let cluster = NodeCluster::start(folder.path(), 3);
    // Enough keys that every node is the primary of some.
    let keys: Vec<String> = (0..24).map(|key| format!("paused-{key}")).collect();
    for node in 0..3 {
        let (before, after) = (format!("before {node}"), format!("after {node}"));
        // This client has connections to all nodes, and the map from before the pause.
        let old = connect(&cluster.endpoints()).await;
        store_all(&old, &keys, &before).await;
        // A Redis client has no map: the node that it asks answers if it believes that it is the
        // primary.
        let mut plain = Redis::connect(&cluster.instance(node));
        keys.iter().for_each(|key| assert_eq!(plain.send_command(&format!("GET {key}")), before));
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
        // These requests wait at the paused node for its partitions.
        let keyspace = Arc::new(old.keyspace("default").await.unwrap());
        let mut looks = JoinSet::new();
        for key in keys.clone() {
            let keyspace = Arc::clone(&keyspace);
            looks.spawn(async move { keyspace.lookup_bytes(key.as_str()).await.unwrap() });
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        for key in &keys {
            plain.send(&format!("GET {key}"));
            plain.send(&format!("APPEND {key} !"));
        }
        cluster.pause(node, false);
        let mut acknowledged = Vec::new();
        for key in &keys {
            assert_eq!(plain.reply(), after, "{key}: read by a former primary");
            // The present primary has done it, or the outcome is unknown.
            let reply = plain.reply();
            let is_done = reply == (after.len() + 1).to_string();
            assert!(is_done || reply.starts_with('-'), "{key}: written by a former primary: {reply}");
            acknowledged.extend(is_done.then_some(key));
        }
        while let Some(found) = looks.join_next().await {
            let found = found.unwrap().unwrap_or_default();
            // The value with or without the bytes that the Redis client appends.
            assert_eq!(String::from_utf8_lossy(&found).trim_end_matches('!'), after);
        }
        for key in acknowledged {
            let found = Redis::connect(&cluster.instance((node + 1) % 3)).send_command(&format!("GET {key}"));
            assert_eq!(found, format!("{after}!"), "{key}: what a former primary has acknowledged");
        }
        cluster.wait_until_complete();
    }
    cluster.stop_in_order();
}
