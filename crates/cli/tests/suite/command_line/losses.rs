//! A standalone node reports what the death of its process may have cost: `status`, `doctor` and
//! `recover acknowledge` agree.

use std::path::Path;

use rustix::process::{Signal, kill_process};
use serde_json::Value;

use crate::support::serving::{ServingProgram, code, stderr, stdout, wait_until_exited};

fn start(data: &Path) -> ServingProgram {
    ServingProgram::up(&["--no-restart", "--instances", "2", "--data", data.to_str().unwrap()])
}

/// Kills the process of the only node; the program ends with it.
fn kill(mut cluster: ServingProgram) {
    let node = cluster.node_pid();
    kill_process(node, Signal::KILL).unwrap();
    wait_until_exited(node);
    assert_eq!(cluster.wait(), Some(3));
}

/// The keyspaces that the status reports, and whether `doctor` reports the same lines.
fn reported(cluster: &ServingProgram) -> Vec<String> {
    let troubles = cluster.json(&["status"])["nodes"][0]["troubles"].clone();
    let troubles: Vec<&str> = troubles.as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect();
    let doctor: Value = serde_json::from_str(&stdout(&cluster.run(&["doctor", "--json"]))).unwrap();
    let findings = doctor["findings"].as_array().unwrap();
    let found: Vec<&str> = findings
        .iter()
        .filter(|one| one["verdict"] == "problem" && one["check"] == "nodes")
        .map(|one| one["found"].as_str().unwrap())
        .collect();
    assert_eq!(troubles, found);
    let name = |line: &&str| line.split([' ', ':']).nth(1).unwrap().to_owned();
    troubles.iter().map(name).collect()
}

#[test]
fn standalone_node_reports_possible_loss_until_acknowledged() {
    let folder = crate::support::folder();
    let cluster = start(folder.path());
    for durability in ["memory", "sync"] {
        cluster.ok(&["keyspace", "create", durability, "--durability", durability, "--partitions", "8"]);
    }
    cluster.ok(&["kv", "insert", "-k", "memory", "k", "v"]);
    assert_eq!(cluster.end_with(Signal::TERM), Some(0));

    // `memory` is empty after each start, which is no loss if the operator has stopped the node.
    let cluster = start(folder.path());
    assert_eq!(reported(&cluster), [""; 0], "a clean shutdown is no loss");
    assert_eq!(cluster.ok(&["recover", "acknowledge"]), "Nothing is reported missing in any keyspace.\n");
    kill(cluster);

    let cluster = start(folder.path());
    assert_eq!(reported(&cluster), ["default", "memory"]);
    let text = cluster.ok(&["status"]);
    for line in [
        "keyspace default: durability interval:100ms: 256 of 256 partitions continue with a log whose last moments may be missing",
        "keyspace memory: durability memory: everything of 8 of 8 partitions is gone with the process of node 1",
    ] {
        assert!(text.contains(line), "{text}");
        let recover = cluster.ok(&["recover"]);
        assert!(recover.contains(line) && recover.contains("there is nothing to recover"), "{recover}");
        let missing = cluster.json(&["recover"])["missing"].to_string();
        assert!(missing.contains(line), "{missing}");
    }
    assert_eq!(cluster.end_with(Signal::TERM), Some(0));

    // The report outlives a clean shutdown.
    let cluster = start(folder.path());
    assert_eq!(reported(&cluster), ["default", "memory"]);
    let unknown = cluster.run(&["recover", "acknowledge", "papers"]);
    assert!(code(&unknown) != 0 && stderr(&unknown).contains("papers"), "{unknown:?}");
    cluster.ok(&["keyspace", "split", "memory"]);
    // A split that is in progress is reported before.
    let printed = cluster.ok(&["recover", "acknowledge", "memory"]);
    let line = "The missing data of 16 partitions in keyspace memory is no longer reported.";
    assert_eq!(printed.lines().last(), Some(line), "{printed}");
    assert_eq!(reported(&cluster), ["default"]);
    assert_eq!(cluster.end_with(Signal::TERM), Some(0));

    let cluster = start(folder.path());
    assert_eq!(reported(&cluster), ["default"], "an acknowledgement is stored");
    cluster.ok(&["recover", "acknowledge"]);
    assert_eq!(reported(&cluster), [""; 0]);
}
