//! The processes of a cluster.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::PATIENCE;
use crate::net::Net;

/// Where every manager listens; its instance has the next port.
const PORT: u16 = 7400;

/// The variable that names the file whose milliseconds are added to a node's time of day.
const CLOCK_VARIABLE: &str = "ZEROHOP_TEST_CLOCK";

pub(crate) struct Nodes {
    pub(crate) net: Net,
    folder: PathBuf,
    running: Vec<Option<Child>>,
    /// The folder of certificates, if nodes serve only those who speak TLS.
    tls: Option<PathBuf>,
}

impl Nodes {
    /// Starts so many nodes together and waits until all serve and every copy is there.
    pub(crate) fn start(net: Net, nodes: usize, folder: &Path) -> Nodes {
        Nodes::start_with(net, nodes, folder, None)
    }

    /// The same, speaking TLS with the certificates in this folder.
    pub(crate) fn start_with(net: Net, nodes: usize, folder: &Path, tls: Option<PathBuf>) -> Nodes {
        let running = (0..nodes).map(|_| None).collect();
        let mut all = Nodes { net, folder: folder.to_owned(), running, tls };
        all.start_again(&(0..nodes).collect::<Vec<_>>());
        all.wait_until_whole();
        all
    }

    pub(crate) fn endpoints(&self) -> Vec<String> {
        (0..self.running.len()).map(|node| format!("{}:{PORT}", self.net.address(node))).collect()
    }

    pub(crate) fn data(&self, node: usize) -> PathBuf {
        self.folder.join(format!("node-{node}"))
    }

    /// What is added to a node's time of day from now on.
    pub(crate) fn step_clock(&self, node: usize, ms: i64) {
        std::fs::write(self.clock(node), ms.to_string()).unwrap();
    }

    pub(crate) fn kill(&mut self, nodes: &[usize]) {
        let mut killed: Vec<Child> = nodes.iter().map(|node| self.running[*node].take().unwrap()).collect();
        killed.iter_mut().for_each(|child| child.kill().unwrap());
        killed.iter_mut().for_each(|child| assert!(!child.wait().unwrap().success()));
    }

    /// Stops a node in order.
    pub(crate) fn stop(&mut self, node: usize) {
        let mut child = self.running[node].take().unwrap();
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        let began = Instant::now();
        while child.try_wait().unwrap().is_none() {
            assert!(began.elapsed() < PATIENCE, "a node does not stop");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }

    /// Whether a node's process has ended by itself.
    pub(crate) fn has_ended(&mut self, node: usize) -> bool {
        self.running[node].as_mut().is_some_and(|child| child.try_wait().unwrap().is_some())
    }

    /// Stops a node's process in the middle of whatever it does, or lets it go on.
    pub(crate) fn pause(&self, node: usize, is_paused: bool) {
        let signal = if is_paused { Signal::STOP } else { Signal::CONT };
        kill_process(Pid::from_child(self.running[node].as_ref().unwrap()), signal).unwrap();
    }

    /// Starts nodes together, and waits until each says that it serves.
    pub(crate) fn start_again(&mut self, nodes: &[usize]) {
        let mut outputs = Vec::new();
        for &node in nodes {
            let mut child = self.spawn(node);
            outputs.push(child.stdout.take().unwrap());
            self.running[node] = Some(child);
        }
        for output in outputs {
            let mut line = String::new();
            BufReader::new(output).read_line(&mut line).unwrap();
            assert!(line.contains("\"manager\""), "a node did not start: {line:?}");
        }
    }

    /// Waits until all nodes are up and every partition has as many copies in sync as it is to have.
    pub(crate) fn wait_until_whole(&self) {
        let began = Instant::now();
        loop {
            let status = self.status();
            let is_whole = status.as_ref().is_some_and(|status| {
                let nodes = status["nodes"].as_array().unwrap();
                let are_up =
                    nodes.len() == self.running.len() && nodes.iter().all(|node| node["state"] == "up");
                are_up && status["groups"]["short"] == 0 && status["groups"]["recovering"] == 0
            });
            if is_whole {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "it is never whole: {status:#?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Runs the program as an operator would.
    pub(crate) fn command(&self, words: &[&str]) -> std::process::Output {
        let mut command = self.net.client(Path::new(env!("CARGO_BIN_EXE_zerohop")));
        command.args(words).args(["--endpoint", &self.endpoints().join(",")]);
        command
            .env("ZEROHOP_TLS_CA", self.tls.as_ref().map(|folder| folder.join("ca.pem")).unwrap_or_default());
        command.output().unwrap()
    }

    /// What a node says of itself: over HTTP, as a client may ask any other.
    pub(crate) fn status_of(&self, node: usize) -> Option<Value> {
        let answer = self.get(node, "/status");
        let status: Value = serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()?;
        let manager = &self.endpoints()[node];
        status["nodes"].as_array()?.iter().find(|one| one["manager"] == manager.as_str()).cloned()
    }

    /// Waits until a node says so of itself.
    pub(crate) fn wait_for_node(&self, node: usize, what: &str, is_so: impl Fn(&Value) -> bool) {
        let began = Instant::now();
        loop {
            let status = self.status_of(node);
            if status.as_ref().is_some_and(&is_so) {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "never: {what}: {status:#?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// What a node answers on `/health`.
    pub(crate) fn health(&self, node: usize) -> String {
        self.get(node, "/health")
    }

    fn get(&self, node: usize, path: &str) -> String {
        let mut stream = std::net::TcpStream::connect(&self.endpoints()[node]).unwrap();
        let ask = format!("GET {path} HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n");
        stream.write_all(ask.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn status(&self) -> Option<Value> {
        let output = self.command(&["status", "--json"]);
        output.status.success().then(|| serde_json::from_slice(&output.stdout).unwrap())
    }

    fn clock(&self, node: usize) -> PathBuf {
        self.folder.join(format!("clock-{node}"))
    }

    fn spawn(&self, node: usize) -> Child {
        let mut command: Command = self.net.node(node, Path::new(env!("CARGO_BIN_EXE_zerohop")));
        command.args(["node", "--json", "--log-level", "error", "--instances", "1", "--insecure"]);
        command.args(["--memory-budget", "64MiB", "--ends-with-parent", &std::process::id().to_string()]);
        command.args(["--hosts", &self.endpoints().join(","), "--listen", &self.endpoints()[node]]);
        command.arg("--data").arg(self.data(node)).env(CLOCK_VARIABLE, self.clock(node));
        if let Some(folder) = &self.tls {
            for (option, name) in [("cert", "node.pem"), ("key", "node-key.pem"), ("ca", "ca.pem")] {
                command.arg(format!("--tls-{option}")).arg(folder.join(name));
            }
            command.arg("--tls-only");
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap()
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        for child in self.running.iter_mut().flatten() {
            drop(child.kill());
            drop(child.wait());
        }
    }
}
