//! What the gateway reports: metrics and health at an own address, a line of the log for each request, and what `doctor` says of its
//! keyspaces.

use std::io::{Read, Write};
use std::net::TcpStream;

use rustix::process::Signal;
use serde_json::Value;

use super::s3::signing::{Answer, SignedRequest};
use super::s3::{ok, send};
use super::secrets::new_secret;
use crate::support::serving::{ServingProgram, code, output, stderr, stdout, zerohop};
use crate::support::{GIVE_UP_AFTER, folder, wait_for};

/// The answer to a monitoring program.
fn get(address: &str, path: &str, headers: &str) -> Answer {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(GIVE_UP_AFTER)).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    Answer::parse(&answer)
}

#[test]
fn gateway_reports_metrics_and_whether_it_reaches_the_cluster() {
    let cluster = ServingProgram::in_memory();
    let mut command = zerohop(&["s3", "--endpoint", cluster.endpoint(), "--listen", "127.0.0.1:0", "--json"]);
    command.args(["--metrics", "127.0.0.1:0"]);
    let gateway = ServingProgram::start(command);
    let [address, metrics] = ["listen", "metrics"].map(|name| gateway.ready[name].as_str().unwrap());
    ok(address, SignedRequest::new("PUT", "/bucket"), b"");
    ok(address, SignedRequest::new("PUT", "/bucket/key"), b"body");
    let text = || get(metrics, "/metrics", "").body;
    let put = "zerohop_s3_requests_total{operation=\"put_object\",status=\"2xx\"} 1\n";
    let text = wait_for("the put in the metrics", text, |text| text.contains(put));
    for line in ["zerohop_s3_received_bytes_total 4\n", "zerohop_s3_serving 1.0\n", "zerohop_build_info{"] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(!text.contains("\"bucket") && !text.contains("\"key"), "a name of a client is a label: {text}");
    let health = get(metrics, "/health", "");
    assert_eq!((health.status, health.body.as_str()), (200, "{\"status\":\"serving\"}"));
    // Both ports are in use, and others of this machine alone are not reached.
    for (arguments, exit, words) in [
        (["--listen", "127.0.0.1:0", "--metrics", metrics], 3, "Address already in use"),
        (["--listen", "127.0.0.1:0", "--metrics", "0.0.0.0:0"], 2, "addresses of this machine"),
    ] {
        let mut second = zerohop(&["s3", "--endpoint", cluster.endpoint()]);
        second.args(arguments);
        let refused = output(second, b"");
        let why = stderr(&refused);
        assert_eq!(code(&refused), exit, "{refused:?}");
        assert!(why.contains(words) && why.lines().count() == 1, "{why}");
        assert!(exit == 2 || why.contains(metrics), "{why}");
    }
    assert_eq!(cluster.end_with(Signal::TERM), Some(0));
    let health = || get(metrics, "/health", "");
    let health = wait_for("it does not reach the cluster", health, |health| health.status == 503);
    let report: Value = serde_json::from_str(&health.body).unwrap();
    assert_eq!(report["status"], "unreachable", "{report}");
    assert!(report["reason"].as_str().unwrap().len() > 20, "{report}");
    assert!(get(metrics, "/metrics", "").body.contains("zerohop_s3_serving 0.0\n"));
    assert_eq!(gateway.end_with(Signal::TERM), Some(0));
}

#[test]
fn gateway_beside_nodes_reports_metrics_and_needs_the_bearer_text() {
    let folder = folder();
    let secret = new_secret(folder.path(), "secret");
    let up = ["up", "--nodes", "1", "--port", "0", "--memory", "--json", "--s3", "0", "--s3-metrics"];
    let mut command = zerohop(&up);
    command.arg("0").arg("--secret-file").arg(&secret);
    let cluster = ServingProgram::start(command);
    let metrics = cluster.ready["s3_metrics"].as_str().unwrap();
    assert_eq!(get(metrics, "/health", "").status, 200);
    let refused = get(metrics, "/metrics", "");
    assert!(refused.status == 401 && refused.body.contains("zerohop secret bearer"), "{refused:?}");
    let mut bearer = zerohop(&["secret", "bearer", "--secret-file"]);
    bearer.arg(&secret);
    let bearer = format!("authorization: Bearer {}\r\n", stdout(&output(bearer, b"")).trim());
    assert!(get(metrics, "/metrics", &bearer).body.contains("zerohop_s3_connections 0.0\n"));
    let mut second = zerohop(&up);
    second.arg(metrics.rsplit_once(':').unwrap().1);
    let refused = output(second, b"");
    assert_eq!(code(&refused), 3, "{refused:?}");
    let why = stderr(&refused);
    assert!(why.contains("Address already in use") && why.lines().count() == 1, "{why}");
    for arguments in [["--s3-metrics", "0"].as_slice(), &["--s3-no-tls"]] {
        let refused = output(zerohop(&[["up"].as_slice(), arguments].concat()), b"");
        assert_eq!(code(&refused), 2, "{refused:?}");
        assert!(stderr(&refused).contains("--s3"), "{refused:?}");
    }
}

