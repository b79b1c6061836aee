//! All nodes stop and start again. After a clean shutdown nothing is missing and no warning is printed;
//! after a kill the nodes and tools warn that writes may be missing. The disks lose unsynced data,
//! as in a power cut.

use rustix::process::Signal;
use zerohop_client::Keyspace;

use crate::cluster::loads::connect;
use crate::cluster::nodes::NodeCluster;

const ALL: [usize; 3] = [0, 1, 2];
const KEYS: usize = 300;

/// Writes a value to every key, and returns as soon as the last is acknowledged.
async fn write(keyspace: &Keyspace, value: &str) {
    for key in 0..KEYS {
        keyspace.insert(format!("key-{key}").as_str(), value.as_bytes()).await.unwrap();
    }
}

/// The number of keys with this value.
async fn count(cluster: &NodeCluster, value: &str) -> usize {
    let client = connect(&cluster.endpoints()).await;
    let keyspace = client.keyspace("default").await.unwrap();
    let mut found = 0;
    for key in 0..KEYS {
        let bytes = keyspace.lookup_bytes(format!("key-{key}").as_str()).await.unwrap();
        found += usize::from(bytes.as_deref() == Some(value.as_bytes()));
    }
    found
}

/// Everything that the nodes and the tools report of alerts.
fn reported_alerts(cluster: &NodeCluster) -> String {
    let mut alerts = String::new();
    let status = cluster.status();
    for node in status["nodes"].as_array().unwrap() {
        alerts.push_str(&node["troubles"].as_array().map_or(String::new(), |all| {
            all.iter().map(|one| format!("status: {}\n", one.as_str().unwrap())).collect()
        }));
    }
    let (code, _, problems) = cluster.run(&["verify"]);
    assert_eq!(code, 0, "{problems}");
    problems.lines().for_each(|line| alerts.push_str(&format!("verify: {line}\n")));
    let (_, findings, _) = cluster.run(&["doctor"]);
    let of_it = |line: &&str| line.contains("may be missing");
    findings.lines().filter(of_it).for_each(|line| alerts.push_str(&format!("doctor: {line}\n")));
    alerts
}

#[tokio::test]
async fn clean_stop_of_all_loses_nothing_and_reports_no_loss() {
    let folder = crate::support::folder();
    let mut cluster = NodeCluster::start_forgetful(folder.path(), 3);
    cluster.wait_until_complete();
    for (round, signal) in [Signal::TERM, Signal::INT, Signal::TERM].into_iter().enumerate() {
        let value = format!("of round {round}");
        {
            let client = connect(&cluster.endpoints()).await;
            write(&client.keyspace("default").await.unwrap(), &value).await;
        }
        cluster.stop_all(signal);
        cluster.start_together(&ALL);
        cluster.wait_until_complete();
        assert_eq!(count(&cluster, &value).await, KEYS, "{signal:?}");
        let alerts = reported_alerts(&cluster);
        assert!(!alerts.contains("may be missing"), "{signal:?}: {alerts}");
    }
    cluster.stop_in_order();
}

#[tokio::test]
async fn kill_of_all_reports_possible_losses() {
    let folder = crate::support::folder();
    let mut cluster = NodeCluster::start_forgetful(folder.path(), 3);
    cluster.wait_until_complete();
    cluster.stop_all(Signal::TERM);
    let mark_of = |node: usize| folder.path().join(format!("node-{node}/instance-00/closed"));
    let marks = ALL.map(|node| std::fs::read(mark_of(node)).unwrap());
    cluster.start_together(&ALL);
    cluster.wait_until_complete();
    {
        let client = connect(&cluster.endpoints()).await;
        write(&client.keyspace("default").await.unwrap(), "of a life that ends badly").await;
    }
    for node in ALL {
        cluster.kill(node);
        // The mark of the former clean shutdown is removed at the start. Restoring it must not hide the
        // crash.
        assert!(!mark_of(node).exists());
        std::fs::write(mark_of(node), &marks[node]).unwrap();
    }
    cluster.start_together(&ALL);
    cluster.wait_until_complete();
    let all = reported_alerts(&cluster);
    for who in ["status: ", "verify: ", "doctor: "] {
        let says = |line: &str| line.starts_with(who) && line.contains("may be missing");
        assert!(all.lines().any(says), "{who}{all}");
    }
    cluster.stop_in_order();
}
