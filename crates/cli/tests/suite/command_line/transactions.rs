//! `zerohop txn`.

use serde_json::{Value, json};

use crate::support::serving::{ServingProgram, code, stderr, stdout};

/// Runs a transaction of these lines.
fn txn(cluster: &ServingProgram, lines: &[&str], json: bool) -> (i32, String, String) {
    let text = lines.join("\n");
    let arguments: &[&str] = if json { &["txn", "--json"] } else { &["txn"] };
    let output = cluster.run_with(arguments, text.as_bytes());
    (code(&output), stdout(&output), stderr(&output))
}

#[test]
fn transaction_over_keyspaces_and_partitions_is_atomic() {
    let cluster = ServingProgram::in_memory();
    cluster.ok(&["keyspace", "create", "other", "--durability", "memory"]);
    cluster.ok(&["kv", "insert", "door", "open"]);
    let lines = [
        "check anna absent",
        "insert anna 'in the house'",
        "incr visitors",
        "lookup door",
        "append log a b -k other",
    ];
    assert_eq!(txn(&cluster, &lines, false), (0, "1\nopen\n2\n".to_owned(), String::new()));
    assert_eq!(cluster.ok(&["kv", "lookup", "anna"]), "in the house");
    assert_eq!(cluster.ok(&["kv", "lookup", "log", "-k", "other"]), "a\nb\n");
    // If one line is refused, no line takes effect.
    for lines in [
        ["incr visitors", "insert anna out --if-absent", "append log c -k other"],
        ["incr visitors", "check anna absent", "append log c -k other"],
        ["incr visitors", "cas anna out --expect elsewhere", "append log c -k other"],
    ] {
        let (code, printed, why) = txn(&cluster, &lines, false);
        assert_eq!((code, printed.as_str()), (1, ""), "{why}");
        assert!(why.contains("anna") && why.starts_with("zerohop: line 2: "), "{why}");
    }
    assert_eq!(cluster.ok(&["kv", "lookup", "visitors"]), "1");
    assert_eq!(cluster.ok(&["kv", "lookup", "log", "-k", "other"]), "a\nb\n");
}

#[test]
fn json_output_has_each_result_and_each_refusal() {
    let cluster = ServingProgram::in_memory();
    let (code, printed, _) = txn(&cluster, &["incr n 5", "lookup n", "remove gone", "lookup gone"], true);
    let report: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!((code, &report["done"]), (0, &json!(true)));
    let expected = json!([
        { "operation": "incr", "key": "n", "done": true, "value": 5 },
        { "operation": "lookup", "key": "n", "found": true, "type": "bytes", "length": 1, "value": "5" },
        { "operation": "remove", "key": "gone", "done": false, "found": false, "reason": "not_found" },
        { "operation": "lookup", "key": "gone", "found": false },
    ]);
    assert_eq!(report["results"], expected);
    let version = cluster.json(&["kv", "lookup", "n"])["version"].clone();
    assert_eq!(version, report["version"], "all that it changed has its version");
    let check = format!("check n {}", version.as_str().unwrap());
    assert_eq!(txn(&cluster, &[&check, "incr n"], true).0, 0);
    let (code, printed, _) = txn(&cluster, &[&check, "incr n"], true);
    let report: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!((code, &report["done"], &report["reason"]), (1, &json!(false), &json!("check_failed")));
    assert_eq!((&report["line"], &report["key"]), (&json!(1), &json!("n")));
    let (code, printed, _) = txn(&cluster, &["incr n", "insert n x --if-absent"], true);
    let report: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!((code, &report["reason"], &report["key"]), (1, &json!("condition_failed"), &json!("n")));
    // One line is refused by its record, and no line takes effect.
    let (code, printed, why) = txn(&cluster, &["", "insert m v", "append n v"], true);
    let report: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!((code, &report["done"], &report["reason"]), (3, &json!(false), &json!("wrong_type")));
    assert_eq!((&report["line"], &report["key"]), (&json!(3), &json!("n")));
    let sentence = report["error"].as_str().unwrap();
    assert!(
        sentence.starts_with("line 3: key \"n\"") && sentence.ends_with("; nothing was done"),
        "{sentence}"
    );
    assert_eq!(why, format!("zerohop: {sentence}\n"), "the sentence stays on standard error");
    assert_eq!(self::code(&cluster.run(&["kv", "lookup", "m"])), 1);
}

