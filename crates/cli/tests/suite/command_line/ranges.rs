//! `zerohop kv scan` of ordered keyspaces: ranges, in order, before and after a restart and a move.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use zerohop_client::{BlockingHandle, BlockingKeyspace};

use crate::support::serving::{ServingProgram, code, stderr, stdout, zerohop};
use crate::support::{patience, wait_for};

const DAYS: u32 = 30;

pub(super) fn key(month: u32, day: u32) -> String {
    format!("2026-{month:02}-{day:02}")
}

pub(super) fn value(month: u32, day: u32) -> String {
    format!("event {}", month * 100 + day)
}

pub(super) fn events(cluster: &ServingProgram) -> BlockingKeyspace {
    patience::blocking_client(cluster.endpoint()).unwrap().keyspace("events").unwrap()
}

/// Twelve months of thirty days, inserted from the last to the first, and a list.
pub(super) fn insert_events(cluster: &ServingProgram) {
    let keyspace = events(cluster);
    for month in (1..=12).rev() {
        for day in (1..=DAYS).rev() {
            keyspace.wait_for(keyspace.insert(&key(month, day), &value(month, day))).unwrap();
        }
    }
    keyspace.wait_for(keyspace.append("a list", &[b"x", b"y"])).unwrap();
}

pub(super) fn scan(cluster: &ServingProgram, options: &[&str]) -> Vec<String> {
    let printed = cluster.ok(&[&["kv", "scan", "-k", "events"], options].concat());
    printed.lines().map(str::to_owned).collect()
}

/// All scans of [`insert_events`], with every key and value.
pub(super) fn check_events(cluster: &ServingProgram) {
    let days = |month| (1..=DAYS).map(move |day| key(month, day));
    let all: Vec<String> = (1..=12).flat_map(days).chain(["a list".to_owned()]).collect();
    let reversed: Vec<String> = all.iter().rev().cloned().collect();
    assert_eq!(scan(cluster, &[]), all, "digits are below letters");
    assert_eq!(scan(cluster, &["--page", "7"]), all);
    assert_eq!(scan(cluster, &["--reverse"]), reversed);
    assert_eq!(scan(cluster, &["--reverse", "--page", "7"]), reversed);
    assert_eq!(scan(cluster, &["--reverse", "--limit", "3"]), reversed[..3]);

    let april = &all[3 * DAYS as usize..4 * DAYS as usize];
    assert_eq!(scan(cluster, &["2026-04"]), april);
    assert_eq!(scan(cluster, &["--from", "2026-04", "--to", "2026-05"]), april);
    assert_eq!(scan(cluster, &["--from", "2026-04-05", "--to", "2026-04-08"]), april[4..7]);
    assert_eq!(scan(cluster, &["2026-04", "--from", "2026-04-29"]), april[28..], "the prefix limits it too");
    assert_eq!(scan(cluster, &["2026-04", "--reverse", "--limit", "1"]), april[29..]);
    assert_eq!(scan(cluster, &["--to", "2026-01-03"]), all[..2]);
    assert_eq!(scan(cluster, &["--from", "2026-12-30"]), all[all.len() - 2..]);
    assert_eq!(scan(cluster, &["--from", "2026-04", "--to", "2026-04"]), [""; 0]);
    assert_eq!(scan(cluster, &["--from", "2026-04", "--limit", "0"]), [""; 0]);

    let with_values = |month, day| format!("{}\t{}", key(month, day), value(month, day));
    assert_eq!(
        scan(cluster, &["2026-04", "--values", "--limit", "40", "--page", "9"]),
        (1..=DAYS).map(|day| with_values(4, day)).collect::<Vec<_>>()
    );
    assert_eq!(
        scan(cluster, &["--values", "--reverse", "--limit", "2"]),
        ["a list".to_owned(), with_values(12, DAYS)]
    );
}

#[test]
fn ranges_are_printed_in_order_also_after_a_kill() {
    let folder = crate::support::folder();
    let up = || ServingProgram::up(&["--data", folder.path().to_str().unwrap(), "--instances", "2"]);
    let cluster = up();
    cluster.ok(&["keyspace", "create", "events", "--ordered", "--durability", "sync"]);
    insert_events(&cluster);
    check_events(&cluster);
    // What was removed and inserted again counts after the restart.
    cluster.ok(&["kv", "remove", "-k", "events", &key(4, 10)]);
    assert_eq!(scan(&cluster, &["--from", "2026-04-10", "--limit", "1"]), [key(4, 11)]);
    kill_process(cluster.node_pid(), Signal::KILL).unwrap();
    drop(cluster);
    let cluster = up();
    assert_eq!(scan(&cluster, &["--from", "2026-04-10", "--limit", "1"]), [key(4, 11)]);
    cluster.ok(&["kv", "insert", "-k", "events", &key(4, 10), &value(4, 10)]);
    check_events(&cluster);
}

