//! `zerohop bench`.

use rustix::process::{Signal, kill_process};
use serde_json::json;

use crate::support::process::RunningProcess;
use crate::support::serving::{ServingProgram, code, output, stdout, zerohop};
use crate::support::wait_for;

#[test]
fn a_run_counts_every_operation_and_leaves_no_key_behind() {
    let cluster = ServingProgram::in_memory();
    cluster.ok(&["kv", "insert", "mine", "untouched"]);
    let report = cluster.json(&["bench", "kv", "--clients", "3", "--depth", "4", "--ops", "2000"]);
    assert_eq!((&report["ok"], &report["wrong"]), (&json!(true), &json!(null)));
    assert_eq!((&report["key_bytes"], &report["value_bytes"]), (&json!(15), &json!(132)));
    let phases = report["phases"].as_array().unwrap();
    let names: Vec<&str> = phases.iter().map(|phase| phase["operation"].as_str().unwrap()).collect();
    assert_eq!(names, ["insert", "lookup", "remove"]);
    for phase in phases {
        assert_eq!(phase["ops"], 2000);
        let at = |field: &str| phase[field].as_f64().unwrap();
        assert!(at("ops_per_second") > 0.0 && at("p50_us") > 0.0);
        assert!(at("p50_us") <= at("p99_us") && at("p999_us") <= at("max_us"), "{phase}");
    }
    assert_eq!(cluster.ok(&["kv", "scan"]), "mine\n");
    let text = cluster.ok(&["bench", "kv", "--ops", "50", "--value-bytes", "0", "--max-delay", "1ms"]);
    assert!(text.contains("p99.9") && text.contains("Every answer was right"), "{text}");
    assert_eq!(cluster.ok(&["kv", "scan"]), "mine\n");
}

#[test]
fn interrupted_bench_leaves_no_keys() {
    let endless = ["--ops", "10000000", "--clients", "2"];
    is_interrupted(&[&["bench", "kv", "--depth", "8"], &endless[..]].concat());
    is_interrupted(&[&["bench", "txn", "--accounts", "50"], &endless[..]].concat());
    is_interrupted(&[&["bench", "ycsb", "a", "--records", "50"], &endless[..]].concat());
}

fn is_interrupted(arguments: &[&str]) {
    let cluster = ServingProgram::in_memory();
    let mut command = zerohop(arguments);
    command.env("ZEROHOP_ENDPOINT", cluster.endpoint());
    let run = RunningProcess::start(command.stdout(std::process::Stdio::piped()));
    wait_for("it writes", || cluster.ok(&["kv", "scan", "--limit", "1"]), |found| !found.is_empty());
    kill_process(run.pid(), Signal::INT).unwrap();
    let run = run.output();
    assert_eq!((code(&run), stdout(&run).as_str()), (130, ""));
    assert_eq!(cluster.ok(&["kv", "scan"]), "");
}

#[test]
fn bench_without_its_keyspace_is_refused() {
    let cluster = ServingProgram::in_memory();
    let refused = cluster.run(&["bench", "kv", "-k", "absent"]);
    assert_eq!(code(&refused), 3);
    let mut command = zerohop(&["bench", "kv"]);
    command.env("ZEROHOP_ENDPOINT", "127.0.0.1:9");
    assert_eq!(code(&output(command, b"")), 3);
}

#[test]
fn transfer_bench_keeps_the_sum_and_leaves_no_keys() {
    let cluster = ServingProgram::in_memory();
    let report = cluster.json(&["bench", "txn", "--clients", "4", "--ops", "200", "--accounts", "50"]);
    assert_eq!(report["ok"], json!(true));
    let kinds = report["kinds"].as_array().unwrap();
    let names: Vec<&str> = kinds.iter().map(|kind| kind["kind"].as_str().unwrap()).collect();
    assert_eq!(names, ["blind", "read first", "blind, zipf", "read first, zipf"]);
    assert!(
        kinds.iter().all(|kind| kind["transactions"] == 200 && kind["per_second"].as_f64().unwrap() > 0.0)
    );
    assert_eq!(
        (&kinds[0]["conflicts"], &kinds[2]["conflicts"]),
        (&json!(0), &json!(0)),
        "blind ones never conflict"
    );
    assert_eq!(cluster.ok(&["kv", "scan"]), "");
}

