//! Metrics, health and status over HTTP.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::Value;
use zerohop_server::Server;

use crate::server::support::{anywhere, block_on, client, create, default_keyspace, in_memory, on, status};
use crate::support::give_up::GIVE_UP_AFTER;
use crate::support::waiting::wait_for;

/// Status line, and body.
fn http(server: &Server, request: &str) -> (String, String) {
    let mut stream = TcpStream::connect(server.manager_address()).unwrap();
    stream.set_read_timeout(Some(GIVE_UP_AFTER)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap().to_owned(), body.to_owned())
}

fn get(server: &Server, path: &str) -> (String, String) {
    http(server, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))
}

/// Metrics by name and labels; panics at an invalid line.
fn parse(text: &str) -> BTreeMap<String, f64> {
    assert!(text.ends_with("# EOF\n"), "{text}");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let metric = |line: &str| {
        let (name, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no metric: {line}"));
        (name.to_owned(), value.parse().unwrap_or_else(|_| panic!("no number: {line}")))
    };
    lines.map(metric).collect()
}

#[test]
fn metrics_count_requests() {
    let server = in_memory(2);
    block_on(async {
        let keyspace = default_keyspace(&client(&server).await).await;
        for key in 0..100 {
            keyspace.insert(&format!("key {key}"), "value").await.unwrap();
        }
        keyspace.append("list", &[b"v"]).await.unwrap();
        keyspace.increment("list", 1).await.unwrap_err();
    });
    let (line, body) = get(&server, "/metrics");
    assert_eq!(line, "HTTP/1.1 200 OK");
    let metrics = parse(&body);
    let sum = |name: &str| -> f64 {
        let of_it = |(key, _): &(&String, &f64)| key.split('{').next() == Some(name);
        metrics.iter().filter(of_it).map(|(_, value)| *value).sum()
    };
    let by = |name: &str, label: &str| -> f64 {
        let of_it = |(key, _): &(&String, &f64)| key.starts_with(name) && key.contains(label);
        metrics.iter().filter(of_it).map(|(_, value)| *value).sum()
    };
    assert_eq!(by("zerohop_requests_total{", "kind=\"insert\""), 100.0);
    assert_eq!(by("zerohop_failures_total{", "error=\"WrongType\""), 1.0);
    assert_eq!(sum("zerohop_records"), 101.0);
    assert_eq!(sum("zerohop_replicas"), 256.0);
    assert_eq!(metrics["zerohop_serving"], 1.0);
    assert_eq!(metrics["zerohop_instances_answering"], 2.0);
    assert!(sum("zerohop_received_bytes_total") > 1000.0 && sum("zerohop_sent_bytes_total") > 1000.0);
    assert!(
        metrics["zerohop_process_resident_bytes"] > 1e6 && metrics["zerohop_process_cpu_seconds_total"] > 0.0
    );
    assert!(sum("zerohop_batch_requests_sum") >= 102.0, "every request was in a batch");
    for instance in ["1", "2"] {
        let last = &metrics[&format!("zerohop_batch_requests_bucket{{le=\"+Inf\",instance=\"{instance}\"}}")];
        let count = &metrics[&format!("zerohop_batch_requests_count{{instance=\"{instance}\"}}")];
        assert_eq!(last, count);
    }
}

#[test]
fn metrics_report_keyspaces_nodes_and_version() {
    let server = in_memory(2);
    block_on(async {
        let client = client(&server).await;
        create(&client, "papers", None).await;
        for (name, count) in [("default", 30), ("papers", 12)] {
            let keyspace = client.keyspace(name).await.unwrap();
            for key in 0..count {
                keyspace.insert(&format!("key {key}"), "value").await.unwrap();
            }
        }
    });
    let metrics = parse(&get(&server, "/metrics").1);
    for (name, records) in [("default", 30.0), ("papers", 12.0)] {
        let groups = if name == "default" { 256.0 } else { 8.0 };
        let of = |metric: &str| metrics[&format!("zerohop_keyspace_{metric}{{keyspace=\"{name}\"}}")];
        assert_eq!((of("records"), of("replicas"), of("groups")), (records, groups, groups), "{name}");
        assert!(of("log_bytes") >= records * 10.0, "{name}");
        assert_eq!(
            ["groups_below_min_in_sync", "groups_rebuilding", "groups_lost"].map(of),
            [0.0; 3],
            "{name}"
        );
    }
    let answered = |operation: &str| -> f64 {
        let of_it = |(key, _): &(&String, &f64)| {
            key.starts_with("zerohop_operation_seconds_count{") && key.contains(&format!("\"{operation}\""))
        };
        metrics.iter().filter(of_it).map(|(_, value)| *value).sum()
    };
    assert_eq!(["write", "wait"].map(answered), [42.0, 0.0]);
    let states = ["up", "draining", "down", "silent"];
    let nodes = states.map(|state| metrics[&format!("zerohop_nodes{{state=\"{state}\"}}")]);
    assert_eq!(nodes, [1.0, 0.0, 0.0, 0.0]);
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(metrics[&format!("zerohop_build_info{{version=\"{version}\"}}")], 1.0);
}

#[test]
fn metrics_show_maintenance() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(on(folder.path(), anywhere())).unwrap();
    block_on(async {
        default_keyspace(&client(&server).await).await.insert("key", "value").await.unwrap();
    });
    let counted = |name: &str| -> f64 {
        let metrics = parse(&get(&server, "/metrics").1);
        let found: Vec<f64> =
            metrics.iter().filter(|(key, _)| key.starts_with(name)).map(|(_, value)| *value).collect();
        assert!(!found.is_empty(), "no {name}");
        found.iter().sum()
    };
    wait_for("the record is synced", || counted("zerohop_segment_syncs_total{"), |syncs| *syncs > 0.0);
    counted("zerohop_checkpoints_total{");
    counted("zerohop_compactions_total{");
}