#[test]
fn operation_that_a_record_refuses_leaves_all_others_undone() {
    let cluster = ServingProgram::in_memory();
    cluster.ok(&["keyspace", "create", "other", "--durability", "memory"]);
    cluster.ok(&["kv", "insert", "word", "x"]);
    cluster.ok(&["kv", "insert", "full", &i64::MAX.to_string()]);
    cluster.ok(&["kv", "append", "list", "a", "-k", "other"]);
    for (lines, refused) in [
        (&["incr n", "incr word"][..], 2),
        (&["incr full", "incr n"], 1),
        (&["incr n", "append word v"], 2),
        (&["incr n", "extend list v -k other"], 2),
        (&["incr n", "transform list add 1 -k other"], 2),
        (&["incr n", "cas list v --expect a -k other"], 2),
        // The lines above have made what refuses it.
        (&["incr n", "insert new x", "incr new"], 3),
        (&["append new v", "incr n", "lookup new", "extend new w"], 4),
        (&["incr n", "append list v -k other", "append list w -k other", "incr list -k other"], 4),
        (&["incr n", "remove word", "append word v", "incr word"], 4),
    ] {
        let (code, printed, why) = txn(&cluster, lines, false);
        assert_eq!((code, printed.as_str()), (3, ""), "{lines:?}: {why}");
        assert!(why.starts_with(&format!("zerohop: line {refused}: key \"")), "{lines:?}: {why}");
        assert!(why.ends_with("; nothing was done\n"), "{lines:?}: {why}");
        for key in ["n", "new"] {
            assert_eq!(self::code(&cluster.run(&["kv", "lookup", key])), 1, "{lines:?} has written {key}");
        }
        assert_eq!(cluster.ok(&["kv", "lookup", "word"]), "x", "{lines:?}");
        assert_eq!(cluster.ok(&["kv", "lookup", "list", "-k", "other"]), "a\n", "{lines:?}");
    }
    // What the lines above have made suits the operation.
    let lines =
        ["insert word 4", "incr word", "remove list -k other", "extend list x -k other", "incr n", "incr n"];
    assert_eq!(txn(&cluster, &lines, false), (0, "5\n1\n1\n2\n".to_owned(), String::new()));
    // Of a long list, only a page is read.
    let values: Vec<String> = (0..4000).map(|number| number.to_string()).collect();
    let append = ["kv", "append", "long"].into_iter().chain(values.iter().map(String::as_str));
    let append: Vec<&str> = append.collect();
    cluster.ok(&append);
    cluster.ok(&append);
    let (code, printed, why) = txn(&cluster, &["append long v", "append long w", "incr long"], false);
    assert_eq!((code, printed.as_str()), (3, ""), "{why}");
    let appended = txn(&cluster, &["append long v", "append long w"], false);
    assert_eq!(appended, (0, "8001\n8002\n".to_owned(), String::new()));
}

#[test]
fn transform_lines_change_numbers_and_print_results() {
    let cluster = ServingProgram::in_memory();
    let lines = ["insert m x", "transform n add 40", "transform f max -2.5 --type f64 --at 8", "incr c"];
    assert_eq!(txn(&cluster, &lines, false), (0, "40\n0.0\n1\n".to_owned(), String::new()));
    let (code, printed, _) = txn(&cluster, &["transform n multiply 3", "transform n add 2", "incr c"], true);
    let report: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!((code, &report["done"]), (0, &json!(true)));
    let first = json!({ "operation": "transform", "key": "n", "done": true, "value": 120 });
    assert_eq!((&report["results"][0], &report["results"][1]["value"]), (&first, &json!(122)));
    // An operation that a record refuses is reported with its line.
    let (code, _, why) = txn(&cluster, &["append l v", "incr c", "transform l add 1"], false);
    assert_eq!(code, 3);
    assert!(why.starts_with("zerohop: line 3: key \"l\""), "{why}");
    for bad in ["transform n or 1 --type f32", "transform n add 1.5", "transform n divide 2"] {
        let (code, _, why) = txn(&cluster, &["incr c", bad], false);
        assert_eq!(code, 2, "{why}");
        assert!(why.contains("line 2 of the transaction"), "{why}");
    }
    assert_eq!(cluster.ok(&["kv", "lookup", "c"]), "2");
}

#[test]
fn failed_condition_names_its_line_if_several_write_the_key() {
    let cluster = ServingProgram::in_memory();
    let lines = ["insert n 1", "", "lookup gone", "incr n", "insert n x --if-absent", "incr n"];
    let (code, printed, why) = txn(&cluster, &lines, false);
    assert_eq!((code, printed.as_str()), (1, ""), "{why}");
    assert!(why.starts_with("zerohop: line 5: "), "{why}");
    let (_, printed, _) = txn(&cluster, &lines, true);
    let report: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!((&report["reason"], &report["line"]), (&json!("condition_failed"), &json!(5)));
}

#[test]
fn invalid_line_is_reported_by_number_and_nothing_is_sent() {
    let cluster = ServingProgram::in_memory();
    for (lines, why) in [
        (["insert a b", "insert a"], "line 2 of the transaction"),
        (["insert a b", "wait a"], "line 2 of the transaction"),
        (["# nothing", ""], "the transaction is empty"),
    ] {
        let (code, _, reply) = txn(&cluster, &lines, false);
        assert_eq!(code, 2, "{reply}");
        assert!(reply.contains(why), "{reply}");
    }
    assert_eq!(code(&cluster.run(&["kv", "lookup", "a"])), 1);
}

