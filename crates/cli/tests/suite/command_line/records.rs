//! `zerohop kv`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::patience;
use crate::support::serving::{ServingProgram, code, stderr, stdout};

#[test]
fn records_are_stored_found_and_removed_byte_for_byte() {
    let cluster = ServingProgram::in_memory();
    assert_eq!(cluster.ok(&["kv", "insert", "colour", "blue"]), "");
    assert_eq!(cluster.ok(&["kv", "lookup", "colour"]), "blue", "no line feed is added for a program");
    let binary: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    let stored = cluster.run_with(&["kv", "insert", "from stdin", "-"], &binary);
    assert_eq!(code(&stored), 0, "{stored:?}");
    assert_eq!(cluster.run(&["kv", "lookup", "from stdin"]).stdout, binary);
    let folder = crate::support::folder();
    let file = folder.path().join("value");
    std::fs::write(&file, &binary[..5000]).unwrap();
    cluster.ok(&["kv", "insert", "from file", "--file", file.to_str().unwrap()]);
    assert_eq!(cluster.run(&["kv", "lookup", "from file"]).stdout, &binary[..5000]);
    assert_eq!(cluster.run(&["kv", "lookup", "from file", "--range", "10..20"]).stdout, &binary[10..20]);
    assert_eq!(cluster.run(&["kv", "lookup", "from file", "--range", "-3.."]).stdout, &binary[4997..5000]);
    let odd = OsStr::from_bytes(b"odd \xff key");
    cluster.ok(&[OsStr::new("kv"), OsStr::new("insert"), odd, OsStr::new("")]);
    let found = cluster.run(&[OsStr::new("kv"), OsStr::new("lookup"), odd]);
    assert_eq!((code(&found), found.stdout.len()), (0, 0), "an empty value is a value");
    cluster.ok(&["kv", "insert", "--", "-k", "a key like an option"]);
    assert_eq!(cluster.ok(&["kv", "lookup", "--", "-k"]), "a key like an option");

    assert_eq!(cluster.ok(&["kv", "remove", "colour"]), "");
    for gone in [["kv", "lookup", "colour"], ["kv", "remove", "colour"]] {
        let output = cluster.run(&gone);
        assert_eq!((code(&output), stdout(&output).as_str()), (1, ""), "{output:?}");
        assert!(stderr(&output).contains("key \"colour\": there is no record"), "{output:?}");
    }
}

#[test]
fn json_shows_types_versions_and_binary() {
    let cluster = ServingProgram::in_memory();
    let inserted = cluster.json(&["kv", "insert", "k", "text"]);
    assert_eq!((&inserted["key"], &inserted["done"]), (&json!("k"), &json!(true)));
    let version = inserted["version"].as_str().unwrap();
    let found = cluster.json(&["kv", "lookup", "k"]);
    let expected = json!({
        "key": "k", "found": true, "type": "bytes", "version": version, "length": 4, "value": "text"
    });
    assert_eq!(found, expected);
    let binary = cluster.run_with(&["kv", "insert", "b", "-"], b"\xff\xfe\xfd");
    assert_eq!(code(&binary), 0);
    let found = cluster.json(&["kv", "lookup", "b"]);
    assert_eq!((&found["value_base64"], &found["value"]), (&json!("//79"), &json!(null)));

    let absent = cluster.run(&["kv", "lookup", "absent", "--json"]);
    assert_eq!((code(&absent), stderr(&absent).as_str()), (1, ""));
    let absent: serde_json::Value = serde_json::from_str(&stdout(&absent)).unwrap();
    assert_eq!(absent, json!({"key": "absent", "found": false, "done": false, "reason": "not_found"}));

    assert_eq!(cluster.json(&["kv", "append", "l", "a", "b"])["length"], 2);
    let list = cluster.json(&["kv", "lookup", "l"]);
    assert_eq!((&list["type"], &list["length"], &list["first"]), (&json!("list"), &json!(2), &json!(0)));
    assert_eq!(list["values"], json!([{"value": "a"}, {"value": "b"}]));
    let info = cluster.json(&["kv", "lookup", "l", "--info"]);
    assert_eq!(
        (&info["type"], &info["length"], &info["expires_at_ms"]),
        (&json!("list"), &json!(2), &json!(null))
    );
    assert_eq!(cluster.json(&["kv", "incr", "n", "41"])["value"], 41);
    assert_eq!(cluster.json(&["kv", "remove", "k"]), json!({"key": "k", "done": true}));
}