#[test]
fn blob_bench_checks_every_byte_and_removes_its_blobs() {
    let cluster = ServingProgram::in_memory();
    cluster.ok(&["blob", "put", "mine", "-k", "default", "/dev/null"]);
    let small = ["--blobs", "5", "--bytes", "300KiB", "--part", "1000", "--ops", "200", "--clients", "3"];
    let report = cluster.json(&[&["bench", "blob"], &small[..]].concat());
    assert_eq!((&report["ok"], &report["wrong"]), (&json!(true), &json!(null)));
    let phases = report["phases"].as_array().unwrap();
    let counted: Vec<(&str, u64)> = phases
        .iter()
        .map(|phase| (phase["operation"].as_str().unwrap(), phase["ops"].as_u64().unwrap()))
        .collect();
    let expected =
        [("write", 5), ("overwrite", 5), ("write part", 200), ("read part", 200), ("read", 5), ("remove", 5)];
    assert_eq!(counted, expected);
    let at = |phase: usize, field: &str| phases[phase][field].as_f64().unwrap();
    assert!(
        (0..5).all(|phase| at(phase, "mb_per_second") > 0.0 && at(phase, "p50_us") <= at(phase, "p99_us"))
    );
    assert_eq!(cluster.ok(&["blob", "ls"]), "mine\n");
    for wrong in [["--part", "15"], ["--bytes", "65MiB"], ["--clients", "65"], ["--part", "5MiB"]] {
        assert_eq!(code(&cluster.run(&[&["bench", "blob"], &wrong[..]].concat())), 2, "{wrong:?}");
    }
}

#[test]
fn workloads_of_ycsb_check_every_answer_and_leave_no_keys() {
    let cluster = ServingProgram::in_memory();
    cluster.ok(&["keyspace", "create", "ordered", "--ordered"]);
    cluster.ok(&["kv", "insert", "ycsb", "mine", "-k", "ordered"]);
    let small = ["--records", "300", "--ops", "400", "--clients", "3", "--depth", "2", "-k", "ordered"];
    let expected: [(&str, &[&str]); 6] = [
        ("a", &["read", "update"]),
        ("B", &["read", "update"]),
        ("c", &["read"]),
        ("d", &["read", "insert"]),
        ("E", &["insert", "scan"]),
        ("f", &["read", "read-modify-write"]),
    ];
    for (workload, operations) in expected {
        let report = cluster.json(&[&["bench", "ycsb", workload], &small[..]].concat());
        assert_eq!((&report["ok"], &report["wrong"]), (&json!(true), &json!(null)), "{report}");
        assert_eq!((&report["load"]["operation"], &report["load"]["ops"]), (&json!("load"), &json!(300)));
        let found = report["operations"].as_array().unwrap();
        let names: Vec<&str> = found.iter().map(|one| one["operation"].as_str().unwrap()).collect();
        assert_eq!(names, operations, "{workload}");
        assert_eq!(found.iter().map(|one| one["ops"].as_u64().unwrap()).sum::<u64>(), 400);
        assert!(report["ops_per_second"].as_f64().unwrap() > 0.0);
    }
    let text = cluster.ok(&["bench", "ycsb", "a", "--records", "1", "--ops", "5", "--value-bytes", "16"]);
    assert!(text.contains("workload A") && text.contains("Every answer was right"), "{text}");
    assert_eq!(cluster.ok(&["kv", "scan", "-k", "ordered"]), "ycsb\n");
    assert_eq!(cluster.ok(&["kv", "scan"]), "");
    // Ranges of a hashed keyspace have no order.
    let refused = cluster.run(&["bench", "ycsb", "e", "--records", "1"]);
    assert_eq!(code(&refused), 3);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--ordered"), "{refused:?}");
}
