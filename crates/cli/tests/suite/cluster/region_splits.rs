//! Regions of an ordered keyspace split under load, also while a node is killed and comes back.

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
