//! `zerohop status`, whose JSON is a contract.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use crate::support::ports::ports;
use crate::support::process::RunningProcess;
use crate::support::serving::{ServingProgram, code, pid, stderr, stdout, zerohop};
use crate::support::terminal::TerminalProgram;
use crate::support::wait_for;

#[test]
fn status_json_has_the_documented_fields() {
    let folder = crate::support::folder();
    let cluster = ServingProgram::up(&["--instances", "2", "--data", folder.path().to_str().unwrap()]);
    let status = cluster.json(&["status"]);
    let nodes = status["nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), 1);
    let node = &nodes[0];
    assert_eq!((&node["id"], &node["state"]), (&json!(1), &json!("up")));
    assert_eq!(node["pid"], cluster.ready["nodes"][0]["pid"]);
    assert_eq!(node["manager"], cluster.endpoint());
    let instances = node["instances"].as_array().unwrap();
    assert_eq!(instances.len(), 2);
    for (instance, reported) in
        instances.iter().zip(cluster.ready["nodes"][0]["instances"].as_array().unwrap())
    {
        assert_eq!((&instance["id"], &instance["addr"]), (&reported["id"], &reported["addr"]));
        assert!(instance["addr"].as_str().unwrap().starts_with("127.0.0.1:"));
    }
    assert_eq!(node["troubles"], json!([]));
    // A standalone node decides by itself.
    assert_eq!(node["in_control"], true);
    let view = &status["view"];
    let managers = ["leader", "managers", "answering"].map(|field| &view[field]);
    assert_eq!((json!(managers), &view["quorum"]), (json!([1, 1, 1]), &json!(true)));
    let keyspaces = status["keyspaces"].as_array().unwrap();
    assert_eq!(keyspaces.len(), 1);
    let fields = ["name", "replicas", "min_in_sync", "durability", "partitions", "order", "hash"];
    let default: Vec<&Value> = fields.iter().map(|field| &keyspaces[0][*field]).collect();
    assert_eq!(json!(default), json!(["default", 1, 1, "interval:100ms", 256, "hashed", "crc16"]));

    let text = cluster.ok(&["status"]);
    assert!(text.contains(cluster.endpoint()) && text.contains("keyspace default: interval:100ms"), "{text}");
    // An instance reports the whole cluster too.
    let of_instance = instances[1]["addr"].as_str().unwrap();
    assert_eq!(cluster.json(&["status", "--endpoint", of_instance])["keyspaces"], status["keyspaces"]);
}

fn three_nodes() -> ServingProgram {
    ServingProgram::start(zerohop(&[
        "up",
        "--nodes",
        "3",
        "--instances",
        "1",
        "--memory",
        "--port",
        "0",
        "--json",
    ]))
}

#[test]
fn status_begins_with_verdict_and_totals_of_all_nodes() {
    let cluster = three_nodes();
    cluster.ok(&["status", "--wait", "settled", "--timeout", "5m"]);
    cluster.ok(&["keyspace", "create", "papers", "--replicas", "2", "--partitions", "16"]);
    for key in 0..9 {
        cluster.ok(&["kv", "insert", "-k", "papers", &format!("key {key}"), "value"]);
    }
    let entries = |status: &Value| -> u64 {
        let nodes = status["nodes"].as_array().unwrap();
        nodes.iter().filter_map(|node| node["instances"][0]["entries"].as_u64()).sum()
    };
    // Each node reports the copies that it has.
    let status = wait_for("two copies", || cluster.json(&["status"]), |status| entries(status) >= 18);
    assert_eq!((&status["verdict"], &status["warnings"]), (&json!("ok"), &json!([])), "{status:#}");
    // Records are counted once, although there are two copies of each, on different nodes.
    let totals = &status["totals"];
    assert_eq!((&totals["nodes"], &totals["records"]), (&json!(3), &json!(9)), "{status:#}");
    let records: Vec<_> = status["keyspaces"].as_array().unwrap().iter().map(|one| &one["records"]).collect();
    assert_eq!(records, [&json!(0), &json!(9)], "{status:#}");
    // Each node reports its process.
    let nodes = status["nodes"].as_array().unwrap();
    let pids: Vec<&Value> = nodes.iter().map(|node| &node["pid"]).collect();
    let started = cluster.ready["nodes"].as_array().unwrap();
    assert_eq!(pids, started.iter().map(|node| &node["pid"]).collect::<Vec<_>>());
    let printed = cluster.ok(&["status"]);
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines[0], "OK: 3 of 3 nodes are up, 272 partitions served", "{printed}");
    assert!(lines[1].starts_with("9 records, logs of all copies "), "{printed}");
    assert!(lines.iter().any(|line| line.starts_with("keyspace papers: ") && line.contains(", 9 records")));

    kill_process(pid(nodes[2]["pid"].as_u64().unwrap()), Signal::KILL).unwrap();
    let is_noticed = |status: &Value| status["verdict"] != "ok" && status["totals"]["nodes"] == 2;
    wait_for("the loss is noticed", || cluster.json(&["status"]), is_noticed);
    // A process of 0 could be taken for a target of signals.
    let dead = cluster.json(&["status"])["nodes"][2].clone();
    assert_eq!(json!([dead["pid"], dead["version"], dead["started_ms"]]), json!([null, null, null]));
    // Nor has it zero records: it has not answered.
    for figure in ["partitions", "entries", "log_bytes", "resident_bytes", "connections"] {
        assert_eq!(dead["instances"][0].get(figure), Some(&Value::Null), "{figure}: {dead}");
    }
    let printed = wait_for(
        "all is served again",
        || cluster.ok(&["status"]),
        |printed| printed.starts_with("WARNING: 2 of 3 nodes are up, 272 partitions served"),
    );
    assert!(printed.lines().nth(1).unwrap().ends_with("; only 2 of 3 nodes answered"), "{printed}");
    // Copies are missing, so that the cluster is served and not whole.
    cluster.ok(&["status", "--wait", "served", "--timeout", "5m"]);
    let output = cluster.run(&["status", "--wait", "whole", "--timeout", "100ms", "--json"]);
    assert_eq!(code(&output), 1, "{output:?}");
    assert!(stderr(&output).contains("is not whole after 100 ms"), "{output:?}");
    assert_eq!(serde_json::from_str::<Value>(&stdout(&output)).unwrap()["verdict"], "warning");
}