#[test]
fn line_of_the_log_has_client_operation_bytes_and_duration() {
    let folder = folder();
    let log = folder.path().join("log");
    let cluster = ServingProgram::in_memory();
    let mut command = zerohop(&["s3", "--endpoint", cluster.endpoint(), "--listen", "127.0.0.1:0", "--json"]);
    command.args(["--log-level", "info"]);
    let gateway = ServingProgram::start_with_log(command, &log);
    let address = gateway.ready["listen"].as_str().unwrap();
    ok(address, SignedRequest::new("PUT", "/bucket"), b"");
    ok(address, SignedRequest::new("PUT", "/bucket/key"), &[b'x'; 12_345]);
    let read = ok(address, SignedRequest::new("GET", "/bucket/key"), b"");
    let id = read.head.lines().find_map(|line| line.strip_prefix("x-amz-request-id: ")).unwrap();
    assert_eq!(send(address, SignedRequest::new("GET", "/bucket/absent"), b"").status, 404);
    assert_eq!(gateway.end_with(Signal::TERM), Some(0));
    let log = std::fs::read_to_string(&log).unwrap();
    let line = |words: &str| {
        let mut lines = log.lines().filter(|line| line.contains(words));
        let line = lines.next().unwrap_or_else(|| panic!("{words}: {log}"));
        assert!(lines.next().is_none(), "{words}: {log}");
        line
    };
    let put = line("operation=\"put_object\"");
    for field in
        ["client=127.0.0.1:", "received_bytes=12345", "sent_bytes=0", "duration_us=", "status=200", "id=\""]
    {
        assert!(put.contains(field), "{field}: {put}");
    }
    let read = line(&id.to_ascii_uppercase());
    for field in ["operation=\"get_object\"", "received_bytes=0", "sent_bytes=12345", "user=\"tester\""] {
        assert!(read.contains(field), "{field}: {read}");
    }
    let absent = line("path=\"/bucket/absent\"");
    assert!(absent.contains("status=404") && absent.contains("error=\"NoSuchKey\""), "{absent}");
}

/// The findings of `doctor` about keyspaces of objects: verdict, what they are about, and the words.
fn findings(cluster: &ServingProgram) -> Vec<(String, String, String)> {
    let answer = cluster.run(&["doctor", "--json"]);
    let report: Value = serde_json::from_str(&stdout(&answer)).unwrap();
    let all = report["findings"].as_array().unwrap().iter();
    let text = |one: &Value, name: &str| one[name].as_str().unwrap_or_default().to_owned();
    all.filter(|one| one["check"] == "objects")
        .map(|one| {
            let words = format!("{} {}", text(one, "found"), text(one, "advice"));
            (text(one, "verdict"), text(one, "about"), words)
        })
        .collect()
}

#[test]
fn doctor_reports_keyspaces_of_objects_that_lose_names_or_bodies() {
    let folder = folder();
    let data = folder.path().join("data");
    let cluster = ServingProgram::up(&["--instances", "1", "--data", data.to_str().unwrap()]);
    // The only finding about them; the advice changes it.
    let only = |verdict: &str, about: &str, words: &str| {
        let found = || findings(&cluster);
        let is_it = |found: &Vec<(String, String, String)>| matches!(&found[..], [one] if one.0 == verdict);
        let found = wait_for(words, found, is_it).remove(0);
        assert!(found.1 == about && found.2.contains(words), "{found:?}");
    };
    assert_eq!(findings(&cluster), []);
    cluster.ok(&["object", "mb", "bucket"]);
    only("ok", "keyspace objects", "objects-bodies their bodies (sync)");
    cluster.ok(&["keyspace", "alter", "objects-bodies", "--durability", "memory"]);
    let advice = "`zerohop keyspace alter objects-bodies --durability sync`";
    only("problem", "keyspace objects-bodies", advice);
    let text = stdout(&cluster.run(&["doctor"]));
    let line = text.lines().find(|line| line.contains(" objects ")).unwrap();
    assert!(line.starts_with("PROBLEM") && line.contains("may lack its bytes"), "{text}");
    cluster.ok(&["keyspace", "alter", "objects-bodies", "--durability", "sync"]);
    only("ok", "keyspace objects", "objects-bodies their bodies (sync)");
    cluster.ok(&["keyspace", "drop", "objects", "--yes"]);
    only("problem", "keyspace objects-bodies", "there is no keyspace objects with their names");
    cluster.ok(&["keyspace", "create", "objects", "--partitions", "1"]);
    let unordered = || findings(&cluster);
    let is_unordered =
        |found: &Vec<(String, String, String)>| found.iter().any(|one| one.1 == "keyspace objects");
    let found = wait_for("objects without order", unordered, is_unordered).remove(0);
    assert!(found.0 == "problem" && found.2.contains("is not ordered"), "{found:?}");
}