#[test]
fn health_and_status_are_json_and_other_paths_list_endpoints() {
    let server = in_memory(2);
    let (line, body) = get(&server, "/health");
    let partitions = r#"{"below_min_in_sync":0,"log_failed":0,"no_primary":0,"not_split":0,"served":256,"stuck":0,"total":256}"#;
    let expected = format!("{{\"partitions\":{partitions},\"status\":\"serving\"}}");
    assert_eq!((&*line, &*body), ("HTTP/1.1 200 OK", &*expected));
    let (line, body) = get(&server, "/status");
    assert_eq!(line, "HTTP/1.1 200 OK");
    let json: Value = serde_json::from_str(&body).unwrap();
    let reported = block_on(async { status(&client(&server).await).await });
    assert_eq!(json["map_epoch"], reported.map_epoch);
    assert_eq!(json["nodes"][0]["state"], "up");
    assert_eq!(json["nodes"][0]["pid"], std::process::id());
    assert_eq!(json["nodes"][0]["manager"], server.manager_address().to_string());
    assert_eq!(json["nodes"][0]["instances"][1]["addr"], server.instances()[1].1.to_string());
    assert_eq!(json["keyspaces"][0]["name"], "default");
    assert_eq!(json["keyspaces"][0]["durability"], "memory");
    let (line, body) = get(&server, "/nothing");
    assert_eq!(line, "HTTP/1.1 404 Not Found");
    assert!(body.contains("/metrics") && body.contains("/health") && body.contains("/status"), "{body}");
}

#[test]
fn page_reads_fields_that_the_status_has() {
    let server = in_memory(1);
    let (line, page) = get(&server, "/");
    assert_eq!(line, "HTTP/1.1 200 OK");
    assert!(page.starts_with("<!doctype html>"), "{page}");
    for link in ["/status", "/metrics", "/health"] {
        assert!(page.contains(&format!("href=\"{link}\"")), "{link}");
    }
    // Nothing of other servers, and no text of the cluster as HTML.
    assert!(!page.contains("//cdn") && !page.contains("src=") && !page.contains("innerHTML"));
    let status: Value = serde_json::from_str(&get(&server, "/status").1).unwrap();
    let fields = |prefix: &str, of: &Value| {
        let uses = page.split(prefix).skip(1);
        let names = uses.map(|rest| {
            rest.split(|next: char| !next.is_ascii_lowercase() && next != '_').next().unwrap().to_owned()
        });
        let names: Vec<String> = names.collect();
        assert!(!names.is_empty(), "{prefix}");
        for name in names {
            assert!(of.get(&name).is_some(), "{prefix}{name} is not in {of}");
        }
    };
    fields("status.", &status);
    fields("view.", &status["view"]);
    // Rates are differences of counters.
    let metrics = get(&server, "/metrics").1;
    let counters: Vec<&str> =
        page.split('"').filter(|word| word.starts_with("zerohop_") && word.ends_with("_total")).collect();
    assert_eq!(counters.len(), 5, "{counters:?}");
    for counter in counters {
        assert!(metrics.contains(&format!("\n{counter}{{instance=")), "{counter} is no counter of instances");
    }
    fields("node.", &status["nodes"][0]);
    fields("one.", &status["keyspaces"][0]);
    for group in ["lost", "down", "below_min_in_sync", "rebuilding", "recovering"] {
        assert!(page.contains(&format!("\"{group}\"")) && status["groups"].get(group).is_some(), "{group}");
    }
}