#[test]
fn a_moved_partition_has_its_order() {
    let up = ["up", "--nodes", "2", "--port", "0", "--json", "--memory", "--instances", "1"];
    let cluster = ServingProgram::start(zerohop(&up));
    let create = ["keyspace", "create", "events", "--ordered", "--replicas", "1", "--min-in-sync", "1"];
    cluster.ok(&create);
    insert_events(&cluster);
    let move_to_other = || {
        let errors = ["1", "2"].map(|node| {
            let moved = cluster.run(&["partition", "move", "events/0", "--to", node]);
            (code(&moved) != 0).then(|| stderr(&moved))
        });
        let is_elsewhere =
            |error: &Option<String>| error.as_ref().is_none_or(|error| error.contains("is there already"));
        // The second move returns to the first node, unless the first was refused.
        if errors.iter().all(is_elsewhere) { Ok(()) } else { Err(errors) }
    };
    wait_for("the partition is moved", move_to_other, Result::is_ok).unwrap();
    check_events(&cluster);
    cluster.ok(&["kv", "insert", "-k", "events", "zz", "last"]);
    assert_eq!(scan(&cluster, &["--reverse", "--limit", "1", "--values"]), ["zz\tlast"]);
}

#[tokio::test]
async fn client_scans_a_range_now_and_in_a_snapshot() {
    let cluster = ServingProgram::in_memory();
    cluster.ok(&["keyspace", "create", "events", "--ordered"]);
    let client = patience::client(cluster.endpoint()).await.unwrap();
    let keyspace = client.keyspace("events").await.unwrap();
    for n in 0..100u32 {
        keyspace.insert(&format!("{n:03}"), &n.to_string()).await.unwrap();
    }
    let snapshot = client.snapshot(&[&keyspace]).await.unwrap();
    for n in 0..100u32 {
        match n % 3 {
            0 => drop(keyspace.remove(&format!("{n:03}")).await.unwrap()),
            _ => drop(keyspace.insert(&format!("{n:03}"), "new").await.unwrap()),
        }
    }
    let mut then = snapshot.scan_range(&keyspace, "010".."090").values().reverse().page_keys(7);
    let mut listed = Vec::new();
    while let Some(page) = then.next_page().await.unwrap() {
        assert!(page.len() <= 7);
        listed.extend(page.into_iter().map(|one| (one.key, one.value.unwrap())));
    }
    let expected = |n: u32| (format!("{n:03}").into(), n.to_string().into());
    assert_eq!(listed, (10..90).rev().map(expected).collect::<Vec<_>>());
    let mut now = keyspace.scan_range("010"..="020").values().limit(5);
    let page = now.next_page().await.unwrap().unwrap();
    let page: Vec<_> = page.into_iter().map(|one| (one.key, one.value.unwrap())).collect();
    let expected: [(bytes::Bytes, bytes::Bytes); 5] =
        ["010", "011", "013", "014", "016"].map(|key| (key.into(), "new".into()));
    assert_eq!(page, expected);
    assert_eq!(now.next_page().await.unwrap(), None, "the limit is reached");
    snapshot.close().await.unwrap();
}

#[test]
fn restored_keyspace_is_ordered() {
    let folder = crate::support::folder();
    let backup = folder.path().join("backup");
    let backup = backup.to_str().unwrap();
    let cluster = ServingProgram::in_memory();
    cluster.ok(&["keyspace", "create", "events", "--ordered"]);
    insert_events(&cluster);
    let backed_up = cluster.run(&["backup", backup, "-k", "events"]);
    assert_eq!(code(&backed_up), 0, "{backed_up:?}");
    cluster.ok(&["keyspace", "drop", "events", "--yes"]);
    let restored = cluster.run(&["restore", backup]);
    assert_eq!(code(&restored), 0, "{restored:?}");
    check_events(&cluster);
}