#[test]
fn transaction_accepts_many_and_large_operations() {
    let cluster = ServingProgram::in_memory();
    let large = "v".repeat(300_000);
    // The lines are over all 256 partitions of the keyspace.
    let mut lines: Vec<String> = (0..10_000).map(|at| format!("insert key-{at} {at}")).collect();
    lines.push(format!("insert large {large}"));
    lines.push(format!("insert larger {large}{large}"));
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    assert_eq!(txn(&cluster, &lines, false), (0, String::new(), String::new()));
    assert_eq!(cluster.ok(&["kv", "lookup", "key-9999"]), "9999");
    assert_eq!(cluster.ok(&["kv", "lookup", "larger"]).len(), 600_000);
}

#[test]
fn concurrent_transactions_of_several_programs_lose_no_update() {
    let cluster = ServingProgram::in_memory();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..10 {
                    let (code, _, why) = txn(&cluster, &["incr a -1", "incr b", "lookup b"], false);
                    assert_eq!(code, 0, "{why}");
                }
            });
        }
    });
    assert_eq!(
        (cluster.ok(&["kv", "lookup", "a"]), cluster.ok(&["kv", "lookup", "b"])),
        ("-40".into(), "40".into())
    );
}

#[test]
fn blobs_change_among_records_or_not_at_all() {
    let cluster = ServingProgram::in_memory();
    let lines = ["blob create c --chunk 8KiB --attributes 'kind = c'", "blob extend c x", "blob create d"];
    assert_eq!(txn(&cluster, &lines, false), (0, "0\n".to_owned(), String::new()));
    let made = cluster.json(&["blob", "stat", "c"]);
    assert_eq!((&made["chunk_bytes"], &made["attributes"]), (&json!(8192), &json!("kind = c")), "{made}");
    assert_eq!(cluster.json(&["blob", "stat", "d"])["attributes"], "");
    let long = format!("blob create e --attributes {}", "x".repeat(40_000));
    let (code, _, why) = txn(&cluster, &["incr never", &long], false);
    assert_eq!(code, 3, "{why}");
    assert!(why.starts_with("zerohop: line 2: ") && why.contains("32768"), "{why}");
    assert_eq!(
        crate::support::serving::code(&cluster.run(&["kv", "lookup", "never"])),
        1,
        "nothing was done"
    );
    let lines =
        ["blob create b", "insert index b", "blob write b draft --at 2", "blob stat b", "blob truncate b 0"];
    assert_eq!(txn(&cluster, &lines, false), (0, "7\n".to_owned(), String::new()));
    let lines = [
        "blob write b 'ab cd' --at 4094",
        "blob extend b e",
        "blob transform b add 1 --type u8 --at 4094",
        "incr count",
        "blob read b --at 4095 --length 3",
        "blob stat b",
        "blob stat absent",
    ];
    let (code, printed, why) = txn(&cluster, &lines, false);
    assert_eq!((code, printed.as_str()), (0, "4099\n98\n1\nb c\n4100\n"), "{why}");
    assert!(why.contains("line 7: blob \"absent\""), "{why}");
    assert_eq!(cluster.ok(&["blob", "read", "b", "--at", "4094", "--length", "9"]), "bb cde");
    let (code, printed, _) =
        txn(&cluster, &["blob read b --length 1", "blob extend b x", "blob rm absent"], true);
    let report: Value = serde_json::from_str(&printed).unwrap();
    let expected = json!([
        { "operation": "blob read", "name": "b", "length": 1, "value": "\0" },
        { "operation": "blob extend", "name": "b", "done": true, "at": 4100 },
        { "operation": "blob rm", "name": "absent", "done": false, "found": false, "reason": "not_found" },
    ]);
    assert_eq!((code, &report["results"]), (0, &expected));
    // A number within a chunk, and a number across two, which depends on the version that was read.
    cluster.ok(&["blob", "put", "n", "/dev/null", "--chunk", "4KiB"]);
    let lines = [
        "blob transform n add 40 --type u16",
        "blob transform n add 2 --type u16 --old",
        "blob transform n max 2.5 --type f64 --at 4092",
        "blob transform n multiply 2 --type f64 --at 4092 --old",
        "transform r add 7 --old",
        "transform r add 7",
    ];
    assert_eq!(txn(&cluster, &lines, false), (0, "40\n40\n2.5\n2.5\n0\n14\n".to_owned(), String::new()));
    let (_, printed, _) = txn(&cluster, &["blob transform n add 1 --type u8", "blob rm n"], true);
    let report: Value = serde_json::from_str(&printed).unwrap();
    let expected = json!({ "operation": "blob transform", "name": "n", "done": true, "value": 43 });
    assert_eq!(report["results"][0], expected);
    // If one line is refused, no line takes effect; a line about a blob may be several writes.
    let lines = ["blob extend b y", "insert index c --if-absent", "blob truncate b 1"];
    let (code, printed, why) = txn(&cluster, &lines, false);
    assert_eq!((code, printed.as_str()), (1, ""), "{why}");
    assert!(why.starts_with("zerohop: line 2: the condition fails for key \"index\""), "{why}");
    assert_eq!(cluster.json(&["blob", "stat", "b"])["size"], 4101);
}

