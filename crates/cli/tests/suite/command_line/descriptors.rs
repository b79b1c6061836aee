//! A process with a low limit of descriptors: connections do not use those that data needs.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, Signal, prlimit};

use crate::support::serving::{ServingProgram, pid, zerohop};
use crate::support::wait_for;

const CONNECTIONS: usize = 400;

/// A node of two instances with this limit of descriptors, and its log beside its data.
fn up(data: &Path, limit: u32) -> ServingProgram {
    let log = data.with_extension("log");
    let data = data.to_str().unwrap();
    let plain = zerohop(&["up", "--nodes", "1", "--port", "0", "--json", "--instances", "2", "--data", data]);
    let mut command = Command::new("sh");
    command.args(["-c", &format!(r#"ulimit -n {limit} && exec "$@""#), "sh"]).arg(plain.get_program());
    command.args(plain.get_args());
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    ServingProgram::start_with_log(command, &log)
}

fn instances(cluster: &ServingProgram) -> Vec<String> {
    let status = cluster.json(&["status"]);
    let instances = status["nodes"][0]["instances"].as_array().unwrap();
    instances.iter().map(|instance| instance["addr"].as_str().unwrap().to_owned()).collect()
}

/// A Redis client that exchanges lines.
struct LineClient(BufReader<TcpStream>);

impl LineClient {
    fn connect(address: &str) -> LineClient {
        LineClient(BufReader::new(TcpStream::connect(address).unwrap()))
    }

    fn set(&mut self, key: &str, value: &str) -> String {
        let (key_bytes, value_bytes) = (key.len(), value.len());
        self.send_line(&format!("*3\r\n$3\r\nSET\r\n${key_bytes}\r\n{key}\r\n${value_bytes}\r\n{value}"))
    }

    fn send_line(&mut self, line: &str) -> String {
        self.try_send_line(line).unwrap()
    }

    fn try_send_line(&mut self, line: &str) -> std::io::Result<String> {
        self.0.get_mut().write_all(format!("{line}\r\n").as_bytes())?;
        let mut answer = String::new();
        self.0.read_line(&mut answer)?;
        Ok(answer)
    }
}

#[test]
fn connections_do_not_use_descriptors_of_data() {
    let folder = crate::support::folder();
    let data = folder.path().join("data");
    // Below the number of partitions too.
    let cluster = up(&data, 300);
    let addresses = instances(&cluster);
    let mut client = LineClient::connect(&addresses[0]);
    let mut set = |range: std::ops::Range<usize>| {
        for number in range {
            assert_eq!(client.send_line(&format!("SET key-{number} {number}")), "+OK\r\n");
        }
    };
    set(0..100);
    let connect = |number: usize| TcpStream::connect(&addresses[number % 2]).unwrap();
    let connections: Vec<TcpStream> = (0..CONNECTIONS).map(connect).collect();
    set(100..1000);
    drop(connections);
    set(1000..1100);
    assert_eq!(cluster.json(&["status"])["nodes"][0]["troubles"], serde_json::json!([]));
    assert_eq!(cluster.end_with(Signal::TERM), Some(0));

    let cluster = up(&data, 300);
    let mut client = LineClient::connect(&instances(&cluster)[0]);
    for number in 0..1100 {
        assert_ne!(
            client.send_line(&format!("STRLEN key-{number}")),
            ":0\r\n",
            "key-{number} was acknowledged"
        );
    }
    assert_eq!(cluster.end_with(Signal::TERM), Some(0));
}

/// `status` warns and `doctor` finds a problem, with the limit of the node and the remedy.
fn assert_reports_refused_connections(cluster: &ServingProgram) {
    let status = wait_for(
        "a report is served",
        || cluster.run(&["status", "--json", "--timeout", "1s"]),
        |output| output.status.success(),
    );
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    let descriptors = &status["nodes"][0]["descriptors"];
    assert!(descriptors["limit"] == 128 && descriptors["refused"].as_u64() > Some(0), "{status}");
    let (most, open) = (descriptors["connections_max"].as_u64(), descriptors["connections"].as_u64());
    assert!(open > Some(0) && open <= most && most < Some(128), "{status}");
    assert_eq!(status["verdict"], "warning", "{status}");
    let is_named =
        |text: &str| text.contains("connections within the last minute") && text.contains("ulimit -Hn");
    let warnings = status["warnings"].as_array().unwrap();
    assert!(warnings.iter().any(|one| is_named(one.as_str().unwrap())), "{status}");
    let doctor = cluster.run(&["doctor", "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&doctor.stdout).unwrap();
    let all = report["findings"].as_array().unwrap();
    let files: Vec<_> = all.iter().filter(|one| one["check"] == "open-files").collect();
    assert!(
        files.len() == 1 && files[0]["about"] == "node 1" && files[0]["verdict"] == "problem",
        "{report}"
    );
}

#[test]
fn connections_beyond_a_low_limit_get_the_remedy() {
    let folder = crate::support::folder();
    let data = folder.path().join("data");
    let cluster = up(&data, 128);
    let addresses = instances(&cluster);
    let mut client = LineClient::connect(&addresses[0]);
    // Both disks keep open as many files as they may, with low numbers.
    for number in 0..300 {
        assert_eq!(client.send_line(&format!("SET before-{number} {number}")), "+OK\r\n");
    }
    let connect = |number: usize| TcpStream::connect(&addresses[number % 2]).unwrap();
    let mut ping = |number: usize| {
        let mut other = LineClient(BufReader::new(connect(number)));
        assert_eq!(other.send_line("PING"), "+PONG\r\n");
    };
    (0..20).for_each(&mut ping);
    let connections: Vec<TcpStream> = (0..CONNECTIONS).map(connect).collect();
    let mut refused = 0;
    for mut stream in connections {
        stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let mut line = String::new();
        // Those that are served have no answer to nothing, and the oldest silent ones give way to newer ones.
        if stream.read_to_string(&mut line).is_ok() && !line.is_empty() {
            let is_named =
                line.starts_with("-ERR max number of clients reached") && line.contains("ulimit -n");
            assert!(is_named, "{line:?}");
            refused += 1;
        }
        assert_eq!(client.send_line(&format!("SET during-{refused} {refused}")), "+OK\r\n");
    }
    assert!(refused > CONNECTIONS / 2, "{refused} got the line");
    assert_reports_refused_connections(&cluster);
    let another = || {
        let mut other = LineClient::connect(&addresses[1]);
        other.try_send_line("PING").unwrap_or_default()
    };
    wait_for("another client is served again", another, |answer| answer == "+PONG\r\n");
    assert_eq!(cluster.json(&["status"])["nodes"][0]["troubles"], serde_json::json!([]));
    assert_eq!(cluster.end_with(Signal::TERM), Some(0));
    let log = std::fs::read_to_string(data.with_extension("log")).unwrap();
    let line = log.lines().find(|line| line.contains("connections are closed")).expect("it is logged");
    assert!(line.contains("128 descriptors") && line.contains("ulimit -n"), "{line}");
}

/// Each node has no descriptor left for a while, as if another part of the process used them all: files that it does not have open cannot be written.
#[test]
fn nodes_without_descriptors_lose_nothing_and_accept_writes_once_they_have_some() {
    let folder = crate::support::folder();
    let data = folder.path().join("data");
    let start = || {
        let mut command = zerohop(&[
            "up",
            "--nodes",
            "3",
            "--port",
            "0",
            "--json",
            "--instances",
            "1",
            "--log-level",
            "error",
        ]);
        command.arg("--data").arg(&data);
        ServingProgram::start(command)
    };
    let cluster = start();
    let nodes = cluster.ready["nodes"].as_array().unwrap().clone();
    let allow = |files: u64| {
        for node in &nodes {
            let pid = pid(node["pid"].as_u64().unwrap());
            let limit = Rlimit { current: Some(files), maximum: Some(4096) };
            prlimit(Some(pid), Resource::Nofile, limit).unwrap();
        }
    };
    allow(4096);
    let mut client = LineClient::connect(&instances(&cluster)[0]);
    let key = |number: usize| format!("key-{number}");
    let value = |number: usize| number.to_string().repeat(20_000);
    for number in 0..100 {
        assert_eq!(client.set(&key(number), &value(number)), "+OK\r\n");
    }
    // Fewer than they have open.
    allow(8);
    let mut acknowledged: Vec<usize> = (0..100).collect();
    // Each refusal takes as long as a command waits for its partition.
    let mut refused = 0;
    for number in 100..400 {
        match client.set(&key(number), &value(number)) == "+OK\r\n" {
            true => acknowledged.push(number),
            false => refused += 1,
        }
        if refused == 3 {
            break;
        }
    }
    allow(4096);
    for number in 400..500 {
        let set = || client.set(&key(number), &value(number));
        wait_for("the write is accepted", set, |answer| answer == "+OK\r\n");
        acknowledged.push(number);
    }
    assert_eq!(cluster.end_with(Signal::TERM), Some(0));

    let cluster = start();
    let mut client = LineClient::connect(&instances(&cluster)[0]);
    for number in acknowledged {
        let length = value(number).len();
        assert_eq!(
            client.send_line(&format!("STRLEN {}", key(number))),
            format!(":{length}\r\n"),
            "{number}"
        );
    }
    assert_eq!(cluster.end_with(Signal::TERM), Some(0));
}

#[test]
fn file_size_limit_ends_a_read_of_a_blob_with_a_sentence() {
    let cluster = ServingProgram::in_memory();
    let folder = crate::support::folder();
    let put = cluster.run_with(&["blob", "put", "b"], &vec![7; 4 << 20]);
    assert!(put.status.success(), "{put:?}");
    let mut command = Command::new("sh");
    command.args([
        "-c",
        r#"ulimit -f 1024 && exec "$@""#,
        "sh",
        env!("CARGO_BIN_EXE_zerohop"),
        "blob",
        "get",
        "b",
    ]);
    command.arg(folder.path().join("file")).env("ZEROHOP_ENDPOINT", cluster.endpoint());
    let output = command.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{error}");
    assert!(error.contains("File too large"), "{error}");
}

#[test]
fn too_few_descriptors_names_the_required_number() {
    let folder = crate::support::folder();
    let mut command = Command::new("sh");
    let node = env!("CARGO_BIN_EXE_zerohop");
    command.args(["-c", r#"ulimit -n 40 && exec "$@""#, "sh", node, "node", "--listen", "127.0.0.1:0"]);
    command.args(["--instances", "2", "--data"]).arg(folder.path().join("data"));
    let output = command.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{error}");
    assert!(error.contains("may have 40 descriptors, and needs "), "{error}");
}

#[test]
fn client_without_descriptors_ends_with_a_sentence() {
    let mut command = Command::new("sh");
    let client = [env!("CARGO_BIN_EXE_zerohop"), "kv", "lookup", "k", "--endpoint", "127.0.0.1:9"];
    let output = command.args(["-c", r#"ulimit -n 6 && exec "$@""#, "sh"]).args(client).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{error}");
    assert!(error.contains("starting the event loop failed"), "{error}");
}