#[test]
fn conditions_decide_and_their_no_is_exit_code_1() {
    let cluster = ServingProgram::in_memory();
    let no = |arguments: &[&str], words: &str| {
        let output = cluster.run(arguments);
        assert_eq!(code(&output), 1, "{output:?}");
        assert!(stderr(&output).contains(words), "{output:?}");
    };
    no(&["kv", "insert", "k", "v", "--if-present"], "the condition failed: there is no record");
    cluster.ok(&["kv", "insert", "k", "v", "--if-absent"]);
    no(&["kv", "insert", "k", "w", "--if-absent"], "the condition failed: the record is bytes at version");
    let version = cluster.json(&["kv", "lookup", "k"])["version"].as_str().unwrap().to_owned();
    let second = cluster.json(&["kv", "insert", "k", "w", "--if-version", &version]);
    assert_eq!(second["done"], true);
    no(&["kv", "remove", "k", "--if-version", &version], "the condition failed");
    let refused = cluster.run(&["kv", "extend", "k", "x", "--if-absent", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&stdout(&refused)).unwrap();
    let expected = json!({
        "key": "k", "done": false, "reason": "condition_failed", "version": second["version"], "type": "bytes"
    });
    assert_eq!((code(&refused), report), (1, expected));

    cluster.ok(&["kv", "cas", "k", "--expect", "w", "new"]);
    no(&["kv", "cas", "k", "--expect", "w", "newer"], "the comparison failed");
    let failed = cluster.run(&["kv", "cas", "k", "--expect", "w", "newer", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&stdout(&failed)).unwrap();
    assert_eq!((&report["reason"], &report["value"]), (&json!("compare_failed"), &json!("new")));
    cluster.ok(&["kv", "cas", "lock", "--expect-absent", "me"]);
    no(&["kv", "cas", "lock", "--expect-absent", "you"], "the comparison failed");
    cluster.ok(&["kv", "cas", "lock", "--expect", "me", "--remove"]);
    no(&["kv", "lookup", "lock"], "no record");
}

#[test]
fn lists_grow_are_shown_in_parts_and_page_by_page() {
    let cluster = ServingProgram::in_memory();
    assert_eq!(cluster.ok(&["kv", "append", "crew", "Nemo", "Aronnax"]), "2\n");
    let added = cluster.run_with(&["kv", "append", "crew", "-"], b"Conseil");
    assert_eq!((code(&added), stdout(&added).as_str()), (0, "3\n"));
    assert_eq!(cluster.ok(&["kv", "lookup", "crew"]), "Nemo\nAronnax\nConseil\n");
    assert_eq!(cluster.ok(&["kv", "lookup", "crew", "--range", "1..2"]), "Aronnax\n");
    assert_eq!(cluster.ok(&["kv", "lookup", "crew", "--range", "-1.."]), "Conseil\n");
    assert_eq!(cluster.ok(&["kv", "lookup", "crew", "--range", "5.."]), "");
    // The list exceeds one page of 4,096 values.
    let values: Vec<String> = (0..3000).map(|n| format!("value {n}")).collect();
    for _ in 0..3 {
        let arguments: Vec<&str> =
            ["kv", "append", "long"].into_iter().chain(values.iter().map(String::as_str)).collect();
        cluster.ok(&arguments);
    }
    let expected: Vec<&str> = values.iter().map(String::as_str).cycle().take(9000).collect();
    let shown = cluster.ok(&["kv", "lookup", "long"]);
    assert!(shown.lines().eq(expected.iter().copied()), "{} lines", shown.lines().count());
    let shown = cluster.json(&["kv", "lookup", "long", "--range", "100..8900"]);
    let shown = shown["values"].as_array().unwrap();
    assert_eq!(
        (shown.len(), &shown[0]["value"], &shown[8799]["value"]),
        (8800, &json!("value 100"), &json!("value 2899"))
    );
}

#[test]
fn bytes_extend_and_counters_count() {
    let cluster = ServingProgram::in_memory();
    assert_eq!(cluster.ok(&["kv", "extend", "log", "one "]), "4\n");
    assert_eq!(cluster.ok(&["kv", "extend", "log", "two"]), "7\n");
    assert_eq!(cluster.ok(&["kv", "lookup", "log"]), "one two");
    assert_eq!(cluster.ok(&["kv", "incr", "visits"]), "1\n");
    assert_eq!(cluster.ok(&["kv", "incr", "visits", "41"]), "42\n");
    assert_eq!(cluster.ok(&["kv", "incr", "visits", "-50"]), "-8\n");
    assert_eq!(cluster.ok(&["kv", "lookup", "visits"]), "-8");
}

#[test]
fn record_take_succeeds_for_one_client_only() {
    let cluster = ServingProgram::in_memory();
    cluster.ok(&["kv", "insert", "job", "build"]);
    assert_eq!(cluster.ok(&["kv", "take", "job"]), "build");
    let gone = cluster.run(&["kv", "take", "job"]);
    assert_eq!((code(&gone), stdout(&gone).as_str()), (1, ""), "{gone:?}");
    assert!(stderr(&gone).contains("key \"job\": there is no record"), "{gone:?}");
    cluster.ok(&["kv", "append", "crew", "Nemo", "Ned"]);
    assert_eq!(cluster.ok(&["kv", "take", "crew", "--if-present"]), "Nemo\nNed\n");
    let inserted = cluster.json(&["kv", "insert", "k", "text"]);
    let other = cluster.run(&["kv", "take", "k", "--if-version", "1.1"]);
    assert_eq!(code(&other), 1, "{other:?}");
    let removed = cluster.json(&["kv", "take", "k"]);
    let expected = json!({
        "key": "k", "found": true, "type": "bytes", "version": inserted["version"], "length": 4, "value": "text"
    });
    assert_eq!(removed, expected);
    let long = cluster.run_with(&["kv", "insert", "long", "-"], &[7; (64 << 10) + 1]);
    assert_eq!(code(&long), 0, "{long:?}");
    let refused = cluster.run(&["kv", "take", "long"]);
    assert!(code(&refused) != 0 && stderr(&refused).contains("65536"), "{refused:?}");
    assert_eq!(cluster.run(&["kv", "lookup", "long"]).stdout.len(), (64 << 10) + 1);
    let values: Vec<String> = (0..4096).map(|number| number.to_string()).collect();
    let append = ["kv", "append", "many"].into_iter().chain(values.iter().map(String::as_str));
    cluster.ok(&append.collect::<Vec<_>>());
    cluster.ok(&["kv", "append", "many", "4097"]);
    let refused = cluster.run(&["kv", "take", "many"]);
    assert!(code(&refused) == 3 && stderr(&refused).contains("It is unchanged: look it up"), "{refused:?}");
    assert_eq!(cluster.ok(&["kv", "lookup", "many"]).lines().count(), 4097);
}

#[test]
fn numbers_inside_records_are_transformed_in_place() {
    let cluster = ServingProgram::in_memory();
    let transform = |rest: &[&str]| cluster.ok(&[&["kv", "transform", "sums"], rest].concat());
    assert_eq!(transform(&["add", "-7"]), "-7\n");
    assert_eq!(transform(&["add", "0.25", "--type", "f64", "--at", "8"]), "0.25\n");
    assert_eq!(transform(&["max", "1e300", "--type", "f64", "--at", "8", "--old"]), "0.25\n");
    assert_eq!(transform(&["xor", "255", "--type", "u8"]), "6\n");
    let mut expected = (-7_i64).to_le_bytes().to_vec();
    expected[0] = 6;
    expected.extend(1e300_f64.to_le_bytes());
    assert_eq!(cluster.run(&["kv", "lookup", "sums"]).stdout, expected);
    let json = |rest: &[&str]| cluster.json(&[&["kv", "transform", "sums"], rest].concat())["value"].clone();
    assert_eq!(json(&["add", "1", "--type", "u8"]), json!(7));
    assert_eq!(json(&["multiply", "1e300", "--type", "f64", "--at", "8"]), json!("inf"));

    let refused = |rest: &[&str], words: &str| {
        let output = cluster.run(&[&["kv", "transform", "sums"], rest].concat());
        assert_eq!(code(&output), 2, "{output:?}");
        assert!(stderr(&output).contains(words), "{output:?}");
    };
    refused(&["add", "256", "--type", "u8"], "\"256\" is no number of type u8");
    refused(&["and", "1", "--type", "f32"], "`and` combines bits");
    let far = cluster.run(&["kv", "transform", "sums", "add", "1", "--at", "16777209"]);
    assert!(code(&far) != 0 && stderr(&far).contains("beyond the longest value"), "{far:?}");
}

#[test]
fn a_record_with_a_time_to_live_ceases_to_be() {
    let cluster = ServingProgram::in_memory();
    cluster.ok(&["kv", "insert", "token", "abc", "--ttl", "10m"]);
    assert!(cluster.json(&["kv", "lookup", "token", "--info"])["expires_at_ms"].is_u64());
    cluster.ok(&["kv", "insert", "token", "abc", "--ttl", "300ms"]);
    assert_eq!(cluster.ok(&["kv", "wait", "token", "--absent"]), "");
    assert_eq!(code(&cluster.run(&["kv", "lookup", "token"])), 1);
}

#[test]
fn waiting_ends_at_the_change_or_at_the_time_out() {
    let cluster = ServingProgram::in_memory();
    let started = Instant::now();
    let nothing = cluster.run(&["kv", "wait", "go", "--timeout", "300ms"]);
    assert_eq!(code(&nothing), 1, "{nothing:?}");
    assert!(started.elapsed() >= Duration::from_millis(300));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| cluster.ok(&["kv", "wait", "go", "--equals", "now", "--timeout", "5m"]));
        std::thread::sleep(Duration::from_millis(200));
        cluster.ok(&["kv", "insert", "go", "not yet"]);
        assert!(!waiting.is_finished());
        cluster.ok(&["kv", "insert", "go", "now"]);
        assert_eq!(waiting.join().unwrap(), "now");
    });
    assert_eq!(cluster.ok(&["kv", "wait", "go"]), "now", "it is there already");
    assert_eq!(cluster.ok(&["kv", "wait", "go", "--differs", "not yet"]), "now");
    let version = cluster.json(&["kv", "lookup", "go"])["version"].as_str().unwrap().to_owned();
    let same = cluster.run(&["kv", "wait", "go", "--changed", &version, "--timeout", "100ms", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&stdout(&same)).unwrap();
    assert_eq!(
        (code(&same), &report["reason"], &report["version"]),
        (1, &json!("timed_out"), &json!(version))
    );
}

