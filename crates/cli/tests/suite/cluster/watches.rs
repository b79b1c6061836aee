//! A watch of a keyspace while its regions split, and nodes are killed, stopped and come back: each change once, and in order.

use std::collections::BTreeMap;

use tokio::sync::oneshot;
use zerohop_client::{ChangedRecord, Client, Timestamp, WatchEvent, WatchOptions};

use crate::cluster::loads::{ClientLoad, connect};
use crate::cluster::nodes::NodeCluster;
use crate::support::wait_for;

/// Follows a keyspace until the signal, and then to a mark that was made behind it.
async fn follow(
    client: Client,
    begun: oneshot::Sender<()>,
    mut stop: oneshot::Receiver<()>,
) -> Vec<ChangedRecord> {
    let keyspace = client.keyspace("events").await.unwrap();
    let mut watch = keyspace.watch(WatchOptions::default()).unwrap();
    let (mut changes, mut mark, mut end, mut begun) = (Vec::new(), Timestamp::ZERO, None, Some(begun));
    loop {
        match watch.next().await {
            Ok(WatchEvent::Changes(some)) => {
                assert!(some.iter().all(|change| change.at > mark), "no change is below the mark");
                changes.extend(some);
            }
            Ok(WatchEvent::Mark(through)) => {
                assert!(through > mark);
                mark = through;
                // Each partition has answered, so that no later change is missed.
                if let Some(begun) = begun.take() {
                    begun.send(()).unwrap();
                }
                if end.is_some_and(|end| mark >= end) {
                    return changes;
                }
                if end.is_none() && stop.try_recv().is_ok() {
                    // The load has ended, so that all its versions are below this one.
                    end = Some(keyspace.insert("the end", b"").await.unwrap());
                }
            }
            // The position is as before.
            Err(error) => eprintln!("the watch goes on after {error}"),
        }
    }
}

#[tokio::test]
async fn watch_returns_each_change_once_through_kills_stops_and_splits() {
    let folder = crate::support::folder();
    let mut cluster = NodeCluster::start(folder.path(), 3);
    let (code, _, error) = cluster.run(&["keyspace", "create", "events", "--ordered", "--history", "1h"]);
    assert_eq!(code, 0, "{error}");
    let client = connect(&cluster.endpoints()).await;
    let (stop, stopped) = oneshot::channel();
    let (begun, is_begun) = oneshot::channel();
    let follower = tokio::spawn(follow(client, begun, stopped));
    is_begun.await.unwrap();
    let load = ClientLoad::begin_in("events", &cluster.endpoints(), 4);
    load.wait_for_progress();
    let split = |cluster: &NodeCluster, key: &str| {
        let ended = || cluster.run(&["region", "split", "events", "--at", key]).0;
        wait_for(&format!("a region begins at {key}"), ended, |code| *code == 0);
    };
    split(&cluster, "w2");
    cluster.kill(0);
    load.wait_for_progress();
    split(&cluster, "w1-k1");
    cluster.start_again(0);
    cluster.wait_until_complete();
    cluster.stop(1);
    load.wait_for_progress();
    cluster.start_again(1);
    cluster.wait_until_complete();
    load.wait_for_progress();
    let written = load.end();
    stop.send(()).unwrap();
    let changes = follower.await.unwrap();

    let mut last: BTreeMap<&[u8], Timestamp> = BTreeMap::new();
    for change in &changes {
        let before = last.insert(&change.key, change.at).unwrap_or(Timestamp::ZERO);
        assert_eq!(change.before, before, "{change:?}");
    }
    for (key, _) in &written {
        assert!(last.contains_key(key.as_bytes()), "{key} was changed, and the watch has not returned it");
    }
    cluster.stop_in_order();
}
