//! The figures of queues and logs that operators see: in `status`, in lists, and as metrics.

use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use crate::support::serving::{ServingProgram, code, pid, stderr, stdout, zerohop};
use crate::support::wait_for;

fn lines(text: &str) -> Vec<&str> {
    text.lines().collect()
}

/// The value of a series.
fn value(metrics: &str, series: &str) -> f64 {
    let line = metrics.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{series} in {metrics}")).parse().unwrap()
}

#[test]
fn status_lists_and_metrics_have_the_figures_of_queues_and_logs() {
    let cluster = ServingProgram::in_memory();
    cluster.ok(&["keyspace", "create", "plain", "--ordered"]);
    cluster.ok(&["queue", "create", "jobs", "--partitions", "2"]);
    cluster.ok(&["queue", "create", "empty"]);
    cluster.ok(&["queue", "push", "jobs", "a", "b", "c"]);
    cluster.ok(&["queue", "push", "jobs", "d", "--delay", "1h"]);
    let popped = cluster.run(&["queue", "pop", "jobs", "--lease", "1h"]);
    assert_eq!(code(&popped), 0, "{popped:?}");
    cluster.ok(&["log", "create", "events", "--partitions", "2"]);
    cluster.ok(&["log", "append", "events", "one", "two", "three", "--partition", "1"]);
    cluster.ok(&["log", "commit", "events", "slow", "--to", "first"]);
    cluster.ok(&["log", "commit", "events", "fast", "--to", "next"]);
    cluster.ok(&["log", "create", "unread"]);

    let status = cluster.json(&["status"]);
    assert_eq!((&status["verdict"], &status["unread_keyspaces"]), (&json!("ok"), &json!([])), "{status:#}");
    let queues = status["queues"].as_array().unwrap();
    let fields =
        ["queue", "partitions", "unread", "depth", "leased", "delayed", "partial", "pushed", "finished"];
    let of = |queue: &Value| json!(fields.map(|field| &queue[field]));
    assert_eq!(of(&queues[0]), json!(["empty", 1, 0, 0, 0, 0, false, 0, 0]), "{status:#}");
    assert_eq!(of(&queues[1]), json!(["jobs", 2, 0, 4, 1, 1, false, 4, 0]), "{status:#}");
    assert_eq!(queues[0]["oldest_ms"], Value::Null);
    assert!(queues[1]["oldest_ms"].as_u64().unwrap() < 3_600_000, "{status:#}");
    let logs = status["logs"].as_array().unwrap();
    let fields = ["log", "partitions", "unread", "records", "greatest_lag"];
    let of = |log: &Value| json!(fields.map(|field| &log[field]));
    assert_eq!(of(&logs[0]), json!(["events", 2, 0, 3, 3]), "{status:#}");
    assert_eq!(of(&logs[1]), json!(["unread", 1, 0, 0, null]), "{status:#}");
    assert_eq!(logs[0]["groups"], json!([{"group": "fast", "lag": 0}, {"group": "slow", "lag": 3}]));

    let text = cluster.ok(&["status"]);
    let has = |begin: &str, end: &str| {
        let found = text.lines().find(|line| line.starts_with(begin));
        assert!(found.is_some_and(|line| line.ends_with(end)), "{begin}…{end}: {text}");
    };
    has("queue empty: 0 messages, 0 leased, 0 delayed", "delayed");
    has("queue jobs: 4 messages, 1 leased, 1 delayed, the oldest message is ", " old");
    has("log events: 3 records, ", ", 2 groups, the greatest lag is 3 records (slow)");
    has("log unread: 0 records, 0 B", "0 B");
    assert!(!text.contains("queue plain") && !text.contains("log plain"), "{text}");

    let listed = cluster.ok(&["log", "list"]);
    assert!(lines(&listed)[0].ends_with(", 2 groups, the greatest lag is 3 records (slow)"), "{listed}");
    let lags: Vec<Value> = cluster
        .list(&["log", "list"])
        .as_array()
        .unwrap()
        .iter()
        .map(|log| log["greatest_lag"].clone())
        .collect();
    assert_eq!(lags, [json!(3), Value::Null]);

    let metrics = cluster.ok(&["queue", "list", "--metrics"]);
    for (series, expected) in [
        ("zerohop_queue_complete{queue=\"jobs\"}", 1.0),
        ("zerohop_queue_depth{queue=\"jobs\"}", 4.0),
        ("zerohop_queue_depth{queue=\"empty\"}", 0.0),
        ("zerohop_queue_leases{queue=\"jobs\"}", 1.0),
        ("zerohop_queue_delayed{queue=\"jobs\"}", 1.0),
        ("zerohop_queue_oldest_seconds{queue=\"empty\"}", 0.0),
        ("zerohop_queue_pushed_total{queue=\"jobs\"}", 4.0),
        ("zerohop_queue_finished_total{queue=\"jobs\"}", 0.0),
        ("zerohop_queue_unread_keyspaces", 0.0),
    ] {
        assert!((value(&metrics, series) - expected).abs() < 1e-9, "{series}: {metrics}");
    }
    assert!(value(&metrics, "zerohop_queue_oldest_seconds{queue=\"jobs\"}") > 0.0, "{metrics}");
    assert!(!metrics.contains("events") && !metrics.contains("plain"), "{metrics}");
    let metrics = cluster.ok(&["log", "list", "--metrics"]);
    for (series, expected) in [
        ("zerohop_log_complete{log=\"events\"}", 1.0),
        ("zerohop_log_records{log=\"events\"}", 3.0),
        ("zerohop_log_group_lag{log=\"events\",group=\"slow\"}", 3.0),
        ("zerohop_log_group_lag{log=\"events\",group=\"fast\"}", 0.0),
        ("zerohop_log_unread_keyspaces", 0.0),
    ] {
        assert!((value(&metrics, series) - expected).abs() < 1e-9, "{series}: {metrics}");
    }
    assert_eq!(code(&cluster.run(&["queue", "list", "--metrics", "--json"])), 2);
}