#[test]
fn status_waits_for_a_cluster_that_does_not_answer_yet() {
    let endpoint = format!("127.0.0.1:{}", ports(2));
    let waits = zerohop(&["status", "--wait", "served", "--endpoint", &endpoint, "--timeout", "300ms"]);
    let output = { waits }.output().unwrap();
    assert_eq!(code(&output), 3, "{output:?}");
    assert!(stderr(&output).contains("refused"), "{output:?}");
    let mut waits = zerohop(&["status", "--wait", "served", "--endpoint", &endpoint, "--timeout", "5m"]);
    let mut waits = RunningProcess::start(waits.stdout(Stdio::piped()).stderr(Stdio::null()));
    let listen = ["node", "--memory", "--instances", "1", "--json", "--listen", &endpoint];
    let _node = ServingProgram::start(zerohop(&listen));
    // The first report may still be a warning.
    assert!(waits.first_line().contains("1 of 1 node"));
    assert_eq!(waits.ended().code(), Some(0));
}

#[test]
fn watched_status_is_redrawn_on_a_terminal_until_q_and_printed_in_a_pipe() {
    let cluster = ServingProgram::in_memory();
    let watch = ["status", "--watch", "--interval", "100ms"];
    let mut status = TerminalProgram::on_all_streams(&cluster, &watch);
    wait_for("two reports", || status.output(), |screen| screen.matches("q ends").count() >= 2);
    status.types("xq");
    let (screen, _, output) = status.end();
    assert_eq!(code(&output), 0, "{screen:?}");
    assert!(
        screen.contains("\u{1b}[H\u{1b}[2J\u{1b}[32mOK\u{1b}[0m: 1 of 1 node is up")
            && !screen.contains("xq"),
        "{screen:?}"
    );

    let mut command = zerohop(&[&watch[..], &["--json", "--endpoint", cluster.endpoint()]].concat());
    let mut child = RunningProcess::start(command.stdout(Stdio::piped()));
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for _ in 0..2 {
        let report: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        assert_eq!(report["verdict"], "ok", "{report}");
    }
    kill_process(child.pid(), Signal::INT).unwrap();
    assert_eq!(child.ended().code(), Some(0));
    // The interval belongs to --watch, and a wait ends by itself.
    for wrong in [&["status", "--interval", "1s"][..], &["status", "--watch", "--wait", "whole"]] {
        assert_eq!(code(&cluster.run(wrong)), 2, "{wrong:?}");
    }
}

#[test]
fn watched_status_fits_on_the_screen_and_counts_the_lines_that_do_not() {
    let cluster = ServingProgram::in_memory();
    let lines = cluster.ok(&["status"]).lines().count();
    assert!(lines > 3, "the report is longer than what the screen has room for");
    let mut status = TerminalProgram::with_size(
        zerohop(&["status", "--watch", "--interval", "100ms", "--endpoint", cluster.endpoint()]),
        (5, 500),
    );
    wait_for("two reports", || status.output(), |screen| screen.matches("q ends").count() >= 2);
    status.types("q");
    let (screen, _, _) = status.end();
    let report = screen.split("\u{1b}[H\u{1b}[2J").nth(1).unwrap();
    let shown: Vec<&str> = report.lines().collect();
    assert_eq!(shown.len(), 4, "one row is the cursor's: {report:?}");
    let last = format!("{} more line", lines - 3);
    assert!(shown[3].starts_with(&last) && shown[3].ends_with("; every 100 ms; q ends"), "{report:?}");
}

#[test]
fn verdicts_are_coloured_on_a_terminal_only() {
    let cluster = ServingProgram::in_memory();
    let coloured = "\u{1b}[32mOK\u{1b}[0m: 1 of 1 node is up";
    let (screen, _, _) = TerminalProgram::on_all_streams(&cluster, &["status"]).end();
    assert!(screen.starts_with(coloured), "{screen:?}");
    let (screen, _, _) = TerminalProgram::on_all_streams(&cluster, &["doctor"]).end();
    assert!(screen.contains("\u{1b}[32mok\u{1b}[0m       nodes "), "{screen:?}");
    for (name, value) in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        let mut command = zerohop(&["status", "--endpoint", cluster.endpoint()]);
        command.env(name, value);
        let (screen, _, _) = TerminalProgram::all_of(command).end();
        assert!(screen.starts_with("OK: 1 of 1 node is up") && !screen.contains("\u{1b}[3"), "{screen:?}");
    }
    assert!(!cluster.ok(&["status"]).contains('\u{1b}'));
}
