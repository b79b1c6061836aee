//! With `--json` every answer is JSON: results, negative answers and errors.

use serde_json::{Value, json};

use crate::command_line::secrets::{new_secret, run_with, up};
use crate::support::serving::{ServingProgram, code, stderr, stdout};

fn one_line(text: &str) -> Value {
    let mut lines = text.lines();
    let value = serde_json::from_str(lines.next().expect("a line")).expect("JSON");
    assert_eq!(lines.next(), None, "{text}");
    value
}

#[test]
fn every_error_is_a_line_of_json_and_a_sentence() {
    let cluster = ServingProgram::in_memory();
    cluster.ok(&["kv", "insert", "bytes", "text"]);
    cluster.ok(&["kv", "append", "list", "value"]);
    cluster.ok(&["kv", "insert", "full", &i64::MAX.to_string()]);
    let long = "k".repeat(65_537);
    for (arguments, expected, reason, about) in [
        (&["kv", "append", "bytes", "v"][..], 3, "wrong_type", json!({"key": "bytes"})),
        (&["kv", "extend", "list", "v"], 3, "wrong_type", json!({"key": "list"})),
        (&["kv", "incr", "list"], 3, "wrong_type", json!({"key": "list"})),
        (&["kv", "transform", "list", "add", "1"], 3, "wrong_type", json!({"key": "list"})),
        (&["kv", "cas", "list", "v", "--expect", "w"], 3, "wrong_type", json!({"key": "list"})),
        (&["kv", "incr", "bytes"], 3, "not_a_number", json!({"key": "bytes"})),
        (&["kv", "incr", "full"], 3, "overflow", json!({"key": "full"})),
        (&["kv", "insert", "", "v"], 3, "empty", json!({"key": ""})),
        (&["kv", "lookup", &long], 3, "too_large", json!({"key": long})),
        (&["kv", "lookup", "k", "-k", "nowhere"], 3, "no_keyspace", json!({"key": "k"})),
        (&["kv", "scan", "-k", "nowhere"], 3, "no_keyspace", json!({})),
        (&["kv", "insert", "k", "--file", "/no such file"], 3, "system", json!({"key": "k"})),
        (&["kv", "scan", "--page", "0"], 2, "usage", json!({})),
        (&["kv", "lookup"], 2, "usage", json!({})),
        (&["blob", "put", "", "/dev/null"], 3, "empty", json!({"name": ""})),
        (&["blob", "put", "b", "/dev/null", "--chunk", "5000"], 2, "usage", json!({"name": "b"})),
        (&["blob", "get", "b", "-k", "nowhere"], 3, "no_keyspace", json!({"name": "b"})),
        (&["keyspace", "show", "nowhere"], 3, "no_keyspace", json!({})),
        (&["keyspace", "create", "default"], 3, "exists", json!({})),
        (&["partition", "release", "default/0"], 3, "refused", json!({})),
        (&["node", "drain", "1"], 3, "refused", json!({})),
        (&["node", "up", "1"], 3, "refused", json!({})),
        (&["node", "remove", "1"], 3, "refused", json!({})),
        (&["token", "revoke", "absent"], 3, "refused", json!({})),
        (&["recover", "acknowledge", "nowhere"], 3, "no_keyspace", json!({})),
        (&["restore", "/no such folder"], 3, "refused", json!({})),
        (&["status", "--endpoint", "127.0.0.1:9"], 3, "no_cluster", json!({})),
        (&["status", "--endpoint", "a b"], 2, "usage", json!({})),
        (&["secret", "bearer", "--secret-file", ""], 2, "usage", json!({})),
    ] {
        let output = cluster.run(&[arguments, &["--json"]].concat());
        assert_eq!(code(&output), expected, "{arguments:?}: {output:?}");
        let line = one_line(&stdout(&output));
        assert_eq!(
            (&line["done"], &line["reason"]),
            (&json!(false), &json!(reason)),
            "{arguments:?}: {line}"
        );
        for (field, value) in about.as_object().unwrap() {
            assert_eq!(&line[field], value, "{arguments:?}: {line:.300}");
        }
        let error = line["error"].as_str().unwrap();
        if expected == 3 {
            assert_eq!(stderr(&output), format!("zerohop: {error}\n"), "{arguments:?}");
        } else {
            assert!(!error.is_empty() && !error.contains("Usage:"), "{arguments:?}: {error}");
        }
        // Without the option there is the sentence alone.
        let plain = cluster.run(arguments);
        assert_eq!((code(&plain), stdout(&plain).as_str()), (expected, ""), "{arguments:?}");
    }
    // An error after a part of the result adds no line to it.
    let output = cluster.run_with(&["txn", "--json"], b"blob write none x --at 0\n");
    assert_eq!(one_line(&stdout(&output))["reason"], "not_found");
    let output = cluster.run_with(&["txn", "--json"], b"nonsense\n");
    assert_eq!((code(&output), &one_line(&stdout(&output))["reason"]), (2, &json!("usage")));
    let output = cluster.run_with(&["txn", "--json"], b"insert a b\nblob create \"\"\n");
    let line = one_line(&stdout(&output));
    assert_eq!((&line["reason"], &line["line"], &line["name"]), (&json!("empty"), &json!(2), &json!("")));
    let output = cluster.run_with(&["txn", "--json"], b"insert \"\" x\n");
    let line = one_line(&stdout(&output));
    assert_eq!((&line["reason"], &line["line"], &line["key"]), (&json!("empty"), &json!(1), &json!("")));
    cluster.ok(&["blob", "put", "there", "/dev/null"]);
    let output = cluster.run_with(&["txn", "--json"], b"blob create there\n");
    let line = one_line(&stdout(&output));
    assert_eq!((code(&output), &line["reason"], &line["name"]), (1, &json!("exists"), &json!("there")));
}

