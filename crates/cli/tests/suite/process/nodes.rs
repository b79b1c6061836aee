//! The processes of a cluster.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;

use crate::process::net::{Net, PORT};
use crate::support::patience::patient;
use crate::support::process::{NodeProcess, log_of};
use crate::support::{report, wait_for};

/// The variable with the name of a file, whose milliseconds are added to a node's clock.
const CLOCK_VARIABLE: &str = "ZEROHOP_TEST_CLOCK";

pub(crate) struct Nodes {
    pub(crate) net: Net,
    folder: PathBuf,
    running: Vec<Option<NodeProcess>>,
    /// The folder of certificates, if nodes serve only TLS clients.
    tls: Option<PathBuf>,
}

impl Nodes {
    /// Starts this many nodes together and waits until all serve and every copy exists.
    pub(crate) fn start(net: Net, nodes: usize, folder: &Path) -> Nodes {
        Nodes::start_with(net, nodes, folder, None)
    }

    /// As [`Self::start`], with TLS by the certificates in this folder.
    pub(crate) fn start_with(net: Net, nodes: usize, folder: &Path, tls: Option<PathBuf>) -> Nodes {
        let running = (0..nodes).map(|_| None).collect();
        let mut all = Nodes { net, folder: folder.to_owned(), running, tls };
        all.start_again(&(0..nodes).collect::<Vec<_>>());
        all.wait_until_complete();
        all
    }

    pub(crate) fn endpoints(&self) -> Vec<String> {
        (0..self.running.len()).map(|node| format!("{}:{PORT}", self.net.address(node))).collect()
    }

    pub(crate) fn data(&self, node: usize) -> PathBuf {
        self.folder.join(format!("node-{node}"))
    }

    /// Sets the offset of a node's clock from now on.
    pub(crate) fn step_clock(&self, node: usize, ms: i64) {
        std::fs::write(self.clock(node), ms.to_string()).unwrap();
    }

    pub(crate) fn kill(&mut self, nodes: &[usize]) {
        let killed = self.running.iter_mut().enumerate().filter(|(node, _)| nodes.contains(node));
        NodeProcess::kill(killed.map(|(_, node)| node));
    }

    /// Stops a node cleanly.
    pub(crate) fn stop(&mut self, node: usize) {
        assert!(self.running[node].is_some(), "it runs");
        NodeProcess::stop([&mut self.running[node]], Signal::TERM);
    }

    /// Whether a node's process has ended by itself.
    pub(crate) fn has_ended(&mut self, node: usize) -> bool {
        self.running[node].as_mut().is_some_and(NodeProcess::has_ended)
    }

    /// Stops a node's process with SIGSTOP, or continues it.
    pub(crate) fn pause(&self, node: usize, is_paused: bool) {
        self.running[node].as_ref().unwrap().pause(is_paused);
    }

    /// Starts nodes together, and waits until each reports that it serves.
    pub(crate) fn start_again(&mut self, nodes: &[usize]) {
        for &node in nodes {
            self.running[node] = Some(NodeProcess::start(self.node(node), &log_of(&self.folder, node)));
        }
        for &node in nodes {
            self.running[node].as_mut().unwrap().ready();
        }
    }

    /// Waits until all nodes are up and every partition has as many copies in sync as it is to have.
    pub(crate) fn wait_until_complete(&self) {
        wait_for(
            "it is whole",
            || self.status(),
            |status| {
                let Some(status) = status else { return false };
                let nodes = status["nodes"].as_array().unwrap();
                let are_up =
                    nodes.len() == self.running.len() && nodes.iter().all(|node| node["state"] == "up");
                are_up && status["groups"]["below_min_in_sync"] == 0 && status["groups"]["recovering"] == 0
            },
        );
    }

    /// Runs the program as an operator would.
    pub(crate) fn command(&self, words: &[&str]) -> std::process::Output {
        self.program(words).output().unwrap()
    }

    fn program(&self, words: &[&str]) -> Command {
        let mut command = self.net.client(Path::new(env!("CARGO_BIN_EXE_zerohop")));
        command.args(patient(words)).args(["--endpoint", &self.endpoints().join(",")]);
        command
            .env("ZEROHOP_TLS_CA", self.tls.as_ref().map(|folder| folder.join("ca.pem")).unwrap_or_default());
        command
    }

    /// The state that a node reports of itself: over HTTP, while clients may ask other nodes.
    pub(crate) fn status_of(&self, node: usize) -> Option<Value> {
        let answer = self.get(node, "/status");
        let status: Value = serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()?;
        let manager = &self.endpoints()[node];
        status["nodes"].as_array()?.iter().find(|one| one["manager"] == manager.as_str()).cloned()
    }

    /// Waits until a node reports a state of itself.
    pub(crate) fn wait_for_node(&self, node: usize, what: &str, is_so: impl Fn(&Value) -> bool) {
        wait_for(what, || self.status_of(node), |status| status.as_ref().is_some_and(&is_so));
    }

    /// A node's answer on `/health`.
    pub(crate) fn health(&self, node: usize) -> String {
        self.get(node, "/health")
    }

    fn get(&self, node: usize, path: &str) -> String {
        let mut stream = std::net::TcpStream::connect(&self.endpoints()[node]).unwrap();
        let query = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(query.as_bytes()).unwrap();
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

    fn node(&self, node: usize) -> Command {
        let mut command: Command = self.net.node(node, Path::new(env!("CARGO_BIN_EXE_zerohop")));
        command.args(["node", "--json", "--log-level", "info", "--instances", "1", "--insecure"]);
        command.args(["--memory-budget", "64MiB", "--ends-with-parent", &std::process::id().to_string()]);
        command.args(["--hosts", &self.endpoints().join(","), "--listen", &self.endpoints()[node]]);
        command.arg("--data").arg(self.data(node)).env(CLOCK_VARIABLE, self.clock(node));
        if let Some(folder) = &self.tls {
            for (option, name) in [("cert", "node.pem"), ("key", "node-key.pem"), ("ca", "ca.pem")] {
                command.arg(format!("--tls-{option}")).arg(folder.join(name));
            }
            command.arg("--tls-only");
        }
        command
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        let logs: Vec<PathBuf> = (0..self.running.len()).map(|node| log_of(&self.folder, node)).collect();
        let nodes = self.running.iter().zip(&logs).enumerate().map(|(at, (node, log))| {
            (format!("node at {}", self.endpoints()[at]), node.as_ref().map(NodeProcess::id), log.as_path())
        });
        report::if_failed(nodes, || self.program(&["status", "--timeout", "10s"]));
    }
}
