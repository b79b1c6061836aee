//! `zerohop keyspace`.

use serde_json::{Value, json};
use zerohop_client::BlockingHandle;

use crate::support::patience;
use crate::support::serving::{ServingProgram, code, output, stderr, zerohop};

#[test]
fn keyspaces_are_made_changed_shown_and_dropped() {
    let folder = crate::support::folder();
    let cluster = ServingProgram::up(&["--data", folder.path().to_str().unwrap()]);
    let made = cluster.json(&[
        "keyspace",
        "create",
        "papers",
        "--partitions",
        "16",
        "--hash",
        "fnv1a",
        "--durability",
        "sync",
        "--replicas",
        "1",
        "--min-in-sync",
        "1",
        "--chunk-size",
        "64KiB",
    ]);
    let expected = json!({
        "name": "papers", "replicas": 1, "min_in_sync": 1, "durability": "sync", "partitions": 16,
        "id": made["id"], "order": "hashed", "hash": "fnv1a", "separators": null, "chunk_bytes": 65_536,
        "history_ms": 0, "history_bytes": 0, "dropping": false
    });
    assert_eq!(made, expected);
    assert_eq!(cluster.json(&["keyspace", "show", "papers"]), expected);
    cluster.ok(&["kv", "insert", "-k", "papers", "k", "v"]);

    let altered = cluster.json(&["keyspace", "alter", "papers", "--durability", "interval:50ms"]);
    assert_eq!(altered["durability"], "interval:50ms");
    assert_eq!(cluster.ok(&["kv", "lookup", "-k", "papers", "k"]), "v");
    let names = |list: &Value| -> Vec<String> {
        list.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&cluster.list(&["keyspace", "list"])), ["default", "papers"]);
    assert!(
        cluster.ok(&["keyspace", "list"]).contains("papers: interval:50ms, 16 partitions by fnv1a, 1 copy")
    );

    // Without a terminal there is no question.
    assert_eq!(cluster.ok(&["keyspace", "drop", "papers"]), "");
    assert_eq!(names(&cluster.list(&["keyspace", "list"])), ["default"]);
    let gone = cluster.run(&["kv", "lookup", "-k", "papers", "k"]);
    assert_eq!(code(&gone), 3);
    assert!(
        stderr(&gone).contains("no keyspace \"papers\"") && stderr(&gone).contains("keyspace create"),
        "{gone:?}"
    );
    cluster.ok(&["keyspace", "create", "papers", "--durability", "sync"]);
    assert_eq!(code(&cluster.run(&["kv", "lookup", "-k", "papers", "k"])), 1, "a new one is empty");
    cluster.ok(&["keyspace", "drop", "papers", "--yes"]);
}

#[test]
fn invalid_keyspace_requests_are_refused_with_reason() {
    let cluster = ServingProgram::in_memory();
    let refused = |arguments: &[&str], expected: i32, words: &str| {
        let output = cluster.run(arguments);
        assert_eq!(code(&output), expected, "{output:?}");
        assert!(stderr(&output).contains(words), "{words}: {output:?}");
    };
    refused(&["keyspace", "create", "default"], 3, "default");
    refused(&["keyspace", "create", "k", "--partitions", "3"], 3, "power of two");
    refused(&["keyspace", "create", "k", "--replicas", "0"], 3, "replicas");
    refused(&["keyspace", "create", "no name"], 3, "name");
    refused(&["keyspace", "create", "k", "--hash", "md5"], 2, "md5");
    refused(&["keyspace", "create", "k", "--durability", "often"], 2, "often");
    refused(&["keyspace", "create", "k", "--durability", "sync"], 3, "memory");
    refused(&["keyspace", "alter", "absent", "--durability", "memory"], 3, "absent");
    refused(&["keyspace", "alter", "default"], 2, "nothing to change");
    refused(&["keyspace", "show", "absent"], 3, "keyspace list");
    refused(&["keyspace", "drop", "absent"], 3, "absent");
    assert_eq!(cluster.list(&["keyspace", "list"]).as_array().unwrap().len(), 1, "nothing was changed");
}

#[test]
fn missing_cluster_is_reported_quickly() {
    let mut command = zerohop(&["keyspace", "list"]);
    command.env("ZEROHOP_ENDPOINT", "127.0.0.1:9");
    let output = output(command, b"");
    assert_eq!(code(&output), 3);
    let words = stderr(&output);
    assert!(words.contains("127.0.0.1:9") && words.contains("connection refused"), "{words}");
    assert!(words.contains("`zerohop up`") && words.contains("--endpoint"), "{words}");
}

#[test]
fn split_under_writes_loses_nothing() {
    const RECORDS: usize = 3_000;
    let folder = crate::support::folder();
    let cluster = ServingProgram::up(&["--data", folder.path().to_str().unwrap()]);
    cluster.ok(&["keyspace", "create", "papers", "--partitions", "4", "--durability", "sync"]);
    let endpoint = cluster.endpoint().to_owned();
    let writer = std::thread::spawn(move || {
        let client = patience::blocking_client(&endpoint).unwrap();
        let keyspace = client.keyspace("papers").unwrap();
        for n in 0..RECORDS {
            keyspace.wait_for(keyspace.insert(format!("key {n}").as_str(), n.to_string().as_str())).unwrap();
            keyspace.wait_for(keyspace.increment("count", 1)).unwrap();
        }
    });
    for partitions in [8, 16] {
        std::thread::sleep(std::time::Duration::from_millis(150));
        assert_eq!(cluster.json(&["keyspace", "split", "papers"])["partitions"], partitions);
    }
    writer.join().unwrap();
    let all_are_there = |cluster: &ServingProgram| {
        assert_eq!(cluster.ok(&["kv", "lookup", "-k", "papers", "count"]), RECORDS.to_string());
        let keys = cluster.ok(&["kv", "scan", "-k", "papers"]);
        let mut keys: Vec<&str> = keys.lines().collect();
        assert_eq!(keys.len(), RECORDS + 1, "each comes once");
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), RECORDS + 1);
        for n in [0, 1, RECORDS / 2, RECORDS - 1] {
            let found = cluster.ok(&["kv", "lookup", "-k", "papers", &format!("key {n}")]);
            assert_eq!(found, n.to_string());
        }
    };
    all_are_there(&cluster);
    // After a kill it has the same contents, whether or not the post-split cleanup of a half is
    // complete.
    rustix::process::kill_process(cluster.node_pid(), rustix::process::Signal::KILL).unwrap();
    drop(cluster);
    let cluster = ServingProgram::up(&["--data", folder.path().to_str().unwrap()]);
    all_are_there(&cluster);
    let refused = cluster.run(&["keyspace", "split", "nowhere"]);
    assert!(stderr(&refused).contains("no keyspace \"nowhere\""), "{refused:?}");
}
