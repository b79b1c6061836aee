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

/// Nodes that may join a cluster, whose ports are behind those of the first.
const JOINING_MAX: u16 = 1;

/// Ports that this process has given to clusters. None is given to two: those of a node that is down are free for whoever looks, and
/// clusters of the same addresses are one, as these and their name say which it is.
static GIVEN: AtomicU16 = AtomicU16::new(0);

pub(crate) struct Cluster {
    folder: PathBuf,
    ports: Vec<u16>,
    /// Nodes that started together.
    founded: usize,
    nodes: Vec<Option<Child>>,
    /// A kill takes what was not synced, as a power cut does.
    is_forgetful: bool,
}

impl Cluster {
    /// Starts so many nodes together and waits until all serve.
    pub(crate) fn start(folder: &Path, nodes: u16) -> Cluster {
        Cluster::start_on(folder, nodes, false)
    }

    /// The same, on disks that lose what was not synced when their node is killed.
    pub(crate) fn start_forgetful(folder: &Path, nodes: u16) -> Cluster {
        Cluster::start_on(folder, nodes, true)
    }

    fn start_on(folder: &Path, nodes: u16, is_forgetful: bool) -> Cluster {
        let first = free_ports((nodes + JOINING_MAX) * PORTS);
        let ports: Vec<u16> = (0..nodes).map(|node| first + node * PORTS).collect();
        let mut cluster = Cluster {
            folder: folder.to_owned(),
            ports,
            founded: usize::from(nodes),
            nodes: Vec::new(),
            is_forgetful,
        };
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

    /// The processes that run.
    pub(crate) fn processes(&self) -> impl Iterator<Item = u32> {
        self.nodes.iter().flatten().map(Child::id)
    }

    /// Has another node join; its place.
    pub(crate) fn join(&mut self) -> usize {
        let at = self.ports.len();
        assert!(at < self.founded + usize::from(JOINING_MAX), "its port may be another cluster's");
        self.ports.push(self.ports[0] + at as u16 * PORTS);
        self.nodes.push(None);
        let mut command = self.command(at);
        command.args(["--join", &self.endpoints()[0], "--listen", &self.endpoints()[at]]);
        let mut child = command.spawn().unwrap();
        ready(child.stdout.take().unwrap());
        self.nodes[at] = Some(child);
        at
    }

    /// What the program prints, and how it ends.
    pub(crate) fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        // Of commands that ask nobody it does not matter.
        let running = self.nodes.iter().position(Option::is_some).unwrap_or(0);
        let mut command = Command::new(env!("CARGO_BIN_EXE_zerohop"));
        command.args(arguments).env("ZEROHOP_ENDPOINT", &self.endpoints()[running]);
        let output = command.output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }

    /// The same, done; each line is JSON.
    pub(crate) fn json(&self, arguments: &[&str]) -> Vec<Value> {
        let (code, out, problems) = self.run(&[arguments, &["--json"]].concat());
        assert_eq!(code, 0, "{arguments:?}: {out} {problems}");
        out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Asks a node to end and waits until it has.
    pub(crate) fn stop(&mut self, node: usize) {
        let mut child = self.nodes[node].take().unwrap();
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        wait(&mut child);
    }

    /// Where a node's instance listens.
    pub(crate) fn instance(&self, node: usize) -> String {
        format!("127.0.0.1:{}", self.ports[node] + 1)
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

    /// The same of several at once.
    pub(crate) fn start_together(&mut self, nodes: &[usize]) {
        let mut outputs = Vec::new();
        for node in nodes {
            let mut child = self.spawn(*node);
            outputs.push(child.stdout.take().unwrap());
            self.nodes[*node] = Some(child);
        }
        outputs.into_iter().for_each(ready);
    }

    /// Does something while no node runs.
    pub(crate) fn nobody_runs(&self, act: impl FnOnce(&Cluster)) {
        assert!(self.nodes.iter().all(Option::is_none));
        act(self);
    }

    /// Waits until the status is so.
    pub(crate) fn wait_for(&self, what: &str, is_so: impl Fn(&Value) -> bool) {
        let began = Instant::now();
        loop {
            let status = self.status();
            if is_so(&status) {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "never: {what}: {status:#}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until all nodes are up and every partition has as many copies in sync as it is to have.
    pub(crate) fn wait_until_whole(&self) {
        self.wait_for("it is whole", |status| {
            let nodes = status["nodes"].as_array().unwrap();
            let are_up = nodes.len() == self.ports.len() && nodes.iter().all(|node| node["state"] == "up");
            let groups = &status["groups"];
            are_up && groups["short"] == 0 && groups["recovering"] == 0
        });
    }

    pub(crate) fn stop_in_order(mut self) {
        self.stop_all(Signal::TERM);
    }

    /// Asks all to end at once, and waits until they have.
    pub(crate) fn stop_all(&mut self, signal: Signal) {
        let mut ending: Vec<Child> = self.nodes.iter_mut().filter_map(Option::take).collect();
        ending.iter().for_each(|child| kill_process(Pid::from_child(child), signal).unwrap());
        ending.iter_mut().for_each(wait);
    }

    pub(crate) fn status(&self) -> Value {
        self.json(&["status"]).remove(0)
    }

    fn spawn(&self, node: usize) -> Child {
        let mut command = self.command(node);
        command.args(["--hosts", &self.endpoints().join(","), "--listen", &self.endpoints()[node]]);
        command.spawn().unwrap()
    }

    fn command(&self, node: usize) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zerohop"));
        command.args(["node", "--json", "--log-level", "error", "--instances", "1", "--data"]);
        command.arg(self.folder.join(format!("node-{node}")));
        command.args(["--ends-with-parent", &std::process::id().to_string()]);
        if self.is_forgetful {
            command.env("ZEROHOP_TEST_DISK", "hold-unsynced");
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        command
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

/// So many ports in a row at which nobody listens, and that no other cluster of this process is given: below those that systems give to
/// outgoing connections, one of which could take a port while its node is down.
fn free_ports(count: u16) -> u16 {
    let begin = 10_000 + (std::process::id() % 1_000) as u16 * 10;
    let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    loop {
        let first = begin + GIVEN.fetch_add(count, Ordering::Relaxed);
        assert!(first + count < 32_768, "no free ports were found");
        if (first..first + count).all(is_free) {
            return first;
        }
    }
}

/// Waits until a node has ended, well.
fn wait(child: &mut Child) {
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() {
        assert!(began.elapsed() < PATIENCE, "a node does not stop");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// Waits until a node says that it serves.
fn ready(output: std::process::ChildStdout) {
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line).unwrap();
    assert!(line.contains("\"manager\""), "the node did not start: {line:?}");
}
