//! A process with a low limit of descriptors: connections do not use those that data needs.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;

use crate::support::serving::{ServingProgram, zerohop};

/// A limit below 400 connections, and below the number of partitions.
const LIMIT: u32 = 300;
const CONNECTIONS: usize = 400;

fn up(data: &Path) -> ServingProgram {
    let data = data.to_str().unwrap();
    let plain = zerohop(&["up", "--nodes", "1", "--port", "0", "--json", "--instances", "2", "--data", data]);
    let mut command = Command::new("sh");
    command.args(["-c", &format!(r#"ulimit -n {LIMIT} && exec "$@""#), "sh"]).arg(plain.get_program());
    command.args(plain.get_args());
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    ServingProgram::start(command)
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

    fn send_line(&mut self, line: &str) -> String {
        self.0.get_mut().write_all(format!("{line}\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        self.0.read_line(&mut answer).unwrap();
        answer
    }
}

#[test]
fn connections_do_not_use_descriptors_of_data() {
    let folder = crate::support::folder();
    let data = folder.path().join("data");
    let cluster = up(&data);
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

    let cluster = up(&data);
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

#[test]
fn too_few_descriptors_names_the_required_number() {
    let folder = crate::support::folder();
    let mut command = Command::new("sh");
    let node = env!("CARGO_BIN_EXE_zerohop");
    command.args(["-c", r#"ulimit -n 40 && exec "$@""#, "sh", node, "node", "--listen", "127.0.0.1:0"]);
    command.args(["--instances", "2", "--data"]).arg(folder.path().join("data"));
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{told}");
    assert!(told.contains("may have 40 descriptors, and needs "), "{told}");
}

#[test]
fn client_without_descriptors_ends_with_a_sentence() {
    let mut command = Command::new("sh");
    let client = [env!("CARGO_BIN_EXE_zerohop"), "kv", "lookup", "k", "--endpoint", "127.0.0.1:9"];
    let output = command.args(["-c", r#"ulimit -n 6 && exec "$@""#, "sh"]).args(client).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{told}");
    assert!(told.contains("starting the event loop failed"), "{told}");
}