#[test]
fn the_bytes_of_a_blob_are_json_too() {
    let cluster = ServingProgram::in_memory();
    assert_eq!(code(&cluster.run_with(&["blob", "put", "text"], "größe\n".as_bytes())), 0);
    assert_eq!(code(&cluster.run_with(&["blob", "put", "binary"], b"\0\xff\xfe")), 0);
    let whole = json!({"name": "text", "found": true, "at": 0, "length": 8, "value": "größe\n"});
    assert_eq!(cluster.json(&["blob", "get", "text"]), whole);
    assert_eq!(cluster.json(&["blob", "read", "text"]), whole);
    let part = json!({"name": "text", "found": true, "at": 1, "length": 3, "value": "rö"});
    assert_eq!(cluster.json(&["blob", "read", "text", "--at", "1", "--length", "3"]), part);
    let binary = json!({"name": "binary", "found": true, "at": 0, "length": 3, "value_base64": "AP/+"});
    assert_eq!(cluster.json(&["blob", "get", "binary"]), binary);
    let none = json!({"name": "text", "found": true, "at": 99, "length": 0, "value": ""});
    assert_eq!(cluster.json(&["blob", "read", "text", "--at", "99"]), none);
    let folder = crate::support::folder();
    let file = folder.path().join("file");
    let file = file.to_str().unwrap();
    let stored = json!({"name": "text", "found": true, "length": 8, "file": file});
    assert_eq!(cluster.json(&["blob", "get", "text", file]), stored);
    assert_eq!(std::fs::read_to_string(file).unwrap(), "größe\n");
    let versions = folder.path().join("versions");
    let versions = versions.to_str().unwrap();
    assert_eq!(cluster.json(&["blob", "read", "text", "--versions-to", versions]), whole);
    for command in [
        &["blob", "get", "none"][..],
        &["blob", "get", "none", file],
        &["blob", "read", "none"],
        &["blob", "stat", "none"],
        &["blob", "rm", "none"],
        &["blob", "truncate", "none", "1"],
        &["blob", "write", "none", "x", "--at", "0"],
        &["blob", "extend", "none", "x"],
        &["blob", "transform", "none", "add", "1"],
    ] {
        let output = cluster.run(&[command, &["--json"]].concat());
        assert_eq!(code(&output), 1, "{command:?}: {output:?}");
        let wanted = json!({"name": "none", "found": false, "done": false, "reason": "not_found"});
        assert_eq!(one_line(&stdout(&output)), wanted, "{command:?}");
    }
}

#[test]
fn transaction_reports_missing_records_and_blobs() {
    let cluster = ServingProgram::in_memory();
    let output = cluster.run_with(&["txn"], b"blob rm none\nremove gone\ninsert k v\n");
    assert_eq!((code(&output), stdout(&output).as_str()), (0, ""), "{output:?}");
    assert_eq!(
        stderr(&output),
        "zerohop: line 1: blob \"none\": there is no such blob\nzerohop: line 2: key \"gone\": there is no record of this key\n"
    );
    let output = cluster.run_with(&["txn", "--json"], b"blob rm none\nremove gone\nremove k\n");
    let results = one_line(&stdout(&output))["results"].clone();
    let wanted = json!([
        {"operation": "blob rm", "name": "none", "done": false, "found": false, "reason": "not_found"},
        {"operation": "remove", "key": "gone", "done": false, "found": false, "reason": "not_found"},
        {"operation": "remove", "key": "k", "done": true, "found": true},
    ]);
    assert_eq!(results, wanted);
}

#[test]
fn commands_that_create_files_and_tokens_print_json() {
    let folder = crate::support::folder();
    let secret = new_secret(folder.path(), "secret");
    let cluster = up(&secret, &["--nodes", "1"]);
    let json = |arguments: &[&str]| {
        let output = run_with(&cluster, Some(&secret), &[arguments, &["--json"]].concat());
        assert_eq!((code(&output), stderr(&output).as_str()), (0, ""), "{arguments:?}: {output:?}");
        one_line(&stdout(&output))
    };
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let file = path("reader.token");
    let made = json(&["token", "new", "reader", "--all", "read", "--expires", "1h", "--file", &file]);
    assert_eq!((&made["name"], &made["file"]), (&"reader".into(), &file.as_str().into()), "{made}");
    assert_eq!(made["expires_in_ms"], 3_600_000);
    assert_eq!(json(&["token", "list"])["id"], made["id"]);
    assert_eq!(json(&["token", "revoke", "reader"]), json!({"name": "reader", "done": true}));
    let other = path("other");
    assert_eq!(json(&["secret", "new", &other]), json!({"file": other}));
    assert!(json(&["secret", "bearer"])["bearer"].is_string());
    let tls = path("tls");
    let files = json!(["ca.pem", "ca-key.pem", "node.pem", "node-key.pem"]);
    assert_eq!(json(&["tls", "new", &tls, "--hosts", "127.0.0.1"]), json!({"folder": tls, "files": files}));
    let files = json!(["other.pem", "other-key.pem"]);
    assert_eq!(
        json(&["tls", "add", &tls, "other", "--hosts", "127.0.0.1"]),
        json!({"folder": tls, "files": files})
    );
}