/// A queue of one copy loses partitions with a node.
#[test]
fn queue_that_is_not_served_is_named_and_delays_status_a_little() {
    let up = ["up", "--nodes", "3", "--instances", "1", "--memory", "--port", "0", "--json"];
    let cluster = ServingProgram::start(zerohop(&up));
    cluster.ok(&["status", "--wait", "settled", "--timeout", "5m"]);
    for (name, copies) in [("lost", "1"), ("served", "3")] {
        cluster.ok(&["queue", "create", name, "--partitions", "3", "--replicas", copies]);
        cluster.ok(&["queue", "push", name, "a", "b", "--group", "g"]);
    }
    let last = &cluster.ready["nodes"][2]["pid"];
    kill_process(pid(last.as_u64().unwrap()), Signal::KILL).unwrap();

    // No answer would come within this time.
    let status = ["status", "--timeout", "10m", "--json"];
    let read = || -> (Value, Duration) {
        let begin = Instant::now();
        let ended = cluster.run(&status);
        assert_eq!(code(&ended), 0, "{ended:?}");
        (serde_json::from_str(&stdout(&ended)).unwrap(), begin.elapsed())
    };
    let is_named = |status: &Value| {
        let mut queues = status["queues"].as_array().unwrap().iter();
        let mut unread = status["unread_keyspaces"].as_array().unwrap().iter();
        queues.any(|queue| queue["queue"] == "lost" && queue["why"].is_string())
            || unread.any(|one| one["keyspace"] == "lost")
    };
    let of_served = |status: &Value| {
        let mut all = status["queues"].as_array().unwrap().iter();
        all.find(|queue| queue["queue"] == "served")
            .map(|queue| [&queue["unread"], &queue["depth"]].map(Clone::clone))
    };
    let (_, duration) =
        wait_for("the lost queue is named, and the other one is served", read, |(status, _)| {
            is_named(status) && of_served(status) == Some([json!(0), json!(2)])
        });
    assert!(duration < Duration::from_secs(60), "{duration:?}");
    let text = cluster.ok(&["status", "--timeout", "10m"]);
    assert!(text.contains("queue lost: ") || text.contains("keyspace lost may have a queue"), "{text}");
    assert!(text.contains("\nqueue served: 2 messages"), "{text}");

    // A scrape has what is known, and says what is not.
    let scraped = cluster.run(&["queue", "list", "--metrics", "--timeout", "10m"]);
    let metrics = stdout(&scraped);
    assert_eq!(code(&scraped), 0, "{scraped:?}");
    assert!((value(&metrics, "zerohop_queue_depth{queue=\"served\"}") - 2.0).abs() < 1e-9, "{metrics}");
    let is_incomplete = metrics.contains("zerohop_queue_complete{queue=\"lost\"} 0.0");
    let is_unread =
        metrics.contains("zerohop_queue_unread_keyspaces 1.0") && stderr(&scraped).contains("keyspace lost");
    assert!(is_incomplete || is_unread, "{scraped:?}");
    assert!(!metrics.contains("zerohop_queue_pushed_total{queue=\"lost\"}"), "{metrics}");

    // A list has the others too, and ends with an error.
    let listed = cluster.run(&["queue", "list", "--timeout", "1s"]);
    assert!(code(&listed) != 0 && stderr(&listed).contains("keyspace lost was not read"), "{listed:?}");
    assert!(stdout(&listed).starts_with("served: 3 partitions, 2 messages"), "{listed:?}");
}
