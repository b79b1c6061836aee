//! Ordered keyspaces of several regions, which are given at their creation and split later.

use rustix::process::{Signal, kill_process};
use serde_json::json;
use zerohop_client::BlockingHandle;

use super::ranges::{check_events, events, insert_events, key, scan};
use crate::support::serving::{ServingProgram, code, stderr, zerohop};
use crate::support::{patience, wait_for};

/// In the midst of the keys of a test, at one of them, and behind all.
const SPLIT_AT: &str = "2026-03-05,2026-04-07,2026-04-07\\x00,2026-11,b";

fn create(cluster: &ServingProgram, more: &[&str]) {
    cluster.ok(&[&["keyspace", "create", "events", "--ordered", "--split-at", SPLIT_AT], more].concat());
}

fn separators() -> serde_json::Value {
    let keys = ["2026-03-05", "2026-04-07", "2026-04-07\0", "2026-11", "b"];
    keys.into_iter().map(|key| json!({ "key": key })).collect()
}

#[test]
fn regions_are_scanned_as_one_also_after_a_kill() {
    let folder = crate::support::folder();
    let up = || ServingProgram::up(&["--data", folder.path().to_str().unwrap(), "--instances", "3"]);
    let cluster = up();
    create(&cluster, &["--durability", "sync"]);
    insert_events(&cluster);
    check_events(&cluster);
    let lines = cluster.list(&["kv", "scan", "-k", "events", "--from", "2026-04-06", "--limit", "3"]);
    let partitions: Vec<_> = lines.as_array().unwrap().iter().map(|line| line["partition"].clone()).collect();
    assert_eq!(partitions, [1, 2, 3], "a separator is the lowest key of its region");
    kill_process(cluster.node_pid(), Signal::KILL).unwrap();
    drop(cluster);
    let cluster = up();
    check_events(&cluster);
    cluster.ok(&["keyspace", "alter", "events", "--durability", "memory"]);
    let shown = cluster.json(&["keyspace", "show", "events"]);
    assert_eq!((&shown["separators"], &shown["partitions"]), (&separators(), &json!(6)));
    check_events(&cluster);
}

#[test]
fn separators_are_shown_and_restored() {
    let folder = crate::support::folder();
    let backup = folder.path().join("backup");
    let backup = backup.to_str().unwrap();
    let cluster = ServingProgram::in_memory();
    create(&cluster, &[]);
    insert_events(&cluster);
    for shown in [
        cluster.json(&["keyspace", "show", "events"]),
        cluster.list(&["keyspace", "list"])[1].clone(),
        cluster.json(&["status"])["keyspaces"][1].clone(),
    ] {
        assert_eq!((&shown["name"], &shown["separators"]), (&json!("events"), &separators()), "{shown}");
    }
    assert_eq!(cluster.json(&["keyspace", "show", "default"])["separators"], json!(null));
    let line = cluster.ok(&["keyspace", "show", "events"]);
    assert!(line.contains("6 partitions in byte order divided at \"2026-03-05\""), "{line}");
    assert!(line.contains("and 1 more"), "{line}");
    let backed_up = cluster.run(&["backup", backup, "-k", "events"]);
    assert_eq!(code(&backed_up), 0, "{backed_up:?}");
    cluster.ok(&["keyspace", "drop", "events", "--yes"]);
    let restored = cluster.run(&["restore", backup]);
    assert_eq!(code(&restored), 0, "{restored:?}");
    assert_eq!(cluster.json(&["keyspace", "show", "events"])["separators"], separators());
    check_events(&cluster);
    cluster.ok(&[
        "keyspace",
        "create",
        "binary",
        "--ordered",
        "--split-at",
        "a\\,b,\\xff\\\\",
        "--split-at",
        "\\xff\\xff",
    ]);
    let expected = json!([{"key": "a,b"}, {"key_base64": "/1w="}, {"key_base64": "//8="}]);
    assert_eq!(cluster.json(&["keyspace", "show", "binary"])["separators"], expected);
}

#[test]
fn invalid_separators_and_splits_are_refused() {
    let cluster = ServingProgram::in_memory();
    let long = "x".repeat(257);
    let many: Vec<String> = (0..4096).map(|n| format!("{n:04}")).collect();
    for (keys, word) in [
        ("b,a", "in the order of their bytes"),
        ("b,b", "named twice"),
        ("a,,b", "separator 2 is empty"),
        (&*long, "257 bytes"),
        (&*many.join(","), "more than 4095 separators"),
    ] {
        let refused = cluster.run(&["keyspace", "create", "events", "--ordered", "--split-at", keys]);
        assert!(code(&refused) == 2 && stderr(&refused).contains(word), "{word}: {refused:?}");
    }
    let hashed = cluster.run(&["keyspace", "create", "events", "--split-at", "a"]);
    assert!(code(&hashed) == 2 && stderr(&hashed).contains("--ordered"), "{hashed:?}");
    create(&cluster, &[]);
    let split = cluster.run(&["keyspace", "split", "events"]);
    assert!(code(&split) == 3 && stderr(&split).contains("region split NAME --at"), "{split:?}");
    let regions = |arguments: &[&str]| cluster.run(&[&["region", "split"], arguments].concat());
    for (arguments, expected, word) in [
        (&["default", "--at", "a"][..], 3, "is hashed and has no regions"),
        (&["nothing", "--at", "a"], 3, "no keyspace"),
        (&["events", "--at", ""], 2, "separator 1 is empty"),
        (&["events", "--at", &long], 2, "257 bytes"),
        (&["events"], 2, "--at"),
    ] {
        let refused = regions(arguments);
        assert!(code(&refused) == expected && stderr(&refused).contains(word), "{word}: {refused:?}");
    }
}