#[test]
fn partitions_whose_log_has_failed_do_not_count_as_served() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(on(folder.path(), anywhere())).unwrap();
    // Without its folders no instance can begin a segment, as on a disk that fails. An instance may
    // add a file while its folder is being emptied, so the removal is tried until it succeeds.
    for found in std::fs::read_dir(folder.path()).unwrap().map(Result::unwrap) {
        if found.file_name().to_string_lossy().starts_with("instance") {
            wait_for("the folder is removed", || std::fs::remove_dir_all(found.path()), Result::is_ok)
                .unwrap();
        }
    }
    let health = |server: &Server| {
        let (line, body) = get(server, "/health");
        (line, serde_json::from_str::<Value>(&body).unwrap())
    };
    block_on(async {
        let client = client(&server).await;
        let keyspace = default_keyspace(&client).await;
        // Memory accepts the first write, and its flush fails.
        drop(keyspace.insert("key", "value").await);
        let has_failed =
            |(_, body): &(String, Value)| body["partitions"]["log_failed"].as_u64().is_some_and(|n| n > 0);
        let (line, body) = wait_for("a log has failed", || health(&server), has_failed);
        assert_eq!((&*line, &body["status"]), ("HTTP/1.1 200 OK", &Value::from("serving")), "{body}");
        let failed = body["partitions"]["log_failed"].as_u64().unwrap();
        assert!(failed > 0 && body["partitions"]["served"] == 256 - failed, "{body}");
        assert!(body["warnings"][0].as_str().unwrap().contains("no writes"), "{body}");
        let view = status(&client).await.view.unwrap();
        assert_eq!(u64::from(view.log_failed), failed);
        // The journal is open and takes writes until it is full: large values fill it soon.
        let value = vec![b'v'; 16 << 10];
        for n in 0..10_000 {
            if health(&server).1["partitions"]["served"] == 0 {
                break;
            }
            for n in 100 * n..100 * (n + 1) {
                drop(keyspace.insert(&format!("key {n}"), &value[..]).await);
            }
        }
        let (line, body) = health(&server);
        assert_eq!(line, "HTTP/1.1 503 Service Unavailable", "{body}");
        assert_eq!(body["status"], "unserved");
        let metrics = parse(&get(&server, "/metrics").1);
        assert_eq!((metrics["zerohop_serving"], metrics["zerohop_groups_log_failed"]), (0.0, 256.0));
    });
}

#[test]
fn bad_http_is_answered_and_bounded() {
    let server = in_memory(1);
    let (line, _) =
        http(&server, "POST /status HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello");
    assert_eq!(line, "HTTP/1.1 405 Method Not Allowed");
    let (line, _) = http(&server, "not http at all\r\n\r\n");
    assert_eq!(line, "HTTP/1.1 400 Bad Request");
    let headers = "X-Header: y\r\n".repeat(65);
    let (line, _) = http(&server, &format!("GET / HTTP/1.1\r\n{headers}\r\n"));
    assert_eq!(line, "HTTP/1.1 431 Request Header Fields Too Large");
    let long = format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "x".repeat(20 << 10));
    let (line, _) = http(&server, &long);
    assert!(line.starts_with("HTTP/1.1 4"), "{line}");
    assert_eq!(get(&server, "/health").0, "HTTP/1.1 200 OK");
}

#[test]
fn without_a_secret_only_names_of_the_node_are_served() {
    let options = zerohop_server::ServerOptions::new(anywhere());
    let http_names = vec!["metrics.example.org".to_owned()];
    let server = Server::start(zerohop_server::ServerOptions { http_names, ..options }).unwrap();
    let query = |headers: &str| {
        http(&server, &format!("GET /status HTTP/1.1\r\n{headers}Connection: close\r\n\r\n")).0
    };
    let own = format!("Host: {}\r\n", server.manager_address());
    for served in [&own, "Host: localhost:1\r\n", "Host: metrics.example.org\r\nOrigin: http://localhost\r\n"]
    {
        assert_eq!(query(served), "HTTP/1.1 200 OK", "{served}");
    }
    for foreign in ["Host: evil.example\r\n", &format!("{own}Origin: https://evil.example\r\n")] {
        assert_eq!(query(foreign), "HTTP/1.1 403 Forbidden", "{foreign}");
    }
    server.stop().unwrap();
}
