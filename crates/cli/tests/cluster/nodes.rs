//! The processes of a cluster.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::PATIENCE;

/// Ports of a node: its manager's and one instance's, and some that are left free.
const PORTS: u16 = 4;

/// Clusters that this process has started.
static STARTED: AtomicU16 = AtomicU16::new(0);

pub(crate) struct Cluster {
    folder: PathBuf,
    ports: Vec<u16>,
    nodes: Vec<Option<Child>>,
}

impl Cluster {
    /// Starts so many nodes together and waits until all serve.
    pub(crate) fn start(folder: &Path, nodes: u16) -> Cluster {
        let is_free = |first: &u16| {
            (0..nodes * PORTS).all(|behind| TcpListener::bind(("127.0.0.1", first + behind)).is_ok())
        };
        // Tests that run at once look for theirs in places of their own.
        let clusters = STARTED.fetch_add(1, Ordering::Relaxed);
        let begin = 10_000 + (std::process::id() % 1_000) as u16 * 9 + clusters % 8 * 1_000;
        let first = (0..200).map(|step| begin + step * PORTS).find(is_free).unwrap();
        let ports: Vec<u16> = (0..nodes).map(|node| first + node * PORTS).collect();
        let mut cluster = Cluster { folder: folder.to_owned(), ports, nodes: Vec::new() };
        // All before any is waited for: none serves before the others are there.
        let mut outputs = Vec::new();
        for node in 0..usize::from(nodes) {
            let mut child = cluster.spawn(node);
            outputs.push(child.stdout.take().unwrap());
            cluster.nodes.push(Some(child));
        }
        for output in outputs {
            ready(output);
        }
        cluster
    }

    pub(crate) fn endpoints(&self) -> Vec<String> {
        self.ports.iter().map(|port| format!("127.0.0.1:{port}")).collect()
    }

    pub(crate) fn kill(&mut self, node: usize) {
        let mut child = self.nodes[node].take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Stops a node's process in the middle of whatever it does, or lets it go on.
    pub(crate) fn pause(&self, node: usize, is_paused: bool) {
        let signal = if is_paused { Signal::STOP } else { Signal::CONT };
        kill_process(Pid::from_child(self.nodes[node].as_ref().unwrap()), signal).unwrap();
    }

    pub(crate) fn start_again(&mut self, node: usize) {
        let mut child = self.spawn(node);
        let output = child.stdout.take().unwrap();
        self.nodes[node] = Some(child);
        ready(output);
    }

    /// Waits until all nodes are up and every partition has as many copies in sync as it is to have.
    pub(crate) fn wait_until_whole(&self) {
        let began = Instant::now();
        loop {
            let status = self.status();
            let nodes = status["nodes"].as_array().unwrap();
            let are_up = nodes.len() == self.ports.len() && nodes.iter().all(|node| node["state"] == "up");
            let groups = &status["groups"];
            if are_up && groups["short"] == 0 && groups["recovering"] == 0 {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "it is never whole: {status:#}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub(crate) fn stop_in_order(mut self) {
        for child in self.nodes.iter_mut().flatten() {
            kill_process(Pid::from_child(child), Signal::TERM).unwrap();
        }
        for child in self.nodes.iter_mut().flatten() {
            let began = Instant::now();
            while child.try_wait().unwrap().is_none() {
                assert!(began.elapsed() < PATIENCE, "a node does not stop");
                std::thread::sleep(Duration::from_millis(5));
            }
            assert_eq!(child.wait().unwrap().code(), Some(0));
        }
    }

    fn status(&self) -> Value {
        let running = self.nodes.iter().position(Option::is_some).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_zerohop"));
        command.args(["status", "--json", "--endpoint", &self.endpoints()[running]]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn spawn(&self, node: usize) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zerohop"));
        command.args(["node", "--json", "--log-level", "error", "--instances", "1"]);
        command.args(["--hosts", &self.endpoints().join(","), "--listen", &self.endpoints()[node], "--data"]);
        command.arg(self.folder.join(format!("node-{node}")));
        command.args(["--ends-with-parent", &std::process::id().to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for child in self.nodes.iter_mut().flatten() {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

/// Waits until a node says that it serves.
fn ready(output: std::process::ChildStdout) {
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line).unwrap();
    assert!(line.contains("\"manager\""), "the node did not start: {line:?}");
}