#[test]
fn json_lines_have_values_and_binary_keys() {
    let cluster = ServingProgram::in_memory();
    cluster.ok(&["keyspace", "create", "events", "--ordered"]);
    let version = |of: &str| cluster.json(&["kv", "lookup", "-k", "events", of])["version"].clone();
    for (key, value) in [(&b"a"[..], &b"tab\tand\nline"[..]), (b"b\xff", b"\xff\xfe\xfd"), (b"-k", b"")] {
        let words = [OsStr::new("kv"), OsStr::new("insert"), OsStr::new("-k"), OsStr::new("events")];
        let words: Vec<&OsStr> = words.into_iter().chain(["--", "key", "-"].map(OsStr::new)).collect();
        let words: Vec<&OsStr> =
            words.iter().map(|word| if *word == "key" { OsStr::from_bytes(key) } else { word }).collect();
        assert_eq!(code(&cluster.run_with(&words, value)), 0);
    }
    cluster.ok(&["kv", "append", "-k", "events", "c", "x"]);
    let lines = cluster.list(&["kv", "scan", "-k", "events", "--values", "--from", "a"]);
    let binary = &lines[1];
    assert_eq!(
        lines,
        json!([
            {"key": "a", "type": "bytes", "version": version("a"), "partition": 0, "value": "tab\tand\nline"},
            {"key_base64": "Yv8=", "type": "bytes", "version": binary["version"], "partition": 0, "value_base64": "//79"},
            {"key": "c", "type": "list", "version": version("c"), "partition": 0},
        ])
    );
    let keys = cluster.list(&["kv", "scan", "-k", "events", "--from", "c"]);
    assert_eq!(keys, json!([{"key": "c", "type": "list", "version": version("c"), "partition": 0}]));
    let empty = cluster.list(&["kv", "scan", "-k", "events", "--values", "--to", "a"]);
    assert_eq!((&empty[0]["key"], &empty[0]["value"]), (&json!("-k"), &json!("")));
    let shown = cluster.run(&["kv", "scan", "-k", "events", "--values"]).stdout;
    assert_eq!(shown, b"-k\t\na\ttab\\tand\\nline\nb\xff\t\xff\xfe\xfd\nc\n");
    let from_option = cluster.ok(&["kv", "scan", "-k", "events", "--from", "-k", "--to", "-l", "-0"]);
    assert_eq!(from_option, "-k\0");
    // The value is longer than a page.
    let long = vec![b'v'; 3 << 20];
    let inserted = cluster.run_with(&["kv", "insert", "-k", "events", "d", "-"], &long);
    assert_eq!(code(&inserted), 0, "{inserted:?}");
    let shown = cluster.run(&["kv", "scan", "-k", "events", "d", "--values"]).stdout;
    assert!(shown == [b"d\t", &long[..], b"\n"].concat(), "{} bytes", shown.len());
}

#[test]
fn ranges_without_order_and_reversed_bounds_are_refused() {
    let cluster = ServingProgram::in_memory();
    cluster.ok(&["keyspace", "create", "events", "--ordered"]);
    cluster.ok(&["kv", "insert", "k", "v"]);
    let refused = |arguments: &[&str], reason: &str, words: &str| {
        let output = cluster.run(&[&["kv", "scan", "--json"], arguments].concat());
        assert_eq!(code(&output), 3, "{output:?}");
        assert!(stderr(&output).contains(words), "{output:?}");
        let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
        assert_eq!((&report["reason"], &report["done"]), (&json!(reason), &json!(false)), "{output:?}");
    };
    for option in [&["--from", "a"][..], &["--to", "z"], &["--reverse"], &["--values", "--from", "a"]] {
        refused(option, "not_ordered", "the keyspace is not ordered");
    }
    // Values limit nothing.
    for option in [&["--values"][..], &["--values", "--limit", "1", "a prefix"]] {
        refused(option, "not_ordered", "a scan with --values needs an ordered keyspace");
    }
    assert_eq!(cluster.ok(&["kv", "scan"]), "k\n");
    refused(&["-k", "events", "--from", "b", "--to", "a"], "bounds", "exchange them");
    let both = cluster.run(&["kv", "scan", "-k", "events", "--values", "-0"]);
    assert_eq!(code(&both), 2, "{both:?}");
    let partitions = cluster.run(&["keyspace", "create", "k", "--ordered", "--partitions", "4"]);
    assert_eq!(code(&partitions), 2, "{partitions:?}");
    let split = cluster.run(&["keyspace", "split", "events"]);
    assert!(code(&split) == 3 && stderr(&split).contains("order"), "{split:?}");
}