#[tokio::test]
async fn transactions_and_snapshots_have_keys_of_several_regions() {
    let cluster = ServingProgram::in_memory();
    create(&cluster, &[]);
    let client = patience::client(cluster.endpoint()).await.unwrap();
    let events = client.keyspace("events").await.unwrap();
    let keys = [key(1, 1), key(4, 7), key(12, 30), "z".to_owned()];
    let partitions: Vec<u32> =
        keys.iter().map(|key| events.division().partition(key.as_bytes()).get()).collect();
    assert_eq!(partitions, [0, 2, 4, 5]);
    for round in 0..20_u32 {
        let transaction = client.begin();
        for key in &keys {
            let seen = transaction.get(&events, key).await.unwrap();
            assert_eq!(seen.is_some(), round > 0, "{key}");
            transaction.insert(&events, key, &round.to_string()).unwrap();
        }
        transaction.commit().await.unwrap();
    }
    let snapshot = client.snapshot(&[&events]).await.unwrap();
    for key in &keys {
        events.remove(key).await.unwrap();
    }
    let mut then = snapshot.scan_range::<&str>(&events, ..).values().reverse().page_keys(1);
    let mut listed = Vec::new();
    while let Some(page) = then.next_page().await.unwrap() {
        listed.extend(page.into_iter().map(|one| (one.key, one.value.unwrap())));
    }
    let expected: Vec<(bytes::Bytes, bytes::Bytes)> =
        keys.iter().rev().map(|key| (key.clone().into(), "19".into())).collect();
    assert_eq!(listed, expected);
    assert_eq!(events.scan_range::<&str>(..).next_page().await.unwrap(), None);
    snapshot.close().await.unwrap();
    assert_eq!(scan(&cluster, &[]), [""; 0]);
}

#[test]
fn region_is_split_in_use_and_after_a_kill() {
    let folder = crate::support::folder();
    let up = || ServingProgram::up(&["--data", folder.path().to_str().unwrap(), "--instances", "3"]);
    let cluster = up();
    create(&cluster, &["--durability", "sync"]);
    insert_events(&cluster);
    // At a key, between two keys, where a region begins already, and within a region that was just split.
    cluster.ok(&["region", "split", "events", "--at", "2026-07-07,2026-08,2026-09,2026-11"]);
    check_events(&cluster);
    let listed = cluster.list(&["region", "list", "events"]);
    let of = |field: &str| -> Vec<_> {
        listed.as_array().unwrap().iter().map(|line| line[field].clone()).collect()
    };
    assert_eq!(of("region"), [0, 1, 2, 6, 8, 10, 11, 4, 5], "{listed}");
    let from = of("from");
    assert_eq!((&from[0], &from[4]["key"]), (&json!(null), &json!("2026-07-07")), "{listed}");
    assert_eq!(of("to")[..8], from[1..], "each region ends where the next one begins");
    let table = cluster.ok(&["region", "list", "events"]);
    assert!(table.contains("\"2026-08\"\t\"2026-09\""), "{table}");
    kill_process(cluster.node_pid(), Signal::KILL).unwrap();
    drop(cluster);
    let cluster = up();
    check_events(&cluster);
    assert_eq!(cluster.list(&["region", "list", "events"]).as_array().unwrap().len(), 9);
    cluster.ok(&["region", "split", "events", "--at", "2026-02"]);
    check_events(&cluster);
    let places = cluster.list(&["partition", "list", "events"]);
    assert_eq!(places.as_array().unwrap().len(), 10);
}

/// Regions of three copies that split by their size while a client writes at their end and between their keys.
#[test]
fn large_regions_are_split_by_themselves_in_use() {
    let mut command =
        zerohop(&["up", "--nodes", "3", "--port", "0", "--memory", "--instances", "1", "--json"]);
    command.env("ZEROHOP_REGION_SIZE", "1MiB");
    let cluster = ServingProgram::start(command);
    cluster.ok(&["keyspace", "create", "events", "--ordered"]);
    let keyspace = events(&cluster);
    let write = |numbers: &mut dyn Iterator<Item = u32>| {
        for n in numbers {
            keyspace.wait_for(keyspace.insert(&format!("{n:06}"), &format!("{n:01000}"))).unwrap();
        }
    };
    let regions = || cluster.list(&["region", "list", "events"]).as_array().unwrap().len();
    write(&mut (0..3_000).map(|n| 2 * n));
    wait_for("the region is split", regions, |count| *count > 2);
    let before = regions();
    write(&mut (0..3_000).map(|n| 2 * (n * 1_013 % 3_000) + 1));
    wait_for("its parts are split", regions, |count| *count > before);
    let all: Vec<String> = (0..6_000).map(|n| format!("{n:06}")).collect();
    assert_eq!(scan(&cluster, &[]), all);
    let value = cluster.ok(&["kv", "get", "-k", "events", "004321"]);
    assert!(value.ends_with("4321\n") || value.ends_with("4321"), "{value}");
}