#[test]
fn invalid_blob_line_is_refused_by_number_without_effect() {
    let cluster = ServingProgram::in_memory();
    cluster.ok(&["blob", "put", "b", "/dev/null"]);
    cluster.ok(&["blob", "write", "b", "x", "--at", "9"]);
    for (line, expected, part) in [
        ("blob write b x --at 18446744073709551615", 3, "beyond 281474976710656 bytes"),
        ("blob write absent x --at 0", 1, "no such blob"),
        ("blob extend absent x", 1, "no such blob"),
        ("blob create b", 1, "b"),
        ("blob transform b and 1 --type f64", 2, "bits"),
        ("blob transform b add 256 --type u8", 2, "u8"),
        ("blob write b x", 2, "--at"),
    ] {
        let (code, printed, why) = txn(&cluster, &["incr never", line], false);
        assert_eq!((code, printed.as_str()), (expected, ""), "{line}: {why}");
        assert!(why.contains(part), "{line}: {why}");
    }
    assert_eq!(cluster.run_with(&["kv", "lookup", "never"], b"").status.code(), Some(1));
    assert_eq!(cluster.json(&["blob", "stat", "b"])["size"], 10);
    assert_eq!(cluster.ok(&["blob", "ls"]), "b\n", "nothing is left behind");
}

#[test]
fn take_in_a_transaction_removes_the_record_and_prints_it() {
    let cluster = ServingProgram::in_memory();
    cluster.ok(&["kv", "insert", "job", "dig"]);
    cluster.ok(&["kv", "append", "list", "a", "b"]);
    let lines = ["extend job ging", "take job", "append done dug", "take list", "take gone"];
    let (code, printed, _) = txn(&cluster, &lines, true);
    let report: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!((code, &report["done"]), (0, &json!(true)), "{report}");
    let job = json!(
        { "operation": "take", "key": "job", "done": true, "found": true, "type": "bytes", "length": 7, "value": "digging" }
    );
    let list = json!({
        "operation": "take", "key": "list", "done": true, "found": true, "type": "list", "length": 2,
        "values": [{ "value": "a" }, { "value": "b" }]
    });
    let gone =
        json!({ "operation": "take", "key": "gone", "done": false, "found": false, "reason": "not_found" });
    assert_eq!((&report["results"][1], &report["results"][3], &report["results"][4]), (&job, &list, &gone));
    for key in ["job", "list", "gone"] {
        assert_eq!(self::code(&cluster.run(&["kv", "lookup", key])), 1, "{key} is still there");
    }
    assert_eq!(cluster.ok(&["kv", "lookup", "done"]), "dug\n");

    cluster.ok(&["kv", "insert", "job", "fill"]);
    let (code, printed, why) = txn(&cluster, &["take job", "take gone"], false);
    assert_eq!((code, printed.as_str()), (0, "fill\n"));
    assert_eq!(why, "zerohop: line 2: key \"gone\": there is no record of this key\n");

    // A failed condition, and a record beyond the limit, leave everything as it was.
    cluster.ok(&["kv", "insert", "job", "stay"]);
    cluster.ok(&["kv", "insert", "door", "open"]);
    cluster.ok(&["kv", "insert", "long", &"x".repeat((64 << 10) + 1)]);
    let many: Vec<String> = (0..4097).map(|number| number.to_string()).collect();
    let append: Vec<&str> =
        ["kv", "append", "many"].into_iter().chain(many.iter().map(String::as_str)).collect();
    cluster.ok(&append[..3000]);
    cluster.ok(&[&append[..3], &append[3000..]].concat());
    for (line, expected) in
        [("take door --if-absent", 1), ("take gone --if-present", 1), ("take long", 3), ("take many", 3)]
    {
        let (code, printed, why) = txn(&cluster, &["take job", line, "insert other v"], false);
        assert_eq!((code, printed.as_str()), (expected, ""), "{line}: {why}");
        assert!(why.starts_with("zerohop: line 2: "), "{why}");
        assert_eq!(cluster.ok(&["kv", "lookup", "job"]), "stay", "{line}");
        assert_eq!(self::code(&cluster.run(&["kv", "lookup", "other"])), 1, "{line}");
    }
}