#[test]
fn a_scan_finds_every_key_of_a_prefix_once() {
    let cluster = ServingProgram::in_memory();
    let keys: Vec<String> = (0..200).map(|n| format!("user:{n:03}")).collect();
    // A process for each key would take long, so that a client inserts them in a batch.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = patience::client(cluster.endpoint()).await.unwrap();
        let keyspace = client.keyspace("default").await.unwrap();
        for key in &keys {
            keyspace.insert(key, "x").await.unwrap();
        }
        keyspace.append("other", &[b"x"]).await.unwrap();
    });
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&cluster.ok(&["kv", "scan", "user:"])), keys);
    assert_eq!(sorted(&cluster.ok(&["kv", "scan", "user:", "--page", "7"])), keys);
    assert_eq!(cluster.ok(&["kv", "scan"]).lines().count(), 201);
    assert_eq!(cluster.ok(&["kv", "scan", "user:", "--limit", "13"]).lines().count(), 13);
    assert_eq!(cluster.ok(&["kv", "scan", "user:", "--limit", "0"]), "");
    assert_eq!(cluster.ok(&["kv", "scan", "absent"]), "");
    assert_eq!(cluster.ok(&["kv", "scan", "user:", "--null"]).split_terminator('\0').count(), 200);
    let other = cluster.json(&["kv", "scan", "other"]);
    assert_eq!((&other["key"], &other["type"]), (&json!("other"), &json!("list")));
    assert!(other["partition"].is_u64() && other["version"].is_string());
}

#[test]
fn keyspaces_are_apart() {
    let cluster = ServingProgram::in_memory();
    cluster.ok(&["keyspace", "create", "papers", "--durability", "memory"]);
    cluster.ok(&["kv", "insert", "k", "of default"]);
    cluster.ok(&["kv", "insert", "-k", "papers", "k", "of papers"]);
    assert_eq!(cluster.ok(&["kv", "lookup", "k"]), "of default");
    assert_eq!(cluster.ok(&["kv", "lookup", "k", "--keyspace", "papers"]), "of papers");
}
